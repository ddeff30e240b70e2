from fastens.engine.forest.splits.structs cimport Search
from fastens.engine.forest.tree cimport Grown, Workspace
from fastens.engine.structs cimport int32_t


cdef bint allocate_search(Search* search, Py_ssize_t n_entries) noexcept nogil
cdef void free_workspace(Workspace* ws) noexcept nogil
cdef bint reserve_open(Workspace* ws, int32_t n) noexcept nogil
cdef bint reserve_record_nodes(Workspace* ws, int32_t n) noexcept nogil
cdef bint reserve_nodes(Grown* grown, int32_t n, int32_t n_words) noexcept nogil
cdef void copy_node(
    Grown* tree, const Grown* grown, int32_t from_, int32_t to, int32_t shift, int32_t word_shift
) noexcept nogil
cdef void free_grown(Grown* grown) noexcept nogil
