"""Workspace of forest growth, the search for the next split, and the buffer of grown trees."""

import numpy as np
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastens.engine.forest.splits.scan cimport column_of, is_pure_word, uses_medians
from fastens.engine.forest.splits.structs cimport (
    CodeColumn, Entry, FEATURES_AT_ONCE, Forest, Layout, MedianScratch, Open, Sample, Search
)
from fastens.engine.forest.tree cimport ForestNode, Grown, Workspace, branch_rows, work_on
from fastens.engine.splits.goes_left cimport set_size
from fastens.engine.heap cimport Candidate, pop_heap, push_heap
from fastens.engine.memory cimport Plan, carve, larger_capacity, resize
from fastens.engine.paths cimport add_feature, binds_paths, exclude_features, mask_words, n_marked
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from fastens.engine.forest.splits.search cimport find_split, weighted_medians
from fastens.engine.limits cimport bind_side
from fastens.engine.random cimport random_bits
from fastens.engine.ranks cimport sum_over


cdef enum:
    FIRST_NODES = 256
    REDUCED_WORDS = 1 << 17         # words that are reduced together over workers, unless one feature needs more
    CACHE_LINE = 64


cdef void _plan_search(Search* search, Py_ssize_t n_entries, Plan* plan) noexcept nogil:
    """Carve the buffers of a search for n_entries entries from the plan, or only add up their size."""
    cdef const Forest* forest = search.forest
    cdef const Layout* layout = &search.sample.layout
    cdef Py_ssize_t n_codes = forest.table.max_codes, n_stats = forest.targets.n_stats + 1
    cdef int32_t j
    for j in range(FEATURES_AT_ONCE):
        # One extra cache line, so that equal codes of different features do not map to the same cache set.
        search.cells[j].cells = <uint64_t*>carve(plan, n_codes * layout.n_words + 8, sizeof(uint64_t))
        search.cells[j].marks = <uint64_t*>carve(plan, 4 if forest.table.code_size == 1 else 1024, sizeof(uint64_t))
        search.cells[j].summary = <uint64_t*>carve(plan, 16, sizeof(uint64_t))
    search.codes = <uint16_t*>carve(plan, n_codes + 1, sizeof(uint16_t))
    search.found = <uint64_t*>carve(plan, 2 * (n_codes + 1) * layout.n_words, sizeof(uint64_t))
    search.left = <uint64_t*>carve(plan, 2 * layout.n_words, sizeof(uint64_t))
    search.total = <uint64_t*>carve(plan, layout.n_words, sizeof(uint64_t))
    search.stats = <float64_t*>carve(plan, n_stats, sizeof(float64_t))
    search.sums = <uint64_t*>carve(plan, n_codes + 1, sizeof(uint64_t))
    search.gains = <float64_t*>carve(plan, n_codes + 1, sizeof(float64_t))
    search.order = <int32_t*>carve(plan, 2 * (n_codes + 1), sizeof(int32_t))
    search.axis = <float64_t*>carve(plan, 2 * n_stats, sizeof(float64_t))
    search.drawn = <int32_t*>carve(plan, forest.table.n_features, sizeof(int32_t))
    if forest.table.stored.rows != NULL:
        search.spread = <uint8_t*>carve(plan, FEATURES_AT_ONCE * forest.table.n_rows, forest.table.code_size)
        search.present = <uint64_t*>carve(plan, mask_words(forest.table.n_features), sizeof(uint64_t))
        search.places = <uint32_t*>carve(plan, forest.table.n_rows, sizeof(uint32_t))
    search.set_words = <uint32_t*>carve(plan, search.n_set_words, sizeof(uint32_t))
    search.visited = <uint64_t*>carve(plan, search.n_mask_words, sizeof(uint64_t))
    if forest.rules.random_thresholds:
        # A few extra cache lines, so that the codes of different features do not map to the same cache set.
        search.n_row_codes = (n_entries + 5 * CACHE_LINE) // CACHE_LINE * CACHE_LINE
        search.row_codes = <uint8_t*>carve(plan, FEATURES_AT_ONCE * search.n_row_codes, forest.table.code_size)
        search.row_words = <uint64_t*>carve(plan, n_entries, sizeof(uint64_t))
    if search.sample.ranks != NULL:
        search.n_reduced = max(
            min(forest.table.n_features * n_codes * layout.n_words, <Py_ssize_t>REDUCED_WORDS), n_codes * layout.n_words
        )
        search.reduced = <uint64_t*>carve(plan, search.n_reduced, sizeof(uint64_t))
        search.extremes = <int64_t*>carve(plan, 2 * forest.targets.n_targets, sizeof(int64_t))
    if uses_medians(forest):
        _plan_medians(&search.medians, n_entries, n_codes + 1, forest.targets.n_targets, plan)


