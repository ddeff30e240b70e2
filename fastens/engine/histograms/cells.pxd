# Histogram cells: packed and wide sums over the rows of a bin code. Only cells.h depends on their bit layout.

from fastens.engine.structs cimport int32_t, int64_t, uint32_t, uint64_t


cdef extern from "engine/histograms/cells.h" nogil:
    enum:
        NARROW_BITS
        HESSIAN_BITS

    ctypedef struct Sums:
        int64_t gradient
        int64_t hessian
        int64_t count
        int64_t weight

    ctypedef struct CellLayout:
        int32_t gradient_shift
        int32_t hessian_shift
        uint64_t hessian_mask
        uint64_t count_mask
        int64_t gradient_bias
        int64_t max_rows

    ctypedef struct Histogram:
        int64_t* cells
        bint packed

    CellLayout make_layout(int32_t hessian_bits, int64_t most_copies)
    uint32_t payload_of_row(int64_t gradient, int64_t hessian, const CellLayout* layout)
    uint64_t word_of_payload(uint32_t payload, const CellLayout* layout)
    uint64_t word_of_row(int64_t gradient, int64_t hessian, int64_t copies, const CellLayout* layout)
    int64_t count_of(uint64_t word, const CellLayout* layout)
    Sums unpack(uint64_t word, const CellLayout* layout)
    void write_row(int64_t* row, int64_t gradient, int64_t hessian, int64_t weight, int64_t copies)
    void add_row(int64_t* cell, const int64_t* row)
    void cells_to_send(int64_t* cells, Py_ssize_t n)
    void cells_received(int64_t* cells, Py_ssize_t n)
    Py_ssize_t words_per_cell(const Histogram* histogram)
    Sums cell_sums(const Histogram* histogram, Py_ssize_t cell, const CellLayout* layout)
    void set_cell(const Histogram* histogram, Py_ssize_t cell, const Sums* sums, const CellLayout* layout)
    void subtract_words(const int64_t* whole, const int64_t* part, Py_ssize_t n, int64_t* out)
    bint is_empty(const Histogram* histogram, Py_ssize_t cell)
    void flush_cell(uint64_t* packed, int64_t* wide, const CellLayout* layout)
    Py_ssize_t first_with_count(const uint64_t* sums, Py_ssize_t n, const CellLayout* layout, int64_t count)


cdef inline Sums sums_difference(const Sums* whole, const Sums* part) noexcept nogil:
    cdef Sums rest
    rest.gradient = whole.gradient - part.gradient
    rest.hessian = whole.hessian - part.hessian
    rest.count = whole.count - part.count
    rest.weight = whole.weight - part.weight
    return rest


cdef inline void clear_sums(Sums* sums) noexcept nogil:
    sums.gradient = sums.hessian = sums.count = sums.weight = 0


cdef inline void add_sums(Sums* into, const Sums* other) noexcept nogil:
    into.gradient += other.gradient
    into.hessian += other.hessian
    into.count += other.count
    into.weight += other.weight
