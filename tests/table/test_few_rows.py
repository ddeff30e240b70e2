"""Frames with few rows become the same floats by the short way as by `InputEncoder.encode`."""

from __future__ import annotations

import copy
import cProfile
import pickle
import pstats
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fastens import GradientBoostingClassifier, GradientBoostingRegressor, LinearLeaves, load
from fastens.table import few_rows
from fastens.table.encoder import InputEncoder, Reading

N = 200
DRAWS = np.random.default_rng(0)


def table():
    """Columns of every type that pandas predicts rows of, some with missing values."""
    holes = DRAWS.random(N) < 0.2
    texts = DRAWS.choice(["a", "b", "c"], N).astype(object)
    return pd.DataFrame(
        {
            "x": DRAWS.normal(size=N),
            "float32": DRAWS.normal(size=N).astype(np.float32),
            "whole": DRAWS.integers(-5, 5, N),
            "large": DRAWS.integers(2**60, 2**61, N),
            "byte": DRAWS.integers(0, 9, N).astype(np.uint8),
            "gaps": np.where(holes, np.nan, DRAWS.normal(size=N)),
            "nullable": pd.array(np.where(holes, None, DRAWS.integers(0, 9, N)), dtype="Int64"),
            "truth": DRAWS.random(N) < 0.5,
            "text": texts,
            "text with gaps": np.where(holes, None, texts),
            "string": pd.array(np.where(holes, None, texts), dtype="string"),
            "category": pd.Categorical(np.where(holes, None, texts)),
            "number category": pd.Categorical(DRAWS.integers(0, 5, N)),
            "objects": np.where(holes, None, DRAWS.normal(size=N)).astype(object),
        }
    )


FRAME = table()
ENCODERS = {
    missing: InputEncoder.learn(FRAME, Reading(missing_is_category=missing), "Model")[0] for missing in (False, True)
}


def encoded(encoder, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return np.asarray(encoder.encode(X, Reading(), "Model"), dtype=float)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n_rows", [1, 3, few_rows.MAX_ROWS])
@pytest.mark.parametrize("kind", ["pandas", "column by column", "polars"])
def test_the_short_way_gives_the_same_floats(missing, n_rows, kind):
    encoder = ENCODERS[missing]
    for start in range(0, N - n_rows, 31):
        rows = FRAME.iloc[start : start + n_rows]
        if kind == "column by column":
            rows = pd.concat([rows[[name]] for name in rows], axis=1)
        if kind == "polars":
            rows = pl.from_pandas(rows.astype({"number category": int}))
        found = encoder.few_rows.read(rows)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, encoded(encoder, rows))


CHANGES = {
    "more rows": lambda X: pd.concat([X] * 20),
    "no rows": lambda X: X.iloc[:0],
    "another order of columns": lambda X: X[X.columns[::-1]],
    "another column": lambda X: X.assign(more=1),
    "an array": lambda X: X.to_numpy(),
    "a number as text": lambda X: X.assign(x="1.5"),
    "a text": lambda X: X.assign(x="high"),
    "a date": lambda X: X.assign(x=pd.Timestamp("2024-02-29")),
    "a decimal": lambda X: X.assign(x=[__import__("decimal").Decimal("0.5")]),
    "an unseen category": lambda X: X.assign(text="new"),
    "an unseen category by type": lambda X: X.assign(category=pd.Categorical(["new"])),
    "another type of categories": lambda X: X.assign(text=3),
    "another spelling": lambda X: X.assign(truth="yes"),
    "a list": lambda X: X.assign(text=[["a"]]),
}


