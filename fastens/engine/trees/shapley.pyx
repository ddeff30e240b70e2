"""Shapley values of trees: how much each feature moves a row's raw prediction away from the expected one.

A depth-first walk over a tree serves SHAPLEY_LANES rows. On the way down it carries, at the points of a quadrature, the
product of the factors of the path (see shapley.h); on the way up the sums over the leaves below, from which each edge
adds the part of its feature (the order of work of Yu et al. 2022, Linear TreeShap). Leaves may have linear terms on the
features of their paths.
"""

import numpy as np

from libc.math cimport isfinite
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from fastens.engine.goes_left cimport code_goes_left
from fastens.engine.structs cimport code_t, float64_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from fastens.engine.team cimport MAX_THREADS, share_pieces


cdef extern from "engine/trees/shapley.h" nogil:
    enum:
        SHAPLEY_LANES
    ctypedef struct Quadrature:
        int32_t n_points
        const float64_t* points
        const float64_t* weights
    ctypedef struct PathElement:
        float64_t share
        const float64_t* passes
    void extend_path(
        const Quadrature* rule, const PathElement* element, const PathElement* replaced, const float64_t* product,
        float64_t* out) noexcept
    void collect_feature(
        const Quadrature* rule, const PathElement* element, float64_t sign, const float64_t* sums,
        float64_t* phi) noexcept
    void collect_pair(
        const Quadrature* rule, const PathElement* a, const PathElement* b, const float64_t* sums,
        float64_t* phi) noexcept
    ctypedef struct Term:
        float64_t slope
        float64_t lower
        float64_t upper
        float64_t at_mean
    void deviations(
        const Term* term, const float64_t* values, const float64_t* passes, const float64_t* complete,
        float64_t* out) noexcept
    void extend_sums(
        const Quadrature* rule, float64_t share, const float64_t* f, const float64_t* product,
        float64_t* sums) noexcept
    void collect_term(
        const Quadrature* rule, float64_t share, const float64_t* f, const float64_t* product,
        float64_t* phi) noexcept
    void collect_term_pair(
        const Quadrature* rule, float64_t share, const PathElement* b, const float64_t* f, const float64_t* product,
        float64_t* phi) noexcept


cdef struct Lines:
    # Linear terms of leaves: node i, over all trees, has those from starts[i] to starts[i + 1]; NULL where none has.
    const int64_t* starts
    const int32_t* features
    const float64_t* slopes
    const float64_t* lower
    const float64_t* upper
    const float64_t* at_means


cdef struct Trees:
    # All trees one after another; children and `above` count inside their tree.
    const int64_t* first_node
    const int32_t* feature
    const uint16_t* bin_threshold
    const uint8_t* missing_left
    const int32_t* category_set
    const uint32_t* category_words
    const int32_t* left_child
    const float64_t* value          # by node, n_values each
    Py_ssize_t n_values
    const int32_t* output           # by tree: the output of its first value
    Py_ssize_t n_trees
    Py_ssize_t n_features
    Py_ssize_t n_outputs
    Py_ssize_t max_depth
    # Of the edge that leads to a node: what share of the training weight passes the tests of its feature up to here,
    # its feature, and the nearest node above whose edge tests the same feature (0: none).
    const float64_t* share
    const int32_t* edge_feature
    const int32_t* above
    const int32_t* depth
    const int32_t* n_points         # by tree
    const float64_t* points         # of quadratures with 1, 2, 3, ... points one after another
    const float64_t* weights
    Lines lines


cdef struct Stack:
    # Working memory of a walk, by depth: the node, how many of its children are done, whether the rows pass the tests
    # of its edge's feature, the products of the path and the sums over the leaves.
    int32_t* node
    int32_t* n_done
    float64_t* passes
    float64_t* product
    float64_t* sums
    PathElement* elements           # of a leaf's path
    int32_t* element_feature
    uint8_t* replaced
    float64_t* values               # of the rows, feature after feature, where leaves have linear terms
    # Results: (n_features, SHAPLEY_LANES), or for pairs (n_features, n_features, SHAPLEY_LANES)
    float64_t* phi


cdef struct Walk:
    # One tree and one of its values, on some rows.
    const Trees* trees
    Quadrature rule
    int64_t first
    Py_ssize_t value_column
    bint pairs


# -------------------------------------------------------------------------------------------------------------- walk

