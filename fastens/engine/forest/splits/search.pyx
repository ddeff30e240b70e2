"""The best split of a node of a forest's tree.

Features are drawn until `n_drawn` that are not constant in the node were looked at. What a node finds constant is
constant in its children: they do not draw it.
"""

from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

from fastens.engine.forest.splits.classes cimport has_few, search_few
from fastens.engine.forest.splits.draw cimport Draw, add_feature, draw_features, draw_weighted
from fastens.engine.forest.splits.groups cimport Groups, add_row, collect_groups, count_features
from fastens.engine.forest.splits.median cimport median_score, search_medians
from fastens.engine.forest.splits.random_threshold cimport copy_codes, copy_words, search_threshold
from fastens.engine.forest.splits.scan cimport search_groups
from fastens.engine.forest.splits.score cimport is_pure_word, uses_medians, words_score, words_weight
from fastens.engine.forest.splits.structs cimport (
    FEATURES_AT_ONCE, Forest, FoundSplit, NodeSums, Open, Sample, Scratch
)
from fastens.engine.random cimport random_bits
from fastens.engine.structs cimport float64_t, int32_t, uint32_t, uint64_t


cdef enum:
    # A node of so little weight looks at one feature after another, for one that parts the classes ends the search.
    # (Not: of so few rows, for a weight means as many copies.)
    LITTLE_WEIGHT = 16
    # Cells of one feature that need so many words leave no place in the cache for those of another.
    CACHED_WORDS = 1 << 14


cdef bint _is_pure(const Forest* forest, const NodeSums* node) noexcept nogil:
    """Whether all rows have the same targets."""
    cdef const float64_t* numbers = forest.targets.numbers
    cdef const int32_t* classes = forest.targets.classes
    cdef Py_ssize_t i, t, n = forest.targets.n_targets, first = node.rows[0].row * n, place
    for i in range(1, node.n_rows):
        place = node.rows[i].row * n
        for t in range(n):
            if classes != NULL and classes[place + t] != classes[first + t]:
                return False
            if numbers != NULL and numbers[place + t] != numbers[first + t]:
                return False
    return True


cdef uint64_t packed_total(const Sample* sample, uint32_t begin, uint32_t end) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint64_t total = 0
    for i in range(begin, end):
        total += sample.entries[i].word
    return total


cdef void _sum_up(
    const Forest* forest, const Sample* sample, Scratch* scratch, const Open* open, NodeSums* node
) noexcept nogil:
    cdef Py_ssize_t i
    if sample.layout.packed:
        scratch.total[0] = open.total
    else:
        memset(scratch.total, 0, sample.layout.n_words * sizeof(uint64_t))
        for i in range(node.n_rows):
            add_row(forest, sample, &node.rows[i], scratch.total)
    node.weight = words_weight(forest, sample, scratch.total)
    if uses_medians(forest):
        node.score = median_score(forest, sample, scratch, node)
    else:
        node.score = words_score(forest, sample, scratch.total, scratch.stats)


cdef bint find_split(
    const Forest* forest, const Sample* sample, Scratch* scratch, Open* open, uint64_t* mask
) noexcept nogil:
    """Find the node's best split and mark the features that are constant in it; say whether there is one."""
    cdef FoundSplit* best = &open.split
    cdef NodeSums node
    cdef Draw draw = Draw(forest.table.n_features, forest.rules.in_random_order, open.key, 0)
    cdef int32_t i, n, n_seen = 0, n_left = forest.table.n_features - open.n_excluded
    best.feature, best.gain, best.n_usable = -1, -INFINITY, n_left
    node.rows, node.n_rows = sample.entries + open.begin, open.end - open.begin
    node.lower, node.upper = open.lower, open.upper
    if is_pure_word(forest, sample, open.total) or (
        not (sample.layout.packed and forest.targets.classes != NULL) and _is_pure(forest, &node)
    ):
        return False
    _sum_up(forest, sample, scratch, open, &node)
    if node.weight < 2 * sample.min_weight:
        return False
    memcpy(scratch.visited, mask, scratch.n_mask_words * sizeof(uint64_t))
    scratch.found_perfect = False
    while n_seen < forest.limits.features_per_split and n_left > 0 and not scratch.found_perfect:
        n = forest.limits.features_per_split - n_seen
        if forest.limits.feature_weights == NULL:
            n = draw_features(&draw, scratch.visited, n, n_left, scratch.drawn)
        else:
            n = draw_weighted(&draw, forest.limits.feature_weights, scratch.visited, n, n_left, scratch.drawn)
        n_left -= n
        i = _search_features(forest, sample, scratch, &node, open.key, n, mask, best)
        n_seen += n - i
        open.n_excluded += i
    if best.feature < 0 or best.gain < sample.min_gain:
        return False
    best.gain = max(best.gain, 0.0)
    return True


