"""How much memory trees of the forests' engine take: those of forests, single trees, AdaBoost and isolation forests."""

from __future__ import annotations

import math
from typing import Any

from fastens.engine.bins.binning import BYTE_BINS
from fastens.engine.threads import resolve_n_jobs
from fastens.table.memory_limits import WEIGHT, MemoryNeeds, TableShape, bytes_of_codes, needs_of

# Bytes of a row: its target as it was given and as the engine reads it, its hash, place and weight in draws; for each
# thread, twice its entry with the sums of a row, and its weight in the samples that are drawn at a time.
_ROW = 72
_TARGET = 24
_ENTRY = 56
_OF_CLASS = 8
# With random thresholds: codes and words of a node's rows, and records of a tree's rows; with medians, ranks and sums.
_RANDOM = 88
_MEDIAN = 64
# Of rows that AdaBoost draws for each round.
_RESAMPLED = 400
# Bytes of a node while its tree grows, and in the model.
_GROWN_NODE = 128
_NODE = 36
_MOST_DEPTH = 40
# How many times the standard deviation of the number of distinct rows drawn, which is 0.31 of the root of all rows.
_SPARE = 2.0
# Of sparse tables: codes of a few columns at a time, of one byte or two; of random thresholds, a column's cells.
_SPREAD = 8
_CELLS = 800


def forest_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit takes on a table of this shape."""
    n_rows, params = shape.n_rows, model.get_params(deep=False)
    if params.get("estimator") is not None:
        raise ValueError(f"max_memory must be None with an estimator; got {params['estimator']!r}.")
    n_trees = params.get("n_estimators", 1)
    n_threads = max(1, min(resolve_n_jobs(params.get("n_jobs")), n_trees))
    max_bins = params.get("max_bins", BYTE_BINS)
    of_entry = _ENTRY + _OF_CLASS * shape.n_outputs
    random_thresholds = bool(getattr(model, "_has_random_thresholds", True))
    of_entry += _RANDOM * random_thresholds
    of_entry += _MEDIAN * shape.n_targets * (params.get("criterion") == "absolute_error")
    of_row = _ROW + _TARGET * shape.n_targets + WEIGHT * shape.is_weighted + of_entry * n_threads
    of_row += _RESAMPLED * bool(params.get("resample"))
    if params.get("oob_score"):
        of_row += 16 * shape.n_outputs + 16
    n_values = 4 * shape.n_outputs
    n_nodes = 2 * _most_leaves(
        params, n_rows if shape.is_weighted else math.ceil(_drawn_share(params, n_rows) * n_rows)
    )
    trees = n_nodes * ((_GROWN_NODE + n_values) * n_threads + (_NODE + n_values) * n_trees)
    codes = bytes_of_codes(shape, max_bins)
    held = n_rows * of_row + trees
    if shape.stored_codes() is not None:
        held += _SPREAD * n_rows * n_threads + _CELLS * shape.n_columns * random_thresholds
    return needs_of(shape, max_bins, held, codes, codes)


def _most_leaves(params: dict[str, Any], n_rows: int) -> int:
    """The most leaves of a tree: as many as there are rows where nothing limits them."""
    least = params.get("min_samples_leaf", 1)
    least = least if isinstance(least, int) else max(1, int(least * n_rows))
    by_depth = 1 << min(_MOST_DEPTH, params.get("max_depth") or _MOST_DEPTH)
    return max(1, min(n_rows // least, by_depth, params.get("max_leaf_nodes") or n_rows))


def _drawn_share(params: dict[str, Any], n_rows: int) -> float:
    """The share of the rows that a tree is grown on, at most; drawn with replacement, nearly always."""
    drawn = params.get("max_samples")
    if drawn == "auto":  # isolation forests: 256 rows
        return min(1.0, 256 / n_rows)
    if not params.get("bootstrap"):
        return 1.0
    draws = n_rows if drawn is None else drawn if isinstance(drawn, int) else drawn * n_rows
    return min(1.0, 1.0 - math.exp(-draws / n_rows) + _SPARE / math.sqrt(n_rows))
