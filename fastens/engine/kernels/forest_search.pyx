"""The best split of a node of a forest's tree.

Features are drawn until `n_drawn` that are not constant in the node were looked at. What a node finds constant is
constant in its children: they do not draw it.
"""

from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

from .forest_groups cimport add_row, collect_groups, count_features
from .forest_median cimport median_score, search_medians
from .forest_scan cimport Groups, search_groups, words_score, words_weight
from .forest_tree cimport (
    ABSOLUTE, FEATURES_AT_ONCE, Forest, FoundSplit, NodeSums, Open, Room, Sample
)
from .random cimport random_below, random_bits
from .structs cimport int32_t, uint32_t, uint64_t


cdef enum:
    # With less than this share of the features left, the next one is found by its rank, not by trying.
    SCARCE = 8


cdef inline bint _has(const uint64_t* mask, int32_t feature) noexcept nogil:
    return (mask[feature >> 6] >> (feature & 63)) & 1


cdef inline void _set(uint64_t* mask, int32_t feature) noexcept nogil:
    mask[feature >> 6] |= <uint64_t>1 << (feature & 63)


cdef int32_t _free_by_rank(const uint64_t* mask, int32_t rank) noexcept nogil:
    """The feature that has `rank` unmarked ones before it."""
    cdef int32_t feature = 0
    while True:
        if not _has(mask, feature):
            if rank == 0:
                return feature
            rank -= 1
        feature += 1


cdef int32_t _draw(
    const Forest* forest, Room* room, uint64_t key, int32_t n_wanted, int32_t n_left, uint64_t* counter
) noexcept nogil:
    """Draw features that were not visited, n_left of them, without replacement; return how many."""
    cdef int32_t i, feature = 0, n_features = forest.table.n_features
    if n_left <= n_wanted:
        for i in range(n_left):
            while _has(room.visited, feature):
                feature += 1
            room.drawn[i] = feature
            feature += 1
        memset(room.visited, 255, room.n_mask_words * sizeof(uint64_t))
        return n_left
    for i in range(n_wanted):
        if (n_left - i) * SCARCE < n_features:
            feature = _free_by_rank(room.visited, <int32_t>random_below(key, counter[0], n_left - i))
        else:
            feature = <int32_t>random_below(key, counter[0], n_features)
            while _has(room.visited, feature):
                counter[0] += 1
                feature = <int32_t>random_below(key, counter[0], n_features)
        counter[0] += 1
        _set(room.visited, feature)
        room.drawn[i] = feature
    return n_wanted


cdef bint _is_pure(const Forest* forest, const Sample* sample, const NodeSums* node) noexcept nogil:
    """Whether all rows have the same targets."""
    cdef Py_ssize_t i
    cdef int32_t t, n = forest.targets.n_targets
    cdef uint32_t first = node.rows[0].row
    for i in range(1, node.n_rows):
        for t in range(n):
            if forest.targets.classes != NULL:
                if forest.targets.classes[<Py_ssize_t>node.rows[i].row * n + t] != forest.targets.classes[<Py_ssize_t>first * n + t]:
                    return False
            elif forest.targets.numbers[<Py_ssize_t>node.rows[i].row * n + t] != forest.targets.numbers[<Py_ssize_t>first * n + t]:
                return False
    return True


cdef void _sum_up(const Forest* forest, const Sample* sample, Room* room, NodeSums* node) noexcept nogil:
    cdef Py_ssize_t i
    memset(room.total, 0, sample.layout.n_words * sizeof(uint64_t))
    for i in range(node.n_rows):
        add_row(forest, sample, &node.rows[i], room.total)
    node.weight = words_weight(forest, sample, room.total)
    if forest.rules.criterion == ABSOLUTE:
        node.score = median_score(forest, sample, room, node)
    else:
        node.score = words_score(forest, sample, room.total, room.stats)


cdef bint find_split(
    const Forest* forest, const Sample* sample, Room* room, Open* open, uint64_t* mask
) noexcept nogil:
    """Find the node's best split and mark the features that are constant in it; say whether there is one."""
    cdef FoundSplit* best = &open.split
    cdef NodeSums node
    cdef uint64_t counter = 0
    cdef int32_t i, n, n_seen = 0, n_left = forest.table.n_features - open.n_excluded
    best.feature, best.gain = -1, -INFINITY
    node.rows, node.n_rows = sample.entries + open.begin, open.end - open.begin
    node.lower, node.upper = open.lower, open.upper
    if _is_pure(forest, sample, &node):
        return False
    _sum_up(forest, sample, room, &node)
    if node.weight < 2 * sample.min_weight:
        return False
    memcpy(room.visited, mask, room.n_mask_words * sizeof(uint64_t))
    while n_seen < forest.rules.n_drawn and n_left > 0:
        n = _draw(forest, room, open.key, forest.rules.n_drawn - n_seen, n_left, &counter)
        n_left -= n
        i = _search_features(forest, sample, room, &node, open.key, n, mask, best)
        n_seen += n - i
        open.n_excluded += i
    if best.feature < 0 or best.gain < sample.min_gain:
        return False
    best.gain = max(best.gain, 0.0)
    return True


cdef int32_t _search_features(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, uint64_t key, int32_t n,
    uint64_t* mask, FoundSplit* best,
) noexcept nogil:
    """Look at the n features drawn; mark those that are constant, and return how many."""
    cdef int32_t i, j, n_constant = 0
    cdef Groups groups
    for i in range(n):
        j = i % FEATURES_AT_ONCE
        if j == 0 and forest.rules.criterion != ABSOLUTE:
            count_features(forest, sample, room, node, room.drawn + i, min(n - i, <int32_t>FEATURES_AT_ONCE))
        groups.feature = room.drawn[i]
        groups.key = random_bits(key, ~<uint64_t>groups.feature)
        if forest.rules.criterion == ABSOLUTE:
            search_medians(forest, sample, room, node, &groups, best)
        else:
            collect_groups(forest, sample, room, node, j, &groups)
            if groups.n > 1:
                search_groups(forest, sample, room, node, &groups, best)
        if groups.n == 1:
            _set(mask, groups.feature)
            n_constant += 1
    return n_constant
