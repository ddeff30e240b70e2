"""Partitions are dropped as they are binned: a rank then holds the codes of its rows, and no second copy."""

from __future__ import annotations

import weakref

import numpy as np
import pandas as pd
import pytest

from fastens import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from fastens.distributed.rank_fit import FitTask, Watcher, fit_rank
from fastens.distributed.reduction import RanksComm
from fastens.params.options import EarlyStopping

SMALL = {"n_estimators": 3, "random_state": 1}
RNG = np.random.default_rng(0)
BLOCKS = RNG.normal(size=(4, 300, 3))


class Alone:
    """The transport of a rank without others."""

    rank, size = 0, 1


class Counting(Watcher):
    """Counts the partitions that there still are after each round."""

    def __init__(self, references):
        self.references, self.n_held = references, []

    def report(self, kind, content):
        self.n_held.append(sum(reference() is not None for reference in self.references))
        return 0


def as_frame(block):
    return pd.DataFrame(block, columns=["a", "b", "y"])


def watched_fit(model, tables, **arguments):
    """The model, and how many of the partitions there were after its rounds and at its end."""
    references = [weakref.ref(part[name]) for name, found in tables.items() for part in found]
    watcher = Counting(references)
    fitted = fit_rank(FitTask(model, arguments), RanksComm(Alone()), tables, watcher)
    watcher.report("end", None)
    return fitted, watcher.n_held


@pytest.mark.parametrize(
    ("options", "n_held"),
    [({}, 0), ({"early_stopping": True}, 0), ({"early_stopping": EarlyStopping(refit=True)}, 4)],
)
@pytest.mark.parametrize("make", [as_frame, np.array])
def test_boosting(make, options, n_held):
    model = GradientBoostingRegressor(**SMALL, **options)
    expected = GradientBoostingRegressor(**SMALL, **options).fit(
        make(BLOCKS.reshape(-1, 3))[:], BLOCKS[:, :, 0].ravel()
    )
    tables = {"X": [{"X": make(block), "y": block[:, 0].copy()} for block in BLOCKS]}
    fitted, found = watched_fit(model, tables)
    assert found[0] == n_held
    rows = make(BLOCKS[0])
    np.testing.assert_array_equal(fitted.predict(rows), expected.predict(rows))


def test_names_and_rows_to_validate_on():
    expected = GradientBoostingRegressor(**SMALL, early_stopping=True)
    frame = as_frame(BLOCKS.reshape(-1, 3))
    expected.fit(frame[:600], "y", X_val=frame[600:], y_val="y")
    tables = {"X": [{"X": as_frame(block)} for block in BLOCKS[:2]]}
    tables["X_val"] = [{"X_val": as_frame(block)} for block in BLOCKS[2:]]
    model = GradientBoostingRegressor(**SMALL, early_stopping=True)
    fitted, found = watched_fit(model, tables, y="y", y_val="y")
    assert found[0] == 0
    np.testing.assert_array_equal(fitted.predict(frame[["a", "b"]]), expected.predict(frame[["a", "b"]]))
    np.testing.assert_array_equal(
        fitted.evals_result_["validation"]["loss"], expected.evals_result_["validation"]["loss"]
    )


@pytest.mark.parametrize("linear", [False, True])
def test_linear_leaves_read_values(linear):
    model = GradientBoostingRegressor(**SMALL, linear_leaves=linear)
    tables = {"X": [{"X": as_frame(block)} for block in BLOCKS]}
    fitted, _ = watched_fit(model, tables, y="y")
    frame = as_frame(BLOCKS.reshape(-1, 3))
    expected = GradientBoostingRegressor(**SMALL, linear_leaves=linear).fit(frame, "y")
    np.testing.assert_array_equal(fitted.predict(frame[["a", "b"]]), expected.predict(frame[["a", "b"]]))


@pytest.mark.parametrize("options", [{}, {"keep_leaves": True}, {"oob_score": True}, {"averaging": "posterior"}])
@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
def test_forests(kind, options):
    tables = {"X": [{"X": as_frame(block)} for block in BLOCKS]}
    options = {"n_estimators": 12, "random_state": 1, "bootstrap": True} | options
    fitted, _ = watched_fit(kind(**options), tables, y="y")
    frame = as_frame(BLOCKS.reshape(-1, 3))
    expected = kind(**options).fit(frame, "y")
    np.testing.assert_array_equal(fitted.predict(frame[["a", "b"]]), expected.predict(frame[["a", "b"]]))
