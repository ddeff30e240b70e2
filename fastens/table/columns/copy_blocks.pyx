"""Tables of whole numbers as codes, all columns in one pass over the rows."""

import numpy as np

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from fastens.engine.structs cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from fastens.engine.team cimport share_pieces

ctypedef fused unsigned_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused code_t:
    uint8_t
    uint16_t

cdef enum:
    TILE_BITS = 6
    TILE = 64           # rows, and columns, that are turned round in the first-level cache
    BLOCK = 8192        # rows of all columns whose codes are looked at while they are near


cdef struct Column:
    const char* x
    Py_ssize_t stride


cdef struct Part:
    # Rows that one thread codes.
    const Column* columns
    bint by_rows                # the numbers of a row are neighbours
    Py_ssize_t first
    Py_ssize_t n_rows
    Py_ssize_t n_columns
    Py_ssize_t n_codes          # of a column: all rows
    Py_ssize_t n_places         # that a code may have


cdef inline uint64_t _take_column(
    const char* x, Py_ssize_t stride, unsigned_t low, Py_ssize_t n, code_t* out
) noexcept nogil:
    # The bits of all places, of which as many are written as fit.
    cdef Py_ssize_t i
    cdef unsigned_t place, bits = 0
    if stride == sizeof(unsigned_t):
        for i in range(n):
            place = (<const unsigned_t*> x)[i] - low
            bits |= place
            out[i] = <code_t> (place + 1)
    else:
        for i in range(n):
            place = (<const unsigned_t*> (x + i * stride))[0] - low
            bits |= place
            out[i] = <code_t> (place + 1)
    return bits


cdef inline uint64_t _take_row(const unsigned_t* x, const unsigned_t* lows, Py_ssize_t n, code_t* out) noexcept nogil:
    cdef Py_ssize_t i
    cdef unsigned_t place, bits = 0
    for i in range(n):
        place = x[i] - lows[i]
        bits |= place
        out[i] = <code_t> (place + 1)
    return bits


cdef inline void _shuffle(const code_t* codes, Py_ssize_t n_half, code_t* out) noexcept nogil:
    # The codes of the first half and of the second in turn: the compiler has instructions for that.
    cdef Py_ssize_t i
    for i in range(n_half):
        out[2 * i] = codes[i]
        out[2 * i + 1] = codes[n_half + i]


