"""Best split of one feature from sums by code: reading codes, grouping rows, scoring and scanning."""

from fastens.engine.forest.splits.structs cimport (
    Cells, CodeColumn, Entry, FEATURES_AT_ONCE, Forest, ForestTable, FoundSplit, Layout, Search, keep_split,
    sum_of_logs
)
from fastens.engine.splits.workspace cimport SQUARES, gain_of_squares, score_of_sums
from fastens.engine.structs cimport code_t, float64_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memset
from fastens.engine.paths cimport add_feature, mask_words
from fastens.engine.rows.stored_rows cimport place_of_row
from libc.math cimport sqrt
from fastens.engine.splits.split cimport sort_by_key
from fastens.engine.forest.splits.threshold cimport random_code
from fastens.engine.splits.goes_left cimport middle_code, set_fill, set_put
from fastens.engine.histograms.cells cimport first_with_count
from fastens.engine.random cimport random_below, random_bits
from fastens.engine.splits.scan cimport ScanNode, leave_out_light, place_of, split_gains


cdef int64_t words_weight(const Search* search, const uint64_t* words) noexcept nogil:
    """Return the total weight, in fixed-point units, of the rows summed in a cell's words."""
    cdef const Forest* forest = search.forest
    cdef const Layout* layout = &search.sample.layout
    cdef int64_t weight = 0
    cdef int32_t k
    if layout.packed:
        return word_weight(layout, words[0])
    if forest.targets.classes == NULL:
        return word_weight(layout, words[forest.targets.n_stats])
    for k in range(forest.targets.first_stat[1]):
        weight += word_weight(layout, words[k])
    return weight


cdef int64_t words_count(const Search* search, const uint64_t* words) noexcept nogil:
    """Return the number of rows summed in a cell's words; it is 0 if the layout does not keep counts."""
    cdef const Forest* forest = search.forest
    cdef uint64_t count_mask = search.sample.layout.count_mask
    cdef int64_t count = 0
    cdef int32_t k
    if search.sample.layout.packed:
        return <int64_t>(words[0] & count_mask)
    if forest.targets.classes == NULL:
        return <int64_t>(words[forest.targets.n_stats] & count_mask)
    for k in range(forest.targets.first_stat[1]):
        count += <int64_t>(words[k] & count_mask)
    return count


cdef int32_t _write_stats(const Search* search, const uint64_t* words) noexcept nogil:
    """Write the sums that the criterion scores, read from a cell's words, to search.stats; return their number."""
    cdef const Forest* forest = search.forest
    cdef const Layout* layout = &search.sample.layout
    cdef float64_t* stats = search.stats
    cdef int32_t k
    if layout.packed:
        stats[0] = <float64_t>(words[0] >> layout.number_shift)
        if forest.targets.classes == NULL or forest.rules.criterion == SQUARES:
            return 1
        stats[1] = <float64_t>word_weight(layout, words[0]) - stats[0]
        return 2
    for k in range(forest.targets.n_stats):
        stats[k] = <float64_t>(words[k] if forest.targets.classes == NULL else word_weight(layout, words[k]))
    return forest.targets.n_stats


cdef float64_t _class_score(const Layout* layout, const uint64_t* words, Py_ssize_t n_classes) noexcept nogil:
    """Return sum(w_k^2) / sum(w_k) over the class weights w_k, each of which has its own word."""
    cdef Py_ssize_t k
    cdef float64_t of_class, squares = 0.0, weight = 0.0
    for k in range(n_classes):
        of_class = <float64_t>word_weight(layout, words[k])
        squares += of_class * of_class
        weight += of_class
    return squares / weight


cdef float64_t words_score(const Search* search, const uint64_t* words) noexcept nogil:
    """Return the criterion's score of the rows summed in a cell's words, or -infinity if it allows no such rows."""
    cdef int32_t n
    if has_class_words(search):
        return _class_score(&search.sample.layout, words, search.forest.targets.n_stats)
    n = _write_stats(search, words)
    return score_of_sums(search.forest.rules.criterion, search.stats, n, <float64_t>words_weight(search, words))


