"""Leaf sums and values of grown trees, limits of values, and weakest-link pruning."""

import numpy as np
from libc.math cimport INFINITY, sqrt
from libc.string cimport memset
from fastens.engine.histograms.quantise cimport Moments, RowGradients, Scales, exact_sums
from fastens.engine.structs cimport (
    Column, Feature, PREFETCH_AHEAD, float64_t, int32_t, int64_t, int8_t, prefetch, uint32_t, uint64_t, uint8_t
)
from fastens.engine.thread_pool cimport parallel_for
from fastens.engine.splits.workspace cimport LeafRows, Node, Output, Workspace
from libc.stdlib cimport calloc, free, malloc
from fastens.engine.limits cimport bind_side
from fastens.engine.bins.pages cimport pages_of
from fastens.engine.histograms.histogram cimport CELL_STRIDE
from fastens.engine.paths cimport add_feature, mask_words
from fastens.engine.rows.stored_rows cimport first_at_least


# Each thread processes its part of the table tile by tile, with the rows of each leaf in the tile, so that the memory
# it reads and writes stays in the L2 cache.
cdef enum:
    TILE = 1 << 15                  # rows


cdef int32_t _find_leaves(
    const Workspace* ws, Py_ssize_t first_row, Py_ssize_t end_row, LeafRows* leaves
) noexcept nogil:
    """Write each leaf's range of rows first_row .. end_row - 1 to `leaves`; return the number of ranges.

    Rows are ascending in a leaf. Only if it was partitioned ahead of a split that did not follow, there are two
    ascending ranges.
    """
    cdef int32_t i, n = 0
    cdef const Node* node
    for i in range(ws.n_nodes):
        node = &ws.nodes[i]
        if node.left_child > 0:
            continue
        if node.middle >= 0:
            _set_range(ws, i, node.middle, node.end, first_row, end_row, &leaves[n])
            n += 1
        _set_range(ws, i, node.begin, node.middle if node.middle >= 0 else node.end, first_row, end_row, &leaves[n])
        n += 1
    return n


cdef inline void _set_range(
    const Workspace* ws, int32_t node, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t first_row, Py_ssize_t end_row,
    LeafRows* leaf,
) noexcept nogil:
    """Set `leaf` to the rows first_row .. end_row - 1 among the ascending ws.rows[begin:end], by bisection."""
    leaf.node = node
    leaf.next = first_at_least(ws.rows, begin, end, first_row)
    leaf.end = first_at_least(ws.rows, leaf.next, end, end_row)


cdef struct Summing:
    const Workspace* ws
    const Output* output
    Moments* sums                   # sums of the first part
    Moments* others                 # sums of the following parts


cdef void node_sums(Workspace* ws, int32_t output, int32_t n_threads) noexcept nogil:
    """Compute one output's exact sums of every node on this rank, bottom-up from the rows of the leaves."""
    cdef int32_t i, t
    cdef const Node* node
    cdef Moments* sums = sums_of_output(ws, output)
    cdef Summing summing = Summing(ws, &ws.outputs[output], sums, sums_of_output(ws, ws.n_outputs))
    parallel_for(_sum_part, &summing, n_threads)
    for i in range(ws.n_nodes - 1, -1, -1):
        node = &ws.nodes[i]
        if node.left_child > 0:
            sums[i] = sums[node.left_child]
            _add_moments(&sums[i], &sums[node.left_child + 1])
        else:
            for t in range(1, n_threads):
                _add_moments(&sums[i], &summing.others[(t - 1) * ws.n_nodes + i])


cdef inline void _add_moments(Moments* sums, const Moments* others) noexcept nogil:
    """Add each field of `others` to `sums`, in place."""
    sums.gradient += others.gradient
    sums.hessian += others.hessian
    sums.square += others.square
    sums.copies += others.copies


