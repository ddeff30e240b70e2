"""Shapley values against their definition, on random trees and grown ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.engine.bins.binning import learn_binning
from fastens.engine.trees.contributions import Reference, contributions, expected_raw, interactions
from fastens.engine.trees.trees import TreeEnsemble
from reference import contributions as twin
from reference.predict import random_ensemble, random_forest


def table(rng, n_rows):
    """Numeric columns, one of few values, and a categorical one; some values are missing."""
    X = np.column_stack(
        [
            rng.normal(size=n_rows),
            rng.exponential(size=n_rows),
            rng.integers(40, size=n_rows),
            rng.integers(3, size=n_rows),
        ]
    ).astype(np.float64)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


@pytest.fixture(params=[255, 1000], ids="max_bins={}".format)
def binning(request):
    rng = np.random.default_rng(1)
    return learn_binning(table(rng, 2000), None, request.param, np.array([False, False, True, False]), 1)


@pytest.mark.slow
@pytest.mark.parametrize("make", [random_ensemble, random_forest])
@pytest.mark.parametrize("n_leaves", [[1], [2, 3], [8, 1, 31], [60]])
def test_equals_the_definition(binning, make, n_leaves):
    """Random trees test a feature many times on a path, which is the hard case."""
    rng = np.random.default_rng(sum(n_leaves))
    ensemble = make(rng, binning, n_leaves, 2)
    X = table(rng, 11)
    codes = binning.codes(X, 1)
    found, pairs = contributions(ensemble, X), interactions(ensemble, X)
    for row in range(len(X)):
        np.testing.assert_allclose(found[row], twin.contributions(ensemble, codes[:, row]), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(pairs[row], twin.interactions(ensemble, codes[:, row]), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("make", [random_ensemble, random_forest])
@pytest.mark.parametrize("n_leaves", [[1], [2, 3], [8, 1, 31], [60]])
@pytest.mark.parametrize("is_scaled", [False, True])
def test_interventional_equals_the_definition(binning, make, n_leaves, is_scaled):
    rng = np.random.default_rng(sum(n_leaves))
    ensemble = make(rng, binning, n_leaves, 2)
    X, Z = table(rng, 4), table(rng, 5)
    Z[3] = Z[1]
    reference = Reference(Z, rng.random((4, 5)) if is_scaled else None)
    codes, others = binning.codes(X, 1), binning.codes(Z, 1)
    found = contributions(ensemble, X, 1, reference)[..., :-1]
    pairs = interactions(ensemble, X, 1, reference)[..., :-1, :-1]
    for row in range(len(X)):
        given = (ensemble, codes[:, row], others, None if reference.scales is None else reference.scales[row])
        expected = twin.interventional(*given)[:, :-1]
        np.testing.assert_allclose(found[row], expected, rtol=1e-9, atol=1e-12)
        expected = twin.interventional(*given, of=twin.shapley_interactions)[:, :-1, :-1]
        np.testing.assert_allclose(pairs[row], expected, rtol=1e-9, atol=1e-12)


def test_features_of_one_column_are_known_together(binning):
    rng = np.random.default_rng(0)
    ensemble, column_of = random_forest(rng, binning, [8, 31], 2), np.array([0, 1, 1, 0])
    X, Z = table(rng, 4), table(rng, 5)
    codes, others = binning.codes(X, 1), binning.codes(Z, 1)
    found, pairs = (explain(ensemble, X, column_of=column_of) for explain in (contributions, interactions))
    against, pairs_against = (
        explain(ensemble, X, 1, Reference(Z), column_of) for explain in (contributions, interactions)
    )
    for row, own in enumerate(codes.T):
        known = {columns: np.flatnonzero(np.isin(column_of, columns)) for columns in twin.coalitions(2)}
        value = {columns: twin.value_of(ensemble, own, features) for columns, features in known.items()}
        np.testing.assert_allclose(found[row], twin.shapley_values(value, 2), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(pairs[row], twin.shapley_interactions(value, 2), rtol=1e-9, atol=1e-12)
        for columns, features in known.items():
            mixed = others.copy()
            mixed[features] = own[features, None]
            value[columns] = np.mean([twin.value_of(ensemble, each, range(4)) for each in mixed.T], axis=0)
        np.testing.assert_allclose(against[row], twin.shapley_values(value, 2), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(pairs_against[row], twin.shapley_interactions(value, 2), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [random_ensemble, random_forest])
def test_adds_up_to_the_prediction(binning, make):
    rng = np.random.default_rng(0)
    ensemble = make(rng, binning, [300, 31, 1, 200], 3)
    X = table(rng, 100)
    found = contributions(ensemble, X)
    np.testing.assert_allclose(found.sum(axis=2), ensemble.predict_raw(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found[..., -1], np.tile(expected_raw(ensemble), (100, 1)))
    np.testing.assert_allclose(interactions(ensemble, X).sum(axis=3), found, rtol=1e-9, atol=1e-12)
    reference = Reference(table(rng, 70))
    found = contributions(ensemble, X, 1, reference)
    np.testing.assert_allclose(found.sum(axis=2), ensemble.predict_raw(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found[0, :, -1], ensemble.predict_raw(reference.X).mean(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("explain", [contributions, interactions])
@pytest.mark.parametrize("reference", ["none", "rows", "scales"])
def test_same_for_any_threads_and_rows(binning, explain, reference):
    """Of many rows, the parts of all masks are looked up; of few, those of each row are worked out."""
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, binning, [31] * 40)
    X, Z, scales = table(rng, 700), table(rng, 30), rng.random((700, 30))

    def found(rows, n_threads=1):
        given = Reference(Z, scales[rows] if reference == "scales" else None)
        return explain(ensemble, X[rows], n_threads, None if reference == "none" else given)

    whole = found(slice(None))
    np.testing.assert_array_equal(found(slice(None), 3), whole)
    parts = [found(rows) for rows in (slice(0, 3), slice(3, 4), slice(4, 37), slice(37, 700))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert found(slice(0, 0)).shape == (0, *whole.shape[1:])


def test_paths_of_more_features_than_a_mask_has_bits():
    """A chain that tests each of 70 features twice: masks of three words. Few are worth anything to a row of it."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 70))
    binning = learn_binning(Z, None, 15, np.zeros(70, dtype=bool), 1)
    node = np.arange(281)
    is_inner = (node % 2 == 0) & (node < 280)  # the right child goes on
    tree = replace(
        random_ensemble(rng, binning, [141]).tree(0),
        left_child=np.where(is_inner, node + 1, 0).astype(np.int32),
        feature=np.where(is_inner, node // 2 % 70, -1).astype(np.int32),
        bin_threshold=np.where(is_inner, 1 + node // 140, 0).astype(np.uint16),
        category_set=np.full(281, -1, dtype=np.int32),
    )
    ensemble = TreeEnsemble.from_trees([tree], [0], [0.0], binning)
    X = Z[:20].copy()
    X[:10] = 9.0
    for reference in (None, Reference(Z[-50:])):
        found = contributions(ensemble, X, 1, reference)
        np.testing.assert_allclose(found.sum(axis=2), ensemble.predict_raw(X), rtol=1e-9, atol=1e-9)
        both = interactions(ensemble, X, 1, reference)
        np.testing.assert_allclose(both.sum(axis=3), found, rtol=1e-9, atol=1e-9)
    against = np.array([contributions(ensemble, X, 1, Reference(row[None])) for row in Z[-50:]])
    np.testing.assert_allclose(found, against.mean(axis=0), rtol=1e-9, atol=1e-12)


def test_leaves_of_no_weight():
    """A share of 0 on a path: of a leaf that no training row has reached, or only rows of weight 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    binning = learn_binning(X, None, 255, np.zeros(3, dtype=bool), 1)
    ensemble = random_ensemble(rng, binning, [16])
    weight = ensemble.weight.copy()
    for node in np.flatnonzero(ensemble.left_child)[::-1]:
        left = ensemble.left_child[node]
        weight[left] = 0.0 if node % 2 else weight[left]
    ensemble = TreeEnsemble.from_trees([replace(ensemble.tree(0), weight=weight)], [0], [0.0], binning)
    codes = binning.codes(X, 1)
    found, pairs = contributions(ensemble, X), interactions(ensemble, X)
    for row in range(0, 60, 6):
        np.testing.assert_allclose(found[row], twin.contributions(ensemble, codes[:, row]), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(pairs[row], twin.interactions(ensemble, codes[:, row]), rtol=1e-9, atol=1e-12)


def test_a_chain_of_a_thousand_tests(binning):
    """Depth is bounded by memory, not by a stack of calls; shares that vanish do no harm."""
    node = np.arange(2001)
    is_inner = (node % 2 == 0) & (node < 2000)  # the right child goes on
    tree = replace(
        random_ensemble(np.random.default_rng(0), binning, [1001]).tree(0),
        left_child=np.where(is_inner, node + 1, 0).astype(np.int32),
        feature=np.where(is_inner, node // 2 % 2, -1).astype(np.int32),
        bin_threshold=np.where(is_inner, node % 200 + 1, 0).astype(np.uint16),
        category_set=np.full(2001, -1, dtype=np.int32),
    )
    ensemble = TreeEnsemble.from_trees([tree], [0], [0.0], binning)
    X = table(np.random.default_rng(1), 20)
    found = contributions(ensemble, X)
    assert ensemble.max_depth[0] == 1000
    np.testing.assert_allclose(found.sum(axis=2), ensemble.predict_raw(X), rtol=1e-6, atol=1e-9)


def test_a_useless_feature_has_no_part():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    model = GradientBoostingRegressor(n_estimators=20).fit(X, X[:, 0] > 0)
    found = model.predict_contributions(X)
    assert found.shape == (500, 4)
    assert abs(found[:, 1:3]).max() < 0.1 * abs(found[:, 0]).mean()
    np.testing.assert_allclose(found.sum(axis=1), model.predict(X), atol=1e-9)


def test_classes_have_an_axis():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = GradientBoostingClassifier(n_estimators=5).fit(X, y)
    found = model.predict_contributions(X)
    assert found.shape == (150, 3, 5)
    raw = found.sum(axis=2)
    proba = np.exp(raw - raw.max(axis=1, keepdims=True))
    np.testing.assert_allclose(proba / proba.sum(axis=1, keepdims=True), model.predict_proba(X), atol=1e-12)
    assert model.predict_contributions(X, interactions=True).shape == (150, 3, 5, 5)
    binary = GradientBoostingClassifier(n_estimators=5).fit(X, y == 1)
    assert binary.predict_contributions(X).shape == (150, 5)
