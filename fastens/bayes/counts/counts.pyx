"""Counts of codes, pairs and triples by class, and codes of positions."""

from fastens.bayes.counts.counted cimport any_code_t, count_row, count_t, weight_pointer
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint8_t
from fastens.engine.thread_pool cimport dynamic_parallel_for, parallel_for_until_interrupted


cdef enum:
    PAIR_ROWS = 2048    # the keys of a block stay in the L1 cache while all partners of a column are read


cdef struct Counting:
    int32_t order               # number of columns of a cell
    const void* codes
    int32_t code_size
    const int32_t* y
    const float64_t* weight     # NULL if all weights are 1; then counts are integers
    const int64_t* offsets
    const int64_t* pairs        # pairs of columns, for triples
    Py_ssize_t n_features
    Py_ssize_t n_rows
    Py_ssize_t n_cells          # cells of a class, along the last axis
    void* out


cdef void _count_column(const Counting* c, Py_ssize_t j, const any_code_t* codes, count_t* out) noexcept nogil:
    """Add the weight of each row, or 1, to the counts of column j by class and code, in `out` as in `count_cells`."""
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
    """Add the weight of each row i, or 1, to out[keys[i] + codes[i]]."""
    cdef Py_ssize_t i
    for i in range(n_rows):
        count_row(&out[keys[i] + codes[i]], weight, i)


cdef void _count_column_partners(
    const Counting* c, Py_ssize_t column, const any_code_t* codes, count_t* out
) noexcept nogil:
    """Add the weight of each row, or 1, to the counts of all pairs of `column` and a later column."""
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


cdef void _count_keyed_pairs(
    const any_code_t* codes, const int64_t* keys, const int32_t* rows, const float64_t* weight, Py_ssize_t n,
    count_t* out
) noexcept nogil:
    """Add the weight of each row rows[i], or 1, to out[keys[i] + code - 1], unless the code is 0 (missing)."""
    cdef Py_ssize_t i
    for i in range(n):
        if codes[rows[i]]:
            count_row(&out[keys[i] + codes[rows[i]] - 1], weight, rows[i])


cdef void _count_pair_partners(
    const Counting* c, Py_ssize_t index, const any_code_t* codes, count_t* out
) noexcept nogil:
    """Add the weight of each row, or 1, to the counts of all triples of pair `index` and a later column."""
    # `pair` holds both columns and the start of their block.
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
            _count_keyed_pairs(
                codes + k * n_rows + first, keys, rows, weights, n, out + (offsets[k] - offsets[pair[1] + 1]))


cdef inline void _count_item(const Counting* c, Py_ssize_t i, const any_code_t* codes, count_t* out) noexcept nogil:
    """Count column i (order 1), its pairs with later columns (order 2), or the triples of pair i (order 3)."""
    if c.order == 1:
        _count_column(c, i, codes, out)
    elif c.order == 2:
        _count_column_partners(c, i, codes, out)
    else:
        _count_pair_partners(c, i, codes, out)


cdef inline void _count_codes(const Counting* c, Py_ssize_t i, const any_code_t* codes) noexcept nogil:
    """Count item i of the job (see `_count_item`), in integers or, with weights, in floats."""
    if c.weight == NULL:
        _count_item(c, i, codes, <int64_t*> c.out)
    else:
        _count_item(c, i, codes, <float64_t*> c.out)


cdef void _count_task(void* job, Py_ssize_t i, int32_t thread) noexcept nogil:
    """Count item i of the job, a `Counting` (see `_count_item`), for codes of 1, 2 or 4 bytes."""
    cdef const Counting* c = <const Counting*> job
    if c.code_size == sizeof(uint8_t):
        _count_codes(c, i, <const uint8_t*> c.codes)
    elif c.code_size == sizeof(uint16_t):
        _count_codes(c, i, <const uint16_t*> c.codes)
    else:
        _count_codes(c, i, <const uint32_t*> c.codes)


def count_cells(
    const any_code_t[:, ::1] codes,
    const int32_t[::1] y,
    const float64_t[::1] weight,
    const int64_t[::1] offsets,
    const int64_t[:, ::1] pairs,
    count_t[:, ::1] out,
    int order,
    int n_threads,
):
    """Add the weight of each row, or 1, to its cell for each column, pair or triple of columns (`order` 1, 2 or 3).

    `offsets` holds the offsets of the cells of all columns. For columns, the cell of row i is out[y, offsets[j] +
    codes[j, i]]. For columns i < j, out[y] is flat: it has rows of cells of i, whose columns are the cells of j. For
    triples, each code except 0 has a cell; 0 is a missing value and is not counted. `pairs` holds columns i < j and the
    start of their block in out[y]. The rows of a block are pairs of cells of i and j, where j varies fastest, and its
    columns are the cells of all columns after j.
    """
    cdef Counting job
    cdef Py_ssize_t n_features = codes.shape[0]
    job.order, job.codes, job.code_size = order, &codes[0, 0], sizeof(any_code_t)
    job.y, job.weight = &y[0], weight_pointer(weight)
    job.offsets, job.pairs, job.out = &offsets[0], &pairs[0, 0] if order == 3 else NULL, &out[0, 0]
    job.n_features, job.n_rows = n_features, codes.shape[1]
    job.n_cells = out.shape[1] if order == 3 else offsets[n_features]
    with nogil:
        parallel_for_until_interrupted(_count_task, &job, pairs.shape[0] if order == 3 else n_features, n_threads)


