"""Rows that share leaves, midpoints of nodes, weighted medians, and expansion of stored trees."""

import numpy as np
from libc.stdlib cimport calloc, free, qsort
from fastens.engine.structs cimport code_t, float32_t, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint8_t, value_t
from fastens.engine.thread_pool cimport dynamic_parallel_for, parallel_for_until_interrupted
from fastens.engine.splits.goes_left cimport code_goes_left


cdef enum:
    ROWS = 16           # rows that a thread takes at a time


cdef struct Leaves:
    # The members of all leaves of all trees, and the workspace of each thread. The members of node v of tree t start at
    # index starts[first_node[t] + v].
    const int64_t* first_node
    const int64_t* starts
    const uint32_t* members
    const float* weights            # NULL if all weights are 1
    Py_ssize_t n_trees
    Py_ssize_t n_members
    char* memory


cdef struct Gathered:
    # Sums of weights by member, and the members with non-zero sums.
    double* sums
    uint32_t* touched
    Py_ssize_t n_touched


cdef int ascending(const void* a, const void* b) noexcept nogil:
    """Compare two uint32 numbers for qsort in ascending order."""
    cdef uint32_t x = (<const uint32_t*> a)[0], y = (<const uint32_t*> b)[0]
    return (x > y) - (x < y)


cdef inline void gather_members(
    const Leaves* leaves, const int32_t* leaf_of_tree, bint normalise, Gathered* gathered
) noexcept nogil:
    """Sum each member's weights over a row's leaves into `gathered`; `leaf_of_tree` is the row's leaf in each tree.

    If `normalise`, the weights of each leaf are first scaled to sum to 1.
    """
    cdef Py_ssize_t t
    cdef int64_t e, first, last
    cdef uint32_t member
    cdef double total, weight
    gathered.n_touched = 0
    for t in range(leaves.n_trees):
        first = leaves.starts[leaves.first_node[t] + leaf_of_tree[t]]
        last = leaves.starts[leaves.first_node[t] + leaf_of_tree[t] + 1]
        total = 0
        for e in range(first, last):
            total += leaves.weights[e] if leaves.weights != NULL else 1.0
        for e in range(first, last):
            member = leaves.members[e]
            weight = leaves.weights[e] if leaves.weights != NULL else 1.0
            if gathered.sums[member] == 0:
                gathered.touched[gathered.n_touched] = member
                gathered.n_touched += 1
            gathered.sums[member] += weight / total if normalise else weight


cdef inline void clear_sums(Gathered* gathered) noexcept nogil:
    """Reset the sums of the touched members to 0."""
    cdef Py_ssize_t i
    for i in range(gathered.n_touched):
        gathered.sums[gathered.touched[i]] = 0


cdef struct Levels:
    const Leaves* leaves
    const int32_t* leaf         # by row and tree
    Py_ssize_t n_rows
    const double* values
    const double* levels
    Py_ssize_t n_levels
    double* out


cdef inline void write_quantiles(Gathered* gathered, const Levels* request, double* out) noexcept nogil:
    """Write for each level the smallest value with at least this share of the weight at or below it.

    Members are ranks of values, and their weights are in `gathered`, whose touched members this sorts.
    """
    cdef Py_ssize_t i = 0, k
    cdef double total = 0, reached
    qsort(gathered.touched, gathered.n_touched, sizeof(uint32_t), ascending)
    for i in range(gathered.n_touched):
        total += gathered.sums[gathered.touched[i]]
    i = 0
    reached = gathered.sums[gathered.touched[0]]
    for k in range(request.n_levels):
        # Tolerance, because rounded sums of shares such as 1/3 may miss the level.
        while reached < request.levels[k] * total * (1 - 1e-12) and i + 1 < gathered.n_touched:
            i += 1
            reached += gathered.sums[gathered.touched[i]]
        out[k] = request.values[gathered.touched[i]]


