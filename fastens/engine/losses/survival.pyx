"""Survival analysis: losses and derivatives of Cox's partial likelihood and of accelerated failure times."""

from libc.math cimport INFINITY, fma
from fastens.engine.structs cimport float64_t, int32_t, int64_t
from fastens.engine.thread_pool cimport dynamic_parallel_for


cdef struct Sum:
    # Double-double number: low holds the digits that do not fit in high (Dekker 1971).
    double high
    double low


cdef inline void add_with_remainder(Sum* total, double value, double remainder) noexcept nogil:
    """Add the double-double number value + remainder to the total."""
    cdef double high = total.high + value
    cdef double part = high - total.high
    cdef double low = (total.high - (high - part)) + (value - part) + (total.low + remainder)
    total.high = high + low
    total.low = low - (total.high - high)


cdef inline void add_product(Sum* total, double a, double b) noexcept nogil:
    """Add the exact product of a and b to the total."""
    cdef double product = a * b
    add_with_remainder(total, product, fma(a, b, -product))


cdef inline void add_row(Sum* total, const float64_t[::1] weight, Py_ssize_t row, double value) noexcept nogil:
    """Add value times the weight of a row to the total; if weights are None, add the value."""
    if weight is None:
        add_with_remainder(total, value, 0)
    else:
        add_product(total, weight[row], value)


def risk_sums(
    const int64_t[:] order, const float64_t[:] time, const float64_t[::1] weight, const float64_t[::1] risk,
    float64_t[::1] out,
):
    """Write, for each row, the sum of weight * risk over all rows up to the last one with its time.

    `order` holds the row indices sorted by time, and `time` the times in that order. If weights are None, they are 1.
    """
    cdef Sum total = Sum(0, 0)
    cdef Py_ssize_t i = 0, first, n = order.shape[0]
    with nogil:
        while i < n:
            first = i
            while i < n and time[i] == time[first]:
                add_row(&total, weight, order[i], risk[order[i]])
                i += 1
            for first in range(first, i):
                out[order[first]] = total.high


cdef inline void add_at_rank(float64_t[::1] tree, Py_ssize_t rank, double weight) noexcept nogil:
    """Add a weight at a rank, from 1, of a binary indexed tree of partial sums (Fenwick 1994)."""
    while rank < tree.shape[0]:
        tree[rank] += weight
        rank += rank & -rank


cdef inline double sum_up_to_rank(float64_t[::1] tree, Py_ssize_t rank) noexcept nogil:
    """Return the sum of the weights at ranks 1 to `rank` of a binary indexed tree."""
    cdef double total = 0
    while rank > 0:
        total += tree[rank]
        rank -= rank & -rank
    return total


def ordered_pairs(
    const int64_t[::1] later_rank, const float64_t[::1] later_weight, const int64_t[::1] n_later,
    const int64_t[::1] rank, const float64_t[::1] weight, float64_t[::1] tree, float64_t[::1] out,
):
    """Add the weights of pairs with discordant, tied and concordant ranks to `out`, an array of 3 zeros.

    Row `i` of `rank` and `weight` precedes the first `n_later[i]` rows of `later_rank` and `later_weight` with
    certainty. `n_later` must be ascending, ranks start at 1, and `tree` must hold one zero more than there are ranks.
    """
    cdef Py_ssize_t i, entered = 0
    cdef double total = 0, below, through
    with nogil:
        for i in range(rank.shape[0]):
            while entered < n_later[i]:
                add_at_rank(tree, later_rank[entered], later_weight[entered])
                total += later_weight[entered]
                entered += 1
            below = sum_up_to_rank(tree, rank[i] - 1)
            through = sum_up_to_rank(tree, rank[i])
            out[0] += weight[i] * below
            out[1] += weight[i] * (through - below)
            out[2] += weight[i] * (total - through)


