from fastens.engine.forest.tree cimport Forest, Grown, Layout, Room, Sample
from fastens.engine.structs cimport int32_t


cdef bint allocate_room(const Forest* forest, const Layout* layout, Py_ssize_t n_entries, Room* room) noexcept nogil
cdef void free_room(Room* room) noexcept nogil
cdef bint reserve_open(Room* room, int32_t n) noexcept nogil
cdef bint reserve_record_nodes(Room* room, int32_t n) noexcept nogil
cdef bint reserve_nodes(Grown* grown, int32_t n, int32_t n_words) noexcept nogil
cdef void free_grown(Grown* grown) noexcept nogil
