"""Histograms and best splits of trees that have a value for each of several outputs in every leaf.

The gain of a split is the sum of what it gains for each output (see split.pyx), in units of the loss. Outputs have
histograms of their own, in their own fixed-point units, so one pass over a node's rows counts one output, and the
kernels of single outputs do it. A split on a monotone feature gains nothing for the outputs whose sides are in the
wrong order: they get one value.
"""

from fastens.engine.histograms.cells cimport (
    Histogram, Sums, add_sums, cell_sums, clear_sums, count_of, first_with_count, sums_difference
)
from fastens.engine.splits.categories cimport POOL, category_penalty, is_one_hot, is_rare, order_categories, write_category_set
from fastens.engine.splits.features cimport allow_features
from fastens.engine.splits.gain cimport (
    ScanRoom, Split, SplitRules, is_large_enough, leaves_enough, node_score
)
from fastens.engine.histograms.histogram cimport Columns, all_columns, build_histogram, subtract_histogram
from fastens.engine.splits.scan cimport ScanNode, first_largest, joint_gains, running_sums
from fastens.engine.splits.split cimport column_sums
from fastens.engine.structs cimport Feature, float64_t, int32_t, int64_t, uint8_t, uint64_t
from fastens.engine.team cimport next_item, share
from fastens.engine.splits.workspace cimport Node, Task, Workspace

cdef enum:
    # (row, feature, output) updates that are worth another thread, as in search.pyx
    THREAD_GRAIN = 1 << 16


cdef struct Side:
    # One of the two nodes of a task, with the histograms and sums of all its outputs.
    int32_t node
    bint wanted
    const Histogram* histograms
    const Sums* totals
    uint8_t* allowed
    Split* splits


cdef struct Best:
    # The best split of a feature so far.
    float64_t gain                  # but for what is the same for all splits
    int32_t bin
    int32_t ordered_by              # the output whose gradients put categories in order
    bint missing_left
    bint found


# Counting ------------------------------------------------------------------------------------------------------------

cdef Histogram _of_output(const Joint* joint, int64_t* cells, int32_t output, Py_ssize_t n_rows) noexcept nogil:
    """An output's part of a node's cells: all packed ones stand before all wide ones, as in `slot_histogram`."""
    cdef const Output* out = &joint.outputs[output]
    cdef Histogram histogram
    histogram.packed = out.quantised.statistics.narrow and n_rows <= out.quantised.layout.max_rows
    if histogram.packed:
        histogram.cells = cells + output * joint.n_cells
    else:
        histogram.cells = cells + (joint.n_outputs + 3 * output) * joint.n_cells
    return histogram


cdef inline Py_ssize_t _n_rows(const Workspace* ws, int32_t node) noexcept nogil:
    return ws.nodes[node].end - ws.nodes[node].begin


cdef void _count_output(Workspace* ws, Joint* joint, const Task* task, int32_t o) noexcept nogil:
    """Count one output of a task's first node, and subtract for its second."""
    cdef const Output* out = &joint.outputs[o]
    cdef const Node* node = &ws.nodes[task.counted]
    cdef Histogram* counted = &joint.histograms[o]
    cdef Histogram* difference = &joint.histograms[joint.n_outputs + o]
    cdef Histogram parent
    cdef int64_t* cells
    cdef int32_t c
    cdef Columns columns = all_columns(&out.table)
    cells = ws.slots[node.slot].cells if node.slot >= 0 else joint.cells
    counted[0] = _of_output(joint, cells, o, node.end - node.begin)
    build_histogram(
        &out.table, &out.quantised.statistics, &out.quantised.layout, ws.rows + node.begin, node.end - node.begin,
        &columns, joint.zeros + o * joint.n_cells, counted,
    )
    joint.totals[o] = column_sums(counted, &ws.table.columns[0], &out.quantised.layout)
    if task.difference < 0:
        return
    cells = ws.slots[ws.nodes[task.difference].slot].cells
    parent = _of_output(joint, cells, o, _n_rows(ws, ws.nodes[task.difference].parent))
    difference[0] = _of_output(joint, cells, o, _n_rows(ws, task.difference))
    for c in range(ws.table.n_columns):
        subtract_histogram(&parent, counted, difference, &out.quantised.layout, &ws.table.columns[c])
    joint.totals[joint.n_outputs + o] = column_sums(difference, &ws.table.columns[0], &out.quantised.layout)


