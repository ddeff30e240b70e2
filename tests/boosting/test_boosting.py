"""The boosting estimators as their user sees them: parameters, losses, weights."""

from __future__ import annotations

import io
import math
import sys

import numpy as np
import pytest

from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.monitoring.callbacks import announce, logger
from fastens.params.options import Goss, Growth, HuberLoss
from reference.models import LOSSES, make_model, make_target, outputs


@pytest.fixture(params=LOSSES)
def loss(request):
    return request.param


# Parameters --------------------------------------------------


@pytest.mark.parametrize(("name", "value", "other"), [("quantile", 0.2, 0.8), ("loss", HuberLoss(0.5), "huber")])
def test_parameters_of_losses_act(name, value, other, X, rng):
    loss = "quantile" if name == "quantile" else "huber"
    y = make_target(loss, X, rng)
    models = (GradientBoostingRegressor(**{"loss": loss, name: given}) for given in (value, other))
    low, high = (model.fit(X, y).predict(X) for model in models)
    assert not np.array_equal(low, high)
    if name == "quantile":
        assert np.mean(y <= low) == pytest.approx(0.2, abs=0.1)
        assert np.mean(y <= high) == pytest.approx(0.8, abs=0.1)


def test_limits_of_trees_hold(rng):
    X = rng.standard_normal((600, 4))
    y = make_target("squared_error", X, rng)
    limits = {"max_leaf_nodes": 12, "max_depth": 4, "min_samples_leaf": 25, "n_estimators": 5}
    trees = GradientBoostingRegressor(**limits).fit(X, y)._ensemble
    assert trees.n_trees == 5
    assert trees.n_leaves.max() == 12
    assert trees.max_depth.max() == 4
    assert trees.n_samples[trees.left_child == 0].min() >= 25
    level_wise = GradientBoostingRegressor(n_estimators=2, max_leaf_nodes=None, max_depth=3).fit(X, y)._ensemble
    assert level_wise.n_leaves.tolist() == [8, 8]
    bins = GradientBoostingRegressor(n_estimators=3, max_bins=4).fit(X, y)._ensemble.binning
    assert bins.n_codes.tolist() == [5] * 4


@pytest.mark.parametrize("count", [3, np.int64(3), 0.75, np.float32(0.75)])
def test_max_features_as_number_or_share(count, X, rng):
    y = make_target("squared_error", X, rng)
    expected = GradientBoostingRegressor(n_estimators=5, max_features=3, random_state=1).fit(X, y).predict(X)
    found = GradientBoostingRegressor(n_estimators=5, max_features=count, random_state=1).fit(X, y).predict(X)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("randomness", [{"subsample": 0.5}, {"max_features": 1}, {}])
def test_random_state_fixes_what_is_drawn(randomness, X, rng):
    """Without one, rows are others each time; features, if nothing else is drawn, the same."""
    y = make_target("squared_error", X, rng)

    def predict(seed):
        return GradientBoostingRegressor(n_estimators=5, random_state=seed, **randomness).fit(X, y).predict(X)

    np.testing.assert_array_equal(predict(3), predict(3))
    np.testing.assert_array_equal(predict(np.random.RandomState(3)), predict(3))
    assert not np.array_equal(predict(3), predict(4))
    assert np.array_equal(predict(None), predict(None)) == ("subsample" not in randomness)


def test_nothing_else_is_drawn_unless_asked(X, rng):
    y = make_target("squared_error", X, rng)
    first, second = (
        GradientBoostingRegressor(max_features=1.0, random_state=seed).fit(X, y).predict(X) for seed in (1, None)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        ("poisson", [-1, 1, 1, 1], r"y must not be negative for loss='poisson'; its smallest value is -1"),
        ("poisson", [0, 0, 0, 0], r"y must have a positive sum for loss='poisson'"),
        ("gamma", [0, 1, 1, 1], r"y must be positive for loss='gamma'; its smallest value is 0"),
    ],
)
def test_targets_that_a_loss_cannot_have(loss, y, message):
    with pytest.raises(ValueError, match=message):
        make_model(loss).fit(np.ones((4, 1)), y)


def test_verbose_reports_every_n_rounds(X, rng, caplog):
    y = make_target("squared_error", X, rng)
    GradientBoostingRegressor(n_estimators=5, verbose=2).fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    lines = caplog.messages
    assert [line.split()[0] for line in lines] == ["[2/5]", "[4/5]", "[5/5]"]
    assert all("training loss" in line and "validation loss" in line for line in lines)
    caplog.clear()
    GradientBoostingRegressor(n_estimators=5).fit(X, y)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("encoding", "shown"), [("cp1252", "B\xe4ume ?\n"), ("utf-8", "B\xe4ume \u2192\n"), (None, "")]
)
def test_consoles_that_lack_a_letter_do_not_end_a_fit(monkeypatch, encoding, shown):
    stream = None if encoding is None else io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", False)
    announce("B\xe4ume \u2192")
    if stream is not None:
        stream.seek(0)
        assert stream.read() == shown


