from fastens.engine.forest.splits.structs cimport CodeColumn, Entry, Search
from fastens.engine.structs cimport int32_t, uint32_t


cdef extern from "engine/forest/splits/rows.h" nogil:
    uint32_t code_at(int code_size, const CodeColumn* column, uint32_t row)


cdef CodeColumn column_of(
    Search* search, int32_t feature, const Entry* rows, Py_ssize_t n_rows, int32_t place
) noexcept nogil
cdef void note_present(Search* search) noexcept nogil
