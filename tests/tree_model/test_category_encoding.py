"""Target statistics in the place of categories, for every model of trees."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fastens
from fastens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    Categories,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
    RandomForestClassifier,
    RandomForestRegressor,
)

CLASSIFIERS = [
    DecisionTreeClassifier(random_state=0),
    RandomForestClassifier(30, random_state=0, oob_score=True),
    ExtraTreesClassifier(30, random_state=0),
    AdaBoostClassifier(n_estimators=20),
    AdaBoostClassifier(n_estimators=20, algorithm="gentle"),
]
REGRESSORS = [
    DecisionTreeRegressor(random_state=0),
    RandomForestRegressor(30, random_state=0, oob_score=True),
    ExtraTreesRegressor(30, random_state=0),
    AdaBoostRegressor(n_estimators=20, random_state=0),
]
METHODS = ["target", "ordered"]


@pytest.fixture
def table():
    """300 categories of ten rows that say something, 300 that say nothing, and a number."""
    rng = np.random.default_rng(0)
    n_rows = 3000
    useful, useless = rng.integers(0, 300, n_rows), rng.integers(0, 300, n_rows)
    number = rng.standard_normal(n_rows)
    score = rng.standard_normal(300)[useful] + number + rng.standard_normal(n_rows)
    frame = pd.DataFrame({"useful": useful, "useless": useless, "number": number})
    for name in ("useful", "useless"):
        frame[name] = pd.Categorical(frame[name].map("c{}".format))
    return frame, score


def ids(model):
    return type(model).__name__ + getattr(model, "algorithm", "")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", CLASSIFIERS + REGRESSORS, ids=ids)
def test_categories_that_say_nothing_do_no_harm(table, model, method):
    frame, score = table
    y = (score > 0).astype(int) if hasattr(model, "predict_proba") else score
    model.set_params(categories=Categories(method)).fit(frame[:2000], y[:2000])
    assert model.n_features_in_ == 3
    importances = model.feature_importances_
    assert importances.shape == (3,)
    assert importances[2] > importances[1]
    assert importances[0] > 0.9 * importances[1]
    assert model.score(frame[2000:], y[2000:]) > (0.6 if hasattr(model, "predict_proba") else 0.0)


@pytest.mark.parametrize(
    "model", [RandomForestClassifier(30, min_samples_leaf=10, random_state=0), AdaBoostClassifier()], ids=ids
)
def test_default_encodes_columns_of_many_categories(table, model):
    frame, score = table
    y = score > 0
    fits = {}
    for method in ("auto", "target", "partition"):
        model.set_params(categories=Categories(method)).fit(frame[:2000], y[:2000])
        fits[method] = model.predict_proba(frame[2000:])
    np.testing.assert_array_equal(fits["auto"], fits["target"])
    loss = {name: -np.log(np.clip(p[np.arange(1000), y[2000:] * 1], 1e-6, 1)).mean() for name, p in fits.items()}
    assert loss["auto"] < loss["partition"]


@pytest.mark.parametrize("model", CLASSIFIERS, ids=ids)
def test_a_column_for_each_of_three_classes(table, model, tmp_path):
    frame, score = table
    y = np.digitize(score, [-0.7, 0.7])
    model.set_params(categories=Categories("target"), random_state=0).fit(frame[:2000], y[:2000])
    assert model.feature_importances_.shape == (3,)
    assert model.score(frame[2000:], y[2000:]) > 0.42
    model.save(tmp_path / "model.fastens")
    same = fastens.load(tmp_path / "model.fastens")
    np.testing.assert_array_equal(same.predict_proba(frame), model.predict_proba(frame))
    if hasattr(model, "to_dataframe"):
        assert "mean target of useful" in set(model.to_dataframe()["feature"])
    if hasattr(model, "permutation_importance"):
        found = model.permutation_importance(frame[2000:], y[2000:], random_state=0).importances_mean
        assert found.shape == (3,)
        assert found[0] > found[1]


def test_forest_out_of_bag_is_honest(table):
    frame, score = table
    y = score > 0
    model = RandomForestClassifier(50, oob_score=True, categories=Categories("target"), random_state=0)
    model.fit(frame[:2000], y[:2000])
    assert abs(model.oob_score_ - model.score(frame[2000:], y[2000:])) < 0.04
    found = model.oob_permutation_importance(frame[:2000], y[:2000])
    assert abs(found.importances_mean[1]) < 3 * found.importances_standard_error[1] + 0.005
    assert found.importances_mean[0] > 0.01
    before = model.predict_proba(frame[2000:])
    with pytest.raises(ValueError, match="X and y must be the same as in the fit that this one continues"):
        model.oob_permutation_importance(frame[:2000], ~y[:2000])
    np.testing.assert_array_equal(model.predict_proba(frame[2000:]), before)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(10, warm_start=True, random_state=0, categories=Categories("target")),
        AdaBoostClassifier(n_estimators=10, warm_start=True, categories=Categories("target")),
    ],
    ids=ids,
)
def test_warm_start(table, model):
    frame, score = table
    y = score > 0
    model.fit(frame, y).set_params(n_estimators=20).fit(frame, y)
    at_once = type(model)(**model.get_params(deep=False)).set_params(warm_start=False).fit(frame, y)
    np.testing.assert_array_equal(model.predict_proba(frame), at_once.predict_proba(frame))
    with pytest.raises(ValueError, match="X and y must be the same as in the fit that this one continues"):
        model.set_params(n_estimators=30).fit(frame, ~y)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", ["poisson", "gamma", "squared_error", "absolute_error", "log_loss", "cox", "aft"])
def test_target_encoding_uses_residuals_of_init_score(loss, method):
    """All categories have the same targets, of which other ones are expected."""
    rng = np.random.default_rng(0)
    number = np.arange(1200) % 40
    expected = number % 8 / 2
    X = pd.DataFrame({"area": pd.Categorical(number), "other": rng.normal(size=1200)})
    options = {"n_estimators": 60, "categories": Categories(method), "random_state": 0}
    if loss == "log_loss":
        found = GradientBoostingClassifier(**options).fit(X, rng.random(1200) < 0.5, init_score=expected)
        raw = found.decision_function(X)
    elif loss in ("cox", "aft"):
        found = GradientBoostingSurvival(loss, **options).fit(X, rng.exponential(size=1200), init_score=expected)
        raw = found.predict(X)
    else:
        y = rng.poisson(10, 1200) + 1.0 if loss in ("poisson", "gamma") else rng.normal(size=1200)
        found = GradientBoostingRegressor(loss, **options).fit(X, y, init_score=expected)
        raw = np.log(found.predict(X)) if loss in ("poisson", "gamma") else found.predict(X)
    assert np.corrcoef(raw, -expected)[0, 1] > 0.85


def test_trees_of_a_forest_encode_as_it_does(table):
    frame, score = table
    forest = RandomForestRegressor(5, random_state=0, categories=Categories("target")).fit(frame, score)
    mean = np.mean([tree.predict(frame) for tree in forest.estimators_], axis=0)
    np.testing.assert_allclose(mean, forest.predict(frame))


def test_curves_of_encoded_columns_add_up(table):
    frame, score = table
    model = AdaBoostClassifier(n_estimators=30, categories=Categories("target")).fit(frame, score > 0)
    parts = 0
    for name in frame:
        curve = model.contribution_curve(name)
        if curve.categories:
            place = {category: i for i, category in enumerate(curve.categories)}
            parts = parts + curve.values[[place[value] for value in frame[name]]]
        else:
            parts = parts + curve.values[np.searchsorted(curve.thresholds, frame[name])]
    difference = model.decision_function(frame) - parts
    np.testing.assert_allclose(difference, difference[0], atol=1e-9)


@pytest.mark.parametrize("model", [DecisionTreeClassifier(), RandomForestClassifier(10, random_state=0)], ids=ids)
def test_missing_may_be_a_category(model):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": pd.Categorical(rng.choice([None, "x", "y"], 300))})
    y = frame["a"].isna()
    assert model.set_params(categories=Categories(missing="category")).fit(frame, y).score(frame, y) == 1
    rest = frame[~y].reset_index(drop=True)
    of_rest = model.set_params(categories__missing="missing").fit(rest, rest["a"] == "x")
    assert of_rest.score(rest, rest["a"] == "x") == 1


@pytest.mark.parametrize("model", CLASSIFIERS + REGRESSORS, ids=ids)
def test_wrong_values(model):
    with pytest.raises(ValueError, match=r"categories.encoding must be .*; got 'mean'"):
        type(model)(categories=Categories("mean")).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"categories.missing must be .*; got 'none'"):
        type(model)(categories=Categories(missing="none")).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, RandomForestRegressor, AdaBoostClassifier])
def test_only_boosting_has_the_other_options(kind):
    model = kind(categories=Categories(smoothing=1.0))
    with pytest.raises(
        ValueError,
        match=r"categories must be .* with only encoding, missing and unseen; got Categories\(smoothing=1.0\)",
    ):
        model.fit([[0.0], [1.0]], [0, 1])
    assert model.set_params(categories__smoothing=5.0).fit([[0.0], [1.0]], [0, 1]).n_features_in_ == 1


@pytest.mark.parametrize("method", ["partition", "target", "ordered"])
@pytest.mark.parametrize("kind", [fastens.GradientBoostingRegressor, fastens.RandomForestRegressor])
def test_weights_in_target_encoding(kind, method):
    """0: the row left out. Whole numbers: copies, for what new rows get; with sets of categories for the trees too."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"c": pd.Categorical(rng.integers(0, 30, 400).astype(str)), "x": rng.normal(size=400)})
    y = X["c"].cat.codes.to_numpy() % 7 + X["x"].to_numpy()
    options = {"categories": Categories(method), "n_estimators": 5, "random_state": 0}
    options |= {"bootstrap": False} if kind is fastens.RandomForestRegressor else {"min_samples_leaf": 1}
    present = rng.random(400) < 0.7
    one, other = kind(**options).fit(X, y, present), kind(**options).fit(X[present], y[present])
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    weight = rng.integers(1, 4, 400)
    copies = np.repeat(np.arange(400), weight)
    one, other = kind(**options).fit(X, y, weight), kind(**options).fit(X.iloc[copies], y[copies])
    assert (one.predict(X) == other.predict(X)).all() == (method == "partition")
    if method != "partition":
        np.testing.assert_allclose(one._check_table(X), other._check_table(X), rtol=1e-12)


