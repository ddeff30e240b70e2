"""Shapley values against their definition, on random trees and grown ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.engine.bins.binning import learn_binning
from fastens.engine.trees.contributions import contributions, expected_raw, interactions
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


@pytest.mark.parametrize("make", [random_ensemble, random_forest])
def test_adds_up_to_the_prediction(binning, make):
    rng = np.random.default_rng(0)
    ensemble = make(rng, binning, [300, 31, 1, 200], 3)
    X = table(rng, 100)
    found = contributions(ensemble, X)
    np.testing.assert_allclose(found.sum(axis=2), ensemble.predict_raw(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found[..., -1], np.tile(expected_raw(ensemble), (100, 1)))
    np.testing.assert_allclose(interactions(ensemble, X).sum(axis=3), found, rtol=1e-9, atol=1e-12)


def test_same_for_any_threads_and_rows(binning):
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, binning, [31] * 40)
    X = table(rng, 500)
    whole = contributions(ensemble, X)
    np.testing.assert_array_equal(contributions(ensemble, X, n_threads=3), whole)
    parts = [contributions(ensemble, X[rows]) for rows in (slice(0, 3), slice(3, 4), slice(4, 500))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert contributions(ensemble, X[:0]).shape == (0, 1, 5)


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