ctypedef fused position_t:
    float32_t
    float64_t
    int64_t

cdef enum:
    BLOCK = 64          # rows read from all columns at a time: the cache lines of 20 columns stay in the L1 cache

cdef double LARGEST_WHOLE = 9007199254740992.0      # 2**53

cdef enum Kinds:
    SINGLE
    DOUBLE
    WHOLE

cdef enum Faults:
    NEGATIVE = 1
    NOT_WHOLE = 2


cdef inline int64_t _check_position(position_t x, uint8_t* fault) noexcept nogil:
    """Return a position as an integer, or -1 for NaN.

    Negative numbers and fractions return -2 and set their flag, `NEGATIVE` or `NOT_WHOLE`, in `fault`.
    """
    if position_t is int64_t:
        if x >= 0:
            return x
        fault[0] |= NEGATIVE
        return -2
    else:
        if x != x:
            return -1
        if x < 0:
            fault[0] |= NEGATIVE
            return -2
        if x < LARGEST_WHOLE and <position_t> <int64_t> x == x:
            return <int64_t> x
        fault[0] |= NOT_WHOLE
        return -2


cdef void _encode_rows(
    const char* x, Py_ssize_t stride, Py_ssize_t n, int64_t limit, any_code_t* out, const position_t* value_type,
    int64_t* max_position, uint8_t* fault
) noexcept nogil:
    """Write to `out` the codes of n values of a column, which are `stride` bytes apart.

    Missing values become 0, positions p below `limit` become p + 1, and all other values `limit` + 1. `max_position` is
    raised to the largest position, and flags are added to `fault`. `value_type` only selects the type of the values.
    """
    cdef Py_ssize_t i
    cdef int64_t position
    cdef int64_t largest = max_position[0]
    for i in range(n):
        position = _check_position((<const position_t*> (x + i * stride))[0], fault)
        largest = max(largest, position)
        out[i] = <any_code_t> (position + 1 if -1 <= position < limit else limit + 1)
    max_position[0] = largest


cdef struct Encoding:
    const char* x
    int32_t value_type                # type of the positions
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    Py_ssize_t n_rows
    Py_ssize_t n_features
    Py_ssize_t part_rows        # rows of a part, which one thread encodes
    const int64_t* limits
    void* codes
    int32_t code_size
    int64_t* largest            # largest position by part and column, like `faults`
    uint8_t* faults


cdef void _encode_part(
    const Encoding* e, Py_ssize_t part, any_code_t* codes, const position_t* value_type
) noexcept nogil:
    """Encode all columns of a part of the rows; the pointer `value_type` only selects the type of the values."""
    cdef Py_ssize_t first = part * e.part_rows, end = min(e.n_rows, first + e.part_rows), j
    while first < end:
        for j in range(e.n_features):
            _encode_rows(
                e.x + first * e.row_stride + j * e.column_stride, e.row_stride, min(<Py_ssize_t> BLOCK, end - first),
                e.limits[j], codes + j * e.n_rows + first, value_type, e.largest + part * e.n_features + j,
                e.faults + part * e.n_features + j)
        first += BLOCK


cdef inline void _encode_values(const Encoding* e, Py_ssize_t part, any_code_t* codes) noexcept nogil:
    """Encode all columns of a part of the rows, for values of each type."""
    if e.value_type == SINGLE:
        _encode_part(e, part, codes, <const float32_t*> NULL)
    elif e.value_type == DOUBLE:
        _encode_part(e, part, codes, <const float64_t*> NULL)
    else:
        _encode_part(e, part, codes, <const int64_t*> NULL)


cdef void _encode_task(void* job, Py_ssize_t part, int32_t thread) noexcept nogil:
    """Encode all columns of a part of the rows; `job` is an `Encoding`."""
    cdef const Encoding* e = <const Encoding*> job
    if e.code_size == sizeof(uint8_t):
        _encode_values(e, part, <uint8_t*> e.codes)
    elif e.code_size == sizeof(uint16_t):
        _encode_values(e, part, <uint16_t*> e.codes)
    else:
        _encode_values(e, part, <uint32_t*> e.codes)


def encode_positions(
    const position_t[:, :] X,
    const int64_t[::1] limits,
    any_code_t[:, ::1] codes,
    int64_t[:, ::1] largest,
    uint8_t[:, ::1] faults,
    int n_threads,
):
    """Write the codes of `_encode_rows` for each column of category positions, with a part of the rows per thread.

    Positions of column j that are at least limits[j] have the code limits[j] + 1. `largest`, the largest position, and
    `faults`, flags of negative values and fractions, are updated by part and column, (n_parts, n_features).
    """
    cdef Encoding job
    cdef Py_ssize_t n_parts = largest.shape[0]
    job.x, job.row_stride, job.column_stride = <const char*> &X[0, 0], X.strides[0], X.strides[1]
    job.value_type = SINGLE if position_t is float32_t else DOUBLE if position_t is float64_t else WHOLE
    job.n_rows, job.n_features = X.shape[0], X.shape[1]
    job.part_rows = (job.n_rows + n_parts - 1) // n_parts
    job.limits, job.codes, job.code_size = &limits[0], &codes[0, 0], sizeof(any_code_t)
    job.largest, job.faults = &largest[0, 0], &faults[0, 0]
    with nogil:
        dynamic_parallel_for(_encode_task, &job, n_parts, n_threads)
