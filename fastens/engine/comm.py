"""Communication between the processes of a distributed fit, each of which holds a shard of the rows."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastens.engine.threads import ThreadPool

T = TypeVar("T")
_LIMB_BITS = 31
# Integers are below 2**154; sums over a table have at most 62 + 31 + 32 bits.
_N_LIMBS = 5
_MAGNITUDE = np.int64(2**63 - 1)


class Comm:
    """Communicator of a single process, for which all operations are trivial; subclasses override everything.

    All ranks call the same methods in the same order.

    Attributes
    ----------
    rank : int
        Index of this rank. The table starts with the rows of rank 0.
    size : int
        Number of ranks.
    sums_travel : bool
        True if ranks can do other work between `begin_allreduce_sum` and its result.
    """

    rank: int = 0
    size: int = 1
    sums_travel: bool = False

    def allreduce_sum(self, *arrays: NDArray[np.int64]) -> None:
        """Replace arrays by their elementwise sums over all ranks, in place."""

    def begin_allreduce_sum(self, *arrays: NDArray[np.int64]) -> Callable[[], None]:
        """Start to sum arrays over all ranks in place; return a function that waits for the sums.

        The functions of several sums must be called in the order in which the sums were started.
        """
        return partial(self.allreduce_sum, *arrays)

    def allreduce_max(self, *arrays: NDArray[np.int64]) -> None:
        """Replace arrays by their elementwise maxima over all ranks, in place."""

    def allgather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, ordered by rank (allgather). Values can be any picklable objects."""
        return [value]

    def alltoall(self, values: list[Any]) -> list[Any]:
        """Send one value to each rank; return the values that the ranks sent to this one, ordered by rank.

        This implementation gathers all values on all ranks; communicators with point-to-point messages send each value
        only to its rank.
        """
        return [of_rank[self.rank] for of_rank in self.allgather(values)]


LOCAL = Comm()