cdef float64_t words_value(const Search* search, const uint64_t* words) noexcept nogil:
    """Return the value of a cell's rows for monotone constraints: the share of the second class, or the mean."""
    cdef const Layout* layout = &search.sample.layout
    if layout.packed:
        return <float64_t>(words[0] >> layout.number_shift) / <float64_t>word_weight(layout, words[0])
    if search.forest.targets.classes == NULL:
        return <float64_t>words[0] / <float64_t>word_weight(layout, words[1])
    return <float64_t>word_weight(layout, words[1]) / <float64_t>(
        word_weight(layout, words[0]) + word_weight(layout, words[1])
    )


cdef bint is_monotone(const Search* search, float64_t left, float64_t right) noexcept nogil:
    """Return True if the children's values satisfy the feature's monotone constraint and the node's bounds."""
    return (
        (left - right) * search.forest.limits.monotone[search.feature] <= 0
        and min(left, right) >= search.lower
        and max(left, right) <= search.upper
    )


cdef bint is_pure_word(const Search* search, uint64_t total) noexcept nogil:
    """Return True if `total`, one packed word, shows that all rows belong to one class; False for other layouts."""
    cdef const Layout* layout = &search.sample.layout
    cdef uint64_t second = total >> layout.number_shift
    return search.forest.targets.classes != NULL and layout.packed and (
        second == 0 or second == (total >> layout.weight_shift) & layout.weight_mask
    )


cdef float64_t unit_of_gain(const Forest* forest, const Layout* layout) noexcept nogil:
    """Return the factor that converts gains of fixed-point sums in this layout to the units of the target."""
    cdef float64_t unit = 1.0 / (layout.weight_scale * forest.targets.n_targets)
    if forest.targets.classes == NULL:
        unit /= layout.number_scale * (layout.number_scale if forest.rules.criterion == SQUARES else 1.0)
    elif is_packed_squares(forest, layout):
        # Only the squares of one class's weight are summed, because the other class contributes the same gain.
        unit *= 2.0
    return unit


cdef enum:
    # Looking up a row in a column takes as long as reading this many stored codes.
    STORED_PER_LOOK = 8


cdef CodeColumn spread_column(
    Search* search, int32_t feature, const Entry* rows, Py_ssize_t n_rows, int32_t slot
) noexcept nogil:
    """Write these rows' codes of a sparse feature to buffer `slot` at the rows' indices; return the buffer to read."""
    cdef const ForestTable* table = &search.forest.table
    cdef void* codes = search.spread + slot * table.n_rows * table.code_size
    if table.code_size == 1:
        _scatter_codes(table, feature, rows, n_rows, <uint8_t*>codes)
    else:
        _scatter_codes(table, feature, rows, n_rows, <uint16_t*>codes)
    return CodeColumn(codes, 1)


cdef inline void _scatter_codes(
    const ForestTable* table, int32_t feature, const Entry* rows, Py_ssize_t n_rows, code_t* out
) noexcept nogil:
    """Write the codes of a sparse feature of these ascending rows to `out`, at the rows' indices."""
    cdef int64_t first = table.stored.first[feature]
    cdef Py_ssize_t i, place = 0, n_stored = table.stored.first[feature + 1] - first
    cdef const int32_t* stored_rows = table.stored.rows + first
    cdef const code_t* codes = (<const code_t*>table.stored.codes) + first
    cdef code_t zero = (<const code_t*>table.stored.zeros)[feature]
    for i in range(n_rows):
        out[rows[i].row] = zero
    if n_stored <= STORED_PER_LOOK * n_rows:
        for i in range(n_stored):
            out[stored_rows[i]] = codes[i]
        return
    for i in range(n_rows):
        place = place_of_row(stored_rows, n_stored, place, rows[i].row)
        if place == n_stored:
            return
        if <Py_ssize_t>stored_rows[place] == rows[i].row:
            out[rows[i].row] = codes[place]


cdef void mark_present_features(Search* search) noexcept nogil:
    """Mark in search.present the sparse features with a stored code in some row; set search.places of the rows."""
    cdef const ForestTable* table = &search.forest.table
    cdef const int64_t* of_row
    cdef Py_ssize_t i, k
    memset(search.present, 0, mask_words(table.n_features) * sizeof(search.present[0]))
    for i in range(search.n_rows):
        search.places[search.rows[i].row] = <uint32_t>i + 1
        of_row = table.stored.first_of_row + search.rows[i].row
        for k in range(of_row[0], of_row[1]):
            add_feature(search.present, table.stored.features[k])


