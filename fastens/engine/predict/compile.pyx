"""Compilation of an ensemble for prediction, and the bin codes of the rows that it reads."""

import numpy as np
from fastens.engine.structs cimport (
    code_t, float32_t, float64_t, int8_t, int32_t, int64_t, prefetch, uint16_t, uint32_t, uint64_t, uint8_t
)
from libc.stdint cimport INT32_MAX, UINT16_MAX, UINT32_MAX
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastens.engine.bins.bins cimport BinTable, bin_values


cdef enum:
    SPARE_VALUES = 32       # leafscan.h may read this many values of a tree


def best_level():
    """Return the best level of SIMD instructions for leaf scans on this machine: 0 portable, 1 AVX2, 2 AVX-512."""
    return best_scan_level()


cdef struct Arrays:
    # The arrays of an ensemble, as trees.TreeEnsemble describes them.
    const int64_t* node_offsets
    const int32_t* tree_output
    const int32_t* feature
    const uint16_t* bin_threshold
    const uint8_t* missing_left
    const int32_t* category_set
    const int32_t* left_child
    const uint32_t* category_words
    int64_t n_trees
    int64_t n_nodes
    int64_t n_words


cdef inline bint is_shifted(const Arrays* a, int64_t node) noexcept nogil:
    """Return True if a node reads codes minus one, because missing values (code 0) go right and other values left."""
    return a.category_set[node] < 0 and not a.missing_left[node] and a.bin_threshold[node] > 0


cdef inline bint goes_all_right(const Arrays* a, int64_t node) noexcept nogil:
    """Return True for a numeric split at threshold 0 with missing values on the right: all rows go right."""
    return a.category_set[node] < 0 and a.left_child[node] > 0 and a.bin_threshold[node] == 0 \
        and not a.missing_left[node]


cdef inline bint needs_scan_set(const Arrays* a, int64_t node) noexcept nogil:
    """Return True if leaf scans test a node by a set: at categorical splits, or (empty set) if all rows go right."""
    return a.category_set[node] >= 0 or goes_all_right(a, node)


cdef void assign_views(Program* program, const Arrays* a, int32_t* column_of) noexcept nogil:
    """Number the columns and views that nodes read in `program.columns`; a view is a feature's codes, or codes - 1.

    `column_of` maps each feature to its index in these columns; all of its values are -1 before the call.
    """
    cdef int64_t node
    cdef Column* column
    for node in range(a.n_nodes):
        if a.left_child[node] == 0:
            continue
        if column_of[a.feature[node]] < 0:
            column_of[a.feature[node]] = program.n_columns
            program.columns[program.n_columns] = Column(a.feature[node], -1, -1)
            program.n_columns += 1
        column = program.columns + column_of[a.feature[node]]
        if is_shifted(a, node) and column.shifted < 0:
            column.shifted = program.n_views
            program.n_views += 1
        elif not is_shifted(a, node) and column.plain < 0:
            column.plain = program.n_views
            program.n_views += 1


cdef inline int32_t node_view(
    const Program* program, const Arrays* a, int64_t node, const int32_t* column_of
) noexcept nogil:
    """Return the index of the view (a feature's codes, or these minus one) that a node reads; 0 for leaves."""
    cdef Column column
    if a.left_child[node] == 0:
        return 0
    column = program.columns[column_of[a.feature[node]]]
    return column.shifted if is_shifted(a, node) else column.plain


cdef inline uint16_t node_threshold(const Arrays* a, int64_t node) noexcept nogil:
    """Return the largest code of its view that goes left at a node; UINT16_MAX for leaves."""
    if a.left_child[node] == 0 or goes_all_right(a, node):
        return UINT16_MAX
    return a.bin_threshold[node] - is_shifted(a, node)


cdef uint64_t walk_word(const Arrays* a, int64_t node, int64_t root, int32_t view) noexcept nogil:
    """Return a node's threshold, global left child and view, packed in the 64-bit word that walks read.

    Walks through trees with category sets read their views from a separate array.
    """
    cdef uint64_t left = root + a.left_child[node] + goes_all_right(a, node) if a.left_child[node] else node
    return (<uint64_t> node_threshold(a, node)) << TEST_SHIFT | left << CHILD_SHIFT | <uint64_t> (view & UINT16_MAX)


