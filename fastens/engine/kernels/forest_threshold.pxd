# One random threshold of a feature: uniform between the smallest and the largest value of a node, as a code.

from libc.string cimport memcpy

from .forest_tree cimport CELL_BITS, FIRST_CELL, N_CELLS, WINDOW, ForestTable
from .random cimport random_bits, random_share
from .structs cimport float32_t, int32_t, uint16_t, uint32_t, uint64_t

cdef extern from "forest_rows.h" nogil:
    ctypedef struct CodeRange:
        uint32_t smallest
        uint32_t largest
        bint has_missing

    int32_t count_up_to(const float32_t* values, float32_t limit)


cdef inline int32_t _cell_of(float32_t share) noexcept nogil:
    """The cell of a share from 0 to 1: its exponent and the first bits behind it."""
    cdef uint32_t bits
    memcpy(&bits, &share, sizeof(bits))
    return <int32_t>(max(bits >> CELL_BITS, <uint32_t>FIRST_CELL) - <uint32_t>FIRST_CELL)


cdef inline int32_t random_code(
    const ForestTable* table, int32_t feature, uint64_t key, int32_t low, int32_t high
) noexcept nogil:
    """The last code on the left of a threshold drawn between the values of two codes."""
    cdef const float32_t* centres = table.centres + table.first_centre[feature]
    cdef float32_t threshold = centres[low] + <float32_t>random_share(key, 0) * (centres[high] - centres[low])
    cdef const uint16_t* cell = table.cells + <Py_ssize_t>feature * (N_CELLS + 1) + _cell_of(threshold)
    cdef int32_t first = max(low, <int32_t>cell[0]), length = cell[1] + 1 - first, half
    while length > WINDOW:
        half = length // 2
        if centres[first + half] <= threshold:
            first += half
        length -= half
    return min(first + count_up_to(centres + first, threshold) - 1, high - 1)


cdef inline int32_t draw_threshold(
    const ForestTable* table, int32_t feature, uint64_t key, const CodeRange* range_, bint* missing_left
) noexcept nogil:
    """The last code on the left of a threshold between the smallest and the largest value, and a side for missing rows;
    0 where all rows have the same code."""
    missing_left[0] = False
    if range_.largest == 0 or (range_.smallest == range_.largest and not range_.has_missing):
        return 0
    if range_.smallest == range_.largest:
        return table.n_codes[feature] - 1
    missing_left[0] = range_.has_missing and random_bits(key, 1) & 1
    return random_code(table, feature, key, <int32_t>range_.smallest, <int32_t>range_.largest)
