"""The rows of one tree and what they add to the sums.

Everything is rounded once to whole numbers, so that sums do not depend on the order of the rows. Whole weights stay
what they are; others become multiples of a power of two, at least 2**13 of them to an average row. Numbers are rounded
to at least 2**26 steps from the smallest to the largest where they share a word with the weights, else to as many as 62
bits hold when all rows are added up (some 2**44 with 100 000 rows).
"""

from libc.float cimport DBL_MAX
from libc.math cimport ceil, floor, rint

from fastens.engine.exact cimport log2
from fastens.engine.forest.splits.score cimport unit_of_gain, uses_medians
from fastens.engine.forest.splits.structs cimport Entry, Forest, Layout, Sample
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint32_t, uint64_t


cdef enum:
    WORD_BITS = 64
    SUM_BITS = 62
    FRACTION_BITS = 14              # of an average weight that is not whole
    MIN_NUMBER_BITS = 26            # of a number that shares its word
    MAX_FIELD_BITS = 51             # what the search for splits can read as a double

cdef float64_t MAX_WHOLE = 2.0**40  # sum of whole weights that are not rounded
cdef float64_t EPSILON = 2.0**-52  # gains are compared as scikit-learn does


cdef int32_t _bits(float64_t x) noexcept nogil:
    """Bits of a whole number."""
    return <int32_t>floor(log2(x)) + 1 if x >= 1 else 1


cdef float64_t power_of_two_below(float64_t x) noexcept nogil:
    """The largest power of two up to x."""
    return 2.0 ** floor(log2(x))


cdef uint64_t _ones(int32_t n) noexcept nogil:
    return (<uint64_t>1 << n) - 1


cdef Weights sum_weights(const float64_t* weights, Py_ssize_t first, Py_ssize_t end) noexcept nogil:
    """What the weights of rows add up to; NULL: all ones."""
    cdef Weights found = Weights(end - first, <float64_t>(end - first), True)
    cdef Py_ssize_t i
    if weights != NULL:
        found.n_rows, found.total = 0, 0.0
        for i in range(first, end):
            found.n_rows += weights[i] > 0
            found.total += weights[i]
            found.whole = found.whole and weights[i] < MAX_WHOLE and weights[i] == <float64_t><int64_t>weights[i]
    found.whole = found.whole and found.total < MAX_WHOLE
    return found


cdef Layout choose_layout(const Forest* forest, const Weights* weights, float64_t widest) noexcept nogil:
    """The smallest cell that holds what the rules need; `widest` is the largest range of a target's numbers."""
    cdef Layout layout
    cdef int32_t row_bits = _bits(<float64_t>weights.n_rows)
    cdef int32_t weight_bits = _bits(weights.total) if weights.whole else row_bits + FRACTION_BITS
    cdef int32_t count_bits = row_bits if forest.limits.min_samples_leaf > 1 else 0
    cdef int32_t number_bits = min(WORD_BITS - weight_bits - count_bits, <int32_t>MAX_FIELD_BITS)
    cdef bint is_class = forest.targets.classes != NULL
    layout.weight_scale = 1.0 if weights.whole else power_of_two_below(2.0 ** (weight_bits - 1) / weights.total)
    layout.weight_shift = count_bits
    layout.weight_mask = _ones(weight_bits)
    layout.count_mask = _ones(count_bits)
    layout.number_shift = weight_bits + count_bits
    layout.number_scale = 1.0
    layout.packed = (
        forest.targets.n_targets == 1 and forest.targets.n_stats <= 2 and not uses_medians(forest)
        and number_bits >= weight_bits + (0 if is_class else MIN_NUMBER_BITS)
    )
    if layout.packed:
        layout.n_words = 1
    elif is_class:
        layout.n_words = forest.targets.n_stats
    else:
        layout.n_words = forest.targets.n_targets + 1
        number_bits = SUM_BITS
    if not is_class and widest > 0:
        layout.number_scale = power_of_two_below(min((2.0 ** (number_bits - weight_bits) - 1) / widest, DBL_MAX))
    return layout


cdef inline int64_t _rounded(const Forest* forest, const Layout* layout, Py_ssize_t row, int32_t target) noexcept nogil:
    cdef float64_t number = forest.targets.numbers[row * forest.targets.n_targets + target]
    return <int64_t>rint((number - forest.targets.minimum[target]) * layout.number_scale)


cdef void fill_entries(
    const Forest* forest, const float64_t* weights, Py_ssize_t first, Py_ssize_t end, Sample* sample
) noexcept nogil:
    """One entry for each of these rows of positive weight, in order."""
    cdef const Layout* layout = &sample.layout
    cdef bint one_class = forest.targets.classes != NULL and forest.targets.n_targets == 1
    cdef Py_ssize_t row, n = 0
    cdef uint64_t weight = 1, count = layout.count_mask & 1
    cdef uint64_t* of_class
    cdef Entry* entry
    sample.by_class = one_class and layout.packed
    sample.class_words[0] = sample.class_words[1] = 0
    for row in range(first, end):
        if weights != NULL:
            if weights[row] <= 0:
                continue
            weight = max(<uint64_t>rint(weights[row] * layout.weight_scale), <uint64_t>1)
        entry = &sample.entries[n]
        entry.row = <uint32_t>row
        entry.offset = <uint32_t>forest.targets.classes[row] if one_class else 0
        entry.word = weight << layout.weight_shift | count
        if layout.packed:
            if one_class:
                entry.word += (weight * entry.offset) << layout.number_shift
                of_class = &sample.class_words[entry.offset]
                sample.by_class &= of_class[0] == 0 or of_class[0] == entry.word
                of_class[0] = entry.word
                entry.offset = 0
            else:
                entry.word += (weight * <uint64_t>_rounded(forest, layout, row, 0)) << layout.number_shift
        n += 1
    sample.n_entries = n


cdef void round_numbers(const Forest* forest, Py_ssize_t first, Py_ssize_t end, Sample* sample) noexcept nogil:
    """The rounded numbers of these rows, where entries do not hold them."""
    cdef Py_ssize_t row
    cdef int32_t t, n = forest.targets.n_targets
    for row in range(first, end):
        for t in range(n):
            sample.numbers[row * n + t] = _rounded(forest, &sample.layout, row, t)


cdef void scale_rules(const Forest* forest, float64_t total_weight, Sample* sample) noexcept nogil:
    """The rules in the units of the sums."""
    cdef const Layout* layout = &sample.layout
    sample.gain_unit = unit_of_gain(forest, layout)
    sample.min_gain = (forest.rules.min_decrease - EPSILON) * total_weight / sample.gain_unit
    sample.min_weight = <int64_t>ceil(forest.limits.min_weight_leaf * layout.weight_scale)


cdef int64_t entry_weight(const Sample* sample, Py_ssize_t i) noexcept nogil:
    """The weight of an entry's row, in units."""
    return <int64_t>((sample.entries[i].word >> sample.layout.weight_shift) & sample.layout.weight_mask)
