# Search for a row among the stored rows of a sparse table.

from fastens.engine.structs cimport int32_t, uint32_t


cdef inline Py_ssize_t place_of_row(
    const int32_t* rows, Py_ssize_t n_rows, Py_ssize_t begin, uint32_t row
) noexcept nogil:
    """Return the first position from `begin` on whose row is not less; it is usually close to `begin`."""
    cdef Py_ssize_t step = 1, middle, end = begin
    while end < n_rows and <uint32_t>rows[end] < row:
        begin = end + 1
        end += step
        step *= 2
    end = min(end, n_rows)
    while begin < end:
        middle = (begin + end) // 2
        if <uint32_t>rows[middle] < row:
            begin = middle + 1
        else:
            end = middle
    return begin
