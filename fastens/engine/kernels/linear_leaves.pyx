"""Linear models in the leaves of a tree: normal equations, a Cholesky decomposition each, and what they say to rows.

A leaf measures values from the middle of its range, in halves of it, so that all are between -1 and 1. Products are
rounded to multiples of a power of two that is fine enough, and coarse enough for their sums to be exact: neither the
order of the rows nor the threads matter, and a whole-number weight is, to the bit, so many copies of the row.
"""

from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY, fabs, frexp, isfinite, ldexp, sqrt
from libc.stdlib cimport calloc, free

from .structs cimport PREFETCH_AHEAD, float32_t, float64_t, int32_t, int64_t, prefetch, uint32_t, value_t

cdef extern from "linear_loops.h" nogil:
    enum:
        LINEAR_BLOCK
    void widen_ranges(const double* values, Py_ssize_t k, Py_ssize_t n, double* lower, double* upper) noexcept
    void add_products(
        double* values, const double* gradients, const double* hessians, const double* copies, Py_ssize_t k,
        Py_ssize_t n, const double* middle, const double* half, double of_gradient, double of_hessian, double* sums,
        double* moments, double* products
    ) noexcept

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


cdef struct Leaf:
    # Rows, features, and room for what is made of them.
    Py_ssize_t first
    Py_ssize_t last
    Py_ssize_t k
    const int32_t* features
    float64_t* gradients            # a block of complete rows: each stands for so many `copies`
    float64_t* hessians
    float64_t* copies
    float64_t* values               # k blocks
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


cdef Leaf leaf_of(Py_ssize_t first, Py_ssize_t last, Py_ssize_t k, const int32_t* features) noexcept nogil:
    cdef Leaf leaf
    leaf.first, leaf.last, leaf.k, leaf.features = first, last, k, features
    return leaf


cdef Py_ssize_t room_for(Py_ssize_t k) noexcept nogil:
    return (k + 3) * LINEAR_BLOCK + k * (k + 5)


cdef void give_room(Leaf* leaf, float64_t* memory) noexcept nogil:
    cdef Py_ssize_t k = leaf.k
    leaf.gradients, leaf.hessians = memory, memory + LINEAR_BLOCK
    leaf.copies, leaf.values = memory + 2 * LINEAR_BLOCK, memory + 3 * LINEAR_BLOCK
    memory += (k + 3) * LINEAR_BLOCK
    leaf.lower, leaf.upper, leaf.sums = memory, memory + k, memory + 2 * k
    leaf.moments, leaf.scale, leaf.products = memory + 3 * k, memory + 4 * k, memory + 5 * k


cdef inline void read_row(const Data* data, Leaf* leaf, Py_ssize_t row, Py_ssize_t place) noexcept nogil:
    leaf.gradients[place], leaf.hessians[place] = data.gradients[row], data.hessians[row]
    leaf.copies[place] = 1.0
    if data.weights == NULL:
        return
    if data.whole:
        leaf.copies[place] = data.weights[row]
    else:
        leaf.gradients[place] *= data.weights[row]
        leaf.hessians[place] *= data.weights[row]


cdef Py_ssize_t read_block(const value_t[:, :] X, const Data* data, Leaf* leaf, Py_ssize_t first) noexcept nogil:
    """Read the next rows, at most a block; returns how many of them are complete."""
    cdef Py_ssize_t i, j, row, n = 0
    cdef float64_t value
    cdef bint complete
    for i in range(first, min(first + LINEAR_BLOCK, leaf.last)):
        if i + PREFETCH_AHEAD < leaf.last:
            for j in range(leaf.k):
                prefetch(&X[data.rows[i + PREFETCH_AHEAD], leaf.features[j]])
        row = data.rows[i]
        complete = True
        for j in range(leaf.k):
            value = X[row, leaf.features[j]]
            leaf.values[j * LINEAR_BLOCK + n] = value
            complete &= isfinite(value)
        if complete:
            read_row(data, leaf, row, n)
            n += 1
    return n


