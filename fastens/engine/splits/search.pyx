"""Histograms and best splits of one task, for trees with one or several outputs."""

from libc.math cimport INFINITY
from libc.string cimport memcpy
from fastens.engine.histograms.cells cimport (
    CellLayout, Histogram, Sums, add_sums, cell_sums, clear_sums, count_of, first_with_count, sums_difference,
    words_per_cell
)
from fastens.engine.splits.split cimport (
    POOL, Thresholds, allow_features, draws_one_by_one, best_split_of_feature, category_penalty, centre_of_gap,
    column_sums, is_one_hot, is_rare, key_of_thresholds, select_thresholds, node_of_scan, order_categories,
    start_permutation, threshold_at, thresholds_among, thresholds_of_wide, write_category_set
)
from fastens.engine.splits.gain cimport (
    FeatureCells, Scan, ScanBuffer, Split, SplitRules, is_better, is_large_enough, leaves_enough, limited_value,
    node_score, start_scan, sums_of_code
)
from fastens.engine.splits.goes_left cimport code_goes_left, set_put, set_size
from fastens.engine.splits.scan cimport ScanNode, joint_gains, largest, place_of, running_sums
from fastens.engine.splits.workspace cimport (
    PIECES_PER_THREAD, UPDATES_PER_CODE, ForcedSplit, Node, Output, Task, Workspace, active_columns, clear_active,
    divide_columns, node_histogram, partial_histogram, rows_in_cells, sums_of_node
)
from fastens.engine.structs cimport Column, Feature, float64_t, int32_t, int64_t, uint32_t, uint64_t
from fastens.engine.histograms.histogram cimport (
    COLUMN_BLOCK, Columns, build_histogram, build_sparse_histogram, complete_zeros, count_stored, merge_histogram,
    subtract_histogram, subtract_zeros, sums_of_rows, unbundle
)
from fastens.engine.paths cimport add_feature, next_feature
from fastens.engine.thread_pool cimport dynamic_parallel_for, next_item, parallel_for


cdef struct Best:
    # The best split of a feature so far.
    float64_t gain                  # without the terms that are equal for all splits
    int32_t bin
    int32_t ordered_by              # output whose gradients order the categories
    bint missing_left
    bint found


# Splits on thresholds ------------------------------------------------------------------------------------------------

cdef ScanNode _scan_node(const Output* out, const Sums* total, float64_t l2) noexcept nogil:
    """Return the inputs of `joint_gains` for one output of a node with the sums `total`; L2 penalty is `l2`."""
    cdef ScanNode node
    node.layout = out.quantised.layout
    node.l2 = l2
    node.hessian = <float64_t>total.hessian + 2.0 * l2
    node.ratio = <float64_t>total.gradient / node.hessian if node.hessian > 0 else 0.0
    node.gain_unit = out.gain_unit * node.hessian
    node.hessian_unit = out.hessian_unit
    return node


cdef inline float64_t _omitted_gain(const Output* out, const Sums* total) noexcept nogil:
    """Return the term, equal for all splits of a node, that gains by `_scan_node` omit for one output."""
    cdef float64_t gradient = <float64_t>total.gradient, hessian = <float64_t>total.hessian + 2.0 * out.rules.l2
    return out.gain_unit * ((gradient * gradient / hessian if hessian > 0 else 0.0) - node_score(total, out.rules.l2))


cdef void _add_wide_gains(
    const FeatureCells* cells, const ScanNode* node, bint missing_left, const Thresholds* among
) noexcept nogil:
    """Add one output's gains at thresholds to room.keys, and left hessians to room.hessians, from wide cells."""
    cdef ScanBuffer* room = cells.room
    cdef Sums left, cell
    cdef float64_t hessian, distance
    cdef Py_ssize_t k, threshold, code = 1
    clear_sums(&left)
    if missing_left:
        left = sums_of_code(cells, 0)
    for k in range(among.n):
        threshold = threshold_at(among, k)
        while code <= threshold + 1:
            cell = sums_of_code(cells, code)
            add_sums(&left, &cell)
            code += 1
        hessian = <float64_t>left.hessian + node.l2
        distance = <float64_t>left.gradient - node.ratio * hessian
        if cells.feature.monotone * distance >= 0:
            room.keys[k] += node.gain_unit * (distance * distance / (hessian * (node.hessian - hessian)))
        room.hessians[k] += node.hessian_unit * <float64_t>left.hessian


