import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.tree import export_text

import fastens
from reference.exported import BOOSTED, N_ROWS, classes_of, fitted, mixed, numbers, rows_for

TREES = {
    "tree": lambda X, y: fastens.DecisionTreeRegressor(max_depth=6).fit(X, y),
    "tree of classes": lambda X, y: fastens.DecisionTreeClassifier(max_depth=6).fit(X, classes_of(y, 3)),
    "forest": lambda X, y: fastens.RandomForestRegressor(n_estimators=9, random_state=0).fit(X, y),
    "forest of classes": lambda X, y: fastens.RandomForestClassifier(n_estimators=9, random_state=0).fit(
        X, classes_of(y)
    ),
    "forest of many classes": lambda X, y: fastens.RandomForestClassifier(n_estimators=9, random_state=0).fit(
        X, classes_of(y, 4)
    ),
    "forest of whole classes": lambda X, y: fastens.RandomForestClassifier(n_estimators=9, random_state=0).fit(
        X, 3 * (y > 0) - 1
    ),
    "extra trees": lambda X, y: fastens.ExtraTreesRegressor(n_estimators=9, random_state=0).fit(X, y),
    "extra trees of classes": lambda X, y: fastens.ExtraTreesClassifier(n_estimators=9, random_state=0).fit(
        X, classes_of(y)
    ),
    "two targets": lambda X, y: fastens.RandomForestRegressor(n_estimators=9, random_state=0).fit(
        X, np.column_stack([y, y**2])
    ),
    "stump": lambda X, y: fastens.DecisionStumpRegressor().fit(X, y),
}


def finite(X):
    """Rows without infinities, which scikit-learn refuses."""
    return X.replace([np.inf, -np.inf], 0.5) if isinstance(X, pd.DataFrame) else np.where(np.isinf(X), 0.5, X)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOOSTED)
def test_boosting_is_the_same(name):
    model = fitted(name)
    X, found = finite(rows_for(model)), model.export(format="sklearn")
    if not hasattr(model, "classes_"):
        raw = model._raw(X)[:, 0]
        assert np.array_equal(found._raw_predict(X.astype(object) if "few" in X else X)[:, 0], raw)
        np.testing.assert_allclose(found.predict(X), model.predict(X), rtol=1e-14)
        return
    np.testing.assert_allclose(found.predict_proba(X), model.predict_proba(X), atol=1e-14)
    assert (found.predict(X) == model.predict(X)).mean() > 0.99
    assert np.array_equal(found.classes_, model.classes_)


@pytest.mark.parametrize("name", TREES)
def test_trees_are_the_same_for_single_precision(name):
    model = TREES[name](*numbers())
    X, found = finite(rows_for(model, as_float32=True)), model.export(format="sklearn")
    assert type(found).__name__ == type(model).__name__.replace("Stump", "Tree")
    if not hasattr(model, "classes_"):
        assert np.array_equal(found.predict(X), model.predict(X))
        return
    # Shares of many classes are kept in single precision, and scaled to sum to 1 by us alone.
    tolerance = 1e-15 if len(model.classes_) == 2 else 1e-7
    np.testing.assert_allclose(found.predict_proba(X), model.predict_proba(X), atol=tolerance)
    assert (found.predict(X) == model.predict(X)).mean() > 0.99


def test_several_targets_with_classes():
    X, y = numbers()
    target = np.column_stack([classes_of(y), classes_of(-y, 3)])
    model = fastens.RandomForestClassifier(n_estimators=5, random_state=0).fit(X, target)
    found = model.export(format="sklearn")
    assert np.array_equal(found.predict(X.astype(np.float32)), model.predict(X.astype(np.float32)))


@pytest.mark.parametrize("name", ["tree", "forest", "forest of classes"])
def test_importances_are_the_same(name):
    model = TREES[name](*numbers())
    found = model.export(format="sklearn")
    np.testing.assert_allclose(found.feature_importances_, model.feature_importances_, rtol=1e-5)


def test_tools_for_trees_read_it():
    text = export_text(TREES["tree"](*numbers()).export(format="sklearn"), max_depth=2)
    assert "feature_0 <= " in text


def test_outliers():
    X = numbers()[0]
    model = fastens.IsolationForest(n_estimators=20, contamination=0.1, random_state=0).fit(X)
    found, rows = model.export(format="sklearn"), finite(rows_for(model, as_float32=True))
    np.testing.assert_allclose(found.score_samples(rows), model.score_samples(rows), rtol=1e-7)
    assert found.offset_ == model.offset_


