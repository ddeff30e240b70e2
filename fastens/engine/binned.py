"""The binned rows that trees are grown on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

_ALIGNMENT = 64
_PAYLOAD_BYTES = 4


@dataclass(frozen=True, eq=False)
class BinnedMatrix:
    """Binned rows, twice: by column for partitioning, by row for histograms.

    A record is the codes of a row in the order of the features, padding, and at `payload_offset` four bytes that belong
    to the histogram kernels, or so many payloads. Both arrays start at a multiple of 64 bytes.
    """

    columns: np.ndarray
    records: np.ndarray
    payload_offset: int
    n_codes: np.ndarray
    is_categorical: np.ndarray
    thresholds: list[np.ndarray]
    n_payloads: int = 1

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.shape[1]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.columns.shape[0]

    def with_payloads(self, n: int) -> BinnedMatrix:
        """Return the same rows with room for so many payloads in every record, one after another."""
        stride = _record_stride(self.payload_offset + n * _PAYLOAD_BYTES)
        records = aligned((self.n_rows, stride), self.records.dtype)
        records[:, : self.payload_offset] = self.records[:, : self.payload_offset]
        return replace(self, records=records, n_payloads=n)


def _record_stride(n_bytes: int) -> int:
    """Bytes from one record to the next: no record of up to 32 bytes crosses a cache line."""
    return next((size for size in (8, 16, 32) if n_bytes <= size), -(-n_bytes // 16) * 16)


def aligned(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """Return an array of zeros that starts at a multiple of 64 bytes."""
    n_bytes = shape[0] * shape[1] * dtype.itemsize
    buffer = np.zeros(n_bytes + _ALIGNMENT, dtype=np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    return buffer[start : start + n_bytes].view(dtype).reshape(shape)


def make_matrix(
    columns: np.ndarray, n_codes: np.ndarray, is_categorical: np.ndarray, thresholds: list[np.ndarray]
) -> BinnedMatrix:
    """Return a matrix of these codes by column, with room for those by row."""
    n_features, n_rows = columns.shape
    payload_offset = -(-n_features * columns.itemsize // _PAYLOAD_BYTES) * _PAYLOAD_BYTES
    records = aligned((n_rows, _record_stride(payload_offset + _PAYLOAD_BYTES)), np.dtype(np.uint8))
    return BinnedMatrix(columns, records, payload_offset, n_codes, is_categorical, thresholds)
