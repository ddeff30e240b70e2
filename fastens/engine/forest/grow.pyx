"""Growth of the trees of forests.

The rows of a tree are entries, its large nodes form the trunk, and the subtrees of the trunk's small nodes are
branches, which threads may share. A tree stores the nodes of the trunk, followed by the nodes of each branch, so the
node order does not depend on which thread grew a branch.

In distributed training, all workers grow the same trunk from reduced sums and divide its branches among themselves: the
rows of a branch are gathered on one worker, which grows it as a separate tree (see forests.py).
"""

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.math cimport INFINITY, llrint
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from fastens.engine.forest.data cimport ForestData
from fastens.engine.forest.workspace cimport (
    COMPLETE, GROWING, OUT_OF_MEMORY, Outcome, add_root, grow_best_first, grow_depth_first
)
from fastens.engine.forest.data cimport Order, Orders, open_branches_of
from fastens.engine.forest.data cimport (
    choose_layout, entry_weight, fill_entries, power_of_two_below, round_numbers, scale_rules
)
from fastens.engine.forest.splits.scan cimport uses_medians
from fastens.engine.forest.splits.search cimport packed_total
from fastens.engine.forest.splits.structs cimport Entry, Forest, Layout, Open, Sample, Targets
from fastens.engine.forest.tree cimport ForestNode, Grown, Workspace, halvings, work_on
from fastens.engine.forest.workspace cimport TreeBuffer, close_tree, free_buffer, reserve_tree, set_gain, take_trees
from fastens.engine.forest.workspace cimport allocate_search, copy_node, free_grown, free_workspace, reserve_nodes
from fastens.engine.ranks cimport Exchange, sum_over
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from fastens.engine.thread_pool cimport MAX_THREADS, dynamic_parallel_for

import numpy as np

cdef enum:
    WORK_BETWEEN_SIGNALS = 1 << 24  # (row, feature) updates: about 25 ms
    THREAD_GRAIN = 1 << 14          # minimum number of updates per thread
    EXACT_BITS = 62

cdef enum:
    # Stages of growing a tree.
    AT_START
    IN_TRUNK
    IN_BRANCHES
    AT_JOIN

cdef struct Branch:
    # Nodes that one thread grew. The first is a copy of the trunk's node.
    int32_t thread
    int32_t first, end
    int32_t first_word, end_word
    Outcome outcome


cdef inline bint has_squares(const ForestNode* node) noexcept nogil:
    """Return True for a leaf of several rows, whose squares are summed; the bitwise test avoids a branch."""
    return (node.left_child == 0) & (node.n_rows > 1)


cdef void _grow_branch_piece(void* worker, Py_ssize_t piece, int32_t thread) noexcept nogil:
    """Grow branch `piece`, counted from the first branch not yet grown, as the body of a parallel for."""
    (<TreeWorker>worker)._grow_branch((<TreeWorker>worker).n_branches + <int32_t>piece, thread)


