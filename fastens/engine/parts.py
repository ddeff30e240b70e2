"""Tables in pieces, and what their columns are hashed with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

# Values of a sparse table that are made dense at a time.
_BLOCK = 1 << 20


def dense_parts(X: Any) -> Iterator[tuple[int, np.ndarray]]:
    """X in pieces that are arrays, each with its first row."""
    if not scipy.sparse.issparse(X):
        if len(X):
            yield 0, X
        return
    X = X.tocsr()
    step = max(1, _BLOCK // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        yield start, X[start : start + step].toarray()


def salts(n_features: int) -> np.ndarray:
    """One odd number a feature, by the mixer of splitmix64."""
    salts = (np.arange(1, n_features + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    salts = (salts ^ (salts >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    salts = (salts ^ (salts >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return salts | np.uint64(1)
