"""Memory that runs out at every allocation, one after another, in fit, predict, save and load of every estimator.

    python tools/check_memory_faults.py [NAMES ...] [--every N]

An allocator that fails on its n-th call is loaded before the C library's; n goes from 1 on until a call needs fewer.
Each time there must be a MemoryError, or the right result where someone did without the memory. The estimator and the
file are then what they were, and the memory in use does not grow. Each estimator has a process of its own, which is
started again behind a crash. NumPy 2.4 itself crashes, or takes garbage for an index, where it gets no memory to
convert an array of indices, and SciPy in sums of sparse matrices: such are told, and not counted. Linux with glibc and
a C compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

LIBRARY, PROGRESS = "FASTENS_FAILING_MALLOC", "FASTENS_PROGRESS"
IN_NUMPY, ELSEWHERE = 3, 4  # exit statuses of crashes
# How NumPy (its iterators) and Python (locks of files) say that they got no memory.
SAID_OTHERWISE = "without exception set|without setting an exception|can't allocate (read )?lock"
# What Python itself may keep after an error: the buffers of tracebacks, freed lists, grown caches.
MAX_LEAKED_BYTES = 200_000
# Its table of interned texts doubles now and then, by two megabytes or four. With these it has done so before.
INTERNED = 100_000


class Faults:
    """The failing allocator of this process."""

    def __init__(self) -> None:
        self.where = ""
        self._library = ctypes.CDLL(os.environ[LIBRARY])
        self._library.fail_on_call.argtypes = [ctypes.c_long]
        self._library.tell_crashes()
        self._library.failed_in.restype = ctypes.c_char_p
        self._library.bytes_in_use.restype = self._library.calls_left.restype = ctypes.c_long

    def run(self, n: int, job: Callable[[], Any]) -> tuple[bool, BaseException | None, Any]:
        """Whether the n-th allocation of a job was reached and failed, the error, and the job's result."""
        error = result = None
        self._library.fail_on_call(n)
        try:
            result = job()
        except BaseException as caught:
            self._library.fail_on_call(-1)
            self.where = ""
            for frame, line in traceback.walk_tb(caught.__traceback__):
                self.where = f"at {Path(frame.f_code.co_filename).name}:{line}"
            self.where += f", no memory for {self._library.failed_in().decode()}"
            error = without_frames(caught)
        reached = self._library.calls_left() <= 0
        self._library.fail_on_call(0)
        return reached, error, result

    def bytes_in_use(self) -> int:
        """The memory that is not given back."""
        gc.collect()
        return int(self._library.bytes_in_use())


def without_frames(error: BaseException | None) -> BaseException | None:
    """An error, and those behind it, without what they hold: Python keeps its last MemoryError for the next time."""
    behind = error
    while behind is not None:
        behind.__traceback__ = None
        behind = behind.__cause__ or behind.__context__
    return error


