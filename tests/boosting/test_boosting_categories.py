"""Categorical columns of boosted trees: many categories, few, missing and unseen ones, and their encodings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.params.options import Categories, Growth
from reference.sklearn_checks import parametrize_with_checks

ENCODED = {"categories": Categories(encoding="ordered", missing="category"), "random_state": 0}


@parametrize_with_checks([GradientBoostingClassifier(**ENCODED), GradientBoostingRegressor(**ENCODED)])
def test_sklearn_check(check):
    check()


def make_frame(rng, n_rows=3000, n_categories=300, noise=1.0):
    """A column of many categories, one of few, and a number."""
    many = rng.integers(0, n_categories, n_rows)
    few = rng.integers(0, 4, n_rows)
    number = rng.normal(size=n_rows)
    effect = np.random.default_rng(0).normal(size=n_categories)
    y = effect[many] + 0.5 * (few == 2) + 0.3 * number + noise * rng.normal(size=n_rows)
    frame = pd.DataFrame({"many": [f"m{i}" for i in many], "few": [f"f{i}" for i in few], "number": number})
    return frame, y


def fit(frame, y, **options):
    options = {"n_estimators": 40, "random_state": 0, **options}
    return GradientBoostingRegressor(**options).fit(frame, y)


# Many categories --------------------------------------------------


def test_the_default_does_not_follow_noise(rng):
    frame, _ = make_frame(rng)
    noise = rng.normal(size=len(frame))
    test, _ = make_frame(rng)
    for model in (fit(frame, noise), fit(frame, noise, categories=Categories(encoding="partition"))):
        assert np.var(model.predict(test)) < 0.14
    told_apart = Categories(encoding="partition", min_samples=1, smoothing=0.0, l2=0.0)
    assert np.var(fit(frame, noise, categories=told_apart).predict(test)) > 0.15


@pytest.mark.parametrize("encoding", ["auto", "target", "ordered"])
def test_statistics_find_the_effects(rng, encoding):
    (frame, y), (test, truth) = make_frame(rng), make_frame(rng, noise=0.0)
    score = fit(frame, y, categories=Categories(encoding=encoding)).score(test, truth)
    assert score > 0.8
    if encoding == "auto":
        assert score > fit(frame, y, categories=Categories(encoding="partition")).score(test, truth) + 0.02


def test_auto_leaves_few_categories_alone(rng):
    frame, y = make_frame(rng, n_categories=32)
    np.testing.assert_array_equal(
        fit(frame, y).predict(frame), fit(frame, y, categories=Categories(encoding="partition")).predict(frame)
    )
    assert fit(frame, y)._statistics is None
    assert fit(*make_frame(rng, n_categories=33))._statistics.columns == [0]


def test_draws_follow_the_seed(rng):
    frame, y = make_frame(rng)
    first, again, other = (fit(frame, y, random_state=seed).predict(frame) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_array_equal(first, fit(frame, y, n_jobs=3).predict(frame))


@pytest.mark.parametrize("encoding", ["target", "ordered", "partition"])
@pytest.mark.parametrize("missing", ["missing", "category"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_in_files(rng, tmp_path, encoding, missing, n_classes):
    frame, y = make_frame(rng, n_rows=500, n_categories=20)
    frame.loc[rng.random(500) < 0.2, "many"] = None
    labels = np.digitize(y, [0.0, 1.0][: n_classes - 1])
    options = {"categories": Categories(encoding=encoding, missing=missing), "n_estimators": 10, "random_state": 0}
    model = GradientBoostingClassifier(**options).fit(frame, labels)
    model.save(tmp_path / "model")
    unseen = frame.assign(many="new")
    for rows in (frame, unseen):
        found = model.predict_proba(rows)
        np.testing.assert_allclose(found.sum(axis=1), 1)
        np.testing.assert_array_equal(found, fastens.load(tmp_path / "model").predict_proba(rows))
    assert model.feature_importances_.shape == (3,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_split_counts_.sum() == (model._ensemble.feature >= 0).sum()
    assert model.score(frame, labels) > 0.55


def test_contributions_match_the_columns(rng):
    frame, y = make_frame(rng, n_rows=400, n_categories=20)
    labels = np.digitize(y, [0.0, 1.0])
    model = GradientBoostingClassifier(n_estimators=5, categories=Categories(encoding="target"), random_state=0).fit(
        frame, labels
    )
    found = model.predict_contributions(frame)
    assert found.shape == (400, 3, 4)
    np.testing.assert_allclose(found.sum(axis=2), model.decision_function(frame), atol=1e-9)
    pairs = model.predict_contributions(frame.head(20), interactions=True)
    assert pairs.shape == (20, 3, 4, 4)
    np.testing.assert_allclose(pairs.sum(axis=3), found[:20], atol=1e-9)


def test_validation_rows_are_not_in_the_statistics(rng):
    frame, y = make_frame(rng, n_categories=600)
    test, truth = make_frame(rng, n_categories=600)
    model = fit(frame, y, early_stopping=True, n_estimators=300, learning_rate=0.3)
    assert model.n_estimators_ < 300
    assert model.evals_result_["validation"]["loss"].min() == pytest.approx(
        0.5 * np.mean((model.predict(test) - truth) ** 2), rel=0.2
    )
    given = fit(frame, y, early_stopping=True).set_params(early_stopping="auto").fit(frame, y, X_val=test, y_val=truth)
    assert given.evals_result_["validation"]["loss"][given.n_estimators_ - 1] == pytest.approx(
        0.5 * np.mean((given.predict(test) - truth) ** 2)
    )


def test_constraints_speak_of_the_columns_of_the_table(rng):
    frame, y = make_frame(rng, n_rows=400, n_categories=20)
    labels = np.digitize(y, [0.0, 1.0])
    options = {"n_estimators": 5, "categories": Categories(encoding="target"), "random_state": 0}
    model = GradientBoostingClassifier(
        feature_weights={"many": 0}, max_features=1, interaction_cst=[["few", "number"]], **options
    ).fit(frame, labels)
    assert model.feature_importances_[0] == 0
    with pytest.raises(ValueError, match="categorical columns, because they have no order; column 'many' is"):
        GradientBoostingRegressor(monotonic_cst={"many": 1}, **options).fit(frame, y)


# Missing and unseen --------------------------------------------------


def test_missing_as_a_category_of_its_own(rng):
    """Missing rows are lowest; unseen ones go with them, or with the larger side."""
    values = np.repeat(np.array(["a", "b", None], dtype=object), [200, 300, 100])
    y = np.repeat([1.0, 2.0, -5.0], [200, 300, 100])
    frame = pd.DataFrame({"c": values})
    unseen, missing = pd.DataFrame({"c": ["z"]}), pd.DataFrame({"c": np.array([None], dtype=object)})
    as_missing, as_category = (
        fit(frame, y, categories=Categories(missing=kind), learning_rate=0.5) for kind in ("missing", "category")
    )
    for model in (as_missing, as_category):
        np.testing.assert_allclose(model.predict(frame), y, atol=0.01)
        assert model.predict(missing)[0] == pytest.approx(-5.0, abs=0.01)
    assert as_missing.predict(unseen)[0] == pytest.approx(-5.0, abs=0.01)
    assert as_category.predict(unseen)[0] > 0


def test_unseen_categories_get_the_mean(rng):
    frame, y = make_frame(rng, noise=0.1)
    model = fit(frame[["many"]], y, categories=Categories(encoding="target"))
    assert model.predict(pd.DataFrame({"many": ["new"]}))[0] == pytest.approx(y.mean(), abs=0.4)


# Splits on sets --------------------------------------------------


def splits(model):
    """For each split on categories, the sizes of its sides among the codes 1 to 12."""
    ensemble = model._ensemble
    for node in np.flatnonzero(ensemble.category_set >= 0):
        word = int(ensemble.category_words[ensemble.category_set[node]])
        left = bin(word >> 1 & 0xFFF).count("1")
        yield min(left, 12 - left)


def make_twelve(rng, n_rows=4000):
    codes = rng.integers(0, 12, n_rows)
    return pd.DataFrame({"c": pd.Categorical(codes)}), np.sin(codes) + 0.1 * rng.normal(size=n_rows)


@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 6), ({"categories": Categories(max_per_split=2)}, 2), ({"categories": Categories(one_hot_max_size=12)}, 1)],
)
def test_size_of_the_smaller_side(rng, options, most):
    frame, y = make_twelve(rng)
    # The first split of each tree: further down some codes are absent and follow the larger side.
    model = fit(frame, y, max_leaf_nodes=2, **options)
    assert max(splits(model)) == most


@pytest.mark.parametrize(
    "options", [{"categories": Categories(l2=1e9)}, {"categories": Categories(min_samples=10_000)}]
)
def test_penalty_and_pool_forbid_sets(rng, options):
    frame, y = make_twelve(rng)
    assert not list(splits(fit(frame, y, growth=Growth(min_gain_to_split=1.0), **options)))
    assert list(splits(fit(frame, y, growth=Growth(min_gain_to_split=1.0))))


def test_smoothing_changes_the_order(rng):
    """A category of 25 rows with the largest mean comes after one of 500 once it is smoothed."""
    frame = pd.DataFrame({"c": np.repeat(["a", "b", "c"], [25, 500, 500])})
    y = np.repeat([1.2, 1.0, 0.0], [25, 500, 500])
    options = {"max_leaf_nodes": 2, "n_estimators": 1}
    ways = (Categories(one_hot_max_size=0, max_per_split=1, smoothing=s, l2=0.0) for s in (0.0, 100.0))
    first, smoothed = (fit(frame, y - 0.5, categories=way, **options) for way in ways)
    rows = pd.DataFrame({"c": ["a", "b", "c"]})
    assert len(np.unique(first.predict(rows))) == len(np.unique(smoothed.predict(rows))) == 2
    assert fit(frame, y, **{**options, "max_leaf_nodes": 3}).predict(rows)[0] > 0


def test_small_weights_leave_categories_in_use(rng):
    frame, y = make_frame(rng, n_categories=12)
    weight = rng.uniform(0.5, 2, len(y))
    model = GradientBoostingRegressor(
        n_estimators=40, categories=Categories(encoding="partition"), growth=Growth(min_child_weight=0.0)
    )
    one, tiny = (clone(model).fit(frame, y, sample_weight=scale * weight) for scale in (1, 1e-6))
    assert tiny.feature_importances_[0] == pytest.approx(one.feature_importances_[0], abs=0.05)