@final
cdef class TreeWorker:
    """Workspace for growing one tree after another. It must not be used by two threads at once."""

    cdef ForestData data
    cdef Exchange exchange          # None if there is only one worker
    cdef Sample sample
    cdef int32_t n_threads
    cdef Workspace* workspaces                # one for each thread, and one for the open roots of the branches
    cdef Grown* grown               # by thread; the last holds the nodes above the branches, later the whole tree
    cdef Branch* branches
    cdef Layout allocated
    cdef Py_ssize_t n_allocated
    cdef TreeBuffer buffer
    cdef Orders orders
    cdef int32_t n_branches
    cdef int stage
    cdef Py_ssize_t work            # (row, feature) updates until the next check for signals
    cdef int64_t* sums              # (nodes, n_values + 1)
    cdef int64_t* squares           # (nodes, n_squares)
    cdef float64_t scale            # scale of the numbers in the sums
    cdef float64_t[::1] per_square  # scale of each target's squares in the sums, a power of two

    def __init__(self, ForestData data, int n_threads, bint narrow_values, comm=None):
        cdef int32_t i
        self.data = data
        if comm is not None:
            self.exchange = Exchange(comm)
            self.sample.ranks = &self.exchange.ranks
        self.n_threads = min(n_threads, MAX_THREADS)
        self.buffer.n_values, self.buffer.narrow = data.n_values, narrow_values
        self.buffer.n_squares, self.buffer.with_search = data.n_squares, data.with_search
        self.per_square = np.ones(data.n_squares)
        self.workspaces = <Workspace*>calloc(self.n_threads + 1, sizeof(Workspace))
        self.grown = <Grown*>calloc(self.n_threads + 1, sizeof(Grown))
        if self.workspaces == NULL or self.grown == NULL:
            raise MemoryError("no memory for growing trees")
        for i in range(self.n_threads + 1):
            self.workspaces[i].search.forest, self.workspaces[i].search.sample = &data.forest, &self.sample
            self.grown[i].n_values = data.n_values if uses_medians(&data.forest) else 0

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.n_threads + 1):
            if self.workspaces != NULL:
                free_workspace(&self.workspaces[i])
            if self.grown != NULL:
                free_grown(&self.grown[i])
        free(self.workspaces)
        free(self.grown)
        free(self.branches)
        free_buffer(&self.buffer)
        free(self.sums)
        free(self.squares)
        free(self.sample.entries)
        free(self.sample.spare)
        free(self.sample.numbers)

    def grow(self, samples, const uint8_t[::1] stop):
        """Grow trees one after another.

        Parameters
        ----------
        samples : list of TreeSample
            Sample of each tree.
        stop : uint8 array of shape (1,)
            Growth stops soon after another thread sets this flag.

        Returns
        -------
        list of dicts of the arrays of a Tree, or None if growth was stopped
        """
        cdef Outcome outcome = GROWING
        cdef int32_t i
        self.orders = Orders(self.data, samples)
        self.buffer.n_nodes = self.buffer.n_words = self.buffer.n_trees = 0
        self.stage = AT_START
        for i in range(self.n_threads + 1):
            self.workspaces[i].search.stop = &stop[0]
        while outcome == GROWING and not stop[0]:
            with nogil:
                outcome = self._advance()
            PyErr_CheckSignals()
        self.orders = None      # releases memory for the next samples
        if self.exchange is not None and self.exchange.error is not None:
            raise self.exchange.error
        if outcome == OUT_OF_MEMORY:
            raise MemoryError(f"no memory for growing a tree on {self.data.forest.table.n_rows} rows")
        return None if stop[0] else take_trees(&self.buffer)

    def open_branches(self):
        """Return the branches of the tree just grown, in order, which are left open if rows are distributed.

        Returns
        -------
        list of tuples of the node's number, its number of rows on all workers, the local rows, the node and its mask,
        which `TreeSample` accepts
        """
        return open_branches_of(&self.workspaces[self.n_threads], &self.sample)

    cdef Outcome _advance(self) noexcept nogil:
        """Run the stages of the trees until a check for signals is due; return COMPLETE after the last tree.

        Otherwise return GROWING, or OUT_OF_MEMORY if memory runs out or a reduction failed.
        """
        cdef Outcome outcome = COMPLETE
        cdef const uint8_t* stop = self.workspaces[0].search.stop
        cdef bint is_done
        self.work = WORK_BETWEEN_SIGNALS
        while outcome == COMPLETE and self.buffer.n_trees < self.orders.n and self.work > 0 and not stop[0]:
            if self.stage == AT_START:
                outcome = COMPLETE if self._start_tree() and self._add_root() else OUT_OF_MEMORY
            elif self.stage == IN_TRUNK:
                outcome = self._advance_trunk()
                if outcome == COMPLETE and not self._allocate_branches():
                    outcome = OUT_OF_MEMORY
            elif self.stage == IN_BRANCHES:
                outcome = self._advance_branches()
            else:
                is_done = self._join_branches() and self._sum_nodes() and self._append_tree()
                outcome = COMPLETE if is_done else OUT_OF_MEMORY
            if outcome == COMPLETE:
                self.stage = AT_START if self.stage == AT_JOIN else self.stage + 1
        return GROWING if outcome == COMPLETE and self.buffer.n_trees < self.orders.n else outcome

    cdef bint _start_tree(self) noexcept nogil:
        """Prepare the sample of the next tree: layout, entries, targets, rules; return False if memory runs out."""
        cdef const Order* order = &self.orders.each[self.buffer.n_trees]
        cdef const Forest* forest = &self.data.forest
        self.work -= 2 * (order.end - order.first)
        self.sample.seed, self.sample.n_all = order.seed, order.totals.n_rows
        self.sample.layout = choose_layout(forest, &order.totals, self.data.widest)
        if not self._allocate_sample(order.n_entries):
            return False
        scale_rules(forest, order.totals.total, &self.sample)
        fill_entries(forest, order.weights, order.first, order.end, &self.sample)
        if self.sample.numbers != NULL:
            round_numbers(forest, order.first, order.end, &self.sample)
        return True

    cdef bint _allocate_sample(self, Py_ssize_t n) noexcept nogil:
        """Allocate entries, numbers and search buffers for n entries if needed; return False if memory runs out."""
        cdef const Forest* forest = &self.data.forest
        cdef int32_t i
        n = max(n, <Py_ssize_t>1)
        if self.n_allocated < n or self.allocated.n_words != self.sample.layout.n_words:
            free(self.sample.entries)
            free(self.sample.spare)
            self.n_allocated = 0
            self.sample.entries = <Entry*>malloc(n * sizeof(Entry))
            self.sample.spare = <Entry*>malloc(n * sizeof(Entry))
            if self.sample.entries == NULL or self.sample.spare == NULL:
                return False
            for i in range(self.n_threads + 1):
                if not allocate_search(&self.workspaces[i].search, n):
                    return False
            self.n_allocated, self.allocated = n, self.sample.layout
        if forest.targets.numbers != NULL and not self.sample.layout.packed and self.sample.numbers == NULL:
            self.sample.numbers = <int64_t*>malloc(
                max(forest.table.n_rows, <Py_ssize_t>1) * forest.targets.n_targets * sizeof(int64_t)
            )
            return self.sample.numbers != NULL
        return True

    cdef bint _add_root(self) noexcept nogil:
        """Queue the root of the next tree or of an unfinished branch; return False if memory or a reduction fails."""
        cdef const Order* order = &self.orders.each[self.buffer.n_trees]
        cdef Open root
        cdef int64_t total
        cdef int64_t* numbers = &total
        cdef int32_t i
        memset(&root, 0, sizeof(Open))
        if order.root != NULL:
            root = order.root[0]
            root.begin, root.end = 0, <uint32_t>self.sample.n_entries
        else:
            root.end, root.n_rows = <uint32_t>self.sample.n_entries, self.sample.n_all
            root.key = self.sample.seed
            total = <int64_t>packed_total(&self.sample, root.begin, root.end)
            if not sum_over(self.sample.ranks, &numbers, 1, 1):
                return False
            root.total = <uint64_t>total
            root.lower, root.upper = -INFINITY, INFINITY
            root.n_excluded = order.n_excluded
        for i in range(self.n_threads + 1):
            self.grown[i].n = self.grown[i].n_words = 0
            self.workspaces[i].n_open = 0
        return add_root(&self.workspaces[0], &self.grown[self.n_threads], &root, order.mask)

    cdef Outcome _advance_trunk(self) noexcept nogil:
        """Split nodes above the branches until they are complete or, returning GROWING, a signal check is due."""
        cdef Grown* trunk = &self.grown[self.n_threads]
        if self.data.forest.limits.max_leaves > 0:
            return grow_best_first(&self.workspaces[0], trunk, &self.work)
        return grow_depth_first(&self.workspaces[0], trunk, &self.workspaces[self.n_threads], &self.work)

    cdef bint _allocate_branches(self) noexcept nogil:
        """Allocate a Branch for each open node that the trunk left to branches; return False if memory runs out."""
        free(self.branches)
        self.n_branches = 0
        self.branches = <Branch*>malloc(max(self.workspaces[self.n_threads].n_open, 1) * sizeof(Branch))
        return self.branches != NULL

    cdef Outcome _advance_branches(self) noexcept nogil:
        """Grow branches in parallel until a signal check is due; return GROWING if some are left.

        With several ranks, no branch is grown here. Return OUT_OF_MEMORY on failure.
        """
        cdef const Workspace* roots = &self.workspaces[self.n_threads]
        cdef int32_t i, first = self.n_branches, end = first
        cdef const Forest* forest = &self.data.forest
        cdef Py_ssize_t n_rows = 0, size
        cdef bint is_little
        if self.sample.ranks != NULL:
            return COMPLETE
        while end < roots.n_open and (end == first or self.work > 0):
            size = roots.open[end].end - roots.open[end].begin
            n_rows += size
            self.work -= work_on(forest, size) * halvings(size) // self.n_threads
            end += 1
        is_little = n_rows * forest.limits.features_per_split < THREAD_GRAIN
        dynamic_parallel_for(_grow_branch_piece, <void*>self, end - first, 1 if is_little else self.n_threads)
        for i in range(first, end):
            if self.branches[i].outcome == OUT_OF_MEMORY:
                return OUT_OF_MEMORY
        self.n_branches = end
        return COMPLETE if end == roots.n_open else GROWING

    cdef void _grow_branch(self, int32_t i, int32_t thread) noexcept nogil:
        """Grow branch i depth-first in this thread's nodes; record its range of nodes and outcome in branches[i]."""
        cdef Workspace* roots = &self.workspaces[self.n_threads]
        cdef Workspace* ws = &self.workspaces[thread]
        cdef Grown* grown = &self.grown[thread]
        cdef Branch* branch = &self.branches[i]
        cdef Open root = roots.open[i]
        cdef Py_ssize_t work = <Py_ssize_t>1 << 62
        branch.thread = thread
        branch.first, branch.first_word = grown.n, grown.n_words
        branch.outcome = GROWING if add_root(
            ws, grown, &root, roots.masks + <Py_ssize_t>i * roots.search.n_mask_words
        ) else OUT_OF_MEMORY
        if branch.outcome == GROWING:
            branch.outcome = grow_depth_first(ws, grown, NULL, &work)
        branch.end, branch.end_word = grown.n, grown.n_words

    cdef bint _join_branches(self) noexcept nogil:
        """Append the nodes of all branches to the nodes of the trunk; return False if memory runs out."""
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
            copy_node(tree, grown, branch.first, self.workspaces[self.n_threads].open[i].node, shift, word_shift)
            for k in range(branch.first + 1, branch.end):
                copy_node(tree, grown, k, k + shift, shift, word_shift)
            if branch.end_word > branch.first_word:  # the buffers may be NULL if there are no words
                memcpy(
                    tree.words + tree.n_words, grown.words + branch.first_word,
                    (branch.end_word - branch.first_word) * sizeof(uint32_t)
                )
            tree.n += branch.end - branch.first - 1
            tree.n_words += branch.end_word - branch.first_word
        return True

    cdef bint _append_tree(self) noexcept nogil:
        """Append the tree just grown, with its node values, to self.buffer; return False if memory runs out."""
        cdef const Grown* tree = &self.grown[self.n_threads]
        cdef TreeBuffer* buffer = &self.buffer
        cdef const ForestNode* node
        cdef Py_ssize_t i, to = buffer.n_nodes
        if not reserve_tree(buffer, tree.n, tree.n_words):
            return False
        for i in range(tree.n):
            node = &tree.nodes[i]
            buffer.feature[to + i], buffer.left_child[to + i] = node.feature, node.left_child
            buffer.bin_threshold[to + i], buffer.missing_left[to + i] = node.last_code, node.missing_left
            buffer.category_set[to + i] = node.category_set
            buffer.n_samples[to + i] = <int32_t>node.n_rows
            set_gain(buffer, to + i, node.gain * self.sample.gain_unit)
            if buffer.with_search:
                buffer.n_usable[to + i], buffer.n_groups[to + i] = node.n_usable, node.n_groups
            if self.data.n_squares > 0:
                self._write_squares(i, to + i)
        if tree.n_words > 0:
            memcpy(buffer.words + buffer.n_words, tree.words, tree.n_words * sizeof(uint32_t))
        self._write_values(to)
        close_tree(buffer, tree.n, tree.n_words)
        return True

    cdef bint _sum_nodes(self) noexcept nogil:
        """Compute self.sums, for each node the exact sums of every value and of weights; return False on failure."""
        cdef const Grown* tree = &self.grown[self.n_threads]
        cdef Py_ssize_t n = self.data.n_values + 1
        cdef float64_t largest = 2.0 ** EXACT_BITS / (<float64_t>self.sample.layout.weight_mask + 1)
        cdef int32_t i
        self.work -= self.sample.n_entries
        free(self.sums)
        self.sums = <int64_t*>calloc(tree.n * n, sizeof(int64_t))
        if self.sums == NULL:
            return False
        self.scale = 1.0
        if self.data.forest.targets.numbers != NULL and self.data.widest > 0:
            self.scale = power_of_two_below(largest / self.data.widest)
        for i in range(self.data.n_squares):
            if self.data.ranges[i] > 0:
                self.per_square[i] = power_of_two_below(largest / self.data.ranges[i] / self.data.ranges[i])
        for i in range(tree.n - 1, -1, -1):
            self._sum_node(&tree.nodes[i], self.sums + i * n)
        if not self._nodes_hold_sums() and not sum_over(self.sample.ranks, &self.sums, 1, tree.n * n):
            return False
        return self.data.n_squares == 0 or self._sum_leaf_squares()

    cdef bint _sum_leaf_squares(self) noexcept nogil:
        """Set self.squares to each leaf's weighted sums of (target - minimum)^2; return False on failure."""
        cdef const Grown* tree = &self.grown[self.n_threads]
        cdef int32_t i, t, n = self.data.n_squares
        free(self.squares)
        self.squares = <int64_t*>calloc(<Py_ssize_t>tree.n * n, sizeof(int64_t))
        if self.squares == NULL:
            return False
        for i in range(tree.n):
            if has_squares(&tree.nodes[i]):
                for t in range(n):
                    self.squares[<Py_ssize_t>i * n + t] = self._sum_squares(&tree.nodes[i], t)
        return sum_over(self.sample.ranks, &self.squares, 1, <Py_ssize_t>tree.n * n)

    cdef void _write_values(self, Py_ssize_t to) noexcept nogil:
        """Write each node's weight and values (class shares, means or medians) to the buffer; node 0 goes to `to`."""
        cdef TreeBuffer* buffer = &self.buffer
        cdef int32_t i, k, n_values = self.data.n_values
        cdef const int64_t* sums
        cdef float64_t of_node, value
        for i in range(self.grown[self.n_threads].n):
            sums = self.sums + <Py_ssize_t>i * (n_values + 1)
            of_node = <float64_t>sums[n_values]
            buffer.weight[to + i] = <float32_t>(of_node / self.sample.layout.weight_scale)
            for k in range(n_values):
                value = self._node_value(i, k, <float64_t>sums[k] / of_node / self.scale)
                if buffer.narrow:
                    (<float32_t*>buffer.value)[(to + i) * n_values + k] = <float32_t>value
                else:
                    (<float64_t*>buffer.value)[(to + i) * n_values + k] = value
        free(self.sums)
        self.sums = NULL

    cdef inline void _write_squares(self, int32_t node, Py_ssize_t to) noexcept nogil:
        """Write a leaf's sums of squared deviations from its mean to buffer node `to`; 0 for other nodes."""
        cdef int32_t t, n = self.data.n_squares
        cdef const int64_t* sums = self.sums + <Py_ssize_t>node * (self.data.n_values + 1)
        cdef bint is_needed = has_squares(&self.grown[self.n_threads].nodes[node])
        cdef float64_t number, squares
        for t in range(n):
            self.buffer.squares[to * n + t] = 0.0
        for t in range(n if is_needed else 0):
            squares = <float64_t>self.squares[<Py_ssize_t>node * n + t] / self.per_square[t]
            number = <float64_t>sums[t] / self.scale
            number = squares - number * number / <float64_t>sums[self.data.n_values]
            self.buffer.squares[to * n + t] = max(number, 0.0) / self.sample.layout.weight_scale

    cdef int64_t _sum_squares(self, const ForestNode* node, int32_t target) noexcept nogil:
        """Return the weighted sum of (number - minimum)^2 of one target over a node's local rows, in fixed point."""
        cdef const Targets* targets = &self.data.forest.targets
        cdef int64_t squares = 0
        cdef float64_t number
        cdef Py_ssize_t i
        for i in range(node.begin, node.end):
            number = targets.numbers[<Py_ssize_t>self.sample.entries[i].row * targets.n_targets + target]
            number -= targets.minimum[target]
            squares += entry_weight(&self.sample, i) * llrint(number * number * self.per_square[target])
        return squares

    cdef bint _nodes_hold_sums(self) noexcept nogil:
        """Return True if sums of nodes follow from their packed totals: for a single target of two classes."""
        return (
            self.sample.layout.packed and self.data.forest.targets.classes != NULL
            and self.data.forest.targets.n_stats == 2
        )

    cdef float64_t _node_value(self, int32_t node, int32_t column, float64_t mean) noexcept nogil:
        """Return the value of a node in `column`: its median, if kept, or else `mean` plus the target's minimum."""
        cdef const Grown* tree = &self.grown[self.n_threads]
        if tree.n_values > 0:
            return tree.medians[<Py_ssize_t>node * tree.n_values + column]
        if self.data.forest.targets.numbers != NULL:
            return mean + self.data.forest.targets.minimum[column]
        return mean

    cdef void _sum_node(self, const ForestNode* node, int64_t* sums) noexcept nogil:
        """Write the sums of a node, whose children are done, from its packed total, its children or its rows."""
        cdef Py_ssize_t n = self.data.n_values + 1, i, k
        cdef const int64_t* children = self.sums + node.left_child * n
        if self._nodes_hold_sums():
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
        """Add the weight of an entry (by index) and its weighted numbers, or its weight by class, to `sums`."""
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
                sums[t] += weight * llrint(number * self.scale)
