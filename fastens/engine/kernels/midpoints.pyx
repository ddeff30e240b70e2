"""The values on the two sides of every threshold of a tree, among the rows that come by."""

import numpy as np

from cython.parallel cimport prange

from fastens.engine.kernels.structs cimport code_t, float64_t, int32_t, uint8_t, uint16_t, uint32_t, value_t


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
    while splits.left_child[node] > 0:
        feature = splits.feature[node]
        code = codes[feature]
        if splits.category_set[node] >= 0:
            node = splits.left_child[node] + (
                not (splits.words[splits.category_set[node] + (code >> 5)] >> (code & 31)) & 1
            )
        elif code == 0:
            node = splits.left_child[node] + (not splits.missing_left[node])
        else:
            value = (<const value_t*> (<const char*> x + feature * stride))[0]
            if code <= splits.bin_threshold[node]:
                low[node] = max(low[node], value)
                node = splits.left_child[node]
            else:
                high[node] = min(high[node], value)
                node = splits.left_child[node] + 1


cdef void _note_rows(
    const Splits* splits, const uint8_t* records, Py_ssize_t record_stride, const value_t[:, :] X, Py_ssize_t first,
    Py_ssize_t last, float64_t* low, float64_t* high, code_t kind
) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(first, last):
        _note_row(splits, <const code_t*> (records + row * record_stride), &X[row, 0], X.strides[1], low, high)


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
    cdef Splits splits = Splits(
        &feature[0], &left_child[0], &category_set[0], &words[0], &bin_threshold[0], &missing_left[0]
    )
    cdef int n_threads = <int> low.shape[0], thread
    cdef Py_ssize_t n = X.shape[0], stride = records.shape[1], first, last
    for thread in prange(n_threads, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1):
        first, last = n * thread // n_threads, n * (thread + 1) // n_threads
        if code_size == 1:
            _note_rows(&splits, &records[0, 0], stride, X, first, last, &low[thread, 0], &high[thread, 0], <uint8_t> 0)
        else:
            _note_rows(&splits, &records[0, 0], stride, X, first, last, &low[thread, 0], &high[thread, 0], <uint16_t> 0)
