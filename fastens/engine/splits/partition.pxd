from fastens.engine.bins.pages cimport Pages
from fastens.engine.structs cimport int32_t, uint32_t


cdef struct Decision:
    # Which codes of a column go left (see goes_left.h): those up to the bin, or, with categories, those in the set.
    const void* column
    Py_ssize_t row_step             # bytes from the code of a row to that of the next
    int32_t code_size
    Pages* pages                    # of the files that codes are in; NULL: memory
    int32_t n_codes
    int32_t bin
    bint missing_left
    const uint32_t* category_words  # NULL for a numeric feature
    # where only some rows have a code, and all others that of zeros; NULL: all have
    const int32_t* stored_rows      # ascending
    Py_ssize_t n_stored
    int32_t zero_code


cdef Py_ssize_t split_rows(
    const Decision* decision, const uint32_t* rows, Py_ssize_t n_rows, uint32_t* scratch
) noexcept nogil
cdef void collect_rows(
    const uint32_t* scratch, Py_ssize_t n_rows, Py_ssize_t n_left, uint32_t* left, uint32_t* right
) noexcept nogil
