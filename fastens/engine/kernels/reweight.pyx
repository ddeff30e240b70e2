"""AdaBoost's weights: each row's logarithm takes a step by its class and cell, then becomes a whole number.

Rows are done in blocks of fixed size and sums are integer sums, so nothing depends on the number of threads.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc

from .structs cimport code_t, float64_t, int32_t, int64_t, uint16_t


cdef extern from "reweight_loops.h" nogil:
    void whole_exp(const double* logs, double shift, double scale, Py_ssize_t n, int64_t* out) noexcept

cdef enum:
    BLOCK = 1024        # rows: their logarithms stay in the first-level cache


cdef struct Weights:
    float64_t* logs
    const uint16_t* classes
    const int64_t* copies       # NULL: one of each
    int64_t* whole
    Py_ssize_t n_rows
    float64_t shift
    float64_t scale


cdef inline float64_t _step(
    const Weights* weights, const code_t* codes, const float64_t* steps, int32_t n_classes, Py_ssize_t begin,
    Py_ssize_t end,
) noexcept nogil:
    """Add to the logarithms of a block; the largest of them."""
    cdef float64_t largest = -INFINITY
    cdef Py_ssize_t i
    for i in range(begin, end):
        weights.logs[i] += steps[<Py_ssize_t> codes[i] * n_classes + weights.classes[i]]
        largest = weights.logs[i] if weights.logs[i] > largest else largest
    return largest


cdef inline int64_t _make_whole(const Weights* weights, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """The weights of a block, and their sum."""
    cdef int64_t total = 0
    cdef Py_ssize_t i
    whole_exp(weights.logs + begin, weights.shift, weights.scale, end - begin, weights.whole + begin)
    if weights.copies != NULL:
        for i in range(begin, end):
            weights.whole[i] *= weights.copies[i]
    for i in range(begin, end):
        total += weights.whole[i]
    return total


cdef Weights _weights(
    float64_t[::1] logs, const uint16_t[::1] classes, const int64_t[::1] copies, int64_t[::1] whole, double shift,
    double scale
) except *:
    cdef Weights weights
    if not logs.shape[0] == classes.shape[0] == whole.shape[0] > 0:
        raise ValueError("logs, classes and whole must have the same length, of at least 1")
    weights.logs, weights.classes, weights.whole = &logs[0], &classes[0], &whole[0]
    weights.copies = &copies[0] if copies is not None else NULL
    weights.n_rows, weights.shift, weights.scale = logs.shape[0], shift, scale
    return weights


def make_whole(
    float64_t[::1] logs, const uint16_t[::1] classes, const int64_t[::1] copies, int64_t[::1] whole, double shift,
    double scale, int n_threads
):
    """Write exp(logs - shift) * scale, rounded, times the number of copies; return the sum."""
    cdef Weights weights = _weights(logs, classes, copies, whole, shift, scale)
    cdef Py_ssize_t b, n_blocks = (weights.n_rows + BLOCK - 1) // BLOCK
    cdef int64_t total = 0
    for b in prange(n_blocks, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1, schedule="static"):
        total += _make_whole(&weights, b * BLOCK, min((b + 1) * BLOCK, weights.n_rows))
    return total


def advance(
    float64_t[::1] logs, const uint16_t[::1] classes, const int64_t[::1] copies, int64_t[::1] whole, double shift,
    double scale, const code_t[::1] codes, const float64_t[:, ::1] steps, int n_threads
):
    """Add steps[code of the row, class of the row] to the logarithms, then do as `make_whole`.

    `shift` is at least the largest new logarithm.

    Returns
    -------
    total, largest : the sum of the weights, and the largest logarithm
    """
    cdef Weights weights = _weights(logs, classes, copies, whole, shift, scale)
    cdef Py_ssize_t b, n_blocks = (weights.n_rows + BLOCK - 1) // BLOCK
    cdef int32_t n_classes = steps.shape[1]
    cdef int64_t total = 0
    cdef float64_t largest = -INFINITY
    cdef float64_t* of_block = <float64_t*> malloc(n_blocks * sizeof(float64_t))
    if of_block == NULL:
        raise MemoryError("no memory for the largest logarithms")
    for b in prange(n_blocks, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1, schedule="static"):
        of_block[b] = _step(
            &weights, &codes[0], &steps[0, 0], n_classes, b * BLOCK, min((b + 1) * BLOCK, weights.n_rows)
        )
        total += _make_whole(&weights, b * BLOCK, min((b + 1) * BLOCK, weights.n_rows))
    for b in range(n_blocks):
        largest = max(largest, of_block[b])
    free(of_block)
    return total, largest


def class_sums(
    const code_t[::1] cells, const uint16_t[::1] classes, const int64_t[::1] weights, int64_t[:, ::1] sums
):
    """Add the weight of each row to the sum of its cell and class."""
    cdef Py_ssize_t i
    if not cells.shape[0] == classes.shape[0] == weights.shape[0]:
        raise ValueError("cells, classes and weights must have the same length")
    with nogil:
        for i in range(cells.shape[0]):
            sums[cells[i], classes[i]] += weights[i]
