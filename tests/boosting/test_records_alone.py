"""Large tables have codes by row alone, and by column those of some features: models are the same to the bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fastens as fe
from fastens.engine.bins.binning import learn_binning
from fastens.engine.grow.growth import GrowthParameters, TreeGrower
from fastens.engine.grow.near_columns import NearColumns
from fastens.params.options import Categories

RNG = np.random.default_rng(3)
X = RNG.normal(size=(3000, 9)).round(2)
X[::7, 1] = np.nan
Y = X[:, 0] + X[:, 2] * X[:, 3] + RNG.normal(size=len(X)) / 3
LABELS = np.digitize(Y, [-0.5, 0.6])
ONE_HOT = np.hstack([X, np.eye(12)[RNG.integers(12, size=len(X))]])
FRAME = pd.DataFrame(X, columns=list("abcdefghi")).assign(word=pd.Categorical(RNG.choice(list("qrstuvw"), len(X))))

CASES = {
    "all rows": (fe.GradientBoostingRegressor, {}, X),
    "drawn rows": (fe.GradientBoostingRegressor, {"subsample": 0.4}, X),
    "levels": (fe.GradientBoostingRegressor, {"max_leaf_nodes": None, "max_depth": 5}, X),
    "codes of two bytes": (fe.GradientBoostingRegressor, {"max_bins": 700, "n_jobs": 2}, X),
    "categories": (fe.GradientBoostingRegressor, {"categories": Categories(encoding="partition")}, FRAME),
    "bundles": (fe.GradientBoostingRegressor, {}, ONE_HOT),
    "dropout": (fe.GradientBoostingRegressor, {"boosting": "dart"}, X),
    "lines": (fe.GradientBoostingRegressor, {"linear_leaves": True, "subsample": 0.5}, X),
    "medians": (fe.GradientBoostingRegressor, {"loss": "absolute_error", "early_stopping": True}, X),
    "trees side by side": (fe.GradientBoostingClassifier, {"n_jobs": 2}, np.tile(X, (1, 5))),
    "classes": (fe.GradientBoostingClassifier, {"max_features": 0.5}, X),
}


def fitted(kind, options, table):
    y = LABELS if kind is fe.GradientBoostingClassifier else Y
    return kind(n_estimators=6, random_state=0, **options).fit(table, y)


@pytest.mark.parametrize("case", CASES)
def test_models_are_the_same(case, monkeypatch):
    whole = fitted(*CASES[case])
    n_read, read = [], NearColumns._copy_if_useful
    monkeypatch.setattr(
        NearColumns, "_copy_if_useful", lambda self, feature: (n_read.append(feature), read(self, feature))
    )
    monkeypatch.setattr("fastens.boosting.rounds.MAX_COLUMNS", 0)
    model = fitted(*CASES[case])
    assert n_read
    for name, array in whole._ensemble.to_arrays().items():
        np.testing.assert_array_equal(model._ensemble.to_arrays()[name], array, err_msg=name)


def test_several_targets_in_one_tree(monkeypatch):
    y = np.column_stack([Y, -(Y**2), X[:, 5]])
    whole = fe.GradientBoostingRegressor(n_estimators=4, subsample=0.7, random_state=0).fit(X, y)
    monkeypatch.setattr("fastens.boosting.rounds.MAX_COLUMNS", 0)
    model = fe.GradientBoostingRegressor(n_estimators=4, subsample=0.7, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


def test_columns_match_the_features_that_divide_most_rows():
    binning = learn_binning(np.tile(X, (1, 4)))
    matrix = binning.transform(np.tile(X, (1, 4)), max_column_bytes=0)
    assert not matrix.has_columns
    np.testing.assert_array_equal(matrix.columns, binning.codes(np.tile(X, (1, 4))))
    near = NearColumns(matrix)
    grower = TreeGrower(matrix, GrowthParameters(max_leaf_nodes=8))
    ones = np.ones(len(X), dtype=np.float32)

    def held(signal):
        near.choose(grower.grow((-signal).astype(np.float32), ones))
        return set(np.flatnonzero(near.places))

    assert held(np.nan_to_num(X[:, 4])) == {4}
    assert held(np.nan_to_num(X[:, 6])) == {4, 6}
    # 48 bytes of records have room for six columns: what the first trees split on gives way.
    for feature in (0, 2, 3, 5, 7, 8):
        found = held(X[:, feature])
        assert feature in found
    assert found == {0, 2, 3, 5, 7, 8}
    for slot, feature in enumerate(near._features):
        if feature >= 0:
            np.testing.assert_array_equal(near._columns[slot], matrix.columns[feature])
            assert near.places[feature] == near._columns[slot].ctypes.data
