"""How much memory AdaBoost and stumps take."""

from __future__ import annotations

from typing import Any

from fastens.combining.memory import needs_of_member
from fastens.engine.threads import resolve_n_jobs
from fastens.table.memory_limits import (
    WEIGHT,
    MemoryNeeds,
    TableShape,
    bins_of,
    bytes_of_codes,
    needs_of,
    needs_without_files,
)

# Bytes of a row: its target and class, its weight, the logarithm of that, and that of the start.
_ROW = 26
# Of trees: two entries, whole weights in two forms, and the node that the row is in.
_GROWN = 64
# Of rows that are drawn, or whose errors are kept: hashes and the order by them, counts.
_DRAWN = 20
# Of the Newton steps of an output: raw prediction, gradient, hessian, and the places in the order of the tree.
_STEP = 28
# Of rows held out.
_HELD_OUT = 24
# Bytes of a node in the model, and of each of its values; of a bin in a search.
_NODE = 48
_VALUE = 8
_SEARCHED = 100
_MOST_LEAVES = 1 << 15


def adaboost_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit of AdaBoost, or of a stump, takes on a table of this shape."""
    params = model._every_parameter()
    if (estimator := params.get("estimator")) is not None:
        member = needs_of_member("estimator", estimator, shape._replace(is_weighted=True))
        beside = shape.n_rows * (_ROW + _DRAWN + WEIGHT) + member.kept * model.n_estimators
        return needs_without_files(shape, model, beside + member.in_memory, beside)
    n_rows, depth, k = shape.n_rows, params.get("max_depth", 1), shape.n_outputs
    votes = params.get("algorithm", "discrete") not in ("gentle", "logit")
    of_row = _ROW + WEIGHT * shape.is_weighted + _HELD_OUT * (params.get("n_iter_no_change") is not None)
    of_row += (_GROWN * (depth != 1)) if votes else _STEP * k
    of_row += _DRAWN * (bool(params.get("resample")) or not hasattr(model, "algorithm"))
    n_leaves = min(1 << min(depth or _MOST_LEAVES, 15), n_rows)
    trees = 2 * n_leaves * (_NODE + _VALUE * k) * params.get("n_estimators", 1)
    n_bins = min(bins_of(model), n_rows)
    search = n_bins * _SEARCHED * (k + 1) * (resolve_n_jobs(params.get("n_jobs")) + 1)
    search += 0 if votes else n_leaves * shape.n_columns * n_bins * k * 16
    codes = bytes_of_codes(shape, bins_of(model))
    return needs_of(shape, model, n_rows * of_row + search, (codes, codes), trees)
