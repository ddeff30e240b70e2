"""The rounds of gradient boosting: gradients, trees with constant or linear leaves, DART (Friedman 2001)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.row_sampling import OutOfBagSums, RowSample, RowSampler, RowSampling
from fastens.engine.bins.binned import MAX_COLUMNS, pages_held
from fastens.engine.bins.binning import (
    AnyCodes,
    AnyMatrix,
    SparseMatrix,
    bundled,
    codes_of,
    sparse_matrix,
    stays_sparse,
)
from fastens.engine.comm import first_row, is_any
from fastens.engine.grow.growth import GrowthParameters, RowWeights, TreeGrower
from fastens.engine.linear.linear_leaves import LeafModels, LinearEnsemble, LinearTree, lines_within_limits
from fastens.engine.parts import as_array
from fastens.engine.rows.sampling import random_stream
from fastens.engine.threads import ThreadPool
from fastens.engine.trees.leaf_values import add_tree_to_raw, leaves_of_rows
from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.monitoring.metrics import Evaluations, History, ScoredRows
from fastens.params.options import Dart

if TYPE_CHECKING:
    from fastens.base import TrainingData
    from fastens.engine.bins.binning import AnyCodes, AnyMatrix, Binning
    from fastens.engine.bins.pages import MappedPages
    from fastens.engine.losses.losses import Loss
    from fastens.monitoring.metrics import Metrics


Array = NDArray[np.float64]
Gradients = NDArray[np.float32]
# The raw predictions that a tree has values for: one of them, or all.
Outputs = int | slice


class Problem(NamedTuple):
    """The training problem that the trees of all rounds share."""

    matrix: AnyMatrix  # the training rows
    loss: Loss  # the loss to minimise
    weight: Array | None  # sample weights
    weight_before_classes: Array | None  # sample weights without class weights, if there are both
    constant_hessian: bool  # True if all hessians are 1 before weighting
    grid: float | None  # if not None, all values that are added to raw predictions are multiples of this number
    n_threads: int  # number of threads


class CodeTable(NamedTuple):
    """Rows that trees are added to: bin codes, (n_features, n_rows), and feature values if linear leaves need them."""

    codes: AnyCodes
    X: Any = None
    pages: MappedPages | None = None  # the pages of the codes, if they are in files


class Round(NamedTuple):
    """The inputs for growing the trees of a round."""

    train: ScoredRows  # the training rows with their raw predictions, which trees are added to
    gradients: Gradients  # gradients of the loss before the round
    hessians: Gradients  # hessians of the loss before the round
    sample: RowSample | None  # the rows drawn; None for all rows
    first_seed: int  # seed of the first tree; the next trees use the following numbers
    rate: float  # factor of every leaf value
    shift: Array | None = None  # values to add to all leaves of each output
    # The validation rows and their raw predictions, which trees are also added to.
    watched: tuple[CodeTable, Array] | None = None

    @property
    def rows(self) -> NDArray[np.uint32] | None:
        """The rows drawn, in ascending order; None for all rows."""
        return None if self.sample is None else self.sample.rows

    def seed(self, tree: int) -> int:
        """Return the seed of the round's tree with index `tree`."""
        return (self.first_seed + tree) % 2**64

    def derivatives(self, outputs: Outputs) -> tuple[Gradients, Gradients]:
        """Return gradients and hessians of one or several outputs, multiplied by the factors of the drawn rows."""
        gradients, hessians = self.gradients[outputs], self.hessians[outputs]
        if self.sample is None or self.sample.factors is None:
            return gradients, hessians
        gradients, hessians = gradients.copy(), hessians.copy()
        gradients[..., self.sample.rows] *= self.sample.factors
        hessians[..., self.sample.rows] *= self.sample.factors
        return gradients, hessians


def on_grid(values: Array, grid: float | None) -> Array:
    """Return the values rounded to multiples of `grid`, or unchanged if it is None."""
    return values if grid is None else np.rint(values / grid) * grid


