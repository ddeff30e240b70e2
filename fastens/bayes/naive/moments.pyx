"""Moments by class, Gaussian densities, and log probabilities with parent columns."""

from fastens.bayes.counts.counted cimport any_code_t, weight_pointer
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint8_t, value_t
from fastens.engine.thread_pool cimport dynamic_parallel_for, parallel_for_until_interrupted
from libc.math cimport INFINITY
from fastens.engine.exact cimport exp, log


ctypedef fused index_t:
    int32_t
    int64_t

cdef enum:
    COLUMNS = 16        # columns of a work item: two cache lines of each row
    ROWS = 512          # rows of a block, read once for all columns of a work item
    TOGETHER = 16       # rows of a product that are accumulated together
    FEW_CLASSES = 8     # up to this number, multiplying by 0 is faster than testing for it


cdef struct Rows:
    const char* x
    int32_t value_size
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    const int32_t* y
    const float64_t* weight     # NULL if all weights are 1
    Py_ssize_t n_rows
    Py_ssize_t n_features
    const float64_t* mean       # NULL to compute sums instead of squared deviations
    float64_t* total
    float64_t* out


cdef inline void _add_column(
    const Rows* rows, Py_ssize_t column, Py_ssize_t block, const value_t* value_type, const float64_t* mean
) noexcept nogil:
    """Add the weights and weighted values of one column in a block of rows to `rows.total` and `rows.out`, by class.

    If `mean` is not NULL, add weighted squared deviations from it to `rows.out` instead. NaN is skipped. The pointer
    `value_type` only selects the type of the values.
    """
    cdef Py_ssize_t i, cell
    cdef double x, w
    for i in range(block * ROWS, min((block + 1) * ROWS, rows.n_rows)):
        x = (<const value_t*> (rows.x + i * rows.row_stride + column * rows.column_stride))[0]
        w = 1.0 if rows.weight == NULL else rows.weight[i]
        cell = rows.y[i] * rows.n_features + column
        if x == x:
            if mean == NULL:
                rows.total[cell] += w
                rows.out[cell] += w * x
            else:
                rows.out[cell] += w * (x - mean[cell]) * (x - mean[cell])


