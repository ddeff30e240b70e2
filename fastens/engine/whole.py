"""Whether numbers are whole: where weights are, each is the same as so many copies of its row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def are_whole(numbers: NDArray[Any]) -> bool:
    """Whether all numbers are whole.

    Examples
    --------
    >>> import numpy as np
    >>> are_whole(np.array([2.0, 3.0])), are_whole(np.array([2.0, 3.5]))
    (True, False)
    """
    return bool((numbers == np.rint(numbers)).all())
