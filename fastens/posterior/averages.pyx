"""Passes over trees that sum and average over all their prunings at once."""

import numpy as np
from fastens.engine.exact cimport exp, lgamma, log, log1p
from fastens.engine.structs cimport float32_t, float64_t, int32_t, uint16_t, uint32_t, uint8_t, value_t
from libc.math cimport fabs
from libc.stdlib cimport free, malloc


cdef struct LogGammas:
    # Log gammas of alpha + i for i = 0, 1, ..., n - 1.
    const float64_t* table
    Py_ssize_t n
    float64_t alpha


cdef inline float64_t _log_gamma(const LogGammas* gammas, float64_t x) noexcept nogil:
    """Return the log gamma of alpha + x for x >= 0, from the table if x is an integer in its range."""
    cdef Py_ssize_t index
    if x < gammas.n:
        index = <Py_ssize_t> x
        if <float64_t> index == x:
            return gammas.table[index]
    return lgamma(gammas.alpha + x)


def dirichlet_evidence(
    const float64_t[:, ::1] counts, const float64_t[:] alpha, const float64_t[:, :] table,
    const float64_t[::1] table_of_sums
):
    """Return the log evidence, (n_nodes,), of class counts of shape (n_classes, n_nodes) under a Dirichlet prior.

    `alpha` holds the pseudo-count of each class. `table[k, i]` is the log gamma of alpha[k] + i, and `table_of_sums[i]`
    of the sum of all alphas + i.
    """
    cdef Py_ssize_t k, i, n = counts.shape[1]
    cdef LogGammas gammas
    log_evidence, totals = np.full(n, table_of_sums[0]), np.zeros(n)
    cdef float64_t[::1] out = log_evidence, total = totals
    with nogil:
        for k in range(counts.shape[0]):
            gammas = LogGammas(&table[k, 0], table.shape[1], alpha[k])
            for i in range(n):
                out[i] += _log_gamma(&gammas, counts[k, i]) - gammas.table[0]
                total[i] += counts[k, i]
        gammas = LogGammas(&table_of_sums[0], table_of_sums.shape[0], _sum_terms(alpha))
        for i in range(n):
            out[i] -= _log_gamma(&gammas, total[i])
    return log_evidence


cdef inline float64_t _sum_terms(const float64_t[:] terms) noexcept nogil:
    """Return the sum of the terms, added in order."""
    cdef float64_t total = 0.0
    cdef Py_ssize_t i
    for i in range(terms.shape[0]):
        total += terms[i]
    return total


def sum_over_prunings(
    const int32_t[::1] left_child, const float64_t[::1] log_leaf, const float64_t[::1] log_stop,
    const float64_t[::1] log_split
):
    """Return the log evidence below each node, summed over all prunings, and the posterior probability that it splits.

    `log_leaf` is the log evidence of a node as a leaf, and `log_stop` and `log_split` are log prior probabilities.
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
            log_branch[i] = add_logs(ends, goes_on, &split[i])
    return of_branch, of_split


def find_best_pruning(
    const int32_t[::1] left_child, const float64_t[::1] log_leaf, const float64_t[::1] log_stop,
    const float64_t[::1] log_split
):
    """Return the log joint probability of the best pruning below each node, and a mask of its leaves, (n_nodes,) each.

    The parameters are as in `sum_over_prunings`. The mask is True for nodes that are leaves if they are reached. Ties
    are resolved in favour of the smaller pruning.
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


def reach_probabilities(const int32_t[::1] left_child, const float64_t[::1] split):
    """Return the posterior probability that all ancestors of each node split, shape (n_nodes,).

    `split` is the posterior probability that a node splits if it is reached.
    """
    cdef Py_ssize_t i, n = left_child.shape[0]
    reached = np.ones(n)
    cdef float64_t[::1] above = reached
    with nogil:
        for i in range(n):
            if left_child[i] > 0:
                above[left_child[i]] = above[left_child[i] + 1] = above[i] * split[i]
    return reached


