"""The rounds of AdaBoost: fit a weak classifier to weighted rows, measure its error, reweight, vote.

A weak classifier cuts the rows into cells (the two sides of a stump, the leaves of a tree, the classes that an
estimator predicts) and votes by cell; a row's weight takes a step by its cell and class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fastens.adaboost.weights import RowWeights, content_order
from fastens.boosting.rounds import OnRound
from fastens.engine.comm import LOCAL, Comm
from fastens.engine.elementary import exp, log
from fastens.engine.grow.growth import GrowthRules, leaves_within_limits
from fastens.engine.rows.sampling import stream_seeds
from fastens.monitoring.measuring import History
from fastens.warn import warn

Array = NDArray[np.float64]
Codes = NDArray[np.unsignedinteger]

# How often in a row a round may start again from the first distribution before boosting ends.
MAX_RESTARTS = 10
# Rounded weights make an error that should be one half a little less.
_ROUNDING = 1e-9


class Weak(NamedTuple):
    """A weak classifier, fitted."""

    model: Any
    codes: Codes  # of the training rows
    validation_codes: Codes | None  # of the rows to validate on
    cells: NDArray[np.integer] | None  # the cell of each code; None: they are the same
    cell_class: NDArray[np.intp]  # the class that each cell votes for
    sums: NDArray[np.int64] | None  # weights, as fitted, by cell and class; None: to be counted


class Learner(Protocol):
    """What fits weak classifiers to the training rows."""

    columns: Any  # what the rows hold, (n_features, n_rows)
    monotone: NDArray[np.int8] | None  # 1 or -1 for columns with which votes must not fall or rise; models are trees
    has_own_classes: bool  # models predict the classes of their cells, whatever these vote for

    def fit(self, weights: RowWeights, drawn: NDArray[np.int64] | None, index: int) -> Weak:
        """Fit one to the weights, or to how often each row was drawn; `index` numbers the fits, for what is random."""


@dataclass(frozen=True)
class VotingRules:
    """What the rounds do besides fitting."""

    n_classes: int  # K
    n_rounds: int  # most rounds to run
    is_real: bool  # vote with the logarithms of probabilities in place of classes
    learning_rate: float  # factor of every vote
    # AdaBoost.M1: a classifier must be right on more than half of the weight, whatever the number of classes.
    is_m1: bool
    resample: bool  # fit each round to rows drawn from the distribution
    # Where a classifier is no better than chance, leave it out and start again from the first distribution.
    restarts: bool
    # With validation rows: stop when so many rounds in a row have not lowered their loss by more than `tol`, or by more
    # than that share of the first loss where this is below 1.
    n_iter_no_change: int
    tol: float
    seed: int  # of the rows drawn
    n_threads: int


class Vote(NamedTuple):
    """A weak classifier's part in the ensemble."""

    weak: Weak
    values: Array  # by cell and class
    weight: float
    error: float
    restarted: bool  # the round began from the first distribution


