# What trees are to be grown on, where no Python is needed to look it up.

from fastens.engine.forest.data cimport ForestData
from fastens.engine.forest.sample cimport Weights
from fastens.engine.forest.splits.structs cimport Open, Sample
from fastens.engine.forest.tree cimport Workspace
from fastens.engine.structs cimport float64_t, int32_t, uint64_t


cdef struct Order:
    # What one tree is to be grown on.
    const float64_t* weights        # NULL: all ones; 0: the row is not in the sample
    Py_ssize_t first, end           # rows
    Py_ssize_t n_entries            # those of them in the sample
    Weights totals                  # of the whole sample; not of the rows where these are only some of them
    const Open* root                # the node that is to be grown; NULL: a whole tree
    const uint64_t* mask            # of features that it may not use, and of those on the root's path: none
    int32_t n_excluded              # their number
    uint64_t seed                   # of the features' subsets and the random thresholds


cdef class Orders:
    cdef Order* each
    cdef int32_t n
    cdef list kept                  # what the orders point to

    cdef _set(self, Order* order, sample, ForestData data, uint64_t[::1] mask)


cdef list open_branches_of(const Workspace* roots, const Sample* sample)