# Splits on thresholds ------------------------------------------------------------------------------------------------

cdef ScanNode _scan_node(const Output* out, const Sums* total, float64_t l2, int32_t monotone) noexcept nogil:
    """A node as one output sees it: what `gain.pxd` says of Scan, with the factor H that differs between outputs."""
    cdef ScanNode node
    node.layout = out.quantised.layout
    node.l2 = l2
    node.hessian = <float64_t>total.hessian + 2.0 * l2
    node.ratio = <float64_t>total.gradient / node.hessian if node.hessian > 0 else 0.0
    node.min_hessian = node.max_hessian = 0.0
    node.monotone = monotone
    node.gain_unit = out.gain_unit * node.hessian
    node.hessian_unit = out.hessian_unit
    return node


cdef inline float64_t _same_for_all(const Output* out, const Sums* total, float64_t l2) noexcept nogil:
    """What the gains of `_scan_node` leave out."""
    cdef float64_t gradient = <float64_t>total.gradient, hessian = <float64_t>total.hessian + 2.0 * l2
    return out.gain_unit * ((gradient * gradient / hessian if hessian > 0 else 0.0) - node_score(total, out.rules.l2))


cdef void _add_wide(
    const Histogram* histogram, const Output* out, const Feature* feature, const ScanNode* node, bint missing_left,
    Py_ssize_t first, Py_ssize_t end, float64_t* gains, float64_t* hessians,
) noexcept nogil:
    """As `joint_gains`, from wide cells."""
    cdef Sums left
    cdef Sums cell
    cdef float64_t hessian, distance
    cdef Py_ssize_t i
    clear_sums(&left)
    if missing_left:
        left = cell_sums(histogram, feature.offset, &out.quantised.layout)
    for i in range(end):
        cell = cell_sums(histogram, feature.offset + i + 1, &out.quantised.layout)
        add_sums(&left, &cell)
        if i >= first:
            hessian = <float64_t>left.hessian + node.l2
            distance = <float64_t>left.gradient - node.ratio * hessian
            if node.monotone * distance >= 0:
                gains[i - first] += node.gain_unit * (distance * distance / (hessian * (node.hessian - hessian)))
            hessians[i - first] += node.hessian_unit * <float64_t>left.hessian


cdef void _range_of_wide(
    const Histogram* histogram, const Output* out, const Feature* feature, const Sums* total, int32_t last,
    bint missing_left, Py_ssize_t* first, Py_ssize_t* end,
) noexcept nogil:
    """The codes after which both sides have enough rows: first .. end - 1, counted from code 1."""
    cdef Sums left
    cdef Sums cell
    cdef int64_t n_missing = 0
    cdef int32_t i
    clear_sums(&left)
    if missing_left:
        left = cell_sums(histogram, feature.offset, &out.quantised.layout)
        n_missing = left.count
    first[0] = end[0] = last
    for i in range(last):
        cell = cell_sums(histogram, feature.offset + i + 1, &out.quantised.layout)
        add_sums(&left, &cell)
        if not leaves_enough(&left, total, &out.rules):
            end[0] = i
            break
        if first[0] == last and left.count > n_missing and is_large_enough(&left, &out.rules):
            first[0] = i
    first[0] = min(first[0], end[0])


