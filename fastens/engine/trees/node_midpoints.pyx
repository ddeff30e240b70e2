"""The values on the two sides of every threshold of a tree, among the rows that come by."""

import numpy as np

from fastens.engine.splits.goes_left cimport code_goes_left
from fastens.engine.structs cimport (
    code_t, float32_t, float64_t, int32_t, uint8_t, uint16_t, uint32_t, value_t,
)
from fastens.engine.team cimport share_until_interrupted

cdef enum:
    ROWS = 1 << 12                      # that are taken at a time


cdef struct Splits:
    const int32_t* feature
    const int32_t* left_child
    const int32_t* category_set
    const uint32_t* words
    const uint16_t* bin_threshold
    const uint8_t* missing_left


cdef void _note_row(
    const Splits* splits, const code_t* codes, const value_t* x, Py_ssize_t stride, float64_t* low, float64_t* high
) noexcept nogil:
    cdef int32_t node = 0, feature
    cdef uint32_t code
    cdef float64_t value
    cdef bint is_left
    while splits.left_child[node] > 0:
        feature = splits.feature[node]
        code = codes[feature]
        is_left = code_goes_left(
            splits.words, splits.category_set[node], splits.bin_threshold[node], splits.missing_left[node], code
        )
        if splits.category_set[node] < 0 and code > 0:
            value = (<const value_t*> (<const char*> x + feature * stride))[0]
            if is_left:
                low[node] = max(low[node], value)
            else:
                high[node] = min(high[node], value)
        node = splits.left_child[node] + (not is_left)


cdef struct Passing:
    # The rows that come by, and for each thread the extremes, one for each node.
    Splits splits
    const uint8_t* records
    Py_ssize_t record_stride
    int32_t code_size
    const char* x
    Py_ssize_t row_stride           # of the values, in bytes
    Py_ssize_t column_stride
    int32_t value_size
    Py_ssize_t n_rows
    float64_t* low
    float64_t* high
    Py_ssize_t n_nodes


cdef inline void _note_values(
    const Passing* rows, Py_ssize_t row, const value_t* x, float64_t* low, float64_t* high
) noexcept nogil:
    cdef const uint8_t* record = rows.records + row * rows.record_stride
    if rows.code_size == 1:
        _note_row(&rows.splits, record, x, rows.column_stride, low, high)
    else:
        _note_row(&rows.splits, <const uint16_t*> record, x, rows.column_stride, low, high)


cdef void _note_piece(void* job, Py_ssize_t piece, int32_t thread) noexcept nogil:
    cdef const Passing* rows = <const Passing*> job
    cdef float64_t* low = rows.low + thread * rows.n_nodes
    cdef float64_t* high = rows.high + thread * rows.n_nodes
    cdef const char* x
    cdef Py_ssize_t row
    for row in range(piece * ROWS, min((piece + 1) * ROWS, rows.n_rows)):
        x = rows.x + row * rows.row_stride
        if rows.value_size == sizeof(float32_t):
            _note_values(rows, row, <const float32_t*> x, low, high)
        else:
            _note_values(rows, row, <const float64_t*> x, low, high)


def note_sides(
    tree, const uint8_t[:, ::1] records, int code_size, const value_t[:, :] X, float64_t[:, ::1] low,
    float64_t[:, ::1] high
):
    """Raise `low` to the largest value that goes left at each threshold, lower `high` to the smallest that goes right.

    Parameters
    ----------
    tree : Tree
        The tree.
    records : uint8 array
        The codes of the rows, row by row.
    code_size : int
        Bytes of a code.
    X : float32 or float64 array of shape (n_rows, n_features)
        Their values.
    low, high : float64 arrays of shape (n_threads, n_nodes)
        For each thread the extremes of its rows.
    """
    cdef const int32_t[::1] feature = tree.feature, left_child = tree.left_child, category_set = tree.category_set
    cdef const uint16_t[::1] bin_threshold = tree.bin_threshold
    cdef const uint8_t[::1] missing_left = tree.missing_left
    cdef const uint32_t[::1] words = tree.category_words if len(tree.category_words) else np.zeros(1, np.uint32)
    cdef Passing rows
    rows.splits = Splits(
        &feature[0], &left_child[0], &category_set[0], &words[0], &bin_threshold[0], &missing_left[0]
    )
    rows.records, rows.record_stride, rows.code_size = &records[0, 0], records.shape[1], code_size
    rows.x, rows.row_stride, rows.column_stride = <const char*> &X[0, 0], X.strides[0], X.strides[1]
    rows.value_size, rows.n_rows = sizeof(value_t), X.shape[0]
    rows.low, rows.high, rows.n_nodes = &low[0, 0], &high[0, 0], low.shape[1]
    with nogil:
        share_until_interrupted(_note_piece, &rows, (rows.n_rows + ROWS - 1) // ROWS, <int32_t> low.shape[0])
