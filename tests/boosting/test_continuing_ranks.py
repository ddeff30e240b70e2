"""Rows out of bag, checkpoints and warm starts on several ranks: what one rank makes, to the bit."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest

from fastens import (
    Checkpoint,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
)
from fastens.params.options import Categories, Dart, EarlyStopping
from reference.rank_fits import (
    BINARY,
    CLASSES,
    COMMON,
    N_ROWS,
    QUERIES,
    SIZES,
    TIMES,
    WEIGHTS,
    WEIGHTS_AND_SIZES,
    T,
    X,
    assert_same_models,
    fit_on_ranks,
    rows_of,
    state,
)
from reference.threads_comm import on_ranks

THREE = np.minimum(CLASSES, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "size"), WEIGHTS_AND_SIZES)
def test_rows_out_of_bag_match_all_ranks(weights, size):
    options = COMMON | {"subsample": 0.5, "oob_score": True}
    weight = WEIGHTS.get(weights)
    assert_same_models(size, lambda: GradientBoostingRegressor(**options), T, weight)
    assert_same_models(size, lambda: GradientBoostingClassifier(early_stopping=True, **options), THREE, weight)
    assert_same_models(size, lambda: GradientBoostingRegressor(**options), np.column_stack([T, -T]), weight)
    assert_same_models(size, lambda: GradientBoostingSurvival(**options), TIMES, weight)
    qid = QUERIES * 1000 + np.arange(N_ROWS) // 40
    assert_same_models(size, lambda: GradientBoostingRanker(**options), CLASSES, qid=qid)


CASES = {
    "classes": (GradientBoostingClassifier, CLASSES, {"subsample": 0.5, "oob_score": True}),
    "encoded": (GradientBoostingRegressor, T, {"categories": Categories(encoding="target"), "sampling": "goss"}),
    "dart": (GradientBoostingClassifier, BINARY, {"boosting": Dart(skip_drop=0.0)}),
    "stopped": (GradientBoostingRegressor, T, {"early_stopping": True, "eval_metric": ["r2", "loss"]}),
    "times": (GradientBoostingSurvival, TIMES, {"max_features": 0.5}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("case", "size"), [*zip(CASES, cycle(SIZES))])
def test_a_fit_goes_on_from_the_file_of_the_first_rank(case, size, tmp_path):
    kind, y, options = CASES[case]
    options = COMMON | {"categorical_features": [4]} | options
    expected = state(kind(**options).fit(X, y, WEIGHTS["whole"]))
    path = tmp_path / "model.fastens"
    begun = options | {"n_estimators": 5, "callbacks": [Checkpoint(path, 4)]}
    fit_on_ranks(size, lambda: kind(**begun), y, WEIGHTS["whole"])
    for model in fit_on_ranks(size, lambda: kind(**options), y, WEIGHTS["whole"], resume=path):
        for name, found in state(model).items():
            np.testing.assert_array_equal(found, expected[name], err_msg=name)


def test_only_the_first_rank_writes(tmp_path):
    def work(comm):
        path, own = tmp_path / f"{comm.rank}.fastens", rows_of(comm)
        model = GradientBoostingRegressor(callbacks=[Checkpoint(path, 2)], **COMMON)
        with model._using_comm(comm):
            model.fit(X[own], T[own])

    on_ranks(3, work)
    assert [path.name for path in tmp_path.iterdir()] == ["0.fastens"]


@pytest.mark.slow
def test_a_warm_start_goes_on():
    def work(comm):
        model, own = GradientBoostingRegressor(warm_start=True, subsample=0.7, **COMMON), rows_of(comm)
        with model._using_comm(comm):
            model.fit(X[own], T[own])
            return model.set_params(n_estimators=12).fit(X[own], T[own])

    expected = state(GradientBoostingRegressor(subsample=0.7, **COMMON | {"n_estimators": 12}).fit(X, T))
    for model in on_ranks(5, work):
        for name, found in state(model).items():
            np.testing.assert_array_equal(found, expected[name], err_msg=name)


@pytest.mark.slow
def test_offsets_and_a_second_fit_to_all_rows():
    offset = np.random.default_rng(3).normal(size=N_ROWS)
    begun = lambda: GradientBoostingRegressor(early_stopping=True, **COMMON)  # noqa: E731
    assert_same_models(5, begun, T, WEIGHTS["fractional"], init_score=offset)
    options = COMMON | {"early_stopping": EarlyStopping(refit=True), "categorical_features": [4]}
    again = lambda: GradientBoostingClassifier(categories=Categories(encoding="target"), **options)  # noqa: E731
    assert_same_models(3, again, BINARY, WEIGHTS["whole"])


def test_rows_of_no_weight_have_no_prediction_out_of_bag():
    weight = np.ones(N_ROWS)
    weight[-3:] = 0.0
    model = GradientBoostingRegressor(subsample=0.5, oob_score=True, **COMMON).fit(X, T, weight)
    assert model.oob_prediction_.shape == (N_ROWS,)
    assert np.isnan(model.oob_prediction_[-3:]).all()
