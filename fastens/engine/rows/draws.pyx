"""Bootstrap draws, binomial random numbers, and copies and hashes of rows."""

from libc.math cimport fabs, floor, sqrt
from fastens.engine.exact cimport log, log1p
from fastens.engine.random cimport random_bits, random_share
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint32_t, uint64_t, value_t
from fastens.engine.thread_pool cimport dynamic_parallel_for, parallel_for_until_interrupted
from libc.string cimport memset
from fastens.engine.strided cimport Values, value_at, values_of


cdef extern from "engine/bits.h" nogil:
    int n_bits(uint64_t word)


cdef enum:
    MAX_COIN_TOSSES = 512               # above this, rejection sampling is faster


cdef int64_t _count_random_bits(uint64_t seed, int64_t n) noexcept nogil:
    """Return the number of set bits among n random bits, that is, of heads in n coin tosses."""
    cdef int64_t heads = 0
    cdef uint64_t word
    for word in range(<uint64_t>(n >> 6)):
        heads += n_bits(random_bits(seed, word))
    if n & 63:
        heads += n_bits(random_bits(seed, <uint64_t>(n >> 6)) >> (64 - (n & 63)))
    return heads


cdef inline float64_t _stirling_remainder(float64_t n) noexcept nogil:
    """Return the remainder of Stirling's formula for log n!, up to and including the term in 1 / n^3."""
    return (1.0 / 12.0 - 1.0 / (360.0 * n * n)) / n


cdef float64_t _deviance(float64_t x) noexcept nogil:
    """Return (1 + x) log(1 + x) + (1 - x) log(1 - x) for |x| up to 1/2, from its series."""
    cdef float64_t square = x * x, power = square, total = 0.0, term = square
    cdef int64_t i = 1
    while term > 1e-17 * total:
        total += term
        i += 1
        power *= square
        term = power / <float64_t>(i * (2 * i - 1))
    return total


cdef float64_t _log_probability(float64_t n, float64_t k) noexcept nogil:
    """Return the log probability of k heads in n coin tosses, up to a constant that does not depend on k."""
    cdef float64_t x = (2.0 * k - n) / n
    return -0.5 * (n * _deviance(x) + log1p(-x * x)) - _stirling_remainder(k) - _stirling_remainder(n - k)


cdef int64_t _sample_heads(uint64_t seed, int64_t n_coins) noexcept nogil:
    """Return the number of heads in n_coins tosses by transformed rejection sampling (Hoermann 1993)."""
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
        if fabs(step) > 0.25 * n:   # probability below 2**-90
            continue
        if edge >= 0.07 and v <= sure:
            break
        v = log(v * alpha / (a / (edge * edge) + b)) if v > 0 else -1e300
        if v <= _log_probability(n, middle + step) - _log_probability(n, middle):
            break
    return (n_coins >> 1) + <int64_t>step


cdef int64_t count_heads(uint64_t seed, int64_t n) noexcept nogil:
    """Return a random number of heads in n tosses of a fair coin, determined by the seed."""
    return _count_random_bits(seed, n) if n <= MAX_COIN_TOSSES else _sample_heads(seed, n)


def heads(const uint64_t[::1] seeds, int64_t n, int64_t[::1] out):
    """Write to `out` a random number of heads in n tosses of a fair coin for each seed."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(seeds.shape[0]):
            out[i] = count_heads(seeds[i], n)


cdef enum:
    FEW_DRAWS = 64                 # parts with at most this many draws place them one by one
    MAX_LEVEL = 62                  # a part and its level fit in one 64-bit number


cdef struct Urn:
    const float64_t* cumulated      # cumulative weights of the stratum's rows; NULL if all weights are 1
    float64_t total
    uint64_t seed
    float64_t* counts               # counts of the stratum's rows, in the same order


cdef struct Part:
    # The interval [index, index + 1) * 2**-level of the stratum, and the positions of the rows that overlap it.
    int64_t level
    uint64_t index
    Py_ssize_t first
    Py_ssize_t last


cdef inline Py_ssize_t _find_index(const Urn* urn, float64_t share, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Return the first position in first .. last whose cumulative weight exceeds `share` of the urn's total."""
    cdef float64_t wanted = share * urn.total
    cdef Py_ssize_t n = last - first, half
    if urn.cumulated == NULL:
        return max(first, min(<Py_ssize_t> wanted, last))
    while n > 0:
        half = (n + 1) >> 1
        first += half if urn.cumulated[first + half - 1] <= wanted else 0
        n -= half
    return first


