"""A tree with several outputs grown the obvious way: gains are summed over the outputs, values are vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference.growth import NaiveGrower


class NaiveJointGrower(NaiveGrower):
    """Best-first growth on gradients and hessians of shape (n_outputs, n_rows); values of nodes are not limited."""

    def grow(self, gradients, hessians, weights=None, constant_hessian=False, seed=0):
        """Return a list of nodes as `NaiveGrower` does; their values are vectors."""
        self.parts = []
        for g, h in zip(gradients, hessians, strict=True):
            # One that only holds the quantised sums of its output: it may not split.
            part = NaiveGrower(self.codes, self.n_codes, self.is_categorical, replace(self.rules, max_leaf_nodes=1))
            part.grow(g, h, weights, constant_hessian)
            self.parts.append(part)
        self.shares = 1 / len(self.parts)
        return super().grow(gradients[0], hessians[0], weights, constant_hessian, seed)

    def _dispersion(self, nodes):
        return sum(NaiveGrower._dispersion(part, nodes) for part in self.parts)

    def _node(self, rows, depth, limits, number):
        node = super()._node(rows, depth, {**limits, "lower": -np.inf, "upper": np.inf}, number)
        sums = [[(part.w[rows] * real[rows]).sum() for real in part.real] for part in self.parts]
        node["value"] = np.array([-g / (h + self.rules.l2_regularization) for g, h in sums])
        return node

    def _limits_of_children(self, node):
        below = {**node["limits"], "path": (*node["limits"]["path"], node["split"]["feature"])}
        return below, below

    def _questions(self, feature, codes, node):
        if not self.is_categorical[feature]:
            return super()._questions(feature, codes, node)
        parts = self.parts[:1] if self._is_one_hot(feature) else self.parts
        return [
            goes_left
            for part in parts
            for goes_left in self._sets(feature, codes, part._category_order(codes, node["rows"]))
        ]

    def _gain(self, node, goes_left, feature):
        rules, rows = self.rules, node["rows"]
        sides = rows[goes_left], rows[~goes_left]
        if min(self.parts[0].w[side].sum() for side in sides) < rules.min_samples_leaf:
            return -np.inf, None
        if min(self.w[side].sum() for side in sides) < rules.min_weight_leaf:
            return -np.inf, None
        hessians = [self.shares * sum(self._sums(part, side)[1] for part in self.parts) for side in sides]
        if min(hessians) < rules.min_child_weight:
            return -np.inf, None
        penalised = self.is_categorical[feature] and not self._is_one_hot(feature)
        gain = 0.0
        for part in self.parts:
            l2 = rules.l2_regularization
            side_l2 = l2 + (rules.category_l2 * part.mean_hessian / part.hessian_scale if penalised else 0.0)
            sums = [self._sums(part, side) for side in sides]
            g, h = self._sums(part, rows)
            left, right = (-g_side / (h_side + side_l2) for g_side, h_side in sums)
            if rules.monotone is not None and rules.monotone[feature] * (right - left) < 0:
                gain += g**2 / (h + 2 * side_l2)  # one value for both sides
            else:
                gain += sum(g_side**2 / (h_side + side_l2) for g_side, h_side in sums)
            gain -= g**2 / (h + l2)
        return gain, None

    @staticmethod
    def _sums(part, rows):
        return (part.w * part.g)[rows].sum() / part.gradient_scale, (part.w * part.h)[rows].sum() / part.hessian_scale
