from .forest_scan cimport Groups
from .forest_tree cimport Forest, FoundSplit, NodeSums, Room, Sample
from .structs cimport float64_t


cdef float64_t median_score(const Forest* forest, const Sample* sample, Room* room, const NodeSums* node) noexcept nogil
cdef void weighted_medians(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, float64_t* medians
) noexcept nogil
cdef void search_medians(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil
