"""Boosting on folds: the mean of models that each stop early by the rows that they have not seen."""

from __future__ import annotations

import pickle
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import KFold, PredefinedSplit, StratifiedKFold

import fastens
from fastens import (
    Categories,
    Checkpoint,
    EarlyStopping,
    Goss,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
    Growth,
)
from fastens.boosting.parameters import LESS_PRUNED, N_FOLDS, QUALITIES
from fastens.boosting.survival import _breslow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4))
X[::9, 1] = np.nan
Y = X[:, 0] + np.abs(X[:, 2]) + 0.3 * RNG.normal(size=240)
KINDS = np.digitize(Y, [0.3, 1.2])
FEW = {"n_estimators": 30, "n_iter_no_change": 3, "max_features": 1.0, "random_state": 3, "n_jobs": 1}


def folded(kind=GradientBoostingRegressor, n_folds=3, **options):
    return kind(early_stopping=EarlyStopping(folds=n_folds)).set_params(**FEW | options)


def test_mean_of_models_on_values_that_all_folds_have():
    """Where each fold has all values, the model is the mean of the folds' fits, to rounding."""
    rng = np.random.default_rng(1)
    grid = rng.integers(0, 5, size=(400, 3)).astype(float)
    y = grid[:, 0] * grid[:, 1] + rng.normal(size=400)
    model = folded().fit(grid, y)
    fits = []
    for train, test in KFold(3, shuffle=True, random_state=model._seed).split(grid):
        alone = GradientBoostingRegressor(early_stopping=True, **FEW)
        fits.append(alone.fit(grid[train], y[train], X_val=grid[test], y_val=y[test]))
    np.testing.assert_allclose(model.predict(grid), np.mean([fit.predict(grid) for fit in fits], axis=0), rtol=1e-12)
    assert model.n_estimators_ == sum(fit.n_estimators_ for fit in fits) == model._ensemble.n_trees
    longest = max(len(fit.evals_result_["validation"]["loss"]) for fit in fits)
    padded = [
        np.pad(
            fit.evals_result_["validation"]["loss"], (0, longest - len(fit.evals_result_["validation"]["loss"])), "edge"
        )
        for fit in fits
    ]
    np.testing.assert_allclose(model.evals_result_["validation"]["loss"], np.mean(padded, axis=0))
    np.testing.assert_array_equal(model.evals_result_["validation"]["loss"], model.evals_result_["validation"]["loss"])


def test_mean_of_models_of_classes_in_raw_predictions():
    rng = np.random.default_rng(1)
    grid = rng.integers(0, 4, size=(300, 3)).astype(float)
    y = (grid[:, 0] + grid[:, 1] + rng.integers(0, 2, 300)).astype(int) // 3
    growth = Growth(rows_per_threshold=None)
    model = folded(GradientBoostingClassifier, n_folds=4, growth=growth).fit(grid, y)
    raw = []
    for train, test in StratifiedKFold(4, shuffle=True, random_state=model._seed).split(grid, y):
        alone = GradientBoostingClassifier(early_stopping=True, growth=growth, **FEW)
        raw.append(alone.fit(grid[train], y[train], X_val=grid[test], y_val=y[test]).decision_function(grid))
    np.testing.assert_allclose(model.decision_function(grid), np.mean(raw, axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"subsample": 0.7, "max_features_per_tree": 0.5}, {"boosting": "dart"}])
