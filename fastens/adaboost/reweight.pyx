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


cdef inline float64_t _add_steps(
    const Weights* weights, const code_t* codes, const float64_t* steps, int32_t n_classes, Py_ssize_t begin,
    Py_ssize_t end,
) noexcept nogil:
    """Add steps[code, class] to the log weights of rows begin .. end - 1, and return the largest of these."""
    cdef float64_t largest = -INFINITY
    cdef Py_ssize_t i
    for i in range(begin, end):
        weights.logs[i] += steps[<Py_ssize_t> codes[i] * n_classes + weights.classes[i]]
        largest = weights.logs[i] if weights.logs[i] > largest else largest
    return largest


cdef inline int64_t _make_whole(const Weights* weights, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Write the integer weights of rows begin .. end - 1 from their log weights, and return their sum."""
    cdef int64_t total = 0
    cdef Py_ssize_t i
    whole_exp(weights.logs + begin, weights.shift, weights.scale, end - begin, weights.whole + begin)
    if weights.copies != NULL:
        for i in range(begin, end):
            weights.whole[i] *= weights.copies[i]
    for i in range(begin, end):
        total += weights.whole[i]
    return total


cdef Weights _view_weights(
    float64_t[::1] logs, const uint16_t[::1] classes, const int64_t[::1] copies, int64_t[::1] whole, double shift,
    double scale
) except *:
    """Return the struct that points to these arrays; raise ValueError if their lengths differ."""
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


cdef void _reset_totals(Round* current) noexcept nogil:
    """Set each thread's sum of integer weights to 0, and its largest log weight to minus infinity."""
    cdef int32_t t
    for t in range(MAX_THREADS):
        current.total[t], current.largest[t] = 0, -INFINITY


cdef int64_t _update_rows(Round* current, int32_t n_threads) noexcept nogil:
    """Update the weights of all rows in parallel, and return the sum of the integer weights."""
    cdef int64_t total = 0
    cdef int32_t t
    dynamic_parallel_for(_update_block, current, (current.weights.n_rows + BLOCK - 1) // BLOCK, n_threads)
    for t in range(MAX_THREADS):
        total += current.total[t]
    return total


cdef void _update_block(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Update the weights of block number `block` of `job`, a Round, and the thread's sum and largest log weight."""
    cdef Round* current = <Round*> job
    cdef const Weights* weights = &current.weights
    cdef Py_ssize_t begin = block * BLOCK, end = min((block + 1) * BLOCK, weights.n_rows)
    cdef float64_t largest = -INFINITY
    if current.codes != NULL and current.code_size == 1:
        largest = _add_steps(weights, <const uint8_t*> current.codes, current.steps, current.n_classes, begin, end)
    elif current.codes != NULL:
        largest = _add_steps(weights, <const uint16_t*> current.codes, current.steps, current.n_classes, begin, end)
    current.largest[thread] = max(current.largest[thread], largest)
    current.total[thread] += _make_whole(weights, begin, end)


def make_whole(
    float64_t[::1] logs, const uint16_t[::1] classes, const int64_t[::1] copies, int64_t[::1] whole, double shift,
    double scale, int n_threads
):
    """Write exp(logs - shift) * scale, rounded, times the number of copies, to `whole`; return the sum."""
    cdef Round current
    cdef int64_t total
    current.weights, current.codes = _view_weights(logs, classes, copies, whole, shift, scale), NULL
    with nogil:
        _reset_totals(&current)
        total = _update_rows(&current, n_threads)
    return total


def advance(
    float64_t[::1] logs, const uint16_t[::1] classes, const int64_t[::1] copies, int64_t[::1] whole, double shift,
    double scale, const code_t[::1] codes, const float64_t[:, ::1] steps, int n_threads
):
    """Add steps[code of the row, class of the row] to the log weights, then write them to `whole` as `make_whole` does.

    `shift` is at least the largest new logarithm.

    Returns
    -------
    total, largest : the sum of the weights, and the largest logarithm
    """
    cdef Round current
    cdef int64_t total
    cdef float64_t largest = -INFINITY
    cdef int32_t t
    current.weights = _view_weights(logs, classes, copies, whole, shift, scale)
    current.codes, current.code_size = &codes[0], sizeof(code_t)
    current.steps, current.n_classes = &steps[0, 0], steps.shape[1]
    with nogil:
        _reset_totals(&current)
        total = _update_rows(&current, n_threads)
    for t in range(MAX_THREADS):
        largest = max(largest, current.largest[t])
    return total, largest


def class_sums(
    const code_t[::1] cells, const uint16_t[::1] classes, const int64_t[::1] weights, int64_t[:, ::1] sums
):
    """Add each row's weight to ``sums[cell, class]`` of the row, in place; raise ValueError if lengths differ."""
    cdef Py_ssize_t i
    if not cells.shape[0] == classes.shape[0] == weights.shape[0]:
        raise ValueError("cells, classes and weights must have the same length")
    with nogil:
        for i in range(cells.shape[0]):
            sums[cells[i], classes[i]] += weights[i]
