"""Grow trees on binned rows: which nodes to split next, when to stop, and what the leaves predict.

Trees grow by sets of nodes that can be split independently: the single best leaf when the number of leaves is limited
(best-first), else every leaf of a level. A node is *kept* while its histogram is stored; then only its smaller child is
counted and the larger one is the difference. Nodes of few rows are not kept: counting both children costs less than
touching every cell.
"""

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from cython.parallel cimport prange, threadid
from libc.math cimport ceil
from libc.stdlib cimport malloc
from libc.string cimport memset

from .histogram cimport CELL_STRIDE
from .partition cimport Decision, collect_rows, split_rows
from .quantise cimport RowGradients, exact_sums, quantise
from .search cimport count_task, counted_histogram, merge_partials, search_task, threads_of_task
from .structs cimport (
    Feature, Histogram, Split, Sums, float32_t, float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
)
from .split cimport SplitRules
from .workspace cimport (
    Node, Task, Workspace, allocate_workspace, free_workspace, release_all_slots, release_slot, reserve_nodes, take_slot
)

import numpy as np

cdef enum:
    KEPT_ROWS_PER_CODE = 4          # a node is kept while it has this many rows for every code of the widest feature
    ROW_GRAIN = 1 << 14             # rows that are worth another thread when they are only moved or summed
    WORK_BETWEEN_SIGNALS = 1 << 27  # (row, feature) updates: some 50 ms
    MAX_THREADS = 64

cdef enum Outcome:
    GROWN = 0
    OUT_OF_MEMORY = 1
    NOT_FINITE = 2


cdef struct Limits:
    int32_t max_leaves              # 0: no limit, grow level by level
    int32_t max_depth
    Py_ssize_t kept_rows            # a node of fewer rows is not kept


# ---- one node ----

cdef void _split_node(Workspace* ws, int32_t id, int32_t n_threads) noexcept nogil:
    """Partition a node's rows between its children."""
    cdef Node* node = &ws.nodes[id]
    cdef Decision decision
    cdef Py_ssize_t lefts[MAX_THREADS]
    cdef Py_ssize_t starts[MAX_THREADS]
    cdef Py_ssize_t n_left = 0
    cdef int32_t t
    decision.code_size = ws.table.code_size
    decision.column = <const uint8_t*>ws.columns + node.split.feature * ws.column_stride * decision.code_size
    decision.bin = node.split.bin
    decision.missing_left = node.split.missing_left
    decision.category_words = NULL
    if node.split.category_set >= 0:
        decision.category_words = ws.category_words + node.split.category_set
    if n_threads == 1:
        n_left = _split_part(ws, node, &decision, 0, 1)
        _collect_part(ws, node, 0, n_left, n_left, 0, 1)
    else:
        for t in prange(n_threads, num_threads=n_threads, schedule="static", chunksize=1):
            lefts[t] = _split_part(ws, node, &decision, t, n_threads)
        for t in range(n_threads):
            starts[t] = n_left
            n_left += lefts[t]
        for t in prange(n_threads, num_threads=n_threads, schedule="static", chunksize=1):
            _collect_part(ws, node, starts[t], lefts[t], n_left, t, n_threads)
    ws.nodes[node.left_child].begin = node.begin
    ws.nodes[node.left_child].end = node.begin + n_left
    ws.nodes[node.left_child + 1].begin = node.begin + n_left
    ws.nodes[node.left_child + 1].end = node.end


cdef Py_ssize_t _split_part(
    Workspace* ws, const Node* node, const Decision* decision, int32_t t, int32_t n_threads
) noexcept nogil:
    cdef Py_ssize_t n = node.end - node.begin
    cdef Py_ssize_t begin = node.begin + n * t // n_threads, end = node.begin + n * (t + 1) // n_threads
    return split_rows(decision, ws.rows + begin, end - begin, ws.scratch_rows + begin)


