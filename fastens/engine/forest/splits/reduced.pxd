from fastens.engine.forest.splits.structs cimport Search
from fastens.engine.structs cimport int32_t, uint64_t


cdef bint is_pure_over_ranks(Search* search) noexcept nogil
cdef bint total_over_ranks(Search* search) noexcept nogil
cdef int32_t features_in_reduction(const Search* search) noexcept nogil
cdef bint reduce_features(Search* search, uint64_t key, const int32_t* features, int32_t n) noexcept nogil
cdef void take_reduced(Search* search, int32_t place) noexcept nogil
