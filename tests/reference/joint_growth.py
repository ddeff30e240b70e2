"""A tree with several outputs grown the obvious way: gains are summed over the outputs, values are vectors."""

from __future__ import annotations

import numpy as np

from reference.growth import NaiveGrower


class NaiveJointGrower(NaiveGrower):
    """Best-first growth on gradients and hessians of shape (n_outputs, n_rows); values of nodes are not limited."""

    def grow(self, gradients, hessians, weights=None, constant_hessian=False, seed=0):
        """Return a list of nodes as `NaiveGrower` does; their values are vectors."""
        self.parts = []
        for g, h in zip(gradients, hessians, strict=True):
            part = NaiveGrower(self.codes, self.n_codes, self.is_categorical, self.rules)
            part.learn(g, h, weights, constant_hessian)
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

    def _gains(self, node, goes_left, feature):
        rules, l2 = self.rules, self.rules.l2_regularization
        sign = self._sign(feature)
        is_penalised = self.is_categorical[feature] and not self._is_one_hot(feature)
        is_allowed, gain, hessians = True, 0.0, np.zeros((2, len(goes_left)))
        for part in self.parts:
            side_l2 = l2 + (rules.category_l2 * part.mean_hessian / part.hessian_scale if is_penalised else 0.0)
            sides = part.sums_of_sides(node["rows"], goes_left)
            (copies, g_left, h_left), (others, g_right, h_right), (_, g, h) = (
                (n, gradient / part.gradient_scale, hessian / part.hessian_scale)
                for n, gradient, hessian in (*sides, sides[0] + sides[1])
            )
            is_allowed &= np.minimum(copies, others) >= max(rules.min_samples_leaf, rules.min_weight_leaf)
            hessians += [h_left, h_right]
            with np.errstate(invalid="ignore", divide="ignore"):  # where one side is empty
                left, right = -g_left / (h_left + side_l2), -g_right / (h_right + side_l2)
                apart = g_left**2 / (h_left + side_l2) + g_right**2 / (h_right + side_l2)
            together = g**2 / (h + 2 * side_l2)  # one value for both sides
            gain = gain + np.where(sign * (right - left) < 0, together, apart) - g**2 / (h + l2)
        is_allowed &= self.shares * hessians.min(axis=0) >= rules.min_child_weight
        return (np.where(is_allowed, gain, -np.inf),)
