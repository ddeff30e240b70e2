"""Growth of trees on binned rows, with one or several outputs.

Trees grow by sets of nodes that can be split independently: the single best leaf if the number of leaves is limited
(best-first), otherwise all leaves of a level. A node is *kept* while its histogram is stored. If a kept node is split,
only its smaller child is counted, and the histogram of the larger one is the difference. Nodes of few rows are not
kept, because counting both children costs less than touching every cell.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, ceil
from libc.stdlib cimport malloc
from libc.string cimport memcpy, memset

from fastens.engine.splits.goes_left cimport set_size
from fastens.engine.grow.frontier cimport (
    COMPLETE, GROWING, NOT_FINITE, OUT_OF_MEMORY, Outcome, add_task, split_next_nodes, place_rows, threads_for_rows
)
from fastens.engine.grow.leaves cimport (
    add_leaf_values, dispersion, is_kept, node_sums, prune_cost_complexity, root_of_noise,
    sums_of_output,
)
from fastens.engine.grow.leaves cimport allow_stored, set_table
from fastens.engine.grow.frontier cimport end_exchanges, run_on_ranks
from fastens.engine.histograms.quantise cimport Moments, Quantised, RowGradients, Scales, quantise
from fastens.engine.limits cimport read_limits
from fastens.engine.ranks cimport Exchange, sum_over
from fastens.engine.splits.split cimport draw_tree_features
from fastens.engine.splits.gain cimport SplitUnits, read_rules, scale_rules
from fastens.engine.splits.search cimport run_tasks
from fastens.engine.splits.workspace cimport (
    ForcedSplit, Node, Output, Workspace, allocate_workspace, free_workspace, release_all_slots, reserve_nodes,
    take_slot
)
from fastens.engine.structs cimport (
    float32_t, float64_t, int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
)
from fastens.engine.thread_pool cimport FEW_ROWS, MAX_THREADS

from dataclasses import replace

import numpy as np

from fastens.engine.grow.near_columns import NearColumns
from fastens.engine.grow.leaves import clip_to_bounds
from fastens.engine.trees.trees import Tree

cdef enum:
    KEPT_ROWS_PER_CODE = 1          # minimum rows per code of an average feature for storing a node's histogram
    # For sparse tables, a node's histogram is stored if the node has at least one stored code per this many cells. A
    # tree on 18 846 rows with 137 stored values each in 50 000 columns takes 0.125 s whether histograms are stored from
    # 66 rows on (using 300 MB) or from 8000 rows on (50 MB).
    CELLS_PER_KEPT = 4
    # Up to this number of rows, which fit in the L2 cache, the words that rows add to histograms are precomputed and
    # stored outside the records. Otherwise, threads would have to fetch cache lines that another thread wrote.
    MAX_WORDS = 1 << 16
    # Unit: (row, column) updates of a histogram.
    WORK_BETWEEN_SIGNALS = 1 << 27  # about 50 ms
    WORK_WITH_HELPERS = 1 << 14     # work in the root that justifies waking threads


cdef Py_ssize_t _work_of_tasks(const Workspace* ws) noexcept nogil:
    """Return the number of (row, column, output) updates of the planned tasks."""
    cdef Py_ssize_t n_rows = 0
    cdef int32_t i
    for i in range(ws.n_tasks):
        n_rows += ws.nodes[ws.tasks[i].counted].end - ws.nodes[ws.tasks[i].counted].begin
    return n_rows * ws.table.codes_per_row * ws.n_outputs


cdef class Grower:
    """Workspace and rules for growing trees on one BinnedMatrix. It must not be used by two threads at once.

    Arguments are not validated; fastens.engine.grow.growth does that.
    """

    cdef Workspace ws
    cdef const uint32_t* given_rows         # NULL for all rows
    cdef Py_ssize_t n_rows
    cdef bint need_weights, renews_leaves
    cdef RowGradients source                # fields that all outputs share, except for the gradients
    cdef uint64_t[::1] all_active           # for sparse rows
    cdef object matrix, weights
    cdef readonly object rules
    cdef public object noise_units          # one for each output
    cdef object near                        # NearColumns, or None
    cdef Exchange exchange                  # None if there is only one worker
    # For the current tree: dispersion of the gradients, summed over the outputs; hessians for several outputs,
    # (n_nodes, n_outputs), otherwise None.
    cdef readonly float64_t dispersion
    cdef readonly object hessians

    def __init__(self, matrix, rules, weights, bint constant_hessian, bint renews_leaves, int n_threads):
        self.matrix, self.rules, self.weights = matrix, rules, weights
        self.renews_leaves = renews_leaves
        self.ws.max_threads = min(n_threads, MAX_THREADS)
        set_table(&self.ws, matrix, rules.monotone)
        self.noise_units = [1.0] * self.ws.n_outputs
        self._set_limits()
        self._set_forced()
        self._set_most_stored()
        self._set_near()
        self.all_active = allow_stored(&self.ws, self.ws.rules.min_count if weights.are_ones else 1)
        self._set_ranks(weights.comm)
        self._set_weights(constant_hessian)
        if not allocate_workspace(&self.ws, matrix.n_rows):
            raise MemoryError(f"no memory for growing trees on {matrix.n_rows} rows")
        self._set_outputs()

    def __dealloc__(self):
        free_workspace(&self.ws)

    cdef _set_outputs(self):
        """Set each output's weights and payload addresses, and allocate the words of rows if the table is small."""
        cdef uint8_t[:, :] payloads = self.matrix.payloads
        cdef Output* out
        cdef int32_t o
        for o in range(self.ws.n_outputs):
            out = &self.ws.outputs[o]
            out.source = self.source
            out.quantised.payloads, out.quantised.payload_stride = &payloads[0, 4 * o], payloads.strides[0]
        if self.ws.n_outputs == 1 and self.matrix.n_rows <= MAX_WORDS:
            out.quantised.words = <uint64_t*>malloc(self.matrix.n_rows * sizeof(uint64_t))
            if out.quantised.words == NULL:
                raise MemoryError(f"no memory for the words of {self.matrix.n_rows} rows")

    cdef _set_limits(self):
        """Set the limits of trees, and the rules of splits that do not depend on the units of quantised sums."""
        rules = self.rules
        self.ws.limits = read_limits(rules, self.ws.table.n_features)
        self.ws.features_per_tree = rules.features_per_tree or self.ws.table.n_features
        self.ws.kept_rows = int(KEPT_ROWS_PER_CODE * self.matrix.n_codes.mean())
        if self.matrix.is_sparse:
            self.ws.kept_rows = self.ws.table.n_counted // (CELLS_PER_KEPT * self.ws.table.codes_per_row)
        self.ws.min_hessian, self.ws.min_gain = rules.min_child_weight, rules.min_gain_to_split
        self.ws.rules = read_rules(rules)
        self.set_fewest_rows(rules.min_samples_leaf)

    cdef _set_most_stored(self):
        """Set ws.most_stored, the maximum number of rows that share a stored code, if cells of zeros may overflow."""
        # Searches with bounds, categories or forced splits read the cell of zeros, which must not overflow.
        is_bound = self.rules.clip_to_bounds or self.matrix.is_categorical.any() or self.ws.forced != NULL
        if self.matrix.is_sparse and self.ws.n_outputs == 1 and not is_bound:
            cells = self.matrix.cells[: self.matrix.columns.n_stored]
            self.ws.most_stored = np.bincount(cells, minlength=1).max()

    def set_fewest_rows(self, int64_t fewest):
        """Set the minimum leaf size of the following trees; without weights, min_weight_leaf may raise it."""
        self.ws.rules.min_count = fewest
        if self.weights.factors is None:
            # For unweighted rows, the count is the weight, so packed cells do not store another weight.
            self.ws.rules.min_count = max(fewest, <int64_t>ceil(min(self.rules.min_weight_leaf, 0x7FFFFFFF)))

    def set_monotone(self, const int8_t[::1] signs):
        """Set the monotone constraints of the following trees: 1, -1 or 0 for each feature."""
        cdef int32_t f
        self.rules = replace(self.rules, monotone=np.asarray(signs))
        self.ws.limits = read_limits(self.rules, self.ws.table.n_features)
        for f in range(self.ws.table.n_features):
            self.ws.features[f].monotone = signs[f]

    cdef _set_forced(self):
        """Set the forced first splits and their category sets from the rules, if there are any."""
        cdef const int32_t[:, ::1] splits
        cdef const uint32_t[::1] words
        if self.rules.forced_splits is not None:
            splits, words = self.rules.forced_splits
            self.ws.forced, self.ws.forced_words = <const ForcedSplit*>&splits[0, 0], &words[0]

    cdef _set_near(self):
        """Keep column-major copies of often split features, if the matrix has records only."""
        cdef const size_t[::1] places
        if not (self.matrix.is_sparse or self.matrix.has_columns):
            self.near = NearColumns(self.matrix)
            places = self.near.places
            self.ws.near = &places[0]

    cdef _set_ranks(self, comm):
        """Set up the exchange of sums with the other ranks of `comm`, if there are several ranks."""
        if comm.size > 1:
            self.exchange = Exchange(comm)
            self.ws.ranks = self.source.ranks = &self.exchange.ranks
            self.ws.kept_rows = 0

    cdef _set_weights(self, bint constant_hessian):
        """Set the row weights as copies and factors; constant_hessian: all hessians are 1 before weighting."""
        cdef const float64_t[::1] copies, factors
        cdef bint has_factors = self.weights.factors is not None
        self.source.n_rows = self.matrix.n_rows
        self.source.n_copies, self.source.most_copies = self.weights.n_copies, self.weights.most_copies
        self.source.total_weight = self.weights.total
        self.source.weight_scale = 2.0**30 / self.weights.total if has_factors else 1.0
        if self.weights.copies is not None:
            copies = self.weights.copies
            self.source.copies = &copies[0]
        if has_factors:
            factors = self.weights.factors
            self.source.factors = &factors[0]
        self.source.constant_hessian = constant_hessian and not has_factors
        self.need_weights = has_factors and self.rules.min_weight_leaf > 0

    cdef _set_rows(self, rows):
        """Set the rows of the next tree: uint32 indices that must outlive its growth, or None for all rows."""
        cdef const uint32_t[::1] given
        self.given_rows, self.n_rows = NULL, self.matrix.n_rows
        if rows is not None:
            given = rows
            self.given_rows, self.n_rows = &given[0], given.shape[0]
        self.ws.outputs[0].quantised.fresh = self.ws.scratch_rows if rows is None and self._delays_payloads() else NULL
        self.ws.n_threads = self.ws.max_threads if self.n_rows * self.ws.table.codes_per_row >= WORK_WITH_HELPERS else 1

    cdef bint _delays_payloads(self) noexcept:
        """Return True if copying payloads to the records may be left to the root's histogram pass over all rows."""
        cdef const Quantised* quantised = &self.ws.outputs[0].quantised
        return self.ws.n_outputs == 1 and quantised.words == NULL and quantised.payload_stride == self.ws.table.stride

    cdef bint _quantise(self) noexcept nogil:
        """Quantise all gradients; return False if one is not finite, memory runs out or a reduction failed."""
        cdef Output* out
        cdef int32_t o
        for o in range(self.ws.n_outputs):
            out = &self.ws.outputs[o]
            if not quantise(&out.source, self.need_weights, &out.quantised, self.ws.n_threads):
                return False
            out.gain_unit = out.quantised.scales.hessian / out.quantised.scales.gradient ** 2
            out.hessian_unit = 1.0 / (out.quantised.scales.hessian * self.ws.n_outputs)
        return True

    cdef _scale_rules(self):
        """Convert the split rules of each output to the units of its quantised sums, which change from tree to tree."""
        cdef Output* out
        cdef SplitUnits units
        cdef int32_t o
        units.weight = self.source.weight_scale
        for o in range(self.ws.n_outputs):
            out = &self.ws.outputs[o]
            units.gradient, units.hessian = out.quantised.scales.gradient, out.quantised.scales.hessian
            units.mean_hessian = out.quantised.mean_hessian
            out.rules = self.ws.rules
            scale_rules(self.rules, out.l2, &units, &out.rules)
        self.ws.rules = self.ws.outputs[0].rules
        if self.ws.n_outputs > 1:
            self.ws.rules.min_hessian = 0       # the limit applies to the mean over the outputs

    cdef _set_l2(self):
        """Set each output's L2 penalty for the next tree, after its rows: it may depend on their noise."""
        cdef int32_t o
        cdef bint follows_noise = self.rules.noise_l2 > 0
        cdef float64_t l2 = self.rules.l2_regularization, hessian
        if follows_noise:
            with nogil:
                self._sum_nodes()
        for o in range(self.ws.n_outputs):
            if follows_noise:
                hessian = sums_of_output(&self.ws, o)[0].hessian
                hessian /= self.ws.outputs[o].quantised.scales.exact_hessian
                l2 = self.rules.l2_of_noise(root_of_noise(&self.ws, o) / self.noise_units[o], hessian)
            self.ws.outputs[o].l2 = l2

    cdef bint _init_root(self) noexcept nogil:
        """Copy the tree's rows, create the root and plan its task; return False if memory runs out."""
        cdef Workspace* ws = &self.ws
        place_rows(ws, self.given_rows, self.n_rows)
        ws.n_nodes = ws.n_candidates = ws.n_tasks = ws.n_begun = ws.n_ended = 0
        ws.root_is_packed = ws.root_is_packed or (ws.codes_are_rare and ws.nodes[0].end == self.source.n_rows)
        ws.codes_are_rare = False
        release_all_slots(ws)
        if not reserve_nodes(ws, 1):
            return False
        memset(&ws.nodes[0], 0, sizeof(Node))
        ws.n_nodes = 1
        ws.nodes[0].end = self.n_rows
        ws.nodes[0].parent = ws.nodes[0].split.feature = ws.nodes[0].ahead = -1
        ws.nodes[0].middle = -1
        ws.nodes[0].forced = 0 if ws.forced != NULL else -1
        ws.nodes[0].slot = take_slot(ws) if ws.ranks != NULL or self.n_rows >= ws.kept_rows else -1
        if ws.n_words > 0:
            memcpy(ws.active, &self.all_active[0], ws.n_words * sizeof(uint64_t))
        draw_tree_features(ws)
        add_task(ws, 0, -1, True, False)
        return True

    cdef _limit_root(self):
        """Set the value bounds of the root; with several outputs, bounds are only applied to the grown tree."""
        cdef Node* root = &self.ws.nodes[0]
        cdef const Scales* scales = &self.ws.outputs[0].quantised.scales
        cdef float64_t step = INFINITY
        cdef bint is_single = self.ws.n_outputs == 1
        if is_single and self.rules.max_delta_step is not None and not self.renews_leaves:
            step = <float64_t>self.rules.max_delta_step * scales.gradient / scales.hessian
        root.limits.lower, root.limits.upper = -step, step
        root.limits.is_free = step == INFINITY and not (is_single and self.rules.path_smooth > 0)

    cdef Outcome _begin(self):
        """Prepare the next tree: quantise, create the root, set rules; return GROWING, NOT_FINITE or OUT_OF_MEMORY."""
        cdef bint is_ready
        with nogil:
            is_ready = self._quantise()
        if not is_ready:
            return NOT_FINITE
        with nogil:
            is_ready = self._init_root()
        if not is_ready:
            return OUT_OF_MEMORY
        self._set_l2()
        self._scale_rules()
        self._limit_root()
        return GROWING

    def grow(self, gradients, hessians, rows=None, uint64_t seed=0):
        """Grow a tree from unweighted gradients and hessians, one of each for every row of the matrix and output.

        Parameters
        ----------
        gradients, hessians : float32 arrays of shape (n_rows,) or (n_outputs, n_rows)
            Derivatives of the loss with respect to the raw predictions.
        rows : uint32 array or None
            Rows to grow on, in ascending order. If None, all rows are used.
        seed : int
            Seed for the features drawn at each node.

        Returns
        -------
        Tree

        Raises
        ------
        ValueError
            If a gradient or hessian is not finite.
        MemoryError
            If there is no memory for the nodes.
        """
        cdef Workspace* ws = &self.ws
        cdef const float32_t[:, ::1] g = gradients.reshape(ws.n_outputs, -1)
        cdef const float32_t[:, ::1] h = hessians.reshape(ws.n_outputs, -1)
        cdef Outcome outcome
        cdef Py_ssize_t work
        cdef int32_t o, n_leaves = 1
        for o in range(ws.n_outputs):
            ws.outputs[o].source.gradients, ws.outputs[o].source.hessians = &g[o, 0], &h[o, 0]
        ws.seed = seed
        self._set_rows(rows)
        outcome = self._begin()
        while outcome == GROWING:
            work = 0
            with nogil:
                while outcome == GROWING and work < WORK_BETWEEN_SIGNALS:
                    work += _work_of_tasks(ws)
                    outcome = split_next_nodes(ws, &n_leaves) if self._find_splits(n_leaves) else OUT_OF_MEMORY
            PyErr_CheckSignals()
        if outcome == COMPLETE:
            with nogil:
                if end_exchanges(ws, ws.n_begun):
                    self._sum_nodes()
        if self.exchange is not None and self.exchange.error is not None:
            raise self.exchange.error
        if outcome == NOT_FINITE:
            raise ValueError("learning_rate must be lower: with it the gradients of the loss are not finite.")
        if outcome == OUT_OF_MEMORY:
            raise MemoryError(f"no memory for the nodes of a tree of {n_leaves} leaves")
        tree = self._make_tree()
        if self.rules.clip_to_bounds and not self.renews_leaves:
            self._bind_values(tree)
        if self.near is not None:
            self.near.choose(tree)
        return tree

    cdef bint _find_splits(self, int32_t n_leaves) noexcept nogil:
        """Find the best splits of the planned tasks of a tree with n_leaves leaves so far.

        Return False if memory runs out or a reduction failed.
        """
        if self.ws.ranks != NULL:
            return run_on_ranks(&self.ws, self.ws.limits.max_leaves - n_leaves)
        run_tasks(&self.ws)
        return True

    cdef void _sum_nodes(self) noexcept nogil:
        """Compute the exact sums of every node for all outputs, over all ranks."""
        cdef Workspace* ws = &self.ws
        cdef int32_t o
        cdef int64_t* sums
        for o in range(ws.n_outputs):
            node_sums(ws, o, threads_for_rows(ws, ws.nodes[0].end))
        sums = <int64_t*>ws.sums
        sum_over(ws.ranks, &sums, 1, ws.n_outputs * ws.n_nodes * <Py_ssize_t>(sizeof(Moments) // sizeof(int64_t)))

    cdef _make_tree(self):
        """Prune the tree just grown and return it as a Tree; also set self.dispersion and self.hessians."""
        cdef Workspace* ws = &self.ws
        cdef int32_t i, k, n
        cdef const Node* node
        cdef float64_t gain_unit = self._gain_unit()
        self.dispersion = self._dispersion()
        n = prune_cost_complexity(ws, gain_unit, self.rules.split_penalty * self.dispersion)
        # For small trees, one array for each type is cheaper than one for each field.
        links, numbers = np.empty((3, n), np.int32), np.empty((2, n))
        bins, sides, counts = np.empty(n, np.uint16), np.empty(n, np.uint8), np.empty(n, np.int64)
        cdef int32_t[:, ::1] link = links
        cdef float64_t[:, ::1] number = numbers
        cdef uint16_t[::1] bin_threshold = bins
        cdef uint8_t[::1] missing_left = sides
        cdef int64_t[::1] n_samples = counts
        for i in range(ws.n_nodes):
            node = &ws.nodes[i]
            if not is_kept(ws, node):
                continue
            k = node.place
            link[0, k], link[1, k], link[2, k] = -1, 0, -1
            number[0, k], bin_threshold[k], missing_left[k] = 0.0, 0, False
            n_samples[k] = node.sums.count
            number[1, k] = node.sums.hessian / ws.outputs[0].quantised.scales.hessian
            if node.is_split:
                link[0, k] = node.split.feature
                link[1, k] = ws.nodes[node.left_child].place
                number[0, k] = node.split.gain * gain_unit
                missing_left[k] = node.split.missing_left
                if not ws.features[node.split.feature].is_categorical:
                    bin_threshold[k] = node.split.bin
        return Tree(
            feature=links[0],
            bin_threshold=bins,
            missing_left=sides,
            category_set=links[2],
            category_words=self._category_words(link[2]),
            left_child=links[1],
            value=self._values(numbers[1]),
            gain=numbers[0],
            n_samples=counts,
            weight=numbers[1],
        )

    cdef _bind_values(self, tree):
        """Smooth and clip tree.value, the Newton steps, to the tree's bounds, in place; see `clip_to_bounds`."""
        hessians = tree.weight[:, None] if self.hessians is None else self.hessians
        for column, hessian in enumerate(hessians.T):
            value = tree.value[:, column].copy()
            clip_to_bounds(value, hessian + self.ws.outputs[column].l2, tree, self.rules)
            tree.value[:, column] = value

    cdef float64_t _gain_unit(self) noexcept nogil:
        """Return the factor that converts split gains to units of the loss; it is 1 with several outputs."""
        return self.ws.outputs[0].gain_unit if self.ws.n_outputs == 1 else 1.0

    cdef float64_t _dispersion(self) noexcept nogil:
        """Return the dispersion of the gradients (see `dispersion`), summed over the outputs."""
        cdef int32_t o
        cdef float64_t total = 0.0
        for o in range(self.ws.n_outputs):
            total += dispersion(&self.ws, o)
        return total

    cdef _values(self, weight):
        """Return the Newton steps of every node of the pruned tree, shape (n_nodes, n_outputs).

        With several outputs, also set self.hessians, and write the mean hessian of each node to `weight`.
        """
        cdef int32_t o
        values = np.empty((len(weight), self.ws.n_outputs))
        self.hessians = None if self.ws.n_outputs == 1 else np.empty_like(values)
        for o in range(self.ws.n_outputs):
            self._newton_steps(o, values, self.hessians)
        if self.hessians is not None:
            weight[:] = self.hessians.mean(axis=1)
        return values

    cdef void _newton_steps(self, int32_t output, float64_t[:, ::1] steps, float64_t[:, ::1] hessians):
        """Write each node's -G / (H + lambda) for one output to `steps` and, unless None, its H to `hessians`.

        G and H are exact sums (Chen & Guestrin 2016, eq. 5); both arrays have the shape (n_nodes, n_outputs).
        """
        cdef Workspace* ws = &self.ws
        cdef const Moments* sums = sums_of_output(ws, output)
        cdef const Scales* scales = &ws.outputs[output].quantised.scales
        cdef const Node* node
        cdef int32_t i
        cdef float64_t hessian, l2 = ws.outputs[output].l2
        for i in range(ws.n_nodes):
            node = &ws.nodes[i]
            if not is_kept(ws, node):
                continue
            hessian = <float64_t>sums[i].hessian / scales.exact_hessian
            steps[node.place, output] = 0.0
            if hessian + l2 > 0:
                steps[node.place, output] = -<float64_t>sums[i].gradient / scales.exact_gradient / (hessian + l2)
            if hessians is not None:
                hessians[node.place, output] = hessian

    cdef _category_words(self, int32_t[::1] category_set):
        """Return the words of all category sets, without gaps, and write each node's offset to `category_set`."""
        cdef Workspace* ws = &self.ws
        cdef int32_t i, k, n_words = 0, n = 0
        cdef const Node* node
        for i in range(ws.n_nodes):
            node = &ws.nodes[i]
            if node.is_split and node.split.category_set >= 0:
                category_set[node.place] = n_words
                n_words += set_size(ws.features[node.split.feature].n_codes)
        words = np.empty(n_words, np.uint32)
        cdef uint32_t[::1] packed = words
        for i in range(ws.n_nodes):
            node = &ws.nodes[i]
            if node.is_split and node.split.category_set >= 0:
                for k in range(set_size(ws.features[node.split.feature].n_codes)):
                    packed[n] = ws.category_words[node.split.category_set + k]
                    n += 1
        return words

    def leaves(self):
        """Return the leaves of the tree just grown: node indices, row indices leaf by leaf, and each leaf's offset."""
        cdef Workspace* ws = &self.ws
        cdef int32_t i
        leaves = sorted(
            (ws.nodes[i].place, ws.nodes[i].begin, ws.nodes[i].end)
            for i in range(ws.n_nodes) if is_kept(ws, &ws.nodes[i]) and not ws.nodes[i].is_split
        )
        # A worker may have no rows, but memoryviews must not be empty.
        rows = np.asarray(<uint32_t[:max(ws.nodes[0].end, 1)]>ws.rows)
        parts = [rows[begin:end] for _, begin, end in leaves]
        starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return np.array([place for place, _, _ in leaves]), np.concatenate(parts), starts

    def add_values(self, value, raw):
        """Add the value of each row's leaf in the tree just grown to `raw`, (n_rows,) or (n_outputs, n_rows).

        `value` has the shape (n_nodes, n_outputs).
        """
        cdef const float64_t[::1] values
        cdef float64_t[::1] of_output
        cdef int32_t n_threads = threads_for_rows(&self.ws, self.ws.nodes[0].end)
        for column, own in enumerate(raw if raw.ndim == 2 else raw[None]):
            values, of_output = np.ascontiguousarray(value[:, column]), own
            if self.ws.nodes[0].end <= FEW_ROWS:
                add_leaf_values(&self.ws, &values[0], of_output.shape[0], 1, &of_output[0])
            else:
                with nogil:
                    add_leaf_values(&self.ws, &values[0], of_output.shape[0], n_threads, &of_output[0])
