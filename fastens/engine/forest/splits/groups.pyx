"""Put the rows of a node together by their codes."""

from libc.math cimport sqrt

from fastens.engine.splits.categories cimport sort_codes
from fastens.engine.forest.splits.score cimport words_weight
from fastens.engine.forest.splits.structs cimport (
    FEATURES_AT_ONCE, Cells, CodeColumn, Entry, Forest, NodeSums, Sample, Scratch
)
from fastens.engine.splits.gain cimport ScanRoom
from fastens.engine.structs cimport float64_t, int32_t, uint16_t, uint32_t, uint64_t


cdef extern from "engine/forest/splits/rows.h" nogil:
    void count_entries(
        int code_size, const CodeColumn* columns, const Cells* to, const Entry* rows, Py_ssize_t n_rows,
        Py_ssize_t n_words, int n_columns, int marked
    )
    int32_t collect_all(const Cells* cells, int32_t n_codes, Py_ssize_t n_words, uint16_t* codes, uint64_t* found)
    int32_t collect_marked(const Cells* cells, int code_size, Py_ssize_t n_words, uint16_t* codes, uint64_t* found)


cdef enum:
    CACHE_LINE = 64
    AXIS_STEPS = 16                 # of the power iteration; an order of categories needs no more


cdef CodeColumn column_of(const Forest* forest, int32_t feature, Py_ssize_t n_rows) noexcept nogil:
    """Where to read the codes: of many rows by column, for they share cache lines there; else from the records, where
    all codes of a row share one, or not if there are many."""
    cdef CodeColumn column
    cdef Py_ssize_t size = forest.table.code_size
    cdef Py_ssize_t shared = 1 if forest.table.record_stride * size > CACHE_LINE else FEATURES_AT_ONCE
    if n_rows * CACHE_LINE > forest.table.n_rows * size * shared:
        column.codes = forest.table.columns + feature * forest.table.n_rows * size
        column.stride = 1
    else:
        column.codes = forest.table.records + feature * size
        column.stride = forest.table.record_stride
    return column


cdef bint is_marked(const Forest* forest, Py_ssize_t n_rows) noexcept nogil:
    """Whether a node has so few rows that noting their codes costs less than going through all."""
    return 2 * n_rows < forest.table.max_codes


cdef void count_features(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const int32_t* features,
    int32_t n,
) noexcept nogil:
    """Count the node's rows on up to FEATURES_AT_ONCE features."""
    cdef CodeColumn columns[4]
    cdef int32_t j
    for j in range(n):
        columns[j] = column_of(forest, features[j], node.n_rows)
    if sample.layout.packed or (forest.targets.n_targets == 1 and forest.targets.classes != NULL):
        count_entries(
            forest.table.code_size, columns, scratch.cells, node.rows, node.n_rows, sample.layout.n_words, n,
            is_marked(forest, node.n_rows),
        )
        return
    for j in range(n):
        _count_many(forest, sample, &scratch.cells[j], node, &columns[j])


cdef void _count_many(
    const Forest* forest, const Sample* sample, const Cells* to, const NodeSums* node, const CodeColumn* column
) noexcept nogil:
    """Count rows that add several words each."""
    cdef Py_ssize_t i
    cdef uint32_t code
    for i in range(node.n_rows):
        code = code_at(forest.table.code_size, column, node.rows[i].row)
        add_row(forest, sample, &node.rows[i], to.cells + <Py_ssize_t>code * sample.layout.n_words)
        to.marks[code >> 6] |= <uint64_t>1 << (code & 63)
        to.summary[code >> 12] |= <uint64_t>1 << ((code >> 6) & 63)


