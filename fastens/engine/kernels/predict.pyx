"""Predictions from trees in plain arrays: many rows by leaf scans and interleaved walks, single rows by a short walk.

A raw prediction is the sum of its trees' values in the trees' order, whatever the route: every route, thread count,
batch and vector level gives the same result to the bit.
"""

import numpy as np

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cython.parallel cimport prange, threadid
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from fastens.engine.kernels.bins cimport bin_values
from fastens.engine.kernels.compile cimport (
    SCAN_ROWS, Column, CompiledTrees, Program, TreePlan, WalkNode, add_leaves, scan_leaves,
)
from fastens.engine.kernels.structs cimport (
    FeatureBins, code_t, float32_t, float64_t, int32_t, uint8_t, uint16_t, uint32_t,
)

cdef enum:
    LANES = 8           # walks in flight at once: enough to hide the wait for a node and its code
    BIN_ROWS = 64       # rows binned at once, all features: their values stay in the first-level cache
    CACHE_LINE = 64
    FEW_ROWS = 12       # up to here row by row is faster than a block of SCAN_ROWS


cdef struct Rows:
    # What to predict: values ("f", "d": float32, float64), or codes, one contiguous row per feature ("B", "H").
    # Strides count elements.
    const char* data
    Py_ssize_t n_rows
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    char kind


cdef struct Sums:
    # Where the values of some of the trees are added.
    float64_t* raw
    Py_ssize_t row_stride
    Py_ssize_t output_stride
    int32_t first_tree
    int32_t last_tree


cdef struct Scratch:
    # Working memory of one thread: n_views blocks of codes, the pointers to them, n_outputs blocks of sums, leaves.
    char* codes
    void** views
    float64_t* raw
    uint8_t* leaf
    const WalkNode** nodes


# ------------------------------------------------------------------------------------------------------------- walks

cdef inline int32_t goes_right(const WalkNode* node, int32_t code, const uint32_t* words, bint has_sets) noexcept nogil:
    if has_sets and node.test < -1:
        return not (words[(code >> 5) - node.test - 2] >> (code & 31)) & 1
    return code > node.test


cdef inline void walk_lanes(
    const Program* program, const WalkNode** lanes, code_t** views, Py_ssize_t row, Py_ssize_t row_step, bint has_sets
) noexcept nogil:
    # Lane i takes row `row + i * row_step` from node lanes[i] to its leaf.
    cdef const WalkNode* at[LANES]
    cdef const WalkNode* after
    cdef int32_t code, i
    cdef bint moved = True
    for i in range(LANES):
        at[i] = lanes[i]
    while moved:
        moved = False
        for i in range(LANES):
            code = views[at[i].view][row + i * row_step]
            after = at[i].left + goes_right(at[i], code, program.category_words, has_sets)
            moved |= after != at[i]
            at[i] = after
    for i in range(LANES):
        lanes[i] = at[i]


cdef void walk_rows(
    const Program* program, int32_t root, code_t** views, Py_ssize_t n_rows, const WalkNode** leaves
) noexcept nogil:
    # Views and leaves have room for the next multiple of LANES rows.
    cdef Py_ssize_t row = 0
    cdef int32_t i
    while row < n_rows:
        for i in range(LANES):
            leaves[row + i] = program.nodes + root
        if program.has_sets:
            walk_lanes(program, leaves + row, views, row, 1, True)
        else:
            walk_lanes(program, leaves + row, views, row, 1, False)
        row += LANES


cdef void walk_trees(
    const Program* program, int32_t first, int32_t last, code_t** views, const WalkNode** leaves
) noexcept nogil:
    # One row, at most LANES trees.
    cdef int32_t i
    for i in range(LANES):
        leaves[i] = program.nodes + program.trees[min(first + i, last - 1)].root
    if program.has_sets:
        walk_lanes(program, leaves, views, 0, 0, True)
    else:
        walk_lanes(program, leaves, views, 0, 0, False)


# ------------------------------------------------------------------------------------------------------------- views

cdef inline void bin_column(
    const FeatureBins* bins, const Rows* rows, Py_ssize_t row, int32_t feature, Py_ssize_t n_rows, code_t* out
) noexcept nogil:
    cdef Py_ssize_t at = row * rows.row_stride + feature * rows.column_stride
    if rows.kind == c"f":
        bin_values(bins + feature, <const float32_t*> rows.data + at, rows.row_stride, n_rows, out)
    else:
        bin_values(bins + feature, <const float64_t*> rows.data + at, rows.row_stride, n_rows, out)


