"""Grow trees of forests: the rows of a tree are entries, its large nodes the trunk, and what grows on the trunk's small
nodes are branches, which threads may share out. A tree's nodes are those of the trunk, then those of each branch, so
they stand in the same order whoever grew them.
"""

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY, rint
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from .forest_branch cimport COMPLETE, GROWING, OUT_OF_MEMORY, Outcome, grow_best_first, grow_depth_first, plant
from .forest_data cimport ForestData
from .forest_records cimport allocate_records, grow_records, has_records, make_records, plant_records
from .forest_room cimport allocate_room, free_grown, free_room, reserve_nodes
from .forest_sample cimport (
    choose_layout, entry_weight, fill_entries, power_of_two_below, round_numbers, scale_rules
)
from .forest_search cimport packed_total
from .forest_tree cimport ABSOLUTE, Entry, Forest, ForestNode, Grown, Layout, Open, Room, Sample, Targets
from .structs cimport float32_t, float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

import numpy as np

cdef enum:
    MAX_THREADS = 256
    WORK_BETWEEN_SIGNALS = 1 << 25  # (row, feature) updates: some 50 ms
    THREAD_GRAIN = 1 << 14          # updates that are worth another thread
    EXACT_BITS = 62

cdef enum:
    # Stages of growing a tree.
    AT_START
    IN_TRUNK
    IN_BRANCHES
    AT_JOIN
    AT_END

cdef float64_t MAX_WHOLE = 2.0**40  # sum of whole weights that are not rounded

cdef struct Branch:
    # Nodes that one thread grew: the first is the trunk's node again.
    int32_t thread
    int32_t first, end
    int32_t first_word, end_word
    Outcome outcome


