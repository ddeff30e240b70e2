"""Prediction from trees in plain arrays: leaf scans for small trees, walks of many rows for large ones.

A raw prediction is the sum of the trees' values in tree order. Results are therefore bit-identical for every code path,
number of threads, batch size and vector level.
"""

import numpy as np

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
)
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from fastens.engine.predict.compile cimport (
    SCAN_ROWS, SCAN_TREES, WALK_LANES, Codes, CompiledTrees, Program, add_leaves, scan_leaves, shift_view, walk_rows,
    walk_trees,
)
from fastens.engine.predict.compile cimport Rows, fill_records, fill_views, record_size
from fastens.engine.structs cimport (
    code_t, float32_t, float64_t, int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
)
from fastens.engine.thread_pool cimport MAX_THREADS, parallel_for_until_interrupted

cdef enum:
    CACHE_LINE = 64
    FEW_ROWS = 12               # up to this number, predicting row by row is faster than a block
    # Number of rows that walk through a tree together: more rows reuse the tree's nodes better while these are in the
    # L2 cache; records are read sequentially.
    MAX_WALK_ROWS = 65536
    WALK_BYTES = 1 << 22        # maximum total size of the records of these rows
    APPLY_ROWS = 8192           # rows whose leaves in APPLY_TREES trees are transposed to row order together
    APPLY_TREES = 16
    # Sparse rows with longer records walk one by one, because records of many rows do not fit in the cache.
    MAX_SHARED_RECORD = 1 << 11
    ROWS_ONE_BY_ONE = 64        # rows in the block of a thread


cdef struct Sums:
    # Destination for the values of some of the trees.
    float64_t* raw
    Py_ssize_t row_stride
    Py_ssize_t output_stride
    int32_t first_tree
    int32_t last_tree


cdef struct Scratch:
    # Workspace of one thread. `codes` holds a block for each view, or records.
    char* codes
    void** views
    float64_t* raw
    uint8_t* leaf
    uint32_t* at
    uint32_t* waiting


cdef inline void add_values(
    const Program* program, int32_t tree, const uint32_t* at, Py_ssize_t n_rows, float64_t* raw,
    Py_ssize_t row_stride, Py_ssize_t stride
) noexcept nogil:
    """Add the values of the nodes `at`, which n_rows rows have reached in a tree, to the raw predictions `raw`.

    Rows of `raw` are `row_stride` apart, and outputs are `stride` apart.
    """
    cdef const float32_t* narrow = <const float32_t*> program.value
    cdef const float64_t* wide = <const float64_t*> program.value
    cdef Py_ssize_t r, k, n_values = program.n_values
    raw += program.walks[tree].output * stride
    if n_values == 1 and program.value_size == 4:
        for r in range(n_rows):
            raw[r * row_stride] += narrow[at[r]]
    elif program.value_size == 4:
        for r in range(n_rows):
            for k in range(n_values):
                raw[r * row_stride + k * stride] += narrow[at[r] * n_values + k]
    else:
        for r in range(n_rows):
            for k in range(n_values):
                raw[r * row_stride + k * stride] += wide[at[r] * n_values + k]


# ------------------------------------------------------------------------------------------- blocks with views, to scan

cdef void shift_codes(const Program* program, Scratch* scratch, uint8_t** views) noexcept nogil:
    """Add 128 modulo 256 to the codes in all views if there are scans, as scans read them; again to undo this."""
    cdef uint8_t* shifted
    cdef int32_t v
    for v in range(program.n_views if program.scan_nodes != NULL else 0):
        shifted = <uint8_t*> scratch.codes + v * SCAN_ROWS
        shift_view(views[v], shifted)
        views[v] = shifted


cdef inline int32_t add_next_trees(
    const Program* program, int32_t first, int32_t last, Scratch* scratch, Py_ssize_t n_rows, code_t** views
) noexcept nogil:
    """Add tree `first`, or several from it on if they are scanned together, to `scratch.raw`; return how many.

    Only trees below `last` that have the same output are scanned together.
    """
    cdef int32_t n = 0, output = program.walks[first].output
    cdef Codes codes = Codes(NULL, 0, <const void* const*> views)
    if code_t is uint8_t:
        while (
            n < SCAN_TREES and first + n < last and program.scans[first + n].values != NULL
            and program.walks[first + n].output == output
        ):
            scan_leaves(
                program.level, program.scans[first + n], <const int8_t* const*> views, program.scan_sets,
                scratch.leaf + n * SCAN_ROWS)
            n += 1
        if n > 0:
            add_leaves(
                program.level, program.scans + first, n, scratch.leaf, scratch.raw + <Py_ssize_t> output * SCAN_ROWS)
            return n
    if code_t is uint8_t:
        shift_codes(program, scratch, views)
    walk_rows(
        &program.nodes, program.walks + first, &codes, program.code_size, <uint32_t> n_rows, scratch.at,
        scratch.waiting)
    if code_t is uint8_t:
        shift_codes(program, scratch, views)
    add_values(program, first, scratch.at, n_rows, scratch.raw, 1, SCAN_ROWS)
    return 1


