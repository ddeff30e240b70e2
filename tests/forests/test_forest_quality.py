"""Scores of forests on held-out rows of real tables: those of scikit-learn's, but for chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble as peers

import fastens

TABLES = {"vehicle": "Class", "segment": "class", "credit_g": "class", "concrete": "strength", "abalone": "rings"}
SEEDS = range(4)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kind", ["RandomForest", "ExtraTrees"])
def test_scores_are_as_good_as_scikit_learn(table, kind, load_table):
    frame = load_table(table).sample(frac=1, random_state=0)
    y = frame.pop(TABLES[table])
    is_class = not pd.api.types.is_numeric_dtype(y)
    X = frame.apply(lambda column: column if pd.api.types.is_numeric_dtype(column) else pd.factorize(column)[0])
    X, y = X.to_numpy(dtype=np.float64)[:2400], (pd.factorize(y)[0] if is_class else y.to_numpy(float))[:2400]
    name, half = kind + ("Classifier" if is_class else "Regressor"), len(y) // 2

    def scores(library):
        models = [getattr(library, name)(30, random_state=seed).fit(X[:half], y[:half]) for seed in SEEDS]
        return [model.score(X[half:], y[half:]) for model in models]

    ours, theirs = scores(fastens), scores(peers)
    chance = 4 * np.sqrt((np.var(ours, ddof=1) + np.var(theirs, ddof=1)) / len(SEEDS))
    # Averages over prunings lower the log loss; on segment, their accuracy is 0.0055 below that of full trees.
    assert np.mean(ours) > np.mean(theirs) - max(chance, 0.0075)


def test_error_out_of_bag_matches_new_rows(load_table):
    frame = load_table("segment").sample(frac=1, random_state=1)
    y = frame.pop("class").to_numpy()
    forest = fastens.RandomForestClassifier(100, oob_score=True, random_state=0).fit(frame[:1155], y[:1155])
    assert forest.oob_score_ == pytest.approx(forest.score(frame[1155:], y[1155:]), abs=0.02)
    curve = forest.oob_error_curve_
    assert curve[-1] < 0.6 * curve[0]


@pytest.mark.parametrize("kind", ["RandomForestRegressor", "ExtraTreesRegressor", "BaggingRegressor"])
def test_equal_splits_do_not_all_go_to_the_first_feature(kind, rng):
    """Most nodes are small, and columns of noise part them as well as others."""
    X, y = rng.normal(size=(200, 8)), rng.normal(size=200)
    model = getattr(fastens, kind)(n_estimators=20, random_state=0).fit(X, y)
    split_on = np.concatenate([tree.tree_.feature[tree.tree_.feature >= 0] for tree in model.estimators_])
    assert np.bincount(split_on).max() < 0.16 * len(split_on)
