# Searches among ascending numbers, such as the stored rows of a sparse table.

from fastens.engine.structs cimport int32_t, int64_t, uint32_t


cdef inline Py_ssize_t first_at_least(
    const uint32_t* numbers, Py_ssize_t begin, Py_ssize_t end, int64_t least
) noexcept nogil:
    """Return the first position from `begin` to `end` whose number is at least `least`."""
    cdef Py_ssize_t middle
    while begin < end:
        middle = (begin + end) // 2
        if numbers[middle] < least:
            begin = middle + 1
        else:
            end = middle
    return begin


cdef inline Py_ssize_t place_of_row(
    const int32_t* rows, Py_ssize_t n_rows, Py_ssize_t begin, uint32_t row
) noexcept nogil:
    """Return the first position from `begin` on whose row is not less; it is usually close to `begin`."""
    cdef Py_ssize_t step = 1, end = begin
    while end < n_rows and <uint32_t>rows[end] < row:
        begin = end + 1
        end += step
        step *= 2
    return first_at_least(<const uint32_t*>rows, begin, min(end, n_rows), row)
