"""Values to codes: `bin_values` for a piece of one column, `bin_matrix` for a whole matrix on several threads."""

from cython cimport final
from cython.parallel cimport prange
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from fastens.engine.kernels.structs cimport FeatureBins, code_t, float64_t, value_t

cdef enum:
    TILE_ROWS = 256
    TILE_FEATURES = 64


cdef void bin_values(
    const FeatureBins* bins, const value_t* x, Py_ssize_t stride, Py_ssize_t n, code_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int32_t low, high, middle
    cdef float64_t value
    for i in range(n):
        value = x[i * stride]
        if value != value:
            out[i] = 0
        elif bins.category_codes != NULL:
            out[i] = <code_t> bins.category_codes[<int32_t> value] if 0 <= value < bins.n_categories else 0
        else:
            low, high = 0, bins.n_thresholds
            while low < high:
                middle = (low + high) // 2
                if bins.thresholds[middle] < value:
                    low = middle + 1
                else:
                    high = middle
            out[i] = <code_t> (low + 1)


@final
cdef class BinTable:
    """Search tables of all features.

    Parameters
    ----------
    thresholds : list of float64 arrays
        Ascending; empty for a categorical feature.
    category_codes : list of uint16 arrays or None
        The code of each category; None for a numeric feature.
    """

    def __init__(self, thresholds, category_codes):
        cdef const float64_t[::1] limits
        cdef const uint16_t[::1] codes
        cdef Py_ssize_t f
        self.n_features = len(thresholds)
        self.arrays = []
        self.features = <FeatureBins*> calloc(self.n_features + 1, sizeof(FeatureBins))
        if self.features == NULL:
            raise MemoryError(f"no memory for the bins of {self.n_features} features")
        for f in range(self.n_features):
            if category_codes[f] is None:
                limits = np.ascontiguousarray(thresholds[f], dtype=np.float64)
                self.arrays.append(limits)
                self.features[f].n_thresholds = limits.shape[0]
                self.features[f].thresholds = &limits[0] if limits.shape[0] else NULL
            else:
                codes = np.append(category_codes[f], [0]).astype(np.uint16)
                self.arrays.append(codes)
                self.features[f].n_categories = codes.shape[0] - 1
                self.features[f].category_codes = &codes[0]

    def __dealloc__(self):
        free(self.features)


cdef struct Job:
    # What bin_matrix does: where the values are, where the codes go.
    const FeatureBins* bins
    Py_ssize_t n_features
    Py_ssize_t n_rows
    Py_ssize_t row_stride           # of the values, in items
    Py_ssize_t column_stride
    uint8_t* records                # NULL: columns only
    Py_ssize_t record_stride


cdef void _bin_tile(
    const Job* job, const value_t* x, code_t* columns, Py_ssize_t row, Py_ssize_t first, Py_ssize_t last
) noexcept nogil:
    # The tile's rows start at `row`; its features are first..last-1.
    cdef Py_ssize_t f, i
    cdef Py_ssize_t n = min(<Py_ssize_t> TILE_ROWS, job.n_rows - row)
    cdef code_t* codes
    for f in range(first, last):
        codes = columns + f * job.n_rows + row
        bin_values(job.bins + f, x + row * job.row_stride + f * job.column_stride, job.row_stride, n, codes)
        if job.records != NULL:
            for i in range(n):
                (<code_t*> (job.records + (row + i) * job.record_stride))[f] = codes[i]


cdef void _bin_rows(const Job* job, const value_t* x, code_t* columns, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t first = 0
    while first < job.n_features:
        _bin_tile(job, x, columns, row, first, min(first + TILE_FEATURES, job.n_features))
        first += TILE_FEATURES


def bin_matrix(BinTable table, const value_t[:, :] X, code_t[:, ::1] columns, uint8_t[:, ::1] records, int n_threads):
    """Write the codes of X to columns, shape (n_features, n_rows), and unless None to the rows' records.

    The strides of X are whole numbers of items.
    """
    cdef Job job
    cdef Py_ssize_t t, n_tiles = (X.shape[0] + TILE_ROWS - 1) // TILE_ROWS
    cdef const value_t* x
    cdef code_t* out
    if X.shape[0] == 0 or X.shape[1] == 0:
        return
    x, out = &X[0, 0], &columns[0, 0]
    job.bins, job.n_features, job.n_rows = table.features, table.n_features, X.shape[0]
    job.row_stride = X.strides[0] // <Py_ssize_t> sizeof(value_t)
    job.column_stride = X.strides[1] // <Py_ssize_t> sizeof(value_t)
    job.records = &records[0, 0] if records is not None else NULL
    job.record_stride = records.shape[1] if records is not None else 0
    with nogil:
        for t in prange(n_tiles, num_threads=n_threads, use_threads_if=n_threads > 1, schedule="static"):
            _bin_rows(&job, x, out, t * TILE_ROWS)
