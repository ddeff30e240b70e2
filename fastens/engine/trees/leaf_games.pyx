"""What the features of a leaf's path are worth to rows of given masks, against training weights or background rows."""

from libc.string cimport memset

from fastens.engine.structs cimport float64_t, int32_t, uint32_t


cdef extern from "engine/trees/shapley.h" nogil:
    ctypedef struct Background:
        const Pattern* patterns
        int32_t n_patterns
        const int32_t* next
        const float64_t* scales
        Py_ssize_t stride
        const float64_t* worth
        int32_t size
    ctypedef struct Lanes:
        const uint32_t* masks
        Py_ssize_t stride
        int32_t n_bits
        int32_t[16] n_lacking
    void spread_bits(
        const uint32_t* masks, Py_ssize_t stride, int32_t n, float64_t* known, float64_t* unknown) noexcept
    void find_factors(const LeafPath* path) noexcept
    void multiply_path(const LeafPath* path, float64_t* products) noexcept
    void divide_path(
        const LeafPath* path, int32_t feature, bint by_t, const float64_t* products, float64_t* out) noexcept
    void collect_part(
        const LeafPath* path, int32_t feature, float64_t scale, const float64_t* products, float64_t* parts) noexcept
    void play_background(
        const Lanes* lanes, const Background* background, float64_t* counts, float64_t* parts) noexcept
    void play_pairs(const Lanes* lanes, const Background* background, float64_t* mixed, float64_t* parts) noexcept