# Many categories and several classes --------------------------------------------------

THREE_CLASSES = [
    GradientBoostingClassifier(n_estimators=20),
    GradientBoostingClassifier(n_estimators=10, linear_leaves=True),
    DecisionTreeClassifier(),
    RandomForestClassifier(10, random_state=0),
    ExtraTreesClassifier(10, max_features=1.0, random_state=0),
    AdaBoostClassifier(n_estimators=20, max_depth=3),
]


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("model", THREE_CLASSES, ids=ids)
def test_no_category_is_pooled_by_default(model, numbers, rng):
    categories = np.repeat(np.arange(1000), 12)
    y = rng.integers(0, 3, 1000)[categories]
    frame = pd.DataFrame({"town": categories if numbers else [f"t{each}" for each in categories]})
    model = clone(model).set_params(categorical_features=["town"] if numbers else "from_dtype")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(frame, y).score(frame, y) > 0.97


def test_columns_of_few_categories_are_partitioned_for_three_classes(rng):
    for n, is_encoded in ((32, False), (33, True)):
        frame = pd.DataFrame({"town": np.arange(660) % n}).astype("category")
        model = RandomForestClassifier(2, random_state=0).fit(frame, rng.integers(0, 3, 660))
        assert (model._statistics is not None) == is_encoded


