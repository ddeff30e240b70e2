"""Shapley values of trees: the contribution of each feature to a raw prediction."""

import numpy as np
from libc.math cimport isfinite
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from fastens.engine.memory cimport Plan, carve
from fastens.engine.structs cimport code_t, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint8_t
from fastens.engine.thread_pool cimport MAX_THREADS, dynamic_parallel_for
from fastens.engine.trees.leaf_games cimport (
    Leaf, LinePart, Lines, MASK_BITS, Pattern, Rows, SHAPLEY_LANES, Stack, Trees, Walk, mask_stride, compute_parts,
    add_linear_terms, prepare_leaf, sums_size, table_size
)


cdef extern from "engine/trees/shapley.h" nogil:
    ctypedef struct EdgeTest:
        int32_t first
        int32_t n_left
        int32_t is_left
        int32_t is_repeated
        int32_t bit
    void mark_bytes(
        const EdgeTest* test, const uint8_t* codes, Py_ssize_t n, const uint32_t* above, uint32_t* masks) noexcept
    void mark_words(
        const EdgeTest* test, const uint16_t* codes, Py_ssize_t n, const uint32_t* above, uint32_t* masks) noexcept
    void add_lanes(
        const float64_t* parts, const int64_t* offsets, int32_t n_parts, const float64_t* factors,
        float64_t* sums) noexcept
    void add_from_table(
        const float64_t* parts, const uint32_t* slots, const float64_t* factors, Py_ssize_t n,
        float64_t* sums) noexcept


cdef enum:
    # Rows of a chunk. In larger chunks, more rows share the same masks: with chunks of 125 rows, explaining 500 rows
    # against 100 others took twice as long in trees of 255 leaves.
    MAX_ROWS = 1024
    MAX_BITS = 13                  # bits of masks that index a table: 32 KB, which fits in the L1 cache
    RESULT_BYTES = 1 << 20          # results of a chunk, which fit in a core's cache
    THREAD_PIECES = 8  # pieces of work per thread: more pieces balance the load better, but each chunk has overhead
    MIN_ROWS = 128               # minimum rows of a chunk if chunks are made smaller so that all threads have work
    # Groups of trees.
    MAX_GROUPS = 16
    MIN_NODES = 256
    NODE_BYTES = 16                 # bytes of sums per node, much cheaper to clear and add than to visit the node
    SUMS_BYTES = 1 << 25            # limit on the sums of all groups in memory


# ------------------------------------------------------------------------------------------------------------- walk

cdef inline void mark_rows(
    const EdgeTest* test, const code_t* codes, Py_ssize_t n, const uint32_t* above, uint32_t* masks
) noexcept nogil:
    """Write each row's mask of passed features to `masks`: its mask `above` after the node's parent split.

    The bit of the split's feature is set or cleared by `test`, the condition on bin codes to take the edge.
    """
    if code_t is uint8_t:
        mark_bytes(test, codes, n, above, masks)
    else:
        mark_words(test, codes, n, above, masks)


cdef inline void mark_rows_by_set(
    const EdgeTest* test, const uint32_t* words, const code_t* codes, Py_ssize_t n, const uint32_t* above,
    uint32_t* masks,
) noexcept nogil:
    """Write each row's mask of passed features to `masks`: `above`, updated by a categorical split.

    The set `words` holds the codes that go left.
    """
    cdef Py_ssize_t i
    cdef uint32_t passes, bit = <uint32_t>1 << test.bit
    for i in range(n):
        passes = ((words[codes[i] >> 5] >> (codes[i] & 31)) & 1) == <uint32_t>test.is_left
        masks[i] = (above[i] | (0 if test.is_repeated else bit)) & ~(0 if passes else bit)


