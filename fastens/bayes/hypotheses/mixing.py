"""Weights of fitted hypotheses from their predictions on rows they were not fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.posterior import normalised
from fastens.engine.elementary import betaln, exp, log, softmax, xlog1py, xlogy

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """Responses of the members (n_members, n_rows, n_classes), and the classes and weights of the rows.

    Without noise the responses are probabilities, with it votes (1 and 0). A number is the probability of a wrong vote,
    for any other class alike; a pair (a, b) is the Beta prior of each member's own.
    """

    responses: Array
    y: NDArray[np.intp]
    weight: Array
    noise: float | tuple[float, float] | None

    @property
    def n_wrong_classes(self) -> int:
        """Classes that a wrong vote may be for."""
        return max(self.responses.shape[2] - 1, 1)

    def errors(self) -> Array:
        """Weight of the rows that each member votes wrong on."""
        return ((1 - self._of_truth()) * self.weight).sum(axis=1)

    def _of_truth(self) -> Array:
        return self.responses[:, np.arange(len(self.y)), self.y]

    def noise_of_members(self) -> Array | None:
        """The probability of a wrong vote of each member: as given, or its posterior mean."""
        n_members = len(self.responses)
        if self.noise is None:
            return None
        if isinstance(self.noise, tuple | list):
            a, b = self.noise
            return (a + self.errors()) / (a + b + self.weight.sum())
        return np.full(n_members, float(self.noise))

    def log_likelihoods(self) -> Array:
        """Log P(D | h) of each member."""
        if not isinstance(self.noise, tuple | list):
            return _weighed(self.by_row(), self.weight)
        a, b = self.noise
        # Summed apart: rounding may make the difference of the weights and the errors negative.
        wrong, right = self.errors(), (self._of_truth() * self.weight).sum(axis=1)
        return betaln(a + wrong, b + right) - betaln(a, b) - xlogy(wrong, self.n_wrong_classes)

    def by_row(self) -> Array:
        """Log probability of each row by each member, (n_members, n_rows); minus infinity where it is impossible."""
        truth, noise = self._of_truth(), self.noise_of_members()
        if noise is None:
            return log(np.clip(truth, 0.0, 1.0))
        wrong = 1 - truth
        return xlogy(wrong, noise[:, None] / self.n_wrong_classes) + xlog1py(truth, -noise[:, None])


def _weighed(by_row: Array, weight: Array) -> Array:
    """Weighted sums over the rows; a row of no probability makes the sum minus infinity."""
    return (by_row[:, weight > 0] * weight[weight > 0]).sum(axis=1)


def posterior(prior: Array, log_likelihoods: Array, temperature: float = 1.0) -> tuple[Array, float]:
    """P(h | D) of each hypothesis and log P(D), the likelihood to the power of 1 / temperature.

    A hypothesis under which a row is impossible has the posterior 0. ValueError if that holds for every hypothesis of
    positive prior.
    """
    best = log_likelihoods[prior > 0].max()
    if np.isneginf(best):
        raise ValueError(
            "estimators must have a member of positive prior under which all rows are possible; every member gives the "
            "class of some row the probability 0, so that all are refuted. Set noise above 0, such as noise=(1, 1), or "
            "use members whose probabilities are never 0."
        )
    # Differences are divided: the logarithms themselves would overflow for a temperature next to 0.
    with np.errstate(over="ignore"):  # to minus infinity: no share
        less_than_best = np.minimum(log_likelihoods - best, 0) / temperature
    shares, log_evidence = normalised(xlogy(1, prior) + less_than_best)
    return shares, log_evidence + float(best) / temperature


def pool(log_by_row: Array, weight: Array, concentration: float, *, tol: float = 1e-10, max_iter: int = 2000) -> Array:
    """Weights of the most likely mixture by EM, under a Dirichlet(concentration) prior the most probable ones.

    Some member must make all rows possible, as `posterior` checks. Each step multiplies a member's weight by the mean
    share that it has in the mixture's probability of the rows; the likelihood never falls.
    """
    log_by_row, weight = log_by_row[:, weight > 0], weight[weight > 0]
    p = exp(log_by_row - log_by_row.max(axis=0))
    n_members = len(p)
    found = np.full(n_members, 1 / n_members)
    for _ in range(max_iter):
        share = found[:, None] * p
        mixture = share.sum(axis=0)  # 0 where a small concentration has dropped the members that a row needs
        parts = np.divide(share, mixture, out=np.zeros_like(share), where=mixture > 0)
        total = np.maximum((parts * weight).sum(axis=1) + concentration - 1, 0)
        if not total.any():
            # A concentration below 1, and rows of less weight: the prior wants one member alone.
            return np.eye(n_members)[_weighed(log_by_row, weight).argmax()]
        new = total / total.sum()
        if np.abs(new - found).max() < tol:
            return new
        found = new
    return found


def pseudo_bma(
    log_by_row: Array, weight: Array, prior: Array, random: np.random.Generator, n_draws: int = 1000
) -> Array:
    """Pseudo-BMA+ weights: the posterior, averaged over the Bayesian bootstrap of the rows (Yao et al. 2018)."""
    shares = random.standard_gamma(weight, size=(n_draws, len(weight)))
    shares[~shares.any(axis=1)] = weight  # tiny weights, whose draws vanish
    shares *= weight.sum() / shares.sum(axis=1, keepdims=True)
    # A refuted member has no share, also where the draw of the row that refutes it vanishes.
    is_possible = ~np.isneginf(log_by_row[:, weight > 0]).any(axis=1)
    weights = np.zeros(len(log_by_row))
    likely = shares @ np.where(weight > 0, log_by_row[is_possible], 0.0).T
    weights[is_possible] = softmax(xlogy(1, prior[is_possible]) + likely, axis=1).mean(axis=0)
    return weights
