"""Row weights of AdaBoost: log weights are updated by class and cell, then exponentiated and rounded to integers.

Rows are processed in blocks of fixed size and sums are integer sums, so results do not depend on the number of threads.
"""

from libc.math cimport INFINITY

from fastens.engine.structs cimport code_t, float64_t, int32_t, int64_t, uint8_t, uint16_t
from fastens.engine.thread_pool cimport MAX_THREADS, dynamic_parallel_for


cdef extern from "adaboost/reweight_loops.h" nogil:
    void whole_exp(const double* logs, double shift, double scale, Py_ssize_t n, int64_t* out) noexcept

cdef enum:
    BLOCK = 1024        # rows of a block, so that their logarithms stay in the L1 cache


cdef struct Weights:
    float64_t* logs
    const uint16_t* classes
    const int64_t* copies       # if NULL, each row counts once
    int64_t* whole
    Py_ssize_t n_rows
    float64_t shift
    float64_t scale


cdef inline float64_t _step(
    const Weights* weights, const code_t* codes, const float64_t* steps, int32_t n_classes, Py_ssize_t begin,
    Py_ssize_t end,
) noexcept nogil:
    """Update the logarithms of a block, and return the largest one."""
    cdef float64_t largest = -INFINITY
    cdef Py_ssize_t i
    for i in range(begin, end):
        weights.logs[i] += steps[<Py_ssize_t> codes[i] * n_classes + weights.classes[i]]
        largest = weights.logs[i] if weights.logs[i] > largest else largest
    return largest


cdef inline int64_t _make_whole(const Weights* weights, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Write the integer weights of a block, and return their sum."""
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
    if not logs.shape[0] == classes.shape[0] == whole.shape[0]:
        raise ValueError("logs, classes and whole must have the same length")
    weights.logs, weights.classes, weights.whole = &logs[0], &classes[0], &whole[0]
    weights.copies = &copies[0] if copies is not None else NULL
    weights.n_rows, weights.shift, weights.scale = logs.shape[0], shift, scale
    return weights


cdef struct Round:
    Weights weights
    const void* codes           # if NULL, logarithms are not updated
    int32_t code_size
    const float64_t* steps
    int32_t n_classes
    int64_t total[MAX_THREADS]
    float64_t largest[MAX_THREADS]


cdef void _begin(Round* over) noexcept nogil:
    cdef int32_t t
    for t in range(MAX_THREADS):
        over.total[t], over.largest[t] = 0, -INFINITY


cdef int64_t _run(Round* over, int32_t n_threads) noexcept nogil:
    """Process all blocks, and return the sum of the weights."""
    cdef int64_t total = 0
    cdef int32_t t
    dynamic_parallel_for(_do_block, over, (over.weights.n_rows + BLOCK - 1) // BLOCK, n_threads)
    for t in range(MAX_THREADS):
        total += over.total[t]
    return total


cdef void _do_block(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    cdef Round* over = <Round*> job
    cdef const Weights* weights = &over.weights
    cdef Py_ssize_t begin = block * BLOCK, end = min((block + 1) * BLOCK, weights.n_rows)
    cdef float64_t largest = -INFINITY
    if over.codes != NULL and over.code_size == 1:
        largest = _step(weights, <const uint8_t*> over.codes, over.steps, over.n_classes, begin, end)
    elif over.codes != NULL:
        largest = _step(weights, <const uint16_t*> over.codes, over.steps, over.n_classes, begin, end)
    over.largest[thread] = max(over.largest[thread], largest)
    over.total[thread] += _make_whole(weights, begin, end)


def make_whole(
    float64_t[::1] logs, const uint16_t[::1] classes, const int64_t[::1] copies, int64_t[::1] whole, double shift,
    double scale, int n_threads
):
    """Write exp(logs - shift) * scale, rounded, times the number of copies; return the sum."""
    cdef Round over
    cdef int64_t total
    over.weights, over.codes = _weights(logs, classes, copies, whole, shift, scale), NULL
    with nogil:
        _begin(&over)
        total = _run(&over, n_threads)
    return total


def advance(
    float64_t[::1] logs, const uint16_t[::1] classes, const int64_t[::1] copies, int64_t[::1] whole, double shift,
    double scale, const code_t[::1] codes, const float64_t[:, ::1] steps, int n_threads
):
    """Add steps[code of the row, class of the row] to the logarithms, then call `make_whole`.

    `shift` is at least the largest new logarithm.

    Returns
    -------
    total, largest : the sum of the weights, and the largest logarithm
    """
    cdef Round over
    cdef int64_t total
    cdef float64_t largest = -INFINITY
    cdef int32_t t
    over.weights = _weights(logs, classes, copies, whole, shift, scale)
    over.codes, over.code_size = &codes[0], sizeof(code_t)
    over.steps, over.n_classes = &steps[0, 0], steps.shape[1]
    with nogil:
        _begin(&over)
        total = _run(&over, n_threads)
    for t in range(MAX_THREADS):
        largest = max(largest, over.largest[t])
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
