"""Thresholds and distinct values of columns of which only some values are stored; the others are zeros."""

from fastens.engine.bins.sketch cimport Weights, cut_values, join_equal, key_t, set_key, sort_keys, value_of
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint32_t, uint64_t, value_t
from fastens.engine.team cimport share_pieces

import numpy as np


cdef struct Columns:
    # Values of sparse columns, and what is made of them. room: by thread, 4 n words for the keys and weights of one
    # column, twice.
    const void* x
    int32_t value_size
    const int64_t* starts           # where the values of each column begin
    const int32_t* rows             # of the values
    const int64_t* weights          # of the rows; NULL: all are 1
    int64_t total                   # weight of all rows; what stored values leave of it is that of zeros
    Py_ssize_t n                    # most values of a column, with one for the zeros
    int64_t* room
    int32_t max_bins
    bint wants_values
    float64_t* found                # thresholds, or distinct values
    const int64_t* first            # of each column
    int32_t* n_found


cdef Py_ssize_t _take(
    const Columns* of, Py_ssize_t f, const value_t* x, key_t* keys, const Weights* weights
) noexcept nogil:
    # Keys and weights of the values that are stored, and of all zeros that are not as one; returns how many.
    cdef Py_ssize_t i, n = 0
    cdef int64_t weight, rest = of.total
    for i in range(of.starts[f], of.starts[f + 1]):
        weight = of.weights[of.rows[i]] if of.weights != NULL else 1
        rest -= weight
        set_key(&keys[n], x[i])
        weights.values[n] = weight
        n += x[i] == x[i]
    if rest > 0:
        set_key(&keys[n], <value_t> 0)
        weights.values[n] = rest
        n += 1
    return n


cdef int32_t _find(const Columns* of, Py_ssize_t f, const value_t* x, key_t* keys, int64_t* room) noexcept nogil:
    cdef float64_t* found = of.found + of.first[f]
    cdef Weights weights
    cdef Py_ssize_t i, n
    weights.values, weights.spare = room, room + of.n
    n = _take(of, f, x, keys, &weights)
    if n == 0:
        return 0
    keys = sort_keys(keys, keys + of.n, &weights, n)
    n = join_equal(keys, weights.values, n, weights.values)
    if not of.wants_values:
        return cut_values(keys, weights.values, n, of.max_bins, found)
    if n > of.max_bins:
        return -1
    for i in range(n):
        found[i] = value_of(keys[i])
    return <int32_t> n


cdef void _find_piece(void* job, Py_ssize_t f, int32_t thread) noexcept nogil:
    cdef const Columns* of = <const Columns*> job
    cdef int64_t* room = of.room + thread * 4 * of.n
    if of.value_size == sizeof(float32_t):
        of.n_found[f] = _find(of, f, <const float32_t*> of.x, <uint32_t*> room, room + 2 * of.n)
    else:
        of.n_found[f] = _find(of, f, <const float64_t*> of.x, <uint64_t*> room, room + 2 * of.n)


def cut_sparse_columns(
    const value_t[::1] x, const int32_t[::1] rows, const int64_t[::1] starts, const int64_t[::1] weights,
    int64_t total, int32_t max_bins, bint wants_values, int n_threads
):
    """Return the thresholds of columns of which only some values are stored, as cut_columns finds them.

    Parameters
    ----------
    x : float32 or float64 array of shape (n_values,)
        One column after another.
    rows : int32 array of shape (n_values,)
        The row of each value; read where there are weights.
    starts : int64 array of shape (n_columns + 1,)
        Where each column begins.
    weights : int64 array of shape (n_rows,) or None
        Of the rows; None for 1.
    total : int
        The sum of all weights. Rows that a column has no value for are zeros; there are none where the sum of the
        weights of its values is no less.
    max_bins : int
        Most bins of a column.
    wants_values : bool
        Return the distinct values in place of thresholds.
    n_threads : int
        How many; no matter to the result.

    Returns
    -------
    found : float64 array
        The thresholds or values of one column after another.
    n_found : int32 array of shape (n_columns,)
        How many each has; of distinct values -1 where they are more than max_bins.
    """
    cdef Columns of
    cdef Py_ssize_t n_columns = starts.shape[0] - 1
    sizes = np.diff(starts) + 1
    room_of = np.minimum(sizes, max_bins)
    n_found, found = np.zeros(n_columns, dtype=np.int32), np.empty(int(room_of.sum()) + 1)
    cdef const int64_t[::1] first = np.cumsum(room_of) - room_of
    cdef int32_t[::1] counts = n_found
    cdef float64_t[::1] places = found
    cdef int64_t[:, ::1] room
    if n_columns == 0:
        return found[:0], n_found
    of.n = sizes.max()
    room = np.empty((n_threads, 4 * of.n), dtype=np.int64)
    of.x, of.value_size = &x[0] if x.shape[0] else NULL, sizeof(value_t)
    of.starts, of.rows, of.total, of.first = &starts[0], &rows[0] if rows.shape[0] else NULL, total, &first[0]
    of.weights = &weights[0] if weights is not None else NULL
    of.wants_values, of.max_bins = wants_values, max_bins
    of.room, of.found, of.n_found = &room[0, 0], &places[0], &counts[0]
    with nogil:
        share_pieces(_find_piece, &of, n_columns, n_threads)
    n_kept = np.maximum(n_found, 0)
    gaps = np.asarray(first) - (np.cumsum(n_kept) - n_kept)
    return found[np.arange(n_kept.sum()) + np.repeat(gaps, n_kept)], n_found