class OutputTrees:
    """One tree per output, with a constant in every leaf."""

    ensemble_type: ClassVar[type[TreeEnsemble]] = TreeEnsemble
    # True if threads may grow whole trees of a round in parallel.
    grow_apart: ClassVar[bool] = True
    n_trees: int  # number of trees per round
    outputs: list[Outputs]  # the raw predictions that each tree of a round has values for

    def __init__(self, problem: Problem, growth: GrowthParameters) -> None:
        self.problem = problem._replace(matrix=self._arrange(problem, growth))
        # Values are clipped after damping, so growth must allow the larger Newton steps that damping reduces to the
        # limit.
        max_step = self.max_step = np.inf if growth.max_delta_step is None else growth.max_delta_step
        self.growth = (
            growth if np.isinf(max_step) else replace(growth, max_delta_step=newton_limit(problem.loss, max_step))
        )
        self.n_trees = problem.loss.n_outputs
        self.outputs = list(range(self.n_trees))
        self.grower = self._new_grower()

    def _arrange(self, problem: Problem, growth: GrowthParameters) -> AnyMatrix:
        """Return the binned rows in the layout that is fastest for growing, such as with bundled sparse features."""
        if isinstance(problem.matrix, SparseMatrix):
            return problem.matrix
        return bundled(problem.matrix, growth.max_leaf_nodes, problem.n_threads)

    def _new_grower(self) -> TreeGrower:
        """Return a grower of trees on the training rows."""
        problem = self.problem
        return TreeGrower(
            problem.matrix,
            self.growth,
            RowWeights.of(problem.weight, problem.matrix.n_rows, problem.matrix.comm, problem.weight_before_classes),
            constant_hessian=problem.constant_hessian,
            renews_leaves=problem.loss.renews_leaves,
            n_threads=problem.n_threads,
        )

    def on_one_thread(self, matrix: AnyMatrix) -> OutputTrees:
        """Return a copy that grows trees on one thread, from its own view of the rows in `matrix`."""
        worker = copy(self)
        worker.problem = self.problem._replace(matrix=matrix, n_threads=1)
        worker.grower = worker._new_grower()
        return worker

    @property
    def table(self) -> CodeTable:
        """The training rows."""
        return CodeTable(self.problem.matrix.columns, pages=self.problem.matrix.pages)

    def table_of(self, codes: AnyCodes, X: Any) -> CodeTable:
        """Return other rows than the training rows as a table to add trees to; linear leaves also need X."""
        return CodeTable(codes, pages=pages_held(codes, X))

    def grow(self, current: Round, index: int) -> Tree:
        """Grow tree `index` of the current round, add it to training and validation raw predictions, and return it."""
        outputs, rows = self.outputs[index], current.rows
        gradients, hessians = derivatives = current.derivatives(outputs)
        self._set_rules(index, rows)
        tree = self.grower.grow(gradients, hessians, rows, current.seed(index))
        if self.problem.loss.renews_leaves:
            tree = self._renew_leaves(tree, current, index)
        tree = self._finish_leaves(tree, current, index, derivatives)
        if rows is None:
            self._add_grown(tree, current.train.raw[outputs])
        else:
            self.add(tree, self.table, current.train.raw[outputs])
        if current.watched is not None:
            table, raw = current.watched
            self.add(tree, table, raw[outputs])
        return tree

    def _set_rules(self, index: int, rows: NDArray[np.uint32] | None) -> None:
        """Set the grower's parameters that depend on the outputs of tree `index`, and on the drawn rows (None: all)."""
        self.grower.start_output(index)
        losses = [self.problem.loss.of_output(output) for output in self._outputs_of(index)]
        self.grower.noise_units = [loss.noise_unit for loss in losses]
        if self.growth.min_samples_tail > 0:
            n_rows = self.grower.row_weights.n_copies_of(rows)
            self.grower.set_fewest_rows(self.growth.fewest_rows(min(loss.tail for loss in losses), n_rows))

    def _outputs_of(self, index: int) -> list[int]:
        """Return the indices of the raw predictions that tree `index` of a round has leaf values for."""
        outputs = self.outputs[index]
        return list(range(self.problem.loss.n_outputs)[outputs]) if isinstance(outputs, slice) else [outputs]

    def _renew_leaves(self, tree: Tree, current: Round, index: int) -> Tree:
        """Return the round's tree `index`, just grown, with leaf values that the loss computes from residuals."""
        loss, train, n_threads = self.problem.loss, current.train, self.problem.n_threads
        factors = None if current.sample is None else current.sample.factors
        for column, output in enumerate(self._outputs_of(index)):
            residuals = loss.residuals(train.y, train.raw, output)
            tree = self.grower.renew_leaves(tree, loss.of_output(output), residuals, n_threads, factors, column)
        return tree

    def _finish_leaves(self, tree: Tree, current: Round, index: int, derivatives: tuple[Gradients, Gradients]) -> Tree:
        """Damp, clip, shrink and shift the leaf values of the round's tree `index` in place, and return it.

        `derivatives` holds the gradients and hessians that it was grown on, for linear leaves.
        """
        tree.value[:] = self._shrink(tree.value, current.rate, index)
        if current.shift is not None:
            tree.value[:] += on_grid(current.shift[self.outputs[index]], self.problem.grid)
        return tree

    def _shrink(self, values: Array, rate: float, index: int) -> Array:
        """Return leaf values of tree `index` damped by the loss, clipped to the largest step and scaled by `rate`."""
        steps = self._loss_of(index).damped(values)
        steps = np.clip(steps, -self.max_step, self.max_step) if self.max_step < np.inf else steps
        return on_grid(rate * steps, self.problem.grid)

    def _loss_of(self, index: int) -> Loss:
        """Return the loss, of one output or of all, that damps the leaf values of tree `index` of a round."""
        outputs = self.outputs[index]
        return self.problem.loss if isinstance(outputs, slice) else self.problem.loss.of_output(outputs)

    def _add_grown(self, tree: Tree, raw: Array) -> None:
        """Add the tree just grown on all rows to `raw`, its output's raw predictions of the training rows, in place."""
        self.grower.add_values(tree.value, raw)

    def add(self, tree: Tree, table: CodeTable, raw: Array) -> None:
        """Add a tree's leaf values to `raw`, the raw predictions of its output for the rows of `table`, in place."""
        add_tree_to_raw(table.codes, tree, raw, self.problem.n_threads, table.pages)


