"""What the rows in the leaves of a tree just grown add up to, and adding the values of leaves to rows."""

from libc.math cimport sqrt
from libc.string cimport memset

from fastens.engine.histograms.quantise cimport Moments, RowGradients, Scales, exact_sums
from fastens.engine.structs cimport PREFETCH_AHEAD, float64_t, int32_t, int64_t, prefetch
from fastens.engine.team cimport share
from fastens.engine.splits.workspace cimport LeafRows, Node, Output, Workspace

# Every thread takes its own part of the table, a tile after the other, and of every leaf the rows in the tile: what is
# read for them, or written, stays in the second cache meanwhile.
cdef enum:
    TILE = 1 << 15                  # rows


cdef int32_t _find_leaves(
    const Workspace* ws, Py_ssize_t first_row, Py_ssize_t end_row, LeafRows* leaves
) noexcept nogil:
    """Write where each leaf has its rows from first_row on and, at most, up to end_row; return how many leaves."""
    cdef int32_t i, n = 0
    for i in range(ws.n_nodes):
        if ws.nodes[i].left_child == 0:
            leaves[n].node = i
            leaves[n].next = _first_from(ws, ws.nodes[i].begin, ws.nodes[i].end, first_row)
            leaves[n].end = _first_from(ws, leaves[n].next, ws.nodes[i].end, end_row)
            n += 1
    return n


