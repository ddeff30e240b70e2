from fastens.engine.forest.splits.structs cimport Forest, Layout, Sample, Search
from fastens.engine.splits.criterion cimport ABSOLUTE, ENTROPY, SQUARES
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint64_t


cdef enum:
    MAX_SQUARED = 0x7FFFFFFF        # weights below it have squares whose sums fit 62 bits


cdef enum Scan:
    # How all splits of a feature are scored.
    SEVERAL_AT_ONCE                 # by vector instructions
    BY_LOGARITHMS                   # entropy of two classes, from a table
    BY_CLASS                        # from what changes, in whole numbers
    ONE_BY_ONE                      # any criterion


cdef inline int64_t word_weight(const Layout* layout, uint64_t word) noexcept nogil:
    return <int64_t>((word >> layout.weight_shift) & layout.weight_mask)


cdef inline bint uses_medians(const Forest* forest) noexcept nogil:
    """Whether splits are scored from the rows themselves, not from sums."""
    return forest.rules.criterion == ABSOLUTE


cdef inline bint is_packed_squares(const Forest* forest, const Layout* layout) noexcept nogil:
    """Whether a gain follows from one sum alone."""
    return layout.packed and forest.rules.criterion == SQUARES


cdef inline bint is_one_class_target(const Forest* forest) noexcept nogil:
    return forest.targets.classes != NULL and forest.targets.n_targets == 1


cdef inline bint has_class_words(const Search* search) noexcept nogil:
    """Whether the score is that of squares, of one target's classes with a word each."""
    return (
        search.forest.rules.criterion == SQUARES and is_one_class_target(search.forest)
        and not search.sample.layout.packed
    )


cdef inline Scan scan_of(const Search* search) noexcept nogil:
    """The fastest of the scans that fits."""
    cdef const Forest* forest = search.forest
    if forest.limits.monotone != NULL:
        return ONE_BY_ONE
    if is_packed_squares(forest, &search.sample.layout):
        return SEVERAL_AT_ONCE
    if has_class_words(search):
        return BY_CLASS if search.weight < MAX_SQUARED else ONE_BY_ONE
    if forest.rules.criterion == ENTROPY and is_one_class_target(forest) and search.weight < forest.rules.n_logs:
        return BY_LOGARITHMS if search.sample.layout.packed else BY_CLASS
    return ONE_BY_ONE


cdef bint is_pure_word(const Search* search, uint64_t total) noexcept nogil
cdef int64_t words_weight(const Search* search, const uint64_t* words) noexcept nogil
cdef int64_t words_count(const Search* search, const uint64_t* words) noexcept nogil
cdef float64_t words_score(const Search* search, const uint64_t* words) noexcept nogil
cdef float64_t words_value(const Search* search, const uint64_t* words) noexcept nogil
cdef bint is_monotone(const Search* search, float64_t left, float64_t right) noexcept nogil
cdef float64_t unit_of_gain(const Forest* forest, const Layout* layout) noexcept nogil
