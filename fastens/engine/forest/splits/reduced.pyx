"""What a search for splits reads of a node whose rows are on several ranks: the sums of many features are reduced
together, so that a node takes two or three reductions. All are of whole numbers, and all ranks find the same split."""

from libc.string cimport memcpy, memset

from fastens.engine.forest.splits.groups cimport collect_groups, count_features
from fastens.engine.forest.splits.random_threshold cimport copy_codes, range_of, set_threshold, sum_left_of
from fastens.engine.forest.splits.scan cimport consider_left
from fastens.engine.forest.splits.structs cimport FEATURES_AT_ONCE, Search
from fastens.engine.forest.splits.threshold cimport CodeRange, draw_threshold
from fastens.engine.random cimport random_bits
from fastens.engine.ranks cimport max_over, sum_over
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint64_t


cdef enum:
    # Of a feature, in search.ranges: first its range over the ranks, by maxima, then its threshold.
    LESS_SMALLEST = 0
    LARGEST = 1
    HAS_MISSING = 2
    LAST_CODE = 0
    MISSING_LEFT = 1
    N_RANGE = 3


cdef bint is_pure_over_ranks(Search* search) noexcept nogil:
    """Whether all rows of all ranks have the same targets; yes also where the reduction failed."""
    if search.forest.targets.classes != NULL:
        return _has_one_class(search)
    return _has_one_number(search)


cdef bint _has_one_class(const Search* search) noexcept nogil:
    """By the sums of the node, which are those of all ranks: one class of each target has rows."""
    cdef const int32_t* first = search.forest.targets.first_stat
    cdef int32_t t, k, n_found
    for t in range(search.forest.targets.n_targets):
        n_found = 0
        for k in range(first[t], first[t + 1]):
            n_found += search.total[k] != 0
        if n_found > 1:
            return False
    return True


cdef inline int64_t _ordered(float64_t number) noexcept nogil:
    """A whole number in the order of floats: see `ordered_bits`."""
    cdef int64_t bits
    number += 0.0
    memcpy(&bits, &number, sizeof(bits))
    return bits ^ <int64_t>0x7FFFFFFFFFFFFFFF if bits < 0 else bits


cdef bint _has_one_number(Search* search) noexcept nogil:
    """The largest and the smallest number of each target are the same."""
    cdef Py_ssize_t i, t, n = search.forest.targets.n_targets
    cdef int64_t* extremes = search.extremes
    cdef int64_t key
    for t in range(2 * n):
        extremes[t] = -<int64_t>0x7FFFFFFFFFFFFFFF - 1
    for i in range(search.n_rows):
        for t in range(n):
            key = _ordered(search.forest.targets.numbers[search.rows[i].row * n + t])
            extremes[2 * t] = max(extremes[2 * t], key)
            extremes[2 * t + 1] = max(extremes[2 * t + 1], ~key)
    if not max_over(search.sample.ranks, extremes, 2 * n):
        return True
    for t in range(n):
        if extremes[2 * t] != ~extremes[2 * t + 1]:
            return False
    return True


cdef bint total_over_ranks(Search* search) noexcept nogil:
    """The words of the node from those of this rank's rows; False where the reduction failed."""
    cdef int64_t* words = <int64_t*>search.total
    return sum_over(search.sample.ranks, &words, 1, search.sample.layout.n_words)


