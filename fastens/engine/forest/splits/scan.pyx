"""The best split of one feature from the sums of its codes.

The score of a set of rows is sum(s^2) / w (Gini, squared error), sum(s log2(s / w)) (entropy) or sum(s ln(s / w))
(Poisson), with s its sums of classes' weights or of numbers and w its weight; the gain of a split is the score of the
two sides minus that of the node: how much it lowers the node's weight times its impurity (Breiman et al. 1984).
"""

from libc.math cimport INFINITY, log, log2

from fastens.engine.forest.splits.classes cimport class_score, has_class_words, moves_classes, scan_classes
from fastens.engine.forest.splits.threshold cimport random_code
from fastens.engine.forest.tree cimport ENTROPY, POISSON, SQUARES, Forest, FoundSplit, Layout, NodeSums, Room, Sample, sum_of_logs
from fastens.engine.histograms.cells cimport first_with_count
from fastens.engine.random cimport random_below, random_bits
from fastens.engine.splits.scan cimport ScanNode, first_largest, split_gains
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t


cdef inline int64_t _weight(const Layout* layout, uint64_t word) noexcept nogil:
    return <int64_t>((word >> layout.weight_shift) & layout.weight_mask)


cdef int64_t words_weight(const Forest* forest, const Sample* sample, const uint64_t* words) noexcept nogil:
    """Weight of the rows behind the words."""
    cdef const Layout* layout = &sample.layout
    cdef int64_t weight = 0
    cdef int32_t k
    if layout.packed:
        return _weight(layout, words[0])
    if forest.targets.classes == NULL:
        return _weight(layout, words[forest.targets.n_stats])
    for k in range(forest.targets.first_stat[1]):
        weight += _weight(layout, words[k])
    return weight


cdef int64_t _count(const Forest* forest, const Layout* layout, const uint64_t* words) noexcept nogil:
    cdef int64_t count = 0
    cdef int32_t k
    if layout.packed:
        return <int64_t>(words[0] & layout.count_mask)
    if forest.targets.classes == NULL:
        return <int64_t>(words[forest.targets.n_stats] & layout.count_mask)
    for k in range(forest.targets.first_stat[1]):
        count += <int64_t>(words[k] & layout.count_mask)
    return count


cdef int32_t _stats(
    const Forest* forest, const Layout* layout, const uint64_t* words, float64_t* stats
) noexcept nogil:
    """The sums that are scored; return how many."""
    cdef int32_t k
    if layout.packed:
        stats[0] = <float64_t>(words[0] >> layout.number_shift)
        if forest.rules.criterion != ENTROPY:
            return 1
        stats[1] = <float64_t>_weight(layout, words[0]) - stats[0]
        return 2
    for k in range(forest.targets.n_stats):
        stats[k] = <float64_t>(words[k] if forest.targets.classes == NULL else _weight(layout, words[k]))
    return forest.targets.n_stats


cdef float64_t words_score(
    const Forest* forest, const Sample* sample, const uint64_t* words, float64_t* stats
) noexcept nogil:
    """Score of the rows behind the words; minus infinity where the criterion allows no such rows."""
    cdef int32_t k, n
    cdef float64_t weight, score = 0.0, share
    if has_class_words(forest, sample):
        return class_score(&sample.layout, words, forest.targets.n_stats)
    n = _stats(forest, &sample.layout, words, stats)
    weight = <float64_t>words_weight(forest, sample, words)
    if forest.rules.criterion == SQUARES:
        for k in range(n):
            score += stats[k] * stats[k]
        return score / weight
    for k in range(n):
        if stats[k] > 0:
            share = stats[k] / weight
            score += stats[k] * (log2(share) if forest.rules.criterion == ENTROPY else log(share))
        elif forest.rules.criterion == POISSON:
            return -INFINITY
    return score


