"""Which features a tree and each of its nodes may split on: drawn at random, or bound by those on the path."""

from libc.string cimport memset

from fastens.engine.paths cimport add_feature, binds_paths, exclude_features, has_feature, mask_words
from fastens.engine.random cimport random_bits, random_share, weighted_place
from fastens.engine.structs cimport float64_t, int32_t, uint8_t, uint64_t
from fastens.engine.splits.workspace cimport Workspace

cdef uint64_t TREE_STREAM = <uint64_t>1 << 63  # the counter of a tree's own draw; nodes have theirs from 0 on


cdef void _draw(const Workspace* ws, int32_t wanted, uint64_t counter, uint8_t* allowed, int32_t* order) noexcept nogil:
    """Leave `wanted` of the allowed features; depends only on the tree's seed and the counter."""
    cdef const float64_t* weights = ws.limits.feature_weights
    cdef int32_t i, j, n = 0
    cdef uint64_t seed = random_bits(ws.seed, counter)
    for i in range(ws.table.n_features):
        if allowed[i]:
            order[n] = i
            n += 1
    if wanted >= n:
        return
    memset(allowed, 0, ws.table.n_features)
    for i in range(wanted):
        if weights == NULL:
            j = i + <int32_t>(random_bits(seed, i) % <uint64_t>(n - i))
        else:
            j = weighted_place(weights, order, i, n, random_share(seed, i))
        order[i], order[j] = order[j], order[i]
        allowed[order[i]] = True


cdef void draw_tree_features(Workspace* ws) noexcept nogil:
    """The features of the tree that is to be grown now; those of weight 0 are in none."""
    cdef int32_t f
    for f in range(ws.table.n_features):
        ws.of_tree[f] = ws.limits.feature_weights == NULL or ws.limits.feature_weights[f] > 0
    _draw(ws, ws.features_per_tree, TREE_STREAM, ws.of_tree, ws.sampled)


cdef void _bind_to_path(const Workspace* ws, int32_t node, uint64_t* masks, uint8_t* allowed) noexcept nogil:
    """Leave the features that may stand on one path with those above the node."""
    cdef int32_t f, n_features = ws.table.n_features, n_words = mask_words(n_features)
    cdef uint64_t* excluded = masks + n_words
    memset(masks, 0, 2 * n_words * sizeof(uint64_t))
    while ws.nodes[node].parent >= 0:
        node = ws.nodes[node].parent
        add_feature(masks, ws.nodes[node].split.feature)
    exclude_features(&ws.limits, n_features, masks, excluded)
    for f in range(n_features):
        allowed[f] = allowed[f] and not has_feature(excluded, f)


cdef void allow_features(Workspace* ws, int32_t node, int32_t room, uint8_t* allowed) noexcept nogil:
    """Mark the features that the node may split on; with the memory of one room."""
    cdef int32_t f
    for f in range(ws.table.n_features):
        allowed[f] = ws.of_tree[f]
    if binds_paths(&ws.limits):
        _bind_to_path(ws, node, ws.masks + 2 * room * mask_words(ws.table.n_features), allowed)
    if ws.limits.features_per_split < ws.table.n_features:
        _draw(ws, ws.limits.features_per_split, node, allowed, ws.sampled + room * ws.table.n_features)
