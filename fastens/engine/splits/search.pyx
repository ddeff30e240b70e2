"""Histograms and best splits of one task: a node whose rows are counted, and perhaps its sibling by subtraction."""

from fastens.engine.splits.categories cimport is_one_hot, write_category_set
from fastens.engine.splits.features cimport allow_features
from fastens.engine.histograms.cells cimport Histogram
from fastens.engine.splits.gain cimport Scan, Split, limited_value, start_scan
from fastens.engine.histograms.histogram cimport Columns, all_columns, build_histogram, merge_histogram, subtract_histogram, unbundle
from fastens.engine.splits.split cimport best_split_of_feature, column_sums
from fastens.engine.structs cimport Column, Feature, int32_t, int64_t, uint8_t
from fastens.engine.team cimport share
from fastens.engine.splits.workspace cimport Node, Task, Workspace, slot_histogram

cdef enum:
    # Work is measured in (row, column) updates of histograms, of some 0.4 ns.
    UPDATES_PER_CODE = 8            # what it takes to search a code in both children
    THREAD_GRAIN = 3 << 9           # work that is worth another thread: some 0.6 microseconds
    # A node of up to so many rows is counted by columns, each thread those that it searches; of more rows, by rows:
    # then no thread has to read them all, but what they counted must be added up.
    ROWS_BY_COLUMNS = 1 << 11
    # Parts of the columns are those that suit a node of so many rows: always the same, so that a thread has the cells
    # of a parent in its cache.
    USUAL_ROWS = 1 << 8


cdef int64_t _work_of_task(const Workspace* ws, const Task* task) noexcept nogil:
    cdef const Node* node = &ws.nodes[task.counted]
    return (node.end - node.begin) * ws.table.n_columns + UPDATES_PER_CODE * ws.table.n_codes


