"""Rows of sparse matrices: values of the same place added up, and hashes of the rows' content."""

from fastens.engine.rows.gather cimport finished, mixed, salt_of
from fastens.engine.structs cimport int32_t, int64_t, uint64_t, value_t


def sum_duplicates(value_t[::1] x, int32_t[::1] rows, int64_t[::1] starts):
    """Add up values of the same place, neighbours in their column, in their order; return how many are left.

    All three arrays, the parts of a CSC matrix, are changed in place.
    """
    cdef Py_ssize_t f, i, begin = 0, end, n = 0, first
    for f in range(starts.shape[0] - 1):
        end, first = starts[f + 1], n
        for i in range(begin, end):
            if n > first and rows[n - 1] == rows[i]:
                x[n - 1] += x[i]
            else:
                x[n], rows[n] = x[i], rows[i]
                n += 1
        begin, starts[f + 1] = end, n
    return n


def hash_stored(const value_t[::1] x, const int32_t[::1] features, const int64_t[::1] starts, uint64_t[::1] out):
    """Write a hash of each row's content, that of the same row of an array: a zero adds nothing to it."""
    cdef Py_ssize_t row, i
    cdef uint64_t hashed
    with nogil:
        for row in range(starts.shape[0] - 1):
            hashed = 0
            for i in range(starts[row], starts[row + 1]):
                hashed += mixed(x[i]) * salt_of(features[i])
            out[row] = finished(hashed)