cdef void reset_row_positions(Search* search) noexcept nogil:
    """Reset search.places of the node's rows, which `mark_present_features` set, to 0."""
    cdef Py_ssize_t i
    for i in range(search.n_rows):
        search.places[search.rows[i].row] = 0


cdef void count_stored(Search* search, int32_t feature, const Cells* to, bint marked) noexcept nogil:
    """Add the rows' words to their cells of a sparse feature; if `marked`, also mark the codes that occur.

    The cell of zeros is the node's total minus other cells.
    """
    cdef const ForestTable* table = &search.forest.table
    if table.code_size == 1:
        _count_stored_codes(search, feature, to, marked, table.stored.codes)
    else:
        _count_stored_codes(search, feature, to, marked, <const uint16_t*>table.stored.codes)


cdef inline void _count_stored_codes(
    Search* search, int32_t feature, const Cells* to, bint marked, const code_t* codes
) noexcept nogil:
    """Implement `count_stored` for `codes`, the stored codes of the table in one type."""
    cdef const ForestTable* table = &search.forest.table
    cdef int64_t first = table.stored.first[feature]
    cdef Py_ssize_t i, k, place = 0, n_found = 0, n_stored = table.stored.first[feature + 1] - first
    cdef Py_ssize_t n_words = search.sample.layout.n_words
    cdef const int32_t* stored_rows = table.stored.rows + first
    cdef uint32_t zero
    if code_t is uint8_t:
        zero = table.stored.zeros[feature]
    else:
        zero = (<const uint16_t*>table.stored.zeros)[feature]
    codes += first
    for k in range(n_words):
        to.cells[zero * n_words + k] += search.total[k]
    if n_stored <= STORED_PER_LOOK * search.n_rows:
        for i in range(n_stored):
            place = search.places[stored_rows[i]]
            if place > 0:
                _move_row(to, &search.rows[place - 1], codes[i], zero, n_words, marked)
                n_found += 1
    else:
        for i in range(search.n_rows):
            place = place_of_row(stored_rows, n_stored, place, search.rows[i].row)
            if place == n_stored:
                break
            if <uint32_t>stored_rows[place] == search.rows[i].row:
                _move_row(to, &search.rows[i], codes[place], zero, n_words, marked)
                n_found += 1
    if marked and n_found < search.n_rows:
        _mark_code(to, zero)


cdef inline void _move_row(
    const Cells* to, const Entry* entry, uint32_t code, uint32_t zero, Py_ssize_t n_words, bint marked
) noexcept nogil:
    """Move a row's packed statistics from the cell of code `zero` to the cell of `code`; mark `code` if `marked`."""
    cdef Py_ssize_t offset = 0 if n_words == 1 else entry.offset
    to.cells[code * n_words + offset] += entry.word
    to.cells[zero * n_words + offset] -= entry.word
    if marked:
        _mark_code(to, code)


cdef inline void _mark_code(const Cells* to, uint32_t code) noexcept nogil:
    """Mark a code as present in the bitmap of codes and in the summary of this bitmap."""
    to.marks[code >> 6] |= <uint64_t>1 << (code & 63)
    to.summary[code >> 12] |= <uint64_t>1 << ((code >> 6) & 63)


cdef extern from "engine/forest/splits/rows.h" nogil:
    void count_entries(
        int code_size, const CodeColumn* columns, const Cells* to, const Entry* rows, Py_ssize_t n_rows,
        Py_ssize_t n_words, int n_columns, int marked
    )
    int32_t collect_all(const Cells* cells, int32_t n_codes, Py_ssize_t n_words, uint16_t* codes, uint64_t* found)
    int32_t collect_marked(const Cells* cells, int code_size, Py_ssize_t n_words, uint16_t* codes, uint64_t* found)


cdef enum:
    AXIS_STEPS = 16                 # iterations of the power method, which are enough to order categories


cdef bint _adds_one_word(const Search* search) noexcept nogil:
    """Return True if each row adds a single word to a cell, rather than one word per target."""
    return search.sample.layout.packed or is_one_class_target(search.forest)