cdef inline void _add_column_chunk(const Rows* rows, Py_ssize_t chunk, const value_t* value_type) noexcept nogil:
    """Add the sums over all rows for up to COLUMNS columns, number `chunk` of such groups, to the outputs of `rows`.

    The pointer `value_type` only selects the type of the values.
    """
    cdef Py_ssize_t block, j
    for block in range((rows.n_rows + ROWS - 1) // ROWS):
        for j in range(chunk * COLUMNS, min((chunk + 1) * COLUMNS, rows.n_features)):
            if rows.mean == NULL:
                _add_column(rows, j, block, value_type, <const float64_t*> NULL)
            else:
                _add_column(rows, j, block, value_type, rows.mean)


cdef void _moments_task(void* job, Py_ssize_t chunk, int32_t thread) noexcept nogil:
    """Run `_add_column_chunk` for one chunk of columns as a task of the thread pool; `job` is a `Rows`."""
    cdef const Rows* rows = <const Rows*> job
    if rows.value_size == sizeof(float32_t):
        _add_column_chunk(rows, chunk, <const float32_t*> NULL)
    else:
        _add_column_chunk(rows, chunk, <const float64_t*> NULL)


def add_moments(
    const value_t[:, :] X,
    const int32_t[::1] y,
    const float64_t[::1] weight,
    const float64_t[:, ::1] mean,
    float64_t[:, ::1] total,
    float64_t[:, ::1] out,
    int n_threads,
):
    """Add sums over the rows in which column j is known to `total[c, j]` and `out[c, j]`, by class c.

    If `mean` is None, add the weights to `total` and the weighted values to `out`. Otherwise, add the weighted squares
    of X[i, j] - mean[y, j] to `out`.
    """
    cdef Rows rows
    rows.x, rows.value_size = <const char*> &X[0, 0], sizeof(value_t)
    rows.row_stride, rows.column_stride = X.strides[0], X.strides[1]
    rows.y, rows.weight = &y[0], weight_pointer(weight)
    rows.n_rows, rows.n_features = X.shape[0], X.shape[1]
    rows.mean = &mean[0, 0] if mean is not None else NULL
    rows.total, rows.out = &total[0, 0], &out[0, 0]
    with nogil:
        dynamic_parallel_for(_moments_task, &rows, (rows.n_features + COLUMNS - 1) // COLUMNS, n_threads)


def add_sparse_sums(
    const float64_t[::1] data,
    const index_t[::1] indices,
    const index_t[::1] indptr,
    const int32_t[::1] y,
    const float64_t[::1] weight,
    float64_t[:, ::1] out,
):
    """Add weighted values of a CSR matrix to `out[y[i], column]` for each row i; if `weight` is None, weights are 1."""
    cdef Py_ssize_t n_rows = y.shape[0]
    cdef Py_ssize_t i, k
    cdef double w
    with nogil:
        for i in range(n_rows):
            w = 1.0 if weight is None else weight[i]
            for k in range(indptr[i], indptr[i + 1]):
                out[y[i], indices[k]] += w * data[k]


cdef struct Densities:
    const char* x
    int32_t value_size
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    Py_ssize_t n_rows
    Py_ssize_t n_features
    Py_ssize_t n_classes
    const float64_t* table      # for each column, means, precisions and constants by class
    float64_t* out


cdef void _add_densities(
    const char* x, Py_ssize_t stride, Py_ssize_t n_features, Py_ssize_t n_classes, const value_t* value_type,
    const float64_t* table, float64_t* out
) noexcept nogil:
    """Add the log densities of the known values of one row, which starts at `x`, to `out` by class.

    `stride` is the number of bytes between columns, and `table` is as in `Densities`. The pointer `value_type` only
    selects the type of the values.
    """
    cdef Py_ssize_t j, c
    cdef double value, distance
    cdef const float64_t* entry
    for j in range(n_features):
        value = (<const value_t*> (x + j * stride))[0]
        entry = table + 3 * j * n_classes
        if value == value:
            for c in range(n_classes):
                distance = value - entry[c]
                out[c] += entry[2 * n_classes + c] - distance * distance * entry[n_classes + c]


cdef void _densities_task(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Add the log densities of a block of rows to the scores by class, as a task; `job` is a `Densities`."""
    cdef const Densities* d = <const Densities*> job
    cdef const char* x
    cdef float64_t* out
    cdef Py_ssize_t row
    for row in range(block * ROWS, min((block + 1) * ROWS, d.n_rows)):
        x, out = d.x + row * d.row_stride, d.out + row * d.n_classes
        if d.value_size == sizeof(float32_t):
            _add_densities(x, d.column_stride, d.n_features, d.n_classes, <const float32_t*> NULL, d.table, out)
        else:
            _add_densities(x, d.column_stride, d.n_features, d.n_classes, <const float64_t*> NULL, d.table, out)


def add_gaussian(const value_t[:, :] X, const float64_t[:, :, ::1] table, float64_t[:, ::1] out, int n_threads):
    """Add table[j, 2, c] - (X[i, j] - table[j, 0, c])**2 table[j, 1, c] to out[i, c] for the known columns of row i."""
    cdef Densities job = Densities(
        <const char*> &X[0, 0], sizeof(value_t), X.strides[0], X.strides[1], X.shape[0], X.shape[1], out.shape[1],
        &table[0, 0, 0], &out[0, 0])
    with nogil:
        parallel_for_until_interrupted(_densities_task, &job, (job.n_rows + ROWS - 1) // ROWS, n_threads)


cdef struct Products:
    const float64_t* x          # row-major
    const float64_t* table
    Py_ssize_t n_rows
    Py_ssize_t n_features
    Py_ssize_t n_classes
    float64_t* out


cdef void _products_task(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Add the matrix product of a block of rows and the table to the output, as a task; `job` is a `Products`."""
    # Rows are interleaved, because consecutive additions to a single row would have to wait for each other.
    cdef const Products* p = <const Products*> job
    cdef const float64_t* entry
    cdef float64_t* out
    cdef double value
    cdef Py_ssize_t first = block * ROWS, last = min((block + 1) * ROWS, p.n_rows), end, row, j, c
    cdef bint skips_zeros = p.n_classes > FEW_CLASSES
    while first < last:
        end = min(first + TOGETHER, last)
        for j in range(p.n_features):
            entry = p.table + j * p.n_classes
            for row in range(first, end):
                value = p.x[row * p.n_features + j]
                if skips_zeros and value == 0:
                    continue
                out = p.out + row * p.n_classes
                for c in range(p.n_classes):
                    out[c] += value * entry[c]
        first = end


def add_products(const float64_t[:, ::1] X, const float64_t[:, ::1] table, float64_t[:, ::1] out, int n_threads):
    """Add X times the table to `out` in column order; BLAS is not used because its results depend on the processor."""
    cdef Products job
    if X.shape[0] == 0 or X.shape[1] == 0:
        return
    job = Products(&X[0, 0], &table[0, 0], X.shape[0], X.shape[1], table.shape[1], &out[0, 0])
    with nogil:
        dynamic_parallel_for(_products_task, &job, (job.n_rows + ROWS - 1) // ROWS, n_threads)


cdef enum:
    FAMILY_ROWS = 256          # the scores of a block and the table part of one parent stay in the cache


cdef void _add_family(
    const any_code_t* codes, const any_code_t* parent, const float64_t* table, const Py_ssize_t* shape, float64_t* out
) noexcept nogil:
    """Add the table row that belongs to the codes of a column and its parent to `out[i]`, for each row i of a block.

    `shape` holds the numbers of rows, codes of the column and classes; `parent` is NULL if there is none.
    """
    cdef Py_ssize_t n = shape[0], n_codes = shape[1], n_classes = shape[2]
    cdef Py_ssize_t i, c
    cdef const float64_t* entry
    if parent == NULL:
        for i in range(n):
            entry = table + codes[i] * n_classes
            for c in range(n_classes):
                out[i * n_classes + c] += entry[c]
        return
    for i in range(n):
        entry = table + (n_codes * parent[i] + codes[i]) * n_classes
        for c in range(n_classes):
            out[i * n_classes + c] += entry[c]


cdef struct Families:
    const void* codes
    int32_t code_size
    const int64_t* parents
    const int64_t* widths
    const int64_t* starts
    const float64_t* table
    Py_ssize_t n_features
    Py_ssize_t n_rows
    Py_ssize_t n_classes
    float64_t* out


cdef inline void _add_family_block(const Families* families, const any_code_t* codes, Py_ssize_t first) noexcept nogil:
    """Add the table rows of all columns to `families.out` for the block of rows from `first`; `codes` points to it."""
    cdef Py_ssize_t[3] shape
    cdef Py_ssize_t j
    shape[0], shape[2] = min(<Py_ssize_t> FAMILY_ROWS, families.n_rows - first), families.n_classes
    for j in range(families.n_features):
        shape[1] = families.widths[j]
        _add_family(
            codes + j * families.n_rows,
            codes + families.parents[j] * families.n_rows if families.parents[j] >= 0 else NULL,
            families.table + families.starts[j] * families.n_classes, shape,
            families.out + first * families.n_classes)


cdef void _families_task(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Add the table rows of all columns to the scores of a block of rows, as a task; `job` is a `Families`."""
    cdef const Families* families = <const Families*> job
    cdef Py_ssize_t first = block * FAMILY_ROWS
    if families.code_size == sizeof(uint8_t):
        _add_family_block(families, <const uint8_t*> families.codes + first, first)
    elif families.code_size == sizeof(uint16_t):
        _add_family_block(families, <const uint16_t*> families.codes + first, first)
    else:
        _add_family_block(families, <const uint32_t*> families.codes + first, first)


def add_families(
    const any_code_t[:, ::1] codes,
    const int64_t[::1] parents,
    const int64_t[::1] widths,
    const int64_t[::1] starts,
    const float64_t[:, ::1] table,
    float64_t[:, ::1] out,
    int n_threads,
):
    """Add to out[i] the rows table[starts[j] + widths[j] * codes[parents[j], i] + codes[j, i]] of all columns j.

    The product is left out if parents[j] is negative.
    """
    cdef Families families = Families(
        &codes[0, 0], sizeof(any_code_t), &parents[0], &widths[0], &starts[0], &table[0, 0], codes.shape[0],
        codes.shape[1], out.shape[1], &out[0, 0])
    with nogil:
        parallel_for_until_interrupted(
            _families_task, &families, (families.n_rows + FAMILY_ROWS - 1) // FAMILY_ROWS, n_threads
        )


cdef struct Averaged:
    # In each model, one or two columns are parents of all others. row_of_codes[start + codes of the parents] is the
    # row of the table for their values, or -1 if these values are not parents. table[row, other cell, class] is the
    # log probability of the other cell given the parents and the class. One cell of the parents holds the joint log
    # probability of parents and class; their remaining cells hold 0.
    Py_ssize_t n_features
    Py_ssize_t n_rows
    Py_ssize_t n_cells
    Py_ssize_t n_classes
    Py_ssize_t n_models
    const void* codes
    int32_t code_size
    const int64_t* models       # first parent, second parent or -1, start, and stride of the first parent's codes
    const int64_t* row_of_codes
    const int64_t* offsets
    const float64_t* table
    float64_t* out
    float64_t* totals
    int32_t* n_parents
    Py_ssize_t block_rows       # rows of the buffers for scores and table rows of each thread
    float64_t* scores
    int64_t* table_rows


cdef Py_ssize_t _find_table_rows(
    const Averaged* work, const any_code_t* codes, const int64_t* model, Py_ssize_t n, int64_t* table_rows
) noexcept nogil:
    """Write the table row for the parent values of each of n rows to `table_rows`, -1 if the model does not apply.

    `model` points to the parents of the model, as in `Averaged.models`. Return the number of rows to which it applies.
    """
    cdef const any_code_t* first = codes + model[0] * work.n_rows
    cdef const any_code_t* second = codes + (model[1] if model[1] >= 0 else model[0]) * work.n_rows
    cdef const int64_t* row_of_codes = work.row_of_codes + model[2]
    cdef Py_ssize_t i, n_scored = 0
    for i in range(n):
        table_rows[i] = row_of_codes[first[i] * model[3] + (second[i] if model[1] >= 0 else 0)]
        n_scored += table_rows[i] >= 0
    return n_scored


cdef void _score_model(
    const Averaged* work, const any_code_t* codes, const int64_t* table_rows, Py_ssize_t n, float64_t* scores
) noexcept nogil:
    """Write the log probability of each of `n` rows and each class under one model to `scores`.

    Rows whose table row is -1 have meaningless scores.
    """
    cdef Py_ssize_t n_classes = work.n_classes
    cdef Py_ssize_t j, i, c
    cdef const float64_t* part
    cdef const float64_t* entry
    cdef const any_code_t* other
    cdef Py_ssize_t stride = work.n_cells * n_classes
    for i in range(n * n_classes):
        scores[i] = 0.0
    for j in range(work.n_features):
        other = codes + j * work.n_rows
        part = work.table + work.offsets[j] * n_classes
        for i in range(n):
            entry = part + (table_rows[i] if table_rows[i] >= 0 else 0) * stride + other[i] * n_classes
            for c in range(n_classes):
                scores[i * n_classes + c] += entry[c]


cdef inline void _add_log_score(float64_t score, float64_t* largest, float64_t* total) noexcept nogil:
    """Add exp(score) to a sum of exponentials that is represented as total * exp(largest), in place.

    `largest` is the maximum of all scores so far, -infinity before the first one.
    """
    if score <= largest[0]:
        if score != -INFINITY:
            total[0] += exp(score - largest[0])
    else:
        total[0] = total[0] * exp(largest[0] - score) + 1.0
        largest[0] = score


cdef void _average_block(
    const Averaged* work, const any_code_t* codes, Py_ssize_t n, float64_t* out, float64_t* totals, float64_t* scores,
    int64_t* table_rows, int32_t* n_parents
) noexcept nogil:
    """Write the log of the sum of the probabilities over all models to `out` for a block of n rows, by class.

    `out` must be -infinity, and `totals` and `n_parents` 0. The number of models that apply to each row is written to
    `n_parents`; `totals`, `scores` and `table_rows` are workspaces.
    """
    cdef Py_ssize_t n_classes = work.n_classes
    cdef Py_ssize_t model, i, c
    for model in range(work.n_models):
        if _find_table_rows(work, codes, work.models + 4 * model, n, table_rows) == 0:
            continue
        _score_model(work, codes, table_rows, n, scores)
        for i in range(n):
            if table_rows[i] >= 0:
                n_parents[i] += 1
                for c in range(i * n_classes, (i + 1) * n_classes):
                    _add_log_score(scores[c], out + c, totals + c)
    for i in range(n * n_classes):
        if totals[i] > 0.0:
            out[i] += log(totals[i])


cdef inline void _average_rows(
    const Averaged* work, const any_code_t* codes, Py_ssize_t first, int32_t thread
) noexcept nogil:
    """Run `_average_block` for the block of rows that begins at `first`, in the buffers of a thread."""
    cdef Py_ssize_t first_slot = thread * work.block_rows
    _average_block(
        work, codes + first, min(work.block_rows, work.n_rows - first), work.out + first * work.n_classes,
        work.totals + first * work.n_classes, work.scores + first_slot * work.n_classes, work.table_rows + first_slot,
        work.n_parents + first)


cdef void _average_task(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Average the models for one block of rows, as a task of the thread pool; `job` is an `Averaged`."""
    cdef const Averaged* work = <const Averaged*> job
    if work.code_size == sizeof(uint8_t):
        _average_rows(work, <const uint8_t*> work.codes, block * work.block_rows, thread)
    elif work.code_size == sizeof(uint16_t):
        _average_rows(work, <const uint16_t*> work.codes, block * work.block_rows, thread)
    else:
        _average_rows(work, <const uint32_t*> work.codes, block * work.block_rows, thread)


def average_parents(
    const any_code_t[:, ::1] codes,
    const int64_t[::1] offsets,
    const int64_t[:, ::1] models,
    const int64_t[::1] row_of_codes,
    const float64_t[:, :, ::1] table,
    float64_t[:, ::1] out,
    float64_t[:, ::1] totals,
    int32_t[::1] n_parents,
    float64_t[:, ::1] scores,
    int64_t[:, ::1] table_rows,
):
    """Write the log of the sum of the probabilities over all models to out[i], or -inf if no model applies.

    `models` holds the parents of each model and where its rows of the table are, as in `Averaged.models`. The table row
    of a model for parent codes is in `row_of_codes`, or -1 if the model does not apply to them.
    `out` must be initialised to -inf, `totals` and `n_parents` to 0; `n_parents` returns the number of models that
    apply to each row, and `totals` is a workspace. For each thread, `table_rows` has a buffer for the rows that are
    scored at a time, and `scores` a buffer for these rows by class. Blocks are sized so that their part of the table
    stays in the cache.
    """
    cdef Averaged work
    work.n_features, work.n_rows = codes.shape[0], codes.shape[1]
    work.n_cells, work.n_classes, work.n_models = table.shape[1], table.shape[2], models.shape[0]
    work.offsets, work.models, work.row_of_codes = &offsets[0], &models[0, 0], &row_of_codes[0]
    work.table, work.codes, work.code_size = &table[0, 0, 0], &codes[0, 0], sizeof(any_code_t)
    work.out, work.totals, work.n_parents = &out[0, 0], &totals[0, 0], &n_parents[0]
    work.scores, work.table_rows, work.block_rows = &scores[0, 0], &table_rows[0, 0], table_rows.shape[1]
    cdef Py_ssize_t n_blocks = (work.n_rows + work.block_rows - 1) // work.block_rows
    with nogil:
        parallel_for_until_interrupted(_average_task, &work, n_blocks, <int32_t> table_rows.shape[0])