cdef void collect_groups(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, int32_t place, Groups* groups
) noexcept nogil:
    """Take what was counted in one place: the codes in order and their words."""
    cdef int32_t f = groups.feature
    cdef bint many = not sample.layout.packed and (forest.targets.n_targets > 1 or forest.targets.classes == NULL)
    if many or is_marked(forest, node.n_rows):
        groups.n = collect_marked(
            &scratch.cells[place], forest.table.code_size, sample.layout.n_words, scratch.codes, scratch.found
        )
    else:
        groups.n = collect_all(
            &scratch.cells[place], forest.table.n_codes[f], sample.layout.n_words, scratch.codes, scratch.found
        )
    groups.is_set = forest.table.is_categorical[f]
    if groups.is_set and groups.n > 1:
        _order_categories(forest, sample, scratch, groups.n)


cdef void _order_categories(const Forest* forest, const Sample* sample, Scratch* scratch, int32_t n) noexcept nogil:
    """Order categories by their mean (Fisher 1958); where there are several sums, along the axis on which the means
    differ most (Coppersmith, Hong & Hosking 1999)."""
    cdef int32_t j, k, n_words = sample.layout.n_words
    cdef int32_t n_sums = 1 if sample.layout.packed else forest.targets.n_stats
    cdef float64_t weight
    cdef ScanRoom keyed
    scratch.axis[0] = 1.0
    if n_sums > 1:
        _find_axis(forest, sample, scratch, n, n_sums)
    keyed.keys, keyed.codes, keyed.sums = scratch.gains, scratch.order, NULL
    for j in range(n):
        scratch.order[j] = j
        scratch.gains[j] = 0.0
        weight = <float64_t>words_weight(forest, sample, scratch.found + j * n_words)
        for k in range(n_sums):
            scratch.gains[j] += scratch.axis[k] * _mean(forest, sample, scratch.found + j * n_words, weight, k)
    sort_codes(&keyed, n)
    _permute(scratch, n, n_words)


cdef inline float64_t _mean(
    const Forest* forest, const Sample* sample, const uint64_t* words, float64_t weight, int32_t k
) noexcept nogil:
    if sample.layout.packed:
        return <float64_t>(words[0] >> sample.layout.number_shift) / weight
    if forest.targets.classes == NULL:
        return <float64_t>words[k] / weight
    return <float64_t>(words[k] >> sample.layout.weight_shift) / weight


cdef void _find_axis(
    const Forest* forest, const Sample* sample, Scratch* scratch, int32_t n, int32_t n_sums
) noexcept nogil:
    """First principal axis of the categories' means around the node's, each with its weight, by power iteration."""
    cdef int32_t _step, j, k, n_words = sample.layout.n_words
    cdef float64_t dot, length, of_node
    cdef float64_t* axis = scratch.axis
    cdef float64_t* next_ = scratch.axis + n_sums
    cdef float64_t* weight = scratch.gains
    cdef float64_t* away = <float64_t*>(scratch.found + <Py_ssize_t>n * n_words)   # (n, n_sums): from the node's mean
    of_node = <float64_t>words_weight(forest, sample, scratch.total)
    for k in range(n_sums):
        axis[k] = 1.0 / (k + 1.0)
        next_[k] = _mean(forest, sample, scratch.total, of_node, k)
    for j in range(n):
        weight[j] = <float64_t>words_weight(forest, sample, scratch.found + j * n_words)
        for k in range(n_sums):
            away[j * n_sums + k] = _mean(forest, sample, scratch.found + j * n_words, weight[j], k) - next_[k]
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


cdef void _permute(Scratch* scratch, int32_t n, int32_t n_words) noexcept nogil:
    """Put codes and words in the order of scratch.order."""
    cdef int32_t j, k
    cdef uint64_t* copy = scratch.found + <Py_ssize_t>n * n_words
    for j in range(n):
        scratch.order[j + n] = scratch.codes[j]
        for k in range(n_words):
            copy[j * n_words + k] = scratch.found[j * n_words + k]
    for j in range(n):
        scratch.codes[j] = <uint16_t>scratch.order[n + scratch.order[j]]
        for k in range(n_words):
            scratch.found[j * n_words + k] = copy[scratch.order[j] * n_words + k]
