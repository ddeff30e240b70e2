"""The best split of a feature for trees that have a value for each of several outputs in every leaf.

The gain of a split is the sum of its gains for the outputs (see split.pyx), in units of the loss. On a monotone feature
outputs whose sides are in the wrong order gain nothing: both sides get one value.
"""

from fastens.engine.histograms.cells cimport Sums, add_sums, clear_sums, count_of, first_with_count, sums_difference
from fastens.engine.splits.categories cimport POOL, category_penalty, is_one_hot, is_rare, order_categories
from fastens.engine.splits.features cimport Thresholds, threshold_at, thresholds_among
from fastens.engine.splits.gain cimport (
    FeatureCells, ScanRoom, Split, SplitRules, is_large_enough, leaves_enough, node_score, sums_of_code
)
from fastens.engine.splits.scan cimport ScanNode, joint_gains, largest, place_of, running_sums
from fastens.engine.splits.split cimport centre_of_gap, look_at, thresholds_of_wide
from fastens.engine.splits.workspace cimport Output, Workspace, sums_of_node
from fastens.engine.structs cimport Feature, float64_t, int32_t, uint64_t


cdef struct Best:
    # The best split of a feature so far.
    float64_t gain                  # but for what is the same for all splits
    int32_t bin
    int32_t ordered_by              # the output whose gradients put categories in order
    bint missing_left
    bint found


# Splits on thresholds ------------------------------------------------------------------------------------------------

cdef ScanNode _scan_node(const Output* out, const Sums* total, float64_t l2) noexcept nogil:
    """The node for one output: as Scan in gain.pxd, with the factor H that differs between outputs."""
    cdef ScanNode node
    node.layout = out.quantised.layout
    node.l2 = l2
    node.hessian = <float64_t>total.hessian + 2.0 * l2
    node.ratio = <float64_t>total.gradient / node.hessian if node.hessian > 0 else 0.0
    node.gain_unit = out.gain_unit * node.hessian
    node.hessian_unit = out.hessian_unit
    return node


cdef inline float64_t _same_for_all(const Output* out, const Sums* total, float64_t l2) noexcept nogil:
    """What the gains of `_scan_node` leave out."""
    cdef float64_t gradient = <float64_t>total.gradient, hessian = <float64_t>total.hessian + 2.0 * l2
    return out.gain_unit * ((gradient * gradient / hessian if hessian > 0 else 0.0) - node_score(total, out.rules.l2))


cdef void _add_wide(
    const FeatureCells* cells, const ScanNode* node, bint missing_left, const Thresholds* among
) noexcept nogil:
    """As `joint_gains`, from wide cells."""
    cdef ScanRoom* room = cells.room
    cdef Sums left, cell
    cdef float64_t hessian, distance
    cdef Py_ssize_t k, threshold, code = 1
    clear_sums(&left)
    if missing_left:
        left = sums_of_code(cells, 0)
    for k in range(among.n):
        threshold = threshold_at(among, k)
        while code <= threshold + 1:
            cell = sums_of_code(cells, code)
            add_sums(&left, &cell)
            code += 1
        hessian = <float64_t>left.hessian + node.l2
        distance = <float64_t>left.gradient - node.ratio * hessian
        if cells.feature.monotone * distance >= 0:
            room.keys[k] += node.gain_unit * (distance * distance / (hessian * (node.hessian - hessian)))
        room.hessians[k] += node.hessian_unit * <float64_t>left.hessian


