from fastens.engine.structs cimport int32_t, int64_t


cdef struct Ranks:
    # The kernels' view of the workers of a distributed fit; NULL stands for a single worker.
    void* exchange                  # the Exchange that owns this struct
    bint failed                     # an exchange raised an exception
    bint goes_on                    # sums are reduced asynchronously, while the worker continues


cdef class Exchange:
    cdef object comm, begun
    cdef readonly object error      # the exception, or None
    cdef Ranks ranks


cdef bint sum_over(Ranks* ranks, int64_t** arrays, int32_t n_arrays, Py_ssize_t n) noexcept nogil
cdef bint begin_sum_of_rows(
    Ranks* ranks, int64_t** arrays, int32_t n_arrays, Py_ssize_t n, int32_t width
) noexcept nogil
cdef bint finish_sum(Ranks* ranks) noexcept nogil
cdef bint max_over(Ranks* ranks, int64_t* numbers, Py_ssize_t n) noexcept nogil
