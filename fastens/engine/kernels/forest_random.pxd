from .forest_scan cimport Groups
from .forest_tree cimport Forest, FoundSplit, NodeSums, Room, Sample
from .structs cimport int32_t, uint32_t


cdef extern from "forest_rows.h" nogil:
    ctypedef struct CodeRange:
        uint32_t smallest
        uint32_t largest
        bint has_missing


cdef void copy_words(const NodeSums* node, Room* room) noexcept nogil
cdef void copy_codes(
    const Forest* forest, Room* room, const NodeSums* node, const int32_t* features, int32_t n
) noexcept nogil
cdef int32_t draw_threshold(
    const Forest* forest, const Groups* groups, const CodeRange* range_, bint* missing_left
) noexcept nogil
cdef void keep_threshold(
    const NodeSums* node, const CodeRange* range_, int32_t last, bint missing_left, FoundSplit* best
) noexcept nogil
cdef void search_threshold(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, int32_t place, Groups* groups,
    FoundSplit* best,
) noexcept nogil
