"""Sums, means and squared deviations of columns by class, and Gaussian log densities.

A thread owns whole columns and adds its rows in their order: nothing depends on the number of threads.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t

from fastens.engine.structs cimport float64_t, value_t

ctypedef fused index_t:
    int32_t
    int64_t

cdef enum:
    COLUMNS = 16        # columns that a thread takes at once: two cache lines of each row
    ROWS = 512          # rows of a block, read once for all those columns


cdef struct Rows:
    const char* x
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    const int32_t* y
    const float64_t* weight     # NULL: all 1
    Py_ssize_t n_rows
    Py_ssize_t n_features


cdef inline void _add_column(
    const Rows* rows, Py_ssize_t column, Py_ssize_t block, value_t* kind, const float64_t* mean, float64_t* total,
    float64_t* out
) noexcept nogil:
    # Sums by class over a block's known values: of weights and weighted values, or with means of weighted squares.
    cdef Py_ssize_t i, cell
    cdef double x, w
    for i in range(block * ROWS, min((block + 1) * ROWS, rows.n_rows)):
        x = (<const value_t*> (rows.x + i * rows.row_stride + column * rows.column_stride))[0]
        w = 1.0 if rows.weight == NULL else rows.weight[i]
        cell = rows.y[i] * rows.n_features + column
        if x == x:
            if mean == NULL:
                total[cell] += w
                out[cell] += w * x
            else:
                out[cell] += w * (x - mean[cell]) * (x - mean[cell])


cdef void _add_chunk(
    const Rows* rows, Py_ssize_t chunk, value_t* kind, const float64_t* mean, float64_t* total, float64_t* out
) noexcept nogil:
    cdef Py_ssize_t block, j
    for block in range((rows.n_rows + ROWS - 1) // ROWS):
        for j in range(chunk * COLUMNS, min((chunk + 1) * COLUMNS, rows.n_features)):
            if mean == NULL:
                _add_column(rows, j, block, kind, <const float64_t*> NULL, total, out)
            else:
                _add_column(rows, j, block, kind, mean, total, out)


def add_moments(
    const value_t[:, :] X,
    const int32_t[::1] y,
    const float64_t[::1] weight,
    const float64_t[:, ::1] mean,
    float64_t[:, ::1] total,
    float64_t[:, ::1] out,
    int n_threads,
):
    """Sums over the rows where column j is known, by class and column.

    Without means: the weights to `total` and the weighted values to `out`. With means: the weighted squares of
    X[i, j] - mean[y, j] to `out`.
    """
    cdef Rows rows
    rows.x = <const char*> &X[0, 0]
    rows.row_stride, rows.column_stride = X.strides[0], X.strides[1]
    rows.y = &y[0]
    rows.weight = NULL
    if weight is not None:
        rows.weight = &weight[0]
    rows.n_rows, rows.n_features = X.shape[0], X.shape[1]
    cdef const float64_t* means = NULL
    if mean is not None:
        means = &mean[0, 0]
    cdef Py_ssize_t n_chunks = (rows.n_features + COLUMNS - 1) // COLUMNS
    cdef Py_ssize_t chunk
    for chunk in prange(n_chunks, nogil=True, schedule="static", num_threads=n_threads, use_threads_if=n_threads > 1):
        _add_chunk(&rows, chunk, <value_t*> NULL, means, &total[0, 0], &out[0, 0])


def add_sparse_sums(
    const float64_t[::1] data,
    const index_t[::1] indices,
    const index_t[::1] indptr,
    const int32_t[::1] y,
    const float64_t[::1] weight,
    float64_t[:, ::1] out,
):
    """Add to out[y, j] the weighted values of the rows of a CSR matrix."""
    cdef Py_ssize_t n_rows = y.shape[0]
    cdef Py_ssize_t i, k
    cdef double w
    with nogil:
        for i in range(n_rows):
            w = 1.0 if weight is None else weight[i]
            for k in range(indptr[i], indptr[i + 1]):
                out[y[i], indices[k]] += w * data[k]


cdef void _add_densities(
    const char* x, Py_ssize_t stride, Py_ssize_t n_features, Py_ssize_t n_classes, value_t* kind,
    const float64_t* table, float64_t* out
) noexcept nogil:
    # table: by column, then means, precisions and constants, each by class
    cdef Py_ssize_t j, c
    cdef double value, distance
    cdef const float64_t* entry
    for j in range(n_features):
        value = (<const value_t*> (x + j * stride))[0]
        entry = table + 3 * j * n_classes
        if value == value:
            for c in range(n_classes):
                distance = value - entry[c]
                out[c] += entry[2 * n_classes + c] - distance * distance * entry[n_classes + c]


def add_gaussian(const value_t[:, :] X, const float64_t[:, :, ::1] table, float64_t[:, ::1] out, int n_threads):
    """Add to out[i, c] table[j, 2, c] - (X[i, j] - table[j, 0, c])**2 table[j, 1, c] of the columns known in row i."""
    cdef const char* x = <const char*> &X[0, 0]
    cdef Py_ssize_t row_stride = X.strides[0]
    cdef Py_ssize_t column_stride = X.strides[1]
    cdef Py_ssize_t i
    for i in prange(X.shape[0], nogil=True, schedule="static", num_threads=n_threads, use_threads_if=n_threads > 1):
        _add_densities(
            x + i * row_stride, column_stride, X.shape[1], out.shape[1], <value_t*> NULL, &table[0, 0, 0], &out[i, 0])