cdef uint64_t _take_tile(
    const char* x, Py_ssize_t stride, const unsigned_t* lows, Py_ssize_t n, Py_ssize_t n_columns, code_t* out,
    Py_ssize_t out_stride
) noexcept nogil:
    # Rows are read as they lie in memory, and written as columns. Shuffled as often as n has bits they are columns.
    cdef code_t[TILE * TILE] tile
    cdef code_t[TILE * TILE] other
    cdef uint64_t bits = 0
    cdef Py_ssize_t i, j, _i
    for i in range(n):
        bits |= _take_row(<const unsigned_t*> (x + i * stride), lows, n_columns, tile + i * n_columns)
    if n == TILE:
        for _i in range(TILE_BITS // 2):
            _shuffle(tile, TILE // 2 * n_columns, other)
            _shuffle(other, TILE // 2 * n_columns, tile)
        for j in range(n_columns):
            memcpy(out + j * out_stride, tile + j * TILE, TILE * sizeof(code_t))
    else:
        for j in range(n_columns):
            for i in range(n):
                out[j * out_stride + i] = tile[i * n_columns + j]
    return bits


cdef inline uint64_t _take_tiles(Part part, const unsigned_t* lows, code_t* codes) noexcept nogil:
    cdef Py_ssize_t stride = part.columns[0].stride
    cdef uint64_t bits = 0
    cdef Py_ssize_t across, down
    for down in range((part.n_rows + TILE - 1) // TILE):
        for across in range((part.n_columns + TILE - 1) // TILE):
            bits |= _take_tile(
                part.columns[across * TILE].x + (part.first + down * TILE) * stride, stride, lows + across * TILE,
                min(<Py_ssize_t> TILE, part.n_rows - down * TILE),
                min(<Py_ssize_t> TILE, part.n_columns - across * TILE),
                codes + across * TILE * part.n_codes + part.first + down * TILE, part.n_codes)
    return bits


cdef inline uint64_t _take_block(Part part, const unsigned_t* lows, code_t* codes) noexcept nogil:
    cdef uint64_t bits = 0
    cdef Py_ssize_t j
    cdef Column column
    if part.by_rows:
        return _take_tiles(part, lows, codes)
    for j in range(part.n_columns):
        column = part.columns[j]
        bits |= _take_column(
            column.x + part.first * column.stride, column.stride, lows[j], part.n_rows,
            codes + j * part.n_codes + part.first)
    return bits


cdef inline code_t _largest_place(const code_t* codes, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef code_t largest = 0
    for i in range(n):
        largest = max(largest, <code_t> (codes[i] - 1))
    return largest


cdef inline void _mark(const code_t* codes, Py_ssize_t n, uint8_t* present, int64_t* n_first) noexcept nogil:
    # n_first: places from 0 on, all of which have come; where no others do, there is nothing to mark.
    cdef Py_ssize_t i
    if _largest_place(codes, n) < n_first[0]:
        return
    for i in range(n):
        present[<code_t> (codes[i] - 1)] = 1
    while present[n_first[0]]:      # the last entry is 0
        n_first[0] += 1


cdef inline Part _rows_of(Part whole, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    cdef Part part = whole
    part.first += first
    part.n_rows = max(0, min(n, whole.n_rows - first))
    return part


cdef uint64_t _code_part(
    Part part, const unsigned_t* lows, code_t* codes, uint8_t* present, int64_t* n_first
) noexcept nogil:
    # The bits of all places; it ends early where there are too many.
    cdef uint64_t bits = 0
    cdef Py_ssize_t block, j
    cdef Part rows
    for block in range((part.n_rows + BLOCK - 1) // BLOCK):
        rows = _rows_of(part, block * BLOCK, BLOCK)
        bits |= _take_block(rows, lows, codes)
        if bits >= <uint64_t> part.n_places:
            break
        for j in range(part.n_columns):
            _mark(
                codes + j * part.n_codes + rows.first, rows.n_rows, present + j * (part.n_places + 1), n_first + j)
    return bits


cdef struct Coding:
    Part whole
    Py_ssize_t part_rows
    const void* lows
    int32_t value_size
    void* codes
    int32_t code_size
    uint8_t* present            # by part, like the next two
    int64_t* n_first
    uint64_t* bits


cdef inline void _code_to(const Coding* c, Py_ssize_t index, const unsigned_t* lows, code_t* codes) noexcept nogil:
    cdef Py_ssize_t n_columns = c.whole.n_columns
    c.bits[index] = _code_part(
        _rows_of(c.whole, index * c.part_rows, c.part_rows), lows, codes,
        c.present + index * n_columns * (c.whole.n_places + 1), c.n_first + index * n_columns)


cdef inline void _code_from(const Coding* c, Py_ssize_t index, const unsigned_t* lows) noexcept nogil:
    if c.code_size == sizeof(uint8_t):
        _code_to(c, index, lows, <uint8_t*> c.codes)
    else:
        _code_to(c, index, lows, <uint16_t*> c.codes)


cdef void _code_piece(void* job, Py_ssize_t index, int32_t thread) noexcept nogil:
    cdef const Coding* c = <const Coding*> job
    if c.value_size == sizeof(uint8_t):
        _code_from(c, index, <const uint8_t*> c.lows)
    elif c.value_size == sizeof(uint16_t):
        _code_from(c, index, <const uint16_t*> c.lows)
    elif c.value_size == sizeof(uint32_t):
        _code_from(c, index, <const uint32_t*> c.lows)
    else:
        _code_from(c, index, <const uint64_t*> c.lows)


cdef bint _code(
    const Column* columns, bint by_rows, const unsigned_t[::1] lows, code_t[:, ::1] codes, uint8_t[:, :, ::1] present,
    int64_t[:, ::1] n_first, int n_threads
):
    cdef Coding job
    cdef Py_ssize_t n_parts = present.shape[0], part
    cdef uint64_t[::1] bits = np.zeros(n_parts, np.uint64)
    cdef uint64_t all_bits = 0
    job.whole = Part(columns, by_rows, 0, codes.shape[1], codes.shape[0], codes.shape[1], present.shape[2] - 1)
    job.part_rows = (job.whole.n_rows + n_parts - 1) // n_parts
    job.lows, job.value_size, job.codes, job.code_size = &lows[0], sizeof(unsigned_t), &codes[0, 0], sizeof(code_t)
    job.present, job.n_first, job.bits = &present[0, 0, 0], &n_first[0, 0], &bits[0]
    with nogil:
        share_pieces(_code_piece, &job, n_parts, n_threads)
    for part in range(n_parts):
        all_bits |= bits[part]
    return all_bits < <uint64_t> job.whole.n_places


cdef Column* _new_columns(Py_ssize_t n) except NULL:
    cdef Column* columns = <Column*> malloc(n * sizeof(Column))
    if columns == NULL:
        raise MemoryError
    return columns


def code_block(
    const unsigned_t[:, :] X,
    const unsigned_t[::1] lows,
    code_t[:, ::1] codes,
    uint8_t[:, :, ::1] present,
    int64_t[:, ::1] n_first,
    int n_threads,
):
    """Write each number's place, how far it is from its column's `low`, plus 1, column after column.

    Differences wrap round as those of unsigned numbers do. The places that come are marked in `present`, in parts for
    parts of the rows; it has an entry for each place that a code may have, and one more, and is all zeros, as is
    `n_first`. False, and nothing of use written, where there are other places.
    """
    cdef Py_ssize_t j
    cdef bint by_rows = X.strides[1] == <Py_ssize_t> sizeof(unsigned_t) < X.strides[0]
    cdef Column* columns = _new_columns(X.shape[1])
    try:
        for j in range(X.shape[1]):
            columns[j] = Column(<const char*> &X[0, j], X.strides[0])
        return _code(columns, by_rows, lows, codes, present, n_first, n_threads)
    finally:
        free(columns)


def code_columns(
    list X,
    const unsigned_t[::1] lows,
    code_t[:, ::1] codes,
    uint8_t[:, :, ::1] present,
    int64_t[:, ::1] n_first,
    int n_threads,
):
    """The same for columns as vectors of the type of `lows`."""
    cdef Py_ssize_t j
    cdef const unsigned_t[:] column
    cdef Column* columns = _new_columns(len(X))
    try:
        for j in range(codes.shape[0]):
            column = X[j]
            columns[j] = Column(<const char*> &column[0], column.strides[0])
        return _code(columns, False, lows, codes, present, n_first, n_threads)
    finally:
        free(columns)
