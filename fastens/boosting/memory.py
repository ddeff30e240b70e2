"""Estimates of the peak memory of boosting."""

from __future__ import annotations

from typing import Any

from fastens.boosting.fit_arguments import holds_out
from fastens.boosting.parameters import MIN_ROWS, row_sampling
from fastens.engine.bins.binned import MAX_COLUMNS, record_stride
from fastens.engine.bins.binning import BYTE_BINS
from fastens.engine.grow.near_columns import near_bytes
from fastens.engine.threads import resolve_n_jobs
from fastens.table.source import WEIGHT, MemoryNeeds, TableShape, bytes_of_codes, needs_of

# Bytes per row: for the target, and for the raw prediction, gradient and hessian of each output.
_TARGET = 8
_OUTPUT = 16
# Bytes per row for growing a tree: its position in the order of the tree, in two buffers, and the payload of its
# record if the bin codes are in files.
_GROWTH = 8
_PAYLOAD = 4
# Bytes per row for a held-out split: another copy of the row indices and targets.
_HELD_OUT = 24
# Bytes per row for row sampling: content hashes with their intermediate arrays, and the indices of the sampled rows.
_DRAWN = 32
# Bytes per row for leaf values computed from residuals, such as medians: row indices by leaf and sorted residuals.
_RENEWED = 48
# Bytes per cell of the widest kind of histogram, and the number of cells of a feature with one-byte bin codes.
_CELL = 32
_BYTE_CELLS = 264
_NODE = 160
# Maximum bytes of all cached histograms of sparse tables; at least four histograms are cached.
_MAX_STORED = 1 << 30


def boosting_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Estimate the peak memory of a fit on a table of this shape."""
    n_rows, k, jointly = shape.n_rows, shape.n_outputs, shape.n_targets > 1 and not model.linear_leaves
    code = 1 if model.max_bins <= BYTE_BINS else 2
    files = bytes_of_codes(shape, model.max_bins)
    codes = _codes_in_memory(shape, code, min(k, resolve_n_jobs(model.n_jobs)))
    of_row = _TARGET + _OUTPUT * k + _GROWTH + _PAYLOAD + WEIGHT * shape.is_weighted
    of_row += _HELD_OUT * holds_out(model)
    of_row += (_DRAWN + 8 * k) * row_sampling(model).draws + 16 * k * model.oob_score
    of_row += _RENEWED * (hasattr(model, "quantile") and model._loss_of_target().renews_leaves)
    if jointly:
        codes += n_rows * record_stride(shape.n_columns * code + 4 * k)
        files += n_rows * 4 * k
        of_row += 8 * k + 8
    if model.linear_leaves:
        of_row += 8 * shape.n_columns + 16
    n_folds = model._stopping.folds or 1
    if n_folds > 1:
        of_row += shape.n_columns * code + _HELD_OUT  # each fold has a copy of its bin codes
    n_leaves = min(model.max_leaf_nodes or 1 << 16, max(1, n_rows // (model.min_samples_leaf or MIN_ROWS)))
    kept = _kept_nodes(model.max_bins, n_rows, n_leaves)
    cells = shape.n_columns * (_BYTE_CELLS if code == 1 else min(model.max_bins, n_rows) + 2)
    histograms = _CELL * cells * k * (kept + resolve_n_jobs(model.n_jobs))
    if (n_codes := shape.stored_codes()) is not None:
        cells = min(cells, n_codes + 3 * shape.n_columns)
        kept = min(kept, 4 * n_codes // cells + 2)  # see CELLS_PER_KEPT in grow.pyx
        most = max(_MAX_STORED, 4 * _CELL * cells * k)
        histograms = min(_CELL * cells * k * kept, most) + _CELL * cells * k * resolve_n_jobs(model.n_jobs)
    trees = n_folds * _NODE * model.n_estimators * n_leaves * (1 if jointly else k)
    return needs_of(shape, model, n_rows * of_row + histograms, (codes, files), trees)


def _codes_in_memory(shape: TableShape, code: int, n_workers: int) -> int:
    """Return the bytes of the bin codes, by row and by column.

    If all columns would use too much memory, only some are held, for each tree that grows at the same time.
    """
    columns, record = shape.n_columns * code, record_stride(shape.n_columns * code + _PAYLOAD)
    if shape.n_rows * columns > MAX_COLUMNS:
        columns = n_workers * near_bytes(record)
    return shape.n_rows * (columns + record)


def _kept_nodes(max_bins: int, n_rows: int, n_leaves: int) -> int:
    """Return the maximum number of nodes with cached histograms; see KEPT_ROWS_PER_CODE in grow.pyx."""
    return min(n_leaves, n_rows // (2 * min(max_bins, max(1, n_rows))) + 1) + 1