cdef Totals measure(const value_t[:, :] X, const Data* data, Leaf* leaf) noexcept nogil:
    """The range of each feature, and the size of the derivatives, over complete rows."""
    cdef Py_ssize_t first, i, n
    cdef Totals totals = Totals(0.0, 0.0, 0.0, 0.0, 0.0)
    for i in range(leaf.k):
        leaf.lower[i], leaf.upper[i] = INFINITY, -INFINITY
    first = leaf.first
    while first < leaf.last:
        n = read_block(X, data, leaf, first)
        first += LINEAR_BLOCK
        widen_ranges(leaf.values, leaf.k, n, leaf.lower, leaf.upper)
        for i in range(n):
            totals.weight += leaf.copies[i]
            totals.most_gradient = max(totals.most_gradient, fabs(leaf.gradients[i]))
            totals.most_hessian = max(totals.most_hessian, leaf.hessians[i])
    return totals


cdef inline float64_t rounder(float64_t bound) noexcept nogil:
    """What, added and taken away again, rounds a number so that sums of such numbers, up to `bound`, are exact."""
    cdef int exponent
    frexp(bound, &exponent)
    return 1.5 * ldexp(1.0, exponent - SUM_BITS + 52)


cdef void accumulate(const value_t[:, :] X, const Data* data, Leaf* leaf, Totals* totals) noexcept nogil:
    """The sums of the normal equations over complete rows."""
    cdef Py_ssize_t first, i, n
    cdef float64_t of_gradient = rounder(totals.weight * totals.most_gradient)
    cdef float64_t of_hessian = rounder(totals.weight * totals.most_hessian)
    first = leaf.first
    while first < leaf.last:
        n = read_block(X, data, leaf, first)
        first += LINEAR_BLOCK
        for i in range(n):
            totals.gradient += leaf.copies[i] * ((leaf.gradients[i] + of_gradient) - of_gradient)
            totals.hessian += leaf.copies[i] * ((leaf.hessians[i] + of_hessian) - of_hessian)
        add_products(
            leaf.values, leaf.gradients, leaf.hessians, leaf.copies, leaf.k, n, leaf.lower, leaf.upper, of_gradient,
            of_hessian, leaf.sums, leaf.moments, leaf.products
        )


cdef void centre(Leaf* leaf, const Totals* totals, float64_t l2) noexcept nogil:
    """From sums to the ridge system of features of mean 0 and variance 1; no slope where a feature hardly varies."""
    cdef Py_ssize_t j, m, k = leaf.k
    cdef float64_t variance
    for j in range(k):
        leaf.sums[j] /= totals.hessian
        leaf.moments[j] = totals.gradient * leaf.sums[j] - leaf.moments[j]
    for j in range(k):
        for m in range(j + 1):
            leaf.products[j * k + m] -= totals.hessian * leaf.sums[j] * leaf.sums[m]
    for j in range(k):
        variance = leaf.products[j * k + j] / totals.hessian
        leaf.scale[j] = sqrt(variance) if variance > LEAST_VARIANCE else 1.0
        leaf.products[j * k + j] = totals.hessian + l2 if variance > LEAST_VARIANCE else INFINITY
        leaf.moments[j] /= leaf.scale[j]
    for j in range(k):
        for m in range(j):
            leaf.products[j * k + m] /= leaf.scale[j] * leaf.scale[m]


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


cdef float64_t write_slopes(const Leaf* leaf, float64_t* slopes) noexcept nogil:
    """Slopes by the features as they are; returns what they add up to at the mean. None where one is not finite."""
    cdef Py_ssize_t j
    cdef float64_t at_mean = 0.0
    for j in range(leaf.k):
        slopes[j] = leaf.moments[j] / (leaf.scale[j] * leaf.upper[j])
        at_mean += slopes[j] * (leaf.lower[j] + leaf.upper[j] * leaf.sums[j])
    if not isfinite(at_mean):
        for j in range(leaf.k):
            slopes[j] = 0.0
        return 0.0
    return at_mean


