"""Scores of a node's rows from the words that hold their sums."""

from fastens.engine.forest.splits.structs cimport Forest, Layout, Search
from fastens.engine.splits.criterion cimport ENTROPY, SQUARES, score_of_sums
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint64_t


cdef int64_t words_weight(const Search* search, const uint64_t* words) noexcept nogil:
    """Weight of the rows behind the words."""
    cdef const Forest* forest = search.forest
    cdef const Layout* layout = &search.sample.layout
    cdef int64_t weight = 0
    cdef int32_t k
    if layout.packed:
        return word_weight(layout, words[0])
    if forest.targets.classes == NULL:
        return word_weight(layout, words[forest.targets.n_stats])
    for k in range(forest.targets.first_stat[1]):
        weight += word_weight(layout, words[k])
    return weight


cdef int64_t words_count(const Search* search, const uint64_t* words) noexcept nogil:
    cdef const Forest* forest = search.forest
    cdef uint64_t count_mask = search.sample.layout.count_mask
    cdef int64_t count = 0
    cdef int32_t k
    if search.sample.layout.packed:
        return <int64_t>(words[0] & count_mask)
    if forest.targets.classes == NULL:
        return <int64_t>(words[forest.targets.n_stats] & count_mask)
    for k in range(forest.targets.first_stat[1]):
        count += <int64_t>(words[k] & count_mask)
    return count


cdef int32_t _stats(const Search* search, const uint64_t* words) noexcept nogil:
    """Write the sums that are scored; return how many."""
    cdef const Forest* forest = search.forest
    cdef const Layout* layout = &search.sample.layout
    cdef float64_t* stats = search.stats
    cdef int32_t k
    if layout.packed:
        stats[0] = <float64_t>(words[0] >> layout.number_shift)
        if forest.rules.criterion != ENTROPY:
            return 1
        stats[1] = <float64_t>word_weight(layout, words[0]) - stats[0]
        return 2
    for k in range(forest.targets.n_stats):
        stats[k] = <float64_t>(words[k] if forest.targets.classes == NULL else word_weight(layout, words[k]))
    return forest.targets.n_stats


cdef float64_t _class_score(const Layout* layout, const uint64_t* words, Py_ssize_t n_classes) noexcept nogil:
    """Sum of the squares of the classes' weights, over their sum."""
    cdef Py_ssize_t k
    cdef float64_t of_class, squares = 0.0, weight = 0.0
    for k in range(n_classes):
        of_class = <float64_t>word_weight(layout, words[k])
        squares += of_class * of_class
        weight += of_class
    return squares / weight


cdef float64_t words_score(const Search* search, const uint64_t* words) noexcept nogil:
    """Score of the rows behind the words; minus infinity where the criterion allows no such rows."""
    cdef int32_t n
    if has_class_words(search):
        return _class_score(&search.sample.layout, words, search.forest.targets.n_stats)
    n = _stats(search, words)
    return score_of_sums(search.forest.rules.criterion, search.stats, n, <float64_t>words_weight(search, words))


cdef float64_t words_value(const Search* search, const uint64_t* words) noexcept nogil:
    """What monotone constraints bound: the share of the second class, or the mean."""
    cdef const Layout* layout = &search.sample.layout
    if layout.packed:
        return <float64_t>(words[0] >> layout.number_shift) / <float64_t>word_weight(layout, words[0])
    if search.forest.targets.classes == NULL:
        return <float64_t>words[0] / <float64_t>word_weight(layout, words[1])
    return <float64_t>word_weight(layout, words[1]) / <float64_t>(
        word_weight(layout, words[0]) + word_weight(layout, words[1])
    )


cdef bint is_monotone(const Search* search, float64_t left, float64_t right) noexcept nogil:
    return (
        (left - right) * search.forest.limits.monotone[search.feature] <= 0
        and min(left, right) >= search.lower
        and max(left, right) <= search.upper
    )


cdef bint is_pure_word(const Search* search, uint64_t total) noexcept nogil:
    """Whether packed sums are those of rows of one class."""
    cdef const Layout* layout = &search.sample.layout
    cdef uint64_t second = total >> layout.number_shift
    return search.forest.targets.classes != NULL and layout.packed and (
        second == 0 or second == (total >> layout.weight_shift) & layout.weight_mask
    )


cdef float64_t unit_of_gain(const Forest* forest, const Layout* layout) noexcept nogil:
    """What a gain of the rounded numbers and weights is multiplied by."""
    cdef float64_t unit = 1.0 / (layout.weight_scale * forest.targets.n_targets)
    if forest.targets.classes == NULL:
        unit /= layout.number_scale * (layout.number_scale if forest.rules.criterion == SQUARES else 1.0)
    elif is_packed_squares(forest, layout):
        # The squares of one class's weight only; the other class's add as much to a gain.
        unit *= 2.0
    return unit
