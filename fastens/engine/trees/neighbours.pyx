"""Rows that share leaves: quantiles over the training rows in a row's leaves, and proximities.

A query row's neighbours are gathered in a dense array of weights beside a list of those that are not zero, which is
cleared by that list: work is in proportion to the neighbours, not to all rows.
"""

import numpy as np

from cython.parallel cimport prange, threadid
from libc.stdlib cimport calloc, free, qsort
from libc.stdint cimport int32_t, int64_t, uint32_t


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


cdef inline void levels_of(
    Gathered* found, const double[::1] values, const double[::1] levels, double* out
) noexcept nogil:
    # The smallest value that has at least a share `level` of the weight at or below it; members are ranks of values.
    cdef Py_ssize_t i = 0, k
    cdef double total = 0, reached
    qsort(found.touched, found.n_touched, sizeof(uint32_t), ascending)
    for i in range(found.n_touched):
        total += found.sums[found.touched[i]]
    i = 0
    reached = found.sums[found.touched[0]]
    for k in range(levels.shape[0]):
        # Sums of shares such as 1/3 miss their level by rounding.
        while reached < levels[k] * total * (1 - 1e-12) and i + 1 < found.n_touched:
            i += 1
            reached += found.sums[found.touched[i]]
        out[k] = values[found.touched[i]]


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
    cdef Leaves all_leaves = leaves_from(leaves, values.shape[0], n_threads)
    cdef Py_ssize_t row, n_rows = leaf.shape[0]
    cdef double[:, ::1] out = np.empty((n_rows, levels.shape[0]))
    with nogil:
        for row in prange(
            n_rows, num_threads=n_threads, schedule="dynamic", chunksize=16, use_threads_if=n_threads > 1
        ):
            quantiles_of_row(&all_leaves, &leaf[row, 0], values, levels, &out[row, 0], threadid())
    free(all_leaves.memory)
    return np.asarray(out)


cdef void quantiles_of_row(
    const Leaves* leaves, const int32_t* leaf, const double[::1] values, const double[::1] levels, double* out,
    int thread,
) noexcept nogil:
    cdef Gathered found = room_of(leaves, thread)
    gather(leaves, leaf, True, &found)
    levels_of(&found, values, levels, out)
    clear(&found)


# ------------------------------------------------------------------------------------------------------- proximities

cdef struct Neighbour:
    double shared
    uint32_t row


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
    cdef Leaves all_leaves = leaves_from(leaves, n_members, n_threads)
    cdef Py_ssize_t row, n_rows = leaf.shape[0]
    cdef int64_t[::1] indptr = np.zeros(n_rows + 1, dtype=np.int64)
    cdef uint32_t[::1] indices
    cdef int32_t[::1] counts
    cdef Neighbour* sorted = <Neighbour*> calloc(n_threads * n_members, sizeof(Neighbour))
    if sorted == NULL:
        free(all_leaves.memory)
        raise MemoryError(f"cannot allocate memory for {n_members} rows and {n_threads} threads")
    with nogil:
        for row in prange(
            n_rows, num_threads=n_threads, schedule="dynamic", chunksize=16, use_threads_if=n_threads > 1
        ):
            indptr[row + 1] = min(n_most, n_sharing(&all_leaves, &leaf[row, 0], threadid()))
    np.cumsum(indptr, out=np.asarray(indptr))
    indices = np.empty(indptr[n_rows], dtype=np.uint32)
    counts = np.empty(indptr[n_rows], dtype=np.int32)
    with nogil:
        for row in prange(
            n_rows, num_threads=n_threads, schedule="dynamic", chunksize=16, use_threads_if=n_threads > 1
        ):
            if indptr[row + 1] > indptr[row]:
                nearest(
                    &all_leaves, &leaf[row, 0], threadid(), sorted, indptr[row + 1] - indptr[row],
                    &indices[indptr[row]], &counts[indptr[row]])
    free(all_leaves.memory)
    free(sorted)
    return np.asarray(indptr), np.asarray(indices), np.asarray(counts)


cdef Py_ssize_t n_sharing(const Leaves* leaves, const int32_t* leaf, int thread) noexcept nogil:
    cdef Gathered found = room_of(leaves, thread)
    gather(leaves, leaf, False, &found)
    clear(&found)
    return found.n_touched


cdef void nearest(
    const Leaves* leaves, const int32_t* leaf, int thread, Neighbour* sorted, Py_ssize_t n_most, uint32_t* rows,
    int32_t* counts,
) noexcept nogil:
    cdef Gathered found = room_of(leaves, thread)
    cdef Neighbour* own = sorted + thread * leaves.n_members
    cdef Py_ssize_t i
    gather(leaves, leaf, False, &found)
    for i in range(found.n_touched):
        own[i] = Neighbour(found.sums[found.touched[i]], found.touched[i])
    qsort(own, found.n_touched, sizeof(Neighbour), nearest_first)
    for i in range(n_most):
        rows[i] = own[i].row
        counts[i] = <int32_t> own[i].shared
    clear(&found)