def test_one_model_for_any_number_of_threads(options):
    one, two = (folded(**options | {"n_jobs": n}).fit(X, Y) for n in (1, 2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_folds_draw_rows_of_their_own():
    model = folded(subsample=0.5, n_folds=2, n_estimators=1).fit(X[:, :1], Y)
    assert not np.array_equal(model._ensemble.feature[:3], model._ensemble.feature[-3:]) or not np.array_equal(
        model._ensemble.bin_threshold[:3], model._ensemble.bin_threshold[-3:]
    )


@pytest.mark.slow
def test_kinds_of_tables():
    frame = pd.DataFrame(X).assign(kind=pd.Categorical(np.array(["a", "b", "c"])[KINDS]))
    model = folded(categories=Categories(encoding="target")).fit(frame, Y)
    assert model.score(frame, Y) > 0.8
    sparse = scipy.sparse.csr_matrix(np.nan_to_num(X) * (np.abs(np.nan_to_num(X)) > 0.5))
    np.testing.assert_allclose(
        folded().fit(sparse, Y).predict(sparse), folded().fit(sparse.toarray(), Y).predict(sparse)
    )
    assert folded(linear_leaves=True).fit(X, Y).score(X, Y) > 0.8
    several = folded(n_folds=2).fit(X, np.column_stack([Y, -Y]))
    assert several.predict(X).shape == (240, 2)
    weighted = folded().fit(X, Y, sample_weight=np.linspace(0.1, 2, 240), init_score=0.5 * Y)
    assert weighted.score(X, 0.5 * Y) > 0.5


def test_queries_stay_together():
    qid = np.repeat(np.arange(24), 10)
    model = folded(GradientBoostingRanker).fit(X, KINDS, qid=qid)
    assert model.score(X, KINDS, qid=qid) > 0.8
    with pytest.raises(ValueError, match="folds must be at most 2, the number of queries"):
        folded(GradientBoostingRanker).fit(X, KINDS, qid=np.repeat([0, 1], 120))


@pytest.mark.parametrize("of_table", [np.asarray, scipy.sparse.csr_matrix], ids=["dense", "sparse"])
def test_times_have_a_baseline_of_all_rows(of_table):
    """That of the mean model's own predictions."""
    times = np.column_stack([np.exp(-Y), np.where(RNG.random(240) < 0.7, np.exp(-Y), np.inf)])
    table, weight = of_table(np.nan_to_num(X)), np.linspace(0.5, 2, 240)
    for options in ({}, {"linear_leaves": True}, {"loss": "aft"}):
        model = folded(GradientBoostingSurvival, **options).fit(table, times, weight)
        assert model.score(table, times) > 0.7
        alive = model.predict_survival_function(table, [0.1, 1.0])
        assert ((alive >= 0) & (alive <= 1)).all()
        if "loss" not in options:
            found = _breslow(times, model.predict(table), weight)
            np.testing.assert_array_equal(model.event_times_, found[0])
            np.testing.assert_allclose(model.cumulative_hazard_, found[1], rtol=1e-9)
    moved = folded(GradientBoostingSurvival).fit(table, times, init_score=Y)
    hazard = _breslow(times, moved.predict(table, init_score=Y), None)[1]
    np.testing.assert_allclose(moved.cumulative_hazard_, hazard, rtol=1e-9)


def test_rare_classes_are_trained_on():
    y = np.where(np.arange(240) == 7, 2, KINDS > 0)
    model = folded(GradientBoostingClassifier).fit(X, y)
    assert list(model.classes_) == [0, 1, 2]
    assert np.isfinite(model.predict_proba(X)).all()


def test_saved_explained_and_copied(tmp_path):
    model = folded(GradientBoostingClassifier).fit(X, KINDS)
    expected = model.predict_proba(X)
    model.save(tmp_path / "model")
    for other in (fastens.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(X), expected)
        assert other.early_stopping.folds == 3
    np.testing.assert_allclose(list(model.staged_predict_proba(X))[-1], expected)
    contributions = model.predict_contributions(X[:5])
    np.testing.assert_allclose(contributions.sum(axis=-1), model.decision_function(X[:5]), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"early_stopping": EarlyStopping(folds=2, refit=True)}, "early_stopping.refit must be False"),
        ({"early_stopping": EarlyStopping(folds=2, validation=KFold(2))}, "early_stopping.validation must be None"),
        ({"warm_start": True}, "warm_start must be False"),
        (
            {"callbacks": [Checkpoint("model.fastens")]},
            r"callbacks must not have a Checkpoint with early_stopping\.folds",
        ),
        ({"oob_score": True, "subsample": 0.5}, "oob_score must be False"),
        ({"early_stopping": EarlyStopping(folds=1)}, r"early_stopping\.folds must be"),
        ({"early_stopping": EarlyStopping(folds=300)}, "early_stopping.folds must be at most 240"),
        ({"early_stopping": EarlyStopping(time_limit=0)}, r"early_stopping\.time_limit must be"),
    ],
)
def test_incompatible_parameters_raise(change, message):
    with pytest.raises(ValueError, match=message):
        folded().set_params(**change).fit(X, Y)