cdef inline float64_t _value(const Forest* forest, const Layout* layout, const uint64_t* words) noexcept nogil:
    """What monotone constraints bound: the share of the second class, or the mean."""
    cdef float64_t weight = <float64_t>(
        _weight(layout, words[0]) if layout.packed else
        _weight(layout, words[1]) if forest.targets.classes == NULL else
        _weight(layout, words[0]) + _weight(layout, words[1])
    )
    if layout.packed:
        return <float64_t>(words[0] >> layout.number_shift) / weight
    if forest.targets.classes == NULL:
        return <float64_t>words[0] / weight
    return <float64_t>_weight(layout, words[1]) / weight


cdef bint is_monotone(int32_t sign, const NodeSums* node, float64_t left, float64_t right) noexcept nogil:
    return (
        (left - right) * sign <= 0
        and min(left, right) >= node.lower
        and max(left, right) <= node.upper
    )


cdef void _scan_fast(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil:
    """Squares of one number, many splits at a time: the gain is W (s_l - s w_l / W)^2 / (w_l w_r)."""
    cdef const Layout* layout = &sample.layout
    cdef ScanNode scan
    cdef uint64_t sum_ = room.found[0] if candidates.missing_left else 0
    cdef Py_ssize_t i, n = candidates.last - candidates.first + 1, begin = 0
    cdef float64_t gain
    for i in range(n):
        sum_ += room.found[candidates.first + i]
        room.sums[i] = sum_
    scan.layout.count_mask, scan.layout.hessian_mask = layout.count_mask, layout.weight_mask
    scan.layout.gradient_shift, scan.layout.hessian_shift = layout.number_shift, layout.weight_shift
    scan.layout.gradient_bias = 0
    if layout.count_mask != 0:
        begin = first_with_count(room.sums, n, &scan.layout, forest.rules.min_leaf)
        n = first_with_count(room.sums, n, &scan.layout, node.n_rows - forest.rules.min_leaf + 1)
    scan.l2 = 0.0
    scan.hessian = <float64_t>node.weight
    scan.ratio = <float64_t>(room.total[0] >> layout.number_shift) / scan.hessian
    scan.min_hessian = <float64_t>sample.min_weight
    scan.max_hessian = <float64_t>(node.weight - sample.min_weight)
    split_gains(room.sums + begin, n - begin, &scan, room.gains)
    i = first_largest(room.gains, n - begin, &gain)
    if gain < 0 or gain * scan.hessian <= best.gain:
        return
    keep(gain * scan.hessian, groups.feature, <int32_t>(candidates.first + begin + i), candidates.missing_left, best)
    best.left_weight = _weight(layout, room.sums[begin + i])
    best.left_word = room.sums[begin + i]


cdef void _scan_two_classes(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil:
    """Entropy of two classes, from a table of logarithms."""
    cdef const Layout* layout = &sample.layout
    cdef const int64_t* logs = forest.rules.logs
    cdef int64_t weight, second, rest_weight, rest_second, entropy
    cdef float64_t gain
    cdef int32_t j
    room.left[0] = room.found[0] if candidates.missing_left else 0
    for j in range(candidates.first, candidates.last + 1):
        room.left[0] += room.found[j]
        room.left[1] = room.total[0] - room.left[0]
        weight, second = _weight(layout, room.left[0]), <int64_t>(room.left[0] >> layout.number_shift)
        rest_weight, rest_second = _weight(layout, room.left[1]), <int64_t>(room.left[1] >> layout.number_shift)
        entropy = logs[second] + logs[weight - second] - logs[weight]
        entropy += logs[rest_second] + logs[rest_weight - rest_second] - logs[rest_weight]
        gain = sum_of_logs(entropy) - node.score
        if gain > best.gain and _is_allowed(forest, sample, room, node, groups.feature):
            keep(gain, groups.feature, j, candidates.missing_left, best)
            best.left_weight, best.left_word = weight, room.left[0]


cdef void _scan_any(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil:
    """Any criterion, any number of sums, one split after the other."""
    cdef int32_t j, k, n_words = sample.layout.n_words
    cdef const uint64_t* cell
    for k in range(n_words):
        room.left[k] = room.found[k] if candidates.missing_left else 0
    for j in range(candidates.first, candidates.last + 1):
        cell = room.found + <Py_ssize_t>j * n_words
        for k in range(n_words):
            room.left[k] += cell[k]
        consider_left(forest, sample, room, node, groups.feature, best)
        if best.position < 0:
            best.position, best.missing_left = j, candidates.missing_left


cdef inline float64_t _gain(const Layout* layout, uint64_t total, uint64_t left) noexcept nogil:
    """W (s_l - s w_l / W)^2 / (w_l w_r)."""
    cdef float64_t weight = <float64_t>_weight(layout, total), left_weight = <float64_t>_weight(layout, left)
    cdef float64_t distance = (
        <float64_t>(left >> layout.number_shift) * weight - <float64_t>(total >> layout.number_shift) * left_weight
    )
    return distance * distance / (weight * left_weight * (weight - left_weight))


cdef void consider_left(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, int32_t feature, FoundSplit* best
) noexcept nogil:
    """Keep the split with room.left on the left if it is allowed and better than the best so far. Its position is then
    -1: the caller knows it."""
    cdef int32_t k, n_words = sample.layout.n_words
    cdef float64_t gain
    for k in range(n_words):
        room.left[n_words + k] = room.total[k] - room.left[k]
    if not _is_allowed(forest, sample, room, node, feature):
        return
    if sample.layout.packed and forest.rules.criterion == SQUARES:
        gain = _gain(&sample.layout, room.total[0], room.left[0])
    else:
        gain = words_score(forest, sample, room.left, room.stats)
        gain += words_score(forest, sample, room.left + n_words, room.stats) - node.score
    if gain <= best.gain:
        return
    keep(gain, feature, -1, False, best)
    best.left_weight = words_weight(forest, sample, room.left)
    best.left_word = room.left[0]
    if forest.rules.monotonic != NULL:
        best.left_value = _value(forest, &sample.layout, room.left)
        best.right_value = _value(forest, &sample.layout, room.left + n_words)


cdef bint _is_allowed(
    const Forest* forest, const Sample* sample, const Room* room, const NodeSums* node, int32_t feature
) noexcept nogil:
    cdef const Layout* layout = &sample.layout
    cdef const uint64_t* right = room.left + layout.n_words
    cdef int64_t count, weight
    if layout.count_mask != 0:
        count = _count(forest, layout, room.left)
        if count < forest.rules.min_leaf or node.n_rows - count < forest.rules.min_leaf:
            return False
    if sample.min_weight > 0:
        weight = words_weight(forest, sample, room.left)
        if weight < sample.min_weight or node.weight - weight < sample.min_weight:
            return False
    return forest.rules.monotonic == NULL or is_monotone(
        forest.rules.monotonic[feature], node, _value(forest, layout, room.left), _value(forest, layout, right)
    )


cdef inline bint _has_two_classes(const Forest* forest, const Sample* sample, const NodeSums* node) noexcept nogil:
    """Whether a table tells the entropy of packed sums."""
    return (
        sample.layout.packed and forest.targets.classes != NULL and forest.rules.criterion == ENTROPY
        and node.weight < forest.rules.n_logs
    )


cdef void _scan(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, const Groups* groups,
    const Candidates* candidates, FoundSplit* best,
) noexcept nogil:
    if candidates.first > candidates.last:
        return
    if sample.layout.packed and forest.rules.criterion == SQUARES and forest.rules.monotonic == NULL:
        _scan_fast(forest, sample, room, node, groups, candidates, best)
    elif _has_two_classes(forest, sample, node) and forest.rules.monotonic == NULL:
        _scan_two_classes(forest, sample, room, node, groups, candidates, best)
    elif moves_classes(forest, sample, node) and forest.rules.monotonic == NULL:
        scan_classes(forest, sample, room, node, groups, candidates, best)
    else:
        _scan_any(forest, sample, room, node, groups, candidates, best)


cdef void _scan_one(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, const Groups* groups,
    const Candidates* candidate, FoundSplit* best,
) noexcept nogil:
    """A single split: its groups are first put together."""
    cdef int32_t j, k, n_words = sample.layout.n_words
    cdef uint64_t* into = room.found + <Py_ssize_t>candidate.last * n_words
    cdef Candidates last = candidate[0]
    for j in range(candidate.first, candidate.last):
        for k in range(n_words):
            into[k] += room.found[<Py_ssize_t>j * n_words + k]
    last.first = candidate.last
    _scan(forest, sample, room, node, groups, &last, best)


cdef int32_t random_candidate(
    const Forest* forest, const Room* room, const Groups* groups, bint* missing_left, int32_t* last_code
) noexcept nogil:
    """One threshold, and one side for missing rows, at random; of categories, a cut. Return the last group on the left,
    and the last code on the left where it is not to be half-way between groups."""
    cdef int32_t has_missing = room.codes[0] == 0 and not groups.is_set, last = has_missing
    missing_left[0] = has_missing and random_bits(groups.key, 1) & 1
    if groups.is_set:
        return <int32_t>random_below(groups.key, 0, groups.n - 1)
    if groups.n - has_missing == 1:
        missing_left[0] = False
        return 1
    last_code[0] = random_code(
        &forest.table, groups.feature, groups.key, room.codes[has_missing], room.codes[groups.n - 1]
    )
    while room.codes[last + 1] <= last_code[0]:
        last += 1
    return last


cdef void _search_best(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, const Groups* groups, FoundSplit* best
) noexcept nogil:
    """Every threshold, with missing rows on the right and on the left; of ordered categories, every cut."""
    cdef Candidates candidates
    cdef int32_t has_missing = room.codes[0] == 0 and not groups.is_set
    candidates.first = has_missing
    candidates.missing_left = False
    candidates.last = groups.n - 1 if has_missing else groups.n - 2
    _scan(forest, sample, room, node, groups, &candidates, best)
    if has_missing:
        candidates.last, candidates.missing_left = groups.n - 2, True
        _scan(forest, sample, room, node, groups, &candidates, best)


cdef void search_groups(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil:
    """Keep the feature's best split if it is better than the best so far."""
    cdef FoundSplit before = best[0]
    cdef Candidates candidate
    best.last_code = -1
    if forest.rules.random_thresholds:
        candidate.first = room.codes[0] == 0 and not groups.is_set
        candidate.last = random_candidate(forest, room, groups, &candidate.missing_left, &best.last_code)
        _scan_one(forest, sample, room, node, groups, &candidate, best)
    else:
        _search_best(forest, sample, room, node, groups, best)
    if best.feature != groups.feature:
        best[0] = before
        return
    finish_split(forest, room, node, groups, best)


cdef void finish_split(
    const Forest* forest, Room* room, const NodeSums* node, const Groups* groups, FoundSplit* best
) noexcept nogil:
    """Write down which codes go left."""
    best.is_set, best.n_groups = groups.is_set, groups.n
    if groups.is_set:
        _write_set(forest, room, node, groups, best)
    else:
        _place_threshold(forest, room, node, groups, best)


cdef void _place_threshold(
    const Forest* forest, const Room* room, const NodeSums* node, const Groups* groups, FoundSplit* best
) noexcept nogil:
    """Half-way between the codes on its two sides; without missing rows here, later ones follow the larger side."""
    if best.position + 1 == groups.n:
        best.last_code = forest.table.n_codes[groups.feature] - 1
    elif best.last_code < 0:
        best.last_code = (room.codes[best.position] + room.codes[best.position + 1]) // 2
    if room.codes[0] != 0:
        best.missing_left = 2 * best.left_weight > node.weight


cdef void _write_set(
    const Forest* forest, Room* room, const NodeSums* node, const Groups* groups, const FoundSplit* best
) noexcept nogil:
    """The bits of the codes that go left; codes that the node does not have go to its larger side."""
    cdef int32_t k, n_words = (forest.table.n_codes[groups.feature] + 31) // 32
    cdef uint16_t code
    cdef bint absent_left = 2 * best.left_weight > node.weight
    for k in range(n_words):
        room.set_words[k] = ~<uint32_t>0 if absent_left else 0
    for k in range(groups.n):
        code = room.codes[k]
        if k <= best.position:
            room.set_words[code // 32] |= <uint32_t>1 << (code % 32)
        else:
            room.set_words[code // 32] &= ~(<uint32_t>1 << (code % 32))
