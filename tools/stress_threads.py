"""Many threads that fit, predict, save and load at once: each result must be the one of a thread alone.

    python tools/stress_threads.py [--threads N] [--seconds N]

Meant for Python without the GIL (3.13t, 3.14t, with PYTHON_GIL=0) and for builds under the thread sanitizer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))


def main() -> int:
    """Run the threads; 1 if one saw something else."""
    from properties.threads import Stress

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        stress = Stress(Path(folder))
        end = time.monotonic() + arguments.seconds
        stress.run([iter(lambda: time.monotonic() < end, False) for _ in range(arguments.threads)])
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    n_done, wrong = sum(stress.n_done), stress.wrong
    print(f"{arguments.threads} threads, GIL {'on' if lock else 'off'}: {n_done} jobs, {len(wrong)} wrong")
    print(*sorted(set(wrong))[:20], sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
