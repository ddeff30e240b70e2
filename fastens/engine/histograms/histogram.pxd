from fastens.engine.histograms.cells cimport CellLayout, Histogram, Sums
from fastens.engine.structs cimport Column, Feature, int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    # Cells from one column to the next where codes are bytes: known to the compiler, and not a multiple of the
    # distance at which cache lines compete for the same place.
    CELL_STRIDE = 264


cdef struct RowStatistics:
    # Each row's quantised gradient and hessian, in one of two forms.
    # narrow: a payload, inside the row's record or apart.  wide: three words a row.  See cells.h.
    bint narrow
    const int64_t* wide


cdef struct Table:
    # The binned rows as the histogram kernels read them.
    const uint8_t* records          # (n_rows, stride) bytes: the codes of a row, and room for its payload
    Py_ssize_t stride
    const uint8_t* payloads         # of the first row, in its record or apart; others follow at this distance
    Py_ssize_t payload_stride
    const uint64_t* words           # or what each row adds to its cells, ready made; NULL: it is not
    int32_t code_size               # 1 or 2 bytes
    int32_t n_features
    int32_t n_columns
    const Column* columns           # for codes of one byte, the cells of column c start at c * CELL_STRIDE
    Py_ssize_t n_counted            # cells of the columns; those of features in bundles follow
    Py_ssize_t n_cells
    Py_ssize_t n_codes              # of all columns together


cdef struct Columns:
    # Some neighbours of a table's columns.
    int32_t first
    int32_t end


cdef inline Columns all_columns(const Table* table) noexcept nogil:
    return Columns(0, table.n_columns)


cdef void build_histogram(
    const Table* table, const RowStatistics* statistics, const CellLayout* layout,
    const uint32_t* rows, Py_ssize_t n_rows, const Columns* columns, uint64_t* scratch, Histogram* out,
) noexcept nogil
cdef void merge_histogram(Histogram* into, const Histogram* other, const Column* column) noexcept nogil
cdef void subtract_histogram(
    const Histogram* parent, const Histogram* child, Histogram* out, const CellLayout* layout, const Column* column
) noexcept nogil
cdef void unbundle(
    Histogram* histogram, const Column* column, const Feature* features, const Sums* total, const CellLayout* layout
) noexcept nogil
