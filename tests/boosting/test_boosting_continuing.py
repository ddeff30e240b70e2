"""Fits that go on: warm starts, checkpoints, raw predictions to start from."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score

import fastens
from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
)
from fastens.monitoring.callbacks import Checkpoint
from fastens.params.options import Categories, EarlyStopping, Growth
from reference.models import LOSSES, make_model, make_target, outputs

OPTIONS = {
    "plain": {},
    "samples": {"subsample": 0.5, "max_features": 0.5},
    "goss": {"sampling": "goss"},
}


def assert_same(one, other, X):
    np.testing.assert_array_equal(outputs(one, X), outputs(other, X))
    np.testing.assert_equal(dict(one.evals_result_), dict(other.evals_result_))
    assert one.n_estimators_ == other.n_estimators_


# Warm start --------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_more_rounds_later_are_all_at_once(loss, options, X, rng):
    y = make_target(loss, X, rng)
    at_once = make_model(loss, n_estimators=12, random_state=0, **options).fit(X, y)
    model = make_model(loss, n_estimators=5, random_state=0, warm_start=True, **options).fit(X, y)
    model = pickle.loads(pickle.dumps(model)).set_params(n_estimators=12).fit(X, y)
    assert_same(model, at_once, X)


def test_warm_start_with_validation(X, rng):
    y = make_target("binary", X, rng)
    options = {
        "early_stopping": True,
        "eval_metric": ["roc_auc", "loss"],
        "random_state": 3,
        "learning_rate": 0.2,
    }
    at_once = GradientBoostingClassifier(n_estimators=300, **options).fit(X, y)
    assert at_once.n_estimators_ < len(at_once.evals_result_["validation"]["loss"]) < 300
    model = GradientBoostingClassifier(n_estimators=4, warm_start=True, **options).fit(X, y)
    assert_same(model.set_params(n_estimators=300).fit(X, y), at_once, X)
    np.testing.assert_array_equal(
        model.evals_result_["validation"]["loss"], at_once.evals_result_["validation"]["loss"]
    )


@pytest.mark.parametrize("encoding", ["partition", "target", "ordered"])
def test_warm_start_with_categories(encoding, rng):
    names = np.array([f"c{i}" for i in range(30)])
    X = pd.DataFrame({"a": rng.choice(names, 500), "b": rng.standard_normal(500), "c": rng.choice(["u", None], 500)})
    y = X["a"].map({name: i % 3 for i, name in enumerate(names)}) + X["b"]
    options = {"categories": Categories(encoding=encoding), "random_state": 0}
    at_once = GradientBoostingRegressor(n_estimators=12, **options).fit(X, y)
    model = GradientBoostingRegressor(n_estimators=5, warm_start=True, **options).fit(X, y)
    assert_same(model.set_params(n_estimators=12).fit(X, y), at_once, X)
    if encoding != "partition":
        with pytest.raises(ValueError, match="X and y must be the same as in the fit that this one continues"):
            model.set_params(n_estimators=13).fit(X, -y)


def test_warm_start_on_other_rows(X, rng):
    y = make_target("squared_error", X, rng)
    model = GradientBoostingRegressor(n_estimators=10, warm_start=True).fit(X[:200], y[:200])
    first = model.predict(X)
    model.set_params(n_estimators=20).fit(X[200:], y[200:])
    np.testing.assert_array_equal(list(model.staged_predict(X))[9], first)
    assert model.n_estimators_ == 20


@pytest.mark.parametrize("by", ["warm_start", "resume"])
def test_labels_of_other_types_and_fewer(by, X, rng, tmp_path):
    """The rows that a fit goes on with may be a day without clicks, and their labels of another width."""
    y, path = make_target("multiclass", X, rng).astype(np.int64), tmp_path / "model.fastens"
    options = {"random_state": 0, "warm_start": True, "callbacks": [Checkpoint(path, 5)]}

    def go_on(model, labels):
        if by == "resume":
            model = GradientBoostingClassifier(**options)
        return model.set_params(n_estimators=8).fit(X, labels, resume=path if by == "resume" else None)

    first = GradientBoostingClassifier(n_estimators=5, **options).fit(X, y)
    before, at_once = first.predict_proba(X), GradientBoostingClassifier(n_estimators=8, random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        go_on(clone(first).fit(X, y), y.astype(np.uint8)).predict_proba(X), at_once.predict_proba(X)
    )
    for labels in (np.minimum(y, 1), np.zeros_like(y)):
        model = go_on(clone(first).fit(X, y), labels)
        np.testing.assert_array_equal(model.classes_, [0, 1, 2])
        np.testing.assert_array_equal(model[:5].predict_proba(X), before)
        assert model.predict_proba(X)[:, 2].mean() < before[:, 2].mean()
    with pytest.raises(ValueError, match="y must hold the classes seen in fit; it holds 3"):
        go_on(first, y + 1)


@pytest.mark.parametrize("loss", ["poisson", "tweedie", "cross_entropy"])
def test_a_day_without_events(loss, X, rng):
    """No constant has the least loss, but the model that goes on has one."""
    y, none = rng.integers(0, 2, len(X)).astype(float), np.zeros(len(X))
    model = GradientBoostingRegressor(loss, n_estimators=5, warm_start=True).fit(X, y)
    before = model.predict(X).mean()
    for fewer in (model.refit_leaves(X, none), copy.deepcopy(model).set_params(n_estimators=20).fit(X, none)):
        assert 0 < fewer.predict(X).mean() < 0.98 * before
    with pytest.raises(ValueError, match=r"all its values are 0"):
        clone(model).fit(X, none)


@pytest.mark.parametrize("by", ["warm_start", "resume"])
@pytest.mark.parametrize(
    "changes",
    [
        {"number": None},
        {"kind": np.nan},
        {"when": None},
        {"on": lambda table: table["on"].astype(int)},
        {"when": lambda table: table["when"].astype(str)},
    ],
    ids=["no number", "no kind", "no date", "numbers of booleans", "texts of dates"],
)
def test_tables_are_read_as_for_a_prediction(changes, by, rng, tmp_path):
    """A batch may lack all values of a column, and have it written in another type."""
    path, n_rows = tmp_path / "model.fastens", 300
    X = pd.DataFrame({"number": rng.standard_normal(n_rows), "kind": rng.choice(["u", "v", "w"], n_rows)})
    X["on"], X["when"] = (
        X["number"] > 1,
        pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(99, size=n_rows), "D"),
    )
    y, other = X["number"] + (X["kind"] == "u") + X["on"], X.assign(**changes)[["when", "on", "kind", "number"]]
    options = {"n_estimators": 5, "callbacks": [Checkpoint(path, 5)], "warm_start": True}
    model = GradientBoostingRegressor(**options).fit(X, y)
    before, predicted = model.predict(X), model.predict(other)
    more = model if by == "warm_start" else GradientBoostingRegressor(**options)
    more.set_params(n_estimators=9).fit(other, y, resume=None if by == "warm_start" else path)
    np.testing.assert_array_equal(more[:5].predict(X), before)
    np.testing.assert_array_equal(more[:5].predict(other), predicted)
    assert more.feature_names_in_[0] == "number"
    assert more.score(other, y) > r2_score(y, predicted)


@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
@pytest.mark.parametrize("by", ["warm_start", "resume"])
def test_new_categories(boosting, by, rng, tmp_path):
    """They go where unseen ones went in the trees that there are, and further trees tell them apart."""
    names, path = np.array([f"c{i:02}" for i in range(40)]), tmp_path / "model.fastens"
    effect = {name: 2.0 * (i % 3) for i, name in enumerate(names)}
    old = pd.DataFrame({"a": rng.choice(names[10:30], 400), "b": rng.standard_normal(400)})
    new = pd.DataFrame({"a": rng.choice(names, 600), "b": rng.standard_normal(600)})
    options = {"boosting": boosting, "max_bins": 30, "random_state": 0, "warm_start": True}
    options |= {"callbacks": [Checkpoint(path, 20)], "early_stopping": False}
    if boosting == "gbdt":  # the rounds before are measured again, by the new rows
        options |= {"early_stopping": True, "n_iter_no_change": 100}
    model = GradientBoostingRegressor(n_estimators=20, **options).fit(old, old["a"].map(effect))
    before, at_20 = model.predict(new), fastens.load(path)._raw(new)
    more = (
        model.set_params(n_estimators=80)
        if by == "warm_start"
        else GradientBoostingRegressor(n_estimators=80, **options)
    )
    more.fit(new, new["a"].map(effect), resume=None if by == "warm_start" else path)
    assert more._encoder.categories[0] == [*names[10:30], *names[:10], *names[30:]]
    assert more._ensemble.binning.n_codes[0] == 31  # 20 categories have had codes, and 10 have got them
    if boosting == "gbdt":  # dart changes earlier trees
        np.testing.assert_array_equal(next(itertools.islice(more.staged_predict(new), 19, None)), at_20[:, 0])
    got_codes = new["a"].isin(names[:30])
    error, was = (abs(each - new["a"].map(effect))[got_codes].mean() for each in (more.predict(new), before))
    assert error < 0.2 * was
    more.save(path)
    np.testing.assert_array_equal(fastens.load(path).predict(new), more.predict(new))


def test_fewer_categories_and_many(rng):
    X = pd.DataFrame({"a": rng.choice([f"c{i}" for i in range(32)], 600), "b": rng.standard_normal(600)})
    y = X["b"] + (X["a"] == "c7")
    model = GradientBoostingRegressor(n_estimators=5, warm_start=True).fit(X, y)
    first, some = model.predict(X), X["a"].isin(["c7", "c8"])
    model.set_params(n_estimators=10).fit(X[some], y[some])
    np.testing.assert_array_equal(model[:5].predict(X), first)
    more = X.replace({"a": {"c1": "new"}})  # with another one there are too many for encoding="auto" to partition
    model.set_params(n_estimators=15).fit(more, y)
    np.testing.assert_array_equal(model[:5].predict(X), first)
    model = GradientBoostingRegressor(n_estimators=5, warm_start=True).fit(more.assign(a=X["a"] + X["a"].shift(1)), y)
    with pytest.raises(ValueError, match="X and y must be the same as in the fit that this one continues"):
        model.set_params(n_estimators=15).fit(more, y)


def test_errors_of_warm_start(X, rng):
    y = make_target("squared_error", X, rng)
    model = GradientBoostingRegressor(n_estimators=10, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="the number of rounds of the last fit, with warm_start=True"):
        model.set_params(n_estimators=9).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but GradientBoostingRegressor is expecting 4"):
        model.set_params(n_estimators=11).fit(X[:, :3], y)
    with pytest.raises(
        ValueError, match=r"categories\.missing must be the same as in the last fit, 'missing', .*; got 'category'"
    ):
        copy.deepcopy(model).set_params(categories=Categories(missing="category")).fit(X, y)
    with pytest.raises(ValueError, match="loss must be the same as in the last fit"):
        model.set_params(loss="huber").fit(X, y)


@pytest.mark.parametrize(
    "options", [{"subsample": 0.5}, {"sampling": "goss"}, {"sampling": "mvs", "subsample": 0.5}], ids=str
)
def test_out_of_bag_estimates_of_all_rounds(options, X, rng, tmp_path):
    y, path = make_target("squared_error", X, rng), tmp_path / "model.fastens"
    options = {"oob_score": True, "random_state": 0, "callbacks": [Checkpoint(path, 5)]} | options
    at_once = GradientBoostingRegressor(n_estimators=9, **options).fit(X, y)
    warm = GradientBoostingRegressor(n_estimators=5, warm_start=True, **options).fit(X, y)
    resumed = GradientBoostingRegressor(n_estimators=9, **options).fit(X, y, resume=path)
    for model in (warm.set_params(n_estimators=9).fit(X, y), resumed):
        np.testing.assert_array_equal(model.oob_improvement_, at_once.oob_improvement_)
        np.testing.assert_array_equal(model.oob_prediction_, at_once.oob_prediction_)


# Checkpoints --------------------------------------------------


class Lost(Exception):  # noqa: N818
    """The machine went away."""


@pytest.mark.parametrize("loss", ["squared_error", "huber", "multiclass"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_resume_gives_the_same_model(loss, options, X, rng, tmp_path):
    y = make_target(loss, X, rng)
    path = tmp_path / "checkpoint"
    options = {"n_estimators": 14, "random_state": 0, **options}
    validation = {"X_val": X[300:], "y_val": y[300:]}

    def lose(env):
        if env.iteration == 9:
            raise Lost

    stopped = make_model(loss, callbacks=[Checkpoint(path, 4), lose], **options)
    with pytest.raises(Lost):
        stopped.fit(X[:300], y[:300], **validation)
    assert fastens.load(path).n_estimators_ == 8
    resumed = make_model(loss, **options).fit(X[:300], y[:300], **validation, resume=path)
    assert_same(resumed, make_model(loss, **options).fit(X[:300], y[:300], **validation), X)


def test_resume_before_all_rows_are_trained_on(X, rng, tmp_path):
    """The rounds of the checkpoint are those of the rows to train on alone, and its categories' numbers are too."""
    y = make_target("squared_error", X, rng)
    many = pd.DataFrame({"number": X[:, 0], "kind": pd.Categorical(rng.integers(0, 50, len(X)))})
    path = tmp_path / "checkpoint"
    options = {"early_stopping": EarlyStopping(refit=True), "random_state": 0, "n_iter_no_change": 30}
    for table in (X, many):
        at_once = GradientBoostingRegressor(n_estimators=20, **options).fit(table, y)
        GradientBoostingRegressor(n_estimators=8, callbacks=[Checkpoint(path, 8)], **options).fit(table, y)
        resumed = GradientBoostingRegressor(n_estimators=20, **options).fit(table, y, resume=path)
        assert_same(resumed, at_once, table)
    model = GradientBoostingRegressor(n_estimators=8, warm_start=True, **options).fit(X, y)
    with pytest.raises(ValueError, match=r"early_stopping\.refit must be False to continue the last fit with"):
        model.set_params(n_estimators=20).fit(X, y)


