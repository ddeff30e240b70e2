"""The best split of one feature from the sums of its codes: the groups up to some position go left, and with them,
perhaps, the missing rows."""

from fastens.engine.forest.splits.classes cimport scan_classes
from fastens.engine.forest.splits.score cimport (
    BY_CLASS, BY_LOGARITHMS, SEVERAL_AT_ONCE, Scan, is_monotone, is_packed_squares, scan_of, word_weight, words_count,
    words_score, words_value, words_weight
)
from fastens.engine.forest.splits.structs cimport Forest, FoundSplit, Layout, Search, keep_split, sum_of_logs
from fastens.engine.forest.splits.threshold cimport random_code
from fastens.engine.splits.goes_left cimport middle_code, set_fill, set_put
from fastens.engine.histograms.cells cimport first_with_count
from fastens.engine.random cimport random_below, random_bits
from fastens.engine.splits.criterion cimport gain_of_squares
from fastens.engine.splits.scan cimport ScanNode, leave_out_light, place_of, split_gains
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint64_t


cdef bint _is_allowed(const Search* search) noexcept nogil:
    """Whether the split with search.left on the left keeps to the limits; the right side's words stand behind them."""
    cdef const Forest* forest = search.forest
    cdef int64_t count, weight
    if search.sample.layout.count_mask != 0:
        count = words_count(search, search.left)
        if count < forest.limits.min_samples_leaf or search.n_all - count < forest.limits.min_samples_leaf:
            return False
    if search.sample.min_weight > 0:
        weight = words_weight(search, search.left)
        if weight < search.sample.min_weight or search.weight - weight < search.sample.min_weight:
            return False
    return forest.limits.monotone == NULL or is_monotone(
        search, words_value(search, search.left), words_value(search, search.left + search.sample.layout.n_words)
    )


cdef void consider_left(Search* search, int32_t position, bint missing_left) noexcept nogil:
    """Keep the split with search.left on the left if it is allowed and better than the best so far."""
    cdef const Layout* layout = &search.sample.layout
    cdef const uint64_t* left = search.left
    cdef int32_t k, n_words = layout.n_words
    cdef float64_t gain
    for k in range(n_words):
        search.left[n_words + k] = search.total[k] - left[k]
    if not _is_allowed(search):
        return
    if is_packed_squares(search.forest, layout):
        gain = gain_of_squares(
            <float64_t>(search.total[0] >> layout.number_shift), <float64_t>word_weight(layout, search.total[0]),
            <float64_t>(left[0] >> layout.number_shift), <float64_t>word_weight(layout, left[0]),
        )
    else:
        gain = words_score(search, left)
        gain += words_score(search, left + n_words) - search.score
    if gain <= search.best.gain:
        return
    keep_split(search, gain, position, missing_left)
    search.best.left_weight = words_weight(search, left)
    search.best.left_word = left[0]
    if search.forest.limits.monotone != NULL:
        search.best.left_value = words_value(search, left)
        search.best.right_value = words_value(search, left + n_words)


