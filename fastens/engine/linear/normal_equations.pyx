"""Linear models in leaves: normal equations, Cholesky decomposition, predictions."""

import numpy as np
from libc.math cimport INFINITY, fabs, frexp, isfinite, ldexp, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from fastens.engine.strided cimport Values, value_at, values_of
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint32_t, uint8_t, value_t
from fastens.engine.thread_pool cimport dynamic_parallel_for


cdef extern from "engine/linear/linear_loops.h" nogil:
    enum:
        LINEAR_BLOCK
    ctypedef struct LinearRows:
        const double* columns
        Py_ssize_t pitch, k, n
    void widen_ranges(const LinearRows* rows, double* lower, double* upper) noexcept
    void find_incomplete(const LinearRows* rows, uint8_t* incomplete, int* any) noexcept
    void add_products(
        const LinearRows* rows, const double* middle, const double* per_half, double of_gradient, double of_hessian,
        double* z, double* moments, double* products) noexcept
    void predict_lines(const LinearRows* rows, double intercept, const double* slopes, double* fitted) noexcept

cdef enum:
    SUM_BITS = 50           # maximum bits of a sum above the unit that products are rounded to
    STATISTICS = 3          # columns after the features: gradients, hessians, copies
    # Size of a thread's buffer for the gathered values of a leaf. The values of larger leaves that do not fit are
    # gathered again in each pass.
    MAX_NUMBERS = 1 << 22
    MEASURE = 0             # stages of a fit: the ranges and the sums of leaves may be reduced over workers in between
    SUM = 1
    SOLVE = 2

N_SUM_BITS = SUM_BITS

# Both limits are relative to the sum of hessians. A feature gets no slope if its variance, in units of half its range,
# is below MIN_VARIANCE, or if its variance given the preceding features (the Cholesky pivot) is below MIN_PIVOT.
cdef float64_t MIN_VARIANCE = 1e-12
cdef float64_t MIN_PIVOT = 1e-10
# Minimum half range whose inverse is finite.
cdef float64_t MIN_HALF_WIDTH = 1e-300


cdef struct Data:
    const float32_t* gradients
    const float32_t* hessians
    const float64_t* copies         # NULL if all are 1
    const float64_t* factors        # factors of the derivatives; NULL if all are 1
    float64_t l2
    float64_t* fitted
    Py_ssize_t max_features         # maximum number of features of a leaf
    int first                       # first stage
    int last


cdef struct Leaf:
    # One leaf and its workspace. The columns are the features, followed by the statistics.
    const uint32_t* rows
    Py_ssize_t n_rows
    Py_ssize_t k
    const int32_t* features
    Py_ssize_t pitch                # row capacity of the columns
    Py_ssize_t first                # the rows gathered last: the first row, and the number of complete rows
    Py_ssize_t n_complete
    float64_t* columns
    uint32_t* row_indices           # their row indices: complete rows from the front, others from the back
    float64_t* lower                # k + 2: minima, later midpoints
    float64_t* upper                # k + 2: maxima, later 1 / half range
    float64_t* z                    # k + 1 blocks
    float64_t* scale                # k standard deviations
    float64_t* weight               # weight of the complete rows
    float64_t* moments              # k + 1: sums of g z, where the last z is 1; later the solution
    float64_t* products             # (k + 1) x (k + 1): sums of h z z; later their Cholesky factor


cdef struct Line:
    # Prediction of a leaf: its value and its terms.
    float64_t value
    float64_t factor                # factor of the slopes
    float64_t* slopes
    float64_t* lower
    float64_t* upper
    float64_t* at_means


# ------------------------------------------------------------------------------------------------------------- rows

cdef Py_ssize_t workspace_size(Py_ssize_t k, Py_ssize_t pitch) noexcept nogil:
    """Return the number of float64 elements of the workspace for a leaf of up to k features and `pitch` rows."""
    return (k + STATISTICS + 1) * pitch + (k + 1) * LINEAR_BLOCK + k


