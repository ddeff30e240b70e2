from fastens.engine.forest.splits.groups cimport Groups
from fastens.engine.forest.splits.structs cimport Forest, FoundSplit, NodeSums, Sample, Scratch
from fastens.engine.structs cimport int32_t


cdef void copy_words(const NodeSums* node, Scratch* scratch) noexcept nogil
cdef void copy_codes(
    const Forest* forest, Scratch* scratch, const NodeSums* node, const int32_t* features, int32_t n
) noexcept nogil
cdef void search_threshold(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, int32_t place, Groups* groups,
    FoundSplit* best,
) noexcept nogil