cdef void _scan_thresholds(
    const Workspace* ws, const Side* side, const Feature* feature, int32_t last, bint missing_left, ScanBuffer* room,
    Best* best,
) noexcept nogil:
    """Update `best` by the best sum of gains at a threshold 1 .. last; code 0 goes left if missing_left."""
    cdef float64_t* hessians = room.hessians
    cdef const Sums* totals = sums_of_node(ws, side.node, 0)
    cdef const Output* out
    cdef const uint64_t* words
    cdef FeatureCells cells
    cdef ScanNode node
    cdef Thresholds among = Thresholds(0, 0, 0, False, 0)
    cdef Py_ssize_t i, first, end
    cdef uint64_t start
    cdef float64_t gain, all_hessians = 0.0
    cdef int32_t o
    for o in range(ws.n_outputs):
        out, cells = &ws.outputs[o], cells_of_output(ws, side, feature, room, o)
        all_hessians += out.hessian_unit * <float64_t>totals[o].hessian
        node = _scan_node(out, &totals[o], out.rules.l2)
        if side.histograms[o].packed:
            words = <const uint64_t*>side.histograms[o].cells + feature.offset
            start = words[0] if missing_left else 0
            running_sums(words + 1, last, start, room.sums)
            if o == 0:
                i = count_of(start, &node.layout) + 1
                first = first_with_count(room.sums, last, &node.layout, max(out.rules.min_count, i))
                end = first_with_count(room.sums, last, &node.layout, totals[0].count - out.rules.min_count + 1)
                among = thresholds_among(&cells, totals[0].count, first, end)
        elif o == 0:
            among = thresholds_of_wide(&cells, &totals[0], last, missing_left)
        if o == 0:
            for i in range(among.n):
                room.keys[i] = hessians[i] = 0.0
        if side.histograms[o].packed:
            joint_gains(select_thresholds(room.sums, &among), among.n, &node, feature.monotone, room.keys, hessians)
        else:
            _add_wide_gains(&cells, &node, missing_left, &among)
    for i in range(among.n):
        if hessians[i] < ws.min_hessian or all_hessians - hessians[i] < ws.min_hessian:
            room.keys[i] = -1.0
    largest(room.keys, among.n, &gain)
    if gain > best.gain:
        i = place_of(gain, room.keys)
        best.gain, best.bin, best.missing_left = gain, <int32_t>(threshold_at(&among, i) + 1), missing_left
        best.found = True


# Splits on sets of categories ----------------------------------------------------------------------------------------

cdef inline Sums _sums_at_position(
    const Workspace* ws, const Side* side, const Feature* feature, ScanBuffer* room, int32_t position, int32_t o
) noexcept nogil:
    """Return output o's sums of the category, or of the pool of rare ones, at a position of room.codes."""
    cdef FeatureCells cells = cells_of_output(ws, side, feature, room, o)
    return room.pooled_of_outputs[o] if room.codes[position] == POOL else sums_of_code(&cells, room.codes[position])


cdef void _pool_rare(const Workspace* ws, const Side* side, const Feature* feature, ScanBuffer* room) noexcept nogil:
    """Write each output's sums over the categories that are rare in the node to room.pooled_of_outputs."""
    cdef FeatureCells cells
    cdef Sums cell
    cdef int32_t o, code
    for o in range(ws.n_outputs):
        cells = cells_of_output(ws, side, feature, room, o)
        clear_sums(&room.pooled_of_outputs[o])
        for code in range(1, feature.n_codes):
            cell = sums_of_code(&cells, code)
            if cell.count > 0 and is_rare(code, cell.count, cells.rules):
                add_sums(&room.pooled_of_outputs[o], &cell)


cdef float64_t _gain_of_sides(
    const Workspace* ws, const Side* side, const Feature* feature, const Sums* left
) noexcept nogil:
    """Return the gain for the left sums of all outputs; -infinity if a side has too little mean hessian."""
    cdef const Output* out
    cdef Sums rest
    cdef float64_t l2, gain = 0.0, left_hessian = 0.0, right_hessian = 0.0
    cdef const Sums* totals = sums_of_node(ws, side.node, 0)
    cdef int32_t o
    for o in range(ws.n_outputs):
        out = &ws.outputs[o]
        rest = sums_difference(&totals[o], &left[o])
        l2 = out.rules.l2 + (category_penalty(feature, &out.rules) if feature.is_categorical else 0.0)
        gain += out.gain_unit * (
            node_score(&left[o], l2) + node_score(&rest, l2) - node_score(&totals[o], out.rules.l2)
        )
        left_hessian += out.hessian_unit * <float64_t>left[o].hessian
        right_hessian += out.hessian_unit * <float64_t>rest.hessian
    return gain if min(left_hessian, right_hessian) >= ws.min_hessian else -INFINITY


cdef void _scan_order(
    const Workspace* ws, const Side* side, const Feature* feature, int32_t ordered_by, ScanBuffer* room, Best* best
) noexcept nogil:
    """Update `best` by the best cut of the categories in output `ordered_by`'s order; `bin` is the left count."""
    cdef const SplitRules* rules = &ws.outputs[0].rules
    cdef bint enough, one_hot = is_one_hot(feature, rules)
    cdef FeatureCells cells = cells_of_output(ws, side, feature, room, ordered_by)
    cdef Sums cell
    cdef float64_t gain
    cdef int32_t k, o, most, n = order_categories(&cells)
    most = rules.max_categories if rules.max_categories > 0 else n
    for o in range(ws.n_outputs):
        clear_sums(&room.left[o])
    for k in range(n if one_hot and n > 2 else n - 1):
        for o in range(ws.n_outputs):
            if one_hot:
                clear_sums(&room.left[o])
            cell = _sums_at_position(ws, side, feature, room, k, o)
            add_sums(&room.left[o], &cell)
        enough = is_large_enough(&room.left[0], rules)
        if not (enough and leaves_enough(&room.left[0], sums_of_node(ws, side.node, 0), rules)):
            continue
        if k + 1 > most and n - k - 1 > most:
            continue
        gain = _gain_of_sides(ws, side, feature, room.left)
        if gain > best.gain:
            best.gain, best.bin, best.ordered_by, best.found = gain, k + 1, ordered_by, True


