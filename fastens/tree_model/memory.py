"""Peak memory of fits on the forest engine: forests, single trees, isolation forests and embeddings."""

from __future__ import annotations

import math
from typing import Any

from sklearn.base import is_classifier

from fastens.engine.threads import resolve_n_jobs
from fastens.table.source import WEIGHT, MemoryNeeds, TableShape, bins_of, bytes_of_codes, needs_of

# Bytes per row, per row and target, and per row for the order and the cumulative probabilities of bootstrap draws.
_ROW = 8
_TARGET = 16
_DRAWN_FROM = 16
# Bytes per row and target for the ranks that medians need.
_RANKED = 20
# Bytes per row of out-of-bag predictions, and per row and output.
_OUT_OF_BAG = 24
_PREDICTED = 16
# Bytes per row and thread: for counts of draws with and without replacement, for an entry of a drawn row (there are
# two), and for its two records next to a single entry.
_DRAWN = 16
_CHOSEN = 40
_ENTRY = 16
_RECORDS = ((32, 64), (64, 128))  # pairs of an exclusive limit on the number of columns and the bytes
# Bytes per row and thread: for random thresholds without records, the codes and words of a node's rows; for medians,
# ranks and sums; for rounded targets that are not packed into one word with the weights.
_RANDOM = 12
_MEDIAN = (24, 12)
_ROUNDED = 8
# Bytes of a node and of each of its values, during growth and in the model.
_GROWN_NODE = 200
_GROWN_VALUE = 24
_NODE = 10
_VALUE = 4
_MAX_DEPTH = 40
# If the classes are independent of the columns, the number of leaves per row is this minus 1 / n_classes.
_LEAVES_OF_CLASSES = 1.1
# Bytes of a bin in a thread's search, and of a column's bin.
_SEARCHED = 60
_BIN = 16
# Margin on the number of distinct rows drawn, in units of sqrt(n_rows); its standard deviation is 0.31 of these units.
_SPARE = 2.0
# For sparse tables: bytes per row for the unpacked codes of a few columns and the rows of a node; bytes per column for
# the cells of random thresholds.
_SPREAD = 12
_CELLS = 800


def forest_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Estimate the peak memory of a fit on a table of this shape."""
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
    """Return the bytes per row of the table that each thread needs to grow a tree."""
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
    """Return the maximum number of leaves of a tree: the number of rows without limits, and less in classification."""
    least = params.get("min_samples_leaf", 1)
    least = least if isinstance(least, int) else max(1, int(least * n_rows))
    if is_classifier(model) and shape.n_targets == 1:
        n_rows = math.ceil(n_rows * min(1.0, _LEAVES_OF_CLASSES - 1 / max(2, shape.n_outputs)))
    by_depth = 1 << min(_MAX_DEPTH, params.get("max_depth") or _MAX_DEPTH)
    return max(1, min(n_rows // least, by_depth, params.get("max_leaf_nodes") or n_rows))


def _drawn_share(params: dict[str, Any], n_rows: int) -> float:
    """Return an upper bound of the fraction of distinct rows in a bag; with bootstrap, it is exceeded very rarely."""
    drawn = params.get("max_samples")
    if drawn == "auto":  # isolation forests draw 256 rows
        return min(1.0, 256 / n_rows)
    draws = n_rows if drawn is None else drawn if isinstance(drawn, int) else drawn * n_rows
    if not params.get("bootstrap"):
        return min(1.0, draws / n_rows)
    return min(1.0, 1.0 - math.exp(-draws / n_rows) + _SPARE / math.sqrt(n_rows))
