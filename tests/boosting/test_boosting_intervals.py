"""Intervals and sets of boosted trees calibrated on rows not seen: they cover, adapt, survive files, name errors."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import fastens
from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
)
from reference.public_estimators import OneQueryRanker

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


def make_rows(rng, n_rows):
    X = rng.normal(size=(n_rows, 4))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + (0.2 + np.abs(X[:, 2])) * rng.standard_normal(n_rows)


def make_classes(rng, n_rows, n_classes=4):
    X = rng.normal(size=(n_rows, 4))
    raw = 1.5 * X @ np.array([[1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1], [0.5, 0, 0, 0.5]])[:, :n_classes]
    return X, (raw + rng.gumbel(size=raw.shape)).argmax(axis=1)


def covers(interval, y):
    return float(((interval[:, 0] <= y) & (y <= interval[:, 1])).mean())


def noise(n_calibrate, n_test, n_times=1, coverage=0.9):
    """Four standard errors of a coverage."""
    return 4 * math.sqrt(coverage * (1 - coverage) * (1 / n_calibrate + 1 / n_test) / n_times)


@pytest.fixture(scope="module")
def models():
    X, y = make_rows(np.random.default_rng(1), 1500)
    options = {"n_estimators": 40, "min_samples_leaf": 10, "n_jobs": 1}
    mean = GradientBoostingRegressor(**options).fit(X, y)
    return {"mean": mean, "quantiles": GradientBoostingRegressor("quantile", quantile=LEVELS, **options).fit(X, y)}


# Intervals --------------------------------------------------


@pytest.mark.parametrize("kind", ["mean", "quantiles"])
@pytest.mark.parametrize("n_calibrate", [30, 200])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_coverage_over_rows_to_calibrate_on(models, kind, n_calibrate, coverage, rng):
    """The mean over many draws of rows is the rank over n + 1, to the noise of the simulation."""
    model, found = models[kind], []
    for _ in range(30):
        X, y = make_rows(rng, n_calibrate + 200)
        model.conformalize(X[:n_calibrate], y[:n_calibrate])
        found.append(covers(model.predict_interval(X[n_calibrate:], coverage), y[n_calibrate:]))
    expected = math.ceil(coverage * (n_calibrate + 1) - 1e-9) / (n_calibrate + 1)
    assert np.mean(found) == pytest.approx(expected, abs=noise(n_calibrate, 200, 30, coverage))


def test_quantiles_make_intervals_as_wide_as_needed(models, rng):
    X, y = make_rows(rng, 4000)
    width = {}
    for kind, model in models.items():
        interval = model.conformalize(X[:2000], y[:2000]).predict_interval(X[2000:], 0.9)
        width[kind] = interval[:, 1] - interval[:, 0]
    assert np.ptp(width["mean"]) < 1e-12
    assert np.corrcoef(width["quantiles"], np.abs(X[2000:, 2]))[0, 1] > 0.8
    assert width["quantiles"].mean() < 0.97 * width["mean"].mean()


def test_conformalised_quantiles_by_hand(models, rng):
    """Romano et al. (2019): both quantiles move by the rank of how far targets lie outside."""
    X, y = make_rows(rng, 300)
    model = models["quantiles"].conformalize(X[:200], y[:200])
    low, high = model.predict(X)[:, [1, 3]].T
    outside = np.sort(np.maximum(low - y, y - high)[:200])[math.ceil(0.5 * 201) - 1]
    expected = np.column_stack([low - outside, high + outside])[200:]
    np.testing.assert_allclose(model.predict_interval(X[200:], 0.5), expected, atol=1e-12)


@pytest.mark.parametrize(("loss", "power"), [("poisson", 1.0), ("gamma", 2.0), ("tweedie", 1.5)])
def test_errors_in_proportion_to_the_deviation_of_the_loss(loss, power, rng):
    X = rng.normal(size=(1200, 2))
    mean = np.exp(1 + X[:, 0])
    y = rng.poisson(mean) if loss != "gamma" else mean * rng.gamma(2.0, 0.5, 1200)
    model = GradientBoostingRegressor(loss, n_estimators=30).fit(X[:600], y[:600]).conformalize(X[600:900], y[600:900])
    said, interval = model.predict(X[900:]), model.predict_interval(X[900:], 0.8)
    assert interval.min() >= 0
    upper = (interval[:, 1] - said) / said ** (power / 2)
    np.testing.assert_allclose(upper, upper[0])
    assert covers(interval, y[900:]) == pytest.approx(0.8, abs=noise(300, 300, coverage=0.8))


def test_shares_stay_between_0_and_1(rng):
    X = rng.normal(size=(900, 2))
    y = np.clip(0.5 + X[:, 0] + 0.2 * rng.normal(size=900), 0, 1)
    model = GradientBoostingRegressor("cross_entropy", n_estimators=20).fit(X[:500], y[:500])
    interval = model.conformalize(X[500:], y[500:]).predict_interval(X[500:], 0.95)
    assert interval.min() == 0
    assert interval.max() == 1


def test_too_few_rows_give_infinite_intervals(models, rng):
    X, y = make_rows(rng, 9)
    assert np.isinf(models["mean"].conformalize(X[:8], y[:8]).predict_interval(X, 0.9)).all()
    assert np.isfinite(models["mean"].conformalize(X, y).predict_interval(X, 0.9)).all()


def test_raw_predictions_to_start_from(models, rng):
    X, y = make_rows(rng, 400)
    start = 100 * X[:, 3]
    model = models["mean"].conformalize(X[:200], (y + start)[:200], init_score=start[:200])
    plain = model.predict_interval(X[200:])
    np.testing.assert_allclose(model.predict_interval(X[200:], init_score=start[200:]), plain + start[200:, None])
    np.testing.assert_allclose(
        plain, models["mean"].conformalize(X[:200], y[:200]).predict_interval(X[200:]), atol=1e-9
    )


# Sets --------------------------------------------------


@pytest.mark.parametrize("conformity", ["lac", "aps", "raps"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_sets_cover(conformity, n_classes, rng):
    X, y = make_classes(rng, 600, n_classes)
    model = GradientBoostingClassifier(n_estimators=20, n_jobs=1).fit(X, np.array(list("dcba"))[y])
    found = []
    for _ in range(40):
        X, y = make_classes(rng, 400, n_classes)
        label = np.array(list("dcba"))[y]
        sets = model.conformalize(X[:200], label[:200], conformity=conformity).predict_set(X[200:], 0.9)
        found.append((sets & (label[200:, None] == model.classes_)).any(axis=1).mean())
        assert conformity == "lac" or sets.any(axis=1).all()
    assert np.mean(found) > 0.9 - noise(200, 200, 40)
    if conformity == "lac":
        assert np.mean(found) < 0.91 + noise(200, 200, 40)


def test_harder_rows_get_larger_adaptive_sets(rng):
    X, y = make_classes(rng, 3000)
    model = GradientBoostingClassifier(n_estimators=20).fit(X[:1000], y[:1000])
    sizes = {}
    for conformity in ("lac", "aps", "raps"):
        model.conformalize(X[1000:2000], y[1000:2000], conformity=conformity)
        sizes[conformity] = model.predict_set(X[2000:], 0.9).sum(axis=1)
    hard = model.predict_proba(X[2000:]).max(axis=1) < 0.5
    assert sizes["aps"][hard].mean() > sizes["aps"][~hard].mean() + 0.5
    assert sizes["lac"].mean() <= sizes["raps"].mean() + 0.05  # chance in 1000 rows
    assert sizes["raps"].max() <= sizes["aps"].max()


# Calibration as part of a model --------------------------------------------------


@pytest.mark.parametrize("kind", ["mean", "quantiles"])
def test_intervals_survive_a_file(models, kind, tmp_path, rng):
    X, y = make_rows(rng, 300)
    models[kind].conformalize(X, y, rng.integers(0, 3, 300)).save(tmp_path / "model")
    same = fastens.load(tmp_path / "model")
    np.testing.assert_array_equal(same.predict_interval(X, 0.8), models[kind].predict_interval(X, 0.8))


@pytest.mark.parametrize("conformity", ["lac", "aps", "raps"])
def test_sets_survive_a_file(conformity, tmp_path, rng):
    X, y = make_classes(rng, 600)
    model = GradientBoostingClassifier(n_estimators=5).fit(X[:300], y[:300])
    model.conformalize(X[300:], y[300:], conformity=conformity).save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict_set(X, 0.8), model.predict_set(X, 0.8))


def test_weights_are_repetition(models, rng):
    X, y = make_rows(rng, 200)
    weight = rng.integers(0, 4, 200)
    weighted = models["quantiles"].conformalize(X, y, weight).predict_interval(X)
    many = models["quantiles"].conformalize(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict_interval(X)
    np.testing.assert_array_equal(weighted, many)


def test_a_new_fit_or_new_leaves_forget(rng):
    X, y = make_rows(rng, 300)
    model = GradientBoostingRegressor(n_estimators=3).fit(X, y).conformalize(X, y)
    with pytest.raises(NotFittedError, match="conformalize"):
        model.refit_leaves(X, y).predict_interval(X)
    assert np.isfinite(model.predict_interval(X)).all()
    with pytest.raises(NotFittedError, match="conformalize"):
        model.fit(X, y).predict_interval(X)


def test_frames_are_matched_by_name(rng):
    X, y = make_rows(rng, 400)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(e=pd.Categorical(np.where(X[:, 0] > 0, "up", "down")))
    model = GradientBoostingRegressor(n_estimators=10).fit(frame[:200], y[:200]).conformalize(frame[200:], y[200:])
    np.testing.assert_array_equal(model.predict_interval(frame[list("edcba")]), model.predict_interval(frame))


def test_threads_do_not_matter(rng):
    X, y = make_rows(rng, 3000)
    found = []
    for n_jobs in (1, 3):
        model = GradientBoostingRegressor("quantile", quantile=LEVELS, n_estimators=5, n_jobs=n_jobs)
        found.append(model.fit(X[:2000], y[:2000]).conformalize(X[2000:], y[2000:]).predict_interval(X))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m, X, y: m.predict_interval(X),
            "requires a model that was calibrated on rows that were not used in fit. Call",
        ),
        (lambda m, X, y: m.conformalize(X, y).predict_interval(X, 1), "coverage must be a number greater than 0"),
        (lambda m, X, y: m.conformalize(X, y[:-1]), "X and y must have the same number of rows; got 100 and 99"),
        (lambda m, X, y: m.conformalize(X, np.where(y > 0, np.nan, y)), "y contains NaN"),
        (
            lambda m, X, y: m.conformalize(X, y, -np.ones(100)),
            "sample_weight must be finite and non-negative; got -1.0",
        ),
    ],
)
def test_errors_of_intervals(call, message, rng):
    X, y = make_rows(rng, 100)
    with pytest.raises(ValueError, match=re.escape(message)):
        call(GradientBoostingRegressor(n_estimators=2).fit(X, y), X, y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, X, y: m.predict_set(X), "or fit a ConformalClassifier"),
        (lambda m, X, y: m.conformalize(X, y).predict_set(X, 0), "coverage must be a number greater than 0"),
        (lambda m, X, y: m.conformalize(X, y, conformity="hps"), "conformity must be one of 'lac', 'aps', 'raps'; got"),
        (lambda m, X, y: m.conformalize(X, y + 7), "y must hold the classes seen in fit; it holds 7"),
    ],
)
def test_errors_of_sets(call, message, rng):
    X, y = make_classes(rng, 100)
    with pytest.raises(ValueError, match=re.escape(message)):
        call(GradientBoostingClassifier(n_estimators=2).fit(X, y % 2), X, y % 2)


@pytest.mark.parametrize("size", [0.01, 7.3])
def test_small_or_large_weights_are_as_many_rows(size, rng):
    X, y = make_rows(rng, 100)
    model = GradientBoostingRegressor(n_estimators=5).fit(X[:50], y[:50])
    without = model.conformalize(X[50:], y[50:]).predict_interval(X, 0.9)
    np.testing.assert_array_equal(
        model.conformalize(X[50:], y[50:], np.full(50, size)).predict_interval(X, 0.9), without
    )
    few = model.conformalize(X[:5], y[:5], np.full(5, size))  # 5 rows are too few for 0.9
    assert np.isinf(few.predict_interval(X, 0.9)).all()


def test_small_weights_are_as_many_rows_for_sets(rng):
    X, y = make_classes(rng, 200)
    model = GradientBoostingClassifier(n_estimators=5).fit(X[:100], y[:100])
    without = model.conformalize(X[100:], y[100:]).predict_set(X)
    np.testing.assert_array_equal(model.conformalize(X[100:], y[100:], np.full(100, 0.01)).predict_set(X), without)


# Several targets --------------------------------------------------


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "poisson"])
def test_intervals_of_each_target_cover(loss, tmp_path, rng):
    X, y = make_rows(rng, 4300)
    Y = np.exp(np.column_stack([y, -2 * y]) / 8) if loss == "poisson" else np.column_stack([y, 10 - 50 * y])
    model = GradientBoostingRegressor(loss, n_estimators=15).fit(X[:300], Y[:300])
    covered = []
    for first in range(300, 2300, 100):
        model.conformalize(X[first : first + 100], Y[first : first + 100])
        ends = model.predict_interval(X[2300:], 0.8)
        assert ends.shape == (2000, 2, 2)
        covered.append(((ends[:, :, 0] <= Y[2300:]) & (Y[2300:] <= ends[:, :, 1])).mean(axis=0))
    # The rank over n + 1; a deviation of one model's coverage of about sqrt(0.8 * 0.2 / 100), of 20 of them 0.009.
    np.testing.assert_allclose(np.mean(covered, axis=0), 81 / 101, atol=0.03)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict_interval(X[2300:], 0.8), ends)
    both = model.predict_interval(X[2300:], 0.9)
    assert ((both[:, :, 0] <= Y[2300:]) & (Y[2300:] <= both[:, :, 1])).all(axis=1).mean() > 0.76


def test_a_target_has_the_intervals_that_it_has_alone(rng):
    X, y = make_rows(rng, 400)
    Y = np.column_stack([y, y])
    one = GradientBoostingRegressor(n_estimators=10).fit(X[:200], y[:200]).conformalize(X[200:], y[200:])
    two = GradientBoostingRegressor(n_estimators=10).fit(X[:200], Y[:200]).conformalize(X[200:], Y[200:])
    found = two.predict_interval(X)
    for target in range(2):
        np.testing.assert_allclose(found[:, target], one.predict_interval(X), rtol=1e-9)


@pytest.mark.parametrize("conformity", ["lac", "aps"])
def test_sets_of_each_target_cover(conformity, tmp_path, rng):
    X, y = make_rows(rng, 4000)
    labels = np.column_stack([np.digitize(y, np.quantile(y, [0.3, 0.6])), y > np.median(y)])
    model = GradientBoostingClassifier(n_estimators=15).fit(X[:500], labels[:500])
    model.conformalize(X[500:2000], labels[500:2000], conformity=conformity)
    found = model.predict_set(X[2000:])
    assert [part.shape for part in found] == [(2000, 3), (2000, 2)]
    for target, part in enumerate(found):
        assert part[range(2000), labels[2000:, target]].mean() > 0.87
    model.save(tmp_path / "model")
    for again, part in zip(fastens.load(tmp_path / "model").predict_set(X[2000:]), found, strict=True):
        np.testing.assert_array_equal(again, part)


def test_targets_to_calibrate_on_match_fit(rng):
    X, y = make_rows(rng, 60)
    numbers = np.column_stack([y, -y])
    model = GradientBoostingRegressor(n_estimators=2).fit(X, numbers)
    with pytest.raises(ValueError, match="y must have the same number of targets as in fit, 2; got 1"):
        model.conformalize(X, y)
    with pytest.raises(ValueError, match="y must have the same number of targets as in fit, 2; got 1"):
        GradientBoostingClassifier(n_estimators=2).fit(X, numbers > 0).conformalize(X, y > 0)


def test_nothing_before_a_fit(rng):
    X, y = make_rows(rng, 20)
    for call in (lambda m: m.conformalize(X, y), lambda m: m.predict_interval(X)):
        with pytest.raises(NotFittedError):
            call(GradientBoostingRegressor())


# Real tables --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "options"),
    [
        ("abalone", "rings", {"loss": "poisson"}),
        ("concrete", "strength", {}),
        ("abalone", "rings", {"loss": "quantile", "quantile": [0.05, 0.95]}),
        ("cps1988", "wage", {"loss": "quantile", "quantile": [0.05, 0.95]}),
    ],
)
def test_intervals_cover_on_real_tables(load_table, name, target, options):
    table = load_table(name).sample(frac=1, random_state=0)[:5000]
    X, y = table.drop(columns=target), table[target].to_numpy(float)
    third, found = len(y) // 3, []
    for seed in range(3):
        train, calibrate, test = np.array_split(np.random.default_rng(seed).permutation(3 * third), 3)
        model = GradientBoostingRegressor(**options, n_estimators=30).fit(X.iloc[train], y[train])
        model.conformalize(X.iloc[calibrate], y[calibrate])
        found.append(covers(model.predict_interval(X.iloc[test], 0.9), y[test]))
    assert np.mean(found) == pytest.approx(0.9, abs=noise(third, third, 3) + 0.003)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [("adult", "income"), ("oml_first_order_theorem_proving", "target")])
@pytest.mark.parametrize("conformity", ["lac", "aps"])
def test_sets_cover_on_real_tables(load_table, name, target, conformity):
    table = load_table(name).sample(frac=1, random_state=0)[:4500]
    X, y = table.drop(columns=target), table[target].astype(str).to_numpy()
    third, found = len(y) // 3, []
    for seed in range(2):
        train, calibrate, test = np.array_split(np.random.default_rng(seed).permutation(3 * third), 3)
        model = GradientBoostingClassifier(n_estimators=20).fit(X.iloc[train], y[train])
        model.conformalize(X.iloc[calibrate], y[calibrate], conformity=conformity)
        sets = model.predict_set(X.iloc[test], 0.9)
        found.append((sets & (y[test, None] == model.classes_)).any(axis=1).mean())
    assert np.mean(found) > 0.9 - noise(third, third, 2)
    if conformity == "lac":
        assert np.mean(found) < 0.9 + noise(third, third, 2) + 0.003


def test_masked_init_scores_are_not_calibrated_with(rng):
    X = rng.normal(size=(40, 2))
    model = GradientBoostingRegressor(n_estimators=1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="init_score must not have masked values; row"):
        model.conformalize(X, X[:, 0], init_score=np.ma.masked_array(np.ones(40), mask=np.arange(40) == 3))


def test_init_scores_of_rows_of_weight_0_may_be_missing(rng):
    X, weight = rng.normal(size=(40, 2)), np.arange(40) % 3.0
    known = {"init_score": np.ones(40)}
    missing = {"init_score": np.where(weight > 0, 1.0, np.nan)}
    model, found = (
        GradientBoostingRegressor(n_estimators=2, random_state=0).fit(X, X[:, 0], weight, **given)
        for given in (known, missing)
    )
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    refitted = [model.refit_leaves(X, X[:, 1], sample_weight=weight, **given) for given in (known, missing)]
    np.testing.assert_array_equal(refitted[1].predict(X), refitted[0].predict(X))
    with pytest.raises(ValueError, match="init_score must be finite; got nan"):
        model.fit(X, X[:, 0], **missing)


@pytest.mark.parametrize(
    "kind", [GradientBoostingRegressor, GradientBoostingClassifier, GradientBoostingSurvival, OneQueryRanker]
)
def test_rows_of_weight_0_are_scored_with_any_init_score(kind, rng):
    X, weight = rng.normal(size=(40, 2)), np.arange(40) % 3.0
    y = np.arange(40) % 2 + 1
    model = kind(n_estimators=2).fit(X, y)
    known, missing = np.ones(40), np.where(weight > 0, 1.0, np.nan)
    scores = [model.score(X, y, weight, init_score=given) for given in (known, missing)]
    assert scores[0] == scores[1]
    staged = [list(model.staged_score(X, y, weight, init_score=given)) for given in (known, missing)]
    assert staged[0] == staged[1]
    with pytest.raises(ValueError, match="init_score must be finite; got nan"):
        model.score(X, y, init_score=missing)