cdef inline Py_ssize_t _last_below(const Urn* urn, float64_t share, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Return the last position in first .. last whose interval of weight begins below `share` of the total."""
    cdef float64_t end = share * urn.total
    if urn.cumulated == NULL:
        return last - 1 if <float64_t> last >= end and last > first else last
    while last > first and urn.cumulated[last - 1] >= end:
        last -= 1
    return last


cdef void _draw_one_by_one(const Urn* urn, const Part* part, uint64_t seed, int64_t n) noexcept nogil:
    """Draw n times from a part of a stratum, one draw after another, and add each draw to urn.counts."""
    cdef float64_t size = 1.0 / <float64_t>(<uint64_t>1 << part.level), share
    cdef uint64_t counter
    for counter in range(<uint64_t>n):
        share = (<float64_t>part.index + random_share(seed, counter)) * size
        urn.counts[_find_index(urn, share, part.first, part.last)] += 1.0


cdef void _draw_from_part(const Urn* urn, const Part* part, int64_t n) noexcept nogil:
    """Draw n times from a part of a stratum, which is halved while n is large, and add to urn.counts."""
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
        _draw_one_by_one(urn, part, seed, n)
        return
    n_left = count_heads(seed, n)
    half.level, half.index = part.level + 1, 2 * part.index
    middle = <float64_t>(half.index + 1) / <float64_t>(<uint64_t>1 << half.level)
    place = _find_index(urn, middle, part.first, part.last)
    half.first, half.last = part.first, _last_below(urn, middle, part.first, place)
    _draw_from_part(urn, &half, n_left)
    half.index += 1
    half.first, half.last = place, part.last
    _draw_from_part(urn, &half, n - n_left)


cdef struct Samples:
    void* urns                      # the Urns object
    const uint64_t* seeds
    float64_t* drawn                # (n_samples, n_rows), as is `counts`
    float64_t* counts
    Py_ssize_t n_rows


cdef void _fill_sample(void* job, Py_ssize_t i, int32_t thread) noexcept nogil:
    """Draw the sample of the i-th seed for all rows (see `Urns.fill`), as the body of a parallel for."""
    cdef const Samples* samples = <const Samples*> job
    (<Urns> samples.urns)._fill_counts(
        samples.seeds[i], samples.drawn + i * samples.n_rows, samples.counts + i * samples.n_rows
    )


cdef class Urns:
    """The rows of each stratum, for sampling with replacement.

    Parameters
    ----------
    order : uint32 array of shape (n_rows,)
        Row indices, one stratum after another.
    cumulated : float64 array of shape (n_rows,) or None
        Cumulative weights within each stratum. If None, all weights are 1.
    offsets : int64 array of shape (n_strata + 1,)
        Offset of each stratum in `order`.
    draws : int64 array of shape (n_strata + 1,)
        Cumulative number of draws, starting with 0.
    """

    cdef const uint32_t[::1] order
    cdef const float64_t[::1] cumulated
    cdef const int64_t[::1] offsets
    cdef const int64_t[::1] draws

    def __init__(self, order, cumulated, offsets, draws):
        self.order, self.cumulated, self.offsets, self.draws = order, cumulated, offsets, draws

    cdef void _fill_counts(self, uint64_t seed, float64_t* drawn, float64_t* counts) noexcept nogil:
        """Write one sample's counts by row to `counts`, and in the order of the strata to `drawn`, zeroed before."""
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
            _draw_from_part(&urn, &whole, self.draws[s + 1] - self.draws[s])
        for i in range(self.order.shape[0]):
            counts[self.order[i]] = drawn[i]

    def fill(self, const uint64_t[::1] seeds, float64_t[:, ::1] drawn, float64_t[:, ::1] counts, int n_threads):
        """Write how often each row is drawn by each seed to `counts`, (n_seeds, n_rows).

        `drawn` is a zeroed workspace of the same shape.
        """
        cdef Samples samples
        if counts.shape[0] == 0 or counts.shape[1] == 0:
            return
        samples = Samples(<void*> self, &seeds[0], &drawn[0, 0], &counts[0, 0], counts.shape[1])
        with nogil:
            dynamic_parallel_for(_fill_sample, &samples, seeds.shape[0], n_threads)


cdef enum:
    TILE_ROWS = 512

# Hashes ---------------------------------------------------------------------------------------------------------------

cdef struct Hashing:
    Values X
    Py_ssize_t n_rows
    Py_ssize_t n_features
    uint64_t* out


cdef void _hash_tile_piece(void* job, Py_ssize_t tile, int32_t thread) noexcept nogil:
    """Write the hashes of one tile of TILE_ROWS rows, as the body of a parallel for."""
    cdef Hashing hashing = (<const Hashing*> job)[0]    # a local copy, which the stores below cannot alias
    cdef Py_ssize_t i, f, first = tile * TILE_ROWS, n = min(<Py_ssize_t> TILE_ROWS, hashing.n_rows - first)
    cdef uint64_t* out = hashing.out + first
    cdef uint64_t salt
    memset(out, 0, n * sizeof(uint64_t))
    for f in range(hashing.n_features):
        salt = salt_of(f)
        for i in range(n):
            out[i] += mixed(value_at(&hashing.X, first + i, f)) * salt
    for i in range(n):
        out[i] = finished(out[i])


def hash_rows(const value_t[:, :] X, uint64_t[::1] out, int n_threads):
    """Write a hash of each row's values to `out`; float32 rows hash like the equal float64 rows."""
    cdef Hashing job = Hashing(values_of(X), X.shape[0], X.shape[1], &out[0])
    with nogil:
        parallel_for_until_interrupted(_hash_tile_piece, &job, (job.n_rows + TILE_ROWS - 1) // TILE_ROWS, n_threads)


# Sparse rows ----------------------------------------------------------------------------------------------------------

def sum_duplicates(value_t[::1] x, int32_t[::1] rows, int64_t[::1] starts):
    """Sum duplicate entries of a CSC matrix, which are adjacent in their column; return the number of entries left.

    The three arrays (values, row indices, offsets of columns) are modified in place.
    """
    cdef Py_ssize_t f, i, begin = 0, end, n = 0, first
    for f in range(starts.shape[0] - 1):
        end, first = starts[f + 1], n
        for i in range(begin, end):
            if n > first and rows[n - 1] == rows[i]:
                x[n - 1] += x[i]
            else:
                x[n], rows[n] = x[i], rows[i]
                n += 1
        begin, starts[f + 1] = end, n
    return n


def hash_stored(const value_t[::1] x, const int32_t[::1] features, const int64_t[::1] starts, uint64_t[::1] out):
    """Write a hash of each sparse row's values to `out`, equal to the hash of the dense row.

    The arrays are the values, column indices and row offsets of a CSR matrix; zeros add nothing to a hash.
    """
    cdef Py_ssize_t row, i
    cdef uint64_t hashed
    with nogil:
        for row in range(starts.shape[0] - 1):
            hashed = 0
            for i in range(starts[row], starts[row + 1]):
                hashed += mixed(x[i]) * salt_of(features[i])
            out[row] = finished(hashed)
