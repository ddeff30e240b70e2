"""A tree grown the obvious way, in NumPy: the specification of the growth kernels."""

from __future__ import annotations

import numpy as np

from reference.splitmix import random_bits


def quantise(gradients, hessians, constant_hessian=False):
    """Round to 12 and 10 bits (21 and 1 where hessians are constant), as kernels/quantise.pyx documents it."""
    gradient_bits, hessian_bits = (21, 1) if constant_hessian else (12, 10)
    gradient_scale = (2.0 ** (gradient_bits - 1) - 1) / np.abs(gradients.astype(np.float64)).max()
    hessian_scale = 1.0 if constant_hessian else (2.0**hessian_bits - 1) / hessians.astype(np.float64).max()
    g = np.rint(gradients.astype(np.float64) * gradient_scale).astype(np.int64)
    h = np.maximum(1, np.rint(hessians.astype(np.float64) * hessian_scale).astype(np.int64))
    return g, h, gradient_scale, hessian_scale


def middle_code(thresholds, left, right):
    """The last code on the left of a threshold between the codes on its two sides: of the boundaries in the gap, the
    one nearest to its middle; where there is no code on the right, the last of all.
    """
    if len(right) == 0:
        return len(thresholds) + 1
    largest = np.finfo(np.float64).max
    low, high = int(max(left)), int(min(right))
    start, end = thresholds[low - 1], thresholds[high - 2]
    if np.isneginf(start) and end != largest:
        return low
    if end == largest and not np.isneginf(start):
        return high - 1
    middle = max(start, -largest) / 2 + end / 2
    with np.errstate(over="ignore"):
        return low + int(np.abs(thresholds[low - 1 : high - 1] - middle).argmin())


def assert_in_the_middle(tree, codes, n_codes, thresholds, sides):
    """`sides` are, for each node, the rows that go left and those that go right, or None."""
    for node, rows in enumerate(sides):
        feature = tree.feature[node]
        if rows is not None and tree.category_set[node] < 0:
            left, right = (np.setdiff1d(codes[feature][side], [0]) for side in rows)
            assert n_codes[feature] == len(thresholds[feature]) + 2
            assert tree.bin_threshold[node] == middle_code(thresholds[feature], left, right)


def drawn(items, n, seed):
    """One item of each of n equal parts; all of them where they are no more."""
    if len(items) <= n:
        return items
    found = []
    for k in range(n):
        part = items[len(items) * k // n : len(items) * (k + 1) // n]
        found.append(part[((random_bits(seed, k) >> 32) * len(part)) >> 32])
    return found


def pruned(nodes, price):
    """The nodes of the subtree that gains most, less a price for each split."""

    def best(index):
        """What a node's branch is worth, and its nodes below that stay."""
        node = nodes[index]
        if "children" not in node:
            return 0.0, []
        (left, left_stays), (right, right_stays) = map(best, node["children"])
        worth = node["split"]["gain"] - price + left + right
        stays = worth > 0 or price == 0 or "forced" in node["split"]
        return (worth, [*node["children"], *left_stays, *right_stays]) if stays else (0.0, [])

    stays = sorted([0, *best(0)[1]])
    kept = [dict(nodes[index]) for index in stays]
    for node in kept:
        children = node.pop("children", (None,))
        if children[0] in stays:
            node["children"] = tuple(stays.index(child) for child in children)
    return kept


def _order(split):
    """Forced splits come first."""
    return np.inf if "forced" in split else split["gain"]


class NaiveGrower:
    """Best-first growth; `rules` are GrowthParameters; `codes` is (n_features, n_rows)."""

    def __init__(self, codes, n_codes, is_categorical, rules):
        self.codes, self.n_codes, self.is_categorical, self.rules = (
            codes.astype(np.int64),
            n_codes,
            is_categorical,
            rules,
        )

    def grow(self, gradients, hessians, weights=None, constant_hessian=False, seed=0):
        """Return a list of nodes: dicts with rows, value and, where split, gain, feature, left mask and children."""
        self.learn(gradients, hessians, weights, constant_hessian)
        self.seed = seed
        step = self.rules.max_delta_step or np.inf
        first = -1 if self.rules.forced_splits is None else 0
        root = {"lower": -step, "upper": step, "parent": None, "path": (), "forced": first}
        nodes = [self._node(np.arange(len(self.g)), 0, root, 0)]
        n_leaves, limit = 1, self.rules.max_leaf_nodes or np.inf
        while n_leaves < limit:
            open_nodes = [i for i, node in enumerate(nodes) if node["split"] and "children" not in node]
            if not open_nodes:
                break
            best = max(open_nodes, key=lambda i: (_order(nodes[i]["split"]), -i))
            node = nodes[best]
            goes_left = node["split"]["goes_left"]
            node["children"] = (len(nodes), len(nodes) + 1)
            left, right = (
                {**side, "forced": forced}
                for side, forced in zip(
                    self._limits_of_children(node), node["split"].get("forced", (-1, -1)), strict=True
                )
            )
            nodes.append(self._node(node["rows"][goes_left], node["depth"] + 1, left, len(nodes)))
            nodes.append(self._node(node["rows"][~goes_left], node["depth"] + 1, right, len(nodes)))
            n_leaves += 1
        return pruned(nodes, self.rules.split_penalty * self._dispersion(nodes))

    def learn(self, gradients, hessians, weights=None, constant_hessian=False):
        """Quantise what is to be summed."""
        self.g, self.h, self.gradient_scale, self.hessian_scale = quantise(gradients, hessians, constant_hessian)
        self.real = gradients.astype(np.float64), hessians.astype(np.float64)
        self.w = np.ones(len(self.g), dtype=np.int64) if weights is None else weights.astype(np.int64)
        self.copies = np.stack([self.w, self.w * self.g, self.w * self.h])
        self.mean_hessian = self.copies[2].sum() / self.w.sum()

    def _dispersion(self, nodes):
        """Variance of the gradients within leaves over the mean hessian."""
        gradients, hessians = self.real
        leaves = [node["rows"] for node in nodes if "children" not in node]
        means = [np.average(gradients[rows], weights=self.w[rows]) for rows in leaves]
        within = sum(
            (self.w[rows] * (gradients[rows] - mean) ** 2).sum() for rows, mean in zip(leaves, means, strict=True)
        )
        return within / max(self.w.sum() - len(leaves), 1) / np.average(hessians, weights=self.w)

    def _node(self, rows, depth, limits, number):
        gradient, hessian = (self.w[rows] * self.real[0][rows]).sum(), (self.w[rows] * self.real[1][rows]).sum()
        node = {"rows": rows, "copies": self.w[rows].sum(), "depth": depth, "limits": limits, "number": number}
        node["value"] = self._limited(gradient, hessian, self.rules.l2_regularization, limits)
        may_split = depth < (self.rules.max_depth or np.inf)
        node["split"] = self._forced_split(node) or self._best_split(node) if may_split else None
        return node

    def _limited(self, gradient, hessian, l2, limits):
        """The Newton step, pulled towards the parent's value and kept within the bounds."""
        smooth, parent = (0.0, 0.0) if limits["parent"] is None else (self.rules.path_smooth, limits["parent"])
        with np.errstate(invalid="ignore", divide="ignore"):  # where one side is empty
            step = (smooth * parent - gradient) / (hessian + l2 + smooth)
        return np.clip(step, limits["lower"], limits["upper"])

    def _sign(self, feature):
        return 0 if self.rules.monotone is None else self.rules.monotone[feature]

    def _limits_of_children(self, node):
        """Bounds by the middle of the children's values, where the split is on a monotone feature."""
        limits, split = node["limits"], node["split"]
        both = {**limits, "parent": node["value"], "path": (*limits["path"], split["feature"])}
        sign = self._sign(split["feature"])
        if sign == 0:
            return both, both
        middle = sum(split["values"]) / 2
        low, high = {**both, "upper": middle}, {**both, "lower": middle}
        return (low, high) if sign > 0 else (high, low)

    def _may_use(self, feature, path):
        rules, joined = self.rules, {*path, feature}
        if rules.max_features_on_path is not None and len(joined) > max(rules.max_features_on_path, len(set(path))):
            return False
        return rules.feature_groups is None or any(group[list(joined)].all() for group in rules.feature_groups)

    def _forced_split(self, node):
        """The split that the node is forced to make, with missing values on the side that gains more, or None."""
        if node["limits"]["forced"] < 0:
            return None
        splits, words = self.rules.forced_splits
        feature, last, first, *children = splits[node["limits"]["forced"]].tolist()
        rows, found = node["rows"], None
        codes = self.codes[feature, rows]
        left = codes <= last if first < 0 else words[first + codes // 32] >> (codes % 32).astype(np.uint32) & 1 == 1
        if len(set(left[codes > 0])) < 2:
            return None
        for goes_left in [left & (codes > 0), left | (codes == 0)][: 1 + (codes == 0).any()]:
            gain, hessians, parts = 0.0, np.zeros(2), getattr(self, "parts", [self])
            for part in parts:
                l2 = side_l2 = self.rules.l2_regularization
                if self.is_categorical[feature] and not self._is_one_hot(feature):
                    side_l2 += self.rules.category_l2 * part.mean_hessian / part.hessian_scale
                sides = np.array([part.copies[:, rows[side]].sum(axis=1) for side in (goes_left, ~goes_left)])
                copies, g, h = sides.T / [[1.0], [part.gradient_scale], [part.hessian_scale]]
                if copies.min() < max(self.rules.min_samples_leaf, 1):
                    break
                gain += (g**2 / (h + side_l2)).sum() - g.sum() ** 2 / (h.sum() + l2)
                hessians += h / len(parts)
            else:
                if hessians.min() >= self.rules.min_child_weight and (found is None or gain > found["gain"]):
                    found = {"gain": gain, "feature": feature, "goes_left": goes_left, "forced": children}
        return found and {**found, "gain": max(found["gain"], 0.0)}

    def _best_split(self, node):
        best = None
        rows = node["rows"]
        for feature in range(len(self.codes)):
            if not self._may_use(feature, node["limits"]["path"]):
                continue
            questions = self._questions(feature, self.codes[feature, rows], node)
            if not questions:
                continue
            gains, *values = self._gains(node, np.array(questions), feature)
            k = gains.argmax()
            if gains[k] > self.rules.min_gain_to_split and (best is None or gains[k] > best["gain"]):
                found = [of_side[k] for of_side in values]
                best = {"gain": gains[k], "feature": feature, "goes_left": questions[k], "values": found}
        return best

    def _questions(self, feature, codes, node):
        """The rows that go left, for every split of the feature, in the order in which ties are decided."""
        if self.is_categorical[feature]:
            return self._sets(feature, codes, self._category_order(codes, node["rows"]))
        missing = codes == 0
        last = self.n_codes[feature] - (1 if missing.any() else 2)
        questions = [(codes <= code) & ~missing for code in range(1, last + 1)]
        key = random_bits(random_bits(self.seed, 2**62 + node["number"]), feature)
        questions = self._drawn(questions, node["rows"], ~missing, key)
        if missing.any():
            questions += self._drawn([codes <= code for code in range(1, last)], node["rows"], ~missing, key)
        return questions

    def _drawn(self, questions, rows, has_value, key):
        """Those to ask among the ones that leave a value on the left, and enough rows on both sides."""
        if self.rules.rows_per_threshold is None:
            return questions
        weight, fewest = self.w[rows], max(self.rules.min_samples_leaf, self.rules.min_weight_leaf)
        allowed = [
            left
            for left in questions
            if (left & has_value).any() and min(weight[left].sum(), weight[~left].sum()) >= fewest
        ]
        return drawn(allowed, max(2, int(weight.sum()) // self.rules.rows_per_threshold), key)

    def _is_one_hot(self, feature):
        return self.n_codes[feature] - 1 <= self.rules.one_hot_max_size

    def _sets(self, feature, codes, order):
        n, most = len(order), self.rules.max_categories_per_split or len(order)
        if self._is_one_hot(feature):
            return [np.isin(codes, group) for group in (order if n > 2 else order[:-1])]
        return [
            np.isin(codes, np.concatenate(order[: k + 1])) for k in range(n - 1) if k + 1 <= most or n - k - 1 <= most
        ]

    def _category_order(self, codes, rows):
        """Groups of codes by smoothed gradient over hessian: the rare ones are one group, the others alone."""
        smoothing = self.rules.category_smoothing * self.mean_hessian
        n_rows = np.bincount(codes, self.w[rows])
        rare = [c for c in np.unique(codes) if c > 0 and n_rows[c] < self.rules.min_samples_category]
        groups = [([c], c) for c in np.unique(codes) if c not in rare] + ([(rare, -1)] if rare else [])
        key = {}
        for group, tie in groups:
            _, gradient, hessian = self.copies[:, rows[np.isin(codes, group)]].sum(axis=1)
            key[tuple(group)] = (gradient / (hessian + smoothing), tie)
        return sorted(key, key=key.get)

    def sums_of_sides(self, rows, goes_left):
        """By question the copies on the left, and the sums of their gradients and hessians; the same on the right.

        They are sums of integers, which floats hold exactly and add up faster.
        """
        copies = self.copies[:, rows].astype(np.float64)
        left = copies @ goes_left.T
        return left, copies.sum(axis=1, keepdims=True) - left

    def _gains(self, node, goes_left, feature):
        """What the splits gain with the values their sides may have, and those values, in the units of the losses.

        A split is a row of `goes_left`; one that is not allowed gains minus infinity.
        """
        rules, l2, scale = self.rules, self.rules.l2_regularization, self.hessian_scale
        side_l2 = l2
        if self.is_categorical[feature] and not self._is_one_hot(feature):
            side_l2 += rules.category_l2 * self.mean_hessian / scale
        limits = {**node["limits"], "parent": node["value"]}
        sides = self.sums_of_sides(node["rows"], goes_left)
        score, values, is_allowed = 0.0, [], True
        for copies, gradient, hessian in sides:
            is_allowed &= hessian >= np.ceil(rules.min_child_weight * scale)
            is_allowed &= copies >= max(rules.min_samples_leaf, rules.min_weight_leaf)
            g, h = gradient / self.gradient_scale, hessian / scale
            value = self._limited(g, h, side_l2, limits)
            score = score - value * (2 * g + (h + side_l2) * value)
            values.append(self._limited(g, h, l2, limits))
        is_allowed &= (values[0] != values[1]) & (self._sign(feature) * (values[1] - values[0]) >= 0)
        _, gradient, hessian = sides[0] + sides[1]
        g, h = gradient / self.gradient_scale, hessian / scale
        value = self._limited(g, h, l2, node["limits"])
        return np.where(is_allowed, score + value * (2 * g + (h + l2) * value), -np.inf), *values
