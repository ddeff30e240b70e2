"""Counts by class of codes, and of two and three codes, one pass over the codes of each column, or set of columns.

Codes are stored column after column. A thread owns whole columns, and adds its rows in their order: nothing depends on
the number of threads, sums of weights included.
"""

from fastens.bayes.counts.counted cimport any_code_t, count_row, count_t, first_of
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from fastens.engine.team cimport share_until_interrupted

cdef enum:
    PAIR_ROWS = 2048    # a block's keys stay in the first-level cache while all partners of a column go by


cdef struct Counting:
    int32_t order               # how many columns a cell is of
    const void* codes
    int32_t code_size
    const int32_t* y
    const float64_t* weight     # NULL: 1 each, and the counts are whole numbers
    const int64_t* offsets
    const int64_t* pairs        # of triples
    Py_ssize_t n_features
    Py_ssize_t n_rows
    Py_ssize_t n_cells          # of a class, along the last axis
    void* out


cdef void _count_column(const Counting* c, Py_ssize_t j, const any_code_t* codes, count_t* out) noexcept nogil:
    cdef Py_ssize_t i, stride = c.n_cells
    cdef const int32_t* y = c.y
    cdef const float64_t* weight = c.weight
    codes += j * c.n_rows
    out += c.offsets[j]
    for i in range(c.n_rows):
        count_row(&out[y[i] * stride + codes[i]], weight, i)


cdef void _count_keys(
    const any_code_t* codes, const int64_t* keys, const float64_t* weight, Py_ssize_t n_rows, count_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n_rows):
        count_row(&out[keys[i] + codes[i]], weight, i)


cdef void _count_partners(
    const Counting* c, Py_ssize_t column, const any_code_t* codes, count_t* out
) noexcept nogil:
    # All pairs of a column with a later one
    cdef int64_t[PAIR_ROWS] keys
    cdef Py_ssize_t n_rows = c.n_rows, n_cells = c.n_cells
    cdef const int32_t* y = c.y
    cdef const int64_t* offsets = c.offsets
    cdef const float64_t* weights = c.weight
    cdef Py_ssize_t block, first, n, i, j
    for block in range((n_rows + PAIR_ROWS - 1) // PAIR_ROWS):
        first = block * PAIR_ROWS
        if weights != NULL:
            weights = c.weight + first
        n = min(<Py_ssize_t> PAIR_ROWS, n_rows - first)
        for i in range(n):
            keys[i] = (y[first + i] * n_cells + offsets[column] + codes[column * n_rows + first + i]) * n_cells
        for j in range(column + 1, c.n_features):
            _count_keys(codes + j * n_rows + first, keys, weights, n, out + offsets[j])


cdef void _count_third(
    const any_code_t* codes, const int64_t* keys, const int32_t* rows, const float64_t* weight, Py_ssize_t n,
    count_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if codes[rows[i]]:
            count_row(&out[keys[i] + codes[rows[i]] - 1], weight, rows[i])


cdef void _count_thirds(const Counting* c, Py_ssize_t index, const any_code_t* codes, count_t* out) noexcept nogil:
    # All triples of a pair of columns with a later one; pair: columns, start
    cdef int64_t[PAIR_ROWS] keys
    cdef int32_t[PAIR_ROWS] rows
    cdef Py_ssize_t n_rows = c.n_rows, n_cells = c.n_cells
    cdef const int32_t* y = c.y
    cdef const int64_t* pair = c.pairs + 3 * index
    cdef const int64_t* offsets = c.offsets
    cdef const any_code_t* one = codes + pair[0] * n_rows
    cdef const any_code_t* other = codes + pair[1] * n_rows
    cdef int64_t size = offsets[pair[1] + 1] - offsets[pair[1]]
    cdef int64_t width = offsets[c.n_features] - offsets[pair[1] + 1]
    cdef const float64_t* weights = c.weight
    cdef Py_ssize_t block, first, n, i, k
    for block in range((n_rows + PAIR_ROWS - 1) // PAIR_ROWS):
        first = block * PAIR_ROWS
        if weights != NULL:
            weights = c.weight + first
        n = 0
        for i in range(min(<Py_ssize_t> PAIR_ROWS, n_rows - first)):
            keys[n] = y[first + i] * n_cells + pair[2] + ((one[first + i] - 1) * size + other[first + i] - 1) * width
            rows[n] = <int32_t> i
            n += one[first + i] != 0 and other[first + i] != 0
        for k in range(pair[1] + 1, c.n_features):
            _count_third(
                codes + k * n_rows + first, keys, rows, weights, n, out + (offsets[k] - offsets[pair[1] + 1]))


cdef inline void _count(const Counting* c, Py_ssize_t i, const any_code_t* codes, count_t* out) noexcept nogil:
    if c.order == 1:
        _count_column(c, i, codes, out)
    elif c.order == 2:
        _count_partners(c, i, codes, out)
    else:
        _count_thirds(c, i, codes, out)


cdef inline void _count_codes_of(const Counting* c, Py_ssize_t i, const any_code_t* codes) noexcept nogil:
    if c.weight == NULL:
        _count(c, i, codes, <int64_t*> c.out)
    else:
        _count(c, i, codes, <float64_t*> c.out)


cdef void _count_piece(void* job, Py_ssize_t i, int32_t thread) noexcept nogil:
    cdef const Counting* c = <const Counting*> job
    if c.code_size == sizeof(uint8_t):
        _count_codes_of(c, i, <const uint8_t*> c.codes)
    elif c.code_size == sizeof(uint16_t):
        _count_codes_of(c, i, <const uint16_t*> c.codes)
    else:
        _count_codes_of(c, i, <const uint32_t*> c.codes)


def count_columns(
    const any_code_t[:, ::1] codes,
    const int32_t[::1] y,
    const float64_t[::1] weight,
    const int64_t[::1] offsets,
    count_t[:, ::1] out,
    int n_threads,
):
    """Add to out[y, offsets[j] + codes[j, i]] the weight of row i, or 1."""
    cdef Counting job = Counting(
        1, &codes[0, 0], sizeof(any_code_t), &y[0], first_of(weight), &offsets[0], NULL, codes.shape[0], codes.shape[1],
        out.shape[1], &out[0, 0])
    with nogil:
        share_until_interrupted(_count_piece, &job, job.n_features, n_threads)


def count_pairs(
    const any_code_t[:, ::1] codes,
    const int32_t[::1] y,
    const float64_t[::1] weight,
    const int64_t[::1] offsets,
    count_t[:, :, ::1] out,
    int n_threads,
):
    """Add to out[y, offsets[i] + codes[i], offsets[j] + codes[j]] the weight of each row, or 1, for columns i < j."""
    cdef Counting job = Counting(
        2, &codes[0, 0], sizeof(any_code_t), &y[0], first_of(weight), &offsets[0], NULL, codes.shape[0], codes.shape[1],
        out.shape[1], &out[0, 0, 0])
    with nogil:
        share_until_interrupted(_count_piece, &job, job.n_features, n_threads)


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
    cdef Counting job = Counting(
        3, &codes[0, 0], sizeof(any_code_t), &y[0], first_of(weight), &offsets[0], &pairs[0, 0], codes.shape[0],
        codes.shape[1], out.shape[1], &out[0, 0])
    with nogil:
        share_until_interrupted(_count_piece, &job, pairs.shape[0], n_threads)
