"""The best split of one feature by absolute error: it does not follow from sums, so rows are added one by one to an
ordered set (Fenwick 1994) that knows its weighted median and the absolute deviations from it.
"""

from libc.stdlib cimport qsort
from libc.string cimport memset

from fastens.engine.forest.splits.code_columns cimport code_at, column_of
from fastens.engine.forest.splits.scan cimport random_candidate
from fastens.engine.forest.splits.score cimport is_monotone, word_weight
from fastens.engine.forest.splits.structs cimport CodeColumn, Entry, MedianScratch, Search, keep_split
from fastens.engine.splits.order cimport sort_by_key
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t


cdef int _compare(const void* a, const void* b) noexcept nogil:
    cdef uint64_t left = (<const uint64_t*>a)[0], right = (<const uint64_t*>b)[0]
    return (left > right) - (left < right)


cdef inline int64_t _weight(const Search* search, const Entry* row) noexcept nogil:
    return word_weight(&search.sample.layout, row.word)


cdef inline Py_ssize_t _number_of(const Search* search, uint64_t key, int32_t target) noexcept nogil:
    """The place of a row's number; the lower half of its key is its place in the node."""
    return <Py_ssize_t>search.rows[<uint32_t>key].row * search.forest.targets.n_targets + target


cdef void _rank_rows(Search* search, int32_t target) noexcept nogil:
    """Keys in the order of the rows' numbers."""
    cdef const int32_t* ranks = search.forest.targets.ranks + target * search.forest.table.n_rows
    cdef uint64_t* keys = search.medians.keys
    cdef Py_ssize_t i
    for i in range(search.n_rows):
        keys[i] = <uint64_t>ranks[search.rows[i].row] << 32 | <uint64_t>i
    qsort(keys, search.n_rows, sizeof(uint64_t), _compare)


cdef void weighted_medians(Search* search, float64_t* medians) noexcept nogil:
    """Of each target; between two numbers where just half of the weight lies on each side."""
    cdef const float64_t* numbers = search.forest.targets.numbers
    cdef const uint64_t* keys = search.medians.keys
    cdef int32_t t
    cdef Py_ssize_t i
    cdef int64_t total = 0, below
    for i in range(search.n_rows):
        total += _weight(search, &search.rows[i])
    for t in range(search.forest.targets.n_targets):
        _rank_rows(search, t)
        i, below = -1, 0
        while 2 * below < total:
            i += 1
            below += _weight(search, &search.rows[<uint32_t>keys[i]])
        medians[t] = numbers[_number_of(search, keys[i], t)]
        if 2 * below == total:
            medians[t] = 0.5 * (medians[t] + numbers[_number_of(search, keys[i + 1], t)])


cdef float64_t median_score(Search* search) noexcept nogil:
    """Minus the sum of the absolute deviations; also rank the node's rows for the search."""
    cdef MedianScratch* medians = &search.medians
    cdef Py_ssize_t i, n = search.n_rows
    cdef int32_t t
    cdef float64_t score = 0.0
    for t in range(search.forest.targets.n_targets):
        _rank_rows(search, t)
        for i in range(n):
            medians.rank[t * n + <uint32_t>medians.keys[i]] = <int32_t>i
            medians.number[t * n + i] = search.sample.numbers[_number_of(search, medians.keys[i], t)]
        _empty(medians, n)
        for i in range(n):
            _insert(medians, n, medians.number + t * n, medians.rank[t * n + i], _weight(search, &search.rows[i]))
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


cdef void _group_rows(Search* search) noexcept nogil:
    """Sort the rows by code; the groups start at medians.start."""
    cdef MedianScratch* medians = &search.medians
    cdef CodeColumn column = column_of(search, search.feature, search.rows, search.n_rows, 0)
    cdef Py_ssize_t i
    cdef int32_t n = 0
    cdef uint64_t code
    for i in range(search.n_rows):
        code = code_at(search.forest.table.code_size, &column, search.rows[i].row)
        medians.keys[i] = code << 32 | <uint64_t>i
    qsort(medians.keys, search.n_rows, sizeof(uint64_t), _compare)
    for i in range(search.n_rows):
        if i == 0 or medians.keys[i] >> 32 != medians.keys[i - 1] >> 32:
            search.codes[n] = <uint16_t>(medians.keys[i] >> 32)
            medians.start[n] = i
            medians.group[n] = n
            n += 1
    medians.start[n] = search.n_rows
    search.n_groups, search.is_set = n, search.forest.table.is_categorical[search.feature]


