"""Weighted medians of many rows whose values are few and known: weights are added up by rank."""

from libc.stdlib cimport calloc, free

from fastens.engine.structs cimport float64_t, int32_t
from fastens.engine.team cimport share_pieces

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


cdef struct Medians:
    const int32_t* ranks
    const float64_t* weights
    Py_ssize_t n_rows
    Py_ssize_t n_values
    float64_t half
    float64_t* cells            # by thread, n_ranks each
    Py_ssize_t n_ranks
    int32_t* out


cdef void _medians_of_block(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    cdef const Medians* m = <const Medians*> job
    cdef Py_ssize_t first = block * ROW_BLOCK
    _rank_medians(
        m.ranks + first * m.n_values, m.weights, min(<Py_ssize_t> ROW_BLOCK, m.n_rows - first), m.n_values, m.half,
        m.cells + thread * m.n_ranks, m.out + first,
    )


def rank_medians(
    const int32_t[:, ::1] ranks, const float64_t[::1] weights, int32_t n_ranks, double half, int32_t[::1] out,
    int n_threads
):
    """For each row the lowest rank that has at least `half` of the weight at or below it.

    ranks has shape (n_rows, n_values), entries below n_ranks; weights are those of the values. `half` is a little less
    than half of their sum, so that rounding does not matter.
    """
    cdef Medians medians
    if ranks.shape[0] == 0:
        return
    medians = Medians(&ranks[0, 0], &weights[0], ranks.shape[0], ranks.shape[1], half, NULL, n_ranks, &out[0])
    medians.cells = <float64_t*> calloc(n_threads * <Py_ssize_t> n_ranks, sizeof(float64_t))
    if medians.cells == NULL:
        raise MemoryError("no memory for the weights of the ranks")
    with nogil:
        share_pieces(_medians_of_block, &medians, (medians.n_rows + ROW_BLOCK - 1) // ROW_BLOCK, n_threads)
    free(medians.cells)
