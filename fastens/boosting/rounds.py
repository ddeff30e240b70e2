"""The rounds of gradient boosting: gradients, trees, update, stop? (Friedman 2001)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.dart import Dropout, Dropped, grid_of, scaled_tree
from fastens.boosting.leaves import ConstantLeaves, JointLeaves, LinearModels
from fastens.boosting.out_of_bag import OutOfBag
from fastens.boosting.round import Problem, Round, on_grid
from fastens.boosting.row_sampling import RowSample, RowSampler, RowSampling
from fastens.boosting.side_by_side import SideBySide
from fastens.engine.bins.binned import MOST_COLUMNS
from fastens.engine.bins.sparse_binned import AnyCodes, AnyMatrix, codes_of, sparse_matrix, stays_sparse
from fastens.engine.comm import first_row, is_any
from fastens.engine.grow.growth import GrowthRules
from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.monitoring.measuring import History, Rows
from fastens.options import Dart

if TYPE_CHECKING:
    from fastens.base import TrainingData
    from fastens.engine.bins.binning import Binning
    from fastens.engine.losses.losses import Loss
    from fastens.monitoring.metrics import Metrics

Array = NDArray[np.float64]
# Called after each round with its number, the largest number of rounds, and the losses; a true value ends the
# training.
OnRound = Callable[[int, int, float, float | None], Any]

# The training loss is a report, not a rule: no more rows than this, evenly spaced, give it.
HISTORY_ROWS = 4_000
ALL_ROWS = RowSampling()
_NOTHING_DROPPED = Dropped([])
_NO_CONTEXT = nullcontext()


@dataclass(frozen=True)
class BoostingRules:
    """What the rounds do besides growing trees."""

    n_rounds: int  # most rounds to run
    learning_rate: float  # factor of every leaf value
    # With validation rows: stop when so many rounds in a row have not lowered their loss by more than `tol`, or by more
    # than that share of the first loss where this is below 1.
    n_iter_no_change: int
    tol: float
    seed: int  # of the rows and features drawn
    n_threads: int  # number of threads
    sampling: RowSampling = ALL_ROWS  # which rows a round's trees are grown on
    out_of_bag: bool = False  # keep the predictions of rows by the trees that they were not grown on
    dart: Dart | None = None  # which earlier trees a round leaves out; None for none
    linear_l2: float | None = None  # the penalty of linear models in the leaves; None for constant leaves
    jointly: bool = False  # grow one tree a round, with a value for each output in every leaf


class Rounds:
    """The loop of one fit: which rows a round sees, its trees, what is measured, when to stop.

    `leaves` grows and adds the trees, `dropout` chooses the rounds that are left out, and `out_of_bag` measures rows
    that a round was not grown on.
    """

    def __init__(
        self,
        binning: Binning,
        data: TrainingData,
        loss: Loss,
        growth: GrowthRules,
        rules: BoostingRules,
        *,
        hashes: NDArray[np.uint64] | None = None,  # of the rows, where they are drawn
        baseline: Array | None = None,  # the raw prediction before the first tree; None for that of least loss
    ) -> None:
        self.loss, self.rules, self.binning, self._data = loss, rules, binning, data._replace(X=None)
        baseline = self._baseline(data) if baseline is None else baseline
        self.dropout, grid = None, None
        if rules.dart is not None:
            self.dropout = Dropout(rules.dart, rules.learning_rate, rules.seed)
            grid = grid_of(max(loss.magnitude(data.y), float(np.abs(baseline).max())))
        self._grid, self.baseline = grid, on_grid(baseline, grid)
        self.train = Rows(data.y, data.sample_weight, self._start(data))
        self._every = self._rows_to_report()
        self._reported = self.train.take(self._every)
        self.validation: Rows | None = None
        self.metrics: Metrics | None = None
        self.trees: list[Tree] = []
        self.history = History()
        self._sampler = None
        if hashes is not None:
            self._sampler = RowSampler(rules.sampling, hashes, data.sample_weight, rules.seed, data.comm)
        self.leaves = self._new_leaves(data, growth)
        self._side_by_side = SideBySide.of(self.leaves)
        if self._side_by_side is not None and not self._side_by_side.needs_others:
            self.rules = replace(rules, n_threads=1)
        self._gradients = np.empty(self.train.raw.shape, dtype=np.float32)
        self._hessians = np.ones(self.train.raw.shape, dtype=np.float32)
        self.out_of_bag = OutOfBag(loss, self.train, rules.n_threads) if rules.out_of_bag else None

    def _baseline(self, data: TrainingData) -> Array:
        """The raw prediction before the first tree; 0 where rows have one of their own."""
        return self.loss.start(data.y, data.sample_weight) if data.offset is None else np.zeros(self.loss.n_outputs)

    def _start(self, data: TrainingData) -> Array:
        """Raw predictions of rows before the first tree, (n_outputs, n_rows)."""
        if data.offset is not None:
            return on_grid(self.baseline[:, None] + data.offset, self._grid)
        return np.full((len(self.baseline), len(data.y)), self.baseline[:, None])

    def _binned(self, data: TrainingData) -> AnyMatrix:
        """The rows as trees are grown on them; linear models read values besides, and ranks add up all cells."""
        if data.comm.size == 1 and self.rules.linear_l2 is None and stays_sparse(data.X):
            return sparse_matrix(self.binning, data.X, self.rules.n_threads)
        return self.binning.transform(data.X, self.rules.n_threads, MOST_COLUMNS)

    def _codes(self, X: Any) -> AnyCodes:
        if self.rules.linear_l2 is not None:
            return self.binning.codes(X, self.rules.n_threads)
        return codes_of(self.binning, X, self.rules.n_threads)

    def _new_leaves(self, data: TrainingData, growth: GrowthRules) -> ConstantLeaves:
        loss, rules = self.loss, self.rules
        matrix = replace(self._binned(data), comm=data.comm)
        constant_hessian = loss.constant_hessian and not (self._sampler and rules.sampling.reweights)
        weights = self.train.weight, data.own_weight
        problem = Problem(matrix, loss, *weights, constant_hessian, self._grid, rules.n_threads)
        if rules.linear_l2 is not None:
            return LinearModels(problem, growth, data.X, rules.linear_l2)
        return (JointLeaves if rules.jointly else ConstantLeaves)(problem, growth)

    # What is measured --------------------------------------------------

    def validate_on(self, data: TrainingData) -> None:
        """Watch other rows."""
        self.validation = Rows(data.y, data.sample_weight, self._start(data))
        self._watched = self.leaves.table_of(self._codes(data.X), data.X)

    def measure_by(self, metrics: Metrics) -> None:
        """Let metrics of the rows to validate on decide when to stop, in place of their loss."""
        self.metrics = metrics
        self.history.rises = metrics.rises[metrics.names[0]]

    def _measure(self) -> None:
        self.history.train.append(self._train_loss())
        if self.validation is not None:
            n_threads, metrics = self.rules.n_threads, self.metrics
            score = self.validation.loss(self.loss, n_threads) if metrics is None else metrics.measure()
            self.history.validation.append(score)
            if (self.dropout or self.out_of_bag) and self.history.best_round == self.n_rounds:
                self._keep_best()

    def _keep_best(self) -> None:
        """Keep what further rounds change of a model of the rounds so far."""
        if self.dropout is not None:
            self.dropout.best = list(self.trees)
        if self.out_of_bag is not None:
            self.out_of_bag.keep()

    def _rows_to_report(self) -> slice:
        """The training rows whose loss is reported."""
        first, n_rows = first_row(self._data.comm, len(self.train.y))
        step = -(-n_rows // HISTORY_ROWS) if self.loss.by_rows else 1
        return slice(-first % step, None, step)

    def _train_loss(self) -> float:
        if self._every.step > 1:
            self._reported.raw[:] = self.train.raw[:, self._every]
        return self._reported.loss(self.loss, 1)

    # The loop --------------------------------------------------

    def run(self, on_round: OnRound | None = None) -> None:
        """Run all rounds, or until the validation loss no longer falls or `on_round` returns True."""
        with self._side_by_side or _NO_CONTEXT:
            while self.n_rounds < self.rules.n_rounds and not self._is_over:
                index = self.n_rounds
                self._round(index)
                self._measure()
                last = self.history.last_validation
                stops = on_round is not None and on_round(index, self.rules.n_rounds, self.history.train[-1], last)
                if is_any(self._data.comm, bool(stops)):
                    return

    @property
    def _is_over(self) -> bool:
        has_scale = self.loss.has_log_odds or (self.metrics is not None and not self.metrics.decide_by_loss)
        least = self.rules.tol if has_scale else self.history.least_improvement(self.rules.tol)
        return self.history.rounds_since_best(least) >= self.rules.n_iter_no_change

    def _round(self, index: int) -> None:
        """Sample, grow, finish."""
        dropped = _NOTHING_DROPPED
        if self.dropout is not None:
            dropped = self.dropout.draw(index)
            self._rescale(dropped.rounds, -1.0)
        self.loss.start_round(self.train.y, self.train.raw, self.train.weight)
        sample = self._sample(index)
        this = Round(
            self.train,
            self._gradients,
            self._hessians,
            sample,
            (self.rules.seed << 32) + index * self.leaves.n_trees,
            self.rules.learning_rate * dropped.factor_of_new,
            None if self.validation is None else (self._watched, self.validation.raw),
        )
        with _NO_CONTEXT if self.out_of_bag is None else self.out_of_bag.watching(self.train, sample):
            if self._side_by_side is not None:
                trees = self._side_by_side.grow(this)
            else:
                # One after another: leaves are renewed from what the trees before have left.
                trees = list(map(partial(self.leaves.grow, this), range(self.leaves.n_trees)))
        self.trees.extend(trees)
        self._rescale(dropped.rounds, -dropped.factor_of_old)

    def _sample(self, index: int) -> RowSample | None:
        """Find the gradients of a round, and draw the rows that it sees; None for all."""
        self.loss.gradients(self.train.y, self.train.raw, self._gradients, self._hessians, self.rules.n_threads)
        return None if self._sampler is None else self._sampler.draw(index, self._gradients, self._hessians)

    def _rescale(self, rounds: Sequence[int], factor: float) -> None:
        """Multiply the trees of rounds, and add them to the raw predictions."""
        for index in rounds:
            first = index * self.leaves.n_trees
            for number in range(self.leaves.n_trees):
                self.trees[first + number] = scaled_tree(self.trees[first + number], factor, self._grid)
                self._add(self.trees[first + number], number)

    def _add(self, tree: Tree, number: int) -> None:
        """Add a round's tree of that number to the raw predictions of all rows."""
        outputs = self.leaves.outputs[number]
        self.leaves.add(tree, self.leaves.table, self.train.raw[outputs])
        if self.validation is not None:
            self.leaves.add(tree, self._watched, self.validation.raw[outputs])

    def continue_from(self, trees: Sequence[Tree]) -> None:
        """Begin after rounds that were run before, as if these had made them."""
        per_round = self.leaves.n_trees
        for first in range(0, len(trees), per_round):
            self.loss.start_round(self.train.y, self.train.raw, self.train.weight)
            sample = None if self.out_of_bag is None else self._sample(self.n_rounds)
            with _NO_CONTEXT if self.out_of_bag is None else self.out_of_bag.watching(self.train, sample):
                for number, tree in enumerate(trees[first : first + per_round]):
                    self._add(tree, number)
            self.trees.extend(trees[first : first + per_round])
            self._measure()

    # The model --------------------------------------------------

    @property
    def n_rounds(self) -> int:
        """Rounds completed."""
        return len(self.trees) // self.leaves.n_trees

    @property
    def best_round(self) -> int:
        """The number of rounds with the lowest validation loss; all rounds where nothing was validated."""
        return self.history.best_round if self.history.validation else self.n_rounds

    def ensemble(self, n_rounds: int) -> TreeEnsemble:
        """Return the first rounds' trees as a model."""
        per_round = self.leaves.n_trees
        outputs = np.tile(np.arange(per_round), n_rounds)
        trees = self.kept_trees(n_rounds)[: n_rounds * per_round]
        return self.leaves.ensemble_type.from_trees(trees, outputs, self.baseline, self.binning)

    def best_trees(self) -> TreeEnsemble | None:
        """Return the model of the best round, where later ones have changed its trees and there was a validation."""
        return self.ensemble(self.best_round) if self.dropout is not None and self.history.validation else None

    def rows_after(self, n_rounds: int) -> Rows:
        """The training rows with their raw predictions by the first rounds' trees."""
        if n_rounds == self.n_rounds:
            return self.train
        raw, per_round = self._start(self._data), self.leaves.n_trees
        for number, tree in enumerate(self.kept_trees(n_rounds)[: n_rounds * per_round]):
            self.leaves.add(tree, self.leaves.table, raw[self.leaves.outputs[number % per_round]])
        return replace(self.train, raw=raw)

    def kept_trees(self, n_rounds: int) -> list[Tree]:
        """The trees as they were after so many rounds: all, or, with dropout, the best number of them."""
        return self.trees if self.dropout is None or n_rounds == self.n_rounds else self.dropout.best
