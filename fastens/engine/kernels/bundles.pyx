"""The combinations of codes that the features of a bundle have."""

from cython.parallel cimport prange

from fastens.engine.kernels.structs cimport uint8_t


def note_pairs(const uint8_t[::1] a, const uint8_t[::1] b, int n_codes, uint8_t[:, ::1] seen):
    """Mark the pairs of codes that rows have: seen[:, a * n_codes + b], for one of the threads that it has rows for."""
    cdef Py_ssize_t n_rows = a.shape[0], n_threads = seen.shape[0], n_pairs = seen.shape[1]
    cdef Py_ssize_t t
    cdef const uint8_t* first = &a[0]
    cdef const uint8_t* second = &b[0]
    cdef uint8_t* marks = &seen[0, 0]
    for t in prange(n_threads, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1, schedule="static"):
        _note(first, second, n_codes, n_rows * t // n_threads, n_rows * (t + 1) // n_threads, marks + t * n_pairs)


cdef void _note(
    const uint8_t* a, const uint8_t* b, int n_codes, Py_ssize_t begin, Py_ssize_t end, uint8_t* seen
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(begin, end):
        seen[a[i] * n_codes + b[i]] = 1


def number_pairs(uint8_t[::1] a, const uint8_t[::1] b, int n_codes, const uint8_t[::1] numbers, int n_threads):
    """a = numbers[a * n_codes + b], in place."""
    cdef Py_ssize_t i
    cdef uint8_t* first = &a[0]
    cdef const uint8_t* second = &b[0]
    cdef const uint8_t* number = &numbers[0]
    for i in prange(
        a.shape[0], nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1, schedule="static"
    ):
        first[i] = number[first[i] * n_codes + second[i]]
