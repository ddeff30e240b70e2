"""The boosting estimators in use: threads and processes, early stopping, questions to a model, scikit-learn's tools."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.boosting.rounds import Rounds
from reference.models import LOSSES, make_model, make_target, outputs, same_python


@pytest.fixture(params=LOSSES)
def loss(request):
    return request.param


# Threads and processes --------------------------------------------------


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "poisson", "binary", "multiclass"])
def test_number_of_threads_does_not_matter(loss, rng):
    X = rng.standard_normal((12_000, 6))
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:, 5] = rng.integers(0, 40, len(X))
    y = make_target(loss, X, rng)
    options = {"categorical_features": [5], "random_state": 0, "subsample": 0.8, "max_features": 0.8}
    models = [make_model(loss, n_jobs=n_jobs, n_estimators=4, **options).fit(X, y) for n_jobs in (1, 2, 3)]
    expected = outputs(models[0], X)
    for model in models[1:]:
        np.testing.assert_array_equal(outputs(model, X), expected)
        np.testing.assert_array_equal(
            model.evals_result_["training"]["loss"], models[0].evals_result_["training"]["loss"]
        )
    for n_jobs in (2, 3, None, -1):
        np.testing.assert_array_equal(outputs(models[0].set_params(n_jobs=n_jobs), X), expected)


def test_many_threads_predict_from_one_model(rng):
    X = rng.standard_normal((3000, 5))
    model = GradientBoostingClassifier(n_estimators=20).fit(X, make_target("multiclass", X, rng))
    expected = outputs(pickle.loads(pickle.dumps(model)), X)
    parts = [slice(first, first + 97) for first in range(0, 2900, 97)] + [slice(i, i + 1) for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda part: outputs(model, X[part]), parts))
    for part, result in zip(parts, found, strict=True):
        np.testing.assert_array_equal(result, expected[part])


def test_many_threads_fit_at_once(X, rng):
    y = make_target("binary", X, rng)
    expected = make_model("binary", n_jobs=2).fit(X, y).predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: make_model("binary", n_jobs=2).fit(X, y).predict_proba(X), range(8)):
            np.testing.assert_array_equal(found, expected)


def fit_in_child(X, y, sender):
    sender.send(make_model("binary", n_jobs=2).fit(X, y).predict_proba(X))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fit_in_a_forked_child_after_a_fit_in_the_parent(rng):
    X = rng.standard_normal((20_000, 5))
    y = make_target("binary", X, rng)
    expected = make_model("binary", n_jobs=2).fit(X, y).predict_proba(X)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=fit_in_child, args=(X, y, sender), daemon=True)
    child.start()
    try:
        assert receiver.poll(30), "the child hangs"
        np.testing.assert_array_equal(receiver.recv(), expected)
    finally:
        child.kill()
        child.join()


INTERRUPTED = """
import numpy as np, sys
from fastens import GradientBoostingClassifier
X = np.random.default_rng(0).standard_normal((30_000, 6))
y = X[:, 0] + X[:, 1] ** 2 > 1
model = GradientBoostingClassifier(n_estimators=100_000, max_leaf_nodes=255, verbose=1)
try:
    model.fit(X, y{more})
except KeyboardInterrupt:
    print("stopped", model.n_estimators_, len(model.evals_result_["training"]["loss"]), model.score(X, y), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("more", ["", ", X_val=X[:999], y_val=y[:999]"])
def test_interrupt_leaves_a_model(more):
    command = [*same_python(), "-u", "-c", INTERRUPTED.format(more=more)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(3):
            assert process.stdout.readline().startswith("[")
        process.send_signal(signal.SIGINT)
        start = time.perf_counter()
        last = process.stdout.readlines()[-1].split()
        assert time.perf_counter() - start < 3  # about one second, on a busy machine too
        assert process.wait(10) == 0
    assert last[0] == "stopped"
    assert 1 <= int(last[1]) <= int(last[2])
    assert float(last[3]) > 0.8


# Early stopping --------------------------------------------------


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "poisson", "binary", "multiclass"])
def test_early_stopping_keeps_the_best_round(loss, X, rng):
    y = make_target(loss, X, rng)
    options = {"n_estimators": 300, "learning_rate": 0.3, "min_samples_leaf": 5}
    model = make_model(loss, **options).fit(X[:250], y[:250], X_val=X[250:], y_val=y[250:])
    history = model.evals_result_["validation"]["loss"]
    assert model.n_estimators_ == np.argmin(history) + 1
    assert len(history) == len(model.evals_result_["training"]["loss"]) < 300
    assert len(history) - np.argmin(history) <= 10 + 1
    shorter = make_model(loss, **{**options, "n_estimators": model.n_estimators_}).fit(X[:250], y[:250])
    np.testing.assert_array_equal(outputs(model, X), outputs(shorter, X))


