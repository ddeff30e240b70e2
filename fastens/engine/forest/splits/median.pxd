from fastens.engine.forest.splits.structs cimport Search
from fastens.engine.structs cimport float64_t


cdef float64_t median_score(Search* search) noexcept nogil
cdef void weighted_medians(Search* search, float64_t* medians) noexcept nogil
cdef void search_medians(Search* search) noexcept nogil
