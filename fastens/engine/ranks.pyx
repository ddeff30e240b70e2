"""Allreduce operations among the workers of a distributed fit, called from kernels that have released the GIL."""

from collections import deque

import numpy as np

from fastens.engine.structs cimport int32_t, int64_t

cdef enum Reduction:
    SUM
    BEGIN_SUM
    FINISH_SUM
    MAX


cdef class Exchange:
    """A `Comm` for kernels. Kernels see its exceptions as failures; `error` holds the exception."""

    def __init__(self, comm):
        self.comm, self.error = comm, None
        self.begun = deque()            # callables that wait for the pending reductions
        self.ranks = Ranks(<void*>self, False, comm.sums_travel)


cdef bint sum_over(Ranks* ranks, int64_t** arrays, int32_t n_arrays, Py_ssize_t n) noexcept nogil:
    """Sum each of n_arrays arrays of n numbers over the workers in place, unless n is 0; return False on failure."""
    return ranks == NULL or n == 0 or _reduce(ranks, arrays, n_arrays, n, 1, SUM)


cdef bint begin_sum_of_rows(
    Ranks* ranks, int64_t** arrays, int32_t n_arrays, Py_ssize_t n, int32_t width
) noexcept nogil:
    """Begin to sum arrays of n rows and `width` columns over the workers in place; return False on failure."""
    return _reduce(ranks, arrays, n_arrays, n, width, BEGIN_SUM)


cdef bint finish_sum(Ranks* ranks) noexcept nogil:
    """Wait for the oldest sum that was begun; return False on failure."""
    return _reduce(ranks, NULL, 0, 0, 1, FINISH_SUM)


cdef bint max_over(Ranks* ranks, int64_t* numbers, Py_ssize_t n) noexcept nogil:
    """Replace n numbers by their maxima over the workers; return False on failure."""
    return ranks == NULL or _reduce(ranks, &numbers, 1, n, 1, MAX)


cdef bint _reduce(
    Ranks* ranks, int64_t** arrays, int32_t n_arrays, Py_ssize_t n, int32_t width, Reduction reduction
) noexcept with gil:
    """Run a `reduction` code of arrays of shape (n, width), in place, with the Python communicator; False on failure.

    The exception is stored in `ranks.exchange`, and later reductions fail at once.
    """
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
        if reduction == MAX:
            exchange.comm.allreduce_max(*views)
        elif reduction == SUM:
            exchange.comm.allreduce_sum(*views)
        elif reduction == BEGIN_SUM:
            exchange.begun.append(exchange.comm.begin_allreduce_sum(*views))
        else:
            exchange.begun.popleft()()
    except BaseException as error:
        exchange.error, ranks.failed = error, True
    return not ranks.failed
