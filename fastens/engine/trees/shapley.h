/* Shapley values of one leaf of a tree, for SHAPLEY_LANES rows at once, vectorised by the compiler.
 *
 * The path of a leaf tests d different features. A row matters only through the features it passes: o_j is 1 if it
 * passes all tests of feature j, otherwise 0. The value of an unknown feature depends on the game.
 *
 * Path-dependent (Lundberg et al. 2020, algorithm 2): z_j is the share of the training weight that passes the tests
 * of j. A leaf of value v adds to feature i
 *     v (o_i - z_i) sum over S of |S|! (d-1-|S|)!/d! prod_{j in S} o_j prod_{j not in S} z_j.
 * The weights are Beta integrals, so the sum is one integral of a polynomial of degree d - 1,
 *     v (o_i - z_i) int_0^1 prod_{j != i} (t o_j + (1-t) z_j) dt,
 * which Gauss-Legendre quadrature with d/2 points t evaluates exactly (Yu et al. 2022). The product without a
 * feature is the full product divided by the feature's factor. A factor is 0 only if o_i = z_i = 0, in which case
 * its inverse does not matter.
 *
 * A linear term of such a leaf, on feature k, is f if feature k is known, and 0 otherwise. It adds
 *     f o_k (o_i - z_i) int t prod_{j != i, k} (t o_j + (1-t) z_j) dt     to each other feature i, and to feature k
 *     f o_k int prod_{j != k} (t o_j + (1-t) z_j) dt.
 *
 * Interventional (Laberge & Pequignot 2022): the mean over background rows. For a background row, b_j is 1 if it
 * passes the tests of j. If neither row passes some feature, no mixture of the two reaches the leaf. Otherwise, with
 * p features that only the row passes and m that only the background row passes, the leaf adds
 *     v (p-1)! m!/(p+m)!    to the former,        - v p! (m-1)!/(p+m)!    to the latter. */
#ifndef FASTENS_SHAPLEY_H
#define FASTENS_SHAPLEY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"

enum { SHAPLEY_LANES = 16, MASK_BITS = 32 };

/* Marks a loop over lanes, which must be vectorised before it is unrolled. */
#if defined(__clang__)
#define FASTENS_LANES _Pragma("clang loop vectorize(enable)")
#elif defined(__GNUC__)
#define FASTENS_LANES _Pragma("omp simd")
#else
#define FASTENS_LANES
#endif

/* A vector of lanes that supports arithmetic; N_VECTORS of them hold all lanes. */
#if defined(__GNUC__) || defined(__clang__)
typedef double LaneVector __attribute__((vector_size(32), aligned(8), may_alias));
#else
typedef double LaneVector;
#endif
enum { N_VECTORS = SHAPLEY_LANES * sizeof(double) / sizeof(LaneVector) };

/* A numeric test: `n_left` codes from `first` on go left. Rows that pass keep the bit of the edge's feature in their
 * masks, or get it if the path has not tested the feature before. */
typedef struct {
    int32_t first, n_left, is_left, is_repeated, bit;
} EdgeTest;

#define FASTENS_MARK_ROWS                                                                   \
    const uint32_t wrong = test->is_left ? 0u : 1u, kept = test->is_repeated ? 0u : 1u;     \
    for (ptrdiff_t i = 0; i < n; i++) {                                                     \
        const int32_t place = (int32_t)codes[i] - test->first;                              \
        const uint32_t passes = ((uint32_t)place < (uint32_t)test->n_left ? 1u : 0u) ^ wrong; \
        masks[i] = (above[i] | (kept << test->bit)) & ~((1u ^ passes) << test->bit);        \
    }

FASTENS_INLINE void mark_bytes_loop(
    const EdgeTest* test, const uint8_t* codes, ptrdiff_t n, const uint32_t* above, uint32_t* masks)
{
    FASTENS_MARK_ROWS
}

FASTENS_INLINE void mark_words_loop(
    const EdgeTest* test, const uint16_t* codes, ptrdiff_t n, const uint32_t* above, uint32_t* masks)
{
    FASTENS_MARK_ROWS
}