@pytest.mark.parametrize("model", [*CLASSIFIERS[1:4], GradientBoostingRegressor(n_estimators=2)], ids=ids)
def test_pooled_categories_are_warned_of(model, rng):
    frame = pd.DataFrame({"town": [f"t{each}" for each in np.arange(900) % 300], "area": rng.random(900)})
    model = clone(model).set_params(categories=Categories("partition"))
    expected = r"Column 'town' must have at most max_bins=255 categories.*got 300.*254 most frequent.*'target'"
    with pytest.warns(UserWarning, match=expected):
        model.fit(frame, rng.integers(0, 2, 900))


def test_models_without_statistics_warn_too(rng):
    frame = pd.DataFrame({"town": [f"t{each}" for each in np.arange(900) % 300]})
    y = rng.integers(0, 3, 900)
    for model in (fastens.DecisionStumpClassifier(), fastens.BayesTreeClassifier(), fastens.IsolationForest(2)):
        with pytest.warns(UserWarning, match="Column 'town' must have at most max_bins=255 categories"):
            model.fit(frame, y)


# Unseen categories --------------------------------------------------

OF_EFFECTS = [
    (GradientBoostingRegressor(), 0.5),
    (GradientBoostingRegressor(linear_leaves=True), 0.5),
    (GradientBoostingRegressor.textbook(), 0.5),
    (RandomForestRegressor(60, random_state=0), 0.5),
    (ExtraTreesRegressor(60, random_state=0), 0.5),
    (DecisionTreeRegressor(), 1.2),
    (AdaBoostRegressor(n_estimators=20, max_depth=4, random_state=0), 1.2),
]


