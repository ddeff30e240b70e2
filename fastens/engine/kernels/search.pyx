"""Histograms and best splits of one task: a node whose rows are counted, and perhaps its sibling by subtraction."""

from cython.parallel cimport prange

from .categories cimport write_category_set
from .features cimport allow_features
from .gain cimport limited_value
from .histogram cimport Columns, all_columns, build_histogram, merge_histogram, subtract_histogram, unbundle
from .split cimport best_split_of_feature, column_sums
from .structs cimport Column, Feature, Histogram, Split, int32_t, int64_t, uint8_t
from .workspace cimport Node, Task, Workspace, slot_histogram

cdef enum:
    # Work is measured in (row, column) updates of histograms, of some 0.4 ns.
    UPDATES_PER_CODE = 8            # what it takes to search a code in both children
    THREAD_GRAIN = 3 << 11          # work that is worth another thread: some 2.5 microseconds, and up to 1 to start it
    # A node of up to so many rows is counted by columns, each thread those that it searches; of more rows, by rows:
    # then no thread has to read them all, but what they counted must be added up.
    ROWS_BY_COLUMNS = 1 << 11
    # Shares of columns are those that suit a node of so many rows: always the same, so that a thread has the cells of
    # a parent in its cache.
    USUAL_ROWS = 1 << 8


cdef int64_t _work_of_task(const Workspace* ws, const Task* task) noexcept nogil:
    cdef const Node* node = &ws.nodes[task.counted]
    return (node.end - node.begin) * ws.table.n_columns + UPDATES_PER_CODE * ws.table.n_codes


