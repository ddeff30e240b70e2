"""What trees are to be grown on: whole trees on samples of the rows, or branches that other ranks began."""

from cython cimport final
from libc.stdlib cimport free, malloc

from fastens.engine.forest.data cimport ForestData
from fastens.engine.forest.expand cimport bind_to_path
from fastens.engine.forest.sample cimport Weights, sum_weights
from fastens.engine.forest.splits.structs cimport Open, Sample
from fastens.engine.forest.tree cimport Workspace
from fastens.engine.paths cimport add_feature, binds_paths, mask_words
from fastens.engine.structs cimport float64_t, int32_t, uint8_t, uint32_t, uint64_t

import numpy as np


def totals_of(const float64_t[::1] weights):
    """Return how many of some rows have a positive weight, what all weights add up to, and whether all are whole."""
    cdef Weights found = Weights(0, 0.0, True)
    if len(weights) > 0:
        found = sum_weights(&weights[0], 0, len(weights))
    return found.n_rows, found.total, found.whole


cdef int32_t _mark(ForestData data, features, uint64_t* mask):
    """Mark the features that a tree may not use; return how many."""
    cdef int32_t f, n = 0, n_features = data.forest.table.n_features
    cdef const float64_t* weights = data.weights
    cdef uint8_t[::1] allowed
    if features is not None or weights != NULL:
        marked = np.full(n_features, features is None)
        if features is not None:
            marked[features] = True
        allowed = marked.view(np.uint8)
        for f in range(n_features):
            if not allowed[f] or (weights != NULL and weights[f] == 0):
                add_feature(mask, f)
                n += 1
    return bind_to_path(&data.forest, -1, mask) if binds_paths(&data.forest.limits) else n


cdef list open_branches_of(const Workspace* roots, const Sample* sample):
    """Open nodes, each as `TreeWorker.open_branches` returns it."""
    cdef const Open* root
    cdef Py_ssize_t n_bytes = roots.search.n_mask_words * sizeof(uint64_t)
    cdef uint32_t[::1] rows
    cdef uint32_t k
    cdef int32_t i
    found = []
    for i in range(roots.n_open):
        root = &roots.open[i]
        rows = np.empty(root.end - root.begin, np.uint32)
        for k in range(root.end - root.begin):
            rows[k] = sample.entries[root.begin + k].row
        mask = (<const char*>roots.masks)[i * n_bytes:(i + 1) * n_bytes]
        found.append((root.node, root.n_rows, np.asarray(rows), (<const char*>root)[:sizeof(Open)], mask))
    return found


@final
cdef class Orders:
    """One order for each TreeSample."""

    def __init__(self, ForestData data, samples):
        cdef int32_t i
        cdef int32_t n_words = mask_words(data.forest.table.n_features) * (1 + binds_paths(&data.forest.limits))
        cdef uint64_t[:, ::1] masks = np.zeros((len(samples), n_words), np.uint64)
        self.n = len(samples)
        self.each = <Order*>malloc(max(self.n, 1) * sizeof(Order))
        if self.each == NULL:
            raise MemoryError(f"no memory for {self.n} samples")
        self.kept = [masks, samples]
        for i in range(self.n):
            self._set(&self.each[i], samples[i], data, masks[i])

    def __dealloc__(self):
        free(self.each)

    cdef _set(self, Order* order, sample, ForestData data, uint64_t[::1] mask):
        cdef Py_ssize_t n_rows = data.forest.table.n_rows
        cdef const float64_t[::1] weights = sample.weight
        cdef const uint8_t[::1] root
        order.weights = NULL if weights is None or n_rows == 0 else &weights[0]
        order.seed, order.mask, order.root = sample.seed, &mask[0], NULL
        order.first, order.end = (0, n_rows) if sample.branch is None else sample.branch.rows
        order.totals = sum_weights(order.weights, order.first, order.end)
        order.n_entries = order.totals.n_rows
        if sample.totals is not None:
            order.totals = Weights(sample.totals.n_rows, sample.totals.total, sample.totals.whole)
        if sample.branch is None:
            order.n_excluded = _mark(data, sample.features, &mask[0])
        else:
            root = sample.branch.node
            order.root = <const Open*>&root[0]
            order.n_excluded = order.root.n_excluded
            np.asarray(mask)[:] = np.frombuffer(sample.branch.mask, np.uint64)
