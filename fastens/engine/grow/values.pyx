"""Values of a grown tree inside the limits that its growth kept to.

Growth works with rounded sums; here the limits are drawn again from the exact values, by the same rule: where a split
is on a monotone feature, the middle of its children's values bounds everything below them.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc

from fastens.engine.limits cimport bind_side
from fastens.engine.structs cimport float64_t, int8_t, int32_t


def leaf_means(float64_t[::1] value, const float64_t[::1] weight, const int32_t[::1] left_child):
    """Give each inner node the weighted mean of its leaves, in place."""
    cdef int32_t left
    cdef Py_ssize_t i
    for i in range(value.shape[0] - 1, -1, -1):
        left = left_child[i]
        if left > 0:
            value[i] = (weight[left] * value[left] + weight[left + 1] * value[left + 1]) / (
                weight[left] + weight[left + 1]
            )


cdef inline float64_t _within(float64_t value, float64_t lower, float64_t upper) noexcept nogil:
    return min(max(value, lower), upper)


cdef void _bind_children(
    float64_t* value, float64_t* lower, float64_t* upper, Py_ssize_t parent, Py_ssize_t left, int32_t monotone
) noexcept nogil:
    cdef float64_t middle
    cdef Py_ssize_t child
    for child in range(left, left + 2):
        lower[child], upper[child] = lower[parent], upper[parent]
        value[child] = _within(value[child], lower[parent], upper[parent])
    if monotone == 0:
        return
    middle = 0.5 * (value[left] + value[left + 1])
    for child in range(left, left + 2):
        bind_side(monotone, child > left, middle, &lower[child], &upper[child])
        value[child] = _within(value[child], lower[child], upper[child])


cdef void _bind(
    float64_t* value, const float64_t* weight, const int32_t* feature, const int32_t* left_child,
    const int8_t* monotone, float64_t path_smooth, float64_t* lower, Py_ssize_t n,
) noexcept nogil:
    cdef float64_t* upper = lower + n
    cdef Py_ssize_t i, left, child
    value[0] = _within(value[0], lower[0], upper[0])
    for i in range(n):
        left = left_child[i]
        if left == 0:
            continue
        for child in range(left, left + 2):
            if path_smooth > 0:
                value[child] = (weight[child] * value[child] + path_smooth * value[i]) / (weight[child] + path_smooth)
        _bind_children(value, lower, upper, i, left, monotone[feature[i]] if monotone != NULL else 0)


def bind_values(float64_t[::1] value, const float64_t[::1] weight, tree, rules):
    """Smooth values along their paths and keep them within their bounds, in place.

    Parameters
    ----------
    value, weight : float64 arrays of shape (n_nodes,)
        Of all nodes; the less a node weighs, the more `path_smooth` pulls it towards its parent.
    tree : Tree
        The tree.
    rules : GrowthRules
        Its limits.
    """
    cdef const int32_t[::1] feature = tree.feature, left_child = tree.left_child
    cdef const int8_t[::1] monotone = rules.monotone
    cdef float64_t path_smooth = rules.path_smooth
    cdef Py_ssize_t n = value.shape[0]
    cdef const int8_t* signs = NULL
    cdef float64_t* bounds = <float64_t*>malloc(2 * n * sizeof(float64_t))
    if bounds == NULL:
        raise MemoryError(f"no memory for the bounds of {n} nodes")
    bounds[0] = -INFINITY if rules.max_delta_step is None else -rules.max_delta_step
    bounds[n] = -bounds[0]
    if monotone is not None:
        signs = &monotone[0]
    with nogil:
        _bind(&value[0], &weight[0], &feature[0], &left_child[0], signs, path_smooth, bounds, n)
    free(bounds)
