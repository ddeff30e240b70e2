from fastens.engine.histograms.quantise cimport Moments, RowGradients, Scales
from fastens.engine.structs cimport float64_t, int32_t
from fastens.engine.splits.workspace cimport Node, Workspace


cdef inline Moments* sums_of_output(const Workspace* ws, int32_t output) noexcept nogil:
    """Room for a sum of every node, after those of the outputs before."""
    return ws.sums + output * <Py_ssize_t>ws.n_nodes


cdef inline bint is_left(const Workspace* ws, const Node* node) noexcept nogil:
    """Whether the tree has the node."""
    return node.parent < 0 or ws.nodes[node.parent].goes_on


cdef void node_sums(
    Workspace* ws, const RowGradients* source, const Scales* scales, int32_t n_threads, int32_t output
) noexcept nogil
cdef float64_t dispersion(const Workspace* ws, const Moments* sums, const Scales* scales) noexcept nogil
cdef int32_t end_where_it_pays(Workspace* ws, float64_t gain_unit, float64_t price) noexcept nogil
cdef void add_to_all(
    const Workspace* ws, const float64_t* value, Py_ssize_t n_rows, int32_t n_threads, float64_t* raw
) noexcept nogil