class JointOutputTrees(OutputTrees):
    """One tree with a value for each output in every leaf, whose splits minimise the sum of the losses."""

    grow_apart = False

    def __init__(self, problem: Problem, growth: GrowthParameters) -> None:
        super().__init__(problem, growth)
        self.n_trees, self.outputs = 1, [slice(None)]

    def _arrange(self, problem: Problem, growth: GrowthParameters) -> AnyMatrix:
        """Return the binned rows with a workspace for the gradients and hessians of all outputs."""
        return problem.matrix.with_payloads(problem.loss.n_outputs)

    def add(self, tree: Tree, table: CodeTable, raw: Array) -> None:
        """Add a tree's leaf values to `raw`, the raw predictions of all outputs for the rows of `table`, in place."""
        raw += tree.value.T[:, leaves_of_rows(table.codes, tree, self.problem.n_threads, table.pages)]


class LinearModels(OutputTrees):
    """One tree per output, with a linear model in every leaf.

    Splits are chosen as for constant leaves, and leaf values are kept. In addition, a ridge regression of the
    second-order objective fits slopes for the features on the path of each leaf. If values have limits, the linear
    models are adjusted to them. On a grid, the contribution of a tree to each row is rounded, so that DART can remove
    it exactly.
    """

    ensemble_type = LinearEnsemble
    # The linear models of all trees share a workspace.
    grow_apart = False

    def __init__(self, problem: Problem, growth: GrowthParameters, X: Any, l2: float) -> None:
        super().__init__(problem, growth)
        is_categorical = np.asarray(problem.matrix.is_categorical, dtype=bool)
        l2 *= self.grower.unit
        weights = self.grower.row_weights
        self._models = LeafModels(as_array(X), is_categorical, weights, l2, problem.n_threads)
        self._has_limits = growth.monotone is not None or growth.max_delta_step is not None

    @property
    def table(self) -> CodeTable:
        """The training rows."""
        return CodeTable(self.problem.matrix.columns, self._models.X, self.problem.matrix.pages)

    def table_of(self, codes: AnyCodes, X: Any) -> CodeTable:
        """Return other rows than the training rows, with their feature values, as a table to add trees to."""
        return CodeTable(codes, as_array(X), pages_held(codes, X))

    def _finish_leaves(self, tree: Tree, current: Round, index: int, derivatives: tuple[Gradients, Gradients]) -> Tree:
        """Return the round's tree `index` with final leaf values, and a linear model fitted in each leaf.

        `derivatives` holds the gradients and hessians of the rows that the models are fitted to.
        """
        rate = current.rate * damping(self._loss_of(index), tree.value[:, 0])
        self._models.monotone = self.grower.rules.monotone
        finished = super()._finish_leaves(tree, current, index, derivatives)
        linear = self._models.fit(finished, self.grower.leaves(), *derivatives, rate)
        if self._has_limits:
            step = current.rate * self.max_step
            max_value = on_grid(np.array([step]), self.problem.grid)[0] if step < np.inf else np.inf
            linear = lines_within_limits(finished, linear, self._models.monotone, max_value)
        return LinearTree(**vars(finished), linear=linear)

    def _add_grown(self, tree: Tree, raw: Array) -> None:
        """Add the tree just grown on all rows to `raw`, its output's raw predictions of the training rows, in place."""
        if self._has_limits or self.problem.grid is not None:
            self.add(tree, self.table, raw)
        else:
            raw += self._models.fitted

    def add(self, tree: Tree, table: CodeTable, raw: Array) -> None:
        """Add a tree's linear models to `raw`, the raw predictions of its output for the rows of `table`, in place."""
        assert isinstance(tree, LinearTree)
        n_threads, grid = self.problem.n_threads, self.problem.grid
        added = raw if grid is None else np.zeros_like(raw)
        tree.add(table.X, leaves_of_rows(table.codes, tree, n_threads, table.pages), added, n_threads)
        if grid is not None:
            raw += on_grid(added, grid)