def mean_over_prunings(
    const int32_t[::1] left_child, const float64_t[::1] split, const float64_t[::1] above,
    const float64_t[:, ::1] values
):
    """Return the posterior mean of the values, shape (n_values, n_nodes), over all prunings.

    `split` is the posterior probability that a node splits if it is reached, and `above` that all its ancestors split.
    At an inner node, the mean is taken as if the tree ended there. Each leaf has the average for the rows in it.
    """
    cdef Py_ssize_t k, i, left, n = left_child.shape[0], n_values = values.shape[0]
    cdef float64_t inside
    means = np.empty((n_values, n))
    cdef float64_t[:, ::1] out = means
    # Sum over the ancestors of their values times the probability that they are the leaf.
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
    return means


def expected_leaves_and_entropy(const int32_t[::1] left_child, const float64_t[::1] split):
    """Return the expected number of leaves below each node, and the entropy of its prunings in nats, (n_nodes,) each.

    `split` is the posterior probability that a node splits if it is reached.
    """
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


def unused_probability(
    const int32_t[::1] left_child, const int32_t[::1] feature, const float64_t[::1] split, int32_t searched_feature
):
    """Return the posterior probability that no node of the pruning splits on `searched_feature`.

    `feature` is the split feature of each node, and `split` the posterior probability that it splits if it is reached.
    """
    cdef Py_ssize_t i, left, n = left_child.shape[0]
    cdef float64_t[::1] probability = np.ones(n)
    with nogil:
        for i in range(n - 1, -1, -1):
            left = left_child[i]
            if left > 0:
                probability[i] = 1.0 - split[i]
                if feature[i] != searched_feature:
                    probability[i] += split[i] * probability[left] * probability[left + 1]
    return probability[0]


def leaf_above(const int32_t[::1] left_child, const uint8_t[::1] is_leaf):
    """Return for each node the topmost node flagged in `is_leaf` on the path from the root, or else the node itself."""
    cdef Py_ssize_t i, left, n = left_child.shape[0]
    leaves = np.arange(n, dtype=np.int32)
    cdef int32_t[::1] leaf = leaves
    with nogil:
        for i in range(n):
            left = left_child[i]
            if left > 0 and (is_leaf[i] or leaf[i] != i):
                leaf[left] = leaf[left + 1] = leaf[i]
    return leaves


def parents_and_depths(const int32_t[::1] left_child):
    """Return the parent of each node, -1 at the root, and the depth of each node, 0 at the root."""
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


ctypedef fused count_t:
    uint8_t
    uint16_t
    uint32_t
    float64_t

ctypedef fused whole_t:
    uint8_t
    uint16_t
    uint32_t

ctypedef fused sum_t:
    float32_t
    float64_t


cdef inline float64_t _to_log(float64_t evidence, bint is_small) noexcept nogil:
    """Return the log of an evidence that is a plain number if `is_small`, and is already a log otherwise."""
    return log(evidence) if is_small else evidence


cdef struct LogPrior:
    # Cached logarithms of the last prior, because many nodes have the same prior.
    float64_t prior, stops, splits


cdef inline float64_t _evidence_over_prunings(
    float64_t leaf_evidence, float64_t prior, int32_t max_tabled, const int32_t* n_rows,
    const float64_t* child_evidence, int32_t n_node_rows, LogPrior* last, float64_t* split
) noexcept nogil:
    """Return the evidence of a node's rows over all prunings; write its posterior split probability to `split`.

    `leaf_evidence` is the evidence of the node as a leaf, and `prior` its prior split probability. `child_evidence` and
    `n_rows` point to its two children, which are adjacent. Each evidence is a logarithm if there are more than
    `max_tabled` rows. `last` caches logarithms of the prior between calls.
    """
    cdef float64_t stops, splits
    if n_node_rows <= max_tabled:
        stops = (1.0 - prior) * leaf_evidence
        splits = prior * (child_evidence[0] * child_evidence[1])
        split[0] = splits / (stops + splits)
        return stops + splits
    if prior != last.prior:
        last.prior, last.stops, last.splits = prior, log1p(-prior), log(prior)
    splits = last.splits + _to_log(child_evidence[0], n_rows[0] <= max_tabled)
    splits += _to_log(child_evidence[1], n_rows[1] <= max_tabled)
    return add_logs(last.stops + leaf_evidence, splits, split)


