"""Trees on the rows of several ranks, which add up their histograms.

An exchange ends when the slower rank has counted. Nodes that will probably be split are counted ahead: where sums can
travel meanwhile, as they do, and elsewhere before, so that one exchange serves many nodes. Trees are the same: nodes
are split in the order of their gains.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from fastens.engine.grow.frontier cimport may_split, split_nodes
from fastens.engine.heap cimport Candidate, precedes
from fastens.engine.histograms.cells cimport Sums, cells_received, cells_to_send, sums_difference
from fastens.engine.histograms.histogram cimport Table
from fastens.engine.ranks cimport begin_sum_of_rows, finish_sum
from fastens.engine.splits.search cimport count_task, search_counted
from fastens.engine.splits.workspace cimport MOST_TRAVELLING, Node, Travelling, Workspace, take_slot
from fastens.engine.structs cimport int32_t, int64_t

cdef enum:
    # Most cells that are exchanged at a time for nodes that may never be split, and nodes that are looked at for it.
    MOST_SENT = 1 << 17
    MOST_LOOKED_AT = 64


cdef bint run_on_ranks(Workspace* ws, int32_t n_left) noexcept nogil:
    """Find the best splits of the planned tasks, where n_left splits may follow.

    False where memory is short or an exchange failed.
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
    """Wait for the sums of the exchanges up to the last one wanted; False where one failed."""
    cdef Travelling* these
    cdef int32_t i
    while ws.n_ended < last:
        ws.n_ended += 1
        these = &ws.travelling[ws.n_ended % MOST_TRAVELLING]
        if not finish_sum(ws.ranks):
            return False
        for i in range(these.n):
            cells_received(these.cells[i], ws.table.n_counted)
        free(these.cells)
        these.cells = NULL
    return True


cdef bint _begin_exchange(Workspace* ws, int32_t first, int32_t end) noexcept nogil:
    """Count the nodes of some tasks, and begin to add up their histograms, if there are any."""
    cdef Travelling* these = &ws.travelling[(ws.n_begun + 1) % MOST_TRAVELLING]
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
    """Clear the wide cells that belong to no code: what is sent must be small."""
    cdef Py_ssize_t c, first, end
    for c in range(table.n_columns):
        first = table.columns[c].offset + table.columns[c].n_codes
        end = table.columns[c + 1].offset if c + 1 < table.n_columns else table.n_counted
        memset(cells + 3 * first, 0, 3 * (end - first) * sizeof(int64_t))


# Nodes that may be split soon ----------------------------------------------------------------------------------------

cdef int32_t _plan_ahead(Workspace* ws, int32_t n_left) noexcept nogil:
    """Plan tasks, behind the others, that count for the nodes most likely to be split; return how many.

    They are part of the next exchange.
    """
    cdef Candidate last = Candidate(INFINITY, -1)
    cdef Py_ssize_t room = MOST_SENT // (ws.table.n_counted * ws.n_outputs) - ws.n_tasks
    cdef int32_t _i, place, n = 0
    cdef Node* node
    if ws.limits.max_leaves == 0:
        return 0
    for _i in range(min(n_left // 4, MOST_LOOKED_AT)):
        place = _next_best(ws, &last)
        if place < 0 or n >= room:
            break
        last = ws.candidates[place]
        node = &ws.nodes[last.node]
        if node.ahead < 0 and _has_tasks(ws, node):
            node.ahead = take_slot(ws)
            if node.ahead < 0:
                break
            node.exchange = ws.n_begun + 1
            ws.chosen[n] = last.node
            n += 1
    split_nodes(ws, ws.chosen, n)
    for _i in range(n):
        _add_ahead(ws, ws.chosen[_i], _i)
    return n


cdef int32_t _next_best(const Workspace* ws, const Candidate* before) noexcept nogil:
    """The place of the best candidate after another one, or -1."""
    cdef int32_t i, best = -1
    for i in range(ws.n_candidates):
        if precedes(before, &ws.candidates[i]) and (best < 0 or precedes(&ws.candidates[i], &ws.candidates[best])):
            best = i
    return best


cdef inline bint _has_tasks(const Workspace* ws, const Node* node) noexcept nogil:
    """Whether a child may be split in its turn."""
    cdef Sums right = sums_difference(&node.sums, &node.split.left)
    return may_split(ws, node.depth + 1, &node.split.left) or may_split(ws, node.depth + 1, &right)


cdef void _add_ahead(Workspace* ws, int32_t id, int32_t place) noexcept nogil:
    """Plan to count the smaller child of a node, which is no node of the tree yet."""
    cdef const Node* node = &ws.nodes[id]
    cdef Node* counted = &ws.nodes[ws.n_nodes + place]
    counted.parent, counted.slot = id, node.ahead
    counted.begin, counted.end = node.middle, node.end
    if 2 * node.split.left.count <= node.sums.count:
        counted.begin, counted.end = node.begin, node.middle
    ws.tasks[ws.n_tasks + place].counted = ws.n_nodes + place
    ws.tasks[ws.n_tasks + place].exchange = 0
