"""The rounds of gradient boosting: gradients, a tree per output, update, stop? (Friedman 2001)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.row_sampling import RowSample, RowSampler, RowSampling
from fastens.boosting.side_by_side import SideBySide
from fastens.engine.bins.bundles import bundled
from fastens.engine.grow.growth import GrowthRules, TreeGrower
from fastens.engine.trees.trees import Tree, TreeEnsemble, add_tree_to_raw
from fastens.monitoring.measuring import History, OutOfBagSums, Rows, Validation

if TYPE_CHECKING:
    from fastens.base import TrainingData
    from fastens.boosting.dart import DartRules
    from fastens.engine.bins.binning import Binning
    from fastens.engine.losses.losses import Loss

Array = NDArray[np.float64]
# What is called after each round, with its number, the number of rounds to come at most, and the losses; a true answer
# ends the training.
OnRound = Callable[[int, int, float, float | None], Any]

# The training loss is a report, not a rule: no more rows than this, evenly spaced, give it.
HISTORY_ROWS = 4_000
ALL_ROWS = RowSampling()


@dataclass(frozen=True)
class BoostingRules:
    """What the rounds do besides growing trees.

    Attributes
    ----------
    n_rounds : int
        Most rounds to run.
    learning_rate : float
        Factor of every leaf value.
    n_iter_no_change, tol : int, float
        With validation rows: stop when so many rounds in a row have not lowered their loss by more than `tol`.
    seed : int
        Of the rows and features drawn.
    n_threads : int
        Number of threads.
    sampling : RowSampling
        Which rows a round's trees are grown on.
    out_of_bag : bool
        Keep what the trees say of the rows that they were not grown on.
    dart : DartRules or None
        Which earlier trees a round leaves out; None for none.
    linear_l2 : float or None
        The penalty of linear models in the leaves; None for constant leaves.
    """

    n_rounds: int
    learning_rate: float
    n_iter_no_change: int
    tol: float
    seed: int
    n_threads: int
    sampling: RowSampling = ALL_ROWS
    out_of_bag: bool = False
    dart: DartRules | None = None
    linear_l2: float | None = None


@dataclass(frozen=True)
class Start:
    """What the rounds begin with besides the data.

    Attributes
    ----------
    hashes : uint64 array of shape (n_rows,) or None
        What makes the rows' random numbers; where it is given, rows are drawn.
    baseline : float64 array of shape (n_outputs,) or None
        The raw prediction before the first tree; None for that of least loss.
    """

    hashes: NDArray[np.uint64] | None = None
    baseline: Array | None = None


class BoostingRun:
    """One fit: holds what a round needs and keeps the trees.

    Parameters
    ----------
    binning : Binning
        What turns rows into codes.
    data : TrainingData
        Training rows with their targets (class indices in classification), weights and offsets.
    loss : Loss
        What to lower.
    growth : GrowthRules
        Limits of the trees.
    rules : BoostingRules
        Everything else.
    start : Start, optional
        What else it begins with.
    """

    _ensemble_type: ClassVar[type[TreeEnsemble]] = TreeEnsemble
    changes_trees: ClassVar[bool] = False
    _side_by_side: SideBySide | None = None

    def __init__(
        self,
        binning: Binning,
        data: TrainingData,
        loss: Loss,
        growth: GrowthRules,
        rules: BoostingRules,
        start: Start | None = None,
    ) -> None:
        start = start or Start()
        self.loss, self.rules, self.binning, self._data = loss, rules, binning, data._replace(X=None)
        self.matrix = binning.transform(data.X, rules.n_threads)
        self.baseline = self._baseline(data) if start.baseline is None else start.baseline
        self.train = Rows(data.y, data.sample_weight, self._start(data))
        self._reported = self.train.take(self._every)
        self.validation: Validation | None = None
        self.trees: list[Tree] = []
        self.history = History()
        self._sampler = None
        if start.hashes is not None:
            self._sampler = RowSampler(rules.sampling, start.hashes, data.sample_weight, rules.seed)
        self._growth = growth
        self._prepare_growing(growth)
        self._gradients = np.empty(self.train.raw.shape, dtype=np.float32)
        self._hessians = np.ones(self.train.raw.shape, dtype=np.float32)
        self.out_of_bag = OutOfBagSums(*self.train.raw.shape) if rules.out_of_bag else None
        self._start_raw = self.train.raw.copy() if rules.out_of_bag else None

    def _baseline(self, data: TrainingData) -> Array:
        """The raw prediction before the first tree; 0 where rows have one of their own."""
        return self.loss.start(data.y, data.sample_weight) if data.offset is None else np.zeros(self.loss.n_outputs)

    def _prepare_growing(self, growth: GrowthRules) -> None:
        self.matrix = bundled(self.matrix, growth.max_leaf_nodes, self.rules.n_threads)
        self._grower = self._new_grower(growth)
        # Leaves are renewed from what the outputs before have become; models of leaves share their working memory.
        if not self.loss.renews_leaves and self.rules.linear_l2 is None:
            self._side_by_side = SideBySide.of(self, growth, self._growing())
        if self._side_by_side is not None and not self._side_by_side.needs_others:
            self.rules = replace(self.rules, n_threads=1)

    def _new_grower(self, growth: GrowthRules) -> TreeGrower:
        return TreeGrower(self.matrix, growth, self.train.weight, **self._growing())

    def on_one_thread(self, grower: TreeGrower) -> BoostingRun:
        """Return the same run for one of several threads, with a grower of its own."""
        worker = copy(self)
        worker._grower, worker.rules = grower, replace(self.rules, n_threads=1)
        return worker

    def _growing(self) -> dict[str, Any]:
        """What a grower is told besides."""
        return {
            "constant_hessian": self.loss.constant_hessian and not (self._sampler and self.rules.sampling.reweights),
            "renews_leaves": self.loss.renews_leaves,
            "n_threads": self.rules.n_threads,
        }

    def _start(self, data: TrainingData) -> Array:
        if data.offset is not None:
            return self.baseline[:, None] + data.offset
        return np.full((len(self.baseline), len(data.y)), self.baseline[:, None])

    def validate_on(self, codes: NDArray[np.unsignedinteger], data: TrainingData) -> None:
        """Watch other rows, given as codes of shape (n_features, n_rows)."""
        self.validation = Validation(codes, Rows(data.y, data.sample_weight, self._start(data)))

    def continue_from(self, trees: Sequence[Tree]) -> None:
        """Begin after rounds that were run before, as if this run had made them."""
        per_round = self._trees_per_round
        for first in range(0, len(trees), per_round):
            self.loss.start_round(self.train.y, self.train.raw, self.train.weight)
            with self._asking_left_out(None if self.out_of_bag is None else self._draw(self.n_rounds)):
                for output, tree in enumerate(trees[first : first + per_round]):
                    self._add(tree, output)
            self.trees.extend(trees[first : first + per_round])
            self._measure()

    @property
    def _trees_per_round(self) -> int:
        return self.loss.n_outputs

    def run(self, on_round: OnRound | None = None) -> None:
        """Run all rounds, or until the validation loss no longer falls or `on_round` says so."""
        with self._side_by_side or nullcontext():
            while self.n_rounds < self.rules.n_rounds and not self._is_over:
                index = self.n_rounds
                self._round(index)
                self._measure()
                last = self.history.last_validation
                if on_round is not None and on_round(index, self.rules.n_rounds, self.history.train[-1], last):
                    return

    def _measure(self) -> None:
        self.history.train.append(self._train_loss())
        if self.validation is not None:
            self.history.validation.append(self.validation.score(self.loss, self.rules.n_threads))

    @property
    def _is_over(self) -> bool:
        return self.history.rounds_since_best(self.rules.tol) >= self.rules.n_iter_no_change

    def _round(self, index: int) -> None:
        self.loss.start_round(self.train.y, self.train.raw, self.train.weight)
        sample = self._draw(index)
        with self._asking_left_out(sample):
            self.trees.extend(self._grow_all(sample, index))

    def _find_gradients(self) -> None:
        self.loss.gradients(self.train.y, self.train.raw, self._gradients, self._hessians, self.rules.n_threads)

    def _draw(self, index: int) -> RowSample | None:
        """The gradients of a round, and the rows that it sees; None for all."""
        self._find_gradients()
        return None if self._sampler is None else self._sampler.draw(index, self._gradients, self._hessians)

    @contextmanager
    def _asking_left_out(self, sample: RowSample | None) -> Iterator[None]:
        """Keep what a round, added meanwhile, says of the rows that it did not see."""
        if self.out_of_bag is None or sample is None:
            yield
            return
        left_out = np.setdiff1d(np.arange(self.train.raw.shape[1]), sample.rows, assume_unique=True)
        before = self.train.take(left_out)
        yield
        self.out_of_bag.add(left_out, before, self.train.take(left_out), self.loss, self.rules.n_threads)

    def _grow_all(self, sample: RowSample | None, index: int) -> list[Tree]:
        """Grow the trees of a round and add them to the raw predictions."""
        if self._side_by_side is not None:
            return self._side_by_side.grow(self, sample, index)
        return [self.grow(output, sample, index) for output in range(self._trees_per_round)]

    def grow(self, output: int, sample: RowSample | None, index: int) -> Tree:
        """Grow the tree of one output and add it to the raw predictions."""
        rows = None if sample is None else sample.rows
        seed = ((self.rules.seed << 32) + index * self._trees_per_round + output) % 2**64
        gradients, hessians = self._derivatives(output, sample)
        tree = self._grower.grow(gradients, hessians, rows, seed)
        if self.loss.renews_leaves:
            tree = self._renewed(tree, output, sample)
        tree = self._finished(tree, output, gradients, hessians)
        self._add(tree, output, is_last_grown=rows is None)
        return tree

    def _renewed(self, tree: Tree, output: int, sample: RowSample | None, column: int = 0) -> Tree:
        """The tree just grown with values of an output that follow from its residuals."""
        factors = None if sample is None else sample.factors
        residuals = self.loss.residuals(self.train.y, self.train.raw, output)
        loss = self.loss.of_output(output)
        return self._grower.renew_leaves(tree, loss, residuals, self.rules.n_threads, factors, column)

    def _finished(self, tree: Tree, output: int, gradients: NDArray[np.float32], hessians: NDArray[np.float32]) -> Tree:
        """The tree just grown, its values made those that the model has."""
        tree.value[:] = self._shrunk(tree.value, self._loss_of(output))
        return tree

    def _shrunk(self, values: Array, loss: Loss) -> Array:
        """What a tree with such values adds."""
        return self._rate * loss.damped(values)

    @property
    def _rate(self) -> float:
        """What the trees of a round are multiplied by."""
        return self.rules.learning_rate

    def _loss_of(self, output: int) -> Loss:
        """The loss that the values of an output's trees are steps of."""
        return self.loss.of_output(output)

    def _derivatives(
        self, output: int | slice, sample: RowSample | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gradients and hessians of outputs; those of rows that stand for others are multiplied."""
        gradients, hessians = self._gradients[output], self._hessians[output]
        if sample is None or sample.factors is None:
            return gradients, hessians
        gradients, hessians = gradients.copy(), hessians.copy()
        gradients[..., sample.rows] *= sample.factors
        hessians[..., sample.rows] *= sample.factors
        return gradients, hessians

    def _add(self, tree: Tree, output: int, *, is_last_grown: bool = False) -> None:
        """Add a tree's values to the raw predictions of all rows."""
        n_threads = self.rules.n_threads
        if is_last_grown:
            self._grower.add_values(tree.value, self.train.raw[output])
        else:
            add_tree_to_raw(self.matrix.columns, tree, self.train.raw[output], n_threads)
        if self.validation is not None:
            add_tree_to_raw(self.validation.codes, tree, self.validation.rows.raw[output], n_threads)

    @property
    def _every(self) -> slice:
        """The training rows that tell their loss."""
        return slice(None, None, -(-len(self.train.y) // HISTORY_ROWS) if self.loss.by_rows else 1)

    def _train_loss(self) -> float:
        if self._every.step > 1:
            self._reported.raw[:] = self.train.raw[:, self._every]
        return self._reported.loss(self.loss, 1)

    @property
    def n_rounds(self) -> int:
        """Rounds completed."""
        return len(self.trees) // self._trees_per_round

    @property
    def best_round(self) -> int:
        """The number of rounds with the lowest validation loss; all rounds where nothing was validated."""
        return self.history.best_round if self.history.validation else self.n_rounds

    def out_of_bag_raw(self) -> Array:
        """Raw predictions of the training rows by trees that have not seen them, (n_outputs, n_rows)."""
        assert self.out_of_bag is not None
        assert self._start_raw is not None
        return self.out_of_bag.raw(self._start_raw, len(self.out_of_bag.improvement))

    def ensemble(self, n_rounds: int) -> TreeEnsemble:
        """Return the first rounds' trees as a model."""
        n_trees = n_rounds * self._trees_per_round
        outputs = np.tile(np.arange(self._trees_per_round), n_rounds)
        trees = self.kept_trees(n_rounds)[:n_trees]
        return self._ensemble_type.from_trees(trees, outputs, self.baseline, self.binning)

    def raw_after(self, n_rounds: int) -> Array:
        """Raw predictions of the training rows by the first rounds' trees, (n_outputs, n_rows)."""
        if n_rounds == self.n_rounds:
            return self.train.raw
        apart = copy(self)
        apart.train, apart.validation = replace(self.train, raw=self._start(self._data)), None
        for index, tree in enumerate(self.kept_trees(n_rounds)[: n_rounds * self._trees_per_round]):
            apart._add(tree, index % self._trees_per_round)
        return apart.train.raw

    def restore_best(self, trees: list[Tree]) -> None:
        """Take the trees of the best round as they were, where later ones change them."""

    def kept_trees(self, n_rounds: int) -> list[Tree]:
        """The trees as they were after so many rounds."""
        return self.trees