cdef void write_scan_set(const Arrays* a, int64_t node, uint8_t* out) noexcept nogil:
    """Write the first 256 codes of a categorical node's set to SET_BYTES bytes, lowest bit first.

    Bits read past a shorter set belong to codes that its feature does not have.
    """
    cdef int64_t byte, word
    if a.category_set[node] < 0:
        return
    for byte in range(SET_BYTES):
        word = a.category_set[node] + byte // 4
        if word < a.n_words:
            out[byte] = (a.category_words[word] >> (8 * (byte % 4))) & 255


cdef void index_leaves(
    const Arrays* a, int64_t root, int64_t n_nodes, int32_t* first, int32_t* n_leaves
) noexcept nogil:
    """Write for each node of a tree its first leaf, counted from left to right, and its number of leaves."""
    cdef int64_t i
    cdef int32_t left
    for i in range(n_nodes - 1, -1, -1):
        left = a.left_child[root + i]
        n_leaves[i] = n_leaves[left] + n_leaves[left + 1] if left else 1
    first[0] = 0
    for i in range(n_nodes):
        left = a.left_child[root + i]
        if left:
            first[left] = first[i]
            first[left + 1] = first[i] + n_leaves[left]


cdef void* allocate(size_t n_items, size_t item_size) except NULL:
    """Return zeroed memory for n_items, and one more, to be freed by the caller; raise MemoryError on failure."""
    cdef void* memory = calloc(n_items + 1, item_size)
    if memory == NULL:
        raise MemoryError(f"cannot allocate {n_items * item_size} bytes for prediction")
    return memory


cdef void compile_walks(
    Program* program, const Arrays* a, uint64_t* words, int32_t* views, const int32_t* column_of, int32_t* depth
) noexcept nogil:
    """Write each node's word to `words` and view to `views` (if not NULL), and each tree's walk to the program.

    `column_of` maps features to the program's columns. `depth` is a workspace with one element per node of the largest
    tree.
    """
    cdef int64_t node, root, n_nodes
    cdef int32_t t, view
    cdef bint has_sets
    for t in range(program.n_trees):
        root = a.node_offsets[t]
        n_nodes = a.node_offsets[t + 1] - root
        has_sets = False
        for node in range(root, root + n_nodes):
            view = node_view(program, a, node, column_of)
            words[node] = walk_word(a, node, root, view)
            if views != NULL:
                views[node] = view
            has_sets = has_sets or a.category_set[node] >= 0
        program.walks[t].root = <uint32_t> root
        program.walks[t].output = a.tree_output[t]
        program.walks[t].is_plain = not has_sets and program.n_views <= MAX_NARROW_VIEWS
        set_step_counts(&program.walks[t], a, root, n_nodes, depth)


