# Bit masks of features, and the features that interaction constraints and path limits allow below a node.

from fastens.engine.limits cimport Limits
from fastens.engine.structs cimport int32_t, uint64_t

cdef extern from "engine/bits.h" nogil:
    int lowest_bit(uint64_t word)
    int n_bits(uint64_t word)


cdef inline int32_t mask_words(int32_t n_features) noexcept nogil:
    """Return the number of words of a mask."""
    return (n_features + 63) // 64


cdef inline bint has_feature(const uint64_t* mask, int32_t feature) noexcept nogil:
    return (mask[feature >> 6] >> (feature & 63)) & 1


cdef inline void add_feature(uint64_t* mask, int32_t feature) noexcept nogil:
    mask[feature >> 6] |= <uint64_t>1 << (feature & 63)


cdef inline int32_t next_feature(const uint64_t* mask, int32_t feature, int32_t end) noexcept nogil:
    """Return the first feature of the mask in feature..end-1, or `end`. Without a mask (NULL), all features count."""
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
    """Return the first feature from `feature` on that is not in the mask. There must be one."""
    cdef uint64_t word = ~mask[feature >> 6] >> (feature & 63)
    while word == 0:
        feature = (feature | 63) + 1
        word = ~mask[feature >> 6]
    return feature + <int32_t>lowest_bit(word)


cdef inline int32_t n_marked(const uint64_t* mask, int32_t n_features) noexcept nogil:
    cdef int32_t w, n = 0, n_whole = n_features >> 6
    for w in range(n_whole):
        n += n_bits(mask[w])
    if n_features & 63:  # bits past the last feature may be set, too
        n += n_bits(mask[n_whole] & ((<uint64_t>1 << (n_features & 63)) - 1))
    return n


cdef inline bint binds_paths(const Limits* limits) noexcept nogil:
    """Return True if the features allowed at a node depend on the splits above it."""
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
    """Mark, in addition to the marked features, those that may not be used below the features of the path."""
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