cdef void _plan_medians(
    MedianScratch* medians, Py_ssize_t n, Py_ssize_t n_groups, Py_ssize_t n_targets, Plan* plan
) noexcept nogil:
    """Carve the buffers of a median search from the plan, or only add up their size; n is the number of rows."""
    medians.keys = <uint64_t*>carve(plan, n, sizeof(uint64_t))
    medians.rank = <int32_t*>carve(plan, n_targets * n, sizeof(int32_t))
    medians.number = <int64_t*>carve(plan, n_targets * n, sizeof(int64_t))
    medians.tree_weight = <int64_t*>carve(plan, n + 1, sizeof(int64_t))
    medians.tree_sum = <int64_t*>carve(plan, n + 1, sizeof(int64_t))
    medians.start = <int64_t*>carve(plan, n_groups + 1, sizeof(int64_t))
    medians.group = <int32_t*>carve(plan, n_groups, sizeof(int32_t))
    medians.loss = <float64_t*>carve(plan, n_groups, sizeof(float64_t))
    medians.left_median = <float64_t*>carve(plan, n_groups, sizeof(float64_t))
    medians.right_median = <float64_t*>carve(plan, n_groups, sizeof(float64_t))
    medians.left_weight = <int64_t*>carve(plan, n_groups, sizeof(int64_t))


cdef bint allocate_search(Search* search, Py_ssize_t n_entries) noexcept nogil:
    """Allocate zeroed buffers for trees of up to n_entries entries; return False if memory runs out."""
    cdef Plan plan = Plan(NULL, 0)
    free(search.memory)
    search.n_mask_words = mask_words(search.forest.table.n_features) * (1 + binds_paths(&search.forest.limits))
    search.n_set_words = set_size(search.forest.table.max_codes)
    _plan_search(search, n_entries, &plan)
    search.memory = calloc(plan.size, 1)
    if search.memory == NULL:
        return False
    plan = Plan(<char*>search.memory, 0)
    _plan_search(search, n_entries, &plan)
    return True


cdef void free_workspace(Workspace* ws) noexcept nogil:
    """Free the arrays of a workspace, but not the struct."""
    free(ws.search.memory)
    free(ws.open)
    free(ws.masks)
    free(ws.heap)
    free(ws.sets)


cdef bint reserve_open(Workspace* ws, int32_t n) noexcept nogil:
    """Reserve space for n more open nodes, with masks and category sets; return False if memory runs out."""
    cdef Py_ssize_t capacity
    if ws.n_open + <Py_ssize_t>n <= ws.open_capacity:
        return True
    capacity = larger_capacity(ws.open_capacity, ws.n_open + <Py_ssize_t>n, 64)
    if capacity < 0 or not (
        resize(<void**>&ws.open, capacity * sizeof(Open))
        and resize(<void**>&ws.masks, capacity * ws.search.n_mask_words * sizeof(uint64_t))
        and resize(<void**>&ws.heap, capacity * sizeof(Candidate))
        and resize(<void**>&ws.sets, capacity * ws.search.n_set_words * sizeof(uint32_t))
    ):
        return False
    ws.open_capacity = <int32_t>capacity
    return True


cdef bint reserve_nodes(Grown* grown, int32_t n, int32_t n_words) noexcept nogil:
    """Reserve space for n more nodes and n_words category words; return False if memory runs out."""
    cdef Py_ssize_t capacity
    if grown.n + <Py_ssize_t>n > grown.capacity:
        capacity = larger_capacity(grown.capacity, grown.n + <Py_ssize_t>n, FIRST_NODES)
        if capacity < 0 or not resize(<void**>&grown.nodes, capacity * sizeof(ForestNode)):
            return False
        if grown.n_values > 0 and not resize(<void**>&grown.medians, capacity * grown.n_values * sizeof(float64_t)):
            return False
        grown.capacity = <int32_t>capacity
    if grown.n_words + <Py_ssize_t>n_words > grown.words_capacity:
        capacity = larger_capacity(grown.words_capacity, grown.n_words + <Py_ssize_t>n_words, n_words)
        if capacity < 0 or not resize(<void**>&grown.words, capacity * sizeof(uint32_t)):
            return False
        grown.words_capacity = <int32_t>capacity
    return True


