from fastens.engine.bins.pages cimport Pages
from fastens.engine.histograms.cells cimport CellLayout, Histogram, Sums, word_of_payload
from fastens.engine.histograms.quantise cimport Quantised
from fastens.engine.structs cimport Column, Feature, int32_t, int64_t, uint32_t, uint64_t, uint8_t


cdef enum:
    # Distance between the cells of consecutive columns for one-byte codes: a compile-time constant that avoids cache
    # set conflicts.
    CELL_STRIDE = 264
    # Columns that are counted together: their cells stay in the cache.
    COLUMN_BLOCK = 32


cdef struct Table:
    # Binned rows as the histogram kernels read them.
    const uint8_t* records          # (n_rows, stride) bytes: the codes of a row, and space for its payload
    Py_ssize_t stride
    int32_t code_size               # 1 or 2 bytes
    Pages* pages                    # pages of the memory-mapped files that hold the records; NULL if they are in memory
    # For sparse tables: the cells of each row's stored codes, in ascending order. NULL if there are records.
    const uint32_t* cells
    const int64_t* first_cell       # offset of each row, then the end of the last row
    Py_ssize_t codes_per_row        # average number of codes per row that histograms count
    int32_t n_features
    int32_t n_columns
    const Column* columns           # for one-byte codes, the cells of column c start at c * CELL_STRIDE
    Py_ssize_t n_counted            # number of cells of the columns; the cells of bundled features follow
    Py_ssize_t n_cells
    Py_ssize_t n_codes              # total over all columns


cdef struct Columns:
    # A range of adjacent columns.
    int32_t first
    int32_t end


cdef enum Place:
    # Where the word that each row adds to the cells is stored.
    IN_WORDS
    IN_PAYLOADS
    IN_FRESH                        # payload that is also copied to the records


cdef inline Place place_of_words(const Quantised* gradients) noexcept nogil:
    if gradients.words != NULL:
        return IN_WORDS
    return IN_FRESH if gradients.are_fresh else IN_PAYLOADS


cdef inline uint64_t word_of(const Quantised* gradients, uint32_t row, Place place) noexcept nogil:
    """Return the word that a row adds to each of its cells."""
    cdef uint32_t* payload
    if place == IN_WORDS:
        return gradients.words[row]
    payload = <uint32_t*>(gradients.payloads + row * gradients.payload_stride)
    if place == IN_FRESH:
        payload[0] = gradients.fresh[row]
    return word_of_payload(payload[0], &gradients.layout)


cdef void build_histogram(
    const Table* table, const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows, Columns columns,
    Py_ssize_t most_rows, uint64_t* scratch, Histogram* out,
) noexcept nogil
cdef void merge_histogram(Histogram* into, const Histogram* other, const Column* column) noexcept nogil
cdef void subtract_histogram(
    const Histogram* parent, const Histogram* child, Histogram* out, const CellLayout* layout, const Column* column
) noexcept nogil
cdef void unbundle(
    Histogram* histogram, const Column* column, const Feature* features, const Sums* total, const CellLayout* layout
) noexcept nogil


cdef Sums sums_of_rows(const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows) noexcept nogil
cdef void build_sparse_histogram(
    const Table* table, const Quantised* gradients, const uint32_t* rows, Py_ssize_t n_rows, Columns columns,
    const uint64_t* active, uint64_t* scratch, Histogram* out,
) noexcept nogil
cdef void complete_zeros(
    const Histogram* histogram, const Feature* feature, const Sums* total, const CellLayout* layout
) noexcept nogil
cdef int64_t count_stored(
    const Histogram* histogram, const Feature* feature, const Sums* total, const CellLayout* layout
) noexcept nogil
cdef void subtract_zeros(
    const Histogram* parent, const Histogram* child, const Feature* feature, Histogram* out, const CellLayout* layout
) noexcept nogil
