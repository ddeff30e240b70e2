from fastens.engine.histograms.cells cimport Sums
from fastens.engine.splits.gain cimport FeatureCells, Scan, ScanRoom, Split, SplitRules
from fastens.engine.structs cimport Feature, float64_t, int32_t, int64_t, uint32_t

cdef enum:
    POOL = -1                       # stands for all the rare categories of a node


cdef inline bint is_one_hot(const Feature* feature, const SplitRules* rules) noexcept nogil:
    return feature.n_codes <= rules.one_hot_codes


cdef inline bint is_rare(int32_t code, int64_t count, const SplitRules* rules) noexcept nogil:
    """Missing, code 0, is no category and never rare."""
    return code > 0 and count < rules.min_category_count


cdef float64_t category_penalty(const Feature* feature, const SplitRules* rules) noexcept nogil
cdef int32_t order_categories(const FeatureCells* cells) noexcept nogil
cdef void scan_categories(const FeatureCells* cells, Scan* scan) noexcept nogil
cdef void write_category_set(const FeatureCells* cells, const Split* split, uint32_t* words) noexcept nogil
