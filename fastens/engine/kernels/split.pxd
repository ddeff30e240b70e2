from .gain cimport ScanRoom, SplitRules, ValueLimits
from .structs cimport CellLayout, Feature, Histogram, Split, Sums


cdef Sums feature_sums(
    const Histogram* histogram, const Feature* feature, const CellLayout* layout
) noexcept nogil
cdef void best_split_of_feature(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature, const Sums* total,
    const ValueLimits* limits, const SplitRules* rules, ScanRoom* room, Split* best,
) noexcept nogil
