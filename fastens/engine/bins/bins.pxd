from fastens.engine.structs cimport FeatureBins, code_t, int32_t, value_t


cdef void bin_values(
    const FeatureBins* bins, const value_t* x, Py_ssize_t stride, Py_ssize_t n, code_t* out
) noexcept nogil


cdef class BinTable:
    # The search tables of all features. Nothing in it changes after it was made, so threads may share it.
    cdef FeatureBins* features
    cdef readonly Py_ssize_t n_features
    # What the features point to.
    cdef object thresholds, bucket_start, category_codes
    cdef _set_thresholds(self, list thresholds)
    cdef _set_categories(self, list category_codes, const int32_t[:, ::1] lookup)
