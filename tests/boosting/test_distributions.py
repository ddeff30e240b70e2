"""Regressors that predict distributions: everything that other losses support, and calibrated intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss

import fastens
from fastens import (
    ConformalClassifier,
    ConformalRegressor,
    EarlyStopping,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestRegressor,
    crps,
)
from fastens.engine.losses.loss_names import DISTRIBUTIONS

N = 600


def rows(rng, n=N):
    X = rng.normal(size=(n, 4))
    X[::7, 1] = np.nan
    X[:, 3] = rng.integers(0, 5, n)
    return X


def target(name, X, rng):
    signal, n = X[:, 0] + 0.3 * (X[:, 3] == 2), len(X)
    draws = {
        "normal": lambda: 10 * (signal + np.exp(0.5 * X[:, 2]) * rng.normal(size=n)),
        "lognormal": lambda: np.exp(signal + 0.5 * rng.normal(size=n)),
        "student_t": lambda: signal + rng.standard_t(4, n),
        "gamma_dist": lambda: rng.gamma(2.5, np.exp(signal)),
        "weibull": lambda: np.exp(signal) * rng.weibull(1.7, n),
        "beta": lambda: np.clip(rng.beta(2 * np.exp(0.5 * signal), 3), 1e-9, 1 - 1e-9),
        "negative_binomial": lambda: rng.negative_binomial(2, 1 / (1 + np.exp(signal))).astype(float),
        "zero_inflated_poisson": lambda: rng.poisson(np.exp(1 + 0.5 * signal)) * (rng.random(n) < 0.7) * 1.0,
    }
    return draws[name]()


@pytest.fixture(params=DISTRIBUTIONS)
def name(request):
    return request.param


def model_of(name, **parameters):
    return GradientBoostingRegressor(name, **{"n_estimators": 30, "categorical_features": [3]} | parameters)


@pytest.mark.slow
def test_a_model_does_what_others_do(name, rng, tmp_path):
    X = rows(rng)
    y, weight = target(name, X, rng), rng.integers(1, 3, N).astype(float)
    model = model_of(name).fit(X, y, weight)
    expected, dist = model.predict(X), model.predict_dist(X)
    np.testing.assert_allclose(dist.mean(), expected, rtol=1e-10)
    copies = model_of(name).fit(np.repeat(X, weight.astype(int), axis=0), np.repeat(y, weight.astype(int)))
    np.testing.assert_array_equal(copies.predict(X), expected)
    np.testing.assert_array_equal(model_of(name, n_jobs=2).fit(X, y, weight).predict(X), expected)
    order = rng.permutation(N)
    np.testing.assert_array_equal(model_of(name).fit(X[order], y[order], weight[order]).predict(X), expected)
    later = model_of(name, n_estimators=10, warm_start=True).fit(X, y, weight).set_params(n_estimators=30)
    np.testing.assert_array_equal(later.fit(X, y, weight).predict(X), expected)
    np.testing.assert_array_equal([*model.staged_predict(X)][-1], expected)
    np.testing.assert_array_equal(model[:10].predict(X), [*model.staged_predict(X)][9])
    model.save(tmp_path / "model")
    loaded = fastens.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), expected)
    np.testing.assert_array_equal(loaded.predict_quantiles(X), model.predict_quantiles(X))
    assert crps(y, dist, weight) < crps(
        y, model_of(name, n_estimators=1, learning_rate=1e-9).fit(X, y, weight).predict_dist(X), weight
    )


def test_explanations_add_up_to_the_parameters(rng):
    X = rows(rng)
    model = model_of("normal").fit(X, target("normal", X, rng))
    contributions = model.predict_contributions(X)
    raw = contributions.sum(axis=-1)
    dist = model.predict_dist(X)
    np.testing.assert_allclose(raw[:, 0] if raw.ndim == 2 else raw[0], dist.mean(), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_quantiles_draws_and_intervals(name, rng):
    X, X_new = rows(rng, 2000), rows(rng, 2000)
    y, y_new = target(name, X, rng), target(name, X_new, rng)
    model = model_of(name).fit(X, y)
    quantiles = model.predict_quantiles(X_new, [0.1, 0.5, 0.9])
    assert quantiles.shape == (2000, 3)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    draws = model.sample(X_new, 50, random_state=0)
    assert draws.shape == (2000, 50)
    assert 0.85 < draws.mean() / model.predict(X_new).mean() < 1.15 or abs(draws.mean()) < 0.5
    np.testing.assert_array_equal(draws, model.sample(X_new, 50, random_state=0))
    np.testing.assert_allclose(model.predict_interval(X_new, 0.8), quantiles[:, [0, 2]], rtol=1e-9, atol=1e-12)
    for fitted in (
        model.conformalize(X_new[:800], y_new[:800]),
        ConformalRegressor(model_of(name), random_state=0).fit(X, y),
    ):
        low, high = fitted.predict_interval(X_new[800:], 0.8).T
        assert 0.76 < ((low <= y_new[800:]) & (y_new[800:] <= high)).mean() <= 1
        assert np.ptp(high - low) > 0


@pytest.mark.parametrize("loss", ["normal", "negative_binomial"])
def test_dispersion_follows_the_columns(loss, rng):
    """Rows with the same mean and another spread are told from each other by their predicted deviations."""
    X = rng.normal(size=(4000, 2))
    wide = X[:, 0] > 0
    y = np.where(wide, 4.0, 1.0) * rng.normal(size=4000) if loss == "normal" else None
    if y is None:
        size = np.where(wide, 0.7, 20.0)
        y = rng.negative_binomial(size, size / (size + 5)).astype(float)
    deviation = GradientBoostingRegressor(loss).fit(X, y).predict_dist(X).std()
    expected = (4.0, 1.0) if loss == "normal" else (np.sqrt(5 + 25 / 0.7), np.sqrt(5 + 25 / 20))
    assert np.median(deviation[wide]) == pytest.approx(expected[0], rel=0.15)
    assert np.median(deviation[~wide]) == pytest.approx(expected[1], rel=0.15)


@pytest.mark.parametrize("unit", [1e-12, 1e9])
def test_unit_of_the_target_does_not_matter(unit, rng):
    X = rows(rng)
    y = target("normal", X, rng)
    model, scaled = (model_of("normal").fit(X, factor * y) for factor in (1.0, unit))
    np.testing.assert_allclose(scaled.predict_dist(X).std(), unit * model.predict_dist(X).std(), rtol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["weibull", "gamma_dist", "lognormal", "normal", "student_t"])
def test_constant_targets_are_predicted(loss):
    """The mean of a Weibull distribution was 7e-5 too low, because its shape had a lower limit."""
    model = GradientBoostingRegressor(loss, n_estimators=3).fit(np.arange(100.0)[:, None], np.full(100, 3.7))
    np.testing.assert_allclose(model.predict(np.arange(100.0)[:, None]), 3.7, rtol=2e-8)


def test_early_stopping_by_crps(rng):
    X = rows(rng)
    y = target("normal", X, rng)
    model = model_of("normal", n_estimators=200, early_stopping=True, eval_metric=["neg_crps", "loss"]).fit(
        X[:400], y[:400], X_val=X[400:], y_val=y[400:]
    )
    best = model.evals_result_["validation"]["neg_crps"].max()
    assert -crps(y[400:], model.predict_dist(X[400:])) == pytest.approx(best, rel=1e-9)
    assert model.evals_result_["validation"]["neg_crps"].argmax() + 1 == model.n_estimators_
    Y = np.column_stack([y, 3 * y])
    several = model_of("normal", n_estimators=5, eval_metric="neg_crps").fit(X, Y, eval_set=[(X, Y)])
    scores = [crps(target, dist) for target, dist in zip(Y.T, several.predict_dist(X), strict=True)]
    assert several.evals_result_["eval_0"]["neg_crps"][-1] == pytest.approx(-np.mean(scores), rel=1e-12)


@pytest.fixture
def noise(rng):
    """Training, validation and test rows of a target that is mostly noise."""
    X = rng.normal(size=(1200, 5))
    y = np.exp(X[:, 0] + rng.normal(size=1200))
    return [(X[rows], y[rows]) for rows in (slice(0, 300), slice(300, 700), slice(700, None))]


def dispersion(model, X, y):
    """Standard deviation of the targets as normal scores of the predicted distributions, 1 if they are right."""
    probability = np.clip(model.predict_dist(X).cdf(y), 1e-12, 1 - 1e-12)
    return np.sqrt((stats.norm.ppf(probability) ** 2).mean())


@pytest.mark.parametrize("loss", ["normal", "lognormal"])
def test_deviations_are_as_wide_as_the_errors_on_validation_rows(loss, noise):
    """Large trees fit noise, so that the training rows understate the deviations."""
    fit, val, test = noise if loss == "lognormal" else [(X, np.log(y)) for X, y in noise]
    model = model_of(loss, n_estimators=60, early_stopping=False, categorical_features=None)
    assert dispersion(model.fit(*fit, X_val=val[0], y_val=val[1]), *test) > 1.5
    numbers = iter(range(100))  # a metric that keeps all rounds
    model.set_params(early_stopping=True, eval_metric=lambda y, predicted: ("round", next(numbers), True))
    model.fit(*fit, X_val=val[0], y_val=val[1])
    assert model.n_estimators_ == 60
    assert dispersion(model, *test) == pytest.approx(1, abs=0.15)


def test_widened_deviations_are_kept(noise):
    """A refit on all rows widens its rounds by the same shifts, and continued fits equal uninterrupted fits."""
    (X, y), (X_val, y_val), test = noise
    numbers = {"categorical_features": None}
    rows = np.vstack([X, X_val]), np.append(y, y_val)
    refit = model_of(
        "lognormal", n_estimators=300, early_stopping=EarlyStopping(refit=True), random_state=0, **numbers
    ).fit(*rows)
    plain = model_of("lognormal", n_estimators=refit.n_estimators_, **numbers).fit(*rows)
    assert dispersion(refit, *test) < 0.97 * dispersion(plain, *test)
    options = {"learning_rate": 0.05, "early_stopping": True, "warm_start": True} | numbers
    model, expected = (model_of("lognormal", n_estimators=n, **options) for n in (10, 20))
    model.fit(X, y, X_val=X_val, y_val=y_val)
    assert model.n_estimators_ == 10
    model.set_params(n_estimators=20).fit(X, y, X_val=X_val, y_val=y_val)
    expected.fit(X, y, X_val=X_val, y_val=y_val)
    np.testing.assert_array_equal(model.predict_dist(X).std(), expected.predict_dist(X).std())
    curve, whole = (each.evals_result_["validation"]["loss"] for each in (model, expected))
    np.testing.assert_array_equal(curve, whole)


def test_several_targets(rng):
    X = rows(rng)
    Y = np.column_stack([target("normal", X, rng), 3 - X[:, 0]])
    model = model_of("normal").fit(X, Y)
    first, second = model.predict_dist(X)
    np.testing.assert_array_equal(np.column_stack([first.mean(), second.mean()]), model.predict(X))
    assert model.predict_quantiles(X, [0.5, 0.9]).shape == (N, 2, 2)
    assert model.sample(X, 3).shape == (N, 2, 3)
    assert model.conformalize(X, Y).predict_interval(X).shape == (N, 2, 2)


def test_monotone_means(name, rng):
    X = rows(rng)
    model = model_of(name, monotonic_cst=[1, 0, 0, 0]).fit(X, target(name, X, rng))
    grid = np.repeat(X[:20], 50, axis=0)
    grid[:, 0] = np.tile(np.linspace(-3, 3, 50), 20)
    assert (np.diff(model.predict(grid).reshape(20, 50), axis=1) >= -1e-12).all()


def test_poisson_models_predict_a_distribution_too(rng):
    X = rows(rng)
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    model = GradientBoostingRegressor("poisson").fit(X, y)
    np.testing.assert_array_equal(model.predict_dist(X).mean(), model.predict(X))


def test_other_losses_have_no_distribution(rng):
    X = rows(rng)
    model = GradientBoostingRegressor(n_estimators=2).fit(X, X[:, 0])
    for method in (model.predict_dist, model.predict_quantiles, model.sample):
        with pytest.raises(
            ValueError, match=r"loss must be one that predicts a distribution, such as 'normal' or.*got 'squared_error'"
        ):
            method(X)
    model = model_of("normal").fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"quantiles must hold numbers between 0 and 1; got \[1.5\]"):
        model.predict_quantiles(X, [1.5])
    with pytest.raises(ValueError, match="n_draws must"):
        model.sample(X, 0)


# Ordered classes --------------------------------------------------


def ordered(rng, n=2000):
    X = rng.normal(size=(n, 3))
    latent = 2 * X[:, 0] + X[:, 1] + rng.logistic(size=n)
    return X, 10 * np.digitize(latent, [-3, -1, 1, 3])


@pytest.mark.slow
def test_ordered_classes(rng, tmp_path):
    X, y = ordered(rng)
    model = GradientBoostingClassifier("ordinal", n_jobs=1).fit(X[:1000], y[:1000])
    assert model.classes_.tolist() == [0, 10, 20, 30, 40]
    probability = model.predict_proba(X[1000:])
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.decision_function(X[1000:])), probability, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X[1000:]), model.classes_[probability.argmax(axis=1)])
    plain = GradientBoostingClassifier(n_jobs=1).fit(X[:1000], y[:1000])
    assert log_loss(y[1000:], probability) < log_loss(y[1000:], plain.predict_proba(X[1000:]))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict_proba(X[1000:]), probability)
    again = GradientBoostingClassifier("ordinal", n_jobs=2).fit(X[:1000], y[:1000])
    np.testing.assert_array_equal(again.predict_proba(X[1000:]), probability)
    sets = model.conformalize(X[1000:1500], y[1000:1500]).predict_set(X[1500:], 0.8)
    assert 0.7 < sets[np.arange(500), y[1500:] // 10].mean() < 0.9


def test_ordered_classes_of_two_are_the_log_loss(rng):
    X, y = ordered(rng, 300)
    found = [GradientBoostingClassifier(loss).fit(X, y > 10).predict_proba(X) for loss in ("ordinal", "log_loss")]
    np.testing.assert_array_equal(*found)


def test_labels_of_ordered_classes_are_numbers(rng):
    X, y = ordered(rng, 300)
    with pytest.raises(ValueError, match="y must hold numbers for loss='ordinal', because they define the order"):
        GradientBoostingClassifier("ordinal").fit(X, np.array(["low", "middle", "high"])[y % 3])


# Several coverages --------------------------------------------------


@pytest.mark.slow
def test_several_coverages_are_stacked(rng):
    X = rows(rng)
    y = target("normal", X, rng)
    models = [
        model_of("normal").fit(X, y),
        model_of("squared_error").fit(X, y).conformalize(X[:300], y[:300]),
        ConformalRegressor(model_of("squared_error"), random_state=0).fit(X, y),
        RandomForestRegressor(20, oob_score=True, random_state=0).fit(X, y),
    ]
    for model in models:
        found = model.predict_interval(X, coverage=[0.5, 0.9])
        assert found.shape == (N, 2, 2)
        for k, coverage in enumerate((0.5, 0.9)):
            np.testing.assert_array_equal(found[:, :, k], model.predict_interval(X, coverage))
        with pytest.raises(ValueError, match=r"coverage must be .*; got 1.5"):
            model.predict_interval(X, [0.5, 1.5])
        with pytest.raises(ValueError, match="coverage must hold at least one number"):
            model.predict_interval(X, [])
    sets = ConformalClassifier(random_state=0).fit(X, y > 0).predict_set(X, [0.5, 0.9])
    assert sets.shape == (N, 2, 2)
    several = model_of("normal").fit(X, np.column_stack([y, -y]))
    assert several.predict_interval(X, [0.5, 0.8, 0.9]).shape == (N, 2, 2, 3)
