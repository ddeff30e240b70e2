"""What the benchmarks share."""

from __future__ import annotations

import timeit


class Benchmark:
    """Wall-clock time (compiled threads do not show in the process time asv would take), few samples, long enough."""

    timer = timeit.default_timer
    processes = 1
    timeout = 600
    warmup_time = 0.2
    rounds = 1
    repeat = (3, 20, 10.0)
