from fastens.engine.forest.tree cimport Forest, Open, Room, Sample
from fastens.engine.structs cimport uint32_t, uint64_t


cdef bint is_pure_word(const Forest* forest, const Sample* sample, uint64_t total) noexcept nogil
cdef uint64_t packed_total(const Sample* sample, uint32_t begin, uint32_t end) noexcept nogil
cdef bint find_split(
    const Forest* forest, const Sample* sample, Room* room, Open* open, uint64_t* mask
) noexcept nogil
