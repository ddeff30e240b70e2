"""What comes from other libraries is an estimator like any other: further rounds, slices, new leaves, files."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import fastens
from exchange_probes import saved_and_loaded, table
from fastens import from_model

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
X, y = table(300)
FULL = np.nan_to_num(X, nan=0.2)
THREE = np.digitize(y, [0.5, 2.5])
BOTH = np.column_stack([y, -y])
FEW = {"n_estimators": 6, "n_jobs": 1}
MODELS = {
    "codes": lambda: (lightgbm.LGBMRegressor(verbose=-1, **FEW).fit(X, y, categorical_feature=[4]), y),
    "linear": lambda: (lightgbm.LGBMRegressor(verbose=-1, linear_tree=True, **FEW).fit(X, y), y),
    "classes": lambda: (xgboost.XGBClassifier(**FEW).fit(X, THREE), THREE),
    "vectors": lambda: (xgboost.XGBRegressor(multi_strategy="multi_output_tree", **FEW).fit(X, BOTH), BOTH),
    "targets": lambda: (xgboost.XGBRegressor(**FEW).fit(X, BOTH), BOTH),
    "histograms": lambda: (HistGradientBoostingRegressor(max_iter=6).fit(X, y), y),
    # Trees with a value for each class.
    "votes": lambda: (AdaBoostClassifier(n_estimators=6).fit(FULL, THREE), THREE),
}


def predicted(model, rows):
    return model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)


@pytest.mark.parametrize("name", MODELS)
def test_further_rounds_and_slices(name, tmp_path):
    theirs, target = MODELS[name]()
    model = from_model(theirs)
    rows = FULL if name == "votes" else X
    before = predicted(model, rows)
    more = from_model(theirs).set_params(warm_start=True, n_estimators=9).fit(rows, target)
    assert more.n_estimators_ == 9
    assert more.score(rows, target) > model.score(rows, target) - 0.02
    np.testing.assert_allclose(predicted(more[:6], rows), before, rtol=1e-12, atol=1e-12)
    first = model[:3]
    assert first.n_estimators_ == 3
    np.testing.assert_array_equal(predicted(saved_and_loaded(first, tmp_path), rows), predicted(first, rows))
    np.testing.assert_array_equal(predicted(model[:], rows), before)
    staged = list(model.staged_predict(rows))
    np.testing.assert_array_equal(first.predict(rows), staged[2])
    constant = saved_and_loaded(model[:0], tmp_path)
    assert constant.n_estimators_ == 0
    assert (predicted(constant, rows) == predicted(model[6:], rows)[0]).all()
    with pytest.raises(TypeError, match=r"model\[:50\]"):
        model[0]


def test_slices_of_boosters_match_xgboost():
    theirs = MODELS["classes"]()[0].get_booster()
    part = from_model(theirs[1:4])
    raw = from_model(theirs)[1:4]._raw(X)
    np.testing.assert_array_equal(raw, part._raw(X))


def test_slices_keep_what_was_measured():
    model = fastens.GradientBoostingRegressor(n_estimators=8, early_stopping=True).fit(X, y)
    assert len(model[:4].evals_result_["training"]["loss"]) == 4
    np.testing.assert_array_equal(
        model[:4].evals_result_["validation"]["loss"], model.evals_result_["validation"]["loss"][:4]
    )


def test_forests():
    model = from_model(RandomForestClassifier(5, max_depth=4, random_state=0).fit(FULL, THREE))
    assert len(model) == 5
    assert len(model[:2]) == 2
    model.set_params(warm_start=True, n_estimators=8).fit(FULL, THREE)
    assert len(model) == 8


@pytest.mark.parametrize("of_one_class", [False, True])
def test_forests_of_two_classes_grow_further_trees(of_one_class, tmp_path):
    first = np.zeros(len(THREE)) if of_one_class else THREE > 0
    for classes in (first, np.column_stack([first, THREE])):
        theirs = RandomForestClassifier(5, max_depth=4, random_state=0).fit(FULL, classes)
        model = from_model(theirs).set_params(warm_start=True, n_estimators=8, random_state=0).fit(FULL, classes)
        parts = zip(model.predict_proba(FULL), theirs.predict_proba(FULL), strict=True)
        for found, old in parts if classes.ndim > 1 else [(model.predict_proba(FULL), theirs.predict_proba(FULL))]:
            assert found.shape == old.shape
            np.testing.assert_allclose(found.sum(axis=1), 1)
            assert (found >= old * 5 / 8 - 1e-12).all()
        again = saved_and_loaded(model, tmp_path)
        np.testing.assert_array_equal(again.predict(FULL), model.predict(FULL))
        assert model.score(FULL, classes) >= 0.7


def test_rows_of_forests_that_were_not_grown_here_are_unknown(tmp_path):
    ours = fastens.RandomForestRegressor(n_estimators=3, random_state=0).fit(X, y)
    theirs = RandomForestRegressor(n_estimators=3, random_state=0).fit(X, y)
    for model in (from_model(theirs), from_model(ours.export(format="lightgbm")), fastens.merge_models([ours, ours])):
        for same in (model, saved_and_loaded(model, tmp_path)):
            with pytest.raises(
                AttributeError, match="estimators_samples_ is available only if fit of this model grew all"
            ):
                _ = same.estimators_samples_
        with pytest.raises(ValueError, match="bootstrap must be the same as in the last fit, False"):
            model.set_params(warm_start=True, n_estimators=9, bootstrap=True).fit(X, y)
        model.set_params(bootstrap=False).fit(X, y)
        assert len(model) == 9
        assert not hasattr(model, "estimators_samples_")
        assert len(model.set_params(warm_start=False).fit(X, y).estimators_samples_) == 9


@pytest.mark.parametrize("kind", [fastens.GradientBoostingRegressor, fastens.RandomForestRegressor])
def test_our_own_models_are_not_read(kind):
    with pytest.raises(fastens.ModelFileError, match=f"the {kind.__name__} is already a fastens model"):
        from_model(kind(n_estimators=2).fit(FULL, y))
