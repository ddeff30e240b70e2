"""What a round grows: trees with a constant in each leaf, with one for every output, or with a linear model."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.round import Array, Gradients, Outputs, Problem, Round, Table, on_grid
from fastens.engine.bins.bundles import bundled
from fastens.engine.bins.places import pages_held
from fastens.engine.bins.sparse_binned import AnyCodes, AnyMatrix, SparseMatrix
from fastens.engine.grow.growth import GrowthRules, RowWeights, TreeGrower
from fastens.engine.linear.linear_leaves import LeafModels, LinearEnsemble, LinearTree
from fastens.engine.linear.linear_limits import lines_within_limits
from fastens.engine.parts import as_array
from fastens.engine.trees.adding import add_tree_to_raw
from fastens.engine.trees.leaf_sums import leaves_of_rows
from fastens.engine.trees.trees import Tree, TreeEnsemble

if TYPE_CHECKING:
    from fastens.engine.losses.losses import Loss


class ConstantLeaves:
    """A tree for each output, with a constant in every leaf."""

    ensemble_type: ClassVar[type[TreeEnsemble]] = TreeEnsemble
    # Whether several threads may each grow whole trees of a round.
    grow_apart: ClassVar[bool] = True
    n_trees: int  # of a round
    outputs: list[Outputs]  # for each of them the raw predictions that it has values for

    def __init__(self, problem: Problem, growth: GrowthRules) -> None:
        self.problem = problem._replace(matrix=self._arranged(problem, growth))
        # Values are cut after the loss has damped them; growth leaves the Newton steps as long as that needs.
        self.most = np.inf if growth.max_delta_step is None else growth.max_delta_step
        self.growth = (
            growth if np.isinf(self.most) else replace(growth, max_delta_step=newton_limit(problem.loss, self.most))
        )
        self.n_trees = problem.loss.n_outputs
        self.outputs = list(range(self.n_trees))
        self.grower = self._new_grower()

    def _arranged(self, problem: Problem, growth: GrowthRules) -> AnyMatrix:
        """The rows as growing reads them best."""
        if isinstance(problem.matrix, SparseMatrix):
            return problem.matrix
        return bundled(problem.matrix, growth.max_leaf_nodes, problem.n_threads)

    def _new_grower(self) -> TreeGrower:
        problem = self.problem
        return TreeGrower(
            problem.matrix,
            self.growth,
            RowWeights.of(problem.weight, problem.matrix.n_rows, problem.matrix.comm, problem.own_weight),
            constant_hessian=problem.constant_hessian,
            renews_leaves=problem.loss.renews_leaves,
            n_threads=problem.n_threads,
        )

    def on_one_thread(self, matrix: AnyMatrix) -> ConstantLeaves:
        """Return the same for one of several threads, on rows of its own."""
        worker = copy(self)
        worker.problem = self.problem._replace(matrix=matrix, n_threads=1)
        worker.grower = worker._new_grower()
        return worker

    @property
    def table(self) -> Table:
        """The training rows."""
        return Table(self.problem.matrix.columns, pages=self.problem.matrix.pages)

    def table_of(self, codes: AnyCodes, X: Any) -> Table:
        """Other rows, given as codes and as they are."""
        return Table(codes, pages=pages_held(codes, X))

    def grow(self, this: Round, number: int) -> Tree:
        """Grow a tree of a round, give its leaves their values, and add it to the raw predictions."""
        outputs, rows = self.outputs[number], this.rows
        gradients, hessians = derivatives = this.derivatives(outputs)
        self._set_rules(number, rows)
        tree = self.grower.grow(gradients, hessians, rows, this.seed(number))
        if self.problem.loss.renews_leaves:
            tree = self._renewed(tree, this, number)
        tree = self._finished(tree, this, number, derivatives)
        if rows is None:
            self._add_grown(tree, this.train.raw[outputs])
        else:
            self.add(tree, self.table, this.train.raw[outputs])
        if this.watched is not None:
            table, raw = this.watched
            self.add(tree, table, raw[outputs])
        return tree

    def _set_rules(self, number: int, rows: NDArray[np.uint32] | None) -> None:
        """The rules of a tree that follow from the losses of its outputs."""
        losses = self._losses_of(number)
        self.grower.noise_units = [loss.noise_unit for loss in losses]
        if self.growth.min_samples_tail > 0:
            n_rows = self.grower.row_weights.n_copies_of(rows)
            self.grower.set_fewest_rows(self.growth.fewest_rows(min(loss.tail for loss in losses), n_rows))

    def _losses_of(self, number: int) -> list[Loss]:
        """The losses of the outputs that a round's tree has values for."""
        return [self._loss_of(number)]

    def _renewed(self, tree: Tree, this: Round, output: int, column: int = 0) -> Tree:
        """The tree just grown with values of an output that follow from its residuals."""
        loss, train = self.problem.loss, this.train
        factors = None if this.sample is None else this.sample.factors
        residuals = loss.residuals(train.y, train.raw, output)
        return self.grower.renew_leaves(
            tree, loss.of_output(output), residuals, self.problem.n_threads, factors, column
        )

    def _finished(self, tree: Tree, this: Round, number: int, derivatives: tuple[Gradients, Gradients]) -> Tree:
        """The tree just grown with the values that the model has."""
        tree.value[:] = self._shrunk(tree.value, this.rate, number)
        return tree

    def _shrunk(self, values: Array, rate: float, number: int) -> Array:
        steps = np.clip(self._loss_of(number).damped(values), -self.most, self.most)
        return on_grid(rate * steps, self.problem.grid)

    def _loss_of(self, number: int) -> Loss:
        """The loss that the values of a round's tree are steps of."""
        return self.problem.loss.of_output(number)

    def _add_grown(self, tree: Tree, raw: Array) -> None:
        """Add the tree just grown on all rows, whose leaves the grower still knows."""
        self.grower.add_values(tree.value, raw)

    def add(self, tree: Tree, table: Table, raw: Array) -> None:
        """Add a tree to the raw predictions of rows that it has values for."""
        add_tree_to_raw(table.codes, tree, raw, self.problem.n_threads, table.pages)


