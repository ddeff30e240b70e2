"""AdaBoost on several ranks is that of one rank with the whole table, to the bit of the saved model."""

from __future__ import annotations

import pytest

from fastens import AdaBoostClassifier, AdaBoostRegressor, DecisionTreeClassifier, DecisionTreeRegressor, GaussianNB
from reference.rank_fits import BINARY, CLASSES, WEIGHTS, T, assert_saved_models_are_the_same, fit_on_ranks

FEW = {"n_estimators": 6, "n_jobs": 1}
MODELS = {
    "stumps": (lambda: AdaBoostClassifier(categorical_features=[4], **FEW), BINARY),
    "stumps of classes": (lambda: AdaBoostClassifier(algorithm="real", criterion="entropy", **FEW), CLASSES),
    "trees": (lambda: AdaBoostClassifier(max_depth=3, **FEW), CLASSES),
    "our trees": (lambda: AdaBoostClassifier(DecisionTreeClassifier(max_leaf_nodes=6), **FEW), BINARY),
    "drawn rows": (lambda: AdaBoostClassifier(resample=True, random_state=3, **FEW), BINARY),
    "rows held out": (lambda: AdaBoostClassifier(early_stopping=True, random_state=3, **FEW), BINARY),
    "numbers": (lambda: AdaBoostRegressor(resample=False, categorical_features=[4], **FEW), T),
    "drawn numbers": (lambda: AdaBoostRegressor(loss="square", resample=True, random_state=3, **FEW), T),
    "gentle": (lambda: AdaBoostClassifier(algorithm="gentle", max_depth=2, **FEW), BINARY),
    "logit": (lambda: AdaBoostClassifier(algorithm="logit", **FEW), CLASSES),
}


@pytest.mark.slow
@pytest.mark.parametrize(("size", "weights"), [(2, "whole"), (4, "fractional"), (5, None)])
@pytest.mark.parametrize("name", MODELS)
def test_saved_models_are_the_same(name, size, weights, tmp_path):
    make, y = MODELS[name]
    weight = WEIGHTS.get(weights)
    assert_saved_models_are_the_same(size, make, y, weight, tmp_path / "model")


def test_other_estimators_need_all_rows():
    rule = r"estimator must be None \(or a fastens\.DecisionTreeClassifier for.*got "
    with pytest.raises(ValueError, match=rule + "GaussianNB"):
        fit_on_ranks(2, lambda: AdaBoostClassifier(GaussianNB()), BINARY)
    with pytest.raises(ValueError, match=rule + "DecisionTreeRegressor"):
        fit_on_ranks(2, lambda: AdaBoostRegressor(DecisionTreeRegressor()), T)
