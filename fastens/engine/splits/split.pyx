"""The best split of a node from its histogram.

A split's gain is the score of the left side plus that of the right side minus that of the node, where the score of a
set of rows is G^2 / (H + lambda) (Chen & Guestrin 2016, eq. 7, without the factor 1/2). All sums are whole numbers,
so the gains do not depend on the order in which rows were added.
"""

from libc.math cimport fabs

from fastens.engine.histograms.cells cimport (
    CellLayout, Histogram, Sums, add_sums, cell_sums, clear_sums, count_of, first_with_count, sums_difference, unpack
)
from fastens.engine.splits.categories cimport scan_categories
from fastens.engine.splits.features cimport Thresholds, threshold_at, thresholds_among
from fastens.engine.splits.gain cimport (
    FeatureCells, Scan, Split, SplitRules, consider, is_large_enough, keep_split, leaves_enough, node_score,
    sums_of_code
)
from fastens.engine.splits.goes_left cimport middle_code
from fastens.engine.splits.scan cimport (
    ScanNode, bound_gains, large_gains, large_sums, leave_out_light, ordered_gains, place_of, running_sums, split_gains
)
from fastens.engine.structs cimport Column, float64_t, int32_t, int64_t, uint64_t

cdef float64_t MARGIN = 2.0 ** -30


cdef Sums column_sums(const Histogram* histogram, const Column* column, const CellLayout* layout) noexcept nogil:
    """The sums over all rows of the node."""
    cdef Sums total, cell
    cdef int32_t code
    clear_sums(&total)
    for code in range(column.n_codes):
        cell = cell_sums(histogram, column.offset + code, layout)
        add_sums(&total, &cell)
    return total


cdef ScanNode node_of_scan(const CellLayout* layout, const SplitRules* rules, const Scan* scan) noexcept nogil:
    """The node as the loops over packed cells read it."""
    cdef ScanNode node
    node.layout = layout[0]
    node.ratio, node.hessian, node.l2 = scan.ratio, scan.hessian, scan.l2
    if scan.limits != NULL:
        node.total_gradient, node.total_hessian = <float64_t>scan.total.gradient, <float64_t>scan.total.hessian
        node.lower, node.upper = scan.limits.lower, scan.limits.upper
        node.smooth, node.smooth_gradient = rules.path_smooth, rules.path_smooth * scan.limits.value
        node.node_score = scan.node_score
    return node


cdef inline float64_t _gains(const uint64_t* sums, Py_ssize_t n, const Scan* scan, float64_t* gains) noexcept nogil:
    """Write what the splits gain; return the largest."""
    cdef float64_t largest
    if scan.limits != NULL:
        bound_gains(sums, n, scan.node, scan.monotone, gains, &largest)
    elif scan.monotone != 0:
        ordered_gains(sums, n, scan.node, scan.monotone, gains, &largest)
    else:
        split_gains(sums, n, scan.node, gains, &largest)
    return largest


cdef const uint64_t* look_at(uint64_t* sums, const Thresholds* among) noexcept nogil:
    """The running sums at the thresholds to look at, side by side, in place."""
    cdef Py_ssize_t k
    if not among.are_drawn:
        return sums + among.first
    for k in range(among.n):
        sums[k] = sums[threshold_at(among, k)]
    return sums


cdef void _scan_packed(const FeatureCells* cells, int32_t last, bint missing_left, Scan* scan) noexcept nogil:
    """Splits `code <= 1 .. last` with a value on the left; of codes that make the same split, the first."""
    cdef const CellLayout* layout = cells.layout
    cdef const uint64_t* words = <const uint64_t*>cells.histogram.cells + cells.feature.offset
    cdef uint64_t* sums = cells.room.sums
    cdef const uint64_t* lefts
    cdef uint64_t start = words[0] if missing_left else 0
    cdef int64_t some_value = count_of(start, layout) + 1, min_count = cells.rules.min_count
    cdef int64_t min_hessian = cells.rules.min_hessian
    cdef Py_ssize_t first, end
    cdef Thresholds among
    cdef float64_t gain
    running_sums(words + 1, last, start, sums)
    first = first_with_count(sums, last, layout, max(min_count, some_value))
    end = first_with_count(sums, last, layout, scan.total.count - min_count + 1)
    among = thresholds_among(cells, scan.total.count, first, end)
    lefts = look_at(sums, &among)
    first, end = 0, among.n
    leave_out_light(lefts, layout, min_hessian, scan.total.hessian - min_hessian, &first, &end)
    gain = _gains(lefts + first, end - first, scan, cells.room.keys)
    if gain > scan.gain:
        first += place_of(gain, cells.room.keys)
        keep_split(gain, <int32_t>(threshold_at(&among, first) + 1), missing_left, scan)
        scan.left = unpack(lefts[first], layout)


