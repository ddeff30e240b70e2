from fastens.engine.histograms.cells cimport Sums
from fastens.engine.structs cimport int32_t, uint32_t
from fastens.engine.splits.workspace cimport Workspace


cdef enum Outcome:
    GROWING
    COMPLETE
    OUT_OF_MEMORY
    NOT_FINITE


cdef int32_t threads_for_rows(const Workspace* ws, Py_ssize_t n_rows) noexcept nogil
cdef void place_rows(Workspace* ws, const uint32_t* given, Py_ssize_t n_rows) noexcept nogil
cdef void add_task(
    Workspace* ws, int32_t counted, int32_t difference, bint want_counted, bint want_difference
) noexcept nogil
cdef Outcome split_next_nodes(Workspace* ws, int32_t* n_leaves) noexcept nogil


cdef bint run_on_ranks(Workspace* ws, int32_t n_left) noexcept nogil
cdef bint end_exchanges(Workspace* ws, int32_t last) noexcept nogil
