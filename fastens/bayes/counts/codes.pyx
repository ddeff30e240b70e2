"""Category positions to codes, and sums of table entries that codes choose.

Code 0 is a missing value, position p has code p + 1, anything else the code after the last position's.
"""

from fastens.bayes.counts.counted cimport any_code_t
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from fastens.engine.team cimport share_pieces

ctypedef fused position_t:
    float32_t
    float64_t
    int64_t

cdef enum:
    BLOCK = 64          # rows read from all columns before the next: those of 20 columns stay in the first-level cache
    SUM_ROWS = 1024

cdef double LARGEST_WHOLE = 9007199254740992.0      # 2**53

cdef enum Kinds:
    SINGLE
    DOUBLE
    WHOLE

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
    const char* x, Py_ssize_t stride, Py_ssize_t n, int64_t limit, any_code_t* out, const position_t* kind,
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


cdef struct Encoding:
    const char* x
    int32_t kind                # of the positions
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    Py_ssize_t n_rows
    Py_ssize_t n_features
    Py_ssize_t part_rows        # that one thread encodes
    const int64_t* limits
    void* codes
    int32_t code_size
    int64_t* largest            # by part and column, like the faults
    uint8_t* faults


cdef void _encode_part(
    const Encoding* e, Py_ssize_t part, any_code_t* codes, const position_t* kind
) noexcept nogil:
    cdef Py_ssize_t first = part * e.part_rows, end = min(e.n_rows, first + e.part_rows), j
    while first < end:
        for j in range(e.n_features):
            _encode_rows(
                e.x + first * e.row_stride + j * e.column_stride, e.row_stride, min(<Py_ssize_t> BLOCK, end - first),
                e.limits[j], codes + j * e.n_rows + first, kind, e.largest + part * e.n_features + j,
                e.faults + part * e.n_features + j)
        first += BLOCK


cdef inline void _encode_to(const Encoding* e, Py_ssize_t part, any_code_t* codes) noexcept nogil:
    if e.kind == SINGLE:
        _encode_part(e, part, codes, <const float32_t*> NULL)
    elif e.kind == DOUBLE:
        _encode_part(e, part, codes, <const float64_t*> NULL)
    else:
        _encode_part(e, part, codes, <const int64_t*> NULL)


cdef void _encode_piece(void* job, Py_ssize_t part, int32_t thread) noexcept nogil:
    cdef const Encoding* e = <const Encoding*> job
    if e.code_size == sizeof(uint8_t):
        _encode_to(e, part, <uint8_t*> e.codes)
    elif e.code_size == sizeof(uint16_t):
        _encode_to(e, part, <uint16_t*> e.codes)
    else:
        _encode_to(e, part, <uint32_t*> e.codes)


def encode_positions(
    const position_t[:, :] X,
    const int64_t[::1] limits,
    any_code_t[:, ::1] codes,
    int64_t[:, ::1] largest,
    uint8_t[:, ::1] faults,
    int n_threads,
):
    """Codes by columns; the largest position, and what is no position, of each part of the rows and column."""
    cdef Encoding job
    cdef Py_ssize_t n_parts = largest.shape[0]
    job.x, job.row_stride, job.column_stride = <const char*> &X[0, 0], X.strides[0], X.strides[1]
    job.kind = SINGLE if position_t is float32_t else DOUBLE if position_t is float64_t else WHOLE
    job.n_rows, job.n_features = X.shape[0], X.shape[1]
    job.part_rows = (job.n_rows + n_parts - 1) // n_parts
    job.limits, job.codes, job.code_size = &limits[0], &codes[0, 0], sizeof(any_code_t)
    job.largest, job.faults = &largest[0, 0], &faults[0, 0]
    with nogil:
        share_pieces(_encode_piece, &job, n_parts, n_threads)


cdef struct Entries:
    const void* codes
    int32_t code_size
    Py_ssize_t n_rows
    Py_ssize_t n_features
    Py_ssize_t n_classes
    const int64_t* offsets
    const float64_t* table
    float64_t* out


cdef void _add_column(
    const any_code_t* codes, const float64_t* table, Py_ssize_t n, Py_ssize_t n_classes, float64_t* out
) noexcept nogil:
    cdef Py_ssize_t i, c
    cdef const float64_t* entry
    for i in range(n):
        entry = table + codes[i] * n_classes
        for c in range(n_classes):
            out[i * n_classes + c] += entry[c]


cdef inline void _add_rows(const Entries* entries, Py_ssize_t first, const any_code_t* codes) noexcept nogil:
    cdef Py_ssize_t j, n_classes = entries.n_classes
    for j in range(entries.n_features):
        _add_column(
            codes + j * entries.n_rows + first, entries.table + entries.offsets[j] * n_classes,
            min(<Py_ssize_t> SUM_ROWS, entries.n_rows - first), n_classes, entries.out + first * n_classes)


cdef void _add_piece(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    cdef const Entries* entries = <const Entries*> job
    if entries.code_size == sizeof(uint8_t):
        _add_rows(entries, block * SUM_ROWS, <const uint8_t*> entries.codes)
    elif entries.code_size == sizeof(uint16_t):
        _add_rows(entries, block * SUM_ROWS, <const uint16_t*> entries.codes)
    else:
        _add_rows(entries, block * SUM_ROWS, <const uint32_t*> entries.codes)


def add_entries(
    const any_code_t[:, ::1] codes,
    const int64_t[::1] offsets,
    const float64_t[:, ::1] table,
    float64_t[:, ::1] out,
    int n_threads,
):
    """Add to out[i] the rows table[offsets[j] + codes[j, i]] of all columns j."""
    cdef Entries job = Entries(
        &codes[0, 0], sizeof(any_code_t), codes.shape[1], codes.shape[0], out.shape[1], &offsets[0], &table[0, 0],
        &out[0, 0])
    with nogil:
        share_pieces(_add_piece, &job, (job.n_rows + SUM_ROWS - 1) // SUM_ROWS, n_threads)