cdef void _scan_large(const FeatureCells* cells, int32_t last, bint missing_left, Scan* scan) noexcept nogil:
    """The same for packed cells without room for the sums over all codes, where values are free."""
    cdef const CellLayout* layout = cells.layout
    cdef const uint64_t* words = <const uint64_t*>cells.histogram.cells + cells.feature.offset
    cdef int64_t* counts = <int64_t*>cells.room.sums
    cdef float64_t* gradients = cells.room.gradients
    cdef float64_t* hessians = cells.room.hessians
    cdef uint64_t start = words[0] if missing_left else 0
    cdef int64_t least = max(cells.rules.min_count, count_of(start, layout) + 1)
    cdef float64_t min_hessian = <float64_t>cells.rules.min_hessian, gain
    cdef Py_ssize_t first = 0, end = last, k, i
    cdef Thresholds among
    large_sums(words + 1, last, start, layout, counts, gradients, hessians)
    while first < last and counts[first] < least:
        first += 1
    while end > first and scan.total.count - counts[end - 1] < cells.rules.min_count:
        end -= 1
    among = thresholds_among(cells, scan.total.count, first, end)
    for k in range(among.n if among.are_drawn else 0):
        i = threshold_at(&among, k)
        counts[k], gradients[k], hessians[k] = counts[i], gradients[i], hessians[i]
    i = 0 if among.are_drawn else among.first
    first, end = 0, among.n
    while first < end and hessians[i + first] < min_hessian:
        first += 1
    while end > first and <float64_t>scan.total.hessian - hessians[i + end - 1] < min_hessian:
        end -= 1
    large_gains(gradients + i + first, hessians + i + first, end - first, scan.node, cells.room.keys, &gain)
    if gain > scan.gain:
        k = first + place_of(gain, cells.room.keys)
        keep_split(gain, <int32_t>(threshold_at(&among, k) + 1), missing_left, scan)
        scan.left.count = scan.left.weight = counts[i + k]
        scan.left.gradient, scan.left.hessian = <int64_t>gradients[i + k], <int64_t>hessians[i + k]


cdef Thresholds thresholds_of_wide(
    const FeatureCells* cells, const Sums* total, int32_t last, bint missing_left
) noexcept nogil:
    """Those to look at, where packed cells do not hold the sums."""
    cdef Sums left, cell
    cdef int64_t n_missing = 0
    cdef Py_ssize_t i, first = last, end = last
    clear_sums(&left)
    if missing_left:
        left = sums_of_code(cells, 0)
        n_missing = left.count
    for i in range(last):
        cell = sums_of_code(cells, i + 1)
        add_sums(&left, &cell)
        if not leaves_enough(&left, total, cells.rules):
            end = i
            break
        if first == last and left.count > n_missing and is_large_enough(&left, cells.rules):
            first = i
    return thresholds_among(cells, total.count, first, end)


cdef void _scan_wide(const FeatureCells* cells, int32_t last, bint missing_left, Scan* scan) noexcept nogil:
    """The same, one split after the other, where packed cells do not hold the sums."""
    cdef Thresholds among = thresholds_of_wide(cells, &scan.total, last, missing_left)
    cdef Py_ssize_t k, threshold, code = 1
    cdef Sums left, cell
    clear_sums(&left)
    if missing_left:
        left = sums_of_code(cells, 0)
    for k in range(among.n):
        threshold = threshold_at(&among, k)
        while code <= threshold + 1:
            cell = sums_of_code(cells, code)
            add_sums(&left, &cell)
            code += 1
        consider(&left, cells.rules, <int32_t>threshold + 1, missing_left, scan)


