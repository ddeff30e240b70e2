"""Predictions of trees whose leaves have linear models."""

import numpy as np

from libc.math cimport isfinite

from fastens.engine.strided cimport Values, value_at, values_of
from fastens.engine.structs cimport float64_t, int32_t, int64_t, value_t
from fastens.engine.team cimport share_pieces

cdef enum:
    BLOCK_ROWS = 256        # rows that a thread predicts for at a time


cdef struct Model:
    # All trees: the value and the intercept of each node, and its terms from starts[node] to starts[node + 1].
    const int64_t* offsets
    const int32_t* outputs
    const float64_t* value
    const float64_t* intercepts
    const int64_t* starts
    const int32_t* features
    const float64_t* slopes
    const float64_t* lower
    const float64_t* upper


cdef struct Adding:
    Model model
    Values X
    const int32_t* leaves       # tree by tree
    Py_ssize_t n_trees
    Py_ssize_t n_rows
    char* raw
    Py_ssize_t raw_strides[2]   # bytes


cdef inline float64_t line_at(const Model* model, const Values* X, Py_ssize_t row, Py_ssize_t node) noexcept nogil:
    cdef Py_ssize_t term
    cdef float64_t value, out = model.intercepts[node]
    for term in range(model.starts[node], model.starts[node + 1]):
        value = value_at(X, row, model.features[term])
        if not isfinite(value):
            return model.value[node]
        out += model.slopes[term] * min(max(value, model.lower[term]), model.upper[term])
    return out


cdef void add_piece(void* job, Py_ssize_t block, int32_t thread) noexcept nogil:
    cdef const Adding* adding = <const Adding*> job
    cdef const Model* model = &adding.model
    cdef const int32_t* leaves
    cdef Py_ssize_t tree, row
    cdef char* raw
    for tree in range(adding.n_trees):
        leaves = adding.leaves + tree * adding.n_rows
        raw = adding.raw + model.outputs[tree] * adding.raw_strides[1]
        for row in range(block * BLOCK_ROWS, min(adding.n_rows, (block + 1) * BLOCK_ROWS)):
            (<float64_t*> (raw + row * adding.raw_strides[0]))[0] += line_at(
                model, &adding.X, row, model.offsets[tree] + leaves[row])


def add_linear(trees, const value_t[:, :] X, const int32_t[:, ::1] leaves, places, float64_t[:, :] raw, int n_threads):
    """Add the predictions of leaves with linear models to raw predictions, tree after tree.

    Parameters
    ----------
    trees : LinearTree or LinearEnsemble
        The trees. A node's value is what it adds to rows without a model, or with something missing.
    X : float32 or float64 array of shape (n_rows, n_features)
        Values.
    leaves : int32 array of shape (n_trees, n_rows)
        The leaf of each row in each tree.
    places : tuple of int64 and int32 arrays of shape (n_trees,)
        The first node of each tree, and the column of `raw` that it adds to.
    raw : float64 array of shape (n_rows, n_outputs)
        Raw predictions, in any strides.
    n_threads : int
        Number of threads.
    """
    linear = trees.linear
    cdef const int64_t[::1] offsets = places[0], starts = linear.starts
    cdef const int32_t[::1] outputs = places[1], features = linear.features
    cdef const float64_t[::1] value = np.ascontiguousarray(trees.value[:, 0])
    cdef const float64_t[::1] intercepts = linear.intercepts(trees.value[:, 0])
    cdef const float64_t[::1] slopes = linear.slopes, lower = linear.lower, upper = linear.upper
    cdef Adding job
    cdef Model* model = &job.model
    job.n_trees, job.n_rows = leaves.shape[0], leaves.shape[1]
    if job.n_rows == 0 or job.n_trees == 0:
        return
    job.X, job.leaves = values_of(X), &leaves[0, 0]
    job.raw, job.raw_strides[0], job.raw_strides[1] = <char*> &raw[0, 0], raw.strides[0], raw.strides[1]
    model.offsets, model.outputs, model.value = &offsets[0], &outputs[0], &value[0]
    model.starts, model.intercepts = &starts[0], &intercepts[0]
    if slopes.shape[0]:
        model.features, model.slopes, model.lower, model.upper = &features[0], &slopes[0], &lower[0], &upper[0]
    with nogil:
        share_pieces(add_piece, &job, (job.n_rows + BLOCK_ROWS - 1) // BLOCK_ROWS, n_threads)