# Losses --------------------------------------------------


def test_training_lowers_the_loss(loss, X, rng):
    model = make_model(loss, n_estimators=30).fit(X, make_target(loss, X, rng))
    assert model.evals_result_["training"]["loss"].shape == (30,)
    assert model.evals_result_["training"]["loss"][-1] < 0.92 * model.evals_result_["training"]["loss"][0]
    assert list(model.evals_result_) == ["training"]


START = {
    "squared_error": np.mean,
    "absolute_error": lambda y: np.sort(y)[len(y) // 2 - 1],
    "quantile": lambda y: np.quantile(y, 0.8, method="inverted_cdf"),
    "huber": lambda y: np.sort(y)[len(y) // 2 - 1],
    "poisson": np.mean,
    "gamma": np.mean,
}


@pytest.mark.parametrize("loss", START)
def test_without_splits_the_best_constant_is_predicted(loss, X, rng):
    y = make_target(loss, X, rng)
    found = make_model(loss, n_estimators=1, min_samples_leaf=400).fit(X, y).predict(X)
    assert len(set(found)) == 1
    # A tree of one leaf moves the means by nothing, and the limits of Huber's loss hold only about.
    np.testing.assert_allclose(found[0], START[loss](y), atol=0.02 if loss == "huber" else 1e-6)


@pytest.mark.parametrize("loss", ["binary", "multiclass"])
def test_without_splits_the_shares_of_classes_are_predicted(loss, X, rng):
    y = make_target(loss, X, rng)[:390]
    model = make_model(loss, n_estimators=1, min_samples_leaf=400).fit(X[:390], y)
    np.testing.assert_allclose(model.predict_proba(X), np.tile(np.bincount(y) / 390, (400, 1)), atol=1e-6)


def test_leaf_values_are_newton_steps():
    X = np.repeat([[0.0], [1.0]], [40, 60], axis=0)
    y = np.r_[np.repeat([0, 1], [30, 10]), np.repeat([0, 1], [12, 48])]
    p = y.mean()
    model = GradientBoostingClassifier(n_estimators=1, learning_rate=0.5, l2_regularization=2.0).fit(X, y)
    for x, rows in ((0.0, y[:40]), (1.0, y[40:])):
        expected = math.log(p / (1 - p)) + 0.5 * (rows - p).sum() / (len(rows) * p * (1 - p) + 2.0)
        assert model.decision_function([[x]])[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "quantile", "huber", "poisson", "gamma"], ids=lambda loss: loss
)
@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e12])
def test_units_of_the_target_do_not_matter(loss, factor, X, rng):
    y = make_target(loss, X, rng)
    # What hessians are compared with is in units of the target for the losses with a log link.
    options = {"growth": Growth(min_child_weight=0.0), "l2_regularization": 0.0}
    expected = make_model(loss, **options).fit(X, y).predict(X)
    found = make_model(loss, **options).fit(X, y * factor).predict(X)
    np.testing.assert_allclose(found / factor, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
def test_heavy_tails(loss, rng):
    X = rng.standard_normal((2000, 3))
    y = X[:, 0] + rng.standard_cauchy(2000)
    y[:3] = [1e14, -1e13, 1e12]
    model = make_model(loss, n_estimators=50).fit(X, y)
    found = model.predict(X)
    assert np.isfinite(found).all()
    if loss in ("absolute_error", "huber"):
        centre = np.abs(y) < 1e3
        assert np.corrcoef(found[centre], X[centre, 0])[0, 1] > 0.5


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
@pytest.mark.parametrize("learning_rate", [0.1, 1.0])
def test_heavy_tails_of_positive_targets(loss, learning_rate, rng):
    X = rng.standard_normal((2000, 3))
    y = np.ceil(np.exp(X[:, 0] + 2 * rng.standard_normal(2000)))
    y[:2] = [1e12, 1e9]
    model = make_model(loss, n_estimators=50, learning_rate=learning_rate, min_samples_leaf=1).fit(X, y)
    found = model.predict(X)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert model.evals_result_["training"]["loss"][-1] < model.evals_result_["training"]["loss"][0]


def test_separable_classes_stay_finite():
    X = np.repeat([[0.0], [1.0]], 50, axis=0)
    model = GradientBoostingClassifier(n_estimators=500, learning_rate=1.0).fit(X, X[:, 0])
    found = model.predict_proba(X)
    assert np.isfinite(model.decision_function(X)).all()
    np.testing.assert_allclose(found[:, 1], X[:, 0], atol=1e-3)
    np.testing.assert_allclose(found.sum(axis=1), 1)


# Weights --------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_repetition(loss, seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((150, 4)), 1 if seed else 8)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = rng.integers(0, 6, 150)
    y = make_target(loss, X, rng)
    weight = rng.integers(0, 5, 150)
    weight[:3] = [1000, 0, 1]
    options = {"min_samples_leaf": 1, "max_bins": [255, 12, 5][seed], "categorical_features": [3]}
    weighted = make_model(loss, **options).fit(X, y, sample_weight=weight)
    repeated = make_model(loss, **options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(outputs(weighted, X), outputs(repeated, X))


def test_order_of_rows_does_not_matter(loss, X, rng):
    y = make_target(loss, X, rng)
    order = rng.permutation(len(X))
    first = make_model(loss, max_bins=20).fit(X, y)
    second = make_model(loss, max_bins=20).fit(X[order], y[order])
    np.testing.assert_array_equal(outputs(first, X), outputs(second, X))


def test_rows_of_no_weight_are_absent(loss, X, rng):
    y = make_target(loss, X, rng)
    weight = (rng.random(len(X)) < 0.6).astype(float)
    wild = np.where(weight[:, None] > 0, X, 1e300 * np.sign(X))
    first = make_model(loss).fit(wild, y, weight)
    second = make_model(loss).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_array_equal(outputs(first, X), outputs(second, X))


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e6])
def test_scale_of_weights_does_not_matter(loss, scale, X, rng):
    y = make_target(loss, X, rng)
    weight = rng.random(len(X)) + 0.1
    # Large weights are many rows, beside which a penalty counts for less.
    options = {"growth": Growth(min_child_weight=0), "l2_regularization": 1.0 if scale < 1 else 0.0}
    first, second = (make_model(loss, **options).fit(X, y, w) for w in (weight, scale * weight))
    np.testing.assert_allclose(outputs(first, X), outputs(second, X), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    "class_weight",
    ["balanced", {0: 0.3, 1: 0.7, 2: 0.1}, {0: 1, 1: 2.5, 2: 1}, {0: 1, 1: 3, 2: 2}, {0: 1, 1: 1e7, 2: 1}],
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"min_samples_leaf": 1, "subsample": 0.7, "categorical_features": [3]},
        {"growth": Growth(min_weight_leaf=2.5, rows_per_threshold=None), "sampling": Goss(0.3, 0.3)},
    ],
)
def test_integer_weights_are_copies_with_class_weights(rng, class_weight, options):
    X = np.column_stack([rng.normal(size=(300, 3)), rng.integers(0, 6, 300)])
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=300), [-0.5, 0.8])
    weight = rng.integers(1, 5, 300)
    make = lambda: GradientBoostingClassifier(  # noqa: E731
        n_estimators=5, class_weight=class_weight, random_state=0, **options
    )
    weighted = make().fit(X, y, sample_weight=weight)
    copies = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    copied = make().fit(*copies)
    np.testing.assert_array_equal(weighted.predict_proba(X), copied.predict_proba(X))
    refitted = weighted.refit_leaves(X, y, weight, decay_rate=0.0), copied.refit_leaves(*copies, decay_rate=0.0)
    np.testing.assert_allclose(*(model.predict_proba(X) for model in refitted), rtol=1e-9)


