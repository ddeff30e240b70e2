"""Best split of a node: sums of squares or counts, absolute error, random thresholds, distributed rows."""

from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset
from fastens.engine.forest.splits.scan cimport (
    add_row, code_at, collect_groups, column_of, consider_left, count_features, finish_split, reset_row_positions,
    has_few, is_monotone, is_one_class_target, is_pure_word, mark_present_features, random_candidate, search_few,
    search_groups, uses_medians, word_weight, words_score, words_weight
)
from fastens.engine.forest.splits.structs cimport (
    CodeColumn, Entry, FEATURES_AT_ONCE, Forest, MedianScratch, Open, Sample, Search, keep_split
)
from fastens.engine.splits.split cimport sort_by_key
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from fastens.engine.forest.splits.threshold cimport CodeRange, draw_threshold
from fastens.engine.splits.goes_left cimport code_goes_left
from fastens.engine.random cimport random_bits
from fastens.engine.ranks cimport max_over, sum_over
from libc.math cimport INFINITY
from fastens.engine.forest.splits.draw cimport Draw, draw_features, draw_weighted, start_draw
from fastens.engine.paths cimport add_feature, has_feature


cdef int _compare_keys(const void* a, const void* b) noexcept nogil:
    """Return -1, 0 or 1 by the order of the two uint64 keys at these addresses, for qsort."""
    cdef uint64_t left = (<const uint64_t*>a)[0], right = (<const uint64_t*>b)[0]
    return (left > right) - (left < right)


cdef inline int64_t _row_weight(const Search* search, const Entry* row) noexcept nogil:
    """Return the fixed-point weight of a row's entry."""
    return word_weight(&search.sample.layout, row.word)


cdef inline Py_ssize_t _number_index(const Search* search, uint64_t key, int32_t target) noexcept nogil:
    """Return the index in arrays (n_rows, n_targets) of a target of the row whose position is the key's lower half."""
    return <Py_ssize_t>search.rows[<uint32_t>key].row * search.forest.targets.n_targets + target


cdef void _rank_rows(Search* search, int32_t target) noexcept nogil:
    """Write the sorted keys (rank by a target << 32 | position) of the node's rows to search.medians.keys."""
    cdef const int32_t* ranks = search.forest.targets.ranks + target * search.forest.table.n_rows
    cdef uint64_t* keys = search.medians.keys
    cdef Py_ssize_t i
    for i in range(search.n_rows):
        keys[i] = <uint64_t>ranks[search.rows[i].row] << 32 | <uint64_t>i
    qsort(keys, search.n_rows, sizeof(uint64_t), _compare_keys)


cdef void weighted_medians(Search* search, float64_t* medians) noexcept nogil:
    """Write the weighted median of each target to `medians`; at exactly half of the weight, it is the midpoint."""
    cdef const float64_t* numbers = search.forest.targets.numbers
    cdef const uint64_t* keys = search.medians.keys
    cdef int32_t t
    cdef Py_ssize_t i
    cdef int64_t total = 0, below
    for i in range(search.n_rows):
        total += _row_weight(search, &search.rows[i])
    for t in range(search.forest.targets.n_targets):
        _rank_rows(search, t)
        i, below = -1, 0
        while 2 * below < total:
            i += 1
            below += _row_weight(search, &search.rows[<uint32_t>keys[i]])
        medians[t] = numbers[_number_index(search, keys[i], t)]
        if 2 * below == total:
            medians[t] = 0.5 * (medians[t] + numbers[_number_index(search, keys[i + 1], t)])


cdef float64_t median_score(Search* search) noexcept nogil:
    """Return minus the sum over targets of absolute deviations from medians, and set the rows' ranks and numbers."""
    cdef MedianScratch* medians = &search.medians
    cdef Py_ssize_t i, n = search.n_rows
    cdef int32_t t
    cdef float64_t score = 0.0
    for t in range(search.forest.targets.n_targets):
        _rank_rows(search, t)
        for i in range(n):
            medians.rank[t * n + <uint32_t>medians.keys[i]] = <int32_t>i
            medians.number[t * n + i] = search.sample.numbers[_number_index(search, medians.keys[i], t)]
        _clear_set(medians, n)
        for i in range(n):
            _insert_row(
                medians, n, medians.number + t * n, medians.rank[t * n + i], _row_weight(search, &search.rows[i])
            )
        score -= <float64_t>_sum_deviations(medians, n, medians.number + t * n, NULL)
    return score


