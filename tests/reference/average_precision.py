"""Average precision the obvious way: the mean over all orders of documents of equal score."""

from __future__ import annotations

from itertools import permutations

import numpy as np


def average_precision(relevant, scores, at=None):
    """Of one query of few documents; 1 where none is relevant."""
    if not relevant.any():
        return 1.0
    found = []
    for order in map(np.array, permutations(range(len(scores)))):
        if (np.diff(scores[order]) > 0).any():
            continue
        hits = relevant[order]
        precision = np.cumsum(hits) / np.arange(1, len(hits) + 1) * hits
        found.append(precision[:at].sum() / min(hits.sum(), at or len(hits)))
    return np.mean(found)
