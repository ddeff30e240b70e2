"""Which features trees and forests split on, where that is bound: `interaction_cst` and `feature_weights`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fastens
from fastens import (
    BaggingRegressor,
    BayesTreeClassifier,
    BayesTreeRegressor,
    Categories,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from reference.forests import KINDS, make, make_table, make_targets, outputs

EVERY = [*KINDS, BayesTreeClassifier, BayesTreeRegressor]
NAMES = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = make_table(rng)
    return X, make_targets(X, rng)["binary"]


def paths(model):
    """The features between the root and each leaf, of all trees."""
    found = []
    trees = model._ensemble
    for tree in map(trees.tree, range(trees.n_trees)):
        above = {0: frozenset()}
        for node in range(tree.n_nodes):
            if tree.left_child[node] > 0:
                joined = above[node] | {NAMES[model._column_of[tree.feature[node]]]}
                above[tree.left_child[node]] = above[tree.left_child[node] + 1] = joined
            else:
                found.append(above[node])
    return found


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    kind=st.sampled_from(EVERY),
    groups=st.lists(st.sets(st.sampled_from(NAMES), min_size=1), max_size=4),
    max_leaf_nodes=st.sampled_from([None, 12]),
    max_features=st.sampled_from([None, 2]),
    seed=st.integers(0, 50),
)
def test_no_path_mixes_groups(kind, groups, max_leaf_nodes, max_features, seed):
    rng = np.random.default_rng(seed)
    X = make_table(rng, 120)
    y = make_targets(X, rng)["binary"]
    limits = {"max_leaf_nodes": max_leaf_nodes, "max_features": max_features, "random_state": seed}
    model = make(kind, interaction_cst=groups, **limits).fit(X, y)
    allowed = [*groups, set(NAMES).difference(*groups)]
    assert all(any(path <= group for group in allowed) for path in paths(model))


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(("word", "most"), [("no_interactions", 1), ("pairwise", 2)])
def test_words_bound_the_features_of_a_path(kind, word, most, rows):
    assert max(map(len, paths(make(kind).fit(*rows)))) > most
    assert max(map(len, paths(make(kind, interaction_cst=word).fit(*rows)))) == most


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesClassifier])
def test_without_interactions_the_model_is_a_sum(kind, rows):
    X, y = rows
    model = make(kind, interaction_cst="no_interactions").fit(X, y)
    base, other = X[:50].reset_index(drop=True), X[50:100].reset_index(drop=True)
    one, two, both = base.assign(b=other["b"]), base.assign(d=other["d"]), base.assign(b=other["b"], d=other["d"])
    of_base, of_one, of_two, of_both = (outputs(model, table) for table in (base, one, two, both))
    np.testing.assert_allclose(of_both - of_one, of_two - of_base, atol=1e-6)


@pytest.mark.parametrize("kind", [*EVERY, GradientBoostingRegressor])
@pytest.mark.parametrize("max_features", [1.0, 2])
def test_a_feature_of_weight_0_is_in_no_tree(kind, max_features, rows):
    model = make(kind, feature_weights={"a": 0, "c": 3}, max_features=max_features).fit(*rows)
    assert set().union(*paths(model)) == {"b", "c", "d"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parameter", ["max_features", "max_features_per_tree"])
def test_weights_are_chances(kind, parameter):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X.sum(axis=1) > 0
    if parameter not in kind().get_params():
        pytest.skip("a single tree has one draw for all")
    options = {parameter: 1, "max_depth": 1, "random_state": 0}
    trees = 200 if "n_estimators" in kind().get_params() else 1
    models = [
        kind(**options | ({"n_estimators": trees} if trees > 1 else {"random_state": seed}), feature_weights=weights)
        for weights in ([6, 3, 1, 0], None)
        for seed in range(200 // trees)
    ]
    roots = [model.fit(X, y)._ensemble for model in models]
    features = np.concatenate([trees.feature[trees.node_offsets[:-1]] for trees in roots]).reshape(2, -1)
    np.testing.assert_allclose(np.bincount(features[0], minlength=4) / 200, [0.6, 0.3, 0.1, 0.0], atol=0.1)
    np.testing.assert_allclose(np.bincount(features[1], minlength=4) / 200, 0.25, atol=0.1)


BOUND = {
    "interaction_cst": [["a", "b"], ["b", "c", "d"]],
    "feature_weights": {"a": 3, "c": 0.5},
    "max_features": 2,
}


@pytest.mark.parametrize("kind", EVERY)
def test_names_places_threads_and_weights_that_mean_repetition(kind, rows):
    X, y = rows
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    copies = np.repeat(np.arange(len(y)), weight)
    model = make(kind, **BOUND).fit(X, y, sample_weight=weight)
    expected = outputs(model, X)
    by_place = {"interaction_cst": [[0, 1], {1, 2, 3}], "feature_weights": [3, 1, 0.5, 1]}
    for other in (
        make(kind, **BOUND, n_jobs=3).fit(X, y, sample_weight=weight),
        make(kind, **BOUND | by_place).fit(X, y, sample_weight=weight),
        make(kind, **BOUND).fit(X.iloc[copies], y[copies]),
    ):
        np.testing.assert_array_equal(outputs(other, X), expected)
    assert (outputs(make(kind, max_features=2).fit(X, y, sample_weight=weight), X) != expected).any()


def test_bagging_hands_them_to_its_trees(rows):
    X, y = rows
    tree = DecisionTreeRegressor(interaction_cst="no_interactions", feature_weights={"a": 0})
    for options in ({}, {"sampling": "rows"}):
        model = BaggingRegressor(tree, n_estimators=5, random_state=0, **options).fit(X, y)
        found = [path for member in model.estimators_ for path in paths(member)]
        assert max(map(len, found)) == 1
        assert set().union(*found) <= {"b", "c", "d"}


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"interaction_cst": "none"}, "interaction_cst must be 'no_interactions', 'pairwise', None or .* got 'none'"),
        ({"interaction_cst": [["a", "z"]]}, "interaction_cst must name columns of X; got 'z'"),
        ({"interaction_cst": [[7]]}, "interaction_cst must hold column indices from 0 to 3; got 7"),
        ({"feature_weights": [1, -2, 1, 1]}, "feature_weights must be non-negative and not all 0; got -2"),
        ({"feature_weights": [1, 1]}, "feature_weights must have one value for each of the"),
        ({"feature_weights": {"a": np.nan}}, "feature_weights must hold finite numbers; got nan"),
    ],
)
def test_wrong_values(kind, parameters, message, rows):
    with pytest.raises(ValueError, match=message):
        make(kind, **parameters).fit(*rows)


def test_columns_that_become_several_stay_together():
    """With target statistics of three classes a column is as many columns of the trees."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"c": pd.Categorical(rng.integers(0, 90, 600).astype(str)), "x": rng.normal(size=600)})
    y = (X["c"].cat.codes + 20 * X["x"]).rank(pct=True).mul(3).astype(int).clip(upper=2)
    model = make(ExtraTreesClassifier, categories=Categories("target"), interaction_cst=[["c"], ["x"]]).fit(X, y)
    columns = model._column_of[model._ensemble.feature[model._ensemble.feature >= 0]]
    assert len(model._column_of) > 2
    assert set(columns) == {0, 1}