@pytest.mark.slow
def test_early_stopping_on_a_part_of_the_rows(X, rng):
    y = make_target("multiclass", X, rng)
    options = {"n_estimators": 200, "early_stopping": True, "validation_fraction": 0.3, "random_state": 7}
    first, second = (GradientBoostingClassifier(**options).fit(X, y) for _ in range(2))
    assert first.n_estimators_ < 200
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    np.testing.assert_array_equal(first.evals_result_["validation"]["loss"], second.evals_result_["validation"]["loss"])
    other = GradientBoostingClassifier(**{**options, "validation_fraction": 0.1}).fit(X, y)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))
    for flag in (False, "auto"):
        assert GradientBoostingClassifier(n_estimators=30, early_stopping=flag).fit(X, y).n_estimators_ == 30
    from_numpy = GradientBoostingClassifier(**{**options, "early_stopping": np.True_}).fit(X, y)
    assert from_numpy.n_estimators_ == first.n_estimators_


def test_patience_and_tolerance(X, rng):
    y = make_target("squared_error", X, rng)
    validation = {"X_val": X[250:], "y_val": y[250:]}

    def n_rounds(**options):
        model = GradientBoostingRegressor(n_estimators=500, learning_rate=0.3, **options)
        return len(model.fit(X[:250], y[:250], **validation).evals_result_["validation"]["loss"])

    assert n_rounds(n_iter_no_change=2) < n_rounds(n_iter_no_change=40)
    assert n_rounds(tol=0.05) < n_rounds(tol=0.0)


@pytest.mark.parametrize(
    ("options", "validation", "message"),
    [
        ({}, {"X_val": np.ones((2, 4))}, "X_val and y_val must be passed together; got X_val without y_val"),
        ({}, {"y_val": [0, 1]}, "X_val and y_val must be passed together; got y_val without X_val"),
        ({}, {"X_val": np.ones((2, 3)), "y_val": [0, 1]}, "X has 3 features"),
        ({}, {"X_val": np.ones((2, 4)), "y_val": [0, 2]}, "y must hold the classes seen in fit; it holds 2"),
    ],
)
def test_errors_of_validation_data(options, validation, message, X, rng):
    with pytest.raises(ValueError, match=message):
        GradientBoostingClassifier(**options).fit(X, make_target("binary", X, rng), **validation)


# What is asked of a fitted model --------------------------------------------------


def test_stages_end_in_the_prediction(loss, X, rng):
    model = make_model(loss).fit(X, make_target(loss, X, rng))
    names = ["predict", *(["predict_proba", "decision_function"] if hasattr(model, "predict_proba") else [])]
    for name in names:
        stages = list(getattr(model, f"staged_{name}")(X))
        assert len(stages) == 8
        np.testing.assert_array_equal(stages[-1], getattr(model, name)(X))
        assert not np.array_equal(stages[0], stages[-1]) or name == "predict"


