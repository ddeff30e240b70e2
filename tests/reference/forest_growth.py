"""What a tree of a forest must be, in NumPy: the impurity of a set of rows, every split that the rules allow, its gain.

The kernels may choose any of equally good splits, so trees are not compared node by node: each node is held against
what is best for its rows.
"""

from __future__ import annotations

import numpy as np


class NaiveForest:
    """The specification of the kernels; `codes` is (n_features, n_rows), `rules` are TreeRules."""

    def __init__(self, matrix, target, rules, weight=None):
        self.codes = matrix.columns.astype(np.int64)
        self.is_categorical = matrix.is_categorical
        self.y, self.n_classes = target.y, target.n_classes
        self.rules = rules
        self.weight = np.ones(len(self.y)) if weight is None else weight

    def impurity(self, rows):
        """Weight times impurity, the mean over the targets."""
        return float(np.mean([self._of_target(rows, t) for t in range(self.y.shape[1])])) if len(rows) else 0.0

    def _of_target(self, rows, t):
        y, w = self.y[rows, t], self.weight[rows]
        if self.n_classes is not None:
            share = np.bincount(y, w, self.n_classes[t]) / w.sum()
            if self.rules.criterion == "gini":
                return w.sum() * (1 - (share**2).sum())
            share = share[share > 0]
            return -w.sum() * (share * np.log2(share)).sum()
        mean = (w * y).sum() / w.sum()
        if self.rules.criterion == "squared_error":
            return (w * (y - mean) ** 2).sum()
        if self.rules.criterion == "poisson":
            positive = y > 0
            return (w[positive] * y[positive] * np.log(y[positive] / mean)).sum()
        return (w * np.abs(y - weighted_median(y, w))).sum()

    def value(self, rows):
        """One column of the second class's share for two classes, K columns for K; mean or median of numbers."""
        columns = []
        w = self.weight[rows]
        for t in range(self.y.shape[1]):
            y = self.y[rows, t]
            if self.n_classes is not None:
                share = np.bincount(y, w, self.n_classes[t]) / w.sum()
                columns += [share[1]] if self.n_classes[t] == 2 else list(share)
            elif self.rules.criterion == "absolute_error":
                columns.append(weighted_median(y, w))
            else:
                columns.append((w * y).sum() / w.sum())
        return np.array(columns)

    def gain(self, rows, left):
        return self.impurity(rows) - self.impurity(rows[left]) - self.impurity(rows[~left])

    def is_allowed(self, rows, feature, left):
        for side in (rows[left], rows[~left]):
            if len(side) < max(self.rules.min_samples_leaf, 1) or self.weight[side].sum() < self.rules.min_weight_leaf:
                return False
            if self.rules.criterion == "poisson" and (self.y[side] * self.weight[side, None]).sum(axis=0).min() <= 0:
                return False
        if self.rules.monotone is not None:
            step = self.value(rows[~left])[0] - self.value(rows[left])[0]
            return step * self.rules.monotone[feature] >= 0
        return True

    def may_split(self, rows, depth):
        is_pure = bool((self.y[rows] == self.y[rows[0]]).all())
        return depth < (self.rules.max_depth or np.inf) and len(rows) >= self.rules.min_samples_split and not is_pure

    def may_use(self, feature, path):
        """Whether the feature may stand below those of the path."""
        rules, joined = self.rules, {*path, feature}
        if rules.feature_weights is not None and rules.feature_weights[feature] == 0:
            return False
        if len(joined) > max(rules.max_features_on_path or np.inf, len(set(path))):
            return False
        return rules.feature_groups is None or any(group[list(joined)].all() for group in rules.feature_groups)

    def best_gain(self, rows, path):
        """The largest gain of an allowed split; minus infinity where there is none."""
        features = [f for f in range(len(self.codes)) if self.may_use(f, path)]
        questions = [(f, left) for f in features for left in self._questions(rows, f)]
        return max((self.gain(rows, left) for f, left in questions if self.is_allowed(rows, f, left)), default=-np.inf)

    def _questions(self, rows, feature):
        codes = self.codes[feature, rows]
        present = np.unique(codes)
        if self.is_categorical[feature]:
            means = [self._mean(rows[codes == code]) for code in present]
            order = present[np.argsort(means, kind="stable")]
            return [np.isin(codes, order[: k + 1]) for k in range(len(order) - 1)]
        values = present[present > 0]
        if present[0] > 0:
            return [codes <= code for code in values[:-1]]
        right = [(codes <= code) & (codes > 0) for code in values]
        return right + [codes <= code for code in values[:-1]]

    def _mean(self, rows):
        """What categories are ordered by: the mean of the first target."""
        return np.average(self.y[rows, 0], weights=self.weight[rows])


