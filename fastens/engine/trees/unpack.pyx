"""Passes over the nodes of many trees that put what was packed back into its place."""

from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

ctypedef fused number_t:
    int64_t
    float32_t
    float64_t


def spread_splits(
    const uint8_t[::1] is_leaf, const uint32_t[::1] pair, const int32_t[::1] feature,
    const uint16_t[::1] bin_threshold, const uint8_t[::1] missing_left, dict into,
):
    """Write the splits of inner nodes, which are given one after another, into arrays with an entry for every node.

    Lengths are trusted: there are as many splits as zeros in `is_leaf`.
    """
    cdef int32_t[::1] left_child = into["left_child"], features = into["feature"]
    cdef uint16_t[::1] thresholds = into["bin_threshold"]
    cdef uint8_t[::1] missing = into["missing_left"]
    cdef Py_ssize_t node, inner = 0
    with nogil:
        for node in range(is_leaf.shape[0]):
            if is_leaf[node]:
                left_child[node] = 0
                features[node] = -1
                thresholds[node] = 0
                missing[node] = 0
            else:
                left_child[node] = <int32_t> (2 * pair[inner] + 1)
                features[node] = feature[inner]
                thresholds[node] = bin_threshold[inner]
                missing[node] = missing_left[inner]
                inner += 1


def sum_up(const int64_t[::1] node_offsets, const int32_t[::1] left_child, number_t[::1] numbers):
    """Give every inner node the sum of the numbers of its children. Children stand behind their parents."""
    cdef Py_ssize_t tree, node, root, child
    with nogil:
        for tree in range(node_offsets.shape[0] - 2, -1, -1):
            root = node_offsets[tree]
            for node in range(node_offsets[tree + 1] - 1, root - 1, -1):
                if left_child[node] > 0:
                    child = root + left_child[node]
                    numbers[node] = numbers[child] + numbers[child + 1]
