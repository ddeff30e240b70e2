"""The way of unseen categories against its naive twin."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fastens import (
    AdaBoostClassifier,
    Categories,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from reference.unseen import sides_of_unseen

KEPT = Categories(unseen="missing")
MODELS = [
    GradientBoostingRegressor(n_estimators=4, max_leaf_nodes=8, categories=KEPT),
    GradientBoostingClassifier(n_estimators=3, max_leaf_nodes=6, categories=KEPT),
    GradientBoostingRegressor(n_estimators=3, linear_leaves=True, categories=KEPT),
    RandomForestRegressor(4, max_depth=5, random_state=0, categories=KEPT),
    ExtraTreesClassifier(4, max_depth=5, random_state=0, categories=KEPT),
    DecisionTreeRegressor(max_depth=5, categories=KEPT),
    AdaBoostClassifier(n_estimators=5, categories=KEPT),
    AdaBoostClassifier(n_estimators=3, max_depth=3, categories=KEPT),
]


@pytest.fixture
def table(rng):
    """Two columns of categories without missing values, one with, and numbers."""
    X = pd.DataFrame({name: rng.choice(list("abcdefgh"), 400) for name in ("one", "two", "three")})
    X.loc[::5, "three"] = None
    X["number"] = rng.normal(size=400)
    effects = {letter: rng.normal() for letter in "abcdefgh"}
    y = X["one"].map(effects) + X["two"].map(effects) * X["number"] + X["three"].map(effects).fillna(2.0)
    return X, y.to_numpy()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_ways_match_the_reference(table, model):
    X, y = table
    if hasattr(model, "predict_proba"):
        y = np.digitize(y, [-0.5, 0.8])
    before = model.fit(X, y)._ensemble
    after = before.with_unseen_on_average()
    expected = sides_of_unseen(before)
    assert len(expected) > 3
    for node, is_left in expected.items():
        assert bool(after.category_words[after.category_set[node]] & 1) == is_left
    changed = before.category_words ^ after.category_words
    assert set(changed) <= {0, 1}
    assert changed.any() or isinstance(model, AdaBoostClassifier)
    assert after.with_unseen_on_average() is after
    assert not after.missing_left[after.category_set >= 0].any()


def test_splits_without_missing_rows_are_free(table):
    X, y = table
    for kind in (GradientBoostingRegressor, DecisionTreeRegressor, AdaBoostClassifier):
        model = kind(categories=KEPT)
        trees = model.fit(X, y if "Classifier" not in type(model).__name__ else y > 0)._ensemble
        assert trees.missing_left[(trees.category_set >= 0) & (trees.feature < 2)].all()
        roots = trees.node_offsets[:-1]
        of_missing = roots[(trees.category_set[roots] >= 0) & (trees.feature[roots] == 2)]
        assert not trees.missing_left[of_missing].any()
