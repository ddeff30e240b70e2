"""treelite's models predict here as its reference predictor, GTIL, does."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import ensemble

from exchange_probes import probes, saved_and_loaded, table
from fastens import ModelFileError, from_model

treelite = pytest.importorskip("treelite")
X, y = table()
FULL = np.nan_to_num(X, nan=3.5)
CLASSES = np.digitize(y, [0.5, 2.5])


def predicted(theirs, rows):
    kind = np.float32 if theirs.input_type == "float32" else np.float64
    found = treelite.gtil.predict(theirs, np.ascontiguousarray(rows, dtype=kind), nthread=1)
    return found.reshape(len(rows), -1)


def agree(theirs, folder, *, infinite=False, missing=True, rtol=1e-12, atol=1e-13):
    model = from_model(theirs.serialize_bytes())
    rows = probes(X if missing else FULL, model, infinite=infinite)
    expected = predicted(theirs, rows)
    if hasattr(model, "predict_proba"):
        found = model.predict_proba(rows)
        found = found[:, 1:] if expected.shape[1] == 1 else found
    else:
        found = model.predict(rows).reshape(len(rows), -1)
    if expected.shape[1] > 2:  # its softmax is in float32
        rtol = max(rtol, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
    again = saved_and_loaded(model, folder)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(from_model(theirs).predict(rows), model.predict(rows))
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theirs", "target"),
    [
        (ensemble.RandomForestRegressor(9, max_depth=5, random_state=0), y),
        (ensemble.RandomForestRegressor(9, max_depth=5, random_state=0), np.column_stack([y, -y])),
        (ensemble.RandomForestClassifier(9, max_depth=5, random_state=0), CLASSES > 0),
        (ensemble.RandomForestClassifier(9, max_depth=5, random_state=0), CLASSES),
        (ensemble.GradientBoostingRegressor(n_estimators=9, random_state=0), y),
        (ensemble.GradientBoostingClassifier(n_estimators=9, random_state=0), CLASSES > 0),
        (ensemble.GradientBoostingClassifier(n_estimators=9, random_state=0), CLASSES),
        (ensemble.HistGradientBoostingRegressor(max_iter=9, categorical_features=[4]), y),
        (ensemble.HistGradientBoostingClassifier(max_iter=9), CLASSES),
    ],
)
def test_models_of_sklearn(theirs, target, tmp_path):
    agree(treelite.sklearn.import_model(theirs.fit(FULL, target)), tmp_path, missing=False)


def test_too_many_columns_are_refused():
    forest = ensemble.RandomForestRegressor(2, max_depth=2, random_state=0).fit(FULL, y)
    content = treelite.sklearn.import_model(forest).serialize_bytes()
    n_columns = np.array(FULL.shape[1], dtype="<i4").tobytes()
    at = content.index(n_columns, 22)  # after the version, the types and the number of trees
    with pytest.raises(ModelFileError, match="2000000000 columns"):
        from_model(content[:at] + np.array(2_000_000_000, dtype="<i4").tobytes() + content[at + 4 :])


def test_isolation_forest(tmp_path):
    theirs = ensemble.IsolationForest(n_estimators=9, random_state=0).fit(FULL)
    model = from_model(treelite.sklearn.import_model(theirs))
    np.testing.assert_allclose(model.score_samples(FULL), theirs.score_samples(FULL), rtol=1e-6)


@pytest.mark.parametrize(
    "objective",
    ["regression", "binary", "multiclass", "multiclassova", "poisson", "lambdarank", "cross_entropy_lambda"],
)
def test_models_of_lightgbm(objective, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    targets = {"regression": y, "binary": CLASSES > 0, "poisson": np.exp(y / 3)}
    target = (targets | {"cross_entropy_lambda": 1 / (1 + np.exp(-y))}).get(objective, CLASSES)
    data = lightgbm.Dataset(X, target, categorical_feature=[4], group=[20] * 60 if "rank" in objective else None)
    options = {
        "objective": objective,
        "verbose": -1,
        "num_threads": 1,
        "sigmoid": 1.3 if "lambda" not in objective else 1,
    }
    options |= {"num_class": 3} if objective.startswith("multi") else {}
    booster = lightgbm.train(options, data, 9)
    agree(treelite.frontend.from_lightgbm(booster), tmp_path)


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob", "reg:gamma"])
def test_models_of_xgboost(objective, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    target = {"reg:squarederror": y, "binary:logistic": CLASSES > 0, "reg:gamma": np.exp(y / 3)}.get(objective, CLASSES)
    data = xgboost.DMatrix(X, target, feature_types=["q", "q", "q", "q", "c"], enable_categorical=True)
    options = {"objective": objective, "nthread": 1, "max_cat_to_onehot": 2}
    options |= {"num_class": 3} if objective.startswith("multi") else {}
    booster = xgboost.train(options, data, 9)
    agree(treelite.frontend.from_xgboost(booster), tmp_path, rtol=2e-5, atol=2e-6)


@pytest.mark.slow
def test_bad_bytes():
    theirs = treelite.sklearn.import_model(ensemble.RandomForestRegressor(3, random_state=0).fit(FULL, y))
    content = theirs.serialize_bytes()
    for end in [*range(200), *range(200, len(content), 1009)]:
        with pytest.raises(ModelFileError):
            from_model(content[:end])
    with pytest.raises(ModelFileError, match="must end"):
        from_model(content + b"\0")
