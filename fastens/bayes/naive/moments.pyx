"""Sums, means and squared deviations of columns by class, and Gaussian log densities.

A thread owns whole columns and adds its rows in their order: nothing depends on the number of threads.
"""

from libc.stdint cimport int32_t, int64_t

from fastens.engine.structs cimport float32_t, float64_t, value_t
from fastens.engine.team cimport share_pieces, share_until_interrupted

ctypedef fused index_t:
    int32_t
    int64_t

cdef enum:
    COLUMNS = 16        # columns that a thread takes at once: two cache lines of each row
    ROWS = 512          # rows of a block, read once for all those columns
    TOGETHER = 16       # rows of a product
    FEW_CLASSES = 8     # up to here a product with 0 takes less time than a test for it


cdef struct Rows:
    const char* x
    int32_t value_size
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    const int32_t* y
    const float64_t* weight     # NULL: all 1
    Py_ssize_t n_rows
    Py_ssize_t n_features
    const float64_t* mean       # NULL: sums are wanted, not squares
    float64_t* total
    float64_t* out


cdef inline void _add_column(
    const Rows* rows, Py_ssize_t column, Py_ssize_t block, const value_t* kind, const float64_t* mean
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
                rows.total[cell] += w
                rows.out[cell] += w * x
            else:
                rows.out[cell] += w * (x - mean[cell]) * (x - mean[cell])


cdef inline void _add_chunk(const Rows* rows, Py_ssize_t chunk, const value_t* kind) noexcept nogil:
    cdef Py_ssize_t block, j
    for block in range((rows.n_rows + ROWS - 1) // ROWS):
        for j in range(chunk * COLUMNS, min((chunk + 1) * COLUMNS, rows.n_features)):
            if rows.mean == NULL:
                _add_column(rows, j, block, kind, <const float64_t*> NULL)
            else:
                _add_column(rows, j, block, kind, rows.mean)


cdef void _chunk_piece(void* job, Py_ssize_t chunk, int32_t thread) noexcept nogil:
    cdef const Rows* rows = <const Rows*> job
    if rows.value_size == sizeof(float32_t):
        _add_chunk(rows, chunk, <const float32_t*> NULL)
    else:
        _add_chunk(rows, chunk, <const float64_t*> NULL)


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
    rows.x, rows.value_size = <const char*> &X[0, 0], sizeof(value_t)
    rows.row_stride, rows.column_stride = X.strides[0], X.strides[1]
    rows.y = &y[0]
    rows.weight = NULL
    if weight is not None:
        rows.weight = &weight[0]
    rows.n_rows, rows.n_features = X.shape[0], X.shape[1]
    rows.mean = &mean[0, 0] if mean is not None else NULL
    rows.total, rows.out = &total[0, 0], &out[0, 0]
    with nogil:
        share_pieces(_chunk_piece, &rows, (rows.n_features + COLUMNS - 1) // COLUMNS, n_threads)


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


cdef struct Densities:
    const char* x
    int32_t value_size
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    Py_ssize_t n_rows
    Py_ssize_t n_features
    Py_ssize_t n_classes
    const float64_t* table      # by column, then means, precisions and constants, each by class
    float64_t* out


cdef void _add_densities(
    const char* x, Py_ssize_t stride, Py_ssize_t n_features, Py_ssize_t n_classes, const value_t* kind,
    const float64_t* table, float64_t* out
) noexcept nogil:
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


cdef void _density_piece(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    cdef const Densities* d = <const Densities*> job
    cdef const char* x
    cdef float64_t* out
    cdef Py_ssize_t row
    for row in range(block * ROWS, min((block + 1) * ROWS, d.n_rows)):
        x, out = d.x + row * d.row_stride, d.out + row * d.n_classes
        if d.value_size == sizeof(float32_t):
            _add_densities(x, d.column_stride, d.n_features, d.n_classes, <const float32_t*> NULL, d.table, out)
        else:
            _add_densities(x, d.column_stride, d.n_features, d.n_classes, <const float64_t*> NULL, d.table, out)


def add_gaussian(const value_t[:, :] X, const float64_t[:, :, ::1] table, float64_t[:, ::1] out, int n_threads):
    """Add to out[i, c] table[j, 2, c] - (X[i, j] - table[j, 0, c])**2 table[j, 1, c] of the columns known in row i."""
    cdef Densities job = Densities(
        <const char*> &X[0, 0], sizeof(value_t), X.strides[0], X.strides[1], X.shape[0], X.shape[1], out.shape[1],
        &table[0, 0, 0], &out[0, 0])
    with nogil:
        share_until_interrupted(_density_piece, &job, (job.n_rows + ROWS - 1) // ROWS, n_threads)


cdef struct Products:
    const float64_t* x          # row by row
    const float64_t* table
    Py_ssize_t n_rows
    Py_ssize_t n_features
    Py_ssize_t n_classes
    float64_t* out


cdef void _product_piece(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    # A column of a few rows after the other: each of their sums waits for its last addition alone.
    cdef const Products* p = <const Products*> job
    cdef const float64_t* entry
    cdef float64_t* out
    cdef double value
    cdef Py_ssize_t first = block * ROWS, last = min((block + 1) * ROWS, p.n_rows), end, row, j, c
    cdef bint skips_zeros = p.n_classes > FEW_CLASSES
    while first < last:
        end = min(first + TOGETHER, last)
        for j in range(p.n_features):
            entry = p.table + j * p.n_classes
            for row in range(first, end):
                value = p.x[row * p.n_features + j]
                if skips_zeros and value == 0:
                    continue
                out = p.out + row * p.n_classes
                for c in range(p.n_classes):
                    out[c] += value * entry[c]
        first = end


def add_products(const float64_t[:, ::1] X, const float64_t[:, ::1] table, float64_t[:, ::1] out, int n_threads):
    """Add X times the table to `out`, column after column: sums of BLAS depend on the processor."""
    cdef Products job
    if X.shape[0] == 0 or X.shape[1] == 0:
        return
    job = Products(&X[0, 0], &table[0, 0], X.shape[0], X.shape[1], table.shape[1], &out[0, 0])
    with nogil:
        share_pieces(_product_piece, &job, (job.n_rows + ROWS - 1) // ROWS, n_threads)
