"""Strike at workers of a Dask cluster in every phase of a fit; the model must be that of one machine, to the byte.

Workers are processes without a nanny. One or two of them, and never all, are chosen for each fit, which strike at an
exchange of a phase drawn at random: they kill or stop themselves (SIGKILL, SIGSTOP), leave politely, or sleep for a
second. In some fits a worker joins, or another fit runs on the same cluster. Workers that are lost are replaced before
the next fit. At the end the scheduler is killed in a fit, which must say so, and go on from its checkpoint on one
machine.

    python tools/cluster_faults.py --each 50 --results faults.jsonl      goes on where an earlier run has stopped
    python tools/cluster_faults.py --each 2 --phases histograms validation
    python tools/cluster_faults.py --workers 2           histograms of two ranks travel while others are counted
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import fastens
from fastens.distributed import DaskTable, dask_worker, reduction
from fastens.distributed.coordinator import ClusterLostError

FAULTS = "kill", "leave", "stop", "slow"
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
# About how many exchanges a fit has in a phase.
EXCHANGES = {"losses": 60, "histograms": 20, "leaf sums": 15, "validation": 6, "between": 150, "partitions": 10}
HUNG = "hung"
LONGEST = 180  # seconds: a fit of more is one that hangs
PATIENCE = 10.0
MAX_STARTS = 5
Armed = tuple[str, str, int]  # a fault, its phase, and the number of its exchange, from 0

# In a worker --------------------------------------------------


class Trap:
    """What a worker is to do, and when."""

    def __init__(self) -> None:
        self.armed: Armed | None = None
        self._counts: Counter[str | None] = Counter()

    def set(self, armed: Armed | None) -> bool:
        """Wait for another exchange, or for none; return whether there was one to wait for."""
        was_armed = self.armed is not None
        self.armed, self._counts = armed, Counter()
        return was_armed

    def pass_by(self, arrays: tuple[Any, ...]) -> None:
        """Strike if this is the exchange."""
        if self.armed is None:
            return
        fault, phase, number = self.armed
        here = phase_of(arrays)
        self._counts[here] += 1
        if (here == phase and self._counts[here] > number) or (phase == "between" and self._counts.total() > number):
            self.strike(fault)

    def strike(self, fault: str) -> None:
        """End this worker, or be slow."""
        self.armed = None
        if fault == "slow":
            time.sleep(1.0)
        elif fault == "leave":
            worker = dask_worker.get_worker()
            worker.loop.add_callback(worker.close_gracefully)
            time.sleep(0.05)
        else:
            os.kill(os.getpid(), signal.SIGKILL if fault == "kill" else signal.SIGSTOP)


TRAP = Trap()


def phase_of(arrays: tuple[Any, ...]) -> str | None:
    """The phase in which a rank exchanges something, by who calls."""
    frame = sys._getframe(3)
    is_large = sum(getattr(array, "size", 0) for array in arrays) > HISTOGRAM
    while frame is not None:
        path = frame.f_code.co_filename.replace("\\", "/")
        for phase, (folder, large) in PHASES.items():
            if f"fastens/{folder}/" in path and large in (None, is_large):
                return phase
        frame = frame.f_back
    return None


def lay_traps() -> None:
    """Let exchanges of this process, and sessions that it opens, look at the trap."""

    def trapped(method: Any) -> Any:
        def exchange(self: Any, *arrays: Any) -> Any:
            TRAP.pass_by(arrays)
            return method(self, *arrays)

        return exchange

    for name in ("sum", "begin_allreduce_sum", "max", "gather", "exchange"):
        setattr(reduction.RanksComm, name, trapped(getattr(reduction.RanksComm, name)))
    original = dask_worker.WorkerSession.__init__

    def opened(self: Any, *given: Any) -> None:
        original(self, *given)
        if TRAP.armed is not None and TRAP.armed[1] == "partitions":
            self._loop.call_later(0.01 * TRAP.armed[2], TRAP.strike, TRAP.armed[0])

    dask_worker.WorkerSession.__init__ = opened  # type: ignore[method-assign]


def work(address: str) -> None:
    """Be a worker until it ends."""
    import asyncio

    from distributed import Worker

    logging.disable(logging.CRITICAL)
    lay_traps()

    async def run() -> None:
        async with Worker(address, nthreads=1, name=os.getpid(), dashboard=False) as worker:
            worker.extensions["trap"] = TRAP
            await worker.finished()

    asyncio.run(run())


def set_trap(armed: Armed | None, dask_worker: Any) -> bool:
    """Set the trap of this worker; return whether it was set before."""
    return bool(dask_worker.extensions["trap"].set(armed))


# The cluster --------------------------------------------------


class Workers:
    """Processes that are workers of a cluster."""

    def __init__(self, address: str, client: Client) -> None:
        self._context = multiprocessing.get_context("forkserver")
        # What takes most of the time of a worker that begins: here it happens once.
        modules = "boosting.regressor", "distributed.dask_fit", "distributed.dask_worker", "distributed.rank_fit"
        self._context.set_forkserver_preload(["dask.array", *(f"fastens.{module}" for module in modules)])
        self._address, self._client = address, client
        self._processes: dict[int, Any] = {}

    def fill(self, n_workers: int) -> list[str]:
        """Replace those that are lost, end those that are too many; return the addresses of all.

        One that does not come, on a machine with much other work, is replaced as well.
        """
        for _ in range(MAX_STARTS):
            running = [address for address, pid in self.known().items() if is_running(pid)][:n_workers]
            kept = {self.known()[address] for address in running} & self._processes.keys()
            for pid in self._processes.keys() - kept:
                self._processes[pid].kill()
                self._processes.pop(pid).join()
            for _ in range(n_workers - len(kept)):
                self.add()
            if self._have_come():
                return sorted(self.known())
        raise TimeoutError(f"{n_workers} workers have not come, though each was started {MAX_STARTS} times")

    def _have_come(self) -> bool:
        """Whether all are there within a minute, and no others."""
        ends = time.monotonic() + 60
        while set(self.known().values()) != self._processes.keys():
            if time.monotonic() > ends or not all(map(is_running, self._processes)):
                return False
            time.sleep(0.02)
        return True

    def add(self) -> None:
        """Start one."""
        process = self._context.Process(target=work, args=(self._address,), daemon=True)
        process.start()
        self._processes[process.pid] = process

    def clear(self) -> None:
        """End all of them."""
        for process in self._processes.values():
            process.kill()
            process.join()

    def known(self) -> dict[str, int]:
        """The processes of the workers that the scheduler knows."""
        found = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address: int(worker["name"]) for address, worker in found.items()}


def is_running(pid: int) -> bool:
    """Whether a process is there, and has not stopped."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] not in "TZX"
    return False


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


