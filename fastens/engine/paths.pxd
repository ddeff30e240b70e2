# Masks of features, a bit for each, and which features may stand on one path with those above a node.

from fastens.engine.limits cimport Limits
from fastens.engine.structs cimport int32_t, uint64_t

cdef extern from "engine/bits.h" nogil:
    int lowest_bit(uint64_t word)
    int n_bits(uint64_t word)


cdef inline int32_t mask_words(int32_t n_features) noexcept nogil:
    """Words of a mask."""
    return (n_features + 63) // 64


cdef inline bint has_feature(const uint64_t* mask, int32_t feature) noexcept nogil:
    return (mask[feature >> 6] >> (feature & 63)) & 1


cdef inline void add_feature(uint64_t* mask, int32_t feature) noexcept nogil:
    mask[feature >> 6] |= <uint64_t>1 << (feature & 63)


cdef inline int32_t next_feature(const uint64_t* mask, int32_t feature, int32_t end) noexcept nogil:
    """The first feature of the mask from this one on, or end; no mask (NULL) has all."""
    cdef uint64_t word
    if mask == NULL:
        return feature
    while feature < end:
        word = mask[feature >> 6] >> (feature & 63)
        if word:
            return min(feature + <int32_t>lowest_bit(word), end)
        feature = (feature | 63) + 1
    return end


cdef inline int32_t next_unmarked(const uint64_t* mask, int32_t feature) noexcept nogil:
    """The first feature from this one on that is not in the mask; there must be one."""
    cdef uint64_t word = ~mask[feature >> 6] >> (feature & 63)
    while word == 0:
        feature = (feature | 63) + 1
        word = ~mask[feature >> 6]
    return feature + <int32_t>lowest_bit(word)


cdef inline int32_t n_marked(const uint64_t* mask, int32_t n_features) noexcept nogil:
    cdef int32_t w, n = 0, n_whole = n_features >> 6
    for w in range(n_whole):
        n += n_bits(mask[w])
    if n_features & 63:  # what is behind the last feature may be marked too
        n += n_bits(mask[n_whole] & ((<uint64_t>1 << (n_features & 63)) - 1))
    return n


cdef inline bint binds_paths(const Limits* limits) noexcept nogil:
    """Whether what a node may split on depends on the splits above it."""
    return limits.max_features_on_path > 0 or limits.n_groups > 0


cdef inline bint _holds(const uint64_t* group, const uint64_t* path, int32_t n_words) noexcept nogil:
    cdef int32_t w
    for w in range(n_words):
        if path[w] & ~group[w]:
            return False
    return True


cdef inline void exclude_features(
    const Limits* limits, int32_t n_features, const uint64_t* path, uint64_t* excluded
) noexcept nogil:
    """Mark the features that may not stand below those of the path, besides what is marked already."""
    cdef int32_t g, w, n_words = mask_words(n_features)
    cdef const uint64_t* group
    cdef uint64_t allowed
    if limits.max_features_on_path > 0 and n_marked(path, n_features) >= limits.max_features_on_path:
        for w in range(n_words):
            excluded[w] |= ~path[w]
    if limits.n_groups > 0:
        for w in range(n_words):
            allowed = 0
            for g in range(limits.n_groups):
                group = limits.feature_groups + <Py_ssize_t>g * n_words
                if _holds(group, path, n_words):
                    allowed |= group[w]
            excluded[w] |= ~allowed
