"""Linear models in the leaves of a tree: normal equations, a Cholesky decomposition each, and what they say to rows.

A leaf measures values from the middle of its range, in halves of it, so that all are between -1 and 1. Products are
rounded to multiples of a power of two that is fine enough, and coarse enough for their sums to be exact: neither the
order of the rows nor the threads matter, and a whole-number weight is, to the bit, so many copies of the row.
"""

from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY, fabs, frexp, isfinite, ldexp, sqrt
from libc.stdlib cimport calloc, free

from .structs cimport float32_t, float64_t, int32_t, int64_t, uint32_t, value_t

cdef enum:
    SUM_BITS = 50           # of a sum, at most, above the unit that products are rounded to
    BLOCK_ROWS = 256        # rows that a thread predicts for at a time

# Shares of the sum of hessians. A feature with less variance, in halves of its range, or with less of it that is not
# that of the features before it, has no slope.
cdef float64_t LEAST_VARIANCE = 1e-12
cdef float64_t LEAST_PIVOT = 1e-10


cdef struct Data:
    const uint32_t* rows
    const float32_t* gradients
    const float32_t* hessians
    const float64_t* weights        # NULL where all are 1
    bint whole                      # the weights are whole numbers
    float64_t l2


cdef struct Row:
    # A row stands for `copies`, each with this gradient and hessian.
    float64_t gradient
    float64_t hessian
    float64_t copies


cdef struct Room:
    # Of one leaf with k features.
    float64_t* value                # k values of a row
    float64_t* lower                # k: the range, then its middle
    float64_t* upper                # k: the range, then half its length
    float64_t* sums                 # k: sums of h z, then the means
    float64_t* moments              # k: sums of g z, then the solution
    float64_t* scale                # k: standard deviations
    float64_t* products             # k x k: sums of h z z, then their Cholesky factor


cdef struct Totals:
    float64_t weight
    float64_t gradient
    float64_t hessian
    float64_t most_gradient
    float64_t most_hessian


cdef Room room_at(float64_t* memory, Py_ssize_t k) noexcept nogil:
    return Room(memory, memory + k, memory + 2 * k, memory + 3 * k, memory + 4 * k, memory + 5 * k, memory + 6 * k)


cdef inline Row row_of(const Data* data, Py_ssize_t row) noexcept nogil:
    cdef Row found = Row(data.gradients[row], data.hessians[row], 1.0)
    if data.weights != NULL:
        if data.whole:
            found.copies = data.weights[row]
        else:
            found.gradient *= data.weights[row]
            found.hessian *= data.weights[row]
    return found


cdef inline bint read_values(
    const value_t[:, :] X, Py_ssize_t row, const int32_t* features, Py_ssize_t k, float64_t* value
) noexcept nogil:
    """Whether a row has all values."""
    cdef Py_ssize_t j
    cdef bint complete = True
    for j in range(k):
        value[j] = X[row, features[j]]
        complete &= isfinite(value[j])
    return complete


cdef Totals measure(
    const value_t[:, :] X, const Data* data, Py_ssize_t first, Py_ssize_t last, const int32_t* features, Py_ssize_t k,
    Room room
) noexcept nogil:
    """The range of each feature, and the size of the derivatives, over complete rows."""
    cdef Py_ssize_t i, j
    cdef Row row
    cdef Totals totals = Totals(0.0, 0.0, 0.0, 0.0, 0.0)
    for j in range(k):
        room.lower[j], room.upper[j] = INFINITY, -INFINITY
    for i in range(first, last):
        if not read_values(X, data.rows[i], features, k, room.value):
            continue
        for j in range(k):
            room.lower[j] = min(room.lower[j], room.value[j])
            room.upper[j] = max(room.upper[j], room.value[j])
        row = row_of(data, data.rows[i])
        totals.weight += row.copies
        totals.most_gradient = max(totals.most_gradient, fabs(row.gradient))
        totals.most_hessian = max(totals.most_hessian, row.hessian)
    return totals


cdef inline float64_t rounder(float64_t bound) noexcept nogil:
    """What, added and taken away again, rounds a number so that sums of such numbers, up to `bound`, are exact."""
    cdef int exponent
    frexp(bound, &exponent)
    return 1.5 * ldexp(1.0, exponent - SUM_BITS + 52)


