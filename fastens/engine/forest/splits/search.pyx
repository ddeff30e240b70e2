"""The best split of a node of a forest's tree.

Features are drawn until `n_drawn` that are not constant in the node were looked at. What a node finds constant is
constant in its children: they do not draw it.
"""

from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

from fastens.engine.forest.splits.classes cimport has_few, search_few
from fastens.engine.forest.splits.code_columns cimport forget_places, note_present
from fastens.engine.forest.splits.draw cimport Draw, draw_features, draw_weighted, start_draw
from fastens.engine.forest.splits.groups cimport add_row, collect_groups, count_features
from fastens.engine.forest.splits.median cimport median_score, search_medians
from fastens.engine.forest.splits.random_threshold cimport copy_codes, copy_words, search_threshold
from fastens.engine.forest.splits.reduced cimport (
    features_in_reduction, is_pure_over_ranks, reduce_features, take_reduced, total_over_ranks
)
from fastens.engine.forest.splits.scan cimport finish_split, search_groups
from fastens.engine.forest.splits.score cimport is_pure_word, uses_medians, words_score, words_weight
from fastens.engine.forest.splits.structs cimport FEATURES_AT_ONCE, Forest, Open, Sample, Search
from fastens.engine.paths cimport add_feature, has_feature
from fastens.engine.random cimport random_bits
from fastens.engine.structs cimport float64_t, int32_t, uint32_t, uint64_t


cdef enum:
    # A node of so little weight looks at one feature after another, for one that parts the classes ends the search.
    # (Not: of so few rows, for a weight means as many copies.)
    LITTLE_WEIGHT = 16
    # Cells of one feature that need so many words leave no place in the cache for those of another.
    CACHED_WORDS = 1 << 14


cdef bint _is_pure(const Search* search) noexcept nogil:
    """Whether all rows have the same targets."""
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
    cdef Py_ssize_t i
    cdef uint64_t total = 0
    for i in range(begin, end):
        total += sample.entries[i].word
    return total


cdef bint _sum_up(Search* search, uint64_t total) noexcept nogil:
    """The node's sums; `total` is what they are where they are packed. False where a reduction failed."""
    cdef Py_ssize_t i
    if search.sample.layout.packed:
        search.total[0] = total
    else:
        memset(search.total, 0, search.sample.layout.n_words * sizeof(uint64_t))
        for i in range(search.n_rows):
            add_row(search, &search.rows[i], search.total)
        if not total_over_ranks(search):
            return False
    search.weight = words_weight(search, search.total)
    search.score = median_score(search) if uses_medians(search.forest) else words_score(search, search.total)
    return True


cdef bint find_split(Search* search, Open* open, uint64_t* mask) noexcept nogil:
    """Find the node's best split and mark the features that are constant in it; return whether there is one."""
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
    if not _sum_up(search, open.total) or search.weight < 2 * sample.min_weight:
        return False
    if sample.ranks != NULL and compares_rows and is_pure_over_ranks(search):
        return False
    memcpy(search.visited, mask, search.n_mask_words * sizeof(uint64_t))
    search.found_perfect = False
    if forest.table.stored.rows != NULL:
        note_present(search)
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
        forget_places(search)
    open.split = search.best
    open.split.gain = max(search.best.gain, 0.0)
    return search.best.feature >= 0 and search.best.gain >= sample.min_gain and not search.stop[0]


cdef int32_t _search_features(Search* search, uint64_t key, int32_t n, uint64_t* mask) noexcept nogil:
    """Look at the n features drawn; mark those that are constant, and return how many."""
    cdef const Forest* forest = search.forest
    cdef int32_t i, n_constant = 0, at_once = FEATURES_AT_ONCE
    cdef bint is_random = forest.rules.random_thresholds, by_medians = uses_medians(forest)
    cdef bint few = has_few(search), sorts
    if forest.table.stored.rows != NULL:
        n_constant = _leave_out_zeros(search, n, mask)
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
        # Codes of a few features are read in one go through the rows.
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
        n_constant += _settle_feature(search, mask)
        if at_once == 1 and search.best.feature == search.feature and _is_perfect(search):
            search.found_perfect = True
            break
    return n_constant


cdef int32_t _leave_out_zeros(Search* search, int32_t n, uint64_t* mask) noexcept nogil:
    """Mark those of the n features drawn that are zero in all rows, keep the others; return how many."""
    cdef int32_t i, kept = 0
    for i in range(n):
        if has_feature(search.present, search.drawn[i]):
            search.drawn[kept] = search.drawn[i]
            kept += 1
        else:
            add_feature(mask, search.drawn[i])
    return n - kept


cdef int32_t _search_over_ranks(Search* search, uint64_t key, int32_t n, uint64_t* mask) noexcept nogil:
    """The same where the node's rows are on several ranks."""
    cdef int32_t i, n_constant = 0, at_once = features_in_reduction(search)
    if search.forest.rules.random_thresholds and search.sample.layout.packed:
        copy_words(search)
    for i in range(n):
        if i % at_once == 0 and not reduce_features(search, key, search.drawn + i, min(n - i, at_once)):
            return n_constant
        search.feature, search.last_code = search.drawn[i], -1
        search.key = random_bits(key, ~<uint64_t>search.feature)
        search.n_groups = 0
        take_reduced(search, i % at_once)
        if search.n_groups > 1 and (
            not search.forest.rules.random_thresholds or search.forest.table.is_categorical[search.feature]
        ):
            search_groups(search)
        n_constant += _settle_feature(search, mask)
    return n_constant


cdef inline bint _settle_feature(Search* search, uint64_t* mask) noexcept nogil:
    """Finish the split where it is the best one so far; mark the feature, and return True, where it is constant."""
    if search.n_groups == 1:
        add_feature(mask, search.feature)
        return True
    if search.best.feature == search.feature:
        finish_split(search)
    return False


cdef inline bint _is_perfect(const Search* search) noexcept nogil:
    """Whether no split can be better. (Then what was not looked at loses nothing: the first of equal gains wins.)"""
    return (search.n_rows == 2 and <float64_t>search.weight <= 2 * search.sample.layout.weight_scale) or (
        is_pure_word(search, search.best.left_word)
        and is_pure_word(search, search.total[0] - search.best.left_word)
    )
