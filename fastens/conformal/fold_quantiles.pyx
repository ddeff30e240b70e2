"""Conformal quantiles over folds of the sums of a fold's prediction and the scores of its held-out rows."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
import numpy as np

from fastens.engine.thread_pool cimport dynamic_parallel_for

cdef enum:
    ROW_BLOCK = 64


cdef struct Folds:
    const double* values            # scores, concatenated over folds and ascending within each fold
    const double* upto              # for each fold, the weight before each score, followed by the total weight
    const int64_t* starts           # offset of each fold among the scores, followed by the number of scores
    Py_ssize_t n_folds


cdef inline int64_t limit_index(
    const double* values, int64_t first, int64_t last, double center, double scale, double limit, bint is_strict
) noexcept nogil:
    """Return the first index i from `first` to `last` - 1 with center + scale * values[i] >= limit, or else `last`.

    If `is_strict`, the comparison is > instead of >=. The values are ascending.
    """
    cdef int64_t middle
    cdef double reached
    while first < last:
        middle = (first + last) // 2
        reached = center + scale * values[middle]
        if reached < limit or (is_strict and reached == limit):
            first = middle + 1
        else:
            last = middle
    return first


cdef inline Py_ssize_t widest(const int64_t* low, const int64_t* high, Py_ssize_t n) noexcept nogil:
    """Return the k below n with the largest high[k] - low[k]; ties go to the first."""
    cdef Py_ssize_t k, found = 0
    for k in range(1, n):
        if high[k] - low[k] > high[found] - low[found]:
            found = k
    return found


cdef double upper_end(
    const Folds* folds, const double* centers, const double* scales, double needed, int64_t* work
) noexcept nogil:
    """Return the smallest center + scale * score, over the scores of all folds, with enough weight at or below it.

    Enough is a weight of at least `needed`; if the total is smaller, the result is infinite. `centers` and `scales`
    are the row's values by fold, and `work` is a buffer of 3 * n_folds integers.
    """
    # Sums before `low` are too small, and sums from `high` on are not smaller than the best sum so far. The sums in
    # between are tried until none is left.
    cdef Py_ssize_t n = folds.n_folds, k, tried
    cdef int64_t* low = work
    cdef int64_t* high = work + n
    cdef int64_t* place = work + 2 * n
    cdef const double* values
    cdef int64_t middle
    cdef double end, weight, best = INFINITY
    for k in range(n):
        low[k], high[k] = 0, folds.starts[k + 1] - folds.starts[k]
    while True:
        tried = widest(low, high, n)
        if high[tried] <= low[tried]:
            return best
        middle = (low[tried] + high[tried]) // 2
        end = centers[tried] + scales[tried] * folds.values[folds.starts[tried] + middle]
        weight = 0
        for k in range(n):
            values = folds.values + folds.starts[k]
            place[k] = limit_index(values, low[k], high[k], centers[k], scales[k], end, True)
            weight = weight + folds.upto[folds.starts[k] + k + place[k]]
        if weight < needed:
            for k in range(n):
                low[k] = place[k]
            low[tried] = max(low[tried], middle + 1)  # guarantees progress if a centre is NaN
        else:
            best = end
            for k in range(n):
                values = folds.values + folds.starts[k]
                high[k] = limit_index(values, low[k], place[k], centers[k], scales[k], end, False)
            high[tried] = min(high[tried], middle)


cdef struct Ends:
    # Inputs and output of the job; each thread has its own part of `work`.
    const Folds* folds
    const double* centers
    const double* scales
    const double* needed
    int64_t* work
    Py_ssize_t size
    Py_ssize_t n_rows
    double* out


cdef void ends_of_block(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Write the upper ends of the rows of a block to `out` of the job, an `Ends`; `thread` selects its buffer."""
    cdef const Ends* ends = <const Ends*> job
    cdef Py_ssize_t i, at
    for i in range(block * ROW_BLOCK, min((block + 1) * ROW_BLOCK, ends.n_rows)):
        at = i * ends.folds.n_folds
        ends.out[i] = upper_end(
            ends.folds, ends.centers + at, ends.scales + at, ends.needed[i], ends.work + thread * ends.size
        )


def upper_ends(
    const double[::1] values, const double[::1] upto, const int64_t[::1] starts, const double[:, ::1] centers,
    const double[:, ::1] scales, const double[::1] needed, double[::1] out, int n_threads,
):
    """Write for each row the smallest center + scale * score with enough weight, over the scores of all folds.

    Parameters
    ----------
    values : array of shape (n_scores,)
        Scores, concatenated over folds and ascending within each fold.
    upto : array of shape (n_scores + n_folds,)
        For each fold, the weight before each of its scores, followed by their total weight.
    starts : array of shape (n_folds + 1,)
        Offset of each fold among the scores, followed by the number of scores.
    centers, scales : arrays of shape (n_rows, n_folds)
        Center and scale of each row by fold. Scales are positive.
    needed : array of shape (n_rows,)
        Weight required at or below the sum of each row. If all scores together have less, the result is infinite.
    out : array of shape (n_rows,)
        Output.
    n_threads : int
        Number of threads.
    """
    cdef Py_ssize_t n_folds = starts.shape[0] - 1, size = 3 * n_folds + 8  # threads are a cache line apart
    cdef Folds folds
    cdef Ends ends
    cdef int64_t[::1] work = np.empty(n_threads * size, dtype=np.int64)
    if values.shape[0] and centers.shape[0]:
        folds.values, folds.upto, folds.starts, folds.n_folds = &values[0], &upto[0], &starts[0], n_folds
        ends = Ends(&folds, &centers[0, 0], &scales[0, 0], &needed[0], &work[0], size, centers.shape[0], &out[0])
        with nogil:
            dynamic_parallel_for(ends_of_block, &ends, (ends.n_rows + ROW_BLOCK - 1) // ROW_BLOCK, n_threads)
    else:
        out[:] = INFINITY