cdef void start_leaf(Leaf* leaf) noexcept nogil:
    # What all games of a leaf need.
    cdef const Rows* rows = leaf.walk.rows
    cdef LeafPath* path = &leaf.walk.stack.path
    cdef int32_t n_points = max((leaf.n + 1) // 2, 1)
    cdef Py_ssize_t skip = n_points * (n_points - 1) // 2
    if rows.n_background:
        find_patterns(leaf)
        return
    path.n, path.n_points, path.share = leaf.n, n_points, leaf.walk.stack.share
    path.points, path.weights = rows.trees.points + skip, rows.trees.weights + skip
    path.n_vectors = 1 if leaf.walk.n * N_VECTORS <= SHAPLEY_LANES else N_VECTORS
    find_factors(path)


cdef void play(
    const Leaf* leaf, const uint32_t* masks, Py_ssize_t stride, Py_ssize_t row, float64_t* parts
) noexcept nogil:
    # The parts of features, or pairs, for SHAPLEY_LANES masks; `row` is the first, where they are those of rows.
    cdef const Rows* rows = leaf.walk.rows
    cdef Stack* stack = leaf.walk.stack
    if rows.n_background:
        play_against_rows(leaf, masks, stride, row, parts)
        return
    spread_bits(masks, stride, leaf.n, stack.path.known, stack.path.unknown)
    multiply_path(&stack.path, stack.products)
    if rows.pairs:
        collect_pairs(leaf, parts)
    else:
        collect_parts(leaf, parts)


# ------------------------------------------------------------------------------------------ against training weights

cdef void divide_by_term(const Leaf* leaf, bint by_t) noexcept nogil:
    # Of a linear term: the products without its feature, of lanes that know it, times t or not.
    cdef Stack* stack = leaf.walk.stack
    cdef const float64_t* known = stack.path.known + leaf.term_member * SHAPLEY_LANES
    cdef Py_ssize_t q, lane
    divide_path(&stack.path, leaf.term_member, by_t, stack.products, stack.divided)
    for q in range(stack.path.n_points):
        for lane in range(SHAPLEY_LANES):
            stack.divided[q * SHAPLEY_LANES + lane] *= known[lane]


cdef void collect_parts(const Leaf* leaf, float64_t* parts) noexcept nogil:
    cdef Stack* stack = leaf.walk.stack
    cdef const float64_t* products = stack.products if leaf.term < 0 else stack.divided
    cdef int32_t i, q, lane
    if leaf.term >= 0:
        divide_by_term(leaf, True)
    for i in range(leaf.n):
        collect_part(&stack.path, i, 1.0, products, parts + i * SHAPLEY_LANES)
    if leaf.term < 0:
        return
    divide_by_term(leaf, False)
    parts += leaf.term_member * SHAPLEY_LANES
    memset(parts, 0, SHAPLEY_LANES * sizeof(float64_t))
    for q in range(stack.path.n_points):
        for lane in range(SHAPLEY_LANES):
            parts[lane] += stack.divided[q * SHAPLEY_LANES + lane]


cdef void collect_pairs(const Leaf* leaf, float64_t* parts) noexcept nogil:
    # Pair (i, j), j < i, at i (i - 1) / 2 + j, halved.
    cdef Stack* stack = leaf.walk.stack
    cdef const float64_t* products = stack.products if leaf.term < 0 else stack.divided
    cdef float64_t* part
    cdef int32_t skipped = leaf.term_member if leaf.term >= 0 else -1, i, j, lane
    if skipped >= 0:
        divide_by_term(leaf, True)
    for i in range(leaf.n):
        if i == skipped:
            continue
        divide_path(&stack.path, i, False, products, stack.quotients)
        for j in range(i):
            part = parts + (i * (i - 1) // 2 + j) * SHAPLEY_LANES
            collect_part(&stack.path, j, 0.5, stack.quotients, part)
            for lane in range(SHAPLEY_LANES):
                part[lane] *= stack.path.known[i * SHAPLEY_LANES + lane] - stack.path.share[i]
    if skipped < 0:
        return
    # The pairs of the term's own feature: what others change of the term.
    divide_by_term(leaf, False)
    for j in range(leaf.n):
        i = max(j, skipped)
        if j != skipped:
            part = parts + (i * (i - 1) // 2 + min(j, skipped)) * SHAPLEY_LANES
            collect_part(&stack.path, j, 0.5, stack.divided, part)


# ------------------------------------------------------------------------------------------------------ against rows

cdef void play_against_rows(
    const Leaf* leaf, const uint32_t* masks, Py_ssize_t stride, Py_ssize_t row, float64_t* parts
) noexcept nogil:
    cdef const Rows* rows = leaf.walk.rows
    cdef Stack* stack = leaf.walk.stack
    cdef Background background = Background(
        stack.sorted_patterns, leaf.n_patterns, stack.next_row, NULL, rows.scales_stride, rows.worth,
        rows.trees.most_on_path + 1)
    cdef Lanes lanes
    cdef Py_ssize_t n_words = (leaf.n + MASK_BITS - 1) // MASK_BITS
    cdef int32_t lane
    if rows.scales != NULL:
        background.scales = rows.scales + leaf.walk.row + row
    lanes.masks, lanes.stride, lanes.n_bits = masks, stride, leaf.n
    for lane in range(SHAPLEY_LANES):
        # Lanes may be no rows, and their masks anything.
        lanes.n_lacking[lane] = max(leaf.n - n_bits(masks + lane, stride, n_words), 0)
    if rows.pairs:
        play_pairs(&lanes, &background, stack.counts, parts)
    else:
        play_background(&lanes, &background, stack.counts, parts)


cdef void find_patterns(Leaf* leaf) noexcept nogil:
    # Background rows of one mask are one pattern, in the order in which they come first.
    cdef const Walk* walk = leaf.walk
    cdef const Rows* rows = walk.rows
    cdef Stack* stack = walk.stack
    cdef Py_ssize_t w, n_words = (leaf.n + MASK_BITS - 1) // MASK_BITS
    cdef int32_t n = 0, end = table_size(rows.n_background) - 1, z, place
    cdef uint32_t hash_
    cdef uint32_t* mask
    cdef Pattern* found
    memset(stack.table, 255, (end + 1) * sizeof(int32_t))
    for z in range(<int32_t>rows.n_background):
        mask = stack.pattern_masks + n * n_words
        hash_ = 0
        for w in range(n_words):
            mask[w] = leaf.masks[w * walk.stride + rows.chunk + z]
            hash_ = (hash_ ^ mask[w]) * <uint32_t>2654435769
        place = (hash_ >> 8) & end
        while stack.table[place] >= 0 and not is_same(stack.patterns[stack.table[place]].mask, mask, n_words):
            place = (place + 1) & end
        stack.next_row[z] = -1
        if stack.table[place] >= 0:
            found = stack.patterns + stack.table[place]
            found.count += 1
            stack.next_row[found.last] = z
            found.last = z
            continue
        stack.table[place] = n
        stack.patterns[n] = Pattern(mask, NULL, leaf.n - n_bits(mask, 1, n_words), 1, z, z)
        n += 1
    leaf.n_patterns = n
    sort_patterns(leaf)


cdef void sort_patterns(const Leaf* leaf) noexcept nogil:
    # By how many features they lack, and list these.
    cdef Stack* stack = leaf.walk.stack
    cdef int32_t* first = stack.first_lacking
    cdef int32_t* lacking = stack.lacking
    cdef int32_t z, j, n
    cdef Pattern* pattern
    memset(first, 0, (leaf.n + 2) * sizeof(int32_t))
    for z in range(leaf.n_patterns):
        first[stack.patterns[z].n_lacking + 1] += 1
    for j in range(leaf.n):
        first[j + 1] += first[j]
    for z in range(leaf.n_patterns):
        pattern = stack.sorted_patterns + first[stack.patterns[z].n_lacking]
        first[stack.patterns[z].n_lacking] += 1
        pattern[0] = stack.patterns[z]
        pattern.lacking = lacking
        n = 0
        for j in range(leaf.n):
            if not (pattern.mask[j // MASK_BITS] >> (j % MASK_BITS)) & 1:
                lacking[n] = j
                n += 1
        lacking += n


cdef inline bint is_same(const uint32_t* a, const uint32_t* b, Py_ssize_t n_words) noexcept nogil:
    cdef Py_ssize_t w
    for w in range(n_words):
        if a[w] != b[w]:
            return False
    return True


cdef inline int32_t n_bits(const uint32_t* mask, Py_ssize_t stride, Py_ssize_t n_words) noexcept nogil:
    cdef Py_ssize_t w
    cdef uint32_t x
    cdef int32_t n = 0
    for w in range(n_words):
        x = mask[w * stride]
        x = x - ((x >> 1) & <uint32_t>0x55555555)
        x = (x & <uint32_t>0x33333333) + ((x >> 2) & <uint32_t>0x33333333)
        n += <int32_t>((((x + (x >> 4)) & <uint32_t>0x0F0F0F0F) * <uint32_t>0x01010101) >> 24)
    return n
