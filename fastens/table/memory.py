"""The model of the memory that a fit uses.

A fit holds the bin codes of all rows, other arrays with an entry for each row, trees and histograms; before trees grow,
it holds a batch of rows and a sample that bins are learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from fastens.engine.bins.binned import MAX_COLUMNS, WINDOW, record_stride
from fastens.engine.bins.binning import BYTE_BINS, MAX_STORED
from fastens.engine.bins.row_sketch import default_sample
from fastens.engine.grow.near_columns import near_bytes
from fastens.engine.threads import resolve_n_jobs
from fastens.table.sources import BATCH_ROWS, BATCH_VALUES

# Fits of base estimators on fewer values run in parallel with one thread each; larger fits run one after another.
VALUES_FOR_ALL_THREADS = 4e6
# Copies of each value of a batch, and of the sample that bins are learned from, that are in memory at once.
COPIES = {"files": (4, 2.6), "frame": (2, 2.6), "array": (0, 1.6)}
# Arrow's pages of a column and its fixed overhead; the fixed overhead of threads; maximum fragmentation of blocks.
_PAGES, _ARROW, _FIXED, _MAX_GAPS = 4 << 20, 24 << 20, 12 << 20, 32 << 20
# Bytes of a histogram cell, cells of a column with one-byte codes, and maximum bytes of cached histograms.
_CELL, _CELLS, _MAX_CACHED = 32, 264, 1 << 30


# Bytes of what a fit holds: for each row; for each row and raw prediction; for each row and tree that grows at the same
# time; for each node of the model; for each raw prediction of a node; for each node of a tree that grows.
ENGINES = {
    "boosting": (20, 16, 0, 80, 0, 0),
    "forest": (40, 0, 56, 10, 4, 160),
    "rounds": (26, 0, 0, 48, 8, 0),
    "table": (24, 0, 0, 0, 0, 0),
}
# Losses and criteria with medians, which sort residuals or ranks.
_MEDIANS = ("absolute_error", "quantile", "huber")


@dataclass(frozen=True)
class MemoryNeeds:
    """Estimated peak memory of a fit in bytes, in addition to what the process used before.

    Attributes
    ----------
    in_memory : int
        Peak with the bin codes in memory.
    in_files : int
        Peak with the bin codes in files, of which only the pages in use are resident.
    disk : int
        Size of these files; 0 if the fit does not write files.
    model : int
        The part that remains as the fitted model.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, estimate_memory
    >>> needs = estimate_memory(GradientBoostingRegressor(), n_rows=10**8, n_columns=28)
    >>> needs.in_memory > needs.disk > needs.in_files
    True
    """

    in_memory: int
    in_files: int
    disk: int = 0
    model: int = 0

    def __str__(self) -> str:
        """Return a readable one-line summary."""
        in_memory, in_files, disk = map(shown_bytes, (self.in_memory, self.in_files, self.disk))
        return f"{in_memory} in memory" + (f", or {in_files} and {disk} of disk" if self.disk else "")


class FitShape(NamedTuple):
    """Sizes that determine the memory of a fit; the parameters of `estimate_memory` describe them."""

    n_rows: int
    n_columns: int
    n_outputs: int = 1
    n_targets: int = 1
    weighted: bool = False
    n_validation: int = 0
    n_stored: int | None = None
    kind: str = "files"
    value_bytes: int = 8


def needs_of(model: Any, shape: FitShape) -> MemoryNeeds:
    """Return the estimated peak memory of fitting a model on a table with these sizes.

    Raises ValueError if the model or a base estimator is not from fastens.
    """
    if not hasattr(model, "_memory_model"):
        raise ValueError(
            f"max_memory must be None for a {type(model).__name__} as base estimator, because the memory use "
            "of models of other libraries is not known."
        )
    model = model._memory_model()
    if model._base_estimators():
        return _needs_of_members(model, shape)
    if hasattr(model, "_loss_of_target"):  # boosting of several quantiles, or of the parameters of a distribution
        n_outputs = shape.n_targets * model._loss_of_target().n_outputs
        shape = shape._replace(n_outputs=max(shape.n_outputs, n_outputs))
    params = model._every_parameter() | {"is_classifier": is_classifier(model)}
    return needs_of_engine(model._holds, params, shape)


def _max_bins(params: dict[str, Any]) -> int:
    """Return the largest number of bins of any column that the parameter `max_bins` allows, at least 255."""
    max_bins = params.get("max_bins")
    if max_bins is None:
        return BYTE_BINS
    return max([BYTE_BINS, *max_bins.values()]) if isinstance(max_bins, Mapping) else int(np.max(max_bins))


def needs_of_engine(holds: str | None, params: dict[str, Any], shape: FitShape) -> MemoryNeeds:
    """Return the estimated memory of a fit without base estimators and with these parameters.

    `holds` tells what the fit holds: the tree engine by its key in ENGINES, "codes" if it holds the codes of all
    values, or None if it holds neither.
    """
    n, n_columns, size = shape.n_rows, max(1, shape.n_columns), shape.value_bytes
    max_bins, n_threads = _max_bins(params), resolve_n_jobs(params.get("n_jobs"))
    code, n_values = 1 if max_bins <= BYTE_BINS else 2, n * n_columns
    targets, (of_batch, of_sample) = n * (24 * shape.n_targets + 8 * shape.weighted), COPIES[shape.kind]
    reading = of_batch * size * n_columns * min(n, BATCH_ROWS, max(1, BATCH_VALUES // n_columns)) + _FIXED
    reading += n_columns * min(_PAGES, 16 * n) + _ARROW if shape.kind == "files" else 0
    if holds not in ENGINES:
        total = targets + reading + 4 * n_values * (holds == "codes") + 48 * (shape.n_stored or 0)
        return MemoryNeeds(_add_fragmentation(total), _add_fragmentation(total))
    sample = min(n, default_sample(n_columns, max_bins))
    learning = of_sample * sample * (n_columns * size + 24) if shape.kind != "array" or n > sample else 0
    learning += 32 * sample * min(n_threads, n_columns) + size * min(sample * n_columns, 1 << 20)
    column, record = n_columns * code, record_stride(n_columns * code + 4)
    if holds == "rounds" and params.get("max_depth", 1) == 1 and params.get("algorithm") not in ("gentle", "logit"):
        record = 0  # stumps read codes by column only
    codes = disk = n * (column + record)
    if holds == "boosting" and n * column > MAX_COLUMNS:
        codes = n * (record + min(shape.n_outputs, n_threads) * near_bytes(record))
    if shape.n_stored is not None:
        reading, learning, disk = 48 * shape.n_stored + _FIXED, 0, 0
        if shape.n_stored <= MAX_STORED * n_values:
            n_values = shape.n_stored
            codes = n_values * (12 + code) + 24 * n + 500 * n_columns
    rows, trees, workspace = _engine_bytes(holds, params, shape, n_values, n_threads)
    held = rows + trees + workspace + shape.n_validation * (column + 24 + 16 * shape.n_outputs) + _FIXED

    def peak(n_bytes: int) -> int:
        return _add_fragmentation(max(held + n_bytes, reading + targets + max(n_bytes, learning)))

    in_files = peak(min(WINDOW, disk // 4) + n * code) if disk else peak(codes)
    return MemoryNeeds(peak(codes), in_files, disk, int(trees))


def _engine_bytes(
    holds: str, params: dict[str, Any], shape: FitShape, n_values: int, n_threads: int
) -> tuple[float, float, float]:
    """Return the bytes of arrays with an entry per row, of the model, and of nodes and histograms while trees grow.

    `holds` is a key of ENGINES, and `n_values` the number of values of the table, or of stored values if it is sparse.
    """
    n, k, n_trees = shape.n_rows, shape.n_outputs, params.get("n_estimators", 1)
    of_row, of_output, of_worker, of_node, of_value, of_growing = ENGINES[holds]
    stopping, depth = params.get("early_stopping"), params.get("max_depth", 1 if holds == "rounds" else None)
    has_medians = params.get("loss", params.get("criterion")) in _MEDIANS
    n_folds, n_bins = getattr(stopping, "folds", None) or 1, min(_max_bins(params), n) + 2
    n_workers, drawn = max(1, min(n_threads, n_trees)) if holds == "forest" else 0, params.get("max_samples")
    share = min(1.0, 256 / n if drawn == "auto" else 1 if drawn is None else drawn / n if drawn > 1 else drawn)
    share = 1 - np.exp(-share) if params.get("bootstrap") else share
    row = of_row + of_output * k + 8 * shape.weighted + n_workers * of_worker * share
    row += 48 * (stopping not in (None, False, "auto")) + (24 + 16 * k) * bool(params.get("oob_score"))
    row += (32 + 8 * k) * (params.get("subsample", 1) < 1 or params.get("sampling", "uniform") != "uniform")
    row += 96 * max(1, n_workers) * has_medians + (12 * k + 8) * (shape.n_targets > 1)
    row += 8 * shape.n_columns * (bool(params.get("linear_leaves")) + bool(params.get("keep_values")))
    row += (shape.n_columns + 24) * (n_folds > 1)
    row += 64 * (holds == "rounds" and depth != 1) + 20 * bool(params.get("resample"))
    fewest = params.get("min_samples_leaf", 1) or 5
    leaves = share * n / fewest if isinstance(fewest, int) else 1 / fewest
    if holds == "forest" and params["is_classifier"]:  # if the classes are independent of the columns
        leaves *= min(1.0, 1.1 - 1 / max(2, k))
    leaves = max(1, min(leaves, params.get("max_leaf_nodes") or leaves, 2.0 ** (depth or 60)))
    trees = 2 * leaves * (of_node + of_value * k) * n_trees * n_folds * (k if holds == "boosting" else 1)
    workspace = 2 * leaves * (of_growing + 24 * k) * n_workers + 80 * n_bins * (k + 1) * (n_threads + 1)
    if holds == "boosting":
        cell = _CELL * k * min(shape.n_columns * max(_CELLS, n_bins), n_values + 3 * shape.n_columns)
        workspace += cell * (min(leaves, n // (2 * n_bins) + 2, _MAX_CACHED // cell + 4) + n_threads)
    return n * row, trees, workspace


def _needs_of_members(model: Any, shape: FitShape) -> MemoryNeeds:
    """Return the estimated memory of a meta-estimator: its parallel base fits, and what it holds in addition."""
    held, models, n_parallel = held_in_addition(model, shape)
    each = [needs_of(member, shape) for member in model._base_estimators()]
    in_memory = held + n_parallel * max(needs.in_memory for needs in each)
    if not model._capabilities.supports_out_of_core:  # the base estimators get copies of rows, without a limit
        return MemoryNeeds(in_memory, in_memory, 0, models)
    in_files = held + n_parallel * max(needs.in_files for needs in each)
    return MemoryNeeds(in_memory, in_files, n_parallel * max(needs.disk for needs in each), models)


def held_in_addition(model: Any, shape: FitShape) -> tuple[int, int, int]:
    """Return what a meta-estimator holds: (held, models, n_parallel).

    `held` are all bytes held during base fits, `models` the bytes of all base models, which `held` includes, and
    `n_parallel` the number of base fits at a time.
    """
    params, members = model.get_params(deep=False), model._base_estimators()
    n_values, n_fits, cv = shape.n_rows * shape.n_columns, params.get("n_estimators", 1), params.get("cv", 0)
    n_folds = 5 if cv is None else cv if isinstance(cv, int) else getattr(cv, "n_splits", 5)
    n_folds *= isinstance(params.get("weights", "learned"), str)  # voting with given weights needs no folds
    if n_folds:
        n_fits = (n_folds + 1) * params.get("max_layers", 1)
    models = n_fits * sum(needs_of(member, shape).model for member in members)
    held = models + shape.n_rows * (40 + 8 * n_folds + 16 * len(members) * shape.n_outputs)
    copies = (
        2
        if not model._capabilities.supports_out_of_core or params.get("passthrough")
        else bool(n_folds) and shape.kind != "files"
    )
    held += copies * shape.value_bytes * n_values if shape.n_stored is None else 48 * shape.n_stored
    return held, models, resolve_n_jobs(params.get("n_jobs", 1)) if n_values <= VALUES_FOR_ALL_THREADS else 1


def _add_fragmentation(n_bytes: float) -> int:
    """Return a number of bytes plus the estimated fragmentation of the blocks that threads allocate and free."""
    return int(n_bytes + min(n_bytes // 10, _MAX_GAPS))


def shown_bytes(n_bytes: int) -> str:
    """Return a number of bytes as readable text with three digits, rounded up."""
    power = max(0, min(4, (len(str(n_bytes)) - 1) // 3))
    return f"{-(-n_bytes * 100 // 1000**power) / 100:g}{('B', 'KB', 'MB', 'GB', 'TB')[power]}"
