"""Rows that share leaves: quantiles over the training rows in a row's leaves, and proximities.

A query row's neighbours are gathered in a dense array of weights beside a list of those that are not zero, which is
cleared by that list: work is in proportion to the neighbours, not to all rows.
"""

import numpy as np

from libc.stdlib cimport calloc, free, qsort
from libc.stdint cimport int32_t, int64_t, uint32_t

from fastens.engine.team cimport share_pieces

cdef enum:
    ROWS = 16           # that a thread looks at before it takes others


cdef struct Leaves:
    # The members of all leaves of all trees: those of node v of tree t stand from starts[first_node[t] + v], and memory
    # for each thread.
    const int64_t* first_node
    const int64_t* starts
    const uint32_t* members
    const float* weights            # NULL: 1 each
    Py_ssize_t n_trees
    Py_ssize_t n_members
    char* memory


cdef struct Gathered:
    # Sums of weights by member, and the members whose sum is not 0.
    double* sums
    uint32_t* touched
    Py_ssize_t n_touched


cdef int ascending(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const uint32_t*> a)[0], y = (<const uint32_t*> b)[0]
    return (x > y) - (x < y)


cdef inline void gather(const Leaves* leaves, const int32_t* leaf_of_tree, bint share, Gathered* found) noexcept nogil:
    # Add up the weights of the members of a row's leaves; with `share`, every leaf's weights sum to 1.
    cdef Py_ssize_t t
    cdef int64_t e, first, last
    cdef uint32_t member
    cdef double total, weight
    found.n_touched = 0
    for t in range(leaves.n_trees):
        first = leaves.starts[leaves.first_node[t] + leaf_of_tree[t]]
        last = leaves.starts[leaves.first_node[t] + leaf_of_tree[t] + 1]
        total = 0
        for e in range(first, last):
            total += leaves.weights[e] if leaves.weights != NULL else 1.0
        for e in range(first, last):
            member = leaves.members[e]
            weight = leaves.weights[e] if leaves.weights != NULL else 1.0
            if found.sums[member] == 0:
                found.touched[found.n_touched] = member
                found.n_touched += 1
            found.sums[member] += weight / total if share else weight


cdef inline void clear(Gathered* found) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(found.n_touched):
        found.sums[found.touched[i]] = 0


cdef struct Levels:
    const Leaves* leaves
    const int32_t* leaf         # of each row and tree
    Py_ssize_t n_rows
    const double* values
    const double* levels
    Py_ssize_t n_levels
    double* out


cdef inline void levels_of(Gathered* found, const Levels* asked, double* out) noexcept nogil:
    # The smallest value that has at least a share `level` of the weight at or below it; members are ranks of values.
    cdef Py_ssize_t i = 0, k
    cdef double total = 0, reached
    qsort(found.touched, found.n_touched, sizeof(uint32_t), ascending)
    for i in range(found.n_touched):
        total += found.sums[found.touched[i]]
    i = 0
    reached = found.sums[found.touched[0]]
    for k in range(asked.n_levels):
        # Sums of shares such as 1/3 miss their level by rounding.
        while reached < asked.levels[k] * total * (1 - 1e-12) and i + 1 < found.n_touched:
            i += 1
            reached += found.sums[found.touched[i]]
        out[k] = asked.values[found.touched[i]]


cdef Leaves leaves_from(leaves, Py_ssize_t n_members, int n_threads):
    cdef const int64_t[::1] first_node = leaves.first_node, starts = leaves.starts
    cdef const uint32_t[::1] members = leaves.members
    cdef const float[::1] weights = leaves.weights
    cdef const float* given = NULL if weights is None else &weights[0]
    cdef char* memory = <char*> calloc(n_threads, n_members * (sizeof(double) + sizeof(uint32_t)) + 64)
    if memory == NULL:
        raise MemoryError(f"cannot allocate memory for {n_members} rows and {n_threads} threads")
    return Leaves(&first_node[0], &starts[0], &members[0], given, first_node.shape[0] - 1, n_members, memory)


cdef Gathered room_of(const Leaves* leaves, int thread) noexcept nogil:
    cdef char* start = leaves.memory + thread * (leaves.n_members * (sizeof(double) + sizeof(uint32_t)) + 64)
    start += (8 - <size_t> start % 8) % 8
    return Gathered(<double*> start, <uint32_t*> (start + leaves.n_members * sizeof(double)), 0)


