"""Explanations of ensembles of ensembles, against Shapley values by their definition."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier as PeerTrees
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier as PeerTree

import fastens
from reference.contributions import against_rows, shapley_interactions

TREES = {"n_estimators": 4, "max_depth": 3, "random_state": 0}
FOREST, EXTRA = fastens.RandomForestClassifier(**TREES), fastens.ExtraTreesClassifier(**TREES)
BOOSTED = fastens.GradientBoostingClassifier(n_estimators=4)
NUMBERS = [
    ("boosting", fastens.GradientBoostingRegressor(n_estimators=4)),
    ("forest", fastens.RandomForestRegressor(**TREES)),
]
SHALLOW = fastens.DecisionTreeClassifier(max_depth=3)
BAGS = {"n_estimators": 3, "random_state": 0}
REGRESSORS = {
    "bags of trees": fastens.BaggingRegressor(**BAGS),
    "bags of boosting": fastens.BaggingRegressor(NUMBERS[0][1], max_features=0.5, **BAGS),
    "voting": fastens.VotingRegressor(NUMBERS, weights=[3, 1]),
    "voting with learned weights": fastens.VotingRegressor(NUMBERS, weights="nnls", columns={"forest": [0, 2]}),
    "stacking": fastens.StackingRegressor(NUMBERS, cv=3),
    "stacking by another line": fastens.StackingRegressor(NUMBERS, LinearRegression(), cv=3, refit=True),
    "conformal": fastens.ConformalRegressor(NUMBERS[0][1], random_state=0),
    "quantiles": fastens.ConformalRegressor(NUMBERS[0][1], cv=3, method="constant"),
}
CLASSIFIERS = {
    "bags of trees": fastens.BaggingClassifier(SHALLOW, **BAGS),
    "bags of forests": fastens.BaggingClassifier(EXTRA, max_features=0.75, **BAGS),
    "bags of bags": fastens.BaggingClassifier(fastens.BaggingClassifier(SHALLOW, **BAGS), n_estimators=2),
    "voting": fastens.VotingClassifier([("forest", FOREST), ("extra", EXTRA)], voting="soft", weights=[1, 2]),
    "conformal": fastens.ConformalClassifier(FOREST, cv=3),
    "a forest that votes": fastens.RandomForestClassifier(voting="hard", **TREES),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 4))
    X[::9, 0] = np.nan
    return X, np.abs(np.nan_to_num(X[:, 0]) * X[:, 1] + X[:, 2])


# Forests keep shares of classes in single precision.
def check(model, predict, X):
    rows, others = X[:6], X[::20]
    found, both = model.explain(rows, others), model.explain(rows, others, interactions=True)
    for i, row in enumerate(rows):
        expected = against_rows(predict, row, others)
        np.testing.assert_allclose(np.atleast_2d(found.values[i].T), expected[:, :-1], atol=1e-7)
        np.testing.assert_allclose(np.atleast_1d(found.base_values[i]), expected[:, -1], atol=1e-7)
        expected = against_rows(predict, row, others, shapley_interactions)[:, :-1, :-1]
        np.testing.assert_allclose(both.values[i].reshape(4, 4, -1), np.moveaxis(expected, 0, -1), atol=1e-7)


@pytest.mark.parametrize("name", ["stacking", "stacking by another line"])
@pytest.mark.parametrize("size", [1.0, 1e9])
def test_a_row_of_a_stack_is_explained_alone_as_among_others(table, name, size):
    X, y = table
    model = REGRESSORS[name].fit(X, size * (y + 5))
    found = model.explain(X[:12])
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.predict(X[:12]), rtol=1e-12)
    for i in range(12):
        alone = model.explain(X[i : i + 1])
        np.testing.assert_array_equal(alone.values[0], found.values[i])
        assert alone.base_values[0] == found.base_values[i]


@pytest.mark.slow
@pytest.mark.parametrize("name", REGRESSORS)
def test_numbers(table, name):
    X, y = table
    model = REGRESSORS[name].fit(X, y)
    check(model, model.predict, X)
    found = model.explain(X)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.predict(X), atol=1e-9)
    np.testing.assert_array_equal(found.data[:, 2], X[:, 2])
    assert found.output_names == "prediction"


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes(table, name, n_classes):
    X, y = table
    model = CLASSIFIERS[name].fit(X, np.array(["no", "yes", "perhaps"])[np.digitize(y, [0.5, 1.2]) % n_classes])
    check(model, lambda X: model.predict_proba(X)[:, -1] if n_classes == 2 else model.predict_proba(X), X)
    found = model.explain(X)
    expected = model.predict_proba(X)
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, expected[:, 1] if n_classes == 2 else expected, atol=1e-9)
    assert found.output_names == ("probability of yes" if n_classes == 2 else ["no", "perhaps", "yes"])


def test_probabilities_behind_a_link_are_the_members(table):
    """Boosted members are explained as `explain` with output="probability" does each, and their mean taken."""
    X, y = table
    members = [("boosting", BOOSTED), ("forest", FOREST)]
    model = fastens.VotingClassifier(members, voting="soft").fit(X, y > 1)
    found = model.explain(X, X[::20])
    boosting, forest = model.estimators_
    expected = boosting.explain(X, X[::20], output="probability").values + forest.explain(X, X[::20]).values
    np.testing.assert_allclose(found.values, expected / 2, atol=1e-12)
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict_proba(X)[:, 1], atol=1e-9)
    with pytest.raises(ValueError, match="member 'boosting' cannot be explained: background must be a table of rows"):
        model.explain(X)
    counts = fastens.GradientBoostingRegressor(n_estimators=3, loss="poisson")
    model = fastens.BaggingRegressor(counts, **BAGS).fit(X, y)
    found = model.explain(X, X[::20])
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.predict(X), atol=1e-9)


def test_bags_that_lack_classes():
    X = np.arange(12.0)[:, None]
    y = np.array(["a"] * 9 + ["b", "c", "c"])
    model = fastens.BaggingClassifier(FOREST, n_estimators=12, max_samples=0.4, random_state=0).fit(X, y)
    assert {len(member.classes_) for member in model.estimators_} == {1, 2, 3}
    for background in (None, X[::3]):
        found = model.explain(X, background)
        total = found.base_values + found.values.sum(axis=1)
        np.testing.assert_allclose(total, model.predict_proba(X), atol=1e-9)


def test_frames_have_categories():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=90), "colour": rng.choice(["red", "green"], 90)})
    X.loc[::9, "colour"] = None
    y = X["size"] * (X["colour"] == "red")
    model = fastens.VotingRegressor(NUMBERS, columns={"forest": ["size"]}).fit(X, y)
    found = model.explain(X, X[:20])
    assert list(found.feature_names) == ["size", "colour"]
    assert found.display_data[1:9, 1].tolist() == X["colour"][1:9].tolist()
    ax = fastens.plot_explanation(found, 3)
    assert f"colour = {X['colour'][3]}" in {text.get_text() for text in ax.get_yticklabels()}


def test_isolation_forests(table):
    X, _ = table
    model = fastens.IsolationForest(10, random_state=0).fit(X)
    check(model, lambda X: -np.log2(-model.score_samples(X)) * model._mean_path_length(), X)
    found = model.explain(X, X[::9], output="probability")
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.score_samples(X), atol=1e-9)
    assert (model.explain(X).output_names, found.output_names) == ("path length", "score")
    with pytest.raises(ValueError, match="output must be 'raw' or 'probability'; got 'loss'"):
        model.explain(X, X, output="loss")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            fastens.VotingClassifier([("a", FOREST)]),
            "voting must be 'soft' for the predictions to be explained; got 'hard'",
        ),
        (
            fastens.VotingClassifier([("a", FOREST)], voting="soft", class_weights=[1, 2]),
            "weights and class_weights must be the same for all classes for the",
        ),
        (fastens.BaggingClassifier(SHALLOW, voting="hard", max_samples=0.5, bootstrap=False), "voting must be 'soft'"),
        (
            fastens.VotingClassifier([("a", PeerTrees(3))], voting="soft"),
            "must be a tree model of fastens to be explained",
        ),
        (fastens.StackingClassifier([("a", FOREST)], cv=3), r"are not\. Explain the members, or use"),
        (fastens.CascadeForestClassifier([("a", FOREST)]), "predictions of CascadeForestClassifier are not"),
        (
            fastens.AdaBoostClassifier(PeerTree(max_depth=1)),
            r"estimator must be None or a fastens\.DecisionTreeClassifier, so that",
        ),
    ],
)
def test_models_that_are_not_sums_of_trees_raise(table, model, message):
    X, y = table
    model.fit(X, y > 1)
    with pytest.raises(ValueError, match=message):
        model.explain(X, X[:3])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (fastens.StackingRegressor(NUMBERS, SVR(), cv=3), "final_estimator must be linear .* SVR"),
        (
            fastens.StackingRegressor(NUMBERS, cv=3, passthrough=True),
            r"the stack must have one level and passthrough=False to be explained\.",
        ),
        (
            fastens.VotingRegressor([("line", Ridge())]),
            r"must be a tree model of fastens to be explained.*got Ridge\(\)",
        ),
        (fastens.AdaBoostRegressor(n_estimators=2), "predictions must be sums of trees to be explained, but"),
    ],
)
def test_regressors_that_are_not_sums_of_trees_raise(table, model, message):
    X, y = np.nan_to_num(table[0]), table[1]
    model.fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.explain(X)


@pytest.mark.slow
@pytest.mark.parametrize("interactions", [False, True])
def test_dates_are_explained_as_one_column(interactions):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=90), "when": pd.date_range("2026-01-01", periods=90)})
    X["colour"], y = rng.choice(["red", "green"], 90), X["size"] + X["when"].dt.day_of_week
    for model in (
        fastens.BaggingRegressor(NUMBERS[0][1], **BAGS),
        fastens.VotingRegressor(NUMBERS, columns={"forest": ["colour", "when"]}),
        fastens.VotingRegressor([("bags", fastens.BaggingRegressor(NUMBERS[0][1], **BAGS))]),
        fastens.ConformalRegressor(NUMBERS[0][1]),
    ):
        found = model.fit(X, y).explain(X, interactions=interactions)
        assert list(found.feature_names) == ["size", "when", "colour"]
        axes = (1, 2) if interactions else 1
        np.testing.assert_allclose(found.base_values + found.values.sum(axis=axes), model.predict(X), atol=1e-9)
        assert found.display_data[0, 1] == X["when"].iloc[0].to_pydatetime()


def test_members_whose_trees_minimise_the_squared_error(table):
    X, y = table
    textbook = fastens.GradientBoostingRegressor.textbook(n_estimators=3)
    model = fastens.VotingRegressor([("textbook", textbook), NUMBERS[1]]).fit(X, y)
    found = model.explain(X[:20])
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.predict(X[:20]), atol=1e-9)