def outcome(function):
    """The result, the error and the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found, error = np.asarray(function()).tolist(), ""
        except (ValueError, TypeError) as raised:
            found, error = None, f"{type(raised).__name__}: {raised}"
    return found, error, [str(each.message) for each in caught]


@pytest.mark.parametrize("change", CHANGES)
def test_everything_else_takes_the_long_way(change):
    X = CHANGES[change](FRAME.iloc[[0]])
    assert ENCODERS[False].read_few_rows(X) is None
    model = GradientBoostingRegressor(n_estimators=3).fit(FRAME, FRAME["x"])
    short = outcome(lambda: model.predict(X))
    model._encoder.few_rows = None
    assert outcome(lambda: model.predict(X)) == short


def test_many_categories_take_the_long_way(monkeypatch):
    monkeypatch.setattr(few_rows, "_MAX_CATEGORIES", 5)
    assert few_rows.FewRows.of(ENCODERS[False]) is None


def test_types_with_many_categories(monkeypatch):
    monkeypatch.setattr(few_rows, "_MAX_LISTED", 1)
    rows = FRAME.iloc[:9].drop(columns="number category")
    encoder = InputEncoder.learn(FRAME.drop(columns="number category"), Reading(), "Model")[0]
    np.testing.assert_array_equal(encoder.few_rows.read(rows), encoded(encoder, rows))


def test_dates_take_the_long_way():
    X = FRAME.assign(day=pd.date_range("2024-01-01", periods=N))
    model = GradientBoostingRegressor(n_estimators=3).fit(X, X["x"])
    assert model._encoder.few_rows is None
    np.testing.assert_array_equal(model.predict(X.iloc[:1]), model.predict(X)[:1])


@pytest.mark.parametrize("options", [{}, {"linear_leaves": LinearLeaves()}], ids=str)
@pytest.mark.parametrize("columns", [["float32"], ["x", "float32"], list(FRAME)], ids=str)
def test_rows_are_predicted_as_in_the_table(options, columns, tmp_path):
    X = FRAME[columns]
    model = GradientBoostingRegressor(n_estimators=10, min_samples_leaf=5, **options).fit(X, FRAME["x"])
    whole = model.predict(X)
    model.save(tmp_path / "model")
    for same in (model, load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        one_by_one = [same.predict(X.iloc[[row]]).item() for row in range(12)]
        np.testing.assert_array_equal(one_by_one, whole[:12])


def test_copies_with_more_categories_have_a_reader_of_their_own():
    encoder = InputEncoder.learn(FRAME[["text"]], Reading(), "Model")[0]
    assert encoder.few_rows.read(FRAME[["text"]].iloc[:1].assign(text="z")) is None
    more = encoder.with_more_categories([["z"]])
    assert more.few_rows.read(FRAME[["text"]].iloc[:1].assign(text="z")).item() == 3


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_row_takes_few_calls(kind):
    """A row of a frame took 34 times as long as a row of an array when its columns were read one by one."""
    X = pd.DataFrame(DRAWS.normal(size=(N, 28)), columns=[f"x{index}" for index in range(28)])
    model = GradientBoostingClassifier(n_estimators=5).fit(X, X["x0"] > 0)
    row = X.iloc[:1] if kind == "pandas" else pl.from_pandas(X.iloc[:1])
    model.predict_proba(row)
    profile = cProfile.Profile()
    profile.runcall(model.predict_proba, row)
    assert pstats.Stats(profile).total_calls < 100


def test_a_row_of_mixed_types_takes_few_calls():
    """A row with categories took 5 to 8 times as long as a row of an array when each block was listed anew."""
    X = FRAME[["x", "float32", "whole", "truth", "text", "category", "number category"]]
    model = GradientBoostingClassifier(n_estimators=5).fit(X, X["x"] > 0)
    row = X.iloc[[0]]
    model.predict_proba(row)
    profile = cProfile.Profile()
    profile.runcall(model.predict_proba, row)
    assert pstats.Stats(profile).total_calls < 150


def test_layouts_of_other_frames_are_read_anew():
    encoder = InputEncoder.learn(FRAME[["x", "text", "whole"]], Reading(), "Model")[0]
    table = FRAME[["x", "text", "whole"]]
    for rows in (table.iloc[[0]], table.astype({"whole": float}).iloc[[1]], table.iloc[2:4], table.iloc[[3]].copy()):
        np.testing.assert_array_equal(encoder.few_rows.read(rows), encoded(encoder, rows))