/* Expands masks: writes 1.0 for each feature in a lane's mask and 0.0 for all others, and the complement. */
FASTENS_INLINE void spread_bits_loop(const uint32_t* masks, ptrdiff_t stride, int32_t n, double* known, double* unknown)
{
    for (int32_t j = 0; j < n; j++) {
        const uint32_t *words = masks + j / MASK_BITS * stride, bit = 1u << j % MASK_BITS;
        double* restrict is_known = known + j * SHAPLEY_LANES;
        double* restrict is_unknown = unknown + j * SHAPLEY_LANES;
        FASTENS_LANES for (int l = 0; l < SHAPLEY_LANES; l++)
        {
            is_known[l] = words[l] & bit ? 1.0 : 0.0;
            is_unknown[l] = words[l] & bit ? 0.0 : 1.0;
        }
    }
}

/* The path of a leaf in the path-dependent game. Factors of unknown features, and inverses, are stored by feature,
 * then by point; the lanes' known features are stored by feature. */
typedef struct {
    int32_t n, n_points;
    const double* points; /* in (0, 1) */
    const double* weights;
    const double* share;
    double* factors;
    double* inverse_known;
    double* inverse_unknown;
    double* known;
    double* unknown;
    int32_t n_vectors; /* number of vectors in use */
} LeafPath;

FASTENS_INLINE void find_factors_loop(const LeafPath* path)
{
    const int32_t n_points = path->n_points;
    const double* restrict points = path->points;
    for (int32_t j = 0; j < path->n; j++) {
        double* restrict factors = path->factors + j * n_points;
        double* restrict inverse_known = path->inverse_known + j * n_points;
        double* restrict inverse_unknown = path->inverse_unknown + j * n_points;
        const double share = path->share[j];
        for (int32_t q = 0; q < n_points; q++) {
            const double factor = (1.0 - points[q]) * share, inverse = 1.0 / factor;
            factors[q] = factor;
            inverse_known[q] = 1.0 / (factor + points[q]);
            inverse_unknown[q] = factor > 0 ? inverse : 0.0;
        }
    }
}

FASTENS_INLINE const LaneVector* vectors_of(const double* lanes, int32_t place)
{
    return (const LaneVector*)(lanes + place * SHAPLEY_LANES);
}

/* products: at each point, its weight times the factors t o + (1-t) z of all features */
FASTENS_INLINE void multiply_path_of(const LeafPath* path, double* products, const int n_vectors)
{
    for (int32_t q = 0; q < path->n_points; q++) {
        LaneVector* out = (LaneVector*)(products + q * SHAPLEY_LANES);
        const LaneVector none = {0};
        LaneVector product[N_VECTORS];
        for (int v = 0; v < n_vectors; v++)
            product[v] = none + path->weights[q];
        for (int32_t j = 0; j < path->n; j++) {
            const LaneVector* known = vectors_of(path->known, j);
            const double factor = path->factors[j * path->n_points + q];
            for (int v = 0; v < n_vectors; v++)
                product[v] *= known[v] * path->points[q] + factor;
        }
        for (int v = 0; v < n_vectors; v++)
            out[v] = product[v];
    }
}

FASTENS_INLINE void multiply_path_loop(const LeafPath* path, double* products)
{
    if (path->n_vectors == 1)
        multiply_path_of(path, products, 1);
    else
        multiply_path_of(path, products, N_VECTORS);
}

/* products without the factors of a feature, times t if `by_t` */
FASTENS_INLINE void divide_path_of(
    const LeafPath* path, int32_t feature, int32_t by_t, const double* products, double* out, const int n_vectors)
{
    const LaneVector *known = vectors_of(path->known, feature), *unknown = vectors_of(path->unknown, feature);
    for (int32_t q = 0; q < path->n_points; q++) {
        const LaneVector* product = vectors_of(products, q);
        LaneVector* quotient = (LaneVector*)(out + q * SHAPLEY_LANES);
        const double t = by_t ? path->points[q] : 1.0;
        const double one = t * path->inverse_known[feature * path->n_points + q];
        const double zero = t * path->inverse_unknown[feature * path->n_points + q];
        for (int v = 0; v < n_vectors; v++)
            quotient[v] = product[v] * (known[v] * one + unknown[v] * zero);
    }
}

FASTENS_INLINE void divide_path_loop(
    const LeafPath* path, int32_t feature, int32_t by_t, const double* products, double* out)
{
    if (path->n_vectors == 1)
        divide_path_of(path, feature, by_t, products, out, 1);
    else
        divide_path_of(path, feature, by_t, products, out, N_VECTORS);
}

