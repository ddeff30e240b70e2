# The limits of limits.py in the form that the kernels of all growers read.

from fastens.engine.structs cimport float64_t, int8_t, int32_t, uint64_t


cdef struct Limits:
    # The arrays are owned by the Python record, which the grower keeps alive.
    int32_t max_leaves              # 0 if unlimited
    int32_t max_depth
    int32_t min_samples_leaf
    float64_t min_weight_leaf
    int32_t features_per_split
    int32_t max_features_on_path    # 0 if unlimited
    const float64_t* feature_weights    # NULL if all weights are equal
    const int8_t* monotone          # NULL if unconstrained
    const uint64_t* feature_groups  # masks of shape (n_groups, mask_words); NULL if unconstrained
    int32_t n_groups


cdef inline void bind_side(
    int32_t monotone, bint right, float64_t middle, float64_t* lower, float64_t* upper
) noexcept nogil:
    """Bound a child's values by the midpoint of the two children's values if the split feature is monotone."""
    if monotone != 0 and (monotone > 0) == right:
        lower[0] = middle
    elif monotone != 0:
        upper[0] = middle


cdef inline Limits read_limits(limits, int32_t n_features):
    """Read the fields of a Python `Limits` record."""
    cdef const float64_t[::1] weights
    cdef const int8_t[::1] monotone
    cdef const uint64_t[:, ::1] groups
    cdef Limits out
    out.max_leaves = limits.max_leaf_nodes or 0
    out.max_depth = 0x7FFFFFFF if limits.max_depth is None else limits.max_depth
    out.min_samples_leaf, out.min_weight_leaf = limits.min_samples_leaf, limits.min_weight_leaf
    out.features_per_split = limits.features_per_split or n_features
    out.max_features_on_path = limits.max_features_on_path or 0
    out.feature_weights, out.monotone, out.feature_groups, out.n_groups = NULL, NULL, NULL, 0
    if limits.feature_weights is not None:
        weights = limits.feature_weights
        out.feature_weights = &weights[0]
    if limits.monotone is not None:
        monotone = limits.monotone
        out.monotone = &monotone[0]
    if limits.feature_groups is not None:
        groups = limits.group_masks
        out.feature_groups, out.n_groups = &groups[0, 0], groups.shape[0]
    return out
