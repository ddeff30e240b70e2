"""The order of a node's categories, of all trees and stumps: ascending by a key that each caller makes of its sums.

For squared error and for two classes the best of all sets is the first part of that order (Fisher 1958; Breiman 1984).
"""

from fastens.engine.structs cimport float64_t, int32_t

cdef enum:
    FEW_CODES = 32                  # up to so many, insertion sort is fastest


cdef inline bint _precedes(const float64_t* keys, const int32_t* codes, int32_t a, int32_t b) noexcept nogil:
    return keys[a] < keys[b] or (keys[a] == keys[b] and codes[a] < codes[b])


cdef inline void _swap(float64_t* keys, int32_t* codes, int32_t a, int32_t b) noexcept nogil:
    keys[a], keys[b] = keys[b], keys[a]
    codes[a], codes[b] = codes[b], codes[a]


cdef void sort_by_key(float64_t* keys, int32_t* codes, int32_t n) noexcept nogil:
    """Sort the codes by their keys, those of equal keys by themselves."""
    cdef int32_t start, end
    if n <= FEW_CODES:
        for end in range(1, n):
            _insert(keys, codes, end)
        return
    for start in range(n // 2 - 1, -1, -1):
        _sift_down(keys, codes, start, n)
    for end in range(n - 1, 0, -1):
        _swap(keys, codes, 0, end)
        _sift_down(keys, codes, 0, end)


cdef inline void _insert(float64_t* keys, int32_t* codes, int32_t place) noexcept nogil:
    """Move a code down to its place among those before it, which are sorted."""
    cdef float64_t key = keys[place]
    cdef int32_t code = codes[place]
    while place > 0 and (keys[place - 1] > key or (keys[place - 1] == key and codes[place - 1] > code)):
        keys[place] = keys[place - 1]
        codes[place] = codes[place - 1]
        place -= 1
    keys[place] = key
    codes[place] = code


cdef void _sift_down(float64_t* keys, int32_t* codes, int32_t root, int32_t end) noexcept nogil:
    cdef int32_t child
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and _precedes(keys, codes, child, child + 1):
            child += 1
        if not _precedes(keys, codes, root, child):
            return
        _swap(keys, codes, root, child)
        root = child