cdef void _sum_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Sum a part of the rows by leaf, in tiles of rows that stay in the cache, into the part's own sums."""
    cdef Summing* summing = <Summing*>job
    cdef const Workspace* ws = summing.ws
    cdef const RowGradients* source = &summing.output.source
    cdef Py_ssize_t tile = source.n_rows * part // n_parts, end_row = source.n_rows * (part + 1) // n_parts, end
    cdef Moments* sums = summing.sums if part == 0 else summing.others + (part - 1) * ws.n_nodes
    cdef LeafRows* leaves = ws.leaf_rows + part * (ws.node_capacity + 1)
    cdef int32_t i, n_leaves = _find_leaves(ws, tile, end_row, leaves)
    cdef Moments more
    memset(sums, 0, ws.n_nodes * sizeof(Moments))
    while tile < end_row:
        tile = min(tile + TILE, end_row)
        for i in range(n_leaves):
            end = first_at_least(ws.rows, leaves[i].next, leaves[i].end, tile)
            more = exact_sums(source, &summing.output.quantised.scales, ws.rows + leaves[i].next, end - leaves[i].next)
            _add_moments(&sums[leaves[i].node], &more)
            leaves[i].next = end


cdef float64_t root_of_noise(const Workspace* ws, int32_t output) noexcept nogil:
    """Return sqrt(sum of squared gradients / sum of hessians) of an output, scaled to a mean weight of 1."""
    cdef const Moments* sums = sums_of_output(ws, output)
    cdef const RowGradients* source = &ws.outputs[output].source
    cdef const Scales* scales = &ws.outputs[output].quantised.scales
    # The factors are multiplied separately, because weights may be as small as the smallest float.
    cdef float64_t root = sqrt(<float64_t>sums[0].square) / scales.root
    if source.factors != NULL:
        root *= sqrt(source.n_copies / source.total_weight)
    return root * sqrt(scales.exact_hessian / sums[0].hessian) if sums[0].hessian > 0 else 0.0


cdef float64_t dispersion(const Workspace* ws, int32_t output) noexcept nogil:
    """Return an output's variance of gradients within leaves, over its mean hessian.

    The number of degrees of freedom is the number of rows (or copies) minus the number of leaves.
    """
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
    """Mark the subtree that maximises gain * gain_unit minus `penalty` per split; return its number of nodes.

    This is minimal cost-complexity pruning (Breiman et al. 1984, section 3.3). Forced splits are not pruned. Without a
    penalty, the tree is unchanged. Each node gets `is_split` and `place`, its index in the subtree.
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
            node.is_split = node.left_child > 0 and (node.net_gain > 0 or penalty <= 0 or node.forced >= 0)
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


cdef void add_leaf_values(
    const Workspace* ws, const float64_t* value, Py_ssize_t n_rows, int32_t n_threads, float64_t* raw
) noexcept nogil:
    """Add the value of each row's leaf to the row's entry of `raw`; `value` is indexed by node of the pruned tree."""
    cdef Adding adding = Adding(ws, value, n_rows, raw)
    parallel_for(_add_to_part, &adding, n_threads)


cdef void _add_to_part(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    """Add the leaf values to the raw predictions of a part of the rows, as the body of a parallel for."""
    cdef const Adding* adding = <const Adding*>job
    cdef const Workspace* ws = adding.ws
    cdef float64_t* raw = adding.raw
    cdef Py_ssize_t tile = adding.n_rows * part // n_parts, end_row = adding.n_rows * (part + 1) // n_parts, k, end
    cdef LeafRows* leaves = ws.leaf_rows + part * (ws.node_capacity + 1)
    cdef int32_t i, n_leaves = _find_leaves(ws, tile, end_row, leaves)
    cdef float64_t value
    while tile < end_row:
        tile = min(tile + TILE, end_row)
        for i in range(n_leaves):
            value = adding.value[ws.nodes[leaves[i].node].place]
            end = first_at_least(ws.rows, leaves[i].next, leaves[i].end, tile)
            for k in range(leaves[i].next, end):
                if k + PREFETCH_AHEAD < end:
                    prefetch(&raw[ws.rows[k + PREFETCH_AHEAD]])
                raw[ws.rows[k]] += value
            leaves[i].next = end


def leaf_means(float64_t[::1] value, const float64_t[::1] weight, const int32_t[::1] left_child):
    """Set the value of each inner node to the weighted mean of its children's values, bottom-up and in place."""
    cdef int32_t left
    cdef Py_ssize_t i
    for i in range(value.shape[0] - 1, -1, -1):
        left = left_child[i]
        if left > 0:
            value[i] = (weight[left] * value[left] + weight[left + 1] * value[left + 1]) / (
                weight[left] + weight[left + 1]
            )


