from fastens.engine.forest.splits.scan cimport Groups
from fastens.engine.forest.tree cimport Forest, FoundSplit, NodeSums, Room, Sample
from fastens.engine.structs cimport int32_t


cdef void copy_words(const NodeSums* node, Room* room) noexcept nogil
cdef void copy_codes(
    const Forest* forest, Room* room, const NodeSums* node, const int32_t* features, int32_t n
) noexcept nogil
cdef void search_threshold(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, int32_t place, Groups* groups,
    FoundSplit* best,
) noexcept nogil
