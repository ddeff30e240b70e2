"""Checks for integer-valued arrays; integer weights count as copies of rows (frequency weights)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Sums of integers above this are not exact in float64, so such weights cannot count as copies.
MAX_COPIES = 2.0**53
# Forest growers use integer weights with a sum below this unchanged; they round all other weights.
MAX_EXACT = 2.0**40
# No table has more rows, and no tree has more leaves or levels, so larger limits are equivalent to this one.
LARGEST_LIMIT = 2**31 - 1


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


def cap_limits(rules: Any) -> None:
    """Clip the integer limits of a frozen dataclass to the largest value that kernels can represent.

    Examples
    --------
    >>> from fastens.engine.grow.growth import GrowthRules
    >>> GrowthRules(min_samples_leaf=10**30).min_samples_leaf
    2147483647
    """
    for name, value in vars(rules).items():
        if isinstance(value, int | np.integer) and value > LARGEST_LIMIT:
            object.__setattr__(rules, name, LARGEST_LIMIT)
