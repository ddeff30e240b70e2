"""More threads than cores, other processes on the cores, no threads at all: the same models to the bit, and no hang."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed
from numpy.testing import assert_array_equal

from fastens import (
    AdaBoostClassifier,
    DecisionTreeClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
)
from reference.children import run_child
from reference.models import same_python

MODELS = {
    "boosting": lambda n_jobs: GradientBoostingClassifier(n_estimators=5, n_jobs=n_jobs),
    "absolute error": lambda n_jobs: GradientBoostingRegressor(loss="absolute_error", n_estimators=3, n_jobs=n_jobs),
    "AdaBoost": lambda n_jobs: AdaBoostClassifier(n_estimators=10, n_jobs=n_jobs),
    "forest": lambda n_jobs: RandomForestClassifier(n_estimators=3, random_state=0, n_jobs=n_jobs),
    "extra trees": lambda n_jobs: ExtraTreesRegressor(n_estimators=3, random_state=0, n_jobs=n_jobs),
    "tree": lambda n_jobs: DecisionTreeClassifier(random_state=0, n_jobs=n_jobs),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 8))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)


@pytest.fixture
def busy_cores():
    """Other processes that keep two cores busy."""
    command = [sys.executable, "-S", "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(2)]
    yield
    for process in processes:
        process.kill()
        process.wait()


def answers(name, n_jobs, rows):
    X, y = rows
    model = MODELS[name](n_jobs).fit(X, y)
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_same_bits_with_more_threads_than_cores_and_other_work(name, rows, busy_cores):
    expected = answers(name, 1, rows)
    for n_jobs in (2, 8, 8, 200):
        assert_array_equal(answers(name, n_jobs, rows), expected)


def test_contributions_with_more_threads_than_cores_and_other_work(rows, busy_cores):
    X, y = rows
    model = GradientBoostingClassifier(n_estimators=5, n_jobs=1).fit(X, y)
    expected = model.predict_contributions(X[:500])
    for n_jobs in (2, 8):
        assert_array_equal(model.set_params(n_jobs=n_jobs).predict_contributions(X[:500]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["boosting", "AdaBoost", "forest"])
def test_fits_in_many_threads_of_python_share_the_helpers(name, rows):
    expected = answers(name, 1, rows)
    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(lambda n_jobs: answers(name, n_jobs, rows), [2, 3, 4] * 4):
            assert_array_equal(found, expected)
    for found in Parallel(4, backend="threading")(delayed(answers)(name, 2, rows) for _ in range(4)):
        assert_array_equal(found, expected)


def send_answers(name, rows, sender):
    sender.send(answers(name, 2, rows))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", ["AdaBoost", "forest", "tree"])
def test_a_child_forked_after_a_fit_does_not_wait_for_its_parents_helpers(name, rows):
    expected = answers(name, 2, rows)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=send_answers, args=(name, rows, sender), daemon=True)
    child.start()
    try:
        assert receiver.poll(60), "the child hangs"
        assert_array_equal(receiver.recv(), expected)
    finally:
        child.kill()
        child.join()
    assert_array_equal(answers(name, 2, rows), expected)


FIT = """
import numpy as np
from fastens import AdaBoostClassifier, DecisionTreeClassifier, GradientBoostingClassifier, RandomForestClassifier
X = np.random.default_rng(0).standard_normal((20_000, 14))
y = X[:, 0] > X[:, 1]
for model in (AdaBoostClassifier(n_estimators=3, n_jobs={n_jobs}),
              GradientBoostingClassifier(n_estimators=3, n_jobs={n_jobs}),
              DecisionTreeClassifier(random_state=0, n_jobs={n_jobs}),
              RandomForestClassifier(n_estimators=3, max_depth=3, random_state=0, n_jobs={n_jobs})):
    print(model.fit(X, y).predict_proba(X).sum(axis=0).tolist())
"""
NO_THREAD = """
import threading
try:
    threading.Thread().start()
except RuntimeError:
    print("no threads")
"""


def printed(script, before="true", **environment):
    """What a Python prints that starts with other limits or variables."""
    command = ["sh", "-c", f'{before} && exec "$@"', "sh", *same_python(), "-c", script]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def of_one_thread(tmp_path_factory):
    return run_child(FIT.format(n_jobs=1), folder=tmp_path_factory.mktemp("one")).stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="asks a POSIX shell")
def test_no_hang_where_openmp_has_one_thread(of_one_thread):
    assert printed(FIT.format(n_jobs=4), OMP_THREAD_LIMIT="1", OMP_NUM_THREADS="1") == of_one_thread


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limits of Linux")
def test_where_the_system_gives_no_threads_the_caller_does_all(of_one_thread):
    no_room_for_stacks = "ulimit -s 32000000 && ulimit -v 16000000"
    environment = {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    found = printed(FIT.format(n_jobs=4) + NO_THREAD, no_room_for_stacks, **environment)
    assert found == of_one_thread + "no threads\n"
