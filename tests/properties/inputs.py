"""Bytes as inputs of the library: `check(name, data)` makes choices by them, and raises where something is wrong.

`tools/fuzz.py` chooses the bytes; `seeds.txt` has some of each kind that reach much of the code.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from properties.choices import Choices
from properties.files import FILES
from properties.fits import FITS
from properties.states import STATES

CHECKS = FILES | STATES | FITS
# How many inputs of a kind take a minute or less on a machine of two cores.
IN_A_MINUTE = {
    "model": 150_000, "state": 25_000, "text": 30_000, "stream": 30_000, "parquet": 40_000, "command": 12_000,
    "fit": 2_800, "parameter": 200_000, "twin": 40_000, "scikit-learn": 30_000, "lightgbm": 20_000,
}  # fmt: skip
SEEDS = Path(__file__).with_name("seeds.txt")


def seeds(name: str) -> list[bytes]:
    """Those of a kind: a line holds its name and the bytes as digits."""
    lines = (line.split() for line in SEEDS.read_text().splitlines())
    return [bytes.fromhex(digits) for kind, digits in lines if kind == name]


def check_all(job: tuple[str, list[bytes]]) -> None:
    """Try some inputs; AssertionError with that which failed."""
    name, inputs = job
    for data in inputs:
        try:
            check(name, data)
        except BaseException as error:
            raise AssertionError(f"check({name!r}, {data!r}): {type(error).__name__}: {error}") from error


@cache
def scratch() -> tempfile.TemporaryDirectory[str]:
    """One folder for all inputs of this process, in memory where the system has such a place."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def check(name: str, data: bytes) -> None:
    """Try one input; an error that Python could only print counts too."""
    unraised: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, unraised.append
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CHECKS[name](Choices(data), Path(scratch().name))
    finally:
        sys.unraisablehook = before
    assert not unraised, unraised[0].exc_value