cdef void _scan(
    const Workspace* ws, const Side* side, const Feature* feature, int32_t last, bint missing_left, ScanRoom* room,
    Best* best,
) noexcept nogil:
    """The best split `code <= 1 .. last` with a value on the left; of codes that make the same split, the first."""
    cdef float64_t* hessians = room.hessians
    cdef const Sums* totals = sums_of_node(ws, side.node, 0)
    cdef const Output* out
    cdef const uint64_t* words
    cdef FeatureCells cells
    cdef ScanNode node
    cdef Thresholds among = Thresholds(0, 0, 0, False, 0)
    cdef Py_ssize_t i, first, end
    cdef uint64_t start
    cdef float64_t gain, all_hessians = 0.0
    cdef int32_t o
    for o in range(ws.n_outputs):
        out, cells = &ws.outputs[o], cells_of_output(ws, side, feature, room, o)
        all_hessians += out.hessian_unit * <float64_t>totals[o].hessian
        node = _scan_node(out, &totals[o], out.rules.l2)
        if side.histograms[o].packed:
            words = <const uint64_t*>side.histograms[o].cells + feature.offset
            start = words[0] if missing_left else 0
            running_sums(words + 1, last, start, room.sums)
            if o == 0:
                i = count_of(start, &node.layout) + 1
                first = first_with_count(room.sums, last, &node.layout, max(out.rules.min_count, i))
                end = first_with_count(room.sums, last, &node.layout, totals[0].count - out.rules.min_count + 1)
                among = thresholds_among(&cells, totals[0].count, first, end)
        elif o == 0:
            among = thresholds_of_wide(&cells, &totals[0], last, missing_left)
        if o == 0:
            for i in range(among.n):
                room.keys[i] = hessians[i] = 0.0
        if side.histograms[o].packed:
            joint_gains(look_at(room.sums, &among), among.n, &node, feature.monotone, room.keys, hessians)
        else:
            _add_wide(&cells, &node, missing_left, &among)
    for i in range(among.n):
        if hessians[i] < ws.min_hessian or all_hessians - hessians[i] < ws.min_hessian:
            room.keys[i] = -1.0
    largest(room.keys, among.n, &gain)
    if gain > best.gain:
        i = place_of(gain, room.keys)
        best.gain, best.bin, best.missing_left, best.found = (
            gain, <int32_t>(threshold_at(&among, i) + 1), missing_left, True
        )


# Splits on sets of categories ----------------------------------------------------------------------------------------

cdef inline Sums _sums_of_place(
    const Workspace* ws, const Side* side, const Feature* feature, ScanRoom* room, int32_t place, int32_t o
) noexcept nogil:
    cdef FeatureCells cells = cells_of_output(ws, side, feature, room, o)
    return room.pooled_of_outputs[o] if room.codes[place] == POOL else sums_of_code(&cells, room.codes[place])


cdef void _pool_rare(const Workspace* ws, const Side* side, const Feature* feature, ScanRoom* room) noexcept nogil:
    """The sums of the categories that are too rare in the node, for every output; counts are those of all outputs."""
    cdef FeatureCells cells
    cdef Sums cell
    cdef int32_t o, code
    for o in range(ws.n_outputs):
        cells = cells_of_output(ws, side, feature, room, o)
        clear_sums(&room.pooled_of_outputs[o])
        for code in range(1, feature.n_codes):
            cell = sums_of_code(&cells, code)
            if cell.count > 0 and is_rare(code, cell.count, cells.rules):
                add_sums(&room.pooled_of_outputs[o], &cell)


cdef float64_t _gain_of_set(
    const Workspace* ws, const Side* side, const Feature* feature, const Sums* left
) noexcept nogil:
    """What the split gains; -1 where it is not allowed."""
    cdef const Output* out
    cdef Sums rest
    cdef float64_t l2, gain = 0.0, left_hessian = 0.0, right_hessian = 0.0
    cdef const Sums* totals = sums_of_node(ws, side.node, 0)
    cdef int32_t o
    for o in range(ws.n_outputs):
        out = &ws.outputs[o]
        rest = sums_difference(&totals[o], &left[o])
        l2 = out.rules.l2 + category_penalty(feature, &out.rules)
        gain += out.gain_unit * (
            node_score(&left[o], l2) + node_score(&rest, l2) - node_score(&totals[o], out.rules.l2)
        )
        left_hessian += out.hessian_unit * <float64_t>left[o].hessian
        right_hessian += out.hessian_unit * <float64_t>rest.hessian
    return gain if min(left_hessian, right_hessian) >= ws.min_hessian else -1.0


