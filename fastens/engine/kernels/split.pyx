"""The best split of a node from its histogram.

A split's gain is the score of the left side plus that of the right side minus that of the node, where the score of a
set of rows is G^2 / (H + lambda) (Chen & Guestrin 2016, eq. 7, without the factor 1/2). All sums are whole numbers,
so the gains do not depend on the order in which rows were added.
"""

from .structs cimport CellLayout, Feature, Histogram, Split, Sums, float64_t, int32_t, int64_t, uint32_t, uint64_t


cdef struct Scan:
    # The best split seen so far on one feature, as a fraction: comparing products needs no division.
    float64_t numerator
    float64_t denominator
    int32_t bin
    bint missing_left
    bint found
    Sums left


cdef float64_t node_score(const Sums* sums, float64_t l2) noexcept nogil:
    cdef float64_t hessian = <float64_t>sums.hessian + l2
    return <float64_t>sums.gradient * <float64_t>sums.gradient / hessian if hessian > 0 else 0.0


cdef inline Sums _unpack(uint64_t word, const CellLayout* layout) noexcept nogil:
    cdef Sums sums
    sums.count = <int64_t>(word & layout.count_mask)
    sums.hessian = <int64_t>((word >> layout.hessian_shift) & layout.hessian_mask)
    sums.gradient = <int64_t>(word >> layout.gradient_shift) - layout.gradient_bias * sums.count
    sums.weight = sums.count
    return sums


cdef inline Sums _cell(const Histogram* histogram, Py_ssize_t cell, Py_ssize_t n_cells, const CellLayout* layout) noexcept nogil:
    cdef Sums sums
    cdef int64_t counts
    if histogram.packed:
        return _unpack(<uint64_t>histogram.cells[cell], layout)
    sums.gradient = histogram.cells[cell]
    sums.hessian = histogram.cells[n_cells + cell]
    counts = histogram.cells[2 * n_cells + cell]
    sums.count = <int64_t><uint32_t>counts
    sums.weight = counts >> 32
    return sums


cdef inline void _add(Sums* into, const Sums* other) noexcept nogil:
    into.gradient += other.gradient
    into.hessian += other.hessian
    into.count += other.count
    into.weight += other.weight


cdef Sums feature_sums(
    const Histogram* histogram, const Feature* feature, const CellLayout* layout, Py_ssize_t n_cells
) noexcept nogil:
    """The sums over all rows of the node."""
    cdef Sums total, cell
    cdef int32_t code
    total.gradient = total.hessian = total.count = total.weight = 0
    for code in range(feature.n_codes):
        cell = _cell(histogram, feature.offset + code, n_cells, layout)
        _add(&total, &cell)
    return total


cdef inline void _consider(
    const Sums* left, const Sums* total, const SplitRules* rules, float64_t l2, int32_t code, bint missing_left, Scan* scan,
) noexcept nogil:
    """Keep the split with these rows on the left if it is allowed and better than the best so far."""
    cdef float64_t left_gradient, right_gradient, left_hessian, right_hessian, numerator, denominator
    if left.hessian < rules.min_hessian or total.hessian - left.hessian < rules.min_hessian:
        return
    if left.weight < rules.min_weight or total.weight - left.weight < rules.min_weight:
        return
    left_gradient = <float64_t>left.gradient
    right_gradient = <float64_t>(total.gradient - left.gradient)
    left_hessian = <float64_t>left.hessian + l2
    right_hessian = <float64_t>(total.hessian - left.hessian) + l2
    numerator = left_gradient * left_gradient * right_hessian + right_gradient * right_gradient * left_hessian
    denominator = left_hessian * right_hessian
    if numerator * scan.denominator > scan.numerator * denominator:
        scan.numerator = numerator
        scan.denominator = denominator
        scan.bin = code
        scan.missing_left = missing_left
        scan.found = True
        scan.left = left[0]


cdef inline void _scan_packed(
    const uint64_t* cells, int32_t last, bint missing_left, const CellLayout* layout,
    const Sums* total, const SplitRules* rules, Scan* scan,
) noexcept nogil:
    """Splits `code <= 1 .. last`; an empty cell gives the split of the cell before it."""
    cdef uint64_t word = cells[0] if missing_left else 0
    cdef int64_t count
    cdef int32_t code
    cdef Sums left
    for code in range(1, last + 1):
        if cells[code] == 0:
            continue
        word += cells[code]
        count = <int64_t>(word & layout.count_mask)
        if count < rules.min_count:
            continue
        if total.count - count < rules.min_count:
            break
        left = _unpack(word, layout)
        _consider(&left, total, rules, rules.l2, code, missing_left, scan)


cdef inline void _scan_wide(
    const Histogram* histogram, Py_ssize_t n_cells, const Feature* feature, int32_t last, bint missing_left,
    const Sums* total, const SplitRules* rules, Scan* scan,
) noexcept nogil:
    cdef int32_t code
    cdef Sums left, cell
    left.gradient = left.hessian = left.count = left.weight = 0
    if missing_left:
        left = _cell(histogram, feature.offset, n_cells, NULL)
    for code in range(1, last + 1):
        cell = _cell(histogram, feature.offset + code, n_cells, NULL)
        if cell.count == 0:
            continue
        _add(&left, &cell)
        if left.count < rules.min_count:
            continue
        if total.count - left.count < rules.min_count:
            break
        _consider(&left, total, rules, rules.l2, code, missing_left, scan)


