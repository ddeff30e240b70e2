from fastens.engine.forest.splits.structs cimport Search
from fastens.engine.structs cimport int32_t


cdef void consider_left(Search* search, int32_t position, bint missing_left) noexcept nogil
cdef int32_t random_candidate(Search* search, bint* missing_left) noexcept nogil
cdef void search_groups(Search* search) noexcept nogil
cdef void finish_split(Search* search) noexcept nogil
