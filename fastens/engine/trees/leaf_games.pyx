"""Shapley values of the features on a leaf's path, against training weights or background rows."""

from libc.math cimport isfinite
from libc.string cimport memcpy, memset

from fastens.engine.structs cimport float64_t, int32_t, int64_t, uint32_t


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


cdef void prepare_leaf(Leaf* leaf) noexcept nogil:
    """Prepare what a leaf's Shapley values share: background patterns, or quadrature points and path factors."""
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


cdef void compute_parts(
    const Leaf* leaf, const uint32_t* masks, Py_ssize_t stride, Py_ssize_t row, float64_t* parts
) noexcept nogil:
    """Write the Shapley values of the path's features, or pairs, per unit of leaf value to `parts`, for each lane.

    Each of the SHAPLEY_LANES lanes has a mask, whose bit i is set if a row passes all tests of the i-th feature on the
    path; the words of a mask are `stride` apart. If the masks belong to rows, `row` is the first of them.
    """
    cdef const Rows* rows = leaf.walk.rows
    cdef Stack* stack = leaf.walk.stack
    if rows.n_background:
        compute_parts_against_rows(leaf, masks, stride, row, parts)
        return
    spread_bits(masks, stride, leaf.n, stack.path.known, stack.path.unknown)
    multiply_path(&stack.path, stack.products)
    if rows.pairs:
        collect_pairs(leaf, parts)
    else:
        collect_parts(leaf, parts)


# ------------------------------------------------------------------------------------------ against training weights

cdef void divide_by_term(const Leaf* leaf, bint by_t) noexcept nogil:
    """Write the path products without the linear term's feature to `stack.divided`, times t if `by_t`.

    The products of a quadrature point t are 0 in lanes whose mask lacks the feature.
    """
    cdef Stack* stack = leaf.walk.stack
    cdef const float64_t* known = stack.path.known + leaf.term_member * SHAPLEY_LANES
    cdef Py_ssize_t q, lane
    divide_path(&stack.path, leaf.term_member, by_t, stack.products, stack.divided)
    for q in range(stack.path.n_points):
        for lane in range(SHAPLEY_LANES):
            stack.divided[q * SHAPLEY_LANES + lane] *= known[lane]