cdef void set_workspace(Leaf* leaf, float64_t* memory, Py_ssize_t max_features) noexcept nogil:
    """Point the fields of a leaf to its workspace in `memory`, and to the parts of its sums, which start at `lower`.

    The layout of the sums has space for `max_features` features.
    """
    cdef Py_ssize_t k = leaf.k
    leaf.columns = memory
    leaf.row_indices = <uint32_t*> (memory + (k + STATISTICS) * leaf.pitch)
    memory += (k + STATISTICS + 1) * leaf.pitch
    leaf.z, leaf.scale = memory, memory + (k + 1) * LINEAR_BLOCK
    leaf.upper, leaf.weight = leaf.lower + max_features + 2, leaf.lower + 2 * (max_features + 2)
    leaf.moments = leaf.weight + 1
    leaf.products = leaf.moments + max_features + 1
    leaf.first, leaf.n_complete = -1, 0


cdef void read_block(
    const Values* X, const Data* data, const Leaf* leaf, const uint32_t* rows, Py_ssize_t n, float64_t* columns
) noexcept nogil:
    """Copy the features' values, gradients, hessians and weights of the n `rows` to `columns`, column by column."""
    cdef Py_ssize_t i, j, pitch = leaf.pitch
    cdef float64_t* of_gradients = columns + leaf.k * pitch
    for j in range(leaf.k):
        for i in range(n):
            columns[j * pitch + i] = value_at(X, rows[i], leaf.features[j])
    for i in range(n):
        of_gradients[i] = data.gradients[rows[i]]
        of_gradients[pitch + i] = data.hessians[rows[i]]
        of_gradients[2 * pitch + i] = 1.0 if data.copies == NULL else data.copies[rows[i]]
    if data.factors != NULL:
        for i in range(n):
            of_gradients[i] *= data.factors[rows[i]]
            of_gradients[pitch + i] *= data.factors[rows[i]]


cdef Py_ssize_t keep_complete(
    const Leaf* leaf, const uint32_t* rows, Py_ssize_t n, float64_t* columns, Py_ssize_t n_incomplete
) noexcept nogil:
    """Move the rows without missing values to the front of a block of n rows; return the number of other rows.

    Indices of complete rows are recorded from the front of `leaf.row_indices`, others from the back, where earlier
    blocks have recorded `n_incomplete`.
    """
    cdef uint8_t[LINEAR_BLOCK] incomplete
    cdef Py_ssize_t i, j, kept = 0, position = columns - leaf.columns
    cdef int any_incomplete
    cdef LinearRows block = LinearRows(columns, leaf.pitch, leaf.k, n)
    find_incomplete(&block, incomplete, &any_incomplete)
    if any_incomplete == 0:
        for i in range(n):
            leaf.row_indices[position + i] = rows[i]
        return 0
    for i in range(n):
        if incomplete[i]:
            n_incomplete += 1
            leaf.row_indices[leaf.pitch - n_incomplete] = rows[i]
            continue
        leaf.row_indices[position + kept] = rows[i]
        for j in range(leaf.k + STATISTICS):
            columns[j * leaf.pitch + kept] = columns[j * leaf.pitch + i]
        kept += 1
    return n - kept


cdef void gather_rows(const Values* X, const Data* data, Leaf* leaf, Py_ssize_t first) noexcept nogil:
    """Read up to `leaf.pitch` rows of the leaf, from index `first` on, into the workspace, unless already there."""
    cdef Py_ssize_t row, n, last = min(first + leaf.pitch, leaf.n_rows), n_incomplete = 0
    if leaf.first == first:
        return
    leaf.first, leaf.n_complete, row = first, 0, first
    while row < last:
        n = min(<Py_ssize_t> LINEAR_BLOCK, last - row)
        read_block(X, data, leaf, leaf.rows + row, n, leaf.columns + leaf.n_complete)
        n_incomplete += keep_complete(leaf, leaf.rows + row, n, leaf.columns + leaf.n_complete, n_incomplete)
        row += n
        leaf.n_complete = row - first - n_incomplete


