"""Boosting with linear models in the leaves."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.engine.linear.linear_leaves import read_trees
from fastens.monitoring.callbacks import Checkpoint
from fastens.params.options import Growth, LinearLeaves
from reference import contributions as naive_shapley
from reference.linear_leaves import predict, slopes_of_leaf
from reference.models import make_model, make_target, outputs
from reference.sklearn_checks import parametrize_with_checks

LOSSES = ("squared_error", "poisson", "gamma", "binary", "multiclass")
LINEAR = {"linear_leaves": True}


@pytest.fixture
def X(rng):
    X = rng.standard_normal((500, 4))
    X[rng.random(X.shape) < 0.04] = np.nan
    return X


@parametrize_with_checks(
    [GradientBoostingClassifier(**LINEAR, n_estimators=20), GradientBoostingRegressor(**LINEAR, n_estimators=20)]
)
def test_sklearn_check(check):
    check()


def test_a_line_needs_one_leaf(rng):
    X = rng.standard_normal((400, 3))
    y = 2 * X[:, 0] + 5
    options = {"max_leaf_nodes": 4, "learning_rate": 1.0, "n_estimators": 3, "linear_leaves": LinearLeaves(l2=0.0)}
    linear = GradientBoostingRegressor(max_features=1.0, **options).fit(X, y)
    np.testing.assert_allclose(linear.predict(X), y, atol=1e-5)
    # Lines end where the rows did.
    far = np.array([[10.0, 0.0, 0.0], [-10.0, 0.0, 0.0]])
    np.testing.assert_allclose(linear.predict(far), [y.max(), y.min()], atol=1e-5)


def test_a_naive_twin(X, rng):
    """Squared error: every round by least squares in the leaves."""
    y = make_target("squared_error", X, rng)
    weight = rng.integers(1, 4, len(y)).astype(float)
    options = {
        "n_estimators": 4,
        "learning_rate": 0.5,
        "max_leaf_nodes": 5,
        "linear_leaves": LinearLeaves(l2=2.0),
        "l2_regularization": 0.0,
    }
    model = GradientBoostingRegressor(**options).fit(X, y, weight)
    trees = model._ensemble
    raw = np.full(len(y), np.average(y, weights=weight))
    for index in range(4):
        tree, leaves = trees.tree(index), model.apply(X)[:, index]
        terms = {}
        for leaf in np.unique(leaves):
            features, rows = np.array(on_path(tree, leaf)), leaves == leaf
            gradients = (raw - y)[rows]
            slopes, mean = slopes_of_leaf(X[rows][:, features], gradients, np.ones(rows.sum()), weight[rows], 2.0)
            complete = X[rows][:, features][np.isfinite(X[rows][:, features]).all(axis=1)]
            terms[leaf] = features, 0.5 * slopes, complete.min(axis=0), complete.max(axis=0), 0.5 * slopes * mean
            assert tree.value[leaf, 0] == pytest.approx(-0.5 * np.average(gradients, weights=weight[rows]), abs=1e-6)
        raw += predict(X, leaves, tree.value[:, 0], terms)
    np.testing.assert_allclose(model.predict(X), raw, atol=1e-5)


def on_path(tree, leaf):
    node, features = 0, []
    parent = {int(left) + side: node for node, left in enumerate(tree.left_child) if left for side in (0, 1)}
    node = int(leaf)
    while node:
        node = parent[node]
        features.append(int(tree.feature[node]))
    return sorted(set(features))


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("options", [{}, {"subsample": 0.6}, {"sampling": "goss"}, {"max_bins": 400}], ids=str)
def test_staged_saved_and_threads(loss, options, X, rng, tmp_path):
    y = make_target(loss, X, rng)
    model = make_model(loss, random_state=0, **LINEAR, **options).fit(X, y)
    said = outputs(model, X)
    assert not np.array_equal(said, outputs(make_model(loss, random_state=0, **options).fit(X, y), X))
    *_, last = model.staged_predict(X)
    np.testing.assert_array_equal(last, model.predict(X))
    other = make_model(loss, random_state=0, **LINEAR, **options).set_params(n_jobs=3).fit(X, y)
    np.testing.assert_array_equal(outputs(other, X), said)
    model.save(tmp_path / "model")
    for again in (fastens.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(outputs(again, X), said)
        np.testing.assert_array_equal(outputs(again, X[:1]), said[:1])
        np.testing.assert_array_equal(outputs(again, np.asfortranarray(X)), said)


@pytest.mark.parametrize("loss", LOSSES)
def test_more_rounds_later_are_all_at_once(loss, X, rng, tmp_path):
    y = make_target(loss, X, rng)
    at_once = make_model(loss, n_estimators=12, **LINEAR).fit(X, y)
    model = make_model(loss, n_estimators=5, warm_start=True, **LINEAR).fit(X, y)
    later = pickle.loads(pickle.dumps(model)).set_params(n_estimators=12).fit(X, y)
    np.testing.assert_array_equal(outputs(later, X), outputs(at_once, X))
    path = tmp_path / "checkpoint"
    make_model(loss, n_estimators=6, callbacks=[Checkpoint(path, 3)], **LINEAR).fit(X, y)
    resumed = make_model(loss, n_estimators=12, **LINEAR).fit(X, y, resume=path)
    np.testing.assert_array_equal(outputs(resumed, X), outputs(at_once, X))
    for leaves in (True, False):
        model = make_model(loss, warm_start=True, linear_leaves=leaves).fit(X, y)
        with pytest.raises(ValueError, match=f"linear_leaves must be the same as in the last fit, {leaves}"):
            model.set_params(linear_leaves=not leaves, n_estimators=20).fit(X, y)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_copies(loss, X, rng):
    y = make_target(loss, X, rng)
    weight = rng.integers(0, 3, len(y))
    options = {"min_samples_leaf": 1, "growth": Growth(min_child_weight=5.0), **LINEAR}
    weighted = make_model(loss, **options).fit(X, y, weight)
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    copied = make_model(loss, **options).fit(X[rows], y[rows])
    np.testing.assert_allclose(outputs(weighted, X), outputs(copied, X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("class_weight", ["balanced", {0.0: 0.3, 1.0: 1.7}])
def test_weights_with_class_weights_are_copies(class_weight, X, rng):
    y, weight = make_target("binary", X, rng).astype(float), rng.integers(1, 5, len(X))
    model = GradientBoostingClassifier(n_estimators=4, class_weight=class_weight, **LINEAR)
    copied = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(model.fit(X, y, weight).predict_proba(X), copied.predict_proba(X))


def test_early_stopping_measures_the_linear_models(X, rng):
    y = make_target("squared_error", X, rng)
    model = GradientBoostingRegressor(n_estimators=300, early_stopping=True, learning_rate=0.3, **LINEAR)
    model.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    assert len(model.evals_result_["validation"]["loss"]) < 300
    losses = [np.mean((y[300:] - said) ** 2) / 2 for said in model.staged_predict(X[300:])]
    np.testing.assert_allclose(losses, model.evals_result_["validation"]["loss"][: model.n_estimators_], rtol=1e-12)


def test_weights_of_any_scale(X, rng):
    y, weight = make_target("squared_error", X, rng), rng.random(len(X))
    model = GradientBoostingRegressor(n_estimators=5, **LINEAR).fit(X, y, weight)
    small = GradientBoostingRegressor(n_estimators=5, **LINEAR).fit(X, y, weight / 1024)
    np.testing.assert_allclose(small.predict(X), model.predict(X), rtol=1e-9)
    same = small.refit_leaves(X, y, decay_rate=0.0, sample_weight=weight / 1024)
    np.testing.assert_allclose(same.predict(X), small.predict(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loss", ["squared_error", "binary", "multiclass", "poisson"])
def test_refitted_leaves(loss, X, rng):
    y = make_target(loss, X, rng)
    weight = rng.integers(1, 3, len(y)).astype(float)
    model = make_model(loss, **LINEAR).fit(X, y, weight)
    said = outputs(model, X)
    same = model.refit_leaves(X, y, decay_rate=0.0, sample_weight=weight)
    np.testing.assert_allclose(outputs(same, X), said, atol=1e-6)
    np.testing.assert_allclose(outputs(model.refit_leaves(X, y, decay_rate=1.0), X), said, rtol=1e-12)
    half = X.copy()
    half[:, 0] *= -1
    moved = [np.abs(outputs(model.refit_leaves(half, y, decay_rate=d), X) - said).mean() for d in (0.9, 0.5, 0.0)]
    assert 0 < moved[0] < moved[1] < moved[2]
    np.testing.assert_array_equal(outputs(model, X), said)


def test_missing_values_and_categories(rng):
    X = pd.DataFrame({"a": rng.standard_normal(600), "b": rng.standard_normal(600)})
    X["c"] = pd.Categorical(rng.choice(list("xyz"), 600))
    y = 3 * X["a"] + (X["c"] == "x") * X["b"]
    X.loc[::5, "a"] = np.nan
    model = GradientBoostingRegressor(**LINEAR, n_estimators=20).fit(X, y)
    trees = model._ensemble
    assert set(trees.linear.features.tolist()) == {0, 1}
    gone = X.assign(a=np.nan, b=np.nan)
    leaves = model.apply(gone)
    values = [trees.value[trees.node_offsets[t] + leaves[:, t], 0] for t in range(trees.n_trees)]
    np.testing.assert_allclose(model.predict(gone), trees.baseline[0] + np.sum(values, axis=0))
    assert model.score(X, y) > GradientBoostingRegressor(n_estimators=20, min_samples_leaf=20).fit(X, y).score(X, y)


def test_sparse_tables(X, rng):
    y = make_target("squared_error", X, rng)
    X = np.where(np.nan_to_num(X) < 0, 0, X)
    model, other = (GradientBoostingRegressor(**LINEAR, n_estimators=5).fit(table, y) for table in (X, csr_matrix(X)))
    np.testing.assert_array_equal(model.predict(X), other.predict(csr_matrix(X)))
    np.testing.assert_array_equal(list(model.staged_predict(X)), list(other.staged_predict(csr_matrix(X))))


def test_a_larger_penalty_gives_flatter_leaves(X, rng):
    y = make_target("squared_error", X, rng)
    steepness = [
        np.abs(
            GradientBoostingRegressor(linear_leaves=LinearLeaves(l2=l2), n_estimators=1)
            .fit(X, y)
            ._ensemble.linear.slopes
        ).sum()
        for l2 in (0.0, 1.0, 10.0, 1e3)
    ]
    assert steepness == sorted(steepness, reverse=True)
    flat = GradientBoostingRegressor(linear_leaves=LinearLeaves(l2=1e15)).fit(X, y)
    constant = GradientBoostingRegressor(min_samples_leaf=20).fit(X, y)
    np.testing.assert_allclose(flat.predict(X), constant.predict(X), atol=1e-8)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "absolute_error"}, "loss must have a hessian with linear_leaves=True.*got 'absolute_error'"),
        ({"loss": "quantile", "quantile": 0.5}, "loss must have a hessian with linear_leaves=True"),
        ({"loss": "huber"}, "loss must have a hessian with linear_leaves=True"),
        ({"linear_leaves": LinearLeaves(l2=-1.0)}, "linear_leaves.l2 must be a number at least 0; got -1.0"),
        ({"linear_leaves": 2}, "linear_leaves must be .*; got 2"),
    ],
)
def test_errors(parameters, message, X):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(**LINEAR | parameters).fit(X, np.arange(len(X)))


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("options", [{}, {"max_bins": 400}, {"subsample": 0.5, "max_leaf_nodes": 12}], ids=str)
def test_contributions_are_shapley_values(loss, options, X, rng):
    X = np.column_stack([X, rng.integers(0, 3, len(X))])
    y = make_target(loss, X, rng)
    model = make_model(loss, n_estimators=3, categorical_features=[4], **LINEAR, **options).fit(X, y)
    trees, rows = model._ensemble, np.vstack([X[:4], X[:2] * 100])
    rows[:2, 0], rows[2, 1] = np.nan, np.inf
    said, pairs = model.predict_contributions(rows), model.predict_contributions(rows, interactions=True)
    codes = trees.binning.codes(rows)
    for i, row in enumerate(rows):
        found = naive_shapley.contributions(trees, codes[:, i], row)
        np.testing.assert_allclose(np.squeeze(found), said[i], rtol=1e-9, atol=1e-12)
        found = naive_shapley.interactions(trees, codes[:, i], row)
        np.testing.assert_allclose(np.squeeze(found), pairs[i], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("n_targets", [1, 2])
def test_contributions_against_rows_are_shapley_values(n_targets):
    """Rows and background rows that lack values of the leaves' lines: these are then of no effect."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    X[::7, 0], X[3::11, 2], X[5, 1] = np.nan, np.nan, np.inf
    y = np.nan_to_num(X[:, 0]) * np.clip(X[:, 1], -3, 3) + np.abs(X[:, 3])
    model = GradientBoostingRegressor(n_estimators=6, linear_leaves=True, max_leaf_nodes=8, min_samples_leaf=10)
    model.fit(X, y if n_targets == 1 else np.stack([y, X[:, 4] - y], axis=1))
    rows, others = X[:20], X[::40]
    found = model.explain(rows, others).values.reshape(20, 5, n_targets)
    both = model.explain(rows, others, interactions=True).values.reshape(20, 5, 5, n_targets)
    for i, row in enumerate(rows):
        expected = naive_shapley.against_rows(model.predict, row, others)[:, :-1]
        np.testing.assert_allclose(found[i].T, expected, atol=1e-12)
        expected = naive_shapley.against_rows(model.predict, row, others, naive_shapley.shapley_interactions)
        np.testing.assert_allclose(np.moveaxis(both[i], -1, 0), expected[:, :-1, :-1], atol=1e-12)
    np.testing.assert_array_equal(model.set_params(n_jobs=2).explain(X, others).values[:20].reshape(found.shape), found)