cdef int32_t features_in_reduction(const Search* search) noexcept nogil:
    """How many features there is room for."""
    cdef Py_ssize_t of_feature = <Py_ssize_t>search.forest.table.max_codes * search.sample.layout.n_words
    return <int32_t>max(search.n_reduced // of_feature, <Py_ssize_t>1)


cdef inline bint _has_threshold(const Search* search, int32_t feature) noexcept nogil:
    return search.forest.rules.random_thresholds and not search.forest.table.is_categorical[feature]


cdef bint reduce_features(Search* search, uint64_t key, const int32_t* features, int32_t n) noexcept nogil:
    """Sum up the node's rows of all ranks for features that there is room for; False where a reduction failed."""
    cdef uint64_t* to = search.reduced
    cdef int64_t* numbers = <int64_t*>search.reduced
    cdef int32_t i
    search.next_reduced = search.reduced
    if search.forest.rules.random_thresholds:
        if not _draw_thresholds(search, key, features, n):
            return False
        for i in range(n):
            to = _add_feature(search, features[i], i, to)
    else:
        i = 0
        while i < n:
            to = _add_features(search, features + i, min(n - i, <int32_t>FEATURES_AT_ONCE), to)
            i += FEATURES_AT_ONCE
    return sum_over(search.sample.ranks, &numbers, 1, to - search.reduced)


cdef bint _draw_thresholds(Search* search, uint64_t key, const int32_t* features, int32_t n) noexcept nogil:
    """The threshold of each feature, within its range over all ranks."""
    cdef int64_t* of_feature
    cdef CodeRange range_
    cdef int32_t i
    cdef bint missing_left
    for i in range(n):
        of_feature = search.ranges + N_RANGE * i
        of_feature[LESS_SMALLEST] = -search.forest.table.max_codes - 1
        of_feature[LARGEST] = of_feature[HAS_MISSING] = 0
        if _has_threshold(search, features[i]) and search.n_rows > 0:
            copy_codes(search, features + i, 1)
            range_ = range_of(search, 0)
            of_feature[LESS_SMALLEST], of_feature[LARGEST] = -<int64_t>range_.smallest, range_.largest
            of_feature[HAS_MISSING] = range_.has_missing
    if not max_over(search.sample.ranks, search.ranges, N_RANGE * n):
        return False
    for i in range(n):
        of_feature = search.ranges + N_RANGE * i
        range_.smallest, range_.largest = -of_feature[LESS_SMALLEST], of_feature[LARGEST]
        range_.has_missing = of_feature[HAS_MISSING]
        if _has_threshold(search, features[i]):
            of_feature[LAST_CODE] = draw_threshold(
                &search.forest.table, features[i], random_bits(key, ~<uint64_t>features[i]), &range_, &missing_left
            )
            of_feature[MISSING_LEFT] = missing_left
    return True


cdef uint64_t* _add_feature(Search* search, int32_t feature, int32_t place, uint64_t* to) noexcept nogil:
    """This rank's sums on the left of a threshold, if there is one, or those of a feature's categories."""
    cdef const int64_t* threshold = search.ranges + N_RANGE * place
    cdef int32_t n_words = search.sample.layout.n_words
    if not _has_threshold(search, feature):
        return _add_features(search, &feature, 1, to)
    if threshold[LAST_CODE] == 0:
        return to
    copy_codes(search, &feature, 1)
    sum_left_of(search, 0, threshold[LAST_CODE], threshold[MISSING_LEFT])
    memcpy(to, search.left, n_words * sizeof(uint64_t))
    return to + n_words


cdef uint64_t* _add_features(Search* search, const int32_t* features, int32_t n, uint64_t* to) noexcept nogil:
    """This rank's sums of up to FEATURES_AT_ONCE features by code."""
    cdef Py_ssize_t size
    cdef int32_t j
    count_features(search, features, n)
    for j in range(n):
        size = <Py_ssize_t>search.forest.table.n_codes[features[j]] * search.sample.layout.n_words
        memcpy(to, search.cells[j].cells, size * sizeof(uint64_t))
        memset(search.cells[j].cells, 0, size * sizeof(uint64_t))
        to += size
    return to


cdef void take_reduced(Search* search, int32_t place) noexcept nogil:
    """Read the sums of the next feature, the one in this place: its groups; of a threshold, the split is considered."""
    cdef const int64_t* threshold = search.ranges + N_RANGE * place
    cdef Py_ssize_t size = search.sample.layout.n_words
    if _has_threshold(search, search.feature):
        set_threshold(search, <int32_t>threshold[LAST_CODE], threshold[HAS_MISSING])
        if search.n_groups == 1:
            return
        memcpy(search.left, search.next_reduced, size * sizeof(uint64_t))
        consider_left(search, 0, threshold[MISSING_LEFT])
    else:
        size *= search.forest.table.n_codes[search.feature]
        memcpy(search.cells[0].cells, search.next_reduced, size * sizeof(uint64_t))
        collect_groups(search, 0)
    search.next_reduced += size