cdef inline Py_ssize_t n_blocks(const Leaf* leaf) noexcept nogil:
    """Return the number of blocks of LINEAR_BLOCK rows for the complete rows in the workspace."""
    return (leaf.n_complete + LINEAR_BLOCK - 1) // LINEAR_BLOCK


cdef inline LinearRows rows_of_block(const Leaf* leaf, Py_ssize_t block) noexcept nogil:
    """Return the columns of one block of complete rows in the workspace."""
    cdef Py_ssize_t i = block * LINEAR_BLOCK
    return LinearRows(leaf.columns + i, leaf.pitch, leaf.k, min(<Py_ssize_t>LINEAR_BLOCK, leaf.n_complete - i))


# --------------------------------------------------------------------------------------------------------- equations

cdef void measure_ranges(const Values* X, const Data* data, Leaf* leaf) noexcept nogil:
    """Write the ranges of features, gradients and hessians, and the total weight, over the leaf's complete rows."""
    cdef Py_ssize_t i, k = leaf.k, first = 0
    cdef LinearRows gathered
    leaf.weight[0] = 0.0
    for i in range(k + 2):
        leaf.lower[i], leaf.upper[i] = INFINITY, -INFINITY
    while first < leaf.n_rows:
        gather_rows(X, data, leaf, first)
        first += leaf.pitch
        gathered = LinearRows(leaf.columns, leaf.pitch, k + 2, leaf.n_complete)
        widen_ranges(&gathered, leaf.lower, leaf.upper)
        for i in range(leaf.n_complete):
            leaf.weight[0] += leaf.columns[(k + 2) * leaf.pitch + i]


cdef inline float64_t rounding_constant(float64_t bound) noexcept nogil:
    """Return c such that (x + c) - c rounds terms x coarsely enough for sums of up to `bound` to be exact."""
    cdef int exponent
    frexp(bound, &exponent)
    return 1.5 * ldexp(1.0, exponent - SUM_BITS + 52)


cdef void start_line(Leaf* leaf, const Line* line) noexcept nogil:
    """Set a leaf's slopes to 0 and copy its feature ranges, which then become midpoints and 1 / half range."""
    cdef Py_ssize_t j
    cdef float64_t half
    for j in range(leaf.k):
        line.slopes[j], line.at_means[j], line.lower[j], line.upper[j] = 0.0, 0.0, leaf.lower[j], leaf.upper[j]
        half = 0.5 * line.upper[j] - 0.5 * line.lower[j]
        leaf.lower[j] = 0.5 * line.upper[j] + 0.5 * line.lower[j]
        leaf.upper[j] = 1.0 / half if half > MIN_HALF_WIDTH else 1.0


cdef void accumulate(const Values* X, const Data* data, Leaf* leaf) noexcept nogil:
    """Write the sums of the normal equations over the leaf's complete rows to `moments` and `products`."""
    cdef Py_ssize_t first = 0, block, k = leaf.k
    cdef LinearRows rows
    cdef float64_t of_gradient = rounding_constant(leaf.weight[0] * max(fabs(leaf.lower[k]), fabs(leaf.upper[k])))
    cdef float64_t of_hessian = rounding_constant(leaf.weight[0] * leaf.upper[k + 1])
    memset(leaf.moments, 0, (k + 1) * sizeof(float64_t))
    memset(leaf.products, 0, (k + 1) * (k + 1) * sizeof(float64_t))
    if leaf.upper[k + 1] <= 0:
        return
    while first < leaf.n_rows:
        gather_rows(X, data, leaf, first)
        first += leaf.pitch
        for block in range(n_blocks(leaf)):
            rows = rows_of_block(leaf, block)
            add_products(
                &rows, leaf.lower, leaf.upper, of_gradient, of_hessian, leaf.z, leaf.moments, leaf.products)