cdef void _scan_fast(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil:
    """Squares of one number, many splits at a time: the gain is W (s_l - s w_l / W)^2 / (w_l w_r)."""
    cdef const Layout* layout = &search.sample.layout
    cdef int64_t min_rows = search.forest.limits.min_samples_leaf, min_weight = search.sample.min_weight
    cdef ScanNode scan
    cdef uint64_t sum_ = search.found[0] if missing_left else 0
    cdef Py_ssize_t i, n = last - first + 1, begin = 0
    cdef float64_t gain
    for i in range(n):
        sum_ += search.found[first + i]
        search.sums[i] = sum_
    scan.layout.count_mask, scan.layout.hessian_mask = layout.count_mask, layout.weight_mask
    scan.layout.gradient_shift, scan.layout.hessian_shift = layout.number_shift, layout.weight_shift
    scan.layout.gradient_bias = 0
    if layout.count_mask != 0:
        begin = first_with_count(search.sums, n, &scan.layout, min_rows)
        n = first_with_count(search.sums, n, &scan.layout, search.n_all - min_rows + 1)
    scan.l2 = 0.0
    scan.hessian = <float64_t>search.weight
    scan.ratio = <float64_t>(search.total[0] >> layout.number_shift) / scan.hessian
    leave_out_light(search.sums, &scan.layout, min_weight, search.weight - min_weight, &begin, &n)
    split_gains(search.sums + begin, n - begin, &scan, search.gains, &gain)
    if gain < 0 or gain * scan.hessian <= search.best.gain:
        return
    begin += place_of(gain, search.gains)
    keep_split(search, gain * scan.hessian, <int32_t>(first + begin), missing_left)
    search.best.left_weight = word_weight(layout, search.sums[begin])
    search.best.left_word = search.sums[begin]


cdef void _scan_two_classes(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil:
    """Entropy of two classes, from a table of logarithms."""
    cdef const Layout* layout = &search.sample.layout
    cdef const int64_t* logs = search.forest.rules.logs
    cdef uint64_t* left = search.left
    cdef int64_t weight, second, rest_weight, rest_second, entropy
    cdef float64_t gain
    cdef int32_t j
    left[0] = search.found[0] if missing_left else 0
    for j in range(first, last + 1):
        left[0] += search.found[j]
        left[1] = search.total[0] - left[0]
        weight, second = word_weight(layout, left[0]), <int64_t>(left[0] >> layout.number_shift)
        rest_weight, rest_second = word_weight(layout, left[1]), <int64_t>(left[1] >> layout.number_shift)
        entropy = logs[second] + logs[weight - second] - logs[weight]
        entropy += logs[rest_second] + logs[rest_weight - rest_second] - logs[rest_weight]
        gain = sum_of_logs(entropy) - search.score
        if gain > search.best.gain and _is_allowed(search):
            keep_split(search, gain, j, missing_left)
            search.best.left_weight, search.best.left_word = weight, left[0]


cdef void _scan_any(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil:
    """Any criterion, any number of sums, one split after the other."""
    cdef int32_t j, k, n_words = search.sample.layout.n_words
    cdef const uint64_t* cell
    for k in range(n_words):
        search.left[k] = search.found[k] if missing_left else 0
    for j in range(first, last + 1):
        cell = search.found + <Py_ssize_t>j * n_words
        for k in range(n_words):
            search.left[k] += cell[k]
        consider_left(search, j, missing_left)


cdef void _scan(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil:
    """The splits with the groups first .. k on the left, k = first .. last."""
    cdef Scan scan
    if first > last:
        return
    scan = scan_of(search)
    if scan == SEVERAL_AT_ONCE:
        _scan_fast(search, first, last, missing_left)
    elif scan == BY_LOGARITHMS:
        _scan_two_classes(search, first, last, missing_left)
    elif scan == BY_CLASS:
        scan_classes(search, first, last, missing_left)
    else:
        _scan_any(search, first, last, missing_left)


cdef int32_t random_candidate(Search* search, bint* missing_left) noexcept nogil:
    """One threshold, and one side for missing rows, at random; of categories, a cut. Return the last group on the left,
    and set search.last_code where the threshold is not to be in the middle between groups."""
    cdef int32_t has_missing = search.codes[0] == 0 and not search.is_set, last = has_missing
    missing_left[0] = has_missing and random_bits(search.key, 1) & 1
    if search.is_set:
        return <int32_t>random_below(search.key, 0, search.n_groups - 1)
    if search.n_groups - has_missing == 1:
        missing_left[0] = False
        return 1
    search.last_code = random_code(
        &search.forest.table, search.feature, search.key, search.codes[has_missing], search.codes[search.n_groups - 1]
    )
    while search.codes[last + 1] <= search.last_code:
        last += 1
    return last


cdef void _search_random(Search* search) noexcept nogil:
    """A single split: its groups are first put together."""
    cdef bint missing_left
    cdef int32_t j, k, n_words = search.sample.layout.n_words, last = random_candidate(search, &missing_left)
    cdef uint64_t* into = search.found + <Py_ssize_t>last * n_words
    for j in range(search.codes[0] == 0 and not search.is_set, last):
        for k in range(n_words):
            into[k] += search.found[<Py_ssize_t>j * n_words + k]
    _scan(search, last, last, missing_left)


cdef void search_groups(Search* search) noexcept nogil:
    """Every threshold, with missing rows on the right and on the left; of ordered categories, every cut."""
    cdef bint has_missing = search.codes[0] == 0 and not search.is_set
    if search.forest.rules.random_thresholds:
        _search_random(search)
        return
    _scan(search, has_missing, search.n_groups - 2 + has_missing, False)
    if has_missing:
        _scan(search, 1, search.n_groups - 2, True)


cdef void finish_split(Search* search) noexcept nogil:
    """Write down which codes go left, when the best split so far is one of this feature."""
    cdef FoundSplit* best = &search.best
    best.is_set, best.n_groups = search.is_set, search.n_groups
    if search.is_set:
        _write_set(search)
        return
    # In the middle between the codes on its two sides; without missing rows here, later ones follow the larger side.
    if best.position + 1 == search.n_groups:
        best.last_code = search.forest.table.n_codes[search.feature] - 1
    elif best.last_code < 0:
        best.last_code = middle_code(
            search.forest.table.thresholds[search.feature], search.codes[best.position],
            search.codes[best.position + 1],
        )
    if search.codes[0] != 0:
        best.missing_left = 2 * best.left_weight > search.weight


cdef void _write_set(Search* search) noexcept nogil:
    """The bits of the codes that go left; codes that the node does not have go to its larger side."""
    cdef int32_t k, n_codes = search.forest.table.n_codes[search.feature]
    set_fill(search.set_words, n_codes, 2 * search.best.left_weight > search.weight)
    search.best.missing_left = True  # the way of missing values is free, unless there are some: see unseen.pyx
    for k in range(search.n_groups):
        if search.codes[k] == 0:
            search.best.missing_left = False
        set_put(search.set_words, search.codes[k], k <= search.best.position)
