"""What other libraries count as missing, and arrays that hold the codes of categories."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.sparse import csr_array

import fastens
from fastens import from_model
from fastens.table.encoder import InputEncoder

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")


@pytest.fixture
def table(rng):
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + rng.normal(size=300) * 0.1
    return np.where(rng.random(X.shape) < 0.2, np.nan, X), y


@pytest.mark.parametrize("missing", [-999, 0, -999.1])
@pytest.mark.parametrize("kind", ["XGBRegressor", "XGBClassifier", "XGBRanker", "XGBRFRegressor"])
def test_the_missing_number_of_xgboost(table, kind, missing, tmp_path):
    X, y = table
    X = np.where(np.isnan(X), missing, X)
    of_ranks = {"qid": np.arange(300) // 10} if kind == "XGBRanker" else {}
    y = y if kind.endswith("Regressor") else (y > 0).astype(int)
    theirs = getattr(xgboost, kind)(missing=missing, n_estimators=3).fit(X, y, **of_ranks)
    ours = from_model(theirs)
    X[0] = np.nan
    method = "predict_proba" if kind == "XGBClassifier" else "predict"
    expected = getattr(theirs, method)(X)
    np.testing.assert_allclose(getattr(ours, method)(X), expected, rtol=1e-5, atol=1e-6)
    ours.save(tmp_path / "model")
    np.testing.assert_allclose(getattr(fastens.load(tmp_path / "model"), method)(X), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="as a missing value"):
        ours.export(format="lightgbm")


def test_the_missing_number_of_a_booster(table):
    X, y = table
    X = np.where(np.isnan(X), -1, X)
    matrix = xgboost.DMatrix(X, y, missing=-1)
    booster = xgboost.train({}, matrix, 3)
    np.testing.assert_allclose(
        from_model(booster, missing=-1).predict(X), booster.predict(matrix), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(TypeError, match="missing must be a number or None"):
        from_model(booster, missing="-1")


def test_absent_values_are_missing_to_xgboost(table):
    X, y = table
    X = csr_array(np.nan_to_num(X))
    X.data[::9] = 0  # stored zeros are zeros
    theirs = xgboost.XGBRegressor(n_estimators=3).fit(X, y)
    np.testing.assert_allclose(from_model(theirs).predict(X), theirs.predict(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", [{"zero_as_missing": True}, {"use_missing": False}])
def test_the_rules_of_lightgbm(table, rule):
    X, y = table
    theirs = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, **rule).fit(X, y)
    rows = np.where(np.arange(300)[:, None] % 3 == 0, 0.0, X)
    np.testing.assert_array_equal(from_model(theirs).predict(rows), theirs.predict(rows))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("labels", [["x", "y", "z"], [10, 20, 30]])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_arrays_hold_the_codes_of_pandas_categories(rng, library, labels):
    X = pd.DataFrame({"a": pd.Categorical(rng.choice(labels, 300)), "b": rng.normal(size=300)})
    codes = X["a"].cat.codes.to_numpy()
    array = np.column_stack([codes, X["b"]])
    if library == "lightgbm":
        theirs = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, min_child_samples=5).fit(X, codes)
        array = np.concatenate([array, array + 0.5, array * [-1, 1], array * [1000, 1], array * [np.nan, 1]])
    else:
        theirs = xgboost.XGBRegressor(n_estimators=3, enable_categorical=True).fit(X, codes)
    ours = from_model(theirs)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.predict(array), theirs.predict(array), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.predict(array.astype(np.float32)), ours.predict(array), rtol=1e-5, atol=1e-6)


def test_large_codes(rng, tmp_path):
    X = np.column_stack([rng.choice([1, 5, 123_456, 3_000_000, 8_000_000], 300), rng.normal(size=300)])
    y = (X[:, 0] > 1e6) + rng.normal(size=300) * 0.1
    rules = {"verbose": -1, "min_data_in_leaf": 5, "cat_smooth": 1, "min_data_per_group": 2}
    theirs = lightgbm.train(rules, lightgbm.Dataset(X, y, categorical_feature=[0]), 3)
    ours = from_model(theirs)
    ours.save(tmp_path / "model")
    rows = X.copy()
    rows[::5, 0], rows[1::7, 0], rows[2::9, 0], rows[3::11, 0] = 77, 8_000_001, np.nan, 5.7
    for model in (ours, fastens.load(tmp_path / "model")):
        np.testing.assert_array_equal(model.predict(rows), theirs.predict(rows))


def test_early_files_of_lightgbm(table):
    X, y = table
    theirs = lightgbm.train({"verbose": -1, "num_leaves": 4}, lightgbm.Dataset(X, y), 3)
    text = theirs.model_to_string()
    trees, tail = text.replace("version=v4", "version=v2").split("end of trees")
    for early in (trees, re.sub("tree_sizes=.*\n", "", trees), trees + tail.lstrip()):
        np.testing.assert_array_equal(from_model(early).predict(X), lightgbm.Booster(model_str=early).predict(X))
    with pytest.raises(fastens.ModelFileError, match="truncated"):
        from_model(text.split("end of trees")[0])


def test_constant_trees_of_another_size(rng):
    X = rng.normal(size=(100, 2))
    theirs = lightgbm.train({"verbose": -1}, lightgbm.Dataset(X, np.full(100, 2.5)), 1)
    text = re.sub(r"tree_sizes=\d+", "tree_sizes=300", theirs.model_to_string())
    np.testing.assert_array_equal(from_model(text).predict(X), lightgbm.Booster(model_str=text).predict(X))


@pytest.mark.parametrize(
    "change",
    [
        {"conventions": {"0": "no convention"}},
        {"conventions": {"9": "hashed"}},
        {"conventions": {"0": "truncated"}},
        {"conventions": {"0": "array codes"}},
        {"missing_number": "7"},
    ],
)
def test_malformed_conventions_are_refused(change):
    state = {"names": None, "categories": [None, [1, 2]]}
    foreign = {"conventions": {"1": "truncated"}, "missing_number": -1.0, "absent_is_missing": True}
    encoder = InputEncoder.from_state(state | {"foreign": foreign})
    assert InputEncoder.from_state(encoder.to_state()).to_state() == encoder.to_state()
    with pytest.raises(ValueError, match="the state of the columns is malformed"):
        InputEncoder.from_state(state | {"foreign": foreign | change})
