from fastens.engine.histograms.cells cimport CellLayout
from fastens.engine.ranks cimport Ranks
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef struct RowGradients:
    # What the loss gives for each row, unweighted, and the weights: whole numbers of copies, times other factors; NULL
    # for ones.
    const float32_t* gradients
    const float32_t* hessians
    const float64_t* copies
    const float64_t* factors
    Py_ssize_t n_rows
    Ranks* ranks                    # NULL: one
    bint constant_hessian
    # of the rows of all ranks
    float64_t n_copies
    float64_t most_copies
    float64_t total_weight
    float64_t weight_scale          # fixed-point weight = weight * weight_scale


cdef struct Scales:
    # Fixed-point value = real value * scale. `exact_*` and `root` are those of the leaf sums.
    float64_t gradient
    float64_t hessian
    float64_t exact_gradient
    float64_t exact_hessian
    float64_t root                  # of gradients that are then squared


cdef struct Moments:
    # Sums over some rows, in fixed point.
    int64_t gradient
    int64_t hessian
    int64_t square                  # of the gradients
    int64_t copies                  # of the rows


cdef struct Quantised:
    # Each row's quantised gradient and hessian, and room for all forms of them. See cells.h.
    bint narrow                     # they are words, or where there is no room for these, payloads; else wide
    uint8_t* payloads               # of the first row, in its record or apart; others follow at this distance
    Py_ssize_t payload_stride
    uint64_t* words                 # what a row adds to its packed cells; NULL: there is no room
    uint32_t* fresh                 # room for payloads that wait to be put into the records; NULL: none
    bint are_fresh                  # they do: the count of a tree's first node, which reads all records, does it
    int64_t* wide                   # 3 * n_rows, NULL until first needed
    CellLayout layout
    Scales scales
    float64_t mean_hessian          # of a row, or copy of it, in the units of the sums


cdef bint quantise(
    const RowGradients* source, bint need_weights, Quantised* out, int32_t n_threads
) noexcept nogil
cdef Moments exact_sums(
    const RowGradients* source, const Scales* scales, const uint32_t* rows, Py_ssize_t n_rows
) noexcept nogil
