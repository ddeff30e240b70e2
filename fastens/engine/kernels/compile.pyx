"""From the arrays of an ensemble to the compiled form that predicts: compile.pxd describes it."""

import numpy as np

from libc.stdint cimport INT32_MAX
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from fastens.engine.kernels.bins cimport BinTable
from fastens.engine.kernels.structs cimport float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

cdef enum:
    SPARE_VALUES = 32       # leafscan.h may read so many values of a tree


def best_level():
    """Return the best vector level of this machine: 0 plain, 1 AVX2, 2 AVX-512."""
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
    const float64_t* value
    const uint32_t* category_words
    int64_t n_values
    int64_t n_trees
    int64_t n_nodes
    int64_t n_words


cdef inline bint is_shifted(const Arrays* a, int64_t node) noexcept nogil:
    # A node sends missing values right, and others left: it looks at the codes minus one.
    return a.category_set[node] < 0 and not a.missing_left[node] and a.bin_threshold[node] > 0


cdef inline bint needs_scan_set(const Arrays* a, int64_t node) noexcept nogil:
    # Nothing goes left at threshold 0 with missing values to the right: a scan needs the empty set for that.
    return a.category_set[node] >= 0 or (a.bin_threshold[node] == 0 and not a.missing_left[node])


cdef void plan_views(Program* program, const Arrays* a, int32_t* column_of) noexcept nogil:
    # Number the columns and views that the nodes need. column_of[feature] is -1 before, for all features.
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


cdef WalkNode walk_node(
    const Program* program, const Arrays* a, int64_t node, int64_t root, const int32_t* column_of
) noexcept nogil:
    cdef Column column
    cdef const WalkNode* left = program.nodes + root + a.left_child[node]
    if a.left_child[node] == 0:
        return WalkNode(program.nodes + node, 0, INT32_MAX)
    column = program.columns[column_of[a.feature[node]]]
    if a.category_set[node] >= 0:
        return WalkNode(left, column.plain, -2 - a.category_set[node])
    if is_shifted(a, node):
        return WalkNode(left, column.shifted, a.bin_threshold[node] - 1)
    return WalkNode(left, column.plain, a.bin_threshold[node] if a.missing_left[node] else -1)


cdef void write_scan_set(const Arrays* a, int64_t node, uint8_t* out) noexcept nogil:
    # The first 256 codes of a node's set, least significant bit first. What follows a shorter set in category_words
    # belongs to codes that its feature does not have.
    cdef int64_t byte, word
    if a.category_set[node] < 0:
        return
    for byte in range(SET_BYTES):
        word = a.category_set[node] + byte // 4
        if word < a.n_words:
            out[byte] = (a.category_words[word] >> (8 * (byte % 4))) & 255


cdef void number_leaves(
    const Arrays* a, int64_t root, int64_t n_nodes, int32_t* first, int32_t* n_leaves
) noexcept nogil:
    # For each node of a tree: the first of its leaves, from left to right, and how many it has.
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
    cdef void* memory = calloc(n_items + 1, item_size)
    if memory == NULL:
        raise MemoryError(f"cannot allocate {n_items * item_size} bytes for prediction")
    return memory


cdef void compile_walk(Program* program, const Arrays* a, const int32_t* column_of) noexcept nogil:
    cdef int64_t node, root
    cdef int32_t t
    for t in range(program.n_trees):
        root = a.node_offsets[t]
        program.trees[t].root = <int32_t> root
        program.trees[t].output = a.tree_output[t]
        for node in range(root, a.node_offsets[t + 1]):
            program.nodes[node] = walk_node(program, a, node, root, column_of)
            if program.nodes[node].test < -1:
                program.has_sets = True
    memcpy(program.value, a.value, a.n_nodes * a.n_values * sizeof(float64_t))


cdef inline uint8_t scan_threshold(const Arrays* a, WalkNode walk, int64_t node, uint8_t* next_set) noexcept nogil:
    # The threshold, or its set.
    if not needs_scan_set(a, node):
        return <uint8_t> min(walk.test, 255)
    write_scan_set(a, node, next_set)
    return 0


