"""Grow trees on binned rows, and say what the leaves predict.

Trees grow by sets of nodes that can be split independently: the single best leaf when the number of leaves is limited
(best-first), else every leaf of a level. A node is *kept* while its histogram is stored; then only its smaller child is
counted and the larger one is the difference. Nodes of few rows are not kept: counting both children costs less than
touching every cell.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, ceil
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from fastens.engine.splits.features cimport draw_tree_features
from fastens.engine.grow.frontier cimport (
    COMPLETE, GROWING, NOT_BEGUN, NOT_FINITE, OUT_OF_MEMORY, Outcome, add_task, collect_candidates, count_tasks,
    next_set, place_rows, run_tasks, search_tasks, threads_for_rows
)
from fastens.engine.splits.gain cimport SplitRules
from fastens.engine.histograms.cells cimport Histogram
from fastens.engine.histograms.histogram cimport CELL_STRIDE
from fastens.engine.grow.leaves cimport add_to_all, dispersion, end_where_it_pays, is_left, node_sums, sums_of_output
from fastens.engine.lock cimport FEW_ROWS
from fastens.engine.histograms.quantise cimport Moments, Quantised, Scales, quantise
from fastens.engine.ranks cimport Exchange, sum_over
from fastens.engine.splits.search cimport counted_histogram
from fastens.engine.structs cimport (
    Column, Feature, float32_t, float64_t, int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
    uint64_t
)
from fastens.engine.team cimport MAX_THREADS
from fastens.engine.splits.workspace cimport (
    Node, Workspace, allocate_workspace, free_workspace, release_all_slots, reserve_nodes, take_slot
)

import numpy as np

cdef enum:
    KEPT_ROWS_PER_CODE = 2          # a node is kept while it has this many rows for every code of the average feature
    # Up to so many rows, which stay in the second cache, what a row adds to histograms is ready made, and apart from
    # the records: where a thread writes, the others have to fetch.
    MOST_WORDS = 1 << 16
    # (row, column) updates of a histogram
    WORK_BETWEEN_SIGNALS = 1 << 27  # some 50 ms
    WORK_WITH_HELPERS = 1 << 14     # in the root: what is worth to wake threads


cdef Py_ssize_t _work_of_tasks(const Workspace* ws) noexcept nogil:
    """(row, column) updates of the planned tasks."""
    cdef Py_ssize_t n_rows = 0
    cdef int32_t i
    for i in range(ws.n_tasks):
        n_rows += ws.nodes[ws.tasks[i].counted].end - ws.nodes[ws.tasks[i].counted].begin
    return n_rows * ws.table.n_columns


cdef inline int64_t _at_least(float64_t limit) noexcept nogil:
    """A limit in whole units; all that sums can be, 2**62, for more."""
    return <int64_t>ceil(min(limit, 4611686018427387904.0))


cdef class Grower:
    """Working memory and rules for growing trees on one BinnedMatrix; not for use by two threads at once.

    Arguments are trusted; fastens.engine.grow.growth is the door.
    """

    def __init__(self, matrix, rules, weights, bint constant_hessian, int n_threads):
        self.matrix, self.rules, self.row_weights = matrix, rules, weights.of_rows
        self.ws.n_rooms, self.ws.n_outputs = min(n_threads, MAX_THREADS), 1
        self.kept = [rules.feature_weights, matrix.bundles]
        self._set_table()
        self._set_rules()
        self._set_feature_rules()
        self._set_ranks(weights.comm)
        self._set_weights(weights, constant_hessian)
        if not allocate_workspace(&self.ws, matrix.n_rows):
            raise MemoryError(f"no memory for growing trees on {matrix.n_rows} rows")

    def __dealloc__(self):
        free_workspace(&self.ws)

    cdef _set_table(self):
        cdef Workspace* ws = &self.ws
        cdef uint8_t[:, ::1] records = self.matrix.records
        cdef uint8_t[:, :] payloads = self.matrix.payloads
        ws.table.records = &records[0, 0]
        ws.table.stride = records.shape[1]
        ws.table.code_size = self.matrix.columns.itemsize
        ws.table.n_features = self.matrix.n_features
        ws.codes = <const void*><size_t>self.matrix.columns.ctypes.data
        ws.code_stride = self.matrix.n_rows
        ws.quantised.payload.first, ws.quantised.payload.stride = &payloads[0, 0], payloads.strides[0]
        if self.matrix.n_payloads == 1 and self.matrix.n_rows <= MOST_WORDS:
            ws.quantised.words = <uint64_t*>malloc(self.matrix.n_rows * sizeof(uint64_t))
            if ws.quantised.words == NULL:
                raise MemoryError(f"no memory for the words of {self.matrix.n_rows} rows")
            ws.table.words = ws.quantised.words
        ws.table.payloads, ws.table.payload_stride = ws.quantised.payload.first, ws.quantised.payload.stride
        self._set_columns()
        self._set_features()

    cdef _set_columns(self):
        cdef Workspace* ws = &self.ws
        cdef int32_t c
        bundles = self.matrix.bundles
        cdef const int32_t[::1] n_codes = bundles.n_codes, features = bundles.features, first = bundles.first_feature
        ws.table.n_columns = n_codes.shape[0]
        ws.columns = <Column*>malloc(ws.table.n_columns * sizeof(Column))
        if ws.columns == NULL:
            raise MemoryError(f"no memory for {ws.table.n_columns} columns")
        ws.table.columns = ws.columns
        for c in range(ws.table.n_columns):
            ws.columns[c].n_codes = n_codes[c]
            ws.columns[c].offset = ws.table.n_counted
            ws.columns[c].features = &features[first[c]]
            ws.columns[c].n_features = first[c + 1] - first[c]
            ws.table.n_codes += n_codes[c]
            ws.table.n_counted += CELL_STRIDE if ws.table.code_size == 1 else n_codes[c]

    cdef _set_features(self):
        cdef Workspace* ws = &self.ws
        cdef int32_t f
        cdef Feature* feature
        bundles = self.matrix.bundles
        cdef const int32_t[::1] n_codes = np.ascontiguousarray(self.matrix.n_codes, dtype=np.int32)
        cdef const uint8_t[::1] is_categorical = np.ascontiguousarray(self.matrix.is_categorical, dtype=np.uint8)
        cdef const int32_t[::1] first = bundles.first_member, usual = bundles.usual_code
        cdef const uint8_t[::1] members = bundles.members
        ws.features = <Feature*>malloc(ws.table.n_features * sizeof(Feature))
        if ws.features == NULL:
            raise MemoryError(f"no memory for {ws.table.n_features} features")
        for f in range(ws.table.n_features):
            feature = &ws.features[f]
            feature.index = f
            feature.n_codes = n_codes[f]
            feature.is_categorical = is_categorical[f]
            feature.monotone = 0
            feature.members, feature.usual_code = &members[first[f]], usual[f]

    cdef _set_rules(self):
        rules = self.rules
        self.limits.max_leaves = rules.max_leaf_nodes or 0
        self.limits.max_depth = rules.max_depth if rules.max_depth is not None else 0x7FFFFFFF
        self.limits.kept_rows = int(KEPT_ROWS_PER_CODE * self.matrix.n_codes.mean())
        self.ws.rules.min_count = rules.min_samples_leaf
        if self.row_weights is None:
            # Without weights the count is the weight; packed cells know no other.
            self.ws.rules.min_count = max(rules.min_samples_leaf, ceil(min(rules.min_weight_leaf, 0x7FFFFFFF)))
        self.ws.rules.min_category_count = rules.min_samples_category
        self.ws.rules.max_categories = rules.max_categories_per_split or 0
        self.ws.rules.one_hot_codes = rules.one_hot_max_size + 1
        self.given.min_hessian = rules.min_child_weight
        self.given.min_count = rules.min_samples_leaf
        self.given.min_weight = rules.min_weight_leaf
        self.given.l2 = rules.l2_regularization
        self.given.path_smooth = rules.path_smooth
        self.given.category_l2 = rules.category_l2
        self.given.category_smoothing = rules.category_smoothing
        self.given.min_gain = rules.min_gain_to_split
        self.given.max_step = INFINITY if rules.max_delta_step is None else rules.max_delta_step

    cdef _set_feature_rules(self):
        """Constraints on the features; `kept` keeps their arrays alive."""
        cdef int32_t f, n_features = self.ws.table.n_features
        rules = self.rules
        cdef const int8_t[::1] monotone
        cdef const float64_t[::1] weights
        cdef const uint8_t[:, ::1] groups
        self.ws.feature_rules.n_per_tree = rules.features_per_tree or n_features
        self.ws.feature_rules.n_per_node = rules.features_per_split or n_features
        self.ws.feature_rules.max_on_path = rules.max_features_on_path or 0
        if rules.monotone is not None:
            monotone = rules.monotone
            for f in range(n_features):
                self.ws.features[f].monotone = monotone[f]
        if rules.feature_weights is not None:
            weights = rules.feature_weights
            self.ws.feature_rules.weights = &weights[0]
        if rules.feature_groups is not None:
            groups = np.ascontiguousarray(rules.feature_groups)
            self.kept.append(groups)
            self.ws.feature_rules.groups = &groups[0, 0]
            self.ws.feature_rules.n_groups = groups.shape[0]

    cdef _set_ranks(self, comm):
        if comm.size > 1:
            self.exchange = Exchange(comm)
            self.ws.ranks = self.source.ranks = &self.exchange.ranks
            self.limits.kept_rows = 0

    cdef _set_weights(self, of_all, bint constant_hessian):
        cdef const float64_t[::1] weights
        self.source.n_rows, self.source.n_total = self.matrix.n_rows, of_all.n_rows
        self.source.whole_weights = of_all.are_copies
        self.source.total_weight = of_all.total
        self.source.max_weight = of_all.largest if of_all.are_copies else 1.0
        self.source.weight_scale = 1.0 if of_all.are_copies else 2.0**30 / of_all.total
        if self.row_weights is not None:
            weights = self.row_weights
            self.source.weights = &weights[0]
        self.source.constant_hessian = constant_hessian and self.source.whole_weights
        self.need_weights = self.source.weights != NULL and self.rules.min_weight_leaf > 0

    cdef SplitRules _scaled(self, const Quantised* quantised) noexcept nogil:
        """The rules in the units of the quantised sums, which change from tree to tree."""
        cdef SplitRules scaled = self.ws.rules
        cdef float64_t gradient = quantised.scales.gradient, hessian = quantised.scales.hessian
        scaled.min_hessian = _at_least(self.given.min_hessian * hessian)
        scaled.min_weight = _at_least(self.given.min_weight * self.source.weight_scale)
        scaled.l2 = self.given.l2 * hessian
        scaled.path_smooth = self.given.path_smooth * hessian
        scaled.category_l2 = self.given.category_l2 * quantised.mean_hessian
        scaled.category_smoothing = self.given.category_smoothing * quantised.mean_hessian
        scaled.min_gain = self.given.min_gain * gradient * gradient / hessian
        return scaled

    cdef _set_rows(self, rows):
        """The rows of the next tree, an array that outlives its growth, or None for all."""
        cdef const uint32_t[::1] given
        self.given_rows, self.n_rows = NULL, self.matrix.n_rows
        if rows is not None:
            given = rows
            self.given_rows, self.n_rows = &given[0], given.shape[0]
        self.ws.n_threads = self.ws.n_rooms if self.n_rows * self.ws.table.n_columns >= WORK_WITH_HELPERS else 1

    cdef bint _quantise(self) noexcept nogil:
        """Gradients and rules in whole numbers; False where a gradient is not finite."""
        cdef Workspace* ws = &self.ws
        if not quantise(&self.source, self.need_weights, &ws.quantised, ws.n_threads):
            return False
        ws.rules = self._scaled(&ws.quantised)
        return True

    cdef bint _plant(self) noexcept nogil:
        """Put the rows of the tree in place and make the root; False when memory is short."""
        cdef Workspace* ws = &self.ws
        place_rows(ws, self.given_rows, self.n_rows)
        ws.n_nodes = ws.n_candidates = ws.n_tasks = 0
        release_all_slots(ws)
        if not reserve_nodes(ws, 1):
            return False
        memset(&ws.nodes[0], 0, sizeof(Node))
        ws.n_nodes = 1
        ws.nodes[0].end = self.n_rows
        ws.nodes[0].parent = ws.nodes[0].split.feature = -1
        self._limit_root()
        ws.nodes[0].slot = take_slot(ws) if ws.ranks != NULL or self.n_rows >= self.limits.kept_rows else -1
        draw_tree_features(ws)
        add_task(ws, 0, -1, True, False)
        return True

    cdef void _limit_root(self) noexcept nogil:
        cdef Node* root = &self.ws.nodes[0]
        cdef float64_t step = self.given.max_step
        if step != INFINITY:
            step = step * self.ws.quantised.scales.gradient / self.ws.quantised.scales.hessian
        root.limits.lower, root.limits.upper = -step, step
        root.limits.is_free = step == INFINITY and self.given.path_smooth == 0

    def grow(self, const float32_t[::1] gradients, const float32_t[::1] hessians, rows, uint64_t seed):
        """Grow one tree.

        Parameters
        ----------
        gradients, hessians : float32 arrays of shape (n_rows,)
            Unweighted.
        rows : uint32 array or None
            The rows to use, ascending; None for all.
        seed : int
            Of the features' subsets.

        Returns
        -------
        dict of the arrays of a Tree
        """
        self.source.gradients, self.source.hessians = &gradients[0], &hessians[0]
        self.ws.seed = seed
        self._set_rows(rows)
        return self._grow_tree()

    cdef _grow_tree(self):
        cdef Outcome outcome = NOT_BEGUN
        cdef int32_t n_leaves = 1
        while outcome == NOT_BEGUN or outcome == GROWING:
            with nogil:
                outcome = self._advance(outcome, &n_leaves)
            PyErr_CheckSignals()
        if self.exchange is not None and self.exchange.error is not None:
            raise self.exchange.error
        if outcome == NOT_FINITE:
            raise ValueError("learning_rate must be lower: with it the gradients of the loss are not finite.")
        if outcome == OUT_OF_MEMORY:
            raise MemoryError(f"no memory for the nodes of a tree of {n_leaves} leaves")
        return self._tree()

    cdef Outcome _advance(self, Outcome outcome, int32_t* n_leaves) noexcept nogil:
        """Begin, or go on for some time: run the planned tasks and plan the next ones, over and over."""
        cdef Workspace* ws = &self.ws
        cdef Py_ssize_t work = 0
        cdef int64_t* sums
        if outcome == NOT_BEGUN:
            outcome = self._begin()
        while outcome == GROWING and work < WORK_BETWEEN_SIGNALS:
            work += _work_of_tasks(ws)
            if not self._run_tasks():
                return OUT_OF_MEMORY
            collect_candidates(ws, &self.limits)
            outcome = next_set(ws, &self.limits, n_leaves)
        if outcome == COMPLETE:
            self._sum_up()
            sums = <int64_t*>ws.sums
            sum_over(ws.ranks, &sums, 1, ws.n_outputs * ws.n_nodes * <Py_ssize_t>(sizeof(Moments) // sizeof(int64_t)))
        return outcome

    cdef Outcome _begin(self) noexcept nogil:
        if not self._quantise():
            return NOT_FINITE
        return GROWING if self._plant() else OUT_OF_MEMORY

    cdef bint _run_tasks(self) noexcept nogil:
        """Find the best splits of the planned tasks; False where memory is short or an exchange failed."""
        if self.ws.ranks != NULL:
            return self._exchange_tasks()
        run_tasks(&self.ws)
        return True

    cdef bint _exchange_tasks(self) noexcept nogil:
        """The same on several ranks, whose histograms one exchange adds up."""
        cdef Workspace* ws = &self.ws
        cdef int64_t** cells = <int64_t**>malloc(max(ws.n_tasks, 1) * sizeof(int64_t*))
        cdef bint is_ready = cells != NULL
        cdef int32_t i
        for i in range(ws.n_tasks):
            is_ready = is_ready and ws.nodes[ws.tasks[i].counted].slot >= 0
        if is_ready and ws.n_tasks > 0:
            count_tasks(ws)
            for i in range(ws.n_tasks):
                cells[i] = counted_histogram(ws, &ws.tasks[i], 0).cells
            is_ready = sum_over(ws.ranks, cells, ws.n_tasks, 3 * ws.table.n_counted)
            if is_ready:
                search_tasks(ws)
        free(cells)
        return is_ready

    cdef void _sum_up(self) noexcept nogil:
        """The exact sums of every node."""
        cdef Workspace* ws = &self.ws
        node_sums(ws, &self.source, &ws.quantised.scales, threads_for_rows(ws, ws.nodes[0].end), 0)

    cdef _tree(self):
        """The arrays of the tree just grown, as far as its splits pay."""
        cdef Workspace* ws = &self.ws
        cdef int32_t i, k, n
        cdef const Node* node
        cdef float64_t gain_unit = self._gain_unit()
        self.dispersion = self._dispersion()
        n = end_where_it_pays(ws, gain_unit, self.rules.split_penalty * self.dispersion)
        # One array of each type costs a small tree less than one for each field.
        links, numbers = np.empty((3, n), np.int32), np.empty((2, n))
        bins, sides, counts = np.empty(n, np.uint16), np.empty(n, np.uint8), np.empty(n, np.int64)
        cdef int32_t[:, ::1] link = links
        cdef float64_t[:, ::1] number = numbers
        cdef uint16_t[::1] bin_threshold = bins
        cdef uint8_t[::1] missing_left = sides
        cdef int64_t[::1] n_samples = counts
        for i in range(ws.n_nodes):
            node = &ws.nodes[i]
            if not is_left(ws, node):
                continue
            k = node.place
            link[0, k], link[1, k], link[2, k] = -1, 0, -1
            number[0, k], bin_threshold[k], missing_left[k] = 0.0, 0, False
            n_samples[k] = node.sums.count
            number[1, k] = node.sums.hessian / self.ws.quantised.scales.hessian
            if node.goes_on:
                link[0, k] = node.split.feature
                link[1, k] = ws.nodes[node.left_child].place
                number[0, k] = node.split.gain * gain_unit
                if not ws.features[node.split.feature].is_categorical:
                    bin_threshold[k] = node.split.bin
                    missing_left[k] = node.split.missing_left
        return {
            "feature": links[0],
            "bin_threshold": bins,
            "missing_left": sides,
            "category_set": links[2],
            "category_words": self._category_words(link[2]),
            "left_child": links[1],
            "value": self._values(numbers[1]),
            "gain": numbers[0],
            "n_samples": counts,
            "weight": numbers[1],
        }

    cdef float64_t _gain_unit(self):
        """What the gains of splits are multiplied with to be those of the loss."""
        return self.ws.quantised.scales.hessian / self.ws.quantised.scales.gradient ** 2

    cdef float64_t _dispersion(self):
        return dispersion(&self.ws, sums_of_output(&self.ws, 0), &self.ws.quantised.scales)

    cdef _values(self, weight):
        """Newton step of every node, (n_nodes, 1); `weight` are the nodes' hessians."""
        values = np.empty((len(weight), 1))
        self._newton_steps(&self.ws.quantised.scales, 0, values, None)
        return values

    cdef _newton_steps(
        self, const Scales* scales, int32_t output, float64_t[:, ::1] steps, float64_t[:, ::1] hessians
    ):
        """-G / (H + lambda) of every node from exact sums (Chen & Guestrin 2016, eq. 5), and H if asked for."""
        cdef Workspace* ws = &self.ws
        cdef const Moments* sums = sums_of_output(ws, output)
        cdef const Node* node
        cdef int32_t i
        cdef float64_t hessian, l2 = self.given.l2
        for i in range(ws.n_nodes):
            node = &ws.nodes[i]
            if not is_left(ws, node):
                continue
            hessian = <float64_t>sums[i].hessian / scales.exact_hessian
            steps[node.place, output] = 0.0
            if hessian + l2 > 0:
                steps[node.place, output] = -<float64_t>sums[i].gradient / scales.exact_gradient / (hessian + l2)
            if hessians is not None:
                hessians[node.place, output] = hessian

    cdef _category_words(self, int32_t[::1] category_set):
        """The sets of the nodes that split on categories, without gaps."""
        cdef Workspace* ws = &self.ws
        cdef int32_t i, k, n_words = 0, n = 0
        cdef const Node* node
        for i in range(ws.n_nodes):
            node = &ws.nodes[i]
            if node.goes_on and node.split.category_set >= 0:
                category_set[node.place] = n_words
                n_words += (ws.features[node.split.feature].n_codes + 31) // 32
        words = np.empty(n_words, np.uint32)
        cdef uint32_t[::1] packed = words
        for i in range(ws.n_nodes):
            node = &ws.nodes[i]
            if node.goes_on and node.split.category_set >= 0:
                for k in range((ws.features[node.split.feature].n_codes + 31) // 32):
                    packed[n] = ws.category_words[node.split.category_set + k]
                    n += 1
        return words

    def leaves(self):
        """Leaves of the tree just grown: their nodes, their rows one leaf after the other, where each leaf starts."""
        cdef Workspace* ws = &self.ws
        leaves = sorted(
            (ws.nodes[i].begin, ws.nodes[i].end, ws.nodes[i].place)
            for i in range(ws.n_nodes) if is_left(ws, &ws.nodes[i]) and not ws.nodes[i].goes_on
        )
        nodes = np.array([place for _, _, place in leaves])
        starts = np.array([begin for begin, _, _ in leaves] + [ws.nodes[0].end], dtype=np.int64)
        # On one of several ranks there may be none, and no array of nothing.
        rows = np.array(<uint32_t[:max(ws.nodes[0].end, 1)]>ws.rows)[:ws.nodes[0].end]
        return nodes, rows, starts

    def add_values(self, const float64_t[::1] value, float64_t[::1] raw):
        """raw[row] += value[leaf of row], for the rows that the tree just grown was given."""
        cdef int32_t n_threads = threads_for_rows(&self.ws, self.ws.nodes[0].end)
        if self.ws.nodes[0].end <= FEW_ROWS:
            add_to_all(&self.ws, &value[0], raw.shape[0], 1, &raw[0])
        else:
            with nogil:
                add_to_all(&self.ws, &value[0], raw.shape[0], n_threads, &raw[0])
