from .forest_scan cimport Groups
from .forest_tree cimport Forest, FoundSplit, NodeSums, Open, Room, Sample
from .structs cimport int32_t, int64_t, uint8_t, uint64_t


cdef Py_ssize_t record_bytes(const Forest* forest) noexcept nogil
cdef bint has_records(const Forest* forest, const Sample* sample) noexcept nogil
cdef void make_records(const Forest* forest, const Sample* sample, Room* room, Open* open) noexcept nogil
cdef const uint8_t* records_of(const Room* room, const Open* open) noexcept nogil
cdef void read_ranges(Room* room, const NodeSums* node) noexcept nogil
cdef void count_records(
    const Forest* forest, Room* room, const NodeSums* node, uint64_t key, const int32_t* features, int32_t n
) noexcept nogil
cdef void search_record(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil
cdef int64_t part_node(const Room* room, const Open* open) noexcept nogil
cdef void settle(const Sample* sample, const Room* room, const Open* open) noexcept nogil