def test_sets_of_columns_are_the_same_in_any_order(X, rng, tmp_path):
    """As they come in another process: the text of a set follows from hashes that differ there."""
    y, path = make_target("squared_error", X, rng), tmp_path / "checkpoint"
    # Of one place in the table of hashes, so that a set keeps the order in which they came.
    one, other = map(set, ([0, 8, 16], [16, 8, 0]))
    table = np.hstack([X] * 5)
    options = {"interaction_cst": [one, {1, 2}], "callbacks": [Checkpoint(path, 3)]}
    GradientBoostingRegressor(n_estimators=3, **options).fit(table, y)
    assert list(one) != list(other)
    options["interaction_cst"][0] = other
    assert GradientBoostingRegressor(n_estimators=4, **options).fit(table, y, resume=path).n_estimators_ == 4


def test_errors_of_resume(X, rng, tmp_path):
    y = make_target("squared_error", X, rng)
    path = tmp_path / "checkpoint"
    GradientBoostingRegressor(n_estimators=6, callbacks=[Checkpoint(path, 3)]).fit(X, y)
    with pytest.raises(
        ValueError, match=r"learning_rate must be the same as in .*checkpoint, 0\.1, to resume; got 0\.2"
    ):
        GradientBoostingRegressor(learning_rate=0.2).fit(X, y, resume=path)
    with pytest.raises(ValueError, match=r"n_estimators must be at least.*got 2"):
        GradientBoostingRegressor(n_estimators=2).fit(X, y, resume=path)
    with pytest.raises(fastens.ModelFileError, match="not one of GradientBoostingClassifier"):
        GradientBoostingClassifier().fit(X, y > 0, resume=path)
    with pytest.raises(FileNotFoundError):
        GradientBoostingRegressor().fit(X, y, resume=tmp_path / "nothing")


