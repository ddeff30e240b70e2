"""Communication between the processes of one fit, each of which holds some rows of the table."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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


_Result = TypeVar("_Result")
# Seconds between two looks whether the user pressed Ctrl-C.
_LOOK_EVERY = 0.1


class CommPool:
    """Runs functions side by side that reduce over the same ranks, which run the same functions in the same order.

    When all that still run wait for a reduction, all sums are made by one, and all maxima by another. No more than
    `n_threads` of them work at any time.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.comm import LOCAL
    >>> from fastens.engine.comm import CommPool
    >>> def add(comm, number):
    ...     total = np.array([number])
    ...     comm.sum(total)
    ...     return int(total[0])
    >>> CommPool(LOCAL, n_threads=1).run(add, [3, 4])
    [3, 4]
    """

    def __init__(self, comm: Comm, n_threads: int) -> None:
        self.comm = comm
        self._may_work = threading.Semaphore(n_threads)
        self._changed = threading.Condition()
        self._n_running = self._n_rounds = 0
        self._waiting: dict[int, tuple[str, Sequence[NDArray[np.int64]]]] = {}
        self._error: BaseException | None = None
        self._results: dict[int, Any] = {}

    def run(self, function: Callable[[Comm, Any], _Result], arguments: Sequence[Any]) -> list[_Result]:
        """Return what the function returns of each argument; it gets a comm of its own with it."""
        self._n_running = len(arguments)
        with ThreadPoolExecutor(max(len(arguments), 1)) as threads:
            try:
                futures = [threads.submit(self._run_one, function, place, of) for place, of in enumerate(arguments)]
                while not all(future.done() for future in futures):
                    with self._changed:
                        self._changed.wait(_LOOK_EVERY)
            except BaseException as error:
                self._fail(error)
                raise
        if self._error is not None:
            raise self._taken_error()
        return [self._results[place] for place in range(len(arguments))]

    def _run_one(self, function: Callable[[Comm, Any], Any], place: int, argument: Any) -> None:
        with self._may_work:
            try:
                self._results[place] = function(_Member(self, place), argument)
            except BaseException as error:
                self._fail(error)
            finally:
                with self._changed:
                    self._n_running -= 1
                    self._reduce_if_all_wait()
                    self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _taken_error(self) -> BaseException:
        """The first error, which is kept no longer: one that is raised holds the frames that hold this."""
        error, self._error = self._error, None
        assert error is not None
        return error

    def reduce(self, place: int, kind: str, arrays: Sequence[NDArray[np.int64]]) -> None:
        """Wait until the others wait, too, and for what the ranks have then."""
        with self._changed:
            n_rounds = self._n_rounds
            self._waiting[place] = kind, arrays
            self._reduce_if_all_wait()
            self._may_work.release()
            while self._n_rounds == n_rounds and self._error is None:
                self._changed.wait()
        self._may_work.acquire()
        if self._error is not None:
            raise self._error

    def _reduce_if_all_wait(self) -> None:
        if self._error is not None or not self._waiting or len(self._waiting) < self._n_running:
            return
        try:
            for kind, reduce in (("max", self.comm.max), ("sum", self.comm.sum)):
                given = [self._waiting[place][1] for place in sorted(self._waiting) if self._waiting[place][0] == kind]
                arrays = [array for of_one in given for array in of_one]
                if arrays:
                    together = np.concatenate([array.ravel() for array in arrays])
                    reduce(together)
                    for array, part in zip(
                        arrays, np.split(together, np.cumsum([a.size for a in arrays])), strict=False
                    ):
                        array[...] = part.reshape(array.shape)
        except BaseException as error:
            self._error = error
        self._waiting.clear()
        self._n_rounds += 1
        self._changed.notify_all()


class _Member(Comm):
    """What one of the functions sees."""

    def __init__(self, pool: CommPool, place: int) -> None:
        self.rank, self.size = pool.comm.rank, pool.comm.size
        self._pool, self._place = pool, place

    def sum(self, *arrays: NDArray[np.int64]) -> None:
        """Add up arrays over the ranks, in place."""
        self._pool.reduce(self._place, "sum", arrays)

    def max(self, *arrays: NDArray[np.int64]) -> None:
        """Replace arrays by their elementwise maxima over the ranks."""
        self._pool.reduce(self._place, "max", arrays)

    def gather(self, value: Any) -> list[Any]:
        """Raise NotImplementedError: only numbers are reduced together."""
        raise NotImplementedError("functions side by side have sums and maxima in common, and nothing else")


_NOT_COUNTED = {"n_threads", "owner"}
Function = TypeVar("Function", bound=Callable[..., Any])


class _State(threading.local):
    # What was made so far, by what it was made from; None where nothing is shared. Other threads share nothing with
    # this one: a binned matrix has one grower at a time.
    made: dict[Hashable, tuple[Any, Any]] | None = None


_state = _State()


@contextmanager
def shared_work() -> Iterator[None]:
    """Within it, in this thread, functions marked by `shared` give the same object for the same arguments.

    What they were given must not be changed meanwhile. A context within another one uses that of the outer.
    """
    if _state.made is not None:
        yield
        return
    _state.made = {}
    try:
        yield
    finally:
        _state.made = None


def shared(function: Function) -> Function:
    """Mark a function whose result follows from its arguments, and is never changed by those who get it.

    Its arguments are compared by value where they are short, by identity where they are tables or other objects. An
    argument named `n_threads` does not count, nor does one named `owner`, which words errors.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if _state.made is None:
            return function(*args, **kwargs)
        given = dict(zip(function.__code__.co_varnames, args, strict=False)) | kwargs
        counted = sorted(given.keys() - _NOT_COUNTED)
        key = (function.__qualname__, *((name, _key(given[name])) for name in counted))
        if key not in _state.made:
            # The arguments are kept with the result, so that nothing else can take their identity.
            _state.made[key] = (function(*args, **kwargs), (args, kwargs))
        return _state.made[key][0]

    return wrapper  # type: ignore[return-value]


def _key(value: Any) -> Hashable:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return (value.dtype.str, hashlib.blake2b(value.tobytes()).digest())
    if value is None or isinstance(value, bool | int | float | str):
        return (type(value), value)
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    return id(value)