@pytest.mark.slow
def test_probabilities_against_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    model = GradientBoostingClassifier(n_estimators=5, linear_leaves=True).fit(X, X[:, 0] * X[:, 1] > 0.2)
    found = model.explain(X[:50], X[::20], output="probability")
    expected = 0
    for row in range(0, 300, 20):
        raw = model.explain(X[:50], X[row : row + 1]).values
        change = model.predict_proba(X[:50])[:, 1] - model.predict_proba(X[row : row + 1])[:, 1]
        total = raw.sum(axis=1)
        slope = np.divide(change, total, out=np.ones(50), where=abs(total) > 1e-12)
        expected = expected + raw * slope[:, None] / 15
    np.testing.assert_allclose(found.values, expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_contributions_add_up(loss, X, rng, tmp_path):
    y = make_target(loss, X, rng)
    model = make_model(loss, n_estimators=50, **LINEAR).fit(X, y)
    said = model.predict_contributions(X)
    raw = np.squeeze(model._ensemble.predict_raw(X))
    np.testing.assert_allclose(said.sum(axis=-1), raw, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.predict_contributions(X, interactions=True).sum(axis=-1), said, atol=1e-9)
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(model.set_params(n_jobs=n_jobs).predict_contributions(X), said)
    refitted = model.refit_leaves(X[::2], y[::2], decay_rate=0.5)
    explained, raw = refitted.predict_contributions(X), np.squeeze(refitted._ensemble.predict_raw(X))
    np.testing.assert_allclose(explained.sum(axis=-1), raw, rtol=1e-9, atol=1e-9)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict_contributions(X), said)
    np.testing.assert_array_equal(model.predict_contributions(X[:1]), said[:1])


