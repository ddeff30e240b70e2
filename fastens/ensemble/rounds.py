"""The rounds of gradient boosting: gradients, a tree per output, update, stop? (Friedman 2001)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastens.engine.growth import GrowthRules, TreeGrower
from fastens.engine.sampling import sample_rows
from fastens.engine.trees import Tree, TreeEnsemble, add_tree_to_raw

if TYPE_CHECKING:
    from fastens.engine.binning import BinnedMatrix, Binning
    from fastens.engine.losses import Loss

Array = NDArray[np.float64]
OnRound = Callable[[int, int, float, float | None], None]

# The training loss is a report, not a rule: this many rows, evenly spaced, give it.
HISTORY_ROWS = 10_000


@dataclass(frozen=True)
class BoostingRules:
    """What the rounds do besides growing trees.

    Attributes
    ----------
    n_rounds : int
        Most rounds to run.
    learning_rate : float
        Factor of every leaf value.
    subsample : float
        Share of the rows that a round's trees are grown on.
    n_iter_no_change, tol : int, float
        With validation rows: stop when so many rounds in a row have not lowered their loss by more than `tol`.
    seed : int
        Of the rows and features drawn.
    n_threads : int
        Number of threads.
    """

    n_rounds: int
    learning_rate: float
    subsample: float
    n_iter_no_change: int
    tol: float
    seed: int
    n_threads: int


@dataclass
class Rows:
    """Some rows with their targets, weights and raw predictions (n_outputs, n_rows)."""

    y: Array
    weight: Array | None
    raw: Array

    def loss(self, loss: Loss, n_threads: int) -> float:
        """Mean loss."""
        return loss.loss(self.y, self.raw, self.weight, n_threads)


@dataclass
class History:
    """Loss after each round."""

    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)

    @property
    def last_validation(self) -> float | None:
        """The latest validation loss, if there is one."""
        return self.validation[-1] if self.validation else None

    def rounds_since_best(self, tol: float) -> int:
        """Rounds since the validation loss last went down by more than `tol`."""
        best, since = np.inf, 0
        for loss in self.validation:
            best, since = (loss, 0) if loss < best - tol else (best, since + 1)
        return since


class BoostingRun:
    """One fit: holds what a round needs and keeps the trees.

    Parameters
    ----------
    matrix : BinnedMatrix
        Training rows.
    y : float64 array of shape (n_rows,)
        Targets; class indices in classification.
    sample_weight : float64 array or None
        Positive weights.
    loss : Loss
        What to lower.
    growth : GrowthRules
        Limits of the trees.
    rules : BoostingRules
        Everything else.
    """

    def __init__(
        self,
        matrix: BinnedMatrix,
        y: Array,
        sample_weight: Array | None,
        loss: Loss,
        growth: GrowthRules,
        rules: BoostingRules,
    ) -> None:
        self.loss, self.rules = loss, rules
        self.matrix = matrix
        self.baseline = loss.start(y, sample_weight)
        self.train = Rows(y, sample_weight, self._start(len(y)))
        self.validation: Rows | None = None
        self.trees: list[Tree] = []
        self.history = History()
        self._validation_codes: NDArray[np.unsignedinteger] | None = None
        self._grower = TreeGrower(
            matrix,
            growth,
            sample_weight,
            constant_hessian=loss.constant_hessian,
            renews_leaves=loss.renews_leaves,
            n_threads=rules.n_threads,
        )
        self._gradients = np.empty(self.train.raw.shape, dtype=np.float32)
        self._hessians = np.ones(self.train.raw.shape, dtype=np.float32)

    def _start(self, n_rows: int) -> Array:
        return np.repeat(self.baseline[:, None], n_rows, axis=1)

    def validate_on(self, codes: NDArray[np.unsignedinteger], y: Array, sample_weight: Array | None) -> None:
        """Watch the loss on other rows, given as codes of shape (n_features, n_rows)."""
        self._validation_codes = codes
        self.validation = Rows(y, sample_weight, self._start(len(y)))

    def run(self, on_round: OnRound | None = None) -> None:
        """Run all rounds, or until the validation loss no longer falls."""
        for index in range(self.rules.n_rounds):
            self._round(index)
            self.history.train.append(self._train_loss())
            if self.validation is not None:
                self.history.validation.append(self.validation.loss(self.loss, self.rules.n_threads))
            if on_round is not None:
                on_round(index, self.rules.n_rounds, self.history.train[-1], self.history.last_validation)
            if self.history.rounds_since_best(self.rules.tol) >= self.rules.n_iter_no_change:
                return

    def _round(self, index: int) -> None:
        train, n_threads = self.train, self.rules.n_threads
        self.loss.start_round(train.y, train.raw, train.weight)
        self.loss.gradients(train.y, train.raw, self._gradients, self._hessians, n_threads)
        rows = sample_rows(len(train.y), self.rules.subsample, self.rules.seed, index)
        grown = [self._grow(output, rows, index) for output in range(self.loss.n_outputs)]
        self.trees.extend(grown)

    def _grow(self, output: int, rows: NDArray[np.uint32] | None, index: int) -> Tree:
        """Grow the tree of one output and add it to the raw predictions."""
        n_threads = self.rules.n_threads
        raw = self.train.raw[output]
        seed = (self.rules.seed << 32) + index * self.loss.n_outputs + output
        tree = self._grower.grow(self._gradients[output], self._hessians[output], rows, seed % 2**64)
        if self.loss.renews_leaves:
            tree = self._grower.renew_leaves(tree, self.loss.of_output(output), self.train.y - raw, n_threads)
        tree = replace(tree, value=self.rules.learning_rate * self.loss.damped(tree.value))
        if rows is None:
            self._grower.add_values(tree.value, raw)
        else:
            add_tree_to_raw(self.matrix.columns, tree, raw, n_threads)
        if self.validation is not None and self._validation_codes is not None:
            add_tree_to_raw(self._validation_codes, tree, self.validation.raw[output], n_threads)
        return tree

    def _train_loss(self) -> float:
        step = max(1, len(self.train.y) // HISTORY_ROWS) if self.loss.by_rows else 1
        if step == 1:
            return self.train.loss(self.loss, 1)
        weight = None if self.train.weight is None else self.train.weight[::step]
        some = Rows(np.ascontiguousarray(self.train.y[::step]), weight, np.ascontiguousarray(self.train.raw[:, ::step]))
        return some.loss(self.loss, 1)

    @property
    def n_rounds(self) -> int:
        """Rounds completed."""
        return len(self.trees) // self.loss.n_outputs

    @property
    def best_round(self) -> int:
        """The number of rounds with the lowest validation loss; all rounds where nothing was validated."""
        if not self.history.validation:
            return self.n_rounds
        return int(np.argmin(self.history.validation)) + 1

    def ensemble(self, binning: Binning, n_rounds: int) -> TreeEnsemble:
        """Return the first rounds' trees as a model."""
        n_outputs = self.loss.n_outputs
        trees = self.trees[: n_rounds * n_outputs]
        return TreeEnsemble.from_trees(trees, np.tile(np.arange(n_outputs), n_rounds), self.baseline, binning)
