"""Forests and trees on several ranks are those of one rank with the whole table, to the bit of the saved model."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from fastens import (
    BaggingClassifier,
    DecisionTreeClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GaussianNB,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from reference.rank_fits import (
    BINARY,
    CLASSES,
    WEIGHTS,
    WEIGHTS_AND_SIZES,
    T,
    X,
    assert_saved_models_are_the_same,
    fit_on_ranks,
)

FEW = {"n_estimators": 3, "random_state": 4, "n_jobs": 1}
MODELS = {
    "bags": (lambda: RandomForestClassifier(oob_score=True, **FEW), BINARY),
    "class weights": (lambda: RandomForestClassifier(class_weight="balanced_subsample", **FEW), CLASSES),
    "numbers": (lambda: RandomForestRegressor(bootstrap=False, categorical_features=[4], **FEW), T),
    "best first": (lambda: RandomForestRegressor(max_leaf_nodes=20, **FEW), T),
    "random thresholds": (lambda: ExtraTreesClassifier(**FEW), BINARY),
    "random numbers": (lambda: ExtraTreesRegressor(categorical_features=[4, 5], **FEW), T),
    "outliers": (lambda: IsolationForest(contamination=0.1, **FEW), T),
    "outliers of many": (lambda: IsolationForest(max_samples=0.9, bootstrap=True, categorical_features=[5], **FEW), T),
    "leaves": (lambda: RandomTreesEmbedding(max_depth=None, categorical_features=[4], **FEW), T),
    "bags of trees": (lambda: BaggingClassifier(oob_score=True, **FEW), BINARY),
    "one tree": (lambda: DecisionTreeClassifier(random_state=4), CLASSES),
}


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "size"), WEIGHTS_AND_SIZES)
@pytest.mark.parametrize("name", MODELS)
def test_saved_models_are_the_same(name, weights, size, tmp_path):
    make, y = MODELS[name]
    weight = WEIGHTS.get(weights)
    assert_saved_models_are_the_same(size, make, y, weight, tmp_path / "model")


def test_nodes_where_all_features_looked_at_are_constant(tmp_path):
    table = np.column_stack([X, np.ones((len(X), 6))])
    forest = ExtraTreesClassifier(max_features=1, max_depth=3, **FEW)
    clone(forest).fit(table, BINARY).save(tmp_path / "model")
    expected = (tmp_path / "model").read_bytes()
    for model in fit_on_ranks(2, lambda: clone(forest), BINARY, table=table):
        model.save(tmp_path / "model")
        assert (tmp_path / "model").read_bytes() == expected


def test_bags_of_other_estimators_need_all_rows():
    with pytest.raises(
        ValueError,
        match="BaggingClassifier must have all rows on one rank, because it has no distributed fit; got 2 ranks",
    ):
        fit_on_ranks(2, lambda: BaggingClassifier(GaussianNB()), BINARY)


def test_medians_need_all_rows():
    with pytest.raises(ValueError, match="criterion must not be 'absolute_error' in distributed fits, because"):
        fit_on_ranks(2, lambda: RandomForestRegressor(criterion="absolute_error", **FEW), T)