# Quantiles and intervals --------------------------------------------------


def rows_of_uneven_noise(rng):
    """Noise that is largest where the mean is low: free intervals there begin lower, and end higher."""
    X = rng.uniform(size=(500, 3))
    return X, 3 * X[:, 0] + (2.5 - 2.4 * X[:, 0]) * rng.standard_normal(500)


def falls(found):
    """The largest fall along lines on which only the first column rises; rows of a line follow each other."""
    lines = found.reshape(30, 40, -1)
    return float(-np.diff(lines, axis=1).min())


@pytest.mark.parametrize("kind", [fastens.RandomForestRegressor, fastens.ExtraTreesRegressor])
@pytest.mark.parametrize("sign", [1, -1])
def test_quantiles_and_intervals_keep_monotone_constraints(kind, sign, rng, tmp_path):
    X, y = rows_of_uneven_noise(rng)
    lines = np.repeat(rng.uniform(size=(30, 3)), 40, axis=0)
    lines[:, 0] = np.tile(np.linspace(0, 1, 40), 30)
    options = {"oob_score": True, "bootstrap": True, "random_state": 0, "n_estimators": 50}
    free = kind(**options).fit(X, y)
    bound = kind(monotonic_cst=[sign, 0, 0], **options).fit(X, sign * y)
    bound.save(tmp_path / "forest")
    levels = [0.02, 0.1, 0.5, 0.9, 0.98]
    assert falls(free.predict_quantiles(lines, levels)) > 0.1
    assert falls(free.predict_interval(lines)) > 0.1
    for model in (bound, fastens.load(tmp_path / "forest")):
        assert falls(sign * model.predict_quantiles(lines, levels)) < 1e-12
        for coverage in (0.5, 0.9, 0.99):
            assert falls(sign * model.predict_interval(lines, coverage)) < 1e-12
        assert falls(sign * model.predict(lines)[:, None]) < 1e-12
    X_new, y_new = rows_of_uneven_noise(rng)
    low, high = bound.predict_interval(X_new).T
    assert 0.84 < ((low <= sign * y_new) & (sign * y_new <= high)).mean() < 0.96
    with pytest.raises(ValueError, match=r"keep_leaves must be False with monotonic_cst, .*Use oob_score=True"):
        kind(2, keep_leaves=True, monotonic_cst=[1, 0, 0]).fit(X, y)


@pytest.mark.parametrize("cv", [None, 4])
@pytest.mark.parametrize("part", [False, True])
def test_conformal_intervals_keep_monotone_constraints(cv, part, rng):
    X, y = rows_of_uneven_noise(rng)
    lines = np.repeat(rng.uniform(size=(30, 3)), 40, axis=0)
    lines[:, 0] = np.tile(np.linspace(0, 1, 40), 30)
    member = HistGradientBoostingRegressor(max_iter=20, monotonic_cst=[1, 0, 0])
    member = make_pipeline(StandardScaler(), member) if part else member
    model = fastens.ConformalRegressor(member, cv=cv, random_state=0).fit(X, y)
    for coverage in (0.5, 0.9):
        assert falls(model.predict_interval(lines, coverage)) < 1e-12
