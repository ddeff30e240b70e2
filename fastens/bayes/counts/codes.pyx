"""Category positions to codes, and sums of table entries that codes choose.

Code 0 is a missing value, position p has code p + 1, anything else the code after the last position's.
"""

from cython.parallel cimport prange

from fastens.bayes.counts.counted cimport any_code_t
from fastens.engine.structs cimport float32_t, float64_t, int64_t, uint8_t

ctypedef fused position_t:
    float32_t
    float64_t
    int64_t

cdef enum:
    BLOCK = 64          # rows read from all columns before the next: those of 20 columns stay in the first-level cache
    SUM_ROWS = 1024

cdef double LARGEST_WHOLE = 9007199254740992.0      # 2**53

cdef enum Faults:
    NEGATIVE = 1
    NOT_WHOLE = 2


cdef inline int64_t _position_of(position_t x, uint8_t* fault) noexcept nogil:
    # -1 for a missing value, -2 for what is no position
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
    const char* x, Py_ssize_t stride, Py_ssize_t n, int64_t limit, any_code_t* out, position_t* kind,
    int64_t* most, uint8_t* fault
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t position
    cdef int64_t largest = most[0]
    for i in range(n):
        position = _position_of((<const position_t*> (x + i * stride))[0], fault)
        largest = max(largest, position)
        out[i] = <any_code_t> (position + 1 if -1 <= position < limit else limit + 1)
    most[0] = largest


cdef struct Part:
    # Rows that one thread encodes.
    const char* x
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    Py_ssize_t n_rows
    Py_ssize_t n_features


cdef void _encode_part(
    Part part, const int64_t* limits, any_code_t* codes, Py_ssize_t codes_stride, position_t* kind, int64_t* largest,
    uint8_t* faults
) noexcept nogil:
    cdef Py_ssize_t block, first, j
    for block in range((part.n_rows + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        for j in range(part.n_features):
            _encode_rows(
                part.x + first * part.row_stride + j * part.column_stride, part.row_stride,
                min(<Py_ssize_t> BLOCK, part.n_rows - first), limits[j], codes + j * codes_stride + first, kind,
                largest + j, faults + j)


cdef inline Part _part_of(Part whole, Py_ssize_t index, Py_ssize_t rows) noexcept nogil:
    cdef Part part = whole
    part.x += index * rows * whole.row_stride
    part.n_rows = max(0, min(rows, whole.n_rows - index * rows))
    return part


def encode_positions(
    const position_t[:, :] X,
    const int64_t[::1] limits,
    any_code_t[:, ::1] codes,
    int64_t[:, ::1] largest,
    uint8_t[:, ::1] faults,
    int n_threads,
):
    """Codes by columns; the largest position, and what is no position, of each part of the rows and column."""
    cdef Part whole
    whole.x = <const char*> &X[0, 0]
    whole.row_stride, whole.column_stride = X.strides[0], X.strides[1]
    whole.n_rows, whole.n_features = X.shape[0], X.shape[1]
    cdef Py_ssize_t n_parts = largest.shape[0]
    cdef Py_ssize_t part_rows = (whole.n_rows + n_parts - 1) // n_parts
    cdef any_code_t* out = &codes[0, 0]
    cdef Py_ssize_t part
    for part in prange(n_parts, nogil=True, schedule="static", num_threads=n_threads, use_threads_if=n_threads > 1):
        _encode_part(
            _part_of(whole, part, part_rows), &limits[0], out + part * part_rows, whole.n_rows, <position_t*> NULL,
            &largest[part, 0], &faults[part, 0])


cdef void _add_column(
    const any_code_t* codes, const float64_t* table, Py_ssize_t n, Py_ssize_t n_classes, float64_t* out
) noexcept nogil:
    cdef Py_ssize_t i, c
    cdef const float64_t* entry
    for i in range(n):
        entry = table + codes[i] * n_classes
        for c in range(n_classes):
            out[i * n_classes + c] += entry[c]


def add_entries(
    const any_code_t[:, ::1] codes,
    const int64_t[::1] offsets,
    const float64_t[:, ::1] table,
    float64_t[:, ::1] out,
    int n_threads,
):
    """Add to out[i] the rows table[offsets[j] + codes[j, i]] of all columns j."""
    cdef Py_ssize_t n_rows = codes.shape[1]
    cdef Py_ssize_t n_classes = out.shape[1]
    cdef Py_ssize_t n_blocks = (n_rows + SUM_ROWS - 1) // SUM_ROWS
    cdef Py_ssize_t block, first, j
    for block in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads, use_threads_if=n_threads > 1):
        first = block * SUM_ROWS
        for j in range(codes.shape[0]):
            _add_column(
                &codes[j, first], &table[offsets[j], 0], min(<Py_ssize_t> SUM_ROWS, n_rows - first), n_classes,
                &out[first, 0])
