"""Losses: gradients, hessians and per-row losses, exact weighted sums and quantiles, and class probabilities.

Rows are processed in blocks of fixed size, so results do not depend on the number of threads.
"""

from libc.math cimport fabs, ldexp, llrint
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

from fastens.engine.structs cimport float32_t, float64_t, int32_t, uint8_t
from fastens.engine.thread_pool cimport FEW_ROWS, dynamic_parallel_for


cdef extern from "engine/losses/loss_loops.h" nogil:
    void binary_gradients(const double* y, const double* raw, Py_ssize_t n, float* g, float* h) noexcept
    void binary_losses(const double* y, const double* raw, Py_ssize_t n, double* out) noexcept
    void poisson_gradients(const double* y, const double* raw, Py_ssize_t n, float* g, float* h) noexcept
    void gamma_gradients(const double* y, const double* raw, Py_ssize_t n, float* g, float* h) noexcept
    double exp_of(double x) noexcept
    void probability_pairs(const double* raw, Py_ssize_t n, double* out) noexcept
    void largest_bits(const double* values, Py_ssize_t n, int64_t* result) noexcept
    void exp_values(const double* x, Py_ssize_t n, double* out) noexcept
    enum:
        CLASS_BLOCK         # rows of a block in multiclass losses
    void softmax_gradients(
        const double* y, const double* raw, Py_ssize_t stride, Py_ssize_t n_classes, Py_ssize_t n, float* g, float* h
    ) noexcept
    void softmax_losses(
        const double* y, const double* raw, Py_ssize_t stride, Py_ssize_t n_classes, Py_ssize_t n, double* out
    ) noexcept


cdef enum:
    SQUARED_ERROR = 0
    ABSOLUTE_ERROR = 1
    QUANTILE = 2
    HUBER = 3
    POISSON = 4
    GAMMA = 5
    BINARY_LOG_LOSS = 6
    MULTICLASS_LOG_LOSS = 7

cdef enum:
    BLOCK = 1024        # rows; y, raw, g and h of a block stay in the L1 cache
    LIMB = 31           # bits

cdef double FIXED_ONE = 2305843009213693952.0   # 2**61
cdef double SMALLEST_LIMIT = 1e-280             # keeps FIXED_ONE / limit finite

LOSS_CODES = {
    "squared_error": SQUARED_ERROR,
    "absolute_error": ABSOLUTE_ERROR,
    "quantile": QUANTILE,
    "huber": HUBER,
    "poisson": POISSON,
    "gamma": GAMMA,
    "binary_log_loss": BINARY_LOG_LOSS,
    "multiclass_log_loss": MULTICLASS_LOG_LOSS,
}


cdef struct Rows:
    # Input of every loss. raw is (n_outputs, n_rows), one output after another.
    int loss
    double parameter        # quantile loss: the level; Huber loss: the residual where the loss becomes linear
    const float64_t* y
    const uint8_t* labels   # class indices instead of y, or NULL
    const float64_t* raw
    Py_ssize_t n_rows
    Py_ssize_t n_outputs
    # Output: derivatives, or the loss of each row if there is no buffer for derivatives.
    float32_t* g
    float32_t* h
    float64_t* out


cdef _set_targets(Rows* rows, const float64_t[::1] y, const uint8_t[::1] labels):
    """Point `rows` to the targets `y`, or to the class indices `labels` if these are not None."""
    if labels is None:
        rows.y = &y[0]
    else:
        rows.labels = &labels[0]


cdef _process_rows(const Rows* rows, int n_threads):
    """Write derivatives of all rows to `rows.g` and `rows.h` or, if `g` is NULL, losses to `rows.out`, in parallel."""
    cdef Py_ssize_t n_blocks = (rows.n_rows + _block_size(rows.loss) - 1) // _block_size(rows.loss)
    if rows.n_rows * rows.n_outputs <= FEW_ROWS:
        dynamic_parallel_for(_process_block, <void*> rows, n_blocks, 1)
    else:
        with nogil:
            dynamic_parallel_for(_process_block, <void*> rows, n_blocks, n_threads)