cdef void standardise_equations(Leaf* leaf, float64_t l2) noexcept nogil:
    """Convert sums to the ridge system of standardised features; features with almost no variance get no slope."""
    cdef Py_ssize_t j, m, k = leaf.k, width = leaf.k + 1
    cdef float64_t variance, hessian = leaf.products[k * width + k]
    cdef float64_t* means = leaf.products + k * width
    for j in range(k):
        means[j] /= hessian
        leaf.moments[j] = leaf.moments[k] * means[j] - leaf.moments[j]
    for j in range(k):
        for m in range(j + 1):
            leaf.products[j * width + m] -= hessian * means[j] * means[m]
    for j in range(k):
        variance = leaf.products[j * width + j] / hessian
        leaf.scale[j] = sqrt(variance) if variance > MIN_VARIANCE else 1.0
        leaf.products[j * width + j] = hessian + l2 if variance > MIN_VARIANCE else INFINITY
        leaf.moments[j] /= leaf.scale[j]
    for j in range(k):
        for m in range(j):
            leaf.products[j * width + m] /= leaf.scale[j] * leaf.scale[m]


cdef void solve_ridge(float64_t* a, Py_ssize_t width, float64_t* b, Py_ssize_t k, float64_t min_pivot) noexcept nogil:
    """Solve a x = b for k unknowns by Cholesky and overwrite b by x; x is 0 if its pivot is at most `min_pivot`.

    The rows of the lower triangle of `a`, which is overwritten, are `width` elements apart.
    """
    cdef Py_ssize_t j, i, m
    for j in range(k):
        for i in range(j + 1):
            for m in range(i):
                a[j * width + i] -= a[j * width + m] * a[i * width + m]
            if i < j:
                a[j * width + i] /= a[i * width + i]
        a[j * width + j] = sqrt(a[j * width + j]) if a[j * width + j] > min_pivot else INFINITY
        for m in range(j):
            b[j] -= a[j * width + m] * b[m]
        b[j] /= a[j * width + j]
    for j in range(k - 1, -1, -1):
        for m in range(j + 1, k):
            b[j] -= a[m * width + j] * b[m]
        b[j] /= a[j * width + j]


# ------------------------------------------------------------------------------------------------------------- lines

cdef void write_line(const Leaf* leaf, const Line* line) noexcept nogil:
    """Write the slopes for unscaled features, and slope times mean; write 0 for all terms if one is not finite."""
    cdef Py_ssize_t j, k = leaf.k
    cdef const float64_t* means = leaf.products + k * (k + 1)
    cdef bint finite = True
    for j in range(k):
        line.slopes[j] = line.factor * (leaf.moments[j] * leaf.upper[j] / leaf.scale[j])
        line.at_means[j] = line.slopes[j] * (leaf.lower[j] + means[j] / leaf.upper[j])
        finite &= isfinite(line.at_means[j])
    for j in range(k):
        if not finite or line.slopes[j] == 0:
            line.slopes[j] = line.at_means[j] = 0.0


cdef void fit_line(const Data* data, Leaf* leaf, const Line* line) noexcept nogil:
    """Solve the normal equations of a leaf and write its slopes to `line`; leave them at 0 if all hessians are 0."""
    cdef Py_ssize_t k = leaf.k
    cdef float64_t hessian = leaf.products[k * (k + 1) + k]
    if hessian <= 0:
        return
    standardise_equations(leaf, data.l2)
    solve_ridge(leaf.products, k + 1, leaf.moments, k, MIN_PIVOT * hessian)
    write_line(leaf, line)


cdef float64_t predict_incomplete(
    const Values* X, const Leaf* leaf, const Line* line, float64_t intercept, uint32_t row
) noexcept nogil:
    """Return the linear prediction for a row, or the leaf's value if a feature with a nonzero slope is not finite."""
    cdef float64_t value, out = intercept
    cdef Py_ssize_t j
    for j in range(leaf.k):
        if line.slopes[j] == 0:
            continue
        value = value_at(X, row, leaf.features[j])
        if not isfinite(value):
            return line.value
        out += line.slopes[j] * min(max(value, line.lower[j]), line.upper[j])
    return out