/* parts: the effect of knowing a feature, scale (o - z) int products / factor */
FASTENS_INLINE void collect_part_of(
    const LeafPath* path, int32_t feature, double scale, const double* products, double* parts, const int n_vectors)
{
    const LaneVector *known = vectors_of(path->known, feature), *unknown = vectors_of(path->unknown, feature);
    const double* one = path->inverse_known + feature * path->n_points;
    const double* zero = path->inverse_unknown + feature * path->n_points;
    const double share = path->share[feature];
    const LaneVector none = {0};
    LaneVector if_known[N_VECTORS], if_unknown[N_VECTORS];
    for (int v = 0; v < n_vectors; v++)
        if_known[v] = if_unknown[v] = none;
    for (int32_t q = 0; q < path->n_points; q++) {
        const LaneVector* product = vectors_of(products, q);
        for (int v = 0; v < n_vectors; v++) {
            if_known[v] += product[v] * one[q];
            if_unknown[v] += product[v] * zero[q];
        }
    }
    for (int v = 0; v < n_vectors; v++)
        ((LaneVector*)parts)[v] =
            scale * (known[v] - share) * (known[v] * if_known[v] + unknown[v] * if_unknown[v]);
}

FASTENS_INLINE void collect_part_loop(
    const LeafPath* path, int32_t feature, double scale, const double* products, double* parts)
{
    if (path->n_vectors == 1)
        collect_part_of(path, feature, scale, products, parts, 1);
    else
        collect_part_of(path, feature, scale, products, parts, N_VECTORS);
}

/* Background rows that are equivalent at a leaf because they pass the same tests: their mask, the features they
 * lack, the number of these features, and the first and last row. */
typedef struct {
    const uint32_t* mask;
    const int32_t* lacking;
    int32_t n_lacking, count, first, last;
} Pattern;

/* Patterns sorted by the number of features they lack, the next row of the same pattern (or -1), and the factors of
 * lanes for each row (NULL if they are 1). The worth of p features of a row against m of a background row is (p-1)!
 * m!/(p+m)!, at [p * size + m], and 0 if p = 0. */
typedef struct {
    const Pattern* patterns;
    int32_t n_patterns;
    const int32_t* next;
    const double* scales;
    ptrdiff_t stride; /* between rows */
    const double* worth;
    int32_t size;
} Background;

/* Masks of the lanes, and the number of zero bits in each. */
typedef struct {
    const uint32_t* masks;
    ptrdiff_t stride; /* between words */
    int32_t n_bits;
    int32_t n_lacking[SHAPLEY_LANES];
} Lanes;

FASTENS_INLINE uint32_t has_bit(const uint32_t* mask, ptrdiff_t stride, int32_t j)
{
    return mask[j / MASK_BITS * stride] >> j % MASK_BITS & 1u;
}

/* Sets all bits of the lanes that pass every feature the background row does not pass, and clears the others;
 * returns true if there is such a lane. */
FASTENS_INLINE int32_t match_lanes(const Lanes* lanes, const uint32_t* mask, uint32_t* matches)
{
    uint64_t pairs[SHAPLEY_LANES / 2], any = 0;
    for (int32_t w = 0; w * MASK_BITS < lanes->n_bits; w++) {
        const int32_t left = lanes->n_bits - w * MASK_BITS;
        const uint32_t all = left >= MASK_BITS ? ~0u : (1u << left) - 1u, bits = mask[w];
        const uint32_t *words = lanes->masks + w * lanes->stride, before = w ? 0u : ~0u;
        FASTENS_LANES for (int l = 0; l < SHAPLEY_LANES; l++)
            matches[l] = (matches[l] | before) & ((words[l] | bits) == all ? ~0u : 0u);
    }
    memcpy(pairs, matches, sizeof(pairs));
    for (int l = 0; l < SHAPLEY_LANES / 2; l++)
        any |= pairs[l];
    return any != 0;
}

