"""Fixtures for all tests: where the real tables are, and how to read one."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

# Read when libraries are loaded. SciPy: scikit-learn's checks of array API input run instead of being skipped. Threads
# of BLAS and of the peers that wait by spinning would take the cores from the tests beside them.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

from properties.worker import Worker
from reference.covering import covering

# Shells let what they start in the background ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure.
settings.register_profile("fastens", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("fastens")


class _Absent(types.ModuleType):
    """Stands in for a package: a test that makes one of its objects is skipped."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)

        def made(*arguments: object, **named: object) -> None:
            pytest.skip(f"{self.__name__} has no wheel for this Python", allow_module_level=True)

        return type(name, (), {"__new__": made})


# Its wheels are of the stable ABI, which Python without the GIL does not have.
if importlib.util.find_spec("polars") is None:
    sys.modules["polars"] = _Absent("polars")

SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run slow tests too, with every value of every parameter")
    parser.addoption("--exhaustive", action="store_true", help="run slow tests with all combinations of parameters")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out, or run them with every value of every parameter, but not with every combination.

    If a test is named with `::`, all tests of the command run. With `-m`, slow tests run if the expression selects
    them.
    """
    if config.option.exhaustive or any("::" in argument for argument in config.args):
        return
    is_left_out = not (config.option.slow or config.option.markexpr)
    slow: dict[str, list[pytest.Item]] = {}
    for item in items:
        if {"slow", "cluster"} & {marker.name for marker in item.iter_markers()}:
            slow.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = set()
    for cases in slow.values():
        values = [item.callspec.params if hasattr(item, "callspec") else {"": None} for item in cases]
        chosen = [False] * len(cases) if is_left_out else covering(values)
        left_out |= {item for item, is_chosen in zip(cases, chosen, strict=True) if not is_chosen}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Estimators without `random_state` draw from NumPy's global generator: every test is the same in every run."""
    np.random.seed(int(os.environ.get("FASTENS_SEED", "20260")))  # noqa: NPY002


def pytest_collection_finish() -> None:
    """Leave what was collected, some millions of objects, out of every later search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """A process for what may crash, hang or take all memory."""
    worker = Worker()
    yield worker
    worker.stop()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of Parquet tables: FASTENS_DATA, or ../shared/data beside the checkout. Skips where there is none."""
    folder = Path(os.environ.get("FASTENS_DATA", SHARED_DATA))
    if not folder.is_dir():
        pytest.skip(f"no real tables: set FASTENS_DATA to a folder of Parquet files (looked in {folder.name!r})")
    return folder


@pytest.fixture(scope="session")
def load_table(data_folder: Path) -> Callable[[str], pd.DataFrame]:
    """Read one real table by name; skips where it is missing."""

    def load(name: str) -> pd.DataFrame:
        path = data_folder / f"{name}.parquet"
        if not path.is_file():
            pytest.skip(f"the table {name!r} is not in the data folder")
        return pd.read_parquet(path)

    return load


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(20260)