cdef inline void _average_children(
    const float64_t* sum_above, const float64_t* value, float64_t stops, float64_t splits, float64_t* sum_below,
    const float64_t* values_below, value_t* averaged, Py_ssize_t n_values
) noexcept nogil:
    """Write the averaged values of a node's two children to `averaged`, and their sums over ancestors to `sum_below`.

    `sum_above` and `value` belong to the node, and `values_below` to its children. A sum over ancestors adds their
    values times the posterior probabilities that they are leaves. `stops` and `splits` are the posterior probabilities
    that the node is a leaf, and that its children are reached.
    """
    cdef Py_ssize_t k
    cdef float64_t inside
    for k in range(n_values):
        inside = sum_above[k] + stops * value[k]
        sum_below[k] = sum_below[n_values + k] = inside
        averaged[k] = <value_t> (inside + splits * values_below[k])
        averaged[n_values + k] = <value_t> (inside + splits * values_below[n_values + k])


def average_over_prunings(
    const int32_t[::1] inner, const int32_t[::1] left_child, const float64_t[::1] split, const float64_t[:, ::1] values,
    float64_t[::1] reached, value_t[:, ::1] averaged
):
    """Write the posterior mean of the values, shape (n_nodes, n_values), over all prunings to `averaged`.

    At an inner node, the mean is taken as if the tree ended there. Each leaf has the average for the rows in it.

    Parameters
    ----------
    inner, left_child : int32 arrays of shape (n_inner,)
        Inner nodes and their left children.
    split : float64 array of shape (n_inner,)
        Posterior probability that an inner node splits, if it is reached.
    values : float64 array of shape (n_nodes, n_values)
        What each node predicts as a leaf.
    reached : float64 array of shape (n_nodes,)
        Workspace for the probability that all ancestors split; the caller passes a buffer that is already cached.
    averaged : array of shape (n_nodes, n_values)
        Output.
    """
    cdef Py_ssize_t i, j, left, n = values.shape[0], n_values = values.shape[1]
    cdef float64_t stops, splits
    # Sum over the ancestors of their values times the probability that they are the leaf.
    cdef float64_t[:, ::1] sum_above = np.empty((n, n_values))
    with nogil:
        reached[0] = 1.0
        for i in range(n_values):
            sum_above[0, i], averaged[0, i] = 0.0, <value_t> values[0, i]
        for j in range(inner.shape[0]):
            i, left = inner[j], left_child[j]
            stops, splits = reached[i] * (1.0 - split[j]), reached[i] * split[j]
            reached[left] = reached[left + 1] = splits
            # The loop is unrolled for a single value, the most frequent case.
            if n_values == 1:
                _average_children(
                    &sum_above[i, 0], &values[i, 0], stops, splits,
                    &sum_above[left, 0], &values[left, 0], &averaged[left, 0], 1
                )
            else:
                _average_children(
                    &sum_above[i, 0], &values[i, 0], stops, splits,
                    &sum_above[left, 0], &values[left, 0], &averaged[left, 0], n_values
                )


cdef extern from "posterior/evidence_loops.h":
    ctypedef struct dirichlet:
        Py_ssize_t n_classes
        float64_t alpha
        uint32_t max_tabled
        const float64_t* products
        const float64_t* products_of_sums
        uint32_t n_log_gammas
        const float64_t* log_gammas
        const float64_t* log_gammas_of_sums
    float64_t evidence_of_counts(
        const dirichlet* prior, const uint32_t* counts, Py_ssize_t n_classes, int32_t* n_rows, float64_t* values
    ) nogil


cdef inline float64_t _evidence_of_all_targets(
    const dirichlet* priors, Py_ssize_t n_targets, const uint32_t* counts, int32_t* n_rows, float64_t* values
) noexcept nogil:
    """Return the evidence of a node's class counts, a product over targets, or its logarithm.

    It is a logarithm if the node has more than `max_tabled` rows. The number of rows is written to `n_rows`, and the
    posterior mean probabilities of all targets to `values`.
    """
    cdef Py_ssize_t t, n_classes
    cdef float64_t evidence = 0.0, part
    for t in range(n_targets):
        n_classes = priors[t].n_classes
        part = evidence_of_counts(&priors[t], counts, n_classes, n_rows, values)
        if t == 0:
            evidence = part
        else:
            evidence = evidence * part if n_rows[0] <= <int32_t> priors[t].max_tabled else evidence + part
        counts += n_classes
        values += 1 if n_classes == 2 else n_classes
    return evidence