cdef void enter_node(const Walk* walk, int32_t depth, const code_t* codes, const code_t* background) noexcept nogil:
    """Follow the edge to the node at `depth`: write rows' masks of passed features, and the edge's column and share."""
    cdef const Trees* trees = walk.rows.trees
    cdef Stack* stack = walk.stack
    cdef int64_t node = walk.first + stack.node[depth], parent = walk.first + stack.node[depth - 1]
    cdef Py_ssize_t feature = trees.feature[parent], w
    cdef int32_t position = trees.position[node], missing_left = trees.missing_left[parent]
    cdef uint32_t* masks = stack.masks + depth * walk.n_words * walk.stride
    cdef uint32_t* above = masks - walk.n_words * walk.stride
    cdef const uint32_t* words = trees.category_words + trees.category_set[parent]
    cdef EdgeTest test = EdgeTest(
        not missing_left, trees.bin_threshold[parent] + missing_left,
        trees.left_child[parent] == stack.node[depth], trees.n_on_path[node] == trees.n_on_path[parent],
        position % MASK_BITS)
    for w in range(walk.n_words):
        if w != position // MASK_BITS:
            memcpy(masks + w * walk.stride, above + w * walk.stride, walk.stride * sizeof(uint32_t))
    w = position // MASK_BITS * walk.stride
    codes = codes + feature * walk.rows.n_rows + walk.row
    background = background + feature * walk.rows.n_background
    if trees.category_set[parent] >= 0:
        mark_rows_by_set(&test, words, codes, walk.n, above + w, masks + w)
        w += walk.rows.chunk
        mark_rows_by_set(&test, words, background, walk.rows.n_background, above + w, masks + w)
    else:
        mark_rows(&test, codes, walk.n, above + w, masks + w)
        w += walk.rows.chunk
        mark_rows(&test, background, walk.rows.n_background, above + w, masks + w)
    stack.share_above[depth] = stack.share[position]
    stack.share[position] = trees.share[node]
    stack.column[position] = trees.column[feature]


cdef void walk_tree(const Walk* walk, const code_t* codes, const code_t* background) noexcept nogil:
    """Traverse a tree depth first, left before right, and add the contributions of each leaf to the results."""
    cdef const Trees* trees = walk.rows.trees
    cdef Stack* stack = walk.stack
    cdef int32_t depth = 0, left
    stack.node[0] = 0
    stack.n_done[0] = 0
    memset(stack.masks, 0, walk.n_words * walk.stride * sizeof(uint32_t))
    while depth >= 0:
        left = trees.left_child[walk.first + stack.node[depth]]
        if left and stack.n_done[depth] < 2:
            depth += 1
            stack.node[depth] = left + stack.n_done[depth - 1]
            stack.n_done[depth - 1] += 1
            stack.n_done[depth] = 0
            enter_node(walk, depth, codes, background)
            continue
        if depth > 0:
            if not left:
                explain_leaf(walk, depth)
            stack.share[trees.position[walk.first + stack.node[depth]]] = stack.share_above[depth]
        depth -= 1


# ------------------------------------------------------------------------------------------------------------- leaf

cdef void explain_leaf(const Walk* walk, int32_t depth) noexcept nogil:
    """Add the contributions of a leaf's value and linear terms to the columns, or pairs, of its path."""
    cdef const Rows* rows = walk.rows
    cdef const Trees* trees = rows.trees
    cdef Stack* stack = walk.stack
    cdef Leaf leaf
    cdef int64_t node = walk.first + stack.node[depth], term
    cdef int32_t i, j
    leaf.walk, leaf.node, leaf.n = walk, node, trees.n_on_path[node]
    leaf.masks = stack.masks + depth * walk.n_words * walk.stride
    leaf.n_parts = leaf.n * (leaf.n - 1) // 2 if rows.pairs else leaf.n
    for i in range(leaf.n):
        if not rows.pairs:
            stack.offsets[i] = stack.column[i] * rows.chunk
        else:
            for j in range(i):
                stack.offsets[i * (i - 1) // 2 + j] = (
                    (stack.column[i] * trees.n_columns + stack.column[j]) * rows.chunk)
    leaf.term = -1
    prepare_leaf(&leaf)
    add_leaf(&leaf)
    if trees.lines.starts != NULL and rows.n_background:
        add_linear_terms(&leaf)
    elif trees.lines.starts != NULL:
        for term in range(trees.lines.starts[node], trees.lines.starts[node + 1]):
            leaf.term = term
            if find_deviations(&leaf):
                add_leaf(&leaf)