/* Number of rows of a pattern for each lane, or the sum of their scales; 0 if the lane does not match. */
FASTENS_INLINE void count_lanes(
    const Background* background, const Pattern* pattern, const uint32_t* matches, double* counts)
{
    const double count = background->scales ? 1.0 : (double)pattern->count;
    const LaneVector none = {0};
    LaneVector sum[N_VECTORS];
    FASTENS_LANES for (int l = 0; l < SHAPLEY_LANES; l++)
        counts[l] = (double)(int32_t)(matches[l] & 1u) * count;
    if (!background->scales)
        return;
    for (int v = 0; v < N_VECTORS; v++)
        sum[v] = none;
    for (int32_t z = pattern->first; z >= 0; z = background->next[z])
        for (int v = 0; v < N_VECTORS; v++)
            sum[v] += vectors_of(background->scales + z * background->stride, 0)[v];
    for (int v = 0; v < N_VECTORS; v++)
        ((LaneVector*)counts)[v] *= sum[v];
}

/* Sums the counts of all patterns from `first` on that lack the same number of features, in total and for each
 * missing feature. Returns the index of the next pattern. */
FASTENS_INLINE int32_t count_matches(
    const Lanes* lanes, const Background* background, int32_t first, double* all, double* lacking)
{
    const int32_t p = background->patterns[first].n_lacking;
    int32_t z = first;
    for (; z < background->n_patterns && background->patterns[z].n_lacking == p; z++) {
        const Pattern* pattern = background->patterns + z;
        uint32_t matches[SHAPLEY_LANES] = {0};
        double counts[SHAPLEY_LANES];
        if (!match_lanes(lanes, pattern->mask, matches))
            continue;
        count_lanes(background, pattern, matches, counts);
        for (int v = 0; v < N_VECTORS; v++)
            ((LaneVector*)all)[v] += vectors_of(counts, 0)[v];
        for (int32_t i = 0; i < p; i++) {
            LaneVector* sum = (LaneVector*)(lacking + pattern->lacking[i] * SHAPLEY_LANES);
            for (int v = 0; v < N_VECTORS; v++)
                sum[v] += vectors_of(counts, 0)[v];
        }
    }
    return z;
}

/* parts: by feature, for each lane; `counts` is a workspace of that size */
FASTENS_INLINE void play_background_loop(
    const Lanes* lanes, const Background* background, double* counts, double* parts)
{
    const int32_t n = lanes->n_bits, size = background->size;
    double lost[SHAPLEY_LANES] = {0}, gain[SHAPLEY_LANES], all[SHAPLEY_LANES];
    memset(parts, 0, n * SHAPLEY_LANES * sizeof(double));
    for (int32_t z = 0; z < background->n_patterns;) {
        const int32_t p = background->patterns[z].n_lacking;
        memset(all, 0, sizeof(all));
        memset(counts, 0, n * SHAPLEY_LANES * sizeof(double));
        z = count_matches(lanes, background, z, all, counts);
        for (int l = 0; l < SHAPLEY_LANES; l++) {
            lost[l] += all[l] * background->worth[lanes->n_lacking[l] * size + p];
            gain[l] = background->worth[p * size + lanes->n_lacking[l]];
        }
        for (int32_t j = 0; p > 0 && j < n; j++)
            for (int v = 0; v < N_VECTORS; v++)
                ((LaneVector*)(parts + j * SHAPLEY_LANES))[v] += vectors_of(counts, j)[v] * vectors_of(gain, 0)[v];
    }
    for (int32_t j = 0; j < n; j++)
        for (int l = 0; l < SHAPLEY_LANES; l++)
            if (!has_bit(lanes->masks + l, lanes->stride, j))
                parts[j * SHAPLEY_LANES + l] = -lost[l];
}

/* parts: by pair, (i, j) at i (i - 1) / 2 + j, halved; pairs of two features of the row are first accumulated there.
 * Each part is the difference of the worth of one feature with and without the other. */
