from fastens.engine.forest.splits.structs cimport Forest, Layout, Sample
from fastens.engine.structs cimport float64_t, int32_t, int64_t


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