cdef Leaves make_leaves(leaves, Py_ssize_t n_members, int n_threads):
    """Return pointers to the arrays of `leaves`, and a workspace for each thread, which the caller frees."""
    cdef const int64_t[::1] first_node = leaves.first_node, starts = leaves.starts
    cdef const uint32_t[::1] members = leaves.members
    cdef const float[::1] weights = leaves.weights
    cdef const float* weight_data = NULL if weights is None else &weights[0]
    cdef char* memory = <char*> calloc(n_threads, n_members * (sizeof(double) + sizeof(uint32_t)) + 64)
    if memory == NULL:
        raise MemoryError(f"cannot allocate memory for {n_members} rows and {n_threads} threads")
    return Leaves(&first_node[0], &starts[0], &members[0], weight_data, first_node.shape[0] - 1, n_members, memory)


cdef Gathered workspace_of(const Leaves* leaves, int thread) noexcept nogil:
    """Return the sums and the list of touched members of a thread, all 0."""
    cdef char* start = leaves.memory + thread * (leaves.n_members * (sizeof(double) + sizeof(uint32_t)) + 64)
    start += (8 - <size_t> start % 8) % 8
    return Gathered(<double*> start, <uint32_t*> (start + leaves.n_members * sizeof(double)), 0)


def leaf_quantiles(
    leaves, const int32_t[:, ::1] leaf, const double[::1] values, const double[::1] levels, int n_threads
):
    """Return the quantiles of the values in each row's leaves, with equal weight for every tree.

    Parameters
    ----------
    leaves : object with `first_node`, `starts`, `members` (ranks of values), `weights`
    leaf : int32 array of shape (n_rows, n_trees)
        Leaf of each row in each tree.
    values : float64 array
        Distinct values in ascending order.
    levels : float64 array
        Levels in ascending order.
    """
    cdef double[:, ::1] out = np.empty((leaf.shape[0], levels.shape[0]))
    cdef Leaves all_leaves = make_leaves(leaves, values.shape[0], n_threads)
    cdef Levels request
    if leaf.shape[0]:
        request = Levels(
            &all_leaves, &leaf[0, 0], leaf.shape[0], &values[0], &levels[0], levels.shape[0], &out[0, 0])
        with nogil:
            dynamic_parallel_for(write_block_quantiles, &request, (request.n_rows + ROWS - 1) // ROWS, n_threads)
    free(all_leaves.memory)
    return np.asarray(out)


cdef void write_block_quantiles(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    """Write the quantiles of the rows of one block; a parallel task of `leaf_quantiles`."""
    cdef const Levels* request = <const Levels*> job
    cdef Gathered gathered = workspace_of(request.leaves, thread)
    cdef Py_ssize_t row
    for row in range(piece * ROWS, min((piece + 1) * ROWS, request.n_rows)):
        gather_members(request.leaves, request.leaf + row * request.leaves.n_trees, True, &gathered)
        write_quantiles(&gathered, request, request.out + row * request.n_levels)
        clear_sums(&gathered)


# ------------------------------------------------------------------------------------------------------- proximities

cdef struct Neighbour:
    double shared
    uint32_t row


cdef struct Sharing:
    const Leaves* leaves
    const int32_t* leaf         # by row and tree
    Py_ssize_t n_rows
    Py_ssize_t n_most
    int64_t* indptr             # first the number of neighbours of each row, then their offsets
    Neighbour* sorted           # workspace of each thread
    uint32_t* indices
    int32_t* counts


cdef int nearest_first(const void* a, const void* b) noexcept nogil:
    """Compare two neighbours for qsort: by descending number of shared leaves, then by row."""
    cdef const Neighbour* x = <const Neighbour*> a
    cdef const Neighbour* y = <const Neighbour*> b
    if x.shared != y.shared:
        return 1 if x.shared < y.shared else -1
    return (x.row > y.row) - (x.row < y.row)


def shared_leaves(leaves, const int32_t[:, ::1] leaf, Py_ssize_t n_members, Py_ssize_t n_most, int n_threads):
    """Return for each row the rows that share the most leaves with it, and in how many trees.

    Parameters
    ----------
    leaves : object with `first_node`, `starts`, `members` (rows), `weights` (None)
    leaf : int32 array of shape (n_rows, n_trees)
    n_members : int
        Number of rows among the members.
    n_most : int
        Maximum number of neighbours of a row.

    Returns
    -------
    indptr, indices, counts : arrays of a CSR matrix, with the nearest neighbours of a row first
    """
    cdef Py_ssize_t n_rows = leaf.shape[0]
    cdef int64_t[::1] indptr = np.zeros(n_rows + 1, dtype=np.int64)
    cdef uint32_t[::1] indices
    cdef int32_t[::1] counts
    cdef Leaves all_leaves = make_leaves(leaves, n_members, n_threads)
    cdef Sharing job = Sharing(&all_leaves, NULL, n_rows, n_most, &indptr[0], NULL, NULL, NULL)
    try:
        job.sorted = <Neighbour*> calloc(n_threads * n_members, sizeof(Neighbour))
        if job.sorted == NULL:
            raise MemoryError(f"cannot allocate memory for {n_members} rows and {n_threads} threads")
        if n_rows:
            job.leaf = &leaf[0, 0]
            with nogil:
                dynamic_parallel_for(count_block_neighbours, &job, (n_rows + ROWS - 1) // ROWS, n_threads)
        np.cumsum(indptr, out=np.asarray(indptr))
        indices = np.empty(indptr[n_rows], dtype=np.uint32)
        counts = np.empty(indptr[n_rows], dtype=np.int32)
        if indices.shape[0]:
            job.indices, job.counts = &indices[0], &counts[0]
            with nogil:
                dynamic_parallel_for(write_block_neighbours, &job, (n_rows + ROWS - 1) // ROWS, n_threads)
    finally:
        free(all_leaves.memory)
        free(job.sorted)
    return np.asarray(indptr), np.asarray(indices), np.asarray(counts)


cdef void count_block_neighbours(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    """Write the number of neighbours of each row of one block; the first pass of `shared_leaves`."""
    cdef const Sharing* request = <const Sharing*> job
    cdef Gathered gathered = workspace_of(request.leaves, thread)
    cdef Py_ssize_t row
    for row in range(piece * ROWS, min((piece + 1) * ROWS, request.n_rows)):
        gather_members(request.leaves, request.leaf + row * request.leaves.n_trees, False, &gathered)
        request.indptr[row + 1] = min(request.n_most, gathered.n_touched)
        clear_sums(&gathered)


cdef void write_block_neighbours(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    """Write the nearest neighbours of each row of one block; the second pass of `shared_leaves`."""
    cdef const Sharing* request = <const Sharing*> job
    cdef Gathered gathered = workspace_of(request.leaves, thread)
    cdef Neighbour* neighbours = request.sorted + thread * request.leaves.n_members
    cdef Py_ssize_t row, i
    cdef int64_t start
    for row in range(piece * ROWS, min((piece + 1) * ROWS, request.n_rows)):
        start = request.indptr[row]
        gather_members(request.leaves, request.leaf + row * request.leaves.n_trees, False, &gathered)
        for i in range(gathered.n_touched):
            neighbours[i] = Neighbour(gathered.sums[gathered.touched[i]], gathered.touched[i])
        qsort(neighbours, gathered.n_touched, sizeof(Neighbour), nearest_first)
        for i in range(request.indptr[row + 1] - start):
            request.indices[start + i] = neighbours[i].row
            request.counts[start + i] = <int32_t> neighbours[i].shared
        clear_sums(&gathered)


cdef enum:
    MIDPOINT_ROWS = 1 << 12                      # rows processed at a time


cdef struct Splits:
    const int32_t* feature
    const int32_t* left_child
    const int32_t* category_set
    const uint32_t* words
    const uint16_t* bin_threshold
    const uint8_t* missing_left


cdef void _update_row_ranges(
    const Splits* splits, const code_t* codes, const value_t* x, Py_ssize_t stride, float64_t* low, float64_t* high
) noexcept nogil:
    """Raise `low` or lower `high` of the numeric splits on a row's path to the row's value of the split feature."""
    cdef int32_t node = 0, feature
    cdef uint32_t code
    cdef float64_t value
    cdef bint is_left
    while splits.left_child[node] > 0:
        feature = splits.feature[node]
        code = codes[feature]
        is_left = code_goes_left(
            splits.words, splits.category_set[node], splits.bin_threshold[node], splits.missing_left[node], code
        )
        if splits.category_set[node] < 0 and code > 0:
            value = (<const value_t*> (<const char*> x + feature * stride))[0]
            if is_left:
                low[node] = max(low[node], value)
            else:
                high[node] = min(high[node], value)
        node = splits.left_child[node] + (not is_left)


cdef struct RangeUpdate:
    # The rows that are processed, and the extremes of each node, separately for each thread.
    Splits splits
    const uint8_t* records
    Py_ssize_t record_stride
    int32_t code_size
    const char* x
    Py_ssize_t row_stride           # stride of the values, in bytes
    Py_ssize_t column_stride
    int32_t value_size
    Py_ssize_t n_rows
    float64_t* low
    float64_t* high
    Py_ssize_t n_nodes


cdef inline void _update_ranges(
    const RangeUpdate* rows, Py_ssize_t row, const value_t* x, float64_t* low, float64_t* high
) noexcept nogil:
    """At each numeric split on a row's path, raise `low` to its value if it goes left, else lower `high` to it."""
    cdef const uint8_t* record = rows.records + row * rows.record_stride
    if rows.code_size == 1:
        _update_row_ranges(&rows.splits, record, x, rows.column_stride, low, high)
    else:
        _update_row_ranges(&rows.splits, <const uint16_t*> record, x, rows.column_stride, low, high)


cdef void _update_block_ranges(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    """Update this thread's `low` and `high` by the rows of one block."""
    cdef const RangeUpdate* rows = <const RangeUpdate*> job
    cdef float64_t* low = rows.low + thread * rows.n_nodes
    cdef float64_t* high = rows.high + thread * rows.n_nodes
    cdef const char* x
    cdef Py_ssize_t row
    for row in range(piece * MIDPOINT_ROWS, min((piece + 1) * MIDPOINT_ROWS, rows.n_rows)):
        x = rows.x + row * rows.row_stride
        if rows.value_size == sizeof(float32_t):
            _update_ranges(rows, row, <const float32_t*> x, low, high)
        else:
            _update_ranges(rows, row, <const float64_t*> x, low, high)


def update_split_ranges(
    tree, const uint8_t[:, ::1] records, int code_size, const value_t[:, :] X, float64_t[:, ::1] low,
    float64_t[:, ::1] high
):
    """Raise `low` to the largest value that goes left at each threshold; lower `high` to the smallest on the right.

    Parameters
    ----------
    tree : Tree
        The tree.
    records : uint8 array
        Codes of the rows, row by row.
    code_size : int
        Bytes per code.
    X : float32 or float64 array of shape (n_rows, n_features)
        Values of the rows.
    low, high : float64 arrays of shape (n_threads, n_nodes)
        Extremes of the rows of each thread.
    """
    cdef const int32_t[::1] feature = tree.feature, left_child = tree.left_child, category_set = tree.category_set
    cdef const uint16_t[::1] bin_threshold = tree.bin_threshold
    cdef const uint8_t[::1] missing_left = tree.missing_left
    cdef const uint32_t[::1] words = tree.category_words if len(tree.category_words) else np.zeros(1, np.uint32)
    cdef RangeUpdate rows
    rows.splits = Splits(
        &feature[0], &left_child[0], &category_set[0], &words[0], &bin_threshold[0], &missing_left[0]
    )
    rows.records, rows.record_stride, rows.code_size = &records[0, 0], records.shape[1], code_size
    rows.x, rows.row_stride, rows.column_stride = <const char*> &X[0, 0], X.strides[0], X.strides[1]
    rows.value_size, rows.n_rows = sizeof(value_t), X.shape[0]
    rows.low, rows.high, rows.n_nodes = &low[0, 0], &high[0, 0], low.shape[1]
    with nogil:
        parallel_for_until_interrupted(
            _update_block_ranges, &rows, (rows.n_rows + MIDPOINT_ROWS - 1) // MIDPOINT_ROWS, <int32_t> low.shape[0]
        )


cdef enum:
    ROW_BLOCK = 256


cdef void _write_medians(
    const int32_t* ranks, const float64_t* weights, Py_ssize_t n_rows, Py_ssize_t n_values, float64_t half,
    float64_t* cells, int32_t* out,
) noexcept nogil:
    """Write each row's lowest rank with at least `half` of the weight at or below it to `out`.

    `ranks` has shape (n_rows, n_values), and `weights` has one weight per value. `cells`, one per rank, must be 0 and
    are 0 again afterwards.
    """
    cdef Py_ssize_t i, t
    cdef int32_t rank
    cdef float64_t below
    for i in range(n_rows):
        for t in range(n_values):
            cells[ranks[i * n_values + t]] += weights[t]
        rank, below = 0, cells[0]
        while below < half:
            rank += 1
            below += cells[rank]
        out[i] = rank
        for t in range(n_values):
            cells[ranks[i * n_values + t]] = 0


cdef struct Medians:
    const int32_t* ranks
    const float64_t* weights
    Py_ssize_t n_rows
    Py_ssize_t n_values
    float64_t half
    float64_t* cells            # n_ranks for each thread
    Py_ssize_t n_ranks
    int32_t* out


cdef void _write_block_medians(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    """Write the medians of the rows of one block; a parallel task of `rank_medians`."""
    cdef const Medians* m = <const Medians*> job
    cdef Py_ssize_t first = block * ROW_BLOCK
    _write_medians(
        m.ranks + first * m.n_values, m.weights, min(<Py_ssize_t> ROW_BLOCK, m.n_rows - first), m.n_values, m.half,
        m.cells + thread * m.n_ranks, m.out + first,
    )


def rank_medians(
    const int32_t[:, ::1] ranks, const float64_t[::1] weights, int32_t n_ranks, double half, int32_t[::1] out,
    int n_threads
):
    """Write for each row the lowest rank with at least `half` of the weight at or below it to `out`.

    ranks has shape (n_rows, n_values) with entries below n_ranks, and weights holds the weights of the values. `half`
    is slightly less than half of their sum, so that rounding errors do not matter.
    """
    cdef Medians medians
    if ranks.shape[0] == 0:
        return
    medians = Medians(&ranks[0, 0], &weights[0], ranks.shape[0], ranks.shape[1], half, NULL, n_ranks, &out[0])
    medians.cells = <float64_t*> calloc(n_threads * <Py_ssize_t> n_ranks, sizeof(float64_t))
    if medians.cells == NULL:
        raise MemoryError("no memory for the weights of the ranks")
    with nogil:
        dynamic_parallel_for(_write_block_medians, &medians, (medians.n_rows + ROW_BLOCK - 1) // ROW_BLOCK, n_threads)
    free(medians.cells)


ctypedef fused number_t:
    int64_t
    float32_t
    float64_t


def sum_up(const int64_t[::1] node_offsets, const int32_t[::1] left_child, number_t[::1] values):
    """Set `values` of every inner node to the sum of its children's values, from the leaves upwards.

    `node_offsets` holds the first node of each tree and the number of nodes. Children must follow their parents.
    """
    cdef Py_ssize_t tree, node, root, child
    with nogil:
        for tree in range(node_offsets.shape[0] - 2, -1, -1):
            root = node_offsets[tree]
            for node in range(node_offsets[tree + 1] - 1, root - 1, -1):
                if left_child[node] > 0:
                    child = root + left_child[node]
                    values[node] = values[child] + values[child + 1]
