"""What a fit of boosted trees would take on a cluster: time and bytes, from what is measured here and there."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.distributed.dask_table import EXTRA, DaskTable
from fastens.distributed.simulation import Network, exchanges_of, simulate
from fastens.engine.comm import LOCAL, Comm
from fastens.engine.threads import limited_threads
from fastens.options import TweedieLoss
from fastens.parameters import Rule, whole
from fastens.table.memory_limits import TableShape

# Most values and rows of the larger of the two tables that are timed; rows of that whose exchanges are looked at.
_VALUES, _MOST_ROWS = 4_000_000, 200_000
_ROWS = 20_000
# Columns that targets depend on. With two of them, trees split off fewer rows, and took 0.8 of the time.
_TELLING = 8
_ROUNDS = 6
# Numbers by which latency and bandwidth are measured, as many as histograms have, and as large; how often they are
# exchanged, and numbers that are sorted meanwhile, some milliseconds each time.
_FEW, _MANY, _LARGEST = 1, 1 << 18, 1 << 24
_TRIALS, _TIMES, _WORK = 3, 40, 1 << 18


# Losses of numbers that are not negative, or from 0 to 1.
_LOSSES_OF_SHARES = ("poisson", "gamma", "tweedie", "cross_entropy", "cross_entropy_lambda")


@dataclass(frozen=True)
class Plan:
    """What a fit would take; seconds and bytes sent are those of one round.

    Attributes
    ----------
    seconds : float
        Counting and exchanging.
    counting_seconds : float
        Of a worker with its share of the rows.
    exchange_seconds : float
        Until all workers have what they exchange.
    n_bytes : int
        What the worker that sends the most sends.
    n_hops : int
        Messages that wait for each other.
    memory : int
        The most bytes that a worker takes above what it held before.
    efficiency : float
        The share of the time of the workers that is not lost beside that of one worker with all rows.
    """

    seconds: float
    counting_seconds: float
    exchange_seconds: float
    n_bytes: int
    n_hops: int
    memory: int
    efficiency: float


@dataclass(frozen=True)
class Counting:
    """What a round of boosting takes on one machine: for each row, and besides.

    Attributes
    ----------
    row_seconds, round_seconds : float
        Of a row, and of a round with none.
    """

    row_seconds: float
    round_seconds: float


def measured_counting(model: Any, n_columns: int, n_threads: int = 1) -> Counting:
    """Return what rounds take here, timed on two small tables of random numbers.

    Parameters
    ----------
    model : GradientBoostingRegressor or GradientBoostingClassifier
        With the parameters of the fit.
    n_columns : int
        The columns, which are numbers.
    n_threads : int, default=1
        The threads to use.
    """
    _check_model(model)
    many = max(400, min(_MOST_ROWS, _VALUES // n_columns))
    few = many // 4
    with limited_threads(n_threads):
        little, much = (_seconds_of_round(model, *_random_table(model, n, n_columns)) for n in (few, many))
    of_row = max(0.0, much - little) / (many - few)
    return Counting(of_row, max(0.0, little - of_row * few))


def plan(
    n_rows: int,
    n_columns: int,
    n_workers: int,
    *,
    model: Any,
    network: Network | None = None,
    counting: Counting | None = None,
) -> Plan:
    """Return what a round of boosting would take on a cluster.

    What a round exchanges is found out by a small fit, and sent over a simulated network by as many ranks as there will
    be workers: see `simulate`.

    Parameters
    ----------
    n_rows, n_columns : int
        The table, whose columns are numbers; targets are thought to depend on eight of them.
    n_workers : int
        Workers, up to 1000; each is thought to be as fast as this machine.
    model : GradientBoostingRegressor or GradientBoostingClassifier
        With the parameters of the fit.
    network : Network, optional
        What connects the workers: `measured_network` finds it out.
    counting : Counting, optional
        What a round takes on a worker; default: as measured here, with one thread.

    Raises
    ------
    ValueError
        For numbers that are not positive, and models of other kinds.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor
    >>> from fastens.distributed import plan
    >>> found = plan(10**8, 10, n_workers=8, model=GradientBoostingRegressor())
    >>> found.efficiency > 0.5, found.n_bytes < 10**7
    (True, True)
    """
    whole(1).check("n_rows", n_rows)
    whole(1).check("n_columns", n_columns)
    whole(1, 1000).check("n_workers", n_workers)
    _check_model(model)
    counting = counting or measured_counting(model, n_columns)
    X, y = _random_table(model, max(400, min(_ROWS, _VALUES // n_columns)), n_columns)
    more_bits = max(0.0, math.log2(n_rows / len(y)))  # of the sums of so many more rows
    exchanges = [
        own._replace(share=min(1.0, own.share + more_bits / 64))
        for own in exchanges_of(lambda: _short(model), X, y)[-1]
    ]
    simulated = simulate(exchanges, n_workers, network)
    share = -(-n_rows // n_workers)
    own, alone = (counting.round_seconds + counting.row_seconds * n for n in (share, n_rows))
    seconds = own + simulated.seconds
    needs = model._memory_needs(TableShape(share, n_columns)).in_memory
    sent = simulated.n_bytes, simulated.n_hops, needs + simulated.n_held
    return Plan(seconds, own, simulated.seconds, *sent, alone / (n_workers * seconds))


def measured_network(client: Any = None) -> Network:
    """Return the latency and bandwidth between two workers of a Dask cluster, as fits exchange messages there.

    Workers sort numbers between the messages, so that the time in which one waits for another is part of the latency.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster, of two workers or more; default: that of the last client made.

    Raises
    ------
    ImportError
        Where Dask is not installed.
    ValueError
        For a cluster of one worker.
    """
    try:
        from dask import delayed

        from fastens.distributed.dask_fit import fit_on_dask
    except ModuleNotFoundError as error:
        raise ImportError(EXTRA) from error
    probe = _Probe()
    parts = [delayed(np.zeros((1, 1))) for _ in range(2)]
    fit_on_dask(probe, DaskTable(parts, client=client), {})
    if probe.n_ranks < 2:
        raise ValueError(f"client must be of a cluster of two workers or more; got {probe.n_ranks}.")
    (short, few), (long, many) = probe.short, probe.long
    return Network(short, (many - few) / max(long - short, 1e-9))


def _check_model(model: Any) -> None:
    """Refuse models of other kinds, by name: their modules import those of clusters."""
    kinds = "GradientBoostingRegressor", "GradientBoostingClassifier"
    names = {each.__name__ for each in type(model).__mro__}
    Rule(f"a {' or '.join(kinds)}", lambda _: not names.isdisjoint(kinds)).check("model", model)


class _Probe:
    """In the place of a model: it times exchanges."""

    _takes_parts = True
    _comm: Comm = LOCAL
    n_ranks: int
    short: tuple[float, float]  # seconds of an exchange, and bytes that a rank sends
    long: tuple[float, float]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    @contextmanager
    def _over(self, comm: Comm) -> Iterator[None]:
        self._comm = comm
        yield
        del self._comm

    def fit(self, X: Any) -> None:
        self.n_ranks = self._comm.size
        few, many = (np.random.default_rng(0).integers(_LARGEST, size=n) for n in (_FEW, _MANY))
        trials = [[self._timed(numbers) for numbers in (None, few, many)] for _ in range(_TRIALS)]
        (apart, _), *found = map(min, zip(*trials, strict=True))
        self.short, self.long = ((max(seconds - apart, 1e-9), n_bytes) for seconds, n_bytes in found)

    def _timed(self, numbers: NDArray[np.int64] | None) -> tuple[float, float]:
        """Seconds of some work and an exchange, and bytes: ranks that work wait for the slowest of them each time."""
        comm: Any = self._comm
        work = np.random.default_rng(1).random(_WORK)
        comm.gather(None)  # so that all begin at once
        start, sent = time.perf_counter(), comm.n_bytes
        for _ in range(_TIMES):
            np.sort(work)
            if numbers is not None:
                comm.sum(numbers.copy())
        return (time.perf_counter() - start) / _TIMES, (comm.n_bytes - sent) / _TIMES


def _random_table(model: Any, n_rows: int, n_columns: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    y = rng.normal(size=n_rows)
    for column in range(min(_TELLING, n_columns)):
        y += X[:, column] if column % 2 == 0 else np.abs(X[:, column]) * X[:, column - 1]
    if hasattr(model, "predict_proba"):
        return X, y > 0.5
    is_between = isinstance(model.loss, TweedieLoss) or model.loss in _LOSSES_OF_SHARES
    return X, 1 / (1 + np.exp(-y)) if is_between else y


def _short(model: Any) -> Any:
    """The model with few rounds, and without what is read where they end early."""
    defaults = {name: getattr(type(model)(), name) for name in ("n_iter_no_change", "validation_fraction", "tol")}
    return deepcopy(model).set_params(n_estimators=_ROUNDS, early_stopping=False, verbose=0, callbacks=None, **defaults)


def _seconds_of_round(model: Any, X: NDArray[Any], y: NDArray[Any]) -> float:
    """The least of a fit's rounds."""
    short, ends = _short(model), []
    short._on_round = lambda *_: ends.append(time.perf_counter())
    short.fit(X, y)
    return float(np.diff(ends).min())
