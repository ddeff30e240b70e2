"""Numbers as places in a range, and codes of one numbering as those of another."""

from fastens.table.columns.whole cimport whole_t
from fastens.engine.structs cimport float32_t, float64_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

ctypedef fused number_t:
    whole_t
    float32_t
    float64_t

ctypedef fused place_t:
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
    BLOCK = 4096
    FEW = 256       # rows among which all codes are likely to come

cdef double LARGEST = 2251799813685248.0        # 2**51
cdef double ROUNDING = 6755399441055744.0       # 2**52 + 2**51: beside it there are no fractions


def whole_range(const number_t[:] values):
    """The least and the largest number, NaN left out; None where one is not whole, or none is there."""
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


def places_in_range(const number_t[:] values, number_t low, place_t[::1] out, uint8_t[::1] present):
    """Write how far each number is from `low`, for NaN the last place; mark in `present` which places come."""
    cdef Py_ssize_t i
    cdef number_t x
    cdef place_t place
    cdef place_t missing = <place_t> (present.shape[0] - 1)
    with nogil:
        for i in range(values.shape[0]):
            x = values[i]
            if number_t is float32_t or number_t is float64_t:
                place = <place_t> <int64_t> (<double> x - <double> low) if x == x else missing
            else:
                place = <place_t> (<uint64_t> x - <uint64_t> low)
            present[place] = 1
            out[i] = place


cdef inline uint64_t _take_from(const whole_t* values, uint64_t low, Py_ssize_t n, uint8_t* out) noexcept nogil:
    # The bits of all differences; their last bytes are written.
    cdef Py_ssize_t i
    cdef uint64_t place, bits = 0
    for i in range(n):
        place = <uint64_t> values[i] - low
        bits |= place
        out[i] = <uint8_t> place
    return bits


cdef inline uint8_t _largest_of(const uint8_t* places, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint8_t largest = 0
    for i in range(n):
        largest = max(largest, places[i])
    return largest


def places_in_window(const whole_t[::1] values, whole_t low, uint8_t[::1] out, uint8_t[::1] present):
    """Write how far each number is from `low`, and mark in the 256 entries of `present` which come, in one pass.

    False, and nothing of use written, where a number is less than `low` or further from it than 255.
    """
    cdef Py_ssize_t i, first, n, block, n_rows = values.shape[0]
    cdef Py_ssize_t n_first = 0     # places from 0 on, all of which have come
    cdef uint64_t bits = 0
    with nogil:
        for block in range((n_rows + BLOCK - 1) // BLOCK):
            first = block * BLOCK
            n = min(<Py_ssize_t> BLOCK, n_rows - first)
            bits |= _take_from(&values[first], <uint64_t> low, n, &out[first])
            if bits > 255:
                break
            if _largest_of(&out[first], n) >= n_first:
                for i in range(first, first + n):
                    present[out[i]] = 1
                while n_first < 256 and present[n_first]:
                    n_first += 1
    return bits < 256


def mark_present(const whole_t[:] codes, uint8_t[::1] present):
    """Mark in `present`, all zeros, the codes that come, negative ones are missing; how many do not come."""
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
    """Write table[code + 1]."""
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
