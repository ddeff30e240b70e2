"""Directions of unseen categories at splits without missing values in training.

A node sends unseen categories to one side, so that every format of a tree can represent it. The resulting error is the
difference between that side and the mean of both sides. Nodes are visited in the order in which trees are summed. Each
node chooses the side that brings the accumulated error, by feature and weighted by the share of rows at the node,
closest to 0. Over all trees, unseen categories therefore get the weighted mean of both sides, as if they followed both.
The directions of a tree do not depend on later trees, so continued training does not change earlier trees.
"""

import numpy as np

from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint8_t, uint32_t


cdef void _average_inner_nodes(
    const int32_t[::1] left_child, const float64_t[::1] weight, float64_t[:, ::1] mean, int64_t first, int64_t end
) noexcept:
    """Set `mean` of the inner nodes first to end - 1 of a tree to the weighted means of their children."""
    cdef int64_t node, child
    cdef Py_ssize_t k
    for node in range(end - 1, first - 1, -1):
        child = first + left_child[node]
        if child > first:
            for k in range(mean.shape[1]):
                mean[node, k] = _weighted_mean(weight[child], weight[child + 1], mean[child, k], mean[child + 1, k])


cdef inline float64_t _weighted_mean(float64_t left, float64_t right, float64_t a, float64_t b) noexcept:
    """Return the mean of a and b with the weights left and right, or their plain mean if both weights are 0."""
    return (left * a + right * b) / (left + right) if left + right > 0 else (a + b) / 2


def send_unseen(
    const int64_t[::1] first_node, const int32_t[::1] left_child, const int32_t[::1] feature,
    const int32_t[::1] category_set, const uint8_t[::1] is_free, const float64_t[::1] weight,
    float64_t[:, ::1] mean, const int32_t[::1] tree_output, int32_t n_features, int32_t n_outputs,
    uint32_t[::1] words,
):
    """Choose the side of unseen categories (code 0) at the splits where `is_free`, and write it to their sets.

    Free splits are categorical and had no missing values in training. Bit 0 of a split's category set in `words` is set
    if code 0 goes left. All arrays except the first and the last three are indexed by node. `mean` holds the values of
    leaves on input, and the values of inner nodes are written to it. `first_node` and `tree_output` are indexed by
    tree.
    """
    cdef float64_t[:, ::1] errors = np.zeros((n_features, n_outputs))
    cdef float64_t[::1] share = np.zeros(left_child.shape[0])
    cdef int64_t first, end, node
    cdef Py_ssize_t t
    cdef uint8_t[::1] has_free_split = np.zeros(n_features, dtype=np.uint8)
    for node in range(left_child.shape[0]):
        if is_free[node] and category_set[node] >= 0:
            has_free_split[feature[node]] = True
    for t in range(first_node.shape[0] - 1):
        first, end = first_node[t], first_node[t + 1]
        _average_inner_nodes(left_child, weight, mean, first, end)
        features = set()
        for node in range(first, end):
            if category_set[node] >= 0 and has_free_split[feature[node]]:
                features.add(feature[node])
        for f in sorted(features):
            choose_sides(
                left_child, feature, category_set, is_free, weight, mean, share, words, errors[f, tree_output[t]:],
                f, first, end,
            )


cdef void choose_sides(
    const int32_t[::1] left_child, const int32_t[::1] feature, const int32_t[::1] category_set,
    const uint8_t[::1] is_free, const float64_t[::1] weight, const float64_t[:, ::1] mean, float64_t[::1] share,
    uint32_t[::1] words, float64_t[::1] error, int32_t f, int64_t first, int64_t end,
) noexcept:
    """Choose the side of unseen categories at the free splits on feature `f` of one tree, nodes first to end - 1.

    The side is written to bit 0 of the sets in `words`. `share` is a workspace: the fraction of unseen rows at each
    node. `error`, the accumulated error of `f` for each value, is updated.
    """
    cdef int64_t node, child
    cdef float64_t both
    cdef bint is_left
    share[first] = 1.0
    for node in range(first, end):
        if left_child[node] == 0:
            continue
        child = first + left_child[node]
        if feature[node] != f or category_set[node] < 0:
            both = weight[child] + weight[child + 1]
            share[child] = share[node] * (weight[child] / both if both > 0 else 0.5)
            share[child + 1] = share[node] - share[child]
            continue
        if is_free[node] and share[node] > 0:
            is_left = _left_is_better(mean, share[node], error, node, child, weight[child] >= weight[child + 1])
            words[category_set[node]] = (words[category_set[node]] & ~<uint32_t>1) | is_left
        is_left = words[category_set[node]] & 1
        share[child], share[child + 1] = share[node] * is_left, share[node] * (not is_left)
        _add_error(mean, share[node], error, node, child + (not is_left))


cdef inline void _add_error(
    const float64_t[:, ::1] mean, float64_t share, float64_t[::1] error, int64_t node, int64_t side
) noexcept:
    """Add share * (mean of `side` - mean of `node`) to `error`: the effect of sending rows only to the child `side`."""
    cdef Py_ssize_t k
    for k in range(mean.shape[1]):
        error[k] += share * (mean[side, k] - mean[node, k])


cdef bint _left_is_better(
    const float64_t[:, ::1] mean, float64_t share, const float64_t[::1] error, int64_t node, int64_t child,
    bint left_is_larger,
) noexcept:
    """Return True if sending unseen categories left brings the error closer to 0; ties go to the larger child.

    `child` is the left child of `node`, and `share` is the fraction of unseen rows at the node.
    """
    cdef float64_t left = 0.0, right = 0.0
    cdef Py_ssize_t k
    for k in range(mean.shape[1]):
        left += (error[k] + share * (mean[child, k] - mean[node, k])) ** 2
        right += (error[k] + share * (mean[child + 1, k] - mean[node, k])) ** 2
    return left_is_larger if left == right else left < right
