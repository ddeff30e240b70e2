from fastens.engine.forest.tree cimport Forest, Grown, Open, Room, Sample
from fastens.engine.structs cimport int32_t, uint64_t


cdef enum Outcome:
    GROWING
    COMPLETE
    OUT_OF_MEMORY


cdef bint plant(
    const Forest* forest, const Sample* sample, Room* room, Grown* grown, Open* root, const uint64_t* mask
) noexcept nogil
cdef Outcome grow_depth_first(
    const Forest* forest, const Sample* sample, Room* room, Grown* grown, Room* branches, Py_ssize_t* work
) noexcept nogil
cdef Outcome grow_best_first(
    const Forest* forest, const Sample* sample, Room* room, Grown* grown, Py_ssize_t* work
) noexcept nogil
