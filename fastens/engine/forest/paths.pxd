from fastens.engine.forest.splits.structs cimport Forest
from fastens.engine.structs cimport int32_t, uint64_t


cdef int32_t bind_to_path(const Forest* forest, int32_t feature, uint64_t* mask) noexcept nogil
