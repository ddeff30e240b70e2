from .structs cimport CellLayout, Histogram, int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef struct RowStatistics:
    # Each row's quantised gradient and hessian, in one of two forms.
    # narrow: a 4-byte payload inside the row's record, gradient << hessian_bits | hessian
    # wide:   three arrays, gradient, hessian, weight << 32 | 1
    bint narrow
    int32_t hessian_bits
    const int64_t* gradients
    const int64_t* hessians
    const int64_t* counts


cdef struct Table:
    # The binned rows as the histogram kernels read them.
    const uint8_t* records          # (n_rows, stride) bytes: the codes of a row, then its payload
    Py_ssize_t stride
    Py_ssize_t payload
    int32_t code_size               # 1 or 2 bytes
    int32_t n_features
    const uint32_t* offsets         # first cell of each feature, n_features + 1 of them
    Py_ssize_t n_cells


cdef void build_histogram(
    const Table* table, const RowStatistics* statistics, const CellLayout* layout,
    const uint32_t* rows, Py_ssize_t n_rows, uint64_t* scratch, Histogram* out,
) noexcept nogil
cdef void merge_histogram(Histogram* into, const Histogram* other, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t n_cells) noexcept nogil
cdef void subtract_histogram(
    const Histogram* parent, const Histogram* child, Histogram* out, const CellLayout* layout,
    Py_ssize_t begin, Py_ssize_t end, Py_ssize_t n_cells,
) noexcept nogil
