from fastens.engine.structs cimport int64_t, uint64_t


cdef int64_t count_heads(uint64_t seed, int64_t n) noexcept nogil