cdef void compile_scans(Program* program, const Arrays* a, int32_t* first_leaf, int32_t* n_leaves) noexcept nogil:
    # first_leaf and n_leaves have room for the largest tree.
    cdef ScanNode* scan = program.scan_nodes
    cdef float64_t* values = program.scan_values
    cdef int64_t root, i, n_nodes
    cdef int32_t t, n_sets = 0
    for t in range(program.n_trees):
        root = a.node_offsets[t]
        n_nodes = a.node_offsets[t + 1] - root
        if n_nodes > 2 * MAX_SCAN_LEAVES - 1:
            continue
        number_leaves(a, root, n_nodes, first_leaf, n_leaves)
        program.trees[t].scan = ScanTree(scan, <int32_t> (n_nodes // 2), values)
        for i in range(n_nodes):
            if a.left_child[root + i] == 0:
                values[first_leaf[i]] = a.value[root + i]
                continue
            scan.view = program.nodes[root + i].view
            scan.threshold = scan_threshold(
                a, program.nodes[root + i], root + i, program.scan_sets + n_sets * SET_BYTES)
            scan.set = n_sets if needs_scan_set(a, root + i) else -1
            n_sets += needs_scan_set(a, root + i)
            scan.first_leaf = <uint8_t> first_leaf[i]
            scan.left_leaves = <uint8_t> n_leaves[a.left_child[root + i]]
            scan += 1
        values += n_nodes // 2 + 1


cdef int copy_baseline(Program* program, const float64_t[::1] baseline) except -1:
    cdef Py_ssize_t k
    program.n_outputs = <int32_t> baseline.shape[0]
    program.baseline = <float64_t*> allocate(baseline.shape[0], sizeof(float64_t))
    for k in range(baseline.shape[0]):
        program.baseline[k] = baseline[k]
    return 0


cdef inline bint may_scan(const Program* program) noexcept nogil:
    return program.code_size == 1 and program.n_values == 1


cdef int allocate_program(Program* program, const Arrays* a) except -1:
    cdef size_t n_inner = (a.n_nodes - a.n_trees) // 2, n_scan_sets = 0
    cdef int64_t node
    for node in range(a.n_nodes):
        n_scan_sets += a.left_child[node] > 0 and needs_scan_set(a, node)
    program.n_trees = <int32_t> a.n_trees
    program.trees = <TreePlan*> allocate(a.n_trees, sizeof(TreePlan))
    program.nodes = <WalkNode*> allocate(a.n_nodes, sizeof(WalkNode))
    program.value = <float64_t*> allocate(a.n_nodes * a.n_values, sizeof(float64_t))
    program.category_words = <uint32_t*> allocate(a.n_words, sizeof(uint32_t))
    if a.n_words:
        memcpy(program.category_words, a.category_words, a.n_words * sizeof(uint32_t))
    program.columns = <Column*> allocate(n_inner, sizeof(Column))
    program.n_values = <int32_t> a.n_values
    if may_scan(program):
        program.scan_nodes = <ScanNode*> allocate(n_inner, sizeof(ScanNode))
        program.scan_values = <float64_t*> allocate(a.n_nodes - n_inner + SPARE_VALUES, sizeof(float64_t))
        program.scan_sets = <uint8_t*> allocate(n_scan_sets, SET_BYTES)
    return 0


cdef int compile_trees(Program* program, ensemble) except -1:
    cdef const int64_t[::1] node_offsets = ensemble.node_offsets
    cdef const int32_t[::1] tree_output = ensemble.tree_output
    cdef const int32_t[::1] feature = ensemble.feature
    cdef const uint16_t[::1] bin_threshold = ensemble.bin_threshold
    cdef const uint8_t[::1] missing_left = ensemble.missing_left
    cdef const int32_t[::1] category_set = ensemble.category_set
    cdef const int32_t[::1] left_child = ensemble.left_child
    cdef const float64_t[:, ::1] value = ensemble.value.astype(np.float64, copy=False)
    cdef const uint32_t[::1] category_words = ensemble.category_words
    cdef Arrays a = Arrays(
        node_offsets=&node_offsets[0], tree_output=&tree_output[0], feature=&feature[0],
        bin_threshold=&bin_threshold[0], missing_left=&missing_left[0], category_set=&category_set[0],
        left_child=&left_child[0], value=&value[0, 0],
        category_words=NULL, n_values=value.shape[1],
        n_trees=tree_output.shape[0], n_nodes=feature.shape[0], n_words=category_words.shape[0],
    )
    if a.n_words:
        a.category_words = &category_words[0]
    if max(a.n_nodes, a.n_words) >= INT32_MAX:
        raise ValueError(f"an ensemble may have up to 2**31 nodes, got {a.n_nodes}")
    allocate_program(program, &a)
    cdef int64_t largest = measure(program, &a)
    cdef int32_t[::1] column_of = np.full(program.n_features + 1, -1, dtype=np.int32)
    cdef int32_t[:, ::1] leaves = np.empty((2, largest), dtype=np.int32)
    with nogil:
        plan_views(program, &a, &column_of[0])
        compile_walk(program, &a, &column_of[0])
        if may_scan(program):
            compile_scans(program, &a, &leaves[0, 0], &leaves[1, 0])
    return 0


cdef int64_t measure(Program* program, const Arrays* a) noexcept nogil:
    # Set n_features; return the number of nodes of the largest tree.
    cdef int64_t i, largest = 0
    for i in range(a.n_nodes):
        program.n_features = max(program.n_features, a.feature[i] + 1)
    for i in range(a.n_trees):
        largest = max(largest, a.node_offsets[i + 1] - a.node_offsets[i])
    return largest


cdef class CompiledTrees:
    """The trees of an ensemble, ready to predict; the codes it works on are uint8 or uint16 (code_size 1 or 2).

    Parameters
    ----------
    ensemble : TreeEnsemble
        The arrays.
    table : BinTable or None
        How the features are binned; without it only codes can be given.
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
        copy_baseline(&self.program, ensemble.baseline)
        if len(ensemble.tree_output):
            compile_trees(&self.program, ensemble)
        self.program.n_views = max(self.program.n_views, 1)     # a leaf looks at view 0

    def __dealloc__(self):
        free(self.program.baseline)
        free(self.program.trees)
        free(self.program.nodes)
        free(self.program.value)
        free(self.program.category_words)
        free(self.program.columns)
        free(self.program.scan_nodes)
        free(self.program.scan_values)
        free(self.program.scan_sets)
