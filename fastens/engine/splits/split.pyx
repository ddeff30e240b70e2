"""The best split of a node from its histogram.

A split's gain is the score of the left side plus that of the right side minus that of the node, where the score of a
set of rows is G^2 / (H + lambda) (Chen & Guestrin 2016, eq. 7, without the factor 1/2). All sums are whole numbers,
so the gains do not depend on the order in which rows were added.
"""

from fastens.engine.histograms.cells cimport (
    CellLayout, Histogram, Sums, add_sums, cell_sums, clear_sums, count_of, first_with_count, sums_difference, unpack
)
from fastens.engine.splits.categories cimport scan_categories
from fastens.engine.splits.gain cimport (
    Scan, ScanRoom, Split, SplitRules, consider, is_large_enough, keep_split, leaves_enough, node_score
)
from fastens.engine.splits.scan cimport ScanNode, bound_gains, first_largest, ordered_gains, running_sums, split_gains
from fastens.engine.structs cimport Column, Feature, float64_t, int32_t, int64_t, uint64_t


cdef Sums column_sums(
    const Histogram* histogram, const Column* column, const CellLayout* layout
) noexcept nogil:
    """The sums over all rows of the node."""
    cdef Sums total, cell
    cdef int32_t code
    clear_sums(&total)
    for code in range(column.n_codes):
        cell = cell_sums(histogram, column.offset + code, layout)
        add_sums(&total, &cell)
    return total


cdef ScanNode _node_of_scan(const CellLayout* layout, const SplitRules* rules, const Scan* scan) noexcept nogil:
    cdef ScanNode node
    node.layout = layout[0]
    node.ratio, node.hessian, node.l2 = scan.ratio, scan.hessian, scan.l2
    node.min_hessian = <float64_t>rules.min_hessian
    node.max_hessian = <float64_t>(scan.total.hessian - rules.min_hessian)
    node.monotone = scan.monotone
    if scan.limits != NULL:
        node.total_gradient, node.total_hessian = <float64_t>scan.total.gradient, <float64_t>scan.total.hessian
        node.lower, node.upper = scan.limits.lower, scan.limits.upper
        node.smooth, node.smooth_gradient = rules.path_smooth, rules.path_smooth * scan.limits.value
        node.node_score = scan.node_score
    return node


cdef inline void _gains(
    const uint64_t* sums, Py_ssize_t n, const ScanNode* node, const Scan* scan, float64_t* gains
) noexcept nogil:
    if scan.limits != NULL:
        bound_gains(sums, n, node, gains)
    elif scan.monotone != 0:
        ordered_gains(sums, n, node, gains)
    else:
        split_gains(sums, n, node, gains)


cdef void _scan_packed(
    const uint64_t* cells, int32_t last, bint missing_left, const CellLayout* layout, const SplitRules* rules,
    ScanRoom* room, Scan* scan,
) noexcept nogil:
    """Splits `code <= 1 .. last` with a value on the left; of codes that make the same split, the first."""
    cdef ScanNode node = _node_of_scan(layout, rules, scan)
    cdef uint64_t start = cells[0] if missing_left else 0
    cdef int64_t some_value = count_of(start, layout) + 1
    cdef Py_ssize_t i, first, end
    cdef float64_t gain
    running_sums(cells + 1, last, start, room.sums)
    first = first_with_count(room.sums, last, layout, max(rules.min_count, some_value))
    end = first_with_count(room.sums, last, layout, scan.total.count - rules.min_count + 1)
    _gains(room.sums + first, end - first, &node, scan, room.keys)
    i = first_largest(room.keys, end - first, &gain)
    if gain > scan.gain:
        keep_split(gain, <int32_t>(first + i + 1), missing_left, scan)
        scan.left = unpack(room.sums[first + i], layout)


cdef void _scan_cells(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature, int32_t last, bint missing_left,
    const SplitRules* rules, Scan* scan,
) noexcept nogil:
    """The same, one split after the other, for wide cells or given values."""
    cdef int32_t code
    cdef Sums left, cell
    clear_sums(&left)
    if missing_left:
        left = cell_sums(histogram, feature.offset, layout)
    for code in range(1, last + 1):
        cell = cell_sums(histogram, feature.offset + code, layout)
        if cell.count == 0:
            continue
        add_sums(&left, &cell)
        if not is_large_enough(&left, rules):
            continue
        if not leaves_enough(&left, &scan.total, rules):
            break
        consider(&left, rules, code, missing_left, scan)


cdef void _scan_numeric(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature,
    const SplitRules* rules, ScanRoom* room, Scan* scan,
) noexcept nogil:
    """Both directions of the missing rows where the node has some; else they will follow the larger side."""
    cdef Sums missing = cell_sums(histogram, feature.offset, layout)
    cdef const uint64_t* cells = <const uint64_t*>histogram.cells + feature.offset
    cdef int32_t last = feature.n_codes - 1 if missing.count > 0 else feature.n_codes - 2
    if histogram.packed:
        _scan_packed(cells, last, False, layout, rules, room, scan)
    else:
        _scan_cells(histogram, layout, feature, last, False, rules, scan)
    if missing.count == 0:
        scan.missing_left = 2 * scan.left.hessian > scan.total.hessian
        return
    if histogram.packed:
        _scan_packed(cells, last - 1, True, layout, rules, room, scan)
    else:
        _scan_cells(histogram, layout, feature, last - 1, True, rules, scan)


cdef float64_t _whole_gain(const Scan* scan, const SplitRules* rules) noexcept nogil:
    """Children minus parent; where values are free, the scan left out what is the same for all splits."""
    cdef Sums right
    if scan.limits != NULL:
        return scan.gain
    right = sums_difference(&scan.total, &scan.left)
    return node_score(&scan.left, scan.l2) + node_score(&right, scan.l2) - scan.node_score


cdef void best_split_of_feature(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature, const Scan* start,
    const SplitRules* rules, ScanRoom* room, Split* best,
) noexcept nogil:
    """Write the feature's best split to `best`; its feature is -1 where no split is allowed or worth its gain."""
    cdef Scan scan = start[0]
    scan.monotone = feature.monotone
    best.feature = -1
    best.gain = 0.0
    if feature.is_categorical:
        scan_categories(histogram, layout, feature, rules, room, &scan)
    else:
        _scan_numeric(histogram, layout, feature, rules, room, &scan)
    if not scan.found:
        return
    best.gain = _whole_gain(&scan, rules)
    if best.gain > rules.min_gain:
        best.feature = feature.index
        best.bin = scan.bin
        best.missing_left = scan.missing_left
        best.category_set = -1
        best.left = scan.left