cdef void add_block(
    const Program* program, const Rows* rows, const Sums* sums, Py_ssize_t row, Scratch* scratch,
    code_t** views,
) noexcept nogil:
    """Add trees first_tree to last_tree - 1 to the sums of SCAN_ROWS rows, or of the remaining ones, from `row` on."""
    cdef Py_ssize_t n_rows = min(<Py_ssize_t> SCAN_ROWS, rows.n_rows - row)
    cdef Py_ssize_t k, r
    cdef int32_t t = sums.first_tree
    cdef float64_t* out
    cdef float64_t* raw
    fill_views(program, rows, row, scratch.codes, views)
    if code_t is uint8_t:
        shift_codes(program, scratch, views)
    for k in range(program.n_outputs):
        out = sums.raw + row * sums.row_stride + k * sums.output_stride
        raw = scratch.raw + k * SCAN_ROWS
        for r in range(n_rows):
            raw[r] = out[r * sums.row_stride]
    while t < sums.last_tree:
        t += add_next_trees(program, t, sums.last_tree, scratch, n_rows, views)
    for k in range(program.n_outputs):
        out = sums.raw + row * sums.row_stride + k * sums.output_stride
        raw = scratch.raw + k * SCAN_ROWS
        for r in range(n_rows):
            out[r * sums.row_stride] = raw[r]


# ----------------------------------------------------------------------------------------- blocks with records, to walk

cdef inline Codes fill_row_records(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, Scratch* scratch
) noexcept nogil:
    """Write the records of n_rows rows from `row` on to the workspace `scratch`; return a pointer to them."""
    if program.code_size == 1:
        fill_records(program, rows, row, n_rows, <uint8_t*> scratch.codes)
    else:
        fill_records(program, rows, row, n_rows, <uint16_t*> scratch.codes)
    return Codes(scratch.codes, record_size(program), NULL)


cdef void walk_block(
    const Program* program, const Rows* rows, const Sums* sums, Py_ssize_t row, Py_ssize_t n_rows, Scratch* scratch
) noexcept nogil:
    """Add the trees to the sums of n_rows rows from `row` on, by walks of all rows through one tree at a time."""
    cdef Codes codes = fill_row_records(program, rows, row, n_rows, scratch)
    cdef float64_t* raw = sums.raw + row * sums.row_stride
    cdef int32_t t
    for t in range(sums.first_tree, sums.last_tree):
        walk_rows(
            &program.nodes, program.walks + t, &codes, program.code_size, <uint32_t> n_rows, scratch.at,
            scratch.waiting)
        add_values(program, t, scratch.at, n_rows, raw, sums.row_stride, sums.output_stride)


cdef void find_leaves(
    const Program* program, const Rows* rows, int32_t* out, Py_ssize_t row, Py_ssize_t n_rows, Scratch* scratch
) noexcept nogil:
    """Write the leaf of n_rows rows from `row` on in each tree to `out`, as a node index within the tree."""
    cdef Codes codes = fill_row_records(program, rows, row, n_rows, scratch)
    cdef int32_t i, n, t = 0
    cdef Py_ssize_t r
    while t < program.n_trees:
        n = min(<int32_t> APPLY_TREES, program.n_trees - t)
        for i in range(n):
            walk_rows(
                &program.nodes, program.walks + t + i, &codes, program.code_size, <uint32_t> n_rows,
                scratch.at + i * n_rows, scratch.waiting)
        for r in range(n_rows):
            for i in range(n):
                out[(row + r) * program.n_trees + t + i] = <int32_t> (
                    scratch.at[i * n_rows + r] - program.walks[t + i].root)
        t += APPLY_TREES


# ----------------------------------------------------------------------------------------------------------- one by one

