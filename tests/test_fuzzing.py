"""Some inputs of tools/fuzz.py by chance: files of models and tables that are damaged, hostile or odd."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyarrow")

from properties.files import CHECKS, check_all
from properties.worker import Worker

INPUTS = {"model": 150, "text": 60, "stream": 60, "parquet": 40, "command": 1}


@pytest.fixture(scope="module")
def worker():
    worker = Worker(max_seconds=120.0)
    yield worker
    worker.stop()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "command")) for name in CHECKS]
)
def test_files_are_read_or_refused(name, worker):
    chance = random.Random(name)
    worker.call(check_all, (name, [chance.randbytes(40) for _ in range(INPUTS[name])]))