cdef bint _marks_codes(const Search* search) noexcept nogil:
    """Return True if counting marks the codes that occur, because reading all cells of a feature would cost more."""
    if search.sample.ranks != NULL:
        return False
    return 2 * search.n_rows < search.forest.table.max_codes or not _adds_one_word(search)


cdef void count_features(Search* search, const int32_t* features, int32_t n) noexcept nogil:
    """Add the words of the node's rows to search.cells[j] by their codes of features[j], for j < n.

    At most FEATURES_AT_ONCE features are counted.
    """
    cdef CodeColumn columns[FEATURES_AT_ONCE]
    cdef int32_t j
    if search.forest.table.stored.rows != NULL and _adds_one_word(search):
        for j in range(n):
            count_stored(search, features[j], &search.cells[j], _marks_codes(search))
        return
    for j in range(n):
        columns[j] = column_of(search, features[j], search.rows, search.n_rows, j)
    if _adds_one_word(search):
        count_entries(
            search.forest.table.code_size, columns, search.cells, search.rows, search.n_rows,
            search.sample.layout.n_words, n, _marks_codes(search),
        )
        return
    for j in range(n):
        _count_several_words(search, &search.cells[j], &columns[j])


cdef void _count_several_words(const Search* search, const Cells* to, const CodeColumn* column) noexcept nogil:
    """Add rows of several words each to the cells by their codes in `column`, and mark codes if that pays off."""
    cdef Py_ssize_t i, n_words = search.sample.layout.n_words
    cdef uint32_t code
    cdef bint marked = _marks_codes(search)
    for i in range(search.n_rows):
        code = code_at(search.forest.table.code_size, column, search.rows[i].row)
        add_row(search, &search.rows[i], to.cells + code * n_words)
        if not marked:
            continue
        to.marks[code >> 6] |= <uint64_t>1 << (code & 63)
        to.summary[code >> 12] |= <uint64_t>1 << ((code >> 6) & 63)


cdef void collect_groups(Search* search, int32_t slot) noexcept nogil:
    """Move search.cells[slot] of search.feature to groups: search.codes that occur, and search.found, their sums.

    Categories are sorted by `_order_categories`. The cells are cleared.
    """
    cdef const Cells* cells = &search.cells[slot]
    cdef int32_t n_words = search.sample.layout.n_words, n_codes = search.forest.table.n_codes[search.feature]
    if _marks_codes(search):
        search.n_groups = collect_marked(
            cells, search.forest.table.code_size, n_words, search.codes, search.found
        )
    else:
        search.n_groups = collect_all(cells, n_codes, n_words, search.codes, search.found)
    search.is_set = search.forest.table.is_categorical[search.feature]
    if search.is_set and search.n_groups > 1:
        _order_categories(search)


cdef void _order_categories(Search* search) noexcept nogil:
    """Sort the groups in search.codes and search.found by the means of the categories.

    With several sums, they are ordered along the axis on which their means differ most (Coppersmith, Hong &
    Hosking 1999).
    """
    cdef int32_t j, k, n = search.n_groups, n_words = search.sample.layout.n_words
    cdef int32_t n_sums = 1 if search.sample.layout.packed else search.forest.targets.n_stats
    cdef const uint64_t* words
    cdef float64_t weight
    search.axis[0] = 1.0
    if n_sums > 1:
        _find_axis(search, n, n_sums)
    for j in range(n):
        search.order[j] = j
        search.gains[j] = 0.0
        words = search.found + j * n_words
        weight = <float64_t>words_weight(search, words)
        for k in range(n_sums):
            search.gains[j] += search.axis[k] * _mean(search, words, weight, k)
    sort_by_key(search.gains, search.order, n)
    _permute_groups(search, n, n_words)


cdef inline float64_t _mean(const Search* search, const uint64_t* words, float64_t weight, int32_t k) noexcept nogil:
    """Return the k-th sum in a cell's words over their `weight`: the share of a class, or the mean of a target."""
    if search.sample.layout.packed:
        return <float64_t>(words[0] >> search.sample.layout.number_shift) / weight
    if search.forest.targets.classes == NULL:
        return <float64_t>words[k] / weight
    return <float64_t>(words[k] >> search.sample.layout.weight_shift) / weight


