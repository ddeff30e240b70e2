"""How much of the target each column gives away alone, by a small tree of that column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats

import fastens
from fastens.cli.report.scores import Truth, score
from fastens.cli.table.target import CLASSIFICATION
from fastens.table.shuffled_folds import shuffled_folds

# Rows are drawn beyond so many; so many folds; trees of so many leaves at most, each of so many rows at least.
MOST_ROWS, N_FOLDS, N_LEAVES, LEAF_ROWS = 20_000, 3, 256, 5
# Classes beyond the most frequent ones are one.
MOST_CLASSES = 20
# From here on a column alone gives the target away.
GIVES_AWAY = 0.99


def sampled(n_rows: int) -> NDArray[np.intp]:
    """The rows to look at, in their order."""
    rows = np.random.default_rng(0).permutation(n_rows)[:MOST_ROWS]
    return np.sort(rows)


def scores_alone(columns: Mapping[str, pa.Table], y: NDArray, task: str) -> dict[str, float]:
    """The score of each column alone, on rows that its tree did not see: an AUC, or the R² of the target's ranks.

    `columns` holds the features made of each column: several of a date. Ranks, as a few rows of a long tail would else
    decide the score. NaN where there is none.
    """
    if task != CLASSIFICATION:
        y = stats.rankdata(y)
    folds = _folds(y, task)
    found = {}
    for name, X in columns.items():
        by_fold = [_score(X, y, task, train, test) for train, test in folds]
        known = [value for value in by_fold if np.isfinite(value)]
        found[name] = float(np.mean(known)) if known else float("nan")
    return found


def classes_to_score(y: NDArray) -> NDArray:
    """Codes of classes, those beyond the most frequent ones taken together."""
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(counts) <= MOST_CLASSES:
        return codes
    rank = np.empty(len(counts), dtype=np.intp)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank[codes], MOST_CLASSES - 1)


def _folds(y: NDArray, task: str) -> list[tuple[NDArray, NDArray]]:
    # One class at least must have a row in each fold.
    most = int(np.unique(y, return_counts=True)[1].max()) if task == CLASSIFICATION else len(y)
    n_folds = min(N_FOLDS, most)
    if n_folds < 2:
        return []
    return shuffled_folds(y, n_folds, 0, stratified=task == CLASSIFICATION)


def _score(X: pa.Table, y: NDArray, task: str, train: NDArray, test: NDArray) -> float:
    leaf_rows = max(LEAF_ROWS, len(train) // N_LEAVES)
    limits: dict[str, Any] = {"max_leaf_nodes": N_LEAVES, "min_samples_leaf": leaf_rows, "random_state": 0}
    if task != CLASSIFICATION:
        model = fastens.DecisionTreeRegressor(**limits).fit(X.take(train), y[train])
        return score(model.predict(X.take(test)), Truth(y[test], None, None, None))["R²"]
    model = fastens.DecisionTreeClassifier(**limits).fit(X.take(train), y[train])
    known = np.isin(y[test], model.classes_)
    classes, rows = np.asarray(model.classes_), test[known]
    found = score(model.predict_proba(X.take(rows)), Truth(y[rows], None, classes, None))
    return next(value for name, value in found.items() if name.startswith("AUC"))
