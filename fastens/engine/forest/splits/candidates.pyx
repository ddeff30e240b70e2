"""Splits of one feature: which are allowed, which is kept, and which codes go left."""

from fastens.engine.forest.splits.groups cimport Groups
from fastens.engine.forest.splits.score cimport (
    is_monotone, is_packed_squares, word_weight, words_count, words_score, words_value, words_weight
)
from fastens.engine.forest.splits.structs cimport Forest, FoundSplit, Layout, NodeSums, Sample, Scratch
from fastens.engine.forest.splits.threshold cimport random_code
from fastens.engine.random cimport random_below, random_bits
from fastens.engine.splits.criterion cimport gain_of_squares
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint16_t, uint32_t


cdef bint is_allowed(
    const Forest* forest, const Sample* sample, const Scratch* scratch, const NodeSums* node, int32_t feature
) noexcept nogil:
    cdef const Layout* layout = &sample.layout
    cdef int64_t count, weight
    if layout.count_mask != 0:
        count = words_count(forest, layout, scratch.left)
        if count < forest.limits.min_samples_leaf or node.n_rows - count < forest.limits.min_samples_leaf:
            return False
    if sample.min_weight > 0:
        weight = words_weight(forest, sample, scratch.left)
        if weight < sample.min_weight or node.weight - weight < sample.min_weight:
            return False
    return forest.limits.monotone == NULL or is_monotone(
        forest.limits.monotone[feature], node, words_value(forest, layout, scratch.left),
        words_value(forest, layout, scratch.left + layout.n_words)
    )


cdef void consider_left(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, int32_t feature,
    FoundSplit* best,
) noexcept nogil:
    """Keep the split with scratch.left on the left if it is allowed and better than the best so far. Its position is
    then -1: the caller knows it."""
    cdef const Layout* layout = &sample.layout
    cdef int32_t k, n_words = layout.n_words
    cdef float64_t gain
    for k in range(n_words):
        scratch.left[n_words + k] = scratch.total[k] - scratch.left[k]
    if not is_allowed(forest, sample, scratch, node, feature):
        return
    if is_packed_squares(forest, layout):
        gain = gain_of_squares(
            <float64_t>(scratch.total[0] >> layout.number_shift), <float64_t>word_weight(layout, scratch.total[0]),
            <float64_t>(scratch.left[0] >> layout.number_shift), <float64_t>word_weight(layout, scratch.left[0]),
        )
    else:
        gain = words_score(forest, sample, scratch.left, scratch.stats)
        gain += words_score(forest, sample, scratch.left + n_words, scratch.stats) - node.score
    if gain <= best.gain:
        return
    keep(gain, feature, -1, False, best)
    best.left_weight = words_weight(forest, sample, scratch.left)
    best.left_word = scratch.left[0]
    if forest.limits.monotone != NULL:
        best.left_value = words_value(forest, layout, scratch.left)
        best.right_value = words_value(forest, layout, scratch.left + n_words)


cdef int32_t random_candidate(
    const Forest* forest, const Scratch* scratch, const Groups* groups, bint* missing_left, int32_t* last_code
) noexcept nogil:
    """One threshold, and one side for missing rows, at random; of categories, a cut. Return the last group on the left,
    and the last code on the left where it is not to be half-way between groups."""
    cdef int32_t has_missing = scratch.codes[0] == 0 and not groups.is_set, last = has_missing
    missing_left[0] = has_missing and random_bits(groups.key, 1) & 1
    if groups.is_set:
        return <int32_t>random_below(groups.key, 0, groups.n - 1)
    if groups.n - has_missing == 1:
        missing_left[0] = False
        return 1
    last_code[0] = random_code(
        &forest.table, groups.feature, groups.key, scratch.codes[has_missing], scratch.codes[groups.n - 1]
    )
    while scratch.codes[last + 1] <= last_code[0]:
        last += 1
    return last


cdef void finish_split(
    const Forest* forest, Scratch* scratch, const NodeSums* node, const Groups* groups, FoundSplit* best
) noexcept nogil:
    """Write down which codes go left."""
    best.is_set, best.n_groups = groups.is_set, groups.n
    if groups.is_set:
        _write_set(forest, scratch, node, groups, best)
    else:
        _place_threshold(forest, scratch, node, groups, best)


cdef void _place_threshold(
    const Forest* forest, const Scratch* scratch, const NodeSums* node, const Groups* groups, FoundSplit* best
) noexcept nogil:
    """Half-way between the codes on its two sides; without missing rows here, later ones follow the larger side."""
    if best.position + 1 == groups.n:
        best.last_code = forest.table.n_codes[groups.feature] - 1
    elif best.last_code < 0:
        best.last_code = (scratch.codes[best.position] + scratch.codes[best.position + 1]) // 2
    if scratch.codes[0] != 0:
        best.missing_left = 2 * best.left_weight > node.weight


cdef void _write_set(
    const Forest* forest, Scratch* scratch, const NodeSums* node, const Groups* groups, const FoundSplit* best
) noexcept nogil:
    """The bits of the codes that go left; codes that the node does not have go to its larger side."""
    cdef int32_t k, n_words = (forest.table.n_codes[groups.feature] + 31) // 32
    cdef uint16_t code
    cdef bint absent_left = 2 * best.left_weight > node.weight
    for k in range(n_words):
        scratch.set_words[k] = ~<uint32_t>0 if absent_left else 0
    for k in range(groups.n):
        code = scratch.codes[k]
        if k <= best.position:
            scratch.set_words[code // 32] |= <uint32_t>1 << (code % 32)
        else:
            scratch.set_words[code // 32] &= ~(<uint32_t>1 << (code % 32))
