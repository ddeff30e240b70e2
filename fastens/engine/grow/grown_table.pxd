from fastens.engine.splits.workspace cimport Workspace
from fastens.engine.structs cimport int64_t


cdef set_table(Workspace* ws, matrix, monotone)
cdef allow_stored(const Workspace* ws, int64_t least)
