# Sampling of features without replacement: a mask has a bit for each feature that was drawn or is excluded.

from fastens.engine.paths cimport add_feature, has_feature, mask_words, n_bits, next_unmarked
from fastens.engine.random cimport random_below, random_share, weighted_place
from fastens.engine.structs cimport float64_t, int32_t, uint64_t

cdef enum:
    # If less than 1 / SCARCE of the features are left, the next feature is found by its rank instead of by rejection.
    SCARCE = 8
    # The number of remaining features is known for each of RUNS runs of words.
    RUNS = 256


cdef inline void _shuffle(int32_t* features, int32_t n, uint64_t key, uint64_t* counter) noexcept nogil:
    cdef int32_t i, j
    for i in range(n - 1, 0, -1):
        j = <int32_t>random_below(key, counter[0], i + 1)
        counter[0] += 1
        features[i], features[j] = features[j], features[i]


cdef inline int32_t _take_all(const uint64_t* mask, int32_t n, int32_t* drawn) noexcept nogil:
    cdef int32_t i, feature = 0
    for i in range(n):
        feature = next_unmarked(mask, feature)
        drawn[i] = feature
        feature += 1
    return n


cdef struct Draw:
    # State of the sampling.
    int32_t n_features
    bint in_random_order
    uint64_t key
    uint64_t counter
    # Words of a run, and the number of features left in each run; run_words is 0 until they are counted.
    int32_t run_words
    int32_t[RUNS] n_free


cdef inline void start_draw(Draw* draw, int32_t n_features, bint in_random_order, uint64_t key) noexcept nogil:
    draw.n_features, draw.in_random_order, draw.key, draw.counter = n_features, in_random_order, key, 0
    draw.run_words = 0


cdef inline void _count_runs(Draw* draw, const uint64_t* mask) noexcept nogil:
    """Count the features left in each run; the last run may include bits past the last feature."""
    cdef int32_t w, n_words = mask_words(draw.n_features)
    draw.run_words = (n_words + RUNS - 1) // RUNS
    for w in range(n_words):
        if w % draw.run_words == 0:
            draw.n_free[w // draw.run_words] = 0
        draw.n_free[w // draw.run_words] += 64 - n_bits(mask[w])


cdef inline int32_t _take_by_rank(Draw* draw, const uint64_t* mask, int32_t rank) noexcept nogil:
    """Return the feature with `rank` unmarked features before it; the caller marks it."""
    cdef int32_t run = 0, w, feature, n_free
    if draw.run_words == 0:
        _count_runs(draw, mask)
    while rank >= draw.n_free[run]:
        rank -= draw.n_free[run]
        run += 1
    draw.n_free[run] -= 1
    w = run * draw.run_words
    n_free = 64 - n_bits(mask[w])
    while rank >= n_free:
        rank -= n_free
        w += 1
        n_free = 64 - n_bits(mask[w])
    feature = next_unmarked(mask, 64 * w)
    while rank > 0:
        feature = next_unmarked(mask, feature + 1)
        rank -= 1
    return feature


cdef inline int32_t draw_features(
    Draw* draw, uint64_t* mask, int32_t n_wanted, int32_t n_left, int32_t* drawn
) noexcept nogil:
    """Draw and mark n_left features that are not in the mask; return their number."""
    cdef int32_t i, feature = 0
    if n_left <= n_wanted:
        _take_all(mask, n_left, drawn)
        if draw.in_random_order:
            _shuffle(drawn, n_left, draw.key, &draw.counter)
        return n_left
    for i in range(n_wanted):
        if (n_left - i) * SCARCE < draw.n_features:
            feature = _take_by_rank(draw, mask, <int32_t>random_below(draw.key, draw.counter, n_left - i))
        else:
            feature = <int32_t>random_below(draw.key, draw.counter, draw.n_features)
            while has_feature(mask, feature):
                draw.counter += 1
                feature = <int32_t>random_below(draw.key, draw.counter, draw.n_features)
        draw.counter += 1
        add_feature(mask, feature)
        drawn[i] = feature
    return n_wanted


cdef inline int32_t draw_weighted(
    Draw* draw, const float64_t* weights, uint64_t* mask, int32_t n_wanted, int32_t n_left, int32_t* drawn
) noexcept nogil:
    """Draw features as `draw_features`, in proportion to their weights; `drawn` needs space for n_left."""
    cdef int32_t i, j, n = min(n_wanted, n_left)
    _take_all(mask, n_left, drawn)
    for i in range(n):
        j = weighted_place(weights, drawn, i, n_left, random_share(draw.key, draw.counter))
        draw.counter += 1
        drawn[i], drawn[j] = drawn[j], drawn[i]
        add_feature(mask, drawn[i])
    return n