cdef int32_t _search_features(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, uint64_t key, int32_t n,
    uint64_t* mask, FoundSplit* best,
) noexcept nogil:
    """Look at the n features drawn; mark those that are constant, and return how many."""
    cdef int32_t i, n_constant = 0, at_once = FEATURES_AT_ONCE
    cdef Groups groups
    cdef bint is_random = forest.rules.random_thresholds, few = has_few(forest, sample, node), sorts
    if (
        <float64_t>node.weight <= LITTLE_WEIGHT * sample.layout.weight_scale
        or <Py_ssize_t>forest.table.max_codes * sample.layout.n_words > CACHED_WORDS or few
    ):
        at_once = 1
    if is_random and sample.layout.packed:
        copy_words(node, scratch)
    for i in range(n):
        groups.feature = scratch.drawn[i]
        sorts = few and not forest.table.is_categorical[groups.feature]
        if i % at_once == 0 and not sorts and not uses_medians(forest):
            _prepare(forest, sample, scratch, node, scratch.drawn + i, min(n - i, at_once))
        groups.key = random_bits(key, ~<uint64_t>groups.feature)
        if uses_medians(forest):
            search_medians(forest, sample, scratch, node, &groups, best)
        elif sorts:
            search_few(forest, sample, scratch, node, &groups, best)
        elif is_random and forest.table.is_categorical[groups.feature]:
            count_features(forest, sample, scratch, node, &groups.feature, 1)
            _search_counted(forest, sample, scratch, node, 0, &groups, best)
        elif is_random:
            search_threshold(forest, sample, scratch, node, i % at_once, &groups, best)
        else:
            _search_counted(forest, sample, scratch, node, i % at_once, &groups, best)
        if groups.n == 1:
            add_feature(mask, groups.feature)
            n_constant += 1
        elif at_once == 1 and best.feature == groups.feature and _is_perfect(forest, sample, scratch, node, best):
            scratch.found_perfect = True
            break
    return n_constant


cdef inline bint _is_perfect(
    const Forest* forest, const Sample* sample, const Scratch* scratch, const NodeSums* node, const FoundSplit* best
) noexcept nogil:
    """Whether no split can be better. (Then what was not looked at loses nothing: the first of equal gains wins.)"""
    return (node.n_rows == 2 and <float64_t>node.weight <= 2 * sample.layout.weight_scale) or (
        is_pure_word(forest, sample, best.left_word)
        and is_pure_word(forest, sample, scratch.total[0] - best.left_word)
    )


cdef inline void _prepare(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const int32_t* features,
    int32_t n,
) noexcept nogil:
    """Read the codes of a few features in one go through the rows."""
    if forest.rules.random_thresholds:
        copy_codes(forest, scratch, node, features, n)
    else:
        count_features(forest, sample, scratch, node, features, n)


cdef inline void _search_counted(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, int32_t place, Groups* groups,
    FoundSplit* best,
) noexcept nogil:
    collect_groups(forest, sample, scratch, node, place, groups)
    if groups.n > 1:
        search_groups(forest, sample, scratch, node, groups, best)
