"""One random threshold of a numeric feature: no cells, but the codes of the rows side by side, gone through twice."""

from libc.string cimport memset

from fastens.engine.forest.splits.candidates cimport consider_left
from fastens.engine.forest.splits.groups cimport Groups, add_row, column_of
from fastens.engine.forest.splits.threshold cimport CodeRange, draw_threshold
from fastens.engine.forest.splits.structs cimport (
    FEATURES_AT_ONCE, CodeColumn, Entry, Forest, FoundSplit, NodeSums, Sample, Scratch
)
from fastens.engine.structs cimport code_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "engine/forest/splits/rows.h" nogil:
    void read_codes(
        int code_size, const CodeColumn* columns, const Entry* rows, Py_ssize_t n_rows, int n_columns, void* out,
        Py_ssize_t scratch
    )
    CodeRange code_range(int code_size, const void* codes, Py_ssize_t n_rows)
    uint64_t sum_left(
        int code_size, const void* codes, const uint64_t* words, Py_ssize_t n_rows, uint32_t last,
        uint32_t missing_left
    )


cdef void copy_words(const NodeSums* node, Scratch* scratch) noexcept nogil:
    """The words of the node's rows, side by side."""
    cdef Py_ssize_t i
    for i in range(node.n_rows):
        scratch.row_words[i] = node.rows[i].word


cdef void copy_codes(
    const Forest* forest, Scratch* scratch, const NodeSums* node, const int32_t* features, int32_t n
) noexcept nogil:
    """The codes of the node's rows on up to FEATURES_AT_ONCE features."""
    cdef CodeColumn[FEATURES_AT_ONCE] columns
    cdef int32_t j
    for j in range(n):
        columns[j] = column_of(forest, features[j], node.n_rows)
    read_codes(forest.table.code_size, columns, node.rows, node.n_rows, n, scratch.row_codes, scratch.n_row_codes)


cdef void _add_classes(
    const code_t* codes, const NodeSums* node, uint32_t last, uint32_t missing_left, uint64_t* words
) noexcept nogil:
    """Add the rows on the left to their classes' words."""
    cdef Py_ssize_t i
    cdef code_t shift = <code_t>(1 - missing_left), limit = <code_t>(last - shift)
    for i in range(node.n_rows):
        words[node.rows[i].offset] += node.rows[i].word & (0 - <uint64_t>(<code_t>(codes[i] - shift) <= limit))


cdef void _sum_left(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, const void* codes,
    uint32_t last, bint missing_left,
) noexcept nogil:
    """The words of the left side to scratch.left."""
    cdef Py_ssize_t i
    cdef uint32_t code
    if sample.layout.packed:
        scratch.left[0] = sum_left(forest.table.code_size, codes, scratch.row_words, node.n_rows, last, missing_left)
        return
    memset(scratch.left, 0, sample.layout.n_words * sizeof(uint64_t))
    if forest.targets.classes != NULL and forest.targets.n_targets == 1:
        if forest.table.code_size == 1:
            _add_classes(<const uint8_t*>codes, node, last, missing_left, scratch.left)
        else:
            _add_classes(<const uint16_t*>codes, node, last, missing_left, scratch.left)
        return
    for i in range(node.n_rows):
        code = (<const uint8_t*>codes)[i] if forest.table.code_size == 1 else (<const uint16_t*>codes)[i]
        if missing_left if code == 0 else code <= last:
            add_row(forest, sample, &node.rows[i], scratch.left)


cdef void search_threshold(
    const Forest* forest, const Sample* sample, Scratch* scratch, const NodeSums* node, int32_t place, Groups* groups,
    FoundSplit* best,
) noexcept nogil:
    """Draw a threshold and keep the split if it is better than the best so far. groups.n tells 1 from several codes."""
    cdef const void* codes = scratch.row_codes + place * scratch.n_row_codes * forest.table.code_size
    cdef CodeRange range_ = code_range(forest.table.code_size, codes, node.n_rows)
    cdef bint missing_left
    cdef int32_t last = draw_threshold(&forest.table, groups.feature, groups.key, &range_, &missing_left)
    groups.n = 1 if last == 0 else 2
    if groups.n == 1:
        return
    _sum_left(forest, sample, scratch, node, codes, last, missing_left)
    consider_left(forest, sample, scratch, node, groups.feature, best)
    if best.feature == groups.feature:
        best.is_set = False
        best.position, best.last_code = 0, last
        best.missing_left = missing_left if range_.has_missing else 2 * best.left_weight > node.weight
