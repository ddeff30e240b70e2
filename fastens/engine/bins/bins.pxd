from fastens.engine.structs cimport FeatureBins, code_t, int32_t, value_t


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
