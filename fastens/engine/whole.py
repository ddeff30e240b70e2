"""Whether numbers are whole: where weights are, each is the same as so many copies of its row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Sums of more whole numbers than this are not exact: such weights are no numbers of copies.
MOST_COPIES = 2.0**53
# Whole weights with a sum below this are what they are to growers of forests' trees, which round others.
MOST_EXACT = 2.0**40
# No table has more rows, and no tree more leaves or levels, so that a larger limit means the same.
LARGEST_LIMIT = 2**31 - 1


def are_whole(numbers: NDArray[Any]) -> bool:
    """Whether all numbers are whole.

    Examples
    --------
    >>> import numpy as np
    >>> are_whole(np.array([2.0, 3.0])), are_whole(np.array([2.0, 3.5]))
    (True, False)
    """
    return bool((numbers == np.rint(numbers)).all())


def are_copies(weight: NDArray[np.float64] | None) -> bool:
    """Whether weights are numbers of copies of their rows: whole, with a sum of at most 2**53, or None for ones.

    Examples
    --------
    >>> import numpy as np
    >>> are_copies(np.array([2.0, 3.0])), are_copies(np.array([2.0, 1e300]))
    (True, False)
    """
    return weight is None or (bool(weight.sum() <= MOST_COPIES) and are_whole(weight))


def cap_limits(rules: Any) -> None:
    """Give the whole numbers of a frozen record of limits that are larger than kernels count the largest they do.

    Examples
    --------
    >>> from fastens.engine.grow.growth import GrowthRules
    >>> GrowthRules(min_samples_leaf=10**30).min_samples_leaf
    2147483647
    """
    for name, value in vars(rules).items():
        if isinstance(value, int | np.integer) and value > LARGEST_LIMIT:
            object.__setattr__(rules, name, LARGEST_LIMIT)