cdef inline float64_t _clipped(float64_t value, float64_t lower, float64_t upper) noexcept nogil:
    """Return the value clipped to lower .. upper."""
    return min(max(value, lower), upper)


cdef void _bind_children(
    float64_t* value, float64_t* lower, float64_t* upper, Py_ssize_t parent, Py_ssize_t left, int32_t monotone
) noexcept nogil:
    """Clip the values of siblings left and left + 1 to their parent's bounds, and set the siblings' own bounds.

    With a monotone split (1 or -1, otherwise 0), the midpoint of their values separates the bounds.
    """
    cdef float64_t middle
    cdef Py_ssize_t child
    for child in range(left, left + 2):
        lower[child], upper[child] = lower[parent], upper[parent]
        value[child] = _clipped(value[child], lower[parent], upper[parent])
    if monotone == 0:
        return
    middle = 0.5 * (value[left] + value[left + 1])
    for child in range(left, left + 2):
        bind_side(monotone, child > left, middle, &lower[child], &upper[child])
        value[child] = _clipped(value[child], lower[child], upper[child])


cdef void _bind(
    float64_t* value, const float64_t* weight, const int32_t* feature, const int32_t* left_child,
    const int8_t* monotone, float64_t path_smooth, float64_t* lower, Py_ssize_t n,
) noexcept nogil:
    """Smooth and clip the values of all n nodes, from the root down.

    `lower` holds n lower bounds, followed by n upper bounds; the root's bounds must be set.
    """
    cdef float64_t* upper = lower + n
    cdef Py_ssize_t i, left, child
    value[0] = _clipped(value[0], lower[0], upper[0])
    for i in range(n):
        left = left_child[i]
        if left == 0:
            continue
        for child in range(left, left + 2):
            if path_smooth > 0:
                value[child] = (weight[child] * value[child] + path_smooth * value[i]) / (weight[child] + path_smooth)
        _bind_children(value, lower, upper, i, left, monotone[feature[i]] if monotone != NULL else 0)


def clip_to_bounds(float64_t[::1] value, const float64_t[::1] weight, tree, rules):
    """Smooth values along their paths and clip them to their bounds, in place.

    Parameters
    ----------
    value, weight : float64 arrays of shape (n_nodes,)
        Values and weights of all nodes. The smaller a node's weight, the more `path_smooth` shrinks it towards its
        parent.
    tree : Tree
        The tree.
    rules : GrowthParameters
        Limits of the tree: `monotone`, `path_smooth` and `max_delta_step`.
    """
    cdef const int32_t[::1] feature = tree.feature, left_child = tree.left_child
    cdef const int8_t[::1] monotone = rules.monotone
    cdef float64_t path_smooth = rules.path_smooth
    cdef Py_ssize_t n = value.shape[0]
    cdef const int8_t* signs = NULL
    cdef float64_t* bounds = <float64_t*>malloc(2 * n * sizeof(float64_t))
    if bounds == NULL:
        raise MemoryError(f"no memory for the bounds of {n} nodes")
    bounds[0] = -INFINITY if rules.max_delta_step is None else -rules.max_delta_step
    bounds[n] = -bounds[0]
    if monotone is not None:
        signs = &monotone[0]
    with nogil:
        _bind(&value[0], &weight[0], &feature[0], &left_child[0], signs, path_smooth, bounds, n)
    free(bounds)


cdef enum:
    NONE = -1


cdef struct Links:
    # Per node: a max-heap of the splits below it that are pruned before it. `left` and `right` are its links.
    float64_t* alpha            # the alpha at which the node's branch is pruned
    float64_t* gain             # gain of the branch at that point
    float64_t* n_splits         # number of splits of the branch at that point
    int32_t* left
    int32_t* right


cdef int32_t merge(const Links* links, int32_t a, int32_t b) noexcept nogil:
    """Merge two skew heaps, given by their top nodes or NONE, and return the new top (Sleator & Tarjan 1986)."""
    cdef int32_t top = NONE
    cdef int32_t* place = &top
    cdef int32_t next
    while a != NONE and b != NONE:
        if links.alpha[a] < links.alpha[b]:
            a, b = b, a
        place[0] = a
        next = links.right[a]
        links.right[a] = links.left[a]
        place = &links.left[a]
        a = next
    place[0] = a if b == NONE else b
    return top


