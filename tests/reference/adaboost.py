"""AdaBoost as three sets of lecture notes write it, naively: the specification of the rounds and of the stump kernel.

All are for classes -1 and 1, and for a weak learner `learn(w) -> predictions on the training rows`. Each returns the
normalised weights at the start of each round, the errors, and the votes sum_t weight_t h_t(x_i) of the rows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def notes_with_learning_rate(learn, y, n_rounds, learning_rate):
    """First notes: w = lambda log((1 - e) / e); weights times e^w where wrong, e^-w where right."""
    s = np.full(len(y), 1 / len(y))
    weights, errors, votes = [], [], np.zeros(len(y))
    for _ in range(n_rounds):
        h = learn(s)
        error = s[h != y].sum()
        w = learning_rate * np.log((1 - error) / error)
        weights.append(s)
        errors.append(error)
        votes += w * h
        s = s * np.where(h != y, np.exp(w), np.exp(-w))
        s = s / s.sum()
    return weights, errors, votes


def notes_with_ratio(learn, y, n_rounds):
    """Second notes: weights times e / (1 - e) where right; z = log((1 - e) / e)."""
    w = np.full(len(y), 1 / len(y))
    weights, errors, votes = [], [], np.zeros(len(y))
    for _ in range(n_rounds):
        h = learn(w)
        error = 0.0
        for i in range(len(y)):
            if h[i] != y[i]:
                error += w[i]
        weights.append(w.copy())
        errors.append(error)
        w = w.copy()
        for i in range(len(y)):
            if h[i] == y[i]:
                w[i] *= error / (1 - error)
        w /= w.sum()
        votes += np.log((1 - error) / error) * h
    return weights, errors, votes


def notes_with_confidence(learn, y, n_rounds):
    """Third notes: alpha = 1/2 ln((1 - e) / e); weights times exp(-alpha) where right, exp(alpha) where wrong."""
    p = np.full(len(y), 1 / len(y))
    weights, errors, votes = [], [], np.zeros(len(y))
    for _ in range(n_rounds):
        h = learn(p)
        error = p[h != y].sum()
        alpha = 0.5 * np.log((1 - error) / error)
        weights.append(p)
        errors.append(error)
        votes += alpha * h
        p = p * np.exp(np.where(h == y, -alpha, alpha))
        p = p / p.sum()
    return weights, errors, votes


def samme(learn, y, n_classes, n_rounds):
    """SAMME (Zhu et al. 2009, algorithm 2); votes by class."""
    w = np.full(len(y), 1 / len(y))
    weights, errors, votes = [], [], np.zeros((len(y), n_classes))
    for _ in range(n_rounds):
        h = learn(w)
        error = w[h != y].sum() / w.sum()
        alpha = np.log((1 - error) / error) + np.log(n_classes - 1)
        weights.append(w)
        errors.append(error)
        votes[np.arange(len(y)), h] += alpha
        w = w * np.exp(alpha * (h != y))
        w = w / w.sum()
    return weights, errors, votes


def adaboost_m1(learn, y, n_classes, n_rounds):
    """AdaBoost.M1 (Freund & Schapire 1997, figure 3): stops before an error of about one half; votes by class."""
    w = np.full(len(y), 1 / len(y))
    weights, errors, votes = [], [], np.zeros((len(y), n_classes))
    for _ in range(n_rounds):
        p = w / w.sum()
        h = learn(p)
        error = p[h != y].sum()
        if error >= 0.5 - 1e-9:
            break
        beta = error / (1 - error)
        weights.append(p)
        errors.append(error)
        votes[np.arange(len(y)), h] += np.log(1 / beta)
        w = w * beta ** (h == y)
    return weights, errors, votes


def notes_with_restarts(learn, y, n_classes, n_rounds, most_restarts):
    """Third notes, any number of classes: `learn(p, round, attempt)` draws from p; p starts anew where e > 1/2.

    Confidences are 1/2 ln((1 - e) / e). Returns the distributions, the errors, whether each round had to start anew,
    and the votes by class.
    """
    first = np.full(len(y), 1 / len(y))
    p, found, votes = first, [], np.zeros((len(y), n_classes))
    for c in range(n_rounds):
        for attempt in range(most_restarts + 1):
            h = learn(p, c, attempt)
            error = p[h != y].sum()
            if error < 0.5:
                break
            p = first
        alpha = 0.5 * np.log((1 - error) / error)
        found.append((p, error, attempt > 0))
        votes[np.arange(len(y)), h] += alpha
        p = p * np.exp(np.where(h == y, -alpha, alpha))
        p = p / p.sum()
    weights, errors, restarted = zip(*found, strict=True)
    return weights, errors, restarted, votes


def impurity(sums, criterion):
    """Weight times impurity of one side, from the weights of the classes."""
    total = sums.sum()
    if total == 0:
        return 0.0
    share = sums[sums > 0] / total
    if criterion == "gini":
        return total * (1 - (share**2).sum())
    if criterion == "entropy":
        return -total * (share * np.log(share)).sum()
    return total - sums.max()


def class_weights(y, w, rows, n_classes):
    """Sum of the weights by class."""
    return np.array([w[rows & (y == k)].sum() for k in range(n_classes)])


def numeric_sides(codes):
    """Every way to cut the codes of a numeric feature, code 0 (missing) on either side: rows that go left."""
    values = np.unique(codes[codes > 0])
    for missing_left in (False, True) if (codes == 0).any() else (False,):
        for value in values:
            left = (codes > 0) & (codes <= value) | missing_left & (codes == 0)
            if 0 < left.sum() < len(codes):
                yield left


def best_impurity(codes, y, w, n_classes, criterion):
    """The least impurity of any stump on numeric features; codes are (n_features, n_rows)."""
    best = np.inf
    for feature in codes:
        for left in numeric_sides(feature):
            sides = [class_weights(y, w, left, n_classes), class_weights(y, w, ~left, n_classes)]
            best = min(best, sum(impurity(side, criterion) for side in sides))
    return best


def best_subset_impurity(codes, y, w, n_classes, criterion):
    """The least impurity of any two sets of the categories of one feature."""
    categories = np.unique(codes)
    best = np.inf
    for mask in range(1, 2 ** (len(categories) - 1)):
        left = np.isin(codes, categories[[bool(mask >> i & 1) for i in range(len(categories))]])
        sides = [class_weights(y, w, left, n_classes), class_weights(y, w, ~left, n_classes)]
        best = min(best, sum(impurity(side, criterion) for side in sides))
    return best


def naive_stump(X, y, classes):
    """A weak learner on numeric X: Gini, the first of equal splits, and each side's heaviest class.

    Of the midpoints between the table's values that lie between two neighbouring values of rows with weight, the
    threshold is the one nearest to the middle of the first and the last.
    """
    index = np.searchsorted(classes, y)

    def learn(w):
        best, prediction = np.inf, None
        for f in range(X.shape[1]):
            values, own = np.unique(X[:, f]), np.unique(X[w > 0, f])
            midpoints = (values[:-1] + values[1:]) / 2
            for low, high in pairwise(own):
                gap = midpoints[(midpoints > low) & (midpoints < high)]
                left = X[:, f] <= gap[np.abs(gap - (gap[0] / 2 + gap[-1] / 2)).argmin()]
                sides = [class_weights(index, w, rows, len(classes)) for rows in (left, ~left)]
                score = sum(impurity(side, "gini") for side in sides)
                if score < best - 1e-12:
                    best = score
                    prediction = np.where(left, classes[sides[0].argmax()], classes[sides[1].argmax()])
        return prediction

    return learn


def drucker(fit, y, n_rounds, loss, learning_rate=1.0):
    """AdaBoost.R2 (Drucker 1997): `fit(w)` gives predictions on the training rows; returns weights, errors, medians."""
    w = np.full(len(y), 1 / len(y))
    predictions, log_inverse, errors = [], [], []
    for _ in range(n_rounds):
        prediction = fit(w)
        difference = np.abs(y - prediction)
        share = difference / difference.max()
        row_loss = {"linear": share, "square": share**2, "exponential": 1 - np.exp(-share)}[loss]
        mean = (w * row_loss).sum()
        if mean >= 0.5:
            break
        beta = mean / (1 - mean)
        predictions.append(prediction)
        errors.append(mean)
        log_inverse.append(learning_rate * np.log(1 / beta))
        w = w * beta ** (learning_rate * (1 - row_loss))
        w = w / w.sum()
    return np.array(errors), weighted_medians(np.array(predictions).T, np.array(log_inverse))


def weighted_medians(predictions, weights):
    """For each row the least prediction that half of the weight does not exceed."""
    out = []
    for row in predictions:
        order = np.argsort(row, kind="stable")
        total = 0.0
        for i in order:
            total += weights[i]
            if total >= 0.5 * weights.sum() * (1 - 1e-12):
                out.append(row[i])
                break
    return np.array(out)
