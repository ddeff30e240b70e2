from fastens.engine.forest.branch cimport Outcome
from fastens.engine.forest.tree cimport Forest, Grown, Open, Room, Sample


cdef bint has_records(const Forest* forest, const Sample* sample) noexcept nogil
cdef bint allocate_records(const Forest* forest, Py_ssize_t n_entries, Sample* sample) noexcept nogil
cdef void make_records(const Forest* forest, const Sample* sample) noexcept nogil
cdef bint plant_records(const Forest* forest, const Sample* sample, Room* room, const Open* root) noexcept nogil
cdef Outcome grow_records(
    const Forest* forest, const Sample* sample, Room* room, Grown* grown, Room* branches, Py_ssize_t* work
) noexcept nogil
