"""TableEncoder gives tools that need arrays the numbers that our own estimators are grown on."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import RFECV, SequentialFeatureSelector
from sklearn.multiclass import OneVsOneClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline

from fastens import GradientBoostingClassifier, TableEncoder, load
from reference.sklearn_checks import parametrize_with_checks

DRAWS = np.random.default_rng(0)
N = 120
FRAME = pd.DataFrame(
    {
        "number": np.where(DRAWS.random(N) < 0.1, np.nan, DRAWS.normal(size=N)),
        "text": DRAWS.choice(np.array(["b", "a", None], dtype=object), N),
        "category": pd.Categorical(DRAWS.choice(["z", "y"], N), categories=["z", "y"]),
        "truth": DRAWS.random(N) < 0.5,
        "day": pd.date_range("2024-01-01", periods=N, freq="25h"),
    }
)
Y = (FRAME["text"] == "a").to_numpy() + FRAME["truth"].to_numpy()


@parametrize_with_checks([TableEncoder()])
def test_sklearn_check(check):
    check()


@pytest.mark.parametrize("missing", ["missing", "category"])
def test_numbers(missing):
    found = TableEncoder(missing=missing).fit(FRAME).transform(FRAME)
    gap = np.nan if missing == "missing" else 2.0
    np.testing.assert_array_equal(found[:, 0], FRAME["number"])
    np.testing.assert_array_equal(found[:, 1], FRAME["text"].map({"a": 0.0, "b": 1.0}).fillna(gap))
    np.testing.assert_array_equal(found[:, 2], FRAME["category"].astype(str).map({"y": 0.0, "z": 1.0}))
    np.testing.assert_array_equal(found[:, 3], FRAME["truth"])
    np.testing.assert_allclose(found[:, 4], (FRAME["day"] - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D"))


def test_columns():
    encoder = TableEncoder().fit(FRAME)
    assert encoder.categories_ == [None, ["a", "b"], ["y", "z"], [False, True], None]
    assert encoder.get_feature_names_out().tolist() == list(FRAME)
    assert TableEncoder().fit(np.ones((2, 2))).get_feature_names_out().tolist() == ["x0", "x1"]
    assert TableEncoder().fit(np.ones((2, 2))).get_feature_names_out(["a", "b"]).tolist() == ["a", "b"]
    split = TableEncoder(split_dates=True).set_output(transform="pandas").fit(FRAME).transform(FRAME)
    assert list(split)[:6] == ["number", "text", "category", "truth", "day: day", "day: month"]
    np.testing.assert_array_equal(split["day: weekday"], FRAME["day"].dt.weekday)


def test_outputs():
    encoder = clone(TableEncoder()).set_output(transform="polars")
    found = encoder.fit_transform(FRAME)
    assert isinstance(found, pl.DataFrame)
    assert found.columns == list(FRAME)
    assert issparse(TableEncoder().fit_transform(csr_matrix(np.eye(3))))


def test_unseen_categories():
    new = FRAME[:2].assign(text="new")
    assert np.isnan(TableEncoder().fit(FRAME).transform(new)[:, 1]).all()
    with pytest.raises(
        ValueError, match=r"Column 'text' must hold only categories .* with unseen='error'; got 'new' in row 0"
    ):
        TableEncoder(unseen="error").fit(FRAME).transform(new)


def test_tables_of_every_kind(tmp_path):
    encoder = TableEncoder().fit(FRAME)
    expected = encoder.transform(FRAME)
    np.testing.assert_array_equal(encoder.transform(pl.from_pandas(FRAME)), expected)
    np.testing.assert_array_equal(encoder.transform(FRAME[FRAME.columns[::-1]]), expected)
    FRAME.to_parquet(tmp_path / "table.parquet")
    np.testing.assert_array_equal(encoder.transform(tmp_path / "table.parquet"), expected)
    from_file = TableEncoder().fit(tmp_path / "table.parquet")
    np.testing.assert_array_equal(from_file.transform(FRAME), expected)


def test_restored_encoders(tmp_path):
    encoder = TableEncoder(split_dates=True, missing="category").fit(FRAME)
    encoder.save(tmp_path / "encoder")
    for same in (load(tmp_path / "encoder"), pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_array_equal(same.transform(FRAME), encoder.transform(FRAME))
        assert same.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()


FAST = GradientBoostingClassifier(n_estimators=3, n_jobs=1)
TOOLS = {
    "RFECV": RFECV(FAST, cv=2),
    "SequentialFeatureSelector": SequentialFeatureSelector(FAST, n_features_to_select=2, cv=2),
    "OneVsOne": OneVsOneClassifier(FAST),
    "another library": RandomForestClassifier(5),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_of_scikit_learn(tool):
    with pytest.raises(ValueError, match=r"could not convert string to float|float\(\) argument"):
        TOOLS[tool].fit(FRAME.drop(columns="day"), Y)
    model = make_pipeline(TableEncoder(), TOOLS[tool]).fit(FRAME, Y)
    assert model[-1].n_features_in_ == 5
    assert len(model.transform(FRAME) if tool == "SequentialFeatureSelector" else model.predict(FRAME)) == N


def test_chains():
    targets = np.column_stack([Y > 0, Y > 1])
    X = FRAME.fillna({"number": 0.0})  # scikit-learn refuses missing numbers
    chain = make_pipeline(TableEncoder(missing="category"), ClassifierChain(FAST)).fit(X, targets)
    assert chain.predict(X).shape == (N, 2)
