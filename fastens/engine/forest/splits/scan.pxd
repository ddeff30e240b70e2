from fastens.engine.forest.splits.groups cimport Groups
from fastens.engine.forest.splits.structs cimport Forest, FoundSplit, NodeSums, Sample, Scratch


cdef void search_groups(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, Groups* groups,
    FoundSplit* best,
) noexcept nogil