def weighted_median(y, w):
    order = np.argsort(y, kind="stable")
    y, total = y[order], np.cumsum(w[order])
    middle = np.searchsorted(total, total[-1] / 2)
    return (y[middle] + y[middle + 1]) / 2 if total[middle] == total[-1] / 2 else y[middle]


def paths_of_nodes(tree):
    """The features above each node."""
    path = {0: ()}
    for node in np.flatnonzero(tree.feature >= 0):
        child = tree.left_child[node]
        path[child] = path[child + 1] = (*path[node], int(tree.feature[node]))
    return path


def rows_of_nodes(tree, codes, rows):
    """The rows that come to each node, and the nodes' depths."""
    found, depth = {0: rows}, {0: 0}
    for node in range(tree.n_nodes):
        if tree.feature[node] < 0:
            continue
        code = codes[tree.feature[node], found[node]].astype(np.int64)
        if tree.category_set[node] >= 0:
            words = tree.category_words[tree.category_set[node] + code // 32]
            left = (words >> (code % 32).astype(np.uint32)) & 1 == 1
        else:
            left = np.where(code == 0, tree.missing_left[node] == 1, code <= tree.bin_threshold[node])
        child = tree.left_child[node]
        found[child], found[child + 1] = found[node][left], found[node][~left]
        depth[child] = depth[child + 1] = depth[node] + 1
    return found, depth


def random_bits(seed, counter):
    """Splitmix64."""
    mask = 2**64 - 1
    z = (seed + (counter + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def random_share(seed, counter):
    return (random_bits(seed, counter) >> 11) / 2**53


def drawn_features(weights, n_wanted, key):
    """Features drawn one after another, without replacement, with chances in proportion to their weights."""
    left, drawn = [f for f in range(len(weights)) if weights[f] > 0], []
    for turn in range(n_wanted):
        share = random_share(key, turn) * weights[left].sum()
        drawn.append(left[int(np.searchsorted(np.cumsum(weights[left]), share, side="right"))])
        # The kernel puts the one that is drawn first and what stood there in its place.
        place = left.index(drawn[-1])
        left[place] = left[0]
        left = left[1:]
    return drawn


def values_of_bins(codes, x, n_codes):
    """By code, the value of a feature's bin: half-way between the smallest and the largest of its rows."""
    x = np.clip(x.astype(np.float64), -np.finfo(np.float64).max, np.finfo(np.float64).max)
    values = np.full(n_codes, np.nan)
    for code in set(codes.tolist()) - {0}:
        low, high = x[codes == code].min(), x[codes == code].max()
        values[code] = low if low == high else low / 2 + high / 2
    return values


def random_code(values, codes, feature, node_key):
    """The last code on the left of a threshold that is uniform between the values of the smallest and largest code."""
    low, high = int(codes[codes > 0].min()), int(codes.max())
    share = random_share(random_bits(node_key, 2**64 - 1 - feature), 0)
    threshold = np.clip((1 - share) * values[low] + share * values[high], values[low], values[high])
    return min(np.searchsorted(values[1:], threshold, side="right"), high - 1)


def random_split(values, codes, feature, node_key):
    """Which rows go left of a random threshold, and its code; None where it only parts missing rows from the others."""
    present = set(codes[codes > 0].tolist())
    if len(present) == 1:
        return codes > 0, None
    missing_left = random_bits(random_bits(node_key, 2**64 - 1 - feature), 1) & 1 and (codes == 0).any()
    last = random_code(values, codes, feature, node_key)
    return np.where(codes == 0, missing_left, codes <= last).astype(bool), last