cdef bint find_deviations(Leaf* leaf) noexcept nogil:
    """Write the deviations of the linear term `leaf.term` from its value at the leaf's mean to `factors`, by row.

    A deviation is 0 if a value that one of the leaf's terms needs is missing. Returns False if the term's column is not
    on the leaf's path.
    """
    cdef const Lines* lines = &leaf.walk.rows.trees.lines
    cdef Stack* stack = leaf.walk.stack
    cdef Py_ssize_t chunk = leaf.walk.rows.chunk, i, other
    cdef int32_t column = leaf.walk.rows.trees.column[lines.features[leaf.term]]
    cdef const float64_t* values = stack.values + lines.features[leaf.term] * chunk
    cdef float64_t lower = lines.lower[leaf.term], upper = lines.upper[leaf.term]
    leaf.term_member = 0
    while leaf.term_member < leaf.n and stack.column[leaf.term_member] != column:
        leaf.term_member += 1
    if leaf.term_member == leaf.n:      # does not occur in grown trees
        return False
    for i in range(leaf.walk.n):
        stack.factors[i] = lines.slopes[leaf.term] * min(max(values[i], lower), upper) - lines.at_means[leaf.term]
    for other in range(lines.starts[leaf.node], lines.starts[leaf.node + 1]):
        values = stack.values + lines.features[other] * chunk
        for i in range(leaf.walk.n):
            if not isfinite(values[i]):
                stack.factors[i] = 0.0
    return True


