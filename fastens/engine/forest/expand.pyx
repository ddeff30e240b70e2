"""Which node of a tree is split next, and the split itself.

Without a limit on leaves: depth first, so that a branch's rows stay in the cache until it is complete. With one: the
open node of the largest gain. A node's rows are a range of the sample's entries, its children's the two parts of it.
"""

from libc.string cimport memcpy, memset

from fastens.engine.forest.splits.code_columns cimport column_of
from fastens.engine.forest.splits.median cimport weighted_medians
from fastens.engine.forest.splits.score cimport is_pure_word, uses_medians
from fastens.engine.forest.splits.search cimport find_split
from fastens.engine.forest.splits.structs cimport (
    CodeColumn, Entry, Forest, Open, Sample, Search
)
from fastens.engine.forest.tree cimport ForestNode, Grown, Workspace, branch_rows, work_on
from fastens.engine.forest.workspace cimport reserve_nodes, reserve_open
from fastens.engine.splits.goes_left cimport set_size
from fastens.engine.heap cimport pop_heap, push_heap
from fastens.engine.limits cimport bind_side
from fastens.engine.paths cimport add_feature, binds_paths, exclude_features, mask_words, n_marked
from fastens.engine.random cimport random_bits
from fastens.engine.ranks cimport sum_over
from fastens.engine.structs cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "engine/forest/splits/rows.h" nogil:
    Py_ssize_t part_entries(
        int code_size, const CodeColumn* column, uint32_t last, uint32_t missing_left, const uint32_t* set,
        Entry* rows, Py_ssize_t n_rows, Entry* scratch
    )


cdef int32_t bind_to_path(const Forest* forest, int32_t feature, uint64_t* mask) noexcept nogil:
    """Mark the features that may not stand below a split on this one (-1: at the root); return how many are marked.

    A mask has a bit for each feature that is constant in the node or not allowed; behind it, one for each on its path.
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
    """A new leaf; there must be place for it."""
    cdef ForestNode* node = &grown.nodes[grown.n]
    memset(node, 0, sizeof(ForestNode))
    node.begin, node.end, node.n_rows, node.total = begin, end, <uint32_t>n_rows, total
    node.feature = node.category_set = -1
    if uses_medians(ws.search.forest):
        ws.search.rows, ws.search.n_rows = ws.search.sample.entries + begin, end - begin
        weighted_medians(&ws.search, grown.medians + <Py_ssize_t>grown.n * grown.n_values)
    grown.n += 1
    return grown.n - 1


cdef bint _may_split(const Search* search, const Open* open) noexcept nogil:
    return (
        open.depth < search.forest.limits.max_depth
        and open.n_rows >= max(search.forest.rules.min_split, 2 * <int64_t>search.forest.limits.min_samples_leaf)
        and not is_pure_word(search, open.total)
    )


cdef bint add_root(Workspace* ws, Grown* grown, Open* root, const uint64_t* mask) noexcept nogil:
    """Make the first node of a tree or a branch, and open it; False without memory."""
    ws.n_open = ws.n_heap = 0
    if not (reserve_nodes(grown, 1, 0) and reserve_open(ws, 1)):
        return False
    root.node = _add_node(ws, grown, root.begin, root.end, root.n_rows, root.total)
    memcpy(ws.masks, mask, ws.search.n_mask_words * sizeof(uint64_t))
    ws.open[0] = root[0]
    ws.n_open = _may_split(&ws.search, root)
    return True


cdef void _record_split(
    const Forest* forest, Grown* grown, const Open* open, const uint32_t* set_words
) noexcept nogil:
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


cdef bint _split(
    Workspace* ws, Grown* grown, const Open* open, const uint32_t* set_words, Open* children
) noexcept nogil:
    """Part the node's rows and make its children; False without memory, or where a reduction failed."""
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


cdef inline uint64_t* _mask(const Workspace* ws, int32_t place) noexcept nogil:
    return ws.masks + <Py_ssize_t>place * ws.search.n_mask_words


cdef inline uint32_t* _set(const Workspace* ws, int32_t place) noexcept nogil:
    return ws.sets + <Py_ssize_t>place * ws.search.n_set_words


cdef inline void _push(Workspace* ws, const Open* open, const uint64_t* mask) noexcept nogil:
    cdef uint64_t* to = _mask(ws, ws.n_open)
    if to != mask:
        memcpy(to, mask, ws.search.n_mask_words * sizeof(uint64_t))
    ws.open[ws.n_open] = open[0]
    ws.n_open += 1


cdef Outcome grow_depth_first(Workspace* ws, Grown* grown, Workspace* branches, Py_ssize_t* work) noexcept nogil:
    """Split open nodes, the left one of two first, until the work is done; with `branches`, small ones go there."""
    cdef const Forest* forest = ws.search.forest
    cdef Open open
    cdef Open children[2]
    cdef uint64_t* mask
    cdef int32_t i
    while ws.n_open > 0 and work[0] > 0:
        ws.n_open -= 1
        open = ws.open[ws.n_open]
        mask = _mask(ws, ws.n_open)
        if branches != NULL and open.n_rows <= branch_rows(ws.search.sample.n_all):
            if not reserve_open(branches, 1):
                return OUT_OF_MEMORY
            _push(branches, &open, mask)
            continue
        work[0] -= work_on(forest, open.end - open.begin)
        if not find_split(&ws.search, &open, mask):
            continue
        if binds_paths(&forest.limits):
            open.n_excluded = bind_to_path(forest, open.split.feature, mask)
        if not (reserve_open(ws, 2) and _split(ws, grown, &open, ws.search.set_words, children)):
            return OUT_OF_MEMORY
        mask = _mask(ws, ws.n_open)
        for i in range(1, -1, -1):
            if _may_split(&ws.search, &children[i]):
                _push(ws, &children[i], mask)
    return GROWING if ws.n_open > 0 else COMPLETE


cdef void _examine(Workspace* ws, int32_t place) noexcept nogil:
    """Queue an open node if it has a split."""
    cdef Open* open = &ws.open[place]
    if find_split(&ws.search, open, _mask(ws, place)):
        memcpy(_set(ws, place), ws.search.set_words, ws.search.n_set_words * sizeof(uint32_t))
        push_heap(ws.heap, &ws.n_heap, open.split.gain, place)


cdef Outcome grow_best_first(Workspace* ws, Grown* grown, Py_ssize_t* work) noexcept nogil:
    """Split the open node of the largest gain, over and over, until the work is done."""
    cdef const Forest* forest = ws.search.forest
    cdef Open open
    cdef Open children[2]
    cdef int32_t i, place
    if grown.n == 1 and ws.n_open == 1:
        _examine(ws, 0)
    while ws.n_heap > 0 and (grown.n + 1) // 2 < forest.limits.max_leaves and work[0] > 0:
        place = pop_heap(ws.heap, &ws.n_heap)
        open = ws.open[place]
        work[0] -= work_on(forest, open.end - open.begin)
        if binds_paths(&forest.limits):
            open.n_excluded = bind_to_path(forest, open.split.feature, _mask(ws, place))
        if not (reserve_open(ws, 2) and _split(ws, grown, &open, _set(ws, place), children)):
            return OUT_OF_MEMORY
        for i in range(2):
            if _may_split(&ws.search, &children[i]):
                _push(ws, &children[i], _mask(ws, place))
                _examine(ws, ws.n_open - 1)
    return GROWING if ws.n_heap > 0 and (grown.n + 1) // 2 < forest.limits.max_leaves else COMPLETE