cdef void accumulate(
    const value_t[:, :] X, const Data* data, Py_ssize_t first, Py_ssize_t last, const int32_t* features, Py_ssize_t k,
    Room room, Totals* totals
) noexcept nogil:
    """The sums of the normal equations over complete rows."""
    cdef Py_ssize_t i, j, m
    cdef Row row
    cdef float64_t of_gradient = rounder(totals.weight * totals.most_gradient)
    cdef float64_t of_hessian = rounder(totals.weight * totals.most_hessian)
    cdef float64_t part
    for i in range(first, last):
        if not read_values(X, data.rows[i], features, k, room.value):
            continue
        row = row_of(data, data.rows[i])
        totals.gradient += row.copies * ((row.gradient + of_gradient) - of_gradient)
        totals.hessian += row.copies * ((row.hessian + of_hessian) - of_hessian)
        for j in range(k):
            room.value[j] = (room.value[j] - room.lower[j]) / room.upper[j]
            room.moments[j] += row.copies * ((row.gradient * room.value[j] + of_gradient) - of_gradient)
            part = row.hessian * room.value[j]
            room.sums[j] += row.copies * ((part + of_hessian) - of_hessian)
            for m in range(j + 1):
                room.products[j * k + m] += row.copies * ((part * room.value[m] + of_hessian) - of_hessian)


cdef void centre(Room room, Py_ssize_t k, const Totals* totals, float64_t l2) noexcept nogil:
    """From sums to the ridge system of features of mean 0 and variance 1; no slope where a feature hardly varies."""
    cdef Py_ssize_t j, m
    cdef float64_t variance
    for j in range(k):
        room.sums[j] /= totals.hessian
        room.moments[j] = totals.gradient * room.sums[j] - room.moments[j]
    for j in range(k):
        for m in range(j + 1):
            room.products[j * k + m] -= totals.hessian * room.sums[j] * room.sums[m]
    for j in range(k):
        variance = room.products[j * k + j] / totals.hessian
        room.scale[j] = sqrt(variance) if variance > LEAST_VARIANCE else 1.0
        room.products[j * k + j] = totals.hessian + l2 if variance > LEAST_VARIANCE else INFINITY
        room.moments[j] /= room.scale[j]
    for j in range(k):
        for m in range(j):
            room.products[j * k + m] /= room.scale[j] * room.scale[m]


cdef void solve(float64_t* a, float64_t* b, Py_ssize_t k, float64_t least) noexcept nogil:
    """Solve a x = b by Cholesky's decomposition, in place; x is 0 where what is left of the diagonal is too small."""
    cdef Py_ssize_t j, i, m
    for j in range(k):
        for i in range(j + 1):
            for m in range(i):
                a[j * k + i] -= a[j * k + m] * a[i * k + m]
            if i < j:
                a[j * k + i] /= a[i * k + i]
        a[j * k + j] = sqrt(a[j * k + j]) if a[j * k + j] > least else INFINITY
        for m in range(j):
            b[j] -= a[j * k + m] * b[m]
        b[j] /= a[j * k + j]
    for j in range(k - 1, -1, -1):
        for m in range(j + 1, k):
            b[j] -= a[m * k + j] * b[m]
        b[j] /= a[j * k + j]


cdef float64_t write_slopes(const Room* room, Py_ssize_t k, float64_t* slopes) noexcept nogil:
    """Slopes by the features as they are; returns what they add up to at the mean. None where one is not finite."""
    cdef Py_ssize_t j
    cdef float64_t at_mean = 0.0
    for j in range(k):
        slopes[j] = room.moments[j] / (room.scale[j] * room.upper[j])
        at_mean += slopes[j] * (room.lower[j] + room.upper[j] * room.sums[j])
    if not isfinite(at_mean):
        for j in range(k):
            slopes[j] = 0.0
        return 0.0
    return at_mean


cdef float64_t fit_leaf(
    const value_t[:, :] X, const Data* data, Py_ssize_t first, Py_ssize_t last, const int32_t* features, Py_ssize_t k,
    float64_t* memory, float64_t* slopes
) noexcept nogil:
    cdef Room room = room_at(memory, k)
    cdef Py_ssize_t j
    cdef float64_t half
    cdef Totals totals = measure(X, data, first, last, features, k, room)
    for j in range(k):
        slopes[j] = 0.0
    if totals.most_hessian <= 0:
        return 0.0
    for j in range(k):
        half = 0.5 * room.upper[j] - 0.5 * room.lower[j]
        room.lower[j] = 0.5 * room.upper[j] + 0.5 * room.lower[j]
        room.upper[j] = half if half > 0 else 1.0
        room.sums[j] = room.moments[j] = 0.0
    for j in range(k * k):
        room.products[j] = 0.0
    accumulate(X, data, first, last, features, k, room, &totals)
    if totals.hessian <= 0:
        return 0.0
    centre(room, k, &totals, data.l2)
    solve(room.products, room.moments, k, LEAST_PIVOT * totals.hessian)
    return write_slopes(&room, k, slopes)