def test_least_weights_of_leaves_where_copies_are_millions(rng):
    """The weight of one copy is then less than a step of those that leaves sum up."""
    X = rng.normal(size=(1000, 3))
    y = (X[:, 0] + rng.normal(size=1000) > 0.8).astype(int)
    options = {"n_estimators": 3, "min_samples_leaf": 1, "class_weight": {0: 0.6, 1: 3.1}}
    options |= {"l2_regularization": 0.0, "split_penalty": 0.0, "max_features": 1.0, "weight_type": "frequency"}
    once, often = (
        GradientBoostingClassifier(growth=Growth(min_weight_leaf=100.0 * n, rows_per_threshold=None), **options).fit(
            X, y, sample_weight=np.full(1000, n)
        )
        for n in (1.0, 2e6)
    )
    np.testing.assert_array_equal(often.apply(X), once.apply(X))


@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.3, 1: 0.7}])
def test_leaves_refitted_to_integer_weights_match_copies(rng, class_weight):
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=200) > 0.5).astype(int)
    weight = rng.integers(1, 5, 200)
    model = GradientBoostingClassifier(n_estimators=5, class_weight=class_weight).fit(X, y)
    weighted = model.refit_leaves(X, y, sample_weight=weight)
    copied = model.refit_leaves(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), rtol=1e-9)


def test_class_weight_is_sample_weight(X, rng):
    y = make_target("multiclass", X, rng)
    labels = np.array(["a", "b", "c"])[y]
    weight = rng.random(len(X))
    by_class = GradientBoostingClassifier(n_estimators=5, class_weight={"a": 3, "c": 0.5}).fit(X, labels, weight)
    by_row = GradientBoostingClassifier(n_estimators=5).fit(X, labels, weight * np.array([3, 1, 0.5])[y])
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    rare = np.where(rng.random(len(X)) < 0.05, 1, 0)
    balanced = GradientBoostingClassifier(n_estimators=1, min_samples_leaf=400, class_weight="balanced").fit(X, rare)
    np.testing.assert_allclose(balanced.predict_proba(X), 0.5, atol=1e-6)
