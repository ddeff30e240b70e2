from .forest_tree cimport Forest, Open, Room, Sample
from .structs cimport uint64_t


cdef bint find_split(
    const Forest* forest, const Sample* sample, Room* room, Open* open, uint64_t* mask
) noexcept nogil
