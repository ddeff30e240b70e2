"""Weakest-link pruning: the complexity parameter alpha at which each branch is cut."""

import numpy as np

from fastens.engine.structs cimport float64_t, int32_t, uint8_t

cdef enum:
    NONE = -1


cdef struct Links:
    # By node, a max-heap over the splits below it that are cut before it is. `left` and `right` are its links.
    float64_t* alpha            # the alpha at which the node's branch is cut
    float64_t* gain             # what the branch gains by then
    float64_t* n_splits         # how many splits it has by then
    int32_t* left
    int32_t* right


cdef int32_t merge(const Links* links, int32_t a, int32_t b) noexcept nogil:
    # A skew heap: the path that is merged swaps its sides (Sleator & Tarjan 1986).
    cdef int32_t top = NONE
    cdef int32_t* place = &top
    cdef int32_t next
    while a != NONE and b != NONE:
        if links.alpha[a] < links.alpha[b]:
            a, b = b, a
        place[0] = a
        next = links.right[a]
        links.right[a] = links.left[a]
        place = &links.left[a]
        a = next
    place[0] = a if b == NONE else b
    return top


cdef int32_t weigh(const Links* links, int32_t node, float64_t gain, int32_t below) noexcept nogil:
    # A branch that would be cut at a higher alpha than the node above it is cut with that node. Return the heap.
    cdef float64_t n_splits = 1
    while below != NONE and gain <= links.alpha[below] * n_splits:
        gain += links.gain[below]
        n_splits += links.n_splits[below]
        below = merge(links, links.left[below], links.right[below])
    links.alpha[node] = gain / n_splits
    links.gain[node] = gain
    links.n_splits[node] = n_splits
    return merge(links, node, below)


cdef Py_ssize_t list_heap(const Links* links, int32_t top, int32_t* nodes) noexcept nogil:
    # Write the nodes of a heap, in no order; return how many there are.
    cdef Py_ssize_t n = 0, done = 0
    cdef int32_t node
    if top != NONE:
        nodes[0], n = top, 1
    while done < n:
        node = nodes[done]
        done += 1
        if links.left[node] != NONE:
            nodes[n] = links.left[node]
            n += 1
        if links.right[node] != NONE:
            nodes[n] = links.right[node]
            n += 1
    return n


def weakest_links(const int32_t[::1] left_child, const float64_t[::1] gain):
    """Return for each node the alpha from which on its branch is cut, and the gain of the branch at that point.

    Also the nodes whose branches are cut by themselves, not with a branch above them, in no order. Minimal
    cost-complexity pruning (Breiman et al. 1984, section 3.3) cuts the weakest branch again and again; here each node
    is weighed once, from the leaves to the root, which takes n log n steps.
    """
    cdef Py_ssize_t n = left_child.shape[0], n_fallen, i
    found = np.zeros((3, n))
    found[0] = np.inf
    nodes = np.full((4, n), NONE, dtype=np.int32)
    cdef float64_t[:, ::1] numbers = found
    cdef int32_t[:, ::1] link = nodes
    cdef int32_t* heap = &link[2, 0]
    cdef Links links = Links(&numbers[0, 0], &numbers[1, 0], &numbers[2, 0], &link[0, 0], &link[1, 0])
    with nogil:
        for i in range(n - 1, -1, -1):
            if left_child[i]:
                heap[i] = merge(&links, heap[left_child[i]], heap[left_child[i] + 1])
                heap[i] = weigh(&links, <int32_t> i, gain[i], heap[i])
        n_fallen = list_heap(&links, heap[0], &link[3, 0])
    return found[0], found[1], nodes[3, :n_fallen]


def places(const int32_t[::1] left_child, const uint8_t[::1] is_leaf):
    """Return for each node the number, among the nodes left where some are leaves, of itself or the leaf it is in.

    Also the nodes that are left, in order.
    """
    cdef Py_ssize_t n = left_child.shape[0], i
    cdef int32_t n_left = 0, child
    place = np.zeros(n, dtype=np.int32)
    left = np.empty(n, dtype=np.int32)
    leaf = np.full(n, NONE, dtype=np.int32)
    cdef int32_t[::1] number = place, nodes = left, inside = leaf
    for i in range(n):
        if inside[i] == NONE:
            number[i] = n_left
            nodes[n_left] = <int32_t>i
            n_left += 1
        else:
            number[i] = number[inside[i]]
        child = left_child[i]
        if child and (is_leaf[i] or inside[i] != NONE):
            inside[child] = inside[child + 1] = <int32_t>i
    return place, left[:n_left]
