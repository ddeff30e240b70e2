"""Trees of sparse tables: the same, to the bit, as those of the table as an array, and no codes of zeros."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fastens as fe
from fastens.engine.bins.binning import Binning

RNG = np.random.default_rng(0)
N_ROWS, N_COLUMNS = 300, 130  # more columns than a word of a mask has bits
DENSE = np.where(RNG.random((N_ROWS, N_COLUMNS)) < 0.07, RNG.normal(size=(N_ROWS, N_COLUMNS)).round(1), 0.0)
DENSE[RNG.random(DENSE.shape) < 0.005] = np.nan
DENSE[:, 5] = 0.0
DENSE[:, 7] = 2.0 * (RNG.random(N_ROWS) < 0.03)
STORED = sparse.csr_matrix(DENSE)
NUMBERS = np.nan_to_num(DENSE) @ RNG.normal(size=N_COLUMNS) + RNG.normal(size=N_ROWS) * 0.3
LABELS = {2: (NUMBERS > 0).astype(int), 4: np.digitize(NUMBERS, [-1, 0, 1])}
WEIGHT = RNG.integers(0, 4, N_ROWS).astype(float)

MODELS = [
    (fe.RandomForestClassifier, {"oob_score": True}, LABELS[4]),
    (fe.RandomForestClassifier, {"criterion": "entropy", "max_leaf_nodes": 15}, LABELS[2]),
    (fe.RandomForestClassifier, {"max_bins": 600, "n_jobs": 2}, LABELS[2]),
    (fe.RandomForestRegressor, {"oob_score": True, "n_jobs": 2}, NUMBERS),
    (fe.RandomForestRegressor, {"criterion": "absolute_error", "max_depth": 4}, NUMBERS),
    (fe.RandomForestRegressor, {"max_features": 0.3}, np.column_stack([NUMBERS, NUMBERS**2])),
    (fe.ExtraTreesClassifier, {}, LABELS[2]),
    (fe.ExtraTreesClassifier, {"n_jobs": 2}, LABELS[4]),
    (fe.ExtraTreesRegressor, {"bootstrap": True, "oob_score": True}, NUMBERS),
    (fe.DecisionTreeClassifier, {}, LABELS[4]),
    (fe.DecisionTreeClassifier, {"max_bins": 100, "max_features": 9, "ccp_alpha": 0.001}, LABELS[2]),
    (fe.DecisionTreeRegressor, {"splitter": "random"}, NUMBERS),
    (fe.IsolationForest, {}, None),
    (fe.RandomTreesEmbedding, {}, None),
    (fe.AdaBoostClassifier, {"max_depth": 1, "max_bins": 600}, LABELS[4]),
    (fe.AdaBoostClassifier, {"max_depth": 1, "resample": True}, LABELS[2]),
    (fe.AdaBoostClassifier, {"max_depth": 2, "early_stopping": True}, LABELS[4]),
    (fe.AdaBoostRegressor, {}, NUMBERS),
    (fe.DecisionStumpClassifier, {}, LABELS[4]),
    (fe.DecisionStumpRegressor, {}, NUMBERS),
]


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize(("kind", "options", "y"), MODELS)
@pytest.mark.filterwarnings("ignore:Some rows are in all bags", "ignore:All rows are in all bags")
def test_models_match_the_array(kind, options, y, weight, monkeypatch):
    given = {"n_estimators": 5, "random_state": 3} | options
    given = {name: value for name, value in given.items() if name in kind().get_params()}
    targets = {} if y is None else {"y": y}
    whole = kind(**given).fit(DENSE, **targets, sample_weight=weight)
    with monkeypatch.context() as patch:
        for name in ("transform", "fill"):  # no dense codes
            patch.setattr(Binning, name, None)
        model = kind(**given).fit(STORED, **targets, sample_weight=weight)
    for name, array in whole._ensemble.to_arrays().items():
        np.testing.assert_array_equal(model._ensemble.to_arrays()[name], array, err_msg=name)
    if options.get("oob_score"):
        np.testing.assert_array_equal(model._out_of_bag.mean, whole._out_of_bag.mean)
        np.testing.assert_array_equal(model._out_of_bag.error_curve, whole._out_of_bag.error_curve)
    if y is None:
        np.testing.assert_array_equal(
            model.apply(STORED) if hasattr(model, "apply") else model.score_samples(STORED),
            whole.apply(DENSE) if hasattr(whole, "apply") else whole.score_samples(DENSE),
        )
    else:
        np.testing.assert_array_equal(model.predict(STORED), whole.predict(DENSE))


@pytest.mark.slow
def test_a_forest_of_a_hundred_thousand_columns():
    X = sparse.random(200, 100_000, density=0.001, format="csr", random_state=0)
    y = np.ravel(X[:, :50_000].sum(axis=1) > X[:, 50_000:].sum(axis=1)).astype(int)
    model = fe.RandomForestClassifier(3, random_state=0, max_depth=3).fit(X, y)
    assert set(np.unique(model.predict(X))) <= {0, 1}
    assert model.feature_importances_.max() > 0
