"""What the features of a leaf's path are worth to rows of given masks, against training weights or background rows."""

from libc.string cimport memcpy

from fastens.engine.structs cimport float64_t, int32_t, uint32_t


cdef extern from "engine/trees/shapley.h" nogil:
    ctypedef struct LeafPath:
        int32_t n_points
        const float64_t* points
        const float64_t* weights
        const float64_t* share
        const float64_t* known
    ctypedef struct Background:
        const Pattern* patterns
        int32_t n_patterns
        const float64_t* worth
        int32_t size
    ctypedef struct Lanes:
        const uint32_t* masks
        Py_ssize_t stride
        int32_t n_bits
        int32_t[8] n_lacking
    void spread_bits(const uint32_t* masks, Py_ssize_t stride, int32_t n_bits, float64_t* known) noexcept
    void leave_out(
        const LeafPath* path, const int32_t* members, int32_t n, float64_t* products, float64_t* after,
        float64_t* out) noexcept
    void play_background(
        const Lanes* lanes, const Background* background, float64_t* won, float64_t* parts) noexcept
    void play_pairs(const Lanes* lanes, const Background* background, float64_t* mixed, float64_t* parts) noexcept


cdef void play(
    const Leaf* leaf, const uint32_t* masks, Py_ssize_t stride, Py_ssize_t row, float64_t* parts
) noexcept nogil:
    # The parts of features, or pairs, for SHAPLEY_LANES masks; `row` is the first, where they are those of rows.
    cdef const Rows* rows = leaf.walk.rows
    cdef Stack* stack = leaf.walk.stack
    cdef int32_t n_points = max((leaf.n + 1) // 2, 1), lane
    cdef Py_ssize_t skip = n_points * (n_points - 1) // 2
    cdef LeafPath path
    cdef Background background
    cdef Lanes lanes
    if rows.n_background == 0:
        spread_bits(masks, stride, leaf.n, stack.known)
        path = LeafPath(n_points, rows.trees.points + skip, rows.trees.weights + skip, stack.share, stack.known)
        if rows.pairs:
            play_shares_pairs(leaf, &path, parts)
        else:
            play_shares(leaf, &path, parts)
        return
    background = Background(stack.patterns, leaf.n_patterns, rows.worth, rows.trees.most_on_path + 1)
    lanes.masks, lanes.stride, lanes.n_bits = masks, stride, leaf.n
    for lane in range(SHAPLEY_LANES):
        # Lanes may be no rows, and their masks anything.
        lanes.n_lacking[lane] = max(leaf.n - n_bits(masks + lane, stride, (leaf.n + MASK_BITS - 1) // MASK_BITS), 0)
    if rows.pairs:
        play_pairs(&lanes, &background, stack.out, parts)
    else:
        play_background(&lanes, &background, stack.out, parts)


cdef int32_t list_members(const Leaf* leaf, int32_t a, int32_t b) noexcept nogil:
    # All positions but two; -1: none.
    cdef int32_t i, n = 0
    for i in range(leaf.n):
        if i != a and i != b:
            leaf.walk.stack.members[n] = i
            n += 1
    return n


cdef void integrate(const Leaf* leaf, const LeafPath* path, int32_t n, bint by_t, int32_t member) noexcept nogil:
    # `leave_out` of the members that are listed, within an integral of o of `member` (-1: of 1), times t or not.
    cdef Stack* stack = leaf.walk.stack
    cdef Py_ssize_t q, lane
    cdef float64_t weight
    for q in range(path.n_points):
        weight = path.weights[q] * path.points[q] if by_t else path.weights[q]
        for lane in range(SHAPLEY_LANES):
            stack.products[q * SHAPLEY_LANES + lane] = (
                weight if member < 0 else weight * path.known[member * SHAPLEY_LANES + lane])
    leave_out(path, stack.members, n, stack.products, stack.after, stack.out)


cdef inline void put(
    const LeafPath* path, int32_t i, float64_t factor, const float64_t* integrals, float64_t* parts
) noexcept nogil:
    # What knowing feature i changes.
    cdef Py_ssize_t lane
    for lane in range(SHAPLEY_LANES):
        parts[lane] = factor * (path.known[i * SHAPLEY_LANES + lane] - path.share[i]) * integrals[lane]


cdef void play_shares(const Leaf* leaf, const LeafPath* path, float64_t* parts) noexcept nogil:
    cdef Stack* stack = leaf.walk.stack
    cdef int32_t skipped = leaf.term_member if leaf.term >= 0 else -1, i
    cdef int32_t n = list_members(leaf, skipped, -1)
    if skipped >= 0:
        integrate(leaf, path, n, False, skipped)
        memcpy(parts + skipped * SHAPLEY_LANES, stack.out + n * SHAPLEY_LANES, SHAPLEY_LANES * sizeof(float64_t))
    integrate(leaf, path, n, skipped >= 0, skipped)
    for i in range(n):
        put(path, stack.members[i], 1.0, stack.out + i * SHAPLEY_LANES, parts + stack.members[i] * SHAPLEY_LANES)


cdef void play_shares_pairs(const Leaf* leaf, const LeafPath* path, float64_t* parts) noexcept nogil:
    # Pair (i, j), j < i, at i (i - 1) / 2 + j, halved.
    cdef Stack* stack = leaf.walk.stack
    cdef int32_t skipped = leaf.term_member if leaf.term >= 0 else -1, i, j, n, m, lane
    cdef float64_t* part
    for i in range(leaf.n):
        n = list_members(leaf, i, skipped)
        # A linear term's own feature: the pair (i, j) is of what j changes of the term.
        integrate(leaf, path, n, skipped >= 0 and i != skipped, skipped)
        for m in range(n):
            j = stack.members[m]
            if j > i and i != skipped:
                break
            part = parts + (max(i, j) * (max(i, j) - 1) // 2 + min(i, j)) * SHAPLEY_LANES
            put(path, j, 0.5, stack.out + m * SHAPLEY_LANES, part)
            if i != skipped:
                for lane in range(SHAPLEY_LANES):
                    part[lane] *= path.known[i * SHAPLEY_LANES + lane] - path.share[i]
