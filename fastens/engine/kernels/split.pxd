from .structs cimport CellLayout, Feature, Histogram, Split, Sums, float64_t, int32_t, int64_t, uint32_t, uint64_t


cdef struct SplitRules:
    # What makes a split allowed, in the fixed-point units of the sums.
    int64_t min_count
    int64_t min_hessian
    int64_t min_weight
    float64_t l2
    float64_t category_l2           # extra, for splits on categories
    float64_t category_smoothing
    float64_t min_gain


cdef struct ScanRoom:
    # Room for one thread to go through the codes of a feature.
    float64_t* keys
    int32_t* codes
    uint64_t* sums


cdef inline Py_ssize_t first_with(
    const uint64_t* sums, Py_ssize_t n, uint64_t count_mask, int64_t count
) noexcept nogil:
    """The first of the running sums that counts so many rows."""
    cdef Py_ssize_t low = 0, high = n, middle
    while low < high:
        middle = (low + high) // 2
        if <int64_t>(sums[middle] & count_mask) < count:
            low = middle + 1
        else:
            high = middle
    return low


cdef void sort_codes(ScanRoom* room, int32_t n) noexcept nogil
cdef float64_t node_score(const Sums* sums, float64_t l2) noexcept nogil
cdef Sums feature_sums(
    const Histogram* histogram, const Feature* feature, const CellLayout* layout
) noexcept nogil
cdef void best_split_of_feature(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature,
    const Sums* total, const SplitRules* rules, ScanRoom* room, Split* best,
) noexcept nogil
cdef void write_category_set(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature,
    const SplitRules* rules, ScanRoom* room, const Split* split, uint32_t* words,
) noexcept nogil