cdef void _find_axis(Search* search, int32_t n, int32_t n_sums) noexcept nogil:
    """Write the principal axis of n categories' weighted means, minus the node's, to search.axis (power method)."""
    cdef int32_t _step, j, k, n_words = search.sample.layout.n_words
    cdef float64_t dot, length, of_node
    cdef float64_t* axis = search.axis
    cdef float64_t* next_ = search.axis + n_sums
    cdef float64_t* weight = search.gains
    # (n, n_sums): differences from the node's mean
    cdef float64_t* away = <float64_t*>(search.found + <Py_ssize_t>n * n_words)
    of_node = <float64_t>words_weight(search, search.total)
    for k in range(n_sums):
        axis[k] = 1.0 / (k + 1.0)
        next_[k] = _mean(search, search.total, of_node, k)
    for j in range(n):
        weight[j] = <float64_t>words_weight(search, search.found + j * n_words)
        for k in range(n_sums):
            away[j * n_sums + k] = _mean(search, search.found + j * n_words, weight[j], k) - next_[k]
    for _step in range(AXIS_STEPS):
        for k in range(n_sums):
            next_[k] = 0.0
        for j in range(n):
            dot = 0.0
            for k in range(n_sums):
                dot += axis[k] * away[j * n_sums + k]
            dot *= weight[j]
            for k in range(n_sums):
                next_[k] += dot * away[j * n_sums + k]
        length = 0.0
        for k in range(n_sums):
            length += next_[k] * next_[k]
        if length == 0.0:
            return
        for k in range(n_sums):
            axis[k] = next_[k] / sqrt(length)


cdef void _permute_groups(Search* search, int32_t n, int32_t n_words) noexcept nogil:
    """Permute the first n codes and their words to the order of the indices in search.order."""
    cdef int32_t j, k
    cdef uint64_t* copy = search.found + <Py_ssize_t>n * n_words
    for j in range(n):
        search.order[j + n] = search.codes[j]
        for k in range(n_words):
            copy[j * n_words + k] = search.found[j * n_words + k]
    for j in range(n):
        search.codes[j] = <uint16_t>search.order[n + search.order[j]]
        for k in range(n_words):
            search.found[j * n_words + k] = copy[search.order[j] * n_words + k]


cdef struct Side:
    # The sums are integers, so adding and subtracting is exact.
    const int64_t* logs             # NULL for squares
    int64_t sum                     # sum over the classes of squares, or of weights times their logarithms
    int64_t weight
    int64_t count
    uint64_t* weights               # weight of each class


cdef inline void _move_class(const Layout* layout, uint64_t word, int32_t k, Side* from_, Side* to) noexcept nogil:
    """Move the rows of class k, whose weight and count are in `word`, from one side to the other."""
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


cdef inline void _move_group(
    const Layout* layout, const uint64_t* cell, int32_t n_classes, Side* from_, Side* to
) noexcept nogil:
    """Move a group's rows, given by `cell` as one word per class, from one side to the other."""
    cdef int32_t k
    for k in range(n_classes):
        if cell[k] != 0:
            _move_class(layout, cell[k], k, from_, to)


cdef inline int64_t _class_term(const Side* side, int32_t k) noexcept nogil:
    """Return the term of class k in side.sum: its squared weight w, or w log2 w for entropy."""
    return <int64_t>(side.weights[k] * side.weights[k]) if side.logs == NULL else side.logs[side.weights[k]]


cdef inline float64_t _score_sides(const Side* left, const Side* right) noexcept nogil:
    """Return the sum of the scores of both sides of a split, which is higher for purer sides."""
    cdef int64_t entropy
    if left.logs == NULL:
        return <float64_t>left.sum / <float64_t>left.weight + <float64_t>right.sum / <float64_t>right.weight
    entropy = left.sum - left.logs[left.weight] + right.sum - right.logs[right.weight]
    return sum_of_logs(entropy)


