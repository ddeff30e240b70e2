"""Some inputs of tools/fuzz.py by chance: files of models and tables that are damaged, hostile or odd."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyarrow")

from properties.files import CHECKS, check
from properties.worker import Worker

INPUTS = {"model": 150, "text": 60, "stream": 60, "parquet": 40, "command": 1}


def check_all(job):
    name, inputs = job
    for data in inputs:
        try:
            check(name, data)
        except BaseException as error:
            raise AssertionError(f"check({name!r}, {data!r}): {type(error).__name__}: {error}") from error


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
