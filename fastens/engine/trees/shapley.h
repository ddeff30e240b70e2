/* Shapley values of one leaf of a tree, for SHAPLEY_LANES rows at once, vectorised by the compiler.
 *
 * The path of a leaf tests d different features. Of a row, all that counts is which of them it passes: o_j is whether it
 * passes all tests of feature j. What a feature is worth that is not known depends on the game.
 *
 * Path-dependent (Lundberg et al. 2020, algorithm 2): z_j, the share of the training weight that passes the tests of j.
 * A leaf of value v adds to feature i
 *     v (o_i - z_i) sum over S of |S|! (d-1-|S|)!/d! prod_{j in S} o_j prod_{j not in S} z_j.
 * The weights are Beta integrals, so that the sum is one integral of a polynomial of degree d - 1,
 *     v (o_i - z_i) int_0^1 prod_{j != i} (t o_j + (1-t) z_j) dt,
 * which Gauss-Legendre quadrature gives exactly with d/2 points t (the order of work of Yu et al. 2022). All factors are
 * positive, and the products without one of them are those of the factors before it and after it: nothing is divided.
 *
 * A linear term of such a leaf, on feature k, is f where feature k is known, and 0 where it is not. That adds
 *     f o_k (o_i - z_i) int t prod_{j != i, k} (t o_j + (1-t) z_j) dt     to each other feature i, and to itself
 *     f o_k int prod_{j != k} (t o_j + (1-t) z_j) dt.
 *
 * Interventional (Laberge & Pequignot 2022): the mean over background rows. Of one of these, b_j is whether it passes the
 * tests of j. Where some feature is passed by neither row, no mixture of them reaches the leaf. Else, with p features
 * that only the row passes and m that only the background row does, the leaf adds
 *     v (p-1)! m!/(p+m)!    to the first,        - v p! (m-1)!/(p+m)!    to the others.
 */
#ifndef FASTENS_SHAPLEY_H
#define FASTENS_SHAPLEY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"

enum { SHAPLEY_LANES = 8, MASK_BITS = 32 };

/* A test of numbers: the codes that go left are `n_left` from `first` on. Rows that pass have the bit of the edge's feature
 * in their masks, if they had it before or the path did not test the feature. */
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

/* Of the lanes, which bits their masks have: 1.0 and 0.0, bit after bit. */
FASTENS_INLINE void spread_bits_loop(const uint32_t* masks, ptrdiff_t stride, int32_t n_bits, double* known)
{
    for (int32_t j = 0; j < n_bits; j++) {
        const uint32_t* words = masks + j / MASK_BITS * stride;
        for (int l = 0; l < SHAPLEY_LANES; l++)
            known[j * SHAPLEY_LANES + l] = (double)(int32_t)(words[l] >> j % MASK_BITS & 1u);
    }
}

/* The path of a leaf, as far as a game of training weights has it: z, and o of the lanes, feature after feature. */
typedef struct {
    int32_t n_points;
    const double* points; /* in (0, 1) */
    const double* weights;
    const double* share;
    const double* known;
} LeafPath;

FASTENS_INLINE double factor_of(double t, double known, double share)
{
    return t * known + (1.0 - t) * share;
}

/* The integrals of `start` times the factors of all members but one, for each of them, and last those with all.
 * `products` has room for as many points and lanes for each member and one more, and `after` for those of one. */
FASTENS_INLINE void leave_out_loop(
    const LeafPath* path, const int32_t* members, int32_t n, double* products, double* after, double* out)
{
    const int32_t n_points = path->n_points, size = n_points * SHAPLEY_LANES;
    for (int32_t m = 0; m < n; m++) {
        const double* known = path->known + members[m] * SHAPLEY_LANES;
        const double* before = products + m * size;
        double* with = products + (m + 1) * size;
        for (int32_t q = 0; q < n_points; q++) {
            const double one = factor_of(path->points[q], 1.0, path->share[members[m]]);
            const double zero = factor_of(path->points[q], 0.0, path->share[members[m]]);
            for (int l = 0; l < SHAPLEY_LANES; l++)
                with[q * SHAPLEY_LANES + l] = before[q * SHAPLEY_LANES + l] * (known[l] > 0 ? one : zero);
        }
    }
    for (int l = 0; l < SHAPLEY_LANES; l++)
        out[n * SHAPLEY_LANES + l] = 0.0;
    for (int32_t q = 0; q < n_points; q++)
        for (int l = 0; l < SHAPLEY_LANES; l++) {
            out[n * SHAPLEY_LANES + l] += products[n * size + q * SHAPLEY_LANES + l];
            after[q * SHAPLEY_LANES + l] = 1.0;
        }
    for (int32_t m = n - 1; m >= 0; m--) {
        const double* known = path->known + members[m] * SHAPLEY_LANES;
        double sum[SHAPLEY_LANES] = {0};
        for (int32_t q = 0; q < n_points; q++) {
            const double one = factor_of(path->points[q], 1.0, path->share[members[m]]);
            const double zero = factor_of(path->points[q], 0.0, path->share[members[m]]);
            for (int l = 0; l < SHAPLEY_LANES; l++) {
                sum[l] += products[m * size + q * SHAPLEY_LANES + l] * after[q * SHAPLEY_LANES + l];
                after[q * SHAPLEY_LANES + l] *= known[l] > 0 ? one : zero;
            }
        }
        for (int l = 0; l < SHAPLEY_LANES; l++)
            out[m * SHAPLEY_LANES + l] = sum[l];
    }
}

