"""Which features may stand below a split, where that depends on those above it.

A mask has a bit for each feature that is constant in the node or not allowed; behind it, a bit for each on its path.
"""

from fastens.engine.forest.splits.draw cimport add_feature, has_feature
from fastens.engine.forest.splits.structs cimport Forest, mask_words
from fastens.engine.structs cimport int32_t, uint64_t


cdef inline bint _holds(const uint64_t* group, const uint64_t* path, int32_t n_words) noexcept nogil:
    cdef int32_t w
    for w in range(n_words):
        if path[w] & ~group[w]:
            return False
    return True


cdef int32_t _count(const Forest* forest, const uint64_t* mask) noexcept nogil:
    cdef int32_t f, n = 0
    for f in range(forest.table.n_features):
        n += has_feature(mask, f)
    return n


cdef int32_t bind_to_path(const Forest* forest, int32_t feature, uint64_t* mask) noexcept nogil:
    """Mark the features that may not stand below a split on this one (-1: at the root); return how many are marked."""
    cdef int32_t g, w, n_words = mask_words(forest)
    cdef uint64_t* path = mask + n_words
    cdef const uint64_t* group = forest.rules.groups
    cdef uint64_t allowed
    if feature >= 0:
        add_feature(path, feature)
    if forest.limits.max_features_on_path > 0 and _count(forest, path) >= forest.limits.max_features_on_path:
        for w in range(n_words):
            mask[w] |= ~path[w]
    if forest.limits.n_groups > 0:
        for w in range(n_words):
            allowed = 0
            for g in range(forest.limits.n_groups):
                if _holds(group + <Py_ssize_t>g * n_words, path, n_words):
                    allowed |= group[<Py_ssize_t>g * n_words + w]
            mask[w] |= ~allowed
    return _count(forest, mask)
