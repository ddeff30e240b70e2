"""Sparse matrices as the kernels read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fastens.engine.limits import check_shape
from fastens.engine.parts import as_floats
from fastens.engine.rows.gather import hash_rows
from fastens.engine.rows.stored import hash_stored, sum_duplicates


class Columns(NamedTuple):
    """The stored values of a sparse matrix, one column after another; in each, rows ascend.

    Attributes
    ----------
    values : float32 or float64 array of shape (n_stored,)
        The values.
    rows : int32 array of shape (n_stored,)
        Their rows.
    starts : int64 array of shape (n_columns + 1,)
        Where each column begins.
    """

    values: NDArray[np.floating]
    rows: NDArray[np.int32]
    starts: NDArray[np.int64]


def columns_of(X: Any) -> Columns:
    """Return the columns of a sparse matrix of numbers as floats; values stored for the same place are added up.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> from fastens.engine.rows.sparse_rows import columns_of
    >>> columns_of(csr_matrix(([1.0, 2.0, 3.0], [1, 1, 0], [0, 3]), shape=(1, 2)))
    Columns(values=array([3., 3.]), rows=array([0, 0], dtype=int32), starts=array([0, 1, 2]))
    """
    check_shape(X)
    # From rows to columns scipy keeps the order of what is stored for one place: it is added up as in `toarray`.
    by_column = X.tocsr().tocsc()
    values, rows = as_floats(by_column.data), by_column.indices.astype(np.int32, copy=False)
    starts = by_column.indptr.astype(np.int64)
    if not X.has_canonical_format:
        n = sum_duplicates(values, rows, starts)
        values, rows = values[:n], rows[:n]
    return Columns(values, rows, starts)


def canonical(X: Any) -> Any:
    """Return a CSR matrix whose rows store each place once, in the order of the columns; itself where it is one."""
    if X.format == "csr" and X.has_canonical_format:
        return X
    values, rows, starts = columns_of(X)
    by_row = scipy.sparse.csc_matrix((values, rows, starts), shape=X.shape).tocsr()
    by_row.has_canonical_format = True
    return by_row


def hash_table(X: Any, out: NDArray[np.uint64], n_threads: int = 1) -> None:
    """Write a hash of each row's content: the same for an array and for a sparse matrix of these rows.

    Parameters
    ----------
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        The rows.
    out : uint64 array of shape (n_rows,)
        Gets the hashes.
    n_threads : int
        How many threads there may be.
    """
    if not scipy.sparse.issparse(X):
        hash_rows(X, out, n_threads)
    elif X.shape[0]:
        check_shape(X)
        rows = canonical(X)
        hash_stored(as_floats(rows.data), rows.indices.astype(np.int32, copy=False), rows.indptr.astype(np.int64), out)