def class_posterior(
    nodes, const whole_t[:, ::1] leaves, list n_classes, float64_t alpha, tuple tables,
    const float64_t[:] split_prior
):
    """Return the posterior split probabilities, values and evidence of nodes from the class counts of the leaves.

    Parameters
    ----------
    nodes : tuple of three int32 arrays
        Inner nodes, their left children and leaves, in ascending order.
    leaves : array of shape (sum of n_classes, n_leaves)
        Number of rows of each class of each target, in the order of the leaves.
    n_classes : list of int
        Number of classes of each target. Targets are independent given the leaf.
    alpha : float
        Pseudo-count of the symmetric Dirichlet prior of the class probabilities.
    tables : tuple of two pairs (float64 array, list of one for each target)
        Products alpha (alpha + 1) ... (alpha + i - 1) / scale^i for i = 0, 1, ..., max_tabled, and the inverse products
        for n_classes * alpha (the scale cancels); then log gammas of alpha + i, and of n_classes * alpha + i.
    split_prior : float64 array of shape (n_nodes,)
        Prior probability that a node splits.

    Returns
    -------
    split : float64 array of shape (n_inner,)
    values : float64 array of shape (n_nodes, n_values)
        Posterior mean probabilities of the second of two classes, or of each class if there are more.
    evidence : float64 array of shape (n_nodes,)
        Evidence of the rows over all prunings, or its logarithm for nodes with more than `max_tabled` rows.
    """
    cdef const int32_t[::1] inner = nodes[0], left_child = nodes[1], leaf = nodes[2]
    cdef const float64_t[::1] products = tables[0], log_gammas = tables[2]
    cdef Py_ssize_t i, j, k, t, left, n = inner.shape[0] + leaf.shape[0], n_targets = len(n_classes)
    cdef Py_ssize_t n_counts = leaves.shape[0]
    cdef bint is_plain = n_targets == 1 and n_counts == 2
    cdef float64_t leaf_evidence
    cdef LogPrior last = LogPrior(-1.0, 0.0, 0.0)
    cdef const float64_t[::1] of_sums
    cdef uint32_t max_tabled = <uint32_t> products.shape[0] - 1
    split_, values_ = np.empty(inner.shape[0]), np.empty((n, sum(1 if c == 2 else c for c in n_classes)))
    evidence_ = np.empty(n)
    cdef float64_t[::1] split = split_, evidence = evidence_
    cdef float64_t[:, ::1] values = values_
    cdef uint32_t[:, ::1] counts = np.empty((n, n_counts), dtype=np.uint32)
    cdef int32_t[::1] n_rows = np.empty(n, dtype=np.int32)
    cdef dirichlet* priors = <dirichlet*> malloc(n_targets * sizeof(dirichlet))
    if priors == NULL:
        raise MemoryError("no memory for averaging trees")
    for t in range(n_targets):
        priors[t].n_classes, priors[t].alpha = n_classes[t], alpha
        priors[t].max_tabled, priors[t].products = max_tabled, &products[0]
        priors[t].n_log_gammas, priors[t].log_gammas = <uint32_t> log_gammas.shape[0], &log_gammas[0]
        of_sums = tables[1][t]
        priors[t].products_of_sums = &of_sums[0]
        of_sums = tables[3][t]
        priors[t].log_gammas_of_sums = &of_sums[0]
    with nogil:
        for j in range(leaf.shape[0]):
            i = leaf[j]
            for k in range(n_counts):
                counts[i, k] = <uint32_t> leaves[k, j]
            # The loops are unrolled for binary targets, the most frequent case.
            if is_plain:
                evidence[i] = evidence_of_counts(priors, &counts[i, 0], 2, &n_rows[i], &values[i, 0])
            else:
                evidence[i] = _evidence_of_all_targets(priors, n_targets, &counts[i, 0], &n_rows[i], &values[i, 0])
        for j in range(inner.shape[0] - 1, -1, -1):
            i, left = inner[j], left_child[j]
            for k in range(n_counts):
                counts[i, k] = counts[left, k] + counts[left + 1, k]
            if is_plain:
                leaf_evidence = evidence_of_counts(priors, &counts[i, 0], 2, &n_rows[i], &values[i, 0])
            else:
                leaf_evidence = _evidence_of_all_targets(priors, n_targets, &counts[i, 0], &n_rows[i], &values[i, 0])
            evidence[i] = _evidence_over_prunings(
                leaf_evidence, split_prior[i], max_tabled, &n_rows[left], &evidence[left], n_rows[i], &last, &split[j]
            )
        free(priors)
    return split_, values_, evidence_


