"""Open nodes of a growing tree: row partition, choice of the next splits, and sums over workers."""

from fastens.engine.heap cimport Candidate, pop_heap, precedes, push_heap
from fastens.engine.histograms.cells cimport Sums, cells_received, cells_to_send, sums_difference
from fastens.engine.limits cimport bind_side
from fastens.engine.splits.gain cimport ValueLimits, limited_value
from fastens.engine.splits.workspace cimport (
    Decision, MAX_PENDING_SUMS, Node, Task, PendingSum, Workspace, collect_rows, release_slot, reserve_nodes,
    split_rows, take_slot
)
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint32_t
from fastens.engine.thread_pool cimport MAX_THREADS, next_item, parallel_for
from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from fastens.engine.histograms.histogram cimport Table
from fastens.engine.ranks cimport begin_sum_of_rows, finish_sum
from fastens.engine.splits.search cimport count_task, search_counted


cdef enum:
    ROW_GRAIN = 1 << 10             # minimum number of rows per thread if they are only moved or summed


cdef struct Partition:
    # The rows of a node; each part of them is partitioned separately.
    uint32_t* rows
    uint32_t* scratch
    Py_ssize_t n_rows
    Decision decision
    Py_ssize_t n_left
    Py_ssize_t n_left_of[MAX_THREADS]
    Py_ssize_t first_left[MAX_THREADS]


cdef Decision _make_decision(const Workspace* ws, const Node* node) noexcept nogil:
    """Return a node's split, and where its feature's codes are stored, in the form that partition kernels read."""
    cdef Decision decision
    cdef int64_t first
    decision.code_size, decision.pages = ws.table.code_size, ws.table.pages
    decision.column, decision.row_step = ws.codes + node.split.feature * ws.feature_step, ws.row_step
    if ws.near != NULL and ws.near[node.split.feature] != 0:
        decision.column, decision.row_step = <const void*>ws.near[node.split.feature], decision.code_size
    decision.stored_rows = NULL
    if ws.stored_rows != NULL:
        first = ws.first_stored[node.split.feature]
        decision.column = ws.codes + first * decision.code_size
        decision.stored_rows = ws.stored_rows + first
        decision.n_stored = ws.first_stored[node.split.feature + 1] - first
        decision.zero_code = ws.features[node.split.feature].most_frequent_bin
    decision.n_codes = ws.features[node.split.feature].n_codes
    decision.bin = node.split.bin
    decision.missing_left = node.split.missing_left
    decision.category_words = NULL
    if node.split.category_set >= 0:
        decision.category_words = ws.category_words + node.split.category_set
    return decision


cdef void _partition_node(Workspace* ws, int32_t id, int32_t n_threads) noexcept nogil:
    """Partition the rows of node `id` between its children, which need not exist yet, and set its `middle`."""
    cdef Node* node = &ws.nodes[id]
    cdef Partition partition
    cdef int32_t t
    partition.rows, partition.scratch = ws.rows + node.begin, ws.scratch_rows + node.begin
    partition.n_rows = node.end - node.begin
    partition.decision = _make_decision(ws, node)
    parallel_for(_partition_part, &partition, n_threads)
    partition.n_left = 0
    for t in range(n_threads):
        partition.first_left[t] = partition.n_left
        partition.n_left += partition.n_left_of[t]
    parallel_for(_collect_part, &partition, n_threads)
    node.middle = node.begin + partition.n_left


cdef void _partition_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Partition a part of a node's rows in scratch memory, left ones first, and record the number of left ones."""
    cdef Partition* p = <Partition*>job
    cdef Py_ssize_t begin = p.n_rows * part // n_parts, end = p.n_rows * (part + 1) // n_parts
    p.n_left_of[part] = split_rows(&p.decision, p.rows + begin, end - begin, p.scratch + begin)