class VotingRun:
    """One fit of AdaBoost."""

    def __init__(
        self,
        learner: Learner,
        classes: NDArray[np.uint16],
        sample_weight: Array | None,
        rules: VotingRules,
        comm: Comm = LOCAL,
    ) -> None:
        self.learner, self.rules, self._comm = learner, rules, comm
        self.weights = RowWeights(classes, sample_weight, rules.n_threads, comm)
        self.validation: RowWeights | None = None
        self._without_restarts: RowWeights | None = None
        self.votes: list[Vote] = []
        self.history = History()
        self.n_rounds = 0
        self._order = content_order(learner.columns, classes, comm) if rules.resample else None
        self._one_hot = np.eye(rules.n_classes)
        self._is_over = False

    def validate_on(self, classes: NDArray[np.uint16], sample_weight: Array | None) -> None:
        """Watch the loss on other rows, those that the learner knows."""
        self.validation = RowWeights(classes, sample_weight, self.rules.n_threads, self._comm)

    def run(self, on_round: OnRound | None = None) -> None:
        """Run all rounds, or until a classifier is perfect or no better than chance, or the validation loss is flat."""
        while self.n_rounds < self.rules.n_rounds and not self._is_over:
            vote = self._next_vote()
            if vote is None:
                return
            self.add(vote)
            if on_round is not None:
                on_round(self.n_rounds - 1, self.rules.n_rounds, self.history.train[-1], self.history.last_validation)
            least = self.history.least_improvement(self.rules.tol)
            if self.history.rounds_since_best(least) >= self.rules.n_iter_no_change:
                return

    def add(self, vote: Vote) -> None:
        """Add a vote: reweight the rows, record the loss."""
        if vote.restarted:
            self.restart()
        steps = steps_of(vote.values, vote.weight, self.rules.is_real)
        if vote.weak.cells is not None:
            steps = steps.take(vote.weak.cells, axis=0)
        self.weights.advance(vote.weak.codes, steps)
        if self._without_restarts is not None:
            self._without_restarts.advance(vote.weak.codes, steps)
        self.history.train.append(_exp((self._without_restarts or self.weights).log_loss_ratio))
        if self.validation is not None and vote.weak.validation_codes is not None:
            self.validation.advance(vote.weak.validation_codes, steps)
            self.history.validation.append(_exp(self.validation.log_loss_ratio))
        self.votes.append(vote)
        self.n_rounds += 1

    def restart(self) -> None:
        """Return to the first distribution; the loss still counts all rounds."""
        if self._without_restarts is None:
            self._without_restarts = self.weights.copy()
        self.weights.restart()

    def _next_vote(self) -> Vote | None:
        """Fit the next classifier; None where boosting ends: it is no better than chance."""
        for attempt in range(MAX_RESTARTS + 1):
            index = self.n_rounds * (MAX_RESTARTS + 1) + attempt
            vote = self._fit_vote(index, restarted=attempt > 0)
            if vote.weight > 0:
                return vote
            if not self.rules.restarts:
                break
            self.restart()
        if self.n_rounds:
            return None
        self._is_over = True
        warn(
            f"the first weak classifier is no better than chance (weighted error {vote.error:.3g}): it is all there is"
        )
        return vote._replace(weight=1.0, values=self._one_hot[vote.weak.cell_class])

    def _fit_vote(self, index: int, restarted: bool) -> Vote:
        weights = self.weights
        drawn = None
        if self._order is not None:
            drawn = weights.draw(self._order, stream_seeds(self.rules.seed, index, index + 1))
        weak = self.learner.fit(weights, drawn, index)
        sums = self._sums(weak) if drawn is not None or weak.sums is None else weak.sums
        if self.rules.is_real:
            values = self._within_limits(weak, self._log_odds(sums))
            if not self.learner.has_own_classes:
                weak = weak._replace(cell_class=values.argmax(axis=1))
        right = sum(of_cell[k] for of_cell, k in zip(sums.tolist(), weak.cell_class.tolist(), strict=True))
        error = (weights.total - right) / weights.total
        if right == weights.total:
            self._is_over = True
        if self.rules.is_real:
            weight = 1.0 if np.ptp(values, axis=1).max() > 1e-10 else 0.0
        else:
            weight = self._weight(error)
            values = weight * self._one_hot[weak.cell_class]
        return Vote(weak, values, weight, error, restarted)

    def _sums(self, weak: Weak) -> NDArray[np.int64]:
        """The distribution's weights by cell and class."""
        n_codes = len(weak.cell_class) if weak.cells is None else len(weak.cells)
        by_code = self.weights.sums(weak.codes, n_codes, self.rules.n_classes)
        if weak.cells is None:
            return by_code
        sums = np.zeros((len(weak.cell_class), self.rules.n_classes), dtype=np.int64)
        np.add.at(sums, weak.cells, by_code)
        return sums

    def _weight(self, error: float) -> float:
        """A classifier's weight by SAMME or AdaBoost.M1; 1 without any error, 0 if it is no better than chance."""
        odds_of_chance = 1 if self.rules.is_m1 else self.rules.n_classes - 1
        if error == 0:
            return 1.0
        if error >= odds_of_chance / (1 + odds_of_chance) - _ROUNDING:
            return 0.0
        return self.rules.learning_rate * float(log((1 - error) / error) + log(odds_of_chance))

    def _log_odds(self, sums: NDArray[np.int64]) -> Array:
        """SAMME.R's votes: logarithms of the cells' class probabilities, less their mean.

        Probabilities are smoothed by the weight of about a row, as Schapire & Singer (1999), section 4.2, advise.
        """
        n_classes = self.rules.n_classes
        logs = log(sums / self.weights.total + 1 / (n_classes * self.weights.n_copies))
        if n_classes == 2:
            half = 0.5 * self.rules.learning_rate * (logs[:, 1] - logs[:, 0])
            return np.stack([-half, half], axis=1)
        return self.rules.learning_rate * (logs - logs.mean(axis=1, keepdims=True))

    def _within_limits(self, weak: Weak, values: Array) -> Array:
        """The votes of a tree's leaves, none of them in the wrong order: smoothing may turn those of few rows round."""
        if self.learner.monotone is None:
            return values
        rules = GrowthRules(monotone=self.learner.monotone)
        half = leaves_within_limits(weak.model, np.ascontiguousarray(values[:, 1]), rules, 1.0)
        return np.stack([-half, half], axis=1)

    @property
    def best_round(self) -> int:
        """The number of rounds with the lowest validation loss; all rounds where nothing was validated."""
        measured = self.history.validation[: self.n_rounds]  # Ctrl-C may come before a vote is counted
        return int(np.argmin(measured)) + 1 if measured else self.n_rounds


def steps_of(values: Array, weight: float, is_real: bool) -> Array:
    """What a vote adds to the logarithms of the weights, by cell and class.

    Discrete: weight / K where the class is not the cell's, weight / K - weight where it is, so that the mean weight is
    SAMME's exponential loss; for two classes half the weight up and down.
    """
    return -values if is_real else weight / values.shape[1] - values


def _exp(x: float) -> float:
    return float(exp(x))
