"""Copies of tables as codes, and of numbers as offsets from the minimum of their range."""

import numpy as np
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from fastens.engine.thread_pool cimport dynamic_parallel_for
from fastens.table.columns.whole cimport whole_t


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
    TILE = 64           # rows and columns of a tile that is transposed in the L1 cache
    BLOCK = 8192        # rows, of all columns, whose codes are checked while they are in the cache


cdef struct Column:
    const char* x
    Py_ssize_t stride


cdef struct Part:
    # Parameters of the rows that one thread codes.
    const Column* columns
    bint by_rows                # the values of a row are adjacent in memory
    Py_ssize_t first
    Py_ssize_t n_rows
    Py_ssize_t n_columns
    Py_ssize_t n_codes          # codes per column, one for each row
    Py_ssize_t n_places         # number of values that a code may have


cdef inline uint64_t _encode_column(
    const char* values, Py_ssize_t stride, unsigned_t low, Py_ssize_t n, code_t* codes
) noexcept nogil:
    """Write value - low + 1 of `n` values that are `stride` bytes apart, truncated to the code type, to `codes`.

    Returns the bitwise OR of all value - low at full width, so that the caller can detect overflow.
    """
    cdef Py_ssize_t i
    cdef unsigned_t offset, bits = 0
    if stride == sizeof(unsigned_t):
        for i in range(n):
            offset = (<const unsigned_t*> values)[i] - low
            bits |= offset
            codes[i] = <code_t> (offset + 1)
    else:
        for i in range(n):
            offset = (<const unsigned_t*> (values + i * stride))[0] - low
            bits |= offset
            codes[i] = <code_t> (offset + 1)
    return bits


cdef inline uint64_t _encode_row(
    const unsigned_t* values, const unsigned_t* lows, Py_ssize_t n, code_t* codes
) noexcept nogil:
    """Write value - low + 1 for the value of each column in a row; return the bitwise OR of all value - low."""
    cdef Py_ssize_t i
    cdef unsigned_t offset, bits = 0
    for i in range(n):
        offset = values[i] - lows[i]
        bits |= offset
        codes[i] = <code_t> (offset + 1)
    return bits


cdef inline void _interleave_halves(const code_t* codes, Py_ssize_t n_half, code_t* out) noexcept nogil:
    """Write the codes of the first and the second half alternately to `out`, which compilers turn into vector code."""
    cdef Py_ssize_t i
    for i in range(n_half):
        out[2 * i] = codes[i]
        out[2 * i + 1] = codes[n_half + i]


