"""Accelerated failure times: the loss of each row, and its derivatives, whatever is known of its time.

Rows are done in blocks of fixed size, so nothing depends on the number of threads.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from fastens.engine.structs cimport float32_t, float64_t
from fastens.engine.team cimport share_pieces


cdef extern from "engine/losses/aft_loops.h" nogil:
    ctypedef void (*aft_loop)(
        const double* low, const double* high, const double* width, Py_ssize_t n, double* found, double* second
    ) noexcept nogil
    ctypedef struct aft_loops:
        aft_loop at
        aft_loop between
    const aft_loops* AFT_LOSSES
    const aft_loops* AFT_DERIVATIVES
    void lower_bounds(
        const double* y, const double* raw, double scale, Py_ssize_t n, double* low, double* width
    ) noexcept
    void both_bounds(
        const double* y, const double* raw, const int32_t* rows, double scale, Py_ssize_t n,
        double* low, double* high, double* width
    ) noexcept
    double log_of(double x) noexcept


cdef enum:
    BLOCK = 256     # rows: what is computed for them stays in the first-level cache

cdef double SMALLEST_SECOND = 1e-16     # no row is without curvature

DISTRIBUTIONS = {"normal": 0, "logistic": 1, "extreme": 2}

ctypedef fused real_t:
    float32_t
    float64_t


cdef struct Rows:
    const float64_t* y      # pairs of bounds
    const float64_t* raw
    double scale
    const aft_loops* loops
    Py_ssize_t n_rows
    # what is written: derivatives, or where there is no place for them, minus the log likelihoods
    void* g
    void* h
    bint is_double
    float64_t* out


cdef _do_all(const Rows* rows, int n_threads):
    """Write the derivatives or losses of all rows, block by block."""
    with nogil:
        share_pieces(_do_block, <void*> rows, (rows.n_rows + BLOCK - 1) // BLOCK, n_threads)


cdef void _do_block(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    cdef const Rows* rows = <const Rows*> job
    cdef Py_ssize_t first = block * BLOCK, n = min(BLOCK, rows.n_rows - first)
    if rows.g == NULL:
        _losses_of_block(rows, first, n, rows.out + first)
    elif rows.is_double:
        _derivatives_of_block(rows, first, n, <float64_t*> rows.g + first, <float64_t*> rows.h + first)
    else:
        _derivatives_of_block(rows, first, n, <float32_t*> rows.g + first, <float32_t*> rows.h + first)


cdef Py_ssize_t _with_upper_bound(const double* y, Py_ssize_t n, int32_t* rows) noexcept nogil:
    # Rows of which more is known than that they are at, or above, their lower bound
    cdef Py_ssize_t i, n_found = 0
    for i in range(n):
        rows[n_found] = <int32_t> i
        n_found += (y[2 * i] < y[2 * i + 1]) & (y[2 * i + 1] < INFINITY)
    return n_found


cdef void _of_block(const Rows* rows, Py_ssize_t first, Py_ssize_t n, double* found, double* second) noexcept nogil:
    # All as if they had no upper bound, vectorised; then again, gathered, those that have one.
    cdef double[BLOCK] low
    cdef double[BLOCK] high
    cdef double[BLOCK] width
    cdef double[BLOCK] some_found
    cdef double[BLOCK] some_second
    cdef int32_t[BLOCK] some
    cdef const double* y = rows.y + 2 * first
    cdef const double* raw = rows.raw + first
    cdef Py_ssize_t i, n_some = _with_upper_bound(y, n, some)
    if n_some < n:
        lower_bounds(y, raw, rows.scale, n, low, width)
        rows.loops.at(low, low, width, n, found, second)
    if n_some > 0:
        both_bounds(y, raw, some, rows.scale, n_some, low, high, width)
        rows.loops.between(low, high, width, n_some, some_found, some_second)
        for i in range(n_some):
            found[some[i]] = some_found[i]
            second[some[i]] = some_second[i]


cdef void _derivatives_of_block(
    const Rows* rows, Py_ssize_t first, Py_ssize_t n, real_t* g, real_t* h
) noexcept nogil:
    cdef double[BLOCK] slope
    cdef double[BLOCK] bend
    cdef double by = 1.0 / rows.scale, by_square = by * by
    cdef Py_ssize_t i
    _of_block(rows, first, n, slope, bend)
    for i in range(n):
        g[i] = <real_t> (slope[i] * by)
        h[i] = <real_t> max(bend[i] * by_square, SMALLEST_SECOND)


def derivatives(
    int distribution, double scale, const float64_t[:, ::1] y, const float64_t[::1] raw, real_t[::1] g, real_t[::1] h,
    int n_threads,
):
    """Write the first and second derivatives by `raw` of each row's loss."""
    cdef Rows rows
    if raw.shape[0] > 0:
        rows = Rows(
            &y[0, 0], &raw[0], scale, AFT_DERIVATIVES + distribution, raw.shape[0], &g[0], &h[0],
            sizeof(real_t) == sizeof(float64_t), NULL
        )
        _do_all(&rows, n_threads)


cdef void _losses_of_block(const Rows* rows, Py_ssize_t first, Py_ssize_t n, double* out) noexcept nogil:
    # An event's density is by the time itself, not by the error.
    cdef double[BLOCK] unused
    cdef const double* y = rows.y + 2 * first
    cdef Py_ssize_t i
    _of_block(rows, first, n, out, unused)
    for i in range(n):
        if y[2 * i] == y[2 * i + 1]:
            out[i] += log_of(rows.scale * y[2 * i])


def row_losses(
    int distribution, double scale, const float64_t[:, ::1] y, const float64_t[::1] raw, float64_t[::1] out,
    int n_threads,
):
    """Write minus the log likelihood of each row."""
    cdef Rows rows
    if raw.shape[0] > 0:
        rows = Rows(
            &y[0, 0], &raw[0], scale, AFT_LOSSES + distribution, raw.shape[0], NULL, NULL, False, &out[0]
        )
        _do_all(&rows, n_threads)
