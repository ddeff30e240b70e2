"""Measure calls of several libraries side by side, and keep what was measured."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

Values = dict[str, list[float]]
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Goal:
    """What fastens must reach and aims at: times faster than a peer; without a peer, a value in the result's unit."""

    must: float
    aim: float
    against: str | None = None


@dataclass
class Result:
    """The values of one workload, by library: one per repeat, or one per label (say, per table)."""

    workload: str
    unit: str
    values: Values
    goals: list[Goal] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def middle(self, peer: str) -> float:
        """Median over the repeats; mean over the labels."""
        return (statistics.mean if self.labels else statistics.median)(self.values[peer])

    def reached(self, goal: Goal) -> float | None:
        """The figure to hold against the goal; None if a library is absent."""
        if "fastens" not in self.values or (goal.against and goal.against not in self.values):
            return None
        return self.middle(goal.against) / self.middle("fastens") if goal.against else self.middle("fastens")


def interleaved(
    calls: dict[str, Callable[[], object]],
    repeats: int,
    scale: float = 1.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Values:
    """Seconds (times scale) of each call, one round of all calls after another, so that all see the same machine."""
    values: Values = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            gc.collect()
            start = clock()
            call()
            values[name].append((clock() - start) * scale)
    return values


def median_of_calls(call: Callable[[], object], n_calls: int) -> float:
    """Median seconds of one short call."""
    seconds = np.empty(n_calls)
    for i in range(n_calls):
        start = time.perf_counter()
        call()
        seconds[i] = time.perf_counter() - start
    return float(np.median(seconds))


def peak_memory(peer: str, X: np.ndarray, y: np.ndarray, n_threads: int) -> float:
    """MiB that a fit takes above its input, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "X.npy"), X)
        np.save(Path(folder, "y.npy"), y)
        command = [sys.executable, "-m", "comparison.peak_memory", peer, folder, str(n_threads)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])