def newton_limit(loss: Loss, limit: float) -> float:
    """Return the shortest Newton step whose damped value is at least `limit` for all outputs and both signs.

    The result is `limit` itself if the loss does not damp steps up to it, or if damped steps never reach it.
    """
    losses = [loss.of_output(output) for output in range(loss.n_outputs)]

    def is_long(step: float) -> bool:
        return all(abs(float(each.damped(np.array([side * step]))[0])) >= limit for each in losses for side in (-1, 1))

    high = limit
    while not is_long(high) and high < 2.0**100:
        high *= 2
    if high == limit or not is_long(high):
        return limit
    low = high / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_long(middle) else (middle, high)
    return high


def damping(loss: Loss, steps: Array) -> Array:
    """Return damped divided by undamped steps (1 for a step of 0), which linear models are scaled by as well."""
    return np.divide(loss.damped(steps), steps, out=np.ones_like(steps), where=steps != 0)


# Numbers of bin codes. Below the first, dispatching trees to threads takes longer than growing them; from the second
# on, parallelism within a tree is efficient as well.
_MIN_CODES = 1 << 15
_ENOUGH_FOR_ONE_TREE = 1 << 20
# Number of rows whose histogram costs as much as the split search of a node.
_ROWS_PER_SEARCH = 1 << 12


class SideBySide:
    """A thread pool that grows the trees of a round in parallel, one tree per output."""

    def __init__(self, leaves: OutputTrees) -> None:
        self._leaves, matrix, n_trees = leaves, leaves.problem.matrix, leaves.n_trees
        self._n_workers = min(leaves.problem.n_threads, n_trees)
        self._free: SimpleQueue[OutputTrees] = SimpleQueue()
        for worker_matrix in (matrix, *(matrix.with_own_payloads() for _ in range(1, self._n_workers))):
            self._free.put(leaves.on_one_thread(worker_matrix))
        # True if the kernels keep their own threads, which grow the trees that do not divide evenly among the workers.
        # On small tables, kernels run on one thread, because parallelism within a small tree is not efficient.
        self.needs_others = _cost_of_root(matrix) >= _ENOUGH_FOR_ONE_TREE
        self._n_apart = n_trees - (n_trees % self._n_workers if self.needs_others else 0)

    @classmethod
    def of(cls, leaves: OutputTrees) -> SideBySide | None:
        """Return a pool that grows a round's trees in parallel; None if parallelism within each tree is better."""
        problem, n_trees = leaves.problem, leaves.n_trees
        # The residuals of renewed leaves depend on the previous outputs, and distributed workers exchange the trees one
        # at a time.
        if not leaves.grow_apart or problem.loss.renews_leaves or problem.matrix.comm.size > 1:
            return None
        n_codes, n_threads = _cost_of_root(problem.matrix), problem.n_threads
        if min(n_threads, n_trees) == 1 or n_codes < _MIN_CODES:
            return None
        return cls(leaves) if n_trees >= n_threads or n_codes < _ENOUGH_FOR_ONE_TREE else None

    def grow(self, current: Round) -> list[Tree]:
        """Return the trees of the current round, grown in parallel and added to the raw predictions."""

        def grow_one(number: int) -> Tree:
            worker = self._free.get()
            try:
                return worker.grow(current, number)
            finally:
                self._free.put(worker)

        trees = list(self._pool.map(grow_one, range(self._n_apart)))
        return trees + [self._leaves.grow(current, number) for number in range(self._n_apart, self._leaves.n_trees)]

    def __enter__(self) -> None:
        self._pool = ThreadPool(self._n_workers)

    def __exit__(self, *of_exception: object) -> None:
        """Stop the threads after their current trees."""
        self._pool.shutdown(cancel_futures=True)