cdef inline bint goes_left(const Trees* trees, int64_t node, int32_t code) noexcept nogil:
    return code_goes_left(
        trees.category_words, trees.category_set[node], trees.bin_threshold[node], trees.missing_left[node], code
    )


cdef inline PathElement element_at(const Walk* walk, const Stack* stack, int32_t node) noexcept nogil:
    cdef PathElement element
    element.share = walk.trees.share[walk.first + node]
    element.passes = stack.passes + walk.trees.depth[walk.first + node] * SHAPLEY_LANES
    return element


cdef inline void enter(
    const Walk* walk, Stack* stack, const code_t* codes, Py_ssize_t n_rows, Py_ssize_t n_lanes, int32_t depth
) noexcept nogil:
    # Come to the node at `depth` from the one above: the rows that pass, the product of the path.
    cdef const Trees* trees = walk.trees
    cdef int32_t node = stack.node[depth], parent = stack.node[depth - 1]
    cdef int32_t above = trees.above[walk.first + node]
    cdef bint is_left = trees.left_child[walk.first + parent] == node
    cdef const code_t* column = codes + trees.edge_feature[walk.first + node] * n_rows
    cdef float64_t* passes = stack.passes + depth * SHAPLEY_LANES
    cdef Py_ssize_t size = walk.rule.n_points * SHAPLEY_LANES, lane
    cdef PathElement element = element_at(walk, stack, node), replaced
    for lane in range(n_lanes):
        passes[lane] = goes_left(trees, walk.first + parent, column[lane]) == is_left
    if above:
        replaced = element_at(walk, stack, above)
        for lane in range(SHAPLEY_LANES):
            passes[lane] *= replaced.passes[lane]
    extend_path(
        &walk.rule, &element, &replaced if above else NULL, stack.product + (depth - 1) * size,
        stack.product + depth * size)


cdef inline void leave(const Walk* walk, Stack* stack, int32_t depth) noexcept nogil:
    # All leaves below are summed: the edge's feature has its part. Leaves below a later test of a feature are no
    # business of the earlier one.
    cdef int32_t node = stack.node[depth], above = walk.trees.above[walk.first + node]
    cdef Py_ssize_t size = walk.rule.n_points * SHAPLEY_LANES, i
    cdef const float64_t* sums = stack.sums + depth * size
    cdef float64_t* phi = stack.phi + walk.trees.edge_feature[walk.first + node] * SHAPLEY_LANES
    cdef PathElement element = element_at(walk, stack, node)
    collect_feature(&walk.rule, &element, 1.0, sums, phi)
    if above:
        element = element_at(walk, stack, above)
        collect_feature(&walk.rule, &element, -1.0, sums, phi)
    for i in range(size):
        stack.sums[(depth - 1) * size + i] += sums[i]


cdef int32_t list_path(const Walk* walk, Stack* stack, int32_t depth) noexcept nogil:
    # The features on the path of a leaf, the last tested first: of tests of one feature, the last counts for all.
    cdef int32_t n_elements = 0, k, above
    memset(stack.replaced, 0, depth + 1)
    for k in range(depth, 0, -1):
        above = walk.trees.above[walk.first + stack.node[k]]
        if above:
            stack.replaced[walk.trees.depth[walk.first + above]] = True
        if not stack.replaced[k]:
            stack.elements[n_elements] = element_at(walk, stack, stack.node[k])
            stack.element_feature[n_elements] = walk.trees.edge_feature[walk.first + stack.node[k]]
            n_elements += 1
    return n_elements


cdef void add_pairs(const Walk* walk, Stack* stack, int32_t n_elements, const float64_t* sums) noexcept nogil:
    # The parts of all pairs of features on the path of a leaf.
    cdef int32_t a, b
    for a in range(n_elements):
        for b in range(a):
            collect_pair(&walk.rule, stack.elements + a, stack.elements + b, sums, pair_at(walk, stack, a, b))


cdef inline float64_t* pair_at(const Walk* walk, const Stack* stack, int32_t a, int32_t b) noexcept nogil:
    cdef Py_ssize_t place = stack.element_feature[a] * walk.trees.n_features + stack.element_feature[b]
    return stack.phi + place * SHAPLEY_LANES


