"""Weights of members, learned from their out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from fastens.engine.elementary import exp, log

Array = NDArray[np.float64]

# A predicted probability of 0 for the observed class would make every likelihood 0.
_LEAST = 1e-15
_MOST_STEPS = 1000
_STEP_TOLERANCE = 1e-9
_SELECTION_ROUNDS = 50


class OutOfFold(NamedTuple):
    """Out-of-fold predictions (n_members, n_rows, n_outputs) and targets."""

    responses: Array
    target: Array  # (n_rows, n_outputs): numbers, or one-hot classes
    weight: Array  # (n_rows,)
    is_classification: bool


def learn_weights(how: str, data: OutOfFold) -> Array:
    """Weights of members that sum to 1.

    "nnls": non-negative least squares (Breiman 1996); "likelihood": the most likely mixture, by expectation
    maximisation; "selection": greedy selection with replacement (Caruana et al. 2004).
    """
    return _LEARNERS[how](data)


def nnls_weights(data: OutOfFold) -> Array:
    """Weights of the average with the smallest squared error, none of them negative."""
    errors = ((data.responses - data.target) * np.sqrt(data.weight)[:, None]).reshape(len(data.responses), -1)
    # Products take the place of the rows: the same problem, of the size of the members.
    products = errors @ errors.T
    size = np.trace(products)
    if size == 0:
        return np.full(len(products), 1 / len(products))
    values, vectors = np.linalg.eigh(products / size)
    half = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    # For weights s v, with v summing to 1, the least of s^2 |E v|^2 + (s - 1)^2 over s grows with |E v|: one row more
    # makes non-negative least squares find this v.
    rows = np.vstack([half, np.ones(len(products))])
    found = nnls(rows, np.append(np.zeros(len(products)), 1.0))[0]
    return found / found.sum()


def likelihood_weights(data: OutOfFold) -> Array:
    """Weights of the mixture under which the targets are most likely.

    A regressor predicts a normal distribution whose standard deviation is that of its out-of-fold errors (Yao et al.
    2018).
    """
    if data.is_classification:
        density = np.maximum((data.responses * data.target).sum(axis=2), _LEAST)
    else:
        error = data.responses[:, :, 0] - data.target[:, 0]
        spread = np.sqrt(np.average(error**2, axis=1, weights=data.weight))[:, None]
        spread = np.maximum(spread, np.finfo(float).tiny + 1e-12 * np.abs(data.target).max())
        log_density = -0.5 * (error / spread) ** 2 - log(spread)
        density = exp(log_density - log_density.max(axis=0))
    return _mixture(density, data.weight)


def _mixture(density: Array, weight: Array) -> Array:
    """Mixture weights by expectation maximisation; the problem is concave, so the optimum is unique."""
    share = np.full(len(density), 1 / len(density))
    for _ in range(_MOST_STEPS):
        joint = share[:, None] * density
        fresh = (joint / joint.sum(axis=0)) @ weight / weight.sum()
        moved, share = np.abs(fresh - share).max(), fresh
        if moved < _STEP_TOLERANCE:
            break
    return share / share.sum()


def selection_weights(data: OutOfFold) -> Array:
    """Greedy selection with replacement: the share of rounds in which each member lowered the loss most."""
    counts = np.zeros(len(data.responses))
    total = np.zeros_like(data.responses[0])
    best, best_loss = counts, np.inf
    for size in range(1, _SELECTION_ROUNDS + 1):
        losses = [_loss((total + found) / size, data) for found in data.responses]
        chosen = int(np.argmin(losses))
        counts, total = counts.copy(), total + data.responses[chosen]
        counts[chosen] += 1
        if losses[chosen] < best_loss:
            best, best_loss = counts, losses[chosen]
    return best / best.sum()


def _loss(average: Array, data: OutOfFold) -> float:
    """Log loss, or squared error."""
    if data.is_classification:
        of_rows = -log(np.maximum((average * data.target).sum(axis=1), _LEAST))
    else:
        of_rows = ((average - data.target) ** 2).sum(axis=1)
    return float(np.average(of_rows, weights=data.weight))


_LEARNERS: dict[str, Callable[[OutOfFold], Array]] = {
    "nnls": nnls_weights,
    "likelihood": likelihood_weights,
    "selection": selection_weights,
}
LEARNERS = tuple(_LEARNERS)


def margin_weights(margins: Array, weight: Array, shrinkage: float) -> Array:
    """Weights of voters that reward accuracy and penalise correlated errors; they sum to 1.

    They maximise the mean of the vote's margin over its standard deviation, w = C^-1 m (Fisher's discriminant), subject
    to w >= 0. Voters with independent errors of the same rate get equal weights. `margins`, (n_voters, n_rows), are 1
    where a voter is right and -1 where it is wrong; `shrinkage`, from 0 to 1, is how far the covariances shrink to 0.
    """
    mean = np.average(margins, axis=1, weights=weight)
    centered = margins - mean[:, None]
    covariance = (centered * weight) @ centered.T / weight.sum()
    variances = np.diag(covariance)
    # Without this, a voter that is never wrong has no variance and gets all the weight: it counts as half a row wrong.
    floor = 2.0 / max(weight.sum(), 1.0)
    covariance = (1 - shrinkage) * covariance + np.diag(shrinkage * variances + floor)
    half = np.linalg.cholesky(covariance)
    found = nnls(half.T, np.linalg.solve(half, mean))[0]
    return found / found.sum() if found.sum() > 0 else np.full(len(found), 1 / len(found))
