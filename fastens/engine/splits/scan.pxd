# Gains of the splits of one feature from the running sums of its packed cells.

from fastens.engine.histograms.cells cimport CellLayout
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint64_t


cdef extern from "engine/splits/scan.h" nogil:
    ctypedef struct ScanNode:
        CellLayout layout
        float64_t ratio
        float64_t hessian
        float64_t l2
        float64_t total_gradient
        float64_t total_hessian
        float64_t lower
        float64_t upper
        float64_t smooth
        float64_t smooth_gradient
        float64_t node_score
        float64_t gain_unit
        float64_t hessian_unit

    void running_sums(const uint64_t* cells, Py_ssize_t n, uint64_t start, uint64_t* sums)
    void large_sums(
        const uint64_t* cells, Py_ssize_t n, uint64_t start, const CellLayout* node_layout, int64_t* counts,
        float64_t* gradients, float64_t* hessians,
    )
    void leave_out_light(
        const uint64_t* sums, const CellLayout* layout, int64_t least, int64_t most, Py_ssize_t* first,
        Py_ssize_t* end,
    )
    void split_gains(
        const uint64_t* sums, Py_ssize_t n, const ScanNode* node, float64_t* gains, float64_t* largest
    )
    void large_gains(
        const float64_t* gradients, const float64_t* hessians, Py_ssize_t n, const ScanNode* node, float64_t* gains,
        float64_t* largest,
    )
    void ordered_gains(
        const uint64_t* sums, Py_ssize_t n, const ScanNode* node, int32_t monotone, float64_t* gains,
        float64_t* largest,
    )
    void bound_gains(
        const uint64_t* sums, Py_ssize_t n, const ScanNode* node, int32_t monotone, float64_t* gains,
        float64_t* largest,
    )
    void joint_gains(
        const uint64_t* sums, Py_ssize_t n, const ScanNode* node, int32_t monotone, float64_t* gains,
        float64_t* hessians,
    )
    void largest(const float64_t* values, Py_ssize_t n, float64_t* found)
    Py_ssize_t place_of(float64_t number, const float64_t* numbers)