cdef int32_t threads_of_task(const Workspace* ws, const Task* task) noexcept nogil:
    return <int32_t>max(1, min(<int64_t>ws.n_threads, _work_of_task(ws, task) // THREAD_GRAIN))


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
        ws.slots[node.slot].packed = _fits_packed(ws, node)
        return slot_histogram(ws, node.slot, ws.slots[node.slot].packed)
    histogram = ws.partial[thread]
    histogram.packed = _fits_packed(ws, node)
    return histogram


cdef void count_task(Workspace* ws, const Task* task, int32_t thread, int32_t n_threads) noexcept nogil:
    """Count the rows on n_threads: thread 0 into the node's own cells, the others into their partials."""
    cdef Node* node = &ws.nodes[task.counted]
    cdef Columns columns = all_columns(&ws.table)
    cdef int32_t t
    cdef Histogram target = counted_histogram(ws, task, thread)
    if n_threads == 1:
        _count(ws, node.begin, node.end, &columns, thread, &target)
        return
    for t in prange(n_threads, num_threads=n_threads, schedule="static", chunksize=1):
        _count_part(ws, node, &target, t, n_threads)


cdef void _count_part(
    Workspace* ws, const Node* node, const Histogram* target, int32_t t, int32_t n_threads
) noexcept nogil:
    cdef Py_ssize_t n = node.end - node.begin
    cdef Columns columns = all_columns(&ws.table)
    cdef Histogram part = target[0] if t == 0 else ws.partial[t]
    part.packed = target.packed
    _count(ws, node.begin + n * t // n_threads, node.begin + n * (t + 1) // n_threads, &columns, t, &part)


cdef void _count(
    Workspace* ws, Py_ssize_t begin, Py_ssize_t end, const Columns* columns, int32_t thread, Histogram* out
) noexcept nogil:
    build_histogram(
        &ws.table, &ws.quantised.statistics, &ws.quantised.layout, ws.rows + begin, end - begin, columns,
        ws.zeros + thread * ws.table.n_cells, out,
    )


cdef inline void _merge_column(
    Workspace* ws, Histogram* target, int32_t n_parts, const Column* column
) noexcept nogil:
    cdef int32_t t
    for t in range(1, n_parts):
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
    Workspace* ws, const Task* task, int32_t thread, int32_t n_threads, int32_t n_parts
) noexcept nogil:
    """Merge the partials of `n_parts` threads, subtract, and find the best splits, one column after the other.

    Where `n_parts` is 0, the node's rows are counted first. The root must come with its partials merged, since its sums
    are read from its first column.
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
        ws.nodes[0].sums = column_sums(&counted.histogram, &ws.table.columns[0], &ws.quantised.layout)
        ws.nodes[0].limits.value = limited_value(&ws.nodes[0].sums, ws.rules.l2, 0.0, &ws.nodes[0].limits)
    if n_threads == 1:
        _search_part(ws, 0, 1, thread, n_parts, &parent, &counted, &difference)
    else:
        for t in prange(n_threads, num_threads=n_threads, schedule="static", chunksize=1):
            _search_part(ws, t, n_threads, t, n_parts, &parent, &counted, &difference)
    _keep_best(ws, &counted, thread)
    _keep_best(ws, &difference, thread)


cdef Columns _share_of_columns(const Workspace* ws, int32_t share, int32_t n_shares) noexcept nogil:
    """Neighbours, whose cells lie together, with about as much work as other shares."""
    cdef Columns columns = Columns(ws.table.n_columns, ws.table.n_columns)
    cdef int64_t work = 0, total = USUAL_ROWS * ws.table.n_columns + UPDATES_PER_CODE * ws.table.n_codes
    cdef int32_t c
    for c in range(ws.table.n_columns):
        if work * n_shares // total >= share:
            columns.first = min(columns.first, c)
        if work * n_shares // total > share:
            columns.end = c
            break
        work += USUAL_ROWS + UPDATES_PER_CODE * ws.table.columns[c].n_codes
    return columns


cdef void _search_part(
    Workspace* ws, int32_t share, int32_t n_shares, int32_t thread, int32_t n_parts, const Histogram* parent,
    Side* counted, Side* difference,
) noexcept nogil:
    """One share of the columns."""
    cdef const Node* node = &ws.nodes[counted.node]
    cdef Columns columns = _share_of_columns(ws, share, n_shares)
    cdef int32_t c
    if n_parts == 0:
        _count(ws, node.begin, node.end, &columns, thread, &counted.histogram)
    for c in range(columns.first, columns.end):
        _search_column(ws, c, thread, n_parts, parent, counted, difference)


cdef void _search_column(
    Workspace* ws, int32_t c, int32_t thread, int32_t n_parts, const Histogram* parent, Side* counted, Side* difference,
) noexcept nogil:
    cdef const Column* column = &ws.table.columns[c]
    cdef int32_t i
    _merge_column(ws, &counted.histogram, n_parts, column)
    if difference.node >= 0:
        subtract_histogram(
            parent, &counted.histogram, &difference.histogram, &ws.quantised.layout, column
        )
    for i in range(column.n_features):
        _search_side(ws, &ws.features[column.features[i]], counted, thread)
        _search_side(ws, &ws.features[column.features[i]], difference, thread)


cdef Histogram _cells_of(Workspace* ws, const Side* side, const Feature* feature, int32_t thread) noexcept nogil:
    """The histogram that has the feature's own cells."""
    cdef Histogram own = side.histogram
    if feature.members != NULL:
        own.cells = ws.rooms[thread].cells
        unbundle(
            &side.histogram, &ws.table.columns[feature.column], feature, &ws.nodes[side.node].sums,
            &ws.quantised.layout, &own,
        )
    return own


cdef void _search_side(Workspace* ws, const Feature* feature, Side* side, int32_t thread) noexcept nogil:
    cdef const Node* node
    cdef Histogram cells
    if not side.wanted:
        return
    node = &ws.nodes[side.node]
    if not side.allowed[feature.index]:
        side.splits[feature.index].feature = -1
        return
    cells = _cells_of(ws, side, feature, thread)
    best_split_of_feature(
        &cells, &ws.quantised.layout, feature, &node.sums, &node.limits, &ws.rules, &ws.rooms[thread],
        &side.splits[feature.index],
    )


cdef void _keep_best(Workspace* ws, Side* side, int32_t thread) noexcept nogil:
    """The best of the features' splits; of equal ones, that of the first feature."""
    cdef int32_t f, best = -1
    cdef Node* node
    cdef Histogram cells
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
        cells = _cells_of(ws, side, &ws.features[best], thread)
        write_category_set(
            &cells, &ws.quantised.layout, &ws.features[best], &ws.rules, &ws.rooms[thread],
            &node.split, ws.category_words + <Py_ssize_t>side.node * ws.words_per_node,
        )
