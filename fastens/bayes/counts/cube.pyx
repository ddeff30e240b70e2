"""Count cube of discrete attributes, and counts of families of columns."""

from libc.math cimport INFINITY
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint16_t, uint32_t, uint8_t
from fastens.engine.exact cimport exp, lgamma, log
from fastens.bayes.counts.counted cimport any_code_t, count_row, count_t, weight_pointer
from fastens.engine.thread_pool cimport dynamic_parallel_for


cdef enum:
    MAX_ATTRIBUTES = 64


cdef void _add_along_axes(double[::1] cube, const int64_t[::1] sizes, int64_t inner, bint to_any) noexcept nogil:
    """For each attribute in turn, add the cells of its values to its "any" cell if `to_any`, or vice versa."""
    cdef Py_ssize_t j
    cdef int64_t block, outer, v, i
    cdef double* base
    cdef double* any_value
    cdef double* value
    for j in range(sizes.shape[0] - 1, -1, -1):
        block = inner * (sizes[j] + 1)
        for outer in range(cube.shape[0] // block):
            base = &cube[outer * block]
            any_value = base + sizes[j] * inner
            for v in range(sizes[j]):
                value = base + v * inner
                for i in range(inner):
                    if to_any:
                        any_value[i] += value[i]
                    else:
                        value[i] += any_value[i]
        inner = block


def sum_out(double[::1] cube, const int64_t[::1] sizes, int64_t n_inner):
    """Add the cells of the values of each attribute to its "any" cell; a cell has `n_inner` numbers."""
    with nogil:
        _add_along_axes(cube, sizes, n_inner, True)


def spread(double[::1] cube, const int64_t[::1] sizes, int64_t n_inner):
    """Add the "any" cell of each attribute to the cells of its values, so each cell sums all cells that contain it."""
    with nogil:
        _add_along_axes(cube, sizes, n_inner, False)


cdef struct Shape:
    const int64_t* sizes
    const int64_t* strides
    int n_attributes


cdef inline int move_cell(int64_t* digits, const Shape* shape, int by) noexcept nogil:
    """Change digits to the next cell (by = 1) or the previous cell (by = -1); return 0 after the last, else 1."""
    cdef int j = shape.n_attributes - 1
    while j >= 0:
        digits[j] += by
        if 0 <= digits[j] <= shape.sizes[j]:
            return 1
        digits[j] = 0 if by > 0 else shape.sizes[j]
        j -= 1
    return 0


cdef inline int n_fixed(const int64_t* digits, const Shape* shape) noexcept nogil:
    """Return the number of attributes of a cell that are not "any value"."""
    cdef int j, fixed = 0
    for j in range(shape.n_attributes):
        fixed += digits[j] < shape.sizes[j]
    return fixed


# ------------------------------------------------------------------------------------------------------------- trees

cdef inline double log_children(const double* log_q, int64_t cell, int j, const Shape* shape) noexcept nogil:
    """Return the sum of the log evidence `log_q` over the parts of a cell after a split on attribute j."""
    cdef int64_t v
    cdef double total = 0
    for v in range(1, shape.sizes[j] + 1):
        total += log_q[cell - v * shape.strides[j]]
    return total


cdef inline double log_gamma_ratio(double base, double n, const double* table, Py_ssize_t n_table) noexcept nogil:
    """Return log(gamma(base + n) / gamma(base)), which is table[n] if n is an integer below `n_table`."""
    cdef Py_ssize_t index = <Py_ssize_t> n if n < n_table else 0
    return table[index] if index == n else lgamma(base + n) - lgamma(base)


cdef inline double log_leaf(
    const double* counts, Py_ssize_t n_classes, double alpha, const double* tables, Py_ssize_t n_table
) noexcept nogil:
    """Return the log evidence of class counts under a symmetric Dirichlet(alpha) prior.

    `tables` are as in `tree_evidence`; a row has `n_table` entries.
    """
    cdef double total = 0, evidence = 0
    cdef Py_ssize_t k
    for k in range(n_classes):
        total += counts[k]
        evidence += log_gamma_ratio(alpha, counts[k], tables, n_table)
    return evidence - log_gamma_ratio(alpha * n_classes, total, tables + n_table, n_table)


cdef inline double log_sum_or_max(const double* terms, int n, bint maximise) noexcept nogil:
    """Return log(sum(exp(terms))) of n terms or, if `maximise`, their maximum."""
    cdef double largest = -INFINITY, total = 0
    cdef int i
    for i in range(n):
        if terms[i] > largest:
            largest = terms[i]
    if maximise or largest == -INFINITY:
        return largest
    for i in range(n):
        total += exp(terms[i] - largest)
    return largest + log(total)


def tree_evidence(
    const double[:, ::1] counts, const int64_t[:, ::1] layout, const double[:, ::1] log_prior, double alpha,
    const double[:, ::1] tables, bint maximise, double[::1] log_f, double[::1] log_q
):
    """Write the log evidence of each cell as a leaf to `log_f`, and of all trees on it to `log_q` (best if `maximise`).

    `layout` holds sizes and strides. `log_prior[:, d]` holds the log prior probabilities of a leaf and of each split if
    d attributes are fixed. Parts of a cell have smaller indices than the cell. `tables[:, n]` holds the logs of
    gamma(a + n) / gamma(a) for a = alpha and for a = alpha times the number of classes; the entries for n = 0 are 0.
    """
    cdef Shape shape = Shape(&layout[0, 0], &layout[1, 0], <int> layout.shape[1])
    cdef int64_t digits[MAX_ATTRIBUTES]
    cdef double terms[MAX_ATTRIBUTES + 1]
    cdef Py_ssize_t n_classes = counts.shape[1]
    cdef int64_t cell
    cdef int j, n_terms, depth
    with nogil:
        for j in range(shape.n_attributes):
            digits[j] = 0
        for cell in range(counts.shape[0]):
            log_f[cell] = log_leaf(&counts[cell, 0], n_classes, alpha, &tables[0, 0], tables.shape[1])
            depth = n_fixed(digits, &shape)
            terms[0] = log_prior[0, depth] + log_f[cell]
            n_terms = 1
            for j in range(shape.n_attributes):
                if digits[j] == shape.sizes[j]:
                    terms[n_terms] = log_prior[1, depth] + log_children(&log_q[0], cell, j, &shape)
                    n_terms += 1
            log_q[cell] = log_sum_or_max(terms, n_terms, maximise)
            move_cell(digits, &shape, 1)


def tree_reach(
    const double[::1] log_q, const int64_t[:, ::1] layout, const double[:, ::1] log_prior, double[::1] reach
):
    """Add to `reach` the posterior probability that a row in each cell reaches a node on it.

    `reach` must hold 1 for the last cell, which is the root, and 0 elsewhere; the others are as in `tree_evidence`.
    """
    cdef Shape shape = Shape(&layout[0, 0], &layout[1, 0], <int> layout.shape[1])
    cdef int64_t digits[MAX_ATTRIBUTES]
    cdef int64_t cell, v
    cdef double through
    cdef int j, depth
    with nogil:
        for j in range(shape.n_attributes):
            digits[j] = shape.sizes[j]
        for cell in range(log_q.shape[0] - 1, -1, -1):
            if reach[cell] > 0:
                depth = n_fixed(digits, &shape)
                for j in range(shape.n_attributes):
                    if digits[j] == shape.sizes[j]:
                        through = log_prior[1, depth] + log_children(&log_q[0], cell, j, &shape) - log_q[cell]
                        through = reach[cell] * exp(through)
                        for v in range(1, shape.sizes[j] + 1):
                            reach[cell - v * shape.strides[j]] += through
            move_cell(digits, &shape, -1)


cdef enum:
    BLOCK = 2048        # rows whose cells stay in the L1 cache while the columns of a family are read
    SMALL_CELLS = 1024         # maximum cells for which four separate counters are used: 16 KB
    N_COUNTERS = 4
    FLUSH_BLOCKS = 1 << 20  # blocks after which 32-bit counters could overflow

cdef int64_t NO_CELL = -(1 << 55)       # sums of several do not overflow, and adding a cell index keeps them negative


cdef struct Family:
    const int64_t* columns
    const int64_t* strides
    Py_ssize_t n_columns


cdef struct Families:
    const void* codes
    int32_t code_size
    Py_ssize_t n_rows
    const int64_t* sizes
    uint8_t* is_complete        # for each column
    Py_ssize_t n_families
    const int64_t* starts
    const int64_t* columns
    const int64_t* strides
    const int64_t* offsets
    const float64_t* weight     # NULL if all weights are 1; then counts are integers
    void* counts
    const float64_t* table
    Py_ssize_t width            # row width of the table and of `out`
    float64_t* out


cdef inline Family _get_family(const Families* all, Py_ssize_t index) noexcept nogil:
    """Return the columns and strides of family `index`."""
    cdef int64_t start = all.starts[index]
    return Family(all.columns + start, all.strides + start, all.starts[index + 1] - start)


cdef inline void _add_column_cells(
    const any_code_t* codes, int64_t size, int64_t stride, Py_ssize_t n, int64_t* cells
) noexcept nogil:
    """Add (code - 1) * stride to the cells of n rows; codes that are not from 1 to `size` add NO_CELL instead."""
    cdef Py_ssize_t i
    cdef int64_t position
    for i in range(n):
        position = <int64_t> codes[i] - 1
        cells[i] += NO_CELL if position < 0 or position >= size else position * stride


cdef inline void _find_cells(
    const any_code_t* codes, Py_ssize_t n_rows, Py_ssize_t n, Family family, const int64_t* sizes, int64_t* cells
) noexcept nogil:
    """Write to `cells` the cell of each of n rows in the table of a family, negative if a code is not valid."""
    cdef Py_ssize_t i, k
    for i in range(n):
        cells[i] = 0
    for k in range(family.n_columns):
        _add_column_cells(codes + family.columns[k] * n_rows, sizes[family.columns[k]], family.strides[k], n, cells)


cdef inline void _find_small_cells(
    const any_code_t* codes, Py_ssize_t n_rows, Py_ssize_t n, Family family, uint16_t* cells
) noexcept nogil:
    """Write to `cells` the cell of each of n rows, for a family with at most 65536 cells and no missing values."""
    # Find the cells of families with few cells and no missing values. The compiler vectorises the 16-bit additions;
    # intermediate sums may wrap around, but the final sums are correct.
    cdef Py_ssize_t i, k
    cdef const any_code_t* column
    cdef uint16_t stride, first = 0
    for k in range(family.n_columns):
        first -= <uint16_t> family.strides[k]
    for i in range(n):
        cells[i] = first
    for k in range(family.n_columns):
        column = codes + family.columns[k] * n_rows
        stride = <uint16_t> family.strides[k]
        for i in range(n):
            cells[i] += <uint16_t> (<uint16_t> column[i] * stride)


cdef void _count_family(
    const any_code_t* codes, const float64_t* weight, Py_ssize_t n_rows, Family family, const int64_t* sizes,
    count_t* out
) noexcept nogil:
    """Add the weight of each row, or 1, to its cell in `out`, the table of a family, unless a value is missing."""
    cdef int64_t[BLOCK] cells
    cdef Py_ssize_t block, first, n, i
    for block in range((n_rows + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        n = min(<Py_ssize_t> BLOCK, n_rows - first)
        _find_cells(codes + first, n_rows, n, family, sizes, cells)
        for i in range(n):
            if cells[i] >= 0:
                count_row(&out[cells[i]], weight, first + i)


cdef void _count_small_family(
    const any_code_t* codes, const float64_t* weight, Py_ssize_t n_rows, Family family, Py_ssize_t n_cells, count_t* out
) noexcept nogil:
    """Add the weight of each row, or 1, to its cell in `out`, for a family with few cells and no missing values."""
    # Neighbouring rows often fall into the same cell; separate counters avoid store-to-load dependencies between them.
    cdef uint16_t[BLOCK] cells
    cdef uint32_t[N_COUNTERS * SMALL_CELLS] counters
    cdef Py_ssize_t block, first, n, i
    cdef bint uses_counters = count_t is int64_t and n_cells <= SMALL_CELLS
    if uses_counters:
        for i in range(N_COUNTERS * n_cells):
            counters[i] = 0
    for block in range((n_rows + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        n = min(<Py_ssize_t> BLOCK, n_rows - first)
        _find_small_cells(codes + first, n_rows, n, family, cells)
        if uses_counters:
            for i in range(n // N_COUNTERS):
                counters[cells[4 * i]] += 1
                counters[n_cells + cells[4 * i + 1]] += 1
                counters[2 * n_cells + cells[4 * i + 2]] += 1
                counters[3 * n_cells + cells[4 * i + 3]] += 1
            for i in range(n - n % N_COUNTERS, n):
                counters[cells[i]] += 1
            if block % FLUSH_BLOCKS == FLUSH_BLOCKS - 1:
                _add_counters(counters, n_cells, out)
        else:
            for i in range(n):
                count_row(&out[cells[i]], weight, first + i)
    if uses_counters:
        _add_counters(counters, n_cells, out)


cdef inline void _add_counters(uint32_t* counters, Py_ssize_t n_cells, count_t* out) noexcept nogil:
    """Add the `N_COUNTERS` separate counters of each cell to `out` and set them to 0."""
    cdef Py_ssize_t i
    for i in range(n_cells):
        out[i] += <count_t> counters[i] + counters[n_cells + i] + counters[2 * n_cells + i] + counters[3 * n_cells + i]
    for i in range(N_COUNTERS * n_cells):
        counters[i] = 0


cdef inline void _count_one_family(
    const Families* all, Py_ssize_t index, const any_code_t* codes, count_t* out
) noexcept nogil:
    """Add all rows to the counts of family `index` in `out`, by the kernel that suits its size."""
    cdef Family family = _get_family(all, index)
    cdef Py_ssize_t k, n_cells = all.offsets[index + 1] - all.offsets[index]
    cdef bint is_small = n_cells <= 65536
    out += all.offsets[index]
    for k in range(family.n_columns):
        is_small = is_small and all.is_complete[family.columns[k]]
    if is_small:
        _count_small_family(codes, all.weight, all.n_rows, family, n_cells, out)
    else:
        _count_family(codes, all.weight, all.n_rows, family, all.sizes, out)


cdef inline void _count_codes(const Families* all, Py_ssize_t index, const any_code_t* codes) noexcept nogil:
    """Add all rows to the counts of family `index`, in integers or, with weights, in floats."""
    if all.weight == NULL:
        _count_one_family(all, index, codes, <int64_t*> all.counts)
    else:
        _count_one_family(all, index, codes, <float64_t*> all.counts)


cdef void _count_task(void* job, Py_ssize_t index, int32_t thread) noexcept nogil:
    """Add all rows to the counts of family `index` of the job, a `Families`, for codes of 1, 2 or 4 bytes."""
    cdef const Families* all = <const Families*> job
    if all.code_size == sizeof(uint8_t):
        _count_codes(all, index, <const uint8_t*> all.codes)
    elif all.code_size == sizeof(uint16_t):
        _count_codes(all, index, <const uint16_t*> all.codes)
    else:
        _count_codes(all, index, <const uint32_t*> all.codes)


def count_families(
    const any_code_t[:, ::1] codes,
    const int64_t[::1] sizes,
    const int64_t[::1] starts,
    const int64_t[::1] columns,
    const int64_t[::1] strides,
    const int64_t[::1] offsets,
    const float64_t[::1] weight,
    uint8_t[::1] is_complete,
    count_t[::1] out,
    int n_threads,
):
    """Add the weight of each row, or 1, to out[offsets[f] + cell] for each family f, unless a value is missing.

    Family f consists of columns[starts[f]:starts[f + 1]], and its cell is the sum of (code - 1) * stride over them.
    `sizes` and `is_complete`, 1 without missing values, are by column. Each thread counts whole families.
    """
    cdef Families job
    job.codes, job.code_size, job.n_rows = &codes[0, 0], sizeof(any_code_t), codes.shape[1]
    job.sizes, job.is_complete, job.weight, job.counts = &sizes[0], &is_complete[0], weight_pointer(weight), &out[0]
    job.starts, job.columns, job.strides, job.offsets = &starts[0], &columns[0], &strides[0], &offsets[0]
    with nogil:
        dynamic_parallel_for(_count_task, &job, starts.shape[0] - 1, n_threads)


cdef void _add_margin(
    const int64_t* counts, const int64_t* sizes, const int64_t* strides, Py_ssize_t n_axes, int64_t n_cells,
    int64_t* indices, int64_t* out
) noexcept nogil:
    """Add the counts of a joint table to the table of a family; strides of 0 sum an axis out.

    `indices` is a buffer of zeros with an entry for each axis.
    """
    # The last axis varies fastest. `indices` holds the index on each axis; it is all zeros on entry and on return.
    cdef int64_t i, cell = 0
    cdef Py_ssize_t k
    for i in range(n_cells):
        out[cell] += counts[i]
        k = n_axes - 1
        while k >= 0:
            indices[k] += 1
            cell += strides[k]
            if indices[k] < sizes[k]:
                break
            cell -= indices[k] * strides[k]
            indices[k] = 0
            k -= 1


def add_margins(
    const int64_t[::1] counts,
    const int64_t[::1] begins,
    const int64_t[::1] starts,
    const int64_t[::1] sizes,
    const int64_t[::1] strides,
    const int64_t[::1] offsets,
    int64_t[::1] indices,
    int64_t[::1] out,
):
    """Add the marginal counts of joint tables to out[offsets[f] + cell].

    The joint table of family f begins at begins[f] in `counts`. The `sizes` of its axes and their `strides` in the
    family's table begin at starts[f]; the stride is 0 for axes that are summed out. `indices` is a buffer of zeros for
    the axes of any table.
    """
    cdef Py_ssize_t f, k
    cdef int64_t n_cells
    with nogil:
        for f in range(starts.shape[0] - 1):
            n_cells = 1
            for k in range(starts[f], starts[f + 1]):
                n_cells *= sizes[k]
            _add_margin(
                &counts[begins[f]], &sizes[starts[f]], &strides[starts[f]], starts[f + 1] - starts[f], n_cells,
                &indices[0], &out[offsets[f]])


cdef inline void _add_entries(
    const int64_t* cells, Py_ssize_t n, Py_ssize_t width, const float64_t* table, float64_t* out
) noexcept nogil:
    """Add the `width` numbers of `table` at the cell of each of n rows to the row in `out`; negative cells add none."""
    cdef Py_ssize_t i, c
    cdef const float64_t* entry
    for i in range(n):
        if cells[i] >= 0:
            entry = table + cells[i] * width
            for c in range(width):
                out[i * width + c] += entry[c]


cdef inline void _add_block_entries(const Families* all, Py_ssize_t first, const any_code_t* codes) noexcept nogil:
    """Add the table entries of all families to `out`, for the block of rows that begins at `first`."""
    cdef int64_t[BLOCK] cells
    cdef Py_ssize_t f, n = min(<Py_ssize_t> BLOCK, all.n_rows - first)
    for f in range(all.n_families):
        _find_cells(codes + first, all.n_rows, n, _get_family(all, f), all.sizes, cells)
        _add_entries(cells, n, all.width, all.table + all.offsets[f] * all.width, all.out + first * all.width)


cdef void _add_entries_task(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Add the table entries of all families to `out` for a block of rows of the job, a `Families`."""
    cdef const Families* all = <const Families*> job
    if all.code_size == sizeof(uint8_t):
        _add_block_entries(all, block * BLOCK, <const uint8_t*> all.codes)
    elif all.code_size == sizeof(uint16_t):
        _add_block_entries(all, block * BLOCK, <const uint16_t*> all.codes)
    else:
        _add_block_entries(all, block * BLOCK, <const uint32_t*> all.codes)


def add_family_entries(
    const any_code_t[:, ::1] codes,
    const int64_t[::1] sizes,
    const int64_t[::1] starts,
    const int64_t[::1] columns,
    const int64_t[::1] strides,
    const int64_t[::1] offsets,
    const float64_t[:, ::1] table,
    float64_t[:, ::1] out,
    int n_threads,
):
    """Add table[offsets[f] + cell of row i] to out[i] for all families f in which row i has no missing value.

    The cells and the other arguments are as in `count_families`.
    """
    cdef Families job
    job.codes, job.code_size, job.n_rows, job.sizes = &codes[0, 0], sizeof(any_code_t), codes.shape[1], &sizes[0]
    job.starts, job.columns, job.strides, job.offsets = &starts[0], &columns[0], &strides[0], &offsets[0]
    job.n_families, job.table, job.width, job.out = starts.shape[0] - 1, &table[0, 0], table.shape[1], &out[0, 0]
    with nogil:
        dynamic_parallel_for(_add_entries_task, &job, (job.n_rows + BLOCK - 1) // BLOCK, n_threads)