cdef void _order_categories(Search* search) noexcept nogil:
    """Put the groups in the order of the first target's mean."""
    cdef MedianScratch* medians = &search.medians
    cdef int32_t g
    cdef Py_ssize_t i
    cdef float64_t sum_, weight
    cdef const Entry* row
    for g in range(search.n_groups):
        sum_ = weight = 0.0
        for i in range(medians.start[g], medians.start[g + 1]):
            row = &search.rows[<uint32_t>medians.keys[i]]
            sum_ += <float64_t>_weight(search, row) * <float64_t>search.sample.numbers[
                _number_of(search, medians.keys[i], 0)
            ]
            weight += <float64_t>_weight(search, row)
        search.gains[g] = sum_ / weight
    sort_by_key(search.gains, medians.group, search.n_groups)
    for g in range(search.n_groups):
        search.order[g] = search.codes[medians.group[g]]
    for g in range(search.n_groups):
        search.codes[g] = <uint16_t>search.order[g]


cdef void _sweep(Search* search, int32_t target, bint backwards) noexcept nogil:
    """Add to medians.loss[k] the deviations of the groups up to k, or backwards of those after k."""
    cdef MedianScratch* medians = &search.medians
    cdef Py_ssize_t i, k, g, n = search.n_groups, n_rows = search.n_rows
    cdef const int64_t* numbers = medians.number + target * n_rows
    cdef const int32_t* ranks = medians.rank + target * n_rows
    cdef uint32_t place
    cdef float64_t median = 0.0
    _empty(medians, n_rows)
    for k in range(n - 1):
        if search.stop[0]:
            return
        g = medians.group[n - 1 - k if backwards else k]
        for i in range(medians.start[g], medians.start[g + 1]):
            place = <uint32_t>medians.keys[i]
            _insert(medians, n_rows, numbers, ranks[place], _weight(search, &search.rows[place]))
        i = n - 2 - k if backwards else k
        medians.loss[i] += <float64_t>_deviations(medians, n_rows, numbers, &median)
        if backwards:
            medians.right_median[i] = median
        else:
            medians.left_median[i] = median
            medians.left_weight[i] = medians.weight


cdef bint _is_allowed(const Search* search, int32_t k, int64_t count) noexcept nogil:
    """Whether the split after group k, with so many rows on the left, keeps to the limits."""
    cdef const MedianScratch* medians = &search.medians
    cdef int64_t weight = min(medians.left_weight[k], search.weight - medians.left_weight[k])
    return (
        min(count, search.n_rows - count) >= search.forest.limits.min_samples_leaf
        and weight >= search.sample.min_weight
        and (
            search.forest.limits.monotone == NULL
            or is_monotone(search, medians.left_median[k], medians.right_median[k])
        )
    )


cdef void _compare_losses(Search* search, int32_t first, int32_t last, bint missing_last) noexcept nogil:
    """Candidates first .. last, by their positions among the codes: the groups up to that one go left.

    The missing rows, code 0, come last to be on the right.
    """
    cdef MedianScratch* medians = &search.medians
    cdef int32_t t, k, n = search.n_groups
    cdef int64_t count = 0
    cdef float64_t gain
    for k in range(0 if search.is_set else n):
        medians.group[k] = (k + missing_last) % n
    memset(medians.loss, 0, n * sizeof(float64_t))
    for t in range(search.forest.targets.n_targets):
        _sweep(search, t, False)
        _sweep(search, t, True)
    for k in range(last - missing_last + 1):
        count += medians.start[medians.group[k] + 1] - medians.start[medians.group[k]]
        gain = -medians.loss[k] - search.score
        if k >= first - missing_last and gain > search.best.gain and _is_allowed(search, k, count):
            keep_split(search, gain, k + missing_last, search.codes[0] == 0 and not missing_last)
            search.best.left_weight = medians.left_weight[k]
            search.best.left_value, search.best.right_value = medians.left_median[k], medians.right_median[k]


cdef void search_medians(Search* search) noexcept nogil:
    """Every split of the feature, or a random one."""
    cdef int32_t last
    cdef bint has_missing, missing_left
    _group_rows(search)
    if search.n_groups == 1:
        return
    if search.is_set:
        _order_categories(search)
    has_missing = search.codes[0] == 0 and not search.is_set
    if search.forest.rules.random_thresholds:
        last = random_candidate(search, &missing_left)
        _compare_losses(search, last, last, has_missing and not missing_left)
        return
    _compare_losses(search, has_missing, search.n_groups - 2 + has_missing, has_missing)
    if has_missing:
        _compare_losses(search, 1, search.n_groups - 2, False)
