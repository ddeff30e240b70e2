"""Conformal prediction around any estimator: coverage simulated and real, folds, groups, weights, files, errors."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    LeavePOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fastens
from fastens import (
    ConformalClassifier,
    ConformalRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
)
from reference import conformal as naive
from reference.sklearn_checks import parametrize_with_checks

SMALL = {"n_estimators": 6, "min_samples_leaf": 1}


@parametrize_with_checks(
    [
        ConformalRegressor(GradientBoostingRegressor(n_estimators=20, min_samples_leaf=1), cv=3, method="cqr"),
        ConformalClassifier(GradientBoostingClassifier(**SMALL), cv=3, conformity="raps"),
        ConformalClassifier(LogisticRegression(), conformity="aps"),
    ]
)
def test_sklearn_check(check):
    check()


def make_rows(rng, n_rows):
    X = rng.normal(size=(n_rows, 3))
    return X, X[:, 0] - 2 * X[:, 1] + (0.3 + np.abs(X[:, 2])) * rng.standard_normal(n_rows)


def interval_score(interval, y, coverage):
    """Gneiting & Raftery (2007), eq. 43: the width, and how far outside targets lie, 2 / (1 - coverage) times."""
    low, high = interval.T
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float((high - low + 2 / (1 - coverage) * outside).mean())


def covers(interval, y):
    return float(((interval[:, 0] <= y) & (y <= interval[:, 1])).mean())


def holds(sets, y, classes):
    return float((sets & (np.asarray(y)[:, None] == classes)).any(axis=1).mean())


# Coverage --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("cv", [None, 4], ids=str)
def test_intervals_cover_over_training_sets(cv, rng):
    """Over 30 training sets of 40 rows; a share held out covers exactly, folds about as much."""
    found = []
    for seed in range(30):
        X, y = make_rows(rng, 240)
        model = ConformalRegressor(LinearRegression(), cv=cv, calibration_fraction=0.475, random_state=seed)
        found.append(covers(model.fit(X[:40], y[:40]).predict_interval(X[40:], 0.8), y[40:]))
    expected = 0.8 if cv is None else 0.82  # 16 of 20; folds are a little cautious with few rows
    assert np.mean(found) == pytest.approx(expected, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("conformity", ["lac", "aps", "raps"])
@pytest.mark.parametrize("cv", [None, 4], ids=str)
def test_sets_cover_over_training_sets(conformity, cv, rng):
    found = []
    for seed in range(80):
        X = rng.normal(size=(260, 3))
        y = (2 * X + rng.gumbel(size=X.shape)).argmax(axis=1)
        model = ConformalClassifier(GaussianNB(), conformity=conformity, cv=cv, random_state=seed)
        model.fit(X[:100], y[:100])
        found.append(holds(model.predict_set(X[100:], 0.9), y[100:], model.classes_))
    assert np.mean(found) > 0.885
    assert conformity != "lac" or np.mean(found) < 0.935


@pytest.mark.slow
def test_a_bad_model_covers_as_well(rng):
    X, y = make_rows(rng, 4000)
    model = ConformalRegressor(DummyRegressor(), random_state=0).fit(X[:2000], y[:2000])
    assert covers(model.predict_interval(X[2000:], 0.9), y[2000:]) == pytest.approx(0.9, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("cv", [None, 5], ids=str)
def test_quantile_regression_adapts(cv, rng):
    X, y = make_rows(rng, 3000)
    model = ConformalRegressor(GradientBoostingRegressor(n_estimators=40), method="cqr", cv=cv, random_state=0)
    interval = model.fit(X[:2000], y[:2000]).predict_interval(X[2000:], 0.9)
    assert covers(interval, y[2000:]) == pytest.approx(0.9, abs=0.035)
    assert np.corrcoef(interval[:, 1] - interval[:, 0], np.abs(X[2000:, 2]))[0, 1] > 0.7
    assert np.corrcoef(model.predict(X[2000:]), X[2000:, 0] - 2 * X[2000:, 1])[0, 1] > 0.9
    given = GradientBoostingRegressor("quantile", quantile=[0.05, 0.5, 0.95], n_estimators=40)
    same = ConformalRegressor(given, cv=cv, random_state=0).fit(X[:2000], y[:2000])
    np.testing.assert_array_equal(same.predict_interval(X[2000:], 0.9), interval)


@pytest.mark.slow
@pytest.mark.parametrize("cv", [None, 5, "prefit"], ids=str)
def test_widths_follow_the_noise(cv, rng):
    X, y = make_rows(rng, 3000)
    estimator = GradientBoostingRegressor(n_estimators=40)
    rows = slice(0, 2000)
    if cv == "prefit":
        estimator.fit(X[:1000], y[:1000])
        rows = slice(1000, 2000)
    scores = {}
    for method in ("auto", "constant"):
        model = ConformalRegressor(
            clone(estimator) if cv != "prefit" else estimator, method=method, cv=cv, random_state=0
        )
        interval = model.fit(X[rows], y[rows]).predict_interval(X[2000:], 0.9)
        scores[method] = interval_score(interval, y[2000:], 0.9)
        if method == "auto":
            assert covers(interval, y[2000:]) == pytest.approx(0.9, abs=0.035)
            assert np.corrcoef(interval[:, 1] - interval[:, 0], np.abs(X[2000:, 2]))[0, 1] > 0.6
            half = model.predict_interval(X[2000:], 0.62)  # between two levels of the grid
            assert covers(half, y[2000:]) == pytest.approx(0.62, abs=0.05)
    assert scores["auto"] < 0.93 * scores["constant"]


def test_few_rows_or_columns_of_quantiles_have_one_width(rng):
    X, y = make_rows(rng, 60)
    few = ConformalRegressor(Ridge(), random_state=0).fit(X[:19], y[:19])
    np.testing.assert_allclose(np.ptp(few.predict_interval(X, 0.5) @ [-1, 1]), 0, atol=1e-9)

    class TwoColumns(Ridge):
        def predict(self, X):
            return super().predict(X)[:, None] + [-1.0, 1.0]

    for cv in (None, 4):
        given = ConformalRegressor(TwoColumns(), cv=cv, random_state=0).fit(X, y)
        assert given._error_forest is None
        assert len(given.estimators_) == (cv or 1)


@pytest.mark.slow
def test_rows_in_several_forms_have_local_widths(rng):
    X, y = make_rows(rng, 200)
    X[np.abs(X) < 0.5] = 0
    thin = ConformalRegressor(Ridge(), random_state=0).fit(sparse.csr_matrix(X), y)
    assert np.ptp(thin.predict_interval(sparse.csr_matrix(X)) @ [-1, 1]) > 0.1
    grouped = ConformalRegressor(Ridge(), random_state=0).fit(X, y, groups=np.arange(200) // 5)
    assert np.ptp(grouped.predict_interval(X) @ [-1, 1]) > 0.1
    alone = ConformalRegressor(Ridge(), random_state=0).fit(X, y, groups=np.arange(200) // 100)
    np.testing.assert_allclose(np.ptp(alone.predict_interval(X) @ [-1, 1]), 0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "model"),
    [
        ("abalone", "rings", ConformalRegressor(GradientBoostingRegressor("poisson", n_estimators=30))),
        ("concrete", "strength", ConformalRegressor(GradientBoostingRegressor(n_estimators=30), cv=5)),
        ("concrete", "strength", ConformalRegressor(RandomForestRegressor(20), cv=5)),
        ("cps1988", "wage", ConformalRegressor(GradientBoostingRegressor(n_estimators=20), method="cqr", cv=5)),
        ("cps1988", "wage", ConformalRegressor(GradientBoostingRegressor(n_estimators=20), method="cqr")),
    ],
)
def test_intervals_cover_on_real_tables(load_table, name, target, model):
    table = load_table(name).sample(frac=1, random_state=0)[:3000]
    X, y = table.drop(columns=target), table[target].to_numpy(float)
    found, half = [], len(y) // 2
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        fitted = clone(model).set_params(random_state=seed).fit(X.iloc[order[:half]], y[order[:half]])
        found.append(covers(fitted.predict_interval(X.iloc[order[half:]], 0.9), y[order[half:]]))
    n_calibrate = half if model.cv else half * model.calibration_fraction
    noise = 4 * math.sqrt(0.09 * (1 / n_calibrate + 1 / half) / 3)
    assert np.mean(found) > 0.9 - noise
    assert np.mean(found) < 0.9 + noise + (0.02 if model.cv else 0.003)


@pytest.mark.slow
@pytest.mark.parametrize("conformity", ["lac", "raps"])
def test_sets_cover_on_a_real_table(load_table, conformity):
    table = load_table("oml_first_order_theorem_proving").sample(frac=1, random_state=0)[:3000]
    X, y = table.drop(columns="target"), table["target"].astype(str).to_numpy()
    found = []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(y))
        model = ConformalClassifier(RandomForestClassifier(15), conformity=conformity, cv=4, random_state=seed)
        model.fit(X.iloc[order[:1500]], y[order[:1500]])
        found.append(holds(model.predict_set(X.iloc[order[1500:]]), y[order[1500:]], model.classes_))
    assert 0.88 < np.mean(found) < 0.97  # folds are a little cautious


@pytest.mark.slow
@pytest.mark.parametrize("cv", [None, 4], ids=str)
def test_every_class_is_covered_by_itself(cv, rng):
    """One class in ten is hard to find: covered by itself only where that is asked for."""
    found = {}
    for by_class in (False, True):
        shares = []
        for seed in range(12):
            y = (rng.random(1500) < 0.1).astype(int)
            X = rng.normal(size=(1500, 1)) + y[:, None]
            model = ConformalClassifier(GaussianNB(), by_class=by_class, cv=cv, random_state=seed)
            sets = model.fit(X[:1000], y[:1000]).predict_set(X[1000:], 0.9)
            shares.append([sets[y[1000:] == k, k].mean() for k in (0, 1)])
        found[by_class] = np.mean(shares, axis=0)
    assert found[False][1] < 0.4
    assert (found[True] > 0.87).all()
    assert (found[True] < 0.97).all()


# Definitions --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "cv", [KFold(4), KFold(7, shuffle=True, random_state=3), LeaveOneOut(), ShuffleSplit(1)], ids=str
)
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_by_hand(cv, coverage, rng):
    X, y = make_rows(rng, 60)
    new = rng.normal(size=(15, 3))
    cv = list(cv.split(X))
    model = ConformalRegressor(Ridge(), cv=cv, method="constant").fit(X, y)
    scores, said = [], []
    for train, test in cv:
        ridge = Ridge().fit(X[train], y[train])
        scores.append(np.abs(y[test] - ridge.predict(X[test])))
        said.append(ridge.predict(new))
    ones = np.ones(len(scores))
    expected = [
        [-naive.upper_end(scores, [-s for s in row], ones, coverage), naive.upper_end(scores, row, ones, coverage)]
        for row in np.transpose(said).tolist()
    ]
    np.testing.assert_allclose(model.predict_interval(new, coverage), expected, atol=1e-9)
    np.testing.assert_allclose(model.predict(new), np.mean(said, axis=0))
    assert len(model.estimators_) == len(scores)


def test_sets_by_hand(rng):
    X, y = load_iris(return_X_y=True)
    cv = KFold(5, shuffle=True, random_state=0)
    X = X + rng.normal(scale=0.7, size=X.shape)
    model = ConformalClassifier(GaussianNB(), conformity="raps", raps_penalty=0.2, raps_places=1, cv=cv).fit(X, y)
    scores, candidates = [], []
    for train, test in cv.split(X):
        probability = GaussianNB().fit(X[train], y[train]).predict_proba
        judged = [naive.set_scores("raps", row, 0.2, 1) for row in probability(X[test]).tolist()]
        scores.append(np.array(judged)[np.arange(len(test)), y[test]])
        candidates.append([naive.set_scores("raps", row, 0.2, 1) for row in probability(X).tolist()])
    stacked = np.array(candidates)
    found = model.predict_set(X, 0.8)
    for row in range(len(X)):
        assert found[row].tolist() == [naive.in_set(scores, stacked[:, row, k], 0.8) for k in range(3)]


# What is held out --------------------------------------------------


@pytest.mark.slow
def test_groups_are_held_out_whole(rng):
    """Rows of a group share an error; held out one by one they would promise too much."""
    group = np.repeat(np.arange(100), 10)
    X = rng.normal(size=(100, 2))[group]
    y = (3 * rng.standard_normal(100))[group] + 0.1 * rng.standard_normal(1000)
    train, test = group < 60, group >= 60
    found = {}
    for name, cv, groups in (
        ("rows", None, None),
        ("share", None, group[train]),
        ("folds", GroupKFold(5), group[train]),
    ):
        model = ConformalRegressor(KNeighborsRegressor(1), cv=cv, random_state=0).fit(X[train], y[train], groups=groups)
        found[name] = covers(model.predict_interval(X[test], 0.9), y[test])
    assert found["rows"] < 0.5
    assert found["share"] > 0.75
    assert found["folds"] > 0.85


def test_share_held_out(rng):
    X, y = make_rows(rng, 100)
    for share, n_rows in ((0.2, 20), (0.5, 50)):
        model = ConformalRegressor(Ridge(), calibration_fraction=share, random_state=0).fit(X, y)
        assert [len(part.values) for part in model._parts[0]] == [n_rows]


@pytest.mark.slow
def test_seed_draws_the_rows(rng):
    X, y = make_rows(rng, 100)
    first, same, other = (ConformalRegressor(Ridge(), random_state=s).fit(X, y).predict(X) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


@pytest.mark.parametrize("random_state", [None, 0])
def test_fitted_estimators(rng, random_state):
    X, y = make_rows(rng, 300)
    for estimator in (Ridge().fit(X[:100], y[:100]), GradientBoostingRegressor(n_estimators=5).fit(X[:100], y[:100])):
        model = ConformalRegressor(estimator, cv="prefit", method="constant", random_state=random_state)
        model.fit(X[100:], y[100:])
        assert model.estimators_ == [estimator]
        np.testing.assert_array_equal(model.predict(X), estimator.predict(X))
        assert covers(model.predict_interval(X[100:], 0.9), y[100:]) == pytest.approx(0.905, abs=0.01)
    np.testing.assert_allclose(
        model.predict_interval(X), estimator.conformalize(X[100:], y[100:]).predict_interval(X), atol=1e-12
    )


@pytest.mark.parametrize("kind", [GaussianNB(), GradientBoostingClassifier(n_estimators=5)])
def test_fitted_classifiers_know_more_classes(kind):
    X, y = load_iris(return_X_y=True)
    label = np.array(["a", "b", "c"])[y]
    model = ConformalClassifier(kind.fit(X[::2], label[::2]), cv="prefit").fit(X[1:100:2], label[1:100:2])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.predict_set(X).shape == (150, 3)
    assert (model.predict(X[1::2]) == label[1::2]).mean() > 0.9
    model.fit(X[1:50:2], label[1:50:2])  # of one class, as a month without frauds
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.predict_set(X[:50:2], 0.8)[:, 0].mean() > 0.8


def test_classes_missing_from_a_part(rng):
    X = rng.normal(size=(90, 2))
    y = np.where(X[:, 0] > 0, "no", "yes")
    y[:3] = "rare"
    model = ConformalClassifier(GradientBoostingClassifier(**SMALL), cv=KFold(3)).fit(X, y)
    assert model.predict_set(X).shape == (90, 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


# As any estimator --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        ConformalRegressor(),
        ConformalRegressor(method="cqr", cv=3, quantiles=[0.2, 0.8]),
        ConformalRegressor(RandomForestRegressor(5), cv=3),
        ConformalRegressor(StackingRegressor([("a", GradientBoostingRegressor(**SMALL))], cv=3)),
    ],
    ids=str,
)
def test_intervals_survive_a_file(model, tmp_path, rng):
    X, y = make_rows(rng, 200)
    model = clone(model).set_params(random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    same = fastens.load(tmp_path / "model")
    np.testing.assert_array_equal(same.predict_interval(X, 0.7), model.predict_interval(X, 0.7))
    np.testing.assert_array_equal(same.predict(X), model.predict(X))


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("estimator", [None, GaussianNB()])
def test_sets_survive_a_file(estimator, by_class, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = ConformalClassifier(estimator, cv=3, conformity="aps", by_class=by_class, random_state=0).fit(X, y)
    if estimator is not None:
        with pytest.raises(TypeError, match="pickle"):
            model.save(tmp_path / "model")
    model.save(tmp_path / "model", allow_pickle=estimator is not None)
    same = fastens.load(tmp_path / "model", allow_pickle=estimator is not None)
    np.testing.assert_array_equal(same.predict_set(X, 0.7), model.predict_set(X, 0.7))


@pytest.mark.slow
def test_threads_do_not_matter(rng):
    X, y = make_rows(rng, 300)
    one, two = (
        ConformalRegressor(method="cqr", cv=3, random_state=0, n_jobs=n).fit(X, y).predict_interval(X) for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_weights_are_repetition(rng):
    X, y = make_rows(rng, 80)
    weight = rng.integers(0, 4, 80)
    fold = np.arange(80) % 4
    rows = np.repeat(np.arange(80), weight)
    estimator = GradientBoostingRegressor("quantile", quantile=[0.1, 0.9], n_estimators=5, min_samples_leaf=1)
    weighted, many = (
        ConformalRegressor(estimator, cv=[(np.flatnonzero(f != k), np.flatnonzero(f == k)) for k in range(4)])
        for f in (fold, fold[rows])
    )
    weighted.fit(X, y, sample_weight=weight)
    many.fit(X[rows], y[rows])
    np.testing.assert_array_equal(weighted.predict_interval(X, 0.8), many.predict_interval(X, 0.8))


@pytest.mark.slow
def test_frames_and_pipelines(rng):
    X, y = make_rows(rng, 200)
    frame = pd.DataFrame(X, columns=list("abc")).assign(d=pd.Categorical(np.where(X[:, 0] > 0, "up", "down")))
    model = ConformalRegressor(GradientBoostingRegressor(n_estimators=5), random_state=0).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(model.predict_interval(frame[list("dcba")]), model.predict_interval(frame))
    scaled = ConformalRegressor(make_pipeline(StandardScaler(), Ridge()), random_state=0).fit(X, y)
    assert covers(scaled.predict_interval(X, 0.9), y) > 0.8


@pytest.mark.slow
def test_searches_reach_the_estimator(rng):
    X, y = make_rows(rng, 150)
    search = GridSearchCV(ConformalRegressor(Ridge(), random_state=0), {"estimator__alpha": [0.1, 1e6]}, cv=3).fit(X, y)
    assert search.best_params_ == {"estimator__alpha": 0.1}
    assert cross_val_score(ConformalClassifier(GaussianNB()), *load_iris(return_X_y=True)).mean() > 0.9


@pytest.mark.parametrize("cv", [None, GroupKFold(3)], ids=str)
def test_groups_and_weights_are_routed(cv, rng):
    X, y = make_rows(rng, 120)
    given = {"groups": np.repeat(np.arange(12), 10), "sample_weight": rng.integers(1, 3, 120)}
    plain = ConformalRegressor(Ridge(), cv=cv, random_state=0).fit(X, y, **given)
    with config_context(enable_metadata_routing=True):
        asking = Ridge().set_fit_request(sample_weight=True)
        routed = ConformalRegressor(asking, cv=cv, random_state=0).fit(X, y, **given)
    np.testing.assert_array_equal(routed.predict_interval(X), plain.predict_interval(X))


def test_rows_to_stop_early_by_reach_the_estimator(rng):
    X, y = make_rows(rng, 300)
    model = ConformalRegressor(GradientBoostingRegressor(n_estimators=500), random_state=0)
    model.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    assert model.estimators_[0].n_estimators_ < 500


# Errors --------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "ridge"}, "estimator must be an estimator or None; got 'ridge'"),
        ({"estimator": GaussianNB()}, "estimator must be a regressor; got GaussianNB()"),
        ({"method": "bayes"}, "method must be one of 'auto', 'constant', 'cqr'; got 'bayes'"),
        ({"estimator": Ridge(), "method": "cqr"}, "method must be 'auto' or 'constant' unless the estimator is a"),
        (
            {"estimator": GradientBoostingRegressor(), "method": "cqr", "cv": "prefit"},
            "method must be 'auto' or 'constant' with cv='prefit' unless the",
        ),
        ({"quantiles": [0.9, 0.1]}, "quantiles must be at least two ascending numbers between 0 and 1; got [0.9, 0.1]"),
        ({"quantiles": [0.5]}, "quantiles must be at least two ascending numbers"),
        ({"quantiles": 0.5}, "quantiles must be at least two ascending numbers"),
        ({"quantiles": ["low", "high"]}, "quantiles must be at least two ascending numbers"),
        ({"calibration_fraction": 1.0}, "calibration_fraction must be a number greater than 0 and less than 1; got 1"),
        ({"cv": ShuffleSplit(3, test_size=0.5)}, "cv must not hold out a row more than once; got ShuffleSplit("),
        ({"cv": [([0, 1], [1, 2])]}, "cv must yield folds with disjoint training and test rows; at least"),
        ({"random_state": "now"}, "random_state must be"),
    ],
)
def test_errors_of_intervals(options, message, rng):
    X, y = make_rows(rng, 50)
    with pytest.raises(ValueError, match=re.escape(message)):
        ConformalRegressor(**options).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": Ridge()}, "estimator must be a classifier; got Ridge()"),
        ({"conformity": "hps"}, "conformity must be one of 'lac', 'aps', 'raps'; got 'hps'"),
        ({"raps_penalty": -1}, "raps_penalty must be a number at least 0; got -1"),
        ({"by_class": "yes"}, "by_class must be True or False; got 'yes'"),
        ({"raps_places": 0.5}, "raps_places must be a whole number of at least 0; got 0.5"),
    ],
)
def test_errors_of_sets(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ConformalClassifier(**options).fit(*load_iris(return_X_y=True))


def test_wrong_coverage(rng):
    X, y = make_rows(rng, 50)
    with pytest.raises(ValueError, match="coverage must be a number greater than 0 and less than 1; got 90"):
        ConformalRegressor(Ridge()).fit(X, y).predict_interval(X, 90)
    with pytest.raises(ValueError, match="coverage must be a number greater than 0 and less than 1; got 0"):
        ConformalClassifier(GaussianNB()).fit(X, y > 0).predict_set(X, 0)


# Rows held out --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("kind", [ConformalClassifier, ConformalRegressor])
def test_a_row_is_held_out_as_a_whole(kind, frame, rng):
    """Copies of a row of weight 2 were on both sides: intervals were those of rows that had been fitted."""
    X, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    make = (lambda table: pd.DataFrame(table, columns=list("abc")).assign(d="x")) if frame else np.asarray
    ask = "predict_set" if kind is ConformalClassifier else "predict_interval"
    plain = kind(random_state=3).fit(make(X), y)
    order = rng.permutation(120)
    for weight in (2, 7):
        found = kind(random_state=3).fit(make(X[order]), y[order], sample_weight=np.full(120, weight))
        if kind is ConformalRegressor:
            assert found._parts[0][0].weight.sum() == pytest.approx(weight * plain._parts[0][0].weight.sum())
        assert np.isfinite(getattr(found, ask)(make(X), 0.8)).all()
    for weight in (0.3, 1000.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = kind(random_state=3).fit(make(X[order]), y[order], sample_weight=np.full(120, weight))
        np.testing.assert_array_equal(getattr(found, ask)(make(X), 0.8), getattr(plain, ask)(make(X), 0.8))


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e20])
def test_last_digits_of_other_libraries_do_not_draw_the_bags(scale, rng):
    """What Ridge predicts differs in the last digit between a row of weight 2 and the row twice."""
    X = rng.normal(size=(80, 4))
    y, weight = (X[:, 0] + 0.3 * rng.normal(size=80)) * scale, rng.integers(1, 4, 80)
    rows = np.repeat(np.arange(80), weight)
    fold = np.arange(80) % 4
    weighted, copied = (
        ConformalRegressor(Ridge(), cv=[(np.flatnonzero(f != k), np.flatnonzero(f == k)) for k in range(4)])
        for f in (fold, fold[rows])
    )
    weighted = weighted.set_params(random_state=0).fit(X, y, weight).predict_interval(X)
    copied = copied.set_params(random_state=0).fit(X[rows], y[rows]).predict_interval(X)
    np.testing.assert_allclose(weighted, copied, rtol=1e-9, atol=1e-9 * scale)


def test_no_row_left_to_train_on():
    with pytest.raises(
        ValueError, match=r"calibration_fraction must leave at least one training row; got 0\.9 with n_samples = 2"
    ):
        ConformalRegressor(Ridge(), calibration_fraction=0.9).fit([[1.0], [2.0]], [1.0, 2.0])


@pytest.mark.parametrize("method", ["auto", "constant"])
@pytest.mark.parametrize(
    ("cv", "rule"),
    [
        (TimeSeriesSplit(3), "cv must not hold out only rows that follow the training rows"),
        (TimeSeriesSplit(2, gap=3, max_train_size=20), "cv must not hold out only rows that follow"),
        ([([*range(20)], [*range(20, 40)]), ([*range(40)], [*range(40, 60)])], "cv must not hold out only rows that"),
        (ShuffleSplit(2, test_size=2, random_state=0), "cv must not hold out a row more than once"),
        (RepeatedKFold(n_splits=3, n_repeats=2), "cv must not hold out a row more than once"),
        (LeavePOut(2), "cv must not hold out a row more than once"),
    ],
)
def test_folds_without_a_guarantee_are_refused(cv, rule, method, rng):
    X = rng.normal(size=(60, 2))
    with pytest.raises(ValueError, match=rf"{rule}.*; got .*\. Use a number of folds"):
        ConformalRegressor(LinearRegression(), cv=cv, method=method).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=rf"{rule}.*; got .*\. Use a number of folds"):
        ConformalClassifier(GaussianNB(), cv=cv).fit(X, np.arange(60) % 2)


def test_one_split_may_hold_out_the_last_rows(rng):
    """The user vouches for it: the rows may have been shuffled before."""
    X = rng.normal(size=(60, 2))
    for cv in ([([*range(40)], [*range(40, 60)])], ShuffleSplit(1, random_state=0), KFold(2)):
        ConformalRegressor(LinearRegression(), cv=cv, method="constant").fit(X, X[:, 0]).predict_interval(X, 0.8)