def _cost_of_root(matrix: AnyMatrix) -> int:
    """Return the cost of growing a root node as a number of bin codes read; it is at least a split search."""
    return max(matrix.n_rows * matrix.codes_per_row, min(matrix.n_rows, _ROWS_PER_SEARCH) * matrix.n_features)


# Number of bits between the grid and the largest expected raw prediction. Sums are exact in any order up to 1000 times
# that prediction.
_BITS = 42


class Dropped(NamedTuple):
    """The earlier rounds that a round drops, and the factors of the new and of the dropped trees."""

    rounds: list[int]
    factor_of_new: float = 1.0
    factor_of_old: float = 1.0


class Dropout:
    """DART dropout: chooses the earlier rounds that are dropped while a round is grown.

    All values are multiples of one power of two. Trees can therefore be removed from the raw predictions and added
    again exactly, and continued fits are bit-identical.
    """

    def __init__(self, options: Dart, learning_rate: float, seed: int) -> None:
        self._options, self._learning_rate, self._seed = options, learning_rate, seed
        self.best: list[Tree] = []  # the trees as they were at the best round

    def draw(self, index: int) -> Dropped:
        """Return the earlier rounds that round `index` drops, and the factors of its new trees and of dropped trees."""
        rounds, options = self._dropped_rounds(index), self._options
        n_dropped = len(rounds)
        if n_dropped == 0:
            return Dropped(rounds)
        weight_of_dropped = n_dropped if options.normalize == "tree" else 1
        total = weight_of_dropped + self._learning_rate
        return Dropped(rounds, 1 / total, weight_of_dropped / total)

    def _dropped_rounds(self, index: int) -> list[int]:
        """Return the sorted indices of the earlier rounds that round `index` drops, drawn from the seed."""
        options, generator = self._options, random_stream(self._seed, index)
        skips, drops = generator.random(), generator.random(index)
        if skips < options.skip_drop:
            return []
        dropped = np.flatnonzero(drops < options.rate_drop)
        if options.max_drop is not None and len(dropped) > options.max_drop:
            dropped = dropped[np.argsort(drops[dropped])[: options.max_drop]]
        return sorted(dropped.tolist())


def grid_for(largest: float) -> float:
    """Return the power of two that all values are multiples of, for raw predictions up to about `largest` in size."""
    return math.ldexp(1.0, math.frexp(max(largest, 1e-290))[1] - _BITS)


def scaled_tree(tree: Tree, factor: float, grid: float | None) -> Tree:
    """Return a copy with leaf values and linear models times `factor`; leaf values are multiples of `grid` if set."""
    scaled = replace(tree, value=on_grid(tree.value * factor, grid))
    if isinstance(scaled, LinearTree):
        return replace(scaled, linear=scaled.linear.times(np.full(tree.n_nodes, factor)))
    return scaled


# Called after each round with the round index, the maximum number of rounds and the losses. A true return value stops
# training.
OnRound = Callable[[int, int, float, float | None], Any]

# Maximum number of rows, evenly spaced, for the training loss, which is only reported and does not affect the fit.
HISTORY_ROWS = 4_000
ALL_ROWS = RowSampling()
_NOTHING_DROPPED = Dropped([])
_NO_CONTEXT = nullcontext()


@dataclass(frozen=True)
class BoostingParameters:
    """Rules of the boosting rounds other than the growth of trees."""

    n_rounds: int  # maximum number of rounds
    learning_rate: float | tuple[float, ...]  # factor of every leaf value, or the factors of the rounds
    # With validation rows, training stops after this number of consecutive rounds that did not lower the validation
    # loss by more than `tol`. If the first loss is below 1, `tol` is relative to it.
    n_iter_no_change: int
    tol: float
    seed: int  # seed for drawing rows and features
    n_threads: int  # number of threads
    sampling: RowSampling = ALL_ROWS  # how the rows of a round are drawn
    out_of_bag: bool = False  # True to compute out-of-bag predictions
    dart: Dart | None = None  # dropout of earlier trees; None for no dropout
    linear_l2: float | None = None  # ridge penalty of linear leaves; None for constant leaves
    jointly: bool = False  # True to grow one tree per round, with a value for each output in every leaf

    def rate(self, index: int) -> float:
        """Return the learning rate of round `index`."""
        return rate_of_round(self.learning_rate, index)


def rate_of_round(rates: float | tuple[float, ...], index: int) -> float:
    """Return the learning rate of round `index`: `rates` or its item; rounds after the last item have the last rate."""
    return rates[min(index, len(rates) - 1)] if isinstance(rates, tuple) else rates


