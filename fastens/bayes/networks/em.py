"""Tables from rows with missing values: expectation-maximisation, and gradient ascent of the likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.families import CodedRows, family_counts
from fastens.bayes.networks.components import expected_counts, find_components
from fastens.bayes.networks.discrete_network import DiscreteNetwork, joined
from fastens.bayes.networks.inference import missing_in
from fastens.engine.elementary import exp, log

Array = NDArray[np.float64]
ROUNDING = 1e-10  # relative; a fall of more than that is none of rounding
LONGEST, SHORTEST = 1e6, 1e-12  # steps along the gradient


@dataclass(frozen=True)
class Optimum:
    """The tables of the greatest likelihood found."""

    network: DiscreteNetwork
    counts: list[Array]  # expected counts of each family, under the network
    history: Array  # the objective before each step, and at the end
    converged: bool


def objective(table: Array, counts: Array, pseudo: Array) -> float:
    """Log likelihood of counts, plus the pseudo-counts times the logs of the probabilities; arrays of all cells."""
    mass = counts + pseudo
    counted = mass > 0
    return float((log(table[counted]) * mass[counted]).sum())


class _Objective:
    """Log likelihood of rows, plus the pseudo-counts times the logs of the probabilities."""

    def __init__(self, network: DiscreteNetwork, rows: CodedRows, pseudo: Sequence[float]) -> None:
        self._rows, self._pseudo = rows, pseudo
        known = family_counts(rows, network.families)
        self._known = [counts.astype(np.float64) for counts in known]
        self._known_cells = joined(self._known)
        self._pseudo_cells = np.repeat(pseudo, [counts.size for counts in known])
        self._components = find_components(network, missing_in(network, rows.codes), prune=False)
        self.weight = rows.n_copies()

    def at(self, network: DiscreteNetwork) -> tuple[float, list[Array]]:
        """Its value, and the expected counts without pseudo-counts."""
        hidden, value = expected_counts(network, self._components, self._rows.codes, self._rows.weights)
        counts = [known + expected for known, expected in zip(self._known, hidden, strict=True)]
        return value + objective(joined(network.tables), self._known_cells, self._pseudo_cells), counts

    def check_rise(self, before: float, after: float) -> None:
        """ArithmeticError where a step lowers it by more than rounding does, of the value and of each probability."""
        most = ROUNDING * max(1.0, abs(before)) + np.finfo(np.float64).eps * len(self._known) * self.weight
        if after < before - most:
            raise ArithmeticError(f"a step of EM must not lower the likelihood; it fell from {before!r} to {after!r}.")

    def with_pseudo(self, counts: Sequence[Array]) -> list[Array]:
        """Counts and pseudo-counts."""
        return [found + pseudo for found, pseudo in zip(counts, self._pseudo, strict=True)]


def run_em(network: DiscreteNetwork, rows: CodedRows, pseudo: Sequence[float], *, max_iter: int, tol: float) -> Optimum:
    """Expectation-maximisation from the tables of `network`: expected counts make the next tables.

    `pseudo` holds the pseudo-count of a cell of each table. Every step must raise the objective, and that is checked.
    It stops where a step raises it by less than `tol` for each row.

    References
    ----------
    Dempster, Laird & Rubin (1977), "Maximum likelihood from incomplete data via the EM algorithm"; Lauritzen (1995),
    "The EM algorithm for graphical association models with missing data", eq. 4.
    """
    objective = _Objective(network, rows, pseudo)
    value, counts = objective.at(network)
    history, converged = [value], False
    while len(history) <= max_iter and not converged:
        mass = objective.with_pseudo(counts)
        network = network.with_tables([shares(found, table) for found, table in zip(mass, network.tables, strict=True)])
        value, counts = objective.at(network)
        objective.check_rise(history[-1], value)
        history.append(value)
        converged = value - history[-2] < tol * objective.weight
    return Optimum(network, counts, np.array(history), converged)


def run_gradient_ascent(
    network: DiscreteNetwork,
    rows: CodedRows,
    pseudo: Sequence[float],
    *,
    max_iter: int,
    tol: float,
    learning_rate: float | None = None,
) -> Optimum:
    """Gradient ascent of the same objective, in the logs of unnormalised probabilities.

    The derivative by the log of cell k of a distribution is N_k - N theta_k, with expected counts N_k (Binder, Koller,
    Russell & Kanazawa 1997, eq. 9, by the chain rule); it is divided by N, the distribution's expected rows. A step
    that does not raise the objective is undone and halved, one that does doubles the next. With a `learning_rate`, at
    most 1, all steps are that times the derivative. They always raise the objective: as a function of the logs, the
    second derivative of the expected log likelihood is at most N / 2. They stop where one raises it by less than
    `tol` times the learning rate for each row.
    """
    objective = _Objective(network, rows, pseudo)
    value, counts = objective.at(network)
    history, converged, step = [value], False, learning_rate or 1.0
    least_rise = tol * objective.weight * step
    while len(history) <= max_iter and not converged:
        slopes = _slopes(network.tables, objective.with_pseudo(counts))
        while True:
            trial = network.with_tables(
                [_moved(table, step * slope) for table, slope in zip(network.tables, slopes, strict=True)]
            )
            value, trial_counts = objective.at(trial)
            if value >= history[-1] or step < SHORTEST or learning_rate is not None:
                break
            step /= 2
        if value < history[-1]:  # no step raises it: the maximum, up to rounding
            converged = True
            break
        network, counts = trial, trial_counts
        history.append(value)
        step = min(2 * step, LONGEST) if learning_rate is None else learning_rate
        converged = value - history[-2] < least_rise
    return Optimum(network, counts, np.array(history), converged)


def shares(mass: Array, otherwise: Array) -> Array:
    """Distributions along the last axis; where there is no mass, those of `otherwise`."""
    total = mass.sum(axis=-1, keepdims=True)
    return np.divide(mass, total, out=otherwise.copy(), where=total > 0)


def _slopes(tables: Sequence[Array], mass: Sequence[Array]) -> list[Array]:
    return [shares(found, table) - table for table, found in zip(tables, mass, strict=True)]


def _moved(table: Array, change: Array) -> Array:
    logits = log(table) + change
    logits -= logits.max(axis=-1, keepdims=True)
    moved = exp(logits)
    return moved / moved.sum(axis=-1, keepdims=True)