cdef void collect_parts(const Leaf* leaf, float64_t* parts) noexcept nogil:
    """Write each path feature's Shapley value per unit of leaf value to `parts`, shape (leaf.n, SHAPLEY_LANES).

    The values are path-dependent: features outside a coalition are averaged with the training weights.
    """
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
    """Write the halved value of each pair (i, j), j < i, for each lane to `parts` at i (i - 1) / 2 + j."""
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
    # Pairs with the term's own feature: the effect of the other features on the term.
    divide_by_term(leaf, False)
    for j in range(leaf.n):
        i = max(j, skipped)
        if j != skipped:
            part = parts + (i * (i - 1) // 2 + min(j, skipped)) * SHAPLEY_LANES
            collect_part(&stack.path, j, 0.5, stack.divided, part)


# ------------------------------------------------------------------------------------------- against background rows

cdef void compute_parts_against_rows(
    const Leaf* leaf, const uint32_t* masks, Py_ssize_t stride, Py_ssize_t row, float64_t* parts
) noexcept nogil:
    """Write the Shapley values of the path's features, or pairs, per unit of leaf value, against background rows.

    The arguments are as in `compute_parts`. The values in `parts` are summed over the patterns of background rows.
    """
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
        # Some lanes may be unused; their masks are arbitrary.
        lanes.n_lacking[lane] = max(leaf.n - n_bits(masks + lane, stride, n_words), 0)
    if rows.pairs:
        play_pairs(&lanes, &background, stack.counts, parts)
    else:
        play_background(&lanes, &background, stack.counts, parts)


cdef void find_patterns(Leaf* leaf) noexcept nogil:
    """Group background rows that pass the tests of equal sets of the path's features into patterns, and sort these."""
    cdef const Walk* walk = leaf.walk
    cdef const Rows* rows = walk.rows
    cdef Stack* stack = walk.stack
    cdef Py_ssize_t w, n_words = (leaf.n + MASK_BITS - 1) // MASK_BITS
    cdef int32_t n = 0, end = table_size(rows.n_background) - 1, z, slot
    cdef uint32_t hash_
    cdef uint32_t* mask
    cdef Pattern* pattern
    memset(stack.table, 255, (end + 1) * sizeof(int32_t))
    for z in range(<int32_t>rows.n_background):
        mask = stack.pattern_masks + n * n_words
        hash_ = 0
        for w in range(n_words):
            mask[w] = leaf.masks[w * walk.stride + rows.chunk + z]
            hash_ = (hash_ ^ mask[w]) * <uint32_t>2654435769
        slot = (hash_ >> 8) & end
        while stack.table[slot] >= 0 and not is_same_mask(stack.patterns[stack.table[slot]].mask, mask, n_words):
            slot = (slot + 1) & end
        stack.next_row[z] = -1
        if stack.table[slot] >= 0:
            pattern = stack.patterns + stack.table[slot]
            pattern.count += 1
            stack.next_row[pattern.last] = z
            pattern.last = z
            continue
        stack.table[slot] = n
        stack.patterns[n] = Pattern(mask, NULL, leaf.n - n_bits(mask, 1, n_words), 1, z, z)
        n += 1
    leaf.n_patterns = n
    sort_patterns(leaf)


cdef void sort_patterns(const Leaf* leaf) noexcept nogil:
    """Sort patterns by the number of path features whose tests they do not pass, and list these features of each."""
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


# ------------------------------------------------------------------------- linear terms against background rows
#
# A leaf's linear terms have no effect on rows in which a value that one of them needs is missing. This condition acts
# as one more test of the feature. In a mixture of a row and a background row that reaches the leaf, one of the two
# supplies feature k, and the term of k contributes the deviation of that row's value from the leaf's mean. Let A be the
# features whose tests only the row passes, and B the features whose tests only the background row passes. If k is in A,
# the term is worth the row's deviation. If k is in B, it is worth the background row's deviation. Otherwise it is worth
# the background row's deviation, plus the difference between the two if k comes from the row, which is a game of A and
# k against B.

cdef void add_linear_terms(Leaf* leaf) noexcept nogil:
    """Add the contributions of a leaf's linear terms, against background rows, to its columns or column pairs."""
    # Adds the contributions of a leaf's linear terms to the features of its path, or to pairs of them.
    cdef const Walk* walk = leaf.walk
    cdef const Rows* rows = walk.rows
    cdef const Lines* lines = &rows.trees.lines
    cdef Stack* stack = walk.stack
    cdef const uint32_t* masks = leaf.masks
    cdef int32_t n_parts = 0, member
    cdef Py_ssize_t z, i, term
    for term in range(lines.starts[leaf.node], lines.starts[leaf.node + 1]):
        member = 0
        while member < leaf.n and stack.column[member] != rows.trees.column[lines.features[term]]:
            member += 1
        if member < leaf.n:         # holds for all grown trees
            stack.line_parts[n_parts] = LinePart(term, member, 0, 0)
            n_parts += 1
    if n_parts == 0:
        return
    memcpy(stack.line_masks, masks, (leaf.n + MASK_BITS - 1) // MASK_BITS * walk.stride * sizeof(uint32_t))
    for i in range(n_parts):
        clear_non_finite_bits(leaf, &stack.line_parts[i])
        for z in range(rows.n_background):
            stack.line_sums[z * n_parts + i] = deviation(lines, stack.line_parts[i].term, rows.background_X[
                z * rows.trees.n_features + lines.features[stack.line_parts[i].term]])
    leaf.masks = stack.line_masks
    find_patterns(leaf)
    for i in range(walk.n):
        for z in range(leaf.n_patterns):
            add_row_terms(leaf, i, stack.sorted_patterns + z, n_parts)
    leaf.masks = masks


cdef inline float64_t deviation(const Lines* lines, Py_ssize_t term, float64_t value) noexcept nogil:
    """Return a linear term at a feature value, clipped to the term's range, minus the term at the leaf's mean."""
    return lines.slopes[term] * min(max(value, lines.lower[term]), lines.upper[term]) - lines.at_means[term]


cdef void clear_non_finite_bits(const Leaf* leaf, const LinePart* part) noexcept nogil:
    """Clear the bit of the term's feature in the masks of all rows whose value of it is not finite.

    Linear terms do not support such values. The masks of explained and background rows are both changed.
    """
    cdef const Rows* rows = leaf.walk.rows
    cdef Py_ssize_t feature = rows.trees.lines.features[part.term], i
    cdef uint32_t* masks = leaf.walk.stack.line_masks + part.member // MASK_BITS * leaf.walk.stride
    cdef uint32_t bit = <uint32_t>1 << (part.member % MASK_BITS)
    for i in range(leaf.walk.n):
        if not isfinite(leaf.walk.stack.values[feature * rows.chunk + i]):
            masks[i] &= ~bit
    for i in range(rows.n_background):
        if not isfinite(rows.background_X[i * rows.trees.n_features + feature]):
            masks[rows.chunk + i] &= ~bit


cdef void add_row_terms(const Leaf* leaf, Py_ssize_t row, const Pattern* pattern, int32_t n_parts) noexcept nogil:
    """Add the contributions of a leaf's `n_parts` linear terms for one row against the background rows of a pattern."""
    cdef const Walk* walk = leaf.walk
    cdef const Rows* rows = walk.rows
    cdef Stack* stack = walk.stack
    cdef Py_ssize_t n_words = (leaf.n + MASK_BITS - 1) // MASK_BITS, w
    cdef const uint32_t* mask = leaf.masks + row
    cdef float64_t count = 0, scale, both = 0, mixed = 0
    cdef int32_t z, i, bits
    cdef LinePart* part
    for w in range(n_words):
        bits = min(leaf.n - <int32_t>w * MASK_BITS, <int32_t>MASK_BITS)
        if (mask[w * walk.stride] | pattern.mask[w]) != <uint32_t>0xFFFFFFFF >> (MASK_BITS - bits):
            return
    for i in range(n_parts):
        stack.line_parts[i].others = 0
    z = pattern.first
    while z >= 0:
        scale = 1.0 if rows.scales == NULL else rows.scales[z * rows.scales_stride + walk.row + row]
        count += scale
        for i in range(n_parts):
            stack.line_parts[i].others += scale * stack.line_sums[z * n_parts + i]
        z = stack.next_row[z]
    for i in range(n_parts):
        part = &stack.line_parts[i]
        part.own = count * deviation(&rows.trees.lines, part.term, stack.values[
            rows.trees.lines.features[part.term] * rows.chunk + row])
        if not has_bit(pattern.mask, 1, part.member):
            both += part.own
        else:
            both += part.others
            if has_bit(mask, walk.stride, part.member):
                mixed += part.own - part.others
    if rows.pairs:
        add_term_interactions(leaf, row, pattern, n_parts, both, mixed)
    else:
        add_term_values(leaf, row, pattern, n_parts, both, mixed)


cdef void add_term_values(
    const Leaf* leaf, Py_ssize_t row, const Pattern* pattern, int32_t n_parts, float64_t both, float64_t mixed
) noexcept nogil:
    """Add the values of a leaf's `n_parts` linear terms to its features, for one row against the rows of a pattern.

    `both` is the worth of the game between the features whose tests only the row passes and those that only the pattern
    passes. `mixed` is the additional worth if the feature of a term, whose tests both pass, comes from the row.
    """
    cdef const Walk* walk = leaf.walk
    cdef Stack* stack = walk.stack
    cdef const uint32_t* mask = leaf.masks + row
    cdef const float64_t* worth = walk.rows.worth
    cdef Py_ssize_t size = walk.rows.trees.most_on_path + 1
    cdef Py_ssize_t p = pattern.n_lacking, m = leaf.n - n_bits(mask, walk.stride, (leaf.n + MASK_BITS - 1) // MASK_BITS)
    cdef float64_t gain = both * worth[p * size + m], loss = both * worth[m * size + p]
    cdef const LinePart* part
    cdef int32_t i
    if p + m < leaf.n:              # otherwise, there is no other feature for a term
        gain += mixed * worth[(p + 1) * size + m]
        loss += mixed * worth[m * size + p + 1]
    for i in range(leaf.n):
        if not has_bit(pattern.mask, 1, i):
            add_result(leaf, row, stack.offsets[i], gain)
        elif not has_bit(mask, walk.stride, i):
            add_result(leaf, row, stack.offsets[i], -loss)
    for i in range(n_parts):
        part = &stack.line_parts[i]
        if has_bit(pattern.mask, 1, part.member) and has_bit(mask, walk.stride, part.member):
            add_result(leaf, row, stack.offsets[part.member], (part.own - part.others) * worth[(p + 1) * size + m])


cdef void add_term_interactions(
    const Leaf* leaf, Py_ssize_t row, const Pattern* pattern, int32_t n_parts, float64_t both, float64_t mixed
) noexcept nogil:
    """Add the halved interactions of a leaf's `n_parts` linear terms, for one row against the rows of a pattern.

    `both` and `mixed` are the worths that `add_term_values` describes.
    """
    cdef const Walk* walk = leaf.walk
    cdef Stack* stack = walk.stack
    cdef const uint32_t* mask = leaf.masks + row
    cdef Py_ssize_t p = pattern.n_lacking, m = leaf.n - n_bits(mask, walk.stride, (leaf.n + MASK_BITS - 1) // MASK_BITS)
    cdef float64_t part
    cdef int32_t i, j, t, of_i, of_j
    for i in range(leaf.n):
        of_i = mask_side(pattern.mask, mask, walk.stride, i)
        for j in range(i):
            of_j = mask_side(pattern.mask, mask, walk.stride, j)
            part = 0
            if of_i and of_j:
                part = both * pair_worth(walk.rows, p, m, of_i, of_j)
                if p + m < leaf.n:
                    part += mixed * pair_worth(walk.rows, p + 1, m, of_i, of_j)
            elif of_i or of_j:
                for t in range(n_parts):
                    if stack.line_parts[t].member == (j if of_i else i):
                        part += (stack.line_parts[t].own - stack.line_parts[t].others) * pair_worth(
                            walk.rows, p + 1, m, 1, of_i + of_j)
            add_result(leaf, row, stack.offsets[i * (i - 1) // 2 + j], 0.5 * part)


cdef inline float64_t pair_worth(
    const Rows* rows, Py_ssize_t p, Py_ssize_t m, int32_t of_i, int32_t of_j
) noexcept nogil:
    """Return the interaction of two features in a game of p features against m.

    `of_i` and `of_j` are the sides of the features: 1 for the p features, -1 for the m features.
    """
    cdef Py_ssize_t size = rows.trees.most_on_path + 1
    if of_i != of_j:
        return -rows.worth[p * size + m - 1]
    return rows.worth[(p - 1) * size + m] if of_i > 0 else rows.worth[(m - 1) * size + p]


cdef inline int32_t mask_side(const uint32_t* others, const uint32_t* own, Py_ssize_t stride, int32_t j) noexcept nogil:
    """Return bit j of the row's mask `own` minus bit j of the background pattern's contiguous mask `others`.

    The result is 1 if only the row passes the tests of feature j, -1 if only the pattern does, and otherwise 0. Words
    of `own` are `stride` apart.
    """
    return <int32_t>has_bit(own, stride, j) - <int32_t>has_bit(others, 1, j)


cdef inline bint has_bit(const uint32_t* mask, Py_ssize_t stride, int32_t j) noexcept nogil:
    """Return True if bit j of a mask, whose words are `stride` apart, is set."""
    return (mask[j // MASK_BITS * stride] >> (j % MASK_BITS)) & 1


cdef inline void add_result(const Leaf* leaf, Py_ssize_t row, int64_t offset, float64_t part) noexcept nogil:
    """Add `part` to the result of a row at the offset of a column or pair, for the output of the tree."""
    cdef const Rows* rows = leaf.walk.rows
    leaf.walk.stack.phi[leaf.walk.output * rows.n_results * rows.chunk + offset + row] += part


cdef inline bint is_same_mask(const uint32_t* a, const uint32_t* b, Py_ssize_t n_words) noexcept nogil:
    """Return True if two masks of `n_words` contiguous words are equal."""
    cdef Py_ssize_t w
    for w in range(n_words):
        if a[w] != b[w]:
            return False
    return True


cdef inline int32_t n_bits(const uint32_t* mask, Py_ssize_t stride, Py_ssize_t n_words) noexcept nogil:
    """Return the number of set bits of a mask, whose words are `stride` apart."""
    cdef Py_ssize_t w
    cdef uint32_t x
    cdef int32_t n = 0
    for w in range(n_words):
        x = mask[w * stride]
        x = x - ((x >> 1) & <uint32_t>0x55555555)
        x = (x & <uint32_t>0x33333333) + ((x >> 2) & <uint32_t>0x33333333)
        n += <int32_t>((((x + (x >> 4)) & <uint32_t>0x0F0F0F0F) * <uint32_t>0x01010101) >> 24)
    return n