cdef uint64_t _encode_tile(
    const char* values, Py_ssize_t stride, const unsigned_t* lows, Py_ssize_t n, Py_ssize_t n_columns, code_t* codes,
    Py_ssize_t codes_stride
) noexcept nogil:
    """Write the codes of a tile of `n` rows, `stride` bytes apart, and `n_columns` columns to `codes` by column.

    The codes of a column are adjacent, and `codes_stride` codes separate two columns. Returns the bitwise OR of all
    value - low.
    """
    # Rows are read in memory order. Interleaving log2(n) times transposes them.
    cdef code_t[TILE * TILE] tile
    cdef code_t[TILE * TILE] other
    cdef uint64_t bits = 0
    cdef Py_ssize_t i, j, _i
    for i in range(n):
        bits |= _encode_row(<const unsigned_t*> (values + i * stride), lows, n_columns, tile + i * n_columns)
    if n == TILE:
        for _i in range(TILE_BITS // 2):
            _interleave_halves(tile, TILE // 2 * n_columns, other)
            _interleave_halves(other, TILE // 2 * n_columns, tile)
        for j in range(n_columns):
            memcpy(codes + j * codes_stride, tile + j * TILE, TILE * sizeof(code_t))
    else:
        for j in range(n_columns):
            for i in range(n):
                codes[j * codes_stride + i] = tile[i * n_columns + j]
    return bits


cdef inline uint64_t _encode_tiles(Part part, const unsigned_t* lows, code_t* codes) noexcept nogil:
    """Write the codes of a row-major part to column-major `codes`, tile by tile; return the OR of all value - low."""
    cdef Py_ssize_t stride = part.columns[0].stride
    cdef uint64_t bits = 0
    cdef Py_ssize_t across, down
    for down in range((part.n_rows + TILE - 1) // TILE):
        for across in range((part.n_columns + TILE - 1) // TILE):
            bits |= _encode_tile(
                part.columns[across * TILE].x + (part.first + down * TILE) * stride, stride, lows + across * TILE,
                min(<Py_ssize_t> TILE, part.n_rows - down * TILE),
                min(<Py_ssize_t> TILE, part.n_columns - across * TILE),
                codes + across * TILE * part.n_codes + part.first + down * TILE, part.n_codes)
    return bits


cdef inline uint64_t _encode_block(Part part, const unsigned_t* lows, code_t* codes) noexcept nogil:
    """Write the codes value - low + 1 of a part of the rows; return the bitwise OR of all value - low."""
    cdef uint64_t bits = 0
    cdef Py_ssize_t j
    cdef Column column
    if part.by_rows:
        return _encode_tiles(part, lows, codes)
    for j in range(part.n_columns):
        column = part.columns[j]
        bits |= _encode_column(
            column.x + part.first * column.stride, column.stride, lows[j], part.n_rows,
            codes + j * part.n_codes + part.first)
    return bits


cdef inline code_t _max_offset(const code_t* codes, Py_ssize_t n) noexcept nogil:
    """Return the maximum of code - 1 over `n` codes."""
    cdef Py_ssize_t i
    cdef code_t largest = 0
    for i in range(n):
        largest = max(largest, <code_t> (codes[i] - 1))
    return largest


cdef inline void _mark_present(const code_t* codes, Py_ssize_t n, uint8_t* present, int64_t* n_first) noexcept nogil:
    """Set present[code - 1] for `n` codes, and advance `n_first`, the number of leading entries that are set."""
    # All codes below n_first are already marked, so nothing needs to be marked if all codes are below it.
    cdef Py_ssize_t i
    if _max_offset(codes, n) < n_first[0]:
        return
    for i in range(n):
        present[<code_t> (codes[i] - 1)] = 1
    while present[n_first[0]]:      # the last entry is always 0
        n_first[0] += 1


cdef inline Part _slice_part(Part whole, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    """Return `n` rows of a part from its row `first`, or fewer at its end."""
    cdef Part part = whole
    part.first += first
    part.n_rows = max(0, min(n, whole.n_rows - first))
    return part


cdef uint64_t _encode_part(
    Part part, const unsigned_t* lows, code_t* codes, uint8_t* present, int64_t* n_first
) noexcept nogil:
    """Write the codes of a part of the rows block by block, and mark them as `_mark_present` does.

    Stops after the first block with a code that is too large. Returns the bitwise OR of all value - low, which shows
    it.
    """
    cdef uint64_t bits = 0
    cdef Py_ssize_t block, j
    cdef Part rows
    for block in range((part.n_rows + BLOCK - 1) // BLOCK):
        rows = _slice_part(part, block * BLOCK, BLOCK)
        bits |= _encode_block(rows, lows, codes)
        if bits >= <uint64_t> part.n_places:
            break
        for j in range(part.n_columns):
            _mark_present(
                codes + j * part.n_codes + rows.first, rows.n_rows, present + j * (part.n_places + 1), n_first + j)
    return bits


cdef struct Coding:
    Part whole
    Py_ssize_t part_rows
    const void* lows
    int32_t value_size
    void* codes
    int32_t code_size
    uint8_t* present            # for each part of the rows, like the next two fields
    int64_t* n_first
    uint64_t* bits


cdef inline void _encode_part_as(
    const Coding* c, Py_ssize_t index, const unsigned_t* lows, code_t* codes
) noexcept nogil:
    """Encode part `index` of a coding job whose value and code types are the types of `lows` and `codes`."""
    cdef Py_ssize_t n_columns = c.whole.n_columns
    c.bits[index] = _encode_part(
        _slice_part(c.whole, index * c.part_rows, c.part_rows), lows, codes,
        c.present + index * n_columns * (c.whole.n_places + 1), c.n_first + index * n_columns)


cdef inline void _dispatch_code_type(const Coding* c, Py_ssize_t index, const unsigned_t* lows) noexcept nogil:
    """Encode part `index` of a coding job, whose value type is the type of `lows`, with the code type of the job."""
    if c.code_size == sizeof(uint8_t):
        _encode_part_as(c, index, lows, <uint8_t*> c.codes)
    else:
        _encode_part_as(c, index, lows, <uint16_t*> c.codes)


cdef void _encode_part_task(void* job, Py_ssize_t index, int32_t thread) noexcept nogil:
    """Encode part `index` of the Coding that `job` points to; the parallel loop calls this for each part."""
    cdef const Coding* c = <const Coding*> job
    if c.value_size == sizeof(uint8_t):
        _dispatch_code_type(c, index, <const uint8_t*> c.lows)
    elif c.value_size == sizeof(uint16_t):
        _dispatch_code_type(c, index, <const uint16_t*> c.lows)
    elif c.value_size == sizeof(uint32_t):
        _dispatch_code_type(c, index, <const uint32_t*> c.lows)
    else:
        _dispatch_code_type(c, index, <const uint64_t*> c.lows)


cdef bint _encode_table(
    const Column* columns, bint by_rows, const unsigned_t[::1] lows, code_t[:, ::1] codes, uint8_t[:, :, ::1] present,
    int64_t[:, ::1] n_first, int n_threads
):
    """Write the codes of a table in parallel parts of the rows; `by_rows` is True if the values of a row are adjacent.

    The other parameters and the result, False if a difference is out of range, are described in `code_block`.
    """
    cdef Coding job
    cdef Py_ssize_t n_parts = present.shape[0], part
    cdef uint64_t[::1] bits = np.zeros(n_parts, np.uint64)
    cdef uint64_t all_bits = 0
    job.whole = Part(columns, by_rows, 0, codes.shape[1], codes.shape[0], codes.shape[1], present.shape[2] - 1)
    job.part_rows = (job.whole.n_rows + n_parts - 1) // n_parts
    job.lows, job.value_size, job.codes, job.code_size = &lows[0], sizeof(unsigned_t), &codes[0, 0], sizeof(code_t)
    job.present, job.n_first, job.bits = &present[0, 0, 0], &n_first[0, 0], &bits[0]
    with nogil:
        dynamic_parallel_for(_encode_part_task, &job, n_parts, n_threads)
    for part in range(n_parts):
        all_bits |= bits[part]
    return all_bits < <uint64_t> job.whole.n_places


cdef Column* _allocate_columns(Py_ssize_t n) except NULL:
    """Return uninitialised memory for `n` columns, which the caller frees; raise MemoryError if there is none."""
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
    """Write the codes of a table, value - low of its column + 1, to `codes` of shape (n_columns, n_rows).

    Differences wrap around like unsigned integers. Each part of the rows sets present[part, column, value - low] for
    its values, and n_first[part, column] to the number of leading entries that are set. `present` has an entry for each
    possible difference and one more, and must be all zeros, as must `n_first`. Returns False, with undefined output, if
    a difference is out of range, otherwise True.
    """
    cdef Py_ssize_t j
    cdef bint by_rows = X.strides[1] == <Py_ssize_t> sizeof(unsigned_t) < X.strides[0]
    cdef Column* columns = _allocate_columns(X.shape[1])
    try:
        for j in range(X.shape[1]):
            columns[j] = Column(<const char*> &X[0, j], X.strides[0])
        return _encode_table(columns, by_rows, lows, codes, present, n_first, n_threads)
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
    """Write codes and return True or False as in `code_block`, for a list of column vectors of the type of `lows`."""
    cdef Py_ssize_t j
    cdef const unsigned_t[:] column
    cdef Column* columns = _allocate_columns(len(X))
    try:
        for j in range(codes.shape[0]):
            column = X[j]
            columns[j] = Column(<const char*> &column[0], column.strides[0])
        return _encode_table(columns, False, lows, codes, present, n_first, n_threads)
    finally:
        free(columns)


ctypedef fused number_t:
    whole_t
    float32_t
    float64_t

ctypedef fused offset_t:
    uint8_t
    uint16_t
    uint32_t

ctypedef fused entry_t:
    uint8_t
    uint16_t
    uint32_t
    float32_t
    float64_t

cdef enum:
    FEW = 256       # rows among which all codes are likely to occur

cdef double LARGEST = 2251799813685248.0        # 2**51
cdef double ROUNDING = 6755399441055744.0       # 2**52 + 2**51: adding it rounds to an integer


def integer_range(const number_t[:] values):
    """Return the minimum and maximum, ignoring NaN, or None if a number is not an integer or all are NaN."""
    cdef Py_ssize_t i, n = values.shape[0]
    cdef number_t x
    cdef number_t low = 0, high = 0
    cdef bint is_whole = True
    cdef double rounded
    cdef Py_ssize_t first = 0
    with nogil:
        if number_t is float32_t or number_t is float64_t:
            while first < n and values[first] != values[first]:
                first += 1
        if first < n:
            low = high = values[first]
        for i in range(first, n):
            x = values[i]
            if x < low:
                low = x
            if x > high:
                high = x
            if number_t is float32_t or number_t is float64_t:
                rounded = (<double> x + ROUNDING) - ROUNDING
                is_whole = is_whole and (rounded == x or x != x)
    if first == n or not is_whole:
        return None
    if number_t is float32_t or number_t is float64_t:
        return (int(low), int(high)) if -LARGEST < low and high < LARGEST else None
    else:
        return low, high


def write_offsets(const number_t[:] values, number_t low, offset_t[::1] out, uint8_t[::1] present):
    """Write x - low of each number, or the last index of `present` for NaN, to `out`; set present[offset] of each."""
    cdef Py_ssize_t i
    cdef number_t x
    cdef offset_t offset
    cdef offset_t missing = <offset_t> (present.shape[0] - 1)
    with nogil:
        for i in range(values.shape[0]):
            x = values[i]
            if number_t is float32_t or number_t is float64_t:
                offset = <offset_t> <int64_t> (<double> x - <double> low) if x == x else missing
            else:
                offset = <offset_t> (<uint64_t> x - <uint64_t> low)
            present[offset] = 1
            out[i] = offset


def mark_present(const whole_t[:] codes, uint8_t[::1] present):
    """Set present[code] for the codes that occur; return the number of entries that remain zero.

    `present` must be all zeros. Negative codes stand for missing values.
    """
    cdef Py_ssize_t i, block, n = codes.shape[0]
    cdef Py_ssize_t n_absent = present.shape[0]
    with nogil:
        for block in range((n + FEW - 1) // FEW):
            for i in range(block * FEW, min(n, (block + 1) * FEW)):
                if codes[i] >= 0 and not present[codes[i]]:
                    present[codes[i]] = 1
                    n_absent -= 1
            if n_absent == 0:
                break
    return n_absent


def map_codes(const whole_t[:] codes, const entry_t[::1] table, entry_t[::1] out):
    """Write table[code + 1] for each code, which is at least -1, to `out`."""
    cdef Py_ssize_t i, n = codes.shape[0]
    cdef bint is_next = True
    with nogil:
        for i in range(table.shape[0]):
            is_next = is_next and table[i] == i
        if is_next:
            for i in range(n):
                out[i] = <entry_t> (codes[i] + 1)
        else:
            for i in range(n):
                out[i] = table[codes[i] + 1]
