from fastens.engine.splits.gain cimport Scan, ScanRoom, SplitRules
from fastens.engine.structs cimport CellLayout, Column, Feature, Histogram, Split, Sums, int64_t, uint64_t


cdef inline Py_ssize_t first_with(
    const uint64_t* sums, Py_ssize_t n, uint64_t count_mask, int64_t count
) noexcept nogil:
    """The first of the running sums that counts so many rows: without branches, which nobody could foretell."""
    cdef Py_ssize_t first = 0, half
    while n > 1:
        half = n // 2
        first += half * (<int64_t>(sums[first + half - 1] & count_mask) < count)
        n -= half
    return first + (n == 1 and <int64_t>(sums[first] & count_mask) < count)


cdef Sums column_sums(
    const Histogram* histogram, const Column* column, const CellLayout* layout
) noexcept nogil
cdef void best_split_of_feature(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature, const Scan* start,
    const SplitRules* rules, ScanRoom* room, Split* best,
) noexcept nogil
