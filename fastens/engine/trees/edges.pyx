"""What of the training weight goes along the edges of trees, and which tests of a path are of one feature."""

import numpy as np

from fastens.engine.structs cimport float64_t, int32_t, int64_t


def edge_shares(
    const int64_t[::1] first_node, const int32_t[::1] left_child, const int32_t[::1] feature,
    const float64_t[::1] weight,
):
    """Return, for each node, of the edge to it: share, position, and how many features the path has; and the depth.

    The share is that of the training weight which passes all tests of the edge's feature up to here, the position that
    of the feature among those of the path, in the order in which they are tested first. All arrays are by node.
    """
    cdef Py_ssize_t n_nodes = left_child.shape[0], t, i, side
    cdef int64_t root, node, child, other, above
    cdef float64_t both
    cdef float64_t[::1] share = np.ones(n_nodes)
    cdef int32_t[::1] edge_feature = np.full(n_nodes, -1, dtype=np.int32)
    cdef int32_t[::1] position = np.zeros(n_nodes, dtype=np.int32)
    cdef int32_t[::1] n_features = np.zeros(n_nodes, dtype=np.int32)
    cdef int32_t[::1] depth = np.zeros(n_nodes, dtype=np.int32)
    cdef int32_t[::1] parent = np.zeros(n_nodes, dtype=np.int32)
    for t in range(first_node.shape[0] - 1):
        root = first_node[t]
        for i in range(first_node[t + 1] - root):
            node = root + i
            if left_child[node] == 0:
                continue
            child = root + left_child[node]
            both = weight[child] + weight[child + 1]
            above = root + _nearest(parent, edge_feature, root, i, feature[node])
            for side in range(2):
                other = child + side
                parent[other] = <int32_t> i
                depth[other] = depth[node] + 1
                edge_feature[other] = feature[node]
                n_features[other] = n_features[node] + (above == root)
                position[other] = n_features[node] if above == root else position[above]
                share[other] = (weight[other] / both if both > 0 else 0.5) * share[above]
    return np.asarray(share), np.asarray(position), np.asarray(n_features), np.asarray(depth)


cdef int32_t _nearest(
    const int32_t[::1] parent, const int32_t[::1] edge_feature, int64_t root, int64_t node, int32_t feature
) noexcept:
    # The nearest node, from this one upwards, whose edge tests the feature; 0 where there is none.
    while node > 0 and edge_feature[root + node] != feature:
        node = parent[root + node]
    return <int32_t> node
