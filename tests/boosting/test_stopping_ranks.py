"""Early stopping on several ranks: splitters and metrics see the rows of all, and all decide alike, to the bit.

Each case is on another number of ranks: how rows are exchanged does not depend on what is measured.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedKFold, TimeSeriesSplit

from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
)
from fastens.params.options import EarlyStopping
from reference.rank_fits import (
    BINARY,
    CLASSES,
    COMMON,
    N_ROWS,
    QUERIES,
    TIMES,
    WEIGHTS,
    T,
    X,
    assert_same_models,
    fit_on_ranks,
)

OPTIONS = COMMON | {"n_estimators": 40, "learning_rate": 0.5, "n_iter_no_change": 2}
GROUPS = np.random.default_rng(1).integers(0, 300, N_ROWS)
QID = QUERIES * 1000 + np.arange(N_ROWS) // 40
RELEVANCE = np.digitize(T, [-0.5, 0.5, 1.5])


def furthest(y, predicted):
    return "furthest", float(np.abs(np.asarray(y) - predicted).max()), False


def rate(y, probabilities):
    return float(np.mean((y == "yes") * probabilities))


def stopped_by(kind, metric="loss", **others):
    stopping = EarlyStopping(validation=others.pop("validation", None))
    return lambda: kind(early_stopping=stopping, eval_metric=metric, **OPTIONS | others)


@pytest.mark.slow
def test_metrics_match_all_rows():
    weight = WEIGHTS["fractional"]
    of_numbers = ["r2", furthest, "loss", make_scorer(mean_absolute_error, greater_is_better=False)]
    assert_same_models(3, stopped_by(GradientBoostingRegressor, of_numbers), T)
    of_classes = ["roc_auc", "accuracy", rate]
    assert_same_models(5, stopped_by(GradientBoostingClassifier, of_classes), BINARY, weight)
    validated = {"X_val": X[::-1], "y_val": CLASSES[::-1], "sample_weight_val": WEIGHTS["whole"][::-1] + 1}
    assert_same_models(2, stopped_by(GradientBoostingClassifier, "balanced_accuracy"), CLASSES, weight, **validated)
    assert_same_models(5, stopped_by(GradientBoostingSurvival, ["concordance", "loss"]), TIMES)


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "size"), [("loss", 3), (["ndcg@5", "map", "loss"], 5)])
def test_rankers_hold_out_whole_queries(metric, size):
    make = stopped_by(GradientBoostingRanker, metric)
    assert_same_models(size, make, RELEVANCE, qid=QID)
    assert_same_models(size, make, RELEVANCE, WEIGHTS["whole"], qid=-QID)
    by_groups = stopped_by(GradientBoostingRanker, metric, validation=GroupShuffleSplit(1, random_state=0))
    assert_same_models(size, by_groups, RELEVANCE, qid=QID)


def test_callbacks_that_look_at_the_model_change_nothing():
    """The model so far has a loss of its own, which knows nothing of the ranks."""
    make = stopped_by(GradientBoostingRanker, ["ndcg@5", "map"], callbacks=[lambda env: env.model is None])
    models = fit_on_ranks(2, make, RELEVANCE, qid=QID)
    expected = stopped_by(GradientBoostingRanker, ["ndcg@5", "map"])().fit(X, RELEVANCE, qid=QID)
    for model in models:
        for name, scores in expected.evals_result_["validation"].items():
            np.testing.assert_array_equal(model.evals_result_["validation"][name], scores)


@pytest.mark.slow
def test_splitters_see_the_rows_of_all_ranks():
    by_groups = stopped_by(GradientBoostingRegressor, validation=GroupShuffleSplit(1, random_state=0))
    assert_same_models(5, by_groups, T, WEIGHTS["whole"], groups=GROUPS)
    stratified = stopped_by(GradientBoostingClassifier, validation=StratifiedKFold(5, shuffle=True, random_state=0))
    assert_same_models(3, stratified, np.minimum(CLASSES, 2))
    in_order = stopped_by(GradientBoostingRegressor, ["r2", "loss"], validation=TimeSeriesSplit(3))
    assert_same_models(2, in_order, T)


def test_a_splitter_at_random_is_one_draw():
    models = fit_on_ranks(3, stopped_by(GradientBoostingRegressor, validation=ShuffleSplit(1)), T)
    assert len({model.evals_result_["validation"]["loss"].tobytes() for model in models}) == 1
    assert len({model.predict(X).tobytes() for model in models}) == 1