def sum_over(comm: Comm, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the elementwise sums of an array over all ranks; the array may be overwritten."""
    comm.allreduce_sum(numbers)
    return numbers


def sum_ints(comm: Comm, *numbers: int) -> list[int]:
    """Return the sums of integers of up to 154 bits over all ranks.

    Examples
    --------
    >>> sum_ints(LOCAL, 2**100, -1) == [2**100, -1]
    True
    """
    if comm.size == 1:
        return list(numbers)
    limbs = np.empty((len(numbers), _N_LIMBS), dtype=np.int64)
    for row, number in zip(limbs, numbers, strict=True):
        for index in range(_N_LIMBS - 1):
            row[index] = (number >> index * _LIMB_BITS) & ((1 << _LIMB_BITS) - 1)
        row[-1] = number >> (_N_LIMBS - 1) * _LIMB_BITS
    comm.allreduce_sum(limbs)
    return [sum(limb << index * _LIMB_BITS for index, limb in enumerate(row)) for row in limbs.tolist()]


def max_floats(comm: Comm, *numbers: float) -> list[float]:
    """Return the maxima of floats over all ranks; NaN with a positive sign is the largest value.

    Examples
    --------
    >>> max_floats(LOCAL, -2.5, 1.0)
    [-2.5, 1.0]
    """
    if comm.size == 1:
        return list(numbers)
    keys = ordered_bits(np.array(numbers, dtype=np.float64))
    comm.allreduce_max(keys)
    maxima: list[float] = floats_of_bits(keys).tolist()
    return maxima


def widest_ranges(comm: Comm, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the elementwise minima of `low` and the maxima of `high` over all ranks, shape (2, n).

    Examples
    --------
    >>> import numpy as np
    >>> widest_ranges(LOCAL, np.array([1.0]), np.array([2.0])).tolist()
    [[1.0], [2.0]]
    """
    if comm.size == 1:
        return np.stack([low, high])
    keys = ordered_bits(np.stack([-low, high]))
    comm.allreduce_max(keys)
    maxima = floats_of_bits(keys)
    return np.stack([-maxima[0], maxima[1]])


def is_any(comm: Comm, answer: bool) -> bool:
    """Return True on all ranks if `answer` is True on any rank."""
    if comm.size == 1:
        return answer
    votes = np.array([answer], dtype=np.int64)
    comm.allreduce_max(votes)
    return bool(votes[0])


def first_row(comm: Comm, n_rows: int) -> tuple[int, int]:
    """Return the index of this rank's first row in the whole table, and the total number of rows."""
    sizes = comm.allgather(n_rows)
    return sum(sizes[: comm.rank]), sum(sizes)


def own_rows(comm: Comm, n_rows: int, *numbers: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return this rank's share of selections of rows that rank 0 makes, as sorted local indices.

    On rank 0, `numbers` holds row indices in the whole table, one array per selection; other ranks' values are ignored.
    `n_rows` is the number of this rank's rows.

    Examples
    --------
    >>> import numpy as np
    >>> own_rows(LOCAL, 4, np.array([2, 0]), np.array([3, 1]))
    [array([0, 2]), array([1, 3])]
    """
    first, _ = first_row(comm, n_rows)
    chosen = comm.allgather(numbers if comm.rank == 0 else None)[0]
    return [np.sort(part[(part >= first) & (part < first + n_rows)]) - first for part in chosen]


def gathered(comm: Comm, arrays: Iterable[Any], axis: int = 0) -> list[Any]:
    """Return each array joined over all ranks, in rank order along `axis`; None stays None, as on every rank."""
    if comm.size == 1:
        return list(arrays)
    parts = zip(*comm.allgather(list(arrays)), strict=True)
    return [None if of_ranks[0] is None else np.concatenate(of_ranks, axis=axis) for of_ranks in parts]


def of_whole(comm: Comm, function: Callable[..., Any], *arrays: Any) -> Any:
    """Apply a function to the arrays of all ranks and return this rank's rows of the result.

    The last axis of the arrays and of the result must be the rows.

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


def chain_sum(comm: Comm, sums: NDArray[np.float64], add: Callable[[NDArray[np.float64]], None]) -> NDArray[np.float64]:
    """Let the ranks add their rows to `sums` one after another, in table order, and return the totals on all ranks.

    `add` adds this rank's rows to the array that it is called with, in place. Each rank starts from the sums of the
    previous ranks, so the rounding of floats does not depend on the number of ranks.

    Examples
    --------
    >>> import numpy as np
    >>> chain_sum(LOCAL, np.zeros(2), lambda sums: np.add.at(sums, [0, 1, 1], 0.5))
    array([0.5, 1. ])
    """

    def added(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        add(sums)
        return sums

    total = chain_reduce(comm, sums, added)
    if total is not sums:
        sums[...] = total
    return sums


def chain_reduce(comm: Comm, state: T, change: Callable[[T], T]) -> T:
    """Pass a picklable state from rank to rank, let each rank change it, and return the final state on all ranks.

    Examples
    --------
    >>> chain_reduce(LOCAL, "a", lambda text: text + "b")
    'ab'
    """
    for turn in range(comm.size):
        if comm.rank == turn:
            state = change(state)
        if comm.size > 1:
            state = comm.allgather(state if comm.rank == turn else None)[turn]
    return state


def counted(comm: Comm, sums: NDArray[Any], add: Callable[[Any], None]) -> Any:
    """Let each rank add its rows to `sums`, initially 0, and return the totals over all ranks.

    `add` adds this rank's rows to the array that it is called with, in place. Integers are summed over ranks at the
    end. Floats are added rank after rank, in table order.

    Examples
    --------
    >>> import numpy as np
    >>> counted(LOCAL, np.zeros(2, dtype=np.int64), lambda sums: np.add.at(sums, [0, 1, 1], 1))
    array([1, 2])
    """
    if sums.dtype.kind == "f":
        return chain_sum(comm, sums, add)
    add(sums)
    return sum_over(comm, sums)


def ordered_bits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return integers that have the same order as the floats; 0.0 and -0.0 map to the same integer.

    Examples
    --------
    >>> import numpy as np
    >>> np.diff(ordered_bits(np.array([-np.inf, -1.0, -0.0, 0.0, 1e-300]))) > 0
    array([ True,  True, False,  True])
    """
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


def floats_of_bits(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the floats that `ordered_bits` maps to these integers."""
    return np.where(keys < 0, keys ^ _MAGNITUDE, keys).view(np.float64)


_Result = TypeVar("_Result")
# Seconds between two checks for KeyboardInterrupt.
_CHECK_INTERVAL = 0.1


class CommPool:
    """Runs functions concurrently that share the same ranks; every rank runs the same functions in the same order.

    When all functions that still run wait for a reduction, all of their sums are combined into one reduction, and all
    maxima into another. At most `n_threads` functions work at any time.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.comm import LOCAL
    >>> from fastens.engine.comm import CommPool
    >>> def add(comm, number):
    ...     total = np.array([number])
    ...     comm.allreduce_sum(total)
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
        """Call function(comm, argument) for each argument concurrently; return results or raise the first error."""
        self._n_running = len(arguments)
        with ThreadPool(max(len(arguments), 1), is_concurrent=True) as threads:
            try:
                futures = [threads.submit(self._run_task, function, index, of) for index, of in enumerate(arguments)]
                while not all(future.done() for future in futures):
                    with self._changed:
                        self._changed.wait(_CHECK_INTERVAL)
            except BaseException as error:
                self._fail(error)
                raise
        if self._error is not None:
            raise self._pop_error()
        return [self._results[index] for index in range(len(arguments))]

    def _run_task(self, function: Callable[[Comm, Any], Any], index: int, argument: Any) -> None:
        """Call the function for argument number `index` and store its result or error; reduce if all others wait."""
        with self._may_work:
            try:
                self._results[index] = function(_Member(self, index), argument)
            except BaseException as error:
                self._fail(error)
            finally:
                with self._changed:
                    self._n_running -= 1
                    self._reduce_if_all_wait()
                    self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Store the first error and wake all waiting functions, which raise it."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _pop_error(self) -> BaseException:
        """Return the first error and drop it, because keeping it would create a reference cycle by its traceback."""
        error, self._error = self._error, None
        assert error is not None
        return error

    def reduce(self, index: int, operation: str, arrays: Sequence[NDArray[np.int64]]) -> None:
        """Wait until all running functions wait, then reduce all of their arrays together, in place.

        `index` is the index of the calling function, and `operation` is "sum" or "max".
        """
        with self._changed:
            n_rounds = self._n_rounds
            self._waiting[index] = operation, arrays
            self._reduce_if_all_wait()
            self._may_work.release()
            while self._n_rounds == n_rounds and self._error is None:
                self._changed.wait()
        self._may_work.acquire()
        if self._error is not None:
            raise self._error

    def _reduce_if_all_wait(self) -> None:
        """Reduce the arrays of all waiting functions, in place, if every function that still runs waits for this."""
        if self._error is not None or not self._waiting or len(self._waiting) < self._n_running:
            return
        try:
            for operation, reduce in (("max", self.comm.allreduce_max), ("sum", self.comm.allreduce_sum)):
                requests = [
                    self._waiting[index][1] for index in sorted(self._waiting) if self._waiting[index][0] == operation
                ]
                arrays = [array for request in requests for array in request]
                if arrays:
                    combined = np.concatenate([array.ravel() for array in arrays])
                    reduce(combined)
                    for array, part in zip(
                        arrays, np.split(combined, np.cumsum([a.size for a in arrays])), strict=False
                    ):
                        array[...] = part.reshape(array.shape)
        except BaseException as error:
            self._error = error
        self._waiting.clear()
        self._n_rounds += 1
        self._changed.notify_all()


class _Member(Comm):
    """Communicator of one of the concurrent functions."""

    def __init__(self, pool: CommPool, index: int) -> None:
        self.rank, self.size = pool.comm.rank, pool.comm.size
        self._pool, self._index = pool, index

    def allreduce_sum(self, *arrays: NDArray[np.int64]) -> None:
        """Replace arrays by their sums over all ranks in place, together with the sums of the other functions."""
        self._pool.reduce(self._index, "sum", arrays)

    def allreduce_max(self, *arrays: NDArray[np.int64]) -> None:
        """Replace arrays by their maxima over all ranks in place, together with the maxima of the other functions."""
        self._pool.reduce(self._index, "max", arrays)

    def allgather(self, value: Any) -> list[Any]:
        """Raise NotImplementedError, because concurrent functions can exchange only sums and maxima."""
        raise NotImplementedError("functions that run side by side can exchange only sums and maxima")


_IGNORED_ARGUMENTS = {"n_threads", "owner"}
Function = TypeVar("Function", bound=Callable[..., Any])


class _State(threading.local):
    # Cached results by key; None outside `shared_work`. Each thread has its own cache, because a binned matrix supports
    # only one grower at a time.
    made: dict[Hashable, tuple[Any, Any]] | None = None


_state = _State()


@contextmanager
def shared_work() -> Iterator[None]:
    """Cache the results of functions decorated with `shared` inside the context, for the current thread.

    Arguments of these functions must not be changed inside the context. Nested contexts use the cache of the outermost.
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
    """Decorate a function so that its results are cached inside `shared_work`.

    The result must depend only on the arguments, and callers must not modify it. Short arguments are compared by value;
    tables and other objects are compared by identity. The arguments `n_threads` and `owner` (used only in error
    messages) are not part of the key.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if _state.made is None:
            return function(*args, **kwargs)
        arguments = dict(zip(function.__code__.co_varnames, args, strict=False)) | kwargs
        counted = sorted(arguments.keys() - _IGNORED_ARGUMENTS)
        key = (function.__qualname__, *((name, _argument_key(arguments[name])) for name in counted))
        if key not in _state.made:
            # The arguments are kept with the result, so that their ids cannot be reused by other objects.
            _state.made[key] = (function(*args, **kwargs), (args, kwargs))
        return _state.made[key][0]

    return wrapper  # type: ignore[return-value]


def _argument_key(value: Any) -> Hashable:
    """Return a hashable key of an argument: by value for short arguments and 1-D arrays, otherwise by identity."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return (value.dtype.str, hashlib.blake2b(value.tobytes()).digest())
    if value is None or isinstance(value, bool | int | float | str):
        return (type(value), value)
    if isinstance(value, tuple):
        return tuple(map(_argument_key, value))
    return id(value)
