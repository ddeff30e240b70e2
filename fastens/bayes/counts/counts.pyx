"""Counts by class of codes, and of two and three codes, one pass over the codes of each column, or set of columns.

Codes are stored column after column. A thread owns whole columns, and adds its rows in their order: nothing depends on
the number of threads, sums of weights included.
"""

from cython.parallel cimport prange

from fastens.bayes.counts.counted cimport any_code_t, count_row, count_t, first_of
from fastens.engine.structs cimport float64_t, int32_t, int64_t

cdef enum:
    PAIR_ROWS = 2048    # a block's keys stay in the first-level cache while all partners of a column go by


cdef struct Shape:
    Py_ssize_t n_features
    Py_ssize_t n_rows
    Py_ssize_t n_cells      # of a class, along the last axis


cdef void _count_column(
    const any_code_t* codes, const int32_t* y, const float64_t* weight, Py_ssize_t n_rows, Py_ssize_t stride,
    count_t* out
) noexcept nogil:
    # out[y * stride + code], where out already points to the column's first cell
    cdef Py_ssize_t i
    for i in range(n_rows):
        count_row(&out[y[i] * stride + codes[i]], weight, i)


def count_columns(
    const any_code_t[:, ::1] codes,
    const int32_t[::1] y,
    const float64_t[::1] weight,
    const int64_t[::1] offsets,
    count_t[:, ::1] out,
    int n_threads,
):
    """Add to out[y, offsets[j] + codes[j, i]] the weight of row i, or 1."""
    cdef Py_ssize_t n_features = codes.shape[0]
    cdef Py_ssize_t n_rows = codes.shape[1]
    cdef Py_ssize_t stride = out.shape[1]
    cdef const float64_t* weights = first_of(weight)
    cdef Py_ssize_t j
    for j in prange(n_features, nogil=True, schedule="static", num_threads=n_threads, use_threads_if=n_threads > 1):
        _count_column(&codes[j, 0], &y[0], weights, n_rows, stride, &out[0, offsets[j]])


cdef void _count_keys(
    const any_code_t* codes, const int64_t* keys, const float64_t* weight, Py_ssize_t n_rows, count_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n_rows):
        count_row(&out[keys[i] + codes[i]], weight, i)


cdef void _count_partners(
    const any_code_t* codes, Py_ssize_t column, const int32_t* y, const float64_t* weight,
    Shape shape, const int64_t* offsets, count_t* out
) noexcept nogil:
    # All pairs of a column with a later one
    cdef int64_t[PAIR_ROWS] keys
    cdef Py_ssize_t n_rows = shape.n_rows, n_cells = shape.n_cells
    cdef const float64_t* weights = weight
    cdef Py_ssize_t block, first, n, i, j
    for block in range((n_rows + PAIR_ROWS - 1) // PAIR_ROWS):
        first = block * PAIR_ROWS
        if weight != NULL:
            weights = weight + first
        n = min(<Py_ssize_t> PAIR_ROWS, n_rows - first)
        for i in range(n):
            keys[i] = (y[first + i] * n_cells + offsets[column] + codes[column * n_rows + first + i]) * n_cells
        for j in range(column + 1, shape.n_features):
            _count_keys(codes + j * n_rows + first, keys, weights, n, out + offsets[j])


def count_pairs(
    const any_code_t[:, ::1] codes,
    const int32_t[::1] y,
    const float64_t[::1] weight,
    const int64_t[::1] offsets,
    count_t[:, :, ::1] out,
    int n_threads,
):
    """Add to out[y, offsets[i] + codes[i], offsets[j] + codes[j]] the weight of each row, or 1, for columns i < j."""
    cdef Shape shape = Shape(codes.shape[0], codes.shape[1], out.shape[1])
    cdef const float64_t* weights = first_of(weight)
    cdef Py_ssize_t i
    for i in prange(
        codes.shape[0], nogil=True, schedule="dynamic", chunksize=1, num_threads=n_threads,
        use_threads_if=n_threads > 1,
    ):
        _count_partners(&codes[0, 0], i, &y[0], weights, shape, &offsets[0], &out[0, 0, 0])


cdef void _count_third(
    const any_code_t* codes, const int64_t* keys, const int32_t* rows, const float64_t* weight, Py_ssize_t n,
    count_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if codes[rows[i]]:
            count_row(&out[keys[i] + codes[rows[i]] - 1], weight, rows[i])


cdef void _count_thirds(
    const any_code_t* codes, const int64_t* pair, const int32_t* y, const float64_t* weight,
    Shape shape, const int64_t* offsets, count_t* out
) noexcept nogil:
    # All triples of a pair of columns with a later one; pair: columns, start
    cdef int64_t[PAIR_ROWS] keys
    cdef int32_t[PAIR_ROWS] rows
    cdef Py_ssize_t n_rows = shape.n_rows, n_cells = shape.n_cells
    cdef const any_code_t* one = codes + pair[0] * n_rows
    cdef const any_code_t* other = codes + pair[1] * n_rows
    cdef int64_t size = offsets[pair[1] + 1] - offsets[pair[1]]
    cdef int64_t width = offsets[shape.n_features] - offsets[pair[1] + 1]
    cdef const float64_t* weights = weight
    cdef Py_ssize_t block, first, n, i, k
    for block in range((n_rows + PAIR_ROWS - 1) // PAIR_ROWS):
        first = block * PAIR_ROWS
        if weight != NULL:
            weights = weight + first
        n = 0
        for i in range(min(<Py_ssize_t> PAIR_ROWS, n_rows - first)):
            keys[n] = y[first + i] * n_cells + pair[2] + ((one[first + i] - 1) * size + other[first + i] - 1) * width
            rows[n] = <int32_t> i
            n += one[first + i] != 0 and other[first + i] != 0
        for k in range(pair[1] + 1, shape.n_features):
            _count_third(
                codes + k * n_rows + first, keys, rows, weights, n, out + (offsets[k] - offsets[pair[1] + 1]))


def count_triples(
    const any_code_t[:, ::1] codes,
    const int32_t[::1] y,
    const float64_t[::1] weight,
    const int64_t[::1] offsets,
    const int64_t[:, ::1] pairs,
    count_t[:, ::1] out,
    int n_threads,
):
    """Add the weight of each row, or 1, to its cell for each pair of columns i < j and each later column k.

    `offsets` are those of the cells of all columns, a cell for each code but 0, which stands for a missing value and is
    not counted. `pairs` holds i, j and where the pair's block begins in out[y]: its rows are the cells of i and j, that
    of j counting fast, its columns the cells of all columns after j.
    """
    cdef Shape shape = Shape(codes.shape[0], codes.shape[1], out.shape[1])
    cdef const float64_t* weights = first_of(weight)
    cdef Py_ssize_t pair
    for pair in prange(
        pairs.shape[0], nogil=True, schedule="dynamic", chunksize=1, num_threads=n_threads,
        use_threads_if=n_threads > 1,
    ):
        _count_thirds(&codes[0, 0], &pairs[pair, 0], &y[0], weights, shape, &offsets[0], &out[0, 0])