def leaf_quantiles(
    leaves, const int32_t[:, ::1] leaf, const double[::1] values, const double[::1] levels, int n_threads
):
    """Return the quantiles of the values in each row's leaves, every tree counting the same.

    Parameters
    ----------
    leaves : object with `first_node`, `starts`, `members` (ranks of values), `weights`
    leaf : int32 array of shape (n_rows, n_trees)
        The leaf of each row in each tree.
    values : float64 array
        The distinct values, ascending.
    levels : float64 array
        Ascending levels.
    """
    cdef double[:, ::1] out = np.empty((leaf.shape[0], levels.shape[0]))
    cdef Leaves all_leaves = leaves_from(leaves, values.shape[0], n_threads)
    cdef Levels asked
    if leaf.shape[0]:
        asked = Levels(
            &all_leaves, &leaf[0, 0], leaf.shape[0], &values[0], &levels[0], levels.shape[0], &out[0, 0])
        with nogil:
            share_pieces(quantiles_piece, &asked, (asked.n_rows + ROWS - 1) // ROWS, n_threads)
    free(all_leaves.memory)
    return np.asarray(out)


cdef void quantiles_piece(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    cdef const Levels* asked = <const Levels*> job
    cdef Gathered found = room_of(asked.leaves, thread)
    cdef Py_ssize_t row
    for row in range(piece * ROWS, min((piece + 1) * ROWS, asked.n_rows)):
        gather(asked.leaves, asked.leaf + row * asked.leaves.n_trees, True, &found)
        levels_of(&found, asked, asked.out + row * asked.n_levels)
        clear(&found)


# ------------------------------------------------------------------------------------------------------- proximities

cdef struct Neighbour:
    double shared
    uint32_t row


cdef struct Sharing:
    const Leaves* leaves
    const int32_t* leaf         # of each row and tree
    Py_ssize_t n_rows
    Py_ssize_t n_most
    int64_t* indptr             # first how many neighbours each row has, then where they begin
    Neighbour* sorted           # room in each thread
    uint32_t* indices
    int32_t* counts


cdef int nearest_first(const void* a, const void* b) noexcept nogil:
    cdef const Neighbour* x = <const Neighbour*> a
    cdef const Neighbour* y = <const Neighbour*> b
    if x.shared != y.shared:
        return 1 if x.shared < y.shared else -1
    return (x.row > y.row) - (x.row < y.row)


def shared_leaves(leaves, const int32_t[:, ::1] leaf, Py_ssize_t n_members, Py_ssize_t n_most, int n_threads):
    """Return, for each row, the rows that share most leaves with it, and in how many trees they do.

    Parameters
    ----------
    leaves : object with `first_node`, `starts`, `members` (rows), `weights` (None)
    leaf : int32 array of shape (n_rows, n_trees)
    n_members : int
        How many rows there are among the members.
    n_most : int
        How many neighbours a row has at most.

    Returns
    -------
    indptr, indices, counts : arrays of a CSR matrix, a row's nearest neighbours first
    """
    cdef Py_ssize_t n_rows = leaf.shape[0]
    cdef int64_t[::1] indptr = np.zeros(n_rows + 1, dtype=np.int64)
    cdef uint32_t[::1] indices
    cdef int32_t[::1] counts
    cdef Leaves all_leaves = leaves_from(leaves, n_members, n_threads)
    cdef Sharing job = Sharing(&all_leaves, NULL, n_rows, n_most, &indptr[0], NULL, NULL, NULL)
    try:
        job.sorted = <Neighbour*> calloc(n_threads * n_members, sizeof(Neighbour))
        if job.sorted == NULL:
            raise MemoryError(f"cannot allocate memory for {n_members} rows and {n_threads} threads")
        if n_rows:
            job.leaf = &leaf[0, 0]
            with nogil:
                share_pieces(count_piece, &job, (n_rows + ROWS - 1) // ROWS, n_threads)
        np.cumsum(indptr, out=np.asarray(indptr))
        indices = np.empty(indptr[n_rows], dtype=np.uint32)
        counts = np.empty(indptr[n_rows], dtype=np.int32)
        if indices.shape[0]:
            job.indices, job.counts = &indices[0], &counts[0]
            with nogil:
                share_pieces(nearest_piece, &job, (n_rows + ROWS - 1) // ROWS, n_threads)
    finally:
        free(all_leaves.memory)
        free(job.sorted)
    return np.asarray(indptr), np.asarray(indices), np.asarray(counts)


cdef void count_piece(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    cdef const Sharing* asked = <const Sharing*> job
    cdef Gathered found = room_of(asked.leaves, thread)
    cdef Py_ssize_t row
    for row in range(piece * ROWS, min((piece + 1) * ROWS, asked.n_rows)):
        gather(asked.leaves, asked.leaf + row * asked.leaves.n_trees, False, &found)
        asked.indptr[row + 1] = min(asked.n_most, found.n_touched)
        clear(&found)


cdef void nearest_piece(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    cdef const Sharing* asked = <const Sharing*> job
    cdef Gathered found = room_of(asked.leaves, thread)
    cdef Neighbour* own = asked.sorted + thread * asked.leaves.n_members
    cdef Py_ssize_t row, i
    cdef int64_t start
    for row in range(piece * ROWS, min((piece + 1) * ROWS, asked.n_rows)):
        start = asked.indptr[row]
        gather(asked.leaves, asked.leaf + row * asked.leaves.n_trees, False, &found)
        for i in range(found.n_touched):
            own[i] = Neighbour(found.sums[found.touched[i]], found.touched[i])
        qsort(own, found.n_touched, sizeof(Neighbour), nearest_first)
        for i in range(asked.indptr[row + 1] - start):
            asked.indices[start + i] = own[i].row
            asked.counts[start + i] = <int32_t> own[i].shared
        clear(&found)
