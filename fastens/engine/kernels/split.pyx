"""The best split of a node from its histogram.

A split's gain is the score of the left side plus that of the right side minus that of the node, where the score of a
set of rows is G^2 / (H + lambda) (Chen & Guestrin 2016, eq. 7, without the factor 1/2). All sums are whole numbers,
so the gains do not depend on the order in which rows were added.
"""

from .structs cimport CellLayout, Feature, Histogram, Split, Sums, float64_t, int32_t, int64_t, uint32_t, uint64_t


cdef extern from "scan.h" nogil:
    ctypedef struct ScanNode:
        uint64_t count_mask
        uint64_t hessian_mask
        int32_t gradient_shift
        int32_t hessian_shift
        float64_t gradient_bias
        float64_t ratio
        float64_t hessian
        float64_t l2
        float64_t min_hessian
        float64_t max_hessian

    void split_gains(const uint64_t* sums, Py_ssize_t n, const ScanNode* node, float64_t* gains)
    void largest(const float64_t* values, Py_ssize_t n, float64_t* result)


cdef struct Scan:
    # The search over the splits of one feature. With G, H the node's sums (H with lambda once for each side) and G_l,
    # H_l those of the left side, the gain is a constant plus (G_l - G H_l / H)^2 / (H_l H_r): one division a split.
    Sums total
    float64_t ratio                 # G / H
    float64_t hessian               # H
    float64_t l2
    # the best split so far
    float64_t gain
    int32_t bin
    bint missing_left
    bint found
    Sums left


cdef void _start_scan(const Sums* total, float64_t l2, Scan* scan) noexcept nogil:
    scan.total = total[0]
    scan.l2 = l2
    scan.hessian = <float64_t>total.hessian + 2.0 * l2
    scan.ratio = <float64_t>total.gradient / scan.hessian if scan.hessian > 0 else 0.0
    scan.gain = 0.0
    scan.found = False
    scan.left.count = 0


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


cdef inline Sums _cell(const Histogram* histogram, Py_ssize_t cell, const CellLayout* layout) noexcept nogil:
    cdef Sums sums
    cdef int64_t counts
    if histogram.packed:
        return _unpack(<uint64_t>histogram.cells[cell], layout)
    sums.gradient = histogram.cells[3 * cell]
    sums.hessian = histogram.cells[3 * cell + 1]
    counts = histogram.cells[3 * cell + 2]
    sums.count = <int64_t><uint32_t>counts
    sums.weight = counts >> 32
    return sums


cdef inline void _add(Sums* into, const Sums* other) noexcept nogil:
    into.gradient += other.gradient
    into.hessian += other.hessian
    into.count += other.count
    into.weight += other.weight


cdef Sums feature_sums(
    const Histogram* histogram, const Feature* feature, const CellLayout* layout
) noexcept nogil:
    """The sums over all rows of the node."""
    cdef Sums total, cell
    cdef int32_t code
    total.gradient = total.hessian = total.count = total.weight = 0
    for code in range(feature.n_codes):
        cell = _cell(histogram, feature.offset + code, layout)
        _add(&total, &cell)
    return total


cdef inline void _keep(float64_t gain, int32_t code, bint missing_left, Scan* scan) noexcept nogil:
    scan.gain = gain
    scan.bin = code
    scan.missing_left = missing_left
    scan.found = True


cdef inline void _consider(
    const Sums* sums, const SplitRules* rules, int32_t code, bint missing_left, Scan* scan
) noexcept nogil:
    """Keep the split with these sums on the left if it is allowed and better than the best so far."""
    cdef float64_t left, distance, gain
    if sums.hessian < rules.min_hessian or scan.total.hessian - sums.hessian < rules.min_hessian:
        return
    left = <float64_t>sums.hessian + scan.l2
    distance = <float64_t>sums.gradient - scan.ratio * left
    gain = distance * distance / (left * (scan.hessian - left))
    if gain > scan.gain:
        _keep(gain, code, missing_left, scan)
        scan.left = sums[0]


