from fastens.engine.forest.splits.groups cimport Groups
from fastens.engine.forest.splits.structs cimport Forest, FoundSplit, NodeSums, Sample, Scratch
from fastens.engine.structs cimport float64_t


cdef float64_t median_score(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node
) noexcept nogil
cdef void weighted_medians(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, float64_t* medians
) noexcept nogil
cdef void search_medians(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil
