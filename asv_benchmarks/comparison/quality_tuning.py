"""Random search of a library: the same inner folds and time for all, early stopping, the mean of folds' models."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from benchmarks.datasets import Table
from benchmarks.peer_models import Settings, loss
from comparison.category_tables import Library, settings_for
from comparison.quality_libraries import OF_ROUNDS, Ydf, with_options
from comparison.quality_runs import Answer
from comparison.quality_spaces import drawn

N_FOLDS = 8
MAX_ROUNDS, PATIENCE = 10_000, 50
Rows = tuple[pd.DataFrame, np.ndarray]


def tuned(library: Library, n_configurations: int, limit: float) -> Answer:
    """The best of some configurations by the mean loss on eight folds, each fitted with early stopping on its fold.

    The prediction is the mean of the folds' models. A configuration that began in time is finished; the first is the
    defaults, with early stopping.
    """

    def answer(table: Table, train: np.ndarray, test: np.ndarray, n_threads: int) -> tuple[np.ndarray, float, float]:
        settings, start = settings_for(table, n_threads), time.process_time()
        best, kept = np.inf, np.zeros(0)
        for index in range(n_configurations):
            if index and time.process_time() - start >= limit:
                break
            candidate = with_options(library, library.name, **drawn(library.name, index))
            with threadpool_limits(n_threads, user_api="openmp"):
                found, predicted = _of_folds(candidate, table, (train, test), settings)
            if found < best:
                best, kept = found, predicted
        return kept, time.process_time() - start, 0.0

    return answer


def _of_folds(library: Library, table: Table, parts: tuple[np.ndarray, np.ndarray], settings: Settings) -> Any:
    """The mean loss on the folds, and the mean prediction of their models for the test rows."""
    (train, test), y = parts, table.y
    kind = KFold if table.is_regression else StratifiedKFold
    losses, predicted = [], []
    for fitted, held_out in kind(N_FOLDS, shuffle=True, random_state=0).split(train, y[train]):
        rows = [(table.X.iloc[train[part]], y[train[part]]) for part in (fitted, held_out)]
        model = _stopped(library, rows[0], rows[1], settings)
        losses.append(loss(rows[1][1], library.predict(model, rows[1][0], settings), regression=table.is_regression))
        predicted.append(library.predict(model, table.X.iloc[test], settings))
    return np.mean(losses), np.mean(predicted, axis=0)


def _stopped(library: Library, rows: Rows, held_out: Rows, settings: Settings) -> Any:
    """A model of as many rounds as are best for held-out rows, each library by its own means."""
    name, (X, y), (X_val, y_val) = library.name, rows, held_out
    library = with_options(library, name, **{OF_ROUNDS[name][0]: MAX_ROUNDS})
    if isinstance(library, Ydf):
        stopping = {"early_stopping": "LOSS_INCREASE", "early_stopping_num_trees_look_ahead": PATIENCE}
        return with_options(library, name, **stopping).fit(X, y, settings, held_out)
    X, X_val = library.table(X), library.table(X_val)
    model = library.make(settings).set_params(**library.options)
    watched: dict[str, Any]
    if name == "LightGBM":
        from lightgbm import early_stopping

        watched = {"eval_set": [(X_val, y_val)], "callbacks": [early_stopping(PATIENCE, verbose=False)]}
    elif name == "XGBoost":
        model.set_params(early_stopping_rounds=PATIENCE)
        watched = {"eval_set": [(X_val, y_val)], "verbose": False}
    elif name == "CatBoost":
        watched = {"eval_set": (X_val, y_val), "early_stopping_rounds": PATIENCE}
    else:
        model.set_params(early_stopping=True, n_iter_no_change=PATIENCE)
        watched = {"X_val": X_val, "y_val": y_val}
    return model.fit(X, y, **watched, **library.fit_options(rows[0]))
