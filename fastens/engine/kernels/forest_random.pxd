from .forest_scan cimport Groups
from .forest_tree cimport Forest, FoundSplit, NodeSums, Room, Sample


cdef void search_threshold(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil
