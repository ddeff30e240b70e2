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


def lambdas(gains, scores, truncation, normalize):
    """Derivatives of one query's documents; those alike in score and gain share theirs."""
    order = np.lexsort((-gains, -scores))
    place = np.empty(len(gains), int)
    place[order] = np.arange(len(gains))
    discount = discounts(len(gains))
    best = (np.sort(gains)[::-1] * discount)[:truncation].sum()
    gradients, hessians, total = np.zeros(len(gains)), np.zeros(len(gains)), 0.0
    normalize = normalize and np.ptp(scores) > 0
    for i in range(len(gains)):
        for j in range(len(gains)):
            if gains[i] <= gains[j] or min(place[i], place[j]) >= truncation:
                continue
            change = (gains[i] - gains[j]) * abs(discount[place[i]] - discount[place[j]]) / best
            if normalize:
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
