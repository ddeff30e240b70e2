"""Put the rows of a node together by their codes."""

from libc.math cimport sqrt

from fastens.engine.forest.splits.code_columns cimport code_at, column_of, count_stored
from fastens.engine.forest.splits.score cimport is_one_class_target, words_weight
from fastens.engine.forest.splits.structs cimport FEATURES_AT_ONCE, Cells, CodeColumn, Entry, Search
from fastens.engine.splits.order cimport sort_by_key
from fastens.engine.structs cimport float64_t, int32_t, uint16_t, uint32_t, uint64_t


cdef extern from "engine/forest/splits/rows.h" nogil:
    void count_entries(
        int code_size, const CodeColumn* columns, const Cells* to, const Entry* rows, Py_ssize_t n_rows,
        Py_ssize_t n_words, int n_columns, int marked
    )
    int32_t collect_all(const Cells* cells, int32_t n_codes, Py_ssize_t n_words, uint16_t* codes, uint64_t* found)
    int32_t collect_marked(const Cells* cells, int code_size, Py_ssize_t n_words, uint16_t* codes, uint64_t* found)


cdef enum:
    AXIS_STEPS = 16                 # of the power iteration; an order of categories needs no more


cdef bint _adds_one_word(const Search* search) noexcept nogil:
    """Whether a row adds a single word."""
    return search.sample.layout.packed or is_one_class_target(search.forest)


cdef bint _is_marked(const Search* search) noexcept nogil:
    """Whether the codes of a node's rows are noted: where going through all codes costs more."""
    if search.sample.ranks != NULL:
        return False
    return 2 * search.n_rows < search.forest.table.max_codes or not _adds_one_word(search)


cdef void count_features(Search* search, const int32_t* features, int32_t n) noexcept nogil:
    """Count the node's rows on up to FEATURES_AT_ONCE features."""
    cdef CodeColumn columns[FEATURES_AT_ONCE]
    cdef int32_t j
    if search.forest.table.stored.rows != NULL and _adds_one_word(search):
        for j in range(n):
            count_stored(search, features[j], &search.cells[j], _is_marked(search))
        return
    for j in range(n):
        columns[j] = column_of(search, features[j], search.rows, search.n_rows, j)
    if _adds_one_word(search):
        count_entries(
            search.forest.table.code_size, columns, search.cells, search.rows, search.n_rows,
            search.sample.layout.n_words, n, _is_marked(search),
        )
        return
    for j in range(n):
        _count_many(search, &search.cells[j], &columns[j])


cdef void _count_many(const Search* search, const Cells* to, const CodeColumn* column) noexcept nogil:
    """Count rows that add several words each."""
    cdef Py_ssize_t i, n_words = search.sample.layout.n_words
    cdef uint32_t code
    cdef bint marked = _is_marked(search)
    for i in range(search.n_rows):
        code = code_at(search.forest.table.code_size, column, search.rows[i].row)
        add_row(search, &search.rows[i], to.cells + code * n_words)
        if not marked:
            continue
        to.marks[code >> 6] |= <uint64_t>1 << (code & 63)
        to.summary[code >> 12] |= <uint64_t>1 << ((code >> 6) & 63)


cdef void collect_groups(Search* search, int32_t place) noexcept nogil:
    """Take what was counted in one place: the codes in order and their words."""
    cdef const Cells* cells = &search.cells[place]
    cdef int32_t n_words = search.sample.layout.n_words, n_codes = search.forest.table.n_codes[search.feature]
    if _is_marked(search):
        search.n_groups = collect_marked(
            cells, search.forest.table.code_size, n_words, search.codes, search.found
        )
    else:
        search.n_groups = collect_all(cells, n_codes, n_words, search.codes, search.found)
    search.is_set = search.forest.table.is_categorical[search.feature]
    if search.is_set and search.n_groups > 1:
        _order_categories(search)


cdef void _order_categories(Search* search) noexcept nogil:
    """Order categories by their mean (see order.pyx); where there are several sums, along the axis on which the means
    differ most (Coppersmith, Hong & Hosking 1999)."""
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
    _permute(search, n, n_words)


cdef inline float64_t _mean(const Search* search, const uint64_t* words, float64_t weight, int32_t k) noexcept nogil:
    if search.sample.layout.packed:
        return <float64_t>(words[0] >> search.sample.layout.number_shift) / weight
    if search.forest.targets.classes == NULL:
        return <float64_t>words[k] / weight
    return <float64_t>(words[k] >> search.sample.layout.weight_shift) / weight


cdef void _find_axis(Search* search, int32_t n, int32_t n_sums) noexcept nogil:
    """First principal axis of the categories' means around the node's, each with its weight, by power iteration."""
    cdef int32_t _step, j, k, n_words = search.sample.layout.n_words
    cdef float64_t dot, length, of_node
    cdef float64_t* axis = search.axis
    cdef float64_t* next_ = search.axis + n_sums
    cdef float64_t* weight = search.gains
    cdef float64_t* away = <float64_t*>(search.found + <Py_ssize_t>n * n_words)   # (n, n_sums): from the node's mean
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


cdef void _permute(Search* search, int32_t n, int32_t n_words) noexcept nogil:
    """Put codes and words in the order of search.order."""
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
