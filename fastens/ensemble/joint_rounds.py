"""Rounds that grow one tree for several targets, with a value for each of them in every leaf."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fastens.engine.forests import ForestGrower, TreeRules, TreeSample, number_target
from fastens.engine.growth import GrowthRules
from fastens.engine.leaf_sums import add_up, leaf_sums, leaves_of_rows
from fastens.engine.row_sampling import RowSample
from fastens.engine.sampling import random_stream, stream_seeds
from fastens.engine.trees import Tree
from fastens.ensemble.dart import DartRun
from fastens.ensemble.rounds import BoostingRun

Array = NDArray[np.float64]
# A stream of random numbers of its own.
_FEATURES = 9


class JointRun(BoostingRun):
    """Rounds of one tree each.

    A tree splits where the squared error of the gradients of all outputs falls most (Friedman 2001); the values of its
    leaves are Newton steps, output by output.
    """

    def _prepare_growing(self, growth: GrowthRules) -> None:
        weight = self.train.weight
        total = len(self.train.y) if weight is None else weight.sum()
        self._growth = growth
        least_weight = growth.min_weight_leaf
        if self.loss.constant_hessian:
            least_weight = max(least_weight, growth.min_child_weight)
        self._tree_rules = TreeRules(
            "squared_error",
            max_depth=growth.max_depth,
            max_leaf_nodes=growth.max_leaf_nodes,
            min_samples_leaf=growth.min_samples_leaf,
            min_weight_leaf=least_weight,
            min_impurity_decrease=growth.min_gain_to_split / (total * self.loss.n_outputs),
            features_per_split=growth.features_per_split,
        )

    @property
    def _trees_per_round(self) -> int:
        return 1

    def _grow_all(self, sample: RowSample | None, index: int) -> list[Tree]:
        n_threads, weight = self.rules.n_threads, self._weights(sample)
        target = number_target(-self._gradients.T, np.float64)
        seed = int(stream_seeds(self.rules.seed, index, index + 1)[0])
        grower = ForestGrower(self.matrix, target, self._tree_rules, n_threads)
        tree = grower.grow([TreeSample(weight, self._features(index), seed)])[0]
        leaf = leaves_of_rows(self.matrix.columns, tree, n_threads)
        tree = replace(tree, value=self._shrunk(self._newton_steps(tree, leaf, weight)))
        self._add(tree, 0)
        return [tree]

    def _weights(self, sample: RowSample | None) -> Array | None:
        """The rows' weights, 0 for those that are left out."""
        if sample is None:
            return self.train.weight
        weight = np.zeros(len(self.train.y))
        weight[sample.rows] = 1.0 if sample.factors is None else sample.factors
        return weight if self.train.weight is None else weight * self.train.weight

    def _features(self, index: int) -> NDArray[np.intp] | None:
        """The features that a tree may split on."""
        n_features, wanted = self.matrix.n_features, self._growth.features_per_tree
        if wanted is None or wanted >= n_features:
            return None
        stream = random_stream(self.rules.seed, index + (_FEATURES << 32))
        return np.sort(stream.permutation(n_features)[:wanted])

    def _newton_steps(self, tree: Tree, leaf: NDArray[np.intp], weight: Array | None) -> Array:
        """-G / (H + l2) of every node and output (Chen & Guestrin 2016, eq. 5)."""
        steps = np.zeros((tree.n_nodes, self.loss.n_outputs))
        for output in range(self.loss.n_outputs):
            gradient, hessian = (
                leaf_sums(leaf, values[output], weight, tree.n_nodes) for values in (self._gradients, self._hessians)
            )
            add_up(gradient, tree.left_child)
            add_up(hessian, tree.left_child)
            denominator = hessian + self._growth.l2_regularization
            np.divide(-gradient, denominator, out=steps[:, output], where=denominator > 0)
        limit = self._growth.max_delta_step
        return steps if limit is None else np.clip(steps, -limit, limit)

    def _add(self, tree: Tree, output: int, *, is_last_grown: bool = False) -> None:
        """Add the tree's values to the raw predictions of all rows and outputs."""
        n_threads = self.rules.n_threads
        self.train.raw += tree.value.T[:, leaves_of_rows(self.matrix.columns, tree, n_threads)]
        if self.validation is not None:
            self.validation.rows.raw += tree.value.T[:, leaves_of_rows(self.validation.codes, tree, n_threads)]


class JointDartRun(DartRun, JointRun):
    """The same with DART: what a round leaves out are earlier trees with all their values."""