cdef void predict_rows(const Values* X, const Data* data, Leaf* leaf, const Line* line) noexcept nogil:
    """Write the predictions of the leaf for its rows to `fitted`; complete rows are within the leaf's ranges."""
    cdef float64_t[LINEAR_BLOCK] fitted
    cdef Py_ssize_t first = 0, block, i, j, n
    cdef float64_t at_mean = 0.0, intercept
    cdef LinearRows rows
    for j in range(leaf.k):
        at_mean += line.at_means[j]
    intercept = line.value - at_mean
    while first < leaf.n_rows:
        gather_rows(X, data, leaf, first)
        for block in range(n_blocks(leaf)):
            rows = rows_of_block(leaf, block)
            predict_lines(&rows, intercept, line.slopes, fitted)
            for j in range(rows.n):
                data.fitted[leaf.row_indices[block * LINEAR_BLOCK + j]] = fitted[j]
        n = min(leaf.pitch, leaf.n_rows - first) - leaf.n_complete
        for i in range(leaf.pitch - n, leaf.pitch):
            data.fitted[leaf.row_indices[i]] = predict_incomplete(X, leaf, line, intercept, leaf.row_indices[i])
        first += leaf.pitch


cdef Leaf make_leaf(
    const uint32_t* rows, Py_ssize_t n_rows, const int32_t* features, Py_ssize_t k, Py_ssize_t pitch, float64_t* sums
) noexcept nogil:
    """Return a leaf with these rows, k features and sums, but without a workspace; `pitch` is its capacity of rows."""
    cdef Leaf leaf
    leaf.rows, leaf.n_rows, leaf.features, leaf.k, leaf.pitch, leaf.lower = rows, n_rows, features, k, pitch, sums
    return leaf


cdef Line make_line(float64_t value, float64_t factor, float64_t* terms, Py_ssize_t n_terms) noexcept nogil:
    """Return a leaf's linear model: value, factor, and pointers to its terms in the four rows of all terms.

    `terms` points to the leaf's first term in the first row; rows are `n_terms` apart.
    """
    return Line(value, factor, terms, terms + n_terms, terms + 2 * n_terms, terms + 3 * n_terms)


cdef void fit_leaf(const Values* X, const Data* data, float64_t* memory, Leaf leaf, Line line) noexcept nogil:
    """Run the stages `data.first` to `data.last` of one leaf's fit: 0 ranges, 1 sums, 2 solution and predictions."""
    set_workspace(&leaf, memory, data.max_features)
    if leaf.k > 0 and data.first <= MEASURE:
        measure_ranges(X, data, &leaf)
    if leaf.k > 0 and data.first <= SUM and data.last >= SUM:
        start_line(&leaf, &line)
        accumulate(X, data, &leaf)
    if data.last < SOLVE:
        return
    if leaf.k > 0:
        fit_line(data, &leaf, &line)
    predict_rows(X, data, &leaf, &line)


cdef struct Leaves:
    # All leaves, and the workspace of each thread.
    Values X
    Data data
    const uint32_t* rows
    const int64_t* row_starts
    const int32_t* features
    const int64_t* starts
    const float64_t* value
    const float64_t* factor
    float64_t* terms
    Py_ssize_t n_terms
    float64_t* sums
    Py_ssize_t n_sums
    Py_ssize_t pitch
    float64_t* memory
    Py_ssize_t size


cdef void fit_leaf_task(void* job, Py_ssize_t number, int32_t thread) noexcept nogil:
    """Fit the leaf with index `number`; the parallel task of `fit_leaves`."""
    cdef const Leaves* leaves = <const Leaves*> job
    cdef int64_t row = leaves.row_starts[number], start = leaves.starts[number]
    fit_leaf(
        &leaves.X, &leaves.data, leaves.memory + thread * leaves.size,
        make_leaf(
            leaves.rows + row, leaves.row_starts[number + 1] - row, leaves.features + start,
            leaves.starts[number + 1] - start, leaves.pitch, leaves.sums + number * leaves.n_sums),
        make_line(leaves.value[number], leaves.factor[number], leaves.terms + start, leaves.n_terms))