cdef enum:
    BLOCK = 1024  # nodes


cdef extern from "posterior/evidence_loops.h":
    const int EXPONENT_BITS
    ctypedef struct node_sums:
        const int32_t* n_rows
        const float64_t* first
        const float64_t* second
    ctypedef struct node_spreads:
        float64_t* mean
        float64_t* ratio
        float64_t* power
    void spreads(
        node_sums sums, float64_t weight, float64_t half, int32_t twice, node_spreads out, Py_ssize_t n
    ) nogil


cdef inline float64_t _integer_power(float64_t x, uint32_t n) noexcept nogil:
    """Return x to the power of n by repeated squaring."""
    cdef float64_t power = 1.0
    while n > 0:
        if n & 1:
            power *= x
        x *= x
        n >>= 1
    return power


cdef void _sum_branches(
    const int32_t[::1] inner, const int32_t[::1] left_child, const int32_t[::1] leaf, const value_t[:, ::1] leaves,
    Py_ssize_t t, int32_t[::1] n_rows, float64_t[:, ::1] sums
) noexcept nogil:
    """Write the number of rows of all nodes to `n_rows`, and the sums of z and z^2 of target t to `sums`, (2, n_nodes).

    z is the target minus its location. `leaves` holds the sums of the leaves, see `number_posterior`.
    """
    cdef Py_ssize_t i, j, left, n_targets = leaves.shape[0] // 2
    cdef const value_t* of_leaf = &leaves[0, 0]
    cdef const value_t* first_of_leaf = &leaves[1 + t, 0]
    cdef const value_t* second_of_leaf = &leaves[1 + n_targets + t, 0]
    cdef float64_t* first = &sums[0, 0]
    cdef float64_t* second = &sums[1, 0]
    for j in range(leaf.shape[0]):
        i = leaf[j]
        n_rows[i], first[i], second[i] = <int32_t> of_leaf[j], first_of_leaf[j], second_of_leaf[j]
    for j in range(inner.shape[0] - 1, -1, -1):
        i, left = inner[j], left_child[j]
        n_rows[i] = n_rows[left] + n_rows[left + 1]
        first[i] = first[left] + first[left + 1]
        second[i] = second[left] + second[left + 1]