cdef void walk_row(
    const Program* program, const Rows* rows, const Sums* sums, int32_t* leaves, Py_ssize_t row, Scratch* scratch,
    code_t* record
) noexcept nogil:
    """Walk one row through all trees at once; write its leaves, or add to its sums if `leaves` is NULL.

    `record` is `scratch.codes`, with the type of the program's codes.
    """
    cdef Codes codes = Codes(scratch.codes, 0, NULL)
    cdef float64_t* out
    cdef int32_t t, first = 0, last = program.n_trees
    if leaves == NULL:
        first, last = sums.first_tree, sums.last_tree
    fill_records(program, rows, row, 1, record)
    walk_trees(
        &program.nodes, program.walks + first, last - first, &codes, program.code_size, scratch.at, scratch.waiting)
    if leaves != NULL:
        for t in range(last):
            leaves[row * last + t] = <int32_t> (scratch.at[t] - program.walks[t].root)
        return
    out = sums.raw + row * sums.row_stride
    if program.n_outputs == 1:
        out[0] = sum_of_nodes(program, scratch.at, last - first, out[0])
        return
    for t in range(first, last):
        add_values(program, t, scratch.at + t - first, 1, out, sums.row_stride, sums.output_stride)


cdef void walk_one_by_one(
    const Program* program, const Rows* rows, const Sums* sums, int32_t* leaves, Py_ssize_t row, Py_ssize_t n_rows,
    Scratch* scratch
) noexcept nogil:
    """Walk each of n_rows rows from `row` on through all trees; write leaves, or add to sums if `leaves` is NULL."""
    cdef Py_ssize_t r
    for r in range(row, row + n_rows):
        if program.code_size == 1:
            walk_row(program, rows, sums, leaves, r, scratch, <uint8_t*> scratch.codes)
        else:
            walk_row(program, rows, sums, leaves, r, scratch, <uint16_t*> scratch.codes)


cdef inline float64_t sum_of_nodes(
    const Program* program, const uint32_t* at, int32_t n, float64_t total
) noexcept nogil:
    """Return `total` plus the values of the n nodes `at`, added in this order in a register."""
    cdef const float32_t* narrow = <const float32_t*> program.value
    cdef const float64_t* wide = <const float64_t*> program.value
    cdef int32_t i
    if program.value_size == 4:
        for i in range(n):
            total += narrow[at[i]]
    else:
        for i in range(n):
            total += wide[at[i]]
    return total


# ---------------------------------------------------------------------------------------------------------- interface

cdef struct Plan:
    # How the rows are divided into blocks: with views (SCAN_ROWS rows each), with records, or with one record.
    bint by_view
    bint one_by_one
    Py_ssize_t block_rows
    Py_ssize_t n_records
    Py_ssize_t n_waiting
    Py_ssize_t n_blocks
    size_t memory               # bytes for one thread


cdef Plan plan_blocks(
    const Program* program, Py_ssize_t n_rows, Py_ssize_t max_rows, bint by_view, Py_ssize_t n_at
) noexcept nogil:
    """Plan blocks of at most `max_rows` rows with records or, if `by_view`, of SCAN_ROWS rows with views.

    `n_at` is the number of node indices that the workspace stores per row.
    """
    cdef Plan plan
    cdef Py_ssize_t row_bytes = record_size(program) + (n_at + 1) * sizeof(uint32_t)
    plan.by_view, plan.one_by_one = by_view, False
    plan.block_rows = max_rows
    if by_view:
        plan.block_rows = SCAN_ROWS
        row_bytes = <Py_ssize_t> program.n_views * program.code_size + SCAN_TREES + 2 * sizeof(uint32_t)
        row_bytes += program.n_outputs * sizeof(float64_t)
    plan.n_blocks = (n_rows + plan.block_rows - 1) // plan.block_rows
    plan.n_records = plan.n_waiting = plan.block_rows
    plan.memory = plan.block_rows * row_bytes + program.n_views * sizeof(void*) + 2 * CACHE_LINE
    return plan


cdef Plan plan_one_by_one(const Program* program, Py_ssize_t n_rows) noexcept nogil:
    """Plan blocks of rows that walk through all trees one row at a time."""
    cdef Plan plan = Plan(False, True, ROWS_ONE_BY_ONE, 1, program.n_trees + WALK_LANES, 0, 0)
    plan.n_blocks = (n_rows + ROWS_ONE_BY_ONE - 1) // ROWS_ONE_BY_ONE
    plan.memory = record_size(program) + (2 * plan.n_waiting) * sizeof(uint32_t)
    plan.memory += program.n_views * sizeof(void*) + 2 * CACHE_LINE
    return plan


cdef inline bint walks_one_by_one(const Program* program, const Rows* rows) noexcept nogil:
    """Return True if rows should walk one by one: there are few rows, or their sparse records are long."""
    return rows.n_rows <= FEW_ROWS or rows.starts != NULL and record_size(program) > MAX_SHARED_RECORD


