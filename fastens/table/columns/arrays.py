"""Arrays as given: sequences, masked and structured arrays, whole numbers of more than 53 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from fastens.table.columns.numbers import FLOATS

EXACT = 1 << 53  # whole numbers up to here are exact as floats


def with_missing(X: np.ma.MaskedArray) -> NDArray[Any]:
    """A masked array as a plain one, its masked values missing: NaN among numbers, NaT among dates, else None."""
    mask = np.ma.getmaskarray(X)
    if not mask.any():
        return X.data
    if X.dtype.kind == "f":
        return X.filled(np.nan)
    if X.dtype.kind in "mM":
        return X.filled(X.dtype.type("NaT"))
    is_exact = X.dtype.kind == "b" or (X.dtype.kind in "iu" and not has_large_numbers(X.data[~mask]))
    plain = X.data.astype(np.float64 if is_exact else object)
    plain[mask] = np.nan if is_exact else None
    return plain


def has_large_numbers(X: NDArray[Any]) -> bool:
    """Whether an array holds whole numbers that are not exact as floats."""
    if X.dtype.kind not in "iu" or X.itemsize < 8 or not X.size:
        return False
    return int(X.max()) > EXACT or int(X.min()) < -EXACT


def checked_array(X: Any, owner: str, fewest: int = 1) -> Any:
    """Return anything that is no frame as an array, or a CSR matrix, by scikit-learn's rules and messages.

    ValueError for one of fewer rows.
    """
    if hasattr(X, "collect"):
        raise ValueError(f"X must be a table in memory; got a {type(X).__name__}, whose collect() gives one.")
    if isinstance(X, np.ndarray) and X.dtype.names:
        fields = list(X.dtype.names)
        raise ValueError(f"X must be a table; got a structured array of {fields}, which pandas.DataFrame(X) makes one.")
    if isinstance(X, np.ma.MaskedArray):
        X = with_missing(X)
    if isinstance(X, list | tuple):
        array = np.asarray(X)
        X = array if array.dtype.kind not in "US" else np.asarray(X, dtype=object)
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
    X = np.asarray(X)
    # As floats, large whole numbers would be equal that are not, which matters where they are categories.
    keeps_type = X.dtype in FLOATS or X.dtype.kind not in "biuf" or has_large_numbers(X)
    return X if keeps_type else X.astype(np.float64)