def content(model: Any) -> bytes:
    """A model's file."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"), allow_pickle=True)
        return Path(folder, "model").read_bytes()


def is_memory_error(error: BaseException | None) -> bool:
    """Whether one is, or is the cause of another that says so."""
    while error is not None:
        if isinstance(error, MemoryError) or re.search(SAID_OTHERWISE, str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def check(name: str, step: int, progress: Path) -> int:
    """Run the four jobs of an estimator with every `step`-th allocation failing; return the number of faults.

    `progress` names the job and the allocation to start from, and then those that are tried.
    """
    import pytest

    import fastens
    from reference.public_estimators import make, shrink_default_members, table_for

    kept = [sys.intern(f"text {number}") for number in range(INTERNED)]
    shrink_default_members(pytest.MonkeyPatch(), 2)
    small = {"n_estimators": 3, "random_state": 0}
    parameters = {key: value for key, value in small.items() if key in make(name).get_params()}
    table = table_for(name)
    X = np.vstack([table[0]] * 2) if hasattr(table[0], "shape") and table[0].ndim == 2 else table[0]
    model = make(name, **parameters).fit(*table)
    folder = Path(tempfile.mkdtemp())
    model.save(folder / "model", allow_pickle=True)
    before = content(model)
    predict = getattr(model, "predict_proba", getattr(model, "predict", None)) or model.transform
    jobs = {
        "fit": lambda: model.fit(*table) and None,
        "predict": (lambda: predict(X)) if name != "FiniteHypothesisLearner" else predict,
        "save": lambda: model.save(folder / "model", allow_pickle=True),
        "load": lambda: content_of_loaded(fastens, folder / "model"),
    }

    def is_as_before() -> bool:
        try:
            found = content(model)
        except (AttributeError, ValueError) as error:
            found = repr(error).encode()
        if found != before:
            model.fit(*table)
        return found == before

    wrong, (first, start) = 0, progress.read_text().split() if progress.exists() else ("fit", "1")
    for what in list(jobs)[list(jobs).index(first) :]:
        told = range(int(start) if what == first else 1, sys.maxsize, step)
        wrong += sweep(f"{name} {what}", jobs[what], tried(told, what, progress), is_as_before)
    del kept
    return wrong


def tried(numbers: Iterable[int], what: str, progress: Path) -> Iterator[int]:
    """The numbers, each written down first."""
    for n in numbers:
        progress.write_text(f"{what} {n}")
        yield n


def content_of_loaded(fastens: Any, path: Path) -> None:
    """Read a model and let it go."""
    fastens.load(path, allow_pickle=True)


def sweep(name: str, job: Callable[[], Any], numbers: Iterator[int], is_as_before: Callable[[], bool]) -> int:
    """Let one allocation after another fail."""
    faults, wrong, n_failed = Faults(), 0, 0
    for _ in range(3):
        expected = job()
    in_use = faults.bytes_in_use()
    for n in numbers:
        reached, error, result = faults.run(n, job)
        if error is None and not reached:
            break
        n_failed += error is not None
        if error is not None and not is_memory_error(error):
            wrong += "_multiarray_umath" not in faults.where
            print(f"{name}: allocation {n}: {type(error).__name__}: {error}, {faults.where}"[:300], flush=True)
        elif error is None and expected is not None and not np.array_equal(result, expected):
            wrong += 1
            print(f"{name}: allocation {n}: another result", flush=True)
        del error, result
        if not is_as_before():
            wrong += 1
            print(f"{name}: allocation {n}: the estimator is another", flush=True)
    left = faults.bytes_in_use() - in_use
    if left > MAX_LEAKED_BYTES:
        wrong += 1
        print(f"{name}: {left} bytes left", flush=True)
    print(f"{name}: {n} allocations, {n_failed} errors, {left} bytes left", flush=True)
    return wrong


def build(folder: str) -> str:
    """Compile the allocator."""
    library = str(Path(folder, "failing_malloc.so"))
    compiler = os.environ.get("CC", "gcc")
    subprocess.run(
        [compiler, "-O2", "-fno-builtin", "-shared", "-fPIC", str(HERE / "failing_malloc.c"), "-o", library], check=True
    )
    return library


def main() -> int:
    """Run every estimator in a process of its own; 1 if any was wrong or died."""
    from reference.public_estimators import CLASSES

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="let only every N-th allocation fail")
    arguments = parser.parse_args()
    if LIBRARY in os.environ:
        warnings.simplefilter("ignore")
        return check(arguments.names[0], arguments.every, Path(os.environ[PROGRESS])) > 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder)
        names = arguments.names or sorted(CLASSES)
        failed = [name for name in names if not is_right(name, arguments.every, library, Path(folder, name))]
    print(f"{time.monotonic() - start:.0f} s; wrong: {', '.join(failed) or 'none'}")
    return bool(failed)


def is_right(name: str, step: int, library: str, progress: Path) -> bool:
    """Whether an estimator does right, in processes that are started again where they crash."""
    command = [sys.executable, __file__, name, "--every", str(step)]
    added = {LIBRARY: library, PROGRESS: str(progress), "LD_PRELOAD": library, "OMP_NUM_THREADS": "1"}
    status, right = IN_NUMPY, True
    while status in (IN_NUMPY, ELSEWHERE):
        status = subprocess.run(command, env=os.environ | added, check=False).returncode
        right &= status in (0, IN_NUMPY)
        if status in (IN_NUMPY, ELSEWHERE):
            what, n = progress.read_text().split()
            progress.write_text(f"{what} {int(n) + step}")
            print(f"{name} {what}: allocation {n}: a crash", flush=True)
    return right


if __name__ == "__main__":
    sys.exit(main())
