"""Numbers of heads among fair coins, exactly and in bounded time for any number of coins up to 2**53.

Few coins are tossed, 64 at once: the bits of a word that are 1. Many are drawn by transformed rejection with a squeeze
(Hoermann 1993, "The generation of binomial random variates", algorithm BTRS). Its ratio of chances comes from Loader's
saddle-point form (2000, "Fast and accurate computation of binomial probabilities"), in which nothing cancels.
"""

from libc.math cimport fabs, floor, sqrt

from fastens.engine.exact cimport log, log1p
from fastens.engine.random cimport random_bits, random_share
from fastens.engine.structs cimport float64_t, int64_t, uint64_t


cdef enum:
    MOST_TOSSED = 512               # above, rejection is faster


cdef inline int64_t _ones(uint64_t bits) noexcept nogil:
    """How many bits are 1 (Warren 2012, "Hacker's Delight", section 5-1)."""
    bits = bits - ((bits >> 1) & <uint64_t>0x5555555555555555)
    bits = (bits & <uint64_t>0x3333333333333333) + ((bits >> 2) & <uint64_t>0x3333333333333333)
    bits = (bits + (bits >> 4)) & <uint64_t>0x0F0F0F0F0F0F0F0F
    return <int64_t>((bits * <uint64_t>0x0101010101010101) >> 56)


cdef int64_t _toss(uint64_t seed, int64_t n) noexcept nogil:
    cdef int64_t heads = 0
    cdef uint64_t word
    for word in range(<uint64_t>(n >> 6)):
        heads += _ones(random_bits(seed, word))
    if n & 63:
        heads += _ones(random_bits(seed, <uint64_t>(n >> 6)) >> (64 - (n & 63)))
    return heads


cdef inline float64_t _surplus(float64_t n) noexcept nogil:
    """What Stirling's formula lacks of log n!."""
    return (1.0 / 12.0 - 1.0 / (360.0 * n * n)) / n


cdef float64_t _deviance(float64_t x) noexcept nogil:
    """(1 + x) log(1 + x) + (1 - x) log(1 - x), for |x| up to 1/2, by its series."""
    cdef float64_t square = x * x, power = square, total = 0.0, term = square
    cdef int64_t i = 1
    while term > 1e-17 * total:
        total += term
        i += 1
        power *= square
        term = power / <float64_t>(i * (2 * i - 1))
    return total


cdef float64_t _log_chance(float64_t n, float64_t k) noexcept nogil:
    """Logarithm of the chance of k heads among n coins, but for what does not depend on k."""
    cdef float64_t x = (2.0 * k - n) / n
    return -0.5 * (n * _deviance(x) + log1p(-x * x)) - _surplus(k) - _surplus(n - k)


cdef int64_t _reject(uint64_t seed, int64_t n_coins) noexcept nogil:
    cdef float64_t n = <float64_t>n_coins, middle = <float64_t>(n_coins >> 1)
    cdef float64_t sd = 0.5 * sqrt(n), b = 1.15 + 2.53 * sd, a = -0.0873 + 0.0248 * b + 0.005
    cdef float64_t centre = 0.5 * n - middle + 0.5
    cdef float64_t sure = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * sd
    cdef float64_t u, v, edge, step
    cdef uint64_t counter = 0
    while True:
        u = random_share(seed, counter) - 0.5
        v = random_share(seed, counter + 1)
        counter += 2
        edge = 0.5 - fabs(u)
        if edge <= 0:
            continue
        step = floor((2.0 * a / edge + b) * u + centre)
        if fabs(step) > 0.25 * n:   # less likely than 2**-90
            continue
        if edge >= 0.07 and v <= sure:
            break
        v = log(v * alpha / (a / (edge * edge) + b)) if v > 0 else -1e300
        if v <= _log_chance(n, middle + step) - _log_chance(n, middle):
            break
    return (n_coins >> 1) + <int64_t>step


cdef int64_t count_heads(uint64_t seed, int64_t n) noexcept nogil:
    return _toss(seed, n) if n <= MOST_TOSSED else _reject(seed, n)


def heads(const uint64_t[::1] seeds, int64_t n, int64_t[::1] out):
    """Write the number of heads among n coins for each seed."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(seeds.shape[0]):
            out[i] = count_heads(seeds[i], n)
