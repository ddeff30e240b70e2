"""All prunings of a tree at once: passes over its nodes from the leaves up and from the root down.

A node's children stand behind it, so a pass is one loop. Logarithms are float64.
"""

import numpy as np


from fastens.engine.exact cimport lgamma, log, log1p
from fastens.engine.structs cimport float64_t, int32_t, uint8_t


cdef struct LogGammas:
    # Of alpha + i for i = 0, 1, ..., n - 1.
    const float64_t* table
    Py_ssize_t n
    float64_t alpha


cdef inline float64_t _log_gamma(const LogGammas* known, float64_t x) noexcept nogil:
    """Of alpha + x, not below alpha: from the table where x is a whole number that it has."""
    cdef Py_ssize_t place
    if x < known.n:
        place = <Py_ssize_t> x
        if <float64_t> place == x:
            return known.table[place]
    return lgamma(known.alpha + x)


def dirichlet_evidence(
    const float64_t[:, ::1] counts, const float64_t[:] alpha, const float64_t[:, :] table,
    const float64_t[::1] table_of_sums
):
    """Return the log evidence of each node's class counts, (n_classes, n_nodes), under a Dirichlet prior.

    The tables, whose rows lie in one piece, hold the logarithms of the gamma function of each alpha + i, and of the sum
    of all alpha + i, for i = 0, 1, ...
    """
    cdef Py_ssize_t k, i, n = counts.shape[1]
    cdef LogGammas known
    log_evidence, totals = np.full(n, table_of_sums[0]), np.zeros(n)
    cdef float64_t[::1] out = log_evidence, total = totals
    with nogil:
        for k in range(counts.shape[0]):
            known = LogGammas(&table[k, 0], table.shape[1], alpha[k])
            for i in range(n):
                out[i] += _log_gamma(&known, counts[k, i]) - known.table[0]
                total[i] += counts[k, i]
        known = LogGammas(&table_of_sums[0], table_of_sums.shape[0], _sum(alpha))
        for i in range(n):
            out[i] -= _log_gamma(&known, total[i])
    return log_evidence


cdef inline float64_t _sum(const float64_t[:] terms) noexcept nogil:
    cdef float64_t total = 0.0
    cdef Py_ssize_t i
    for i in range(terms.shape[0]):
        total += terms[i]
    return total


def posterior_shares(const float64_t[:, ::1] counts, const float64_t[:] alpha):
    """Return the posterior mean of each class's probability: of the second of two classes, or of all."""
    cdef Py_ssize_t k, i, n_classes = counts.shape[0], n = counts.shape[1], first = 1 if counts.shape[0] == 2 else 0
    cdef float64_t total, before = _sum(alpha)
    shares = np.empty((n_classes - first, n))
    cdef float64_t[:, ::1] out = shares
    with nogil:
        for i in range(n):
            total = before
            for k in range(n_classes):
                total += counts[k, i]
            total = 1.0 / total
            for k in range(first, n_classes):
                out[k - first, i] = (counts[k, i] + alpha[k]) * total
    return shares


def average(
    const int32_t[::1] left_child, const float64_t[::1] log_leaf, const float64_t[::1] log_stop,
    const float64_t[::1] log_split
):
    """Return the log evidence below each node, summed over all prunings, and the posterior probability that it splits.

    log q = log(exp(log_stop + log_leaf) + exp(log_split + the children's log q)), and log_leaf at a leaf.
    """
    cdef Py_ssize_t i, n = left_child.shape[0]
    cdef float64_t ends, goes_on
    of_branch, of_split = np.empty(n), np.zeros(n)
    cdef float64_t[::1] log_branch = of_branch, split = of_split
    with nogil:
        for i in range(n - 1, -1, -1):
            if left_child[i] == 0:
                log_branch[i] = log_leaf[i]
                continue
            ends = log_stop[i] + log_leaf[i]
            goes_on = log_split[i] + log_branch[left_child[i]] + log_branch[left_child[i] + 1]
            log_branch[i] = weigh(ends, goes_on, &split[i])
    return of_branch, of_split


def best(
    const int32_t[::1] left_child, const float64_t[::1] log_leaf, const float64_t[::1] log_stop,
    const float64_t[::1] log_split
):
    """Return the log joint probability of the best pruning below each node, and whether the node is a leaf of it.

    Of equally good ones the smaller.
    """
    cdef Py_ssize_t i, n = left_child.shape[0]
    cdef float64_t ends, goes_on
    of_branch, of_node = np.empty(n), np.zeros(n, dtype=np.uint8)
    cdef float64_t[::1] log_branch = of_branch
    cdef uint8_t[::1] is_leaf = of_node
    with nogil:
        for i in range(n - 1, -1, -1):
            if left_child[i] == 0:
                log_branch[i], is_leaf[i] = log_leaf[i], 1
                continue
            ends = log_stop[i] + log_leaf[i]
            goes_on = log_split[i] + log_branch[left_child[i]] + log_branch[left_child[i] + 1]
            is_leaf[i] = ends >= goes_on
            log_branch[i] = max(ends, goes_on)
    return of_branch, of_node


