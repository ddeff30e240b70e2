from fastens.engine.structs cimport int32_t, int64_t


cdef struct Ranks:
    # What kernels know of the ranks of a fit; a NULL pointer stands for a single one.
    void* exchange                  # the Exchange that this belongs to
    bint failed                     # it has raised an exception


cdef class Exchange:
    cdef object comm
    cdef readonly object error      # the exception, or None
    cdef Ranks ranks


cdef bint sum_over(Ranks* ranks, int64_t** arrays, int32_t n_arrays, Py_ssize_t n) noexcept nogil
cdef bint sum_rows(Ranks* ranks, int64_t** arrays, int32_t n_arrays, Py_ssize_t n, int32_t width) noexcept nogil
cdef bint max_over(Ranks* ranks, int64_t* numbers, Py_ssize_t n) noexcept nogil