cdef int32_t add_branch(const Links* links, int32_t node, float64_t gain, int32_t below) noexcept nogil:
    """Set the node's alpha, given its split's gain, and return the heap of its branch.

    `below` is the merged heap of the branches below it. Branches with a higher alpha than the node above them are
    pruned together with that node.
    """
    cdef float64_t n_splits = 1
    while below != NONE and gain <= links.alpha[below] * n_splits:
        gain += links.gain[below]
        n_splits += links.n_splits[below]
        below = merge(links, links.left[below], links.right[below])
    links.alpha[node] = gain / n_splits
    links.gain[node] = gain
    links.n_splits[node] = n_splits
    return merge(links, node, below)


cdef Py_ssize_t list_heap(const Links* links, int32_t top, int32_t* nodes) noexcept nogil:
    """Write the nodes of the heap with this top (NONE if empty) to `nodes`, in any order; return their number."""
    cdef Py_ssize_t n = 0, done = 0
    cdef int32_t node
    if top != NONE:
        nodes[0], n = top, 1
    while done < n:
        node = nodes[done]
        done += 1
        if links.left[node] != NONE:
            nodes[n] = links.left[node]
            n += 1
        if links.right[node] != NONE:
            nodes[n] = links.right[node]
            n += 1
    return n


def weakest_links(const int32_t[::1] left_child, const float64_t[::1] gain):
    """Return for each node the alpha at which its branch is pruned, and the gain of the branch at that point.

    Also return the nodes whose branches are pruned separately rather than with a branch above them, in arbitrary order.
    The alpha of a leaf is infinite. Minimal cost-complexity pruning (Breiman et al. 1984, section 3.3) prunes the
    weakest branch repeatedly. This implementation visits each node once, from the leaves to the root, and takes
    O(n log n) time.
    """
    cdef Py_ssize_t n = left_child.shape[0], n_fallen, i
    found = np.zeros((3, n))
    found[0] = np.inf
    nodes = np.full((4, n), NONE, dtype=np.int32)
    cdef float64_t[:, ::1] numbers = found
    cdef int32_t[:, ::1] link = nodes
    cdef int32_t* heap = &link[2, 0]
    cdef Links links = Links(&numbers[0, 0], &numbers[1, 0], &numbers[2, 0], &link[0, 0], &link[1, 0])
    with nogil:
        for i in range(n - 1, -1, -1):
            if left_child[i]:
                heap[i] = merge(&links, heap[left_child[i]], heap[left_child[i] + 1])
                heap[i] = add_branch(&links, <int32_t> i, gain[i], heap[i])
        n_fallen = list_heap(&links, heap[0], &link[3, 0])
    return found[0], found[1], nodes[3, :n_fallen]


def pruned_indices(const int32_t[::1] left_child, const uint8_t[::1] is_leaf):
    """Return each node's index in the tree pruned at the nodes of the mask `is_leaf`, and the remaining nodes in order.

    Nodes of a pruned branch get the index of the leaf that replaces it.
    """
    cdef Py_ssize_t n = left_child.shape[0], i
    cdef int32_t n_left = 0, child
    place = np.zeros(n, dtype=np.int32)
    left = np.empty(n, dtype=np.int32)
    leaf = np.full(n, NONE, dtype=np.int32)
    cdef int32_t[::1] number = place, nodes = left, inside = leaf
    for i in range(n):
        if inside[i] == NONE:
            number[i] = n_left
            nodes[n_left] = <int32_t>i
            n_left += 1
        else:
            number[i] = number[inside[i]]
        child = left_child[i]
        if child and (is_leaf[i] or inside[i] != NONE):
            inside[child] = inside[child + 1] = <int32_t>i
    return place, left[:n_left]


cdef set_table(Workspace* ws, matrix, monotone):
    """Set the table, columns, features and outputs of `ws` from a matrix that must outlive the workspace.

    `monotone` holds 1, -1 or 0 for each feature, or is None.
    """
    ws.table.code_size = matrix.columns.itemsize
    ws.table.n_features = matrix.n_features
    if matrix.is_sparse:
        _set_stored(ws, matrix)
    else:
        _set_records(ws, matrix)
    ws.outputs = <Output*>calloc(matrix.n_payloads, sizeof(Output))
    if ws.outputs == NULL:
        raise MemoryError(f"no memory for growing trees of {matrix.n_payloads} outputs")
    ws.n_outputs = matrix.n_payloads
    _set_columns(ws, matrix.bundles)
    _set_features(ws, matrix, monotone)


