"""Parameters that would be ignored beside others: an error says what they are read with."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import ShuffleSplit

import fastens
from fastens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeRegressor,
    EarlyStopping,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
    RandomForestRegressor,
)

X = np.random.default_rng(0).normal(size=(120, 3))
Y = np.abs(X[:, 0] + X[:, 1] ** 2 + 3)
OF_BOOSTING = [
    ({"validation_fraction": 0.2}, {"early_stopping": True}),
    ({"tol": 0.1}, {"early_stopping": True}),
    ({"feature_weights": [1, 2, 3]}, {"max_features": 2}),
    ({"feature_weights": [1, 2, 3]}, {"max_features_per_tree": "sqrt"}),
]


@pytest.mark.parametrize(("given", "wanted"), OF_BOOSTING, ids=str)
@pytest.mark.parametrize(
    "kind", [GradientBoostingClassifier, GradientBoostingRegressor, GradientBoostingRanker, GradientBoostingSurvival]
)
def test_unused_parameters_of_boosting_raise(kind, given, wanted):
    [(name, value)] = given.items()
    y = {GradientBoostingClassifier: (Y > 4).astype(int), GradientBoostingRanker: (Y > 4).astype(int)}.get(kind, Y)
    more = {"qid": np.arange(120) // 4} if kind is GradientBoostingRanker else {}
    with pytest.raises(ValueError, match=rf"^{name}.*got {re.escape(repr(value))}"):
        kind(n_estimators=2, max_features=0.9, **given).fit(X, y, **more)
    kind(n_estimators=2, random_state=0, **{"max_features": 1.0} | given | wanted).fit(X, y, **more)


@pytest.mark.parametrize(
    ("given", "loss"),
    [({"quantile": 0.5}, "expectile"), ({"quantile": 0.5}, "quantile")],
)
def test_unused_parameters_of_losses_raise(given, loss):
    [(name, value)] = given.items()
    for other in ("squared_error", "absolute_error", lambda y, raw: (raw - y, np.ones_like(y))):
        with pytest.raises(
            ValueError, match=rf"^{name} must be .* because it is used only if loss is .*'{loss}'.*got {value}"
        ):
            GradientBoostingRegressor(other, **given).fit(X, Y)
    GradientBoostingRegressor(loss, **given, n_estimators=2).fit(X, Y)


def test_unused_parameters_set_by_scikit_learn_checks_warn():
    for kind in (GradientBoostingRegressor, GradientBoostingSurvival):
        with pytest.warns(UserWarning, match="n_iter_no_change must be 10 without a validation set") as found:
            kind(n_iter_no_change=3, n_estimators=2).fit(X, Y)
    assert found[0].filename == __file__
    with pytest.warns(UserWarning, match="n_iter_no_change must .* used only if early_stopping is True or 'auto'"):
        AdaBoostClassifier(early_stopping=False, n_iter_no_change=3, n_estimators=2).fit(X, Y > 4)


def test_unused_parameters_without_a_validation_set_raise():
    model = GradientBoostingRegressor(n_estimators=5, n_iter_no_change=2, early_stopping=True, eval_metric="r2")
    model.fit(X[:80], Y[:80], X_val=X[80:], y_val=Y[80:])
    with pytest.raises(ValueError, match="refit must be False with X_val"):
        GradientBoostingRegressor(early_stopping=EarlyStopping(refit=True)).fit(
            X[:80], Y[:80], X_val=X[80:], y_val=Y[80:]
        )
    splitter = ShuffleSplit(1, random_state=0)
    with pytest.raises(ValueError, match="used only if early_stopping has no validation splitter"):
        GradientBoostingRegressor(early_stopping=EarlyStopping(validation=splitter), validation_fraction=0.2).fit(X, Y)
    stopping = EarlyStopping(validation=splitter, refit=True)
    GradientBoostingRegressor(n_estimators=3, early_stopping=stopping, n_iter_no_change=2).fit(X, Y)


@pytest.mark.parametrize("kind", [AdaBoostClassifier, AdaBoostRegressor])
@pytest.mark.parametrize("given", [{"max_depth": 5}, {"max_bins": 20}], ids=str)
def test_unused_tree_parameters_of_adaboost_raise(kind, given):
    y, estimator = (Y > 4, LogisticRegression()) if kind is AdaBoostClassifier else (Y, LinearRegression())
    with pytest.raises(ValueError, match="used only if estimator is None"):
        kind(estimator, **given).fit(X, y)
    kind(n_estimators=2, **given).fit(X, y)


@pytest.mark.parametrize("algorithm", ["gentle", "logit"])
def test_the_criterion_of_votes(algorithm):
    with pytest.raises(ValueError, match=f"criterion must be .* with algorithm='{algorithm}', because"):
        AdaBoostClassifier(criterion="entropy", algorithm=algorithm).fit(X, Y > 4)


@pytest.mark.parametrize("kind", [RandomForestRegressor, DecisionTreeRegressor])
def test_chances_of_columns_of_which_none_are_drawn(kind):
    with pytest.raises(ValueError, match=r"feature_weights must be equal.* all 3 columns; got \[1, 2, 3\]"):
        kind(feature_weights=[1, 2, 3]).fit(X, Y)
    kind(feature_weights=[1, 2, 0]).fit(X, Y)
    kind(feature_weights=[1, 2, 3], max_features=1).fit(X, Y)


def test_files_with_unused_parameters_can_be_loaded(tmp_path):
    model = GradientBoostingRegressor(n_estimators=2).fit(X, Y)
    model.set_params(n_iter_no_change=3)
    model.save(tmp_path / "model.fastens")
    assert fastens.load(tmp_path / "model.fastens").n_iter_no_change == 3


@pytest.mark.parametrize(("wanted", "count"), [("sqrt", 1), ("log2", 1), (None, 3), (2, 2), (0.4, 2)])
@pytest.mark.parametrize("name", ["max_features", "max_features_per_tree"])
def test_numbers_of_features(wanted, count, name):
    one, two = (
        GradientBoostingRegressor(n_estimators=5, random_state=0, **{name: value}).fit(X, Y)
        for value in (wanted, count)
    )
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_a_folder_that_is_not_there(tmp_path):
    model = GradientBoostingRegressor(n_estimators=2).fit(X, Y)
    with pytest.raises(FileNotFoundError, match="the folder does not exist") as raised:
        model.save(tmp_path / "nowhere" / "model.fastens")
    assert raised.value.filename == str(tmp_path / "nowhere")