@final
cdef class TreeWorker:
    """Working memory for growing one tree after another; not for use by two threads at once."""

    cdef ForestData data
    cdef Sample sample
    cdef int32_t n_threads
    cdef Room* rooms                # one for each thread, and one more for the open roots of the branches
    cdef Grown* grown               # likewise; the last is the trunk, and then the whole tree
    cdef Branch* branches
    cdef Layout allocated
    cdef Py_ssize_t n_allocated
    cdef uint64_t[::1] mask         # of features that the tree may not use
    cdef int32_t n_excluded, n_branches
    cdef int stage
    cdef Py_ssize_t work            # (row, feature) updates until the next look at signals
    cdef int64_t* sums              # (nodes, n_values + 1 + n_squares)
    cdef float64_t scale            # of numbers in the sums
    cdef float64_t[::1] square_scales   # of the squares of each target

    def __init__(self, ForestData data, int n_threads):
        cdef int32_t i
        self.data = data
        self.n_threads = min(n_threads, MAX_THREADS)
        self.square_scales = np.ones(data.n_squares)
        self.mask = np.zeros((data.forest.table.n_features + 63) // 64, np.uint64)
        self.rooms = <Room*>malloc((self.n_threads + 1) * sizeof(Room))
        self.grown = <Grown*>malloc((self.n_threads + 1) * sizeof(Grown))
        if self.rooms == NULL or self.grown == NULL:
            raise MemoryError("no memory for growing trees")
        memset(self.rooms, 0, (self.n_threads + 1) * sizeof(Room))
        memset(self.grown, 0, (self.n_threads + 1) * sizeof(Grown))
        for i in range(self.n_threads + 1):
            self.grown[i].n_values = data.n_values if data.forest.rules.criterion == ABSOLUTE else 0

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.n_threads + 1):
            if self.rooms != NULL:
                free_room(&self.rooms[i])
            if self.grown != NULL:
                free_grown(&self.grown[i])
        free(self.rooms)
        free(self.grown)
        free(self.branches)
        free(self.sums)
        free(self.sample.entries)
        free(self.sample.scratch)
        free(self.sample.records[0])
        free(self.sample.records[1])
        free(self.sample.numbers)

    def grow(self, const float64_t[::1] weights, features, uint64_t seed, const uint8_t[::1] stop):
        """Grow one tree.

        Parameters
        ----------
        weights : float64 array of shape (n_rows,) or None
            0: the row is not in the sample.
        features : int array or None
            The columns that the tree may use.
        seed : int
            Of the features' subsets and the random thresholds.
        stop : uint8 array of shape (1,)
            Growing ends soon after this is set.

        Returns
        -------
        dict of the arrays of a Tree, or None when stopped
        """
        cdef const float64_t* given = NULL if weights is None else &weights[0]
        cdef Outcome outcome = GROWING
        self._set_mask(features)
        self.sample.seed = seed
        self.stage = AT_START
        while outcome == GROWING and not stop[0]:
            with nogil:
                outcome = self._advance(given)
            PyErr_CheckSignals()
        if outcome == OUT_OF_MEMORY:
            raise MemoryError(f"no memory for growing a tree on {self.data.forest.table.n_rows} rows")
        return None if outcome == GROWING else self._tree()

    cdef _set_mask(self, features):
        """Mark the features that the tree may not use."""
        cdef int32_t f
        if features is None:
            self.mask[:] = 0
            self.n_excluded = 0
            return
        self.mask[:] = ~<uint64_t>0
        for f in features:
            self.mask[f // 64] &= ~(<uint64_t>1 << (f % 64))
        self.n_excluded = self.data.forest.table.n_features - len(set(features))

    cdef Outcome _advance(self, const float64_t* weights) noexcept nogil:
        """One stage after another until there was some work, so that a small tree is grown in one go."""
        cdef Outcome outcome = COMPLETE
        self.work = WORK_BETWEEN_SIGNALS
        while outcome == COMPLETE and self.stage != AT_END and self.work > 0:
            if self.stage == AT_START:
                outcome = COMPLETE if self._start(weights) and self._plant() else OUT_OF_MEMORY
            elif self.stage == IN_TRUNK:
                outcome = self._advance_trunk()
                if outcome == COMPLETE and not self._make_branches():
                    outcome = OUT_OF_MEMORY
            elif self.stage == IN_BRANCHES:
                outcome = self._advance_branches()
            else:
                outcome = COMPLETE if self._join_branches() and self._sum_up() else OUT_OF_MEMORY
            if outcome == COMPLETE:
                self.stage += 1
        return GROWING if outcome == COMPLETE and self.stage != AT_END else outcome

    cdef bint _start(self, const float64_t* weights) noexcept nogil:
        """The sample's entries, and room for growing on them."""
        cdef const Forest* forest = &self.data.forest
        cdef float64_t total = <float64_t>forest.table.n_rows
        cdef bint whole = True
        cdef Py_ssize_t i, n = forest.table.n_rows
        if weights != NULL:
            n, total = 0, 0.0
            for i in range(forest.table.n_rows):
                n += weights[i] > 0
                total += weights[i]
                whole &= weights[i] == <float64_t><int64_t>weights[i]
        self.work -= 2 * forest.table.n_rows
        self.sample.layout = choose_layout(forest, n, total, whole and total < MAX_WHOLE, self.data.widest)
        if not self._allocate(n):
            return False
        scale_rules(forest, total, &self.sample)
        fill_entries(forest, weights, &self.sample)
        if self.sample.numbers != NULL:
            round_numbers(forest, &self.sample)
        if has_records(forest, &self.sample):
            make_records(forest, &self.sample)
        return True

    cdef bint _allocate(self, Py_ssize_t n) noexcept nogil:
        cdef const Forest* forest = &self.data.forest
        cdef int32_t i
        if self.n_allocated < n or self.allocated.n_words != self.sample.layout.n_words:
            free(self.sample.entries)
            free(self.sample.scratch)
            self.n_allocated = 0
            self.sample.entries = <Entry*>malloc(n * sizeof(Entry))
            self.sample.scratch = <Entry*>malloc(n * sizeof(Entry))
            if self.sample.entries == NULL or self.sample.scratch == NULL:
                return False
            if not allocate_records(forest, n, &self.sample):
                return False
            for i in range(self.n_threads + 1):
                if not allocate_room(forest, &self.sample.layout, n, &self.rooms[i]):
                    return False
            self.n_allocated, self.allocated = n, self.sample.layout
        if forest.targets.numbers != NULL and not self.sample.layout.packed and self.sample.numbers == NULL:
            self.sample.numbers = <int64_t*>malloc(forest.table.n_rows * forest.targets.n_targets * sizeof(int64_t))
            return self.sample.numbers != NULL
        return True

    cdef bint _plant(self) noexcept nogil:
        cdef Open root
        cdef int32_t i
        memset(&root, 0, sizeof(Open))
        root.end = <uint32_t>self.sample.n_entries
        root.key = self.sample.seed
        root.total = packed_total(&self.sample, root.begin, root.end)
        root.lower, root.upper = -INFINITY, INFINITY
        root.n_excluded = self.n_excluded
        for i in range(self.n_threads + 1):
            self.grown[i].n = self.grown[i].n_words = 0
            self.rooms[i].n_open = 0
        return self._plant_at(&self.rooms[0], &self.grown[self.n_threads], &root, &self.mask[0])

    cdef bint _plant_at(self, Room* room, Grown* grown, Open* root, const uint64_t* mask) noexcept nogil:
        """Make and open the first node of the tree or of a branch; False without memory."""
        if not plant(&self.data.forest, &self.sample, room, grown, root, mask):
            return False
        return not has_records(&self.data.forest, &self.sample) or plant_records(
            &self.data.forest, &self.sample, room, root
        )

    cdef Outcome _advance_trunk(self) noexcept nogil:
        cdef Grown* trunk = &self.grown[self.n_threads]
        if self.data.forest.rules.max_leaves > 0:
            return grow_best_first(&self.data.forest, &self.sample, &self.rooms[0], trunk, &self.work)
        return self._grow_nodes(&self.rooms[0], trunk, &self.rooms[self.n_threads], &self.work)

    cdef Outcome _grow_nodes(self, Room* room, Grown* grown, Room* branches, Py_ssize_t* work) noexcept nogil:
        """Depth first, from the open nodes."""
        if has_records(&self.data.forest, &self.sample):
            return grow_records(&self.data.forest, &self.sample, room, grown, branches, work)
        return grow_depth_first(&self.data.forest, &self.sample, room, grown, branches, work)

    cdef bint _make_branches(self) noexcept nogil:
        free(self.branches)
        self.n_branches = 0
        self.branches = <Branch*>malloc(max(self.rooms[self.n_threads].n_open, 1) * sizeof(Branch))
        return self.branches != NULL

    cdef Outcome _advance_branches(self) noexcept nogil:
        """Grow the next branches, as many as there may be between two looks at signals."""
        cdef const Room* roots = &self.rooms[self.n_threads]
        cdef int32_t i, first = self.n_branches, end = first
        cdef Py_ssize_t n_rows = 0
        while end < roots.n_open and (end == first or self.work > 0):
            n_rows += roots.open[end].end - roots.open[end].begin
            self.work -= <Py_ssize_t>(roots.open[end].end - roots.open[end].begin) * self.data.forest.rules.n_drawn
            end += 1
        if self.n_threads == 1 or n_rows * self.data.forest.rules.n_drawn < THREAD_GRAIN:
            for i in range(first, end):
                self._grow_branch(i, 0)
        else:
            for i in prange(first, end, num_threads=self.n_threads, schedule="dynamic", chunksize=1):
                self._grow_branch(i, threadid())
        for i in range(first, end):
            if self.branches[i].outcome == OUT_OF_MEMORY:
                return OUT_OF_MEMORY
        self.n_branches = end
        return COMPLETE if end == roots.n_open else GROWING

    cdef void _grow_branch(self, int32_t i, int32_t thread) noexcept nogil:
        cdef Room* roots = &self.rooms[self.n_threads]
        cdef Room* room = &self.rooms[thread]
        cdef Grown* grown = &self.grown[thread]
        cdef Branch* branch = &self.branches[i]
        cdef Open root = roots.open[i]
        cdef Py_ssize_t work = <Py_ssize_t>1 << 62
        branch.thread = thread
        branch.first, branch.first_word = grown.n, grown.n_words
        branch.outcome = GROWING if self._plant_at(
            room, grown, &root, roots.masks + <Py_ssize_t>i * roots.n_mask_words
        ) else OUT_OF_MEMORY
        if branch.outcome == GROWING:
            branch.outcome = self._grow_nodes(room, grown, NULL, &work)
        branch.end, branch.end_word = grown.n, grown.n_words

    cdef bint _join_branches(self) noexcept nogil:
        """Put the branches' nodes behind those of the trunk."""
        cdef Grown* tree = &self.grown[self.n_threads]
        cdef const Grown* grown
        cdef const Branch* branch
        cdef int32_t i, k, shift, word_shift, n = 0, n_words = 0
        for i in range(self.n_branches):
            branch = &self.branches[i]
            n += branch.end - branch.first - 1
            n_words += branch.end_word - branch.first_word
        while tree.capacity < tree.n + n or tree.words_capacity < tree.n_words + n_words:
            if not reserve_nodes(tree, n, n_words):
                return False
        for i in range(self.n_branches):
            branch = &self.branches[i]
            grown = &self.grown[branch.thread]
            shift = tree.n - branch.first - 1
            word_shift = tree.n_words - branch.first_word
            self._join_node(tree, grown, branch.first, self.rooms[self.n_threads].open[i].node, shift, word_shift)
            for k in range(branch.first + 1, branch.end):
                self._join_node(tree, grown, k, k + shift, shift, word_shift)
            if branch.end_word > branch.first_word:  # there may be no words, and no room for any
                memcpy(
                    tree.words + tree.n_words, grown.words + branch.first_word,
                    (branch.end_word - branch.first_word) * sizeof(uint32_t)
                )
            tree.n += branch.end - branch.first - 1
            tree.n_words += branch.end_word - branch.first_word
        return True

    cdef void _join_node(
        self, Grown* tree, const Grown* grown, int32_t from_, int32_t to, int32_t shift, int32_t word_shift
    ) noexcept nogil:
        cdef ForestNode* node = &tree.nodes[to]
        node[0] = grown.nodes[from_]
        if node.left_child > 0:
            node.left_child += shift
        if node.category_set >= 0:
            node.category_set += word_shift
        if tree.n_values > 0:
            memcpy(
                tree.medians + <Py_ssize_t>to * tree.n_values, grown.medians + <Py_ssize_t>from_ * tree.n_values,
                tree.n_values * sizeof(float64_t)
            )

    def _tree(self):
        """The arrays of the tree just grown."""
        cdef const Grown* tree = &self.grown[self.n_threads]
        cdef int32_t i, n = tree.n
        cdef const ForestNode* node
        arrays = {
            "feature": np.empty(n, np.int32),
            "bin_threshold": np.empty(n, np.uint16),
            "missing_left": np.empty(n, np.uint8),
            "category_set": np.empty(n, np.int32),
            "category_words": np.array(<uint32_t[:tree.n_words]>tree.words) if tree.n_words else np.empty(0, np.uint32),
            "left_child": np.empty(n, np.int32),
            "value": np.empty((n, self.data.n_values), np.float64),
            "gain": np.empty(n, np.float32),
            "n_samples": np.empty(n, np.int32),
            "weight": np.empty(n, np.float32),
        }
        cdef int32_t[::1] feature = arrays["feature"], left_child = arrays["left_child"]
        cdef int32_t[::1] n_samples = arrays["n_samples"], category_set = arrays["category_set"]
        cdef uint16_t[::1] bin_threshold = arrays["bin_threshold"]
        cdef uint8_t[::1] missing_left = arrays["missing_left"]
        cdef float32_t[::1] gain = arrays["gain"]
        with nogil:
            for i in range(n):
                node = &tree.nodes[i]
                feature[i], left_child[i], category_set[i] = node.feature, node.left_child, node.category_set
                bin_threshold[i], missing_left[i] = node.last_code, node.missing_left
                n_samples[i] = <int32_t>(node.end - node.begin)
                gain[i] = <float32_t>(node.gain * self.sample.gain_unit)
        self._write_values(arrays["value"], arrays["weight"])
        if self.data.n_squares > 0:
            arrays["squares"] = np.empty((n, self.data.n_squares), np.float64)
            self._write_squares(arrays["squares"])
        free(self.sums)
        self.sums = NULL
        return arrays

    cdef bint _sum_up(self) noexcept nogil:
        """Sums of every node over the rows of the leaves below it, exact: of each value's numbers, weights, squares."""
        cdef const Grown* tree = &self.grown[self.n_threads]
        cdef Py_ssize_t n = self.data.n_values + 1 + self.data.n_squares
        cdef float64_t room = 2.0 ** EXACT_BITS / (<float64_t>self.sample.layout.weight_mask + 1)
        cdef int32_t i
        self.work -= self.sample.n_entries
        free(self.sums)
        self.sums = <int64_t*>calloc(tree.n * n, sizeof(int64_t))
        if self.sums == NULL:
            return False
        self.scale = 1.0
        if self.data.forest.targets.numbers != NULL and self.data.widest > 0:
            self.scale = power_of_two_below(room / self.data.widest)
        for i in range(self.data.n_squares):
            if self.data.ranges[i] > 0:
                self.square_scales[i] = power_of_two_below(room / self.data.ranges[i] / self.data.ranges[i])
        for i in range(tree.n - 1, -1, -1):
            self._add_up(&tree.nodes[i], self.sums + i * n)
        return True

    cdef _write_values(self, float64_t[:, ::1] value, float32_t[::1] weight):
        """Shares, means or medians of every node."""
        cdef const Grown* tree = &self.grown[self.n_threads]
        cdef int32_t i, k, n_values = self.data.n_values
        cdef const int64_t* sums
        cdef float64_t of_node
        with nogil:
            for i in range(tree.n):
                sums = self.sums + i * (n_values + 1 + <Py_ssize_t>self.data.n_squares)
                of_node = <float64_t>sums[n_values]
                weight[i] = <float32_t>(of_node / self.sample.layout.weight_scale)
                for k in range(n_values):
                    value[i, k] = self._value(i, k, <float64_t>sums[k] / of_node / self.scale)

    cdef _write_squares(self, float64_t[:, ::1] squares):
        """Weights times squared differences from the mean, summed over the rows of every node."""
        cdef int32_t i, k, n_values = self.data.n_values
        cdef const int64_t* sums
        cdef float64_t weight, total
        with nogil:
            for i in range(squares.shape[0]):
                sums = self.sums + i * (n_values + 1 + <Py_ssize_t>self.data.n_squares)
                weight = <float64_t>sums[n_values]
                for k in range(self.data.n_squares):
                    total = <float64_t>sums[k] / self.scale
                    squares[i, k] = max(
                        <float64_t>sums[n_values + 1 + k] / self.square_scales[k] - total * total / weight, 0.0
                    ) / self.sample.layout.weight_scale

    cdef float64_t _value(self, int32_t node, int32_t column, float64_t mean) noexcept nogil:
        cdef const Grown* tree = &self.grown[self.n_threads]
        if tree.n_values > 0:
            return tree.medians[<Py_ssize_t>node * tree.n_values + column]
        if self.data.forest.targets.numbers != NULL:
            return mean + self.data.forest.targets.minimum[column]
        return mean

    cdef void _add_up(self, const ForestNode* node, int64_t* sums) noexcept nogil:
        """The sums of a node: those of its children, or of its rows."""
        cdef Py_ssize_t n = self.data.n_values + 1 + self.data.n_squares, i, k
        cdef const Targets* targets = &self.data.forest.targets
        cdef const int64_t* children = self.sums + node.left_child * n
        if self.sample.layout.packed and targets.classes != NULL and targets.n_stats == 2:
            sums[0] = <int64_t>(node.total >> self.sample.layout.number_shift)
            sums[1] = <int64_t>((node.total >> self.sample.layout.weight_shift) & self.sample.layout.weight_mask)
            return
        if node.left_child > 0:
            for k in range(n):
                sums[k] = children[k] + children[n + k]
            return
        for i in range(node.begin, node.end):
            self._add_row(i, sums)

    cdef inline void _add_row(self, Py_ssize_t entry, int64_t* sums) noexcept nogil:
        cdef const Forest* forest = &self.data.forest
        cdef Py_ssize_t first = <Py_ssize_t>self.sample.entries[entry].row * forest.targets.n_targets
        cdef int32_t t, column
        cdef int64_t weight = entry_weight(&self.sample, entry)
        cdef float64_t number
        sums[self.data.n_values] += weight
        for t in range(forest.targets.n_targets):
            if forest.targets.classes != NULL:
                column = self.data.columns[forest.targets.classes[first + t]]
                if column >= 0:
                    sums[column] += weight
            else:
                number = forest.targets.numbers[first + t] - forest.targets.minimum[t]
                sums[t] += weight * <int64_t>rint(number * self.scale)
                if self.data.n_squares > 0:
                    sums[self.data.n_values + 1 + t] += weight * <int64_t>rint(number * number * self.square_scales[t])
