"""What the exchanges of a fit would cost on many machines: the real protocol, over a network that is only a clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.distributed.mailbox import Mailbox
from fastens.distributed.reduction import RanksComm, Tag

# Seconds: ranks that are threads all answer, but a thousand of them take turns.
_PATIENCE = 3600.0
# Bytes: ranks need few.
_STACK = 1 << 19


@dataclass(frozen=True)
class Network:
    """What connects machines.

    Parameters
    ----------
    latency : float, default=3e-4
        Seconds from one machine to another for a message without content, in both programs together.
    bandwidth : float, default=1.25e9
        Bytes a second that a machine sends, while it gets as many.
    """

    latency: float = 3e-4
    bandwidth: float = 1.25e9


class Exchange(NamedTuple):
    """Something that all ranks exchange: the "sum" or "max" of numbers of 8 bytes, or "gather" of the bytes of each.

    Numbers are sent in a `share` of their bytes.
    """

    kind: str
    n_bytes: int
    share: float = 1.0


@dataclass(frozen=True)
class Simulated:
    """What exchanges cost.

    Attributes
    ----------
    seconds : float
        Until the last rank has all results; computing costs nothing.
    n_hops : int
        Messages that wait for each other.
    n_bytes : int
        The most that a rank sends.
    n_held : int
        The most bytes of messages that wait at a rank at the same time.
    """

    seconds: float
    n_hops: int
    n_bytes: int
    n_held: int


def simulate(exchanges: Sequence[Exchange], n_ranks: int, network: Network | None = None) -> Simulated:
    """Let so many ranks, which are threads of this process, exchange what a fit would, and check their results.

    Each rank has a clock. A message leaves when its rank has sent those before, and its receiver's clock is not earlier
    than its arrival.

    Parameters
    ----------
    exchanges : list of Exchange
        As `exchanges_of` finds them.
    n_ranks : int
        The ranks.
    network : Network, optional
        What connects them.

    Raises
    ------
    ArithmeticError
        Where a rank gets another sum than it should.

    Examples
    --------
    >>> from fastens.distributed.simulation import Exchange, simulate
    >>> found = simulate([Exchange("sum", 8000)], n_ranks=16)
    >>> found.n_hops, found.n_bytes
    (4, 32000)
    """
    posts = [_Post() for _ in range(n_ranks)]

    def work(rank: int) -> _Clock:
        clock = _Clock(rank, posts, network or Network())
        comm = _Unwritten(clock)
        for exchange in exchanges:
            clock.share = exchange.share
            _do(comm, exchange)
        return clock

    clocks = _on_threads(n_ranks, work, posts)
    return Simulated(
        max(clock.now for clock in clocks),
        max(clock.n_hops for clock in clocks),
        max(clock.n_bytes for clock in clocks),
        max(post.most for post in posts),
    )


def exchanges_of(make: Callable[[], Any], X: NDArray[Any], y: NDArray[Any]) -> list[list[Exchange]]:
    """Fit a model on two ranks that are threads; return what they exchange in each round, and before the first.

    Parameters
    ----------
    make : function
        Returns the model to fit: one that reports its rounds.
    X, y : arrays
        The rows; each rank gets as many.
    """
    posts = [_Post() for _ in range(2)]
    ends = 0, len(y) // 2, len(y)

    def work(rank: int) -> list[list[Exchange]]:
        comm, model = _Recorder(_Clock(rank, posts, Network())), make()
        model._on_round = lambda *_: comm.rounds.append([])
        own = slice(ends[rank], ends[rank + 1])
        with model._over(comm):
            model.fit(X[own], y[own])
        return comm.rounds[:-1]

    return _on_threads(2, work, posts)[0]


# Ranks --------------------------------------------------


class _Recorder(RanksComm):
    """Takes note of what is exchanged, as by more than two ranks, whose sums do not travel."""

    def __init__(self, transport: Any) -> None:
        super().__init__(transport)
        self.sums_travel = False
        self.rounds: list[list[Exchange]] = [[]]

    @contextmanager
    def _noted(self, kind: str, n_bytes: int | None = None) -> Iterator[None]:
        sent = self.n_bytes
        yield
        sent = self.n_bytes - sent
        self.rounds[-1].append(Exchange(kind, n_bytes or sent, sent / n_bytes if n_bytes else 1.0))

    def sum(self, *arrays: NDArray[np.int64]) -> None:
        """Add up arrays over the ranks, in place."""
        with self._noted("sum", sum(array.nbytes for array in arrays)):
            super().sum(*arrays)

    def max(self, *arrays: NDArray[np.int64]) -> None:
        """Replace arrays by their elementwise maxima over the ranks."""
        with self._noted("max", sum(array.nbytes for array in arrays)):
            super().max(*arrays)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order."""
        with self._noted("gather"):
            return super().gather(value)


