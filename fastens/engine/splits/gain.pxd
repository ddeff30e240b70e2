# Split gain, and the state of a search, shared by the searches over thresholds and over category sets.

from libc.math cimport ceil
from libc.string cimport memset

from fastens.engine.histograms.cells cimport CellLayout, Histogram, Sums, cell_sums, clear_sums, sums_difference
from fastens.engine.splits.scan cimport ScanNode
from fastens.engine.structs cimport Feature, float64_t, int32_t, int64_t, uint8_t, uint64_t


cdef struct SplitRules:
    # Conditions on a split, in the fixed-point units of the sums.
    int64_t min_count
    int64_t min_hessian
    int64_t min_weight
    float64_t l2
    float64_t min_gain
    # one random threshold is drawn for this many rows of a node; if 0, all thresholds are evaluated
    int64_t rows_per_threshold
    float64_t path_smooth           # shrinks a child's value towards its parent's value, as l2 shrinks it towards 0
    # options for category sets
    float64_t category_l2           # added to l2
    float64_t category_smoothing    # smoothing, in rows with the node's mean hessian
    int64_t min_category_count      # categories with fewer rows in the node are pooled
    int32_t max_categories          # maximum number of categories on the smaller side of a split; 0 if unlimited
    int32_t one_hot_codes           # features with at most this many codes split off one category at a time


cdef struct SplitUnits:
    # Scale factors between the sums of a tree and values, which change from tree to tree.
    float64_t gradient
    float64_t hessian
    float64_t weight
    float64_t mean_hessian          # the mean hessian of a row, in the units of the sums


cdef inline int64_t _at_least(float64_t limit) noexcept nogil:
    """Return a limit rounded up to an integer, at most 2**62, the maximum of sums."""
    return <int64_t>ceil(min(limit, 4611686018427387904.0))


cdef inline SplitRules read_rules(rules):
    """Read the conditions of a Python `GrowthParameters` record that do not depend on the units of the sums."""
    cdef SplitRules out
    memset(&out, 0, sizeof(SplitRules))
    out.rows_per_threshold = rules.rows_per_threshold or 0
    out.min_category_count = rules.min_samples_category
    out.max_categories = rules.max_categories_per_split or 0
    out.one_hot_codes = rules.one_hot_max_size + 1
    return out


cdef inline void scale_rules(rules, float64_t l2, const SplitUnits* units, SplitRules* out):
    """Read the other conditions, and convert them to the units of the sums."""
    out.min_hessian = _at_least(rules.min_child_weight * units.hessian)
    out.min_weight = _at_least(rules.min_weight_leaf * units.weight)
    out.l2 = l2 * units.hessian
    out.path_smooth = rules.path_smooth * units.hessian
    out.category_l2 = rules.category_l2 * units.mean_hessian
    out.category_smoothing = rules.category_smoothing * units.mean_hessian
    out.min_gain = rules.min_gain_to_split * units.gradient * units.gradient / units.hessian


cdef struct ValueLimits:
    # Bounds on the values of a node and of its descendants.
    float64_t lower
    float64_t upper
    float64_t value                 # the node's value; not set if is_free
    bint is_free                    # true if nothing constrains the values


cdef struct Split:
    # The best split of a node. The feature is -1 if there is none.
    float64_t gain
    int32_t feature
    int32_t bin
    int32_t category_set            # first word of the set of codes that go left; -1 for a numeric feature
    uint8_t missing_left
    Sums left


cdef struct ScanBuffer:
    # Workspace of one thread for the codes of a feature.
    float64_t* keys
    int32_t* codes
    uint64_t* sums
    float64_t* gradients
    float64_t* hessians             # for several outputs, the sum over the outputs
    Sums pooled                     # sums of the categories that are rare in the node
    # for several outputs
    Sums* left                      # one for each output
    Sums* pooled_of_outputs


cdef struct FeatureCells:
    # The cells of a feature in a node, and the other inputs of a search over its splits.
    const Histogram* histogram
    const CellLayout* layout
    const Feature* feature
    const SplitRules* rules
    ScanBuffer* room
    uint64_t key                    # key of the node's random thresholds


cdef inline Sums sums_of_code(const FeatureCells* cells, Py_ssize_t code) noexcept nogil:
    return cell_sums(cells.histogram, cells.feature.offset + code, cells.layout)


cdef struct Scan:
    # The search over the splits of one feature. With G, H the sums of the node (H includes lambda once for each side)
    # and G_l, H_l the sums of the left side, the gain is a constant plus (G_l - G H_l / H)^2 / (H_l H_r): one division
    # per split.
    Sums total
    float64_t ratio                 # G / H
    float64_t hessian               # H
    float64_t l2
    # If leaf values are bounded, gains are computed from the bounded values; NULL if they are free.
    const ValueLimits* limits
    int32_t monotone                # 1: the right side must not be lower; -1: not higher; 0: either
    float64_t node_score
    const ScanNode* node            # the node in the form of loops over packed cells; NULL if there are no packed cells
    # Best split so far.
    float64_t gain
    int32_t bin
    bint missing_left
    bint found
    Sums left