cdef void _scan(
    const Workspace* ws, const Joint* joint, const Side* side, const Feature* feature, int32_t last,
    bint missing_left, int32_t thread, Best* best,
) noexcept nogil:
    """The best split `code <= 1 .. last` with a value on the left; of codes that make the same split, the first."""
    cdef ScanRoom* room = &ws.rooms[thread]
    cdef float64_t* hessians = joint.rooms[thread].hessians
    cdef const Output* out
    cdef const uint64_t* cells
    cdef ScanNode node
    cdef Py_ssize_t i, first = 0, end = 0
    cdef uint64_t start
    cdef float64_t gain, all_hessians = 0.0
    cdef int32_t o
    for o in range(joint.n_outputs):
        out = &joint.outputs[o]
        all_hessians += out.hessian_unit * <float64_t>side.totals[o].hessian
        node = _scan_node(out, &side.totals[o], out.rules.l2, feature.monotone)
        if side.histograms[o].packed:
            cells = <const uint64_t*>side.histograms[o].cells + feature.offset
            start = cells[0] if missing_left else 0
            running_sums(cells + 1, last, start, room.sums)
            if o == 0:
                i = count_of(start, &node.layout) + 1
                first = first_with_count(room.sums, last, &node.layout, max(out.rules.min_count, i))
                end = first_with_count(
                    room.sums, last, &node.layout, side.totals[0].count - out.rules.min_count + 1
                )
                end = max(first, end)
        elif o == 0:
            _range_of_wide(
                &side.histograms[0], out, feature, &side.totals[0], last, missing_left, &first, &end
            )
        if o == 0:
            for i in range(end - first):
                room.keys[i] = hessians[i] = 0.0
        if side.histograms[o].packed:
            joint_gains(room.sums + first, end - first, &node, room.keys, hessians)
        else:
            _add_wide(
                &side.histograms[o], out, feature, &node, missing_left, first, end, room.keys, hessians
            )
    for i in range(end - first):
        if hessians[i] < joint.min_hessian or all_hessians - hessians[i] < joint.min_hessian:
            room.keys[i] = -1.0
    i = first_largest(room.keys, end - first, &gain)
    if gain > best.gain:
        best.gain, best.bin, best.missing_left, best.found = gain, <int32_t>(first + i + 1), missing_left, True


# Splits on sets of categories ----------------------------------------------------------------------------------------

cdef inline Sums _sums_of_place(
    const Joint* joint, const Side* side, const Feature* feature, const ScanRoom* room, const JointRoom* own,
    int32_t place, int32_t o,
) noexcept nogil:
    if room.codes[place] == POOL:
        return own.pooled[o]
    return cell_sums(
        &side.histograms[o], feature.offset + room.codes[place], &joint.outputs[o].quantised.layout
    )


cdef void _pool_rare(
    const Joint* joint, const Side* side, const Feature* feature, JointRoom* own
) noexcept nogil:
    """The sums of the categories that are too rare in the node, for every output; counts are those of all outputs."""
    cdef Sums cell
    cdef int32_t o, code
    for o in range(joint.n_outputs):
        clear_sums(&own.pooled[o])
        for code in range(1, feature.n_codes):
            cell = cell_sums(&side.histograms[o], feature.offset + code, &joint.outputs[o].quantised.layout)
            if cell.count > 0 and is_rare(code, cell.count, &joint.outputs[o].rules):
                add_sums(&own.pooled[o], &cell)


cdef float64_t _gain_of_set(
    const Joint* joint, const Side* side, const Feature* feature, const Sums* left
) noexcept nogil:
    """What the split gains; -1 where it is not allowed."""
    cdef const Output* out
    cdef Sums rest
    cdef float64_t l2, gain = 0.0, left_hessian = 0.0, right_hessian = 0.0
    cdef int32_t o
    for o in range(joint.n_outputs):
        out = &joint.outputs[o]
        rest = sums_difference(&side.totals[o], &left[o])
        l2 = out.rules.l2 + category_penalty(feature, &out.rules)
        gain += out.gain_unit * (
            node_score(&left[o], l2) + node_score(&rest, l2) - node_score(&side.totals[o], out.rules.l2)
        )
        left_hessian += out.hessian_unit * <float64_t>left[o].hessian
        right_hessian += out.hessian_unit * <float64_t>rest.hessian
    return gain if min(left_hessian, right_hessian) >= joint.min_hessian else -1.0


