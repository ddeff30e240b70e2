"""Bundles save bytes of the records and change nothing else."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from fastens import GradientBoostingClassifier
from fastens.engine.bins import binning as bundles
from fastens.engine.bins.binning import bundled, learn_binning, without_bundles
from fastens.engine.grow.growth import GrowthParameters, TreeGrower

N_ROWS = 20_000  # a root in wide cells, and small nodes in packed ones


def table(rng, n_rows=N_ROWS):
    """Numbers, two one-hot groups, one of them with gaps, flags that do not exclude each other, and digits."""
    kind, other = rng.integers(30, size=n_rows), rng.integers(5, size=n_rows)
    one_hot = np.eye(30)[kind]
    one_hot[kind == 7] = 0
    one_hot[rng.random(n_rows) < 0.02] = np.nan
    flags = rng.random((n_rows, 4)) < [0.5, 0.1, 0.9, 0.3]
    digits = np.column_stack([kind % 7, kind % 3, np.full(n_rows, 4)])
    return np.column_stack([rng.normal(size=(n_rows, 2)), one_hot, np.eye(5)[other], flags, digits]), kind, other


def decoded(matrix):
    """The codes of the features as the records have them."""
    of_columns = matrix.records[:, : len(matrix.bundles.n_codes)]
    found = np.empty((matrix.n_features, matrix.n_rows), dtype=np.uint8)
    for feature, column in enumerate(matrix.bundles.column_of):
        found[feature] = of_columns[:, column]
        if (matrix.bundles.column_of == column).sum() > 1:
            of_combination = np.full(256, matrix.bundles.most_frequent_bin[feature])
            place = matrix.bundles.first_member[feature]
            for code in range(matrix.n_codes[feature]):
                n_with = matrix.bundles.members[place]
                of_combination[matrix.bundles.members[place + 1 : place + 1 + n_with]] = code
                place += 1 + n_with
            found[feature] = of_combination[of_columns[:, column]]
    return found


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, kind, other = table(rng)
    target = X[:, 0] + np.sin(kind) * (other > 2) + X[:, -7]
    gradients = (rng.normal(size=N_ROWS) - target).astype(np.float32)
    return X, gradients, rng.uniform(0.1, 1, N_ROWS).astype(np.float32)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_the_records_still_tell_every_code(rows, n_threads):
    matrix = bundled(learn_binning(rows[0]).transform(rows[0]), n_threads=n_threads)
    assert len(matrix.bundles.n_codes) < 10
    assert matrix.bundles.n_codes.max() <= 256
    np.testing.assert_array_equal(decoded(matrix), matrix.columns)


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("weights", [None, "whole", "real"])
@pytest.mark.parametrize(
    "rules",
    [
        {"max_leaf_nodes": 60, "min_samples_leaf": 1},
        {"max_leaf_nodes": None, "max_depth": 6},
        {"features_per_split": 5, "min_weight_leaf": 30.0},
        {"path_smooth": 3.0, "monotone": True},
    ],
    ids=str,
)
def test_trees_are_the_same(rows, rules, weights, n_threads):
    X, gradients, hessians = rows
    is_categorical = np.arange(X.shape[1]) >= X.shape[1] - 3
    if rules.get("monotone"):
        rules = rules | {"monotone": np.where(is_categorical, 0, 1).astype(np.int8)}
    rng = np.random.default_rng(1)
    sample_weight = {"whole": rng.integers(1, 4, N_ROWS).astype(float), "real": rng.uniform(0.1, 3, N_ROWS)}.get(
        weights
    )
    matrix = learn_binning(X, sample_weight, is_categorical=is_categorical).transform(X)
    plain, bundle = [
        TreeGrower(each, GrowthParameters(**rules), sample_weight, n_threads=n_threads).grow(
            gradients, hessians, seed=3
        )
        for each in (matrix, bundled(matrix))
    ]
    assert plain.n_nodes > 20
    for field in fields(plain):
        np.testing.assert_array_equal(getattr(plain, field.name), getattr(bundle, field.name), err_msg=field.name)


def test_some_of_the_bundled_features_are_split_on(rows):
    X, gradients, hessians = rows
    tree = TreeGrower(bundled(learn_binning(X).transform(X)), GrowthParameters()).grow(gradients, hessians)
    assert (tree.feature > 1).sum() > 5


def test_a_sample_that_misses_combinations_does_no_harm(rows, monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.integers(10, size=(N_ROWS, 4)).astype(float)
    X[::4] = X[::4, :1]  # the rows of the sample have the same code everywhere
    monkeypatch.setattr(bundles, "_SAMPLE_ROWS", N_ROWS // 4)
    matrix = bundled(learn_binning(X).transform(X))
    assert matrix.bundles.n_codes.tolist() == [11, 11, 100]
    np.testing.assert_array_equal(decoded(matrix), matrix.columns)


def test_bundles_without_savings_are_not_made():
    rng = np.random.default_rng(3)
    few_rows = np.eye(8)[rng.integers(8, size=300)]
    numbers = rng.normal(size=(5000, 8))
    one_flag = np.column_stack([numbers, rng.random(5000) < 0.5])
    for X in (few_rows, numbers, one_flag):
        matrix = learn_binning(X).transform(X)
        assert bundled(matrix) is matrix


def test_models_do_not_depend_on_bundles(rows):
    X = rows[0][:6000]
    y = np.digitize(-rows[1][:6000], [-1, 1])
    models = [GradientBoostingClassifier(n_estimators=4, random_state=0, n_jobs=2, subsample=0.8).fit(X, y)]
    with without_bundles():
        assert bundled(learn_binning(X).transform(X)).bundles.column_of.max() == X.shape[1] - 1
        models.append(GradientBoostingClassifier(n_estimators=4, random_state=0, subsample=0.8).fit(X, y))
    assert bundled(learn_binning(X).transform(X)).bundles.column_of.max() < X.shape[1] - 1
    bundle, plain = (model.predict_proba(X) for model in models)
    np.testing.assert_array_equal(bundle, plain)
