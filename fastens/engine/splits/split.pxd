from fastens.engine.histograms.cells cimport CellLayout, Histogram, Sums
from fastens.engine.splits.gain cimport Scan, ScanRoom, Split, SplitRules
from fastens.engine.structs cimport Column, Feature


cdef Sums column_sums(
    const Histogram* histogram, const Column* column, const CellLayout* layout
) noexcept nogil
cdef void best_split_of_feature(
    const Histogram* histogram, const CellLayout* layout, const Feature* feature, const Scan* start,
    const SplitRules* rules, ScanRoom* room, Split* best,
) noexcept nogil
