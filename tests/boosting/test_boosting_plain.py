"""Boosting by trees of least squares on the residuals: the plain form against a naive one, and beside everything."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.engine.losses.column_losses import LeastSquares
from fastens.engine.losses.losses import BinaryLogLoss, Poisson
from fastens.params.options import Growth
from reference import gradient_boosting

N_ROUNDS, RATE = 15, 0.3


@pytest.fixture
def table(rng):
    """Every value of every column has a bin of its own."""
    X = rng.normal(size=(240, 4))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=240)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 3])
def test_regression_is_the_naive_one(table, rng, depth):
    X, y = table
    naive = gradient_boosting.regression(X, y, N_ROUNDS, RATE, depth)
    model = GradientBoostingRegressor.textbook(n_estimators=N_ROUNDS, learning_rate=RATE, max_depth=depth).fit(X, y)
    np.testing.assert_allclose(model.predict(X), naive(X), rtol=1e-9, atol=1e-9)
    if depth == 1:  # deeper down, where in the gap a threshold lies depends on the rows that are looked at
        X = rng.normal(size=(1000, 4))
        np.testing.assert_allclose(model.predict(X), naive(X), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("share", [0.5, 0.04])
def test_two_classes_are_the_naive_ones(table, rng, depth, share):
    X, y = table
    y = (y > np.quantile(y, 1 - share)).astype(int)
    naive = gradient_boosting.binary(X, y, N_ROUNDS, RATE, depth)
    model = GradientBoostingClassifier.textbook(n_estimators=N_ROUNDS, learning_rate=RATE, max_depth=depth).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), naive(X), rtol=1e-9, atol=1e-9)
    X = X if depth > 1 else rng.normal(size=(1000, 4))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-naive(X))), rtol=1e-9)


@pytest.mark.slow
def test_three_classes_are_the_naive_ones(table):
    X, y = table
    y = np.digitize(y, [-0.8, 0.6])
    naive = gradient_boosting.multiclass(X, y, 3, N_ROUNDS, RATE, 2)
    model = GradientBoostingClassifier.textbook(n_estimators=N_ROUNDS, learning_rate=RATE, max_depth=2).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), naive(X), rtol=1e-9, atol=1e-9)


def test_residual_splits_differ_from_newton_splits(table):
    X, y = table
    y = (y > np.quantile(y, 0.9)).astype(int)
    roots = []
    for criterion in ("newton", "squared_error"):
        options = {"n_estimators": 30, "l2_regularization": 0.0}
        model = GradientBoostingClassifier(
            growth=Growth(split_criterion=criterion, rows_per_threshold=None), **options
        ).fit(X, y)
        roots.append(model._ensemble.threshold[model._ensemble.node_offsets[:-1]].tolist())
    assert roots[0][0] == roots[1][0]  # at first all hessians are alike
    assert roots[0] != roots[1]


# What holds for boosting holds here --------------------------------------------------

OPTIONS = [
    {},
    {"l2_regularization": 2.0},
    {"subsample": 0.6, "random_state": 0, "oob_score": True},
    {"sampling": "goss", "random_state": 0},
    {"boosting": "dart", "random_state": 0},
    {"growth": Growth(max_delta_step=0.2)},
    {"monotonic_cst": [1, 0, 0, 0, 0]},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_weights_threads_order_saving(rng, tmp_path, options):
    X, y = make_classification(300, 5, flip_y=0.2, random_state=1)
    weight = rng.integers(0, 4, 300)
    growth = options.get("growth", Growth()).replaced({"split_criterion": "squared_error"})
    options = {"n_estimators": 12, "min_samples_leaf": 1, **options, "growth": growth}
    weighted = GradientBoostingClassifier(**options, n_jobs=1).fit(X, y, weight)
    rows = rng.permutation(np.repeat(np.arange(300), weight))
    repeated = GradientBoostingClassifier(**options, n_jobs=2).fit(X[rows], y[rows])
    if "random_state" not in options or "boosting" in options:
        np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    threads = GradientBoostingClassifier(**options, n_jobs=2).fit(X, y, weight)
    np.testing.assert_array_equal(weighted.predict_proba(X), threads.predict_proba(X))
    weighted.save(tmp_path / "model.fastens")
    loaded = fastens.load(tmp_path / "model.fastens")
    assert loaded.growth == growth
    np.testing.assert_array_equal(loaded.predict_proba(X), weighted.predict_proba(X))


def test_several_classes_side_by_side_give_the_same_bits():
    X, y = make_classification(6000, 8, n_informative=6, n_classes=4, random_state=0)
    one, two = (
        GradientBoostingClassifier(n_estimators=4, growth=Growth(split_criterion="squared_error"), n_jobs=n_jobs).fit(
            X, y
        )
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "huber", "expectile", "log_cosh", "poisson", "gamma"]
)
def test_all_losses_learn(loss):
    X, y = load_diabetes(return_X_y=True)
    options = {"quantile": 0.5} if loss == "expectile" else {}
    model = GradientBoostingRegressor(loss, growth=Growth(split_criterion="squared_error"), n_estimators=60, **options)
    assert model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.3


@pytest.mark.parametrize("loss", ["cross_entropy", "cross_entropy_lambda"])
def test_shares_are_learned_as_classes_are(loss, rng):
    X = rng.normal(size=(200, 3))
    labels = (X[:, 0] + rng.normal(size=200) > 0).astype(float)
    options = {"n_estimators": 10, "max_depth": 2}
    shares = GradientBoostingRegressor.textbook(loss=loss, **options).fit(X, labels)
    classes = GradientBoostingClassifier.textbook(**options).fit(X, labels)
    np.testing.assert_allclose(shares._raw(X), classes._raw(X), rtol=1e-9)


def test_where_leaves_have_no_hessian_nothing_changes():
    X, y = load_diabetes(return_X_y=True)
    a, b = (
        GradientBoostingRegressor("absolute_error", growth=Growth(split_criterion=c)).fit(X, y)
        for c in ("newton", "squared_error")
    )
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


@pytest.mark.slow
def test_several_targets_and_levels(table):
    X, y = table
    Y = np.column_stack([y, np.abs(y)])
    model = GradientBoostingRegressor(growth=Growth(split_criterion="squared_error"), n_estimators=80).fit(X, Y)
    assert model.score(X, Y) > 0.7
    levels = GradientBoostingRegressor(
        "expectile", quantile=[0.2, 0.8], growth=Growth(split_criterion="squared_error")
    ).fit(X, Y)
    assert levels.predict(X).shape == (240, 2, 2)
    labels = GradientBoostingClassifier.textbook(n_estimators=60).fit(X, np.digitize(Y, [-0.5, 0.5]))
    assert labels.score(X, np.digitize(Y, [-0.5, 0.5])) > 0.9


def test_continuing_and_refitting_leaves():
    X, y = load_breast_cancer(return_X_y=True)
    at_once = GradientBoostingClassifier.textbook(n_estimators=10).fit(X, y)
    warm = GradientBoostingClassifier.textbook(n_estimators=4, warm_start=True).fit(X, y)
    warm.set_params(n_estimators=10).fit(X, y)
    np.testing.assert_array_equal(warm.predict_proba(X), at_once.predict_proba(X))
    same = at_once.refit_leaves(X, y, decay_rate=0.0)
    np.testing.assert_allclose(same.decision_function(X), at_once.decision_function(X), rtol=1e-9)


@pytest.mark.slow
def test_rows_that_cannot_be_right_leave_everything_finite():
    X, y = np.repeat([[0.0], [1.0]], 500, axis=0), np.repeat([0, 1], 500)
    y[[0, -1]] = 1, 0
    model = GradientBoostingClassifier.textbook(n_estimators=300, learning_rate=1.0).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    X = np.arange(1000.0)[:, None]
    model = GradientBoostingClassifier.textbook(n_estimators=300, learning_rate=1.0, max_depth=2).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


def test_incompatible_parameters_raise():
    with pytest.raises(ValueError, match="split_criterion must be 'newton' with linear_leaves"):
        GradientBoostingRegressor(growth=Growth(split_criterion="squared_error"), linear_leaves=True).fit(
            [[0.0], [1.0]], [0, 1]
        )
    with pytest.raises(ValueError, match="split_criterion must be 'newton' or 'squared_error'; got 'gini'"):
        GradientBoostingClassifier(growth=Growth(split_criterion="gini")).fit([[0.0], [1.0]], [0, 1])


# The sums of leaves --------------------------------------------------


def test_leaves_by_hand(rng):
    y, raw = rng.integers(0, 2, 50).astype(float), rng.normal(size=(1, 50))
    loss, weight = LeastSquares(BinaryLogLoss(), l2=0.5), rng.uniform(size=50)
    loss.gradients(y, raw, np.empty((1, 50), dtype=np.float32), None)
    p, starts = 1 / (1 + np.exp(-raw[0])), np.array([0, 7, 8, 50])
    found = loss.leaf_values(loss.residuals(y, raw, 0), starts, weight)
    for value, rows in zip(found, map(slice, starts[:-1], starts[1:]), strict=True):
        exact = (weight * (y - p))[rows].sum() / ((weight * p * (1 - p))[rows].sum() + 0.5)
        assert value == pytest.approx(exact, rel=1e-12)


def test_losses_without_double_precision_round_to_single(rng):
    y, raw = rng.poisson(2.0, 40).astype(float), rng.normal(size=(1, 40))
    loss = LeastSquares(Poisson())
    loss.gradients(y, raw, np.empty((1, 40), dtype=np.float32), None)
    found = loss.leaf_values(loss.residuals(y, raw, 0), np.array([0, 40]))
    assert found[0] == pytest.approx((y - np.exp(raw[0])).sum() / np.exp(raw[0]).sum(), rel=1e-6)