cdef inline bint _sums_are_packed(const FeatureCells* cells, const Scan* scan) noexcept nogil:
    """Whether packed cells hold the sums over all codes too."""
    return cells.histogram.packed and scan.total.count <= <int64_t>cells.layout.count_mask


cdef inline void _scan(const FeatureCells* cells, int32_t last, bint missing_left, Scan* scan) noexcept nogil:
    if _sums_are_packed(cells, scan):
        _scan_packed(cells, last, missing_left, scan)
    elif cells.histogram.packed and scan.limits == NULL and scan.monotone == 0:
        _scan_large(cells, last, missing_left, scan)
    else:
        _scan_wide(cells, last, missing_left, scan)


cdef void _scan_numeric(const FeatureCells* cells, Scan* scan) noexcept nogil:
    """Both directions of the missing rows where the node has some; else they will follow the larger side."""
    cdef bint has_missing = sums_of_code(cells, 0).count > 0
    cdef int32_t last = cells.feature.n_codes - 2
    _scan(cells, last + has_missing, False, scan)
    if has_missing:
        _scan(cells, last, True, scan)
    else:
        scan.missing_left = 2 * scan.left.hessian > scan.total.hessian


cdef int32_t centre_of_gap(const FeatureCells* cells, int32_t code) noexcept nogil:
    """The code in whose place a threshold after `code` stands: in the middle between values that the node has; all
    values go left where the node has none above."""
    cdef int32_t low = code, high = code + 1, n_codes = cells.feature.n_codes
    while high < n_codes and sums_of_code(cells, high).count == 0:
        high += 1
    if high == n_codes:
        return n_codes - 1
    while low > 1 and sums_of_code(cells, low).count == 0:
        low -= 1
    return middle_code(cells.feature.thresholds, low, high)


cdef float64_t _whole_gain(const Scan* scan) noexcept nogil:
    """Children minus parent; where values are free, the scan left out what is the same for all splits."""
    cdef Sums right
    if scan.limits != NULL:
        return scan.gain
    right = sums_difference(&scan.total, &scan.left)
    return node_score(&scan.left, scan.l2) + node_score(&right, scan.l2) - scan.node_score


cdef inline float64_t _least_gain(const Scan* scan, float64_t worth) noexcept nogil:
    """A gain of the scan up to which a split is worth less than `worth`, children minus parent.

    By a margin: from sums of at most 2**25 steps of hessian the two follow but for 2**-37 of them or of the scores.
    """
    cdef float64_t least = worth - (worth + fabs(scan.node_score)) * MARGIN
    if scan.limits == NULL:
        least = (least + scan.node_score - scan.ratio * <float64_t>scan.total.gradient) / scan.hessian
    return max(least, 0.0)


cdef void best_split_of_feature(
    const FeatureCells* cells, const Scan* start, const Split* so_far, Split* best
) noexcept nogil:
    """Write the feature's best split to `best`.

    Its feature is -1 where no split is allowed or worth its gain, or all are worse than the best of other features.
    """
    cdef Scan scan = start[0]
    scan.monotone = cells.feature.monotone
    if so_far.feature >= 0 and _sums_are_packed(cells, &scan):
        scan.gain = _least_gain(&scan, so_far.gain)
    best.feature = -1
    best.gain = 0.0
    if cells.feature.is_categorical:
        scan_categories(cells, &scan)
    else:
        _scan_numeric(cells, &scan)
    if not scan.found:
        return
    best.gain = _whole_gain(&scan)
    if best.gain > cells.rules.min_gain:
        best.feature = cells.feature.index
        best.bin = scan.bin if cells.feature.is_categorical else centre_of_gap(cells, scan.bin)
        best.missing_left = scan.missing_left
        best.category_set = -1
        best.left = scan.left
