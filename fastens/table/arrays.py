"""Arrays, sequences and sparse matrices that are passed as tables, and checks of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from fastens.table.columns.numbers import has_large_numbers, plain_column, plain_table

_WIDE = (nw.Int64, nw.UInt64)


def checked_array(X: Any, owner: str, min_rows: int = 1) -> Any:
    """Return a table that is not a frame as an array or a CSR matrix, with scikit-learn's checks and messages.

    Raises ValueError if it has fewer than `min_rows` rows; `owner` is the name of the estimator in messages.
    """
    if hasattr(X, "collect"):
        raise ValueError(f"X must be a table in memory; got a {type(X).__name__}. Pass X.collect().")
    if isinstance(X, np.ndarray) and X.dtype.names:
        fields = list(X.dtype.names)
        raise ValueError(f"X must be a table; got a structured array of {fields}. Pass pandas.DataFrame(X).")
    if isinstance(X, np.ma.MaskedArray | list | tuple):
        X = plain_array(X)
    elif not sparse.issparse(X):
        array = np.asarray(X)
        if array.ndim == 0 and array.dtype.kind == "O":
            raise ValueError(
                f"X must be a table, such as an array or a data frame; got an object of type {_type_name(X)}."
            )
    check_sparse_indices(X)
    X = check_array(
        X,
        accept_sparse="csr",
        dtype=None,
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
        estimator=owner,
        input_name="X",
    )
    return X


def _type_name(thing: Any) -> str:
    """Return the type name of an object, prefixed with its package unless it is a builtin."""
    package = type(thing).__module__.partition(".")[0]
    return type(thing).__name__ if package == "builtins" else f"{package}.{type(thing).__name__}"


def plain_array(X: Any) -> NDArray[Any]:
    """Return an array or sequence as an array; masked values become missing, lists with strings get dtype object."""
    if isinstance(X, np.ma.MaskedArray):
        return with_missing(X)
    array = np.asarray(X)
    is_sequence = isinstance(X, list | tuple)
    return np.asarray(X, dtype=object) if is_sequence and array.dtype.kind in "US" else array


def check_sparse_indices(X: Any) -> None:
    """Raise ValueError if the indptr or the indices of a CSR or CSC matrix are invalid; ignore any other object.

    SciPy does not check them, even when it selects rows or converts a matrix to an array.
    """
    if not (sparse.issparse(X) and X.format in ("csr", "csc")):
        return
    starts, indices = X.indptr, X.indices
    n_lines, n_places = X.shape if X.format == "csr" else X.shape[::-1]
    if len(starts) != n_lines + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        raise ValueError(
            "X must have an indptr that starts with 0, never decreases and has one entry more "
            "than rows (CSR) or columns (CSC)."
        )
    if starts[-1] > min(len(indices), len(X.data)):
        raise ValueError(
            f"X must have an indptr that ends with its number of stored values; it ends with {starts[-1]}."
        )
    stored_indices = indices[: starts[-1]]
    if stored_indices.size and (stored_indices.min() < 0 or stored_indices.max() >= n_places):
        raise ValueError(
            f"X must have indices from 0 to {n_places - 1}; got {stored_indices.min()} to {stored_indices.max()}."
        )


def dense(X: Any) -> Any:
    """Return a sparse matrix as a dense array after checking its indices (ValueError), and anything else unchanged."""
    if not sparse.issparse(X):
        return X
    check_sparse_indices(X)
    return X.toarray()


def with_missing(X: np.ma.MaskedArray) -> NDArray[Any]:
    """Return a masked array as a plain array whose masked values are missing values.

    They become NaN for numbers, NaT for dates and durations, and None for all other dtypes and for integers that
    float64 cannot represent exactly.
    """
    mask = np.ma.getmaskarray(X)
    if not mask.any():
        return X.data
    if X.dtype.kind == "f":
        return X.filled(np.nan)
    if X.dtype.kind in "mM":
        return X.filled(np.array(["NaT"], X.dtype)[0])
    is_exact = X.dtype.kind == "b" or (X.dtype.kind in "iu" and not has_large_numbers(X.data[~mask]))
    plain = X.data.astype(np.float64 if is_exact else object)
    plain[mask] = np.nan if is_exact else None
    return plain


def with_rows_to_take(X: Any) -> Any:
    """Return a frame or an Arrow column converted, if necessary, to a form that supports row selection.

    pandas cannot select rows of numbers with non-native byte order. Arrow cannot select rows of string views, which
    polars exports, or of run-end encoded columns. All other objects are returned unchanged.
    """
    native = nw.to_native(X, pass_through=True)
    if nw.dependencies.is_pandas_dataframe(native):
        return _with_native_byte_order(native)
    if nw.dependencies.is_pyarrow_table(native):
        return plain_table(native)
    return plain_column(native) if nw.dependencies.is_pyarrow_chunked_array(native) else X


def _with_native_byte_order(frame: Any) -> Any:
    """Return a pandas frame with its NumPy columns in native byte order; the frame itself if they already are."""
    converted = frame
    for index, dtype in enumerate(frame.dtypes):
        if isinstance(dtype, np.dtype) and not dtype.isnative:
            converted = frame.copy(deep=False) if converted is frame else converted
            converted.isetitem(index, frame.iloc[:, index].to_numpy().astype(dtype.newbyteorder("=")))
    return converted


def narrow_dtype(values: NDArray[Any]) -> np.dtype[Any]:
    """Return the dtype in which to copy numbers: int32 for wider integers that fit it, otherwise their own.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.arrays import narrow_dtype
    >>> narrow_dtype(np.array([1, 2**31])), narrow_dtype(np.array([1, 2], dtype=np.uint64))
    (dtype('int64'), dtype('int32'))
    """
    narrow, dtype = np.dtype(np.int32), values.dtype
    if dtype.kind not in "iu" or dtype.itemsize <= narrow.itemsize:
        return dtype
    limits = np.iinfo(narrow)
    fits = limits.min <= int(values.min(initial=0)) and int(values.max(initial=0)) <= limits.max
    return narrow if fits else dtype


def rows_of_frame(X: Any, rows: NDArray[np.intp], narrows: bool) -> Any:
    """Return the rows at these indices as a frame of the same kind; `narrows` stores integers as int32 if all fit."""
    frame = nw.from_native(with_rows_to_take(X), eager_only=True)
    if not narrows or not any(frame[:, index].dtype in _WIDE for index in range(frame.shape[1])):
        return frame[rows].to_native()
    columns = [_narrow_series(frame[:, index], rows) for index in range(frame.shape[1])]
    native = frame.to_native()
    if not nw.dependencies.is_pandas_dataframe(native):
        return nw.from_dict(dict(zip(frame.columns, columns, strict=True)), backend=frame.implementation).to_native()
    arrays = {index: column.to_native().array for index, column in enumerate(columns)}
    # The constructor would otherwise copy all columns once more.
    selected = type(native)(arrays, index=native.index[rows], copy=False)
    selected.columns = native.columns
    return selected


def _narrow_series(column: nw.Series[Any], rows: NDArray[np.intp]) -> nw.Series[Any]:
    """Return the rows at these indices of a column, as int32 if it is a 64-bit integer column whose values all fit."""
    if column.dtype not in _WIDE or column.null_count() == len(column):
        return column[rows]
    extremes = np.array([int(column.min()), int(column.max())])
    return column[rows].cast(nw.Int32) if narrow_dtype(extremes) == np.int32 else column[rows]


def free_names(names: Iterable[str], taken: Iterable[Any] = ()) -> list[str]:
    """Return the names in order, with "_" appended until they differ from taken and earlier names.

    Examples
    --------
    >>> from fastens.table.arrays import free_names
    >>> free_names(["age", "size", "size"], taken=["age"])
    ['age_', 'size', 'size_']
    """
    used_names, new_names = set(taken), []
    for name in names:
        free = name
        while free in used_names:
            free += "_"
        used_names.add(free)
        new_names.append(free)
    return new_names
