"""Splits on sets of categories.

The categories of a node are put in order of gradient over hessian (see order.pyx), and the best split of that order is
the best of all for squared error. Many categories of few rows make that order follow the noise, so rare ones are
pooled, the order is smoothed, the gain is penalised and the smaller side may be limited. A feature of few categories
splits one of them off instead, without any of that.
"""

from fastens.engine.splits.goes_left cimport set_fill, set_put
from fastens.engine.histograms.cells cimport Sums, add_sums, clear_sums
from fastens.engine.splits.gain cimport (
    FeatureCells, Scan, ScanRoom, Split, SplitRules, consider, is_large_enough, leaves_enough, sums_of_code
)
from fastens.engine.splits.order cimport sort_by_key
from fastens.engine.structs cimport Feature, float64_t, int32_t, int64_t, uint32_t

cdef float64_t category_penalty(const Feature* feature, const SplitRules* rules) noexcept nogil:
    """What is added to lambda for the freedom of choosing a set."""
    return 0.0 if is_one_hot(feature, rules) else rules.category_l2


cdef inline void _append(ScanRoom* room, int32_t n, int32_t code, const Sums* sums, float64_t smoothing) noexcept nogil:
    room.keys[n] = <float64_t>sums.gradient / (<float64_t>sums.hessian + smoothing)
    room.codes[n] = code


cdef int32_t order_categories(const FeatureCells* cells) noexcept nogil:
    """Sort the node's categories, the rare ones as one, by smoothed gradient over hessian; return how many they are."""
    cdef const SplitRules* rules = cells.rules
    cdef ScanRoom* room = cells.room
    cdef int32_t code, n = 0
    cdef Sums cell
    clear_sums(&room.pooled)
    for code in range(cells.feature.n_codes):
        cell = sums_of_code(cells, code)
        if cell.count == 0:
            continue
        if is_rare(code, cell.count, rules):
            add_sums(&room.pooled, &cell)
        else:
            _append(room, n, code, &cell, rules.category_smoothing)
            n += 1
    if room.pooled.count > 0:
        _append(room, n, POOL, &room.pooled, rules.category_smoothing)
        n += 1
    sort_by_key(room.keys, room.codes, n)
    return n


cdef inline Sums _sums_of_place(const FeatureCells* cells, int32_t place) noexcept nogil:
    cdef int32_t code = cells.room.codes[place]
    return cells.room.pooled if code == POOL else sums_of_code(cells, code)


cdef void scan_categories(const FeatureCells* cells, Scan* scan) noexcept nogil:
    """The best split of the ordered categories; `bin` is the place of the last one on the left, counted from 1."""
    cdef const SplitRules* rules = cells.rules
    cdef int32_t k, n = order_categories(cells)
    cdef bint one_hot = is_one_hot(cells.feature, rules)
    cdef int32_t most = rules.max_categories if rules.max_categories > 0 else n
    cdef Sums left, cell
    clear_sums(&left)
    for k in range(n if one_hot and n > 2 else n - 1):
        cell = _sums_of_place(cells, k)
        if one_hot:
            clear_sums(&left)
        add_sums(&left, &cell)
        if not is_large_enough(&left, rules) or (k + 1 > most and n - k - 1 > most):
            continue
        if not leaves_enough(&left, &scan.total, rules):
            if one_hot:
                continue
            break
        consider(&left, rules, k + 1, False, scan)


cdef void write_category_set(const FeatureCells* cells, const Split* split, uint32_t* words) noexcept nogil:
    """Write the bit set of the codes that go left; codes that the node does not have go to its larger side."""
    cdef int32_t code, k, n = order_categories(cells)
    cdef bint one_hot = is_one_hot(cells.feature, cells.rules), left
    cdef int64_t hessian = 0, count
    for k in range(n):
        hessian += _sums_of_place(cells, k).hessian
    set_fill(words, cells.feature.n_codes, 2 * split.left.hessian > hessian)
    for k in range(n):
        left = k == split.bin - 1 if one_hot else k < split.bin
        if cells.room.codes[k] != POOL:
            set_put(words, cells.room.codes[k], left)
            continue
        for code in range(1, cells.feature.n_codes):
            count = sums_of_code(cells, code).count
            if count > 0 and is_rare(code, count, cells.rules):
                set_put(words, code, left)