def test_averaged_models_refuse_unsupported_methods():
    with pytest.raises(ValueError, match=r"early_stopping\.folds must be None with X_val, because each fold"):
        folded().fit(X, Y, X_val=X, y_val=Y)
    with pytest.raises(ValueError, match=r"early_stopping\.folds must have been None in fit for refit_leaves"):
        folded().fit(X, Y).refit_leaves(X, Y)
    with pytest.raises(ValueError, match="resume must be None"):
        folded().fit(X, Y, resume="nowhere")


def test_interrupted_fits_leave_the_mean_so_far():
    calls = []

    def stop(env):
        calls.append(env.iteration)
        if len(calls) == 40:
            raise KeyboardInterrupt

    model = folded(callbacks=[stop], n_iter_no_change=30)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert 0 < model.n_estimators_ <= 40
    assert model.score(X, Y) > 0.5


def test_a_fit_that_fails_leaves_the_model_before_unless_a_callback_failed():
    calls = []

    def fail(*args):
        calls.append(args)
        if len(calls) == 40:
            raise RuntimeError("the disk is full")
        return 0.0

    model = folded(n_iter_no_change=30).fit(X, Y)
    before = model.predict(X)
    with pytest.raises(RuntimeError):
        model.set_params(eval_metric=fail).fit(X, 5 * Y)
    np.testing.assert_array_equal(model.predict(X), before)
    calls.clear()
    with pytest.raises(RuntimeError):
        model.set_params(eval_metric="loss", callbacks=[fail]).fit(X, 5 * Y)
    assert 0 < model.n_estimators_ <= 40
    assert model.score(X, 5 * Y) > 0.5


@pytest.mark.slow
def test_time_is_kept():
    model = GradientBoostingRegressor(
        n_estimators=10_000_000, n_iter_no_change=10_000_000, early_stopping=EarlyStopping(folds=3, time_limit=0.9)
    )
    start = time.monotonic()
    model.fit(X, Y)
    assert 0.4 < time.monotonic() - start < 2.5  # a busy machine may take its time; alone it is within a tenth
    one = clone(model).set_params(early_stopping__folds=None, early_stopping__time_limit=0.3).fit(X, Y)
    assert one.n_estimators_ < len(one.evals_result_["validation"]["loss"]) + 1 < 10_000_000


@pytest.mark.slow
def test_short_time_raises_the_rate():
    """A rate at which hardly anything would be learned in the time is raised: the model is of use."""
    options = {"n_estimators": 10**6, "learning_rate": 1e-6, "n_iter_no_change": 10**6, "min_samples_leaf": 5}
    model = GradientBoostingRegressor(early_stopping=EarlyStopping(folds=3, time_limit=1.0), **options).fit(X, Y)
    assert model.score(X, Y) > 0.3


