"""Arrays, sequences and sparse matrices as tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from fastens.cached import cached_property
from fastens.engine.parts import FLOATS, ConvertedRows, in_blocks
from fastens.engine.rows.sparse_rows import canonical
from fastens.table.columns.numbers import has_large_numbers
from fastens.table.tables import Table

_FLOAT64, _FLOAT32 = FLOATS


class ArrayTable(Table):
    """The columns of a 2-D NumPy array, or of a CSR matrix of numbers."""

    @cached_property
    def array(self) -> Any:
        """The table where it is a row source already."""
        if sparse.issparse(self.source) or is_ready_array(self.source):
            return self.source
        return converted(self.source) if self.source.dtype.kind in "biuf" else None

    @cached_property
    def block(self) -> NDArray[Any] | None:
        """The table where it holds whole numbers or booleans, and is not sparse."""
        return self.source if self.source.dtype.kind in "biu" and not sparse.issparse(self.source) else None

    @cached_property
    def arrays(self) -> list[NDArray[Any]]:
        """The columns, as they are stored in full."""
        return list(dense(self.source).T)

    def is_categorical(self, index: int) -> bool | None:
        """Whether the column is categorical by its type."""
        kind = self.source.dtype.kind
        return self.is_of_words(index) if kind == "O" else kind in "UT"


def is_plain(X: Any) -> bool:
    """Whether `X` is already what the engine reads: a NumPy matrix of native floats that is not empty."""
    return (
        type(X) is np.ndarray
        and (X.dtype is _FLOAT64 or X.dtype is _FLOAT32)
        and X.ndim == 2
        and X.size > 0
        and X.flags.aligned
    )


def is_ready_array(array: NDArray[Any]) -> bool:
    """Whether the engine reads an array as it is."""
    return array.dtype in FLOATS and array.flags.aligned


def converted(array: NDArray[Any]) -> Any:
    """Return an array of numbers of any type as a row source of floats, a large one block by block."""
    return in_blocks(ConvertedRows.of_array(array))


def table_from_array(X: Any, owner: str, fewest: int = 1) -> ArrayTable:
    """Return a table over an array, a sequence or a sparse matrix; ValueError for one of fewer rows."""
    if is_plain(X):
        return ArrayTable(X)
    array = checked_array(X, owner, fewest)
    return ArrayTable(canonical(array) if sparse.issparse(array) else array)


def checked_array(X: Any, owner: str, fewest: int = 1) -> Any:
    """Return anything that is no frame as an array, or a CSR matrix, by scikit-learn's rules and messages.

    ValueError for one of fewer rows.
    """
    if hasattr(X, "collect"):
        raise ValueError(f"X must be a table in memory; got a {type(X).__name__}, whose collect() gives one.")
    if isinstance(X, np.ndarray) and X.dtype.names:
        fields = list(X.dtype.names)
        raise ValueError(f"X must be a table; got a structured array of {fields}, which pandas.DataFrame(X) makes one.")
    if isinstance(X, np.ma.MaskedArray | list | tuple):
        X = plain_array(X)
    elif not sparse.issparse(X):
        array = np.asarray(X)
        if array.ndim == 0 and array.dtype.kind == "O":
            raise ValueError(f"X must be a table, such as an array or a data frame; got an object of type {_name(X)}.")
    check_places(X)
    X = check_array(
        X,
        accept_sparse="csr",
        dtype=None,
        ensure_all_finite=False,
        ensure_min_samples=fewest,
        estimator=owner,
        input_name="X",
    )
    if sparse.issparse(X):
        return X
    return np.asarray(X)


def _name(thing: Any) -> str:
    """The name of a type, with that of its package."""
    package = type(thing).__module__.partition(".")[0]
    return type(thing).__name__ if package == "builtins" else f"{package}.{type(thing).__name__}"


def plain_array(X: Any) -> NDArray[Any]:
    """Return an array or sequence as a plain array: masked values are missing, numbers among texts stay numbers."""
    if isinstance(X, np.ma.MaskedArray):
        return with_missing(X)
    array = np.asarray(X)
    is_sequence = isinstance(X, list | tuple)
    return np.asarray(X, dtype=object) if is_sequence and array.dtype.kind in "US" else array


def check_places(X: Any) -> None:
    """Raise ValueError where the places of a CSR or CSC matrix are none of it.

    SciPy does not look at them, also where it takes rows or makes an array of one.
    """
    if not (sparse.issparse(X) and X.format in ("csr", "csc")):
        return
    starts, places = X.indptr, X.indices
    n_lines, n_places = X.shape if X.format == "csr" else X.shape[::-1]
    if len(starts) != n_lines + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        raise ValueError("X must have an indptr that begins with 0 and does not fall, one number more than lines.")
    if starts[-1] > min(len(places), len(X.data)):
        raise ValueError(f"X must have an indptr that ends with the number of its values; it ends with {starts[-1]}.")
    known = places[: starts[-1]]
    if known.size and (known.min() < 0 or known.max() >= n_places):
        raise ValueError(f"X must have indices from 0 to {n_places - 1}; got {known.min()} to {known.max()}.")


def dense(X: Any) -> Any:
    """A sparse matrix as an array; anything else as it is."""
    if not sparse.issparse(X):
        return X
    check_places(X)
    return X.toarray()


def with_missing(X: np.ma.MaskedArray) -> NDArray[Any]:
    """A masked array as a plain one, its masked values missing: NaN among numbers, NaT among dates, else None."""
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
