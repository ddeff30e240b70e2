from fastens.engine.forest.splits.structs cimport Search
from fastens.engine.structs cimport int32_t


cdef void copy_words(Search* search) noexcept nogil
cdef void copy_codes(Search* search, const int32_t* features, int32_t n) noexcept nogil
cdef void search_threshold(Search* search, int32_t place) noexcept nogil
