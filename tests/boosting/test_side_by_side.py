"""Trees that grow side by side are those that grow one after another."""

from __future__ import annotations

import numpy as np
import pytest

from fastens import GradientBoostingClassifier
from fastens.boosting import rounds as side_by_side
from fastens.boosting.rounds import SideBySide
from fastens.engine.grow.growth import TreeGrower


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 9))
    return X, np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=5000), [-1, -0.3, 0.3, 1])


@pytest.fixture
def counted(monkeypatch):
    """Counts the rounds that were grown side by side."""
    rounds, grow = [], SideBySide.grow

    def noted(self, this):
        rounds.append(len(rounds))
        return grow(self, this)

    monkeypatch.setattr(SideBySide, "grow", noted)
    return rounds


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [{}, {"subsample": 0.6}, {"boosting": "dart"}, {"early_stopping": True}, {"max_features": 3, "oob_score": True}],
    ids=str,
)
@pytest.mark.parametrize("n_jobs", [2, 3, 8])
def test_models_are_the_same(rows, counted, parameters, n_jobs):
    if parameters.get("oob_score"):
        parameters = parameters | {"subsample": 0.5}
    models = [
        GradientBoostingClassifier(n_estimators=6, random_state=0, n_jobs=jobs, **parameters).fit(*rows)
        for jobs in (1, n_jobs)
    ]
    assert counted == list(range(6))
    one, several = (model.predict_proba(rows[0]) for model in models)
    np.testing.assert_array_equal(one, several)


def test_the_last_trees_share_the_threads(rows, counted, monkeypatch):
    monkeypatch.setattr(side_by_side, "_ENOUGH_FOR_ONE_TREE", 0)
    one, several = (
        GradientBoostingClassifier(n_estimators=3, n_jobs=jobs).fit(*rows).predict_proba(rows[0]) for jobs in (1, 2)
    )
    assert counted
    np.testing.assert_array_equal(one, several)


@pytest.mark.parametrize(
    ("n_rows", "parameters"),
    [(4000, {"n_jobs": 1}), (300, {"n_jobs": 2}), (4000, {"n_jobs": 2, "linear_leaves": True})],
)
def test_others_grow_one_after_another(rows, counted, n_rows, parameters):
    GradientBoostingClassifier(n_estimators=2, **parameters).fit(rows[0][:n_rows], rows[1][:n_rows])
    assert not counted


def test_an_error_in_a_thread_reaches_the_caller(rows, monkeypatch):
    def failing(*arguments):
        raise MemoryError("no memory for a tree")

    monkeypatch.setattr(TreeGrower, "grow", failing)
    with pytest.raises(MemoryError, match="for a tree"):
        GradientBoostingClassifier(n_jobs=2).fit(*rows)
