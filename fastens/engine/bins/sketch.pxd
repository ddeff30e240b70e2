from libc.string cimport memcpy
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint32_t, uint64_t, value_t


# Sorted columns of values, and the bin edges within them.


# A value mapped to an unsigned integer of the same order.
ctypedef fused key_t:
    uint32_t
    uint64_t


cdef struct Weights:
    # Weights that are sorted with the keys, and a buffer for a second copy; NULL if there are none.
    int64_t* values
    int64_t* spare


cdef inline void set_key(key_t* key, value_t value) noexcept nogil:
    # key_t has the size of value_t. All bits of negative values are flipped; for the others, only the sign bit.
    cdef key_t sign = <key_t> 1 << (8 * sizeof(key_t) - 1)
    value += 0
    memcpy(key, &value, sizeof(key_t))
    key[0] ^= ~<key_t> 0 if key[0] & sign else sign


cdef inline float64_t value_of(key_t key) noexcept nogil:
    cdef key_t sign = <key_t> 1 << (8 * sizeof(key_t) - 1)
    cdef float32_t narrow
    cdef float64_t wide
    key ^= sign if key & sign else ~<key_t> 0
    if key_t is uint32_t:
        memcpy(&narrow, &key, sizeof(narrow))
        wide = narrow
    else:
        memcpy(&wide, &key, sizeof(wide))
    return wide
