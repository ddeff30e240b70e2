"""What a prediction takes follows from the table and the answer, not from rows times trees."""

from __future__ import annotations

import tracemalloc

import numpy as np

from fastens import AdaBoostRegressor, RandomForestClassifier
from fastens.combining.stackers import RidgeStacker
from fastens.forests import out_of_bag as forest_uncertainty


def peak_of(method, X):
    method(X[:10])  # what is made once
    tracemalloc.start()
    try:
        method(X)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_medians_of_trees(rng):
    X = rng.normal(size=(100_000, 2))
    model = AdaBoostRegressor(n_estimators=30, random_state=0).fit(X[:200], X[:200, 0])
    assert model.n_estimators_ > 20
    assert peak_of(model.predict, X) < 24e6  # 16 bytes of a row and tree were 48 MB
    np.testing.assert_array_equal(model.predict(X)[-50:], model.predict(X[-50:]))


def test_variances_of_forests(rng, monkeypatch):
    monkeypatch.setattr(forest_uncertainty, "_BLOCK_VALUES", 1 << 16)
    X = rng.normal(size=(10_000, 2))
    model = RandomForestClassifier(20, random_state=0).fit(X[:60], np.arange(60) % 5)
    of_leaves, answer = 4 * 20 * len(X), 8 * 5 * len(X)
    assert peak_of(model.predict_variance, X) < 2 * (of_leaves + answer)
    np.testing.assert_array_equal(model.predict_variance(X[:5000])[-50:], model.predict_variance(X[4950:5000]))


def test_final_estimators_of_stacks(rng):
    X = rng.normal(size=(50_000, 10))
    model = RidgeStacker().fit(X[:500], X[:500, 0])
    assert peak_of(model.predict, X) < X.nbytes
    np.testing.assert_array_equal(model.predict(X)[-50:], model.predict(X[-50:]))