cdef void _scan_order(
    const Workspace* ws, const Side* side, const Feature* feature, int32_t ordered_by, ScanRoom* room, Best* best
) noexcept nogil:
    """The best split of the categories in the order of one output's gradients; `bin` is the place of the last."""
    cdef const SplitRules* rules = &ws.outputs[0].rules
    cdef bint enough, one_hot = is_one_hot(feature, rules)
    cdef FeatureCells cells = cells_of_output(ws, side, feature, room, ordered_by)
    cdef Sums cell
    cdef float64_t gain
    cdef int32_t k, o, most, n = order_categories(&cells)
    most = rules.max_categories if rules.max_categories > 0 else n
    for o in range(ws.n_outputs):
        clear_sums(&room.left[o])
    for k in range(n if one_hot and n > 2 else n - 1):
        for o in range(ws.n_outputs):
            if one_hot:
                clear_sums(&room.left[o])
            cell = _sums_of_place(ws, side, feature, room, k, o)
            add_sums(&room.left[o], &cell)
        enough = is_large_enough(&room.left[0], rules)
        if not (enough and leaves_enough(&room.left[0], sums_of_node(ws, side.node, 0), rules)):
            continue
        if k + 1 > most and n - k - 1 > most:
            continue
        gain = _gain_of_set(ws, side, feature, room.left)
        if gain > best.gain:
            best.gain, best.bin, best.ordered_by, best.found = gain, k + 1, ordered_by, True


# Search --------------------------------------------------------------------------------------------------------------

cdef void best_joint_split(
    const Workspace* ws, const Side* side, const Feature* feature, ScanRoom* room, Split* split
) noexcept nogil:
    """Write the feature's best split to `split`; its `category_set` is the output that categories are ordered by."""
    cdef FeatureCells cells = cells_of_output(ws, side, feature, room, 0)
    cdef const Output* out
    cdef Best best
    cdef int32_t o, has_missing
    split.feature = -1
    best.gain, best.found, best.missing_left, best.ordered_by = 0.0, False, False, -1
    if feature.is_categorical:
        _pool_rare(ws, side, feature, room)
        for o in range(1 if is_one_hot(feature, &ws.rules) else ws.n_outputs):
            _scan_order(ws, side, feature, o, room, &best)
    else:
        has_missing = sums_of_code(&cells, 0).count > 0
        _scan(ws, side, feature, feature.n_codes - 2 + has_missing, False, room, &best)
        if has_missing:
            _scan(ws, side, feature, feature.n_codes - 2, True, room, &best)
        for o in range(ws.n_outputs):
            out = &ws.outputs[o]
            best.gain += _same_for_all(out, sums_of_node(ws, side.node, o), out.rules.l2)
    if best.found and best.gain > ws.min_gain:
        split.feature = feature.index
        split.gain, split.bin, split.missing_left = best.gain, best.bin, best.missing_left
        split.category_set = best.ordered_by


cdef int32_t complete_joint_split(Workspace* ws, const Side* side, ScanRoom* room, Split* split) noexcept nogil:
    """The sums on the left of a node's split, for every output; return the output that categories are ordered by."""
    cdef const Feature* feature = &ws.features[split.feature]
    cdef Sums* left = &ws.left_sums_of_nodes[<Py_ssize_t>side.node * ws.n_outputs]
    cdef Sums cell
    cdef int32_t o, k, by = max(split.category_set, 0), first = 0 if split.missing_left else 1
    cdef FeatureCells cells = cells_of_output(ws, side, feature, room, by)
    if feature.is_categorical:
        _pool_rare(ws, side, feature, room)
        order_categories(&cells)
        first = split.bin if is_one_hot(feature, &ws.rules) else 1
    for o in range(ws.n_outputs):
        cells = cells_of_output(ws, side, feature, room, o)
        clear_sums(&left[o])
        for k in range(first, split.bin + 1):
            if feature.is_categorical:
                cell = _sums_of_place(ws, side, feature, room, k - 1, o)
            else:
                cell = sums_of_code(&cells, k)
            add_sums(&left[o], &cell)
    split.left = left[by]
    if feature.is_categorical:
        return by
    split.bin = centre_of_gap(&cells, split.bin)
    if sums_of_code(&cells, 0).count == 0:
        # The node has no missing value to learn from: one follows the larger side.
        split.missing_left = _left_is_larger(ws, side.node, left)
    return by


cdef bint _left_is_larger(const Workspace* ws, int32_t node, const Sums* left) noexcept nogil:
    cdef float64_t surplus = 0.0
    cdef int32_t o
    for o in range(ws.n_outputs):
        surplus += ws.outputs[o].hessian_unit * <float64_t>(2 * left[o].hessian - sums_of_node(ws, node, o).hessian)
    return surplus > 0
