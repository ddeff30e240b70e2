"""Weighted medians of many rows whose values are few and known: weights are added up by rank."""

from cython.parallel cimport prange, threadid
from libc.stdlib cimport calloc, free

from .structs cimport float64_t, int32_t

cdef enum:
    ROW_BLOCK = 256


cdef void _rank_medians(
    const int32_t* ranks, const float64_t* weights, Py_ssize_t n_rows, Py_ssize_t n_values, float64_t half,
    float64_t* cells, int32_t* out,
) noexcept nogil:
    """Lowest rank with half of the weight at or below it; `cells` holds zeros, before and after."""
    cdef Py_ssize_t i, t
    cdef int32_t rank
    cdef float64_t below
    for i in range(n_rows):
        for t in range(n_values):
            cells[ranks[i * n_values + t]] += weights[t]
        rank, below = 0, cells[0]
        while below < half:
            rank += 1
            below += cells[rank]
        out[i] = rank
        for t in range(n_values):
            cells[ranks[i * n_values + t]] = 0


def rank_medians(
    const int32_t[:, ::1] ranks, const float64_t[::1] weights, int32_t n_ranks, double half, int32_t[::1] out,
    int n_threads
):
    """For each row the lowest rank that has at least `half` of the weight at or below it.

    ranks has shape (n_rows, n_values), entries below n_ranks; weights are those of the values. `half` is a little less
    than half of their sum, so that rounding does not matter.
    """
    cdef Py_ssize_t b, n_rows = ranks.shape[0], n_values = ranks.shape[1]
    cdef Py_ssize_t n_blocks = (n_rows + ROW_BLOCK - 1) // ROW_BLOCK
    cdef float64_t* cells
    if n_rows == 0:
        return
    cells = <float64_t*> calloc(n_threads * <Py_ssize_t> n_ranks, sizeof(float64_t))
    if cells == NULL:
        raise MemoryError("no memory for the weights of the ranks")
    for b in prange(n_blocks, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1, schedule="static"):
        _rank_medians(
            &ranks[b * ROW_BLOCK, 0], &weights[0], min(<Py_ssize_t> ROW_BLOCK, n_rows - b * ROW_BLOCK), n_values, half,
            cells + threadid() * n_ranks, &out[b * ROW_BLOCK],
        )
    free(cells)
