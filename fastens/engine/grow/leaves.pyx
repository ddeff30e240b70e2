"""What the rows in the leaves of a tree just grown add up to, and adding the values of leaves to rows."""

from libc.math cimport sqrt

from fastens.engine.histograms.quantise cimport Moments, RowGradients, Scales, exact_sums
from fastens.engine.structs cimport PREFETCH_AHEAD, float64_t, int32_t, int64_t, prefetch
from fastens.engine.team cimport share
from fastens.engine.splits.workspace cimport Node, Output, Workspace

# Every thread takes, of every leaf, the rows of its own part of the table, whose gradients are in its cache.

cdef Py_ssize_t _part(
    const Workspace* ws, const Node* node, Py_ssize_t n_rows, int32_t t, int32_t n_threads
) noexcept nogil:
    """Where the rows of thread t begin in a node, whose rows are in order."""
    cdef Py_ssize_t low = node.begin, high = node.end, middle, first = n_rows * t // n_threads
    if t == n_threads:
        return node.end
    while low < high:
        middle = (low + high) // 2
        if ws.rows[middle] < first:
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
    cdef const Node* node
    cdef Py_ssize_t begin, end, n_rows = summing.output.source.n_rows
    cdef Moments* sums = summing.sums if part == 0 else summing.others + (part - 1) * ws.n_nodes
    cdef int32_t i
    for i in range(ws.n_nodes):
        node = &ws.nodes[i]
        if node.left_child == 0:
            begin = _part(ws, node, n_rows, part, n_parts)
            end = _part(ws, node, n_rows, part + 1, n_parts)
            sums[i] = exact_sums(
                &summing.output.source, &summing.output.quantised.scales, ws.rows + begin, end - begin
            )


cdef float64_t root_of_noise(const Workspace* ws, int32_t output) noexcept nogil:
    """The root of the sum of all squared gradients over that of the hessians, were the mean weight 1."""
    cdef const Moments* sums = sums_of_output(ws, output)
    cdef const RowGradients* source = &ws.outputs[output].source
    cdef const Scales* scales = &ws.outputs[output].quantised.scales
    # Factors of their own: weights may be as small as numbers are.
    cdef float64_t root = sqrt(<float64_t>sums[0].square) / scales.root
    if not source.whole_weights:
        root *= sqrt(source.n_total / source.total_weight)
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
    cdef const Node* node
    cdef float64_t* raw = adding.raw
    cdef Py_ssize_t k, end
    cdef float64_t value
    cdef int32_t i
    for i in range(ws.n_nodes):
        node = &ws.nodes[i]
        if node.left_child > 0:
            continue
        value = adding.value[node.place]
        end = _part(ws, node, adding.n_rows, part + 1, n_parts)
        for k in range(_part(ws, node, adding.n_rows, part, n_parts), end):
            if k + PREFETCH_AHEAD < end:
                prefetch(&raw[ws.rows[k + PREFETCH_AHEAD]])
            raw[ws.rows[k]] += value
