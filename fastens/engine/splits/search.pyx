"""Histograms and best splits of one task: a node whose rows are counted, and perhaps its sibling by subtraction.

Trees of several outputs have a histogram of each output. Everything here is the same for them, but for the search among
the splits of one feature: split.pyx for one output, joint_search.pyx for several.
"""

from fastens.engine.histograms.cells cimport CellLayout, Histogram
from fastens.engine.histograms.histogram cimport (
    Columns, all_columns, build_histogram, merge_histogram, subtract_histogram, unbundle
)
from fastens.engine.splits.categories cimport is_one_hot, write_category_set
from fastens.engine.splits.features cimport allow_features
from fastens.engine.splits.gain cimport Scan, limited_value, start_scan
from fastens.engine.splits.joint_search cimport Side, best_joint_split, complete_joint_split
from fastens.engine.splits.split cimport best_split_of_feature, column_sums
from fastens.engine.splits.workspace cimport (
    Node, Output, Task, Workspace, node_histogram, partial_histogram, sums_of_node
)
from fastens.engine.structs cimport Column, Feature, int32_t, int64_t
from fastens.engine.team cimport share

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
    return ws.n_outputs * ((node.end - node.begin) * ws.table.n_columns + UPDATES_PER_CODE * ws.table.n_codes)


