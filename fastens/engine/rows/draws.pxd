from fastens.engine.structs cimport float64_t, int64_t, uint64_t
from fastens.engine.strided cimport GOLDEN, bits_of


# Hashes of rows are sums over the features, to which a zero adds nothing.


cdef inline uint64_t mixed(float64_t value) noexcept nogil:
    cdef uint64_t bits = bits_of(value) * GOLDEN
    # Values with few significant bits, such as integers, differ only in the high bits, so these are rotated down.
    return (bits << 12) | (bits >> 52)


cdef inline uint64_t finished(uint64_t hashed) noexcept nogil:
    hashed ^= hashed >> 33
    hashed *= <uint64_t> 0xFF51AFD7ED558CCD
    hashed ^= hashed >> 33
    hashed *= <uint64_t> 0xC4CEB9FE1A85EC53
    return hashed ^ (hashed >> 33)


cdef inline uint64_t salt_of(Py_ssize_t feature) noexcept nogil:
    # An odd multiplier from the splitmix64 mixer.
    cdef uint64_t bits = <uint64_t> (feature + 1) * GOLDEN
    bits = (bits ^ (bits >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    bits = (bits ^ (bits >> 27)) * <uint64_t> 0x94D049BB133111EB
    return bits | 1
