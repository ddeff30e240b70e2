"""Explaining single predictions of tree ensembles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.parts import as_array, parts_of
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.contributions import Reference, contributions, interactions

Array = NDArray[np.float64]
_MOST_SCALES = 1 << 22  # in memory at a time
# The factor of each row's contributions against each background row, for rows from one number to another.
Scales = Callable[[int, int], Array]


def raw_contributions(
    model: Any, X: Any, *, pairs: bool, parts: bool = False, background: Any = None, scales: Scales | None = None
) -> Array:
    """Shapley values of a fitted model's raw predictions; what a column of X becomes is known together.

    With `parts`, each column that the trees see is a feature of its own.

    (n_samples, n_outputs, n_features + 1), with `pairs` another axis of n_features + 1. Both tables are row sources;
    without background, the values are path-dependent.
    """
    n_threads, explain = resolve_n_jobs(model.n_jobs), interactions if pairs else contributions
    rows = None if background is None else as_array(background)
    step = X.shape[0] if scales is None or rows is None else max(_MOST_SCALES // len(rows), 1)
    columns = np.arange(len(model._column_of)) if parts else model._column_of
    found = []
    for start, part in [(0, X)] if isinstance(X, np.ndarray) else parts_of(X):
        for first in range(0, max(len(part), 1), max(step, 1)):
            block = part[first : first + step]
            scale = None if scales is None else scales(start + first, start + first + len(block))
            reference = None if rows is None else Reference(rows, scale)
            found.append(explain(model._predicting_trees(), block, n_threads, reference, columns))
    explained = found[0] if len(found) == 1 else np.concatenate(found)
    if (scale := model._contribution_scale()) != 1:
        explained *= scale
    return explained
