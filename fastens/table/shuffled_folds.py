"""Rows in folds, in a random order: as scikit-learn's splitters put them, without warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def shuffled_folds(
    y: NDArray[Any], n_folds: int, seed: int, *, stratified: bool
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The rows to train on and to test on of each fold: of scikit-learn's `KFold` or `StratifiedKFold`, shuffled.

    Of each class the folds have the same share if they are stratified; of a class of few rows some may have none.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.shuffled_folds import shuffled_folds
    >>> folds = shuffled_folds(np.array([0, 0, 0, 1, 1, 1]), 3, seed=0, stratified=True)
    >>> [test.tolist() for _, test in folds]
    [[2, 4], [1, 5], [0, 3]]
    """
    from sklearn.model_selection import KFold

    rows = np.arange(len(y))
    if not stratified:
        return list(KFold(n_folds, shuffle=True, random_state=seed).split(rows))
    return [(np.delete(rows, test), test) for test in _of_each_class(y, n_folds, seed)]


def _of_each_class(y: NDArray[Any], n_folds: int, seed: int) -> list[NDArray[np.intp]]:
    # StratifiedKFold warns of rare classes. Warnings are kept back for the whole process: fits in several threads that
    # each do it undo each other's.
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