cdef float64_t fit_leaf(
    const value_t[:, :] X, const Data* data, Leaf leaf, float64_t* memory, float64_t* slopes, float64_t* lower,
    float64_t* upper
) noexcept nogil:
    cdef Py_ssize_t j
    cdef float64_t half
    give_room(&leaf, memory)
    cdef Totals totals = measure(X, data, &leaf)
    for j in range(leaf.k):
        slopes[j], lower[j], upper[j] = 0.0, leaf.lower[j], leaf.upper[j]
    if totals.most_hessian <= 0:
        return 0.0
    for j in range(leaf.k):
        half = 0.5 * upper[j] - 0.5 * lower[j]
        leaf.lower[j] = 0.5 * upper[j] + 0.5 * lower[j]
        leaf.upper[j] = half if half > 0 else 1.0
        leaf.sums[j] = leaf.moments[j] = 0.0
    for j in range(leaf.k * leaf.k):
        leaf.products[j] = 0.0
    accumulate(X, data, &leaf, &totals)
    if totals.hessian <= 0:
        return 0.0
    centre(&leaf, &totals, data.l2)
    solve(leaf.products, leaf.moments, leaf.k, LEAST_PIVOT * totals.hessian)
    return write_slopes(&leaf, slopes)


def fit_leaves(
    const value_t[:, :] X, const uint32_t[::1] rows, const int64_t[::1] row_starts, const int32_t[::1] features,
    const int64_t[::1] starts, const float32_t[::1] gradients, const float32_t[::1] hessians,
    const float64_t[::1] weights, bint whole, float64_t l2, int n_threads, float64_t[:, ::1] terms,
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
    terms : float64 array of shape (3, n_terms)
        Written: the slope of each feature, its smallest value in the leaf, and its largest.
    centres : float64 array of shape (n_leaves,)
        Written: what the features of a leaf add up to at their means.
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
    cdef Py_ssize_t size = room_for(most)
    cdef float64_t* memory = <float64_t*> calloc(n_threads * size, sizeof(float64_t))
    if memory == NULL:
        raise MemoryError(f"no memory for linear models of {most} features")
    for leaf in prange(
        n_leaves, nogil=True, num_threads=n_threads, schedule="dynamic", use_threads_if=n_threads > 1
    ):
        k = starts[leaf + 1] - starts[leaf]
        if k > 0:
            centres[leaf] = fit_leaf(
                X, &data, leaf_of(row_starts[leaf], row_starts[leaf + 1], k, &features[starts[leaf]]),
                memory + threadid() * size, &terms[0, starts[leaf]], &terms[1, starts[leaf]], &terms[2, starts[leaf]]
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
    const float64_t* lower
    const float64_t* upper


cdef inline float64_t say(
    const Model* model, const value_t[:, :] X, Py_ssize_t row, Py_ssize_t node
) noexcept nogil:
    cdef Py_ssize_t term
    cdef float64_t value, out = model.value[node] - model.centres[node]
    for term in range(model.starts[node], model.starts[node + 1]):
        value = X[row, model.features[term]]
        if not isfinite(value):
            return model.value[node]
        out += model.slopes[term] * min(max(value, model.lower[term]), model.upper[term])
    return out


cdef void add_block(
    const Model* model, const value_t[:, :] X, const int32_t[:, ::1] leaves, Py_ssize_t first, Py_ssize_t last,
    float64_t[:, :] raw
) noexcept nogil:
    cdef Py_ssize_t tree, row
    for tree in range(leaves.shape[0]):
        for row in range(first, last):
            raw[row, model.outputs[tree]] += say(model, X, row, model.offsets[tree] + leaves[tree, row])


def add_linear(
    const value_t[:, :] X, const int32_t[:, ::1] leaves, const int64_t[::1] offsets, const int32_t[::1] outputs,
    const float64_t[::1] value, linear, float64_t[:, :] raw, int n_threads
):
    """Add what leaves with linear models say to raw predictions, tree after tree.

    Parameters
    ----------
    X : float32 or float64 array of shape (n_rows, n_features)
        Values.
    leaves : int32 array of shape (n_trees, n_rows)
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
    cdef const float64_t[::1] lower = linear.lower, upper = linear.upper
    cdef Py_ssize_t n_rows = leaves.shape[1], block
    cdef Model model
    if n_rows == 0 or leaves.shape[0] == 0:
        return
    model.offsets, model.outputs, model.value = &offsets[0], &outputs[0], &value[0]
    model.starts, model.centres = &starts[0], &centres[0]
    if slopes.shape[0]:
        model.features, model.slopes, model.lower, model.upper = &features[0], &slopes[0], &lower[0], &upper[0]
    for block in prange(
        (n_rows + BLOCK_ROWS - 1) // BLOCK_ROWS, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1
    ):
        add_block(&model, X, leaves, block * BLOCK_ROWS, min(n_rows, (block + 1) * BLOCK_ROWS), raw)