cdef void bin_views(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t** views
) noexcept nogil:
    # Fill the views with the codes of some rows of a float array.
    cdef Py_ssize_t n, r, c, start = 0
    cdef code_t* codes
    cdef code_t* shifted
    cdef Column column
    while start < n_rows:
        n = min(<Py_ssize_t> BIN_ROWS, n_rows - start)
        for c in range(program.n_columns):
            column = program.columns[c]
            codes = views[column.plain if column.plain >= 0 else column.shifted] + start
            bin_column(program.bins, rows, row + start, column.feature, n, codes)
            if column.shifted >= 0:
                shifted = views[column.shifted] + start
                for r in range(n):
                    shifted[r] = <code_t> (codes[r] - 1)
        start += BIN_ROWS


cdef void show_views(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t** views
) noexcept nogil:
    # Let the views show codes that are there already. Those of a full block are not copied: the view points to them.
    cdef Py_ssize_t r, c
    cdef const code_t* codes
    cdef code_t* shifted
    cdef Column column
    for c in range(program.n_columns):
        column = program.columns[c]
        codes = <const code_t*> rows.data + row + column.feature * rows.column_stride
        if column.shifted >= 0:
            shifted = views[column.shifted]
            for r in range(n_rows):
                shifted[r] = <code_t> (codes[r] - 1)
        if column.plain >= 0 and n_rows == SCAN_ROWS:
            views[column.plain] = <code_t*> codes
        elif column.plain >= 0:
            memcpy(views[column.plain], codes, n_rows * sizeof(code_t))


cdef inline void fill_views(
    const Program* program, const Rows* rows, Py_ssize_t row, Scratch* scratch, code_t** views
) noexcept nogil:
    cdef Py_ssize_t v, n_rows = min(<Py_ssize_t> SCAN_ROWS, rows.n_rows - row)
    for v in range(program.n_views):
        views[v] = <code_t*> scratch.codes + v * SCAN_ROWS
    if rows.kind == c"f" or rows.kind == c"d":
        bin_views(program, rows, row, n_rows, views)
    else:
        show_views(program, rows, row, n_rows, views)


# ------------------------------------------------------------------------------------------------------------ blocks

cdef inline void add_values(
    const Program* program, const WalkNode* leaf, float64_t* raw, Py_ssize_t stride
) noexcept nogil:
    # The values of a leaf to one raw column or, where it has one for each, to all.
    cdef const float64_t* value = program.value + (leaf - program.nodes) * program.n_values
    cdef Py_ssize_t k
    for k in range(program.n_values):
        raw[k * stride] += value[k]


cdef inline void add_tree(
    const Program* program, TreePlan tree, Scratch* scratch, Py_ssize_t n_rows, code_t** views
) noexcept nogil:
    cdef float64_t* raw = scratch.raw + <Py_ssize_t> tree.output * SCAN_ROWS
    cdef Py_ssize_t r
    if code_t is uint8_t:
        if tree.scan.values != NULL:
            scan_leaves(program.level, tree.scan, <const uint8_t* const*> views, program.scan_sets, scratch.leaf)
            add_leaves(program.level, tree.scan, scratch.leaf, raw)
            return
    walk_rows(program, tree.root, views, n_rows, scratch.nodes)
    for r in range(n_rows):
        add_values(program, scratch.nodes[r], raw + r, SCAN_ROWS)


cdef void add_block(
    const Program* program, const Rows* rows, const Sums* sums, Py_ssize_t row, Scratch* scratch,
    code_t** views,
) noexcept nogil:
    # Add the trees to the sums of SCAN_ROWS rows, or of those that remain.
    cdef Py_ssize_t n_rows = min(<Py_ssize_t> SCAN_ROWS, rows.n_rows - row)
    cdef Py_ssize_t k, r
    cdef int32_t t
    cdef float64_t* out
    cdef float64_t* raw
    fill_views(program, rows, row, scratch, views)
    for k in range(program.n_outputs):
        out = sums.raw + row * sums.row_stride + k * sums.output_stride
        raw = scratch.raw + k * SCAN_ROWS
        for r in range(n_rows):
            raw[r] = out[r * sums.row_stride]
    for t in range(sums.first_tree, sums.last_tree):
        add_tree(program, program.trees[t], scratch, n_rows, views)
    for k in range(program.n_outputs):
        out = sums.raw + row * sums.row_stride + k * sums.output_stride
        raw = scratch.raw + k * SCAN_ROWS
        for r in range(n_rows):
            out[r * sums.row_stride] = raw[r]