def fit_leaves(
    const value_t[:, :] X, leaves, statistics, float64_t l2, stages, int n_threads, float64_t[:, ::1] terms,
    float64_t[::1] fitted
):
    """Fit a ridge regression of the second-order objective in each leaf, in addition to the leaf's value.

    Parameters
    ----------
    X : float32 or float64 array of shape (n_rows, n_features)
        Values. Rows with a non-finite value in a feature of their leaf are ignored there.
    leaves : LeafPaths
        Leaves, with their rows and features.
    statistics : LeafStatistics
        Derivatives and weights of all rows.
    l2 : float
        L2 penalty, added to the sum of hessians on the diagonal, for features of variance 1.
    stages : pair of int
        First and last stage: 0 measures the ranges, 1 accumulates the normal equations, 2 solves them and predicts.
        Between stages, `leaves.sums` may be replaced by the sums over all workers.
    n_threads : int
        Number of threads.
    terms : float64 array of shape (4, n_terms)
        Receives the slope of each feature, its minimum and maximum in the leaf, and slope times mean.
    fitted : float64 array of shape (n_rows,)
        Receives the predictions of the leaves for their rows.
    """
    cdef const uint32_t[::1] rows = leaves.rows
    cdef const int32_t[::1] features = leaves.features
    cdef const int64_t[::1] row_starts = leaves.row_starts, starts = leaves.starts
    cdef const float64_t[::1] value = leaves.value, factor = leaves.factor
    cdef const float32_t[::1] gradients = statistics.gradients, hessians = statistics.hessians
    cdef const float64_t[::1] copies = statistics.copies, factors = statistics.factors
    cdef float64_t[:, ::1] sums = leaves.sums
    cdef Py_ssize_t number, max_features = leaves.max_features, max_rows = 1, n_leaves = value.shape[0]
    cdef const float64_t* of_copies = &copies[0] if copies is not None else NULL
    cdef const float64_t* of_factors = &factors[0] if factors is not None else NULL
    cdef Leaves job
    job.X = values_of(X)
    job.data = Data(
        &gradients[0], &hessians[0], of_copies, of_factors, l2, &fitted[0], max_features, stages[0], stages[1])
    job.rows, job.row_starts, job.starts = &rows[0], &row_starts[0], &starts[0]
    job.features = &features[0] if features.shape[0] else NULL
    job.value, job.factor = &value[0], &factor[0]
    job.terms, job.n_terms = &terms[0, 0] if terms.shape[1] else NULL, terms.shape[1]
    job.sums, job.n_sums = &sums[0, 0], sums.shape[1]
    for number in range(n_leaves):
        max_rows = max(max_rows, <Py_ssize_t> (row_starts[number + 1] - row_starts[number]))
    job.pitch = min(max_rows, MAX_NUMBERS // (max_features + STATISTICS + 1))
    job.size = workspace_size(max_features, job.pitch)
    job.memory = <float64_t*> malloc(n_threads * job.size * sizeof(float64_t))
    if job.memory == NULL:
        raise MemoryError(f"no memory for linear models of {max_features} features")
    with nogil:
        dynamic_parallel_for(fit_leaf_task, &job, n_leaves, n_threads)
    free(job.memory)


cdef enum:
    BLOCK_ROWS = 256        # rows that a thread predicts at a time


cdef struct Model:
    # All trees: the value and the intercept of each node, and its terms from starts[node] to starts[node + 1].
    const int64_t* offsets
    const int32_t* outputs
    const float64_t* value
    const float64_t* intercepts
    const int64_t* starts
    const int32_t* features
    const float64_t* slopes
    const float64_t* lower
    const float64_t* upper


cdef struct Adding:
    Model model
    Values X
    const int32_t* leaves       # tree by tree
    Py_ssize_t n_trees
    Py_ssize_t n_rows
    char* raw
    Py_ssize_t raw_strides[2]   # bytes


cdef inline float64_t predict_row(const Model* model, const Values* X, Py_ssize_t row, Py_ssize_t node) noexcept nogil:
    """Return a leaf's linear prediction for a row, or the leaf's value if one of the features is not finite."""
    cdef Py_ssize_t term
    cdef float64_t value, out = model.intercepts[node]
    for term in range(model.starts[node], model.starts[node + 1]):
        value = value_at(X, row, model.features[term])
        if not isfinite(value):
            return model.value[node]
        out += model.slopes[term] * min(max(value, model.lower[term]), model.upper[term])
    return out


cdef void add_block_predictions(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Add the predictions of all trees to the raw predictions of one block of rows; a parallel task."""
    cdef const Adding* adding = <const Adding*> job
    cdef const Model* model = &adding.model
    cdef const int32_t* leaves
    cdef Py_ssize_t tree, row
    cdef char* raw
    for tree in range(adding.n_trees):
        leaves = adding.leaves + tree * adding.n_rows
        raw = adding.raw + model.outputs[tree] * adding.raw_strides[1]
        for row in range(block * BLOCK_ROWS, min(adding.n_rows, (block + 1) * BLOCK_ROWS)):
            (<float64_t*> (raw + row * adding.raw_strides[0]))[0] += predict_row(
                model, &adding.X, row, model.offsets[tree] + leaves[row])


def add_linear(
    trees, const value_t[:, :] X, const int32_t[:, ::1] leaves, offsets_and_outputs, float64_t[:, :] raw, int n_threads
):
    """Add the predictions of leaves with linear models to raw predictions, tree by tree.

    Parameters
    ----------
    trees : LinearTree or LinearEnsemble
        The trees. Rows with a missing value, and leaves without a model, use the node's value.
    X : float32 or float64 array of shape (n_rows, n_features)
        Values.
    leaves : int32 array of shape (n_trees, n_rows)
        Leaf of each row in each tree.
    offsets_and_outputs : tuple of int64 and int32 arrays of shape (n_trees,)
        First node of each tree, and the column of `raw` that it adds to.
    raw : float64 array of shape (n_rows, n_outputs)
        Raw predictions, with arbitrary strides.
    n_threads : int
        Number of threads.
    """
    linear = trees.linear
    cdef const int64_t[::1] offsets = offsets_and_outputs[0], starts = linear.starts
    cdef const int32_t[::1] outputs = offsets_and_outputs[1], features = linear.features
    cdef const float64_t[::1] value = np.ascontiguousarray(trees.value[:, 0])
    cdef const float64_t[::1] intercepts = linear.intercepts(trees.value[:, 0])
    cdef const float64_t[::1] slopes = linear.slopes, lower = linear.lower, upper = linear.upper
    cdef Adding job
    cdef Model* model = &job.model
    job.n_trees, job.n_rows = leaves.shape[0], leaves.shape[1]
    if job.n_rows == 0 or job.n_trees == 0:
        return
    job.X, job.leaves = values_of(X), &leaves[0, 0]
    job.raw, job.raw_strides[0], job.raw_strides[1] = <char*> &raw[0, 0], raw.strides[0], raw.strides[1]
    model.offsets, model.outputs, model.value = &offsets[0], &outputs[0], &value[0]
    model.starts, model.intercepts = &starts[0], &intercepts[0]
    if slopes.shape[0]:
        model.features, model.slopes, model.lower, model.upper = &features[0], &slopes[0], &lower[0], &upper[0]
    with nogil:
        dynamic_parallel_for(add_block_predictions, &job, (job.n_rows + BLOCK_ROWS - 1) // BLOCK_ROWS, n_threads)
