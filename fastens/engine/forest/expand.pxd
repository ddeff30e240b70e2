from fastens.engine.forest.splits.structs cimport Forest, Open
from fastens.engine.forest.tree cimport Grown, Workspace
from fastens.engine.structs cimport int32_t, uint64_t


cdef enum Outcome:
    GROWING
    COMPLETE
    OUT_OF_MEMORY


cdef int32_t bind_to_path(const Forest* forest, int32_t feature, uint64_t* mask) noexcept nogil
cdef bint add_root(Workspace* ws, Grown* grown, Open* root, const uint64_t* mask) noexcept nogil
cdef Outcome grow_depth_first(Workspace* ws, Grown* grown, Workspace* branches, Py_ssize_t* work) noexcept nogil
cdef Outcome grow_best_first(Workspace* ws, Grown* grown, Py_ssize_t* work) noexcept nogil
