"""Work on a table that several models need is done once, and changes nothing."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd

from fastens import GradientBoostingClassifier
from fastens.engine.bins.binning import learn_binning
from fastens.engine.comm import shared_work
from fastens.engine.threads import limited_threads, resolve_n_jobs


def test_the_same_table_is_binned_once_within_the_context(rng):
    X, weight = rng.normal(size=(50, 3)), rng.random(50)
    assert learn_binning(X) is not learn_binning(X)
    with shared_work():
        first = learn_binning(X, weight.copy(), n_threads=1)
        assert learn_binning(X, weight.copy(), n_threads=2) is first
        assert first.transform(X) is first.transform(X, 2)
        with shared_work():
            assert learn_binning(X, weight) is first
        assert learn_binning(X, 2 * weight) is not first
        assert learn_binning(X, weight, 5) is not first
        assert learn_binning(X.copy(), weight) is not first
    assert learn_binning(X, weight) is not first


def test_other_threads_share_nothing(rng):
    X = rng.normal(size=(50, 3))
    found = []
    with shared_work():
        first = learn_binning(X)
        thread = threading.Thread(target=lambda: found.append(learn_binning(X)))
        thread.start()
        thread.join()
    assert found[0] is not first


def test_a_frame_is_encoded_once_with_the_same_model(rng):
    frame = pd.DataFrame({"a": rng.normal(size=80), "kind": rng.choice(["x", "y"], 80)})
    y = (frame["a"] > 0).to_numpy()
    alone = GradientBoostingClassifier(n_estimators=3).fit(frame, y)
    with shared_work():
        first, second = (GradientBoostingClassifier(n_estimators=3).fit(frame, y) for _ in range(2))
    assert first._encoder is second._encoder
    assert first.feature_names_in_.tolist() == ["a", "kind"]
    for model in (first, second):
        np.testing.assert_array_equal(model.predict_proba(frame), alone.predict_proba(frame))


def test_a_limit_of_threads():
    with limited_threads(1):
        assert resolve_n_jobs(None) == resolve_n_jobs(4) == 1
        with limited_threads(None), limited_threads(3):
            assert resolve_n_jobs(4) == 1
    with limited_threads(3):
        assert resolve_n_jobs(4) == 3
    assert resolve_n_jobs(4) == 4
