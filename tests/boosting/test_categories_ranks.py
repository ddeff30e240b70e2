"""Categories encoded by their targets on several ranks: the statistics, and the model, of one rank, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from fastens import GradientBoostingClassifier, GradientBoostingRanker, GradientBoostingRegressor
from fastens import GradientBoostingSurvival as Survival
from fastens.params.options import Categories
from fastens.table.target_statistics import Targets, TargetStatistics
from reference.rank_fits import (
    BINARY,
    CLASSES,
    COMMON,
    N_ROWS,
    QUERIES,
    SIZES,
    WEIGHTS,
    WEIGHTS_AND_SIZES,
    T,
    X,
    assert_same_models,
    rows_of,
)
from reference.threads_comm import on_ranks

# More than 32 categories: encoded by their targets at the default parameters. The last ones are of one rank each.
NAMES = np.random.default_rng(8).integers(0, 60, N_ROWS).astype(object)
NAMES[:3], NAMES[-2:] = 60, 61
NAMES = np.array([f"n{name}" for name in NAMES], dtype=object)
TABLE = np.column_stack([X.astype(object), NAMES])
OPTIONS = COMMON | {"categorical_features": [4, 6]}


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "size"), WEIGHTS_AND_SIZES)
def test_many_categories_at_the_default_parameters(weights, size):
    weight = WEIGHTS.get(weights)
    assert_same_models(size, lambda: GradientBoostingRegressor(**OPTIONS), T, weight, table=TABLE)
    assert_same_models(size, lambda: GradientBoostingClassifier(**OPTIONS), BINARY, weight, table=TABLE)


def test_they_are_encoded_by_their_targets():
    assert GradientBoostingRegressor(**OPTIONS).fit(TABLE, T)._statistics.columns == [6]


@pytest.mark.slow
@pytest.mark.parametrize(("encoding", "size"), [("target", 3), ("ordered", 5)])
def test_encodings_with_several_targets(encoding, size):
    options = OPTIONS | {"categories": Categories(encoding=encoding)}
    several = np.column_stack([T, -T, T**2])
    assert_same_models(size, lambda: GradientBoostingClassifier(**options), CLASSES, table=TABLE)
    assert_same_models(size, lambda: GradientBoostingRegressor(**options), several, WEIGHTS["fractional"], table=TABLE)


@pytest.mark.slow
def test_encodings_of_times_and_relevance_and_of_rows_to_validate_on():
    stopping = OPTIONS | {"early_stopping": True, "n_estimators": 20, "subsample": 0.7}
    assert_same_models(5, lambda: GradientBoostingRegressor(**stopping), T, table=TABLE)
    times = np.column_stack([np.exp(T / 2), np.where(T > -1, np.exp(T / 2), np.inf)])
    assert_same_models(3, lambda: Survival(**OPTIONS), times, WEIGHTS["whole"], table=TABLE)
    relevance = np.digitize(T, [-0.5, 0.5, 1.5])
    qid = QUERIES * 1000 + np.arange(N_ROWS) // 40
    assert_same_models(2, lambda: GradientBoostingRanker(**OPTIONS), relevance, table=TABLE, qid=qid)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("method", ["target", "ordered"])
def test_statistics_of_ranks_match_the_whole_table(method, size):
    codes = np.column_stack([np.arange(N_ROWS) % 50, np.arange(N_ROWS) % 7, X[:, 5]]).astype(float)
    targets = np.stack([T, T**3])

    def learn(own):
        rows = Targets(targets[:, own[0]], WEIGHTS["fractional"][own[0]] + 1e-9, *own[1:])
        statistics, encoded = TargetStatistics.learn(codes[own[0]], rows, [0, 2], method, seed=3)
        return statistics.to_arrays(), encoded

    expected, rows = learn((slice(None),))
    found = on_ranks(size, lambda comm: learn((rows_of(comm), comm)))
    np.testing.assert_array_equal(np.concatenate([encoded for _, encoded in found]), rows)
    for arrays, _ in found:
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, expected[name])