cdef void _clear_set(MedianScratch* medians, Py_ssize_t n) noexcept nogil:
    """Empty the set of rows in `medians`, whose Fenwick trees cover n ranks."""
    memset(medians.tree_weight, 0, (n + 1) * sizeof(int64_t))
    memset(medians.tree_sum, 0, (n + 1) * sizeof(int64_t))
    medians.weight = medians.sum = 0


cdef void _insert_row(
    MedianScratch* medians, Py_ssize_t n, const int64_t* numbers, int32_t rank, int64_t weight
) noexcept nogil:
    """Add a row of this rank and weight to the set of rows in `medians`; numbers[rank] is its target."""
    cdef int64_t product = weight * numbers[rank]
    cdef Py_ssize_t i = rank + 1
    medians.weight += weight
    medians.sum += product
    while i <= n:
        medians.tree_weight[i] += weight
        medians.tree_sum[i] += product
        i += i & -i


cdef Py_ssize_t _find_rank(
    const MedianScratch* medians, Py_ssize_t n, int64_t half, int64_t* below, int64_t* sum_below
) noexcept nogil:
    """Return the first rank at which the set's cumulative weight exceeds `half`.

    `below` and `sum_below` receive the weight and the weighted numbers before this rank.
    """
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


cdef int64_t _sum_deviations(
    MedianScratch* medians, Py_ssize_t n, const int64_t* numbers, float64_t* median
) noexcept nogil:
    """Return the set's weighted absolute deviations from its median, and write the median unless NULL."""
    cdef int64_t below, sum_below, number
    if median != NULL:
        median[0] = <float64_t>numbers[_find_rank(medians, n, medians.weight // 2, &below, &sum_below)]
    number = numbers[_find_rank(medians, n, (medians.weight - 1) // 2, &below, &sum_below)]
    if median != NULL:
        median[0] = (median[0] + <float64_t>number) / 2
    return number * below - sum_below + (medians.sum - sum_below) - number * (medians.weight - below)


cdef void _group_rows(Search* search) noexcept nogil:
    """Group the rows by code of search.feature: write search.codes, medians.keys and medians.start."""
    cdef MedianScratch* medians = &search.medians
    cdef CodeColumn column = column_of(search, search.feature, search.rows, search.n_rows, 0)
    cdef Py_ssize_t i
    cdef int32_t n = 0
    cdef uint64_t code
    for i in range(search.n_rows):
        code = code_at(search.forest.table.code_size, &column, search.rows[i].row)
        medians.keys[i] = code << 32 | <uint64_t>i
    qsort(medians.keys, search.n_rows, sizeof(uint64_t), _compare_keys)
    for i in range(search.n_rows):
        if i == 0 or medians.keys[i] >> 32 != medians.keys[i - 1] >> 32:
            search.codes[n] = <uint16_t>(medians.keys[i] >> 32)
            medians.start[n] = i
            medians.group[n] = n
            n += 1
    medians.start[n] = search.n_rows
    search.n_groups, search.is_set = n, search.forest.table.is_categorical[search.feature]


cdef void _order_categories(Search* search) noexcept nogil:
    """Sort the groups' indices in medians.group, and search.codes, by the mean of the first target."""
    cdef MedianScratch* medians = &search.medians
    cdef int32_t g
    cdef Py_ssize_t i
    cdef float64_t sum_, weight
    cdef const Entry* row
    for g in range(search.n_groups):
        sum_ = weight = 0.0
        for i in range(medians.start[g], medians.start[g + 1]):
            row = &search.rows[<uint32_t>medians.keys[i]]
            sum_ += <float64_t>_row_weight(search, row) * <float64_t>search.sample.numbers[
                _number_index(search, medians.keys[i], 0)
            ]
            weight += <float64_t>_row_weight(search, row)
        search.gains[g] = sum_ / weight
    sort_by_key(search.gains, medians.group, search.n_groups)
    for g in range(search.n_groups):
        search.order[g] = search.codes[medians.group[g]]
    for g in range(search.n_groups):
        search.codes[g] = <uint16_t>search.order[g]


cdef void _add_losses(Search* search, int32_t target, bint backwards) noexcept nogil:
    """Add the deviations of one target to medians.loss[k] for the split after each group k, and write medians.

    They are the deviations of the left side or, if backwards, of the right side.
    """
    cdef MedianScratch* medians = &search.medians
    cdef Py_ssize_t i, k, g, n = search.n_groups, n_rows = search.n_rows
    cdef const int64_t* numbers = medians.number + target * n_rows
    cdef const int32_t* ranks = medians.rank + target * n_rows
    cdef uint32_t place
    cdef float64_t median = 0.0
    _clear_set(medians, n_rows)
    for k in range(n - 1):
        if search.stop[0]:
            return
        g = medians.group[n - 1 - k if backwards else k]
        for i in range(medians.start[g], medians.start[g + 1]):
            place = <uint32_t>medians.keys[i]
            _insert_row(medians, n_rows, numbers, ranks[place], _row_weight(search, &search.rows[place]))
        i = n - 2 - k if backwards else k
        medians.loss[i] += <float64_t>_sum_deviations(medians, n_rows, numbers, &median)
        if backwards:
            medians.right_median[i] = median
        else:
            medians.left_median[i] = median
            medians.left_weight[i] = medians.weight


cdef bint _is_allowed_median(const Search* search, int32_t k, int64_t count) noexcept nogil:
    """Return True if limits and constraints allow the split after group k, with `count` rows on the left."""
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
    """Make the best of the splits after code positions first .. last the node's best split, if it is better.

    If missing_last, the missing rows, code 0, come last in order to be on the right.
    """
    cdef MedianScratch* medians = &search.medians
    cdef int32_t t, k, n = search.n_groups
    cdef int64_t count = 0
    cdef float64_t gain
    for k in range(0 if search.is_set else n):
        medians.group[k] = (k + missing_last) % n
    memset(medians.loss, 0, n * sizeof(float64_t))
    for t in range(search.forest.targets.n_targets):
        _add_losses(search, t, False)
        _add_losses(search, t, True)
    for k in range(last - missing_last + 1):
        count += medians.start[medians.group[k] + 1] - medians.start[medians.group[k]]
        gain = -medians.loss[k] - search.score
        if k >= first - missing_last and gain > search.best.gain and _is_allowed_median(search, k, count):
            keep_split(search, gain, k + missing_last, search.codes[0] == 0 and not missing_last)
            search.best.left_weight = medians.left_weight[k]
            search.best.left_value, search.best.right_value = medians.left_median[k], medians.right_median[k]


cdef void search_medians(Search* search) noexcept nogil:
    """Evaluate every split of search.feature, or a random one, by absolute deviations from medians."""
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


cdef extern from "engine/forest/splits/rows.h" nogil:
    void read_codes(
        int code_size, const CodeColumn* columns, const Entry* rows, Py_ssize_t n_rows, int n_columns, void* out,
        Py_ssize_t scratch
    )
    CodeRange code_range(int code_size, const void* codes, Py_ssize_t n_rows)
    uint64_t sum_left(
        int code_size, const void* codes, const uint64_t* words, Py_ssize_t n_rows, uint32_t last,
        uint32_t missing_left
    )
    void add_left(
        int code_size, const void* codes, const Entry* rows, Py_ssize_t n_rows, uint32_t last, uint32_t missing_left,
        uint64_t* words
    )


cdef void copy_words(Search* search) noexcept nogil:
    """Copy the words of the node's rows to search.row_words."""
    cdef Py_ssize_t i
    for i in range(search.n_rows):
        search.row_words[i] = search.rows[i].word


cdef void copy_codes(Search* search, const int32_t* features, int32_t n) noexcept nogil:
    """Copy the codes of the node's rows on n <= FEATURES_AT_ONCE features to search.row_codes, feature by feature."""
    cdef CodeColumn[FEATURES_AT_ONCE] columns
    cdef int32_t j
    for j in range(n):
        columns[j] = column_of(search, features[j], search.rows, search.n_rows, j)
    read_codes(
        search.forest.table.code_size, columns, search.rows, search.n_rows, n, search.row_codes, search.n_row_codes
    )


cdef inline const void* _slot_codes(const Search* search, int32_t slot) noexcept nogil:
    """Return the address of the rows' codes of the feature that `copy_codes` copied to position `slot`."""
    return search.row_codes + slot * search.n_row_codes * search.forest.table.code_size


cdef CodeRange slot_code_range(const Search* search, int32_t slot) noexcept nogil:
    """Return the range of non-missing codes of the feature that `copy_codes` copied to position `slot`.

    The result also has a flag for missing values.
    """
    return code_range(search.forest.table.code_size, _slot_codes(search, slot), search.n_rows)


cdef void sum_left_side(Search* search, int32_t slot, uint32_t last, bint missing_left) noexcept nogil:
    """Write the sum of the words of rows with codes 1 .. last (0 too if missing_left) to search.left.

    The codes are at position `slot` of `copy_codes`.
    """
    cdef const void* codes = _slot_codes(search, slot)
    cdef Py_ssize_t i
    cdef uint32_t code
    cdef int32_t code_size = search.forest.table.code_size
    if search.sample.layout.packed:
        search.left[0] = sum_left(code_size, codes, search.row_words, search.n_rows, last, missing_left)
        return
    memset(search.left, 0, search.sample.layout.n_words * sizeof(uint64_t))
    if is_one_class_target(search.forest):
        add_left(code_size, codes, search.rows, search.n_rows, last, missing_left, search.left)
        return
    for i in range(search.n_rows):
        code = (<const uint8_t*>codes)[i] if code_size == 1 else (<const uint16_t*>codes)[i]
        if code_goes_left(NULL, -1, last, missing_left, code):
            add_row(search, &search.rows[i], search.left)


cdef void search_threshold(Search* search, int32_t slot) noexcept nogil:
    """Draw a random threshold for the feature in `slot` of `copy_codes`, and keep the split if it is the best."""
    cdef CodeRange range_ = slot_code_range(search, slot)
    cdef bint missing_left
    search.last_code = draw_threshold(&search.forest.table, search.feature, search.key, &range_, &missing_left)
    search.n_groups, search.is_set = 1 if search.last_code == 0 else 2, False
    search.codes[0] = not range_.has_missing
    if search.n_groups == 2:
        sum_left_side(search, slot, search.last_code, missing_left)
        consider_left(search, 0, missing_left)


cdef bint is_pure_over_ranks(Search* search) noexcept nogil:
    """Return True if all rows of all workers have equal targets, or if the reduction failed."""
    if search.forest.targets.classes != NULL:
        return _has_one_class(search)
    return _has_one_number(search)


cdef bint _has_one_class(const Search* search) noexcept nogil:
    """Return True if each target has rows of only one class, by search.total, the sums over all workers."""
    cdef const int32_t* first = search.forest.targets.first_stat
    cdef int32_t t, k, n_found
    for t in range(search.forest.targets.n_targets):
        n_found = 0
        for k in range(first[t], first[t + 1]):
            n_found += search.total[k] != 0
        if n_found > 1:
            return False
    return True


cdef inline int64_t _ordered_bits(float64_t number) noexcept nogil:
    """Return an int64 that compares like the float, with equal zeros: see `ordered_bits` in comm.py."""
    cdef int64_t bits
    number += 0.0
    memcpy(&bits, &number, sizeof(bits))
    return bits ^ <int64_t>0x7FFFFFFFFFFFFFFF if bits < 0 else bits


cdef bint _has_one_number(Search* search) noexcept nogil:
    """Return True if all rows of all workers have equal numbers for each target, or if the reduction failed."""
    cdef Py_ssize_t i, t, n = search.forest.targets.n_targets
    cdef int64_t* extremes = search.extremes
    cdef int64_t key
    for t in range(2 * n):
        extremes[t] = -<int64_t>0x7FFFFFFFFFFFFFFF - 1
    for i in range(search.n_rows):
        for t in range(n):
            key = _ordered_bits(search.forest.targets.numbers[search.rows[i].row * n + t])
            extremes[2 * t] = max(extremes[2 * t], key)
            extremes[2 * t + 1] = max(extremes[2 * t + 1], ~key)
    if not max_over(search.sample.ranks, extremes, 2 * n):
        return True
    for t in range(n):
        if extremes[2 * t] != ~extremes[2 * t + 1]:
            return False
    return True


cdef bint sum_total_over_ranks(Search* search) noexcept nogil:
    """Replace search.total, the node's local sums, by the sums over all workers; return False on failure."""
    cdef int64_t* words = <int64_t*>search.total
    return sum_over(search.sample.ranks, &words, 1, search.sample.layout.n_words)


cdef int32_t features_in_reduction(const Search* search) noexcept nogil:
    """Return the number of features, at least 1, whose cells fit in the buffer of one reduction."""
    cdef Py_ssize_t of_feature = <Py_ssize_t>search.forest.table.max_codes * search.sample.layout.n_words
    return <int32_t>max(search.n_reduced // of_feature, <Py_ssize_t>1)


cdef bint reduce_features(Search* search, const int32_t* features, int32_t n) noexcept nogil:
    """Count n features, which fit in search.reduced, and sum their cells there over the workers.

    Return False on failure.
    """
    cdef uint64_t* to = search.reduced
    cdef int64_t* numbers = <int64_t*>search.reduced
    cdef int32_t i = 0
    search.next_reduced = search.reduced
    while i < n:
        to = _write_local_cells(search, features + i, min(n - i, <int32_t>FEATURES_AT_ONCE), to)
        i += FEATURES_AT_ONCE
    return sum_over(search.sample.ranks, &numbers, 1, to - search.reduced)


cdef uint64_t* _write_local_cells(Search* search, const int32_t* features, int32_t n, uint64_t* to) noexcept nogil:
    """Count up to FEATURES_AT_ONCE features, and append their local cells at `to`; return the end of the cells."""
    cdef Py_ssize_t size
    cdef int32_t j
    count_features(search, features, n)
    for j in range(n):
        size = <Py_ssize_t>search.forest.table.n_codes[features[j]] * search.sample.layout.n_words
        memcpy(to, search.cells[j].cells, size * sizeof(uint64_t))
        memset(search.cells[j].cells, 0, size * sizeof(uint64_t))
        to += size
    return to


cdef void read_reduced_feature(Search* search) noexcept nogil:
    """Read the next cells in the reduced buffer, which must be of search.feature, into groups."""
    cdef Py_ssize_t size = <Py_ssize_t>search.forest.table.n_codes[search.feature] * search.sample.layout.n_words
    memcpy(search.cells[0].cells, search.next_reduced, size * sizeof(uint64_t))
    search.next_reduced += size
    collect_groups(search, 0)


cdef enum:
    # Nodes of small weight evaluate features one by one, because the search ends at a feature that separates the
    # classes. (The limit is a weight rather than a number of rows, because integer weights count as copies.)
    LITTLE_WEIGHT = 16
    # If the cells of one feature need more words than this, a second feature would exceed the cache.
    CACHED_WORDS = 1 << 14


cdef bint _is_pure(const Search* search) noexcept nogil:
    """Return True if all rows of the node on this worker have equal values of every target."""
    cdef const float64_t* numbers = search.forest.targets.numbers
    cdef const int32_t* classes = search.forest.targets.classes
    cdef Py_ssize_t i, t, n = search.forest.targets.n_targets, first = search.rows[0].row * n, place
    for i in range(1, search.n_rows):
        place = search.rows[i].row * n
        for t in range(n):
            if classes != NULL and classes[place + t] != classes[first + t]:
                return False
            if numbers != NULL and numbers[place + t] != numbers[first + t]:
                return False
    return True


cdef uint64_t packed_total(const Sample* sample, uint32_t begin, uint32_t end) noexcept nogil:
    """Return the sum of the packed words (row count, weight and number or second class) of some entries.

    They are the entries begin .. end - 1 of the sample.
    """
    cdef Py_ssize_t i
    cdef uint64_t total = 0
    for i in range(begin, end):
        total += sample.entries[i].word
    return total


cdef bint _sum_node(Search* search, uint64_t total) noexcept nogil:
    """Set search.total, weight and score of the node, over all workers; return False if a reduction failed.

    `total` is its packed sum.
    """
    cdef Py_ssize_t i
    if search.sample.layout.packed:
        search.total[0] = total
    else:
        memset(search.total, 0, search.sample.layout.n_words * sizeof(uint64_t))
        for i in range(search.n_rows):
            add_row(search, &search.rows[i], search.total)
        if not sum_total_over_ranks(search):
            return False
    search.weight = words_weight(search, search.total)
    search.score = median_score(search) if uses_medians(search.forest) else words_score(search, search.total)
    return True


cdef bint find_split(Search* search, Open* open, uint64_t* mask) noexcept nogil:
    """Search the node's best split and write it to `open`; return True if the node is to be split by it.

    Constant features that are found are marked in `mask`, the node's mask.
    """
    cdef const Forest* forest = search.forest
    cdef const Sample* sample = search.sample
    cdef Draw draw
    cdef int32_t i, n, n_seen = 0, n_left = forest.table.n_features - open.n_excluded
    cdef bint compares_rows = not (sample.layout.packed and forest.targets.classes != NULL)
    start_draw(&draw, forest.table.n_features, forest.rules.in_random_order, open.key)
    search.best.feature, search.best.gain, search.best.n_usable = -1, -INFINITY, n_left
    search.rows, search.n_rows, search.n_all = sample.entries + open.begin, open.end - open.begin, open.n_rows
    search.lower, search.upper = open.lower, open.upper
    if search.stop[0] or is_pure_word(search, open.total):
        return False
    if sample.ranks == NULL and compares_rows and _is_pure(search):
        return False
    if not _sum_node(search, open.total) or search.weight < 2 * sample.min_weight:
        return False
    if sample.ranks != NULL and compares_rows and is_pure_over_ranks(search):
        return False
    memcpy(search.visited, mask, search.n_mask_words * sizeof(uint64_t))
    search.found_perfect = False
    if forest.table.stored.rows != NULL:
        mark_present_features(search)
    while n_seen < forest.limits.features_per_split and n_left > 0 and not search.found_perfect:
        n = forest.limits.features_per_split - n_seen
        if forest.limits.feature_weights == NULL:
            n = draw_features(&draw, search.visited, n, n_left, search.drawn)
        else:
            n = draw_weighted(&draw, forest.limits.feature_weights, search.visited, n, n_left, search.drawn)
        n_left -= n
        if sample.ranks == NULL:
            i = _search_features(search, open.key, n, mask)
        else:
            i = _search_over_ranks(search, open.key, n, mask)
            if sample.ranks.failed:
                return False
        n_seen += n - i
        open.n_excluded += i
    if forest.table.stored.rows != NULL:
        reset_row_positions(search)
    open.split = search.best
    open.split.gain = max(search.best.gain, 0.0)
    return search.best.feature >= 0 and search.best.gain >= sample.min_gain and not search.stop[0]


cdef int32_t _search_features(Search* search, uint64_t key, int32_t n, uint64_t* mask) noexcept nogil:
    """Evaluate the first n features in search.drawn, on rows that are all local.

    `key` is the node's random key. Constant features are marked in `mask`; return their number.
    """
    cdef const Forest* forest = search.forest
    cdef int32_t i, n_constant = 0, at_once = FEATURES_AT_ONCE
    cdef bint is_random = forest.rules.random_thresholds, by_medians = uses_medians(forest)
    cdef bint few = has_few(search), sorts
    if forest.table.stored.rows != NULL:
        n_constant = _drop_zero_features(search, n, mask)
        n -= n_constant
    if (
        <float64_t>search.weight <= LITTLE_WEIGHT * search.sample.layout.weight_scale
        or <Py_ssize_t>forest.table.max_codes * search.sample.layout.n_words > CACHED_WORDS or few
    ):
        at_once = 1
    if is_random and search.sample.layout.packed:
        copy_words(search)
    for i in range(n):
        if search.stop[0]:
            break
        search.feature, search.last_code = search.drawn[i], -1
        search.key = random_bits(key, ~<uint64_t>search.feature)
        sorts = few and not forest.table.is_categorical[search.feature]
        # The codes of several features are read in one pass over the rows.
        if i % at_once == 0 and not sorts and not by_medians:
            if is_random:
                copy_codes(search, search.drawn + i, min(n - i, at_once))
            else:
                count_features(search, search.drawn + i, min(n - i, at_once))
        if by_medians:
            search_medians(search)
        elif sorts:
            search_few(search)
        elif is_random and not forest.table.is_categorical[search.feature]:
            search_threshold(search, i % at_once)
        else:
            if is_random:
                count_features(search, &search.feature, 1)
            collect_groups(search, 0 if is_random else i % at_once)
            if search.n_groups > 1:
                search_groups(search)
        n_constant += _finish_feature(search, mask)
        if at_once == 1 and search.best.feature == search.feature and _is_perfect(search):
            search.found_perfect = True
            break
    return n_constant


cdef int32_t _drop_zero_features(Search* search, int32_t n, uint64_t* mask) noexcept nogil:
    """Mark in `mask` the drawn sparse features that are zero in all rows, and drop them from search.drawn.

    Return the number of dropped features.
    """
    cdef int32_t i, kept = 0
    for i in range(n):
        if has_feature(search.present, search.drawn[i]):
            search.drawn[kept] = search.drawn[i]
            kept += 1
        else:
            add_feature(mask, search.drawn[i])
    return n - kept


cdef int32_t _search_over_ranks(Search* search, uint64_t key, int32_t n, uint64_t* mask) noexcept nogil:
    """Evaluate the first n features in search.drawn, on the rows of all workers.

    `key` is the node's random key. Constant features are marked in `mask`; return their number.
    """
    cdef int32_t i, n_constant = 0, at_once = features_in_reduction(search)
    for i in range(n):
        if i % at_once == 0 and not reduce_features(search, search.drawn + i, min(n - i, at_once)):
            return n_constant
        search.feature, search.last_code = search.drawn[i], -1
        search.key = random_bits(key, ~<uint64_t>search.feature)
        read_reduced_feature(search)
        if search.n_groups > 1:
            search_groups(search)
        n_constant += _finish_feature(search, mask)
    return n_constant


cdef inline bint _finish_feature(Search* search, uint64_t* mask) noexcept nogil:
    """Mark search.feature in `mask` and return True if it is constant; otherwise complete its best split.

    The split in search.best is completed only if it is on this feature.
    """
    if search.n_groups == 1:
        add_feature(mask, search.feature)
        return True
    if search.best.feature == search.feature:
        finish_split(search)
    return False


cdef inline bint _is_perfect(const Search* search) noexcept nogil:
    """Return True if no split can beat search.best: the node has two rows, or both sides are pure.

    Skipping the other features is then exact, because ties go to the first feature.
    """
    return (search.n_rows == 2 and <float64_t>search.weight <= 2 * search.sample.layout.weight_scale) or (
        is_pure_word(search, search.best.left_word)
        and is_pure_word(search, search.total[0] - search.best.left_word)
    )
