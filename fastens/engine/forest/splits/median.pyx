"""The best split of one feature by absolute error: no sums of a code tell it, so rows are added one by one to an
ordered set (Fenwick 1994) that knows its weighted median and the absolute deviations from it.
"""

from libc.stdlib cimport qsort
from libc.string cimport memset

from fastens.engine.splits.categories cimport sort_codes
from fastens.engine.forest.splits.candidates cimport finish_split, random_candidate
from fastens.engine.forest.splits.groups cimport Groups, code_at, column_of
from fastens.engine.forest.splits.score cimport is_monotone, word_weight
from fastens.engine.forest.splits.structs cimport (
    CodeColumn, Entry, Forest, FoundSplit, MedianScratch, NodeSums, Sample, Scratch
)
from fastens.engine.splits.gain cimport ScanRoom
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t


cdef int _compare(const void* a, const void* b) noexcept nogil:
    cdef uint64_t left = (<const uint64_t*>a)[0], right = (<const uint64_t*>b)[0]
    return (left > right) - (left < right)


cdef inline int64_t _weight(const Sample* sample, const Entry* entry) noexcept nogil:
    return word_weight(&sample.layout, entry.word)


cdef void _rank_rows(
    const Forest* forest, const Sample* sample, MedianScratch* medians, const NodeSums* node, int32_t target
) noexcept nogil:
    """Keys in the order of the rows' numbers: the lower half of a key is the row's place in the node."""
    cdef const int32_t* ranks = forest.targets.ranks + target * forest.table.n_rows
    cdef Py_ssize_t i
    for i in range(node.n_rows):
        medians.keys[i] = <uint64_t>ranks[node.rows[i].row] << 32 | <uint64_t>i
    qsort(medians.keys, node.n_rows, sizeof(uint64_t), _compare)


cdef void weighted_medians(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, float64_t* medians
) noexcept nogil:
    """Of each target; between two numbers where just half of the weight lies on each side."""
    cdef int32_t t
    cdef Py_ssize_t i
    cdef int64_t total = 0, below
    cdef float64_t number
    for i in range(node.n_rows):
        total += _weight(sample, &node.rows[i])
    for t in range(forest.targets.n_targets):
        _rank_rows(forest, sample, &scratch.medians, node, t)
        i, below = -1, 0
        while 2 * below < total:
            i += 1
            below += _weight(sample, &node.rows[<uint32_t>scratch.medians.keys[i]])
        number = _number(forest, node, scratch.medians.keys[i], t)
        if 2 * below == total:
            number = 0.5 * (number + _number(forest, node, scratch.medians.keys[i + 1], t))
        medians[t] = number


cdef inline float64_t _number(const Forest* forest, const NodeSums* node, uint64_t key, int32_t target) noexcept nogil:
    return forest.targets.numbers[<Py_ssize_t>node.rows[<uint32_t>key].row * forest.targets.n_targets + target]


cdef float64_t median_score(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node
) noexcept nogil:
    """Minus the sum of the absolute deviations; also rank the node's rows for the search."""
    cdef MedianScratch* medians = &scratch.medians
    cdef Py_ssize_t i, n = node.n_rows
    cdef int32_t t
    cdef float64_t score = 0.0
    for t in range(forest.targets.n_targets):
        _rank_rows(forest, sample, medians, node, t)
        for i in range(n):
            medians.rank[t * n + <uint32_t>medians.keys[i]] = <int32_t>i
            medians.number[t * n + i] = sample.numbers[
                <Py_ssize_t>node.rows[<uint32_t>medians.keys[i]].row * forest.targets.n_targets + t
            ]
        _empty(medians, n)
        for i in range(n):
            _insert(medians, n, medians.number + t * n, medians.rank[t * n + i], _weight(sample, &node.rows[i]))
        score -= <float64_t>_deviations(medians, n, medians.number + t * n, NULL)
    return score


cdef void _empty(MedianScratch* medians, Py_ssize_t n) noexcept nogil:
    memset(medians.tree_weight, 0, (n + 1) * sizeof(int64_t))
    memset(medians.tree_sum, 0, (n + 1) * sizeof(int64_t))
    medians.weight = medians.sum = 0