def test_predictions_fit_together(X, rng):
    for loss in ("binary", "multiclass"):
        model = make_model(loss).fit(X, make_target(loss, X, rng))
        proba, raw = model.predict_proba(X), model.decision_function(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
        expected = 1 / (1 + np.exp(-raw)) if raw.ndim == 1 else np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(proba[:, 1] if raw.ndim == 1 else proba, expected, rtol=1e-6)


def test_apply_gives_leaves(loss, X, rng):
    model = make_model(loss).fit(X, make_target(loss, X, rng))
    leaves = model.apply(X)
    assert leaves.shape == ((400, 8, 3) if loss == "multiclass" else (400, 8))
    trees = model._ensemble
    nodes = leaves.reshape(400, -1) + trees.node_offsets[:-1]
    assert (trees.left_child[nodes] == 0).all()
    raw = np.zeros((400, trees.n_outputs))
    for column, output in enumerate(trees.tree_output):
        raw[:, output] += trees.value[nodes[:, column], 0]
    np.testing.assert_allclose(raw + trees.baseline, trees.predict_raw(X))


def test_importances(X, rng):
    X = np.column_stack([X, np.zeros(len(X))])
    model = make_model("squared_error", n_estimators=20).fit(X, make_target("squared_error", X, rng))
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert set(model.feature_importances_.argsort()[-2:]) == {0, 1}
    assert model.feature_importances_[4] == model.feature_split_counts_[4] == 0
    assert model.feature_split_counts_.sum() == (model._ensemble.n_leaves - 1).sum()
    nothing = GradientBoostingRegressor().fit(np.zeros((30, 2)), np.arange(30))
    assert nothing.feature_importances_.tolist() == [0, 0]


def test_one_row_is_as_in_a_batch(loss, X, rng):
    model = make_model(loss, n_estimators=30).fit(X, make_target(loss, X, rng))
    whole = outputs(model, X)
    for row in range(0, 400, 37):
        np.testing.assert_array_equal(outputs(model, X[row : row + 1]), whole[row : row + 1])
    np.testing.assert_array_equal(outputs(model, X[13:101]), whole[13:101])


USES = {
    "predict": lambda model, X: model.predict(X),
    "predict_proba": lambda model, X: model.predict_proba(X),
    "staged_predict": lambda model, X: next(model.staged_predict(X)),
    "apply": lambda model, X: model.apply(X),
    "save": lambda model, X: model.save("never written"),
    "feature_importances_": lambda model, X: model.feature_importances_,
}


@pytest.mark.parametrize("use", USES)
def test_not_fitted(use, X):
    with pytest.raises(NotFittedError):
        USES[use](GradientBoostingClassifier(), X)


def test_a_second_fit_forgets_the_first(X, rng):
    y = make_target("binary", X, rng)
    model = GradientBoostingClassifier(n_estimators=10).fit(X[:, :2], y, X_val=X[:, :2], y_val=y)
    model.fit(X, make_target("multiclass", X, rng))
    assert model.n_features_in_ == 4
    assert list(model.evals_result_) == ["training"]
    assert model.predict_proba(X).shape == (400, 3)


# scikit-learn's tools --------------------------------------------------


def test_clone_and_copies(loss, X, rng, tmp_path):
    model = make_model(loss).fit(X, make_target(loss, X, rng))
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "n_features_in_")
    joblib.dump(model, tmp_path / "model.joblib", compress=3)
    np.testing.assert_array_equal(outputs(joblib.load(tmp_path / "model.joblib"), X), outputs(model, X))


def test_model_selection(X, rng):
    y = make_target("binary", X, rng)
    search = GridSearchCV(
        GradientBoostingClassifier(n_estimators=10), {"max_leaf_nodes": [2, 15], "learning_rate": [0.01, 0.3]}, cv=3
    ).fit(X, y)
    assert search.best_params_ == {"max_leaf_nodes": 15, "learning_rate": 0.3}
    assert search.predict_proba(X).shape == (400, 2)
    y = make_target("squared_error", X, rng)
    with joblib.parallel_backend("threading"):
        scores = cross_val_score(GradientBoostingRegressor(n_estimators=40), X, y, cv=4, n_jobs=2)
    assert scores.min() > 0.6


def test_pipeline(X, rng):
    y = make_target("binary", X, rng)
    scaler = make_column_transformer((StandardScaler(), [0, 1]), remainder="passthrough")
    model = make_pipeline(scaler, GradientBoostingClassifier(n_estimators=20))
    assert model.fit(X, y).score(X, y) > 0.9
    plain = GradientBoostingClassifier(n_estimators=20).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


# Memory --------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"early_stopping": True, "eval_metric": ["loss", "neg_mean_absolute_error"]},
        {"callbacks": [lambda env: None]},
        {"boosting": "dart"},
        {"linear_leaves": True},
        {"subsample": 0.5, "oob_score": True},
    ],
    ids=", ".join,
)
def test_memory_of_a_fit_is_given_back_at_once(options, X, rng, monkeypatch):
    """What a fit needed, and a model that is no longer used, do not wait for the garbage to be collected."""
    kept = []
    start = Rounds.__init__

    def noting(run, *arguments, **keywords):
        start(run, *arguments, **keywords)
        kept.append(weakref.ref(run))

    monkeypatch.setattr(Rounds, "__init__", noting)
    gc.collect()
    gc.disable()
    try:
        model = GradientBoostingRegressor(n_estimators=20, **options).fit(X, rng.standard_normal(len(X)))
        assert [run() for run in kept] == [None]
        kept.append(weakref.ref(model))
        del model
        assert kept[-1]() is None
    finally:
        gc.enable()
