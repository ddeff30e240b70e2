from fastens.engine.forest.splits.structs cimport Forest, Layout, Open, Sample
from fastens.engine.splits.workspace cimport Criterion
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint64_t
from fastens.engine.forest.tree cimport Workspace


cdef class ForestData:
    cdef Forest forest
    cdef float64_t[::1] ranges      # of each target's numbers
    cdef float64_t widest           # the largest of them
    cdef int32_t n_values
    cdef int32_t n_squares          # numbers whose squares are summed up too
    cdef bint with_search           # what splits were chosen from is returned too
    cdef const float64_t* weights   # of the features; NULL: equal. 0: no tree may use it
    cdef list kept                  # arrays that the structs point into
    cdef int32_t[::1] columns       # the column of the values that each sum belongs to, -1: none

    cdef size_t _pointer(self, array, dtype) except 0
    cdef _set_table(self, matrix, values)
    cdef _set_stored(self, matrix)
    cdef _set_values(self, values)
    cdef _set_targets(self, target, Criterion criterion)
    cdef _set_classes(self, target)
    cdef _set_numbers(self, target, Criterion criterion)
    cdef _set_rules(self, rules)


cdef struct Weights:
    Py_ssize_t n_rows               # of positive weight
    float64_t total
    bint whole                      # whole numbers, which are not rounded


cdef Weights sum_weights(const float64_t* weights, Py_ssize_t first, Py_ssize_t end) noexcept nogil
cdef Layout choose_layout(const Forest* forest, const Weights* weights, float64_t widest) noexcept nogil
cdef void fill_entries(
    const Forest* forest, const float64_t* weights, Py_ssize_t first, Py_ssize_t end, Sample* sample
) noexcept nogil
cdef void round_numbers(const Forest* forest, Py_ssize_t first, Py_ssize_t end, Sample* sample) noexcept nogil
cdef void scale_rules(const Forest* forest, float64_t total_weight, Sample* sample) noexcept nogil
cdef int64_t entry_weight(const Sample* sample, Py_ssize_t i) noexcept nogil
cdef float64_t power_of_two_below(float64_t x) noexcept nogil


# What trees are to be grown on, where no Python is needed to look it up.



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