cdef void _scan_order(
    const Workspace* ws, const Joint* joint, const Side* side, const Feature* feature, int32_t ordered_by,
    int32_t thread, Best* best,
) noexcept nogil:
    """The best split of the categories in the order of one output's gradients; `bin` is the place of the last."""
    cdef const SplitRules* rules = &joint.outputs[0].rules
    cdef ScanRoom* room = &ws.rooms[thread]
    cdef JointRoom* own = &joint.rooms[thread]
    cdef bint enough, one_hot = is_one_hot(feature, rules)
    cdef Sums cell
    cdef float64_t gain
    cdef int32_t k, o, most, n = order_categories(
        &side.histograms[ordered_by], &joint.outputs[ordered_by].quantised.layout, feature,
        &joint.outputs[ordered_by].rules, room,
    )
    most = rules.max_categories if rules.max_categories > 0 else n
    for o in range(joint.n_outputs):
        clear_sums(&own.left[o])
    for k in range(n if one_hot and n > 2 else n - 1):
        for o in range(joint.n_outputs):
            if one_hot:
                clear_sums(&own.left[o])
            cell = _sums_of_place(joint, side, feature, room, own, k, o)
            add_sums(&own.left[o], &cell)
        enough = is_large_enough(&own.left[0], rules)
        if not (enough and leaves_enough(&own.left[0], &side.totals[0], rules)):
            continue
        if k + 1 > most and n - k - 1 > most:
            continue
        gain = _gain_of_set(joint, side, feature, own.left)
        if gain > best.gain:
            best.gain, best.bin, best.ordered_by, best.found = gain, k + 1, ordered_by, True


# Search --------------------------------------------------------------------------------------------------------------

cdef void _search_feature(
    const Workspace* ws, const Joint* joint, const Side* side, int32_t f, int32_t thread
) noexcept nogil:
    """The best split of one feature, into `side.splits`; `category_set` tells by which output it is ordered."""
    cdef const Feature* feature = &ws.features[f]
    cdef Split* split = &side.splits[f]
    cdef const Output* out
    cdef Best best
    cdef int32_t o, has_missing
    split.feature = -1
    if not side.allowed[f]:
        return
    best.gain, best.found, best.missing_left, best.ordered_by = 0.0, False, False, -1
    if feature.is_categorical:
        _pool_rare(joint, side, feature, &joint.rooms[thread])
        for o in range(1 if is_one_hot(feature, &joint.outputs[0].rules) else joint.n_outputs):
            _scan_order(ws, joint, side, feature, o, thread, &best)
    else:
        has_missing = cell_sums(&side.histograms[0], feature.offset, &joint.outputs[0].quantised.layout).count > 0
        _scan(ws, joint, side, feature, feature.n_codes - 2 + has_missing, False, thread, &best)
        if has_missing:
            _scan(ws, joint, side, feature, feature.n_codes - 2, True, thread, &best)
        for o in range(joint.n_outputs):
            out = &joint.outputs[o]
            best.gain += _same_for_all(out, &side.totals[o], out.rules.l2)
    if best.found and best.gain > joint.min_gain:
        split.feature = f
        split.gain, split.bin, split.missing_left = best.gain, best.bin, best.missing_left
        split.category_set = best.ordered_by


cdef void _left_sums(
    const Workspace* ws, const Joint* joint, const Side* side, const Split* split, int32_t thread
) noexcept nogil:
    """What goes left, for every output."""
    cdef const Feature* feature = &ws.features[split.feature]
    cdef ScanRoom* room = &ws.rooms[thread]
    cdef JointRoom* own = &joint.rooms[thread]
    cdef int32_t o, k, first = split.bin - 1
    cdef Sums cell
    if feature.is_categorical:
        _pool_rare(joint, side, feature, own)
        order_categories(
            &side.histograms[split.category_set], &joint.outputs[split.category_set].quantised.layout, feature,
            &joint.outputs[split.category_set].rules, room,
        )
        if not is_one_hot(feature, &joint.outputs[0].rules):
            first = 0
    for o in range(joint.n_outputs):
        clear_sums(&own.left[o])
        if feature.is_categorical:
            for k in range(first, split.bin):
                cell = _sums_of_place(joint, side, feature, room, own, k, o)
                add_sums(&own.left[o], &cell)
        else:
            for k in range(0 if split.missing_left else 1, split.bin + 1):
                cell = cell_sums(
                    &side.histograms[o], feature.offset + k, &joint.outputs[o].quantised.layout
                )
                add_sums(&own.left[o], &cell)


cdef bint _left_is_larger(const Joint* joint, const Side* side, const Sums* left) noexcept nogil:
    cdef float64_t surplus = 0.0
    cdef int32_t o
    for o in range(joint.n_outputs):
        surplus += joint.outputs[o].hessian_unit * <float64_t>(2 * left[o].hessian - side.totals[o].hessian)
    return surplus > 0


