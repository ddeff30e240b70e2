"""Naive twin of the ranking kernel: documents one by one, pair by pair."""

from __future__ import annotations

import numpy as np


def discounts(n_places):
    return 1 / np.log2(np.arange(n_places) + 2)


def ndcg(gains, scores, at):
    """Of one query; documents of equal score share the mean discount of their places."""
    discount = discounts(len(gains)) * (np.arange(len(gains)) < at)
    best = (np.sort(gains)[::-1] * discount).sum()
    if best == 0:
        return 1.0
    order = np.argsort(-scores, kind="stable")
    mean = [discount[scores[order] == score].mean() for score in scores[order]]
    return (gains[order] * mean).sum() / best


def average_precision(relevant):
    """Return the average precision of a list of documents in its order."""
    return sum(relevant[: k + 1].sum() / (k + 1) for k in np.flatnonzero(relevant)) / relevant.sum()


def change_of_metric(ranked, i, j, truncation, metric):
    """Return the change of a metric if the documents at positions i and j of a list of gains swapped."""
    if metric == "pairs":
        return 1.0
    if metric == "map":
        swapped = ranked.copy()
        swapped[[i, j]] = ranked[[j, i]]
        return abs(average_precision(ranked) - average_precision(swapped))
    discount = discounts(len(ranked))
    best = (np.sort(ranked)[::-1] * discount)[: int(min(truncation, len(ranked)))].sum()
    return abs((ranked[i] - ranked[j]) * (discount[i] - discount[j])) / best


def lambdas(gains, scores, truncation, normalize, metric="ndcg"):
    """Derivatives of one query's documents; those alike in score and gain share theirs."""
    order = np.lexsort((-gains, -scores))
    place = np.empty(len(gains), int)
    place[order] = np.arange(len(gains))
    gradients, hessians, total = np.zeros(len(gains)), np.zeros(len(gains)), 0.0
    normalize = normalize and np.ptp(scores) > 0
    for i in range(len(gains)):
        for j in range(len(gains)):
            if gains[i] <= gains[j] or min(place[i], place[j]) >= truncation:
                continue
            change = change_of_metric(gains[order], place[i], place[j], truncation, metric)
            if normalize and metric != "pairs":
                change /= 0.01 + abs(scores[i] - scores[j])
            wrong = 1 / (1 + np.exp(scores[i] - scores[j]))
            gradients[i] -= change * wrong
            gradients[j] += change * wrong
            hessians[[i, j]] += change * wrong * (1 - wrong)
            total += 2 * change * wrong
    scale = np.log2(1 + total) / total if normalize and total > 0 else 1.0
    for score, gain in set(zip(scores.tolist(), gains.tolist(), strict=True)):
        alike = (scores == score) & (gains == gain)
        gradients[alike], hessians[alike] = gradients[alike].mean(), hessians[alike].mean()
    return scale * gradients, scale * hessians


_MASK = 2**64 - 1


def random_bits(seed, counter):
    """The splitmix64 hash of a seed and a counter."""
    z = (seed + (counter + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def draws(scores, gains, weights):
    """Return the draws of documents with different scores or gains."""
    bits = [np.asarray(each, dtype=np.float64).view(np.uint64).tolist() for each in (scores, gains, weights)]
    hashes = [random_bits(score, gain) for score, gain in zip(*bits[:2], strict=True)]
    query = sum(random_bits(own, weight) for own, weight in zip(hashes, bits[2], strict=True)) & _MASK
    return np.array([(random_bits(own, query) >> 11) / 2**53 for own in hashes])


def cross_entropy(gains, scores):
    """Derivatives of XE-NDCG by matrices: the diagonal times a Neumann series of the inverse of the full hessian."""
    if len(gains) == 1:
        return np.zeros(1), np.zeros(1)
    kinds, kind, n_alike = np.unique(
        np.column_stack([scores + 0.0, gains]), axis=0, return_inverse=True, return_counts=True
    )
    deduction = draws(kinds[:, 0], kinds[:, 1], n_alike)[kind.ravel()]
    share = np.exp(scores - scores.max())
    share /= share.sum()
    target = gains + 1 - deduction
    gradient = share - target / target.sum()
    others = np.outer(share, share) * (1 - np.eye(len(share)))
    diagonal = share * (1 - share)
    series = others / diagonal
    return gradient + series @ gradient + series @ series @ gradient, diagonal
