"""Stable partition of a node's rows, in two steps so that blocks of rows can be done side by side.

                    rows:     [  a  b  c  d  e  f  ]
    split_rows   -> scratch:  [  a  c  f | e  d  b ]     left rows from the front, right rows from the back
    collect_rows -> rows:     [ .. a c f ..] [.. b d e ..]
"""

from libc.string cimport memset

from fastens.engine.bins.pages cimport note_rows
from fastens.engine.splits.goes_left cimport set_has, up_to_uint16_t
from fastens.engine.rows.stored_rows cimport place_of_row
from fastens.engine.structs cimport int32_t, uint8_t, uint16_t, uint32_t

cdef extern from "engine/splits/split_rows.h" nogil:
    void fill_lane_orders()
    Py_ssize_t split_eights(
        const uint8_t* codes, Py_ssize_t step, const uint8_t* goes_left, const uint32_t* rows, Py_ssize_t n,
        uint32_t* scratch, Py_ssize_t* n_left,
    )

cdef enum:
    BYTE_CODES = 256

fill_lane_orders()


# How a row's code is looked at: in a table of the codes, or, where they are too many for one, by the decision itself.
cdef enum Look:
    TABLE
    THRESHOLD
    SET


cdef void _fill_table(const Decision* decision, uint8_t* goes_left) noexcept nogil:
    """Which codes of one byte go left."""
    cdef int32_t code
    if decision.category_words == NULL:
        memset(goes_left, True, decision.bin + 1)
        memset(goes_left + decision.bin + 1, False, BYTE_CODES - 1 - decision.bin)
        goes_left[0] = decision.missing_left
        return
    for code in range(decision.n_codes):
        goes_left[code] = set_has(decision.category_words, code)


cdef inline Py_ssize_t _is_left(
    const uint8_t* place, const void* rule, uint16_t shift, uint16_t limit, Look look
) noexcept nogil:
    cdef uint16_t code
    if look == TABLE:
        return (<const uint8_t*>rule)[place[0]]
    code = (<const uint16_t*>place)[0]
    if look == THRESHOLD:
        return up_to_uint16_t(code, shift, limit)
    return set_has(<const uint32_t*>rule, code)


cdef inline Py_ssize_t _split(
    const Decision* decision, const void* rule, Look look, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil:
    """Four rows a turn, whose codes are fetched at once; each row is written to both ends, and one of them stays."""
    cdef const uint8_t* column = <const uint8_t*>decision.column
    cdef Py_ssize_t step = decision.row_step
    cdef uint16_t shift = 0 if decision.missing_left else 1
    cdef uint16_t limit = <uint16_t>(decision.bin - shift)
    cdef uint32_t* back
    cdef Py_ssize_t i = 0, k, n_left = 0
    cdef Py_ssize_t is_left[4]
    if look == TABLE:
        i = split_eights(column, step, <const uint8_t*>rule, rows, n_rows, scratch, &n_left)
    back = scratch + n_rows - 1 - i
    while i + 4 <= n_rows:
        for k in range(4):
            is_left[k] = _is_left(column + step * rows[i + k], rule, shift, limit, look)
        for k in range(4):
            scratch[n_left] = (back - k)[n_left] = rows[i + k]
            n_left += is_left[k]
        back -= 4
        i += 4
    for i in range(i, n_rows):
        scratch[n_left] = back[n_left] = rows[i]
        n_left += _is_left(column + step * rows[i], rule, shift, limit, look)
        back -= 1
    return n_left


cdef inline Py_ssize_t _code_is_left(const Decision* decision, int32_t code) noexcept nogil:
    if decision.category_words != NULL:
        return set_has(decision.category_words, code)
    return decision.missing_left if code == 0 else code <= decision.bin


cdef Py_ssize_t _split_stored(
    const Decision* decision, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil:
    """The ascending rows and those that have a code are gone through side by side."""
    cdef Py_ssize_t zeros_left = _code_is_left(decision, decision.zero_code), is_left, i, place = 0, n_left = 0
    cdef uint32_t* back = scratch + n_rows - 1
    cdef int32_t code
    for i in range(n_rows):
        place = place_of_row(decision.stored_rows, decision.n_stored, place, rows[i])
        is_left = zeros_left
        if place < decision.n_stored and <uint32_t>decision.stored_rows[place] == rows[i]:
            if decision.code_size == 1:
                code = (<const uint8_t*>decision.column)[place]
            else:
                code = (<const uint16_t*>decision.column)[place]
            is_left = _code_is_left(decision, code)
        scratch[n_left] = back[n_left] = rows[i]
        n_left += is_left
        back -= 1
    return n_left


cdef Py_ssize_t split_rows(
    const Decision* decision, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil:
    """Rows that go left to the front of `scratch`, the others, reversed, to its back; return how many go left."""
    cdef uint8_t goes_left[BYTE_CODES]
    if decision.stored_rows != NULL:
        return _split_stored(decision, rows, n_rows, scratch)
    if n_rows > 0:
        note_rows(decision.pages, rows[0], rows[n_rows - 1], n_rows, decision.row_step)
    if decision.code_size == 1:
        _fill_table(decision, goes_left)
        return _split(decision, goes_left, TABLE, rows, n_rows, scratch)
    if decision.category_words == NULL:
        return _split(decision, NULL, THRESHOLD, rows, n_rows, scratch)
    return _split(decision, decision.category_words, SET, rows, n_rows, scratch)


cdef void collect_rows(
    const uint32_t* scratch, Py_ssize_t n_rows, Py_ssize_t n_left, uint32_t* left, uint32_t* right
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n_left):
        left[i] = scratch[i]
    for i in range(n_rows - n_left):
        right[i] = scratch[n_rows - 1 - i]