# Fits --------------------------------------------------


def make_rows() -> tuple[Any, Any]:
    """A table with missing values and categories, and its targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    X[:, 3] = rng.integers(0, 9, len(X))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 3]) % 3 + rng.normal(size=len(X))


def make_model() -> Any:
    """A model with early stopping, whose phases are all there are."""
    options = {"n_estimators": 6, "max_leaf_nodes": 6, "loss": "huber", "subsample": 0.8, "random_state": 1}
    return fastens.GradientBoostingRegressor(
        early_stopping=True, eval_metric=["r2", "loss"], categorical_features=[3], **options
    )


def digest(model: Any) -> str:
    """A hash of the saved model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()


def fit(client: Client) -> str:
    """The hash of a model of a fit on a cluster."""
    X, y = make_rows()
    table = DaskTable(da.from_array(X, chunks=(300, 4)), client=client, checkpoint_every=2, patience=PATIENCE)
    return digest(make_model().fit(table, da.from_array(y, chunks=300)))


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError where it takes longer."""

    def end(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def try_one(client: Client, workers: Workers, phase: str, draw: random.Random, options: Any) -> dict[str, Any]:
    """Fit while workers strike; return which have, and what came of it."""
    addresses = workers.fill(options.workers)
    client.run(set_trap, None)
    faults = {}
    for victim in draw.sample(addresses, min(draw.choice((1, 2)), options.workers - 1)):
        faults[victim] = draw.choice(options.faults)
        armed = faults[victim], phase, draw.randrange(EXCHANGES.get(phase, 1))
        client.run(set_trap, armed, workers=[victim])
    others = draw.choice(("", "a worker joins", "two fits"))
    if others == "a worker joins":
        workers.add()
    start = time.monotonic()
    second = Future() if others != "two fits" else ThreadPoolExecutor(1).submit(fit, client)
    try:
        with time_limit(LONGEST):
            found = [fit(client), *([second.result()] if others == "two fits" else [])]
    except TimeoutError:
        found = [HUNG]
    except Exception as error:
        found = [repr(error)]
    seconds = time.monotonic() - start
    there = [address for address, pid in workers.known().items() if address in faults and is_running(pid)]
    waiting = client.run(set_trap, None, workers=there) if there else {}
    struck = [fault for address, fault in faults.items() if not waiting.get(address)]
    return {"phase": phase, "struck": struck, "others": others, "found": found, "seconds": round(seconds, 1)}


# A scheduler ---------------------------------------------------


def lose_scheduler(expected: str) -> str:
    """Kill the scheduler in a fit, and go on from what it leaves; return what came of it."""
    X, y = make_rows()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "scheduler.json"
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
        scheduler = stack.enter_context(
            subprocess.Popen([*command, "--scheduler-file", path], stderr=subprocess.DEVNULL)
        )
        stack.callback(scheduler.kill)
        client = stack.enter_context(Client(scheduler_file=str(path), timeout=60))
        workers = Workers(client.scheduler.address, client)
        stack.callback(workers.clear)
        workers.fill(2)
        model = make_model()
        model.set_params(callbacks=[lambda env: scheduler.kill() if env.iteration == 4 else None])
        table = DaskTable(da.from_array(X, chunks=(300, 4)), client=client, checkpoint_every=2, patience=PATIENCE)
        try:
            with time_limit(LONGEST):
                model.fit(table, da.from_array(y, chunks=300))
            return "no error"
        except ClusterLostError:
            rest = make_model()
            model.set_params(callbacks=None)
            model.save(Path(folder) / "model")
            rest.fit(X, y, resume=Path(folder) / "model")
            return "the same model" if digest(rest) == expected else "another model"
        except TimeoutError:
            return HUNG


# All of them --------------------------------------------------


def summary(found: list[dict[str, Any]], expected: str) -> str:
    """A table with a row for each phase."""
    lines = [
        "| phase | faults | of which | fits | hung | lost | other models | slowest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for phase in [*PHASES, *MORE_PHASES]:
        own = [each for each in found if each["phase"] == phase]
        struck = Counter(fault for each in own for fault in each["struck"])
        digests = [digest for each in own for digest in each["found"]]
        hung = digests.count(HUNG)
        lost = sum(digest != HUNG and len(digest) != len(expected) for digest in digests)
        others = len(digests) - hung - lost - digests.count(expected)
        kinds = ", ".join(f"{number} {fault}" for fault, number in sorted(struck.items()))
        slowest = max((each["seconds"] for each in own), default=0.0)
        lines.append(
            f"| {phase} | {struck.total()} | {kinds} | {len(digests)} | {hung} | {lost} | {others} | {slowest} s |"
        )
    return "\n".join(lines)


def main() -> None:
    """Strike, fit, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=50, help="faults in each phase")
    parser.add_argument("--phases", nargs="*", default=[*PHASES, *MORE_PHASES])
    parser.add_argument("--faults", nargs="*", default=list(FAULTS))
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="a file to write each fit to, and to go on from")
    options = parser.parse_args()
    expected = digest(make_model().fit(*make_rows()))
    lines = options.results.read_text().splitlines() if options.results and options.results.exists() else []
    found = [json.loads(line) for line in lines]
    with cluster() as (client, workers):
        for phase in options.phases:
            own = [each for each in found if each["phase"] == phase]
            while sum(len(each["struck"]) for each in own) < options.each:
                draw = random.Random(f"{options.seed} {phase} {len(own)}")
                own.append(try_one(client, workers, phase, draw, options))
                found.append(own[-1])
                if options.results:
                    with options.results.open("a") as file:
                        print(json.dumps(own[-1]), file=file)
                if own[-1]["found"] != [expected] * len(own[-1]["found"]):
                    print(own[-1], flush=True)
                if HUNG in own[-1]["found"]:
                    os._exit(1)  # threads of the fit would be waited for
            print(f"{phase}: {len(own)} fits", flush=True)
    of_scheduler = lose_scheduler(expected)
    print(summary(found, expected), f"after the scheduler was killed: {of_scheduler}", sep="\n")
    is_right = all(digest == expected for each in found for digest in each["found"])
    sys.exit(not (is_right and of_scheduler == "the same model"))


if __name__ == "__main__":
    main()