def test_outliers_of_forests_that_were_read():
    """Their nodes weigh more than the rows that scikit-learn counts, or nothing is known of their rows."""
    pytest.importorskip("onnx")
    X = np.nan_to_num(numbers()[0])
    theirs = IsolationForest(n_estimators=5, bootstrap=True, max_samples=50, random_state=0).fit(X)
    ours = fastens.IsolationForest(n_estimators=5, random_state=0).fit(X)
    for model in (fastens.from_model(theirs), fastens.from_model(ours.export(format="onnx"))):
        found = model.export(format="sklearn")
        np.testing.assert_allclose(found.score_samples(X), model.score_samples(X), rtol=1e-6)
        assert found.max_samples_ == model.max_samples_


def test_names_go_along(tmp_path):
    X = pd.DataFrame(numbers()[0], columns=list("abcde"))
    model = fastens.RandomForestRegressor(n_estimators=3, random_state=0).fit(X, numbers()[1])
    model.export(tmp_path / "model.joblib", format="sklearn")
    found = joblib.load(tmp_path / "model.joblib")
    assert list(found.feature_names_in_) == list("abcde")
    assert np.array_equal(found.predict(X.astype(np.float32)), model.predict(X.astype(np.float32)))


@pytest.mark.parametrize("named", [True, False])
def test_columns_x0_and_so_on_of_texts_and_numbers(named):
    X = pd.DataFrame(
        {"x0": list("abc") * 20, "x1": [3, 7, 11, 3] * 15, "x2": np.arange(60) / 7, "x3": [True, False] * 30}
    )
    X = X if named else X.to_numpy(dtype=object)
    y = np.arange(60) % 3 + np.arange(60) % 4
    model = fastens.GradientBoostingRegressor(n_estimators=4, categorical_features=[0, 1, 3]).fit(X, y)
    found = model.export(format="sklearn")
    assert hasattr(found, "feature_names_in_") == named
    assert np.array_equal(found.predict(X), model.predict(X))


def test_unsupported_models_raise():
    X, y = mixed()
    many = X.assign(many=[f"k{k}" for k in range(N_ROWS)])
    options = fastens.Categories(encoding="target")
    cases = [
        (fastens.RandomForestRegressor(n_estimators=3).fit(X, y), "categorical columns in trees and forests"),
        (fastens.GradientBoostingRegressor(n_estimators=3, categories=options).fit(many, y), "more than 255 categor"),
        (fitted("two targets"), "several predictions"),
        (
            fastens.GradientBoostingRegressor(n_estimators=3).fit(X.assign(both=([1, "a"] * N_ROWS)[:N_ROWS]), y),
            "categories of 'both' that mix strings and numbers",
        ),
        (fastens.AdaBoostRegressor(n_estimators=3).fit(*numbers()), "the weighted median of trees"),
        (
            fastens.GradientBoostingRegressor(n_estimators=3, linear_leaves=fastens.LinearLeaves()).fit(*numbers()),
            "linear leaves",
        ),
    ]
    for model, reason in cases:
        with pytest.raises(ValueError, match=f"format='sklearn' cannot represent {reason}"):
            model.export(format="sklearn")


def test_named_columns_without_pandas(monkeypatch):
    X = pd.DataFrame({"size": np.arange(20.0)})
    model = fastens.GradientBoostingRegressor(n_estimators=1).fit(X, X["size"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="format='sklearn' needs pandas for named columns: pip install pandas"):
        model.export(format="sklearn")


def test_boosting_with_categories_is_explained_by_its_lightgbm_export():
    shap, lightgbm = pytest.importorskip("shap"), pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=300), "town": pd.Categorical(rng.choice(list("abcd"), 300))})
    X.loc[::9, "size"] = np.nan
    effects = dict(zip("abcd", rng.normal(size=4) * 3, strict=True))
    y = X["size"].fillna(1.0) + X["town"].map(effects).astype(float)
    model = fastens.GradientBoostingRegressor(n_estimators=10).fit(X, y)
    with pytest.warns(UserWarning, match="For shap, export with format='lightgbm', which is exact"):
        exported = model.export(format="sklearn")
    np.testing.assert_array_equal(exported.predict(X), model.predict(X))
    booster = lightgbm.Booster(model_str=model.export(format="lightgbm"))
    contributions = model.predict_contributions(X)[:, :-1]
    np.testing.assert_allclose(shap.TreeExplainer(booster).shap_values(X), contributions, atol=1e-12)
    coded = X.assign(town=X["town"].cat.codes.astype(float))
    assert abs(shap.TreeExplainer(exported).shap_values(coded) - contributions).max() > 0.5