class Rounds:
    """The training loop of one fit: row sampling, tree growth, evaluation and early stopping.

    `leaves` grows and adds the trees, `dropout` chooses the rounds that are dropped, and `out_of_bag` evaluates the
    rows that a round did not draw.
    """

    def __init__(
        self,
        binning: Binning,
        data: TrainingData,
        loss: Loss,
        growth: GrowthParameters,
        rules: BoostingParameters,
        *,
        hashes: NDArray[np.uint64] | None = None,  # content hashes of the rows, if rows are sampled
        baseline: Array | None = None,  # raw prediction before the first tree; None for the one with the lowest loss
    ) -> None:
        self.loss, self.rules, self.binning = loss, rules, binning
        self._data = data._replace(X=None, y=loss.narrowed(data.y))
        baseline = self._baseline(data) if baseline is None else baseline
        self.dropout, grid = None, None
        if rules.dart is not None:
            self.dropout = Dropout(rules.dart, rules.rate(0), rules.seed)
            grid = grid_for(max(loss.magnitude(data.y), float(np.abs(baseline).max())))
        self._grid, self.baseline = grid, on_grid(baseline, grid)
        self.train = ScoredRows(self._data.y, data.sample_weight, self._start(data))
        self._every = self._rows_to_report()
        self._reported = self.train.take(self._every)
        self.validation: ScoredRows | None = None
        self.metrics: Metrics | None = None
        # Further rows whose metrics are recorded, by name, and the tables that trees are added to.
        self.others: dict[str, Metrics] = {}
        self._other_rows: list[tuple[CodeTable, Array]] = []
        self.trees: list[Tree] = []
        self.shifts: dict[int, Array] = {}  # by round, for a refit without validation rows
        self.history = History()
        self._sampler = None
        if hashes is not None:
            self._sampler = RowSampler(rules.sampling, hashes, data.sample_weight, rules.seed, data.comm)
        self.leaves = self._new_output_trees(data, growth)
        self._side_by_side = SideBySide.of(self.leaves)
        if self._side_by_side is not None and not self._side_by_side.needs_others:
            self.rules = replace(rules, n_threads=1)
        self._gradients = np.empty(self.train.raw.shape, dtype=np.float32)
        self._hessians = np.ones(self.train.raw.shape, dtype=np.float32)
        self.out_of_bag = OutOfBagSums(loss, self.train, rules.n_threads) if rules.out_of_bag else None

    def _baseline(self, data: TrainingData) -> Array:
        """Return each output's raw prediction before the first tree; 0 if `init_score` was passed to `fit`."""
        return self.loss.start(data.y, data.sample_weight) if data.offset is None else np.zeros(self.loss.n_outputs)

    def _start(self, data: TrainingData) -> Array:
        """Return the raw predictions of the rows of `data` before the first tree, (n_outputs, n_rows)."""
        if data.offset is not None:
            return on_grid(self.baseline[:, None] + data.offset, self._grid)
        return np.full((len(self.baseline), len(data.y)), self.baseline[:, None])

    def _binned(self, data: TrainingData) -> AnyMatrix:
        """Return the binned rows; linear leaves and distributed fits need the dense layout."""
        if data.comm.size == 1 and self.rules.linear_l2 is None and stays_sparse(data.X):
            return sparse_matrix(self.binning, data.X, self.rules.n_threads)
        return self.binning.transform(data.X, self.rules.n_threads, MAX_COLUMNS)

    def _codes(self, X: Any) -> AnyCodes:
        """Return the bin codes of validation or other rows, in the dense layout for linear leaves."""
        if self.rules.linear_l2 is not None:
            return self.binning.codes(X, self.rules.n_threads)
        return codes_of(self.binning, X, self.rules.n_threads)

    def _new_output_trees(self, data: TrainingData, growth: GrowthParameters) -> OutputTrees:
        """Return the object that grows and adds the trees: one tree per output, joint, or linear."""
        loss, rules = self.loss, self.rules
        matrix = replace(self._binned(data), comm=data.comm)
        constant_hessian = loss.constant_hessian and not (self._sampler and rules.sampling.reweights)
        weights = self.train.weight, data.weight_before_classes
        problem = Problem(matrix, loss, *weights, constant_hessian, self._grid, rules.n_threads)
        if rules.linear_l2 is not None:
            return LinearModels(problem, growth, data.X, rules.linear_l2)
        return (JointOutputTrees if rules.jointly else OutputTrees)(problem, growth)

    # Evaluation --------------------------------------------------

    def validate_on(self, data: TrainingData) -> None:
        """Set the validation rows, whose raw predictions each new tree is added to."""
        self.validation = ScoredRows(data.y, data.sample_weight, self._start(data))
        self._watched = self.leaves.table_of(self._codes(data.X), data.X)

    def measure_by(self, metrics: Metrics, *, decides: bool) -> None:
        """Evaluate metrics on the validation rows, which then replace the loss in the history.

        If `decides` is True, the first metric decides on early stopping.
        """
        self.metrics = metrics
        self.history.rises, self.history.decides = metrics.rises[metrics.names[0]], decides

    def record(self, name: str, data: TrainingData, metrics: Callable[[ScoredRows], Metrics]) -> None:
        """Record metrics of further rows after each round, under `name`; `metrics` makes them from scored rows."""
        rows = ScoredRows(data.y, data.sample_weight, self._start(data))
        self._other_rows.append((self.leaves.table_of(self._codes(data.X), data.X), rows.raw))
        self.others[name] = metrics(rows)

    def _measure(self) -> None:
        """Append the losses and metrics after a round to the history, and snapshot the model if it is the best."""
        self.history.train.append(self._train_loss())
        if self.validation is not None:
            n_threads, metrics = self.rules.n_threads, self.metrics
            score = self.validation.loss(self.loss, n_threads) if metrics is None else metrics.measure()
            self.history.validation.append(score)
            if (self.dropout or self.out_of_bag) and self.best_round == self.n_rounds and self.history.decides:
                self._keep_best()
        for metrics in self.others.values():
            metrics.measure()

    def _keep_best(self) -> None:
        """Snapshot the trees of DART and the out-of-bag sums after the best round, because later rounds change them."""
        if self.dropout is not None:
            self.dropout.best = list(self.trees)
        if self.out_of_bag is not None:
            self.out_of_bag.keep()

    def _rows_to_report(self) -> slice:
        """Return the slice of evenly spaced training rows, all if the loss is not by rows, whose loss is reported."""
        first, n_rows = first_row(self._data.comm, len(self.train.y))
        step = -(-n_rows // HISTORY_ROWS) if self.loss.by_rows else 1
        return slice(-first % step, None, step)

    def _train_loss(self) -> float:
        """Return the training loss on the evenly spaced rows of `_rows_to_report`."""
        if self._every.step > 1:
            self._reported.raw[:] = self.train.raw[:, self._every]
        return self._reported.loss(self.loss, 1)

    # The loop --------------------------------------------------

    def run(self, on_round: OnRound | None = None, end: float = math.inf) -> None:
        """Run until all rounds are done, early stopping applies, `on_round` returns True or the clock reaches `end`."""
        with self._side_by_side or _NO_CONTEXT:
            while self.n_rounds < self.rules.n_rounds and not self._stops_early:
                index = self.n_rounds
                self._round(index)
                self._measure()
                last = self.history.last_validation
                stops = on_round is not None and on_round(index, self.rules.n_rounds, self.history.train[-1], last)
                if is_any(self._data.comm, bool(stops) or time.monotonic() >= end):
                    return

    @property
    def _stops_early(self) -> bool:
        """True if the validation score has not improved by more than `tol` for `n_iter_no_change` rounds."""
        has_scale = self.loss.has_log_odds or (self.metrics is not None and not self.metrics.decide_by_loss)
        least = self.rules.tol if has_scale else self.history.least_improvement(self.rules.tol)
        return self.history.rounds_since_best(least) >= self.rules.n_iter_no_change

    def _round(self, index: int) -> None:
        """Run round `index`: draw rows and dropped trees, grow the trees, and add them to the raw predictions."""
        dropped = _NOTHING_DROPPED
        if self.dropout is not None:
            dropped = self.dropout.draw(index)
            self._rescale(dropped.rounds, -1.0)
        self.loss.start_round(self.train.y, self.train.raw, self.train.weight)
        sample = self._sample(index)
        current = Round(
            self.train,
            self._gradients,
            self._hessians,
            sample,
            (self.rules.seed << 32) + index * self.leaves.n_trees,
            self.rules.rate(index) * dropped.factor_of_new,
            self._shift(index),
            None if self.validation is None else (self._watched, self.validation.raw),
        )
        with _NO_CONTEXT if self.out_of_bag is None else self.out_of_bag.watching(self.train, sample):
            if self._side_by_side is not None:
                trees = self._side_by_side.grow(current)
            else:
                # Trees are grown sequentially because renewed leaves depend on the earlier trees.
                trees = list(map(partial(self.leaves.grow, current), range(self.leaves.n_trees)))
        for number, tree in enumerate(trees):
            self._add_to_others(tree, number)
        self.trees.extend(trees)
        self._rescale(dropped.rounds, -dropped.factor_of_old)

    def _shift(self, index: int) -> Array | None:
        """Return the values by which leaves of round `index` widen distributions to the errors on validation rows.

        The result is None if the loss needs no shift, and a recorded shift (in a refit) or None without validation
        rows. It never makes distributions narrower. Otherwise, rows that are still predicted badly would count as
        noise, and their location would not be learned.
        """
        rows = self.validation
        if rows is None or not self.history.decides or self.rules.linear_l2 is not None:
            return self.shifts.get(index)
        shift = self.loss.log_dispersion(rows.y, rows.raw, rows.weight)
        if shift is not None:
            self.shifts[index] = np.maximum(shift, 0.0)
        return self.shifts.get(index)

    def _sample(self, index: int) -> RowSample | None:
        """Set the gradients and hessians for round `index`, and return its drawn rows; None for all rows."""
        self.loss.gradients(self.train.y, self.train.raw, self._gradients, self._hessians, self.rules.n_threads)
        return None if self._sampler is None else self._sampler.draw(index, self._gradients, self._hessians)

    def _rescale(self, rounds: Sequence[int], factor: float) -> None:
        """Multiply the trees of these rounds by `factor`, and add the scaled trees to all raw predictions."""
        for index in rounds:
            first = index * self.leaves.n_trees
            for number in range(self.leaves.n_trees):
                self.trees[first + number] = scaled_tree(self.trees[first + number], factor, self._grid)
                self._add(self.trees[first + number], number)

    def _add(self, tree: Tree, tree_index: int) -> None:
        """Add a tree, number `tree_index` in its round, to training, validation and recorded raw predictions."""
        outputs = self.leaves.outputs[tree_index]
        self.leaves.add(tree, self.leaves.table, self.train.raw[outputs])
        if self.validation is not None:
            self.leaves.add(tree, self._watched, self.validation.raw[outputs])
        self._add_to_others(tree, tree_index)

    def _add_to_others(self, tree: Tree, tree_index: int) -> None:
        """Add a tree, number `tree_index` in its round, to the raw predictions of the recorded rows."""
        for table, raw in self._other_rows:
            self.leaves.add(tree, table, raw[self.leaves.outputs[tree_index]])

    def continue_from(self, trees: Sequence[Tree]) -> None:
        """Add the trees of an earlier fit, in order, round by round, and record the metrics after each round."""
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
        """The number of completed rounds."""
        return len(self.trees) // self.leaves.n_trees

    @property
    def best_round(self) -> int:
        """Number of rounds up to the best validation score, or of all rounds if there is no validation set."""
        return self.history.best_round if self.history.has_best else self.n_rounds

    def evaluations(self) -> Evaluations:
        """Return the recorded scores by set of rows (training, validation or recorded), metric and round."""
        return self.history.evaluations(self.metrics, self.others)

    def ensemble(self, n_rounds: int) -> TreeEnsemble:
        """Return the model of the first `n_rounds` rounds."""
        per_round = self.leaves.n_trees
        outputs = np.tile(np.arange(per_round), n_rounds)
        trees = self.kept_trees(n_rounds)[: n_rounds * per_round]
        return self.leaves.ensemble_type.from_trees(trees, outputs, self.baseline, self.binning)

    def best_trees(self) -> TreeEnsemble | None:
        """Return the model at the best round, whose trees DART may have rescaled since; None without DART."""
        return self.ensemble(self.best_round) if self.dropout is not None and self.history.has_best else None

    def rows_after(self, n_rounds: int) -> ScoredRows:
        """Return the training rows with their raw predictions after the first `n_rounds` rounds."""
        if n_rounds == self.n_rounds:
            return self.train
        raw, per_round = self._start(self._data), self.leaves.n_trees
        for number, tree in enumerate(self.kept_trees(n_rounds)[: n_rounds * per_round]):
            self.leaves.add(tree, self.leaves.table, raw[self.leaves.outputs[number % per_round]])
        return replace(self.train, raw=raw)

    def kept_trees(self, n_rounds: int) -> list[Tree]:
        """Return the trees as they were after `n_rounds` rounds, which with DART must be all rounds or the best."""
        return self.trees if self.dropout is None or n_rounds == self.n_rounds else self.dropout.best
