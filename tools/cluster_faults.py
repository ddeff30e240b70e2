"""Kill workers of a Dask cluster in every phase of a fit; the model must be that of one machine, to the byte.

Workers are processes without a nanny; the one that is chosen kills itself, by SIGKILL, at a random exchange of the
chosen phase, or is told to leave or stopped (SIGSTOP). New workers join after some of the faults.

    python tools/cluster_faults.py --each 50
    python tools/cluster_faults.py --each 2 --phases histograms validation
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import fastens
from fastens.distributed import DaskTable, dask_worker, reduction
from fastens.options import EarlyStopping

FAULTS = "kill", "leave", "stop"
# By the name of the phase, the module that exchanges something, and whether it is an array of a histogram's size.
PHASES = {
    "categories": ("table", None),
    "sketch": ("engine/bins", None),
    "losses": ("engine/losses", None),
    "validation": ("monitoring", None),
    "histograms": ("boosting", True),
    "leaf sums": ("boosting", False),
}
MORE_PHASES = "partitions", "between"
HISTOGRAM = 500


def phase_of(arrays: tuple[Any, ...]) -> str | None:
    """The phase in which a rank exchanges something, by who calls."""
    frame = sys._getframe(2)
    is_large = sum(getattr(array, "size", 0) for array in arrays) > HISTOGRAM
    while frame is not None:
        path = frame.f_code.co_filename.replace("\\", "/")
        for phase, (folder, large) in PHASES.items():
            if f"fastens/{folder}/" in path and large in (None, is_large):
                return phase
        frame = frame.f_back
    return None


def strike(fault: str) -> None:
    """End this worker, as it was told to."""
    if fault == "leave":
        worker = dask_worker.get_worker()
        worker.loop.add_callback(worker.close_gracefully)
        time.sleep(0.05)
    else:
        os.kill(os.getpid(), signal.SIGKILL if fault == "kill" else signal.SIGSTOP)


def prepare(fault: str, phase: str, number: int, dask_worker: Any) -> None:
    """Let this worker strike at an exchange of a phase, counted from 0."""
    counts: Counter[str | None] = Counter()

    def struck(method: Any) -> Any:
        def exchange(self: Any, *arrays: Any) -> Any:
            here = phase_of(arrays)
            counts[here] += 1
            if (here == phase and counts[here] > number) or (phase == "between" and sum(counts.values()) > number):
                strike(fault)
            return method(self, *arrays)

        return exchange

    for name in ("sum", "max", "gather"):
        setattr(reduction.RanksComm, name, struck(getattr(reduction.RanksComm, name)))
    if phase == "partitions":
        WorkerSession = sys.modules["fastens.distributed.dask_worker"].WorkerSession
        original = WorkerSession.__init__

        def opened(self: Any, *given: Any) -> None:
            original(self, *given)
            self._loop.call_later(0.01 * number, strike, fault)

        WorkerSession.__init__ = opened


def work(address: str) -> None:
    """Be a worker until it ends."""
    import asyncio

    from distributed import Worker

    logging.disable(logging.CRITICAL)

    async def run() -> None:
        async with Worker(address, nthreads=1, dashboard=False) as worker:
            await worker.finished()

    asyncio.run(run())


class Workers:
    """Processes that are workers of a cluster."""

    def __init__(self, address: str, client: Client) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["fastens", "distributed", "dask.array", "fastens.distributed.dask_worker"]
        )
        self._address, self._client = address, client
        self._processes: list[Any] = []

    def fill(self, n_workers: int) -> None:
        """Start workers until there are so many fresh ones: each fault changes what a worker does."""
        self.clear()
        for _ in range(n_workers):
            self.add()
        self._client.wait_for_workers(n_workers, timeout=120)

    def add(self) -> None:
        """Start one."""
        process = self._context.Process(target=work, args=(self._address,), daemon=True)
        process.start()
        self._processes.append(process)

    def clear(self) -> None:
        """End all of them."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._processes.clear()
        while self._client.nthreads():
            time.sleep(0.02)


def make_rows() -> tuple[Any, Any]:
    """A table with missing values and categories, and its targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    X[:, 3] = rng.integers(0, 9, len(X))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 3]) % 3 + rng.normal(size=len(X))


def make_model() -> Any:
    """A model with early stopping, whose phases are all there are."""
    stopping = EarlyStopping(eval_metric=["r2", "loss"])
    options = {"n_estimators": 8, "max_leaf_nodes": 6, "loss": "huber", "subsample": 0.8, "random_state": 1}
    return fastens.GradientBoostingRegressor(early_stopping=stopping, categorical_features=[3], **options)


def digest(model: Any) -> str:
    """A hash of the saved model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def cluster() -> Iterator[tuple[Client, Workers]]:
    """A cluster whose workers come and go."""
    with (
        LocalCluster(n_workers=0, dashboard_address=None, protocol="tcp", silence_logs=logging.CRITICAL) as local,
        Client(local) as client,
    ):
        workers = Workers(local.scheduler_address, client)
        yield client, workers
        workers.clear()


def main() -> None:
    """Strike, fit, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=50, help="faults in each phase")
    parser.add_argument("--phases", nargs="*", default=[*PHASES, *MORE_PHASES])
    parser.add_argument("--faults", nargs="*", default=list(FAULTS))
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="a line for each fault")
    options = parser.parse_args()
    X, y = make_rows()
    expected = digest(make_model().fit(X, y))
    draw = random.Random(options.seed)
    n_wrong, slowest = 0, 0.0
    with cluster() as (client, workers):
        for phase in options.phases:
            n_struck = 0
            for trial in range(options.each):
                fault = options.faults[trial % len(options.faults)]
                workers.fill(options.workers)
                victim = draw.choice(sorted(client.nthreads()))
                number = draw.randrange(
                    {"losses": 100, "histograms": 20, "leaf sums": 20, "validation": 10, "between": 250}.get(phase, 1)
                )
                client.run(prepare, fault, phase, number, workers=[victim])
                if trial % 2:
                    workers.add()
                start = time.monotonic()
                table = DaskTable(da.from_array(X, chunks=(400, 4)), client=client, checkpoint_every=2, patience=8)
                found = digest(make_model().fit(table, da.from_array(y, chunks=400)))
                seconds = time.monotonic() - start
                slowest = max(slowest, seconds)
                n_wrong += found != expected
                known = client.run(os.getpid, on_error="ignore") if fault != "stop" else {}
                n_struck += fault == "stop" or victim not in known
                if options.verbose:
                    print(f"    {fault} {number}: {seconds:.1f} s", flush=True)
            print(f"{phase:12} {options.each} faults, {n_struck} struck, {n_wrong} other models so far", flush=True)
    print(f"slowest fit {slowest:.1f} s")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
