"""Explaining single predictions of tree ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.parts import map_parts
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.contributions import contributions, interactions

Array = NDArray[np.float64]


def raw_contributions(model: Any, X: Any, *, pairs: bool) -> Array:
    """Shapley values of the sum of a fitted model's trees, summed over the columns that X's columns become.

    (n_samples, n_outputs, n_features + 1), with `pairs` another axis of n_features + 1.
    """
    X, n_threads = model._check_table(X), resolve_n_jobs(model.n_jobs)
    explain = interactions if pairs else contributions
    explained = map_parts(lambda part: explain(model._ensemble, part, n_threads), X)
    n_features, column_of = model.n_features_in_, model._column_of
    if len(column_of) == n_features:
        return explained
    to_column = np.equal.outer(np.append(column_of, n_features), np.arange(n_features + 1)).astype(np.float64)
    explained = explained @ to_column
    return to_column.T @ explained if pairs else explained