cdef void find_complete(const Walk* walk, const Stack* stack, int64_t node, float64_t* complete) noexcept nogil:
    # Which rows have a value of each term of a leaf: others get its value, as of any leaf.
    cdef const Lines* lines = &walk.trees.lines
    cdef const float64_t* values
    cdef Py_ssize_t term, lane
    for lane in range(SHAPLEY_LANES):
        complete[lane] = 1.0
    for term in range(lines.starts[node], lines.starts[node + 1]):
        values = stack.values + lines.features[term] * SHAPLEY_LANES
        for lane in range(SHAPLEY_LANES):
            complete[lane] *= isfinite(values[lane]) != 0


cdef void add_terms(
    const Walk* walk, Stack* stack, int64_t node, int32_t n_elements, const float64_t* product, float64_t* sums
) noexcept nogil:
    # The linear terms of a leaf: their parts in the sums, and what they add to their own features.
    cdef const Lines* lines = &walk.trees.lines
    cdef float64_t[SHAPLEY_LANES] complete, f
    cdef Py_ssize_t index
    cdef int32_t a, b
    cdef Term term
    cdef PathElement* element
    find_complete(walk, stack, node, complete)
    for index in range(lines.starts[node], lines.starts[node + 1]):
        a = 0
        while a < n_elements and stack.element_feature[a] != lines.features[index]:
            a += 1
        if a == n_elements:     # no tree has that
            continue
        element = stack.elements + a
        term = Term(lines.slopes[index], lines.lower[index], lines.upper[index], lines.at_means[index])
        deviations(&term, stack.values + lines.features[index] * SHAPLEY_LANES, element.passes, complete, f)
        extend_sums(&walk.rule, element.share, f, product, sums)
        if not walk.pairs:
            collect_term(&walk.rule, element.share, f, product, stack.phi + lines.features[index] * SHAPLEY_LANES)
            continue
        for b in range(n_elements):
            if b != a:
                collect_term_pair(
                    &walk.rule, element.share, stack.elements + b, f, product, pair_at(walk, stack, a, b))


cdef void explain_leaf(const Walk* walk, Stack* stack, int32_t depth) noexcept nogil:
    # The sums over a leaf; of pairs, their parts at once.
    cdef const Lines* lines = &walk.trees.lines
    cdef int64_t node = walk.first + stack.node[depth]
    cdef Py_ssize_t size = walk.rule.n_points * SHAPLEY_LANES, i
    cdef float64_t value = walk.trees.value[node * walk.trees.n_values + walk.value_column]
    cdef float64_t* sums = stack.sums + depth * size
    cdef const float64_t* product = stack.product + depth * size
    cdef bint has_terms = lines.starts != NULL and lines.starts[node] < lines.starts[node + 1]
    cdef int32_t n_elements = list_path(walk, stack, depth) if walk.pairs or has_terms else 0
    for i in range(size):
        sums[i] = value * product[i]
    if has_terms:
        add_terms(walk, stack, node, n_elements, product, sums)
    if walk.pairs:
        add_pairs(walk, stack, n_elements, sums)


cdef void walk_tree(
    const Walk* walk, Stack* stack, const code_t* codes, Py_ssize_t n_rows, Py_ssize_t n_lanes
) noexcept nogil:
    # Depth first, left before right.
    cdef const Trees* trees = walk.trees
    cdef Py_ssize_t size = walk.rule.n_points * SHAPLEY_LANES, i
    cdef int32_t depth = 0, node, left
    stack.node[0] = 0
    stack.n_done[0] = 0
    for i in range(size):
        stack.product[i] = 1.0
        stack.sums[i] = 0.0
    while depth >= 0:
        node = stack.node[depth]
        left = trees.left_child[walk.first + node]
        if left and stack.n_done[depth] < 2:
            depth += 1
            stack.node[depth] = left + stack.n_done[depth - 1]
            stack.n_done[depth - 1] += 1
            stack.n_done[depth] = 0
            enter(walk, stack, codes, n_rows, n_lanes, depth)
            memset(stack.sums + depth * size, 0, size * sizeof(float64_t))
            continue
        if not left:
            explain_leaf(walk, stack, depth)
        if depth > 0 and not walk.pairs:
            leave(walk, stack, depth)
        depth -= 1


# ------------------------------------------------------------------------------------------------------------- doors

cdef size_t n_numbers(const Trees* trees, Py_ssize_t most_points, bint pairs) noexcept nogil:
    # How many results, and how many other float64 numbers, a stack holds.
    cdef size_t results = trees.n_features * (trees.n_features if pairs else 1) * SHAPLEY_LANES
    if trees.lines.starts != NULL:
        results += trees.n_features * SHAPLEY_LANES     # the rows' values
    return results + (trees.max_depth + 1) * SHAPLEY_LANES * (1 + 2 * most_points)


