"""Arrays of NumPy that hold more than floats: masks, and whole numbers of more than 53 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