cdef void add_row(
    const Program* program, const Rows* rows, const Sums* sums, Py_ssize_t row, code_t** views
) noexcept nogil:
    # The same for one row of a float array.
    cdef float64_t* out = sums.raw + row * sums.row_stride
    cdef const WalkNode* leaves[LANES]
    cdef int32_t i, t = sums.first_tree
    bin_views(program, rows, row, 1, views)
    while t < sums.last_tree:
        walk_trees(program, t, sums.last_tree, views, leaves)
        for i in range(min(<int32_t> LANES, sums.last_tree - t)):
            add_values(program, leaves[i], out + program.trees[t + i].output * sums.output_stride, sums.output_stride)
        t += LANES


cdef void find_leaves(
    const Program* program, const Rows* rows, int32_t* out, Py_ssize_t row, Scratch* scratch,
    code_t** views,
) noexcept nogil:
    # Write the leaf of each row and tree, counted inside the tree, for SCAN_ROWS rows, or those that remain.
    cdef Py_ssize_t n_rows = min(<Py_ssize_t> SCAN_ROWS, rows.n_rows - row)
    cdef Py_ssize_t t, r
    fill_views(program, rows, row, scratch, views)
    for t in range(program.n_trees):
        walk_rows(program, program.trees[t].root, views, n_rows, scratch.nodes)
        for r in range(n_rows):
            out[(row + r) * program.n_trees + t] = <int32_t> (scratch.nodes[r] - program.nodes - program.trees[t].root)


# ------------------------------------------------------------------------------------------------------------- doors

cdef size_t scratch_size(const Program* program) noexcept nogil:
    cdef size_t n_views = program.n_views
    cdef size_t row_bytes = n_views * program.code_size + sizeof(void*) + 1 + program.n_outputs * sizeof(float64_t)
    return SCAN_ROWS * row_bytes + n_views * sizeof(void*) + CACHE_LINE


cdef Scratch scratch_at(const Program* program, char* memory) noexcept nogil:
    cdef Scratch scratch
    cdef Py_ssize_t n_views = program.n_views
    scratch.codes = memory + (CACHE_LINE - <size_t> memory % CACHE_LINE) % CACHE_LINE
    scratch.raw = <float64_t*> (scratch.codes + n_views * program.code_size * SCAN_ROWS)
    scratch.views = <void**> (scratch.raw + <Py_ssize_t> program.n_outputs * SCAN_ROWS)
    scratch.nodes = <const WalkNode**> (scratch.views + n_views)
    scratch.leaf = <uint8_t*> (scratch.nodes + SCAN_ROWS)
    return scratch


cdef void run_block(
    const Program* program, const Rows* rows, const Sums* sums, int32_t* leaves, Py_ssize_t row, char* memory
) noexcept nogil:
    # Find leaves, or without a place for them add the trees to the sums.
    cdef Scratch scratch = scratch_at(program, memory)
    if program.code_size == 1 and leaves != NULL:
        find_leaves(program, rows, leaves, row, &scratch, <uint8_t**> scratch.views)
    elif program.code_size == 1:
        add_block(program, rows, sums, row, &scratch, <uint8_t**> scratch.views)
    elif leaves != NULL:
        find_leaves(program, rows, leaves, row, &scratch, <uint16_t**> scratch.views)
    else:
        add_block(program, rows, sums, row, &scratch, <uint16_t**> scratch.views)


cdef int run_blocks(
    const Program* program, const Rows* rows, const Sums* sums, int32_t* leaves, int n_threads
) except -1:
    cdef Py_ssize_t block, n_blocks = (rows.n_rows + SCAN_ROWS - 1) // SCAN_ROWS
    cdef size_t size = scratch_size(program)
    cdef int n = <int> max(1, min(<Py_ssize_t> n_threads, n_blocks))
    cdef char* memory = <char*> calloc(n, size)
    if memory == NULL:
        raise MemoryError(f"cannot allocate {n * size} bytes for prediction")
    with nogil:
        for block in prange(n_blocks, num_threads=n, schedule="dynamic", use_threads_if=n > 1):
            run_block(program, rows, sums, leaves, block * SCAN_ROWS, memory + threadid() * size)
    free(memory)
    return 0


cdef int run_few(const Program* program, const Rows* rows, const Sums* sums) except -1:
    cdef Py_ssize_t row, v, n_views = program.n_views
    cdef void** views = <void**> calloc(n_views, sizeof(void*) + sizeof(uint16_t))
    if views == NULL:
        raise MemoryError(f"cannot allocate {n_views} views for prediction")
    for v in range(n_views):
        views[v] = <char*> (views + n_views) + v * program.code_size
    with nogil:
        for row in range(rows.n_rows):
            if program.code_size == 1:
                add_row(program, rows, sums, row, <uint8_t**> views)
            else:
                add_row(program, rows, sums, row, <uint16_t**> views)
    free(views)
    return 0