cdef size_t stack_size(const Trees* trees, Py_ssize_t most_points, bint pairs) noexcept nogil:
    cdef size_t by_depth = sizeof(PathElement) + 3 * sizeof(int32_t) + 1
    return (n_numbers(trees, most_points, pairs) * sizeof(float64_t) + (trees.max_depth + 1) * by_depth + 63) // 64 * 64


cdef Stack stack_at(const Trees* trees, Py_ssize_t most_points, bint pairs, char* memory) noexcept nogil:
    cdef Stack stack
    cdef Py_ssize_t levels = trees.max_depth + 1
    stack.phi = <float64_t*> memory
    stack.passes = stack.phi + trees.n_features * (trees.n_features if pairs else 1) * SHAPLEY_LANES
    stack.product = stack.passes + levels * SHAPLEY_LANES
    stack.sums = stack.product + levels * SHAPLEY_LANES * most_points
    stack.values = stack.sums + levels * SHAPLEY_LANES * most_points
    if trees.lines.starts != NULL:
        stack.elements = <PathElement*> (stack.values + trees.n_features * SHAPLEY_LANES)
    else:
        stack.elements = <PathElement*> stack.values
    stack.node = <int32_t*> (stack.elements + levels)
    stack.n_done = stack.node + levels
    stack.element_feature = stack.n_done + levels
    stack.replaced = <uint8_t*> (stack.element_feature + levels)
    return stack


cdef void explain_lanes(
    const Trees* trees, Stack* stack, const code_t* codes, Py_ssize_t n_rows, Py_ssize_t n_lanes, int32_t output,
    bint pairs,
) noexcept nogil:
    # The contributions to one output, of the rows that `codes` begins with.
    cdef Py_ssize_t t, skip, k
    cdef Walk walk
    walk.trees = trees
    walk.pairs = pairs
    memset(stack.phi, 0, <char*> stack.passes - <char*> stack.phi)
    memset(stack.passes, 0, SHAPLEY_LANES * (trees.max_depth + 1) * sizeof(float64_t))
    for t in range(trees.n_trees):
        k = output - trees.output[t]
        if 0 <= k < trees.n_values:
            skip = trees.n_points[t] * (trees.n_points[t] - 1) // 2
            walk.rule = Quadrature(trees.n_points[t], trees.points + skip, trees.weights + skip)
            walk.first = trees.first_node[t]
            walk.value_column = k
            walk_tree(&walk, stack, codes, n_rows, n_lanes)


cdef Lines lines_of(linear):
    cdef Lines lines = Lines(NULL, NULL, NULL, NULL, NULL, NULL)
    cdef const int64_t[::1] starts
    cdef const int32_t[::1] features
    cdef const float64_t[::1] slopes, lower, upper, at_means
    if linear is None or len(linear.slopes) == 0:
        return lines
    starts, features, slopes = linear.starts, linear.features, linear.slopes
    lower, upper, at_means = linear.lower, linear.upper, linear.at_means
    return Lines(&starts[0], &features[0], &slopes[0], &lower[0], &upper[0], &at_means[0])


cdef struct Blocks:
    # The rows, SHAPLEY_LANES to a block, and where their contributions go.
    const Trees* trees
    const float64_t* X          # NULL: no tree has linear terms
    const void* codes
    int32_t code_size
    Py_ssize_t n_rows
    Py_ssize_t most_points
    bint pairs
    char* memory                # of the first thread; that of the others follows
    Py_ssize_t size             # of each
    float64_t* out
    Py_ssize_t n_results