cdef void _keep_best(Workspace* ws, const Joint* joint, const Side* side) noexcept nogil:
    """The best of the features' splits; of equal ones, that of the first feature."""
    cdef int32_t f, by, best = -1
    cdef Node* node = &ws.nodes[side.node]
    cdef Sums* left = joint.rooms[0].left
    cdef const Feature* feature
    for f in range(ws.table.n_features):
        if side.splits[f].feature >= 0 and (best < 0 or side.splits[f].gain > side.splits[best].gain):
            best = f
    if best < 0:
        return
    feature = &ws.features[best]
    node.split = side.splits[best]
    _left_sums(ws, joint, side, &node.split, 0)
    if feature.is_categorical:
        by = node.split.category_set
        node.split.left = left[by]
        node.split.category_set = side.node * ws.words_per_node
        write_category_set(
            &side.histograms[by], &joint.outputs[by].quantised.layout, feature, &joint.outputs[by].rules, &ws.rooms[0],
            &node.split, ws.category_words + <Py_ssize_t>side.node * ws.words_per_node,
        )
    elif cell_sums(&side.histograms[0], feature.offset, &joint.outputs[0].quantised.layout).count == 0:
        # The node has no missing value to learn from: one follows the larger side.
        node.split.missing_left = _left_is_larger(joint, side, left)
    node.split.left = left[0]


cdef struct OneByOne:
    # The outputs of a task, or the features of a side, which the threads deal with as they come.
    Workspace* ws
    Joint* joint
    const Task* task
    const Side* side
    int32_t next


cdef void _count_outputs(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    cdef OneByOne* outputs = <OneByOne*>job
    cdef int32_t o = next_item(&outputs.next)
    while o < outputs.joint.n_outputs:
        _count_output(outputs.ws, outputs.joint, outputs.task, o)
        o = next_item(&outputs.next)


cdef void _search_features(void* job, int32_t part, int32_t n_parts) noexcept nogil:
    cdef OneByOne* features = <OneByOne*>job
    cdef int32_t f = next_item(&features.next)
    while f < features.ws.table.n_features:
        _search_feature(features.ws, features.joint, features.side, f, part)
        f = next_item(&features.next)


cdef void _search_side(Workspace* ws, Joint* joint, const Side* side, int32_t n_threads) noexcept nogil:
    cdef OneByOne features
    if not side.wanted:
        return
    allow_features(ws, side.node, side.allowed, ws.sampled)
    features.ws, features.joint, features.side, features.next = ws, joint, side, 0
    share(_search_features, &features, n_threads)
    _keep_best(ws, joint, side)


cdef void _run_task(Workspace* ws, Joint* joint, const Task* task) noexcept nogil:
    cdef Side side
    cdef OneByOne outputs
    cdef int32_t k = joint.n_outputs
    cdef Py_ssize_t work = k * (_n_rows(ws, task.counted) * ws.table.n_features + 2 * joint.n_cells)
    cdef int32_t n_threads = <int32_t>max(1, min(<Py_ssize_t>ws.n_threads, work // THREAD_GRAIN))
    outputs.ws, outputs.joint, outputs.task, outputs.next = ws, joint, task, 0
    share(_count_outputs, &outputs, n_threads)
    if task.is_root:
        ws.nodes[0].sums = joint.totals[0]
    side.allowed, side.splits = ws.allowed, ws.feature_splits
    side.node, side.wanted = task.counted, task.want_counted
    side.histograms, side.totals = joint.histograms, joint.totals
    _search_side(ws, joint, &side, n_threads)
    side.node, side.wanted = task.difference, task.want_difference and task.difference >= 0
    side.histograms, side.totals = joint.histograms + k, joint.totals + k
    _search_side(ws, joint, &side, n_threads)


cdef void run_joint_tasks(Workspace* ws, Joint* joint) noexcept nogil:
    """One task after the other; the outputs of a large one, and then its features, are done side by side."""
    cdef int32_t i
    for i in range(ws.n_tasks):
        _run_task(ws, joint, &ws.tasks[i])