cdef void add_leaf(const Leaf* leaf) noexcept nogil:
    """Add the Shapley values of a leaf's value, or of its linear term `leaf.term`, to the results of all rows.

    Values are computed once per distinct mask if masks repeat, otherwise for each row.
    """
    cdef const Walk* walk = leaf.walk
    cdef Stack* stack = walk.stack
    cdef Py_ssize_t n_masks = find_masks(leaf), i
    cdef uint32_t entry
    if n_masks == 0:
        for i in range((walk.n + SHAPLEY_LANES - 1) // SHAPLEY_LANES):
            compute_parts(leaf, leaf.masks + i * SHAPLEY_LANES, walk.stride, i * SHAPLEY_LANES, stack.parts)
            add_row_parts(leaf, i * SHAPLEY_LANES)
        return
    for i in range((n_masks + SHAPLEY_LANES - 1) // SHAPLEY_LANES):
        compute_parts(
            leaf, stack.distinct_masks + i * SHAPLEY_LANES, walk.stride, 0,
            stack.parts + i * SHAPLEY_LANES * leaf.n_parts)
    for i in range(walk.n):
        entry = stack.entry_of_mask[leaf.masks[i]] - 1
        stack.slots[i] = entry // SHAPLEY_LANES * SHAPLEY_LANES * leaf.n_parts + entry % SHAPLEY_LANES
    for i in range(n_masks):
        stack.entry_of_mask[stack.distinct_masks[i]] = 0
    add_parts_from_table(leaf)


cdef Py_ssize_t find_masks(const Leaf* leaf) noexcept nogil:
    """Write the distinct masks of passed features of the rows; return their number, or 0 if few rows share masks."""
    cdef const Walk* walk = leaf.walk
    cdef Stack* stack = walk.stack
    cdef Py_ssize_t n = 0, i
    cdef uint32_t mask
    if walk.rows.scales != NULL or leaf.n > MAX_BITS or walk.n <= SHAPLEY_LANES:
        return 0
    if walk.n >> (leaf.n + 3):   # few masks are possible
        for i in range(<Py_ssize_t>1 << leaf.n):
            stack.distinct_masks[i] = <uint32_t>i
            stack.entry_of_mask[i] = <uint32_t>i + 1
        return <Py_ssize_t>1 << leaf.n
    for i in range(walk.n):
        mask = leaf.masks[i]
        if stack.entry_of_mask[mask] == 0:
            stack.distinct_masks[n] = mask
            n += 1
            stack.entry_of_mask[mask] = <uint32_t>n
    if 4 * n <= 3 * walk.n:
        return n
    for i in range(n):
        stack.entry_of_mask[stack.distinct_masks[i]] = 0
    return 0


cdef void add_row_parts(const Leaf* leaf, Py_ssize_t s) noexcept nogil:
    """Add the Shapley values of SHAPLEY_LANES rows from index `s` on, times leaf value or deviation, to each output."""
    cdef const Walk* walk = leaf.walk
    cdef const Trees* trees = walk.rows.trees
    cdef const float64_t* value = trees.value + leaf.node * trees.n_values
    cdef float64_t[SHAPLEY_LANES] factors
    cdef Py_ssize_t k, lane
    for k in range(trees.n_values):
        for lane in range(SHAPLEY_LANES):
            factors[lane] = walk.stack.factors[s + lane] if leaf.term >= 0 else value[k]
        add_lanes(
            walk.stack.parts, walk.stack.offsets, leaf.n_parts, factors,
            walk.stack.phi + (walk.output + k) * walk.rows.n_results * walk.rows.chunk + s)


cdef void add_parts_from_table(const Leaf* leaf) noexcept nogil:
    """Add the Shapley values of all rows, looked up by mask, times leaf value or deviation, to each output."""
    cdef const Walk* walk = leaf.walk
    cdef const Trees* trees = walk.rows.trees
    cdef const float64_t* value = trees.value + leaf.node * trees.n_values
    cdef float64_t* phi
    cdef Py_ssize_t k, i
    cdef int32_t part
    for k in range(trees.n_values):
        phi = walk.stack.phi + (walk.output + k) * walk.rows.n_results * walk.rows.chunk
        if leaf.term < 0:
            for i in range(walk.n):
                walk.stack.factors[i] = value[k]
        for part in range(leaf.n_parts):
            add_from_table(
                walk.stack.parts + part * SHAPLEY_LANES, walk.stack.slots, walk.stack.factors, walk.n,
                phi + walk.stack.offsets[part])


# -------------------------------------------------------------------------------------------------------- interface

cdef size_t lay_out_workspace(const Rows* rows, Stack* stack, char* base) noexcept nogil:
    """Set the pointers of a thread's workspace at `base`, or only measure it if NULL; return its size in bytes."""
    cdef const Trees* trees = rows.trees
    cdef Plan plan = Plan(base, 0)
    cdef size_t levels = trees.max_depth + 1, lane = SHAPLEY_LANES * sizeof(float64_t)
    cdef size_t chunk = rows.chunk, most = <size_t>max(trees.most_on_path, 1), n_points = (most + 1) // 2
    cdef size_t n_parts = most * (most - 1) // 2 + 1 if rows.pairs else most
    cdef size_t n_words = (most + MASK_BITS - 1) // MASK_BITS, n_against
    stack.node = <int32_t*>carve(&plan, levels, sizeof(int32_t))
    stack.n_done = <int32_t*>carve(&plan, levels, sizeof(int32_t))
    stack.masks = <uint32_t*>carve(&plan, levels * n_words * mask_stride(rows), sizeof(uint32_t))
    stack.share_above = <float64_t*>carve(&plan, levels, sizeof(float64_t))
    stack.share = <float64_t*>carve(&plan, most, sizeof(float64_t))
    stack.column = <int32_t*>carve(&plan, most, sizeof(int32_t))
    stack.offsets = <int64_t*>carve(&plan, n_parts, sizeof(int64_t))
    stack.path.factors = <float64_t*>carve(&plan, most * n_points, sizeof(float64_t))
    stack.path.inverse_known = <float64_t*>carve(&plan, most * n_points, sizeof(float64_t))
    stack.path.inverse_unknown = <float64_t*>carve(&plan, most * n_points, sizeof(float64_t))
    stack.path.known = <float64_t*>carve(&plan, most, lane)
    stack.path.unknown = <float64_t*>carve(&plan, most, lane)
    stack.products = <float64_t*>carve(&plan, n_points, lane)
    stack.divided = <float64_t*>carve(&plan, n_points, lane)
    stack.quotients = <float64_t*>carve(&plan, n_points, lane)
    stack.counts = <float64_t*>carve(&plan, most, lane)
    stack.parts = <float64_t*>carve(&plan, n_parts * chunk, sizeof(float64_t))
    stack.slots = <uint32_t*>carve(&plan, chunk, sizeof(uint32_t))
    stack.distinct_masks = <uint32_t*>carve(&plan, chunk, sizeof(uint32_t))
    stack.entry_of_mask = <uint32_t*>carve(&plan, <Py_ssize_t>1 << min(most, <size_t>MAX_BITS), sizeof(uint32_t))
    stack.factors = <float64_t*>carve(&plan, chunk, sizeof(float64_t))
    stack.patterns = <Pattern*>carve(&plan, rows.n_background + 1, sizeof(Pattern))
    stack.sorted_patterns = <Pattern*>carve(&plan, rows.n_background + 1, sizeof(Pattern))
    stack.pattern_masks = <uint32_t*>carve(&plan, (rows.n_background + 1) * n_words, sizeof(uint32_t))
    stack.lacking = <int32_t*>carve(&plan, (rows.n_background + 1) * most, sizeof(int32_t))
    stack.next_row = <int32_t*>carve(&plan, rows.n_background + 1, sizeof(int32_t))
    stack.first_lacking = <int32_t*>carve(&plan, most + 2, sizeof(int32_t))
    stack.table = <int32_t*>carve(&plan, table_size(rows.n_background), sizeof(int32_t))
    stack.values = NULL
    if trees.lines.starts != NULL:
        stack.values = <float64_t*>carve(&plan, trees.n_features * chunk, sizeof(float64_t))
        n_against = rows.n_background * trees.lines.most + 1 if rows.n_background else 0
        stack.line_parts = <LinePart*>carve(&plan, trees.lines.most, sizeof(LinePart))
        stack.line_sums = <float64_t*>carve(&plan, n_against, sizeof(float64_t))
        stack.line_masks = <uint32_t*>carve(&plan, n_words * mask_stride(rows), sizeof(uint32_t))
    stack.phi = <float64_t*>carve(&plan, trees.n_outputs * rows.n_results * chunk, sizeof(float64_t))
    return plan.size


cdef void explain_chunk(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    """Write the contributions of a group of trees to a chunk of rows into the sums of chunk and group."""
    cdef const Rows* rows = <const Rows*>job
    cdef const Trees* trees = rows.trees
    cdef Py_ssize_t group = piece % rows.n_groups, t, i
    cdef Stack stack
    cdef Walk walk
    lay_out_workspace(rows, &stack, rows.memory + thread * rows.size)
    stack.phi = rows.sums + piece * sums_size(rows)
    walk.rows, walk.stack, walk.stride = rows, &stack, mask_stride(rows)
    walk.row = rows.first + piece // rows.n_groups * rows.chunk
    walk.n, walk.n_words = min(rows.chunk, rows.n_rows - walk.row), (trees.most_on_path + MASK_BITS - 1) // MASK_BITS
    memset(stack.phi, 0, sums_size(rows) * sizeof(float64_t))
    if stack.values != NULL:
        for t in range(trees.n_features):
            for i in range(walk.n):
                stack.values[t * rows.chunk + i] = rows.X[(walk.row + i) * trees.n_features + t]
    for t in range(rows.first_tree[group], rows.first_tree[group + 1]):
        walk.first, walk.output = trees.first_node[t], trees.output[t]
        if rows.code_size == 1:
            walk_tree(&walk, <const uint8_t*>rows.codes, <const uint8_t*>rows.background)
        else:
            walk_tree(&walk, <const uint16_t*>rows.codes, <const uint16_t*>rows.background)


cdef inline Py_ssize_t n_row_ranges(const Rows* rows) noexcept nogil:
    """Return the number of ranges of MIN_ROWS rows that a chunk is divided into."""
    return (rows.chunk + MIN_ROWS - 1) // MIN_ROWS


cdef void add_group_sums(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    """Write the sums over all groups of trees, in group order, to `out` for a range of a chunk's rows."""
    cdef const Rows* rows = <const Rows*>job
    cdef Py_ssize_t chunk = piece // n_row_ranges(rows), first = piece % n_row_ranges(rows) * MIN_ROWS
    cdef Py_ssize_t row = rows.first + chunk * rows.chunk
    cdef Py_ssize_t n = min(first + MIN_ROWS, min(rows.chunk, rows.n_rows - row))
    cdef Py_ssize_t n_outputs = rows.trees.n_outputs, k, group, i
    cdef const float64_t* sums
    cdef float64_t* out
    cdef float64_t[SHAPLEY_LANES] total
    while first < n:
        for k in range(n_outputs * rows.n_results):
            memset(total, 0, sizeof(total))
            for group in range(rows.n_groups):
                sums = rows.sums + (chunk * rows.n_groups + group) * sums_size(rows) + k * rows.chunk + first
                for i in range(SHAPLEY_LANES):
                    total[i] += sums[i]
            out = rows.out + ((row + first) * n_outputs + k // rows.n_results) * rows.out_stride + k % rows.n_results
            for i in range(min(<Py_ssize_t>SHAPLEY_LANES, n - first)):
                out[i * n_outputs * rows.out_stride] = total[i]
        first += SHAPLEY_LANES


cdef Lines linear_terms_of(linear):
    """Return pointers to the arrays of linear terms, NULL if there are none; the caller keeps them alive."""
    cdef Lines lines = Lines(NULL, NULL, NULL, NULL, NULL, NULL, 0)
    cdef const int64_t[::1] starts
    cdef const int32_t[::1] features
    cdef const float64_t[::1] slopes, lower, upper, at_means
    if linear is None or len(linear.slopes) == 0:
        return lines
    starts, features, slopes = linear.starts, linear.features, linear.slopes
    lower, upper, at_means = linear.lower, linear.upper, linear.at_means
    most = np.diff(starts).max()
    return Lines(&starts[0], &features[0], &slopes[0], &lower[0], &upper[0], &at_means[0], most)


cdef Py_ssize_t chunk_size(Py_ssize_t n_rows, Py_ssize_t row_bytes, Py_ssize_t n_groups, int n_threads) noexcept:
    """Return the number of rows that are explained together, a multiple of SHAPLEY_LANES.

    Chunks have equal size, and there are several if threads would otherwise lack work. `row_bytes` is the size of the
    results of one row.
    """
    cdef Py_ssize_t most = max(min(<Py_ssize_t>MAX_ROWS, RESULT_BYTES // row_bytes), 1), n_chunks = 1
    if n_threads > 1:
        n_chunks = min((n_threads * THREAD_PIECES + n_groups - 1) // n_groups, n_rows // MIN_ROWS)
    cdef Py_ssize_t rows = (n_rows - 1) // max(n_chunks, (n_rows + most - 1) // most) + 1
    return (rows + SHAPLEY_LANES - 1) // SHAPLEY_LANES * SHAPLEY_LANES


cdef group_trees(const int64_t[::1] first_node, Py_ssize_t row_bytes):
    """Return the bounds of groups of trees with about equal numbers of nodes: group i has trees [i] to [i + 1] - 1.

    Groups depend only on the trees and on `row_bytes`, the size of the results of one row, so that sums are
    reproducible.
    """
    cdef Py_ssize_t n_nodes = first_node[len(first_node) - 1]
    cdef Py_ssize_t n = min(n_nodes * NODE_BYTES // max(row_bytes, NODE_BYTES * MIN_NODES), MAX_GROUPS)
    ends = np.searchsorted(first_node, np.arange(1, max(n, 1)) * n_nodes // max(n, 1))
    return np.unique(np.concatenate([[0], ends, [len(first_node) - 1]])).astype(np.int64)


cdef explain_chunks(Rows* rows, int n_threads):
    """Write the contributions of all rows to `rows.out`, over chunks of rows and groups of trees in parallel."""
    cdef Stack stack
    cdef Py_ssize_t sums_bytes = sums_size(rows) * sizeof(float64_t)
    cdef Py_ssize_t n_chunks = (rows.n_rows + rows.chunk - 1) // rows.chunk, first = 0, n
    cdef Py_ssize_t n_at_a_time = min(n_chunks, max(n_threads, SUMS_BYTES // (sums_bytes * rows.n_groups)))
    rows.size = lay_out_workspace(rows, &stack, NULL)
    rows.memory = <char*>calloc(min(n_threads, <int>MAX_THREADS), rows.size)
    rows.sums = <float64_t*>malloc(n_at_a_time * rows.n_groups * sums_bytes)
    if rows.memory == NULL or rows.sums == NULL:
        free(rows.memory)
        free(rows.sums)
        raise MemoryError(f"cannot allocate {rows.size + n_at_a_time * rows.n_groups * sums_bytes} bytes")
    with nogil:
        while first < n_chunks:
            n = min(n_at_a_time, n_chunks - first)
            rows.first = first * rows.chunk
            dynamic_parallel_for(explain_chunk, rows, n * rows.n_groups, n_threads)
            dynamic_parallel_for(add_group_sums, rows, n * n_row_ranges(rows), n_threads)
            first += n
    free(rows.memory)
    free(rows.sums)


def explain(
    ensemble, paths, values, const code_t[:, ::1] codes, const code_t[:, ::1] background,
    const float64_t[:, ::1] scales, bint pairs, int n_threads,
):
    """Return the contributions of columns, or of pairs of columns, to raw predictions.

    Parameters
    ----------
    ensemble : object with the arrays of a TreeEnsemble
    paths : object with the column of each feature, the number of columns, the results of `edge_shares` for columns, by
    name, the values as float64, linear terms of leaves (or None), quadratures, and the worth of coalitions (see
    shapley.h)
    values : pair of float64 arrays of shapes (n_rows, n_features) and (n_background, n_features), or None
        Values of the rows and of the background rows, needed for linear terms.
    codes : uint8 or uint16 array of shape (n_features, n_rows)
    background : array of that type, of shape (n_features, n_background) or (n_features, 0)
        Codes of the background rows, over which contributions are summed. Without background rows, contributions are
        path-dependent.
    scales : float64 array of shape (n_background, n_rows or more) or None
        Factor of each row's contributions against each background row. The length of the second axis must be divisible
        by SHAPLEY_LANES.
    pairs : bool
        If True, return the contributions of pairs, in only one order and halved; the others follow by symmetry.

    Returns
    -------
    float64 array of shape (n_rows, n_outputs, n_columns + 1), the last entry not set; for pairs (n_rows, n_outputs,
    n_columns, n_columns)
    """
    cdef const int64_t[::1] first_node = ensemble.node_offsets
    cdef const int32_t[::1] feature = ensemble.feature, category_set = ensemble.category_set
    cdef const int32_t[::1] left_child = ensemble.left_child, tree_output = ensemble.tree_output
    cdef const uint16_t[::1] bin_threshold = ensemble.bin_threshold
    cdef const uint8_t[::1] missing_left = ensemble.missing_left
    cdef const uint32_t[::1] words = np.append(ensemble.category_words, np.uint32(0))
    cdef const float64_t[:, ::1] value = paths.value, worth = paths.worth
    cdef const float64_t[::1] share = paths.share, points = paths.points, weights = paths.weights
    cdef const int32_t[::1] position = paths.position, n_on_path = paths.n_on_path, column = paths.column
    cdef Py_ssize_t n_rows = codes.shape[1], n_features = codes.shape[0], n_columns = paths.n_columns
    cdef Py_ssize_t n_outputs = len(ensemble.baseline)
    cdef Py_ssize_t n_results = n_columns * (n_columns if pairs else 1), row_bytes = 8 * n_outputs * n_results
    cdef const int64_t[::1] groups = group_trees(first_node, row_bytes)
    result = (np.empty if len(tree_output) else np.zeros)((n_rows, n_outputs, n_results + (not pairs)))
    cdef float64_t[:, :, ::1] out = result
    cdef const float64_t[:, ::1] X, background_X
    cdef Rows rows
    cdef Trees trees
    if n_rows and len(tree_output):
        trees = Trees(
            &first_node[0], &feature[0], &column[0], &bin_threshold[0], &missing_left[0], &category_set[0], &words[0],
            &left_child[0], &value[0, 0], value.shape[1], &tree_output[0], tree_output.shape[0], n_features, n_columns,
            n_outputs, &share[0], &position[0], &n_on_path[0], paths.max_depth, worth.shape[0] - 1, &points[0],
            &weights[0], linear_terms_of(paths.linear))
        rows = Rows(
            &trees, NULL, NULL, &codes[0, 0], &codes[0, 0], sizeof(code_t), n_rows, background.shape[1], NULL, 0,
            &worth[0, 0], pairs, chunk_size(n_rows, row_bytes, groups.shape[0] - 1, n_threads), n_results,
            &groups[0], groups.shape[0] - 1, 0, NULL, 0, NULL, &out[0, 0, 0], out.shape[2])
        if values is not None:
            X, background_X = values
            rows.X = &X[0, 0]
            if background.shape[1]:
                rows.background_X = &background_X[0, 0]
        if background.shape[1]:
            rows.background = &background[0, 0]
        if scales is not None:
            rows.scales, rows.scales_stride = &scales[0, 0], scales.shape[1]
        explain_chunks(&rows, n_threads)
    return result.reshape(n_rows, n_outputs, n_columns, n_columns) if pairs else result


def edge_shares(
    const int64_t[::1] first_node, const int32_t[::1] left_child, const int32_t[::1] feature,
    const float64_t[::1] weight,
):
    """Return share and position of the edge above each node, number of features on its path, and its depth.

    The share is the fraction of the training weight that passes all tests of the edge's feature up to this node. The
    position is the index of the feature among the features of the path, in the order of their first tests. All arrays
    are indexed by node.
    """
    cdef Py_ssize_t n_nodes = left_child.shape[0], t, i, side
    cdef int64_t root, node, child, other, above
    cdef float64_t both
    cdef float64_t[::1] share = np.ones(n_nodes)
    cdef int32_t[::1] edge_feature = np.full(n_nodes, -1, dtype=np.int32)
    cdef int32_t[::1] position = np.zeros(n_nodes, dtype=np.int32)
    cdef int32_t[::1] n_features = np.zeros(n_nodes, dtype=np.int32)
    cdef int32_t[::1] depth = np.zeros(n_nodes, dtype=np.int32)
    cdef int32_t[::1] parent = np.zeros(n_nodes, dtype=np.int32)
    for t in range(first_node.shape[0] - 1):
        root = first_node[t]
        for i in range(first_node[t + 1] - root):
            node = root + i
            if left_child[node] == 0:
                continue
            child = root + left_child[node]
            both = weight[child] + weight[child + 1]
            above = root + _nearest_test(parent, edge_feature, root, i, feature[node])
            for side in range(2):
                other = child + side
                parent[other] = <int32_t> i
                depth[other] = depth[node] + 1
                edge_feature[other] = feature[node]
                n_features[other] = n_features[node] + (above == root)
                position[other] = n_features[node] if above == root else position[above]
                share[other] = (weight[other] / both if both > 0 else 0.5) * share[above]
    return np.asarray(share), np.asarray(position), np.asarray(n_features), np.asarray(depth)


cdef int32_t _nearest_test(
    const int32_t[::1] parent, const int32_t[::1] edge_feature, int64_t root, int64_t node, int32_t feature
) noexcept:
    """Return the nearest node, from `node` upwards, whose incoming edge tests the feature; 0 if there is none."""
    while node > 0 and edge_feature[root + node] != feature:
        node = parent[root + node]
    return <int32_t> node
