"""Stable partition of a node's rows, in two steps so that blocks of rows can be done side by side.

                    rows:     [  a  b  c  d  e  f  ]
    split_rows   -> scratch:  [  a  c  f | e  d  b ]     left rows from the front, right rows from the back
    collect_rows -> rows:     [ .. a c f ..] [.. b d e ..]
"""

from .structs cimport code_t, uint8_t, uint16_t, uint32_t


cdef inline Py_ssize_t _split_numeric(
    const code_t* column, code_t bin, bint missing_left, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil:
    cdef Py_ssize_t i, n_left = 0
    cdef uint32_t row
    cdef code_t shift = 0 if missing_left else 1
    cdef code_t limit = <code_t>(bin - shift)
    cdef bint left
    for i in range(n_rows):
        row = rows[i]
        left = <code_t>(column[row] - shift) <= limit
        scratch[n_left] = row
        scratch[n_rows - 1 - (i - n_left)] = row
        n_left += left
    return n_left


cdef inline Py_ssize_t _split_categories(
    const code_t* column, const uint32_t* words, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil:
    cdef Py_ssize_t i, n_left = 0
    cdef uint32_t row, code
    for i in range(n_rows):
        row = rows[i]
        code = column[row]
        scratch[n_left] = row
        scratch[n_rows - 1 - (i - n_left)] = row
        n_left += (words[code // 32] >> (code % 32)) & 1
    return n_left


cdef Py_ssize_t split_rows(
    const Decision* decision, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil:
    """Rows that go left to the front of `scratch`, the others, reversed, to its back; return how many go left."""
    if decision.category_words != NULL:
        if decision.code_size == 1:
            return _split_categories(<const uint8_t*>decision.column, decision.category_words, rows, n_rows, scratch)
        return _split_categories(<const uint16_t*>decision.column, decision.category_words, rows, n_rows, scratch)
    if decision.code_size == 1:
        return _split_numeric(
            <const uint8_t*>decision.column, <uint8_t>decision.bin, decision.missing_left, rows, n_rows, scratch
        )
    return _split_numeric(
        <const uint16_t*>decision.column, <uint16_t>decision.bin, decision.missing_left, rows, n_rows, scratch
    )


cdef void collect_rows(
    const uint32_t* scratch, Py_ssize_t n_rows, Py_ssize_t n_left, uint32_t* left, uint32_t* right
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n_left):
        left[i] = scratch[i]
    for i in range(n_rows - n_left):
        right[i] = scratch[n_rows - 1 - i]
