"""Rows in folds in a random order."""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from fastens import EarlyStopping, GradientBoostingClassifier
from fastens.table.training_data import shuffled_folds


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("n_classes", [1, 2, 9])
def test_folds_match_scikit_learn(n_classes):
    y = np.random.default_rng(0).integers(n_classes, size=40) ** 2
    for labels in (y, y.astype(float), y.astype(str)):
        for kind in (KFold, StratifiedKFold):
            found = shuffled_folds(labels, 4, 7, stratified=kind is StratifiedKFold)
            for rows, expected in zip(found, kind(4, shuffle=True, random_state=7).split(labels, labels), strict=True):
                assert all(map(np.array_equal, rows, expected))


@pytest.mark.slow
def test_fits_at_once_leave_the_filters_of_warnings_as_they_were():
    """Each keeps no warning back, as the filters are the whole process's."""
    y = np.repeat([0, 1, 2], [30, 27, 3])
    X = y[:, None] + np.arange(60.0)[:, None] % 7
    options = {"n_estimators": 1, "max_leaf_nodes": 2, "early_stopping": EarlyStopping(folds=5), "n_jobs": 1}
    GradientBoostingClassifier(**options).fit(X, y)  # imports what it needs
    interval = sys.getswitchinterval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda _: GradientBoostingClassifier(**options).fit(X, y), range(60)))
        finally:
            sys.setswitchinterval(interval)
        assert warnings.filters == before
