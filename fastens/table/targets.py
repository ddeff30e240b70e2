"""How large the numbers to be predicted may be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Gradients are float32, and sums of squares must not overflow.
LARGEST_TARGET = 1e30


def check_magnitude(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return finite targets as they are; ValueError where one is too large to train on.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.targets import check_magnitude
    >>> check_magnitude(np.array([1.0, -1e308]))
    Traceback (most recent call last):
    ValueError: y must lie between -1e+30 and 1e+30; it holds -1e+308. Divide it by a constant.
    """
    if y.size and max(y.max(), -y.min()) > LARGEST_TARGET:
        found = y.flat[np.abs(y).argmax()]
        raise ValueError(
            f"y must lie between {-LARGEST_TARGET:g} and {LARGEST_TARGET:g}; it holds {found:g}. "
            "Divide it by a constant."
        )
    return y