def test_qualities():
    for quality in QUALITIES:
        model = GradientBoostingClassifier.with_quality(quality, n_jobs=1)
        assert repr(clone(model)) == repr(model)
    assert GradientBoostingRegressor.with_quality("best", time_limit=3).time_limit == 3
    of_folds = GradientBoostingRegressor.with_quality("best", time_limit=3, loss="poisson")
    assert of_folds.early_stopping == EarlyStopping(folds=N_FOLDS, select_pruning=True, time_limit=3)
    assert GradientBoostingRegressor.with_quality("best", learning_rate=0.5).learning_rate == 0.5
    with pytest.raises(ValueError, match="quality must be"):
        GradientBoostingRegressor.with_quality("better")
    with pytest.raises(ValueError, match="time_limit must be None with quality='fast'"):
        GradientBoostingRegressor.with_quality("fast", time_limit=3)
    with pytest.raises(ValueError, match=r"time_limit must be None if early_stopping is passed\. Use"):
        GradientBoostingRegressor.with_quality("best", time_limit=3, early_stopping=EarlyStopping(folds=2))


def test_quality_presets_with_parameters_that_make_them_irrelevant():
    X, y = np.arange(60.0)[:, np.newaxis], np.arange(60.0)
    for given in ({"sampling": "goss"}, {"sampling": Goss(top_rate=0.3)}, {"early_stopping": False}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            GradientBoostingRegressor.with_quality("best", n_estimators=2, **given).fit(X, y)


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_rows_held_out_choose_the_pruning(noise):
    """Rules without noise want small leaves and many splits, noise does not."""
    rng = np.random.default_rng(0)
    grid = rng.integers(0, 6, size=(300, 4)).astype(float)
    y = grid[:, 0] * grid[:, 1] + grid[:, 2] % 2 + noise * rng.normal(size=300)
    pruned, less = (folded(n_estimators=60, **given).fit(grid, y) for given in ({}, LESS_PRUNED))
    losses = [np.min(model.evals_result_["validation"]["loss"]) for model in (pruned, less)]
    chosen = folded(n_estimators=60, early_stopping__select_pruning=True).fit(grid, y)
    assert (losses[1] < losses[0]) == (noise == 0)
    np.testing.assert_array_equal(chosen.predict(grid), (pruned if noise else less).predict(grid))
    given = folded(n_estimators=60, early_stopping__select_pruning=True, split_penalty=3.0).fit(grid, y)
    np.testing.assert_array_equal(given.predict(grid), pruned.predict(grid))


def test_splitters_yield_indices_or_masks():
    X = np.arange(40.0)[:, None]
    rows = np.arange(40)

    def fitted(train, test):
        stopping = EarlyStopping(validation=SimpleNamespace(split=lambda *given: [(train, test)]))
        return GradientBoostingRegressor(n_estimators=5, early_stopping=stopping, random_state=0).fit(X, X[:, 0])

    expected = fitted(rows[:30], rows[30:]).predict(X)
    for train, test in ((rows[:30].tolist(), rows[30:].tolist()), (rows < 30, rows >= 30)):
        np.testing.assert_array_equal(fitted(train, test).predict(X), expected)
    for parts in ((rows[:30], [40]), (rows[:30], [0.5]), (rows[:30], None), (rows < 30, rows[:30] > 0)):
        with pytest.raises(
            ValueError, match="validation must yield pairs of training and test rows, as indices or masks of the"
        ):
            fitted(*parts)
    with pytest.raises(
        ValueError, match=r"early_stopping\.validation must yield at least one training row and.*got 40 and 0"
    ):
        fitted(rows, [])


def test_a_predefined_split_counts_the_rows_that_were_given(rng):
    X, folds, weight = rng.standard_normal((60, 2)), np.arange(60) % 4 - 1, np.arange(60) % 5 > 0

    def fitted(folds, *data):
        stopping = EarlyStopping(validation=PredefinedSplit(folds))
        return GradientBoostingRegressor(n_estimators=5, early_stopping=stopping).fit(*data)

    given = fitted(folds, X, X[:, 0], weight)
    kept = fitted(folds[weight], X[weight], X[weight, 0])
    np.testing.assert_array_equal(given.predict(X), kept.predict(X))
    np.testing.assert_array_equal(given.evals_result_["validation"]["loss"], kept.evals_result_["validation"]["loss"])
