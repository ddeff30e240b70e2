from .gain cimport ScanRoom, SplitRules, ValueLimits
from .structs cimport CellLayout, Column, Feature, Histogram, Split, Sums, int64_t, uint64_t


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


cdef Sums column_sums(
    const Histogram* histogram, const Column* column, const CellLayout* layout
) noexcept nogil
cdef void best_split_of_feature(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature, const Sums* total,
    const ValueLimits* limits, const SplitRules* rules, ScanRoom* room, Split* best,
) noexcept nogil
