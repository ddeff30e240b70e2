from fastens.engine.forest.splits.groups cimport Groups
from fastens.engine.forest.splits.structs cimport Forest, FoundSplit, NodeSums, Sample, Scratch
from fastens.engine.structs cimport float64_t, int32_t


cdef struct Candidates:
    # Splits that have the groups first .. k on the left, k = first .. last, and with them, perhaps, the missing rows.
    int32_t first
    int32_t last
    bint missing_left


cdef inline void keep(
    float64_t gain, int32_t feature, int32_t position, bint missing_left, FoundSplit* best
) noexcept nogil:
    best.gain = gain
    best.feature = feature
    best.position = position
    best.missing_left = missing_left


cdef bint is_allowed(
    const Forest* forest, const Sample* sample, const Scratch* scratch, const NodeSums* node, int32_t feature
) noexcept nogil
cdef void consider_left(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, int32_t feature,
    FoundSplit* best,
) noexcept nogil
cdef int32_t random_candidate(
    const Forest* forest, const Scratch* scratch, const Groups* groups, bint* missing_left, int32_t* last_code
) noexcept nogil
cdef void finish_split(
    const Forest* forest, Scratch* scratch, const NodeSums* node, const Groups* groups, FoundSplit* best
) noexcept nogil
