from fastens.engine.forest.splits.structs cimport Open, Sample, Search
from fastens.engine.structs cimport float64_t, int32_t, uint32_t, uint64_t
from fastens.engine.forest.splits.threshold cimport CodeRange


cdef float64_t median_score(Search* search) noexcept nogil
cdef void weighted_medians(Search* search, float64_t* medians) noexcept nogil
cdef void search_medians(Search* search) noexcept nogil


cdef void copy_words(Search* search) noexcept nogil
cdef void copy_codes(Search* search, const int32_t* features, int32_t n) noexcept nogil
cdef CodeRange range_of(const Search* search, int32_t place) noexcept nogil
cdef void sum_left_of(Search* search, int32_t place, uint32_t last, bint missing_left) noexcept nogil
cdef void set_threshold(Search* search, int32_t last_code, bint has_missing) noexcept nogil
cdef void search_threshold(Search* search, int32_t place) noexcept nogil


cdef bint is_pure_over_ranks(Search* search) noexcept nogil
cdef bint total_over_ranks(Search* search) noexcept nogil
cdef int32_t features_in_reduction(const Search* search) noexcept nogil
cdef bint reduce_features(Search* search, uint64_t key, const int32_t* features, int32_t n) noexcept nogil
cdef void take_reduced(Search* search, int32_t place) noexcept nogil


cdef uint64_t packed_total(const Sample* sample, uint32_t begin, uint32_t end) noexcept nogil
cdef bint find_split(Search* search, Open* open, uint64_t* mask) noexcept nogil