cdef void copy_node(
    Grown* tree, const Grown* grown, int32_t from_, int32_t to, int32_t shift, int32_t word_shift
) noexcept nogil:
    """Copy node `from_` to index `to` of `tree`, adding shift to its child and word_shift to its category set."""
    cdef ForestNode* node = &tree.nodes[to]
    node[0] = grown.nodes[from_]
    if node.left_child > 0:
        node.left_child += shift
    if node.category_set >= 0:
        node.category_set += word_shift
    if tree.n_values > 0:
        memcpy(
            tree.medians + <Py_ssize_t>to * tree.n_values, grown.medians + <Py_ssize_t>from_ * tree.n_values,
            tree.n_values * sizeof(float64_t)
        )


cdef void free_grown(Grown* grown) noexcept nogil:
    """Free the arrays of grown nodes, but not the struct."""
    free(grown.nodes)
    free(grown.words)
    free(grown.medians)


cdef Py_ssize_t _next_capacity(Py_ssize_t capacity, Py_ssize_t n) noexcept nogil:
    """Return a capacity of at least n: the current capacity if it suffices, otherwise at least twice as much."""
    return capacity if n <= capacity else max(n, 2 * capacity)


cdef bint reserve_tree(TreeBuffer* buffer, Py_ssize_t n_nodes, Py_ssize_t n_words) noexcept nogil:
    """Reserve space for another tree of n_nodes nodes and n_words set words; return False if memory runs out."""
    cdef Py_ssize_t nodes = _next_capacity(buffer.nodes_capacity, buffer.n_nodes + n_nodes)
    cdef Py_ssize_t words = _next_capacity(buffer.words_capacity, buffer.n_words + n_words)
    cdef Py_ssize_t trees = _next_capacity(buffer.trees_capacity, buffer.n_trees + 1)
    if nodes > buffer.nodes_capacity:
        if not (
            resize(<void**>&buffer.feature, nodes * sizeof(int32_t))
            and resize(<void**>&buffer.bin_threshold, nodes * sizeof(uint16_t))
            and resize(<void**>&buffer.missing_left, nodes)
            and resize(<void**>&buffer.category_set, nodes * sizeof(int32_t))
            and resize(<void**>&buffer.left_child, nodes * sizeof(int32_t))
            and resize(<void**>&buffer.value, nodes * buffer.n_values * (4 if buffer.narrow else 8))
            and resize(<void**>&buffer.gain, nodes * (4 if buffer.narrow else 8))
            and resize(<void**>&buffer.n_samples, nodes * sizeof(int32_t))
            and resize(<void**>&buffer.weight, nodes * sizeof(float32_t))
            and (
                buffer.n_squares == 0
                or resize(<void**>&buffer.squares, nodes * buffer.n_squares * sizeof(float64_t))
            )
            and (
                not buffer.with_search
                or resize(<void**>&buffer.n_usable, nodes * sizeof(int32_t))
                and resize(<void**>&buffer.n_groups, nodes * sizeof(int32_t))
            )
        ):
            return False
        buffer.nodes_capacity = nodes
    if words > buffer.words_capacity:
        if not resize(<void**>&buffer.words, words * sizeof(uint32_t)):
            return False
        buffer.words_capacity = words
    if trees > buffer.trees_capacity:
        if not resize(<void**>&buffer.ends, trees * 2 * sizeof(int64_t)):
            return False
        buffer.trees_capacity = trees
    return True


cdef void close_tree(TreeBuffer* buffer, Py_ssize_t n_nodes, Py_ssize_t n_words) noexcept nogil:
    """Count the n_nodes nodes and n_words category words written after the last tree as a new tree."""
    buffer.n_nodes += n_nodes
    buffer.n_words += n_words
    buffer.ends[2 * buffer.n_trees] = buffer.n_nodes
    buffer.ends[2 * buffer.n_trees + 1] = buffer.n_words
    buffer.n_trees += 1


cdef void free_buffer(TreeBuffer* buffer) noexcept nogil:
    """Free the arrays of a tree buffer, but not the struct."""
    free(buffer.feature)
    free(buffer.bin_threshold)
    free(buffer.missing_left)
    free(buffer.category_set)
    free(buffer.left_child)
    free(buffer.value)
    free(buffer.gain)
    free(buffer.n_samples)
    free(buffer.weight)
    free(buffer.squares)
    free(buffer.n_usable)
    free(buffer.n_groups)
    free(buffer.words)
    free(buffer.ends)


