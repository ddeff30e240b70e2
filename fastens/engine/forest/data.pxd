from fastens.engine.forest.splits.structs cimport Forest, Layout, Open, Sample
from fastens.engine.splits.workspace cimport Criterion
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint64_t
from fastens.engine.forest.tree cimport Workspace


cdef class ForestData:
    cdef Forest forest
    cdef float64_t[::1] ranges      # range of each target's values
    cdef float64_t widest           # maximum of the ranges
    cdef int32_t n_values
    cdef int32_t n_squares          # number of targets whose squares are also summed
    cdef bint with_search           # if True, the search statistics of each split are also returned
    # weights of the features; NULL if equal. Features of weight 0 are not used in any tree.
    cdef const float64_t* weights
    cdef list kept                  # owners of the memory the structs point to
    cdef int32_t[::1] columns       # column of the values that each sum belongs to; -1 if none

    cdef size_t _address(self, array, dtype) except 0
    cdef _set_table(self, matrix, values)
    cdef _set_sparse_codes(self, matrix)
    cdef _set_bin_values(self, values)
    cdef _set_targets(self, target, Criterion criterion)
    cdef _set_class_sums(self, target)
    cdef _set_number_sums(self, target, Criterion criterion)
    cdef _set_rules(self, rules)


cdef struct Weights:
    Py_ssize_t n_rows               # number of rows with positive weight
    float64_t total
    float64_t unit                  # power of two that all weights are multiples of, at most 1; 0 if it is too small


cdef Layout choose_layout(const Forest* forest, const Weights* weights, float64_t widest) noexcept nogil
cdef void fill_entries(
    const Forest* forest, const float64_t* weights, Py_ssize_t first, Py_ssize_t end, Sample* sample
) noexcept nogil
cdef void round_numbers(const Forest* forest, Py_ssize_t first, Py_ssize_t end, Sample* sample) noexcept nogil
cdef void scale_rules(const Forest* forest, float64_t total_weight, Sample* sample) noexcept nogil
cdef int64_t entry_weight(const Sample* sample, Py_ssize_t i) noexcept nogil
cdef float64_t power_of_two_below(float64_t x) noexcept nogil


# The input of tree growth, in a form that can be read without the GIL.


cdef struct Order:
    # The input of one tree.
    const float64_t* weights        # NULL if all weights are 1; rows of weight 0 are not in the sample
    Py_ssize_t first, end           # range of rows
    Py_ssize_t n_entries            # number of these rows in the sample
    Weights totals                  # total of the whole sample, even if the rows are only a part of it
    const Open* root                # the node to grow; NULL for a whole tree
    # mask of features that the tree may not use, followed by the features on the root's path (none)
    const uint64_t* mask
    int32_t n_excluded              # number of excluded features
    uint64_t seed                   # seed of the feature subsets and of random thresholds


cdef class Orders:
    cdef Order* each
    cdef int32_t n
    cdef list kept                  # owners of the memory the orders point to

    cdef _set_order(self, Order* order, sample, ForestData data, uint64_t[::1] mask)


cdef list open_branches_of(const Workspace* roots, const Sample* sample)