cdef extern from "engine/losses/aft_loops.h" nogil:
    ctypedef void (*aft_loop)(
        const double* low, const double* high, const double* width, Py_ssize_t n, double* first, double* second
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
    BLOCK = 256     # rows of a block, so that temporaries stay in the L1 cache

cdef double SMALLEST_SECOND = 1e-16     # lower bound, so that every row has curvature

DISTRIBUTIONS = {"normal": 0, "logistic": 1, "extreme": 2}

cdef struct Rows:
    const float64_t* y      # pairs of bounds
    const float64_t* raw
    double scale
    const aft_loops* loops
    Py_ssize_t n_rows
    # Output: derivatives, or minus the log likelihoods if there is no buffer for derivatives.
    float64_t* g
    float64_t* h
    float64_t* out


cdef _process_rows(const Rows* rows, int n_threads):
    """Write derivatives of all rows to `rows.g` and `rows.h` or, if `g` is NULL, losses to `rows.out`, in parallel."""
    with nogil:
        dynamic_parallel_for(_process_block, <void*> rows, (rows.n_rows + BLOCK - 1) // BLOCK, n_threads)


cdef void _process_block(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Write derivatives of one block of rows to `rows.g` and `rows.h` or, if `g` is NULL, losses to `rows.out`."""
    cdef const Rows* rows = <const Rows*> job
    cdef Py_ssize_t first = block * BLOCK, n = min(BLOCK, rows.n_rows - first)
    if rows.g == NULL:
        _write_block_losses(rows, first, n, rows.out + first)
    else:
        _write_block_derivatives(rows, first, n, rows.g + first, rows.h + first)


cdef Py_ssize_t _select_upper_bounded(const double* y, Py_ssize_t n, int32_t* rows) noexcept nogil:
    """Write the indices of the rows that are censored with a finite upper bound to `rows`; return their number."""
    cdef Py_ssize_t i, n_selected = 0
    for i in range(n):
        rows[n_selected] = <int32_t> i
        n_selected += (y[2 * i] < y[2 * i + 1]) & (y[2 * i + 1] < INFINITY)
    return n_selected


cdef void _evaluate(const Rows* rows, Py_ssize_t start, Py_ssize_t n, double* first, double* second) noexcept nogil:
    """Write the outputs of `rows.loops`, derivatives or losses, for n rows from `start` on to `first` and `second`."""
    # All rows are first evaluated without their upper bounds in a vectorised loop; the rows with upper bounds are then
    # gathered and evaluated again.
    cdef double[BLOCK] low
    cdef double[BLOCK] high
    cdef double[BLOCK] width
    cdef double[BLOCK] some_first
    cdef double[BLOCK] some_second
    cdef int32_t[BLOCK] some
    cdef const double* y = rows.y + 2 * start
    cdef const double* raw = rows.raw + start
    cdef Py_ssize_t i, n_some = _select_upper_bounded(y, n, some)
    if n_some < n:
        lower_bounds(y, raw, rows.scale, n, low, width)
        rows.loops.at(low, low, width, n, first, second)
    if n_some > 0:
        both_bounds(y, raw, some, rows.scale, n_some, low, high, width)
        rows.loops.between(low, high, width, n_some, some_first, some_second)
        for i in range(n_some):
            first[some[i]] = some_first[i]
            second[some[i]] = some_second[i]


cdef void _write_block_derivatives(
    const Rows* rows, Py_ssize_t first, Py_ssize_t n, float64_t* g, float64_t* h
) noexcept nogil:
    """Write the first and second derivatives of n rows from index `first` on to `g` and `h`."""
    cdef double[BLOCK] slope
    cdef double[BLOCK] bend
    cdef double by = 1.0 / rows.scale, by_square = by * by
    cdef Py_ssize_t i
    _evaluate(rows, first, n, slope, bend)
    for i in range(n):
        g[i] = slope[i] * by
        h[i] = max(bend[i] * by_square, SMALLEST_SECOND)


def derivatives(
    int distribution, double scale, const float64_t[:, ::1] y, const float64_t[::1] raw, float64_t[::1] g,
    float64_t[::1] h, int n_threads,
):
    """Write the first and second derivatives of each row's loss with respect to `raw` to `g` and `h`.

    `distribution` is a code of `DISTRIBUTIONS`, `scale` is the scale of the log times, and `y` holds the lower and
    upper bounds of the times, shape (n_rows, 2).
    """
    cdef Rows rows
    if raw.shape[0] > 0:
        rows = Rows(
            &y[0, 0], &raw[0], scale, AFT_DERIVATIVES + distribution, raw.shape[0], &g[0], &h[0], NULL
        )
        _process_rows(&rows, n_threads)


cdef void _write_block_losses(const Rows* rows, Py_ssize_t first, Py_ssize_t n, double* out) noexcept nogil:
    """Write minus the log likelihood of n rows from index `first` on to `out`."""
    # The density of an event is with respect to time, not to the standardised error.
    cdef double[BLOCK] unused
    cdef const double* y = rows.y + 2 * first
    cdef Py_ssize_t i
    _evaluate(rows, first, n, out, unused)
    for i in range(n):
        if y[2 * i] == y[2 * i + 1]:
            out[i] += log_of(rows.scale * y[2 * i])


def row_losses(
    int distribution, double scale, const float64_t[:, ::1] y, const float64_t[::1] raw, float64_t[::1] out,
    int n_threads,
):
    """Write minus the log likelihood of each row to `out`, shape (n_rows,); parameters are as in `derivatives`."""
    cdef Rows rows
    if raw.shape[0] > 0:
        rows = Rows(
            &y[0, 0], &raw[0], scale, AFT_LOSSES + distribution, raw.shape[0], NULL, NULL, &out[0]
        )
        _process_rows(&rows, n_threads)