cdef void _insert(
    MedianScratch* medians, Py_ssize_t n, const int64_t* numbers, int32_t rank, int64_t weight
) noexcept nogil:
    cdef int64_t product = weight * numbers[rank]
    cdef Py_ssize_t i = rank + 1
    medians.weight += weight
    medians.sum += product
    while i <= n:
        medians.tree_weight[i] += weight
        medians.tree_sum[i] += product
        i += i & -i


cdef Py_ssize_t _place(
    const MedianScratch* medians, Py_ssize_t n, int64_t half, int64_t* below, int64_t* sum_below
) noexcept nogil:
    """The place in the order at which the weight of the set passes half; what lies below it."""
    cdef Py_ssize_t place = 0, step = 1
    below[0] = sum_below[0] = 0
    while 2 * step <= n:
        step *= 2
    while step > 0:
        if place + step <= n and below[0] + medians.tree_weight[place + step] <= half:
            place += step
            below[0] += medians.tree_weight[place]
            sum_below[0] += medians.tree_sum[place]
        step //= 2
    return place


cdef int64_t _deviations(
    MedianScratch* medians, Py_ssize_t n, const int64_t* numbers, float64_t* median
) noexcept nogil:
    """Absolute deviations of the rows in the set from their median."""
    cdef int64_t below, sum_below, number
    if median != NULL:
        median[0] = <float64_t>numbers[_place(medians, n, medians.weight // 2, &below, &sum_below)]
    number = numbers[_place(medians, n, (medians.weight - 1) // 2, &below, &sum_below)]
    if median != NULL:
        median[0] = (median[0] + <float64_t>number) / 2
    return number * below - sum_below + (medians.sum - sum_below) - number * (medians.weight - below)


cdef int32_t _group_rows(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, int32_t feature
) noexcept nogil:
    """Sort the rows by code; return the number of groups, which start at scratch.medians.start."""
    cdef MedianScratch* medians = &scratch.medians
    cdef CodeColumn column = column_of(forest, feature, node.n_rows)
    cdef Py_ssize_t i
    cdef int32_t n = 0
    for i in range(node.n_rows):
        medians.keys[i] = <uint64_t>code_at(forest.table.code_size, &column, node.rows[i].row) << 32 | <uint64_t>i
    qsort(medians.keys, node.n_rows, sizeof(uint64_t), _compare)
    for i in range(node.n_rows):
        if i == 0 or medians.keys[i] >> 32 != medians.keys[i - 1] >> 32:
            scratch.codes[n] = <uint16_t>(medians.keys[i] >> 32)
            medians.start[n] = i
            n += 1
    medians.start[n] = node.n_rows
    for i in range(n):
        medians.group[i] = <int32_t>i
    return n


cdef void _order_categories(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, int32_t n
) noexcept nogil:
    """Put the groups in the order of the first target's mean."""
    cdef MedianScratch* medians = &scratch.medians
    cdef int32_t g, first = forest.targets.n_targets
    cdef Py_ssize_t i
    cdef float64_t weight
    cdef ScanRoom keyed
    cdef const Entry* entry
    for g in range(n):
        scratch.gains[g], weight = 0.0, 0.0
        for i in range(medians.start[g], medians.start[g + 1]):
            entry = &node.rows[<uint32_t>medians.keys[i]]
            scratch.gains[g] += <float64_t>_weight(sample, entry) * <float64_t>sample.numbers[entry.row * first]
            weight += <float64_t>_weight(sample, entry)
        scratch.gains[g] /= weight
    keyed.keys, keyed.codes, keyed.sums = scratch.gains, medians.group, NULL
    sort_codes(&keyed, n)
    for g in range(n):
        scratch.order[g] = scratch.codes[medians.group[g]]
    for g in range(n):
        scratch.codes[g] = <uint16_t>scratch.order[g]


cdef void _sweep(
    const Sample* sample, MedianScratch* medians, const NodeSums* node, int32_t target, int32_t n, bint backwards
) noexcept nogil:
    """Add to medians.loss[k] the deviations of the groups up to k, or backwards of those after k."""
    cdef Py_ssize_t i, k, g, n_rows = node.n_rows
    cdef const int64_t* numbers = medians.number + target * n_rows
    cdef uint32_t place
    cdef float64_t median = 0.0
    _empty(medians, n_rows)
    for k in range(n - 1):
        g = medians.group[n - 1 - k if backwards else k]
        for i in range(medians.start[g], medians.start[g + 1]):
            place = <uint32_t>medians.keys[i]
            _insert(medians, n_rows, numbers, medians.rank[target * n_rows + place], _weight(sample, &node.rows[place]))
        i = n - 2 - k if backwards else k
        medians.loss[i] += <float64_t>_deviations(medians, n_rows, numbers, &median)
        if backwards:
            medians.right_median[i] = median
        else:
            medians.left_median[i] = median
            medians.left_weight[i] = medians.weight


cdef void _compare_losses(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const Groups* groups,
    int32_t first, int32_t last, FoundSplit* best,
) noexcept nogil:
    """Candidates first .. last: the groups up to that one, in medians.group, go left."""
    cdef MedianScratch* medians = &scratch.medians
    cdef int32_t t, k, n = groups.n
    cdef int64_t count = 0
    cdef float64_t gain
    memset(medians.loss, 0, n * sizeof(float64_t))
    for t in range(forest.targets.n_targets):
        _sweep(sample, medians, node, t, n, False)
        _sweep(sample, medians, node, t, n, True)
    for k in range(last + 1):
        count += medians.start[medians.group[k] + 1] - medians.start[medians.group[k]]
        if (
            k < first or min(count, node.n_rows - count) < forest.limits.min_samples_leaf
            or min(medians.left_weight[k], node.weight - medians.left_weight[k]) < sample.min_weight
        ):
            continue
        if forest.limits.monotone != NULL and not is_monotone(
            forest.limits.monotone[groups.feature], node, medians.left_median[k], medians.right_median[k]
        ):
            continue
        gain = -medians.loss[k] - node.score
        if gain > best.gain:
            best.gain, best.feature, best.position = gain, groups.feature, k
            best.left_weight = medians.left_weight[k]
            best.left_value, best.right_value = medians.left_median[k], medians.right_median[k]


cdef void search_medians(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil:
    """Keep the feature's best split if it is better than the best so far."""
    cdef FoundSplit before = best[0]
    cdef int32_t g, last, n = _group_rows(forest, sample, scratch, node, groups.feature)
    cdef bint has_missing, missing_left
    groups.n = n
    groups.is_set = forest.table.is_categorical[groups.feature]
    if n == 1:
        return
    if groups.is_set:
        _order_categories(forest, sample, scratch, node, n)
    has_missing = scratch.codes[0] == 0 and not groups.is_set
    best.last_code = -1
    if forest.rules.random_thresholds:
        g = random_candidate(forest, scratch, groups, &missing_left, &best.last_code)
        _search_side(forest, sample, scratch, node, groups, has_missing and not missing_left, g, g, best)
    else:
        last = n - 1 if has_missing else n - 2
        _search_side(forest, sample, scratch, node, groups, has_missing, has_missing, last, best)
        if has_missing:
            _search_side(forest, sample, scratch, node, groups, False, 1, n - 2, best)
    if best.feature != groups.feature:
        best[0] = before
        return
    finish_split(forest, scratch, node, groups, best)


cdef void _search_side(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const Groups* groups,
    bint missing_last, int32_t first, int32_t last, FoundSplit* best,
) noexcept nogil:
    """Candidates by their positions among the codes; the missing rows, code 0, come last to be on the right."""
    cdef MedianScratch* medians = &scratch.medians
    cdef int32_t k
    cdef float64_t before = best.gain
    cdef int32_t feature = best.feature
    if missing_last:
        for k in range(groups.n - 1):
            medians.group[k] = k + 1
        medians.group[groups.n - 1] = 0
    elif not groups.is_set:
        for k in range(groups.n):
            medians.group[k] = k
    _compare_losses(forest, sample, scratch, node, groups, first - missing_last, last - missing_last, best)
    if best.feature == groups.feature and (best.gain > before or feature != groups.feature):
        best.position += missing_last
        best.missing_left = scratch.codes[0] == 0 and not missing_last
