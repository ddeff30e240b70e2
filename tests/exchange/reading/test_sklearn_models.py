"""scikit-learn's models predict here as they do there, to the bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, tree
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression

import fastens
from exchange_probes import probes, raw, saved_and_loaded, table
from fastens import ModelFileError, from_model

X, y = table()
FULL = np.nan_to_num(X, nan=3.5)
CLASSES = np.array(["high", "low", "middle"])[np.digitize(y, [0.5, 2.5])]
TWO = np.where(y > 1, "b", "a")


def rows_for(model, *, missing):
    rows = probes(X if missing else FULL, model, infinite=False)
    return rows if missing else rows[~np.isnan(rows).any(axis=1)]


def check(theirs, target, folder, *, missing=True, **given):
    theirs.fit(X if missing else FULL, target, **given)
    model = from_model(theirs)
    assert type(model).__module__.startswith("fastens.")
    rows = rows_for(model, missing=missing)
    rows = np.concatenate([rows, rows.astype(np.float32).astype(float)])
    np.testing.assert_array_equal(model.predict(rows), theirs.predict(rows))
    if hasattr(theirs, "predict_proba"):
        for ours, others in zip(_listed(model.predict_proba(rows)), _listed(theirs.predict_proba(rows)), strict=True):
            np.testing.assert_array_equal(ours, others)
    again = saved_and_loaded(model, folder)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    return model, rows


def _listed(found):
    return found if isinstance(found, list) else [found]


TREES = {"max_depth": 6, "random_state": 0}
FORESTS = {"n_estimators": 13, "max_depth": 6, "random_state": 0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "missing"),
    [
        (tree.DecisionTreeRegressor, TREES, True),
        (tree.DecisionTreeRegressor, TREES | {"criterion": "absolute_error"}, False),
        (tree.ExtraTreeRegressor, TREES, True),
        (ensemble.RandomForestRegressor, FORESTS, True),
        (ensemble.RandomForestRegressor, FORESTS | {"max_depth": None}, True),
        (ensemble.ExtraTreesRegressor, FORESTS, True),
        (ensemble.BaggingRegressor, {"n_estimators": 7, "max_features": 0.6, "random_state": 0}, True),
    ],
)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_numbers(kind, options, missing, n_targets, tmp_path):
    if n_targets == 2 and kind is ensemble.BaggingRegressor:
        pytest.skip("bags have one target")
    check(kind(**options), y if n_targets == 1 else np.column_stack([y, -y * X[:, 0]]), tmp_path, missing=missing)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (tree.DecisionTreeClassifier, TREES),
        (tree.DecisionTreeClassifier, TREES | {"criterion": "entropy", "class_weight": "balanced"}),
        (tree.ExtraTreeClassifier, TREES),
        (ensemble.RandomForestClassifier, FORESTS),
        (ensemble.ExtraTreesClassifier, FORESTS),
        (ensemble.BaggingClassifier, {"n_estimators": 7, "max_features": 0.6, "max_samples": 0.02, "random_state": 0}),
    ],
)
@pytest.mark.parametrize("target", [TWO, CLASSES, np.column_stack([TWO, CLASSES])], ids=["two", "three", "both"])
def test_classes(kind, options, target, tmp_path):
    if target.ndim == 2 and kind is ensemble.BaggingClassifier:
        pytest.skip("bags have one target")
    model, rows = check(kind(**options), target, tmp_path)
    if hasattr(model, "estimators_") and target.ndim == 1:
        ours = np.mean([member.predict_proba(rows) for member in model.estimators_], axis=0)
        np.testing.assert_allclose(ours, model.predict_proba(rows), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
@pytest.mark.parametrize("init", [None, "zero"])
def test_boosting_of_numbers(loss, init, tmp_path):
    theirs = ensemble.GradientBoostingRegressor(loss=loss, init=init, alpha=0.8, n_estimators=15, random_state=0)
    model, _ = check(theirs, y, tmp_path, missing=False)
    assert model.n_estimators_ == 15


@pytest.mark.parametrize(("loss", "target"), [("log_loss", TWO), ("exponential", TWO), ("log_loss", CLASSES)])
def test_boosting_of_classes(loss, target, tmp_path):
    theirs = ensemble.GradientBoostingClassifier(loss=loss, n_estimators=15, random_state=0).fit(FULL, target)
    model = from_model(theirs)
    rows = rows_for(model, missing=False)
    np.testing.assert_array_equal(model.decision_function(rows), theirs.decision_function(rows))
    np.testing.assert_allclose(model.predict_proba(rows), theirs.predict_proba(rows), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(rows), theirs.predict(rows))
    stages = zip(model.staged_decision_function(rows), theirs.staged_decision_function(rows), strict=True)
    for ours, others in stages:
        np.testing.assert_array_equal(ours, others.reshape(ours.shape))
    np.testing.assert_array_equal(saved_and_loaded(model, tmp_path).predict(rows), model.predict(rows))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "quantile", "poisson", "gamma"])
@pytest.mark.parametrize("categorical", [None, [4]])
def test_histogram_boosting_of_numbers(loss, categorical, tmp_path):
    theirs = ensemble.HistGradientBoostingRegressor(
        loss=loss, quantile=0.3 if loss == "quantile" else None, max_iter=15, categorical_features=categorical
    )
    theirs.fit(X, np.exp(y / 4) if loss in ("poisson", "gamma") else y)
    model = from_model(theirs)
    rows = probes(X, model)
    other = rows[:200].copy()
    other[:, 4] = np.resize([np.nan, 77.0, -1.0, 2.5, 3.0], len(other))
    rows = np.concatenate([rows, other]) if categorical else rows
    np.testing.assert_array_equal(raw(model, rows), theirs._raw_predict(rows)[:, 0])
    np.testing.assert_allclose(model.predict(rows), theirs.predict(rows), rtol=1e-13)
    np.testing.assert_array_equal(saved_and_loaded(model, tmp_path).predict(rows), model.predict(rows))


@pytest.mark.slow
@pytest.mark.parametrize("target", [TWO, CLASSES], ids=["two", "three"])
def test_histogram_boosting_of_frames(target):
    frame = pd.DataFrame({"a": X[:, 0], "name": np.array(["x", "y", "ä"])[X[:, 4].astype(int) % 3], "m": X[:, 2]})
    frame["name"] = frame["name"].where(X[:, 0] > -1.5, None).astype("category")
    theirs = ensemble.HistGradientBoostingClassifier(max_iter=15, categorical_features="from_dtype").fit(frame, target)
    model = from_model(theirs)
    np.testing.assert_array_equal(model.decision_function(frame), theirs.decision_function(frame))
    np.testing.assert_array_equal(
        model.predict(frame[["m", "name", "a"]].astype({"name": object})), model.predict(frame)
    )
    np.testing.assert_array_equal(model.classes_, theirs.classes_)


@pytest.mark.parametrize("options", [{}, {"max_features": 0.6}, {"contamination": 0.1}, {"max_samples": 100}])
def test_isolation_forest(options, tmp_path):
    theirs = ensemble.IsolationForest(n_estimators=20, random_state=0, **options).fit(FULL)
    model = from_model(theirs)
    rows = rows_for(model, missing=False)
    np.testing.assert_allclose(model.score_samples(rows), theirs.score_samples(rows), rtol=1e-13)
    assert (model.predict(rows) == theirs.predict(rows)).mean() > 0.999
    again = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(again.decision_function(rows), model.decision_function(rows))


@pytest.mark.parametrize("target", [TWO, CLASSES], ids=["two", "three"])
@pytest.mark.parametrize("depth", [1, 3])
def test_adaboost_of_classes(target, depth):
    theirs = ensemble.AdaBoostClassifier(
        tree.DecisionTreeClassifier(max_depth=depth), n_estimators=20, random_state=0
    ).fit(FULL, target)
    model = from_model(theirs)
    rows = rows_for(model, missing=False)
    np.testing.assert_allclose(model.predict_proba(rows), theirs.predict_proba(rows), rtol=1e-12)
    assert (model.predict(rows) == theirs.predict(rows)).mean() > 0.999


@pytest.mark.parametrize("loss", ["linear", "square", "exponential"])
def test_adaboost_of_numbers(loss, tmp_path):
    check(ensemble.AdaBoostRegressor(n_estimators=15, loss=loss, random_state=0), y, tmp_path, missing=False)


def test_names_and_importances():
    frame = pd.DataFrame(X, columns=list("abcde"))
    theirs = ensemble.RandomForestRegressor(**FORESTS).fit(frame, y)
    model = from_model(theirs)
    np.testing.assert_array_equal(model.predict(frame[list("edcba")]), theirs.predict(frame))
    np.testing.assert_allclose(model.feature_importances_, theirs.feature_importances_, rtol=1e-9)
    assert isinstance(model, fastens.RandomForestRegressor)


def test_more_thresholds_than_codes(tmp_path, monkeypatch):
    """A column with too many thresholds stands several times before the trees, and once for all who look."""
    theirs = ensemble.RandomForestRegressor(**FORESTS).fit(pd.DataFrame(X, columns=list("abcde")), y)
    plain = from_model(theirs)
    monkeypatch.setattr("fastens.exchange.trees._MAX_THRESHOLDS", 100)
    model = from_model(theirs)
    assert len(model._ensemble.binning.thresholds) > 5 == model.n_features_in_
    assert max(map(len, model._ensemble.binning.thresholds)) == 100
    rows = pd.DataFrame(rows_for(plain, missing=True), columns=list("abcde"))
    again = saved_and_loaded(model, tmp_path)
    for own in (model, again):
        np.testing.assert_array_equal(own.predict(rows), theirs.predict(rows))
        np.testing.assert_array_equal(own.predict(rows[:1]), theirs.predict(rows[:1]))
    np.testing.assert_allclose(model.feature_importances_, theirs.feature_importances_, rtol=1e-9)
    np.testing.assert_allclose(model.predict_contributions(rows[:9]).sum(axis=1), model.predict(rows[:9]))
    assert model.to_dataframe()["feature"].dropna().isin(list("abcde")).all()


@pytest.mark.slow
def test_deep_forest_of_many_rows():
    rng = np.random.default_rng(0)
    many = rng.normal(size=(30_000, 2))
    theirs = ensemble.RandomForestRegressor(n_estimators=20, random_state=0, n_jobs=2).fit(many, many.sum(axis=1))
    model = from_model(theirs)
    assert len(model._ensemble.binning.thresholds) > 2
    new = rng.normal(size=(2000, 2))
    np.testing.assert_array_equal(model.predict(new), theirs.set_params(n_jobs=1).predict(new))


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (ensemble.RandomForestRegressor(), "fitted"),
        (ensemble.HistGradientBoostingRegressor(), "fitted"),
        (LinearRegression(), "LinearRegression"),
        (ensemble.BaggingRegressor(LinearRegression(), n_estimators=2).fit(FULL, y), "members must be .* got LinearR"),
        (ensemble.GradientBoostingRegressor(init=LinearRegression(), n_estimators=2).fit(FULL, y), "init"),
        (
            ensemble.GradientBoostingClassifier(init=DummyClassifier(strategy="stratified"), n_estimators=2).fit(
                FULL, y > 1
            ),
            "init must not predict random classes",
        ),
        (ensemble.GradientBoostingRegressor(learning_rate=0.0, n_estimators=2).fit(FULL, y), "learning_rate must be"),
        (object(), "model must be"),
        (3, "model must be"),
    ],
)
def test_unsupported_models_raise(theirs, message):
    with pytest.raises(ModelFileError, match=message):
        from_model(theirs)


def test_a_target_of_one_class():
    target = np.column_stack([np.digitize(y, [1.5, 2.5]), np.zeros(len(y))])
    theirs = ensemble.RandomForestClassifier(n_estimators=3, max_depth=3, random_state=0).fit(np.nan_to_num(X), target)
    model, rows = from_model(theirs), np.nan_to_num(X)
    np.testing.assert_array_equal(model.predict(rows), theirs.predict(rows))
    for ours, own in zip(model.predict_proba(rows), theirs.predict_proba(rows), strict=True):
        np.testing.assert_array_equal(ours, own)
