"""Families of sets as bit arrays: bit K is set if the set K of attributes (itself a bit mask) violates a clause.

Every subset of a failing set also fails, so the failing sets are the downward closure of a few maximal ones. All passes
work on words of 64 sets: the six lowest attributes select a bit within a word, the others select the word.
"""

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    IN_WORD = 6             # number of attributes within a word
    IN_CACHE = 4096         # words of a block that stays in the L1 cache for all passes


cdef uint64_t WITH[6]       # bits of a word for sets that contain attribute j
cdef uint64_t OF_SIZE[7]    # bits of a word for sets of each size
cdef uint64_t PART_OF[64]   # bits of a word for subsets of each mask


cdef void _fill_tables() noexcept:
    """Fill the tables `WITH`, `OF_SIZE` and `PART_OF`: masks of a word's 64 sets of six attributes."""
    cdef uint64_t bit, mask
    cdef int j
    for bit in range(64):
        for j in range(IN_WORD):
            if (bit >> j) & 1:
                WITH[j] |= (<uint64_t> 1) << bit
        OF_SIZE[popcount(bit)] |= (<uint64_t> 1) << bit
        for mask in range(64):
            if bit & mask == bit:
                PART_OF[mask] |= (<uint64_t> 1) << bit


cdef inline int popcount(uint64_t x) noexcept nogil:
    """Return the number of set bits."""
    x = x - ((x >> 1) & <uint64_t> 0x5555555555555555)
    x = (x & <uint64_t> 0x3333333333333333) + ((x >> 2) & <uint64_t> 0x3333333333333333)
    x = (x + (x >> 4)) & <uint64_t> 0x0F0F0F0F0F0F0F0F
    return <int> ((x * <uint64_t> 0x0101010101010101) >> 56)


_fill_tables()


cdef void mark_subsets_of_block(uint64_t* failing, int64_t n_words, int n_in_word) noexcept nogil:
    """Set the bits of all subsets of marked sets in `n_words` words; bit b of word w is the set w * 64 + b.

    `n_words` is a power of two; `n_in_word` is the number of attributes that select a bit within a word, at most six.
    """
    cdef int64_t step, first, i
    cdef uint64_t word
    cdef int j
    for i in range(n_words):
        word = failing[i]
        if word:
            for j in range(n_in_word):
                word |= (word & WITH[j]) >> (1 << j)
            failing[i] = word
    step = 1
    while step < n_words:
        first = 0
        while first < n_words:
            for i in range(first, first + step):
                failing[i] |= failing[i + step]
            first += 2 * step
        step *= 2


cdef void mark_subsets_of_words(uint64_t* failing, int64_t n_words, int n_in_word) noexcept nogil:
    """Set the bits of all subsets of marked sets, like `mark_subsets_of_block`, in halves that fit the cache."""
    # The passes commute, so process the highest attribute first and then each half separately until it fits the cache.
    cdef int64_t half = n_words // 2, i
    if n_words <= IN_CACHE:
        mark_subsets_of_block(failing, n_words, n_in_word)
        return
    for i in range(half):
        failing[i] |= failing[half + i]
    mark_subsets_of_words(failing, half, n_in_word)
    mark_subsets_of_words(failing + half, half, n_in_word)


def mark_subsets(uint64_t[::1] failing, int n_attributes):
    """Mark all subsets of marked sets in the bit array `failing`, in which bit K is the set with the bit mask K."""
    cdef int n_in_word = min(n_attributes, <int> IN_WORD)
    with nogil:
        mark_subsets_of_words(&failing[0], failing.shape[0], n_in_word)


def count_passing_by_size(const uint64_t[::1] failing, int64_t[::1] counts):
    """Add to `counts[s]` the number of sets of s attributes whose bit in `failing` is 0."""
    cdef int64_t w
    cdef uint64_t passing
    cdef int outer, s
    with nogil:
        for w in range(failing.shape[0]):
            passing = ~failing[w]
            if passing:
                outer = popcount(<uint64_t> w)
                for s in range(IN_WORD + 1):
                    counts[outer + s] += popcount(passing & OF_SIZE[s])


cdef inline double word_weight(uint64_t passing, int64_t w, const double* size_weight) noexcept nogil:
    """Return the total weight of the sets in word `w` whose bits are set in `passing`; size s has `size_weight[s]`."""
    cdef int outer = popcount(<uint64_t> w), s
    cdef double total = 0
    if passing:
        for s in range(IN_WORD + 1):
            total += popcount(passing & OF_SIZE[s]) * size_weight[outer + s]
    return total


def write_subset_weights(
    const uint64_t[::1] failing, const uint64_t[::1] masks, const double[::1] size_weight, double[::1] out
):
    """Write to `out`, for each mask of attributes, the total weight of its subsets whose bit in `failing` is 0.

    `size_weight[s]` is the weight of a set of size s, 0 beyond the number of attributes n; it has n + 7 entries.
    """
    cdef Py_ssize_t i
    cdef uint64_t inside, outside, w
    cdef double total
    with nogil:
        for i in range(masks.shape[0]):
            inside = PART_OF[masks[i] & 63]
            outside = masks[i] >> IN_WORD
            total = 0
            w = outside
            while True:
                total += word_weight(~failing[<int64_t> w] & inside, <int64_t> w, &size_weight[0])
                if w == 0:
                    break
                w = (w - 1) & outside
            out[i] = total


cdef inline uint64_t find_set(
    uint64_t passing, int64_t w, const double* size_weight, double target, double before
) noexcept nogil:
    """Return the set of word `w` at position `target` of the cumulative weight, which is `before` in front of the word.

    Only sets whose bits are set in `passing` count. If the position is beyond the word, return its last set.
    """
    cdef uint64_t bit, last_set = 0
    cdef double weight
    cdef int outer = popcount(<uint64_t> w)
    for bit in range(64):
        if (passing >> bit) & 1:
            weight = size_weight[outer + popcount(bit)]
            if weight > 0:
                last_set = (<uint64_t> w << IN_WORD) | bit
                before += weight
                if target < before:
                    break
    return last_set


def draw_sets(
    const uint64_t[::1] failing, const double[::1] size_weight, const double[::1] targets, uint64_t[::1] out
):
    """Write the sets at ascending positions `targets` of the cumulative weight of unmarked sets to `out`."""
    cdef Py_ssize_t n = targets.shape[0], i = 0
    cdef int64_t w, last = 0
    cdef double before = 0, total
    with nogil:
        for w in range(failing.shape[0]):
            if i == n:
                break
            total = word_weight(~failing[w], w, &size_weight[0])
            if total == 0:
                continue
            last = w
            while i < n and targets[i] < before + total:
                out[i] = find_set(~failing[w], w, &size_weight[0], targets[i], before)
                i += 1
            before += total
        # Due to rounding, the sum may end below the last targets, which then get the last set.
        while i < n:
            out[i] = find_set(~failing[last], last, &size_weight[0], targets[i], 0)
            i += 1
