"""Threads that fit, predict, save and load at once do no harm to each other, with the GIL or without."""

from __future__ import annotations

import pickle
import sys
import threading

import numpy as np
import pytest

import fastens
from properties.threads import Stress
from reference.children import run_child

AFTER_MAIN = """
import threading
import numpy as np
import pyarrow as pa
import fastens

X = np.random.default_rng(0).standard_normal((6000, 6))
y = (2 * X[:, 0]).astype(int)
nb = fastens.GaussianNB()
models = {
    "vote": fastens.VotingClassifier([("a", nb), ("b", nb)], voting="soft", n_jobs=2),
    "bag": fastens.BaggingClassifier(nb, n_estimators=2, random_state=0, n_jobs=2),
    "boosting": fastens.GradientBoostingClassifier(n_estimators=2, n_jobs=2),
    "forest": fastens.RandomForestClassifier(2, random_state=0, n_jobs=2),
}

def fit():
    threading.main_thread().join()
    for name, model in models.items():
        print(name, np.array_equal(model.fit(X, y).predict_proba(X), expected[name]))
    rows = pa.table(list(X.T), names=list("abcdef"))
    print("batches", sum(map(len, nb.fit(rows, y).predict(rows.to_reader(100)))))

expected = {name: model.fit(X, y).predict_proba(X) for name, model in models.items()}
threading.Thread(target=fit).start()
"""


@pytest.mark.slow
def test_threads_side_by_side(tmp_path):
    stress = Stress(tmp_path)
    stress.run([range(12)] * 6)
    assert stress.wrong == []
    assert stress.n_done == [12] * 6


def test_a_wrong_result_is_seen(tmp_path):
    stress = Stress(tmp_path)
    for name in stress.alone:
        stress.alone[name] = stress.alone["GaussianNB"]
    stress.run([range(12)])
    assert stress.wrong


@pytest.fixture
def quick_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["VersionSpaceClassifier", "ExactTreeAverageClassifier", "BayesTreeClassifier"])
def test_lazy_computations_are_thread_safe(kind, quick_switches):
    """A model that was loaded keeps it while others ask whether it is fitted, or pickle it."""
    X = (np.random.default_rng(0).normal(size=(60, 4)) > 0).astype(int)
    state = pickle.dumps(getattr(fastens, kind)(random_state=0).fit(X, X[:, 0] > 0))
    errors = []

    def run(until, work):
        meet.wait()
        try:
            while not until():
                work()
        except RuntimeError as error:
            errors.append(error)

    for _ in range(60):
        model, done, meet = pickle.loads(state), threading.Event(), threading.Barrier(4)
        others = [model._check_fitted, model._check_fitted, lambda model=model: pickle.dumps(model)]
        threads = [threading.Thread(target=run, args=(done.is_set, work)) for work in others]
        for thread in threads:
            thread.start()
        meet.wait()
        model.sample_posterior()
        done.set()
        for thread in threads:
            thread.join()
    assert errors == []


@pytest.mark.slow
def test_a_thread_that_goes_on_after_the_main_one(tmp_path):
    done = run_child(AFTER_MAIN, folder=tmp_path)
    assert done.stdout.splitlines() == ["vote True", "bag True", "boosting True", "forest True", "batches 6000"], (
        done.stderr
    )
