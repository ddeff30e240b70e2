from fastens.engine.histograms.cells cimport CellLayout
from fastens.engine.ranks cimport Ranks
from fastens.engine.structs cimport float32_t, float64_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef struct RowGradients:
    # Unweighted gradients and hessians of the loss for each row, and its weight: the number of copies times another
    # factor. NULL means that all values are 1.
    const float32_t* gradients
    const float32_t* hessians
    const float64_t* copies
    const float64_t* factors
    Py_ssize_t n_rows
    Ranks* ranks                    # NULL if there is only one worker
    bint constant_hessian
    # sums over the rows of all workers
    float64_t n_copies
    float64_t most_copies
    float64_t total_weight
    float64_t weight_scale          # fixed-point weight = weight * weight_scale


cdef struct Scales:
    # Fixed-point value = real value * scale. `exact_*` and `root` apply to the leaf sums.
    float64_t gradient
    float64_t hessian
    float64_t exact_gradient
    float64_t exact_hessian
    float64_t root                  # scale of gradients before they are squared


cdef struct Moments:
    # Fixed-point sums over some rows.
    int64_t gradient
    int64_t hessian
    int64_t square                  # sum of squared gradients
    int64_t copies                  # sum of the rows' copies


cdef struct Quantised:
    # Quantised gradient and hessian of each row, with buffers for all their forms. See cells.h.
    bint narrow                     # stored as words, or as payloads if there is no buffer for words; otherwise wide
    # payload of the first row, in its record or separate; the others follow at a fixed distance
    uint8_t* payloads
    Py_ssize_t payload_stride
    uint64_t* words                 # words that rows add to their packed cells; NULL if there is no buffer
    uint32_t* fresh                 # buffer for payloads that are not yet in the records; NULL if there is none
    # `fresh` holds payloads; the histogram of a tree's root, which reads all records, copies them there
    bint are_fresh
    int64_t* wide                   # 3 * n_rows words, allocated on first use
    CellLayout layout
    Scales scales
    float64_t mean_hessian          # mean per row (or copy), in the units of the sums


cdef bint quantise(
    const RowGradients* source, bint need_weights, Quantised* out, int32_t n_threads
) noexcept nogil
cdef Moments exact_sums(
    const RowGradients* source, const Scales* scales, const uint32_t* rows, Py_ssize_t n_rows
) noexcept nogil