# Search --------------------------------------------------------------------------------------------------------------

cdef void best_joint_split(
    const Workspace* ws, const Side* side, const Feature* feature, ScanBuffer* room, Split* split
) noexcept nogil:
    """Write the feature's best split for all outputs (feature -1: none); category_set is the ordering output."""
    cdef FeatureCells cells = cells_of_output(ws, side, feature, room, 0)
    cdef Best best
    cdef int32_t o, has_missing
    split.feature = -1
    best.gain, best.found, best.missing_left, best.ordered_by = 0.0, False, False, -1
    if feature.is_categorical:
        _pool_rare(ws, side, feature, room)
        for o in range(1 if is_one_hot(feature, &ws.rules) else ws.n_outputs):
            _scan_order(ws, side, feature, o, room, &best)
    else:
        has_missing = sums_of_code(&cells, 0).count > 0
        _scan_thresholds(ws, side, feature, feature.n_codes - 2 + has_missing, False, room, &best)
        if has_missing:
            _scan_thresholds(ws, side, feature, feature.n_codes - 2, True, room, &best)
        for o in range(ws.n_outputs):
            best.gain += _omitted_gain(&ws.outputs[o], sums_of_node(ws, side.node, o))
    if best.found and best.gain > ws.min_gain:
        split.feature = feature.index
        split.gain, split.bin, split.missing_left = best.gain, best.bin, best.missing_left
        split.category_set = best.ordered_by


cdef int32_t complete_joint_split(Workspace* ws, const Side* side, ScanBuffer* room, Split* split) noexcept nogil:
    """Write the split's left sums of all outputs, bin and missing side; return the output that orders categories."""
    cdef const Feature* feature = &ws.features[split.feature]
    cdef Sums* left = &ws.left_sums_of_nodes[<Py_ssize_t>side.node * ws.n_outputs]
    cdef Sums cell
    cdef int32_t o, k, by = max(split.category_set, 0), first = 0 if split.missing_left else 1
    cdef FeatureCells cells = cells_of_output(ws, side, feature, room, by)
    if feature.is_categorical:
        _pool_rare(ws, side, feature, room)
        order_categories(&cells)
        first = split.bin if is_one_hot(feature, &ws.rules) else 1
    for o in range(ws.n_outputs):
        cells = cells_of_output(ws, side, feature, room, o)
        clear_sums(&left[o])
        for k in range(first, split.bin + 1):
            if feature.is_categorical:
                cell = _sums_at_position(ws, side, feature, room, k - 1, o)
            else:
                cell = sums_of_code(&cells, k)
            add_sums(&left[o], &cell)
    split.left = left[by]
    if feature.is_categorical:
        return by
    split.bin = centre_of_gap(&cells, split.bin)
    if sums_of_code(&cells, 0).count == 0:
        # The node has no missing values, so missing values in prediction go to the larger side.
        split.missing_left = _left_is_larger(ws, side.node, left)
    return by


cdef bint _left_is_larger(const Workspace* ws, int32_t node, const Sums* left) noexcept nogil:
    """Return True if `left`, the left sums of all outputs, has more than half of the node's mean hessian."""
    cdef float64_t surplus = 0.0
    cdef int32_t o
    for o in range(ws.n_outputs):
        surplus += ws.outputs[o].hessian_unit * <float64_t>(2 * left[o].hessian - sums_of_node(ws, node, o).hessian)
    return surplus > 0


cdef enum:
    THREAD_GRAIN = 3 << 9           # minimum work per thread, about 0.6 microseconds
    # Nodes up to this size are counted by columns, a block at a time, and searched while the cells are in the cache, in
    # parallel over columns. Larger nodes are counted by rows, so that no thread has to read all rows, but the threads'
    # histograms must then be merged. With 1000 rows and 20 000 columns, a tree takes 0.22 s by columns and 0.55 s by
    # rows (one thread).
    ROWS_BY_COLUMNS = 1 << 11


cdef struct Search:
    Workspace* ws
    const Task* task
    int32_t room                    # index of the first part's workspace; the others follow
    int32_t n_partials              # 0 if the node's rows are not yet counted
    int32_t n_pieces                # of the columns
    Histogram* parent
    Side counted
    Side difference


cdef struct SmallTasks:
    # Tasks that are too small for several threads; threads take them from a shared counter.
    Workspace* ws
    int32_t next


