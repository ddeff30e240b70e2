"""Grown trees, one after another in the arrays that a model has: several are grown before Python sees them."""

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint16_t, uint32_t

import numpy as np


cdef bint _resize(void** array, size_t n_bytes) noexcept nogil:
    cdef void* fresh = realloc(array[0], n_bytes)
    if fresh != NULL:
        array[0] = fresh
    return fresh != NULL


cdef Py_ssize_t _enough(Py_ssize_t capacity, Py_ssize_t n) noexcept nogil:
    return capacity if n <= capacity else max(n, 2 * capacity)


cdef bint reserve_tree(Harvest* harvest, Py_ssize_t n_nodes, Py_ssize_t n_words) noexcept nogil:
    """Room for another tree; False without memory."""
    cdef Py_ssize_t nodes = _enough(harvest.nodes_capacity, harvest.n_nodes + n_nodes)
    cdef Py_ssize_t words = _enough(harvest.words_capacity, harvest.n_words + n_words)
    cdef Py_ssize_t trees = _enough(harvest.trees_capacity, harvest.n_trees + 1)
    if nodes > harvest.nodes_capacity:
        if not (
            _resize(<void**>&harvest.feature, nodes * sizeof(int32_t))
            and _resize(<void**>&harvest.bin_threshold, nodes * sizeof(uint16_t))
            and _resize(<void**>&harvest.missing_left, nodes)
            and _resize(<void**>&harvest.category_set, nodes * sizeof(int32_t))
            and _resize(<void**>&harvest.left_child, nodes * sizeof(int32_t))
            and _resize(<void**>&harvest.value, nodes * harvest.n_values * (4 if harvest.narrow else 8))
            and _resize(<void**>&harvest.gain, nodes * (4 if harvest.narrow else 8))
            and _resize(<void**>&harvest.n_samples, nodes * sizeof(int32_t))
            and _resize(<void**>&harvest.weight, nodes * sizeof(float32_t))
            and (
                harvest.n_squares == 0
                or _resize(<void**>&harvest.squares, nodes * harvest.n_squares * sizeof(float64_t))
            )
            and (
                not harvest.with_search
                or _resize(<void**>&harvest.n_usable, nodes * sizeof(int32_t))
                and _resize(<void**>&harvest.n_groups, nodes * sizeof(int32_t))
            )
        ):
            return False
        harvest.nodes_capacity = nodes
    if words > harvest.words_capacity:
        if not _resize(<void**>&harvest.words, words * sizeof(uint32_t)):
            return False
        harvest.words_capacity = words
    if trees > harvest.trees_capacity:
        if not _resize(<void**>&harvest.ends, trees * 2 * sizeof(int64_t)):
            return False
        harvest.trees_capacity = trees
    return True


cdef void close_tree(Harvest* harvest, Py_ssize_t n_nodes, Py_ssize_t n_words) noexcept nogil:
    """What was written behind the others is a tree."""
    harvest.n_nodes += n_nodes
    harvest.n_words += n_words
    harvest.ends[2 * harvest.n_trees] = harvest.n_nodes
    harvest.ends[2 * harvest.n_trees + 1] = harvest.n_words
    harvest.n_trees += 1


cdef void free_harvest(Harvest* harvest) noexcept nogil:
    free(harvest.feature)
    free(harvest.bin_threshold)
    free(harvest.missing_left)
    free(harvest.category_set)
    free(harvest.left_child)
    free(harvest.value)
    free(harvest.gain)
    free(harvest.n_samples)
    free(harvest.weight)
    free(harvest.squares)
    free(harvest.n_usable)
    free(harvest.n_groups)
    free(harvest.words)
    free(harvest.ends)


cdef _copied(const void* first, Py_ssize_t n_rows, dtype):
    array = np.empty(n_rows, dtype)
    if n_rows > 0:      # there may be no words, and no room for any
        memcpy(<void*><size_t>array.ctypes.data, first, array.nbytes)
    return array


cdef list take_trees(Harvest* harvest):
    """The arrays of each tree, as views of common arrays; there is room for others then."""
    cdef Py_ssize_t n = harvest.n_nodes, node = 0, word = 0, end, last_word
    cdef int32_t t
    real = np.float32 if harvest.narrow else np.float64
    value = _copied(harvest.value, n * harvest.n_values, real)
    words = _copied(harvest.words, harvest.n_words, np.uint32)
    arrays = {
        "feature": _copied(harvest.feature, n, np.int32),
        "bin_threshold": _copied(harvest.bin_threshold, n, np.uint16),
        "missing_left": _copied(harvest.missing_left, n, np.uint8),
        "category_set": _copied(harvest.category_set, n, np.int32),
        "left_child": _copied(harvest.left_child, n, np.int32),
        "value": value.reshape(n, harvest.n_values),
        "gain": _copied(harvest.gain, n, real),
        "n_samples": _copied(harvest.n_samples, n, np.int32),
        "weight": _copied(harvest.weight, n, np.float32),
    }
    if harvest.n_squares > 0:
        squares = _copied(harvest.squares, n * harvest.n_squares, np.float64)
        arrays["squares"] = squares.reshape(n, harvest.n_squares)
    if harvest.with_search:
        arrays["n_usable"] = _copied(harvest.n_usable, n, np.int32)
        arrays["n_groups"] = _copied(harvest.n_groups, n, np.int32)
    trees = []
    for t in range(harvest.n_trees):
        end, last_word = harvest.ends[2 * t], harvest.ends[2 * t + 1]
        tree = {name: array[node:end] for name, array in arrays.items()}
        tree["category_words"] = words[word:last_word]
        trees.append(tree)
        node, word = end, last_word
    harvest.n_nodes = harvest.n_words = harvest.n_trees = 0
    return trees
