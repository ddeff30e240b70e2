"""Averages over all prunings of trees whose weights are whole numbers, in little of the time that growing them takes.

Nearly all nodes have few rows. Their evidence fits a float64 as it is, so it takes no logarithm and no exponential; of
nodes of more rows than `few` its logarithm is given. Inner nodes and leaves are listed apart, for which of the two a
node is no processor can guess.
"""

from libc.math cimport fabs, lgamma, log, log1p, pow

from fastens.engine.kernels.prunings cimport weigh
from fastens.engine.kernels.structs cimport float32_t, float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, value_t

import numpy as np

ctypedef fused count_t:
    uint8_t
    uint16_t
    uint32_t
    float64_t

ctypedef fused sum_t:
    float32_t
    float64_t


def kinds_of_nodes(const int32_t[::1] left_child):
    """Return the inner nodes, their left children, and the leaves, each int32 and ascending."""
    cdef Py_ssize_t i, n = left_child.shape[0], n_inner = 0, n_leaves = 0
    # A leaf is written to a place that the next inner node takes, and the other way round.
    inner_, left_, leaf_ = (np.empty(n // 2 + 2, dtype=np.int32) for _ in range(3))
    cdef int32_t[::1] inner = inner_, left = left_, leaf = leaf_
    with nogil:
        for i in range(n):
            inner[n_inner] = leaf[n_leaves] = <int32_t> i
            left[n_inner] = left_child[i]
            n_inner += left_child[i] > 0
            n_leaves += left_child[i] == 0
    return inner_[:n_inner], left_[:n_inner], leaf_[:n_leaves]


cdef inline float64_t _log_evidence(float64_t evidence, bint is_small) noexcept nogil:
    return log(evidence) if is_small else evidence


cdef inline void _hand_down(
    const float64_t* said, const float64_t* value, float64_t ends, float64_t goes_on, float64_t* said_below,
    const float64_t* values_below, value_t* averaged, Py_ssize_t n_values
) noexcept nogil:
    """What a node and those above it say, to its two children, which stand side by side."""
    cdef Py_ssize_t k
    cdef float64_t inside
    for k in range(n_values):
        inside = said[k] + ends * value[k]
        said_below[k] = said_below[n_values + k] = inside
        averaged[k] = <value_t> (inside + goes_on * values_below[k])
        averaged[n_values + k] = <value_t> (inside + goes_on * values_below[n_values + k])


def average_evidence(
    const int32_t[::1] inner, const int32_t[::1] left_child, const uint32_t[::1] n_rows, uint32_t few,
    float64_t[::1] evidence, const float64_t[:] prior, const float64_t[:, ::1] values, value_t[:, ::1] averaged
):
    """Write the mean of the values, (n_nodes, n_values), over all prunings.

    Of an inner node: as if the tree ended there. So each leaf has the average for the rows that fall into it.

    Parameters
    ----------
    inner, left_child : int32 arrays of shape (n_inner,)
        See `kinds_of_nodes`.
    n_rows : uint32 array of shape (n_nodes,)
    evidence : float64 array of shape (n_nodes,)
        Of a node's rows, if it is a leaf; of more than `few` rows its logarithm. It is written over.
    prior : float64 array of shape (n_nodes,)
        Prior probability that a node splits.
    values : float64 array of shape (n_nodes, n_values)
        What each node says if it is a leaf.
    averaged : array of shape (n_nodes, n_values)
        Where to write.
    """
    cdef Py_ssize_t i, j, left, n = n_rows.shape[0], n_values = values.shape[1]
    cdef float64_t ends, goes_on
    cdef float64_t[::1] split = np.empty(inner.shape[0]), reached = evidence
    # What the nodes above a node say, each with the probability that it is the leaf.
    cdef float64_t[:, ::1] said = np.empty((n, n_values))
    with nogil:
        for j in range(inner.shape[0] - 1, -1, -1):
            i, left = inner[j], left_child[j]
            if n_rows[i] <= few:
                ends = (1.0 - prior[i]) * evidence[i]
                goes_on = prior[i] * (evidence[left] * evidence[left + 1])
                evidence[i] = ends + goes_on
                split[j] = goes_on / (ends + goes_on)
            else:
                goes_on = log(prior[i]) + _log_evidence(evidence[left], n_rows[left] <= few)
                goes_on += _log_evidence(evidence[left + 1], n_rows[left + 1] <= few)
                evidence[i] = weigh(log1p(-prior[i]) + evidence[i], goes_on, &split[j])
        # From here on, instead of evidence: the probability that all nodes above split.
        reached[0] = 1.0
        for i in range(n_values):
            said[0, i], averaged[0, i] = 0.0, <value_t> values[0, i]
        for j in range(inner.shape[0]):
            i, left = inner[j], left_child[j]
            ends, goes_on = reached[i] * (1.0 - split[j]), reached[i] * split[j]
            reached[left] = reached[left + 1] = goes_on
            # One value is the usual case, and the loop is unrolled for it.
            if n_values == 1:
                _hand_down(
                    &said[i, 0], &values[i, 0], ends, goes_on, &said[left, 0], &values[left, 0], &averaged[left, 0], 1
                )
            else:
                _hand_down(
                    &said[i, 0], &values[i, 0], ends, goes_on, &said[left, 0], &values[left, 0], &averaged[left, 0],
                    n_values,
                )


cdef struct Dirichlet:
    # A symmetric prior of the classes' probabilities, and its tables.
    float64_t alpha
    uint32_t few
    const float64_t* products               # of 0, 1, ..., few factors alpha, alpha + 1, ...
    const float64_t* products_of_sums       # one over the same of n_classes * alpha
    const float64_t* inverse                # 1 / (n_classes * alpha + i)
    uint32_t n_known
    const float64_t* log_gammas             # of alpha + i, for i < n_known
    const float64_t* log_gammas_of_sums     # of n_classes * alpha + i


cdef inline float64_t _log_gamma(const float64_t* table, uint32_t n_known, float64_t first, uint32_t i) noexcept nogil:
    """Of first + i: from the table, if it has it."""
    return table[i] if i < n_known else lgamma(first + i)


cdef inline uint32_t _evidence_of_counts(
    const Dirichlet* prior, const uint32_t* counts, Py_ssize_t n_classes, float64_t* evidence, float64_t* values
) noexcept nogil:
    """Write the evidence and the values of a node; return its number of rows."""
    cdef Py_ssize_t k, first = 1 if n_classes == 2 else 0
    cdef uint32_t total = 0
    cdef float64_t found, share, of_all = n_classes * prior.alpha
    for k in range(n_classes):
        total += counts[k]
    if total <= prior.few:
        found, share = prior.products_of_sums[total], prior.inverse[total]
        for k in range(n_classes):
            found *= prior.products[counts[k]]
    else:
        share = 1.0 / (of_all + total)
        found = prior.log_gammas_of_sums[0]
        found -= _log_gamma(prior.log_gammas_of_sums, prior.n_known, of_all, total)
        for k in range(n_classes):
            found += _log_gamma(prior.log_gammas, prior.n_known, prior.alpha, counts[k]) - prior.log_gammas[0]
    evidence[0] = found
    for k in range(first, n_classes):
        values[k - first] = (counts[k] + prior.alpha) * share
    return total


def class_evidence(
    const int32_t[::1] inner, const int32_t[::1] left_child, const int32_t[::1] leaf, const uint32_t[:, ::1] leaves,
    float64_t alpha, const float64_t[::1] products, const float64_t[::1] products_of_sums,
    const float64_t[::1] log_gammas, const float64_t[::1] log_gammas_of_sums
):
    """Return the number of rows, the evidence and the values of all nodes, from the counts in the leaves.

    Parameters
    ----------
    inner, left_child, leaf : int32 arrays
        See `kinds_of_nodes`.
    leaves : uint32 array of shape (n_classes, n_leaves)
        Rows of each class, in the order of the nodes.
    alpha : float
        Of the symmetric Dirichlet prior of the classes' probabilities.
    products : float64 array of shape (few + 1,)
        alpha (alpha + 1) ... (alpha + i - 1) for i = 0, 1, ... rows.
    products_of_sums : float64 array of shape (few + 1,)
        One over the same of n_classes * alpha.
    log_gammas, log_gammas_of_sums : float64 arrays of the same length
        Logarithms of the gamma function of alpha + i, and of n_classes * alpha + i.

    Returns
    -------
    n_rows : uint32 array of shape (n_nodes,)
    evidence : float64 array of shape (n_nodes,)
        Of more than `few` rows its logarithm.
    values : float64 array of shape (n_nodes, n_values)
        Posterior means of the probability of the second of two classes, or of all.
    """
    cdef Py_ssize_t n = inner.shape[0] + leaf.shape[0], n_classes = leaves.shape[0]
    cdef const float64_t[::1] inverse = 1.0 / (n_classes * alpha + np.arange(products.shape[0]))
    cdef Dirichlet prior
    cdef uint32_t[:, ::1] counts = np.empty((n, n_classes), dtype=np.uint32)
    rows_, evidence_, values_ = np.empty(n, dtype=np.uint32), np.empty(n), np.empty((n, n_classes - (n_classes == 2)))
    cdef uint32_t[::1] n_rows = rows_
    cdef float64_t[::1] evidence = evidence_
    cdef float64_t[:, ::1] values = values_
    prior.alpha, prior.few, prior.n_known = alpha, <uint32_t> products.shape[0] - 1, <uint32_t> log_gammas.shape[0]
    prior.products, prior.products_of_sums, prior.inverse = &products[0], &products_of_sums[0], &inverse[0]
    prior.log_gammas, prior.log_gammas_of_sums = &log_gammas[0], &log_gammas_of_sums[0]
    with nogil:
        # Two classes are the usual case, and the loops are unrolled for them.
        if n_classes == 2:
            _evidence_of_nodes(&prior, inner, left_child, leaf, leaves, 2, counts, n_rows, evidence, values)
        else:
            _evidence_of_nodes(&prior, inner, left_child, leaf, leaves, n_classes, counts, n_rows, evidence, values)
    return rows_, evidence_, values_


cdef inline void _evidence_of_nodes(
    const Dirichlet* prior, const int32_t[::1] inner, const int32_t[::1] left_child, const int32_t[::1] leaf,
    const uint32_t[:, ::1] leaves, Py_ssize_t n_classes, uint32_t[:, ::1] counts, uint32_t[::1] n_rows,
    float64_t[::1] evidence, float64_t[:, ::1] values
) noexcept nogil:
    cdef Py_ssize_t i, j, k, left
    for j in range(leaf.shape[0]):
        i = leaf[j]
        for k in range(n_classes):
            counts[i, k] = leaves[k, j]
        n_rows[i] = _evidence_of_counts(prior, &counts[i, 0], n_classes, &evidence[i], &values[i, 0])
    for j in range(inner.shape[0] - 1, -1, -1):
        i, left = inner[j], left_child[j]
        for k in range(n_classes):
            counts[i, k] = counts[left, k] + counts[left + 1, k]
        n_rows[i] = _evidence_of_counts(prior, &counts[i, 0], n_classes, &evidence[i], &values[i, 0])


cdef enum:
    BLOCK = 1024  # nodes


cdef extern from "evidence_loops.h":
    const int EXPONENT_BITS
    void spreads(
        const int32_t* n_rows, const float64_t* first, const float64_t* second, float64_t weight, float64_t half,
        int32_t twice, float64_t* mean, float64_t* spread, float64_t* power, Py_ssize_t n
    ) nogil


cdef inline float64_t _power(float64_t x, uint32_t n) noexcept nogil:
    """x to the power of n."""
    cdef float64_t found = 1.0
    while n > 0:
        if n & 1:
            found *= x
        x *= x
        n >>= 1
    return found


cdef void _sums_of_branches(
    const int32_t[::1] inner, const int32_t[::1] left_child, const int32_t[::1] leaf, const value_t[::1] of_leaf,
    const value_t[::1] first_of_leaf, const value_t[::1] second_of_leaf, int32_t[::1] n_rows, float64_t[::1] first,
    float64_t[::1] second
) noexcept nogil:
    """Write the number of rows and two sums of all nodes from those of the leaves."""
    cdef Py_ssize_t i, j, left
    for j in range(leaf.shape[0]):
        i = leaf[j]
        n_rows[i], first[i], second[i] = <int32_t> of_leaf[j], first_of_leaf[j], second_of_leaf[j]
    for j in range(inner.shape[0] - 1, -1, -1):
        i, left = inner[j], left_child[j]
        n_rows[i] = n_rows[left] + n_rows[left + 1]
        first[i] = first[left] + first[left + 1]
        second[i] = second[left] + second[left + 1]


def number_evidence(
    const int32_t[::1] inner, const int32_t[::1] left_child, const int32_t[::1] leaf, const value_t[:, ::1] leaves,
    const float64_t[::1] location, const float64_t[::1] rate, float64_t weight, float64_t shape,
    const float64_t[::1] factors
):
    """The same for numbers: normal with unknown mean and variance, whose prior is normal-inverse-gamma.

    Parameters
    ----------
    leaves : array of shape (1 + 2 * n_targets, n_leaves)
        Sums of 1, of the targets less their location, and of the squares of these.
    location, rate : float64 arrays of shape (n_targets,)
        Prior mean, and rate of the prior of the precision.
    weight, shape : float
        How many rows the mean is worth; shape of the prior of the precision.
    factors : float64 array of shape (few + 1,)
        gamma(shape + i / 2) / gamma(shape) sqrt(weight / (weight + i)) for i = 0, 1, ... rows.

    Returns
    -------
    n_rows, evidence, values
        As for classes; of the evidence, the factor (2 pi rate)^(-1/2) of each row and target is left out.
    """
    cdef Py_ssize_t i, b, t, block, begin, end, n = inner.shape[0] + leaf.shape[0], n_targets = location.shape[0]
    cdef uint32_t total, few = <uint32_t> factors.shape[0] - 1, exponent, twice = <uint32_t> (2 * shape)
    cdef bint is_half = 0.5 * twice == shape
    cdef float64_t found
    rows_, evidence_, values_ = np.empty(n, dtype=np.int32), np.empty(n), np.empty((n, n_targets))
    cdef int32_t[::1] n_rows = rows_
    cdef float64_t[::1] evidence = evidence_, first, second, mean, spread, power
    cdef float64_t[:, ::1] values = values_
    first, second = np.empty((2, n))
    mean, spread, power = np.empty((3, BLOCK))
    with nogil:
        for t in range(n_targets):
            _sums_of_branches(
                inner, left_child, leaf, leaves[0], leaves[1 + t], leaves[1 + n_targets + t], n_rows, first, second
            )
            # In blocks that stay in the cache.
            for block in range((n + BLOCK - 1) // BLOCK):
                begin, end = block * BLOCK, min((block + 1) * BLOCK, n)
                spreads(
                    &n_rows[begin], &first[begin], &second[begin], weight, 0.5 / rate[t], <int32_t> twice, &mean[0],
                    &spread[0], &power[0], end - begin,
                )
                for i in range(begin, end):
                    b = i - begin
                    values[i, t] = location[t] + mean[b]
                    total, exponent = <uint32_t> n_rows[i], twice + <uint32_t> n_rows[i]
                    if total > few:
                        found = lgamma(shape + 0.5 * total) - lgamma(shape) + 0.5 * log(weight / (weight + total))
                        found -= (shape + 0.5 * total) * log(spread[b])
                        evidence[i] = found if t == 0 else evidence[i] + found
                        continue
                    found = factors[total]
                    if not is_half:
                        found *= pow(spread[b], -shape - 0.5 * total)
                    else:
                        found *= power[b]
                        if exponent >> EXPONENT_BITS:
                            found *= _power(1.0 / spread[b], (exponent >> EXPONENT_BITS) << (EXPONENT_BITS - 1))
                    evidence[i] = found if t == 0 else evidence[i] * found
    return rows_.view(np.uint32), evidence_, values_


def largest_whole(const int32_t[::1] leaf, const float32_t[::1] weight):
    """Return the largest weight of a leaf if all are whole, -1 otherwise."""
    cdef Py_ssize_t j
    cdef bint whole = True
    cdef float32_t largest = 0.0
    with nogil:
        for j in range(leaf.shape[0]):
            whole &= weight[leaf[j]] == <float32_t> <int64_t> weight[leaf[j]]
            largest = max(largest, weight[leaf[j]])
    return int(largest) if whole else -1


def count_classes(
    const int32_t[::1] leaf, const value_t[:, :] shares, const float32_t[::1] weight, count_t[:, ::1] counts
):
    """Write the weights of one target's classes in the leaves, (n_classes, n_leaves), from the shares that nodes have.

    The shares are those of the second of two classes, or of all. If the counts are whole numbers, so are the weights.
    """
    cdef Py_ssize_t k, j, n_classes = counts.shape[0], first = 1 if counts.shape[0] == 2 else 0
    cdef float64_t share
    with nogil:
        for j in range(leaf.shape[0]):
            for k in range(first, n_classes):
                share = <float64_t> shares[leaf[j], k - first] * weight[leaf[j]]
                counts[k, j] = share if count_t is float64_t else <count_t> (share + 0.5)
            if first == 1:
                counts[0, j] = <count_t> (weight[leaf[j]] - counts[1, j])


def add_up_numbers(
    const int32_t[::1] leaf, const value_t[:, ::1] mean, const float64_t[:, ::1] squares, const float32_t[::1] weight,
    const float64_t[::1] location, sum_t[:, ::1] sums
):
    """Write the sums of 1, z and z^2 in the leaves, (1 + 2 * n_targets, n_leaves), z being the targets less `location`.

    They come from the nodes' weights, means, and sums of squared differences from the mean. Return the largest of each
    row, without signs.
    """
    cdef Py_ssize_t t, j, n_targets = location.shape[0]
    cdef float64_t w, z, second
    sizes = np.zeros(1 + 2 * n_targets)
    cdef float64_t[::1] largest = sizes
    with nogil:
        for j in range(leaf.shape[0]):
            w = weight[leaf[j]]
            sums[0, j] = <sum_t> w
            largest[0] = max(largest[0], w)
            for t in range(n_targets):
                z = mean[leaf[j], t] - location[t]
                second = squares[leaf[j], t] + w * z * z
                sums[1 + t, j] = <sum_t> (w * z)
                sums[1 + n_targets + t, j] = <sum_t> second
                largest[1 + t] = max(largest[1 + t], fabs(w * z))
                largest[1 + n_targets + t] = max(largest[1 + n_targets + t], second)
    return sizes
