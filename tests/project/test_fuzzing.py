"""The seeds of tools/fuzz.py and some inputs by chance: files that are damaged, hostile or odd, and fits like them."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyarrow")

from properties.inputs import CHECKS, check_all, seeds

INPUTS = {"model": 150, "state": 60, "text": 40, "stream": 30, "parquet": 30, "parameter": 40, "twin": 30}
INPUTS |= {"scikit-learn": 30}
SLOW = {"command": 40, "fit": 20, "lightgbm": 60}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CHECKS])
def test_inputs_are_right_or_refused(name, worker):
    if name == "lightgbm":
        pytest.importorskip("lightgbm")
    chance = random.Random(name)
    by_chance = [chance.randbytes(40) for _ in range((INPUTS | SLOW)[name])]
    worker.call(check_all, (name, [*seeds(name), *by_chance]))


def test_seeds_are_of_every_kind():
    assert all(map(seeds, CHECKS))
