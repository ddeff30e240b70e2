from fastens.engine.histograms.quantise cimport Moments
from fastens.engine.structs cimport float64_t, int32_t, int64_t
from fastens.engine.splits.workspace cimport Node, Workspace


cdef inline Moments* sums_of_output(const Workspace* ws, int32_t output) noexcept nogil:
    """Return the sums of every node for an output."""
    return ws.sums + output * <Py_ssize_t>ws.n_nodes


cdef inline bint is_kept(const Workspace* ws, const Node* node) noexcept nogil:
    """Return True if the pruned tree contains the node."""
    return node.parent < 0 or ws.nodes[node.parent].is_split


cdef void node_sums(Workspace* ws, int32_t output, int32_t n_threads) noexcept nogil
cdef float64_t root_of_noise(const Workspace* ws, int32_t output) noexcept nogil
cdef float64_t dispersion(const Workspace* ws, int32_t output) noexcept nogil
cdef int32_t prune_cost_complexity(Workspace* ws, float64_t gain_unit, float64_t penalty) noexcept nogil
cdef void add_leaf_values(
    const Workspace* ws, const float64_t* value, Py_ssize_t n_rows, int32_t n_threads, float64_t* raw
) noexcept nogil


cdef set_table(Workspace* ws, matrix, monotone)
cdef allow_stored(const Workspace* ws, int64_t least)