def reach(const int32_t[::1] left_child, const float64_t[::1] split):
    """Return the posterior probability that all nodes above a node split."""
    cdef Py_ssize_t i, n = left_child.shape[0]
    found = np.ones(n)
    cdef float64_t[::1] above = found
    with nogil:
        for i in range(n):
            if left_child[i] > 0:
                above[left_child[i]] = above[left_child[i] + 1] = above[i] * split[i]
    return found


def spread(
    const int32_t[::1] left_child, const float64_t[::1] split, const float64_t[::1] above,
    const float64_t[:, ::1] values
):
    """Return the mean of the values, (n_values, n_nodes), over all prunings.

    Of an inner node: as if the tree stopped there. So each leaf has the average for the rows that fall into it.
    """
    cdef Py_ssize_t k, i, left, n = left_child.shape[0], n_values = values.shape[0]
    cdef float64_t inside
    found = np.empty((n_values, n))
    cdef float64_t[:, ::1] out = found
    # The values of the nodes above, each times the probability that it is the leaf.
    cdef float64_t[::1] sum_above = np.empty(n)
    with nogil:
        for k in range(n_values):
            sum_above[0] = 0.0
            for i in range(n):
                out[k, i] = sum_above[i] + above[i] * values[k, i]
                left = left_child[i]
                if left > 0:
                    inside = sum_above[i] + above[i] * (1.0 - split[i]) * values[k, i]
                    sum_above[left] = sum_above[left + 1] = inside
    return found


def expected_shape(const int32_t[::1] left_child, const float64_t[::1] split):
    """Return the expected number of leaves below each node, and the entropy of the pruning there, in nats."""
    cdef Py_ssize_t i, left, n = left_child.shape[0]
    cdef float64_t p
    of_leaves, of_entropy = np.ones(n), np.zeros(n)
    cdef float64_t[::1] n_leaves = of_leaves, entropy = of_entropy
    with nogil:
        for i in range(n - 1, -1, -1):
            left = left_child[i]
            if left == 0:
                continue
            p = split[i]
            n_leaves[i] = 1.0 - p + p * (n_leaves[left] + n_leaves[left + 1])
            entropy[i] = p * (entropy[left] + entropy[left + 1])
            if 0.0 < p < 1.0:
                entropy[i] -= p * log(p) + (1.0 - p) * log1p(-p)
    return of_leaves, of_entropy


def unused(const int32_t[::1] left_child, const int32_t[::1] feature, const float64_t[::1] split, int32_t wanted):
    """Return the posterior probability that no node splits on a feature."""
    cdef Py_ssize_t i, left, n = left_child.shape[0]
    cdef float64_t[::1] found = np.ones(n)
    with nogil:
        for i in range(n - 1, -1, -1):
            left = left_child[i]
            if left > 0:
                found[i] = 1.0 - split[i]
                if feature[i] != wanted:
                    found[i] += split[i] * found[left] * found[left + 1]
    return found[0]


def leaf_above(const int32_t[::1] left_child, const uint8_t[::1] is_leaf):
    """Return for each node the first one on the way from the root that is a leaf, or itself."""
    cdef Py_ssize_t i, left, n = left_child.shape[0]
    found = np.arange(n, dtype=np.int32)
    cdef int32_t[::1] leaf = found
    with nogil:
        for i in range(n):
            left = left_child[i]
            if left > 0 and (is_leaf[i] or leaf[i] != i):
                leaf[left] = leaf[left + 1] = leaf[i]
    return found


def parents(const int32_t[::1] left_child):
    """Return each node's parent, -1 at the root, and its depth."""
    cdef Py_ssize_t i, left, n = left_child.shape[0]
    of_parent, of_depth = np.full(n, -1, dtype=np.int32), np.zeros(n, dtype=np.int32)
    cdef int32_t[::1] parent = of_parent, depth = of_depth
    with nogil:
        for i in range(n):
            left = left_child[i]
            if left > 0:
                parent[left] = parent[left + 1] = <int32_t> i
                depth[left] = depth[left + 1] = depth[i] + 1
    return of_parent, of_depth