cdef _set_records(Workspace* ws, matrix):
    """Set the addresses of the row-major records and of the column codes of a dense matrix."""
    cdef const uint8_t[:, ::1] records = matrix.records
    ws.table.records = &records[0, 0]
    ws.table.pages = pages_of(matrix.pages)
    ws.table.stride = records.shape[1]
    ws.table.codes_per_row = len(matrix.bundles.n_codes)
    ws.codes = <const uint8_t*><size_t>matrix.columns.ctypes.data
    ws.feature_step, ws.row_step = matrix.columns.strides


cdef _set_stored(Workspace* ws, matrix):
    """Set the addresses of the stored codes of a sparse matrix, by row and by column."""
    columns = matrix.columns
    cdef const int32_t[::1] rows = columns.rows
    cdef const int64_t[::1] starts = columns.starts, first_cell = matrix.first_cell
    cdef const uint32_t[::1] cells = matrix.cells
    ws.table.cells, ws.table.first_cell = &cells[0], &first_cell[0]
    ws.table.codes_per_row = 1 + cells.shape[0] // matrix.n_rows
    ws.codes = <const uint8_t*><size_t>columns.codes.ctypes.data
    ws.stored_rows, ws.first_stored = &rows[0], &starts[0]
    ws.n_words = mask_words(ws.table.n_features)


cdef _set_columns(Workspace* ws, bundles):
    """Allocate the columns of `bundles`, and set the features and the offset of the cells of each column."""
    cdef int32_t c
    cdef const int32_t[::1] n_codes = bundles.n_codes, features = bundles.features, first = bundles.first_feature
    ws.table.n_columns = n_codes.shape[0]
    ws.columns = <Column*>malloc(ws.table.n_columns * sizeof(Column))
    if ws.columns == NULL:
        raise MemoryError(f"no memory for {ws.table.n_columns} columns")
    ws.table.columns = ws.columns
    for c in range(ws.table.n_columns):
        ws.columns[c].n_codes = n_codes[c]
        ws.columns[c].offset = ws.table.n_counted
        ws.columns[c].features = &features[first[c]]
        ws.columns[c].n_features = first[c + 1] - first[c]
        ws.table.n_codes += n_codes[c]
        ws.table.n_counted += CELL_STRIDE if ws.table.code_size == 1 and ws.n_words == 0 else n_codes[c]


cdef _set_features(Workspace* ws, matrix, monotone):
    """Allocate the features, and set their codes, thresholds and monotone constraints (0 if `monotone` is None)."""
    cdef int32_t f
    cdef Feature* feature
    bundles = matrix.bundles
    cdef const int32_t[::1] n_codes = np.ascontiguousarray(matrix.n_codes, dtype=np.int32)
    cdef const uint8_t[::1] is_categorical = np.ascontiguousarray(matrix.is_categorical, dtype=np.uint8)
    cdef const int32_t[::1] first = bundles.first_member, usual = bundles.most_frequent_bin
    cdef const uint8_t[::1] members = bundles.members
    cdef const float64_t[::1] limits
    ws.features = <Feature*>malloc(ws.table.n_features * sizeof(Feature))
    if ws.features == NULL:
        raise MemoryError(f"no memory for {ws.table.n_features} features")
    for f in range(ws.table.n_features):
        feature = &ws.features[f]
        feature.index = f
        feature.n_codes = n_codes[f]
        feature.is_categorical = is_categorical[f]
        feature.monotone = 0 if monotone is None else monotone[f]
        limits = matrix.thresholds[f]
        feature.thresholds = &limits[0] if limits.shape[0] > 0 else NULL
        feature.members, feature.most_frequent_bin = &members[first[f]], usual[f]


cdef allow_stored(const Workspace* ws, int64_t least):
    """Return a bit mask of the sparse columns with at least `least` stored codes, on which a tree may split."""
    cdef int32_t f
    mask = np.zeros(max(ws.n_words, 1), dtype=np.uint64)
    cdef uint64_t[::1] words = mask
    for f in range(ws.table.n_features if ws.n_words > 0 else 0):
        if ws.first_stored[f + 1] - ws.first_stored[f] >= least:
            add_feature(&words[0], f)
    return mask
