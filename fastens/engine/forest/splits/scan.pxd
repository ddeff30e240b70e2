from fastens.engine.forest.tree cimport Forest, FoundSplit, NodeSums, Room, Sample
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint64_t


cdef struct Groups:
    # Rows of a node put together by their codes on one feature; room.codes says which codes, room.found has the sums.
    int32_t feature
    int32_t n
    bint is_set                     # in the order of categories, not of codes
    uint64_t key                    # of the random numbers, where thresholds are random


cdef struct Candidates:
    # Splits that have the groups first .. k on the left, k = first .. last, and with them, perhaps, the missing rows.
    int32_t first
    int32_t last
    bint missing_left


cdef inline void keep(
    float64_t gain, int32_t feature, int32_t position, bint missing_left, FoundSplit* best
) noexcept nogil:
    best.gain = gain
    best.feature = feature
    best.position = position
    best.missing_left = missing_left


cdef float64_t words_score(
    const Forest* forest, const Sample* sample, const uint64_t* words, float64_t* stats
) noexcept nogil
cdef int64_t words_weight(const Forest* forest, const Sample* sample, const uint64_t* words) noexcept nogil
cdef void search_groups(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil
cdef bint is_monotone(int32_t sign, const NodeSums* node, float64_t left, float64_t right) noexcept nogil
cdef int32_t random_candidate(
    const Forest* forest, const Room* room, const Groups* groups, bint* missing_left, int32_t* last_code
) noexcept nogil
cdef void finish_split(
    const Forest* forest, Room* room, const NodeSums* node, const Groups* groups, FoundSplit* best
) noexcept nogil
cdef void consider_left(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, int32_t feature, FoundSplit* best
) noexcept nogil