class JointLeaves(ConstantLeaves):
    """One tree, with a value for each output in every leaf; its splits gain most for the sum of the losses."""

    grow_apart = False

    def __init__(self, problem: Problem, growth: GrowthRules) -> None:
        super().__init__(problem, growth)
        self.n_trees, self.outputs = 1, [slice(None)]

    def _arranged(self, problem: Problem, growth: GrowthRules) -> AnyMatrix:
        return problem.matrix.with_payloads(problem.loss.n_outputs)

    def _renewed(self, tree: Tree, this: Round, output: int, column: int = 0) -> Tree:
        for each in range(self.problem.loss.n_outputs):
            tree = super()._renewed(tree, this, each, column=each)
        return tree

    def _loss_of(self, number: int) -> Loss:
        return self.problem.loss

    def _losses_of(self, number: int) -> list[Loss]:
        loss = self.problem.loss
        return [loss.of_output(output) for output in range(loss.n_outputs)]

    def add(self, tree: Tree, table: Table, raw: Array) -> None:
        """Add a tree to all raw predictions."""
        raw += tree.value.T[:, leaves_of_rows(table.codes, tree, self.problem.n_threads, table.pages)]


class LinearModels(ConstantLeaves):
    """A tree for each output, with a linear model in every leaf.

    Splits are chosen as for constant leaves. A leaf's value stays; beside it a ridge regression of the second-order
    objective finds slopes for the features on its path. Where values have limits, lines are made to keep to them. On a
    grid, what a tree adds to a row is rounded, so that it leaves no trace when it is taken out.
    """

    ensemble_type = LinearEnsemble
    # Models of leaves share their working memory.
    grow_apart = False

    def __init__(self, problem: Problem, growth: GrowthRules, X: Any, l2: float) -> None:
        super().__init__(problem, growth)
        is_categorical = np.asarray(problem.matrix.is_categorical, dtype=bool)
        l2 *= self.grower.unit
        weights = self.grower.row_weights
        self._models = LeafModels(as_array(X), is_categorical, weights, l2, problem.n_threads, growth.monotone)
        self._has_limits = growth.monotone is not None or growth.max_delta_step is not None

    @property
    def table(self) -> Table:
        """The training rows."""
        return Table(self.problem.matrix.columns, self._models.X, self.problem.matrix.pages)

    def table_of(self, codes: AnyCodes, X: Any) -> Table:
        """Other rows, given as codes and as they are."""
        return Table(codes, as_array(X), pages_held(codes, X))

    def _finished(self, tree: Tree, this: Round, number: int, derivatives: tuple[Gradients, Gradients]) -> Tree:
        rate = this.rate * damping(self._loss_of(number), tree.value[:, 0])
        finished = super()._finished(tree, this, number, derivatives)
        linear = self._models.fit(finished, self.grower.leaves(), *derivatives, rate)
        if self._has_limits:
            most = on_grid(np.array([this.rate * self.most]), self.problem.grid)[0] if self.most < np.inf else np.inf
            linear = lines_within_limits(finished, linear, self.growth.monotone, most)
        return LinearTree(**vars(finished), linear=linear)

    def _add_grown(self, tree: Tree, raw: Array) -> None:
        if self._has_limits or self.problem.grid is not None:
            self.add(tree, self.table, raw)
        else:
            raw += self._models.fitted

    def add(self, tree: Tree, table: Table, raw: Array) -> None:
        """Add a tree to the raw predictions of rows."""
        assert isinstance(tree, LinearTree)
        n_threads, grid = self.problem.n_threads, self.problem.grid
        added = raw if grid is None else np.zeros_like(raw)
        tree.add(table.X, leaves_of_rows(table.codes, tree, n_threads, table.pages), added, n_threads)
        if grid is not None:
            raw += on_grid(added, grid)


def newton_limit(loss: Loss, most: float) -> float:
    """The Newton step from which on the damped steps of all outputs are at least `most` long, on either side.

    `most` itself where the loss damps no steps up to it, or none that long.
    """
    losses = [loss.of_output(output) for output in range(loss.n_outputs)]

    def is_long(step: float) -> bool:
        return all(abs(float(each.damped(np.array([side * step]))[0])) >= most for each in losses for side in (-1, 1))

    high = most
    while not is_long(high) and high < 2.0**100:
        high *= 2
    if high == most or not is_long(high):
        return most
    low = high / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_long(middle) else (middle, high)
    return high


def damping(loss: Loss, steps: Array) -> Array:
    """By how much a loss shortens steps: the models of leaves are damped as their values are."""
    return np.divide(loss.damped(steps), steps, out=np.ones_like(steps), where=steps != 0)
