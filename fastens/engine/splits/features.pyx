"""Which features a tree and each of its nodes may split on: drawn at random, or bound by those on the path."""

from libc.string cimport memset

from fastens.engine.paths cimport (
    add_feature, binds_paths, exclude_features, has_feature, mask_words, next_feature
)
from fastens.engine.random cimport random_bits, random_share, weighted_place
from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint8_t, uint64_t
from fastens.engine.splits.workspace cimport Workspace, active_columns

cdef enum:
    MOST_SHUFFLED = 1 << 15         # a shuffle of more features leaves the caches, for each node
    ROUNDS = 4                      # from three on, the permutations are pseudo-random (Luby & Rackoff 1988)

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


cdef int32_t _permuted(uint64_t seed, int32_t n, int32_t place) noexcept nogil:
    """Where a random permutation of n puts a place: a Feistel network of the next power of two, walked back into n."""
    cdef int32_t r, half, bits = 2
    cdef uint64_t high, low, x = <uint64_t>place
    while <int64_t>1 << bits < n:
        bits += 1
    half = bits // 2
    while True:
        high, low = x >> half, x & ((<uint64_t>1 << half) - 1)
        for r in range(ROUNDS):
            if r % 2 == 0:
                high ^= random_bits(seed, (<uint64_t>r << 32) + low) >> (64 - (bits - half))
            else:
                low ^= random_bits(seed, (<uint64_t>r << 32) + high) >> (64 - half)
        x = (high << half) + low
        if x < <uint64_t>n:
            return <int32_t>x


cdef void _ask_for_each(const Workspace* ws, int32_t node, uint8_t* allowed) noexcept nogil:
    """Draw for those features alone that the node is searched for."""
    cdef int32_t n = ws.table.n_features
    cdef uint64_t seed = random_bits(ws.seed, node)
    cdef const uint64_t* active = active_columns(ws, max(ws.nodes[node].parent, 0))
    cdef int32_t f = next_feature(active, 0, n)
    while f < n:
        allowed[f] = _permuted(seed, n, f) < ws.limits.features_per_split
        f = next_feature(active, f + 1, n)


cdef void allow_features(Workspace* ws, int32_t node, int32_t room, uint8_t* allowed) noexcept nogil:
    """Mark the features that the node may split on, of those that it is searched for; with the memory of one room."""
    cdef int32_t f, n = ws.table.n_features
    cdef bint is_drawn = ws.limits.features_per_split < n
    cdef bint is_bound = binds_paths(&ws.limits) or ws.features_per_tree < n or ws.limits.feature_weights != NULL
    if is_drawn and not is_bound and n > MOST_SHUFFLED:
        _ask_for_each(ws, node, allowed)
        return
    for f in range(n):
        allowed[f] = ws.of_tree[f]
    if binds_paths(&ws.limits):
        _bind_to_path(ws, node, ws.masks + 2 * room * mask_words(n), allowed)
    if is_drawn:
        _draw(ws, ws.limits.features_per_split, node, allowed, ws.sampled + room * n)
