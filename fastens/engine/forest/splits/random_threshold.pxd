from fastens.engine.forest.splits.structs cimport Search
from fastens.engine.forest.splits.threshold cimport CodeRange
from fastens.engine.structs cimport int32_t, uint32_t


cdef void copy_words(Search* search) noexcept nogil
cdef void copy_codes(Search* search, const int32_t* features, int32_t n) noexcept nogil
cdef CodeRange range_of(const Search* search, int32_t place) noexcept nogil
cdef void sum_left_of(Search* search, int32_t place, uint32_t last, bint missing_left) noexcept nogil
cdef void set_threshold(Search* search, int32_t last_code, bint has_missing) noexcept nogil
cdef void search_threshold(Search* search, int32_t place) noexcept nogil