FASTENS_INLINE void play_pairs_loop(const Lanes* lanes, const Background* background, double* mixed, double* parts)
{
    const int32_t n = lanes->n_bits, size = background->size;
    double both_lost[SHAPLEY_LANES] = {0}, won[SHAPLEY_LANES], against[SHAPLEY_LANES], counts[SHAPLEY_LANES];
    memset(mixed, 0, n * SHAPLEY_LANES * sizeof(double));
    memset(parts, 0, n * (n - 1) / 2 * SHAPLEY_LANES * sizeof(double));
    for (int32_t z = 0; z < background->n_patterns; z++) {
        const Pattern* pattern = background->patterns + z;
        const int32_t p = pattern->n_lacking;
        uint32_t matches[SHAPLEY_LANES] = {0};
        if (!match_lanes(lanes, pattern->mask, matches))
            continue;
        count_lanes(background, pattern, matches, counts);
        for (int l = 0; l < SHAPLEY_LANES; l++) {
            const int32_t m = lanes->n_lacking[l];
            const double half = 0.5 * counts[l];
            won[l] = p > 1 ? half * background->worth[(p - 1) * size + m] : 0.0;
            against[l] = m > 0 ? half * background->worth[p * size + m - 1] : 0.0;
            both_lost[l] += m > 1 ? half * background->worth[(m - 1) * size + p] : 0.0;
        }
        for (int32_t a = 0; a < p; a++) {
            const int32_t i = pattern->lacking[a];
            FASTENS_LANES for (int l = 0; l < SHAPLEY_LANES; l++)
                mixed[i * SHAPLEY_LANES + l] += against[l];
            for (int32_t b = 0; b < a; b++)
                FASTENS_LANES for (int l = 0; l < SHAPLEY_LANES; l++)
                    parts[(i * (i - 1) / 2 + pattern->lacking[b]) * SHAPLEY_LANES + l] += won[l];
        }
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < i; j++)
            FASTENS_LANES for (int l = 0; l < SHAPLEY_LANES; l++) {
                const uint32_t has_i = has_bit(lanes->masks + l, lanes->stride, i);
                const uint32_t has_j = has_bit(lanes->masks + l, lanes->stride, j);
                double* part = parts + (i * (i - 1) / 2 + j) * SHAPLEY_LANES + l;
                if (has_i != has_j)
                    *part = -mixed[(has_i ? i : j) * SHAPLEY_LANES + l];
                else if (!has_i)
                    *part = both_lost[l];
            }
}

/* If each row is a lane: adds each part, times the lane's factor, to the sums at the part's offset. */
FASTENS_INLINE void add_lanes_loop(
    const double* parts, const int64_t* places, int32_t n_parts, const double* factors, double* sums)
{
    for (int32_t p = 0; p < n_parts; p++)
        for (int v = 0; v < N_VECTORS; v++)
            ((LaneVector*)(sums + places[p]))[v] += vectors_of(factors, 0)[v] * vectors_of(parts, p)[v];
}

/* If masks come from a table: adds the entry of each row's mask, at `slots`, to the sums of one part. */
FASTENS_INLINE void add_from_table_loop(
    const double* parts, const uint32_t* slots, const double* factors, ptrdiff_t n, double* sums)
{
    for (ptrdiff_t i = 0; i < n; i++)
        sums[i] += factors[i] * parts[slots[i]];
}

FASTENS_CHOOSE(mark_bytes,
    (const EdgeTest* test, const uint8_t* codes, ptrdiff_t n, const uint32_t* above, uint32_t* masks),
    (test, codes, n, above, masks))
FASTENS_CHOOSE(mark_words,
    (const EdgeTest* test, const uint16_t* codes, ptrdiff_t n, const uint32_t* above, uint32_t* masks),
    (test, codes, n, above, masks))
FASTENS_CHOOSE(spread_bits,
    (const uint32_t* masks, ptrdiff_t stride, int32_t n, double* known, double* unknown),
    (masks, stride, n, known, unknown))
FASTENS_CHOOSE(find_factors, (const LeafPath* path), (path))
FASTENS_CHOOSE(multiply_path, (const LeafPath* path, double* products), (path, products))
FASTENS_CHOOSE(divide_path,
    (const LeafPath* path, int32_t feature, int32_t by_t, const double* products, double* out),
    (path, feature, by_t, products, out))
FASTENS_CHOOSE(collect_part,
    (const LeafPath* path, int32_t feature, double scale, const double* products, double* parts),
    (path, feature, scale, products, parts))
FASTENS_CHOOSE(play_background,
    (const Lanes* lanes, const Background* background, double* counts, double* parts),
    (lanes, background, counts, parts))
FASTENS_CHOOSE(play_pairs,
    (const Lanes* lanes, const Background* background, double* mixed, double* parts), (lanes, background, mixed, parts))
FASTENS_CHOOSE(add_lanes,
    (const double* parts, const int64_t* places, int32_t n_parts, const double* factors, double* sums),
    (parts, places, n_parts, factors, sums))
FASTENS_CHOOSE(add_from_table,
    (const double* parts, const uint32_t* slots, const double* factors, ptrdiff_t n, double* sums),
    (parts, slots, factors, n, sums))

#endif
