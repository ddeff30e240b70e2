from fastens.engine.forest.workspace cimport Outcome
from fastens.engine.forest.splits.structs cimport Forest, Open, Sample
from fastens.engine.forest.tree cimport Grown, Workspace


cdef bint has_records(const Forest* forest, const Sample* sample) noexcept nogil
cdef bint allocate_records(const Forest* forest, Py_ssize_t n_entries, Sample* sample) noexcept nogil
cdef void make_records(const Forest* forest, const Sample* sample) noexcept nogil
cdef bint start_records(Workspace* ws, const Open* root) noexcept nogil
cdef Outcome grow_records(Workspace* ws, Grown* grown, Workspace* branches, Py_ssize_t* work) noexcept nogil
