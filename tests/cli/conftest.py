"""A small table of every kind of column, its file, and a command line that runs in this process."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("rich")

import pyarrow.csv  # noqa: E402

from fastens.cli import main  # noqa: E402


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command in an empty folder; its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: object) -> Outcome:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def houses() -> pa.Table:
    """300 houses: price and whether it sold follow from area, town and garden; some values are missing."""
    rng = np.random.default_rng(7)
    n = 300
    area = rng.uniform(30, 200, n)
    town = rng.choice(["Aachen", "Bern", "Köln"], n)
    garden = rng.random(n) < 0.5
    price = area * 3 + 100 * (town == "Bern") + 50 * garden + rng.normal(0, 5, n)
    start = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "area": pa.array(area, mask=rng.random(n) < 0.1),
            "rooms": pa.array(rng.integers(1, 9, n)),
            "town": pa.array(town, mask=rng.random(n) < 0.1),
            "garden": pa.array(garden),
            "built": pa.array([start + datetime.timedelta(days=int(day)) for day in rng.integers(0, 900, n)]),
            "price": pa.array(price),
            "sold": pa.array(np.where(price > np.median(price), "yes", "no")),
        }
    )


@pytest.fixture
def write_csv(tmp_path):
    """Write a table, or text as it is, to a CSV file of that name."""

    def write(content: pa.Table | str | bytes, name: str = "table.csv") -> Path:
        path = tmp_path / name
        if isinstance(content, pa.Table):
            pyarrow.csv.write_csv(content, path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
