from fastens.engine.structs cimport code_t, float64_t, int32_t, uint16_t, value_t


cdef extern from "engine/bins/bin_loops.h" nogil:
    ctypedef struct Buckets:
        float64_t origin
        float64_t scale
        float64_t last
        int32_t log_floor


cdef struct FeatureBins:
    # Mapping of one feature's values to codes.
    #
    # numeric:      code = 1 + number of thresholds < x;  `x <= thresholds[c - 1]` is equivalent to `code <= c`
    # categorical:  x is the category's position, and code = category_codes[x]. The two entries after the last category
    # are for missing values and for numbers that are not a position.
    const float64_t* thresholds     # padded with infinity to full windows of 2**n_steps - 1
    int32_t n_thresholds
    # The search starts at bucket_start[bucket of the value] and takes n_steps binary steps.
    const uint16_t* bucket_start
    Buckets buckets
    int32_t n_steps
    # NULL for a numeric feature
    const uint16_t* category_codes
    int32_t n_categories
    float64_t above                 # values must be greater to be a position
    bint is_whole                   # fractional numbers are not positions
    bint is_single                  # values are first rounded to float32


cdef void bin_values(
    const FeatureBins* bins, const value_t* x, Py_ssize_t stride, Py_ssize_t n, code_t* out
) noexcept nogil


cdef class BinTable:
    # Search tables of all features. They are immutable once constructed, so threads may share them.
    cdef FeatureBins* features
    cdef readonly Py_ssize_t n_features
    # Arrays that own the memory the features point to.
    cdef object thresholds, bucket_start, category_codes
    cdef _set_thresholds(self, list thresholds)
    cdef _set_categories(self, list category_codes, const int32_t[:, ::1] lookup)