cdef void _start_sides(Search* search, Side* left, Side* right) noexcept nogil:
    """Initialise both sides for a scan over class weights: the left side is empty, the right one has all rows."""
    cdef int32_t k, n_classes = search.forest.targets.n_stats
    left.logs = right.logs = search.forest.rules.logs
    left.sum = left.weight = left.count = right.sum = 0
    left.weights, right.weights = search.left, search.left + n_classes
    right.weight, right.count = search.weight, search.n_all
    for k in range(n_classes):
        left.weights[k] = 0
        right.weights[k] = <uint64_t>word_weight(&search.sample.layout, search.total[k])
        right.sum += _class_term(right, k)


cdef inline bint _is_allowed_side(const Search* search, const Side* side) noexcept nogil:
    """Return True if a side has the minimum weight and number of rows of a leaf."""
    return side.weight >= search.sample.min_weight and (
        search.sample.layout.count_mask == 0 or side.count >= search.forest.limits.min_samples_leaf
    )


cdef inline void _keep_if_better(
    Search* search, const Side* left, const Side* right, int32_t position, bint missing_left
) noexcept nogil:
    """Make the split after group `position` the best one if both sides are allowed and its gain is higher."""
    cdef float64_t gain
    if not (_is_allowed_side(search, left) and _is_allowed_side(search, right)):
        return
    gain = _score_sides(left, right) - search.score
    if gain > search.best.gain:
        keep_split(search, gain, position, missing_left)
        search.best.left_weight = left.weight