cdef _copy_to_array(const void* first, Py_ssize_t n_elements, dtype):
    """Return a new array of this dtype with a copy of the n_elements elements at the address `first`."""
    array = np.empty(n_elements, dtype)
    if n_elements > 0:      # without rows, `first` may be NULL
        memcpy(<void*><size_t>array.ctypes.data, first, array.nbytes)
    return array


cdef list take_trees(TreeBuffer* buffer):
    """Return a dict of arrays for each tree in the buffer, which are views of shared arrays, and empty the buffer."""
    cdef Py_ssize_t n = buffer.n_nodes, node = 0, word = 0, end, last_word
    cdef int32_t t
    real = np.float32 if buffer.narrow else np.float64
    value = _copy_to_array(buffer.value, n * buffer.n_values, real)
    words = _copy_to_array(buffer.words, buffer.n_words, np.uint32)
    arrays = {
        "feature": _copy_to_array(buffer.feature, n, np.int32),
        "bin_threshold": _copy_to_array(buffer.bin_threshold, n, np.uint16),
        "missing_left": _copy_to_array(buffer.missing_left, n, np.uint8),
        "category_set": _copy_to_array(buffer.category_set, n, np.int32),
        "left_child": _copy_to_array(buffer.left_child, n, np.int32),
        "value": value.reshape(n, buffer.n_values),
        "gain": _copy_to_array(buffer.gain, n, real),
        "n_samples": _copy_to_array(buffer.n_samples, n, np.int32),
        "weight": _copy_to_array(buffer.weight, n, np.float32),
    }
    if buffer.n_squares > 0:
        squares = _copy_to_array(buffer.squares, n * buffer.n_squares, np.float64)
        arrays["squares"] = squares.reshape(n, buffer.n_squares)
    if buffer.with_search:
        arrays["n_usable"] = _copy_to_array(buffer.n_usable, n, np.int32)
        arrays["n_groups"] = _copy_to_array(buffer.n_groups, n, np.int32)
    trees = []
    for t in range(buffer.n_trees):
        end, last_word = buffer.ends[2 * t], buffer.ends[2 * t + 1]
        tree = {name: array[node:end] for name, array in arrays.items()}
        tree["category_words"] = words[word:last_word]
        trees.append(tree)
        node, word = end, last_word
    buffer.n_nodes = buffer.n_words = buffer.n_trees = 0
    return trees


cdef extern from "engine/forest/splits/rows.h" nogil:
    Py_ssize_t part_entries(
        int code_size, const CodeColumn* column, uint32_t last, uint32_t missing_left, const uint32_t* set,
        Entry* rows, Py_ssize_t n_rows, Entry* scratch
    )


cdef int32_t bind_to_path(const Forest* forest, int32_t feature, uint64_t* mask) noexcept nogil:
    """Add `feature` (-1: none) to the path in `mask`, and mark the features that may not follow this path.

    A mask has a bit for each feature that is constant in the node or excluded, followed by a bit for each on its path.
    Return the number of marked features.
    """
    cdef int32_t n_features = forest.table.n_features
    cdef uint64_t* path = mask + mask_words(n_features)
    if feature >= 0:
        add_feature(path, feature)
    exclude_features(&forest.limits, n_features, path, mask)
    return n_marked(mask, n_features)


cdef int32_t _add_node(
    Workspace* ws, Grown* grown, uint32_t begin, uint32_t end, Py_ssize_t n_rows, uint64_t total
) noexcept nogil:
    """Append a leaf for the entries begin .. end - 1, with its medians if needed; return its index.

    `n_rows` and `total` are its rows and packed sums on all workers. Space must be reserved.
    """
    cdef ForestNode* node = &grown.nodes[grown.n]
    memset(node, 0, sizeof(ForestNode))
    node.begin, node.end, node.n_rows, node.total = begin, end, <uint32_t>n_rows, total
    node.feature = node.category_set = -1
    if uses_medians(ws.search.forest):
        ws.search.rows, ws.search.n_rows = ws.search.sample.entries + begin, end - begin
        weighted_medians(&ws.search, grown.medians + <Py_ssize_t>grown.n * grown.n_values)
    grown.n += 1
    return grown.n - 1


