"""Coverage within groups, under a covariate shift and over a time series, by simulation and against naive twins."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import BaggingRegressor as SklearnBagging
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import TimeSeriesSplit

import fastens
from fastens import (
    BaggingRegressor,
    ConformalClassifier,
    ConformalRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from reference import conformal as naive

NOISE = np.array([0.3, 3.0])


def make_rows(rng, n_rows):
    """Two groups, whose errors differ tenfold."""
    group = (rng.random(n_rows) < 0.3).astype(int)
    X = rng.normal(size=(n_rows, 3))
    return X, X[:, 0] + NOISE[group] * rng.normal(size=n_rows), np.array(["calm", "wild"], dtype=object)[group]


def covers(interval, y):
    return (interval[:, 0] <= y) & (y <= interval[:, 1])


# Groups --------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        ConformalRegressor(LinearRegression(), method="constant"),
        ConformalRegressor(LinearRegression(), cv=4, method="constant"),
        ConformalRegressor(SklearnBagging(LinearRegression(), 10, random_state=0), cv="oob"),
        ConformalRegressor(RandomForestRegressor(10, min_samples_leaf=10, random_state=0), cv="oob"),
        pytest.param(ConformalRegressor(LinearRegression()), marks=pytest.mark.slow),
    ],
    ids=["constant", "folds", "bagging", "forest", "auto"],
)
def test_every_group_is_covered(model, rng):
    covered, pooled = [], []
    for _ in range(12):
        X, y, group = make_rows(rng, 300)
        X_new, y_new, group_new = make_rows(rng, 600)
        model.fit(X, y, group=group)
        inside = covers(model.predict_interval(X_new, 0.8, group=group_new), y_new)
        covered.append([inside[group_new == name].mean() for name in ("calm", "wild")])
        inside = covers(model.fit(X, y).predict_interval(X_new, 0.8), y_new)
        pooled.append([inside[group_new == name].mean() for name in ("calm", "wild")])
    assert np.min(np.mean(covered, axis=0)) > 0.76
    assert np.max(np.mean(covered, axis=0)) < 0.88
    assert np.mean(pooled, axis=0)[1] < 0.65 or model.method == "auto"  # without groups, the wild one is not


def test_a_group_has_the_quantile_of_its_rows(rng):
    X, y, group = make_rows(rng, 200)
    fitted = Ridge().fit(X, y)
    weight = rng.integers(0, 3, 200)
    model = ConformalRegressor(fitted, cv="prefit", method="constant").fit(X, y, weight, group=group)
    ends = model.predict_interval(X, 0.75, group=group)
    for name in ("calm", "wild"):
        own = group == name
        scores = naive.repeated(np.abs(y - fitted.predict(X))[own], weight[own])
        expected = naive.upper_end([scores], [0.0], [1.0], 0.75)
        np.testing.assert_allclose(ends[own, 1] - fitted.predict(X)[own], expected)


def test_boosting_has_the_same_intervals_as_the_wrapper(rng, tmp_path):
    X, y, group = make_rows(rng, 400)
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=group)
    boosting = GradientBoostingRegressor(n_estimators=20).fit(frame[list("abc")][:200], y[:200])
    boosting.conformalize(frame[200:], y[200:], group="kind")  # the column is not a feature
    wrapped = ConformalRegressor(boosting, cv="prefit", method="constant")
    wrapped.fit(frame[list("abc")][200:], y[200:], group=group[200:])
    found = boosting.predict_interval(frame, 0.8)
    np.testing.assert_array_equal(found, wrapped.predict_interval(frame[list("abc")], 0.8, group=group))
    np.testing.assert_array_equal(found, boosting.predict_interval(frame[list("abc")], 0.8, group=group))
    boosting.save(tmp_path / "model")
    np.testing.assert_array_equal(found, fastens.load(tmp_path / "model").predict_interval(frame, 0.8))
    wrapped.save(tmp_path / "model", allow_pickle=True)
    loaded = fastens.load(tmp_path / "model", allow_pickle=True)
    np.testing.assert_array_equal(found, loaded.predict_interval(frame[list("abc")], 0.8, group=group))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_a_column_of_the_table_holds_the_groups(kind, rng, tmp_path):
    X, y, group = make_rows(rng, 300)
    columns = {name: X[:, k] for k, name in enumerate("abc")} | {"kind": group.tolist()}
    table = kind(columns)
    model = ConformalRegressor(GradientBoostingRegressor(n_estimators=10), random_state=0).fit(table, y, group="kind")
    found = model.predict_interval(table)
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(found, model.predict_interval(table, group=group))
    path = tmp_path / "rows.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    np.testing.assert_allclose(model.predict_interval(path), found)
    boosting = GradientBoostingRegressor(n_estimators=10).fit(table, y).conformalize(table, y, group="kind")
    np.testing.assert_allclose(boosting.predict_interval(path), boosting.predict_interval(table, group=group))
    stream = pa.table(columns).to_reader(max_chunksize=70)
    batches = boosting.predict_interval(stream, group=group).read_all()
    np.testing.assert_array_equal(
        np.column_stack([np.asarray(each) for each in batches.columns]), boosting.predict_interval(table)
    )


def test_small_and_new_groups_have_infinite_intervals(rng):
    X, y, _ = make_rows(rng, 100)
    group = [None] * 5 + [float("nan")] * 15 + [1] * 75 + [2] * 5
    model = ConformalRegressor(Ridge().fit(X, y), cv="prefit").fit(X, y, group=group)
    new = np.array([None, 1.0, 2, 3, "1"], dtype=object)
    with pytest.warns(UserWarning, match=r"at least 9 .*got 0 for 'a new group' and 1 more group"):
        found = model.predict_interval(X[:5], group=new)
    assert np.isinf(found).all(axis=1).tolist() == [False, False, True, True, True]  # missing values are a group
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_interval(X[:2], group=new[:2])
        model.predict_interval(X[:3], 0.5, group=new[:3])


@pytest.mark.slow
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("cv", [None, 4, "oob"], ids=str)
def test_sets_cover_every_group(by_class, cv, rng):
    covered = []
    for _ in range(10):
        group = rng.integers(0, 2, 900)
        X = rng.normal(size=(900, 2))
        y = np.where(rng.random(900) < np.where(group, 0.4, 0.02), rng.integers(0, 3, 900), 1 + np.sign(X[:, 0]))
        model = RandomForestClassifier(20, min_samples_leaf=5, random_state=0) if cv == "oob" else LogisticRegression()
        model = ConformalClassifier(model, cv=cv, by_class=by_class, conformity="aps", raps_places=1)
        model.fit(X[:400], y[:400], group=group[:400])
        found = model.predict_set(X[400:], 0.8, group=group[400:])
        inside = found[range(500), np.searchsorted(model.classes_, y[400:])]
        covered.append([inside[group[400:] == k].mean() for k in (0, 1)])
    assert (np.mean(covered, axis=0) > 0.76).all()


def test_boosted_sets_of_groups(rng, tmp_path):
    X, group = rng.normal(size=(600, 3)), rng.integers(0, 2, 600)
    y = (X[:, 0] + np.where(group, 3.0, 0.1) * rng.normal(size=600) > 0).astype(int)
    model = GradientBoostingClassifier(n_estimators=20).fit(X[:200], y[:200])
    model.conformalize(X[200:400], y[200:400], group=group[200:400])
    found = model.predict_set(X[400:], 0.8, group=group[400:])
    for k in (0, 1):
        own = group[200:400] == k
        alone = GradientBoostingClassifier(n_estimators=20).fit(X[:200], y[:200])
        alone.conformalize(X[200:400][own], y[200:400][own])
        rows = group[400:] == k
        np.testing.assert_array_equal(found[rows], alone.predict_set(X[400:][rows], 0.8))
    model.save(tmp_path / "model")
    loaded = fastens.load(tmp_path / "model")
    np.testing.assert_array_equal(found, loaded.predict_set(X[400:], 0.8, group=group[400:]))


# Covariate shift --------------------------------------------------


@pytest.mark.parametrize("kind", ["wrapper", "boosting", pytest.param("auto", marks=pytest.mark.slow)])
def test_coverage_under_a_covariate_shift(kind, rng):
    """Errors grow with x, and new rows have larger x: density exp(x) relative to the rows of fit."""
    weighted, plain = [], []
    for _ in range(25):
        X, X_new = rng.normal(size=(600, 1)), rng.normal(size=(400, 1)) + 1  # ratio of densities: exp(x - 0.5)
        y, y_new = (np.exp(0.7 * x[:, 0]) * rng.normal(size=len(x)) for x in (X, X_new))
        ratio, ratio_new = (7.0 * np.exp(x[:, 0]) for x in (X, X_new))
        if kind == "boosting":
            model = GradientBoostingRegressor(n_estimators=3).fit(X[:300], y[:300])
            model.conformalize(X[300:], y[300:], likelihood_ratio=ratio[300:])
        else:
            model = ConformalRegressor(LinearRegression(), method="auto" if kind == "auto" else "constant")
            model.set_params(calibration_fraction=0.5).fit(X, y, likelihood_ratio=ratio)
        weighted.append(covers(model.predict_interval(X_new, 0.8, likelihood_ratio=ratio_new), y_new).mean())
        model = model.conformalize(X[300:], y[300:]) if kind == "boosting" else model.fit(X, y)
        plain.append(covers(model.predict_interval(X_new, 0.8), y_new).mean())
    assert np.mean(weighted) > 0.77
    assert np.mean(plain) < 0.7 or kind == "auto"


def test_missing_mass_has_infinite_ends(rng):
    X, y, group = make_rows(rng, 60)
    model = ConformalRegressor(Ridge().fit(X, y), cv="prefit", method="constant")
    model.fit(X, y, likelihood_ratio=np.ones(60), group=group)
    ratio = np.where(np.arange(60) % 2, 1.0, 1e3)
    found = model.predict_interval(X, 0.6, group=group, likelihood_ratio=ratio)
    assert np.isinf(found).all(axis=1).tolist() == (ratio > 1).tolist()
    model = ConformalClassifier(LogisticRegression().fit(X, y > 0), cv="prefit").fit(
        X, y > 0, likelihood_ratio=np.ones(60)
    )
    assert model.predict_set(X, 0.6, likelihood_ratio=ratio)[ratio > 1].all()


# Time series --------------------------------------------------


def make_series(rng, n_rows):
    """The noise of a series grows tenfold halfway."""
    X = rng.normal(size=(n_rows, 2))
    scale = np.where(np.arange(n_rows) < n_rows // 2, 0.3, 3.0)
    return X, X[:, 0] + scale * rng.normal(size=n_rows)


def test_updates_adapt_as_in_the_paper(rng):
    X, y = make_series(rng, 200)
    fitted = LinearRegression().fit(X[:50], y[:50])
    model = ConformalRegressor(fitted, cv="prefit", method="constant").fit(X[:50], y[:50])
    scores = np.abs(y - fitted.predict(X))
    levels, missed = naive.adapted(scores[:50], scores[50:], 0.8, 0.05)
    for row in range(50, 200):
        inside = covers(model.predict_interval(X[row : row + 1], 0.8), y[row])
        assert inside[0] != missed[row - 50]
        model = model.update(X[row : row + 1], y[row : row + 1], coverage=0.8, step=0.05)
        assert model._adapted[0.8][0] == pytest.approx(levels[row - 50])


@pytest.mark.parametrize("slides", [False, True])
def test_coverage_of_any_sequence_is_bounded(slides, rng):
    """Gibbs & Candes (2021), proposition 4.1: for adversarial targets as well."""
    X, y = make_series(rng, 400)
    y[300:] = 1e6 * np.arange(100) ** 2
    model = ConformalRegressor(LinearRegression().fit(X[:50], y[:50]), cv="prefit", method="constant")
    model, step, inside = model.fit(X[:50], y[:50]), 0.05, []
    for row in range(50, 400):
        new = slice(row, row + 1)
        inside.append(covers(model.predict_interval(X[new], 0.8), y[new])[0])
        model = model.update(X[new], y[new], coverage=0.8, step=step, slides=slides)
    assert abs(np.mean(inside) - 0.8) <= (0.8 + step) / (step * len(inside)) + 1e-9


@pytest.mark.parametrize(
    "estimator",
    [BaggingRegressor(LinearRegression(), 20, random_state=0), ExtraTreesRegressor(40, bootstrap=True, random_state=0)],
    ids=["bagging", "forest"],
)
def test_enbpi_follows_the_drift(estimator, rng, tmp_path):
    X, y = make_series(rng, 600)
    model = start = ConformalRegressor(estimator, cv="oob").fit(X[:200], y[:200])
    oob = model.estimators_[0].oob_prediction_.ravel()
    expected = naive.upper_end([np.abs(y[:200] - oob)], [0.0], [1.0], 0.8)
    np.testing.assert_allclose(np.diff(model.predict_interval(X[:3], 0.8))[:, 0], 2 * expected)
    updated = []
    for first in range(200, 600, 20):
        batch = slice(first, first + 20)
        updated.append(covers(model.predict_interval(X[batch], 0.8), y[batch]).mean())
        model = model.update(X[batch], y[batch], step=0.0)
    assert covers(start.predict_interval(X[400:], 0.8), y[400:]).mean() < 0.5
    assert np.mean(updated[:5] + updated[15:]) > 0.74  # before the drift, and once its rows fill the window
    assert model.predict_interval(X[:1], 0.8)[0, 1] > start.predict_interval(X[:1], 0.8)[0, 1]
    model = model.update(X[:5], y[:5], coverage=[0.5, 0.9])
    model.save(tmp_path / "model", allow_pickle=True)
    loaded = fastens.load(tmp_path / "model", allow_pickle=True)
    np.testing.assert_array_equal(loaded.predict_interval(X, [0.5, 0.9]), model.predict_interval(X, [0.5, 0.9]))
    np.testing.assert_array_equal(
        loaded.update(X[:3], y[:3]).predict_interval(X), model.update(X[:3], y[:3]).predict_interval(X)
    )


def test_sets_are_updated_by_class_and_group(rng):
    X, group = rng.normal(size=(300, 2)), np.repeat(["a", "b"], 150)
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    model = ConformalClassifier(LogisticRegression().fit(X, y), cv="prefit", by_class=True).fit(X, y, group=group)
    always_missed = model.update(X[:20], 1 - (X[:20, 0] > 0), group=group[:20], step=0.1)
    assert always_missed._adapted[0.9][0] > 0.9
    assert always_missed.predict_set(X, group=group).sum() > model.predict_set(X, group=group).sum()
    with pytest.raises(ValueError, match="group must contain only groups that were present in fit"):
        model.update(X[:1], y[:1], group=["c"])


# Several targets --------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        ConformalRegressor(LinearRegression(), cv=4),
        ConformalRegressor(GradientBoostingRegressor("poisson", n_estimators=10), random_state=0),
        ConformalRegressor(GradientBoostingRegressor(n_estimators=10), method="cqr", random_state=0),
        ConformalRegressor(RandomForestRegressor(20, random_state=0), cv="oob"),
    ],
    ids=["folds", "poisson", "cqr", "oob"],
)
def test_intervals_of_several_targets(model, rng, tmp_path):
    X = rng.normal(size=(500, 3))
    Y = np.column_stack([rng.poisson(np.exp(X[:, 0])), rng.poisson(5 * np.exp(0.2 * X[:, 1]))]).astype(float)
    model.fit(X[:300], Y[:300])
    found = model.predict_interval(X[300:], [0.6, 0.9])
    assert found.shape == (200, 2, 2, 2)
    assert model.predict(X).shape == (500, 2)
    for target in range(2):
        inside = covers(found[:, target, :, 1], Y[300:, target])
        assert 0.82 < inside.mean() < 0.98
    path = tmp_path / "model"
    model.save(path, allow_pickle=True)
    np.testing.assert_array_equal(fastens.load(path, allow_pickle=True).predict_interval(X), model.predict_interval(X))
    assert np.isfinite(model.score(X, Y))
    with pytest.raises(ValueError, match="explain supports only one target"):
        model.explain(X)


def test_a_target_has_the_intervals_that_it_has_alone(rng):
    X, Y = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    model = ConformalRegressor(LinearRegression(), cv=5).fit(X, Y)
    for target in range(2):
        alone = ConformalRegressor(LinearRegression(), cv=5, method="constant").fit(X, Y[:, target])
        np.testing.assert_allclose(model.predict_interval(X)[:, target], alone.predict_interval(X))


# Errors --------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, X, y: m.fit(X, y, group=[1, 2]), "group must have one group for each of the 60 rows"),
        (lambda m, X, y: m.fit(X, y, group="a"), "group must be an array if X has no column names; got 'a'"),
        (lambda m, X, y: m.fit(X, y, likelihood_ratio=-(y**2)), "likelihood_ratio must hold finite numbers"),
        (lambda m, X, y: m.fit(X, y, likelihood_ratio=0 * y), "likelihood_ratio must have a positive sum"),
        (lambda m, X, y: m.fit(X, y, likelihood_ratio=y**2).update(X, y), "likelihood_ratio must be None in fit"),
        (lambda m, X, y: m.fit(X, y).predict_interval(X, group=y), "group must be None for new rows"),
        (lambda m, X, y: m.fit(X, y, group=y > 0).predict_interval(X), "group must be given for new rows"),
        (lambda m, X, y: m.fit(X, y, likelihood_ratio=y**2).predict_interval(X), "likelihood_ratio must be given"),
        (lambda m, X, y: m.set_params(cv=TimeSeriesSplit(3)).fit(X, y), r"update\(X, y\) with each new target"),
        (lambda m, X, y: m.set_params(cv=3, method="constant").fit(X, y).update(X, y), "got several folds from 3"),
        (lambda m, X, y: m.set_params(cv=3).fit(X, y).update(X, y), "method must be 'constant' or 'cqr' to update"),
        (lambda m, X, y: m.fit(X, y).update(X, y, step=2), "step must"),
        (lambda m, X, y: m.fit(X, y).update(X, y, coverage=1), "coverage must"),
        (lambda m, X, y: m.fit(X, y).update(X, y[:3]), "60"),
        (lambda m, X, y: m.set_params(cv="oob").fit(X, y), "without the parameters bootstrap and oob_score; got Ridge"),
        (
            lambda m, X, y: m.set_params(cv="oob", estimator=GradientBoostingRegressor(subsample=0.5)).fit(X, y),
            "without the parameters bootstrap and oob_score; got GradientBoostingRegressor",
        ),
    ],
)
def test_errors(call, message, rng):
    X, y, _ = make_rows(rng, 60)
    with pytest.raises(ValueError, match=message):
        call(ConformalRegressor(Ridge(), random_state=0), X, y)


def test_bags_do_not_divide_groups(rng):
    X, y, _ = make_rows(rng, 60)
    with pytest.raises(ValueError, match="groups must be None"):
        ConformalRegressor(RandomForestRegressor(), cv="oob").fit(X, y, groups=np.arange(60) // 5)
