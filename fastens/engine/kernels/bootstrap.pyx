"""Draws with replacement: how often each row is in each of some bootstrap samples."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from fastens.engine.kernels.structs cimport float64_t
from fastens.engine.kernels.team cimport share_pieces

cdef extern from *:
    """
    #define FASTENS_SPLITMIX 0x9E3779B97F4A7C15u
    """
    const uint64_t STEP "FASTENS_SPLITMIX"


cdef inline float64_t _uniform(uint64_t seed, uint64_t counter) noexcept nogil:
    """Number `counter` of a stream in [0, 1): splitmix64 (Steele, Lea & Flood 2014)."""
    cdef uint64_t bits = seed + (counter + 1) * STEP
    bits = (bits ^ (bits >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    bits = (bits ^ (bits >> 27)) * <uint64_t> 0x94D049BB133111EB
    bits ^= bits >> 31
    return <float64_t> (bits >> 11) * (1.0 / 9007199254740992.0)


cdef struct Urn:
    const float64_t* cumulated      # weights of the stratum's rows, cumulated; NULL where all are 1
    const uint32_t* guide           # for each part of [0, 1) of size 1/n: a place to look from
    Py_ssize_t n


cdef inline Py_ssize_t _place(const Urn* urn, float64_t share) noexcept nogil:
    """The first place whose cumulated weight is above this share of the whole."""
    cdef Py_ssize_t bucket = <Py_ssize_t> (share * <float64_t> urn.n), place
    cdef float64_t wanted
    if urn.cumulated == NULL:
        return bucket
    wanted = share * urn.cumulated[urn.n - 1]
    place = urn.guide[bucket]
    while place > 0 and urn.cumulated[place - 1] > wanted:
        place -= 1
    while place < urn.n - 1 and urn.cumulated[place] <= wanted:
        place += 1
    return place


cdef void _draw(const Urn* urn, uint64_t seed, int64_t first, int64_t last, uint32_t* counts) noexcept nogil:
    cdef int64_t counter
    for counter in range(first, last):
        counts[_place(urn, _uniform(seed, <uint64_t> counter))] += 1


cdef struct Samples:
    void* urns                      # Urns
    const uint64_t* seeds
    uint32_t* drawn                 # (n_samples, n_rows), likewise the counts
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
    guide : uint32 array of shape (n_rows,) or None
        For place j of a stratum of n rows: about the first place whose cumulated weight is above j/n of the whole.
    offsets : int64 array of shape (n_strata + 1,)
        Where the strata begin in `order`.
    draws : int64 array of shape (n_strata + 1,)
        The numbers of draws, cumulated from 0.
    """

    cdef const uint32_t[::1] order
    cdef const float64_t[::1] cumulated
    cdef const uint32_t[::1] guide
    cdef const int64_t[::1] offsets
    cdef const int64_t[::1] draws

    def __init__(self, order, cumulated, guide, offsets, draws):
        self.order, self.cumulated, self.guide, self.offsets, self.draws = order, cumulated, guide, offsets, draws

    cdef void _fill(self, uint64_t seed, uint32_t* drawn, float64_t* counts) noexcept nogil:
        cdef Py_ssize_t s, i, first
        cdef Urn urn
        for s in range(self.offsets.shape[0] - 1):
            first = self.offsets[s]
            urn.n = self.offsets[s + 1] - first
            urn.cumulated = &self.cumulated[first] if self.cumulated is not None else NULL
            urn.guide = &self.guide[first] if self.guide is not None else NULL
            _draw(&urn, seed, self.draws[s], self.draws[s + 1], &drawn[first])
        for i in range(self.order.shape[0]):
            counts[self.order[i]] = <float64_t> drawn[i]

    def fill(self, const uint64_t[::1] seeds, uint32_t[:, ::1] drawn, float64_t[:, ::1] counts, int n_threads):
        """Write to counts, one row for each seed, how often each row is drawn; `drawn` is room of as many zeros."""
        cdef Samples samples
        if counts.shape[0] == 0 or counts.shape[1] == 0:
            return
        samples = Samples(<void*> self, &seeds[0], &drawn[0, 0], &counts[0, 0], counts.shape[1])
        with nogil:
            share_pieces(_fill_sample, &samples, seeds.shape[0], n_threads)