cdef int32_t threads_of_task(const Workspace* ws, const Task* task) noexcept nogil:
    return <int32_t>max(1, min(<int64_t>ws.n_threads, _work_of_task(ws, task) // THREAD_GRAIN))


cdef Histogram counted_histogram(const Workspace* ws, const Task* task, int32_t thread, int32_t output) noexcept nogil:
    """Where the counted node's cells go: its slot, or the thread's own room."""
    cdef const Node* node = &ws.nodes[task.counted]
    if node.slot >= 0:
        return node_histogram(ws, node, node.slot, output)
    return partial_histogram(ws, node, thread, output)


cdef struct Counting:
    Workspace* ws
    const Task* task
    int32_t room                    # of the first part; those of the others follow


cdef void count_task(Workspace* ws, const Task* task, int32_t thread, int32_t n_threads) noexcept nogil:
    """Count the rows in n_threads parts: the first into the node's own cells, the others into their partials."""
    cdef Counting counting = Counting(ws, task, thread)
    share(_count_part, &counting, n_threads)


cdef void _count_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    cdef Counting* counting = <Counting*>job
    cdef Workspace* ws = counting.ws
    cdef const Node* node = &ws.nodes[counting.task.counted]
    cdef Py_ssize_t n = node.end - node.begin
    cdef Py_ssize_t begin = node.begin + n * part // n_parts, end = node.begin + n * (part + 1) // n_parts
    cdef Columns columns = all_columns(&ws.table)
    cdef Histogram out
    cdef int32_t o, room = counting.room + part
    for o in range(ws.n_outputs):
        if part == 0:
            out = counted_histogram(ws, counting.task, room, o)
        else:
            out = partial_histogram(ws, node, room, o)
        _count(ws, o, begin, end, &columns, room, &out)


cdef void _count(
    Workspace* ws, int32_t output, Py_ssize_t begin, Py_ssize_t end, const Columns* columns, int32_t room,
    Histogram* out,
) noexcept nogil:
    cdef const Output* of = &ws.outputs[output]
    build_histogram(
        &of.table, &of.quantised.statistics, &of.quantised.layout, ws.rows + begin, end - begin, columns,
        ws.zeros + room * ws.table.n_counted, out,
    )


cdef inline void _merge_column(
    Workspace* ws, const Task* task, Histogram* target, int32_t output, int32_t n_partials, const Column* column
) noexcept nogil:
    cdef Histogram partial
    cdef int32_t t
    for t in range(1, n_partials):
        partial = partial_histogram(ws, &ws.nodes[task.counted], t, output)
        merge_histogram(target, &partial, column)


cdef void merge_partials(Workspace* ws, const Task* task, int32_t n_threads) noexcept nogil:
    """Add the threads' partials to the counted node's cells, where that must be done before the search."""
    cdef Histogram target
    cdef int32_t c, o
    for o in range(ws.n_outputs):
        target = counted_histogram(ws, task, 0, o)
        for c in range(ws.table.n_columns):
            _merge_column(ws, task, &target, o, n_threads, &ws.table.columns[c])


cdef struct Search:
    Workspace* ws
    const Task* task
    int32_t room                    # of the first part
    int32_t n_partials
    Histogram* parent
    Side counted
    Side difference


cdef Side _side(Workspace* ws, int32_t node, bint wanted, int32_t room, int32_t which) noexcept nogil:
    cdef Side side
    cdef Py_ssize_t n_features = ws.table.n_features
    side.node = node
    side.wanted = wanted and node >= 0
    side.histograms = ws.histograms + (3 * room + 1 + which) * ws.n_outputs
    side.allowed = ws.allowed + (2 * room + which) * n_features
    side.splits = ws.feature_splits + (2 * room + which) * n_features
    if side.wanted:
        allow_features(ws, node, side.allowed, ws.sampled + room * n_features)
    return side


cdef void _start_scans(const Workspace* ws, Side* side) noexcept nogil:
    cdef const Node* node
    if side.wanted and ws.n_outputs == 1:
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
    cdef const Node* difference
    cdef int32_t o
    search.ws, search.task, search.room, search.n_partials = ws, task, thread, n_partials
    search.parent = ws.histograms + 3 * thread * ws.n_outputs
    search.counted = _side(ws, task.counted, task.want_counted, thread, 0)
    search.difference = _side(ws, task.difference, task.want_difference, thread, 1)
    for o in range(ws.n_outputs):
        search.counted.histograms[o] = counted_histogram(ws, task, thread, o)
        if task.difference >= 0:
            difference = &ws.nodes[task.difference]
            search.parent[o] = node_histogram(ws, &ws.nodes[difference.parent], difference.slot, o)
            search.difference.histograms[o] = node_histogram(ws, difference, difference.slot, o)
    if task.is_root:
        _sum_root(ws, search.counted.histograms)
    _start_scans(ws, &search.counted)
    _start_scans(ws, &search.difference)
    share(_search_part, &search, n_threads)
    _keep_best(ws, &search.counted, thread)
    _keep_best(ws, &search.difference, thread)


cdef void _sum_root(Workspace* ws, const Histogram* histograms) noexcept nogil:
    cdef Node* root = &ws.nodes[0]
    cdef int32_t o
    root.sums = column_sums(&histograms[0], &ws.table.columns[0], &ws.outputs[0].quantised.layout)
    root.limits.value = limited_value(&root.sums, ws.rules.l2, 0.0, &root.limits)
    if ws.n_outputs > 1:
        for o in range(ws.n_outputs):
            ws.sums_of_nodes[o] = column_sums(
                &histograms[o], &ws.table.columns[0], &ws.outputs[o].quantised.layout
            )


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
    cdef int32_t c, o, room = search.room + part
    if search.n_partials == 0:
        for o in range(ws.n_outputs):
            _count(ws, o, node.begin, node.end, &columns, room, &search.counted.histograms[o])
    for c in range(columns.first, columns.end):
        _search_column(search, &ws.table.columns[c], room)


cdef void _search_column(Search* search, const Column* column, int32_t room) noexcept nogil:
    cdef Workspace* ws = search.ws
    cdef const Feature* feature
    cdef int32_t i, o
    for o in range(ws.n_outputs):
        _complete_column(search, column, o)
    for i in range(column.n_features):
        feature = &ws.features[column.features[i]]
        _search_side(ws, feature, &search.counted, room)
        _search_side(ws, feature, &search.difference, room)


cdef inline void _complete_column(Search* search, const Column* column, int32_t output) noexcept nogil:
    """The cells of both nodes for one output."""
    cdef Workspace* ws = search.ws
    cdef Histogram* counted = &search.counted.histograms[output]
    cdef const CellLayout* layout = &ws.outputs[output].quantised.layout
    _merge_column(ws, search.task, counted, output, search.n_partials, column)
    if column.n_features > 1:
        unbundle(counted, column, ws.features, sums_of_node(ws, search.counted.node, output), layout)
    if search.difference.node >= 0:
        subtract_histogram(
            &search.parent[output], counted, &search.difference.histograms[output], layout, column
        )


cdef void _search_side(Workspace* ws, const Feature* feature, Side* side, int32_t room) noexcept nogil:
    cdef const Scan* start = &side.of_values
    if not side.wanted:
        return
    if not side.allowed[feature.index]:
        side.splits[feature.index].feature = -1
        return
    if ws.n_outputs > 1:
        best_joint_split(ws, side, feature, &ws.rooms[room], &side.splits[feature.index])
        return
    if feature.is_categorical and not is_one_hot(feature, &ws.rules):
        start = &side.of_sets
    best_split_of_feature(
        side.histograms, &ws.outputs[0].quantised.layout, feature, start, &ws.rules, &ws.rooms[room],
        &side.splits[feature.index],
    )


cdef void _keep_best(Workspace* ws, Side* side, int32_t room) noexcept nogil:
    """The best of the features' splits; of equal ones, that of the first feature."""
    cdef int32_t f, by = 0, best = -1
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
    if ws.n_outputs > 1:
        by = complete_joint_split(ws, side, &ws.rooms[room], &node.split)
    if ws.features[best].is_categorical:
        node.split.category_set = side.node * ws.words_per_node
        write_category_set(
            &side.histograms[by], &ws.outputs[by].quantised.layout, &ws.features[best], &ws.outputs[by].rules,
            &ws.rooms[room], &node.split, ws.category_words + <Py_ssize_t>side.node * ws.words_per_node,
        )
    if ws.n_outputs > 1:
        node.split.left = ws.left_sums_of_nodes[<Py_ssize_t>side.node * ws.n_outputs]
