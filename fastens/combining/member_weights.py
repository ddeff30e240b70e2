"""Weights of members, learned from their out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Array = NDArray[np.float64]

# A predicted probability of 0 for what happened would end every likelihood.
_LEAST = 1e-15
_MOST_STEPS = 1000
_STEP_TOLERANCE = 1e-9
_SELECTION_ROUNDS = 50


class Judged(NamedTuple):
    """Out-of-fold predictions (n_members, n_rows, n_outputs), with what they should have been."""

    responses: Array
    target: Array  # (n_rows, n_outputs): numbers, or 1 for the class that a row has
    weight: Array  # (n_rows,)
    is_classification: bool


def learn_weights(how: str, judged: Judged) -> Array:
    """Weights of members that sum to 1.

    Parameters
    ----------
    how : {"nnls", "likelihood", "selection"}
        Non-negative least squares (Breiman 1996); the most likely mixture, by expectation maximisation; or greedy
        selection with replacement (Caruana et al. 2004).
    judged : Judged
        The predictions to learn from.
    """
    return _LEARNERS[how](judged)


def nnls_weights(judged: Judged) -> Array:
    """Weights of the average with the smallest squared error, none of them negative."""
    errors = ((judged.responses - judged.target) * np.sqrt(judged.weight)[:, None]).reshape(len(judged.responses), -1)
    # Products take the place of the rows: the same problem, of the size of the members.
    products = errors @ errors.T
    size = np.trace(products)
    if size == 0:
        return np.full(len(products), 1 / len(products))
    values, vectors = np.linalg.eigh(products / size)
    half = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    # For weights s v, with v summing to 1, the least of s^2 |E v|^2 + (s - 1)^2 over s grows with |E v|: one row more
    # makes non-negative least squares find the v that is asked for.
    rows = np.vstack([half, np.ones(len(products))])
    found = nnls(rows, np.append(np.zeros(len(products)), 1.0))[0]
    return found / found.sum()


def likelihood_weights(judged: Judged) -> Array:
    """Weights of the mixture under which the targets are most likely.

    A regressor stands for a normal distribution around its prediction, as wide as its out-of-fold errors (Yao et al.
    2018).
    """
    if judged.is_classification:
        density = np.maximum((judged.responses * judged.target).sum(axis=2), _LEAST)
    else:
        error = judged.responses[:, :, 0] - judged.target[:, 0]
        spread = np.sqrt(np.average(error**2, axis=1, weights=judged.weight))[:, None]
        spread = np.maximum(spread, np.finfo(float).tiny + 1e-12 * np.abs(judged.target).max())
        log_density = -0.5 * (error / spread) ** 2 - np.log(spread)
        density = np.exp(log_density - log_density.max(axis=0))
    return _mixture(density, judged.weight)


def _mixture(density: Array, weight: Array) -> Array:
    """Expectation maximisation: each step makes the rows more likely, and the optimum is the only one."""
    share = np.full(len(density), 1 / len(density))
    for _ in range(_MOST_STEPS):
        joint = share[:, None] * density
        fresh = (joint / joint.sum(axis=0)) @ weight / weight.sum()
        moved, share = np.abs(fresh - share).max(), fresh
        if moved < _STEP_TOLERANCE:
            break
    return share / share.sum()


def selection_weights(judged: Judged) -> Array:
    """How often each member is chosen when one after another joins the average that loses least with it."""
    counts = np.zeros(len(judged.responses))
    total = np.zeros_like(judged.responses[0])
    best, best_loss = counts, np.inf
    for size in range(1, _SELECTION_ROUNDS + 1):
        losses = [_loss((total + found) / size, judged) for found in judged.responses]
        chosen = int(np.argmin(losses))
        counts, total = counts.copy(), total + judged.responses[chosen]
        counts[chosen] += 1
        if losses[chosen] < best_loss:
            best, best_loss = counts, losses[chosen]
    return best / best.sum()


def _loss(average: Array, judged: Judged) -> float:
    """Log loss, or squared error."""
    if judged.is_classification:
        of_rows = -np.log(np.maximum((average * judged.target).sum(axis=1), _LEAST))
    else:
        of_rows = ((average - judged.target) ** 2).sum(axis=1)
    return float(np.average(of_rows, weights=judged.weight))


_LEARNERS: dict[str, Callable[[Judged], Array]] = {
    "nnls": nnls_weights,
    "likelihood": likelihood_weights,
    "selection": selection_weights,
}
LEARNERS = tuple(_LEARNERS)


def margin_weights(margins: Array, weight: Array, shrinkage: float) -> Array:
    """Weights of voters, up for good ones and down for correlated ones, that sum to 1.

    The weights with the largest mean of the vote's margin over its spread, w = C^-1 m (Fisher's discriminant), none of
    them negative; where the voters err independently and alike they are equal.

    Parameters
    ----------
    margins : array of shape (n_voters, n_rows)
        1 where a voter is right, -1 where it is wrong.
    weight : array of shape (n_rows,)
        Weights of the rows.
    shrinkage : float
        From 0 to 1: how far the covariances shrink to those of voters that are not correlated.
    """
    mean = np.average(margins, axis=1, weights=weight)
    centered = margins - mean[:, None]
    covariance = (centered * weight) @ centered.T / weight.sum()
    variances = np.diag(covariance)
    # A voter that is never wrong would have all the weight, a spread of nothing: half a row's error is left to it.
    floor = 2.0 / max(weight.sum(), 1.0)
    covariance = (1 - shrinkage) * covariance + np.diag(shrinkage * variances + floor)
    half = np.linalg.cholesky(covariance)
    found = nnls(half.T, np.linalg.solve(half, mean))[0]
    return found / found.sum() if found.sum() > 0 else np.full(len(found), 1 / len(found))
