"""What a tree of a forest must be, in NumPy: the impurity of a set of rows, every split that the rules allow, its gain.

The kernels may choose any of equally good splits, so trees are not compared node by node: each node is held against
what is best for its rows.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr, xlogy


class NaiveForest:
    """The specification of the kernels; `codes` is (n_features, n_rows), `rules` are ForestParameters."""

    def __init__(self, matrix, target, rules, weight=None):
        self.codes = matrix.columns.astype(np.int64)
        self.is_categorical = matrix.is_categorical
        self.y, self.n_classes = target.y, target.n_classes
        self.rules = rules
        self.weight = np.ones(len(self.y)) if weight is None else weight

    def impurity(self, rows):
        """Weight times impurity, the mean over the targets."""
        return float(self._impurities(rows, self.weight[rows][None])[0]) if len(rows) else 0.0

    def _impurities(self, rows, weights):
        """That of each set of some rows, which is a row of weights."""
        return np.mean([self._of_target(self.y[rows, t], t, weights) for t in range(self.y.shape[1])], axis=0)

    def _of_target(self, y, t, w):
        total = w.sum(axis=1, keepdims=True)
        if self.n_classes is not None:
            share = w @ (y[:, None] == np.arange(self.n_classes[t])) / total
            if self.rules.criterion == "gini":
                return total[:, 0] * (1 - (share**2).sum(axis=1))
            return total[:, 0] * entr(share).sum(axis=1) / np.log(2)
        mean = (w @ y)[:, None] / total
        if self.rules.criterion == "squared_error":
            return (w * (y - mean) ** 2).sum(axis=1)
        if self.rules.criterion == "poisson":
            positive = y > 0
            with np.errstate(divide="ignore"):  # where all rows of weight have 0
                return xlogy(w[:, positive] * y[positive], y[positive] / mean).sum(axis=1)
        # From the smaller of two medians the distances are those from any value between them.
        order = np.argsort(y, kind="stable")
        until = np.cumsum(w[:, order], axis=1)
        median = y[order][(until >= until[:, -1:] / 2).argmax(axis=1)]
        return (w * np.abs(y - median[:, None])).sum(axis=1)

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

    def gains(self, rows, left):
        """What the splits of the rows gain; each row of `left` is one, and says which of the rows go left."""
        weight = self.weight[rows]
        return self.impurity(rows) - self._impurities(rows, weight * left) - self._impurities(rows, weight * ~left)

    def are_allowed(self, rows, feature, left):
        """Whether the rules allow the splits."""
        y, weight, rules = self.y[rows], self.weight[rows], self.rules
        found = np.ones(len(left), dtype=bool)
        for side in (left, ~left):
            found &= (side.sum(axis=1) >= max(rules.min_samples_leaf, 1)) & (side @ weight >= rules.min_weight_leaf)
            if rules.criterion == "poisson":
                found &= ((side * weight) @ y > 0).all(axis=1)
        if rules.monotone is not None:
            step = np.array([self.value(rows[~each])[0] - self.value(rows[each])[0] for each in left[found]])
            found[found] = step * rules.monotone[feature] >= 0
        return found

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
        best = -np.inf
        for feature in range(len(self.codes)):
            questions = self._questions(rows, feature) if self.may_use(feature, path) else []
            if questions:
                left = np.array(questions)
                gains = self.gains(rows, left)[self.are_allowed(rows, feature, left)]
                best = max(best, gains.max(initial=-np.inf))
        return best

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
