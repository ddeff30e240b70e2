"""Histograms and best splits of one task: a node whose rows are counted, and perhaps its sibling by subtraction."""

from cython.parallel cimport prange

from .categories cimport write_category_set
from .features cimport allow_features
from .gain cimport limited_value
from .histogram cimport build_histogram, merge_histogram, subtract_histogram
from .split cimport best_split_of_feature, feature_sums
from .structs cimport Feature, Histogram, Split, int32_t, uint8_t
from .workspace cimport Node, Task, Workspace, slot_histogram

cdef enum:
    # (row, feature) updates that are worth another thread: about 5 microseconds of work against 1 or 2 to wake it
    THREAD_GRAIN = 1 << 14


cdef int32_t threads_of_task(const Workspace* ws, const Task* task) noexcept nogil:
    cdef const Node* node = &ws.nodes[task.counted]
    cdef Py_ssize_t work = (node.end - node.begin) * ws.table.n_features + 2 * ws.table.n_cells
    return <int32_t>max(1, min(<Py_ssize_t>ws.n_threads, work // THREAD_GRAIN))


cdef bint _fits_packed(const Workspace* ws, const Node* node) noexcept nogil:
    return (
        ws.quantised.statistics.narrow and not ws.wide_only
        and node.end - node.begin <= ws.quantised.layout.max_rows
    )


cdef Histogram counted_histogram(Workspace* ws, const Task* task, int32_t thread) noexcept nogil:
    """Where the counted node's cells go: its slot, or the thread's own room."""
    cdef Node* node = &ws.nodes[task.counted]
    cdef Histogram histogram
    if node.slot >= 0:
        return slot_histogram(ws, node.slot, _fits_packed(ws, node))
    histogram = ws.partial[thread]
    histogram.packed = _fits_packed(ws, node)
    return histogram


cdef void count_task(Workspace* ws, const Task* task, int32_t thread, int32_t n_threads) noexcept nogil:
    """Count the rows on n_threads: thread 0 into the node's own cells, the others into their partials."""
    cdef Node* node = &ws.nodes[task.counted]
    cdef Py_ssize_t n = node.end - node.begin
    cdef int32_t t
    cdef Histogram target = counted_histogram(ws, task, thread)
    if node.slot >= 0:
        ws.slots[node.slot].packed = target.packed
    if n_threads == 1:
        build_histogram(
            &ws.table, &ws.quantised.statistics, &ws.quantised.layout, ws.rows + node.begin, n,
            ws.zeros + thread * ws.table.n_cells, &target,
        )
        return
    for t in prange(n_threads, num_threads=n_threads, schedule="static", chunksize=1):
        _count_part(ws, node, &target, t, n_threads)


cdef void _count_part(
    Workspace* ws, const Node* node, const Histogram* target, int32_t t, int32_t n_threads
) noexcept nogil:
    cdef Py_ssize_t n = node.end - node.begin
    cdef Py_ssize_t begin = n * t // n_threads, end = n * (t + 1) // n_threads
    cdef Histogram part = target[0] if t == 0 else ws.partial[t]
    part.packed = target.packed
    build_histogram(
        &ws.table, &ws.quantised.statistics, &ws.quantised.layout, ws.rows + node.begin + begin, end - begin,
        ws.zeros + t * ws.table.n_cells, &part,
    )


cdef inline void _merge_feature(
    Workspace* ws, Histogram* target, int32_t n_parts, const Feature* feature
) noexcept nogil:
    cdef int32_t t
    for t in range(1, n_parts):
        merge_histogram(target, &ws.partial[t], feature)


cdef void merge_partials(Workspace* ws, const Task* task, int32_t n_threads) noexcept nogil:
    """Add the threads' partials to the counted node's cells, where that must be done before the search."""
    cdef Histogram target = counted_histogram(ws, task, 0)
    cdef int32_t f
    for f in range(ws.table.n_features):
        _merge_feature(ws, &target, n_threads, &ws.features[f])


cdef struct Side:
    # One of the two nodes of a task: its cells and what is known of its splits.
    int32_t node                    # -1: not there
    bint wanted
    Histogram histogram
    uint8_t* allowed
    Split* splits                   # best split of each feature


cdef Side _side(Workspace* ws, int32_t node, bint wanted, int32_t thread, int32_t which) noexcept nogil:
    cdef Side side
    cdef Py_ssize_t n_features = ws.table.n_features
    side.node = node
    side.histogram.cells = NULL
    side.histogram.packed = False
    side.wanted = wanted and node >= 0
    side.allowed = ws.allowed + (2 * thread + which) * n_features
    side.splits = ws.feature_splits + (2 * thread + which) * n_features
    if side.wanted:
        allow_features(ws, node, side.allowed, ws.sampled + thread * n_features)
    return side


cdef void search_task(
    Workspace* ws, const Task* task, int32_t thread, int32_t n_threads, int32_t n_parts
) noexcept nogil:
    """Merge the partials of `n_parts` threads, subtract, and find the best splits, one feature after the other.

    The root must come with its partials merged, since its sums are read from its first feature.
    """
    cdef int32_t t
    cdef Histogram parent
    cdef Side counted = _side(ws, task.counted, task.want_counted, thread, 0)
    cdef Side difference = _side(ws, task.difference, task.want_difference, thread, 1)
    cdef int32_t slot
    counted.histogram = counted_histogram(ws, task, thread)
    if task.difference >= 0:
        slot = ws.nodes[task.difference].slot
        parent = slot_histogram(ws, slot, ws.slots[slot].packed)
        ws.slots[slot].packed = _fits_packed(ws, &ws.nodes[task.difference])
        difference.histogram = slot_histogram(ws, slot, ws.slots[slot].packed)
    if task.is_root:
        ws.nodes[0].sums = feature_sums(&counted.histogram, &ws.features[0], &ws.quantised.layout)
        ws.nodes[0].limits.value = limited_value(&ws.nodes[0].sums, ws.rules.l2, 0.0, &ws.nodes[0].limits)
    if n_threads == 1:
        _search_part(ws, 0, 1, thread, n_parts, &parent, &counted, &difference)
    else:
        for t in prange(n_threads, num_threads=n_threads, schedule="static", chunksize=1):
            _search_part(ws, t, n_threads, t, n_parts, &parent, &counted, &difference)
    _keep_best(ws, &counted, thread)
    _keep_best(ws, &difference, thread)


cdef void _search_part(
    Workspace* ws, int32_t share, int32_t n_shares, int32_t thread, int32_t n_parts, const Histogram* parent,
    Side* counted, Side* difference,
) noexcept nogil:
    """One share of the features: neighbours, whose cells lie together, with about as many codes as other shares."""
    cdef int32_t f
    cdef Py_ssize_t n_codes = 0
    for f in range(ws.table.n_features):
        if n_codes * n_shares // ws.table.n_codes == share:
            _search_feature(ws, f, thread, n_parts, parent, counted, difference)
        n_codes += ws.features[f].n_codes


cdef void _search_feature(
    Workspace* ws, int32_t f, int32_t thread, int32_t n_parts, const Histogram* parent, Side* counted, Side* difference,
) noexcept nogil:
    cdef const Feature* feature = &ws.features[f]
    _merge_feature(ws, &counted.histogram, n_parts, feature)
    if difference.node >= 0:
        subtract_histogram(
            parent, &counted.histogram, &difference.histogram, &ws.quantised.layout, feature
        )
    _search_side(ws, feature, counted, thread)
    _search_side(ws, feature, difference, thread)


cdef void _search_side(Workspace* ws, const Feature* feature, Side* side, int32_t thread) noexcept nogil:
    cdef const Node* node
    if not side.wanted:
        return
    node = &ws.nodes[side.node]
    if not side.allowed[feature.index]:
        side.splits[feature.index].feature = -1
        return
    best_split_of_feature(
        &side.histogram, &ws.quantised.layout, feature, &node.sums, &node.limits, &ws.rules, &ws.rooms[thread],
        &side.splits[feature.index],
    )


cdef void _keep_best(Workspace* ws, Side* side, int32_t thread) noexcept nogil:
    """The best of the features' splits; of equal ones, that of the first feature."""
    cdef int32_t f, best = -1
    cdef Node* node
    if not side.wanted:
        return
    for f in range(ws.table.n_features):
        if side.splits[f].feature >= 0 and (best < 0 or side.splits[f].gain > side.splits[best].gain):
            best = f
    if best < 0:
        return
    node = &ws.nodes[side.node]
    node.split = side.splits[best]
    if ws.features[best].is_categorical:
        node.split.category_set = side.node * ws.words_per_node
        write_category_set(
            &side.histogram, &ws.quantised.layout, &ws.features[best], &ws.rules, &ws.rooms[thread],
            &node.split, ws.category_words + <Py_ssize_t>side.node * ws.words_per_node,
        )
