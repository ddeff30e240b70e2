# Random threshold of a feature, as a code: uniform between the smallest and the largest value of a node.

from libc.string cimport memcpy

from fastens.engine.forest.splits.structs cimport CELL_BITS, FIRST_CELL, N_CELLS, WINDOW, BinValues, ForestTable
from fastens.engine.random cimport random_bits, random_share
from fastens.engine.structs cimport float32_t, float64_t, int32_t, uint16_t, uint32_t, uint64_t

cdef extern from "engine/forest/splits/rows.h" nogil:
    ctypedef struct CodeRange:
        uint32_t smallest
        uint32_t largest
        bint has_missing

    int32_t count_up_to(const float64_t* values, float64_t limit)


cdef inline int32_t cell_of(const BinValues* bins, float64_t value) noexcept nogil:
    """Return a value's cell: the exponent and leading mantissa bits of its position in the feature's range."""
    cdef float32_t place = <float32_t>(value * bins.scale - bins.origin)
    cdef uint32_t bits
    memcpy(&bits, &place, sizeof(bits))
    return min(max(<int32_t>(bits >> CELL_BITS) - FIRST_CELL, 0), N_CELLS - 1)


cdef inline int32_t random_code(
    const ForestTable* table, int32_t feature, uint64_t key, int32_t low, int32_t high
) noexcept nogil:
    """Return the last code on the left of a threshold drawn between the values of two codes, including the first."""
    cdef const BinValues* bins = &table.bin_values[feature]
    cdef const float64_t* values = table.values + bins.first
    cdef float64_t share = random_share(key, 0)
    # Not low + share * range, because the range may overflow.
    cdef float64_t threshold = max((1.0 - share) * values[low] + share * values[high], values[low])
    cdef const uint16_t* cell = table.cells + <Py_ssize_t>feature * (N_CELLS + 1) + cell_of(bins, threshold)
    cdef int32_t first = max(low, <int32_t>cell[0]), length = cell[1] + 1 - first, half
    while length > WINDOW:
        half = length // 2
        if values[first + half] <= threshold:
            first += half
        length -= half
    return min(first + count_up_to(values + first, threshold) - 1, high - 1)


cdef inline int32_t draw_threshold(
    const ForestTable* table, int32_t feature, uint64_t key, const CodeRange* range_, bint* missing_left
) noexcept nogil:
    """Draw a threshold between the smallest and the largest value, and a side for missing rows.

    Return the last code on the left, or 0 if all rows have the same code.
    """
    missing_left[0] = False
    if range_.largest == 0 or (range_.smallest == range_.largest and not range_.has_missing):
        return 0
    if range_.smallest == range_.largest:
        return table.n_codes[feature] - 1
    missing_left[0] = range_.has_missing and random_bits(key, 1) & 1
    return random_code(table, feature, key, <int32_t>range_.smallest, <int32_t>range_.largest)