cdef Scratch scratch_in(const Program* program, const Plan* plan, char* memory) noexcept nogil:
    """Return the pointers of one thread's workspace in `memory`, laid out as planned."""
    cdef Scratch scratch
    cdef Py_ssize_t n_codes = plan.n_records * record_size(program)
    scratch.codes = memory + (CACHE_LINE - <size_t> memory % CACHE_LINE) % CACHE_LINE
    if plan.by_view:
        n_codes = <Py_ssize_t> program.n_views * program.code_size * SCAN_ROWS
    scratch.views = <void**> (scratch.codes + n_codes)
    scratch.raw = <float64_t*> (scratch.views + program.n_views)
    scratch.waiting = <uint32_t*> scratch.raw
    if plan.by_view:
        scratch.waiting = <uint32_t*> (scratch.raw + <Py_ssize_t> program.n_outputs * SCAN_ROWS)
    scratch.at = scratch.waiting + plan.n_waiting
    scratch.leaf = <uint8_t*> (scratch.at + plan.block_rows)
    return scratch


cdef void run_block(
    const Program* program, const Rows* rows, const Sums* sums, int32_t* leaves, Py_ssize_t block, const Plan* plan,
    char* memory
) noexcept nogil:
    """Write the leaves of a block's rows or, if `leaves` is NULL, add the trees to the sums."""
    cdef Scratch scratch = scratch_in(program, plan, memory)
    cdef Py_ssize_t row = block * plan.block_rows
    cdef Py_ssize_t n_rows = min(plan.block_rows, rows.n_rows - row)
    if plan.one_by_one:
        walk_one_by_one(program, rows, sums, leaves, row, n_rows, &scratch)
    elif leaves != NULL:
        find_leaves(program, rows, leaves, row, n_rows, &scratch)
    elif not plan.by_view:
        walk_block(program, rows, sums, row, n_rows, &scratch)
    elif program.code_size == 1:
        add_block(program, rows, sums, row, &scratch, <uint8_t**> scratch.views)
    else:
        add_block(program, rows, sums, row, &scratch, <uint16_t**> scratch.views)


cdef struct Blocks:
    const Program* program
    const Rows* rows
    const Sums* sums
    int32_t* leaves
    const Plan* plan
    char* memory                # workspace of the first thread; the others follow