# Raw predictions to start from --------------------------------------------------


def test_init_score_of_regression(X, rng):
    y = make_target("squared_error", X, rng)
    start = 3 * X[:, 2] + 100
    model = GradientBoostingRegressor(n_estimators=20).fit(X, y + start, init_score=start)
    plain = GradientBoostingRegressor(n_estimators=20).fit(X, y, init_score=np.zeros(400))
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-4)
    np.testing.assert_array_equal(model.predict(X, init_score=start), model.predict(X) + start)
    *_, last = model.staged_predict(X, init_score=start)
    np.testing.assert_array_equal(last, model.predict(X, init_score=start))


def test_exposure_of_counts(X, rng):
    exposure = rng.uniform(0.1, 10, 400)
    y = rng.poisson(exposure * np.exp(0.5 * X[:, 0]))
    model = GradientBoostingRegressor("poisson").fit(X, y, init_score=np.log(exposure))
    rate = model.predict(X)
    np.testing.assert_allclose(model.predict(X, init_score=np.log(exposure)), rate * exposure)
    assert np.corrcoef(rate, np.exp(0.5 * X[:, 0]))[0, 1] > 0.8


@pytest.mark.parametrize("loss", ["binary", "multiclass"])
def test_init_score_of_classes_chains_models(loss, X, rng):
    y = make_target(loss, X, rng)
    all_splits = {"max_features": 1.0, "growth": Growth(rows_per_threshold=None)}
    first = GradientBoostingClassifier(n_estimators=10, **all_splits).fit(X, y)
    start = first.decision_function(X)
    second = clone(first).fit(X, y, init_score=start)
    both = clone(first).set_params(n_estimators=20).fit(X, y)
    np.testing.assert_allclose(second.predict_proba(X, init_score=start), both.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(second.predict(X, init_score=start), both.predict(X))
    np.testing.assert_allclose(second.decision_function(X, init_score=start), both.decision_function(X), atol=1e-9)
    for name in ("predict", "predict_proba", "decision_function"):
        *_, last = getattr(second, f"staged_{name}")(X, init_score=start)
        np.testing.assert_array_equal(last, getattr(second, name)(X, init_score=start))


def test_init_score_of_rows_to_validate_on(X, rng):
    y = make_target("squared_error", X, rng)
    start = 2 * X[:, 1]
    model = GradientBoostingRegressor(n_estimators=30)
    model.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:], init_score=start[:300], init_score_val=start[300:])
    n = model.n_estimators_
    error = [((y[300:] - p) ** 2).mean() / 2 for p in model.staged_predict(X[300:], init_score=start[300:])]
    np.testing.assert_allclose(model.evals_result_["validation"]["loss"][:n], error)
    held_out = GradientBoostingRegressor(n_estimators=30, early_stopping=True, random_state=0)
    held_out.fit(X, y, np.arange(400) > 5, init_score=start)
    assert (
        held_out.evals_result_["validation"]["loss"][0]
        > held_out.evals_result_["validation"]["loss"][held_out.n_estimators_ - 1]
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"init_score": np.zeros(3)}, r"init_score must have the shape \(400,\); got \(3,\)"),
        ({"init_score": np.full(400, np.inf)}, "init_score must be finite; got inf"),
        ({"init_score": ["a"] * 400}, "init_score must hold numbers"),
        ({"init_score": np.full(400, 1j)}, "init_score must hold numbers; it holds complex128"),
        ({"init_score": np.zeros((400, 2))}, r"got \(400, 2\)"),
    ],
)
def test_errors_of_init_score(given, message, X, rng):
    y = make_target("squared_error", X, rng)
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor().fit(X, y, **given)
    model = GradientBoostingRegressor(n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.predict(X, **given)
    for wrong in ({"init_score": y, "X_val": X, "y_val": y}, {"init_score": y, "init_score_val": y}):
        with pytest.raises(ValueError, match="init_score_val must be passed if both init_score and X_val are, and"):
            model.fit(X, y, **wrong)


# In score and refit_leaves ------------------------------------------------


def test_new_leaves_and_scores_start_from_the_same(X, rng):
    exposure = rng.uniform(0.1, 10, 400)
    y = rng.poisson(exposure * np.exp(0.5 * X[:, 0]))
    start = np.log(exposure)
    model = GradientBoostingRegressor("poisson", n_estimators=10, max_features=None).fit(X, y, init_score=start)
    again = model.refit_leaves(X, y, decay_rate=0.0, init_score=start)
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-3)
    some = rng.integers(0, 3, 400)
    weighted = model.refit_leaves(X, y, some, decay_rate=0.0, init_score=start)
    repeated = model.refit_leaves(
        *(np.repeat(part, some, axis=0) for part in (X, y)), decay_rate=0.0, init_score=np.repeat(start, some)
    )
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    score = model.score(X, y, init_score=start)
    assert score == r2_score(y, model.predict(X, init_score=start))
    *_, last = model.staged_score(X, y, init_score=start)
    assert last == score
    with pytest.raises(ValueError, match="init_score must have the shape"):
        model.refit_leaves(X, y, init_score=start[1:])


