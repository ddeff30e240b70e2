"""Columns of numbers cut into bins where models need categories: the limits of the bins, learned, named and saved."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import learn_binning
from fastens.engine.comm import LOCAL, Comm
from fastens.engine.parts import CONVERTED_BLOCK, ConvertedRows

Array = NDArray[np.float64]
Limits = list[Array | None]  # the upper ends of each column's bins but the last; None where it has categories
WHOLE_FLOAT32 = 1 << 24  # smaller whole numbers are exact in float32


def as_floats(X: Any) -> Any:
    """Numbers as bins are learned from, in the smaller type where whole numbers allow it, or block by block."""
    if X.dtype.kind == "f":
        return X
    if isinstance(X, np.ndarray) and X.size > CONVERTED_BLOCK:
        return ConvertedRows.of_array(X)
    is_small = X.size == 0 or -WHOLE_FLOAT32 < X.min() <= X.max() < WHOLE_FLOAT32
    return X.astype(np.float32 if is_small else np.float64)


def learn_limits(
    X: Any,
    weights: Array | None,
    max_bins: int,
    is_categorical: NDArray[np.bool_],
    n_threads: int = 1,
    comm: Comm = LOCAL,
) -> Limits:
    """Bin limits of each column of numbers: quantiles, or between distinct values where these are few.

    Columns of categories have None. The limits do not depend on the number of threads.
    """
    if is_categorical.all():
        return [None] * len(is_categorical)
    binning = learn_binning(as_floats(X), weights, max_bins, is_categorical, n_threads, comm)
    return [None if kind else limits for kind, limits in zip(is_categorical, binning.thresholds, strict=True)]


def binned(X: NDArray[Any], limits: Limits) -> NDArray[Any]:
    """A table with the positions of bins in the place of numbers; NaN stays."""
    if all(found is None for found in limits):
        return X
    out = np.array(X, dtype=np.float64, order="F")
    for index, found in enumerate(limits):
        if found is not None:
            column = out[:, index]
            out[:, index] = np.where(np.isnan(column), np.nan, np.searchsorted(found, column))
    return out


def bin_names(limits: Array) -> list[str]:
    """What the bins of a column are called."""
    if not limits.size:
        return ["any"]
    ends = [f"{limit:g}" for limit in limits]
    if len(set(ends)) < len(ends):
        ends = [repr(limit) for limit in limits.tolist()]
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    return [f"<= {ends[0]}", *between, f"> {ends[-1]}"]


def limits_to_arrays(limits: Limits) -> dict[str, NDArray[Any]]:
    """For saving."""
    found = [np.zeros(0) if each is None else each for each in limits]
    return {
        "limits": np.concatenate([np.zeros(0), *found]),
        "n_limits": np.array([-1 if each is None else len(each) for each in limits], dtype=np.int64),
    }


def limits_from_arrays(arrays: dict[str, NDArray[Any]], is_categorical: NDArray[np.bool_]) -> Limits:
    """From what `limits_to_arrays` gave; ValueError for anything else."""
    limits, counts = arrays["limits"], arrays["n_limits"]
    if counts.shape != is_categorical.shape or not np.array_equal(counts < 0, is_categorical):
        raise ValueError("the limits of the bins are malformed")
    if limits.dtype != np.float64 or limits.shape != (np.maximum(counts, 0).sum(),):
        raise ValueError("the limits of the bins are malformed")
    parts = np.split(limits, np.cumsum(np.maximum(counts, 0))[:-1])
    if not all((np.diff(part) > 0).all() for part in parts):
        raise ValueError("the limits of the bins are malformed")
    return [None if kind else part for kind, part in zip(is_categorical, parts, strict=True)]
