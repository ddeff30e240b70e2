from fastens.engine.forest.splits.structs cimport Open, Sample, Search
from fastens.engine.structs cimport float64_t, int32_t, uint32_t, uint64_t
from fastens.engine.forest.splits.threshold cimport CodeRange


cdef void weighted_medians(Search* search, float64_t* medians) noexcept nogil


cdef uint64_t packed_total(const Sample* sample, uint32_t begin, uint32_t end) noexcept nogil
cdef bint find_split(Search* search, Open* open, uint64_t* mask) noexcept nogil
