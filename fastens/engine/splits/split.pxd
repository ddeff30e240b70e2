from fastens.engine.structs cimport Column, Feature, float64_t, int32_t, int64_t, uint32_t, uint64_t, uint8_t
from fastens.engine.histograms.cells cimport CellLayout, Histogram, Sums
from fastens.engine.splits.gain cimport FeatureCells, Scan, ScanBuffer, Split, SplitRules
from fastens.engine.random cimport random_below, random_bits
from fastens.engine.splits.workspace cimport Workspace
from fastens.engine.splits.scan cimport ScanNode


cdef void sort_by_key(float64_t* keys, int32_t* codes, int32_t n) noexcept nogil


cdef enum:
    POOL = -1                       # stands for all rare categories of a node


cdef inline bint is_one_hot(const Feature* feature, const SplitRules* rules) noexcept nogil:
    return feature.n_codes <= rules.one_hot_codes


cdef inline bint is_rare(int32_t code, int64_t count, const SplitRules* rules) noexcept nogil:
    """Return True if a category is rare. Code 0, missing, is not a category and is never rare."""
    return code > 0 and count < rules.min_category_count


cdef float64_t category_penalty(const Feature* feature, const SplitRules* rules) noexcept nogil
cdef int32_t order_categories(const FeatureCells* cells) noexcept nogil
cdef void write_category_set(const FeatureCells* cells, const Split* split, uint32_t* words) noexcept nogil


# Random choices of a tree and of its nodes: features, and thresholds of each feature.


cdef void draw_tree_features(Workspace* ws) noexcept nogil
cdef void allow_features(Workspace* ws, int32_t node, int32_t room, uint8_t* allowed) noexcept nogil
cdef bint draws_one_by_one(const Workspace* ws) noexcept nogil
cdef bint is_drawn(const Workspace* ws, const int32_t* rounds, int32_t feature) noexcept nogil
cdef void start_permutation(const Workspace* ws, int32_t node, int32_t* rounds) noexcept nogil

# Counters of the nodes' thresholds in a tree's random stream; the feature draws of split.pyx use other counters.
cdef enum:
    FIRST_OF_NODES = 1 << 30
    MIN_THRESHOLDS = 2


cdef struct Thresholds:
    # Thresholds after the codes first + 1 .. end, or one drawn at random from each of n equal parts of them.
    Py_ssize_t first
    Py_ssize_t end
    Py_ssize_t n
    bint are_drawn
    uint64_t key


cdef inline uint64_t key_of_thresholds(uint64_t seed, int32_t node) noexcept nogil:
    """Return the key of the random thresholds of a node."""
    return random_bits(seed, (<uint64_t>FIRST_OF_NODES << 32) + <uint64_t>node)


cdef inline Thresholds thresholds_among(
    const FeatureCells* cells, int64_t n_rows, Py_ssize_t first, Py_ssize_t end
) noexcept nogil:
    """Return the thresholds to evaluate among first .. end - 1, which leave both sides large enough."""
    cdef Py_ssize_t n = max(end - first, 0), most = n
    if cells.rules.rows_per_threshold > 0:
        most = max(<Py_ssize_t>(n_rows // cells.rules.rows_per_threshold), <Py_ssize_t>MIN_THRESHOLDS)
    if n <= most:
        return Thresholds(first, first + n, n, False, 0)
    return Thresholds(first, end, most, True, random_bits(cells.key, cells.feature.index))


cdef inline Py_ssize_t threshold_at(const Thresholds* among, Py_ssize_t k) noexcept nogil:
    """Return the k-th threshold, for k < n, in ascending order."""
    cdef Py_ssize_t begin, end, n = among.end - among.first
    if not among.are_drawn:
        return among.first + k
    begin, end = n * k // among.n, n * (k + 1) // among.n
    return among.first + begin + <Py_ssize_t>random_below(among.key, k, end - begin)


cdef Sums column_sums(const Histogram* histogram, const Column* column, const CellLayout* layout) noexcept nogil
cdef ScanNode node_of_scan(const CellLayout* layout, const SplitRules* rules, const Scan* scan) noexcept nogil
cdef const uint64_t* select_thresholds(uint64_t* sums, const Thresholds* among) noexcept nogil
cdef int32_t centre_of_gap(const FeatureCells* cells, int32_t code) noexcept nogil
cdef Thresholds thresholds_of_wide(
    const FeatureCells* cells, const Sums* total, int32_t last, bint missing_left
) noexcept nogil
cdef void best_split_of_feature(
    const FeatureCells* cells, const Scan* start, const Split* so_far, Split* best
) noexcept nogil