/* Rows of a background that are the same to a leaf, as they pass the same tests: their mask, how many bits it lacks, how
 * many they are, and, where they are kept apart, what each lane multiplies them by. */
typedef struct {
    const uint32_t* mask;
    int32_t n_lacking;
    double count;
    const double* scales; /* NULL: 1 */
} Pattern;

/* The worth of p features of a row against m of a background row: (p-1)! m!/(p+m)! at [p * size + m], 0 where p = 0. */
typedef struct {
    const Pattern* patterns;
    int32_t n_patterns;
    const double* worth;
    int32_t size;
} Background;

/* Masks of the lanes, and how many bits they lack. */
typedef struct {
    const uint32_t* masks;
    ptrdiff_t stride; /* from word to word */
    int32_t n_bits;
    int32_t n_lacking[SHAPLEY_LANES];
} Lanes;

FASTENS_INLINE uint32_t has_bit(const uint32_t* mask, ptrdiff_t stride, int32_t j)
{
    return mask[j / MASK_BITS * stride] >> j % MASK_BITS & 1u;
}

/* Which lanes pass every feature that the background row does not; whether any does. */
FASTENS_INLINE uint32_t match_lanes(const Lanes* lanes, const uint32_t* mask, uint32_t* matches)
{
    uint32_t any = 0;
    for (int l = 0; l < SHAPLEY_LANES; l++)
        matches[l] = 1u;
    for (int32_t w = 0; w * MASK_BITS < lanes->n_bits; w++) {
        const int32_t left = lanes->n_bits - w * MASK_BITS;
        const uint32_t all = left >= MASK_BITS ? ~0u : (1u << left) - 1u;
        for (int l = 0; l < SHAPLEY_LANES; l++)
            matches[l] &= (lanes->masks[w * lanes->stride + l] | mask[w]) == all ? 1u : 0u;
    }
    for (int l = 0; l < SHAPLEY_LANES; l++)
        any |= matches[l];
    return any;
}

/* What the pattern counts for in each lane: 0 where they do not match. */
FASTENS_INLINE void count_lanes(const Pattern* pattern, const uint32_t* matches, double* counts)
{
    for (int l = 0; l < SHAPLEY_LANES; l++)
        counts[l] = matches[l] ? (pattern->scales ? pattern->count * pattern->scales[l] : pattern->count) : 0.0;
}

/* parts: of each feature, for each lane; `won` and `lost` have room for these */
FASTENS_INLINE void play_background_loop(const Lanes* lanes, const Background* background, double* won, double* parts)
{
    const int32_t n = lanes->n_bits, size = background->size;
    double lost[SHAPLEY_LANES] = {0}, counts[SHAPLEY_LANES], gain[SHAPLEY_LANES];
    uint32_t matches[SHAPLEY_LANES];
    memset(won, 0, n * SHAPLEY_LANES * sizeof(double));
    for (int32_t z = 0; z < background->n_patterns; z++) {
        const Pattern* pattern = background->patterns + z;
        const int32_t p = pattern->n_lacking;
        if (!match_lanes(lanes, pattern->mask, matches))
            continue;
        count_lanes(pattern, matches, counts);
        for (int l = 0; l < SHAPLEY_LANES; l++) {
            lost[l] += counts[l] * background->worth[lanes->n_lacking[l] * size + p];
            gain[l] = counts[l] * background->worth[p * size + lanes->n_lacking[l]];
        }
        for (int32_t j = 0; j < n; j++)
            if (!has_bit(pattern->mask, 1, j))
                for (int l = 0; l < SHAPLEY_LANES; l++)
                    won[j * SHAPLEY_LANES + l] += gain[l];
    }
    for (int32_t j = 0; j < n; j++)
        for (int l = 0; l < SHAPLEY_LANES; l++)
            parts[j * SHAPLEY_LANES + l] =
                has_bit(lanes->masks + l, lanes->stride, j) ? won[j * SHAPLEY_LANES + l] : -lost[l];
}