cdef void set_step_counts(Walk* walk, const Arrays* a, int64_t root, int64_t n_nodes, int32_t* depth) noexcept nogil:
    """Set the numbers of steps of a walk between two checks for rows at leaves, from the mean depth of the leaves.

    `depth` is a workspace with one element per node.
    """
    cdef int64_t i, sum_of_depths = 0
    cdef int32_t left, mean
    depth[0] = 0
    for i in range(n_nodes):
        left = a.left_child[root + i]
        if left:
            depth[left] = depth[left + 1] = depth[i] + 1
        else:
            sum_of_depths += depth[i]
    mean = <int32_t> (sum_of_depths // (n_nodes // 2 + 1)) + 1
    walk.first_steps = <uint16_t> min((7 * mean + 7) // 8, <int32_t> UINT16_MAX)
    walk.more_steps = <uint16_t> min((mean + 4) // 5, <int32_t> UINT16_MAX)


cdef inline int8_t scan_threshold(const Arrays* a, int64_t node, uint8_t* next_set) noexcept nogil:
    """Return a node's threshold minus 128; if the node needs a set, write it to `next_set` and return 0."""
    if not needs_scan_set(a, node):
        return <int8_t> (<int32_t> min(node_threshold(a, node), <uint16_t> 255) - 128)
    write_scan_set(a, node, next_set)
    return 0


cdef void compile_scans(
    Program* program, const Arrays* a, const int32_t* column_of, const float64_t* value, int32_t* leaves
) noexcept nogil:
    """Write the scan nodes and leaf values of all trees that are small enough for a leaf scan.

    `leaves` has space for three times the nodes of the largest tree.
    """
    cdef ScanNode* scan = program.scan_nodes
    cdef int32_t* first_leaf = leaves
    cdef int32_t* n_leaves
    cdef int32_t* skips_one             # true if the left child is a leaf, and the right child is or skips one
    cdef float64_t* values = program.scan_values
    cdef int64_t root, i, n_nodes
    cdef int32_t t, left, comes_last, n_sets = 0
    for t in range(program.n_trees):
        root = a.node_offsets[t]
        n_nodes = a.node_offsets[t + 1] - root
        if n_nodes > 2 * MAX_SCAN_LEAVES - 1:
            continue
        n_leaves, skips_one = leaves + n_nodes, leaves + 2 * n_nodes
        index_leaves(a, root, n_nodes, first_leaf, n_leaves)
        program.scans[t] = ScanTree(scan, <int32_t> (n_nodes // 2), 0, values)
        for i in range(n_nodes - 1, -1, -1):
            left = a.left_child[root + i]
            skips_one[i] = left > 0 and n_leaves[left] == 1 and (n_leaves[left + 1] == 1 or skips_one[left + 1])
            if left == 0:
                values[first_leaf[i]] = value[root + i]
            elif not skips_one[i]:
                program.scans[t].n_skipping += 1
        for comes_last in range(2):
            for i in range(n_nodes):
                left = a.left_child[root + i]
                if left == 0 or skips_one[i] != comes_last:
                    continue
                scan.view = node_view(program, a, root + i, column_of)
                scan.threshold = scan_threshold(a, root + i, program.scan_sets + n_sets * SET_BYTES)
                scan.set = n_sets if needs_scan_set(a, root + i) else -1
                n_sets += needs_scan_set(a, root + i)
                scan.first_leaf, scan.left_leaves = <uint8_t> first_leaf[i], <uint8_t> n_leaves[left]
                scan += 1
        values += n_nodes // 2 + 1


cdef int copy_baseline(Program* program, const float64_t[::1] baseline) except -1:
    """Set the program's number of outputs and its copy of `baseline`, which has one value per output."""
    cdef Py_ssize_t k
    program.n_outputs = <int32_t> baseline.shape[0]
    program.baseline = <float64_t*> allocate(baseline.shape[0], sizeof(float64_t))
    for k in range(baseline.shape[0]):
        program.baseline[k] = baseline[k]
    return 0


cdef inline bint supports_scans(const Program* program) noexcept nogil:
    """Return True if the program's codes are bytes and its leaves have one float64 value, as leaf scans require."""
    return program.code_size == 1 and program.n_values == 1 and program.value_size == 8


cdef int allocate_program(Program* program, const Arrays* a) except -1:
    """Allocate the arrays of a program for these trees, except views and zeros; raise MemoryError on failure."""
    cdef size_t n_inner = (a.n_nodes - a.n_trees) // 2, n_scan_sets = 0
    cdef int64_t node
    for node in range(a.n_nodes):
        n_scan_sets += a.left_child[node] > 0 and needs_scan_set(a, node)
    program.n_trees = <int32_t> a.n_trees
    program.scans = <ScanTree*> allocate(a.n_trees, sizeof(ScanTree))
    program.walks = <Walk*> allocate(a.n_trees, sizeof(Walk))
    program.nodes.words = <uint64_t*> allocate(a.n_nodes, sizeof(uint64_t))
    program.columns = <Column*> allocate(min(n_inner, <size_t> program.n_features), sizeof(Column))
    program.column_of = <int32_t*> allocate(program.n_features, sizeof(int32_t))
    memset(program.column_of, -1, program.n_features * sizeof(int32_t))
    if supports_scans(program):
        program.scan_nodes = <ScanNode*> allocate(n_inner, sizeof(ScanNode))
        program.scan_values = <float64_t*> allocate(a.n_nodes - n_inner + SPARE_VALUES, sizeof(float64_t))
        program.scan_sets = <uint8_t*> allocate(n_scan_sets, SET_BYTES)
    return 0


cdef int64_t measure_trees(Program* program, const Arrays* a) noexcept nogil:
    """Set `program.n_features` to 1 + the last feature of a split; return the number of nodes of the largest tree."""
    cdef int64_t i, largest = 0
    for i in range(a.n_nodes):
        program.n_features = max(program.n_features, a.feature[i] + 1)
    for i in range(a.n_trees):
        largest = max(largest, a.node_offsets[i + 1] - a.node_offsets[i])
    return largest


cdef int compile_trees(Program* program, const Arrays* a, const float64_t* value) except -1:
    """Fill the program from the arrays; `value` holds the nodes' values for scans, or is NULL without scans."""
    cdef int64_t largest = measure_trees(program, a)
    if a.n_nodes > UINT32_MAX:
        raise ValueError(f"all trees together must have at most {UINT32_MAX} nodes, got {a.n_nodes}")
    if a.n_trees > INT32_MAX:
        raise ValueError(f"a model must have at most {INT32_MAX} trees; got {a.n_trees}")
    cdef int32_t[::1] leaves = np.empty(3 * largest, dtype=np.int32)
    allocate_program(program, a)
    assign_views(program, a, program.column_of)
    program.zeros = allocate(program.n_views, program.code_size)
    if program.bins != NULL and program.code_size == 1:
        fill_zeros(program, <uint8_t*> program.zeros)
    elif program.bins != NULL:
        fill_zeros(program, <uint16_t*> program.zeros)
    if a.n_words > 0 or program.n_views > MAX_NARROW_VIEWS:
        program.nodes.views = <int32_t*> allocate(a.n_nodes, sizeof(int32_t))
        program.nodes.sets, program.nodes.set_words = a.category_set, a.category_words
    with nogil:
        compile_walks(
            program, a, <uint64_t*> program.nodes.words, <int32_t*> program.nodes.views, program.column_of, &leaves[0])
        if value != NULL:
            compile_scans(program, a, program.column_of, value, &leaves[0])
    program.scans_all = value != NULL and largest <= 2 * MAX_SCAN_LEAVES - 1
    return 0


cdef class CompiledTrees:
    """The trees of an ensemble compiled for prediction, on uint8 or uint16 codes (code_size 1 or 2).

    Parameters
    ----------
    ensemble : TreeEnsemble
        Arrays of the ensemble. Its values and category sets are not copied.
    table : BinTable or None
        Bins of the features. If None, the input must consist of codes.
    code_size : int
        1 for uint8 codes, 2 for uint16 codes.
    level : int
        Highest vector level to use, for tests; see `best_level`.
    """

    def __init__(self, ensemble, BinTable table, int code_size, int level=2):
        self.table = table
        self.program.bins = table.features if table is not None else NULL
        self.program.code_size = code_size
        self.program.level = min(level, best_scan_level())
        self.program.n_values = 1
        copy_baseline(&self.program, ensemble.baseline)
        if len(ensemble.tree_output):
            self._compile(ensemble)
        self.program.n_views = max(self.program.n_views, 1)     # leaves refer to view 0

    cdef _compile(self, ensemble):
        """Compile the arrays of the ensemble into the program, and keep the arrays that it points to."""
        cdef const int64_t[::1] node_offsets = ensemble.node_offsets
        cdef const int32_t[::1] tree_output = ensemble.tree_output
        cdef const int32_t[::1] feature = ensemble.feature
        cdef const uint16_t[::1] bin_threshold = ensemble.bin_threshold
        cdef const uint8_t[::1] missing_left = ensemble.missing_left
        cdef const int32_t[::1] left_child = ensemble.left_child
        cdef const int32_t[::1] category_set = ensemble.category_set
        cdef const uint32_t[::1] category_words = ensemble.category_words
        cdef Arrays a = Arrays(
            node_offsets=&node_offsets[0], tree_output=&tree_output[0], feature=&feature[0],
            bin_threshold=&bin_threshold[0], missing_left=&missing_left[0], category_set=&category_set[0],
            left_child=&left_child[0], category_words=NULL,
            n_trees=tree_output.shape[0], n_nodes=feature.shape[0], n_words=category_words.shape[0],
        )
        if a.n_words:
            a.category_words = &category_words[0]
        self.value = ensemble.value
        compile_trees(&self.program, &a, self._read_values(ensemble.value))
        if self.program.nodes.views != NULL:
            self.category_set, self.category_words = category_set, category_words

    cdef const float64_t* _read_values(self, value) except? NULL:
        """Point the program to the nodes' values; return the values that leaf scans copy, or NULL without scans."""
        cdef const float64_t[:, ::1] wide
        cdef const float32_t[:, ::1] narrow
        self.program.n_values = <int32_t> value.shape[1]
        self.program.value_size = value.itemsize
        if value.itemsize == 8:
            wide = value
            self.program.value = &wide[0, 0]
        else:
            narrow = value
            self.program.value = &narrow[0, 0]
        return <const float64_t*> self.program.value if supports_scans(&self.program) else NULL

    def __dealloc__(self):
        free(self.program.baseline)
        free(self.program.zeros)
        free(self.program.scans)
        free(self.program.walks)
        free(<void*> self.program.nodes.words)
        free(<void*> self.program.nodes.views)
        free(self.program.columns)
        free(self.program.column_of)
        free(self.program.scan_nodes)
        free(self.program.scan_values)
        free(self.program.scan_sets)


cdef enum:
    VALUES_AHEAD = 8    # prefetch distance of thresholds, in stored values; bins are prefetched twice as far ahead
    BIN_ROWS = 256      # rows binned together for all features; 64 and 512 took up to 1.2 times as long


cdef inline void bin_feature(
    const Program* program, const Rows* rows, Py_ssize_t row, int32_t feature, Py_ssize_t n_rows, code_t* out
) noexcept nogil:
    """Write the codes of one feature for n_rows values from `row` on to `out`."""
    cdef Py_ssize_t at = row * rows.row_stride + feature * rows.column_stride
    if rows.kind == c"f":
        bin_values(program.bins + feature, <const float32_t*> rows.data + at, rows.row_stride, n_rows, out)
    else:
        bin_values(program.bins + feature, <const float64_t*> rows.data + at, rows.row_stride, n_rows, out)


cdef inline void write_code(
    const Program* program, const Rows* rows, Py_ssize_t at, Column column, code_t* codes, Py_ssize_t view_stride
) noexcept nogil:
    """Write the bin code of the value at offset `at` in the rows to the plain and shifted views of its column.

    The shifted view holds the code minus 1. View v begins at `codes + v * view_stride`.
    """
    cdef code_t code
    if rows.kind == c"f":
        bin_values(program.bins + column.feature, <const float32_t*> rows.data + at, 1, 1, &code)
    else:
        bin_values(program.bins + column.feature, <const float64_t*> rows.data + at, 1, 1, &code)
    if column.plain >= 0:
        codes[column.plain * view_stride] = code
    if column.shifted >= 0:
        codes[column.shifted * view_stride] = <code_t> (code - 1)


cdef inline void write_stored_codes(
    const Program* program, const Rows* rows, Py_ssize_t row, code_t* codes, Py_ssize_t view_stride
) noexcept nogil:
    """Write the codes of the stored values of one sparse row to `codes`; view v begins at `codes + v * view_stride`."""
    # Consecutive values have different columns, whose bins are rarely in the L1 cache.
    cdef const int32_t* ahead
    cdef int64_t k, n_stored = rows.starts[rows.n_rows]
    for k in range(rows.starts[row], rows.starts[row + 1]):
        ahead = rows.features + k + VALUES_AHEAD
        if k + 2 * VALUES_AHEAD < n_stored:
            prefetch(program.bins + ahead[VALUES_AHEAD])
            if ahead[0] < program.n_features:
                prefetch(program.bins[ahead[0]].thresholds)
        if rows.features[k] < program.n_features and program.column_of[rows.features[k]] >= 0:
            write_code(program, rows, k, program.columns[program.column_of[rows.features[k]]], codes, view_stride)


cdef void fill_zeros(const Program* program, code_t* zeros) noexcept nogil:
    """Write the code of 0.0 in each view to `zeros`, for values that sparse rows do not store."""
    cdef float64_t zero = 0.0
    cdef Rows values = Rows(<const char*> &zero, 1, 0, 0, c"d", NULL, NULL)
    cdef int32_t c
    for c in range(program.n_columns):
        write_code(program, &values, 0, program.columns[c], zeros, 1)


cdef void fill_stored(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t* codes, Py_ssize_t row_stride,
    Py_ssize_t view_stride
) noexcept nogil:
    """Write the codes of n_rows sparse rows from `row` on to `codes`: first the codes of 0, then of stored values.

    The layout is one record per row if `view_stride` is 1, and otherwise one array per view.
    """
    cdef const code_t* zeros = <const code_t*> program.zeros
    cdef Py_ssize_t r, v
    if view_stride == 1:
        for r in range(n_rows):
            memcpy(codes + r * row_stride, zeros, program.n_views * sizeof(code_t))
    else:
        for v in range(program.n_views):
            for r in range(n_rows):
                codes[v * view_stride + r] = zeros[v]
    for r in range(n_rows):
        write_stored_codes(program, rows, row + r, codes + r * row_stride, view_stride)


# ---------------------------------------------------------------------------------------------------------- by feature

cdef void bin_views(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t** views
) noexcept nogil:
    """Write the codes of n_rows rows of a float array, from `row` on, to the views."""
    cdef Py_ssize_t n, r, c, start = 0
    cdef code_t* codes
    cdef code_t* shifted
    cdef Column column
    while start < n_rows:
        n = min(<Py_ssize_t> BIN_ROWS, n_rows - start)
        for c in range(program.n_columns):
            column = program.columns[c]
            codes = views[column.plain if column.plain >= 0 else column.shifted] + start
            bin_feature(program, rows, row + start, column.feature, n, codes)
            if column.shifted >= 0:
                shifted = views[column.shifted] + start
                for r in range(n):
                    shifted[r] = <code_t> (codes[r] - 1)
        start += BIN_ROWS


cdef void view_codes(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t** views
) noexcept nogil:
    """Set up views of existing codes for n_rows rows; contiguous codes of a full block are not copied."""
    cdef Py_ssize_t r, c
    cdef const code_t* codes
    cdef code_t* copied
    cdef Column column
    for c in range(program.n_columns):
        column = program.columns[c]
        codes = <const code_t*> rows.data + row * rows.row_stride + column.feature * rows.column_stride
        if column.shifted >= 0:
            copied = views[column.shifted]
            for r in range(n_rows):
                copied[r] = <code_t> (codes[r * rows.row_stride] - 1)
        if column.plain >= 0 and n_rows == SCAN_ROWS and rows.row_stride == 1:
            views[column.plain] = <code_t*> codes
        elif column.plain >= 0:
            copied = views[column.plain]
            for r in range(n_rows):
                copied[r] = codes[r * rows.row_stride]


cdef void fill_views(
    const Program* program, const Rows* rows, Py_ssize_t row, char* codes, code_t** views
) noexcept nogil:
    """Set up the views of SCAN_ROWS rows, or of the remaining ones, from `row` on.

    `codes` has space for SCAN_ROWS codes per view, which the views point to unless they point to existing codes.
    """
    cdef Py_ssize_t v, n_rows = min(<Py_ssize_t> SCAN_ROWS, rows.n_rows - row)
    for v in range(program.n_views):
        views[v] = <code_t*> codes + v * SCAN_ROWS
    if rows.starts != NULL:
        fill_stored(program, rows, row, n_rows, <code_t*> codes, 1, SCAN_ROWS)
    elif rows.kind == c"f" or rows.kind == c"d":
        bin_views(program, rows, row, n_rows, views)
    else:
        view_codes(program, rows, row, n_rows, views)


# -------------------------------------------------------------------------------------------------------------- by row

cdef Py_ssize_t record_size(const Program* program) noexcept nogil:
    """Return the bytes from one record to the next; records of up to 32 bytes do not cross a cache line."""
    cdef Py_ssize_t n_bytes = <Py_ssize_t> program.n_views * program.code_size
    cdef Py_ssize_t size = 8
    while size < n_bytes and size < 32:
        size *= 2
    return max(size, (n_bytes + 15) // 16 * 16)


cdef void fill_records(
    const Program* program, const Rows* rows, Py_ssize_t row, Py_ssize_t n_rows, code_t* records
) noexcept nogil:
    """Write the codes of n_rows rows, from `row` on, to records: one per row, with the codes of all views."""
    cdef Py_ssize_t n, r, c, start = 0, stride = record_size(program) // <Py_ssize_t> sizeof(code_t)
    cdef code_t codes[BIN_ROWS]
    cdef code_t* record
    cdef Column column
    if rows.starts != NULL:
        fill_stored(program, rows, row, n_rows, records, stride, 1)
        return
    while start < n_rows:
        n = min(<Py_ssize_t> BIN_ROWS, n_rows - start)
        for c in range(program.n_columns):
            column = program.columns[c]
            bin_feature(program, rows, row + start, column.feature, n, codes)
            record = records + start * stride
            if column.plain >= 0:
                for r in range(n):
                    record[r * stride + column.plain] = codes[r]
            if column.shifted >= 0:
                for r in range(n):
                    record[r * stride + column.shifted] = <code_t> (codes[r] - 1)
        start += BIN_ROWS
