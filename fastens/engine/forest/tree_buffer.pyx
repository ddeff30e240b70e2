"""Grown trees, one after another in the arrays that a model has: several are grown before Python sees them."""

from libc.stdlib cimport free
from libc.string cimport memcpy

from fastens.engine.memory cimport resize
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint16_t, uint32_t

import numpy as np


cdef Py_ssize_t _enough(Py_ssize_t capacity, Py_ssize_t n) noexcept nogil:
    return capacity if n <= capacity else max(n, 2 * capacity)


cdef bint reserve_tree(TreeBuffer* buffer, Py_ssize_t n_nodes, Py_ssize_t n_words) noexcept nogil:
    """Workspace for another tree; False without memory."""
    cdef Py_ssize_t nodes = _enough(buffer.nodes_capacity, buffer.n_nodes + n_nodes)
    cdef Py_ssize_t words = _enough(buffer.words_capacity, buffer.n_words + n_words)
    cdef Py_ssize_t trees = _enough(buffer.trees_capacity, buffer.n_trees + 1)
    if nodes > buffer.nodes_capacity:
        if not (
            resize(<void**>&buffer.feature, nodes * sizeof(int32_t))
            and resize(<void**>&buffer.bin_threshold, nodes * sizeof(uint16_t))
            and resize(<void**>&buffer.missing_left, nodes)
            and resize(<void**>&buffer.category_set, nodes * sizeof(int32_t))
            and resize(<void**>&buffer.left_child, nodes * sizeof(int32_t))
            and resize(<void**>&buffer.value, nodes * buffer.n_values * (4 if buffer.narrow else 8))
            and resize(<void**>&buffer.gain, nodes * (4 if buffer.narrow else 8))
            and resize(<void**>&buffer.n_samples, nodes * sizeof(int32_t))
            and resize(<void**>&buffer.weight, nodes * sizeof(float32_t))
            and (
                buffer.n_squares == 0
                or resize(<void**>&buffer.squares, nodes * buffer.n_squares * sizeof(float64_t))
            )
            and (
                not buffer.with_search
                or resize(<void**>&buffer.n_usable, nodes * sizeof(int32_t))
                and resize(<void**>&buffer.n_groups, nodes * sizeof(int32_t))
            )
        ):
            return False
        buffer.nodes_capacity = nodes
    if words > buffer.words_capacity:
        if not resize(<void**>&buffer.words, words * sizeof(uint32_t)):
            return False
        buffer.words_capacity = words
    if trees > buffer.trees_capacity:
        if not resize(<void**>&buffer.ends, trees * 2 * sizeof(int64_t)):
            return False
        buffer.trees_capacity = trees
    return True


cdef void close_tree(TreeBuffer* buffer, Py_ssize_t n_nodes, Py_ssize_t n_words) noexcept nogil:
    """What was written behind the others is a tree."""
    buffer.n_nodes += n_nodes
    buffer.n_words += n_words
    buffer.ends[2 * buffer.n_trees] = buffer.n_nodes
    buffer.ends[2 * buffer.n_trees + 1] = buffer.n_words
    buffer.n_trees += 1


cdef void free_buffer(TreeBuffer* buffer) noexcept nogil:
    free(buffer.feature)
    free(buffer.bin_threshold)
    free(buffer.missing_left)
    free(buffer.category_set)
    free(buffer.left_child)
    free(buffer.value)
    free(buffer.gain)
    free(buffer.n_samples)
    free(buffer.weight)
    free(buffer.squares)
    free(buffer.n_usable)
    free(buffer.n_groups)
    free(buffer.words)
    free(buffer.ends)


cdef _copied(const void* first, Py_ssize_t n_rows, dtype):
    array = np.empty(n_rows, dtype)
    if n_rows > 0:      # there may be no words, and no room for any
        memcpy(<void*><size_t>array.ctypes.data, first, array.nbytes)
    return array


cdef list take_trees(TreeBuffer* buffer):
    """The arrays of each tree, as views of common arrays; there is room for others then."""
    cdef Py_ssize_t n = buffer.n_nodes, node = 0, word = 0, end, last_word
    cdef int32_t t
    real = np.float32 if buffer.narrow else np.float64
    value = _copied(buffer.value, n * buffer.n_values, real)
    words = _copied(buffer.words, buffer.n_words, np.uint32)
    arrays = {
        "feature": _copied(buffer.feature, n, np.int32),
        "bin_threshold": _copied(buffer.bin_threshold, n, np.uint16),
        "missing_left": _copied(buffer.missing_left, n, np.uint8),
        "category_set": _copied(buffer.category_set, n, np.int32),
        "left_child": _copied(buffer.left_child, n, np.int32),
        "value": value.reshape(n, buffer.n_values),
        "gain": _copied(buffer.gain, n, real),
        "n_samples": _copied(buffer.n_samples, n, np.int32),
        "weight": _copied(buffer.weight, n, np.float32),
    }
    if buffer.n_squares > 0:
        squares = _copied(buffer.squares, n * buffer.n_squares, np.float64)
        arrays["squares"] = squares.reshape(n, buffer.n_squares)
    if buffer.with_search:
        arrays["n_usable"] = _copied(buffer.n_usable, n, np.int32)
        arrays["n_groups"] = _copied(buffer.n_groups, n, np.int32)
    trees = []
    for t in range(buffer.n_trees):
        end, last_word = buffer.ends[2 * t], buffer.ends[2 * t + 1]
        tree = {name: array[node:end] for name, array in arrays.items()}
        tree["category_words"] = words[word:last_word]
        trees.append(tree)
        node, word = end, last_word
    buffer.n_nodes = buffer.n_words = buffer.n_trees = 0
    return trees
