"""Weights of members that are learned from out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from fastens.engine.elementary import exp, log

Array = NDArray[np.float64]

# Lower bound of predicted probabilities: a probability of 0 for the observed class would make every likelihood 0.
_LEAST = 1e-15
_MAX_STEPS = 1000
_STEP_TOLERANCE = 1e-9
_SELECTION_ROUNDS = 50
SELECTION, GUARDED = "selection", "guarded_selection"


class OutOfFold(NamedTuple):
    """Out-of-fold predictions (n_members, n_rows, n_outputs) and targets."""

    responses: Array
    target: Array  # (n_rows, n_outputs): numbers, or one-hot classes
    weight: Array  # (n_rows,)
    is_classification: bool


def learn_weights(how: str, data: OutOfFold) -> Array:
    """Return member weights that sum to 1; `how` is the name of the method.

    "nnls" is non-negative least squares (Breiman 1996), "likelihood" is the most likely mixture, found by expectation
    maximisation, and "selection" is greedy selection with replacement (Caruana et al. 2004), which "guarded_selection"
    shrinks towards the first member.
    """
    return _LEARNERS[how](data)


def nnls_weights(data: OutOfFold) -> Array:
    """Return non-negative weights, (n_members,), that sum to 1 and minimise the squared error of the average."""
    errors = ((data.responses - data.target) * np.sqrt(data.weight)[:, None]).reshape(len(data.responses), -1)
    # Inner products replace the rows: an equivalent problem whose size is the number of members.
    products = errors @ errors.T
    size = np.trace(products)
    if size == 0:
        return np.full(len(products), 1 / len(products))
    values, vectors = np.linalg.eigh(products / size)
    half = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    # Let the weights be s v, where v sums to 1. The minimum of s^2 |E v|^2 + (s - 1)^2 over s grows with |E v|, so
    # appending one row makes non-negative least squares minimise |E v|.
    rows = np.vstack([half, np.ones(len(products))])
    solution = nnls(rows, np.append(np.zeros(len(products)), 1.0))[0]
    return solution / solution.sum()


def likelihood_weights(data: OutOfFold) -> Array:
    """Return the weights, (n_members,), of the mixture under which the targets are most likely.

    A regressor predicts a normal distribution with the standard deviation of its out-of-fold errors (Yao et al. 2018).
    """
    if data.is_classification:
        density = np.maximum((data.responses * data.target).sum(axis=2), _LEAST)
    else:
        error = data.responses - data.target
        spread = np.sqrt(np.average(error**2, axis=1, weights=data.weight))[:, None]
        spread = np.maximum(spread, np.finfo(float).tiny + 1e-12 * np.abs(data.target).max(axis=0))
        log_density = (-0.5 * (error / spread) ** 2 - log(spread)).sum(axis=2)
        density = exp(log_density - log_density.max(axis=0))
    return _mixture(density, data.weight)


def _mixture(density: Array, weight: Array) -> Array:
    """Return mixture weights, (n_members,), by expectation maximisation from densities (n_members, n_rows).

    The problem is concave, so the optimum is unique.
    """
    share = np.full(len(density), 1 / len(density))
    for _ in range(_MAX_STEPS):
        joint = share[:, None] * density
        fresh = (joint / joint.sum(axis=0)) @ weight / weight.sum()
        moved, share = np.abs(fresh - share).max(), fresh
        if moved < _STEP_TOLERANCE:
            break
    return share / share.sum()


def selection_weights(data: OutOfFold) -> Array:
    """Return each member's share of the rounds of greedy selection with replacement, (n_members,)."""
    counts = np.zeros(len(data.responses))
    total = np.zeros_like(data.responses[0])
    best, best_loss = counts, np.inf
    for size in range(1, _SELECTION_ROUNDS + 1):
        losses = [mean_loss((total + response) / size, data) for response in data.responses]
        chosen = int(np.argmin(losses))
        counts, total = counts.copy(), total + data.responses[chosen]
        counts[chosen] += 1
        if losses[chosen] < best_loss:
            best, best_loss = counts, losses[chosen]
    return best / best.sum()


def guarded_selection_weights(data: OutOfFold) -> Array:
    """Return the weights of greedy selection, shrunk towards the first member as far as the gain may be chance.

    The factor is 1 - 1 / z**2, or 0 if that is negative (positive-part James-Stein), where z is the mean gain in loss
    over the first member divided by its standard error. Integer weights count as copies of rows.
    """
    weights = selection_weights(data)
    gains = _row_losses(data.responses[0], data) - _row_losses(np.tensordot(weights, data.responses, 1), data)
    total, mean = data.weight.sum(), float(np.average(gains, weights=data.weight))
    are_copies = (data.weight == np.rint(data.weight)).all()
    n_rows = total if are_copies else total**2 / (data.weight**2).sum()
    noise = float(np.average((gains - mean) ** 2, weights=data.weight)) / n_rows
    factor = max(0.0, 1.0 - noise / mean**2) if mean > 0 else 0.0
    return factor * weights + (1.0 - factor) * (np.arange(len(weights)) == 0)


def _row_losses(average: Array, data: OutOfFold) -> Array:
    """Return the log loss or the squared error of each row, (n_rows,), of averaged responses (n_rows, n_outputs)."""
    if data.is_classification:
        return -log(np.maximum((average * data.target).sum(axis=1), _LEAST))
    return ((average - data.target) ** 2).sum(axis=1)


def mean_loss(average: Array, data: OutOfFold) -> float:
    """Return the weighted mean log loss or squared error of averaged responses, (n_rows, n_outputs)."""
    return float(np.average(_row_losses(average, data), weights=data.weight))


_LEARNERS: dict[str, Callable[[OutOfFold], Array]] = {
    "nnls": nnls_weights,
    "likelihood": likelihood_weights,
    SELECTION: selection_weights,
    GUARDED: guarded_selection_weights,
}
LEARNERS = tuple(_LEARNERS)


def margin_weights(margins: Array, weight: Array, shrinkage: float) -> Array:
    """Return voter weights that reward accuracy and penalise correlated errors; they sum to 1.

    They maximise the mean margin of the vote divided by its standard deviation, w = C^-1 m (Fisher's discriminant),
    subject to w >= 0. Voters with independent errors and equal error rates get equal weights. `margins`, (n_voters,
    n_rows), are 1 where a voter is right and -1 where it is wrong; `shrinkage`, from 0 to 1, is how far the covariances
    are shrunk to 0.
    """
    mean = np.average(margins, axis=1, weights=weight)
    centered = margins - mean[:, None]
    covariance = (centered * weight) @ centered.T / weight.sum()
    variances = np.diag(covariance)
    # A voter that is never wrong has no variance and would get all the weight, so it counts as wrong on half a row.
    floor = 2.0 / max(weight.sum(), 1.0)
    covariance = (1 - shrinkage) * covariance + np.diag(shrinkage * variances + floor)
    half = np.linalg.cholesky(covariance)
    solution = nnls(half.T, np.linalg.solve(half, mean))[0]
    return solution / solution.sum() if solution.sum() > 0 else np.full(len(solution), 1 / len(solution))
