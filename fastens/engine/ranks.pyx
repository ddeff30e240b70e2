"""Reductions over the ranks of a fit, from kernels that do not hold the interpreter's lock."""

import numpy as np

from fastens.engine.structs cimport int32_t, int64_t


cdef class Exchange:
    """A `Comm` for kernels, which see its exceptions as a failure; `error` keeps them."""

    def __init__(self, comm):
        self.comm, self.error = comm, None
        self.ranks = Ranks(<void*>self, False)


cdef bint sum_over(Ranks* ranks, int64_t** arrays, int32_t n_arrays, Py_ssize_t n) noexcept nogil:
    """Add up arrays of n numbers each over the ranks, in place; False where that failed."""
    return ranks == NULL or _reduce(ranks, arrays, n_arrays, n, 1, False)


cdef bint sum_rows(Ranks* ranks, int64_t** arrays, int32_t n_arrays, Py_ssize_t n, int32_t width) noexcept nogil:
    """The same for arrays of n rows, whose columns hold numbers that are about as large."""
    return ranks == NULL or _reduce(ranks, arrays, n_arrays, n, width, False)


cdef bint max_over(Ranks* ranks, int64_t* numbers, Py_ssize_t n) noexcept nogil:
    """Replace numbers by their maxima over the ranks; False where that failed."""
    return ranks == NULL or _reduce(ranks, &numbers, 1, n, 1, True)


cdef bint _reduce(
    Ranks* ranks, int64_t** arrays, int32_t n_arrays, Py_ssize_t n, int32_t width, bint largest
) noexcept with gil:
    cdef Exchange exchange = <Exchange>ranks.exchange
    cdef int64_t[::1] view
    cdef int32_t i
    if ranks.failed:
        return False
    try:
        views = []
        for i in range(n_arrays):
            view = <int64_t[:n * width]>arrays[i]
            views.append(np.asarray(view).reshape(n, width) if width > 1 else np.asarray(view))
        if largest:
            exchange.comm.max(*views)
        else:
            exchange.comm.sum(*views)
    except BaseException as error:
        exchange.error, ranks.failed = error, True
    return not ranks.failed