cdef bint _can_split(const Search* search, const Open* open) noexcept nogil:
    """Return True if the limits on depth and rows allow a split of the open node, and its sums are not pure."""
    return (
        open.depth < search.forest.limits.max_depth
        and open.n_rows >= max(search.forest.rules.min_split, 2 * <int64_t>search.forest.limits.min_samples_leaf)
        and not is_pure_word(search, open.total)
    )


cdef bint add_root(Workspace* ws, Grown* grown, Open* root, const uint64_t* mask) noexcept nogil:
    """Create the root of a tree or branch as a node and, if it may be split, an open node with `mask`.

    Return False if memory runs out.
    """
    ws.n_open = ws.n_heap = 0
    if not (reserve_nodes(grown, 1, 0) and reserve_open(ws, 1)):
        return False
    root.node = _add_node(ws, grown, root.begin, root.end, root.n_rows, root.total)
    memcpy(ws.masks, mask, ws.search.n_mask_words * sizeof(uint64_t))
    ws.open[0] = root[0]
    ws.n_open = _can_split(&ws.search, root)
    return True


cdef void _record_split(
    const Forest* forest, Grown* grown, const Open* open, const uint32_t* set_words
) noexcept nogil:
    """Write the split of an open node to its ForestNode, with set_words if it is a set; children come next."""
    cdef ForestNode* node = &grown.nodes[open.node]
    cdef int32_t n_words = set_size(forest.table.n_codes[open.split.feature])
    node.feature = open.split.feature
    node.gain = open.split.gain
    node.left_child = grown.n
    node.n_usable, node.n_groups = open.split.n_usable, open.split.n_groups
    node.missing_left = <uint8_t>open.split.missing_left
    if open.split.is_set:
        node.category_set = grown.n_words
        memcpy(grown.words + grown.n_words, set_words, n_words * sizeof(uint32_t))
        grown.n_words += n_words
    else:
        node.last_code = <uint16_t>open.split.last_code


cdef void _open_child(
    const Forest* forest, const Open* parent, const ForestNode* node, bint right, Open* child
) noexcept nogil:
    """Fill `child` from the parent and the child's `node`: its rows, random key and bounds on values."""
    child[0] = parent[0]
    child.node = parent.node
    child.depth = parent.depth + 1
    child.key = random_bits(parent.key, right)
    child.begin, child.end, child.n_rows = node.begin, node.end, node.n_rows
    child.total = node.total
    if forest.limits.monotone != NULL:
        bind_side(
            forest.limits.monotone[parent.split.feature], right,
            0.5 * (parent.split.left_value + parent.split.right_value), &child.lower, &child.upper,
        )


cdef bint _split_node(
    Workspace* ws, Grown* grown, const Open* open, const uint32_t* set_words, Open* children
) noexcept nogil:
    """Partition an open node's rows by its split, append its children and fill children[0] and children[1].

    Return False if memory runs out or a reduction failed.
    """
    cdef const Forest* forest = ws.search.forest
    cdef const Sample* sample = ws.search.sample
    cdef CodeColumn column = column_of(
        &ws.search, open.split.feature, sample.entries + open.begin, open.end - open.begin, 0
    )
    cdef int32_t left
    cdef uint32_t middle
    cdef int64_t n_left
    cdef int64_t* numbers = &n_left
    if not reserve_nodes(grown, 2, ws.search.n_set_words):
        return False
    _record_split(forest, grown, open, set_words)
    middle = open.begin + <uint32_t>part_entries(
        forest.table.code_size, &column, <uint32_t>open.split.last_code, open.split.missing_left,
        set_words if open.split.is_set else NULL, sample.entries + open.begin, open.end - open.begin,
        sample.spare + open.begin,
    )
    n_left = middle - open.begin
    if not sum_over(sample.ranks, &numbers, 1, 1):
        return False
    left = _add_node(ws, grown, open.begin, middle, n_left, open.split.left_word)
    _add_node(ws, grown, middle, open.end, open.n_rows - n_left, open.total - open.split.left_word)
    _open_child(forest, open, &grown.nodes[left], False, &children[0])
    _open_child(forest, open, &grown.nodes[left + 1], True, &children[1])
    children[0].node, children[1].node = left, left + 1
    return True


cdef inline uint64_t* _node_mask(const Workspace* ws, int32_t index) noexcept nogil:
    """Return the mask of the open node at this index of ws.open: excluded features, then features on its path."""
    return ws.masks + <Py_ssize_t>index * ws.search.n_mask_words


