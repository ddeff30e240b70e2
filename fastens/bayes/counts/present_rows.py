"""Rows of weight 0 are absent, also from the categories that a table is searched for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import LOCAL, Comm
from fastens.table.columns.vectors import unmasked
from fastens.table.parts import take_rows
from fastens.table.sample_weights import check_weights


def present_rows(X: Any, y: Any, sample_weight: Any, comm: Comm = LOCAL) -> tuple[Any, Any, Any]:
    """A table, labels and weights without the rows of weight 0.

    They stay as they are where no weight is 0, and where their numbers of rows differ, which a later check refuses.
    """
    n_rows = _n_rows(X)
    if sample_weight is None or y is None or sparse.issparse(y) or n_rows is None:
        return X, y, sample_weight
    weight, labels = check_weights(sample_weight, n_rows, comm), unmasked(y, "y")
    if weight is None or weight.all() or labels.shape[:1] != weight.shape:
        return X, y, sample_weight
    rows = np.flatnonzero(weight)
    return _taken(X, rows), labels[rows], weight[rows]


def _n_rows(X: Any) -> int | None:
    """How many rows a table has; None of what is none."""
    if isinstance(X, list | tuple):
        return len(X)
    shape = getattr(X, "shape", None)
    return shape[0] if isinstance(shape, tuple) and shape else None


def _taken(X: Any, rows: NDArray[np.intp]) -> Any:
    if isinstance(X, list | tuple):
        return [X[row] for row in rows]
    if not sparse.issparse(X):
        return X[rows] if isinstance(X, np.ma.MaskedArray) else take_rows(X, rows)
    taken = X.tocsr()[rows]
    if (limits := getattr(X, "limits", None)) is not None:
        taken.limits = limits
    return taken
