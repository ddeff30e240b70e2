"""Tables in pieces."""

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