def number_posterior(
    nodes, const value_t[:, ::1] leaves, const float64_t[::1] location, const float64_t[::1] rate,
    tuple weight_and_shape, const float64_t[::1] factors, const float64_t[::1] log_factors,
    const float64_t[:] split_prior
):
    """Return the split posterior, values and evidence of nodes for normal targets with a normal-inverse-gamma prior.

    See `class_posterior` for `nodes` and the results.

    Parameters
    ----------
    leaves : array of shape (1 + 2 * n_targets, n_leaves)
        Sums of 1, of the targets minus their location, and of the squares of these differences.
    location, rate : float64 arrays of shape (n_targets,)
        Prior mean, and rate of the prior of the precision.
    weight_and_shape : (float, float)
        The weight of the prior mean in rows, and the shape of the prior of the precision.
    factors : float64 array of shape (max_tabled + 1,)
        gamma(shape + i / 2) / gamma(shape) sqrt(weight / (weight + i)) for i = 0, 1, ... rows. The evidence omits the
        factor (2 pi rate)^(-1/2) of each row and target, because it is equal for all prunings.
    log_factors : float64 array
        Logarithms of these factors, for more rows.
    split_prior
        Prior probability that a node splits, (n_nodes,).
    """
    cdef const int32_t[::1] inner = nodes[0], left_child = nodes[1], leaf = nodes[2]
    cdef float64_t weight = weight_and_shape[0], shape = weight_and_shape[1]
    cdef Py_ssize_t i, b, t, left, block, begin, end, n = inner.shape[0] + leaf.shape[0], n_targets = location.shape[0]
    cdef uint32_t total, max_tabled = <uint32_t> factors.shape[0] - 1, exponent, twice = <uint32_t> (2 * shape)
    cdef bint is_half = 0.5 * twice == shape
    cdef float64_t part
    cdef LogPrior last = LogPrior(-1.0, 0.0, 0.0)
    split_, values_, evidence_ = np.empty(inner.shape[0]), np.empty((n, n_targets)), np.empty(n)
    cdef int32_t[::1] n_rows = np.empty(n, dtype=np.int32)
    cdef float64_t[::1] split = split_, evidence = evidence_
    cdef float64_t[:, ::1] values = values_, sums = np.empty((2, n)), work = np.empty((3, BLOCK))
    cdef node_spreads block_spreads = node_spreads(&work[0, 0], &work[1, 0], &work[2, 0])
    with nogil:
        for t in range(n_targets):
            _sum_branches(inner, left_child, leaf, leaves, t, n_rows, sums)
            # Blocks of nodes fit into the cache.
            for block in range((n + BLOCK - 1) // BLOCK):
                begin, end = block * BLOCK, min((block + 1) * BLOCK, n)
                spreads(
                    node_sums(&n_rows[begin], &sums[0, begin], &sums[1, begin]), weight, 0.5 / rate[t],
                    <int32_t> twice, block_spreads, end - begin,
                )
                for i in range(begin, end):
                    b = i - begin
                    values[i, t] = location[t] + block_spreads.mean[b]
                    total, exponent = <uint32_t> n_rows[i], twice + <uint32_t> n_rows[i]
                    if total > max_tabled:
                        if total < log_factors.shape[0]:
                            part = log_factors[total]
                        else:
                            part = lgamma(shape + 0.5 * total) - lgamma(shape) + 0.5 * log(weight / (weight + total))
                        part -= (shape + 0.5 * total) * log(block_spreads.ratio[b])
                        evidence[i] = part if t == 0 else evidence[i] + part
                        continue
                    part = factors[total]
                    if not is_half:
                        part *= exp((-shape - 0.5 * total) * log(block_spreads.ratio[b]))
                    else:
                        part *= block_spreads.power[b]
                        if exponent >> EXPONENT_BITS:
                            exponent = (exponent >> EXPONENT_BITS) << (EXPONENT_BITS - 1)
                            part *= _integer_power(1.0 / block_spreads.ratio[b], exponent)
                    evidence[i] = part if t == 0 else evidence[i] * part
        for b in range(inner.shape[0] - 1, -1, -1):
            i, left = inner[b], left_child[b]
            evidence[i] = _evidence_over_prunings(
                evidence[i], split_prior[i], max_tabled, &n_rows[left], &evidence[left], n_rows[i], &last, &split[b]
            )
    return split_, values_, evidence_


def count_classes(
    const int32_t[::1] leaf, const value_t[:, :] shares, const float32_t[::1] weight, count_t[:, ::1] counts
):
    """Write the weights of one target's classes in the leaves to `counts`, (n_classes, n_leaves).

    `leaf` holds the indices of the leaves. `shares` holds the probabilities of the second of two classes, or of each
    class if there are more, and `weight` the weight of each node. Weights are rounded to integers if `counts` has an
    integer type.
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


def sum_number_statistics(
    const int32_t[::1] leaf, const value_t[:, ::1] mean, const float64_t[:, ::1] squares, const float32_t[::1] weight,
    const float64_t[::1] location, sum_t[:, ::1] sums
):
    """Write the sums of 1, z and z^2 in the leaves to `sums`, (1 + 2 * n_targets, n_leaves).

    z is the target minus `location`. `leaf` holds the indices of the leaves. `weight`, `mean` and `squares`, the sums
    of squared differences from the mean, belong to all nodes. Return the largest absolute value of each row of `sums`.
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
