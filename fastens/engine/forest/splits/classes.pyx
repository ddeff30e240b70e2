"""Splits of more than two classes: a group of rows changes the sums of squares (Gini), or of weights times their
logarithms (entropy), only for the classes it has."""

from fastens.engine.forest.splits.code_columns cimport code_at, column_of
from fastens.engine.forest.splits.score cimport word_weight
from fastens.engine.forest.splits.structs cimport CodeColumn, Entry, Layout, Search, keep_split, sum_of_logs
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t


cdef struct Side:
    # Whole numbers, so that what is added can be taken away again.
    const int64_t* logs             # NULL: squares
    int64_t sum                     # over the classes, of squares or of weights times their logarithms
    int64_t weight
    int64_t count
    uint64_t* weights               # of each class


cdef inline void _move_class(const Layout* layout, uint64_t word, int32_t k, Side* from_, Side* to) noexcept nogil:
    """Move rows of one class from one side to the other."""
    cdef int64_t weight = word_weight(layout, word), count = word & layout.count_mask
    if from_.logs == NULL:
        from_.sum -= weight * (2 * <int64_t>from_.weights[k] - weight)
        to.sum += weight * (2 * <int64_t>to.weights[k] + weight)
    else:
        from_.sum += from_.logs[from_.weights[k] - weight] - from_.logs[from_.weights[k]]
        to.sum += to.logs[to.weights[k] + weight] - to.logs[to.weights[k]]
    from_.weights[k] -= weight
    to.weights[k] += weight
    from_.weight -= weight
    to.weight += weight
    from_.count -= count
    to.count += count


cdef inline void _move(
    const Layout* layout, const uint64_t* cell, int32_t n_classes, Side* from_, Side* to
) noexcept nogil:
    """Move a group's rows from one side to the other."""
    cdef int32_t k
    for k in range(n_classes):
        if cell[k] != 0:
            _move_class(layout, cell[k], k, from_, to)


cdef inline int64_t _of_class(const Side* side, int32_t k) noexcept nogil:
    """What a class adds to the sum."""
    return <int64_t>(side.weights[k] * side.weights[k]) if side.logs == NULL else side.logs[side.weights[k]]


cdef inline float64_t _score(const Side* left, const Side* right) noexcept nogil:
    """Of both sides together."""
    cdef int64_t entropy
    if left.logs == NULL:
        return <float64_t>left.sum / <float64_t>left.weight + <float64_t>right.sum / <float64_t>right.weight
    entropy = left.sum - left.logs[left.weight] + right.sum - right.logs[right.weight]
    return sum_of_logs(entropy)


cdef void _start(Search* search, Side* left, Side* right) noexcept nogil:
    """All rows on the right."""
    cdef int32_t k, n_classes = search.forest.targets.n_stats
    left.logs = right.logs = search.forest.rules.logs
    left.sum = left.weight = left.count = right.sum = 0
    left.weights, right.weights = search.left, search.left + n_classes
    right.weight, right.count = search.weight, search.n_all
    for k in range(n_classes):
        left.weights[k] = 0
        right.weights[k] = <uint64_t>word_weight(&search.sample.layout, search.total[k])
        right.sum += _of_class(right, k)


cdef inline bint _is_allowed(const Search* search, const Side* side) noexcept nogil:
    return side.weight >= search.sample.min_weight and (
        search.sample.layout.count_mask == 0 or side.count >= search.forest.limits.min_samples_leaf
    )


cdef inline void _consider(
    Search* search, const Side* left, const Side* right, int32_t position, bint missing_left
) noexcept nogil:
    """Keep a split if it is allowed and better than the best so far."""
    cdef float64_t gain
    if not (_is_allowed(search, left) and _is_allowed(search, right)):
        return
    gain = _score(left, right) - search.score
    if gain > search.best.gain:
        keep_split(search, gain, position, missing_left)
        search.best.left_weight = left.weight


cdef void scan_classes(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil:
    """The splits with the groups first .. k on the left, k = first .. last."""
    cdef const Layout* layout = &search.sample.layout
    cdef Side left, right
    cdef int32_t j, n_classes = search.forest.targets.n_stats
    _start(search, &left, &right)
    if missing_left:
        _move(layout, search.found, n_classes, &right, &left)
    for j in range(first, last + 1):
        _move(layout, search.found + <Py_ssize_t>j * n_classes, n_classes, &right, &left)
        _consider(search, &left, &right, j, missing_left)


cdef inline void _sort_rows(const Search* search, uint32_t* keys) noexcept nogil:
    """The codes and places of a few rows, ascending."""
    cdef CodeColumn column = column_of(search, search.feature, search.rows, search.n_rows, 0)
    cdef int32_t i, j
    cdef uint32_t key
    for i in range(<int32_t>search.n_rows):
        key = code_at(search.forest.table.code_size, &column, search.rows[i].row) << 8 | <uint32_t>i
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


cdef inline void _scan_sorted(Search* search, const uint32_t* keys, bint missing_left) noexcept nogil:
    """Every threshold between rows that are in order, with missing rows, which come first, on one side."""
    cdef Side left, right
    cdef int32_t i, group = 0, n = <int32_t>search.n_rows
    cdef bint stays = keys[0] >> 8 == 0 and not missing_left
    cdef const Entry* row
    _start(search, &left, &right)
    for i in range(n):
        if not (stays and group == 0):
            row = &search.rows[keys[i] & 255]
            _move_class(&search.sample.layout, row.word, <int32_t>row.offset, &right, &left)
        if i + 1 < n and keys[i + 1] >> 8 == keys[i] >> 8:
            continue
        # Not: all rows on one side, nor missing ones alone, which is a split of the other kind.
        if right.weight > 0 and not (keys[0] >> 8 == 0 and group == 0):
            _consider(search, &left, &right, group, missing_left)
        group += 1


cdef void search_few(Search* search) noexcept nogil:
    """Every threshold of a numeric feature for few rows, which are sorted rather than counted."""
    cdef uint32_t[FEW_ROWS] keys
    cdef int32_t i
    _sort_rows(search, keys)
    search.n_groups, search.is_set = 0, False
    for i in range(<int32_t>search.n_rows):
        if i == 0 or keys[i] >> 8 != keys[i - 1] >> 8:
            search.codes[search.n_groups] = <uint16_t>(keys[i] >> 8)
            search.n_groups += 1
    if search.n_groups > 1:
        _scan_sorted(search, keys, False)
        if search.codes[0] == 0:
            _scan_sorted(search, keys, True)
