from fastens.engine.splits.workspace cimport Workspace


cdef bint run_tasks(Workspace* ws) noexcept nogil
