from .quantise cimport Moments, RowGradients, Scales
from .structs cimport float64_t, int32_t
from .workspace cimport Workspace

cdef void node_sums(
    Workspace* ws, const RowGradients* source, const Scales* scales, int32_t n_threads, Moments* sums
) noexcept nogil
cdef float64_t dispersion(const Workspace* ws, const Moments* sums, const Scales* scales) noexcept nogil
cdef void add_to_all(
    const Workspace* ws, const float64_t* value, Py_ssize_t n_rows, int32_t n_threads, float64_t* raw
) noexcept nogil
