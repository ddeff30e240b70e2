"""One random threshold of a numeric feature: no cells, two passes over the rows."""

from libc.string cimport memset

from .forest_groups cimport add_row, column_of
from .forest_scan cimport Groups, consider_left, random_code
from .forest_tree cimport CodeColumn, Entry, Forest, FoundSplit, NodeSums, Room, Sample
from .random cimport random_bits
from .structs cimport int32_t, uint16_t, uint32_t, uint64_t


cdef extern from "forest_rows.h" nogil:
    ctypedef struct CodeRange:
        uint32_t smallest
        uint32_t largest
        bint has_missing

    CodeRange read_codes(
        int code_size, const CodeColumn* column, const Entry* rows, Py_ssize_t n_rows, uint16_t* out
    )
    uint64_t sum_left(
        const uint16_t* codes, const Entry* rows, Py_ssize_t n_rows, uint32_t last, uint32_t missing_left
    )


cdef void _sum_left(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, uint32_t last, bint missing_left
) noexcept nogil:
    """The words of the left side to room.left."""
    cdef Py_ssize_t i
    cdef uint16_t code
    if sample.layout.packed:
        room.left[0] = sum_left(room.row_codes, node.rows, node.n_rows, last, missing_left)
        return
    memset(room.left, 0, sample.layout.n_words * sizeof(uint64_t))
    for i in range(node.n_rows):
        code = room.row_codes[i]
        if missing_left if code == 0 else code <= last:
            add_row(forest, sample, &node.rows[i], room.left)


cdef void search_threshold(
    const Forest* forest, const Sample* sample, Room* room, const NodeSums* node, Groups* groups, FoundSplit* best
) noexcept nogil:
    """Draw a threshold between the smallest and the largest value of the node, and a side for missing rows; keep the
    split if it is better than the best so far. groups.n tells 1 from several codes."""
    cdef CodeColumn column = column_of(forest, groups.feature, node.n_rows)
    cdef CodeRange range_ = read_codes(forest.table.code_size, &column, node.rows, node.n_rows, room.row_codes)
    cdef bint missing_left = range_.has_missing and random_bits(groups.key, 1) & 1
    cdef int32_t last
    if range_.largest == 0 or (range_.smallest == range_.largest and not range_.has_missing):
        groups.n = 1
        return
    groups.n = 2
    if range_.smallest == range_.largest:
        last, missing_left = forest.table.n_codes[groups.feature] - 1, False
    else:
        last = random_code(forest, groups, <int32_t>range_.smallest, <int32_t>range_.largest)
    _sum_left(forest, sample, room, node, last, missing_left)
    consider_left(forest, sample, room, node, groups.feature, best)
    if best.feature == groups.feature:
        best.is_set = False
        best.position, best.last_code = 0, last
        best.missing_left = missing_left if range_.has_missing else 2 * best.left_weight > node.weight
