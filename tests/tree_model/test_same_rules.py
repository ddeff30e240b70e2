"""A model that goes on, or is merged, keeps what its trees obey; anything else is an error that names it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fastens

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=200)
MODELS = {
    "boosting": fastens.GradientBoostingRegressor(n_estimators=3, warm_start=True),
    "classes": fastens.GradientBoostingClassifier(n_estimators=3, warm_start=True),
    "forest": fastens.RandomForestRegressor(n_estimators=3, warm_start=True, random_state=0),
    "extra": fastens.ExtraTreesClassifier(n_estimators=3, warm_start=True, random_state=0),
    "adaboost": fastens.AdaBoostClassifier(n_estimators=3, warm_start=True),
}
CHANGES = {
    "monotonic_cst": [1, 0, 0],
    "interaction_cst": "no_interactions",
    "feature_weights": [0.0, 1.0, 1.0],
    "max_bins": 20,
    "categorical_features": [2],
    "categories": fastens.Categories(encoding="target"),
}


def fitted(name, **parameters):
    model = clone(MODELS[name]).set_params(**parameters)
    y = Y > 0 if isinstance(model, fastens.AdaBoostClassifier) or hasattr(model, "predict_proba") else Y
    return model.fit(X, y), y


def pairs():
    for name, model in MODELS.items():
        yield from ((name, change) for change in CHANGES if change in model.get_params())


@pytest.mark.parametrize(("name", "change"), list(pairs()))
@pytest.mark.parametrize("saved", [False, True])
def test_a_fit_that_goes_on_keeps_the_rules(name, change, saved, tmp_path):
    model, y = fitted(name)
    if saved:
        model.save(tmp_path / "model")
        model = fastens.load(tmp_path / "model")
    before = model.predict(X)
    was = getattr(model, change)
    model.set_params(n_estimators=6, **{change: CHANGES[change]})
    with pytest.raises(
        ValueError, match=rf"^{change}(\.encoding)? must be the same as in the last fit, .*warm_start=False"
    ):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)  # the model is as it was
    with pytest.raises(ValueError, match="must be the same as in the last fit"):
        model.fit(X, y)  # and remembers its rules
    model.set_params(**{change: was}).fit(X, y)
    assert len(getattr(model, "estimators_", range(6))) == 6
    model.set_params(warm_start=False, **{change: CHANGES[change]})
    if change != "categorical_features":
        model.fit(X, y)


@pytest.mark.parametrize("name", ["boosting", "forest"])
def test_constraints_may_not_be_dropped_either(name):
    model, y = fitted(name, monotonic_cst=[1, 0, 0])
    with pytest.raises(ValueError, match=r"monotonic_cst must be the same as in the last fit.*got None"):
        model.set_params(monotonic_cst=None, n_estimators=6).fit(X, y)


def test_the_same_rule_may_be_given_in_other_words():
    frame = pd.DataFrame(X, columns=list("abc"))
    model = fastens.GradientBoostingRegressor(n_estimators=3, warm_start=True, monotonic_cst=[1, 0, 0])
    model.fit(frame, Y).set_params(n_estimators=6, monotonic_cst={"a": 1}, feature_weights={"b": 2.0, "c": 1.0})
    grid = frame.iloc[[0] * 9].assign(a=np.linspace(-2, 2, 9))
    assert (np.diff(model.fit(frame, Y).predict(grid)) >= 0).all()
    assert model.n_estimators_ == 6
    free = fastens.RandomForestRegressor(2, warm_start=True).fit(X, Y)
    free.set_params(n_estimators=4, monotonic_cst=[0, 0, 0], feature_weights=[1, 2, 1], max_features=1).fit(X, Y)


def test_a_model_of_another_library_goes_on_without_new_rules():
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = fastens.from_model(HistGradientBoostingRegressor(max_iter=3).fit(X, Y))
    model.set_params(warm_start=True, n_estimators=6, monotonic_cst=[1, 0, 0])
    with pytest.raises(ValueError, match="monotonic_cst must be the same as in the last fit"):
        model.fit(X, Y)
    assert model.set_params(monotonic_cst=None).fit(X, Y).n_estimators_ == 6


@pytest.mark.parametrize("name", ["boosting", "forest"])
@pytest.mark.parametrize("change", ["monotonic_cst", "interaction_cst", "feature_weights"])
def test_a_merged_model_claims_no_constraint_that_it_lacks(name, change):
    free, bound = fitted(name)[0], fitted(name, **{change: CHANGES[change]})[0]
    for models in ((bound, free), (free, bound)):
        with pytest.raises(ValueError, match=rf"models\[1\] must have the same {change} as models\[0\], .*Fit all"):
            fastens.merge_models(models)
    merged = fastens.merge_models([bound, bound])
    assert getattr(merged, change) == CHANGES[change]
