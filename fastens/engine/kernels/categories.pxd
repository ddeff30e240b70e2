from .gain cimport Scan, ScanRoom, SplitRules
from .structs cimport CellLayout, Feature, Histogram, Split, float64_t, int32_t, uint32_t


cdef void sort_codes(ScanRoom* room, int32_t n) noexcept nogil
cdef float64_t category_penalty(const Feature* feature, const SplitRules* rules) noexcept nogil
cdef void scan_categories(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature,
    const SplitRules* rules, ScanRoom* room, Scan* scan,
) noexcept nogil
cdef void write_category_set(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature,
    const SplitRules* rules, ScanRoom* room, const Split* split, uint32_t* words,
) noexcept nogil