cdef Py_ssize_t _first_from(const Workspace* ws, Py_ssize_t low, Py_ssize_t high, Py_ssize_t row) noexcept nogil:
    """Where the rows from one on begin among those of a leaf, which are in order."""
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if ws.rows[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


cdef struct Summing:
    const Workspace* ws
    const Output* output
    Moments* sums                   # of the first part
    Moments* others                 # of those that follow


cdef void node_sums(Workspace* ws, int32_t output, int32_t n_threads) noexcept nogil:
    """Exact sums of every node for an output, from the rows of the leaves upwards."""
    cdef int32_t i, t
    cdef const Node* node
    cdef Moments* sums = sums_of_output(ws, output)
    cdef Summing summing = Summing(ws, &ws.outputs[output], sums, sums_of_output(ws, ws.n_outputs))
    share(_sum_part, &summing, n_threads)
    for i in range(ws.n_nodes - 1, -1, -1):
        node = &ws.nodes[i]
        if node.left_child > 0:
            sums[i] = sums[node.left_child]
            _add(&sums[i], &sums[node.left_child + 1])
        else:
            for t in range(1, n_threads):
                _add(&sums[i], &summing.others[(t - 1) * ws.n_nodes + i])


cdef inline void _add(Moments* sums, const Moments* others) noexcept nogil:
    sums.gradient += others.gradient
    sums.hessian += others.hessian
    sums.square += others.square
    sums.copies += others.copies


cdef void _sum_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    cdef Summing* summing = <Summing*>job
    cdef const Workspace* ws = summing.ws
    cdef const RowGradients* source = &summing.output.source
    cdef Py_ssize_t tile = source.n_rows * part // n_parts, end_row = source.n_rows * (part + 1) // n_parts, end
    cdef Moments* sums = summing.sums if part == 0 else summing.others + (part - 1) * ws.n_nodes
    cdef LeafRows* leaves = ws.leaf_rows + part * ws.node_capacity
    cdef int32_t i, n_leaves = _find_leaves(ws, tile, end_row, leaves)
    cdef Moments more
    memset(sums, 0, ws.n_nodes * sizeof(Moments))
    while tile < end_row:
        tile = min(tile + TILE, end_row)
        for i in range(n_leaves):
            end = _first_from(ws, leaves[i].next, leaves[i].end, tile)
            more = exact_sums(source, &summing.output.quantised.scales, ws.rows + leaves[i].next, end - leaves[i].next)
            _add(&sums[leaves[i].node], &more)
            leaves[i].next = end


cdef float64_t root_of_noise(const Workspace* ws, int32_t output) noexcept nogil:
    """The root of the sum of all squared gradients over that of the hessians, were the mean weight 1."""
    cdef const Moments* sums = sums_of_output(ws, output)
    cdef const RowGradients* source = &ws.outputs[output].source
    cdef const Scales* scales = &ws.outputs[output].quantised.scales
    # Factors of their own: weights may be as small as numbers are.
    cdef float64_t root = sqrt(<float64_t>sums[0].square) / scales.root
    if source.factors != NULL:
        root *= sqrt(source.n_copies / source.total_weight)
    return root * sqrt(scales.exact_hessian / sums[0].hessian) if sums[0].hessian > 0 else 0.0


cdef float64_t dispersion(const Workspace* ws, int32_t output) noexcept nogil:
    """Variance of the gradients within leaves over the mean hessian, with a degree of freedom less for each leaf."""
    cdef const Moments* sums = sums_of_output(ws, output)
    cdef const Scales* scales = &ws.outputs[output].quantised.scales
    cdef float64_t within = <float64_t>sums[0].square / (scales.root * scales.root)
    cdef float64_t hessian = <float64_t>sums[0].hessian / scales.exact_hessian, gradient
    cdef int64_t n_free = sums[0].copies
    cdef int32_t i
    for i in range(ws.n_nodes):
        if ws.nodes[i].left_child == 0:
            gradient = <float64_t>sums[i].gradient / scales.exact_gradient
            within -= gradient * gradient / sums[i].copies
            n_free -= 1
    if within <= 0 or hessian <= 0 or n_free <= 0:
        return 0.0
    return within / n_free * sums[0].copies / hessian


cdef int32_t prune_cost_complexity(Workspace* ws, float64_t gain_unit, float64_t penalty) noexcept nogil:
    """Number the nodes of the subtree of the greatest gain, less a penalty for each split; return how many they are.

    This is minimal cost-complexity pruning (Breiman et al. 1984, section 3.3). Without a penalty the tree stays.
    """
    cdef int32_t i, n_nodes = 0
    cdef Node* node
    for i in range(ws.n_nodes - 1, -1, -1):
        node = &ws.nodes[i]
        node.net_gain = 0.0
        if node.left_child > 0:
            node.net_gain = node.split.gain * gain_unit - penalty
            node.net_gain = node.net_gain + ws.nodes[node.left_child].net_gain + ws.nodes[node.left_child + 1].net_gain
            if node.net_gain <= 0:
                node.net_gain = 0.0
    for i in range(ws.n_nodes):
        node = &ws.nodes[i]
        node.is_split = False
        if is_kept(ws, node):
            node.is_split = node.left_child > 0 and (node.net_gain > 0 or penalty <= 0)
            node.place = n_nodes
            n_nodes += 1
        else:
            node.place = ws.nodes[node.parent].place
    return n_nodes


cdef struct Adding:
    const Workspace* ws
    const float64_t* value
    Py_ssize_t n_rows
    float64_t* raw


cdef void add_to_all(
    const Workspace* ws, const float64_t* value, Py_ssize_t n_rows, int32_t n_threads, float64_t* raw
) noexcept nogil:
    """Add to each row's raw prediction the value of its leaf."""
    cdef Adding adding = Adding(ws, value, n_rows, raw)
    share(_add_to_part, &adding, n_threads)


cdef void _add_to_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    cdef const Adding* adding = <const Adding*>job
    cdef const Workspace* ws = adding.ws
    cdef float64_t* raw = adding.raw
    cdef Py_ssize_t tile = adding.n_rows * part // n_parts, end_row = adding.n_rows * (part + 1) // n_parts, k, end
    cdef LeafRows* leaves = ws.leaf_rows + part * ws.node_capacity
    cdef int32_t i, n_leaves = _find_leaves(ws, tile, end_row, leaves)
    cdef float64_t value
    while tile < end_row:
        tile = min(tile + TILE, end_row)
        for i in range(n_leaves):
            value = adding.value[ws.nodes[leaves[i].node].place]
            end = _first_from(ws, leaves[i].next, leaves[i].end, tile)
            for k in range(leaves[i].next, end):
                if k + PREFETCH_AHEAD < end:
                    prefetch(&raw[ws.rows[k + PREFETCH_AHEAD]])
                raw[ws.rows[k]] += value
            leaves[i].next = end
