from fastens.engine.structs cimport int32_t, uint8_t
from fastens.engine.splits.workspace cimport Workspace


cdef void draw_tree_features(Workspace* ws) noexcept nogil
cdef void allow_features(Workspace* ws, int32_t node, int32_t room, uint8_t* allowed) noexcept nogil
