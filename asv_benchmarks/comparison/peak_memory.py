"""Fit one library in this process and print the MiB it took above the input. Started by measure.peak_memory."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np

from benchmarks.peer_models import PEERS, Settings

STATUS = Path("/proc/self/status")


def memory(field: str) -> int:
    """Bytes in memory now (VmRSS) or at most so far (VmHWM); where the system does not tell, at most so far."""
    if STATUS.exists():
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
        return int(line.split()[1]) * 1024
    # On Linux this figure would include the parent's memory at the time of the fork.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(name: str, folder: str, n_threads: int) -> None:
    peer = next(peer for peer in PEERS if peer.name == name)
    X, y = np.load(Path(folder, "X.npy")), np.load(Path(folder, "y.npy"))
    settings = Settings(n_threads=n_threads, n_trees=10)  # more trees do not use more memory
    peer.fit(X[:2000], y[:2000], settings)  # loads the library and starts its threads
    before = memory("VmRSS")
    peer.fit(X, y, settings)
    print(max(0, memory("VmHWM") - before) / 2**20)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