cdef void run_block_task(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Run one block in the workspace of the thread; the parallel task of `run_blocks`."""
    cdef const Blocks* blocks = <const Blocks*> job
    run_block(
        blocks.program, blocks.rows, blocks.sums, blocks.leaves, block, blocks.plan,
        blocks.memory + thread * blocks.plan.memory,
    )


cdef int run_blocks(
    const Program* program, const Rows* rows, const Sums* sums, int32_t* leaves, Plan plan, int n_threads
) except -1:
    """Run all blocks in parallel; raise MemoryError on failure, or KeyboardInterrupt after Ctrl-C."""
    cdef int32_t n = <int32_t> max(1, min(min(<Py_ssize_t> n_threads, MAX_THREADS), plan.n_blocks))
    cdef Blocks blocks = Blocks(program, rows, sums, leaves, &plan, <char*> calloc(n, plan.memory))
    if blocks.memory == NULL:
        raise MemoryError(f"cannot allocate {n * plan.memory} bytes for prediction")
    try:
        with nogil:
            parallel_for_until_interrupted(run_block_task, &blocks, plan.n_blocks, n)
    finally:
        free(blocks.memory)
    return 0


cdef Plan plan_walks(const Program* program, Py_ssize_t n_rows, int n_threads) noexcept nogil:
    """Plan as few blocks with records as fit in memory, rounded up to a multiple of the number of threads."""
    cdef Py_ssize_t max_rows = min(<Py_ssize_t> MAX_WALK_ROWS, max(1, WALK_BYTES // record_size(program)))
    cdef Py_ssize_t n_blocks = (n_rows + max_rows - 1) // max_rows
    n_blocks = (n_blocks + n_threads - 1) // n_threads * n_threads
    # Blocks start at a multiple of cache lines of codes.
    return plan_blocks(program, n_rows, ((n_rows + n_blocks - 1) // n_blocks + 63) // 64 * 64, False, 1)


cdef int read_values(const Program* program, Py_buffer* X, Rows* rows) except -1:
    """Point `rows` to a float array of any strides; raise ValueError if type, strides or columns do not fit."""
    cdef bint odd = X.ndim == 2 and (X.shape[0] > 1 and X.strides[0] % X.itemsize != 0
                                     or X.shape[1] > 1 and X.strides[1] % X.itemsize != 0)
    if X.ndim != 2 or X.format[0] not in b"fd" or X.format[1] or odd:
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
    rows.features, rows.starts = NULL, NULL
    return 0


cdef object read_csr(const Program* program, X, Rows* rows):
    """Point `rows` to a CSR matrix without duplicates; return the arrays that must live while rows are read."""
    features = np.ascontiguousarray(X.indices, dtype=np.int32)
    starts = np.ascontiguousarray(X.indptr, dtype=np.int64)
    cdef size_t data = X.data.ctypes.data, first_feature = features.ctypes.data, first_start = starts.ctypes.data
    rows.data, rows.kind = <const char*> data, c"f" if X.dtype == np.float32 else c"d"
    rows.features, rows.starts = <const int32_t*> first_feature, <const int64_t*> first_start
    rows.n_rows, rows.row_stride, rows.column_stride = X.shape[0], 0, 0
    return features, starts


cdef object read_rows(const Program* program, X, Py_buffer* buffer, Rows* rows):
    """Point `rows` to a float array or CSR matrix; return arrays that must live while rows are read, or None.

    The caller must release `buffer` afterwards.
    """
    memset(buffer, 0, sizeof(Py_buffer))
    if not PyObject_CheckBuffer(X):
        return read_csr(program, X, rows)
    PyObject_GetBuffer(X, buffer, PyBUF_STRIDES | PyBUF_FORMAT)
    try:
        read_values(program, buffer, rows)
    except ValueError:
        PyBuffer_Release(buffer)
        raise
    return None


def predict_raw(CompiledTrees trees not None, X, int n_threads=1, n_trees=None):
    """Return the raw predictions of a float array or CSR matrix by the first n_trees trees, (n_rows, n_outputs)."""
    cdef const Program* program = &trees.program
    cdef int32_t last = program.n_trees if n_trees is None else min(max(<int32_t> n_trees, 0), program.n_trees)
    cdef Py_buffer values, out
    cdef Rows rows
    cdef Sums sums
    cdef Py_ssize_t i
    _owner = read_rows(program, X, &values, &rows)
    try:
        raw = np.empty((rows.n_rows, program.n_outputs))
        PyObject_GetBuffer(raw, &out, PyBUF_WRITABLE)
        sums = Sums(<float64_t*> out.buf, program.n_outputs, 1, 0, last)
        PyBuffer_Release(&out)
        for i in range(rows.n_rows * program.n_outputs):
            sums.raw[i] = program.baseline[i % program.n_outputs]
        if rows.n_rows > FEW_ROWS and program.scans_all:
            run_blocks(program, &rows, &sums, NULL, plan_blocks(program, rows.n_rows, 0, True, 1), n_threads)
        elif walks_one_by_one(program, &rows):
            run_blocks(program, &rows, &sums, NULL, plan_one_by_one(program, rows.n_rows), n_threads)
        else:
            run_blocks(program, &rows, &sums, NULL, plan_walks(program, rows.n_rows, n_threads), n_threads)
    finally:
        PyBuffer_Release(&values)
    return raw


def apply(CompiledTrees trees not None, X, int n_threads=1):
    """Return the leaf of each row in each tree, as a node index within the tree; int32 of shape (n_rows, n_trees)."""
    cdef const Program* program = &trees.program
    cdef Py_buffer values
    cdef Rows rows
    cdef int32_t[:, ::1] out
    _owner = read_rows(program, X, &values, &rows)
    try:
        leaves = np.empty((rows.n_rows, program.n_trees), dtype=np.int32)
        out = leaves
        if leaves.size and walks_one_by_one(program, &rows):
            run_blocks(program, &rows, NULL, &out[0, 0], plan_one_by_one(program, rows.n_rows), n_threads)
        elif leaves.size:
            run_blocks(program, &rows, NULL, &out[0, 0],
                       plan_blocks(program, rows.n_rows, APPLY_ROWS, False, APPLY_TREES), n_threads)
    finally:
        PyBuffer_Release(&values)
    return leaves


def add_to_raw(
    CompiledTrees trees not None, const code_t[:, :] codes, float64_t[:, :] raw, int32_t first, int32_t last,
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
    rows = Rows(
        <const char*> &codes[0, 0], codes.shape[1], codes.strides[1] // <Py_ssize_t> sizeof(code_t),
        codes.strides[0] // <Py_ssize_t> sizeof(code_t), c"B" if sizeof(code_t) == 1 else c"H",
        NULL, NULL,
    )
    sums = Sums(&raw[0, 0], raw.strides[1] // sizeof(float64_t), raw.strides[0] // sizeof(float64_t), first, last)
    run_blocks(program, &rows, &sums, NULL, plan_blocks(program, rows.n_rows, 0, True, 1), n_threads)
