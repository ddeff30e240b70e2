from fastens.engine.forest.splits.scan cimport Groups
from fastens.engine.forest.tree cimport Forest, FoundSplit, NodeSums, Room, Sample
from fastens.engine.structs cimport float64_t


cdef float64_t median_score(const Forest* forest, const Sample* sample, Room* room, const NodeSums* node) noexcept nogil
cdef void weighted_medians(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, float64_t* medians
) noexcept nogil
cdef void search_medians(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil
