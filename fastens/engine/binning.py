"""Learn each feature's bins from data (in one go, or merged from parts) and turn values into codes.

A code is 0 for a missing value or a category never seen. For a numeric feature it is 1 plus the number of thresholds below the
value, so ``x <= thresholds[c - 1]`` is the same as ``code <= c``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from fastens.engine.kernels.bins import BinTable, bin_matrix

_ALIGNMENT = 64
_PAYLOAD_BYTES = 4


class Binning:
    """Thresholds and category codes of all features: plain arrays.

    Parameters
    ----------
    thresholds : list of float64 arrays
        Ascending; empty for a categorical feature.
    category_codes : list of uint16 arrays or None
        The code of each category by its position, 0 for one never seen; None for a numeric feature.
    """

    thresholds: list[np.ndarray]
    category_codes: list[np.ndarray | None]
    is_categorical: np.ndarray
    n_codes: np.ndarray
    code_dtype: np.dtype

    def __init__(self, thresholds: list[np.ndarray], category_codes: list[np.ndarray | None]) -> None:
        self.thresholds = thresholds
        self.category_codes = category_codes
        self.is_categorical = np.array([codes is not None for codes in category_codes], dtype=bool)
        self.n_codes = np.array(
            [
                len(limits) + 2 if codes is None else int(codes.max(initial=0)) + 1
                for limits, codes in zip(thresholds, category_codes, strict=True)
            ],
            dtype=np.int32,
        )
        self.code_dtype = np.dtype(np.uint8 if self.n_codes.max(initial=0) <= 256 else np.uint16)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.thresholds)

    @cached_property
    def table(self) -> BinTable:
        """The search tables of the kernels."""
        return BinTable(self.thresholds, self.category_codes)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "table"}

    def codes(self, X: Any, n_threads: int = 1) -> np.ndarray:
        """Return the codes of X, shape (n_features, n_rows), in C order."""
        columns = _aligned((self.n_features, X.shape[0]), self.code_dtype)
        self._fill(X, columns, None, n_threads)
        return columns

    def transform(self, X: Any, n_threads: int = 1) -> BinnedMatrix:
        """Return X binned for training: the codes by column and by row."""
        n_rows = X.shape[0]
        code_bytes = self.n_features * self.code_dtype.itemsize
        payload_offset = -(-code_bytes // _PAYLOAD_BYTES) * _PAYLOAD_BYTES
        columns = _aligned((self.n_features, n_rows), self.code_dtype)
        records = _aligned((n_rows, _record_stride(payload_offset + _PAYLOAD_BYTES)), np.dtype(np.uint8))
        self._fill(X, columns, records, n_threads)
        return BinnedMatrix(columns, records, payload_offset, self.n_codes, self.is_categorical)

    def _fill(self, X: Any, columns: np.ndarray, records: np.ndarray | None, n_threads: int) -> None:
        if scipy.sparse.issparse(X):
            X = X.toarray()
        bin_matrix(self.table, X, columns, records, 0, n_threads)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything as a few arrays, for saving."""
        codes = [np.zeros(0, np.uint16) if codes is None else codes for codes in self.category_codes]
        return {
            "thresholds": np.concatenate([np.zeros(0), *self.thresholds]),
            "n_thresholds": np.array([len(limits) for limits in self.thresholds], dtype=np.int64),
            "category_codes": np.concatenate([np.zeros(0, np.uint16), *codes]),
            "n_categories": np.array([len(part) for part in codes], dtype=np.int64),
            "is_categorical": self.is_categorical,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Binning:
        """Rebuild a binning from `to_arrays()`."""
        thresholds = np.split(arrays["thresholds"], np.cumsum(arrays["n_thresholds"])[:-1])
        codes = np.split(arrays["category_codes"], np.cumsum(arrays["n_categories"])[:-1])
        kinds = arrays["is_categorical"]
        return cls(list(thresholds), [part if kind else None for part, kind in zip(codes, kinds, strict=True)])


@dataclass(frozen=True, eq=False)
class BinnedMatrix:
    """Binned rows, twice: by column for partitioning, by row for histograms.

    A record is the codes of a row in the order of the features, padding, and at `payload_offset` four bytes that belong to
    the histogram kernels. Both arrays start at a multiple of 64 bytes.
    """

    columns: np.ndarray
    records: np.ndarray
    payload_offset: int
    n_codes: np.ndarray
    is_categorical: np.ndarray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.shape[1]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.columns.shape[0]


def _record_stride(n_bytes: int) -> int:
    """Bytes from one record to the next: no record of up to 32 bytes crosses a cache line."""
    return next((size for size in (8, 16, 32) if n_bytes <= size), -(-n_bytes // 16) * 16)


def _aligned(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    n_bytes = shape[0] * shape[1] * dtype.itemsize
    buffer = np.zeros(n_bytes + _ALIGNMENT, dtype=np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    return buffer[start : start + n_bytes].view(dtype).reshape(shape)


def _numeric_thresholds(x: np.ndarray, weight: np.ndarray, max_bins: int) -> np.ndarray:
    present = ~np.isnan(x)
    values, inverse = np.unique(x[present].astype(np.float64), return_inverse=True)
    ends = np.arange(len(values))
    if len(values) > max_bins:
        cumulative = np.cumsum(np.bincount(inverse, weight[present]))
        ends = np.unique(np.searchsorted(cumulative, cumulative[-1] * np.arange(1, max_bins) / max_bins))
    ends = ends[ends < len(values) - 1]
    low, high = values[ends], values[ends + 1]
    with np.errstate(all="ignore"):
        middle = low / 2 + high / 2
    return np.where((low <= middle) & (middle < high), middle, low) + 0.0


def _category_codes(x: np.ndarray, weight: np.ndarray, max_bins: int) -> np.ndarray:
    present = ~np.isnan(x)
    weights = np.bincount(x[present].astype(np.int64), weight[present])
    order = np.argsort(-weights, kind="stable")
    codes = np.zeros(len(weights), dtype=np.uint16)
    codes[order] = np.minimum(np.arange(1, len(weights) + 1), max_bins)
    codes[weights == 0] = 0
    return codes


def learn_binning(
    X: Any,
    sample_weight: np.ndarray | None = None,
    max_bins: int = 255,
    is_categorical: np.ndarray | None = None,
    n_threads: int = 1,
) -> Binning:
    """Learn the bins of X."""
    if scipy.sparse.issparse(X):
        X = X.toarray()
    weight = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    kinds = np.zeros(X.shape[1], bool) if is_categorical is None else is_categorical
    return Binning(
        [np.zeros(0) if kind else _numeric_thresholds(x, weight, max_bins) for x, kind in zip(X.T, kinds, strict=True)],
        [_category_codes(x, weight, max_bins) if kind else None for x, kind in zip(X.T, kinds, strict=True)],
    )