cdef void scan_classes(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil:
    """Evaluate the splits after each group k = first .. last, by class weights: groups first .. k go left.

    Group 0 (missing) also goes left if missing_left.
    """
    cdef const Layout* layout = &search.sample.layout
    cdef Side left, right
    cdef int32_t j, n_classes = search.forest.targets.n_stats
    _start_sides(search, &left, &right)
    if missing_left:
        _move_group(layout, search.found, n_classes, &right, &left)
    for j in range(first, last + 1):
        _move_group(layout, search.found + <Py_ssize_t>j * n_classes, n_classes, &right, &left)
        _keep_if_better(search, &left, &right, j, missing_left)


cdef inline void _sort_rows(const Search* search, uint32_t* keys) noexcept nogil:
    """Write code << 8 | position for each of the node's few rows to `keys`, in ascending order."""
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
    """Evaluate every threshold between rows sorted by `_sort_rows`; missing rows go left if missing_left."""
    cdef Side left, right
    cdef int32_t i, group = 0, n = <int32_t>search.n_rows
    cdef bint stays = keys[0] >> 8 == 0 and not missing_left
    cdef const Entry* row
    _start_sides(search, &left, &right)
    for i in range(n):
        if not (stays and group == 0):
            row = &search.rows[keys[i] & 255]
            _move_class(&search.sample.layout, row.word, <int32_t>row.offset, &right, &left)
        if i + 1 < n and keys[i + 1] >> 8 == keys[i] >> 8:
            continue
        # Skip splits with all rows on one side, and splits of only the missing rows, which the other direction covers.
        if right.weight > 0 and not (keys[0] >> 8 == 0 and group == 0):
            _keep_if_better(search, &left, &right, group, missing_left)
        group += 1


cdef void search_few(Search* search) noexcept nogil:
    """Evaluate every threshold of search.feature, which is numeric, by sorting the node's few rows, not counting."""
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


cdef bint _is_allowed_split(const Search* search) noexcept nogil:
    """Return True if both sides, search.left and the words after it, meet the limits and monotone constraints."""
    cdef const Forest* forest = search.forest
    cdef int64_t count, weight
    if search.sample.layout.count_mask != 0:
        count = words_count(search, search.left)
        if count < forest.limits.min_samples_leaf or search.n_all - count < forest.limits.min_samples_leaf:
            return False
    if search.sample.min_weight > 0:
        weight = words_weight(search, search.left)
        if weight < search.sample.min_weight or search.weight - weight < search.sample.min_weight:
            return False
    return forest.limits.monotone == NULL or is_monotone(
        search, words_value(search, search.left), words_value(search, search.left + search.sample.layout.n_words)
    )


cdef void consider_left(Search* search, int32_t position, bint missing_left) noexcept nogil:
    """Make the split with the sums search.left the best one if it is allowed and its gain is higher.

    `position` is its last group on the left.
    """
    cdef const Layout* layout = &search.sample.layout
    cdef const uint64_t* left = search.left
    cdef int32_t k, n_words = layout.n_words
    cdef float64_t gain
    for k in range(n_words):
        search.left[n_words + k] = search.total[k] - left[k]
    if not _is_allowed_split(search):
        return
    if is_packed_squares(search.forest, layout):
        gain = gain_of_squares(
            <float64_t>(search.total[0] >> layout.number_shift), <float64_t>word_weight(layout, search.total[0]),
            <float64_t>(left[0] >> layout.number_shift), <float64_t>word_weight(layout, left[0]),
        )
    else:
        gain = words_score(search, left)
        gain += words_score(search, left + n_words) - search.score
    if gain <= search.best.gain:
        return
    keep_split(search, gain, position, missing_left)
    search.best.left_weight = words_weight(search, left)
    search.best.left_word = left[0]
    if search.forest.limits.monotone != NULL:
        search.best.left_value = words_value(search, left)
        search.best.right_value = words_value(search, left + n_words)


cdef void _scan_squares(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil:
    """Evaluate splits first .. last like `_scan_groups`, by squares of one packed number.

    The gain is W (s_l - s w_l / W)^2 / (w_l w_r).
    """
    cdef const Layout* layout = &search.sample.layout
    cdef int64_t min_rows = search.forest.limits.min_samples_leaf, min_weight = search.sample.min_weight
    cdef ScanNode scan
    cdef uint64_t sum_ = search.found[0] if missing_left else 0
    cdef Py_ssize_t i, n = last - first + 1, begin = 0
    cdef float64_t gain
    for i in range(n):
        sum_ += search.found[first + i]
        search.sums[i] = sum_
    scan.layout.count_mask, scan.layout.hessian_mask = layout.count_mask, layout.weight_mask
    scan.layout.gradient_shift, scan.layout.hessian_shift = layout.number_shift, layout.weight_shift
    scan.layout.gradient_bias = 0
    if layout.count_mask != 0:
        begin = first_with_count(search.sums, n, &scan.layout, min_rows)
        n = first_with_count(search.sums, n, &scan.layout, search.n_all - min_rows + 1)
    scan.l2 = 0.0
    scan.hessian = <float64_t>search.weight
    scan.ratio = <float64_t>(search.total[0] >> layout.number_shift) / scan.hessian
    leave_out_light(search.sums, &scan.layout, min_weight, search.weight - min_weight, &begin, &n)
    split_gains(search.sums + begin, n - begin, &scan, search.gains, &gain)
    if gain < 0 or gain * scan.hessian <= search.best.gain:
        return
    begin += place_of(gain, search.gains)
    keep_split(search, gain * scan.hessian, <int32_t>(first + begin), missing_left)
    search.best.left_weight = word_weight(layout, search.sums[begin])
    search.best.left_word = search.sums[begin]


cdef void _scan_two_classes(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil:
    """Evaluate splits first .. last like `_scan_groups`, by the entropy of two packed classes, from a log table."""
    cdef const Layout* layout = &search.sample.layout
    cdef const int64_t* logs = search.forest.rules.logs
    cdef uint64_t* left = search.left
    cdef int64_t weight, second, rest_weight, rest_second, entropy
    cdef float64_t gain
    cdef int32_t j
    left[0] = search.found[0] if missing_left else 0
    for j in range(first, last + 1):
        left[0] += search.found[j]
        left[1] = search.total[0] - left[0]
        weight, second = word_weight(layout, left[0]), <int64_t>(left[0] >> layout.number_shift)
        rest_weight, rest_second = word_weight(layout, left[1]), <int64_t>(left[1] >> layout.number_shift)
        entropy = logs[second] + logs[weight - second] - logs[weight]
        entropy += logs[rest_second] + logs[rest_weight - rest_second] - logs[rest_weight]
        gain = sum_of_logs(entropy) - search.score
        if gain > search.best.gain and _is_allowed_split(search):
            keep_split(search, gain, j, missing_left)
            search.best.left_weight, search.best.left_word = weight, left[0]


cdef void _scan_any(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil:
    """Evaluate splits first .. last like `_scan_groups`, by any criterion, one split after another."""
    cdef int32_t j, k, n_words = search.sample.layout.n_words
    cdef const uint64_t* cell
    for k in range(n_words):
        search.left[k] = search.found[k] if missing_left else 0
    for j in range(first, last + 1):
        cell = search.found + <Py_ssize_t>j * n_words
        for k in range(n_words):
            search.left[k] += cell[k]
        consider_left(search, j, missing_left)


cdef void _scan_groups(Search* search, int32_t first, int32_t last, bint missing_left) noexcept nogil:
    """Evaluate the splits after each group k = first .. last, by the fastest scan: groups first .. k go left.

    Group 0 (missing) also goes left if missing_left.
    """
    cdef Scan scan
    if first > last:
        return
    scan = scan_of(search)
    if scan == SEVERAL_AT_ONCE:
        _scan_squares(search, first, last, missing_left)
    elif scan == BY_LOGARITHMS:
        _scan_two_classes(search, first, last, missing_left)
    elif scan == BY_CLASS:
        scan_classes(search, first, last, missing_left)
    else:
        _scan_any(search, first, last, missing_left)


cdef int32_t random_candidate(Search* search, bint* missing_left) noexcept nogil:
    """Draw a cut between groups and the side of missing rows, missing_left[0]; return the last group on the left.

    Also set search.last_code if the threshold is not centred between groups.
    """
    cdef int32_t has_missing = search.codes[0] == 0 and not search.is_set, last = has_missing
    missing_left[0] = has_missing and random_bits(search.key, 1) & 1
    if search.is_set:
        return <int32_t>random_below(search.key, 0, search.n_groups - 1)
    if search.n_groups - has_missing == 1:
        missing_left[0] = False
        return 1
    search.last_code = random_code(
        &search.forest.table, search.feature, search.key, search.codes[has_missing], search.codes[search.n_groups - 1]
    )
    while search.codes[last + 1] <= search.last_code:
        last += 1
    return last


cdef void _search_random(Search* search) noexcept nogil:
    """Evaluate one random cut between the groups, whose left groups are merged into the last of them."""
    cdef bint missing_left
    cdef int32_t j, k, n_words = search.sample.layout.n_words, last = random_candidate(search, &missing_left)
    cdef uint64_t* into = search.found + <Py_ssize_t>last * n_words
    for j in range(search.codes[0] == 0 and not search.is_set, last):
        for k in range(n_words):
            into[k] += search.found[<Py_ssize_t>j * n_words + k]
    _scan_groups(search, last, last, missing_left)


cdef void search_groups(Search* search) noexcept nogil:
    """Evaluate every cut between the groups, with missing values on either side, or one random cut by the rules."""
    cdef bint has_missing = search.codes[0] == 0 and not search.is_set
    if search.forest.rules.random_thresholds:
        _search_random(search)
        return
    _scan_groups(search, has_missing, search.n_groups - 2 + has_missing, False)
    if has_missing:
        _scan_groups(search, 1, search.n_groups - 2, True)


cdef void finish_split(Search* search) noexcept nogil:
    """Complete search.best, which is on search.feature: last code or category set, and side of missing values."""
    cdef FoundSplit* best = &search.best
    best.is_set, best.n_groups = search.is_set, search.n_groups
    if search.is_set:
        _write_category_set(search)
        return
    # The threshold is centred between the codes on its two sides. If no row of the node has a missing value, missing
    # values in prediction go to the side with the larger weight.
    if best.position + 1 == search.n_groups:
        best.last_code = search.forest.table.n_codes[search.feature] - 1
    elif best.last_code < 0:
        best.last_code = middle_code(
            search.forest.table.thresholds[search.feature], search.codes[best.position],
            search.codes[best.position + 1],
        )
    if search.codes[0] != 0:
        best.missing_left = 2 * best.left_weight > search.weight


cdef void _write_category_set(Search* search) noexcept nogil:
    """Write the set of left codes to search.set_words; codes not in the node follow the heavier side."""
    cdef int32_t k, n_codes = search.forest.table.n_codes[search.feature]
    set_fill(search.set_words, n_codes, 2 * search.best.left_weight > search.weight)
    search.best.missing_left = True  # kept if the node has no missing values: see unseen.pyx
    for k in range(search.n_groups):
        if search.codes[k] == 0:
            search.best.missing_left = False
        set_put(search.set_words, search.codes[k], k <= search.best.position)
