"""Draws with replacement: how often each row is in each of some bootstrap samples.

The rows of a stratum lie side by side on [0, 1), each as wide as its share of the weight. Halving that interval again
and again splits the draws between its parts: of n draws in a part, Binomial(n, 1/2) fall into its left half. A part
that lies within one row gives it all its draws; a part of few draws places them one by one. What is random follows from
the tree's seed and the part alone, not from the rows, so that a row of weight 2 is the same as two rows; and the cost
follows the number of rows where they are fewer than the draws.
"""

from fastens.engine.rows.binomial cimport count_heads
from fastens.engine.random cimport random_bits, random_share
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint32_t, uint64_t
from fastens.engine.team cimport share_pieces


cdef enum:
    FEW_DRAWS = 64                 # in a part; they are placed one by one
    MAX_LEVEL = 62                  # a part and its level have one number of 64 bits


cdef struct Urn:
    const float64_t* cumulated      # weights of the stratum's rows, cumulated; NULL where all are 1
    float64_t total
    uint64_t seed
    float64_t* counts               # of the stratum's rows, in the same order


cdef struct Part:
    # [index, index + 1) * 2**-level of the stratum, and the places of the rows that it meets.
    int64_t level
    uint64_t index
    Py_ssize_t first
    Py_ssize_t last


cdef inline Py_ssize_t _place(const Urn* urn, float64_t share, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """The first place whose cumulated weight is above this share of the whole, of those from `first` to `last`."""
    cdef float64_t wanted = share * urn.total
    cdef Py_ssize_t n = last - first, half
    if urn.cumulated == NULL:
        return max(first, min(<Py_ssize_t> wanted, last))
    while n > 0:
        half = (n + 1) >> 1
        first += half if urn.cumulated[first + half - 1] <= wanted else 0
        n -= half
    return first


cdef inline Py_ssize_t _last_below(const Urn* urn, float64_t share, Py_ssize_t first, Py_ssize_t place) noexcept nogil:
    """The last place that begins below this share of the whole, which falls on `place`; not before `first`."""
    cdef float64_t end = share * urn.total
    if urn.cumulated == NULL:
        return place - 1 if <float64_t> place >= end and place > first else place
    while place > first and urn.cumulated[place - 1] >= end:
        place -= 1
    return place


cdef void _draw_each(const Urn* urn, const Part* part, uint64_t seed, int64_t n) noexcept nogil:
    cdef float64_t size = 1.0 / <float64_t>(<uint64_t>1 << part.level), share
    cdef uint64_t counter
    for counter in range(<uint64_t>n):
        share = (<float64_t>part.index + random_share(seed, counter)) * size
        urn.counts[_place(urn, share, part.first, part.last)] += 1.0


cdef void _draw(const Urn* urn, const Part* part, int64_t n) noexcept nogil:
    """Draw n times from a part."""
    cdef Part half
    cdef uint64_t seed
    cdef int64_t n_left
    cdef float64_t middle
    cdef Py_ssize_t place
    if n == 0:
        return
    if part.first == part.last:
        urn.counts[part.first] += <float64_t>n
        return
    seed = random_bits(urn.seed, (<uint64_t>1 << part.level) + part.index)
    if n <= FEW_DRAWS or part.level == MAX_LEVEL:
        _draw_each(urn, part, seed, n)
        return
    n_left = count_heads(seed, n)
    half.level, half.index = part.level + 1, 2 * part.index
    middle = <float64_t>(half.index + 1) / <float64_t>(<uint64_t>1 << half.level)
    place = _place(urn, middle, part.first, part.last)
    half.first, half.last = part.first, _last_below(urn, middle, part.first, place)
    _draw(urn, &half, n_left)
    half.index += 1
    half.first, half.last = place, part.last
    _draw(urn, &half, n - n_left)


cdef struct Samples:
    void* urns                      # Urns
    const uint64_t* seeds
    float64_t* drawn                # (n_samples, n_rows), likewise the counts
    float64_t* counts
    Py_ssize_t n_rows


cdef void _fill_sample(void* job, Py_ssize_t i, int32_t thread) noexcept nogil:
    cdef const Samples* samples = <const Samples*> job
    (<Urns> samples.urns)._fill(
        samples.seeds[i], samples.drawn + i * samples.n_rows, samples.counts + i * samples.n_rows
    )


cdef class Urns:
    """The rows of each stratum, to draw from.

    Parameters
    ----------
    order : uint32 array of shape (n_rows,)
        The rows, one stratum after another.
    cumulated : float64 array of shape (n_rows,) or None
        Their weights, cumulated within each stratum; None where all are 1.
    offsets : int64 array of shape (n_strata + 1,)
        Where the strata begin in `order`.
    draws : int64 array of shape (n_strata + 1,)
        The numbers of draws, cumulated from 0.
    """

    cdef const uint32_t[::1] order
    cdef const float64_t[::1] cumulated
    cdef const int64_t[::1] offsets
    cdef const int64_t[::1] draws

    def __init__(self, order, cumulated, offsets, draws):
        self.order, self.cumulated, self.offsets, self.draws = order, cumulated, offsets, draws

    cdef void _fill(self, uint64_t seed, float64_t* drawn, float64_t* counts) noexcept nogil:
        cdef Py_ssize_t s, i, first, n
        cdef Urn urn
        cdef Part whole
        for s in range(self.offsets.shape[0] - 1):
            first, n = self.offsets[s], self.offsets[s + 1] - self.offsets[s]
            urn.seed = random_bits(seed, <uint64_t>s)
            urn.counts = drawn + first
            urn.cumulated, urn.total = NULL, <float64_t>n
            if self.cumulated is not None:
                urn.cumulated, urn.total = &self.cumulated[first], self.cumulated[first + n - 1]
            whole.level = whole.index = whole.first = 0
            whole.last = n - 1
            _draw(&urn, &whole, self.draws[s + 1] - self.draws[s])
        for i in range(self.order.shape[0]):
            counts[self.order[i]] = drawn[i]

    def fill(self, const uint64_t[::1] seeds, float64_t[:, ::1] drawn, float64_t[:, ::1] counts, int n_threads):
        """Write to counts, one row for each seed, how often each row is drawn; `drawn` is room of as many zeros."""
        cdef Samples samples
        if counts.shape[0] == 0 or counts.shape[1] == 0:
            return
        samples = Samples(<void*> self, &seeds[0], &drawn[0, 0], &counts[0, 0], counts.shape[1])
        with nogil:
            share_pieces(_fill_sample, &samples, seeds.shape[0], n_threads)
