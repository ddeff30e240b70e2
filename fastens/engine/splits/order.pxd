from fastens.engine.structs cimport float64_t, int32_t


cdef void sort_by_key(float64_t* keys, int32_t* codes, int32_t n) noexcept nogil