cdef inline uint32_t* _node_set(const Workspace* ws, int32_t index) noexcept nogil:
    """Return the words of the category set of the best split of the open node at this index of ws.open."""
    return ws.sets + <Py_ssize_t>index * ws.search.n_set_words


cdef inline void _push_open(Workspace* ws, const Open* open, const uint64_t* mask) noexcept nogil:
    """Push an open node and a copy of its mask on the stack; space must be reserved."""
    cdef uint64_t* to = _node_mask(ws, ws.n_open)
    if to != mask:
        memcpy(to, mask, ws.search.n_mask_words * sizeof(uint64_t))
    ws.open[ws.n_open] = open[0]
    ws.n_open += 1


cdef Outcome grow_depth_first(Workspace* ws, Grown* grown, Workspace* branches, Py_ssize_t* work) noexcept nogil:
    """Split open nodes depth-first, left child first, until none is left or `work[0]`, reduced by each, is used up.

    Unless `branches` is NULL, small nodes are moved to its stack instead. Return GROWING if nodes are left, COMPLETE,
    or OUT_OF_MEMORY if memory runs out or a reduction failed.
    """
    cdef const Forest* forest = ws.search.forest
    cdef Open open
    cdef Open children[2]
    cdef uint64_t* mask
    cdef int32_t i
    while ws.n_open > 0 and work[0] > 0:
        ws.n_open -= 1
        open = ws.open[ws.n_open]
        mask = _node_mask(ws, ws.n_open)
        if branches != NULL and open.n_rows <= branch_rows(ws.search.sample.n_all):
            if not reserve_open(branches, 1):
                return OUT_OF_MEMORY
            _push_open(branches, &open, mask)
            continue
        work[0] -= work_on(forest, open.end - open.begin)
        if not find_split(&ws.search, &open, mask):
            continue
        if binds_paths(&forest.limits):
            open.n_excluded = bind_to_path(forest, open.split.feature, mask)
        if not (reserve_open(ws, 2) and _split_node(ws, grown, &open, ws.search.set_words, children)):
            return OUT_OF_MEMORY
        mask = _node_mask(ws, ws.n_open)
        for i in range(1, -1, -1):
            if _can_split(&ws.search, &children[i]):
                _push_open(ws, &children[i], mask)
    return GROWING if ws.n_open > 0 else COMPLETE


cdef void _queue_if_splittable(Workspace* ws, int32_t index) noexcept nogil:
    """Find the split of the open node at this index; if there is one, store its set and queue the node by gain."""
    cdef Open* open = &ws.open[index]
    if find_split(&ws.search, open, _node_mask(ws, index)):
        memcpy(_node_set(ws, index), ws.search.set_words, ws.search.n_set_words * sizeof(uint32_t))
        push_heap(ws.heap, &ws.n_heap, open.split.gain, index)


cdef Outcome grow_best_first(Workspace* ws, Grown* grown, Py_ssize_t* work) noexcept nogil:
    """Split the open node of the largest gain until the maximum number of leaves or no split is left.

    Stop earlier, returning GROWING, if `work[0]`, reduced by each split, is used up. Otherwise return COMPLETE, or
    OUT_OF_MEMORY if memory runs out or a reduction failed.
    """
    cdef const Forest* forest = ws.search.forest
    cdef Open open
    cdef Open children[2]
    cdef int32_t i, index
    if grown.n == 1 and ws.n_open == 1:
        _queue_if_splittable(ws, 0)
    while ws.n_heap > 0 and (grown.n + 1) // 2 < forest.limits.max_leaves and work[0] > 0:
        index = pop_heap(ws.heap, &ws.n_heap)
        open = ws.open[index]
        work[0] -= work_on(forest, open.end - open.begin)
        if binds_paths(&forest.limits):
            open.n_excluded = bind_to_path(forest, open.split.feature, _node_mask(ws, index))
        if not (reserve_open(ws, 2) and _split_node(ws, grown, &open, _node_set(ws, index), children)):
            return OUT_OF_MEMORY
        for i in range(2):
            if _can_split(&ws.search, &children[i]):
                _push_open(ws, &children[i], _node_mask(ws, index))
                _queue_if_splittable(ws, ws.n_open - 1)
    return GROWING if ws.n_heap > 0 and (grown.n + 1) // 2 < forest.limits.max_leaves else COMPLETE
