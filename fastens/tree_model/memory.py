"""How much memory trees of the forests' engine take: those of forests, single trees, isolation forests, embeddings."""

from __future__ import annotations

import math
from typing import Any

from sklearn.base import is_classifier

from fastens.engine.threads import resolve_n_jobs
from fastens.table.source import WEIGHT, MemoryNeeds, TableShape, bins_of, bytes_of_codes, needs_of

# Bytes of a row, and of each target as the engine reads it; of rows that are drawn, their order and the chances.
_ROW = 8
_TARGET = 16
_DRAWN_FROM = 16
# Of ranks by a target, for medians.
_RANKED = 20
# Of rows of which some are out of a tree's bag, and their predictions.
_OUT_OF_BAG = 24
_PREDICTED = 16
# For each thread: how often each row is drawn, with and without replacement; of those that are, an entry, twice, or an
# entry and two records.
_DRAWN = 16
_CHOSEN = 40
_ENTRY = 16
_RECORDS = ((32, 64), (64, 128))  # up to so many columns, so many bytes
# With random thresholds without records: codes and words of a node's rows. With medians, ranks and sums. Rounded
# numbers of a target that share no word with the weights.
_RANDOM = 12
_MEDIAN = (24, 12)
_ROUNDED = 8
# Bytes of a node and of each of its values while its tree grows, and in the model.
_GROWN_NODE = 200
_GROWN_VALUE = 24
_NODE = 10
_VALUE = 4
_MOST_DEPTH = 40
# Of rows whose classes have nothing to do with the columns, so many are leaves, less one over the number of classes.
_LEAVES_OF_CLASSES = 1.1
# Bytes of a bin in a thread's search, and of a column's bin.
_SEARCHED = 60
_BIN = 16
# How many times the standard deviation of the number of distinct rows drawn, which is 0.31 of the root of all rows.
_SPARE = 2.0
# Of sparse tables: codes of a few columns at a time, of one byte or two, and the rows of a node; of random thresholds,
# a column's cells.
_SPREAD = 12
_CELLS = 800


def forest_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit takes on a table of this shape."""
    n_rows, params = shape.n_rows, model._every_parameter()
    n_trees, n_threads = params.get("n_estimators", 1), resolve_n_jobs(params.get("n_jobs"))
    n_workers = max(1, min(n_threads, n_trees))
    common = _ROW + _TARGET * shape.n_targets + WEIGHT * shape.is_weighted
    common += _RANKED * shape.n_targets * _has_medians(params) + _DRAWN_FROM * bool(params.get("bootstrap"))
    share = 1.0 if shape.is_weighted else _drawn_share(params, n_rows)
    of_row = common + n_workers * _of_worker(model, shape, params, share)
    if params.get("oob_score"):
        of_row = max(of_row, common + _OUT_OF_BAG + _PREDICTED * shape.n_outputs)
    n_nodes = 2 * _most_leaves(model, shape, params, math.ceil(share * n_rows))
    trees = n_nodes * (_NODE + _VALUE * shape.n_outputs) * n_trees
    n_bins = min(bins_of(model), n_rows)
    search = n_bins * _SEARCHED * (shape.n_outputs + 1) * (n_threads + 1)
    n_stored = n_rows * shape.n_columns if shape.n_stored is None else shape.n_stored
    search += _BIN * min(n_bins * shape.n_columns, n_stored)
    codes = bytes_of_codes(shape, bins_of(model))
    growing = n_nodes * (_GROWN_NODE + _GROWN_VALUE * shape.n_outputs) * n_workers
    held = int(n_rows * of_row) + growing + search
    if shape.stored_codes() is not None:
        held += _SPREAD * n_rows * n_workers + _CELLS * shape.n_columns * _has_random_thresholds(model)
    return needs_of(shape, model, held, (codes, codes), trees)


def _of_worker(model: Any, shape: TableShape, params: dict[str, Any], share: float) -> float:
    """Bytes of each row of the table that a thread grows a tree with."""
    is_random, n_targets = _has_random_thresholds(model), shape.n_targets
    drawn = _DRAWN if params.get("bootstrap") else _CHOSEN if share < 1 else 0
    records = next((size for most, size in _RECORDS if shape.n_columns < most), 0)
    if is_random and is_classifier(model) and records and shape.n_outputs == n_targets == 1 and not shape.is_weighted:
        return drawn + share * (_ENTRY + records)
    of_entry = 2 * _ENTRY + _RANDOM * is_random
    of_entry += (_MEDIAN[0] + _MEDIAN[1] * n_targets) * _has_medians(params)
    is_packed = n_targets == 1 and not shape.is_weighted and not _has_medians(params)
    return drawn + share * of_entry + _ROUNDED * n_targets * (not is_packed and not is_classifier(model))


def _has_random_thresholds(model: Any) -> bool:
    return bool(getattr(model, "_has_random_thresholds", True))


def _has_medians(params: dict[str, Any]) -> bool:
    return params.get("criterion") == "absolute_error"


def _most_leaves(model: Any, shape: TableShape, params: dict[str, Any], n_rows: int) -> int:
    """The most leaves of a tree on so many rows: as many where nothing limits them, and fewer of classes."""
    least = params.get("min_samples_leaf", 1)
    least = least if isinstance(least, int) else max(1, int(least * n_rows))
    if is_classifier(model) and shape.n_targets == 1:
        n_rows = math.ceil(n_rows * min(1.0, _LEAVES_OF_CLASSES - 1 / max(2, shape.n_outputs)))
    by_depth = 1 << min(_MOST_DEPTH, params.get("max_depth") or _MOST_DEPTH)
    return max(1, min(n_rows // least, by_depth, params.get("max_leaf_nodes") or n_rows))


def _drawn_share(params: dict[str, Any], n_rows: int) -> float:
    """The share of the rows that a tree is grown on, at most; drawn with replacement, nearly always."""
    drawn = params.get("max_samples")
    if drawn == "auto":  # isolation forests: 256 rows
        return min(1.0, 256 / n_rows)
    draws = n_rows if drawn is None else drawn if isinstance(drawn, int) else drawn * n_rows
    if not params.get("bootstrap"):
        return min(1.0, draws / n_rows)
    return min(1.0, 1.0 - math.exp(-draws / n_rows) + _SPARE / math.sqrt(n_rows))