cdef void _scan_packed(
    const uint64_t* cells, int32_t last, bint missing_left, const CellLayout* layout, const SplitRules* rules,
    ScanRoom* room, Scan* scan,
) noexcept nogil:
    """Splits `code <= 1 .. last` with a value on the left; of codes that make the same split, the first."""
    cdef ScanNode node
    cdef uint64_t sum_ = cells[0] if missing_left else 0
    cdef int64_t some_value = <int64_t>(sum_ & layout.count_mask) + 1
    cdef Py_ssize_t i, first, end
    cdef float64_t gain
    for i in range(last):
        sum_ += cells[i + 1]
        room.sums[i] = sum_
    first = first_with(room.sums, last, layout.count_mask, max(rules.min_count, some_value))
    end = first_with(room.sums, last, layout.count_mask, scan.total.count - rules.min_count + 1)
    node.count_mask = layout.count_mask
    node.hessian_mask = layout.hessian_mask
    node.gradient_shift = layout.gradient_shift
    node.hessian_shift = layout.hessian_shift
    node.gradient_bias = <float64_t>layout.gradient_bias
    node.ratio, node.hessian, node.l2 = scan.ratio, scan.hessian, scan.l2
    node.min_hessian = <float64_t>rules.min_hessian
    node.max_hessian = <float64_t>(scan.total.hessian - rules.min_hessian)
    split_gains(room.sums + first, end - first, &node, room.keys)
    largest(room.keys, end - first, &gain)
    if gain > scan.gain:
        i = 0
        while room.keys[i] != gain:
            i += 1
        _keep(gain, <int32_t>(first + i + 1), missing_left, scan)
        scan.left = _unpack(room.sums[first + i], layout)


cdef void _scan_wide(
    const Histogram* histogram, const Feature* feature, int32_t last, bint missing_left,
    const SplitRules* rules, Scan* scan,
) noexcept nogil:
    cdef int32_t code
    cdef Sums left, cell
    left.gradient = left.hessian = left.count = left.weight = 0
    if missing_left:
        left = _cell(histogram, feature.offset, NULL)
    for code in range(1, last + 1):
        cell = _cell(histogram, feature.offset + code, NULL)
        if cell.count == 0:
            continue
        _add(&left, &cell)
        if not _is_large_enough(&left, rules):
            continue
        if not _leaves_enough(&left, &scan.total, rules):
            break
        _consider(&left, rules, code, missing_left, scan)


cdef inline bint _is_large_enough(const Sums* left, const SplitRules* rules) noexcept nogil:
    return left.count >= rules.min_count and left.weight >= rules.min_weight


cdef inline bint _leaves_enough(const Sums* left, const Sums* total, const SplitRules* rules) noexcept nogil:
    return total.count - left.count >= rules.min_count and total.weight - left.weight >= rules.min_weight


cdef void _scan_numeric(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature,
    const SplitRules* rules, ScanRoom* room, Scan* scan,
) noexcept nogil:
    """Both directions of the missing rows where the node has some; else they will follow the larger side."""
    cdef Sums missing = _cell(histogram, feature.offset, layout)
    cdef const uint64_t* cells = <const uint64_t*>histogram.cells + feature.offset
    cdef int32_t last = feature.n_codes - 1 if missing.count > 0 else feature.n_codes - 2
    if histogram.packed:
        _scan_packed(cells, last, False, layout, rules, room, scan)
    else:
        _scan_wide(histogram, feature, last, False, rules, scan)
    if missing.count == 0:
        scan.missing_left = 2 * scan.left.hessian > scan.total.hessian
        return
    if histogram.packed:
        _scan_packed(cells, last - 1, True, layout, rules, room, scan)
    else:
        _scan_wide(histogram, feature, last - 1, True, rules, scan)


cdef int32_t _order_categories(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature,
    float64_t smoothing, ScanRoom* room,
) noexcept nogil:
    """Sort the codes that the node has by smoothed gradient over hessian (ties by code); return how many there are."""
    cdef int32_t code, n = 0
    cdef Sums cell
    for code in range(feature.n_codes):
        cell = _cell(histogram, feature.offset + code, layout)
        if cell.count > 0:
            room.keys[n] = <float64_t>cell.gradient / (<float64_t>cell.hessian + smoothing)
            room.codes[n] = code
            n += 1
    sort_codes(room, n)
    return n


