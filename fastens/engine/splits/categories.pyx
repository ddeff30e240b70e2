"""Splits on sets of categories.

The categories of a node are put in order of gradient over hessian, and the best split of that order is the best of all
for squared error (Fisher 1958). Many categories of few rows make that order follow the noise, so rare ones are pooled,
the order is smoothed, the gain is penalised and the smaller side may be limited. A feature of few categories splits
one of them off instead, without any of that.
"""

from fastens.engine.histograms.cells cimport Sums, add_sums, clear_sums
from fastens.engine.splits.gain cimport (
    FeatureCells, Scan, ScanRoom, Split, SplitRules, consider, is_large_enough, leaves_enough, sums_of_code
)
from fastens.engine.structs cimport Feature, float64_t, int32_t, int64_t, uint32_t

cdef enum:
    FEW_CODES = 32                  # up to so many, insertion sort is fastest


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
    if n <= FEW_CODES:
        for end in range(1, n):
            _insert(room, end)
        return
    for start in range(n // 2 - 1, -1, -1):
        _sift_down(room, start, n)
    for end in range(n - 1, 0, -1):
        _swap(room, 0, end)
        _sift_down(room, 0, end)


cdef inline void _insert(ScanRoom* room, int32_t place) noexcept nogil:
    """Move a code down to its place among those before it, which are sorted."""
    cdef float64_t key = room.keys[place]
    cdef int32_t code = room.codes[place]
    while place > 0 and (
        room.keys[place - 1] > key or (room.keys[place - 1] == key and room.codes[place - 1] > code)
    ):
        room.keys[place] = room.keys[place - 1]
        room.codes[place] = room.codes[place - 1]
        place -= 1
    room.keys[place] = key
    room.codes[place] = code


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


cdef inline void _put(uint32_t* words, int32_t code, bint left) noexcept nogil:
    cdef uint32_t bit = <uint32_t>1 << (code % 32)
    if left:
        words[code // 32] |= bit
    else:
        words[code // 32] &= ~bit


cdef void write_category_set(const FeatureCells* cells, const Split* split, uint32_t* words) noexcept nogil:
    """Write the bit set of the codes that go left; codes that the node does not have go to its larger side."""
    cdef int32_t code, k, n = order_categories(cells)
    cdef bint one_hot = is_one_hot(cells.feature, cells.rules), left
    cdef int64_t hessian = 0, count
    for k in range(n):
        hessian += _sums_of_place(cells, k).hessian
    for k in range((cells.feature.n_codes + 31) // 32):
        words[k] = ~<uint32_t>0 if 2 * split.left.hessian > hessian else 0
    for k in range(n):
        left = k == split.bin - 1 if one_hot else k < split.bin
        if cells.room.codes[k] != POOL:
            _put(words, cells.room.codes[k], left)
            continue
        for code in range(1, cells.feature.n_codes):
            count = sums_of_code(cells, code).count
            if count > 0 and is_rare(code, count, cells.rules):
                _put(words, code, left)
