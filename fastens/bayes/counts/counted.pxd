from fastens.engine.structs cimport float64_t, int64_t, uint8_t, uint16_t, uint32_t

ctypedef fused any_code_t:
    uint8_t
    uint16_t
    uint32_t

ctypedef fused count_t:
    int64_t         # counts of rows
    float64_t       # sums of weights


cdef inline const float64_t* weight_pointer(const float64_t[::1] weight) noexcept:
    """Return a pointer to the first weight, or NULL if `weight` is None, which means weights of 1."""
    if weight is None:
        return NULL
    return &weight[0]


cdef inline void count_row(count_t* cell, const float64_t* weight, Py_ssize_t row) noexcept nogil:
    """Add the weight of the row, or 1 if counts are integers, to a cell."""
    if count_t is int64_t:
        cell[0] += 1
    else:
        cell[0] += weight[row]