def test_a_line_is_explained_by_its_slopes(rng):
    """Where leaves are exact on a plane, contributions are slopes times distances from the mean, as of the plane."""
    X = rng.uniform(-1, 1, (4000, 2))
    y = 3 * X[:, 0] - 2 * X[:, 1]
    model = GradientBoostingRegressor(n_estimators=60, linear_leaves=LinearLeaves(l2=0.0)).fit(X, y)
    said = model.predict_contributions(X)
    np.testing.assert_allclose(said[:, :2], [3, -2] * (X - X.mean(axis=0)), atol=0.05)


def test_a_damaged_file(X):
    arrays = GradientBoostingRegressor(**LINEAR, n_estimators=2).fit(X, np.nan_to_num(X[:, 0]))._ensemble.to_arrays()
    changes = {
        "starts": [arrays["linear.starts"][::-1].copy(), arrays["linear.starts"][:-1], arrays["linear.starts"] + 1],
        "features": [arrays["linear.features"] + 4, arrays["linear.features"].astype(np.int64)],
        "slopes": [arrays["linear.slopes"][:-1]],
        "lower": [arrays["linear.lower"][:-1]],
        "at_means": [arrays["linear.at_means"][:-1]],
    }
    read_trees(arrays)
    for name, wrong in changes.items():
        for array in wrong:
            with pytest.raises(ValueError, match=f"linear.{name}"):
                read_trees(arrays | {f"linear.{name}": array})


def test_a_leaf_as_a_formula(rng):
    X = pd.DataFrame({"size": rng.uniform(0, 10, 400)})
    model = GradientBoostingRegressor(
        n_estimators=1,
        learning_rate=1.0,
        max_leaf_nodes=2,
        linear_leaves=LinearLeaves(l2=0),
        l2_regularization=0,
    )
    model.fit(X, -0.25 * X["size"] + 1)
    line = model.to_text().splitlines()[1]
    constant = 1 - model._ensemble.baseline[0]
    assert line.startswith(f"|   |--- value: {constant:.2f} - 0.25 * size (from 0.0")
    assert line.endswith("where one is missing")
    assert "- 0.25 *" in model.plot_tree().texts[-1].get_text().replace("\n", " ")
    table = model.to_dataframe()
    assert table["slopes"].tolist()[0] == {}
    for node in (1, 2):
        assert table["slopes"][node] == pytest.approx({"size": -0.25}, abs=1e-6)
    assert table["intercept"][1] == pytest.approx(constant, abs=1e-5)
