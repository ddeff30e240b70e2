"""A fit that fails anywhere leaves the estimator as it was, and not the old trees with the new labels."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import fastens
from fastens import rollback
from fastens.adaboost.weak_learners import VotingRun
from fastens.engine.losses.losses import BinaryLogLoss
from reference.public_estimators import CLASSES, make, shrink_default_members, table_for

SHARES = (0.1, 0.5, 0.9, 1.0)


def after_calls(n, fit):
    """Run a fit whose n-th call of a Python function fails; return the number of calls, and whether the fit failed."""
    n_calls = 0

    def count(_frame, event, _argument):
        nonlocal n_calls
        n_calls += event == "call"
        if n_calls == n:
            sys.setprofile(None)
            raise MemoryError

    sys.setprofile(count)
    try:
        fit()
    except MemoryError:
        return n_calls, True
    finally:
        sys.setprofile(None)
    return n_calls, False


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:No conjunction agrees")
@pytest.mark.parametrize("name", CLASSES)
def test_no_memory_anywhere(name, monkeypatch):
    shrink_default_members(monkeypatch, 2)
    small = {"n_estimators": 2, "n_jobs": 1, "random_state": 0}
    model, table = make(name), table_for(name)
    model.set_params(**{key: value for key, value in small.items() if key in model.get_params()}).fit(*table)
    other = tuple(np.asarray(part)[::-1][:-1] for part in table)
    before = dict(vars(model))
    n_calls, _ = after_calls(-1, lambda: model.fit(*other))
    n_failed = 0
    for share in SHARES:
        vars(model).clear()
        vars(model).update(before)
        _, failed = after_calls(max(int(share * n_calls) - 20, 10), lambda: model.fit(*other))
        n_failed += failed
        after = {key: value for key, value in vars(model).items() if key != "_finished"}  # for a warm start
        assert not failed or after.keys() == before.keys() - {"_finished"}
        assert not failed or all(value is before[key] for key, value in after.items())
    assert n_failed > 1  # a finalizer, or one that can do without, may have met the error


@contextlib.contextmanager
def ctrl_c_raises():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores the signal
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", ["GradientBoostingClassifier", "GradientBoostingRanker"])
def test_ctrl_c_leaves_a_consistent_model(name):
    """Also where one `fit` calls another, as the ranker's does."""
    X = np.random.default_rng(0).random((300, 3))
    model = make(name, n_estimators=20).fit(X, X[:, 0] > 0.5)
    model.callbacks = [lambda progress: signal.raise_signal(signal.SIGINT)]
    with ctrl_c_raises(), pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], np.where(X[:, 1] > 0.5, 2, 0))
    assert model.n_estimators_ < 20
    assert list(getattr(model, "classes_", [0, 2])) == [0, 2]
    assert len(model.predict(X[:, :2])) == 300


@pytest.mark.parametrize("n_rounds", [0, 2])
@pytest.mark.parametrize("validates", [False, True])
def test_ctrl_c_leaves_the_votes_that_are_counted(n_rounds, validates, monkeypatch):
    """Before the first one is, the model is as it was; the scores may be a vote ahead."""
    X = np.random.default_rng(0).random((300, 3))
    y = (X[:, 0] + X[:, 1] > 1).astype(int)
    model = fastens.AdaBoostClassifier(n_estimators=5, early_stopping=validates, random_state=0).fit(X, y)
    before = model.decision_function(X)

    class Interrupted(list):
        def append(self, vote):
            if len(self) == n_rounds:
                raise KeyboardInterrupt
            super().append(vote)

    plain_init = VotingRun.__init__

    def init(run, *args, **how):
        plain_init(run, *args, **how)
        run.votes = Interrupted()

    monkeypatch.setattr(VotingRun, "__init__", init)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_estimators_ == len(model.estimator_weights_)
    assert model.n_estimators_ <= (n_rounds or 5)
    assert np.array_equal(model.decision_function(X), before) == (n_rounds == 0)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_does_not_wait_for_a_large_node():
    """The root of this tree alone takes a second."""
    X = np.random.default_rng(0).random((100_000, 10))
    model, sent = fastens.DecisionTreeRegressor(criterion="absolute_error", n_jobs=1), []

    def send():
        sent.append(time.process_time())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Timer(0.3, send).start()
    with ctrl_c_raises(), pytest.raises(KeyboardInterrupt):
        model.fit(X, X[:, 0] + X[:, 1] ** 2)
    assert time.process_time() - sent[0] < 0.2


def test_one_model_learns_in_one_thread_at_a_time():
    """Two fits would each work with what the other one has set, kernels with numbers out of their arrays."""
    X, y = table_for("GradientBoostingClassifier")
    errors = []

    def learn_too(_record):
        def learn(method, *given):
            with pytest.raises(
                RuntimeError, match=r"is being fitted in another thread\. Fit a separate clone in each"
            ) as caught:
                getattr(model, method)(*given)
            errors.append(caught.value)

        if threading.current_thread() is not threading.main_thread():
            return
        for other in (("fit", X[:, :2], y > 0), ("fit", X, y)):
            thread = threading.Thread(target=learn, args=other)
            thread.start()
            thread.join()

    model = fastens.GradientBoostingClassifier(n_estimators=2, callbacks=[learn_too])
    model.fit(X, y)
    assert len(errors) == 4
    expected = fastens.GradientBoostingClassifier(n_estimators=2).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    model.set_params(callbacks=None)
    thread = threading.Thread(target=model.fit, args=(X[:, :2], y > 0))
    thread.start()
    thread.join()
    assert model.n_features_in_ == 2


class _Interrupted(dict):
    """Of the models that learn: Ctrl-C comes as one of them is noted."""

    def setdefault(self, *given):
        super().setdefault(*given)
        raise KeyboardInterrupt


def test_a_model_whose_fit_was_interrupted_at_its_start_may_learn_in_another_thread(monkeypatch):
    learning = _Interrupted()
    monkeypatch.setattr(rollback, "_fitting_thread", learning)
    with pytest.raises(KeyboardInterrupt):
        fastens.GaussianNB().fit(*table_for("GaussianNB"))
    assert not learning


def test_a_model_that_is_fitted_while_it_predicts_reads_no_memory_of_others():
    """Its columns are those of the new fit, its trees those of the last one; or its loss has other outputs."""
    X, y = table_for("GradientBoostingClassifier")
    model = fastens.GradientBoostingClassifier(n_estimators=2).fit(X, y)
    model._encoder, model._n_plain_features = fastens.GaussianNB().fit(X[:, :2], y)._encoder, 2
    with pytest.raises(ValueError, match=r"columns.*got 2"):
        model.predict_contributions(X[:, :2])
    assert BinaryLogLoss().predict(np.zeros((5, 3))).shape == (15, 2)