/* parts: of each pair, (i, j) at i (i - 1) / 2 + j, halved; those of two of a row's features first add up there. Each is
 * a difference of the worth of one of the two features with and without the other. */
FASTENS_INLINE void play_pairs_loop(const Lanes* lanes, const Background* background, double* mixed, double* parts)
{
    const int32_t n = lanes->n_bits, size = background->size;
    double both_lost[SHAPLEY_LANES] = {0}, counts[SHAPLEY_LANES], won[SHAPLEY_LANES], against[SHAPLEY_LANES];
    uint32_t matches[SHAPLEY_LANES];
    memset(mixed, 0, n * SHAPLEY_LANES * sizeof(double));
    memset(parts, 0, n * (n - 1) / 2 * SHAPLEY_LANES * sizeof(double));
    for (int32_t z = 0; z < background->n_patterns; z++) {
        const Pattern* pattern = background->patterns + z;
        const int32_t p = pattern->n_lacking;
        if (!match_lanes(lanes, pattern->mask, matches))
            continue;
        count_lanes(pattern, matches, counts);
        for (int l = 0; l < SHAPLEY_LANES; l++) {
            const int32_t m = lanes->n_lacking[l];
            won[l] = p > 1 ? 0.5 * counts[l] * background->worth[(p - 1) * size + m] : 0.0;
            against[l] = m > 0 ? 0.5 * counts[l] * background->worth[p * size + m - 1] : 0.0;
            both_lost[l] += m > 1 ? 0.5 * counts[l] * background->worth[(m - 1) * size + p] : 0.0;
        }
        for (int32_t i = 0; i < n; i++) {
            if (has_bit(pattern->mask, 1, i))
                continue;
            for (int l = 0; l < SHAPLEY_LANES; l++)
                mixed[i * SHAPLEY_LANES + l] += against[l];
            for (int32_t j = 0; j < i; j++)
                if (!has_bit(pattern->mask, 1, j))
                    for (int l = 0; l < SHAPLEY_LANES; l++)
                        parts[(i * (i - 1) / 2 + j) * SHAPLEY_LANES + l] += won[l];
        }
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < i; j++)
            for (int l = 0; l < SHAPLEY_LANES; l++) {
                const uint32_t has_i = has_bit(lanes->masks + l, lanes->stride, i);
                const uint32_t has_j = has_bit(lanes->masks + l, lanes->stride, j);
                double* part = parts + (i * (i - 1) / 2 + j) * SHAPLEY_LANES + l;
                if (has_i != has_j)
                    *part = -mixed[(has_i ? i : j) * SHAPLEY_LANES + l];
                else if (!has_i)
                    *part = both_lost[l];
            }
}

/* Rows that are lanes: sums, part after part at its place, get what the lanes' factors make of the parts. */
FASTENS_INLINE void add_lanes_loop(
    const double* parts, const int64_t* places, int32_t n_parts, const double* factors, double* sums)
{
    for (int32_t p = 0; p < n_parts; p++)
        for (int l = 0; l < SHAPLEY_LANES; l++)
            sums[places[p] + l] += factors[l] * parts[p * SHAPLEY_LANES + l];
}

/* Rows of any mask: sums of one part get what it is for their masks; `slots` is where that is. */
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
    (const uint32_t* masks, ptrdiff_t stride, int32_t n_bits, double* known), (masks, stride, n_bits, known))
FASTENS_CHOOSE(leave_out,
    (const LeafPath* path, const int32_t* members, int32_t n, double* products, double* after, double* out),
    (path, members, n, products, after, out))
FASTENS_CHOOSE(play_background,
    (const Lanes* lanes, const Background* background, double* won, double* parts), (lanes, background, won, parts))
FASTENS_CHOOSE(play_pairs,
    (const Lanes* lanes, const Background* background, double* mixed, double* parts), (lanes, background, mixed, parts))
FASTENS_CHOOSE(add_lanes,
    (const double* parts, const int64_t* places, int32_t n_parts, const double* factors, double* sums),
    (parts, places, n_parts, factors, sums))
FASTENS_CHOOSE(add_from_table,
    (const double* parts, const uint32_t* slots, const double* factors, ptrdiff_t n, double* sums),
    (parts, slots, factors, n, sums))

#endif