cdef void _collect_part(
    Workspace* ws, const Node* node, Py_ssize_t start, Py_ssize_t n_left_part, Py_ssize_t n_left, int32_t t, int32_t n_threads
) noexcept nogil:
    cdef Py_ssize_t n = node.end - node.begin
    cdef Py_ssize_t begin = n * t // n_threads, end = n * (t + 1) // n_threads
    collect_rows(
        ws.scratch_rows + node.begin + begin, end - begin, n_left_part,
        ws.rows + node.begin + start, ws.rows + node.begin + n_left + (begin - start),
    )


cdef inline int32_t _threads_for_rows(const Workspace* ws, Py_ssize_t n_rows) noexcept nogil:
    return <int32_t>max(1, min(<Py_ssize_t>ws.n_threads, n_rows // ROW_GRAIN))


cdef void _add_children(Workspace* ws, int32_t id) noexcept nogil:
    cdef Node* node = &ws.nodes[id]
    cdef Node* child
    cdef int32_t which
    node.left_child = ws.n_nodes
    ws.n_nodes += 2
    for which in range(2):
        child = &ws.nodes[node.left_child + which]
        child.depth = node.depth + 1
        child.left_child = 0
        child.slot = -1
        child.split.feature = -1
        child.sums = node.split.left
        if which == 1:
            child.sums.gradient = node.sums.gradient - node.split.left.gradient
            child.sums.hessian = node.sums.hessian - node.split.left.hessian
            child.sums.count = node.sums.count - node.split.left.count
            child.sums.weight = node.sums.weight - node.split.left.weight


# ---- sets of nodes ----

cdef inline bint _precedes(const Workspace* ws, int32_t a, int32_t b) noexcept nogil:
    """Whether candidate a is split before candidate b: more gain, or the older node."""
    return ws.nodes[a].split.gain > ws.nodes[b].split.gain or (ws.nodes[a].split.gain == ws.nodes[b].split.gain and a < b)


cdef void _push(Workspace* ws, int32_t id) noexcept nogil:
    """Add to the heap of candidates."""
    cdef int32_t place = ws.n_candidates
    ws.n_candidates += 1
    while place > 0 and _precedes(ws, id, ws.candidates[(place - 1) // 2]):
        ws.candidates[place] = ws.candidates[(place - 1) // 2]
        place = (place - 1) // 2
    ws.candidates[place] = id


cdef int32_t _pop(Workspace* ws) noexcept nogil:
    cdef int32_t best = ws.candidates[0], place = 0, child, last
    ws.n_candidates -= 1
    last = ws.candidates[ws.n_candidates]
    while 2 * place + 1 < ws.n_candidates:
        child = 2 * place + 1
        if child + 1 < ws.n_candidates and _precedes(ws, ws.candidates[child + 1], ws.candidates[child]):
            child += 1
        if not _precedes(ws, ws.candidates[child], last):
            break
        ws.candidates[place] = ws.candidates[child]
        place = child
    ws.candidates[place] = last
    return best


cdef void _choose(Workspace* ws, const Limits* limits) noexcept nogil:
    """The nodes to split now: the best one, or all of a level."""
    cdef int32_t n = 1 if limits.max_leaves > 0 else ws.n_candidates
    ws.n_chosen = min(n, ws.n_candidates)
    for n in range(ws.n_chosen):
        ws.chosen[n] = _pop(ws)


cdef void _split_chosen(Workspace* ws) noexcept nogil:
    """Large nodes one after the other on all threads, then the small ones side by side."""
    cdef int32_t i, n_threads
    cdef Py_ssize_t small_rows = 0
    cdef Node* node
    for i in range(ws.n_chosen):
        _add_children(ws, ws.chosen[i])
    for i in range(ws.n_chosen):
        node = &ws.nodes[ws.chosen[i]]
        n_threads = _threads_for_rows(ws, node.end - node.begin)
        if n_threads > 1:
            _split_node(ws, ws.chosen[i], n_threads)
        else:
            small_rows += node.end - node.begin
    n_threads = _threads_for_rows(ws, small_rows)
    if n_threads == 1:
        for i in range(ws.n_chosen):
            _split_if_small(ws, ws.chosen[i])
    else:
        for i in prange(ws.n_chosen, num_threads=n_threads, schedule="dynamic"):
            _split_if_small(ws, ws.chosen[i])


cdef void _split_if_small(Workspace* ws, int32_t id) noexcept nogil:
    if _threads_for_rows(ws, ws.nodes[id].end - ws.nodes[id].begin) == 1:
        _split_node(ws, id, 1)


cdef inline bint _may_split(const Workspace* ws, const Limits* limits, int32_t id) noexcept nogil:
    cdef const Node* node = &ws.nodes[id]
    return (
        node.depth < limits.max_depth
        and node.sums.count >= 2 * ws.rules.min_count
        and node.sums.hessian >= 2 * ws.rules.min_hessian
        and node.sums.weight >= 2 * ws.rules.min_weight
    )


cdef void _add_task(Workspace* ws, int32_t counted, int32_t difference, bint want_counted, bint want_difference) noexcept nogil:
    cdef Task* task = &ws.tasks[ws.n_tasks]
    task.counted = counted
    task.difference = difference
    task.want_counted = want_counted
    task.want_difference = want_difference
    task.is_root = counted == 0
    ws.n_tasks += 1


cdef void _plan(Workspace* ws, const Limits* limits) noexcept nogil:
    """The tasks for the children of the nodes just split; the slot of a kept parent goes to its larger child."""
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
        want_smaller = _may_split(ws, limits, smaller)
        want_larger = _may_split(ws, limits, larger)
        if not (want_smaller or want_larger):
            release_slot(ws, parent)
            continue
        if parent.slot >= 0:
            ws.nodes[larger].slot = parent.slot
            parent.slot = -1
            if want_smaller and ws.nodes[smaller].sums.count >= limits.kept_rows:
                ws.nodes[smaller].slot = take_slot(ws)
            _add_task(ws, smaller, larger, want_smaller, want_larger)
            continue
        if want_smaller:
            _add_task(ws, smaller, -1, True, False)
        if want_larger:
            _add_task(ws, larger, -1, True, False)


cdef void _run_tasks(Workspace* ws) noexcept nogil:
    """Large tasks one after the other on all threads, then the small ones side by side."""
    cdef int32_t i, n_threads
    cdef Py_ssize_t n_small = 0
    for i in range(ws.n_tasks):
        n_threads = threads_of_task(ws, &ws.tasks[i])
        if n_threads > 1:
            count_task(ws, &ws.tasks[i], 0, n_threads)
            if ws.tasks[i].is_root:
                merge_partials(ws, &ws.tasks[i], n_threads)
            search_task(ws, &ws.tasks[i], 0, n_threads, 1 if ws.tasks[i].is_root else n_threads)
        else:
            n_small += 1
    if n_small <= 2 or ws.n_threads == 1:
        for i in range(ws.n_tasks):
            _run_if_small(ws, &ws.tasks[i], 0)
    else:
        for i in prange(ws.n_tasks, num_threads=ws.n_threads, schedule="dynamic"):
            _run_if_small(ws, &ws.tasks[i], threadid())


cdef void _run_if_small(Workspace* ws, const Task* task, int32_t thread) noexcept nogil:
    if threads_of_task(ws, task) == 1:
        count_task(ws, task, thread, 1)
        search_task(ws, task, thread, 1, 1)


cdef void _count_tasks(Workspace* ws) noexcept nogil:
    """Only the histograms, each complete in its own slot."""
    cdef int32_t i, n_threads
    for i in range(ws.n_tasks):
        n_threads = threads_of_task(ws, &ws.tasks[i])
        count_task(ws, &ws.tasks[i], 0, n_threads)
        merge_partials(ws, &ws.tasks[i], n_threads)


cdef void _search_tasks(Workspace* ws) noexcept nogil:
    cdef int32_t i
    for i in range(ws.n_tasks):
        search_task(ws, &ws.tasks[i], 0, threads_of_task(ws, &ws.tasks[i]), 1)


cdef void _collect_candidates(Workspace* ws, const Limits* limits) noexcept nogil:
    """Queue the nodes that have a split; the others, and those that are too small to be kept, give up their slots."""
    cdef int32_t i, which, id
    cdef Node* node
    for i in range(ws.n_tasks):
        for which in range(2):
            id = ws.tasks[i].counted if which == 0 else ws.tasks[i].difference
            if id < 0:
                continue
            node = &ws.nodes[id]
            if node.split.feature >= 0:
                _push(ws, id)
            if node.split.feature < 0 or node.sums.count < limits.kept_rows:
                release_slot(ws, node)


cdef bint _next_set(Workspace* ws, const Limits* limits, int32_t* n_leaves, Outcome* outcome) noexcept nogil:
    """Split the next set of nodes and plan the tasks of their children. False when the tree is complete."""
    if ws.n_candidates == 0 or (limits.max_leaves > 0 and n_leaves[0] >= limits.max_leaves):
        return False
    if not reserve_nodes(ws, 2 * ws.n_candidates):
        outcome[0] = OUT_OF_MEMORY
        return False
    _choose(ws, limits)
    _split_chosen(ws)
    n_leaves[0] += ws.n_chosen
    ws.n_tasks = 0
    if limits.max_leaves == 0 or n_leaves[0] < limits.max_leaves:
        _plan(ws, limits)
    return True


# ---- leaves ----

cdef void _leaf_sums(Workspace* ws, const RowGradients* source, int64_t* gradients, int64_t* hessians) noexcept nogil:
    """Exact sums of every node, from the rows of the leaves upwards."""
    cdef int32_t i, n_threads = _threads_for_rows(ws, ws.nodes[0].end)
    cdef const Node* node
    if n_threads == 1:
        for i in range(ws.n_nodes):
            _sums_if_leaf(ws, source, i, gradients, hessians)
    else:
        for i in prange(ws.n_nodes, num_threads=n_threads, schedule="dynamic"):
            _sums_if_leaf(ws, source, i, gradients, hessians)
    for i in range(ws.n_nodes - 1, -1, -1):
        node = &ws.nodes[i]
        if node.left_child > 0:
            gradients[i] = gradients[node.left_child] + gradients[node.left_child + 1]
            hessians[i] = hessians[node.left_child] + hessians[node.left_child + 1]


cdef void _sums_if_leaf(
    const Workspace* ws, const RowGradients* source, int32_t id, int64_t* gradients, int64_t* hessians
) noexcept nogil:
    cdef const Node* node = &ws.nodes[id]
    if node.left_child == 0:
        exact_sums(
            source, &ws.quantised.scales, ws.rows + node.begin, node.end - node.begin, &gradients[id], &hessians[id]
        )


cdef void _add_if_leaf(const Workspace* ws, int32_t id, float64_t value, float64_t* raw) noexcept nogil:
    cdef const Node* node = &ws.nodes[id]
    cdef Py_ssize_t i
    if node.left_child == 0:
        for i in range(node.begin, node.end):
            raw[ws.rows[i]] += value


@final
cdef class Grower:
    """Working memory and rules for growing trees on one BinnedMatrix; not for use by two threads at once.

    Arguments are trusted; fastens.engine.growth is the door.
    """

    cdef Workspace ws
    cdef RowGradients source
    cdef Limits limits
    cdef object matrix, rules, row_weights

    def __init__(self, matrix, rules, weights, bint constant_hessian, int n_threads):
        self.matrix, self.rules, self.row_weights = matrix, rules, weights
        self.ws.n_threads = min(n_threads, MAX_THREADS)
        self._set_table()
        self._set_rules()
        self._set_weights(constant_hessian)
        if not allocate_workspace(&self.ws, matrix.n_rows):
            raise MemoryError(f"no memory for growing trees on {matrix.n_rows} rows")

    def __dealloc__(self):
        free_workspace(&self.ws)

    cdef _set_table(self):
        cdef Workspace* ws = &self.ws
        cdef int32_t f
        cdef uint8_t[:, ::1] records = self.matrix.records
        cdef const int32_t[::1] n_codes = np.ascontiguousarray(self.matrix.n_codes, dtype=np.int32)
        cdef const uint8_t[::1] is_categorical = np.ascontiguousarray(self.matrix.is_categorical, dtype=np.uint8)
        ws.table.records = &records[0, 0]
        ws.table.stride = records.shape[1]
        ws.table.payload = self.matrix.payload_offset
        ws.table.code_size = self.matrix.columns.itemsize
        ws.table.n_features = self.matrix.n_features
        ws.columns = <const void*><size_t>self.matrix.columns.ctypes.data
        ws.column_stride = self.matrix.n_rows
        ws.quantised.payload.first = &records[0, 0] + ws.table.payload
        ws.quantised.payload.stride = ws.table.stride
        ws.features = <Feature*>malloc(ws.table.n_features * sizeof(Feature))
        if ws.features == NULL:
            raise MemoryError(f"no memory for {ws.table.n_features} features")
        ws.table.features = ws.features
        for f in range(ws.table.n_features):
            ws.features[f].index = f
            ws.features[f].n_codes = n_codes[f]
            ws.features[f].offset = ws.table.n_cells
            ws.features[f].is_categorical = is_categorical[f]
            ws.table.n_cells += CELL_STRIDE if ws.table.code_size == 1 else n_codes[f]

    cdef _set_rules(self):
        rules = self.rules
        self.limits.max_leaves = rules.max_leaf_nodes or 0
        self.limits.max_depth = rules.max_depth if rules.max_depth is not None else 0x7FFFFFFF
        self.limits.kept_rows = KEPT_ROWS_PER_CODE * int(self.matrix.n_codes.max())
        self.ws.rules.min_count = rules.min_samples_leaf
        self.ws.n_sampled = rules.features_per_split or self.ws.table.n_features

    cdef _set_weights(self, bint constant_hessian):
        cdef const float64_t[::1] weights
        self.source.n_rows = self.matrix.n_rows
        self.source.whole_weights = True
        self.source.max_weight = 1.0
        self.source.weight_scale = 1.0
        self.source.total_weight = self.matrix.n_rows
        if self.row_weights is not None:
            weights = self.row_weights
            self.source.weights = &weights[0]
            self.source.max_weight = self.row_weights.max()
            self.source.total_weight = self.row_weights.sum()
            self.source.whole_weights = self.source.total_weight < 2.0**31 and bool(
                (self.row_weights == np.floor(self.row_weights)).all()
            )
            if not self.source.whole_weights:
                self.source.max_weight = 1.0
                self.source.weight_scale = 2.0**30 / self.source.total_weight
        self.source.constant_hessian = constant_hessian and self.source.whole_weights

    cdef _scale_rules(self):
        """The rules in the units of the quantised sums, which change from tree to tree."""
        cdef SplitRules* scaled = &self.ws.rules
        cdef float64_t gradient = self.ws.quantised.scales.gradient, hessian = self.ws.quantised.scales.hessian
        rules = self.rules
        scaled.min_hessian = <int64_t>ceil(rules.min_child_weight * hessian)
        scaled.min_weight = <int64_t>ceil(rules.min_weight_leaf * self.source.weight_scale)
        scaled.l2 = rules.l2_regularization * hessian
        scaled.category_l2 = rules.category_l2 * hessian
        scaled.category_smoothing = rules.category_smoothing * hessian
        scaled.min_gain = rules.min_gain_to_split * gradient * gradient / hessian

    cdef _start(self, rows):
        """Put the rows of the tree in place and make the root."""
        cdef Workspace* ws = &self.ws
        cdef const uint32_t[::1] given
        cdef Py_ssize_t i, n = self.matrix.n_rows if rows is None else len(rows)
        if rows is None:
            with nogil:
                for i in range(n):
                    ws.rows[i] = <uint32_t>i
        else:
            given = rows
            for i in range(n):
                ws.rows[i] = given[i]
        ws.n_nodes = ws.n_candidates = ws.n_tasks = 0
        release_all_slots(ws)
        if not reserve_nodes(ws, 1):
            raise MemoryError("no memory for the nodes of a tree")
        memset(&ws.nodes[0], 0, sizeof(Node))
        ws.n_nodes = 1
        ws.nodes[0].end = n
        ws.nodes[0].split.feature = -1
        ws.nodes[0].slot = take_slot(ws) if ws.wide_only or n >= self.limits.kept_rows else -1
        _add_task(ws, 0, -1, True, False)

    def grow(self, const float32_t[::1] gradients, const float32_t[::1] hessians, rows, uint64_t seed, reduce):
        """Grow one tree.

        Parameters
        ----------
        gradients, hessians : float32 arrays of shape (n_rows,)
            Unweighted.
        rows : uint32 array or None
            The rows to use, ascending; None for all.
        seed : int
            Of the features' subsets.
        reduce : callable or None
            Called with a list of histograms (int64 arrays), which it sums over workers in place.

        Returns
        -------
        dict of the arrays of a Tree
        """
        cdef Outcome outcome = GROWN
        cdef int32_t n_leaves = 1
        cdef bint more = True, need_weights = self.source.weights != NULL and self.rules.min_weight_leaf > 0
        self.source.gradients, self.source.hessians = &gradients[0], &hessians[0]
        self.ws.seed = seed
        self.ws.wide_only = reduce is not None
        if reduce is not None:
            self.limits.kept_rows = 0
        with nogil:
            if not quantise(&self.source, need_weights, &self.ws.quantised, self.ws.n_threads):
                outcome = NOT_FINITE
        if outcome == NOT_FINITE:
            raise FloatingPointError("gradients are not finite")
        self._scale_rules()
        self._start(rows)
        while more:
            more = self._advance(reduce, &n_leaves, &outcome)
            if outcome == OUT_OF_MEMORY:
                raise MemoryError(f"no memory for the nodes of a tree of {n_leaves} leaves")
            PyErr_CheckSignals()
        return self._tree()

    cdef bint _advance(self, reduce, int32_t* n_leaves, Outcome* outcome) except -1:
        """Run the planned tasks and plan the next ones, many times over where no exchange is needed."""
        cdef Workspace* ws = &self.ws
        cdef bint more = True
        cdef Py_ssize_t work = 0
        cdef int32_t i
        if reduce is None:
            with nogil:
                while more and work < WORK_BETWEEN_SIGNALS:
                    for i in range(ws.n_tasks):
                        work += (ws.nodes[ws.tasks[i].counted].end - ws.nodes[ws.tasks[i].counted].begin) * ws.table.n_features
                    _run_tasks(ws)
                    _collect_candidates(ws, &self.limits)
                    more = _next_set(ws, &self.limits, n_leaves, outcome)
            return more
        with nogil:
            _count_tasks(ws)
        reduce([self._cells(i) for i in range(ws.n_tasks)])
        with nogil:
            _search_tasks(ws)
            _collect_candidates(ws, &self.limits)
            more = _next_set(ws, &self.limits, n_leaves, outcome)
        return more

    cdef _cells(self, int32_t task):
        cdef Histogram histogram = counted_histogram(&self.ws, &self.ws.tasks[task], 0)
        return np.asarray(<int64_t[:3 * self.ws.table.n_cells]>histogram.cells)

    def _tree(self):
        """The arrays of the tree just grown."""
        cdef Workspace* ws = &self.ws
        cdef int32_t i, n = ws.n_nodes
        cdef const Node* node
        cdef float64_t gain_unit = self.ws.quantised.scales.hessian / self.ws.quantised.scales.gradient ** 2
        arrays = {
            "feature": np.empty(n, np.int32),
            "bin_threshold": np.zeros(n, np.uint16),
            "missing_left": np.zeros(n, np.uint8),
            "category_set": np.full(n, -1, np.int32),
            "left_child": np.empty(n, np.int32),
            "value": np.empty(n, np.float64),
            "gain": np.zeros(n, np.float64),
            "n_samples": np.empty(n, np.int64),
            "weight": np.empty(n, np.float64),
        }
        cdef int32_t[::1] feature = arrays["feature"], left_child = arrays["left_child"]
        cdef uint16_t[::1] bin_threshold = arrays["bin_threshold"]
        cdef uint8_t[::1] missing_left = arrays["missing_left"]
        cdef float64_t[::1] gain = arrays["gain"], weight = arrays["weight"]
        cdef int64_t[::1] n_samples = arrays["n_samples"]
        for i in range(n):
            node = &ws.nodes[i]
            feature[i] = node.split.feature if node.left_child > 0 else -1
            left_child[i] = node.left_child
            n_samples[i] = node.sums.count
            weight[i] = node.sums.hessian / self.ws.quantised.scales.hessian
            if node.left_child > 0:
                gain[i] = node.split.gain * gain_unit
                if not ws.features[node.split.feature].is_categorical:
                    bin_threshold[i] = node.split.bin
                    missing_left[i] = node.split.missing_left
        self._write_values(arrays["value"])
        arrays["category_words"] = self._category_words(arrays["category_set"])
        return arrays

    cdef _write_values(self, float64_t[::1] value):
        """Newton step of every node from exact sums: -G / (H + lambda) (Chen & Guestrin 2016, eq. 5)."""
        cdef Workspace* ws = &self.ws
        cdef int32_t i
        cdef float64_t hessian
        cdef float64_t l2 = self.rules.l2_regularization
        cdef int64_t[::1] gradients = np.empty(ws.n_nodes, np.int64)
        cdef int64_t[::1] hessians = np.empty(ws.n_nodes, np.int64)
        with nogil:
            _leaf_sums(ws, &self.source, &gradients[0], &hessians[0])
            for i in range(ws.n_nodes):
                hessian = <float64_t>hessians[i] / ws.quantised.scales.exact_hessian + l2
                value[i] = 0.0
                if hessian > 0:
                    value[i] = -<float64_t>gradients[i] / ws.quantised.scales.exact_gradient / hessian

    cdef _category_words(self, int32_t[::1] category_set):
        """The sets of the nodes that split on categories, without gaps."""
        cdef Workspace* ws = &self.ws
        cdef int32_t i, k, n_words = 0, n = 0
        cdef const Node* node
        for i in range(ws.n_nodes):
            node = &ws.nodes[i]
            if node.left_child > 0 and node.split.category_set >= 0:
                category_set[i] = n_words
                n_words += (ws.features[node.split.feature].n_codes + 31) // 32
        words = np.empty(n_words, np.uint32)
        cdef uint32_t[::1] packed = words
        for i in range(ws.n_nodes):
            node = &ws.nodes[i]
            if category_set[i] >= 0:
                for k in range((ws.features[node.split.feature].n_codes + 31) // 32):
                    packed[n] = ws.category_words[node.split.category_set + k]
                    n += 1
        return words

    def leaves(self):
        """The leaves of the tree just grown: their nodes, their rows one leaf after the other, and where each leaf starts."""
        cdef Workspace* ws = &self.ws
        leaves = [(ws.nodes[i].begin, ws.nodes[i].end, i) for i in range(ws.n_nodes) if ws.nodes[i].left_child == 0]
        leaves.sort()
        nodes = np.array([node for _, _, node in leaves])
        starts = np.array([begin for begin, _, _ in leaves] + [ws.nodes[0].end], dtype=np.int64)
        rows = np.array(<uint32_t[:ws.nodes[0].end]>ws.rows)
        return nodes, rows, starts

    def add_values(self, const float64_t[::1] value, float64_t[::1] raw):
        """raw[row] += value[leaf of row], for the rows that the tree just grown was given."""
        cdef Workspace* ws = &self.ws
        cdef int32_t i, n_threads = _threads_for_rows(ws, ws.nodes[0].end)
        with nogil:
            if n_threads == 1:
                for i in range(ws.n_nodes):
                    _add_if_leaf(ws, i, value[i], &raw[0])
            else:
                for i in prange(ws.n_nodes, num_threads=n_threads, schedule="dynamic"):
                    _add_if_leaf(ws, i, value[i], &raw[0])
