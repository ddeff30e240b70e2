"""What goes wrong with a table in files while it is read: an error that says so, for every family, and nothing left."""

from __future__ import annotations

import os
import signal
import tempfile
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastens as fe
from fastens.combining.responses import MemberError
from fastens.engine.bins.binned import TemporaryFiles
from fastens.table.source import MemoryLimits
from fastens.table.sources import open_batches
from reference.full_disk import full_disk

N_ROWS = 400
RNG = np.random.default_rng(1)
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=N_ROWS),
        "word": RNG.choice(["low", "high"], N_ROWS),
        "count": RNG.integers(0, 5, N_ROWS),
    }
)
FRAME["kind"] = np.where(FRAME["size"] > 0, "much", "little")
FRAME["years"] = RNG.exponential(size=N_ROWS) + 0.1
FRAME["text"] = [f"one {word} two" for word in FRAME["word"]]
MIXED = ["size", "word", "count"]
FAMILIES = {
    "boosting": (fe.GradientBoostingClassifier(n_estimators=2, subsample=0.5), MIXED, "kind"),
    "several targets": (fe.GradientBoostingRegressor(n_estimators=2), ["size", "word"], ["count", "years"]),
    "survival": (fe.GradientBoostingSurvival(n_estimators=2), MIXED, "years"),
    "forest": (fe.RandomForestClassifier(2), MIXED, "kind"),
    "extra trees": (fe.ExtraTreesRegressor(2), MIXED, "years"),
    "tree": (fe.DecisionTreeRegressor(), MIXED, "years"),
    "isolation": (fe.IsolationForest(2), MIXED, None),
    "adaboost": (fe.AdaBoostClassifier(n_estimators=2), MIXED, "kind"),
    "bag": (fe.BaggingRegressor(n_estimators=2), MIXED, "years"),
    "vote": (fe.VotingClassifier([("a", fe.GaussianNB()), ("b", fe.DecisionTreeClassifier())]), ["size"], "kind"),
    "stack": (fe.StackingRegressor([("a", fe.DecisionTreeRegressor())], cv=2), MIXED, "years"),
    "gaussian": (fe.GaussianNB(), ["size", "count"], "kind"),
    "mixed": (fe.MixedNB(), MIXED, "kind"),
    "tan": (fe.TANClassifier(), MIXED, "kind"),
    "aode": (fe.AODEClassifier(), MIXED, "kind"),
    "posterior tree": (fe.BayesTreeClassifier(), MIXED, "kind"),
    "network": (fe.BayesianNetwork(), ["word", "count"], "kind"),
    "texts": (fe.TextClassifier(), ["text"], "kind"),
}


def fit(kind, table):
    model, columns, target = FAMILIES[kind]
    targets = [target] if isinstance(target, str) else target or []
    given = [] if target is None else [target]
    return type(model)(**model.get_params(deep=False)).fit(open_batches(table).select([*columns, *targets]), *given)


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """A folder with two files; nothing stays in that of temporary files."""
    rows, spill = tmp_path / "rows", tmp_path / "spill"
    rows.mkdir()
    spill.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spill))
    for number in range(2):
        part = pa.Table.from_pandas(FRAME[number::2])
        pq.write_table(part, rows / f"{number}.parquet", row_group_size=50)
    yield rows
    assert os.listdir(spill) == []


def failing(rows, at, fault):
    """The table, to which something happens when its pass of that number begins."""
    table, passes = open_batches(sorted(rows.iterdir())), []

    def on_rows(n_rows):
        if n_rows is None:
            passes.append(1)
            if len(passes) == at:
                fault()

    table.on_rows = on_rows
    return table


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("fault", ["truncated", "vanished"])
def test_files_that_break_while_they_are_read(kind, fault, rows):
    last = rows / "1.parquet"
    break_it = last.unlink if fault == "vanished" else lambda: os.truncate(last, 1500)
    at = 1 if kind == "isolation" else 2
    with pytest.raises((OSError, MemberError), match=r"1\.parquet"):
        fit(kind, failing(rows, at, break_it))


@pytest.mark.parametrize("kind", FAMILIES)
def test_types_that_change_between_files(kind, rows):
    column = FAMILIES[kind][1][0]
    values = np.where(np.arange(N_ROWS) % 2, "x", "y") if column in ("size", "count") else np.arange(N_ROWS)
    pq.write_table(pa.Table.from_pandas(FRAME.assign(**{column: values})), rows / "2.parquet")
    with pytest.raises(ValueError, match=r"X must have columns of the same types in all files; .*2\.parquet"):
        fit(kind, str(rows / "*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(FAMILIES.keys() - {"gaussian", "mixed", "network", "texts"}))
def test_other_rows_the_second_time(kind, rows):
    """Of the families that read features more than once."""
    table = pa.Table.from_pandas(FRAME)
    column = FAMILIES[kind][1][0]
    opened, passes = [], []

    def source(n_whole=10_000):
        opened.append(1)
        given = table if len(opened) <= n_whole else table[::-1]
        return pa.RecordBatchReader.from_batches(given.schema, given.to_batches(max_chunksize=60))

    fit(kind, source)
    passes.append(len(opened))
    opened.clear()
    with pytest.raises(
        (ValueError, MemberError), match=rf"same rows in every pass; column '{column}' has other values"
    ):
        fit(kind, lambda: source(passes[0] - 1))


def stream():
    table = pa.Table.from_pandas(FRAME)
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=60))


@pytest.mark.parametrize("kind", FAMILIES)
def test_an_interrupt_while_rows_are_read(kind, rows):
    """Of a stream, whose copy is in a temporary file."""
    table = open_batches(stream())
    table.on_rows = lambda n_rows: n_rows and signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(kind, table)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("fastens")] == []


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_disk_too_full_for_a_stream(kind, rows):
    message = "spill_dir must have space for a copy of X, because X is a"
    for n_bytes in (500, 10_000):  # what is written first of all, and rows
        with full_disk(n_bytes), pytest.raises((OSError, MemberError), match=message):
            fit(kind, stream())


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "boosting",
        "several targets",
        "survival",
        "forest",
        "extra trees",
        "tree",
        "isolation",
        "adaboost",
        "bag",
        "stack",
        "posterior tree",
    ],
)
def test_a_disk_too_full_for_codes(kind, rows, monkeypatch):
    monkeypatch.setattr(MemoryLimits, "allocator", lambda limits, *_: TemporaryFiles(limits.spill_dir, 1 << 25))
    table = open_batches(str(rows / "*.parquet"))
    table.limits = MemoryLimits(1)
    with full_disk(100), pytest.raises((OSError, MemberError), match="spill_dir or path must be on a disk with"):
        fit(kind, table)
    fit(kind, table)