cdef inline float64_t node_score(const Sums* sums, float64_t l2) noexcept nogil:
    cdef float64_t hessian = <float64_t>sums.hessian + l2
    return <float64_t>sums.gradient * <float64_t>sums.gradient / hessian if hessian > 0 else 0.0


cdef inline float64_t score_at(const Sums* sums, float64_t l2, float64_t value) noexcept nogil:
    """Return the score of rows whose value may differ from the optimum: -(2 G v + (H + lambda) v^2)."""
    return -value * (2.0 * <float64_t>sums.gradient + (<float64_t>sums.hessian + l2) * value)


cdef inline float64_t limited_value(
    const Sums* sums, float64_t l2, float64_t path_smooth, const ValueLimits* parent
) noexcept nogil:
    """Return a child's value: the Newton step, smoothed towards the parent's value, within the parent's bounds."""
    cdef float64_t hessian = <float64_t>sums.hessian + l2 + path_smooth
    cdef float64_t value = 0.0
    if hessian > 0:
        value = (path_smooth * parent.value - <float64_t>sums.gradient) / hessian
    return min(max(value, parent.lower), parent.upper)


cdef inline Scan start_scan(
    const Sums* total, float64_t l2, const ValueLimits* limits, const SplitRules* rules
) noexcept nogil:
    """Return the initial state of a search over the splits of a feature."""
    cdef Scan scan
    scan.total = total[0]
    scan.l2 = l2
    scan.hessian = <float64_t>total.hessian + 2.0 * l2
    scan.ratio = <float64_t>total.gradient / scan.hessian if scan.hessian > 0 else 0.0
    scan.monotone = 0
    scan.limits = NULL if limits.is_free else limits
    scan.node_score = node_score(total, rules.l2) if limits.is_free else score_at(total, rules.l2, limits.value)
    scan.node = NULL
    scan.gain = 0.0
    scan.found = False
    clear_sums(&scan.left)
    return scan


cdef inline bint is_large_enough(const Sums* left, const SplitRules* rules) noexcept nogil:
    return left.weight >= rules.min_weight and left.count >= rules.min_count


cdef inline bint leaves_enough(const Sums* left, const Sums* total, const SplitRules* rules) noexcept nogil:
    cdef Sums rest = sums_difference(total, left)
    return is_large_enough(&rest, rules)


cdef inline void keep_split(float64_t gain, int32_t code, bint missing_left, Scan* scan) noexcept nogil:
    scan.gain = gain
    scan.bin = code
    scan.missing_left = missing_left
    scan.found = True


cdef inline float64_t _free_gain(const Sums* sums, const Scan* scan) noexcept nogil:
    """Return the gain of a split, or -1 if the sign of `distance` violates the monotone constraint."""
    cdef float64_t left = <float64_t>sums.hessian + scan.l2
    cdef float64_t distance = <float64_t>sums.gradient - scan.ratio * left
    if scan.monotone * distance < 0:
        return -1.0
    return distance * distance / (left * (scan.hessian - left))


cdef inline float64_t _limited_gain(const Sums* sums, const SplitRules* rules, const Scan* scan) noexcept nogil:
    """Return the gain with bounded child values, or -1 if they are equal or violate the monotone constraint."""
    cdef Sums rest = sums_difference(&scan.total, sums)
    cdef float64_t left = limited_value(sums, scan.l2, rules.path_smooth, scan.limits)
    cdef float64_t right = limited_value(&rest, scan.l2, rules.path_smooth, scan.limits)
    if left == right or scan.monotone * (right - left) < 0:
        return -1.0
    return score_at(sums, scan.l2, left) + score_at(&rest, scan.l2, right) - scan.node_score


cdef inline void consider(
    const Sums* sums, const SplitRules* rules, int32_t code, bint missing_left, Scan* scan
) noexcept nogil:
    """Keep the split with these sums on the left if it is allowed and better than the best so far."""
    cdef float64_t gain
    if sums.hessian < rules.min_hessian or scan.total.hessian - sums.hessian < rules.min_hessian:
        return
    gain = _free_gain(sums, scan) if scan.limits == NULL else _limited_gain(sums, rules, scan)
    if gain > scan.gain:
        keep_split(gain, code, missing_left, scan)
        scan.left = sums[0]


cdef inline bint is_better(const Split* split, const Split* other) noexcept nogil:
    """Return True if the split is better. Ties go to the feature with the lower index."""
    if split.feature < 0 or other.feature < 0:
        return split.feature >= 0
    return split.gain > other.gain or (split.gain == other.gain and split.feature < other.feature)
