from fastens.engine.histograms.cells cimport CellLayout, Histogram, Sums
from fastens.engine.splits.features cimport Thresholds
from fastens.engine.splits.gain cimport FeatureCells, Scan, Split, SplitRules
from fastens.engine.splits.scan cimport ScanNode
from fastens.engine.structs cimport Column, int32_t, uint64_t


cdef Sums column_sums(const Histogram* histogram, const Column* column, const CellLayout* layout) noexcept nogil
cdef ScanNode node_of_scan(const CellLayout* layout, const SplitRules* rules, const Scan* scan) noexcept nogil
cdef const uint64_t* look_at(uint64_t* sums, const Thresholds* among) noexcept nogil
cdef int32_t centre_of_gap(const FeatureCells* cells, int32_t code) noexcept nogil
cdef Thresholds thresholds_of_wide(
    const FeatureCells* cells, const Sums* total, int32_t last, bint missing_left
) noexcept nogil
cdef void best_split_of_feature(
    const FeatureCells* cells, const Scan* start, const Split* so_far, Split* best
) noexcept nogil