cdef void _scan_numeric(
    const Histogram* histogram, Py_ssize_t n_cells, const CellLayout* layout, const Feature* feature,
    const Sums* total, const SplitRules* rules, Scan* scan,
) noexcept nogil:
    """Both directions of the missing rows where the node has some; else they will follow the larger side."""
    cdef Sums missing = _cell(histogram, feature.offset, n_cells, layout)
    cdef int32_t last = feature.n_codes - 1 if missing.count > 0 else feature.n_codes - 2
    if histogram.packed:
        _scan_packed(<uint64_t*>histogram.cells + feature.offset, last, False, layout, total, rules, scan)
    else:
        _scan_wide(histogram, n_cells, feature, last, False, total, rules, scan)
    if missing.count == 0:
        scan.missing_left = 2 * scan.left.count > total.count
        return
    if histogram.packed:
        _scan_packed(<uint64_t*>histogram.cells + feature.offset, last - 1, True, layout, total, rules, scan)
    else:
        _scan_wide(histogram, n_cells, feature, last - 1, True, total, rules, scan)


cdef int32_t _order_categories(
    const Histogram* histogram, Py_ssize_t n_cells, const CellLayout* layout, const Feature* feature,
    float64_t smoothing, CategoryOrder* order,
) noexcept nogil:
    """Sort the codes that the node has by smoothed gradient over hessian (ties by code); return how many there are."""
    cdef int32_t code, n = 0
    cdef Sums cell
    for code in range(feature.n_codes):
        cell = _cell(histogram, feature.offset + code, n_cells, layout)
        if cell.count > 0:
            order.keys[n] = <float64_t>cell.gradient / (<float64_t>cell.hessian + smoothing)
            order.codes[n] = code
            n += 1
    _heap_sort(order, n)
    return n


cdef inline bint _precedes(const CategoryOrder* order, int32_t a, int32_t b) noexcept nogil:
    return order.keys[a] < order.keys[b] or (order.keys[a] == order.keys[b] and order.codes[a] < order.codes[b])


cdef inline void _swap(CategoryOrder* order, int32_t a, int32_t b) noexcept nogil:
    order.keys[a], order.keys[b] = order.keys[b], order.keys[a]
    order.codes[a], order.codes[b] = order.codes[b], order.codes[a]


cdef void _heap_sort(CategoryOrder* order, int32_t n) noexcept nogil:
    cdef int32_t start, end
    for start in range(n // 2 - 1, -1, -1):
        _sift_down(order, start, n)
    for end in range(n - 1, 0, -1):
        _swap(order, 0, end)
        _sift_down(order, 0, end)


cdef void _sift_down(CategoryOrder* order, int32_t root, int32_t end) noexcept nogil:
    cdef int32_t child
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and _precedes(order, child, child + 1):
            child += 1
        if not _precedes(order, root, child):
            return
        _swap(order, root, child)
        root = child


cdef void _scan_categories(
    const Histogram* histogram, Py_ssize_t n_cells, const CellLayout* layout, const Feature* feature,
    const Sums* total, const SplitRules* rules, CategoryOrder* order, Scan* scan,
) noexcept nogil:
    """Splits of the ordered categories (Fisher 1958); `bin` says how many of them go left. Missing is one of them."""
    cdef int32_t n = _order_categories(histogram, n_cells, layout, feature, rules.category_smoothing, order)
    cdef int32_t k
    cdef Sums left, cell
    left.gradient = left.hessian = left.count = left.weight = 0
    for k in range(n - 1):
        cell = _cell(histogram, feature.offset + order.codes[k], n_cells, layout)
        _add(&left, &cell)
        if left.count < rules.min_count:
            continue
        if total.count - left.count < rules.min_count:
            break
        _consider(&left, total, rules, rules.l2 + rules.category_l2, k + 1, False, scan)


cdef void best_split_of_feature(
    const Histogram* histogram, Py_ssize_t n_cells, const CellLayout* layout, const Feature* feature,
    const Sums* total, const SplitRules* rules, CategoryOrder* order, Split* best,
) noexcept nogil:
    """Write the feature's best split to `best`; its feature is -1 where no split is allowed or worth its gain."""
    cdef Scan scan
    scan.numerator = 0.0
    scan.denominator = 1.0
    scan.found = False
    scan.left.count = 0
    best.feature = -1
    best.gain = 0.0
    if feature.is_categorical:
        _scan_categories(histogram, n_cells, layout, feature, total, rules, order, &scan)
    else:
        _scan_numeric(histogram, n_cells, layout, feature, total, rules, &scan)
    if not scan.found:
        return
    best.gain = scan.numerator / scan.denominator - node_score(total, rules.l2)
    if best.gain > rules.min_gain:
        best.feature = feature.index
        best.bin = scan.bin
        best.missing_left = scan.missing_left
        best.category_set = -1
        best.left = scan.left


cdef void write_category_set(
    const Histogram* histogram, Py_ssize_t n_cells, const CellLayout* layout, const Feature* feature,
    const SplitRules* rules, CategoryOrder* order, const Split* split, uint32_t* words,
) noexcept nogil:
    """Write the bit set of the codes that go left; codes that the node does not have go to its larger side."""
    cdef int32_t n = _order_categories(histogram, n_cells, layout, feature, rules.category_smoothing, order)
    cdef int32_t k, n_words = (feature.n_codes + 31) // 32
    cdef int32_t code
    cdef Sums total = feature_sums(histogram, feature, layout, n_cells)
    cdef bint absent_left = 2 * split.left.count > total.count
    for k in range(n_words):
        words[k] = ~<uint32_t>0 if absent_left else 0
    for k in range(n):
        code = order.codes[k]
        if k < split.bin:
            words[code // 32] |= <uint32_t>1 << (code % 32)
        else:
            words[code // 32] &= ~(<uint32_t>1 << (code % 32))