def effects_table(seed):
    """Twelve equally frequent categories."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(0, 5, 12)
    categories = np.arange(1200) % 12
    frame = pd.DataFrame({"town": [f"t{each}" for each in categories], "area": rng.normal(size=1200)})
    return frame, effects[categories] + frame["area"].to_numpy() + 0.5 * rng.normal(size=1200), effects.mean()


@pytest.mark.parametrize(("model", "largest"), OF_EFFECTS, ids=lambda each: str(each)[:40])
def test_an_unseen_category_has_the_mean_effect(model, largest, tmp_path):
    new = pd.DataFrame({"town": ["new"] * 9, "area": np.linspace(-1, 1, 9)})
    away = []
    for seed in range(4):
        frame, y, mean = effects_table(seed)
        model.fit(frame, y)
        away.append(abs(model.predict(new).mean() - mean))
    assert np.mean(away) < largest
    expected = model.predict(new)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict(new), expected)
    np.testing.assert_array_equal(np.concatenate([model.predict(new[i : i + 1]) for i in range(9)]), expected)
    if hasattr(model, "predict_contributions") and not isinstance(model, AdaBoostRegressor):
        np.testing.assert_allclose(model.predict_contributions(new).sum(axis=1), expected, atol=1e-8)
    if hasattr(model, "staged_predict"):
        *_, last = model.staged_predict(new)
        np.testing.assert_allclose(last, expected, rtol=1e-12)


def test_unseen_may_be_missing_or_an_error():
    frame, y, _ = effects_table(0)
    new = pd.DataFrame({"town": ["t1", None, "new"], "area": 0.0})
    for model in (GradientBoostingRegressor(n_estimators=5), RandomForestRegressor(5, random_state=0)):
        model.set_params(categories=Categories(unseen="missing")).fit(frame, y)
        found = model.predict(new)
        assert found[1] == found[2]
        model.set_params(categories__unseen="error").fit(frame, y)
        message = r"Column 'town' must hold only categories that fit has seen.*got 'new' in row 2"
        for predict in (model.predict, model.apply, model.predict_contributions):
            with pytest.raises(ValueError, match=message):
                predict(new)
        np.testing.assert_array_equal(model.predict(new[:2]), found[:2])
        model.set_params(categories=Categories("target", unseen="error")).fit(frame, y)
        with pytest.raises(ValueError, match=message):
            model.predict(new)


def test_unseen_follows_missing_values_of_training():
    frame, y, _ = effects_table(0)
    frame.loc[::7, "town"] = None
    new = pd.DataFrame({"town": [None, "new"], "area": 0.0})
    fits = [GradientBoostingRegressor(categories=Categories(unseen=unseen)) for unseen in ("average", "missing")]
    found = [model.fit(frame, y).predict(new) for model in fits]
    assert found[0][0] == found[0][1]
    assert found[0][0] == pytest.approx(y[::7].mean(), abs=1.0)
    apart = Categories(missing="category")
    average, missing = GradientBoostingRegressor(categories=apart).fit(frame, y).predict(new)[::-1]
    assert missing == pytest.approx(y[::7].mean(), abs=1.0)
    assert average == pytest.approx(y.mean(), abs=0.7)
