"""Rows of weight 0 are absent, also from the columns and categories that a table is searched for."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import LOCAL, Comm
from fastens.engine.parts import RowSource
from fastens.table.arrays import check_places
from fastens.table.columns.vectors import unmasked
from fastens.table.frames import is_frame
from fastens.table.opening import in_parts
from fastens.table.parts import take_rows, with_rows_to_take
from fastens.table.sample_weights import check_weights
from fastens.table.training_data import TrainingData


def present_rows(X: Any, y: Any, sample_weight: Any, comm: Comm = LOCAL) -> tuple[Any, Any, Any]:
    """A table, labels and weights without the rows of weight 0.

    They stay as they are where no weight is 0, and where their numbers of rows differ, which a later check refuses.
    """
    X = X if sample_weight is None else _known(X)
    n_rows = _n_rows(X)
    if sample_weight is None or y is None or sparse.issparse(y) or n_rows is None:
        return X, y, sample_weight
    weight, labels = check_weights(sample_weight, n_rows, comm), unmasked(y, "y")
    if weight is None or weight.all() or labels.shape[:1] != weight.shape:
        return X, y, sample_weight
    rows = np.flatnonzero(weight)
    return _taken(X, rows), labels[rows], weight[rows]


def present_table(X: Any, data: TrainingData) -> tuple[Any, TrainingData]:
    """A table that has not been read, without the rows that data leave out, and the data, which know that.

    Both stay as they are where none are left out, and where the numbers of rows differ, which a later check refuses.
    """
    if data.rows is None:
        return X, data
    X = _known(X)
    return (_taken(X, data.rows), data._replace(is_cut=True)) if _n_rows(X) == data.n_given else (X, data)


def present_part(X: Any, sample_weight: Any, comm: Comm = LOCAL) -> tuple[Any, Any]:
    """A table and weights, where there are no targets, without the rows of weight 0."""
    X = X if sample_weight is None else _known(X)
    n_rows = _n_rows(X)
    weight = None if n_rows is None else check_weights(sample_weight, n_rows, comm)
    if weight is None or weight.all():
        return X, sample_weight
    rows = np.flatnonzero(weight)
    return _taken(X, rows), weight[rows]


def _known(X: Any) -> Any:
    """A table of a kind that rows can be taken of; what is none stays as it is."""
    X = in_parts(X)
    check_places(X)
    is_known = isinstance(X, list | tuple | np.ndarray | RowSource) or sparse.issparse(X) or is_frame(X)
    if is_known or nw.dependencies.is_into_series(X):
        return X
    array = np.asarray(X)
    return array if array.ndim else X


def _n_rows(X: Any) -> int | None:
    """How many rows a table has; None of what is none."""
    if isinstance(X, list | tuple):
        return len(X)
    shape = getattr(X, "shape", None)
    return shape[0] if isinstance(shape, tuple) and shape else None


def _taken(X: Any, rows: NDArray[np.intp]) -> Any:
    if isinstance(X, list | tuple):
        return [X[row] for row in rows]
    if nw.dependencies.is_into_series(X):
        return nw.from_native(with_rows_to_take(X), series_only=True)[rows].to_native()
    if not sparse.issparse(X):
        return X[rows] if isinstance(X, np.ma.MaskedArray) else take_rows(X, rows)
    taken = X.tocsr()[rows]
    if (limits := getattr(X, "limits", None)) is not None:
        taken.limits = limits
    return taken