cdef void explain_piece(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    cdef const Blocks* blocks = <const Blocks*> job
    cdef Stack stack = stack_at(
        blocks.trees, blocks.most_points, blocks.pairs, blocks.memory + thread * blocks.size)
    if blocks.code_size == 1:
        explain_block(blocks, &stack, block * SHAPLEY_LANES, <const uint8_t*> blocks.codes)
    else:
        explain_block(blocks, &stack, block * SHAPLEY_LANES, <const uint16_t*> blocks.codes)


cdef void explain_block(const Blocks* blocks, Stack* stack, Py_ssize_t row, const code_t* codes) noexcept nogil:
    cdef Py_ssize_t n_lanes = min(<Py_ssize_t> SHAPLEY_LANES, blocks.n_rows - row), i, lane
    cdef int32_t output, n_outputs = <int32_t> blocks.trees.n_outputs
    cdef float64_t* out
    if blocks.trees.lines.starts != NULL:
        for i in range(blocks.trees.n_features):
            for lane in range(n_lanes):
                stack.values[i * SHAPLEY_LANES + lane] = blocks.X[(row + lane) * blocks.trees.n_features + i]
    for output in range(n_outputs):
        explain_lanes(blocks.trees, stack, codes + row, blocks.n_rows, n_lanes, output, blocks.pairs)
        for lane in range(n_lanes):
            out = blocks.out + ((row + lane) * n_outputs + output) * blocks.n_results
            for i in range(blocks.n_results):
                out[i] = stack.phi[i * SHAPLEY_LANES + lane]


def explain(ensemble, paths, linear, const float64_t[:, ::1] X, const code_t[:, ::1] codes, bint pairs, int n_threads):
    """Return the contributions of features, or of pairs of features, to raw predictions.

    Parameters
    ----------
    ensemble : object with the arrays of a TreeEnsemble, `value` as float64
    paths : object with what `edge_shares` returned, by name, and the quadratures
    linear : LinearLeaves or None
        Linear terms of the leaves, of all nodes.
    X : float64 array of shape (n_rows, n_features) or None
        The rows' values, where there are such terms.
    codes : uint8 or uint16 array of shape (n_features, n_rows)
    pairs : bool
        Whether to return those of pairs, only for a feature tested below the other: the rest is by symmetry.

    Returns
    -------
    float64 array of shape (n_rows, n_outputs, n_features), or (n_rows, n_outputs, n_features, n_features)
    """
    cdef const int64_t[::1] first_node = ensemble.node_offsets
    cdef const int32_t[::1] feature = ensemble.feature, category_set = ensemble.category_set
    cdef const int32_t[::1] left_child = ensemble.left_child, tree_output = ensemble.tree_output
    cdef const uint16_t[::1] bin_threshold = ensemble.bin_threshold
    cdef const uint8_t[::1] missing_left = ensemble.missing_left
    cdef const uint32_t[::1] words = np.append(ensemble.category_words, np.uint32(0))
    cdef const float64_t[:, ::1] value = paths.value
    cdef const float64_t[::1] share = paths.share, points = paths.points, weights = paths.weights
    cdef const int32_t[::1] edge_feature = paths.edge_feature, above = paths.above, depth = paths.depth
    cdef const int32_t[::1] n_points = paths.n_points
    cdef Py_ssize_t n_rows = codes.shape[1], n_features = codes.shape[0], n_outputs = len(ensemble.baseline)
    cdef Py_ssize_t n_blocks = (n_rows + SHAPLEY_LANES - 1) // SHAPLEY_LANES
    cdef Py_ssize_t n_results = n_features * (n_features if pairs else 1)
    cdef int32_t n = <int32_t> max(1, min(min(<Py_ssize_t> n_threads, MAX_THREADS), n_blocks))
    cdef float64_t[:, :, ::1] out = np.zeros((n_rows, n_outputs, n_results))
    cdef Blocks blocks
    cdef Trees trees
    if n_rows and len(tree_output):
        trees = Trees(
            &first_node[0], &feature[0], &bin_threshold[0], &missing_left[0], &category_set[0], &words[0],
            &left_child[0], &value[0, 0], value.shape[1], &tree_output[0], tree_output.shape[0], n_features, n_outputs,
            paths.depth.max(), &share[0], &edge_feature[0], &above[0], &depth[0], &n_points[0], &points[0], &weights[0],
            lines_of(linear))
        blocks = Blocks(
            &trees, NULL, &codes[0, 0], sizeof(code_t), n_rows, paths.n_points.max(), pairs, NULL, 0, &out[0, 0, 0],
            n_results)
        if X is not None:
            blocks.X = &X[0, 0]
        blocks.size = stack_size(&trees, blocks.most_points, pairs)
        blocks.memory = <char*> calloc(n, blocks.size)
        if blocks.memory == NULL:
            raise MemoryError(f"cannot allocate {n * blocks.size} bytes for contributions")
        with nogil:
            share_pieces(explain_piece, &blocks, n_blocks, n)
        free(blocks.memory)
    if pairs:
        return np.asarray(out).reshape(n_rows, n_outputs, n_features, n_features)
    return np.asarray(out)