def fit_leaves(
    const value_t[:, :] X, const uint32_t[::1] rows, const int64_t[::1] row_starts, const int32_t[::1] features,
    const int64_t[::1] starts, const float32_t[::1] gradients, const float32_t[::1] hessians,
    const float64_t[::1] weights, bint whole, float64_t l2, int n_threads, float64_t[::1] slopes,
    float64_t[::1] centres
):
    """Fit a ridge regression of the second-order objective in each leaf, beside the leaf's value.

    Parameters
    ----------
    X : float32 or float64 array of shape (n_rows, n_features)
        Values; rows without a finite value of each feature of their leaf do not count there.
    rows, row_starts : uint32 and int64 arrays
        Rows, leaf after leaf, and where each leaf begins.
    features, starts : int32 and int64 arrays
        Features, leaf after leaf, and where each leaf begins.
    gradients, hessians : float32 arrays of shape (n_rows,)
        Unweighted.
    weights : float64 array of shape (n_rows,) or None
        Of the rows; `whole` if they are whole numbers whose sum is below 2**31.
    l2 : float
        Added to the sum of hessians on the diagonal, the features having variance 1.
    n_threads : int
        Number of threads.
    slopes, centres : float64 arrays
        Written: the slope of each feature, and of each leaf what its features add up to at their means.
    """
    cdef Py_ssize_t leaf, k, most = 0, n_leaves = centres.shape[0]
    cdef Data data
    data.rows, data.gradients, data.hessians = &rows[0], &gradients[0], &hessians[0]
    data.weights = &weights[0] if weights is not None else NULL
    data.whole, data.l2 = whole, l2
    for leaf in range(n_leaves):
        most = max(most, <Py_ssize_t> (starts[leaf + 1] - starts[leaf]))
    if most == 0:
        return
    cdef Py_ssize_t size = most * (most + 6)
    cdef float64_t* memory = <float64_t*> calloc(n_threads * size, sizeof(float64_t))
    if memory == NULL:
        raise MemoryError(f"no memory for linear models of {most} features")
    for leaf in prange(
        n_leaves, nogil=True, num_threads=n_threads, schedule="dynamic", use_threads_if=n_threads > 1
    ):
        k = starts[leaf + 1] - starts[leaf]
        if k > 0:
            centres[leaf] = fit_leaf(
                X, &data, row_starts[leaf], row_starts[leaf + 1], &features[starts[leaf]], k,
                memory + threadid() * size, &slopes[starts[leaf]]
            )
    free(memory)


cdef struct Model:
    # All trees: `value` and `centres` of each node, and its terms from starts[node] to starts[node + 1].
    const int64_t* offsets
    const int32_t* outputs
    const float64_t* value
    const float64_t* centres
    const int64_t* starts
    const int32_t* features
    const float64_t* slopes


cdef void add_row(
    const Model* model, const value_t[:, :] X, const int32_t[:, :] leaves, Py_ssize_t row, float64_t[:, :] raw
) noexcept nogil:
    cdef Py_ssize_t tree, node, term
    cdef float64_t out
    for tree in range(leaves.shape[1]):
        node = model.offsets[tree] + leaves[row, tree]
        out = model.value[node] - model.centres[node]
        for term in range(model.starts[node], model.starts[node + 1]):
            out += model.slopes[term] * X[row, model.features[term]]
        # Anything missing or infinite ends here.
        raw[row, model.outputs[tree]] += out if isfinite(out) else model.value[node]


def add_linear(
    const value_t[:, :] X, const int32_t[:, :] leaves, const int64_t[::1] offsets, const int32_t[::1] outputs,
    const float64_t[::1] value, linear, float64_t[:, :] raw, int n_threads
):
    """Add what leaves with linear models say to raw predictions, tree after tree.

    Parameters
    ----------
    X : float32 or float64 array of shape (n_rows, n_features)
        Values.
    leaves : int32 array of shape (n_rows, n_trees)
        The leaf of each row in each tree.
    offsets, outputs : int64 and int32 arrays of shape (n_trees,)
        The first node of each tree, and the column of `raw` that it adds to.
    value : float64 array of shape (n_nodes,)
        What a node adds to rows without a model, or with something missing.
    linear : LinearLeaves
        The models.
    raw : float64 array of shape (n_rows, n_outputs)
        Raw predictions, in any strides.
    n_threads : int
        Number of threads.
    """
    cdef const int64_t[::1] starts = linear.starts
    cdef const int32_t[::1] features = linear.features
    cdef const float64_t[::1] slopes = linear.slopes, centres = linear.centres
    cdef Py_ssize_t n_rows = leaves.shape[0], block, row
    cdef Model model
    if n_rows == 0 or leaves.shape[1] == 0:
        return
    model.offsets, model.outputs, model.value = &offsets[0], &outputs[0], &value[0]
    model.starts, model.centres = &starts[0], &centres[0]
    if slopes.shape[0]:
        model.features, model.slopes = &features[0], &slopes[0]
    for block in prange(
        (n_rows + BLOCK_ROWS - 1) // BLOCK_ROWS, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1
    ):
        for row in range(block * BLOCK_ROWS, min(n_rows, (block + 1) * BLOCK_ROWS)):
            add_row(&model, X, leaves, row, raw)
