"""Communication between the ranks of one fit, each of which holds some rows of the table.

Everything that a fit reduces over rows goes through a `Comm`. Sums are of whole numbers and maxima of ordered bits, so
results do not depend on the order of the ranks, and a model is the same to the bit for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
_LIMB_BITS = 31
# Whole numbers below 2**154: those of a table's sums have at most 62 + 31 + 32 bits.
_N_LIMBS = 5
_MAGNITUDE = np.int64(2**63 - 1)


class Comm:
    """The ranks of a fit. This one is of a single rank and does nothing; others override all that it has.

    All ranks call the same methods in the same order.

    Attributes
    ----------
    rank : int
        The number of this rank; the rows of rank 0 come first in the table.
    size : int
        How many ranks there are.
    sums_travel : bool
        Whether ranks can do other work between `begin_sum` and its result.
    """

    rank: int = 0
    size: int = 1
    sums_travel: bool = False

    def sum(self, *arrays: NDArray[np.int64]) -> None:
        """Add up arrays over the ranks, in place."""

    def begin_sum(self, *arrays: NDArray[np.int64]) -> Callable[[], None]:
        """Begin to do so; return what waits for the sums, which is to be called in the order of the beginnings."""
        return partial(self.sum, *arrays)

    def max(self, *arrays: NDArray[np.int64]) -> None:
        """Replace arrays by their elementwise maxima over the ranks."""

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order: anything that can be pickled."""
        return [value]

    def exchange(self, values: list[Any]) -> list[Any]:
        """Give each rank its value; return what the ranks have for this one, in their order.

        Here all ranks see all values; a comm of messages sends each to its rank alone.
        """
        return [of_rank[self.rank] for of_rank in self.gather(values)]


LOCAL = Comm()


def sum_over(comm: Comm, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums over the ranks of an array, which may change."""
    comm.sum(numbers)
    return numbers


def sum_ints(comm: Comm, *numbers: int) -> list[int]:
    """Return the sums over the ranks of whole numbers of up to 154 bits.

    Examples
    --------
    >>> sum_ints(LOCAL, 2**100, -1) == [2**100, -1]
    True
    """
    if comm.size == 1:
        return list(numbers)
    limbs = np.empty((len(numbers), _N_LIMBS), dtype=np.int64)
    for own, number in zip(limbs, numbers, strict=True):
        for place in range(_N_LIMBS - 1):
            own[place] = (number >> place * _LIMB_BITS) & ((1 << _LIMB_BITS) - 1)
        own[-1] = number >> (_N_LIMBS - 1) * _LIMB_BITS
    comm.sum(limbs)
    return [sum(limb << place * _LIMB_BITS for place, limb in enumerate(own)) for own in limbs.tolist()]


def max_floats(comm: Comm, *numbers: float) -> list[float]:
    """Return the maxima over the ranks of floats; NaN of a positive sign is the largest.

    Examples
    --------
    >>> max_floats(LOCAL, -2.5, 1.0)
    [-2.5, 1.0]
    """
    if comm.size == 1:
        return list(numbers)
    keys = ordered_bits(np.array(numbers, dtype=np.float64))
    comm.max(keys)
    found: list[float] = floats_of_bits(keys).tolist()
    return found


def is_any(comm: Comm, answer: bool) -> bool:
    """Whether the answer is yes on any rank."""
    if comm.size == 1:
        return answer
    votes = np.array([answer], dtype=np.int64)
    comm.max(votes)
    return bool(votes[0])


def first_row(comm: Comm, n_rows: int) -> tuple[int, int]:
    """Return the number, in the whole table, of this rank's first row, and the number of rows of all ranks."""
    sizes = comm.gather(n_rows)
    return sum(sizes[: comm.rank]), sum(sizes)


def own_rows(comm: Comm, n_rows: int, *numbers: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return which of the rows that rank 0 numbers in the whole table are of this rank: their numbers here, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> own_rows(LOCAL, 4, np.array([2, 0]), np.array([3, 1]))
    [array([0, 2]), array([1, 3])]
    """
    first, _ = first_row(comm, n_rows)
    chosen = comm.gather(numbers if comm.rank == 0 else None)[0]
    return [np.sort(part[(part >= first) & (part < first + n_rows)]) - first for part in chosen]


def gathered(comm: Comm, arrays: Iterable[Any], axis: int = 0) -> list[Any]:
    """Return arrays of rows of the whole table; None where a rank's is None, as it is then on all of them."""
    if comm.size == 1:
        return list(arrays)
    parts = zip(*comm.gather(list(arrays)), strict=True)
    return [None if own[0] is None else np.concatenate(own, axis=axis) for own in parts]


def of_whole(comm: Comm, function: Callable[..., Any], *arrays: Any) -> Any:
    """Return this rank's part of a function of arrays of the whole table; rows are the last axis of all of them.

    Examples
    --------
    >>> import numpy as np
    >>> of_whole(LOCAL, lambda values: values / values.sum(), np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    if comm.size == 1:
        return function(*arrays)
    n_rows = arrays[0].shape[-1]
    first, _ = first_row(comm, n_rows)
    return function(*gathered(comm, arrays, axis=-1))[..., first : first + n_rows]


def in_turn(comm: Comm, sums: NDArray[np.float64], add: Callable[[NDArray[np.float64]], None]) -> NDArray[np.float64]:
    """Let each rank add its rows to sums, after the rank before; return them: floats added in the order of the table.

    Examples
    --------
    >>> import numpy as np
    >>> in_turn(LOCAL, np.zeros(2), lambda sums: np.add.at(sums, [0, 1, 1], 0.5))
    array([0.5, 1. ])
    """

    def added(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        add(sums)
        return sums

    found = relayed(comm, sums, added)
    if found is not sums:
        sums[...] = found
    return sums


def relayed(comm: Comm, state: T, change: Callable[[T], T]) -> T:
    """Let each rank change what the rank before has left, anything that can be pickled; return what the last leaves.

    Examples
    --------
    >>> relayed(LOCAL, "a", lambda text: text + "b")
    'ab'
    """
    for turn in range(comm.size):
        if comm.rank == turn:
            state = change(state)
        if comm.size > 1:
            state = comm.gather(state if comm.rank == turn else None)[turn]
    return state


def counted(comm: Comm, sums: NDArray[Any], add: Callable[[Any], None]) -> Any:
    """Let each rank add its rows to sums, which are 0; return those of all: floats added in the order of the table.

    Examples
    --------
    >>> import numpy as np
    >>> counted(LOCAL, np.zeros(2, dtype=np.int64), lambda sums: np.add.at(sums, [0, 1, 1], 1))
    array([1, 2])
    """
    if sums.dtype.kind == "f":
        return in_turn(comm, sums, add)
    add(sums)
    return sum_over(comm, sums)


def ordered_bits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers in the order of floats; 0.0 and -0.0 have the same.

    Examples
    --------
    >>> import numpy as np
    >>> np.diff(ordered_bits(np.array([-np.inf, -1.0, -0.0, 0.0, 1e-300]))) > 0
    array([ True,  True, False,  True])
    """
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


def floats_of_bits(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the floats of which `ordered_bits` made whole numbers."""
    return np.where(keys < 0, keys ^ _MAGNITUDE, keys).view(np.float64)
