from fastens.engine.histograms.cells cimport CellLayout, Histogram, Sums
from fastens.engine.histograms.histogram cimport Columns, Table
from fastens.engine.histograms.quantise cimport Quantised
from fastens.engine.structs cimport Feature, int64_t, uint32_t, uint64_t


cdef Sums sums_of_rows(const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows) noexcept nogil
cdef void build_sparse_histogram(
    const Table* table, const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows, Columns columns,
    const uint64_t* active, uint64_t* scratch, Histogram* out,
) noexcept nogil
cdef int64_t complete_zeros(
    const Histogram* histogram, const Feature* feature, const Sums* total, const CellLayout* layout
) noexcept nogil
cdef void subtract_zeros(
    const Histogram* parent, const Histogram* child, const Feature* feature, Histogram* out, const CellLayout* layout
) noexcept nogil
