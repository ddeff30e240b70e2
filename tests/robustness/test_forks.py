"""Processes forked while a thread fits, from within a fit, and as servers do: none hangs, and bits are the same."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fastens
from fastens.engine.threads import cached_property

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
X = np.random.default_rng(0).standard_normal((20_000, 6))
Y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
MODELS = {
    "boosting": lambda: fastens.GradientBoostingClassifier(n_estimators=5, n_jobs=2),
    "forest": lambda: fastens.RandomForestClassifier(n_estimators=3, random_state=0, n_jobs=2),
    "tree": lambda: fastens.DecisionTreeClassifier(random_state=0, n_jobs=2),
    "bag": lambda: fastens.BaggingClassifier(n_estimators=2, random_state=0, n_jobs=2),
    "vote": lambda: fastens.VotingClassifier([("a", MODELS["boosting"]()), ("b", MODELS["tree"]())], voting="soft"),
}
SECONDS = 100  # that a child may take on a busy machine


def answers(name):
    return MODELS[name]().fit(X, Y).predict_proba(X)


def fork(work):
    """A child that ends with 0 where `work` returns True."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)  # ends it where it hangs
        status = 1
        try:
            status = not work()
        finally:
            os._exit(status)
    return child


def ended_well(child):
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_forks_while_a_thread_fits(name):
    """What the fit holds at that moment, its child holds for ever."""
    expected, done, n_fits = answers(name), threading.Event(), 0

    def fit_on():
        nonlocal n_fits
        while not done.is_set():
            assert np.array_equal(answers(name), expected)
            n_fits += 1

    with ThreadPoolExecutor(1) as pool:
        fits = pool.submit(fit_on)
        try:
            for i in range(8):
                time.sleep(0.003 * i)
                assert ended_well(fork(lambda: np.array_equal(answers(name), expected)))
        finally:
            done.set()
        fits.result()
    assert n_fits > 0


def test_forks_while_a_thread_computes_an_attribute():
    computing, may_end = threading.Event(), threading.Event()

    class Thing:
        @cached_property
        def value(self):
            computing.set()
            assert may_end.wait(SECONDS)
            return 7

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda thing: thing.value, Thing())
        assert computing.wait(SECONDS)
        child = fork(lambda: may_end.set() or Thing().value == 7)
        may_end.set()
        assert ended_well(child)
        assert found.result() == 7


def test_forks_within_a_fit():
    """Both go on: the child's fit and the parent's give the same model."""
    expected, parent, children = answers("boosting"), os.getpid(), []

    def fork_once(progress):
        if progress.iteration == 2:
            children.append(os.fork())
            signal.alarm(0 if children[-1] else SECONDS)

    model, status = MODELS["boosting"]().set_params(callbacks=[fork_once]), 1
    try:
        status = not np.array_equal(model.fit(X, Y).predict_proba(X), expected)
    finally:
        if os.getpid() != parent:
            os._exit(status)
    assert status == 0
    assert ended_well(*children)


@pytest.mark.slow
def test_servers_workers():
    """A model loaded, and used, before the workers are forked; each answers in threads, and is replaced when killed."""
    model = MODELS["boosting"]().fit(X, Y)
    expected = model.predict_proba(X)

    def serve():
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: model.predict_proba(X), range(8)))
        return all(np.array_equal(each, expected) for each in found)

    def serve_for_ever():
        while serve():
            pass

    killed = [fork(serve_for_ever) for _ in range(2)]
    workers = [fork(serve) for _ in range(2)]
    for child in killed:
        os.kill(child, signal.SIGKILL)
        assert not ended_well(child)
    workers += [fork(serve) for _ in killed]
    assert serve()
    assert [ended_well(child) for child in workers] == [True] * 4