cdef int read_values(const Program* program, Py_buffer* X, Rows* rows) except -1:
    # The rows of a float array, any strides.
    if X.ndim != 2 or X.format[0] not in b"fd" or X.format[1] or X.strides[0] % X.itemsize or X.strides[1] % X.itemsize:
        raise ValueError(f"X must be a 2-D array of float32 or float64, aligned and in native byte order, got {X.ndim} "
                         f"dimensions of format {X.format.decode()!r}")
    if X.shape[1] < program.n_features:
        raise ValueError(f"X must have {program.n_features} columns or more, got {X.shape[1]}")
    if program.bins == NULL and program.n_features > 0:
        raise ValueError("these trees were compiled without their binning: give them codes")
    rows.data = <const char*> X.buf
    rows.n_rows = X.shape[0]
    rows.row_stride = X.strides[0] // X.itemsize
    rows.column_stride = X.strides[1] // X.itemsize
    rows.kind = X.format[0]
    return 0


def predict_raw(CompiledTrees trees not None, X, int n_threads=1, n_trees=None):
    """Return the raw predictions of the rows of a float array, shape (n_rows, n_outputs)."""
    cdef const Program* program = &trees.program
    cdef int32_t last = program.n_trees if n_trees is None else min(max(<int32_t> n_trees, 0), program.n_trees)
    cdef Py_buffer values, out
    cdef Rows rows
    cdef Sums sums
    cdef Py_ssize_t i
    PyObject_GetBuffer(X, &values, PyBUF_STRIDES | PyBUF_FORMAT)
    try:
        read_values(program, &values, &rows)
        raw = np.empty((rows.n_rows, program.n_outputs))
        PyObject_GetBuffer(raw, &out, PyBUF_WRITABLE)
        sums = Sums(<float64_t*> out.buf, program.n_outputs, 1, 0, last)
        PyBuffer_Release(&out)
        for i in range(rows.n_rows * program.n_outputs):
            sums.raw[i] = program.baseline[i % program.n_outputs]
        if rows.n_rows <= FEW_ROWS:
            run_few(program, &rows, &sums)
        else:
            run_blocks(program, &rows, &sums, NULL, n_threads)
    finally:
        PyBuffer_Release(&values)
    return raw


def apply(CompiledTrees trees not None, X, int n_threads=1):
    """Return the leaf of each row in each tree, as a node number inside the tree; int32 of shape (n_rows, n_trees)."""
    cdef const Program* program = &trees.program
    cdef Py_buffer values
    cdef Rows rows
    cdef int32_t[:, ::1] out
    PyObject_GetBuffer(X, &values, PyBUF_STRIDES | PyBUF_FORMAT)
    try:
        read_values(program, &values, &rows)
        leaves = np.empty((rows.n_rows, program.n_trees), dtype=np.int32)
        out = leaves
        if leaves.size:
            run_blocks(program, &rows, NULL, &out[0, 0], n_threads)
    finally:
        PyBuffer_Release(&values)
    return leaves


def add_to_raw(
    CompiledTrees trees not None, const code_t[:, ::1] codes, float64_t[:, :] raw, int32_t first, int32_t last,
    int n_threads=1
):
    """Add trees first, ..., last - 1 to raw of shape (n_outputs, n_rows), from codes of shape (n_features, n_rows)."""
    cdef const Program* program = &trees.program
    cdef Rows rows
    cdef Sums sums
    if sizeof(code_t) != program.code_size:
        raise ValueError(f"codes must be of {program.code_size} bytes, got {sizeof(code_t)}")
    if codes.shape[0] < program.n_features or raw.shape[0] != program.n_outputs or codes.shape[1] != raw.shape[1]:
        raise ValueError(f"codes {codes.shape[0]} x {codes.shape[1]}, raw {raw.shape[0]} x {raw.shape[1]} do not fit "
                         f"{program.n_features} features and {program.n_outputs} outputs")
    if not 0 <= first <= last <= program.n_trees:
        raise ValueError(f"trees {first} to {last} are not among the {program.n_trees}")
    if codes.shape[1] == 0:
        return
    rows = Rows(<const char*> &codes[0, 0], codes.shape[1], 1, codes.shape[1], c"B" if sizeof(code_t) == 1 else c"H")
    sums = Sums(&raw[0, 0], raw.strides[1] // sizeof(float64_t), raw.strides[0] // sizeof(float64_t), first, last)
    run_blocks(program, &rows, &sums, NULL, n_threads)