class _Unwritten(RanksComm):
    """Sends numbers as they are: the clock knows how many bytes there would be."""

    def _written(self, arrays: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        return np.concatenate([array.ravel() for array in arrays])

    def _take(self, message: NDArray[np.int64], arrays: Sequence[NDArray[np.int64]], how: str) -> None:
        start = 0
        for array in arrays:
            own = message[start : start + array.size].reshape(array.shape)
            start += array.size
            array[...] = own if how == "set" else (np.maximum if how == "max" else np.add)(array, own)


def _do(comm: RanksComm, exchange: Exchange) -> None:
    if exchange.kind == "gather":
        found = comm.gather(bytes(exchange.n_bytes))
        is_right = len(found) == comm.size
    else:
        numbers = np.full(-(-exchange.n_bytes // 8), comm.rank, dtype=np.int64)
        getattr(comm, exchange.kind)(numbers)
        most = comm.size - 1
        is_right = bool((numbers == (most if exchange.kind == "max" else most * comm.size // 2)).all())
    if not is_right:
        raise ArithmeticError(f"rank {comm.rank} of {comm.size} has another result of {exchange} than it should")


class _Post(Mailbox):
    """A mailbox that knows how much there has been in it."""

    def __init__(self) -> None:
        super().__init__(_PATIENCE)
        self._held = self.most = 0

    def put(self, rank: int, tag: Tag, payload: Any) -> None:
        """Take a message of a rank."""
        with self._changed:
            self._held += payload[-1]
            self.most = max(self.most, self._held)
        super().put(rank, tag, payload)

    def take(self, rank: int, tag: Tag) -> Any:
        """Wait for the message of a rank."""
        found = super().take(rank, tag)
        with self._changed:
            self._held -= found[-1]
        return found


class _Clock:
    """The transport of one rank, and its time."""

    def __init__(self, rank: int, posts: Sequence[_Post], network: Network) -> None:
        self.rank, self.size = rank, len(posts)
        self._posts, self._network = posts, network
        self._sends_until, self.now, self.share = 0.0, 0.0, 1.0
        self.n_hops = self.n_bytes = 0

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or bytes to a rank."""
        if isinstance(payload, np.ndarray):
            n_bytes = round(self.share * payload.nbytes)
        else:
            n_bytes = sum(len(content) for _, content in payload)
        self._sends_until = max(self.now, self._sends_until) + n_bytes / self._network.bandwidth
        self.n_bytes += n_bytes
        arrives = self._sends_until + self._network.latency
        self._posts[rank].put(self.rank, tag, (payload, arrives, self.n_hops + 1, n_bytes))

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for what a rank has sent by this tag."""
        payload, arrives, n_hops, _ = self._posts[self.rank].take(rank, tag)
        self.now, self.n_hops = max(self.now, arrives), max(self.n_hops, n_hops)
        return payload

    def flush(self) -> None:
        """Nothing waits here to be sent."""


def _on_threads(n_ranks: int, work: Callable[[int], Any], posts: Sequence[_Post]) -> list[Any]:
    """What `work` returns on each rank; the first error of one."""
    results: list[Any] = [None] * n_ranks
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = work(rank)
        except BaseException as error:
            errors.append(error)
            for post in posts:
                post.close(f"rank {rank} has failed")

    before = threading.stack_size(_STACK) if n_ranks > 16 else None
    try:
        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(n_ranks)]
        for thread in threads:
            thread.start()
    finally:
        if before is not None:
            threading.stack_size(before)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
