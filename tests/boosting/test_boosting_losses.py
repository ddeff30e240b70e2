"""Losses through the estimators: what is predicted, on which scale, and how well."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.model_selection import cross_val_score

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.params.options import Growth, TweedieLoss
from reference.sklearn_checks import parametrize_with_checks

QUICK = {"n_estimators": 40, "learning_rate": 0.2, "min_samples_leaf": 100, "random_state": 0}


def skewed(rng, n_rows=3000):
    """A target whose spread grows with the first column."""
    X = rng.uniform(size=(n_rows, 3))
    return X, X[:, 1] + (0.2 + X[:, 0]) * rng.standard_normal(n_rows)


@parametrize_with_checks(
    [
        GradientBoostingRegressor(loss="log_cosh"),
        GradientBoostingRegressor(loss="expectile", quantile=0.7, learning_rate=0.3),
        GradientBoostingClassifier(loss="exponential", n_estimators=20),
    ]
)
def test_sklearn_check(check):
    check()


def test_quantiles_cover_and_never_cross(rng):
    X, y = skewed(rng)
    levels = [0.05, 0.1, 0.5, 0.9, 0.95]
    options = {"loss": "quantile", "max_features": 1.0, **QUICK}
    model = GradientBoostingRegressor(quantile=levels, **options).fit(X[:2000], y[:2000])
    found = model.predict(X[2000:])
    assert found.shape == (1000, 5)
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_allclose((y[2000:, None] <= found).mean(axis=0), levels, atol=0.05)
    raw = model._ensemble.predict_raw(X)
    assert (np.diff(raw, axis=1) < 0).any(), "sorting had nothing to do"
    alone = GradientBoostingRegressor(quantile=0.9, **options).fit(X[:2000], y[:2000])
    np.testing.assert_array_equal(raw[:, 3], alone._ensemble.predict_raw(X)[:, 0])


def test_expectiles_are_asymmetric_means(rng):
    (X, y), options = skewed(rng), {**QUICK, "l2_regularization": 0.0}
    low, mean, high = (
        GradientBoostingRegressor(loss="expectile", quantile=level, **options).fit(X, y).predict(X)
        for level in (0.1, 0.5, 0.9)
    )
    plain = GradientBoostingRegressor(**options).fit(X, y).predict(X)
    assert np.mean((mean - plain) ** 2) < 0.03 * np.var(plain)
    assert (low < high).mean() > 0.99
    side = np.where(y > high, 0.9, 0.1)
    assert abs(np.sum(side * (y - high))) < 0.02 * np.sum(side * abs(y - high))


def test_tweedie_finds_the_mean_of_claims(rng):
    X = rng.uniform(size=(4000, 2))
    mean = np.exp(X[:, 0])
    y = np.array([rng.gamma(2.0, 0.5, n).sum() for n in rng.poisson(mean)])
    assert (y == 0).any()
    model = GradientBoostingRegressor(loss="tweedie", **QUICK).fit(X, y)
    assert np.corrcoef(model.predict(X), mean)[0, 1] > 0.8
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.03)
    other = GradientBoostingRegressor(loss=TweedieLoss(variance_power=1.9), **QUICK).fit(X, y)
    assert (other.predict(X) != model.predict(X)).any()


def test_log_cosh_resists_outliers(rng):
    X = rng.uniform(size=(1000, 1))
    y = X[:, 0] + 0.1 * rng.standard_normal(1000)
    y[:50] += 1000
    robust = GradientBoostingRegressor(loss="log_cosh", **QUICK).fit(X, y)
    assert np.abs(robust.predict(X) - X[:, 0]).mean() < 0.3


@pytest.mark.parametrize("n_targets", [1, 2])
def test_log_cosh_learns_in_any_unit(rng, n_targets):
    """It learns dollars as absolute errors do, and thousandths as squared errors."""
    X = rng.normal(size=(600, 3))
    y = X[:, :n_targets] + 0.3 * rng.standard_normal((600, n_targets))
    y = y[:, 0] if n_targets == 1 else y
    options = {"n_estimators": 30, "min_samples_leaf": 20, "max_features": 1.0}
    for units, other in (((2.0**20, 2.0**50), "absolute_error"), ((2.0**-20, 2.0**-50), "squared_error")):
        small, large = (
            GradientBoostingRegressor("log_cosh", **options).fit(X, unit * y).predict(X) / unit for unit in units
        )
        same = GradientBoostingRegressor(other, split_penalty=3.0, **options).fit(X, y).predict(X)
        for found in (small, large):
            assert np.mean((found - same) ** 2) < 0.002 * np.var(y)


def test_cross_entropy_takes_probabilities(rng):
    X = rng.uniform(size=(2000, 2))
    share = 0.1 + 0.8 * X[:, 0]
    soft = GradientBoostingRegressor(loss="cross_entropy", **QUICK).fit(X, share)
    assert np.abs(soft.predict(X) - share).max() < 0.05
    hard = (rng.random(2000) < share).astype(float)
    numbers = GradientBoostingRegressor(loss="cross_entropy", **QUICK).fit(X, hard)
    classes = GradientBoostingClassifier(**QUICK).fit(X, hard)
    np.testing.assert_array_equal(numbers.predict(X), classes.predict_proba(X)[:, 1])


def test_exponential_loss_gives_probabilities(rng):
    X = rng.uniform(size=(2000, 2))
    share = 0.1 + 0.8 * X[:, 0]
    y = rng.random(2000) < share
    model = GradientBoostingClassifier(loss="exponential", n_estimators=30, min_samples_leaf=100).fit(X, y)
    assert np.abs(model.predict_proba(X)[:, 1] - share).mean() < 0.06
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X)[:, 1] > 0.5)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        GradientBoostingClassifier(loss="exponential").fit(X, np.arange(2000) % 3)


def squares(y, raw):
    return raw - y, np.ones_like(y)


class LogLoss:
    @staticmethod
    def derivatives(y, raw):
        p = 1 / (1 + np.exp(-raw))
        return p - y, p * (1 - p)

    @staticmethod
    def loss(y, raw):
        return np.logaddexp(0, raw) - y * raw


def test_custom_losses_equal_those_of_the_library(rng):
    X, y = skewed(rng, 2000)
    y -= y.mean()
    own = GradientBoostingRegressor(loss=squares, **QUICK).fit(X, y)
    ours = GradientBoostingRegressor(**QUICK).fit(X, y)
    assert np.abs(own.predict(X) - ours.predict(X)).mean() < 0.05
    classes = np.arange(2000) % 2
    own = GradientBoostingClassifier(loss=LogLoss(), early_stopping=True, **QUICK).fit(X, classes)
    assert len(own.evals_result_["validation"]["loss"]) > 0
    assert np.isfinite(own.evals_result_["validation"]["loss"]).all()
    own = GradientBoostingClassifier(loss=LogLoss(), **QUICK).fit(X, classes)
    ours = GradientBoostingClassifier(l2_regularization=1.0, growth=Growth(rows_per_threshold=None), **QUICK)
    ours.fit(X, classes)
    np.testing.assert_allclose(own.predict_proba(X), ours.predict_proba(X), atol=1e-6)
    assert (pickle.loads(pickle.dumps(own)).predict(X) == own.predict(X)).all()


def test_custom_losses_cannot_write_over_the_rows(rng):
    X, y = skewed(rng, 100)

    def in_place(y, raw):
        raw -= y
        return raw, np.ones_like(y)

    with pytest.raises(ValueError, match="read-only"):
        GradientBoostingRegressor(loss=in_place).fit(X, y)

    class Sorting:
        def derivatives(self, y, raw):
            return raw - y, np.ones_like(y)

        def start(self, y, sample_weight):
            y.sort()
            return y[len(y) // 2]

    with pytest.raises(ValueError, match="read-only"):
        GradientBoostingRegressor(loss=Sorting()).fit(X, y)


def test_levels_of_any_kind_of_float(rng):
    X, y = skewed(rng, 200)
    for loss in ("quantile", "expectile"):
        model = GradientBoostingRegressor(loss, quantile=np.float32(0.25), n_estimators=3).fit(X, y)
        same = GradientBoostingRegressor(loss, quantile=0.25, n_estimators=3).fit(X, y)
        assert (model.predict(X) == same.predict(X)).all()


def test_custom_losses_are_not_saved(rng, tmp_path):
    X, y = skewed(rng, 100)
    model = GradientBoostingRegressor(loss=squares, n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match=r"loss=<function squares.*cannot be saved"):
        model.save(tmp_path / "model.fastens")


def test_early_stopping_needs_a_loss(rng):
    X, y = skewed(rng, 200)
    with pytest.raises(ValueError, match=r"loss must have a method loss\(y, raw\) for early stopping and"):
        GradientBoostingRegressor(loss=squares, early_stopping=True).fit(X, y)


def test_new_losses_are_saved(rng, tmp_path):
    X, y = skewed(rng, 300)
    for options in ({"loss": "quantile", "quantile": [0.1, 0.9]}, {"loss": TweedieLoss(variance_power=1.2)}):
        model = GradientBoostingRegressor(n_estimators=5, **options).fit(X, abs(y))
        model.save(tmp_path / "model.fastens")
        same = fastens.load(tmp_path / "model.fastens")
        np.testing.assert_array_equal(same.predict(X), model.predict(X))
        assert same.get_params() == model.get_params()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": int}, "loss must be one of .* or object that returns gradients and hessians; got <class 'int'>"),
        ({"loss": "hinge"}, "loss must be one of .* or object that returns gradients and hessians; got 'hinge'"),
        ({"loss": TweedieLoss(variance_power=2.0)}, "loss.variance_power must be a number greater than 1"),
        ({"loss": "quantile", "quantile": [0.9, 0.1]}, "quantile must list ascending levels for loss="),
        ({"quantile": []}, "quantile must be a number greater than 0 and less than 1 or a list of such numbers"),
        (
            {"quantile": [0.5, 2.0]},
            "quantile must be a number greater than 0 and less than 1 or a list of such numbers",
        ),
        ({"loss": "quantile", "quantile": 3}, "quantile must be a number greater than 0 and less than 1"),
    ],
)
def test_errors(options, message, rng):
    X, y = skewed(rng, 50)
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(**options).fit(X, y)


def test_score_of_several_quantiles_is_their_mean_d2(rng):
    X = rng.normal(size=(400, 3))
    y, weight, levels = X[:, 0] + rng.normal(size=400), rng.random(400), [0.1, 0.5, 0.9]
    model = GradientBoostingRegressor("quantile", quantile=levels, n_estimators=8).fit(X, y)
    of_each = [
        d2_pinball_score(y, column, alpha=level, sample_weight=weight)
        for column, level in zip(model.predict(X).T, levels, strict=True)
    ]
    assert model.score(X, y, weight) == pytest.approx(np.mean(of_each))
    stages = list(model.staged_score(X, y, weight))
    assert stages[-1] == model.score(X, y, weight)
    assert stages[-1] > stages[0] > 0
    mean = GradientBoostingRegressor(n_estimators=8).fit(X, y)
    assert mean.score(X, y) == pytest.approx(r2_score(y, mean.predict(X)))
    one = GradientBoostingRegressor("quantile", quantile=0.5, n_estimators=8).fit(X, y)
    assert one.score(X, y) == pytest.approx(r2_score(y, one.predict(X)))
    assert cross_val_score(model, X, y, cv=3).mean() > 0


def test_l2_follows_the_noise_of_classes(rng):
    """Three times the root of the squared gradients over the hessians; of numbers it is 1."""
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    start = np.full(400, 2.0)  # the noise of odds that are far off is not 1
    p = 1 / (1 + np.exp(-2.0))
    noise = ((p - y) ** 2).sum() / (400 * p * (1 - p))
    options = {"n_estimators": 1, "learning_rate": 1.0, "random_state": 0}
    found = GradientBoostingClassifier(**options).fit(X, y, init_score=start)
    given = GradientBoostingClassifier(l2_regularization=3 * noise**0.5, **options).fit(X, y, init_score=start)
    np.testing.assert_allclose(found._ensemble.value, given._ensemble.value, rtol=1e-5)
    other = GradientBoostingClassifier(l2_regularization=3.0, **options).fit(X, y, init_score=start)
    assert not np.allclose(found.predict_proba(X), other.predict_proba(X), rtol=1e-2)
    of_numbers = (GradientBoostingRegressor(l2_regularization=l2, **options).fit(X, X[:, 1]) for l2 in (None, 1.0))
    np.testing.assert_array_equal(*(model.predict(X) for model in of_numbers))


@pytest.mark.parametrize("weight", [None, "copies", "shares"])
def test_refitted_leaves_have_the_l2_of_growth(rng, weight):
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int) + (X[:, 1] > 0)
    weights = {None: None, "copies": rng.integers(1, 4, 400), "shares": rng.uniform(0.1, 3.0, 400)}[weight]
    model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(X, y, weights)
    same = model.refit_leaves(X, y, weights, decay_rate=0.0)
    np.testing.assert_allclose(same.predict_proba(X), model.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "log_cosh"])
def test_small_targets_are_boosted_as_long_as_large_ones(loss, rng):
    """Losses of targets of a thousandth are below a millionth: early stopping looks at shares of the first."""
    X = rng.normal(size=(400, 3))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=400)
    parameters = {"n_estimators": 60, "n_iter_no_change": 3, "loss": loss}
    first, scale = (2.0**-10, 2.0**-30) if loss == "log_cosh" else (2.0**-3, 2.0**-20)
    rounds = [
        GradientBoostingRegressor(**parameters)
        .fit(X[:300], y[:300] * scale, X_val=X[300:], y_val=y[300:] * scale)
        .n_estimators_
        for scale in (first, scale)
    ]
    assert rounds[0] == rounds[1] > 10


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_l2_of_a_logarithm_follows_the_noise(rng, loss):
    side = np.arange(400) % 4 == 0
    y = rng.gamma(np.where(side, 2.0, 1.0)) + 0.1
    one_split = {"max_leaf_nodes": 2, "n_estimators": 1, "learning_rate": 1.0, "split_penalty": 0.0}
    model = GradientBoostingRegressor(loss, **one_split).fit(side[:, None], y)
    mean = y.mean()
    twin = {
        "poisson": (mean - y, np.full(400, mean)),
        "gamma": (1 - y / mean, y / mean),
        "tweedie": (np.sqrt(mean) - y / np.sqrt(mean), (np.sqrt(mean) + y / np.sqrt(mean)) / 2),
    }
    gradients, hessians = twin[loss]
    l2 = 30 * (gradients**2).sum() / hessians.sum()
    steps = np.array([-gradients[part].sum() / (hessians[part].sum() + l2) for part in (~side, side)])
    damped = {
        "poisson": np.where(steps > 0, np.log1p(steps), steps),
        "gamma": np.where(steps < 0, -np.log1p(-steps), steps),
        "tweedie": np.log1p(steps / 2) - np.log1p(-steps / 2),
    }
    np.testing.assert_allclose(model.predict([[0], [1]]), mean * np.exp(damped[loss]), rtol=1e-6)


@pytest.mark.parametrize("level", [0.1, 0.97])
def test_l2_of_expectiles_follows_the_noise_of_a_constant(rng, level):
    side = np.arange(400) % 4 == 0
    y, weight = rng.gamma(np.where(side, 8.0, 1.0)), rng.integers(1, 4, 400)
    options = {"n_estimators": 3, "learning_rate": 1.0, "split_penalty": 0.0, "random_state": 0}
    model = GradientBoostingRegressor("expectile", quantile=level, **options).fit(side[:, None], y, weight)
    raw, unit = np.full(400, model._ensemble.baseline[0]), None
    for _ in range(3):
        hessians = weight * np.where(y > raw, level, 1 - level)
        gradients = hessians * (raw - y)
        noise = (gradients**2 / weight).sum() / hessians.sum()
        unit = unit or noise
        l2 = 20 * np.sqrt(noise / unit)
        for part in (side, ~side):
            raw[part] -= gradients[part].sum() / (hessians[part].sum() + l2)
    assert l2 < 18
    np.testing.assert_allclose(model.predict(side[:, None]), raw, rtol=1e-5)
    np.testing.assert_allclose(
        model.refit_leaves(side[:, None], y, weight, decay_rate=0.0).predict(side[:, None]), raw, rtol=1e-5
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_unit_of_the_target_of_an_expectile_is_of_no_account(rng, weighted):
    X = rng.normal(size=(500, 3))
    y = X[:, :2] + rng.exponential(size=(500, 2))
    weight = rng.uniform(size=500) if weighted else None
    for target in (y[:, 0], y):
        model = GradientBoostingRegressor("expectile", quantile=[0.3, 0.95], n_estimators=20, random_state=0)
        predicted = model.fit(X, target, weight).predict(X)
        for unit in (2.0**-60, 2.0**12):
            of_unit = model.fit(X, unit * target, weight).predict(X)
            np.testing.assert_allclose(of_unit, unit * predicted, rtol=1e-6)
    assert np.isfinite(model.fit(X, np.zeros((500, 2))).predict(X)).all()


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
@pytest.mark.parametrize("weighted", [False, True])
def test_unit_of_a_positive_target_is_of_no_account(rng, loss, weighted):
    X = rng.normal(size=(500, 3))
    y = rng.poisson(np.exp(X[:, 0])) + (0.5 if loss == "gamma" else 0.0)
    weight = rng.uniform(size=500) if weighted else None
    model = GradientBoostingRegressor(loss, n_estimators=20, random_state=0)
    predicted = model.fit(X, y, sample_weight=weight).predict(X)
    for unit in (2.0**-7, 2.0**12):
        of_unit = model.fit(X, unit * y, sample_weight=weight).predict(X)
        np.testing.assert_allclose(of_unit, unit * predicted, rtol=1e-6)


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_few_huge_targets_leave_splits(rng, loss):
    X = rng.normal(size=(1000, 2))
    y = rng.poisson(np.exp(X[:, 0])) + 0.5
    y[:2] = 300.0
    model = GradientBoostingRegressor(loss, random_state=0).fit(X, y)
    assert np.corrcoef(np.log(model.predict(X[2:])), X[2:, 0])[0, 1] > 0.5


# Limits of steps --------------------------------------------------

STEEP = np.random.default_rng(3).normal(size=(400, 2))
MEANS = np.exp(2 * STEEP[:, 0])
LIMITED = {
    "squared_error": np.log(MEANS),
    "absolute_error": MEANS,
    "huber": MEANS,
    "log_cosh": MEANS,
    "poisson": np.floor(MEANS),
    "gamma": MEANS,
    "tweedie": np.where(STEEP[:, 1] > 0.5, 0.0, MEANS),
    "cross_entropy": MEANS / (1 + MEANS),
    "cross_entropy_lambda": MEANS / (1 + MEANS),
    "log_loss": STEEP[:, 0] > 0.3,
    "several classes": np.digitize(STEEP[:, 0], [-0.5, 0.5]),
    "exponential": STEEP[:, 0] > 0.3,
    "cox": MEANS,
    "aft": MEANS,
}


def limited(loss, **parameters):
    kind = {"cox": fastens.GradientBoostingSurvival, "aft": fastens.GradientBoostingSurvival}
    kind |= dict.fromkeys(("log_loss", "several classes", "exponential"), fastens.GradientBoostingClassifier)
    name = "log_loss" if loss == "several classes" else loss
    options = {"n_estimators": 1, "learning_rate": 0.5, "min_samples_leaf": 5, "max_features": None} | parameters
    return kind.get(loss, fastens.GradientBoostingRegressor)(name, **options)


def longest(model):
    return np.abs(model._raw(STEEP) - model._ensemble.baseline).max() / 0.5


@pytest.mark.parametrize("loss", LIMITED)
@pytest.mark.parametrize("most", [0.3, 2.0])
def test_steps_are_limited_after_the_link(loss, most):
    """Leaves of the same tree have the free values, cut; growth, refitted leaves, lines and DART keep to the limit."""
    growth, y = Growth(max_delta_step=most), LIMITED[loss]
    free, cut = (limited(loss, max_leaf_nodes=2, growth=g, split_penalty=0.0).fit(STEEP, y) for g in (Growth(), growth))
    steps, bound = ((each._raw(STEEP) - each._ensemble.baseline) / 0.5 for each in (free, cut))
    if free.loss != "log_loss" or steps.shape[1] == 1:  # else trees of other classes may split elsewhere
        same = np.array_equal(free.apply(STEEP), cut.apply(STEEP))
        assert not same or np.allclose(bound, np.clip(steps, -most, most), rtol=1e-5, atol=1e-6)
    models = [cut, cut.refit_leaves(STEEP, y, decay_rate=0.0)]
    models += [limited(loss, growth=growth, boosting="dart").fit(STEEP, y)]
    if loss not in ("absolute_error", "huber"):  # which have no hessian
        models += [limited(loss, growth=growth, linear_leaves=True).fit(STEEP, y)]
        models += [models[-1].refit_leaves(STEEP, y, decay_rate=0.0)]
    for model in models:
        assert longest(model) <= most * (1 + 1e-5)
    if longest(free) > most:
        assert longest(cut) == pytest.approx(most, rel=1e-5)
