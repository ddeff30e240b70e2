"""A model that is written in another library's format and read back predicts the same."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import fastens
from exchange_probes import table
from fastens import AFTLoss, from_model

for package in ("onnx", "xgboost", "lightgbm"):
    pytest.importorskip(package)

X, y = table(240)
TWO = np.where(y > 1.5, "yes", "no")
THREE = np.array(["low", "mid", "top"])[np.digitize(y, [0.5, 2.5])]
WEIGHT = np.random.default_rng(3).integers(1, 4, len(y))
TIMES = pd.DataFrame({"event": X[:, 0] < 0.8, "time": np.exp(y / 3)})
QUERY = np.arange(len(y)) // 20
FRAME = pd.DataFrame(
    {
        "size": X[:, 0],
        "share": X[:, 2],
        "town": pd.Categorical(np.array(["Köln", "a b", "=", "Bonn"])[X[:, 3].astype(int) % 4]),
        "code": pd.Categorical(X[:, 4].astype(int) * 10),
    }
)
UNSEEN = FRAME.astype({"town": object, "code": object})
UNSEEN.loc[::5, "town"], UNSEEN.loc[1::5, "town"] = None, "Rom"
UNSEEN.loc[2::5, "code"], UNSEEN.loc[3::5, "code"] = None, -5
LOST = UNSEEN["town"].isna()
ROWS = X.copy()
ROWS[::5, 4], ROWS[1::5, 4], ROWS[2::5, 4] = np.nan, 77, -1
OWN = fastens.Categories(missing="category")
BOOSTED = {"n_estimators": 3, "max_depth": 4}
GROWN = {"n_estimators": 7, "max_depth": 4, "random_state": 0}


def numbers(**parameters):
    return fastens.GradientBoostingRegressor(**BOOSTED, **parameters)


MODELS = {
    "numbers": lambda: numbers().fit(X, y),
    "weights": lambda: numbers().fit(X, y, sample_weight=WEIGHT),
    "codes": lambda: numbers(categorical_features=[3, 4]).fit(X, y),
    "frame": lambda: numbers().fit(FRAME, y),
    "missing is a category": lambda: numbers(categories=fastens.Categories(missing="category")).fit(
        UNSEEN, y + 9 * LOST
    ),
    "statistics": lambda: numbers(categories=fastens.Categories(encoding="target")).fit(FRAME, y),
    "sparse": lambda: numbers().fit(csr_matrix(np.nan_to_num(X)), y),
    "monotone": lambda: numbers(monotonic_cst=[1, 0, 0, -1, 0]).fit(X, y),
    "dart": lambda: numbers(boosting=fastens.Dart()).fit(X, y),
    "linear": lambda: numbers(linear_leaves=True).fit(X, y),
    "poisson": lambda: numbers(loss="poisson").fit(X, np.exp(y / 3)),
    "means of targets": lambda: numbers(loss="poisson").fit(X, np.exp(np.column_stack([y, -y]) / 3)),
    "shares": lambda: numbers(loss="cross_entropy").fit(X, 1 / (1 + np.exp(-y))),
    "shares of targets": lambda: numbers(loss="cross_entropy").fit(X, 1 / (1 + np.exp(np.column_stack([y, -y])))),
    "quantiles": lambda: numbers(loss="quantile", quantile=[0.3, 0.6]).fit(X, y),
    "quantiles of targets": lambda: numbers(loss="quantile", quantile=[0.3, 0.6]).fit(X, np.column_stack([y, -y])),
    "targets": lambda: numbers().fit(X, np.column_stack([y, -y * y])),
    "ranking": lambda: fastens.GradientBoostingRanker(**BOOSTED).fit(
        X, np.digitize(y, [1, 2]), qid=np.arange(240) // 20
    ),
    "cox": lambda: fastens.GradientBoostingSurvival(**BOOSTED).fit(FRAME, TIMES),
    "aft": lambda: fastens.GradientBoostingSurvival(AFTLoss(distribution="logistic", scale=0.7), **BOOSTED).fit(
        X, TIMES
    ),
    "two classes": lambda: fastens.GradientBoostingClassifier(**BOOSTED).fit(X, TWO),
    "three classes": lambda: fastens.GradientBoostingClassifier(**BOOSTED).fit(FRAME, THREE),
    "exponential": lambda: fastens.GradientBoostingClassifier(loss="exponential", **BOOSTED).fit(X, TWO),
    "targets of classes": lambda: fastens.GradientBoostingClassifier(**BOOSTED).fit(X, np.column_stack([TWO, THREE])),
    "forest": lambda: fastens.RandomForestRegressor(**GROWN).fit(X, y),
    "forest of targets": lambda: fastens.RandomForestRegressor(**GROWN).fit(X, np.column_stack([y, -y])),
    "forest of two classes": lambda: fastens.RandomForestClassifier(**GROWN).fit(X, TWO),
    "forest of three classes": lambda: fastens.RandomForestClassifier(**GROWN).fit(FRAME, THREE),
    "forest of several": lambda: fastens.RandomForestClassifier(**GROWN).fit(X, np.column_stack([TWO, THREE])),
    "votes": lambda: fastens.RandomForestClassifier(voting="hard", **GROWN).fit(X, THREE),
    "extra trees": lambda: fastens.ExtraTreesClassifier(**GROWN).fit(X, y > 1),
    "tree": lambda: fastens.DecisionTreeClassifier(max_depth=4).fit(X, THREE),
    "adaboost": lambda: fastens.AdaBoostClassifier(n_estimators=5, random_state=0).fit(X, TWO),
    "adaboost of three": lambda: fastens.AdaBoostClassifier(n_estimators=5, random_state=0).fit(X, THREE),
    "weighted median": lambda: fastens.AdaBoostRegressor(n_estimators=5, random_state=0).fit(X, y),
    "bag": lambda: fastens.BaggingRegressor(n_estimators=5, max_features=0.6, random_state=0).fit(X, y),
    "bag of classes": lambda: fastens.BaggingClassifier(n_estimators=5, random_state=0).fit(X, THREE),
    "outliers": lambda: fastens.IsolationForest(n_estimators=5, random_state=0).fit(X),
    "one leaf": lambda: numbers().fit(X, np.ones(len(X))),
    "one leaf of categories": lambda: numbers().fit(FRAME[["town", "size"]], np.ones(len(X))),
}
FORMATS = ["lightgbm", "xgboost", "onnx", "onnx 3", "sklearn"]
# What a format cannot hold.
EVERYWHERE = {"linear": "linear leaves", "weighted median": "the weighted median of trees"}
SEVERAL = {"targets of classes": "several targets", "forest of several": "several targets"}
LINKED = {"means of targets": "link 'exp'", "shares of targets": "link 'sigmoid'"}
IN_SUMS = {"quantiles": "'sorted'", "outliers": "'anomaly'", "quantiles of targets": "several targets"} | SEVERAL
REFUSED = {
    "lightgbm": IN_SUMS | LINKED | {"missing is a category": "missing values of"},
    "xgboost": IN_SUMS,
    "onnx": {},
    "onnx 3": {},
    "sklearn": {
        "targets": "several predictions",
        "means of targets": "several predictions",
        "shares": "the link 'sigmoid'",
        "shares of targets": "several predictions",
        "quantiles": "several predictions",
        "quantiles of targets": "several targets",
        "targets of classes": "several targets",
        "missing is a category": "missing values of",
        "forest of three classes": "categorical columns in trees and forests",
    },
}


@cache
def fitted(name):
    return MODELS[name]()


def written(model, kind):
    options = {"ml_opset": 3} if kind == "onnx 3" else {}
    found = model.export(format=kind.split()[0], **options)
    return found.encode() if isinstance(found, str) else found


def predicted(model, rows):
    """Probabilities of all classes, scores or numbers, side by side."""
    if hasattr(model, "score_samples"):
        return model.score_samples(rows)[:, None]
    found = model.predict_proba(rows) if hasattr(model, "classes_") else model.predict(rows)
    return np.column_stack(found) if isinstance(found, list) else np.asarray(found, dtype=float).reshape(len(rows), -1)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names", "ignore:X has feature names")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", FORMATS)
def test_round_trip(name, kind):
    model = fitted(name)
    if refused := (REFUSED[kind] | EVERYWHERE).get(name):
        with pytest.raises(ValueError, match=refused):
            written(model, kind)
        return
    content = written(model, kind)
    back = from_model(content)
    rows = UNSEEN if hasattr(model, "feature_names_in_") else ROWS
    expected, found = predicted(model, rows), predicted(back, rows)
    is_rounded = kind == "sklearn" and (model.__class__.__name__ == "IsolationForest" or hasattr(model, "classes_"))
    if kind == "xgboost" or (is_rounded and not hasattr(model, "train_score_")):
        # Sums, and in scikit-learn's forests shares, of single precision.
        bound = back._ensemble.n_trees * np.spacing(np.float32(np.abs(expected).max()))
        np.testing.assert_allclose(found, expected, rtol=0, atol=bound)
    else:
        np.testing.assert_array_equal(found, expected)
    if type(model).__name__.startswith("Gradient") and kind != "sklearn":
        assert type(back) is type(model)
    assert hasattr(back, "classes_") == hasattr(model, "classes_")
    if hasattr(model, "classes_"):
        is_clear = np.abs(expected - 0.5).min(axis=1) > 1e-6
        labels = np.asarray(back.predict(rows))
        assert labels.dtype.kind == np.asarray(model.classes_[0]).dtype.kind
        np.testing.assert_array_equal(labels[is_clear], np.asarray(model.predict(rows))[is_clear])
    if hasattr(model, "feature_names_in_"):
        assert back.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    again = from_model(written(back, kind))
    np.testing.assert_allclose(predicted(again, rows), found, rtol=0, atol=1e-12 if kind != "xgboost" else 1e-6)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_text_is_content_and_no_path(kind):
    model = fastens.GradientBoostingRegressor(n_estimators=3).fit(X, y)
    text = model.export(format=kind)
    expected = from_model(text.encode()).predict(X)
    np.testing.assert_array_equal(from_model(text).predict(X), expected)
    with pytest.raises(fastens.ModelFileError, match=r"the file must be a LightGBM text model, .*; it begins with b'/"):
        from_model(model.export(format="c"))


@pytest.mark.parametrize("name", ["cox", "aft"])
@pytest.mark.parametrize("kind", FORMATS)
def test_times(name, kind, tmp_path):
    model = fitted(name)
    back = from_model(written(model, kind))
    if kind == "sklearn":
        assert not hasattr(back, "predict_survival_function")
        return
    back.save(tmp_path / "model")
    rows, times = UNSEEN if name == "cox" else ROWS, [0.5, 1.0, 3.0]
    expected = model.predict_survival_function(rows, times)
    for each in (back, fastens.load(tmp_path / "model")):
        found = each.predict_survival_function(rows, times)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 if kind == "xgboost" else 0)
    content = written(model, "lightgbm")
    for wrong in (b'"hazard":[-1,', b'"scale":-'):
        damaged = content.replace(b'"hazard":[', wrong).replace(b'"scale":', wrong)
        with pytest.raises(fastens.ModelFileError, match=r"fastens metadata|must have"):
            from_model(damaged)
