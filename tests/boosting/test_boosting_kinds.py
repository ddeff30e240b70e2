"""The ranker and survival do all that boosted trees do: continuing, watching, sampling, DART, starting values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold

import fastens
from fastens import GradientBoostingRanker, GradientBoostingSurvival
from fastens.engine.losses.ranking_loss import Queries, concordance
from fastens.monitoring.callbacks import Checkpoint
from fastens.params.options import Dart, EarlyStopping, Growth
from reference.average_precision import average_precision
from reference.public_estimators import OneQueryRanker
from reference.sklearn_checks import parametrize_with_checks

SMALL = {"n_estimators": 14, "max_leaf_nodes": 6, "min_samples_leaf": 5, "random_state": 0}
KINDS = {
    "ranker": (GradientBoostingRanker, {}),
    "cox": (GradientBoostingSurvival, {"loss": "cox"}),
    "aft": (GradientBoostingSurvival, {"loss": "aft"}),
}
OPTIONS = {
    "plain": {},
    "subsample": {"subsample": 0.5, "max_features": 0.6},
    "goss": {"sampling": "goss"},
    "mvs": {"sampling": "mvs", "subsample": 0.5},
    "dart": {"boosting": Dart(rate_drop=0.3, skip_drop=0.2)},
    "linear": {"linear_leaves": True},
}


class Case:
    """An estimator with rows for it."""

    def __init__(self, kind, rng):
        self.type, self.options = KINDS[kind]
        self.X = rng.normal(size=(400, 4))
        self.qid = np.repeat(np.arange(40), 10)
        strength = self.X[:, 0] + 0.5 * self.X[:, 1] ** 2 + 0.3 * rng.normal(size=400)
        if kind == "ranker":
            self.y = np.digitize(strength, [0.5, 1.5])
        else:
            time, lost = np.exp(-strength) * rng.weibull(1.5, 400), rng.exponential(2.0, 400)
            self.y = np.column_stack([np.minimum(time, lost), np.where(time <= lost, time, np.inf)])
        self.kind = kind

    def model(self, **options):
        return self.type(**{**SMALL, **self.options, **options})

    def given(self, rows=slice(None)):
        return {"qid": self.qid[rows]} if self.kind == "ranker" else {}

    def fit(self, model, rows=slice(None), **others):
        return model.fit(self.X[rows], self.y[rows], **self.given(rows), **others)

    def validated(self, model):
        val = {"X_val": self.X[300:], "y_val": self.y[300:]}
        val |= {"qid_val": self.qid[300:]} if self.kind == "ranker" else {}
        return self.fit(model, slice(0, 300), **val)

    def outputs(self, model):
        others = [] if self.kind == "ranker" else [model.predict_survival_function(self.X, [0.3, 1.0])]
        return np.column_stack([model.predict(self.X), *others])


@pytest.fixture(params=KINDS)
def case(request, rng):
    return Case(request.param, rng)


def assert_same(case, one, other):
    np.testing.assert_array_equal(case.outputs(one), case.outputs(other))
    np.testing.assert_array_equal(one.evals_result_["training"]["loss"], other.evals_result_["training"]["loss"])


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_warm_start_resume_and_threads(options, case, tmp_path):
    at_once = case.fit(case.model(**options))
    assert not np.array_equal(at_once.predict(case.X), case.fit(case.model(n_estimators=13)).predict(case.X))
    path = tmp_path / "checkpoint"
    model = case.fit(case.model(warm_start=True, **{"n_estimators": 8, **options}))
    case.fit(case.model(callbacks=[Checkpoint(path, 8)], **options))
    assert fastens.load(path).n_estimators_ == 8
    np.testing.assert_array_equal(case.outputs(fastens.load(path)), case.outputs(model))
    resumed = case.fit(case.model(**options), resume=path)
    again = case.fit(pickle.loads(pickle.dumps(model)).set_params(n_estimators=14))
    threads = case.fit(case.model(n_jobs=3, **options))
    for other in (resumed, again, threads):
        assert_same(case, other, at_once)


@pytest.mark.parametrize(
    "options",
    [
        {"subsample": 0.6},
        {"sampling": "goss"},
        {"sampling": "mvs", "subsample": 0.6},
        {"boosting": Dart(skip_drop=0.0)},
    ],
    ids=str,
)
def test_weights_are_repetition_however_rows_are_drawn(options, case, rng):
    times = rng.integers(0, 3, 400)
    model = case.model(**options, min_samples_leaf=1, growth=Growth(min_child_weight=2.0))
    weighted = case.fit(
        case.model(**options, min_samples_leaf=1, growth=Growth(min_child_weight=2.0)), sample_weight=times
    )
    rows = np.repeat(np.arange(400), times)
    repeated = case.fit(model, rows)
    np.testing.assert_allclose(weighted.predict(case.X), repeated.predict(case.X), rtol=1e-6, atol=1e-9)


def test_callbacks_and_early_stopping(case):
    seen = []
    model = case.validated(case.model(n_estimators=200, learning_rate=0.5, callbacks=[seen.append]))
    n = model.n_estimators_
    assert n < len(seen) < 200
    assert [each[:2] for each in seen[0].evaluation_result_list] == [("training", "loss"), ("validation", "loss")]
    staged = list(model.staged_predict(case.X))
    np.testing.assert_array_equal(staged[-1], model.predict(case.X))
    assert len(staged) == n
    stopped = case.fit(case.model(callbacks=[lambda env: env.iteration == 4]))
    assert_same(case, stopped, case.fit(case.model(n_estimators=5)))


def test_init_score(case):
    first = case.fit(case.model(n_estimators=7, max_features=1.0))
    start = first.predict(case.X)
    second = case.fit(case.model(n_estimators=7, max_features=1.0), init_score=start)
    both = case.fit(case.model(n_estimators=14, max_features=1.0))
    np.testing.assert_allclose(second.predict(case.X, init_score=start), both.predict(case.X), atol=1e-9)
    if case.kind != "ranker":
        found = second.predict_survival_function(case.X, [0.5], init_score=start)
        np.testing.assert_allclose(found, both.predict_survival_function(case.X, [0.5]), rtol=1e-6)


def test_refit_on_all_rows(case):
    model = case.fit(case.model(early_stopping=EarlyStopping(refit=True), n_estimators=100, learning_rate=0.3))
    plain = case.fit(case.model(n_estimators=model.n_estimators_, learning_rate=0.3))
    np.testing.assert_array_equal(case.outputs(model), case.outputs(plain))
    assert len(model.evals_result_["validation"]["loss"]) >= model.n_estimators_
    np.testing.assert_array_equal(case.outputs(pickle.loads(pickle.dumps(model))), case.outputs(model))


def test_new_values_for_old_leaves(case):
    model = case.fit(case.model())
    rows = np.arange(200, 400)
    same = model.refit_leaves(case.X, case.y, decay_rate=0.0, **case.given())
    np.testing.assert_allclose(case.outputs(same), case.outputs(model), rtol=1e-4, atol=1e-5)
    kept = model.refit_leaves(case.X[rows], case.y[rows], decay_rate=1.0, **case.given(rows))
    np.testing.assert_allclose(case.outputs(kept), case.outputs(model), rtol=1e-12)
    moved = model.refit_leaves(case.X[rows], case.y[rows], decay_rate=0.0, **case.given(rows))
    assert not np.allclose(moved.predict(case.X), model.predict(case.X))


def test_out_of_bag(case):
    model = case.fit(case.model(subsample=0.5, oob_score=True, n_estimators=60))
    assert model.oob_improvement_.shape == (60,)
    assert model.oob_improvement_[:5].mean() > 0
    assert np.corrcoef(model.oob_prediction_, model.predict(case.X))[0, 1] > 0.8


def test_importance_is_what_the_score_loses(case):
    model = case.fit(case.model(n_estimators=30))
    found = model.permutation_importance(case.X, case.y, random_state=0, **case.given()).importances_mean
    assert found.argmax() in (0, 1)
    assert found[0] > 10 * abs(found[3])


# Metrics --------------------------------------------------


def test_metrics_of_ranking(rng):
    case = Case("ranker", rng)
    told = []

    def best_first(y, scores):
        told.append(y)
        return float(np.mean([y[y[:, 1] == q, 0][scores[y[:, 1] == q].argmax()] for q in np.unique(y[:, 1])]))

    metrics = ["ndcg@3", "loss", "ndcg", "map", "map@2", best_first]
    model = case.validated(case.model(early_stopping=True, eval_metric=metrics, n_estimators=40))
    scores = model.evals_result_["validation"]
    X, y, qid = case.X[300:], case.y[300:], case.qid[300:]
    last = model.n_estimators_ - 1
    target = np.column_stack([y, qid, np.ones(100)])
    predicted = model.predict(X)
    for name, at in (("ndcg@3", 3), ("ndcg", None)):
        assert scores[name][last] == pytest.approx(Queries(target, "exponential").ndcg(predicted, at).mean())
    for name, at in (("map", None), ("map@2", 2)):
        exact = Queries(target, "exponential").average_precision(predicted, at).mean()
        assert scores[name][last] == pytest.approx(exact)
    np.testing.assert_allclose(scores["loss"][last], 1 - model.score(X, y, qid=qid))
    assert np.argmax(scores["ndcg@3"]) == last
    assert told[0].shape == (100, 2)


@pytest.mark.parametrize("at", [None, 1, 3])
def test_average_precision_is_the_mean_over_orders(at, rng):
    relevance, scores = rng.integers(0, 2, 40), rng.integers(0, 4, 40).astype(float)
    qid = np.repeat(np.arange(8), 5)
    relevance[qid == 3] = 0
    found = Queries(np.column_stack([relevance, qid, np.ones(40)]), "linear").average_precision(scores, at)
    expected = [average_precision(relevance[qid == q] > 0, scores[qid == q], at) for q in range(8)]
    np.testing.assert_allclose(found, expected)
    times = rng.integers(1, 3, 40)
    weighted = Queries(np.column_stack([relevance, qid, times]).astype(float), "linear").average_precision(scores, at)
    parts = [np.repeat(part, times) for part in (relevance, qid, scores)]
    copies = Queries(np.column_stack([*parts[:2], np.ones(times.sum())]), "linear").average_precision(parts[2], at)
    np.testing.assert_allclose(weighted, copies)
    halves = Queries(np.column_stack([relevance, qid, np.full(40, 0.5)]), "linear")
    with pytest.raises(ValueError, match=r"sample_weight must hold integers \(numbers of documents\) for the"):
        halves.average_precision(scores, at)


@pytest.mark.parametrize("kind", ["cox", "aft"])
def test_concordance_by_name(kind, rng):
    case = Case(kind, rng)
    model = case.validated(case.model(early_stopping=True, eval_metric=["concordance", "loss"], n_estimators=40))
    last = model.n_estimators_ - 1
    assert model.evals_result_["validation"]["concordance"][last] == pytest.approx(
        model.score(case.X[300:], case.y[300:])
    )
    sign = -1 if kind == "cox" else 1
    assert model.score(case.X, case.y) == concordance(case.y, sign * model.predict(case.X))
    assert np.argmax(model.evals_result_["validation"]["concordance"]) == last


@pytest.mark.parametrize(
    ("kind", "metric", "message"),
    [
        ("ranker", "accuracy", "eval_metric must be 'loss', 'ndcg' or 'map'.*got 'accuracy'"),
        ("ranker", "ndcg@0", "eval_metric must be 'loss', 'ndcg' or 'map'.*got 'ndcg@0'"),
        ("cox", "r2", "eval_metric must be 'loss', 'concordance', a callable.*got 'r2'"),
    ],
)
def test_errors_of_metrics(kind, metric, message, rng):
    case = Case(kind, rng)
    with pytest.raises(ValueError, match=message):
        case.fit(case.model(early_stopping=True, eval_metric=metric))


# Validation --------------------------------------------------


def test_splitters_keep_queries_together(rng):
    case = Case("ranker", rng)
    model = case.fit(case.model(early_stopping=EarlyStopping(validation=GroupKFold(4)), n_estimators=50))
    *_, (train, test) = GroupKFold(4).split(case.X, groups=case.qid)
    same = case.model(n_estimators=50)
    same.fit(
        *(case.X[train], case.y[train]), X_val=case.X[test], y_val=case.y[test], qid=case.qid[train],
        qid_val=case.qid[test],
    )  # fmt: skip
    assert_same(case, model, same)
    with pytest.raises(ValueError, match="validation must keep the rows of a query together"):
        case.fit(case.model(early_stopping=EarlyStopping(validation=KFold(3, shuffle=True, random_state=0))))
    halves = case.fit(
        case.model(early_stopping=EarlyStopping(validation=GroupKFold(2)), n_estimators=5), groups=case.qid // 20
    )
    assert len(halves.evals_result_["validation"]["loss"]) == 5


@parametrize_with_checks(
    [
        OneQueryRanker(n_estimators=10, sampling="goss", warm_start=True, min_samples_leaf=1),
        GradientBoostingSurvival("cox", n_estimators=10, boosting=Dart(skip_drop=0.0), min_samples_leaf=1),
    ]
)
def test_sklearn_check(check):
    check()
