"""Splits of more than two classes by Gini: a group of rows changes the sums of squares only for the classes it has."""

from .forest_scan cimport Candidates, Groups, keep
from .forest_tree cimport Forest, FoundSplit, Layout, NodeSums, Room, Sample
from .structs cimport float64_t, int32_t, int64_t, uint64_t


cdef struct Side:
    # Whole numbers, so that what is added can be taken away again.
    int64_t squares
    int64_t weight
    int64_t count
    uint64_t* weights               # of each class


cdef inline int64_t _weight(const Layout* layout, uint64_t word) noexcept nogil:
    return <int64_t>((word >> layout.weight_shift) & layout.weight_mask)


cdef float64_t class_score(const Layout* layout, const uint64_t* words, Py_ssize_t n_classes) noexcept nogil:
    """Sum of the squares of the classes' weights, over their sum."""
    cdef Py_ssize_t k
    cdef float64_t of_class, squares = 0.0, weight = 0.0
    for k in range(n_classes):
        of_class = <float64_t>_weight(layout, words[k])
        squares += of_class * of_class
        weight += of_class
    return squares / weight


cdef inline void _move(
    const Layout* layout, const uint64_t* cell, int32_t n_classes, Side* from_, Side* to
) noexcept nogil:
    """Move a group's rows from one side to the other."""
    cdef int32_t k
    cdef int64_t weight
    for k in range(n_classes):
        if cell[k] == 0:
            continue
        weight = _weight(layout, cell[k])
        from_.squares -= weight * (2 * <int64_t>from_.weights[k] - weight)
        to.squares += weight * (2 * <int64_t>to.weights[k] + weight)
        from_.weights[k] -= weight
        to.weights[k] += weight
        from_.weight -= weight
        to.weight += weight
        to.count += cell[k] & layout.count_mask
        from_.count -= cell[k] & layout.count_mask


cdef void _start(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, Side* left, Side* right
) noexcept nogil:
    """All rows on the right."""
    cdef int32_t k, n_classes = forest.targets.n_stats
    left.squares = left.weight = left.count = right.squares = 0
    left.weights, right.weights = room.left, room.left + n_classes
    right.weight, right.count = node.weight, node.n_rows
    for k in range(n_classes):
        left.weights[k] = 0
        right.weights[k] = <uint64_t>_weight(&sample.layout, room.total[k])
        right.squares += <int64_t>right.weights[k] * <int64_t>right.weights[k]


cdef inline bint _is_allowed(const Forest* forest, const Sample* sample, const Side* side) noexcept nogil:
    return side.weight >= sample.min_weight and (sample.layout.count_mask == 0 or side.count >= forest.rules.min_leaf)


cdef void scan_classes(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil:
    """Keep the best of the splits if it is better than the best so far."""
    cdef Side left, right
    cdef int32_t j, n_classes = forest.targets.n_stats
    cdef float64_t gain
    _start(forest, sample, room, node, &left, &right)
    if candidates.missing_left:
        _move(&sample.layout, room.found, n_classes, &right, &left)
    for j in range(candidates.first, candidates.last + 1):
        _move(&sample.layout, room.found + <Py_ssize_t>j * n_classes, n_classes, &right, &left)
        if not (_is_allowed(forest, sample, &left) and _is_allowed(forest, sample, &right)):
            continue
        gain = <float64_t>left.squares / <float64_t>left.weight
        gain += <float64_t>right.squares / <float64_t>right.weight - node.score
        if gain > best.gain:
            keep(gain, groups.feature, j, candidates.missing_left, best)
            best.left_weight = left.weight
