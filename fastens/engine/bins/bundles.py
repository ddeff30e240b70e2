"""Bundles: features of few codes share a byte of the record.

A histogram costs one addition for each row and byte of its record, however few codes there are. The byte of a bundle
numbers the combinations of codes that rows have in its features. One-hot columns exclude each other, so that any
number of them has hardly more combinations than columns (the case of Ke et al. 2017); but features need not exclude
each other, only have few combinations. Their own histograms are sums of the bundle's, in whole numbers: trees are the
same to the bit, and the codes by column, which rows are divided by, stay as they are. Ten groups of 20 one-hot columns,
200 000 rows, one thread: a tree of 31 leaves takes 2.3 ms in place of 36; finding the bundles and writing the records
anew takes 77 ms once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import numpy as np

from fastens.engine.bins.binned import BinnedMatrix, Bundles, empty_records
from fastens.engine.bins.bins import copy_to_records
from fastens.engine.bins.bundling import MOST_CODES, join
from fastens.engine.threads import threads_for

# Bundles are chosen by at least this many rows.
_SAMPLE_ROWS = 16384
# Where there are fewer rows, or fewer columns are saved, records are not written anew.
_LEAST_ROWS = 400
_LEAST_SAVED = 0.1
# Summing up cells of features from those of bundles is work for every node, a tree counts each row a few times. So a
# feature may cost one member or code for so many rows and leaves; for trees of more leaves than these it is no less.
_ROWS_PER_LEAF = 0.7
_MOST_LEAVES = 255
_ROW_GRAIN = 50_000
# Rows whose records are written at a time.
_BLOCK_ROWS = 1 << 16

_IS_ON = ContextVar("bundles", default=True)


@contextmanager
def without_bundles() -> Iterator[None]:
    """Fit without bundles, to measure their gain: the models are the same to the bit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.bins.bundles import bundled, without_bundles
    >>> X = np.eye(10)[np.arange(5000) % 10]
    >>> with without_bundles():
    ...     len(bundled(learn_binning(X).transform(X)).bundles.n_codes)
    10
    """
    token = _IS_ON.set(False)
    try:
        yield
    finally:
        _IS_ON.reset(token)


@dataclass
class _Joined:
    """Features of a matrix, some of them in bundles: arrays as `join` returns them."""

    features: np.ndarray
    numbers: np.ndarray
    bundle_of: np.ndarray
    n_combinations: np.ndarray
    most_frequent_bin: np.ndarray
    first_member: np.ndarray
    members: np.ndarray

    @property
    def in_bundle(self) -> np.ndarray:
        """Whether a feature shares a column with others."""
        return self.bundle_of >= 0

    @property
    def n_saved(self) -> int:
        """How many columns less the records have."""
        return int(self.in_bundle.sum()) - len(np.unique(self.bundle_of[self.in_bundle]))


def bundled(matrix: BinnedMatrix, max_leaves: int | None = 31, n_threads: int = 1) -> BinnedMatrix:
    """Return the matrix with records that are shorter where features of few codes can share bytes.

    Parameters
    ----------
    matrix : BinnedMatrix
        The rows, without bundles.
    max_leaves : int or None
        Leaves that a tree may have; None for no limit.
    n_threads : int
        How many threads there may be.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.bins.bundles import bundled
    >>> X = np.eye(10)[np.arange(5000) % 10]
    >>> matrix = bundled(learn_binning(X).transform(X))
    >>> matrix.bundles.n_codes
    array([10], dtype=int32)
    """
    candidates = np.flatnonzero(matrix.n_codes <= MOST_CODES)
    least_saved = max(1, _LEAST_SAVED * matrix.n_features)
    has_room = matrix.columns.itemsize == 1 and matrix.n_rows >= _LEAST_ROWS and len(candidates) - 1 >= least_saved
    # Ranks would have bundles of their own; where memory is short, records are not written anew.
    if not has_room or not _IS_ON.get() or matrix.comm.size > 1 or matrix.pages is not None:
        return matrix
    step = max(1, matrix.n_rows // _SAMPLE_ROWS)
    most_cost = int(matrix.n_rows / (_ROWS_PER_LEAF * min(max_leaves or _MOST_LEAVES, _MOST_LEAVES)))
    joined = _join(matrix, candidates, most_cost, step)
    if step > 1 and joined.n_saved >= least_saved:
        joined = _join_as_planned(matrix, joined, most_cost, n_threads)
    return matrix if joined.n_saved < least_saved else _with_columns(matrix, joined, n_threads)


def _join(matrix: BinnedMatrix, features: np.ndarray, most_cost: int, step: int) -> _Joined:
    """Join what suits each other by every so many rows."""
    columns, places = matrix.columns, features
    if step > 1:
        columns, places = np.ascontiguousarray(columns[features, ::step]), np.arange(len(features))
    return _Joined(features, *join(columns, places, _n_codes(matrix, features), most_cost, None, 1))


def _join_as_planned(matrix: BinnedMatrix, plan: _Joined, most_cost: int, n_threads: int) -> _Joined:
    """Join by all rows what suits each other by some; a feature that costs too much by all of them stays alone."""
    features = plan.features[plan.in_bundle]
    planned = np.unique(plan.bundle_of[plan.in_bundle], return_inverse=True)[1].astype(np.int32)
    n_threads = threads_for(matrix.n_rows, n_threads, _ROW_GRAIN)
    return _Joined(features, *join(matrix.columns, features, _n_codes(matrix, features), most_cost, planned, n_threads))


def _n_codes(matrix: BinnedMatrix, features: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(matrix.n_codes[features], dtype=np.int32)


def _with_columns(matrix: BinnedMatrix, joined: _Joined, n_threads: int) -> BinnedMatrix:
    """The matrix with a record column for each bundle, after those of the features that are alone."""
    features = joined.features[joined.in_bundle]
    bundles, bundle_of = np.unique(joined.bundle_of[joined.in_bundle], return_inverse=True)
    alone = np.setdiff1d(np.arange(matrix.n_features), features, assume_unique=True)
    shape = len(alone) + len(bundles), matrix.n_rows
    records, payload_offset = empty_records(shape, 1)
    for first in range(0, matrix.n_rows, _BLOCK_ROWS):
        block = slice(first, first + _BLOCK_ROWS)
        codes = np.concatenate([matrix.columns[alone, block], joined.numbers[bundles, block]])
        copy_to_records(codes, records[block], threads_for(codes.size, n_threads, _ROW_GRAIN))
    column_of, most_frequent_bin, first_member = np.zeros((3, matrix.n_features), dtype=np.int32)
    column_of[alone] = np.arange(len(alone))
    column_of[features] = len(alone) + bundle_of
    most_frequent_bin[joined.features], first_member[joined.features] = joined.most_frequent_bin, joined.first_member
    n_codes = np.append(matrix.n_codes[alone], joined.n_combinations[bundles]).astype(np.int32)
    described = Bundles(column_of, n_codes, joined.members, first_member, most_frequent_bin)
    return replace(matrix, records=records, payload_offset=payload_offset, bundles=described, payloads_apart=None)
