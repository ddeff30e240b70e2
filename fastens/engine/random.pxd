# Counter-based random numbers: stateless, so results do not depend on the order in which threads draw.

from fastens.engine.structs cimport float64_t, int32_t, uint64_t


cdef inline uint64_t random_bits(uint64_t seed, uint64_t counter) noexcept nogil:
    """Return the splitmix64 hash of a seed and a counter (Steele, Lea & Flood 2014)."""
    cdef uint64_t z = seed + (counter + 1) * <uint64_t>0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline uint64_t random_below(uint64_t seed, uint64_t counter, uint64_t n) noexcept nogil:
    """Return a random integer below n, for n < 2**32."""
    return ((random_bits(seed, counter) >> 32) * n) >> 32


cdef inline float64_t random_share(uint64_t seed, uint64_t counter) noexcept nogil:
    """Return a uniform random number in [0, 1)."""
    return <float64_t>(random_bits(seed, counter) >> 11) * (1.0 / 9007199254740992.0)


cdef inline int32_t weighted_place(
    const float64_t* weights, const int32_t* order, int32_t begin, int32_t end, float64_t share
) noexcept nogil:
    """Return a random position in order[begin:end], with probability proportional to its feature's weight."""
    cdef int32_t i
    cdef float64_t total = 0.0, left
    for i in range(begin, end):
        total += weights[order[i]]
    left = total * share
    for i in range(begin, end - 1):
        left -= weights[order[i]]
        if left < 0:
            return i
    return end - 1
