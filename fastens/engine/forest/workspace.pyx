"""Memory for growing trees of a forest: a thread's search and open nodes, and the nodes of a tree."""

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from fastens.engine.forest.splits.score cimport uses_medians
from fastens.engine.forest.splits.structs cimport FEATURES_AT_ONCE, Forest, Layout, MedianScratch, Open, Search
from fastens.engine.forest.tree cimport ForestNode, Grown, RecordNode, Workspace
from fastens.engine.splits.goes_left cimport set_size
from fastens.engine.heap cimport Candidate
from fastens.engine.memory cimport resize
from fastens.engine.paths cimport binds_paths, mask_words
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef enum:
    FIRST_NODES = 256
    REDUCED_WORDS = 1 << 17         # that are reduced together over ranks, or those of one feature
    ALIGNMENT = 64


cdef struct Plan:
    # Parts of one block of memory: measured while memory is NULL, handed out in a second pass.
    char* memory
    Py_ssize_t size


cdef void* _part(Plan* plan, Py_ssize_t n, Py_ssize_t size) noexcept nogil:
    cdef void* part = plan.memory + plan.size if plan.memory != NULL else NULL
    plan.size += (n * size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    return part


cdef void _plan_search(Search* search, Py_ssize_t n_entries, Plan* plan) noexcept nogil:
    cdef const Forest* forest = search.forest
    cdef const Layout* layout = &search.sample.layout
    cdef Py_ssize_t n_codes = forest.table.max_codes, n_stats = forest.targets.n_stats + 1
    cdef int32_t j
    for j in range(FEATURES_AT_ONCE):
        # One cache line more, so that the same codes of two features do not compete for a place in the cache.
        search.cells[j].cells = <uint64_t*>_part(plan, n_codes * layout.n_words + 8, sizeof(uint64_t))
        search.cells[j].marks = <uint64_t*>_part(plan, 4 if forest.table.code_size == 1 else 1024, sizeof(uint64_t))
        search.cells[j].summary = <uint64_t*>_part(plan, 16, sizeof(uint64_t))
    search.codes = <uint16_t*>_part(plan, n_codes + 1, sizeof(uint16_t))
    search.found = <uint64_t*>_part(plan, 2 * (n_codes + 1) * layout.n_words, sizeof(uint64_t))
    search.left = <uint64_t*>_part(plan, 2 * layout.n_words, sizeof(uint64_t))
    search.total = <uint64_t*>_part(plan, layout.n_words, sizeof(uint64_t))
    search.stats = <float64_t*>_part(plan, n_stats, sizeof(float64_t))
    search.sums = <uint64_t*>_part(plan, n_codes + 1, sizeof(uint64_t))
    search.gains = <float64_t*>_part(plan, n_codes + 1, sizeof(float64_t))
    search.order = <int32_t*>_part(plan, 2 * (n_codes + 1), sizeof(int32_t))
    search.axis = <float64_t*>_part(plan, 2 * n_stats, sizeof(float64_t))
    search.drawn = <int32_t*>_part(plan, forest.table.n_features, sizeof(int32_t))
    if forest.table.stored.rows != NULL:
        search.spread = <uint8_t*>_part(plan, FEATURES_AT_ONCE * forest.table.n_rows, forest.table.code_size)
        search.present = <uint64_t*>_part(plan, mask_words(forest.table.n_features), sizeof(uint64_t))
        search.places = <uint32_t*>_part(plan, forest.table.n_rows, sizeof(uint32_t))
    search.set_words = <uint32_t*>_part(plan, search.n_set_words, sizeof(uint32_t))
    search.visited = <uint64_t*>_part(plan, search.n_mask_words, sizeof(uint64_t))
    if forest.rules.random_thresholds:
        # A few cache lines more, so that the features' codes do not compete for a place in the cache.
        search.n_row_codes = (n_entries + 5 * ALIGNMENT) // ALIGNMENT * ALIGNMENT
        search.row_codes = <uint8_t*>_part(plan, FEATURES_AT_ONCE * search.n_row_codes, forest.table.code_size)
        search.row_words = <uint64_t*>_part(plan, n_entries, sizeof(uint64_t))
    if search.sample.ranks != NULL:
        search.n_reduced = max(
            min(forest.table.n_features * n_codes * layout.n_words, <Py_ssize_t>REDUCED_WORDS), n_codes * layout.n_words
        )
        search.reduced = <uint64_t*>_part(plan, search.n_reduced, sizeof(uint64_t))
        search.ranges = <int64_t*>_part(plan, 3 * forest.table.n_features, sizeof(int64_t))
        search.extremes = <int64_t*>_part(plan, 2 * forest.targets.n_targets, sizeof(int64_t))
    if uses_medians(forest):
        _plan_medians(&search.medians, n_entries, n_codes + 1, forest.targets.n_targets, plan)


cdef void _plan_medians(
    MedianScratch* medians, Py_ssize_t n, Py_ssize_t n_groups, Py_ssize_t n_targets, Plan* plan
) noexcept nogil:
    medians.keys = <uint64_t*>_part(plan, n, sizeof(uint64_t))
    medians.rank = <int32_t*>_part(plan, n_targets * n, sizeof(int32_t))
    medians.number = <int64_t*>_part(plan, n_targets * n, sizeof(int64_t))
    medians.tree_weight = <int64_t*>_part(plan, n + 1, sizeof(int64_t))
    medians.tree_sum = <int64_t*>_part(plan, n + 1, sizeof(int64_t))
    medians.start = <int64_t*>_part(plan, n_groups + 1, sizeof(int64_t))
    medians.group = <int32_t*>_part(plan, n_groups, sizeof(int32_t))
    medians.loss = <float64_t*>_part(plan, n_groups, sizeof(float64_t))
    medians.left_median = <float64_t*>_part(plan, n_groups, sizeof(float64_t))
    medians.right_median = <float64_t*>_part(plan, n_groups, sizeof(float64_t))
    medians.left_weight = <int64_t*>_part(plan, n_groups, sizeof(int64_t))


cdef bint allocate_search(Search* search, Py_ssize_t n_entries) noexcept nogil:
    """Allocate for trees of so many rows; cells are zero."""
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
    free(ws.search.memory)
    free(ws.open)
    free(ws.record_nodes)
    free(ws.masks)
    free(ws.heap)
    free(ws.sets)


cdef bint reserve_open(Workspace* ws, int32_t n) noexcept nogil:
    """Make place for n more open nodes."""
    cdef Py_ssize_t capacity
    if ws.n_open + n <= ws.open_capacity:
        return True
    capacity = max(2 * ws.open_capacity, 64)
    if not (
        resize(<void**>&ws.open, capacity * sizeof(Open))
        and resize(<void**>&ws.masks, capacity * ws.search.n_mask_words * sizeof(uint64_t))
        and resize(<void**>&ws.heap, capacity * sizeof(Candidate))
        and resize(<void**>&ws.sets, capacity * ws.search.n_set_words * sizeof(uint32_t))
    ):
        return False
    ws.open_capacity = <int32_t>capacity
    return True


cdef bint reserve_record_nodes(Workspace* ws, int32_t n) noexcept nogil:
    """Make place for n more open nodes whose rows have records."""
    cdef Py_ssize_t capacity
    if ws.n_record_nodes + n > ws.record_nodes_capacity:
        capacity = max(2 * ws.record_nodes_capacity, 64)
        if not resize(<void**>&ws.record_nodes, capacity * sizeof(RecordNode)):
            return False
        ws.record_nodes_capacity = <int32_t>capacity
    return True


cdef bint reserve_nodes(Grown* grown, int32_t n, int32_t n_words) noexcept nogil:
    """Make place for n more nodes and so many words of categories."""
    cdef Py_ssize_t capacity
    if grown.n + n > grown.capacity:
        capacity = max(2 * grown.capacity, FIRST_NODES)
        if not resize(<void**>&grown.nodes, capacity * sizeof(ForestNode)):
            return False
        if grown.n_values > 0 and not resize(<void**>&grown.medians, capacity * grown.n_values * sizeof(float64_t)):
            return False
        grown.capacity = <int32_t>capacity
    if grown.n_words + n_words > grown.words_capacity:
        capacity = 2 * grown.words_capacity + n_words
        if not resize(<void**>&grown.words, capacity * sizeof(uint32_t)):
            return False
        grown.words_capacity = <int32_t>capacity
    return True


cdef void copy_node(
    Grown* tree, const Grown* grown, int32_t from_, int32_t to, int32_t shift, int32_t word_shift
) noexcept nogil:
    """Copy a node to a place in another tree, where its children and its set of categories are shifted by so much."""
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
    free(grown.nodes)
    free(grown.words)
    free(grown.medians)
