from fastens.engine.splits.workspace cimport Workspace
from fastens.engine.structs cimport int32_t


cdef bint run_on_ranks(Workspace* ws, int32_t n_left) noexcept nogil
cdef bint end_exchanges(Workspace* ws, int32_t last) noexcept nogil