cdef int32_t _threads_for_task(const Workspace* ws, const Task* task) noexcept nogil:
    """Return the number of threads, at most ws.n_threads, that counting and searching for a task keep busy."""
    cdef const Node* node = &ws.nodes[task.counted]
    cdef int64_t work = (node.end - node.begin) * ws.table.codes_per_row + UPDATES_PER_CODE * ws.table.n_codes
    return <int32_t>max(1, min(<int64_t>ws.n_threads, ws.n_outputs * work // THREAD_GRAIN))


cdef void run_tasks(Workspace* ws) noexcept nogil:
    """Find the best splits of the planned tasks: large tasks use all threads, small ones run in parallel."""
    cdef SmallTasks small = SmallTasks(ws, 0)
    cdef int32_t i, n_threads, n_small = 0
    cdef bint side_by_side
    for i in range(ws.n_tasks):
        n_small += _threads_for_task(ws, &ws.tasks[i]) == 1
    side_by_side = ws.n_threads > 1 and n_small > 2
    for i in range(ws.n_tasks):
        n_threads = _threads_for_task(ws, &ws.tasks[i])
        if n_threads > 1 or not side_by_side:
            _run_task(ws, &ws.tasks[i], 0, n_threads)
    if side_by_side:
        parallel_for(_run_small_tasks, &small, ws.n_threads)


cdef void _run_small_tasks(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Run the tasks that justify only one thread, from a shared counter, as the body of a parallel for."""
    cdef SmallTasks* small = <SmallTasks*>job
    cdef int32_t i = next_item(&small.next)
    while i < small.ws.n_tasks:
        if _threads_for_task(small.ws, &small.ws.tasks[i]) == 1:
            _run_task(small.ws, &small.ws.tasks[i], part, 1)
        i = next_item(&small.next)


cdef void count_task(Workspace* ws, const Task* task, int64_t** cells) noexcept nogil:
    """Count the task's node in its histogram slot, and write the address of each output's cells to `cells`."""
    cdef Histogram counted
    cdef int32_t o
    cdef Search search
    search.ws, search.task, search.room, search.n_partials = ws, task, 0, _threads_for_task(ws, task)
    parallel_for(_count_part, &search, search.n_partials)
    _merge_all_columns(&search)
    for o in range(ws.n_outputs):
        counted = _counted_histogram(&search, o)
        cells[o] = counted.cells
    if task.counted == 0:
        _note_rare_codes(ws, &counted)


cdef void search_counted(Workspace* ws, const Task* task) noexcept nogil:
    """Find and store the best splits of a task whose node was counted by `count_task`."""
    cdef Search search
    search.ws, search.task, search.room, search.n_partials = ws, task, 0, 1
    _search_task(&search, _threads_for_task(ws, task))


cdef void _run_task(Workspace* ws, const Task* task, int32_t room, int32_t n_threads) noexcept nogil:
    """Count a task's node and store the best splits, on n_threads threads with the workspaces `room` and on."""
    cdef const Node* node = &ws.nodes[task.counted]
    cdef Search search
    search.ws, search.task, search.room, search.n_partials = ws, task, room, 0
    if ws.table.cells != NULL or node.end - node.begin <= ROWS_BY_COLUMNS:
        if task.is_root:
            _sum_root_rows(ws)
    else:
        parallel_for(_count_part, &search, n_threads)
        search.n_partials = n_threads
        if task.is_root:
            _merge_all_columns(&search)
    _search_task(&search, n_threads)


cdef Histogram _counted_histogram(const Search* search, int32_t output) noexcept nogil:
    """Return one output's histogram of the counted node: in its slot, or else in the first part's workspace."""
    cdef const Node* node = &search.ws.nodes[search.task.counted]
    if node.slot >= 0:
        return node_histogram(search.ws, node, node.slot, output)
    return partial_histogram(search.ws, node, search.room, output)


cdef void _count_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Count a part of the node's rows: part 0 into the node's cells, other parts into partial histograms."""
    cdef const Search* search = <const Search*>job
    cdef Workspace* ws = search.ws
    cdef const Node* node = &ws.nodes[search.task.counted]
    cdef Py_ssize_t n = node.end - node.begin, begin = n * part // n_parts, end = n * (part + 1) // n_parts
    cdef Histogram out
    cdef int32_t o, room = search.room + part
    for o in range(ws.n_outputs):
        out = _counted_histogram(search, o) if part == 0 else partial_histogram(ws, node, room, o)
        build_histogram(
            &ws.table, &ws.outputs[o].quantised, ws.rows + node.begin + begin, end - begin,
            Columns(0, ws.table.n_columns), rows_in_cells(ws, node, o), ws.zeros + room * ws.table.n_counted, &out,
        )


cdef void _merge_column(const Search* search, Histogram* into, int32_t output, const Column* column) noexcept nogil:
    """Add the partial histograms of all parts but the first to `into`, for one column and one output."""
    cdef Histogram partial
    cdef int32_t t
    for t in range(1, search.n_partials):
        partial = partial_histogram(search.ws, &search.ws.nodes[search.task.counted], t, output)
        merge_histogram(into, &partial, column)


cdef void _merge_all_columns(Search* search) noexcept nogil:
    """Add the partial histograms to the counted node's cells for all columns and outputs, before the search."""
    cdef Workspace* ws = search.ws
    cdef Histogram target
    cdef int32_t c, o
    for o in range(ws.n_outputs):
        target = _counted_histogram(search, o)
        for c in range(ws.table.n_columns):
            _merge_column(search, &target, o, &ws.table.columns[c])
    search.n_partials = 1


cdef Side _make_side(Workspace* ws, int32_t node, bint wanted, int32_t room, int32_t which) noexcept nogil:
    """Return a node's search state in workspace `room`; `which`: 0 for the counted node, 1 for its sibling."""
    cdef Side side
    cdef Py_ssize_t n_features = ws.table.n_features
    side.node = node
    side.wanted = wanted and node >= 0
    side.histograms = ws.histograms + (3 * room + 1 + which) * ws.n_outputs
    side.allowed = ws.allowed + (2 * room + which) * n_features
    side.best = ws.best_splits + 2 * room + which
    side.key = key_of_thresholds(ws.seed, node)
    side.forced, side.rounds = NULL, NULL
    if side.wanted and ws.nodes[node].forced >= 0:
        side.forced = &ws.forced[ws.nodes[node].forced]
    if side.wanted and draws_one_by_one(ws):
        side.rounds = ws.sampled + room * n_features + which * (n_features // 2)
        start_permutation(ws, node, side.rounds)
    elif side.wanted:
        allow_features(ws, node, room, side.allowed)
    return side


cdef void _start_scans(const Workspace* ws, Side* side) noexcept nogil:
    """Set the initial scans of a wanted side, over thresholds and category sets, if there is only one output."""
    cdef const Node* node
    if side.wanted and ws.n_outputs == 1:
        node = &ws.nodes[side.node]
        side.of_values = start_scan(&node.sums, ws.rules.l2, &node.limits, &ws.rules)
        side.node_of_values = node_of_scan(&ws.outputs[0].quantised.layout, &ws.rules, &side.of_values)
        side.of_values.node = &side.node_of_values
        side.of_sets = start_scan(&node.sums, ws.rules.l2 + ws.rules.category_l2, &node.limits, &ws.rules)


cdef void _search_task(Search* search, int32_t n_threads) noexcept nogil:
    """Merge partial histograms, subtract to get the sibling's, and store the best split of each wanted node.

    The root's partial histograms must already be merged, because its sums are read from its first column.
    """
    cdef Workspace* ws = search.ws
    cdef const Task* task = search.task
    cdef const Node* difference
    cdef Sums total
    cdef int32_t o
    search.parent = ws.histograms + 3 * search.room * ws.n_outputs
    search.counted = _make_side(ws, task.counted, task.want_counted, search.room, 0)
    search.difference = _make_side(ws, task.difference, task.want_difference, search.room, 1)
    for o in range(ws.n_outputs):
        search.counted.histograms[o] = _counted_histogram(search, o)
        if task.difference >= 0:
            difference = &ws.nodes[task.difference]
            search.parent[o] = node_histogram(ws, &ws.nodes[difference.parent], difference.slot, o)
            search.difference.histograms[o] = node_histogram(ws, difference, difference.slot, o)
    if task.is_root and search.n_partials > 0:
        ws.outputs[0].quantised.are_fresh = False
        for o in range(ws.n_outputs):
            total = column_sums(&search.counted.histograms[o], ws.table.columns, &ws.outputs[o].quantised.layout)
            _set_root_sums(ws, o, total)
        if ws.ranks == NULL:
            _note_rare_codes(ws, search.counted.histograms)
    _start_scans(ws, &search.counted)
    _start_scans(ws, &search.difference)
    for o in range(n_threads):
        search.counted.best[2 * o].feature = search.difference.best[2 * o].feature = -1
    search.n_pieces = 1
    if n_threads > 1:
        search.n_pieces = n_threads if ws.table.cells == NULL else n_threads * PIECES_PER_THREAD
        divide_columns(ws, &ws.nodes[task.counted], search.n_pieces)
    if ws.table.cells == NULL:
        parallel_for(_search_part, search, n_threads)
    else:
        parallel_for(_count_stored, search, n_threads)
        dynamic_parallel_for(_search_stored, search, search.n_pieces, n_threads)
    _store_best_split(ws, &search.counted, search.room, n_threads)
    _store_best_split(ws, &search.difference, search.room, n_threads)


cdef void _note_rare_codes(Workspace* ws, const Histogram* root) noexcept nogil:
    """Set ws.codes_are_rare to True if a packed cell is known to hold the root's local rows of any code."""
    cdef const CellLayout* layout = &ws.outputs[0].quantised.layout
    cdef const Column* column
    cdef Py_ssize_t i
    cdef int32_t c
    ws.codes_are_rare = ws.root_is_packed
    if ws.root_is_packed or ws.n_outputs > 1 or ws.table.n_cells > ws.table.n_counted:
        return
    for c in range(ws.table.n_columns):
        column = &ws.table.columns[c]
        for i in range(column.offset, column.offset + column.n_codes):
            if cell_sums(root, i, layout).count > <int64_t>layout.count_mask:
                return
    ws.codes_are_rare = True


cdef void _sum_root_rows(Workspace* ws) noexcept nogil:
    """Set the root's sums for every output by adding up its rows."""
    cdef Node* root = &ws.nodes[0]
    cdef int32_t o
    for o in range(ws.n_outputs):
        _set_root_sums(ws, o, sums_of_rows(&ws.outputs[o].quantised, ws.rows + root.begin, root.end - root.begin))


cdef void _set_root_sums(Workspace* ws, int32_t output, Sums sums) noexcept nogil:
    """Set the root's sums for one output; the first output's sums also set the root's value."""
    cdef Node* root = &ws.nodes[0]
    if ws.n_outputs > 1:
        ws.sums_of_nodes[output] = sums
    if output == 0:
        root.sums = sums
        root.limits.value = limited_value(&root.sums, ws.rules.l2, 0.0, &root.limits)


cdef Columns _columns_of_pieces(const Search* search, Py_ssize_t first, Py_ssize_t end) noexcept nogil:
    """Return the columns of the pieces first .. end - 1; all columns if they are not divided."""
    cdef const Workspace* ws = search.ws
    if search.n_pieces == 1:
        return Columns(0, ws.table.n_columns)
    return Columns(ws.first_columns[first], ws.first_columns[end])


cdef void _search_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Search the columns of piece `part`, after counting if rows are not counted, as a parallel for's body."""
    cdef Search* search = <Search*>job
    cdef Columns columns = _columns_of_pieces(search, part, part + 1)
    cdef int32_t c
    if search.n_partials == 0:
        _count_and_search(search, columns, part)
        return
    for c in range(columns.first, columns.end):
        _search_column(search, &search.ws.table.columns[c], part)


cdef void _count_and_search(const Search* of_all, Columns columns, int32_t part) noexcept nogil:
    """Count and search columns by blocks on thread `part`; blocks of an unstored node share one buffer."""
    cdef Search search = of_all[0]
    cdef Workspace* ws = search.ws
    cdef const Node* node = &ws.nodes[search.counted.node]
    # Cells are read again only for category sets and several outputs; bundles have separate cells.
    cdef bint is_needed = node.slot >= 0 or ws.n_outputs > 1 or ws.words_per_node > 0
    cdef Histogram here
    cdef Columns block
    cdef int32_t c
    block.first = columns.first
    while block.first < columns.end:
        block.end = min(block.first + <int32_t>COLUMN_BLOCK, columns.end)
        if not (is_needed or ws.table.n_cells > ws.table.n_counted):
            here = partial_histogram(ws, node, search.room + part, 0)
            here.cells -= words_per_cell(&here) * <Py_ssize_t>ws.table.columns[block.first].offset
            search.counted.histograms = &here
        _count_columns(&search, block, part)
        for c in range(block.first, block.end):
            _search_column(&search, &ws.table.columns[c], part)
        block.first = block.end


cdef void _count_columns(const Search* search, Columns columns, int32_t part) noexcept nogil:
    """Build the counted node's histograms of some columns for all outputs, in the workspace of thread `part`."""
    cdef Workspace* ws = search.ws
    cdef const Node* node = &ws.nodes[search.counted.node]
    cdef int32_t o, room = search.room + part
    for o in range(ws.n_outputs):
        build_histogram(
            &ws.table, &ws.outputs[o].quantised, ws.rows + node.begin, node.end - node.begin, columns,
            rows_in_cells(ws, node, o), ws.zeros + room * ws.table.n_counted, &search.counted.histograms[o],
        )


cdef void _search_column(Search* search, const Column* column, int32_t part) noexcept nogil:
    """Complete a column's cells, and update the best splits of thread `part` for both nodes by its features."""
    cdef Workspace* ws = search.ws
    cdef const Feature* feature
    cdef int32_t i, o
    for o in range(ws.n_outputs):
        _complete_column(search, column, o)
    for i in range(column.n_features):
        feature = &ws.features[column.features[i]]
        if ws.forced != NULL:
            _force_feature(search, feature, part)
        _search_feature(ws, feature, &search.counted, search.room, part)
        _search_feature(ws, feature, &search.difference, search.room, part)


cdef inline void _complete_column(Search* search, const Column* column, int32_t output) noexcept nogil:
    """Merge and unbundle the counted node's cells of a column for one output; subtract to get its sibling's."""
    cdef Workspace* ws = search.ws
    cdef Histogram* counted = &search.counted.histograms[output]
    cdef const CellLayout* layout = &ws.outputs[output].quantised.layout
    _merge_column(search, counted, output, column)
    if column.n_features > 1:
        unbundle(counted, column, ws.features, sums_of_node(ws, search.counted.node, output), layout)
    if search.difference.node >= 0:
        subtract_histogram(&search.parent[output], counted, &search.difference.histograms[output], layout, column)


# Sparse rows ---------------------------------------------------------------------------------------------------------

cdef void _count_stored(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Count this part's share of the sparse columns, active columns only, as the body of a parallel for."""
    cdef Search* search = <Search*>job
    cdef Workspace* ws = search.ws
    cdef const Node* node = &ws.nodes[search.counted.node]
    cdef int32_t o, n = search.n_pieces
    cdef Columns columns = _columns_of_pieces(search, n * part // n_parts, n * (part + 1) // n_parts)
    if columns.first == columns.end:
        return
    if node.parent >= 0:
        clear_active(ws, search.counted.node, columns.first, columns.end)
    if search.difference.node >= 0:
        clear_active(ws, search.difference.node, columns.first, columns.end)
    for o in range(ws.n_outputs):
        build_sparse_histogram(
            &ws.table, &ws.outputs[o].quantised, ws.rows + node.begin, node.end - node.begin, columns,
            active_columns(ws, max(node.parent, 0)), ws.zeros + (search.room + part) * ws.table.n_counted,
            &search.counted.histograms[o],
        )


cdef void _search_stored(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    """Search the active sparse columns of a piece; mark for each node the columns that its children may use."""
    cdef Search* search = <Search*>job
    cdef Workspace* ws = search.ws
    cdef const uint64_t* active = active_columns(ws, max(ws.nodes[search.counted.node].parent, 0))
    cdef Columns columns = _columns_of_pieces(search, piece, piece + 1)
    cdef int32_t c = next_feature(active, columns.first, columns.end)
    while c < columns.end:
        _search_sparse_column(search, c, thread)
        c = next_feature(active, c + 1, columns.end)


cdef void _search_sparse_column(Search* search, int32_t c, int32_t part) noexcept nogil:
    """Search column c and mark it as active, for each of the nodes with enough rows with a stored code in it."""
    cdef Workspace* ws = search.ws
    cdef const Feature* feature = &ws.features[c]
    cdef const CellLayout* layout
    cdef const Sums* total
    cdef Histogram* counted
    cdef int64_t n_stored = 0, n_other = 0
    cdef int32_t o
    for o in range(ws.n_outputs):
        counted, layout = &search.counted.histograms[o], &ws.outputs[o].quantised.layout
        total = sums_of_node(ws, search.counted.node, o)
        complete_zeros(counted, feature, total, layout)
        n_stored = count_stored(counted, feature, total, layout)
        if search.difference.node >= 0:
            n_other = _subtract_sparse(search, c, o, n_stored == 0)
    if ws.forced != NULL:
        _force_feature(search, feature, part)
    if n_stored >= ws.rules.min_count:
        add_feature(active_columns(ws, search.counted.node), c)
        _search_feature(ws, feature, &search.counted, search.room, part)
    if n_other >= ws.rules.min_count:
        add_feature(active_columns(ws, search.difference.node), c)
        _search_feature(ws, feature, &search.difference, search.room, part)


cdef int64_t _subtract_sparse(Search* search, int32_t c, int32_t output, bint only_zeros) noexcept nogil:
    """Compute the sibling's cells of column c; return its stored codes. only_zeros: the counted node has none."""
    cdef Workspace* ws = search.ws
    cdef const Feature* feature = &ws.features[c]
    cdef const CellLayout* layout = &ws.outputs[output].quantised.layout
    cdef const Histogram* counted = &search.counted.histograms[output]
    cdef const Histogram* parent = &search.parent[output]
    cdef Histogram* other = &search.difference.histograms[output]
    if only_zeros and other.cells == parent.cells:
        subtract_zeros(parent, counted, feature, other, layout)
    else:
        subtract_histogram(parent, counted, other, layout, &ws.table.columns[c])
    return count_stored(other, feature, sums_of_node(ws, search.difference.node, output), layout)


# Splits of one feature -----------------------------------------------------------------------------------------------

cdef void _search_feature(
    Workspace* ws, const Feature* feature, Side* side, int32_t first_room, int32_t part
) noexcept nogil:
    """Keep the feature's best split of a node if it is thread `part`'s best; use workspace first_room + part."""
    cdef const Scan* start = &side.of_values
    cdef ScanBuffer* room = &ws.rooms[first_room + part]
    cdef FeatureCells cells
    cdef Split found
    if not side.wanted or not is_allowed(ws, side, feature.index):
        return
    if ws.n_outputs > 1:
        best_joint_split(ws, side, feature, room, &found)
    else:
        if feature.is_categorical and not is_one_hot(feature, &ws.rules):
            start = &side.of_sets
        cells = cells_of_output(ws, side, feature, room, 0)
        best_split_of_feature(&cells, start, &side.best[2 * part], &found)
    if is_better(&found, &side.best[2 * part]):
        side.best[2 * part] = found


cdef Sums _forced_left(
    const FeatureCells* cells, const Workspace* ws, const Side* side, bint missing_left
) noexcept nogil:
    """Return one output's sums of the codes that the node's forced split sends left, code 0 if missing_left."""
    cdef const ForcedSplit* forced = side.forced
    cdef Sums left, cell
    cdef int32_t code
    clear_sums(&left)
    for code in range(0 if missing_left else 1, cells.feature.n_codes):
        if code == 0 or code_goes_left(ws.forced_words, forced.category_set, forced.bin, True, code):
            cell = sums_of_code(cells, code)
            add_sums(&left, &cell)
    return left


cdef void _force_feature(Search* search, const Feature* feature, int32_t part) noexcept nogil:
    """Write the forced splits of both nodes that are on this feature, using the workspace of thread `part`."""
    _force_split(search.ws, &search.counted, feature, &search.ws.rooms[search.room + part])
    _force_split(search.ws, &search.difference, feature, &search.ws.rooms[search.room + part])


cdef void _force_split(Workspace* ws, const Side* side, const Feature* feature, ScanBuffer* room) noexcept nogil:
    """Write the node's forced split if it is on the feature, unless a side would be too small or without values.

    Missing values go to the side with the larger gain or, if the node has none, to the larger side.
    """
    cdef Split* split
    cdef const Sums* totals
    cdef const SplitRules* rules = &ws.outputs[0].rules
    cdef FeatureCells cells
    cdef int64_t n_missing
    cdef Sums of_single
    cdef Sums* left = &of_single if ws.n_outputs == 1 else room.left
    cdef Sums* kept = ws.left_sums_of_nodes + <Py_ssize_t>side.node * ws.n_outputs
    cdef float64_t gain, best = -INFINITY
    cdef uint32_t* words
    cdef int32_t o, k
    if not side.wanted or side.forced == NULL or side.forced.feature != feature.index:
        return
    split, totals = &ws.nodes[side.node].split, sums_of_node(ws, side.node, 0)
    cells = cells_of_output(ws, side, feature, room, 0)
    n_missing = sums_of_code(&cells, 0).count
    for k in range(1 + (n_missing > 0)):
        for o in range(ws.n_outputs):
            cells = cells_of_output(ws, side, feature, room, o)
            left[o] = _forced_left(&cells, ws, side, k)
        if k == 0 and (left[0].count == 0 or left[0].count + n_missing == totals[0].count):
            return  # one side would not have values
        gain = _gain_of_sides(ws, side, feature, left)
        if gain > best and is_large_enough(&left[0], rules) and leaves_enough(&left[0], &totals[0], rules):
            best, split.feature, split.missing_left, split.left = gain, feature.index, k, left[0]
            if ws.n_outputs > 1:
                memcpy(kept, left, ws.n_outputs * sizeof(Sums))
    if split.feature < 0:
        return
    split.missing_left = split.missing_left if n_missing > 0 else _left_is_larger(ws, side.node, left)
    split.gain = max(best, 0.0) / (ws.outputs[0].gain_unit if ws.n_outputs == 1 else 1.0)
    split.bin, split.category_set = side.forced.bin, -1
    if feature.is_categorical:
        split.category_set = side.node * ws.words_per_node
        words = ws.category_words + split.category_set
        memcpy(words, ws.forced_words + side.forced.category_set, set_size(feature.n_codes) * sizeof(uint32_t))
        set_put(words, 0, split.missing_left)
        split.missing_left = n_missing == 0  # the final side is chosen in unseen.pyx


cdef void _store_best_split(Workspace* ws, Side* side, int32_t room, int32_t n_parts) noexcept nogil:
    """Store the best split of all parts in the node, with its category set, unless a forced split is stored."""
    cdef int32_t t, by = 0
    cdef FeatureCells cells
    cdef Node* node
    cdef const Split* best = side.best
    if not side.wanted:
        return
    node = &ws.nodes[side.node]
    if node.split.feature >= 0:
        return  # the forced split
    node.forced = -1
    for t in range(1, n_parts):
        if is_better(&side.best[2 * t], best):
            best = &side.best[2 * t]
    if best.feature < 0:
        return
    node.split = best[0]
    if ws.n_outputs > 1:
        by = complete_joint_split(ws, side, &ws.rooms[room], &node.split)
    if ws.features[node.split.feature].is_categorical:
        node.split.category_set = side.node * ws.words_per_node
        cells = cells_of_output(ws, side, &ws.features[node.split.feature], &ws.rooms[room], by)
        write_category_set(&cells, &node.split, ws.category_words + <Py_ssize_t>side.node * ws.words_per_node)
        node.split.missing_left = sums_of_code(&cells, 0).count == 0  # the final side is chosen in unseen.pyx
    if ws.n_outputs > 1:
        node.split.left = ws.left_sums_of_nodes[<Py_ssize_t>side.node * ws.n_outputs]