cdef inline bint _precedes(const ScanRoom* room, int32_t a, int32_t b) noexcept nogil:
    return room.keys[a] < room.keys[b] or (room.keys[a] == room.keys[b] and room.codes[a] < room.codes[b])


cdef inline void _swap(ScanRoom* room, int32_t a, int32_t b) noexcept nogil:
    room.keys[a], room.keys[b] = room.keys[b], room.keys[a]
    room.codes[a], room.codes[b] = room.codes[b], room.codes[a]


cdef void sort_codes(ScanRoom* room, int32_t n) noexcept nogil:
    """Sort the codes by their keys, those of equal keys by themselves."""
    cdef int32_t start, end
    for start in range(n // 2 - 1, -1, -1):
        _sift_down(room, start, n)
    for end in range(n - 1, 0, -1):
        _swap(room, 0, end)
        _sift_down(room, 0, end)


cdef void _sift_down(ScanRoom* room, int32_t root, int32_t end) noexcept nogil:
    cdef int32_t child
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and _precedes(room, child, child + 1):
            child += 1
        if not _precedes(room, root, child):
            return
        _swap(room, root, child)
        root = child


cdef void _scan_categories(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature,
    const SplitRules* rules, ScanRoom* room, Scan* scan,
) noexcept nogil:
    """Splits of the ordered categories (Fisher 1958); `bin` says how many of them go left. Missing is one of them."""
    cdef int32_t n = _order_categories(histogram, layout, feature, rules.category_smoothing, room)
    cdef int32_t k
    cdef Sums left, cell
    left.gradient = left.hessian = left.count = left.weight = 0
    for k in range(n - 1):
        cell = _cell(histogram, feature.offset + room.codes[k], layout)
        _add(&left, &cell)
        if not _is_large_enough(&left, rules):
            continue
        if not _leaves_enough(&left, &scan.total, rules):
            break
        _consider(&left, rules, k + 1, False, scan)


cdef void best_split_of_feature(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature,
    const Sums* total, const SplitRules* rules, ScanRoom* room, Split* best,
) noexcept nogil:
    """Write the feature's best split to `best`; its feature is -1 where no split is allowed or worth its gain."""
    cdef Scan scan
    cdef Sums right
    best.feature = -1
    best.gain = 0.0
    if feature.is_categorical:
        _start_scan(total, rules.l2 + rules.category_l2, &scan)
        _scan_categories(histogram, layout, feature, rules, room, &scan)
    else:
        _start_scan(total, rules.l2, &scan)
        _scan_numeric(histogram, layout, feature, rules, room, &scan)
    if not scan.found:
        return
    right.gradient = total.gradient - scan.left.gradient
    right.hessian = total.hessian - scan.left.hessian
    best.gain = node_score(&scan.left, scan.l2) + node_score(&right, scan.l2) - node_score(total, rules.l2)
    if best.gain > rules.min_gain:
        best.feature = feature.index
        best.bin = scan.bin
        best.missing_left = scan.missing_left
        best.category_set = -1
        best.left = scan.left


cdef void write_category_set(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature,
    const SplitRules* rules, ScanRoom* room, const Split* split, uint32_t* words,
) noexcept nogil:
    """Write the bit set of the codes that go left; codes that the node does not have go to its larger side."""
    cdef int32_t n = _order_categories(histogram, layout, feature, rules.category_smoothing, room)
    cdef int32_t k, n_words = (feature.n_codes + 31) // 32
    cdef int32_t code
    cdef Sums total = feature_sums(histogram, feature, layout)
    cdef bint absent_left = 2 * split.left.hessian > total.hessian
    for k in range(n_words):
        words[k] = ~<uint32_t>0 if absent_left else 0
    for k in range(n):
        code = room.codes[k]
        if k < split.bin:
            words[code // 32] |= <uint32_t>1 << (code % 32)
        else:
            words[code // 32] &= ~(<uint32_t>1 << (code % 32))
