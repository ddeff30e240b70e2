"""Checks for integer-valued arrays; integer weights count as copies of rows (frequency weights)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Larger sums of integers are not exact in float64, so such weights cannot count as copies.
MAX_COPIES = 2.0**53


def are_whole(numbers: NDArray[Any]) -> bool:
    """Return True if all values are integers.

    Examples
    --------
    >>> import numpy as np
    >>> are_whole(np.array([2.0, 3.0])), are_whole(np.array([2.0, 3.5]))
    (True, False)
    """
    return bool((numbers == np.rint(numbers)).all())


def are_copies(weight: NDArray[np.float64] | None) -> bool:
    """Return True if weights count as copies of rows: None, or integers with a sum of at most 2**53.

    Examples
    --------
    >>> import numpy as np
    >>> are_copies(np.array([2.0, 3.0])), are_copies(np.array([2.0, 1e300]))
    (True, False)
    """
    return weight is None or (bool(weight.sum() <= MAX_COPIES) and are_whole(weight))
