"""Rows in folds, of each class the same share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def stratified_folds(y: NDArray[Any], n_folds: int, seed: int) -> list[NDArray[np.intp]]:
    """The rows of each fold: those of scikit-learn's `StratifiedKFold`, shuffled, without its warning of rare classes.

    Warnings are kept back for the whole process: fits in several threads that each do it undo each other's.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.stratified_folds import stratified_folds
    >>> [rows.tolist() for rows in stratified_folds(np.array([0, 0, 0, 1, 1, 1]), 3, seed=0)]
    [[2, 4], [1, 5], [0, 3]]
    """
    _, first, codes = np.unique(y, return_index=True, return_inverse=True)
    classes = first.argsort().argsort()[codes]  # numbered as they appear
    in_order = np.sort(classes)
    sizes = np.array([np.bincount(in_order[i::n_folds], minlength=len(first)) for i in range(n_folds)])
    random, folds = np.random.RandomState(seed), np.empty(len(y), dtype=np.intp)
    for k in range(len(first)):
        of_class = np.arange(n_folds).repeat(sizes[:, k])
        random.shuffle(of_class)
        folds[classes == k] = of_class
    return [np.flatnonzero(folds == i) for i in range(n_folds)]