cdef void _collect_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Copy the partitioned rows of a part from scratch memory to the row ranges of the two children."""
    cdef Partition* p = <Partition*>job
    cdef Py_ssize_t begin = p.n_rows * part // n_parts, end = p.n_rows * (part + 1) // n_parts
    cdef Py_ssize_t first_left = p.first_left[part]
    collect_rows(
        p.scratch + begin, end - begin, p.n_left_of[part], p.rows + first_left, p.rows + p.n_left + begin - first_left
    )


cdef int32_t threads_for_rows(const Workspace* ws, Py_ssize_t n_rows) noexcept nogil:
    """Return the number of threads, at most ws.n_threads, that a pass over `n_rows` rows keeps busy."""
    return <int32_t>max(1, min(<Py_ssize_t>ws.n_threads, n_rows // ROW_GRAIN))


cdef struct Placing:
    uint32_t* rows
    const uint32_t* given
    Py_ssize_t n_rows


cdef void place_rows(Workspace* ws, const uint32_t* given, Py_ssize_t n_rows) noexcept nogil:
    """Copy the row indices `given`, or 0 .. n_rows - 1 if it is NULL, to ws.rows, which growth reorders."""
    cdef Placing placing = Placing(ws.rows, given, n_rows)
    parallel_for(_place_part, &placing, threads_for_rows(ws, n_rows))


cdef void _place_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Copy a part of the row indices to ws.rows (see `place_rows`), as the body of a parallel for."""
    cdef Placing* p = <Placing*>job
    cdef Py_ssize_t i
    for i in range(p.n_rows * part // n_parts, p.n_rows * (part + 1) // n_parts):
        p.rows[i] = <uint32_t>i if p.given == NULL else p.given[i]


cdef void _add_children(Workspace* ws, int32_t id) noexcept nogil:
    """Append both children of node `id`, which has a split, with their sums and bounds but without rows."""
    cdef Node* node = &ws.nodes[id]
    cdef Node* child
    cdef int32_t which
    node.left_child = ws.n_nodes
    ws.n_nodes += 2
    for which in range(2):
        child = &ws.nodes[node.left_child + which]
        child.depth = node.depth + 1
        child.parent = id
        child.left_child = 0
        child.slot = child.ahead = -1
        child.exchange = 0
        child.forced = -1
        child.middle = -1
        child.split.feature = -1
        child.sums = node.split.left if which == 0 else sums_difference(&node.sums, &node.split.left)
        child.limits = node.limits
    if node.forced >= 0:
        ws.nodes[node.left_child].forced = ws.forced[node.forced].left
        ws.nodes[node.left_child + 1].forced = ws.forced[node.forced].right
    if ws.n_outputs > 1:
        _add_sums_of_children(ws, id, node.left_child)
    if not node.limits.is_free or ws.features[node.split.feature].monotone != 0:
        _limit_children(ws, node)


cdef void _add_sums_of_children(Workspace* ws, int32_t parent, int32_t left) noexcept nogil:
    """Set the gradient sums of both children for all outputs: the left sums, and the parent's minus these."""
    cdef Py_ssize_t k = ws.n_outputs, o
    for o in range(k):
        ws.sums_of_nodes[left * k + o] = ws.left_sums_of_nodes[parent * k + o]
        ws.sums_of_nodes[(left + 1) * k + o] = sums_difference(
            &ws.sums_of_nodes[parent * k + o], &ws.left_sums_of_nodes[parent * k + o]
        )


cdef void _limit_children(Workspace* ws, const Node* node) noexcept nogil:
    """Set the children's values and, if the split feature is monotone, bound all descendants by their midpoint."""
    cdef ValueLimits* left = &ws.nodes[node.left_child].limits
    cdef ValueLimits* right = &ws.nodes[node.left_child + 1].limits
    cdef int32_t monotone = ws.features[node.split.feature].monotone
    cdef float64_t middle
    left.value = limited_value(&ws.nodes[node.left_child].sums, ws.rules.l2, ws.rules.path_smooth, &node.limits)
    right.value = limited_value(&ws.nodes[node.left_child + 1].sums, ws.rules.l2, ws.rules.path_smooth, &node.limits)
    if monotone == 0:
        return
    left.is_free = right.is_free = False
    middle = 0.5 * (left.value + right.value)
    bind_side(monotone, False, middle, &left.lower, &left.upper)
    bind_side(monotone, True, middle, &right.lower, &right.upper)
    # The sides of a forced split may violate the constraint.
    left.value = min(max(left.value, left.lower), left.upper)
    right.value = min(max(right.value, right.lower), right.upper)


cdef void _choose_nodes(Workspace* ws) noexcept nogil:
    """Move the nodes to split next from the queue to ws.chosen: the best one, or all if leaves are unlimited."""
    cdef int32_t n = 1 if ws.limits.max_leaves > 0 else ws.n_candidates
    ws.n_chosen = min(n, ws.n_candidates)
    for n in range(ws.n_chosen):
        ws.chosen[n] = pop_heap(ws.candidates, &ws.n_candidates)


cdef struct SmallNodes:
    # Nodes that are too small for several threads; threads take them from a shared counter.
    Workspace* ws
    const int32_t* nodes
    int32_t n
    int32_t next


cdef void split_nodes(Workspace* ws, const int32_t* nodes, int32_t n) noexcept nogil:
    """Partition the rows of n nodes unless done: large nodes one by one on all threads, then small ones in parallel."""
    cdef SmallNodes small = SmallNodes(ws, nodes, n, 0)
    cdef int32_t i, n_threads
    cdef Py_ssize_t small_rows = 0
    cdef Node* node
    for i in range(n):
        node = &ws.nodes[nodes[i]]
        n_threads = threads_for_rows(ws, node.end - node.begin)
        if node.middle < 0 and n_threads > 1:
            _partition_node(ws, nodes[i], n_threads)
        elif node.middle < 0:
            small_rows += node.end - node.begin
    parallel_for(_partition_small_nodes, &small, threads_for_rows(ws, small_rows))


cdef void _partition_small_nodes(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Partition small nodes, taken from a shared counter, on one thread each, as the body of a parallel for."""
    cdef SmallNodes* small = <SmallNodes*>job
    cdef Workspace* ws = small.ws
    cdef int32_t i = next_item(&small.next)
    while i < small.n:
        if ws.nodes[small.nodes[i]].middle < 0:
            _partition_node(ws, small.nodes[i], 1)
        i = next_item(&small.next)


cdef void _split_chosen(Workspace* ws) noexcept nogil:
    """Create the children of the nodes in ws.chosen, partition the rows, and set the children's row ranges."""
    cdef int32_t i
    cdef Node* node
    cdef Node* left
    for i in range(ws.n_chosen):
        _add_children(ws, ws.chosen[i])
    split_nodes(ws, ws.chosen, ws.n_chosen)
    for i in range(ws.n_chosen):
        node = &ws.nodes[ws.chosen[i]]
        left = &ws.nodes[node.left_child]
        left[0].begin, left[0].end = node.begin, node.middle
        left[1].begin, left[1].end = node.middle, node.end


cdef bint may_split(const Workspace* ws, int32_t depth, const Sums* sums) noexcept nogil:
    """Return True if a node of this depth and these sums is large enough for two leaves and not too deep."""
    return (
        depth < ws.limits.max_depth
        and sums.count >= 2 * ws.rules.min_count
        and sums.hessian >= 2 * ws.rules.min_hessian
        and sums.weight >= 2 * ws.rules.min_weight
    )


cdef void add_task(
    Workspace* ws, int32_t counted, int32_t difference, bint want_counted, bint want_difference
) noexcept nogil:
    """Append a task: count node `counted`, and compute its sibling `difference` (-1 if unwanted) by subtraction.

    The best split is searched for each node whose flag, want_counted or want_difference, is True.
    """
    cdef Task* task = &ws.tasks[ws.n_tasks]
    task.counted = counted
    task.difference = difference
    task.want_counted = want_counted
    task.want_difference = want_difference
    task.is_root = counted == 0
    task.exchange = 0
    ws.n_tasks += 1


cdef inline Py_ssize_t _n_rows(const Node* node) noexcept nogil:
    """Return the number of rows of a node."""
    return node.end - node.begin


cdef void _plan_tasks(Workspace* ws) noexcept nogil:
    """Set ws.tasks to the tasks of the children of ws.chosen; a parent's histogram slot goes to its larger child."""
    cdef int32_t i, smaller, larger
    cdef bint want_smaller, want_larger
    cdef Node* parent
    ws.n_tasks = 0
    for i in range(ws.n_chosen):
        parent = &ws.nodes[ws.chosen[i]]
        smaller = larger = parent.left_child
        if 2 * parent.split.left.count <= parent.sums.count:
            larger += 1
        else:
            smaller += 1
        want_smaller = may_split(ws, ws.nodes[smaller].depth, &ws.nodes[smaller].sums)
        want_larger = may_split(ws, ws.nodes[larger].depth, &ws.nodes[larger].sums)
        if not (want_smaller or want_larger):
            release_slot(ws, parent)
            continue
        if parent.slot >= 0:
            ws.nodes[larger].slot = parent.slot
            parent.slot = -1
            if parent.ahead >= 0:
                ws.nodes[smaller].slot = parent.ahead
            elif ws.ranks != NULL or (want_smaller and _n_rows(&ws.nodes[smaller]) >= ws.kept_rows):
                ws.nodes[smaller].slot = take_slot(ws)
            add_task(ws, smaller, larger, want_smaller, want_larger)
            ws.tasks[ws.n_tasks - 1].exchange = parent.exchange
            continue
        if want_smaller:
            add_task(ws, smaller, -1, True, False)
        if want_larger:
            add_task(ws, larger, -1, True, False)


cdef void _collect_candidates(Workspace* ws) noexcept nogil:
    """Queue the nodes of the finished tasks that have a split, forced splits first.

    The other nodes, and nodes too small to be kept, release their histogram slots.
    """
    cdef int32_t i, which, id
    cdef Node* node
    for i in range(ws.n_tasks):
        for which in range(2):
            id = ws.tasks[i].counted if which == 0 else ws.tasks[i].difference
            if id < 0:
                continue
            node = &ws.nodes[id]
            if node.split.feature >= 0:
                push_heap(ws.candidates, &ws.n_candidates, INFINITY if node.forced >= 0 else node.split.gain, id)
            if node.split.feature < 0 or (ws.ranks == NULL and _n_rows(node) < ws.kept_rows):
                release_slot(ws, node)


cdef Outcome split_next_nodes(Workspace* ws, int32_t* n_leaves) noexcept nogil:
    """Split the next nodes after the planned tasks, add to n_leaves[0], and plan the tasks of their children.

    Return GROWING, COMPLETE if no split or no further leaf is possible, or OUT_OF_MEMORY.
    """
    _collect_candidates(ws)
    if ws.n_candidates == 0 or (ws.limits.max_leaves > 0 and n_leaves[0] >= ws.limits.max_leaves):
        return COMPLETE
    if not reserve_nodes(ws, 2 * ws.n_candidates):
        return OUT_OF_MEMORY
    _choose_nodes(ws)
    _split_chosen(ws)
    n_leaves[0] += ws.n_chosen
    ws.n_tasks = 0
    if ws.limits.max_leaves == 0 or n_leaves[0] < ws.limits.max_leaves:
        _plan_tasks(ws)
    return GROWING


cdef enum:
    # Limits on the cells exchanged at a time for speculative nodes, and on the candidates considered for them.
    MAX_SENT = 1 << 17
    MAX_CANDIDATES = 64


cdef bint run_on_ranks(Workspace* ws, int32_t n_left) noexcept nogil:
    """Find the best splits of the planned tasks over all ranks, if at most n_left more splits may follow.

    Return False if memory runs out or a reduction failed.
    """
    cdef int32_t i, last = 0, n_ahead = 0
    cdef bint is_counted = True
    for i in range(ws.n_tasks):
        is_counted = is_counted and ws.tasks[i].exchange > 0
    if not (is_counted or ws.ranks.goes_on):
        n_ahead = _plan_ahead(ws, n_left)
    if not (is_counted or _begin_exchange(ws, 0, ws.n_tasks + n_ahead)):
        return False
    for i in range(ws.n_tasks):
        last = max(last, ws.tasks[i].exchange)
    if ws.ranks.goes_on and ws.n_ended < last == ws.n_begun:
        n_ahead = _plan_ahead(ws, n_left)
        if not _begin_exchange(ws, ws.n_tasks, ws.n_tasks + n_ahead):
            return False
    if not end_exchanges(ws, last):
        return False
    for i in range(ws.n_tasks):
        search_counted(ws, &ws.tasks[i])
    return True


cdef bint end_exchanges(Workspace* ws, int32_t last) noexcept nogil:
    """Wait for the reductions of histograms up to number `last` (from 1); return False if one failed."""
    cdef PendingSum* these
    cdef int32_t i
    while ws.n_ended < last:
        ws.n_ended += 1
        these = &ws.travelling[ws.n_ended % MAX_PENDING_SUMS]
        if not finish_sum(ws.ranks):
            return False
        for i in range(these.n):
            cells_received(these.cells[i], ws.table.n_counted)
        free(these.cells)
        these.cells = NULL
    return True


cdef bint _begin_exchange(Workspace* ws, int32_t first, int32_t end) noexcept nogil:
    """Count the nodes of tasks first .. end - 1 unless done, and begin to reduce their histograms over the ranks.

    Return False if memory or histogram slots run out or the reduction failed.
    """
    cdef PendingSum* these = &ws.travelling[(ws.n_begun + 1) % MAX_PENDING_SUMS]
    cdef int32_t i
    if first == end:
        return True
    these.cells = <int64_t**>malloc((end - first) * ws.n_outputs * sizeof(int64_t*))
    if these.cells == NULL:
        return False
    ws.n_begun += 1
    these.n = 0
    for i in range(first, end):
        if ws.tasks[i].exchange > 0:
            continue
        if ws.nodes[ws.tasks[i].counted].slot < 0:
            return False
        ws.tasks[i].exchange = ws.n_begun
        count_task(ws, &ws.tasks[i], these.cells + these.n)
        these.n += ws.n_outputs
    for i in range(these.n):
        _clear_gaps(&ws.table, these.cells[i])
        cells_to_send(these.cells[i], ws.table.n_counted)
    return begin_sum_of_rows(ws.ranks, these.cells, these.n, ws.table.n_counted, 3)


cdef void _clear_gaps(const Table* table, int64_t* cells) noexcept nogil:
    """Set the wide cells between columns, which belong to no code, to 0, because messages must be small."""
    cdef Py_ssize_t c, first, end
    for c in range(table.n_columns):
        first = table.columns[c].offset + table.columns[c].n_codes
        end = table.columns[c + 1].offset if c + 1 < table.n_columns else table.n_counted
        memset(cells + 3 * first, 0, 3 * (end - first) * sizeof(int64_t))


# Speculative nodes, which may be split soon ---------------------------------------------------------------------------

cdef int32_t _plan_ahead(Workspace* ws, int32_t n_left) noexcept nogil:
    """Plan tasks that count a future child of each of the nodes most likely to be split; return their number.

    They follow the other tasks and are part of the next reduction. At most n_left more splits may follow.
    """
    cdef Candidate last = Candidate(INFINITY, -1)
    cdef Py_ssize_t room = MAX_SENT // (ws.table.n_counted * ws.n_outputs) - ws.n_tasks
    cdef int32_t _i, place, n = 0
    cdef Node* node
    if ws.limits.max_leaves == 0:
        return 0
    for _i in range(min(n_left // 4, MAX_CANDIDATES)):
        place = _next_best(ws, &last)
        if place < 0 or n >= room:
            break
        last = ws.candidates[place]
        node = &ws.nodes[last.node]
        if node.ahead < 0 and _child_may_split(ws, node):
            node.ahead = take_slot(ws)
            if node.ahead < 0:
                break
            node.exchange = ws.n_begun + 1
            ws.chosen[n] = last.node
            n += 1
    split_nodes(ws, ws.chosen, n)
    for _i in range(n):
        _add_task_ahead(ws, ws.chosen[_i], _i)
    return n


cdef int32_t _next_best(const Workspace* ws, const Candidate* before) noexcept nogil:
    """Return the index of the best queued candidate that comes after `before`, or -1 if there is none."""
    cdef int32_t i, best = -1
    for i in range(ws.n_candidates):
        if precedes(before, &ws.candidates[i]) and (best < 0 or precedes(&ws.candidates[i], &ws.candidates[best])):
            best = i
    return best


cdef inline bint _child_may_split(const Workspace* ws, const Node* node) noexcept nogil:
    """Return True if a future child of a node that has a split may be split in turn."""
    cdef Sums right = sums_difference(&node.sums, &node.split.left)
    return may_split(ws, node.depth + 1, &node.split.left) or may_split(ws, node.depth + 1, &right)


cdef void _add_task_ahead(Workspace* ws, int32_t id, int32_t place) noexcept nogil:
    """Write the `place`-th task, from 0, after the planned ones: it counts the smaller future child of node `id`."""
    cdef const Node* node = &ws.nodes[id]
    cdef Node* counted = &ws.nodes[ws.n_nodes + place]
    counted.parent, counted.slot = id, node.ahead
    counted.begin, counted.end = node.middle, node.end
    if 2 * node.split.left.count <= node.sums.count:
        counted.begin, counted.end = node.begin, node.middle
    ws.tasks[ws.n_tasks + place].counted = ws.n_nodes + place
    ws.tasks[ws.n_tasks + place].exchange = 0