cdef int32_t threads_of_task(const Workspace* ws, const Task* task) noexcept nogil:
    return <int32_t>max(1, min(<int64_t>ws.n_threads, _work_of_task(ws, task) // THREAD_GRAIN))


cdef bint _fits_packed(const Workspace* ws, const Node* node) noexcept nogil:
    return (
        ws.quantised.statistics.narrow and ws.ranks == NULL
        and node.end - node.begin <= ws.quantised.layout.max_rows
    )


cdef Histogram counted_histogram(Workspace* ws, const Task* task, int32_t thread) noexcept nogil:
    """Where the counted node's cells go: its slot, or the thread's own room."""
    cdef Node* node = &ws.nodes[task.counted]
    cdef Histogram histogram
    if node.slot >= 0:
        ws.slots[node.slot].packed = _fits_packed(ws, node)
        return slot_histogram(ws, node.slot, ws.slots[node.slot].packed)
    histogram = ws.partial[thread]
    histogram.packed = _fits_packed(ws, node)
    return histogram


cdef struct Counting:
    Workspace* ws
    const Node* node
    int32_t room                    # of the first part; those of the others follow
    Histogram target


cdef void count_task(Workspace* ws, const Task* task, int32_t thread, int32_t n_threads) noexcept nogil:
    """Count the rows in n_threads parts: the first into the node's own cells, the others into their partials."""
    cdef Counting counting
    counting.ws, counting.node, counting.room = ws, &ws.nodes[task.counted], thread
    counting.target = counted_histogram(ws, task, thread)
    share(_count_part, &counting, n_threads)


cdef void _count_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    cdef Counting* counting = <Counting*>job
    cdef Workspace* ws = counting.ws
    cdef const Node* node = counting.node
    cdef Py_ssize_t n = node.end - node.begin
    cdef Columns columns = all_columns(&ws.table)
    cdef Histogram out = counting.target
    if part > 0:
        out.cells = ws.partial[part].cells
    _count(
        ws, node.begin + n * part // n_parts, node.begin + n * (part + 1) // n_parts, &columns,
        counting.room + part, &out,
    )


cdef void _count(
    Workspace* ws, Py_ssize_t begin, Py_ssize_t end, const Columns* columns, int32_t thread, Histogram* out
) noexcept nogil:
    build_histogram(
        &ws.table, &ws.quantised.statistics, &ws.quantised.layout, ws.rows + begin, end - begin, columns,
        ws.zeros + thread * ws.table.n_counted, out,
    )


cdef inline void _merge_column(
    Workspace* ws, Histogram* target, int32_t n_partials, const Column* column
) noexcept nogil:
    cdef int32_t t
    for t in range(1, n_partials):
        merge_histogram(target, &ws.partial[t], column)


cdef void merge_partials(Workspace* ws, const Task* task, int32_t n_threads) noexcept nogil:
    """Add the threads' partials to the counted node's cells, where that must be done before the search."""
    cdef Histogram target = counted_histogram(ws, task, 0)
    cdef int32_t c
    for c in range(ws.table.n_columns):
        _merge_column(ws, &target, n_threads, &ws.table.columns[c])


cdef struct Side:
    # One of the two nodes of a task: its cells and what is known of its splits.
    int32_t node                    # -1: not there
    bint wanted
    Histogram histogram
    uint8_t* allowed
    Split* splits                   # best split of each feature
    Scan of_values                  # where searches begin: over thresholds, or single categories
    Scan of_sets                    # over sets of categories


cdef struct Search:
    Workspace* ws
    int32_t room                    # of the first part
    int32_t n_partials
    Histogram parent
    Side counted
    Side difference


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


cdef void _start_scans(const Workspace* ws, Side* side) noexcept nogil:
    cdef const Node* node
    if side.wanted:
        node = &ws.nodes[side.node]
        side.of_values = start_scan(&node.sums, ws.rules.l2, &node.limits, &ws.rules)
        side.of_sets = start_scan(&node.sums, ws.rules.l2 + ws.rules.category_l2, &node.limits, &ws.rules)


cdef void run_task(Workspace* ws, const Task* task, int32_t thread, int32_t n_threads) noexcept nogil:
    """Count and search; on one thread, with the room of `thread`, or on several."""
    cdef const Node* node = &ws.nodes[task.counted]
    if n_threads > 1 and not task.is_root and node.end - node.begin <= ROWS_BY_COLUMNS:
        search_task(ws, task, thread, n_threads, 0)
        return
    count_task(ws, task, thread, n_threads)
    if task.is_root:
        merge_partials(ws, task, n_threads)
    search_task(ws, task, thread, n_threads, 1 if task.is_root else n_threads)


cdef void search_task(
    Workspace* ws, const Task* task, int32_t thread, int32_t n_threads, int32_t n_partials
) noexcept nogil:
    """Merge the partials of so many threads, subtract, and find the best splits, one column after the other.

    Where `n_partials` is 0, the node's rows are counted first. The root must come with its partials merged, since its
    sums are read from its first column.
    """
    cdef Search search
    cdef int32_t slot
    search.ws, search.room, search.n_partials = ws, thread, n_partials
    search.counted = _side(ws, task.counted, task.want_counted, thread, 0)
    search.difference = _side(ws, task.difference, task.want_difference, thread, 1)
    search.counted.histogram = counted_histogram(ws, task, thread)
    if task.difference >= 0:
        slot = ws.nodes[task.difference].slot
        search.parent = slot_histogram(ws, slot, ws.slots[slot].packed)
        ws.slots[slot].packed = _fits_packed(ws, &ws.nodes[task.difference])
        search.difference.histogram = slot_histogram(ws, slot, ws.slots[slot].packed)
    if task.is_root:
        ws.nodes[0].sums = column_sums(&search.counted.histogram, &ws.table.columns[0], &ws.quantised.layout)
        ws.nodes[0].limits.value = limited_value(&ws.nodes[0].sums, ws.rules.l2, 0.0, &ws.nodes[0].limits)
    _start_scans(ws, &search.counted)
    _start_scans(ws, &search.difference)
    share(_search_part, &search, n_threads)
    _keep_best(ws, &search.counted, thread)
    _keep_best(ws, &search.difference, thread)


cdef Columns _columns_of_part(const Workspace* ws, int32_t part, int32_t n_parts) noexcept nogil:
    """Neighbours, whose cells lie together, with about as much work as other parts."""
    cdef Columns columns = Columns(ws.table.n_columns, ws.table.n_columns)
    cdef int64_t work = 0, total = USUAL_ROWS * ws.table.n_columns + UPDATES_PER_CODE * ws.table.n_codes
    cdef int32_t c
    for c in range(ws.table.n_columns):
        if work * n_parts // total >= part:
            columns.first = min(columns.first, c)
        if work * n_parts // total > part:
            columns.end = c
            break
        work += USUAL_ROWS + UPDATES_PER_CODE * ws.table.columns[c].n_codes
    return columns


cdef void _search_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Some of the columns."""
    cdef Search* search = <Search*>job
    cdef Workspace* ws = search.ws
    cdef const Node* node = &ws.nodes[search.counted.node]
    cdef Columns columns = _columns_of_part(ws, part, n_parts)
    cdef int32_t c, room = search.room + part
    if search.n_partials == 0:
        _count(ws, node.begin, node.end, &columns, room, &search.counted.histogram)
    for c in range(columns.first, columns.end):
        _search_column(search, &ws.table.columns[c], room)


cdef void _search_column(Search* search, const Column* column, int32_t room) noexcept nogil:
    cdef Workspace* ws = search.ws
    cdef const Feature* feature
    cdef int32_t i
    _merge_column(ws, &search.counted.histogram, search.n_partials, column)
    if column.n_features > 1:
        unbundle(
            &search.counted.histogram, column, ws.features, &ws.nodes[search.counted.node].sums, &ws.quantised.layout
        )
    if search.difference.node >= 0:
        subtract_histogram(
            &search.parent, &search.counted.histogram, &search.difference.histogram, &ws.quantised.layout, column
        )
    for i in range(column.n_features):
        feature = &ws.features[column.features[i]]
        _search_side(ws, feature, &search.counted, room)
        _search_side(ws, feature, &search.difference, room)


cdef void _search_side(Workspace* ws, const Feature* feature, Side* side, int32_t thread) noexcept nogil:
    cdef const Scan* start = &side.of_values
    if not side.wanted:
        return
    if not side.allowed[feature.index]:
        side.splits[feature.index].feature = -1
        return
    if feature.is_categorical and not is_one_hot(feature, &ws.rules):
        start = &side.of_sets
    best_split_of_feature(
        &side.histogram, &ws.quantised.layout, feature, start, &ws.rules, &ws.rooms[thread], &side.splits[feature.index]
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
