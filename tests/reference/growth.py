"""A tree grown the obvious way, in NumPy: the specification of the growth kernels."""

from __future__ import annotations

import numpy as np


def quantise(gradients, hessians, constant_hessian=False):
    """Round to 12 and 10 bits (21 and 1 where hessians are constant), as kernels/quantise.pyx documents it."""
    gradient_bits, hessian_bits = (21, 1) if constant_hessian else (12, 10)
    gradient_scale = (2.0 ** (gradient_bits - 1) - 1) / np.abs(gradients.astype(np.float64)).max()
    hessian_scale = 1.0 if constant_hessian else (2.0**hessian_bits - 1) / hessians.astype(np.float64).max()
    g = np.rint(gradients.astype(np.float64) * gradient_scale).astype(np.int64)
    h = np.maximum(1, np.rint(hessians.astype(np.float64) * hessian_scale).astype(np.int64))
    return g, h, gradient_scale, hessian_scale


class NaiveGrower:
    """Best-first growth; `rules` are GrowthRules; `codes` is (n_features, n_rows)."""

    def __init__(self, codes, n_codes, is_categorical, rules):
        self.codes, self.n_codes, self.is_categorical, self.rules = (
            codes.astype(np.int64),
            n_codes,
            is_categorical,
            rules,
        )

    def grow(self, gradients, hessians, weights=None, constant_hessian=False):
        """Return a list of nodes: dicts with rows, value and, where split, gain, feature, left mask and children."""
        self.g, self.h, self.gradient_scale, self.hessian_scale = quantise(gradients, hessians, constant_hessian)
        self.real = gradients.astype(np.float64), hessians.astype(np.float64)
        self.w = np.ones(len(self.g), dtype=np.int64) if weights is None else weights.astype(np.int64)
        nodes = [self._node(np.arange(len(self.g)), 0)]
        n_leaves, limit = 1, self.rules.max_leaf_nodes or np.inf
        while n_leaves < limit:
            open_nodes = [i for i, node in enumerate(nodes) if node["split"] and "children" not in node]
            if not open_nodes:
                break
            best = max(open_nodes, key=lambda i: (nodes[i]["split"]["gain"], -i))
            node = nodes[best]
            goes_left = node["split"]["goes_left"]
            node["children"] = (len(nodes), len(nodes) + 1)
            nodes.append(self._node(node["rows"][goes_left], node["depth"] + 1))
            nodes.append(self._node(node["rows"][~goes_left], node["depth"] + 1))
            n_leaves += 1
        return nodes

    def _node(self, rows, depth):
        gradient, hessian = (self.w[rows] * self.real[0][rows]).sum(), (self.w[rows] * self.real[1][rows]).sum()
        value = -gradient / (hessian + self.rules.l2_regularization)
        may_split = depth < (self.rules.max_depth or np.inf) and len(rows) >= 2 * self.rules.min_samples_leaf
        return {"rows": rows, "depth": depth, "value": value, "split": self._best_split(rows) if may_split else None}

    def _best_split(self, rows):
        best = None
        for feature in range(len(self.codes)):
            codes = self.codes[feature, rows]
            for goes_left in self._questions(feature, codes, rows):
                gain = self._gain(rows, goes_left, self.is_categorical[feature])
                if gain is not None and gain > self.rules.min_gain_to_split and (best is None or gain > best["gain"]):
                    best = {"gain": gain, "feature": feature, "goes_left": goes_left}
        return best

    def _questions(self, feature, codes, rows):
        """The rows that go left, for every split of the feature, in the order in which ties are decided."""
        if self.is_categorical[feature]:
            order = self._category_order(codes, rows)
            return [np.isin(codes, order[: k + 1]) for k in range(len(order) - 1)]
        missing = codes == 0
        last = self.n_codes[feature] - (1 if missing.any() else 2)
        present = [code for code in range(1, last + 1) if (codes == code).any()]
        questions = [(codes <= code) & ~missing for code in present]
        if missing.any():
            questions += [codes <= code for code in present if code < last]
        return questions

    def _category_order(self, codes, rows):
        smoothing = self.rules.category_smoothing * self.hessian_scale
        key = {}
        for code in np.unique(codes):
            of_code = rows[codes == code]
            key[code] = (self.w * self.g)[of_code].sum() / ((self.w * self.h)[of_code].sum() + smoothing)
        return sorted(key, key=lambda code: (key[code], code))

    def _gain(self, rows, goes_left, is_categorical):
        rules, scale = self.rules, self.hessian_scale
        l2 = rules.l2_regularization * scale
        side_l2 = l2 + (rules.category_l2 * scale if is_categorical else 0.0)
        score = 0.0
        for side in (rows[goes_left], rows[~goes_left]):
            gradient, hessian = (self.w * self.g)[side].sum(), (self.w * self.h)[side].sum()
            if len(side) < rules.min_samples_leaf or hessian < np.ceil(rules.min_child_weight * scale):
                return None
            if self.w[side].sum() < rules.min_weight_leaf:
                return None
            score += float(gradient) ** 2 / (hessian + side_l2)
        gradient, hessian = (self.w * self.g)[rows].sum(), (self.w * self.h)[rows].sum()
        return (score - float(gradient) ** 2 / (hessian + l2)) * scale / self.gradient_scale**2