@pytest.mark.parametrize("linear_leaves", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced", {False: 0.3, True: 1.7}])
def test_weights_of_new_leaves_are_copies(class_weight, linear_leaves, X, rng):
    y, weight = X[:, 0] * X[:, 1] > 0.4, rng.integers(1, 5, 400)
    model = GradientBoostingClassifier(n_estimators=3, class_weight=class_weight, linear_leaves=linear_leaves)
    model.fit(X, y)
    copied = model.refit_leaves(np.repeat(X, weight, axis=0), np.repeat(y, weight), decay_rate=0.2)
    weighted = model.refit_leaves(X, y, weight, decay_rate=0.2)
    np.testing.assert_array_equal(weighted.decision_function(X), copied.decision_function(X))


def test_other_kinds_start_from_the_same(X, rng):
    start, y = 2 * X[:, 1], X[:, 0] + X[:, 1] > 0
    classes = GradientBoostingClassifier(n_estimators=5).fit(X, y, init_score=start)
    assert classes.score(X, y, init_score=start) == (classes.predict(X, init_score=start) == y).mean()
    again = classes.refit_leaves(X, y, decay_rate=0.0, init_score=start)
    np.testing.assert_allclose(again.decision_function(X), classes.decision_function(X), atol=0.02)

    times = np.column_stack([np.exp(-start) * rng.exponential(size=400)] * 2)
    hazards = GradientBoostingSurvival(n_estimators=5).fit(X, times, init_score=start)
    assert hazards.score(X, times, init_score=start) > hazards.score(X, times)
    again = hazards.refit_leaves(X, times, decay_rate=0.0, init_score=start)
    found, wanted = (each.predict_survival_function(X, [0.5, 2.0], init_score=start) for each in (again, hazards))
    np.testing.assert_allclose(found, wanted, atol=0.02)

    queries = {"qid": np.arange(400) // 20}
    ranks = GradientBoostingRanker(n_estimators=5).fit(X, y.astype(int), init_score=start, **queries)
    score = ranks.score(X, y.astype(int), init_score=start, **queries)
    *_, last = ranks.staged_score(X, y.astype(int), init_score=start, **queries)
    assert last == score > ranks.score(X, y.astype(int), **queries)
    again = ranks.refit_leaves(X, y.astype(int), decay_rate=0.0, init_score=start, **queries)
    np.testing.assert_allclose(again.predict(X), ranks.predict(X), atol=0.1)


@pytest.mark.parametrize("first", [{}, {"subsample": 0.9, "oob_score": True}, {"subsample": 0.2}])
def test_rounds_that_drew_other_rows_are_not_out_of_bag(first, rng):
    X = rng.normal(size=(60, 3))
    options = {"subsample": 0.2, "oob_score": True, "random_state": 0}
    start = GradientBoostingRegressor(n_estimators=5, random_state=0, warm_start=True, **first).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="oob_score must be False with warm_start=True unless the last fit had"):
        start.set_params(n_estimators=8, **options).fit(X, X[:, 0])
    assert start.n_estimators_ == 5
    same = GradientBoostingRegressor(n_estimators=5, warm_start=True, **options).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="oob_score must be False with warm_start=True unless the last fit had"):
        same.set_params(n_estimators=8).fit(X[:50], X[:50, 0])
    at_once = GradientBoostingRegressor(n_estimators=8, **options).fit(X, X[:, 0])
    np.testing.assert_array_equal(same.fit(X, X[:, 0]).oob_prediction_, at_once.oob_prediction_)