cdef void _process_block(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Write derivatives of one block of rows to `rows.g` and `rows.h` or, if `g` is NULL, losses to `rows.out`."""
    cdef const Rows* rows = <const Rows*> job
    cdef Py_ssize_t size = _block_size(rows.loss), first = block * size, n = min(size, rows.n_rows - first), i
    cdef double converted[BLOCK]
    cdef const double* y = converted
    if rows.labels == NULL:
        y = rows.y + first
    else:
        for i in range(n):
            converted[i] = rows.labels[first + i]
    if rows.g != NULL:
        _write_block_gradients(rows, y, first, n, rows.g + first, rows.h + first)
    else:
        _write_block_losses(rows, y, first, n, rows.out + first)


# Gradients --------------------------------------------------

cdef void _write_residual_gradients(
    const Rows* rows, const double* y, Py_ssize_t first, Py_ssize_t n, float32_t* g
) noexcept nogil:
    """Write the gradients of n rows from index `first` on, with targets `y`, to `g`, if the hessian is always 1."""
    cdef const double* raw = rows.raw + first
    cdef double parameter = rows.parameter
    cdef double above = 1.0 if rows.loss == ABSOLUTE_ERROR else parameter
    cdef double below = 1.0 if rows.loss == ABSOLUTE_ERROR else 1.0 - parameter
    cdef double residual
    cdef Py_ssize_t i
    if rows.loss == SQUARED_ERROR:
        for i in range(n):
            g[i] = <float32_t> (raw[i] - y[i])
    elif rows.loss == ABSOLUTE_ERROR or rows.loss == QUANTILE:
        for i in range(n):
            residual = y[i] - raw[i]
            g[i] = <float32_t> ((below if residual < 0 else 0.0) - (above if residual > 0 else 0.0))
    else:
        for i in range(n):
            residual = raw[i] - y[i]
            residual = -parameter if residual < -parameter else residual
            g[i] = <float32_t> (parameter if residual > parameter else residual)


cdef void _write_block_gradients(
    const Rows* rows, const double* y, Py_ssize_t first, Py_ssize_t n, float32_t* g, float32_t* h
) noexcept nogil:
    """Write the gradients of n rows from `first` on to `g`, and the hessians to `h` unless they are always 1."""
    if rows.loss == BINARY_LOG_LOSS:
        binary_gradients(y, rows.raw + first, n, g, h)
    elif rows.loss == MULTICLASS_LOG_LOSS:
        softmax_gradients(y, rows.raw + first, rows.n_rows, rows.n_outputs, n, g, h)
    elif rows.loss == POISSON:
        poisson_gradients(y, rows.raw + first, n, g, h)
    elif rows.loss == GAMMA:
        gamma_gradients(y, rows.raw + first, n, g, h)
    else:
        _write_residual_gradients(rows, y, first, n, g)


cdef Py_ssize_t _block_size(int loss) noexcept nogil:
    """Return the number of rows that are processed as one block for a loss code."""
    return CLASS_BLOCK if loss == MULTICLASS_LOG_LOSS else BLOCK


def gradients(
    int loss, double parameter, const float64_t[::1] y, const float64_t[:, ::1] raw, float32_t[:, ::1] g,
    float32_t[:, ::1] h, int n_threads, const uint8_t[::1] labels=None,
):
    """Write gradients `g` and hessians `h` of rows with respect to `raw`, all of shape (n_outputs, n_rows).

    `loss` is a code of `LOSS_CODES`; `parameter` is the level of the quantile loss or the limit of the Huber loss. `h`
    may be None for losses whose hessian is 1, because they do not write it. Class indices may be passed as `labels`
    instead of `y`.
    """
    cdef Rows rows
    if raw.shape[1] > 0:
        rows = Rows(loss, parameter, NULL, NULL, &raw[0, 0], raw.shape[1], raw.shape[0], &g[0, 0], NULL, NULL)
        _set_targets(&rows, y, labels)
        rows.h = rows.g if h is None else &h[0, 0]
        _process_rows(&rows, n_threads)


# The loss of each row --------------------------------------------------

cdef void _write_residual_losses(
    const Rows* rows, const double* y, Py_ssize_t first, Py_ssize_t n, double* out
) noexcept nogil:
    """Write the losses of n rows from index `first` on, whose targets are `y`, to `out`; for losses of y - raw only."""
    cdef const double* raw = rows.raw + first
    cdef double parameter = rows.parameter
    cdef double above = 1.0 if rows.loss == ABSOLUTE_ERROR else parameter
    cdef double below = 1.0 if rows.loss == ABSOLUTE_ERROR else 1.0 - parameter
    cdef double residual
    cdef Py_ssize_t i
    if rows.loss == SQUARED_ERROR:
        for i in range(n):
            residual = y[i] - raw[i]
            out[i] = 0.5 * residual * residual
    elif rows.loss == ABSOLUTE_ERROR or rows.loss == QUANTILE:
        for i in range(n):
            residual = y[i] - raw[i]
            out[i] = (above if residual > 0 else -below) * residual
    else:
        for i in range(n):
            residual = fabs(y[i] - raw[i])
            out[i] = 0.5 * residual * residual if residual <= parameter else parameter * (residual - 0.5 * parameter)


cdef void _write_block_losses(
    const Rows* rows, const double* y, Py_ssize_t first, Py_ssize_t n, double* out
) noexcept nogil:
    """Write the losses of n rows from index `first` on, whose targets are `y`, to `out`."""
    cdef const double* raw = rows.raw + first
    cdef Py_ssize_t i
    if rows.loss == BINARY_LOG_LOSS:
        binary_losses(y, raw, n, out)
    elif rows.loss == MULTICLASS_LOG_LOSS:
        softmax_losses(y, raw, rows.n_rows, rows.n_outputs, n, out)
    elif rows.loss == POISSON:
        exp_values(raw, n, out)
        for i in range(n):
            out[i] -= y[i] * raw[i]
    elif rows.loss == GAMMA:
        for i in range(n):
            out[i] = -raw[i]
        exp_values(out, n, out)
        for i in range(n):
            out[i] = raw[i] + y[i] * out[i]
    else:
        _write_residual_losses(rows, y, first, n, out)


def row_losses(
    int loss, double parameter, const float64_t[::1] y, const float64_t[:, ::1] raw, float64_t[::1] out, int n_threads,
    const uint8_t[::1] labels=None,
):
    """Write the loss of each row to `out`, shape (n_rows,); the other parameters are as in `gradients`."""
    cdef Rows rows
    if raw.shape[1] > 0:
        rows = Rows(loss, parameter, NULL, NULL, &raw[0, 0], raw.shape[1], raw.shape[0], NULL, NULL, &out[0])
        _set_targets(&rows, y, labels)
        _process_rows(&rows, n_threads)


# Exact sums --------------------------------------------------

cdef struct WideSum:
    # sum = (high << 62) + (middle << 31) + low, each a sum of terms below 2**31: exact for 2**32 rows
    int64_t high
    int64_t middle
    int64_t low
    int64_t weight


cdef inline void _add_product(WideSum* total, int64_t weight, int64_t value) noexcept nogil:
    """Add weight * value exactly, and the weight to the total weight; weight < 2**31 and |value| < 2**62."""
    cdef int64_t mask = (<int64_t> 1 << LIMB) - 1
    cdef int64_t high = weight * (value >> LIMB)
    cdef int64_t low = weight * (value & mask)
    total.high += high >> LIMB
    total.middle += (high & mask) + (low >> LIMB)
    total.low += low & mask
    total.weight += weight


cdef WideSum _weighted_sum(
    const float64_t* values, const float64_t* weights, Py_ssize_t n, double value_scale, double weight_scale
) noexcept nogil:
    """Return the exact sum of weight * value after scaling and rounding both; if weights are NULL, they are 1."""
    cdef WideSum total = WideSum(0, 0, 0, 0)
    cdef int64_t value, mask = (<int64_t> 1 << LIMB) - 1
    cdef Py_ssize_t i
    if weights == NULL:
        for i in range(n):
            value = llrint(values[i] * value_scale)
            total.middle += value >> LIMB
            total.low += value & mask
        total.weight = n
    else:
        for i in range(n):
            _add_product(&total, llrint(weights[i] * weight_scale), llrint(values[i] * value_scale))
    return total


def weighted_sum(const float64_t[::1] values, const float64_t[::1] weights, double value_scale, double weight_scale):
    """Return the weighted sum of the values and the sum of the weights, as integers.

    Values and weights are multiplied by their scales, powers of two, and rounded to integers below 2**62 and 2**31. All
    further arithmetic is exact, so row order does not matter and integer weights count as copies.
    """
    cdef WideSum total
    cdef const float64_t* weight_data = NULL if weights is None else &weights[0]
    cdef const float64_t* first = &values[0]
    cdef Py_ssize_t n = values.shape[0]
    if n <= FEW_ROWS:
        total = _weighted_sum(first, weight_data, n, value_scale, weight_scale)
    else:
        with nogil:
            total = _weighted_sum(first, weight_data, n, value_scale, weight_scale)
    return (int(total.high) << 2 * LIMB) + (int(total.middle) << LIMB) + int(total.low), int(total.weight)


def largest_magnitude(const float64_t[::1] values):
    """Return the largest absolute value, or NaN if any value is NaN."""
    cdef int64_t bits
    cdef double largest
    largest_bits(&values[0], values.shape[0], &bits)
    memcpy(&largest, &bits, sizeof(double))
    return largest


def class_weights(const float64_t[::1] y, const float64_t[::1] weights, double weight_scale, int64_t[::1] out):
    """Add each row's weight * weight_scale, rounded, to the element of `out` for its class; without weights, add 1."""
    cdef Py_ssize_t i
    cdef int64_t weight = 1
    with nogil:
        for i in range(y.shape[0]):
            if weights is not None:
                weight = llrint(weights[i] * weight_scale)
            out[<Py_ssize_t> y[i]] += weight


# Exact weighted quantiles --------------------------------------------------

cdef inline double _median_of_three(double a, double b, double c) noexcept nogil:
    """Return the median of three numbers."""
    if a < b:
        return b if b < c else (c if a < c else a)
    return a if a < c else (c if b < c else b)


cdef inline void _swap(float64_t* values, int64_t* weights, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Swap elements i and j of both arrays."""
    cdef double value = values[i]
    cdef int64_t weight = weights[i]
    values[i] = values[j]
    weights[i] = weights[j]
    values[j] = value
    weights[j] = weight


cdef double _select_quantile(float64_t* values, int64_t* weights, Py_ssize_t n, double level) noexcept nogil:
    """Return the smallest value with at least the share `level` of the weight at or below it; reorders both arrays.

    Selection by three-way partitioning, [ < pivot | = pivot | > pivot ], continues in the part that holds the result.
    """
    cdef int64_t below = 0, total = 0, weight_less, weight_equal
    cdef Py_ssize_t first = 0, last = n, less, i, greater
    cdef uint32_t random = 12345
    cdef double pivot, needed
    for i in range(n):
        total += weights[i]
    needed = level * <double> total
    while last - first > 1:
        random = random * 1664525u + 1013904223u
        pivot = _median_of_three(values[first], values[first + random % (last - first)], values[last - 1])
        less = first
        i = first
        greater = last
        weight_less = 0
        weight_equal = 0
        while i < greater:
            if values[i] < pivot:
                weight_less += weights[i]
                _swap(values, weights, i, less)
                less += 1
                i += 1
            elif values[i] > pivot:
                greater -= 1
                _swap(values, weights, i, greater)
            else:
                weight_equal += weights[i]
                i += 1
        if <double> (below + weight_less) >= needed and less > first:
            last = less
        elif <double> (below + weight_less + weight_equal) >= needed or greater == last:
            return pivot
        else:
            below += weight_less + weight_equal
            first = greater
    return values[first]


cdef double _clipped_mean(
    const float64_t* values, const int64_t* weights, Py_ssize_t n, double centre, double limit
) noexcept nogil:
    """Return the weighted mean of value - centre, each clipped to [-limit, limit]."""
    cdef WideSum total = WideSum(0, 0, 0, 0)
    cdef double difference, scale = FIXED_ONE / limit
    cdef int64_t mask = (<int64_t> 1 << LIMB) - 1
    cdef Py_ssize_t i
    for i in range(n):
        difference = values[i] - centre
        difference = -limit if difference < -limit else (limit if difference > limit else difference)
        _add_product(&total, weights[i], llrint(difference * scale))
    # Carries are propagated first, so that equal sums have equal limbs in any order of summation.
    total.middle += total.low >> LIMB
    total.low &= mask
    total.high += total.middle >> LIMB
    total.middle &= mask
    return ldexp(<double> total.high + ldexp(<double> ((total.middle << LIMB) + total.low), -2 * LIMB), 1) \
        * limit / <double> total.weight


cdef struct Leaves:
    float64_t* residuals
    int64_t* weights
    const int64_t* starts
    double level
    double limit
    float64_t* out


def leaf_values(
    float64_t[::1] residuals, int64_t[::1] weights, const int64_t[::1] leaf_starts, double level, double limit,
    float64_t[::1] out, int n_threads,
):
    """Write the quantile `level` of each leaf's residuals to `out`; if `limit` is positive, add a clipped mean.

    The clipped mean is the weighted mean of residual - quantile, each difference clipped to [-limit, limit]. The rows
    of leaf `i` run from `leaf_starts[i]` to `leaf_starts[i + 1]`. Residuals and weights are reordered within the
    leaves. The value of an empty leaf is 0.
    """
    cdef Leaves leaves
    if residuals.shape[0] == 0:
        out[:] = 0
        return
    leaves = Leaves(&residuals[0], &weights[0], &leaf_starts[0], level, limit, &out[0])
    with nogil:
        dynamic_parallel_for(_write_leaf_value, &leaves, out.shape[0], n_threads)


cdef void _write_leaf_value(void* job, Py_ssize_t leaf, int32_t thread) noexcept nogil:
    """Write one leaf's quantile of residuals; if the limit is positive, add the mean of clipped distances from it."""
    cdef const Leaves* leaves = <const Leaves*> job
    cdef Py_ssize_t start = leaves.starts[leaf], n = leaves.starts[leaf + 1] - start
    cdef float64_t* values = leaves.residuals + start
    cdef int64_t* weights = leaves.weights + start
    cdef double value = 0
    if n > 0:
        value = _select_quantile(values, weights, n, leaves.level)
        if leaves.limit > SMALLEST_LIMIT:
            value = value + _clipped_mean(values, weights, n, value, leaves.limit)
    leaves.out[leaf] = value


# From raw predictions to the target scale --------------------------------------------------

def means_of_log(const float64_t[::1] raw, float64_t[::1] out):
    """Write exp(raw) of each element to `out`."""
    if raw.shape[0] > 0:
        with nogil:
            exp_values(&raw[0], raw.shape[0], &out[0])


def binary_probabilities(const float64_t[::1] raw, float64_t[:, ::1] out):
    """Write the probabilities of both classes for log odds `raw` to `out`, shape (n_rows, 2)."""
    if raw.shape[0]:
        with nogil:
            probability_pairs(&raw[0], raw.shape[0], &out[0, 0])


def class_probabilities(const float64_t[:, ::1] raw, float64_t[:, ::1] out):
    """Write the softmax of each row of `raw` to `out`, both of shape (n_rows, n_classes)."""
    cdef Py_ssize_t i, k, n_classes = raw.shape[1]
    cdef double largest, total
    with nogil:
        for i in range(raw.shape[0]):
            largest = raw[i, 0]
            for k in range(1, n_classes):
                largest = raw[i, k] if raw[i, k] > largest else largest
            total = 0
            for k in range(n_classes):
                out[i, k] = exp_of(raw[i, k] - largest)
                total += out[i, k]
            for k in range(n_classes):
                out[i, k] /= total
