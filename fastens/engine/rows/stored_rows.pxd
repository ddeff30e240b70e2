# Where a row's code is stored, in a sparse table.

from fastens.engine.structs cimport int32_t, uint32_t


cdef inline Py_ssize_t place_of_row(
    const int32_t* rows, Py_ssize_t n_rows, Py_ssize_t begin, uint32_t row
) noexcept nogil:
    """The first of ascending rows from `begin` on that is no less: most often it is near."""
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
