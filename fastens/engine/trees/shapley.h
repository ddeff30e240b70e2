/* The steps of path-dependent Shapley values, for SHAPLEY_LANES rows at once, vectorised by the compiler.
 *
 * A leaf of value v whose path tests d different features adds to feature i (Lundberg et al. 2020, algorithm 2)
 *     v (o_i - z_i) sum over S of |S|! (d-1-|S|)!/d! prod_{j in S} o_j prod_{j not in S} z_j
 * where o_j is whether the row passes all tests of feature j, and z_j is the share of the training weight that does.
 * The weights are Beta integrals, so that the sum is one integral of a polynomial of degree d - 1,
 *     v (o_i - z_i) int_0^1 prod_{j != i} (t o_j + (1-t) z_j) dt,
 * which Gauss-Legendre quadrature gives exactly with d/2 points t. All factors are positive.
 *
 * A linear term of such a leaf, on feature k, is f where feature k is known, and 0 where it is not. That adds
 *     f o_k (o_i - z_i) int t prod_{j != i, k} (t o_j + (1-t) z_j) dt     to each other feature i, and to itself
 *     f o_k int prod_{j != k} (t o_j + (1-t) z_j) dt.
 * Both are had by adding f o_k t / factor_k to the leaf's value inside the integral, and f o_k z_k int product / factor_k^2
 * to feature k: for o_k = 1, factor_k - t (1 - z_k) = z_k.
 */
#ifndef FASTENS_SHAPLEY_H
#define FASTENS_SHAPLEY_H

#include <stddef.h>
#include <stdint.h>

#include "engine/dispatch.h"

enum { SHAPLEY_LANES = 8 };

typedef struct {
    int32_t n_points;
    const double* points;  /* in (0, 1) */
    const double* weights;
} Quadrature;

/* One feature on the path of a leaf: z for all rows, o for each. */
typedef struct {
    double share;
    const double* passes;
} PathElement;

/* The value of a linear term less its value at the mean, at_mean. Values end at lower and upper. */
typedef struct {
    double slope, lower, upper, at_mean;
} Term;

FASTENS_INLINE double factor_of(double t, double passes, double share)
{
    return t * passes + (1.0 - t) * share;
}

/* product * factor of `element`; divided by that of `replaced`, an earlier test of the same feature (NULL: none) */
FASTENS_INLINE void extend_path_loop(
    const Quadrature* rule, const PathElement* element, const PathElement* replaced, const double* product, double* out)
{
    for (int32_t q = 0; q < rule->n_points; q++) {
        const double t = rule->points[q];
        const double one = factor_of(t, 1.0, element->share), zero = factor_of(t, 0.0, element->share);
        for (int l = 0; l < SHAPLEY_LANES; l++)
            out[l] = product[l] * (element->passes[l] > 0 ? one : zero);
        if (replaced) {
            const double above_one = 1.0 / factor_of(t, 1.0, replaced->share);
            const double above_zero = 1.0 / factor_of(t, 0.0, replaced->share);
            for (int l = 0; l < SHAPLEY_LANES; l++)
                out[l] *= replaced->passes[l] > 0 ? above_one : above_zero;
        }
        product += SHAPLEY_LANES;
        out += SHAPLEY_LANES;
    }
}

/* phi += sign (o - z) int sums / factor */
FASTENS_INLINE void collect_feature_loop(
    const Quadrature* rule, const PathElement* element, double sign, const double* sums, double* phi)
{
    double integral[SHAPLEY_LANES] = {0};
    for (int32_t q = 0; q < rule->n_points; q++) {
        const double t = rule->points[q], weight = rule->weights[q];
        const double one = weight / factor_of(t, 1.0, element->share);
        const double zero = weight / factor_of(t, 0.0, element->share);
        for (int l = 0; l < SHAPLEY_LANES; l++)
            integral[l] += sums[q * SHAPLEY_LANES + l] * (element->passes[l] > 0 ? one : zero);
    }
    for (int l = 0; l < SHAPLEY_LANES; l++)
        phi[l] += sign * (element->passes[l] - element->share) * integral[l];
}

/* phi += 1/2 (o_a - z_a) (o_b - z_b) int sums / (factor_a factor_b) */
FASTENS_INLINE void collect_pair_loop(
    const Quadrature* rule, const PathElement* a, const PathElement* b, const double* sums, double* phi)
{
    double integral[SHAPLEY_LANES] = {0};
    for (int32_t q = 0; q < rule->n_points; q++) {
        const double t = rule->points[q], weight = rule->weights[q];
        const double a_one = weight / factor_of(t, 1.0, a->share), a_zero = weight / factor_of(t, 0.0, a->share);
        const double b_one = 1.0 / factor_of(t, 1.0, b->share), b_zero = 1.0 / factor_of(t, 0.0, b->share);
        for (int l = 0; l < SHAPLEY_LANES; l++)
            integral[l] += sums[q * SHAPLEY_LANES + l] * (a->passes[l] > 0 ? a_one : a_zero)
                * (b->passes[l] > 0 ? b_one : b_zero);
    }
    for (int l = 0; l < SHAPLEY_LANES; l++)
        phi[l] += 0.5 * (a->passes[l] - a->share) * (b->passes[l] - b->share) * integral[l];
}

/* Of rows that have all terms of a leaf, the term's deviation from the leaf's mean; 0 of others. */
FASTENS_INLINE void deviations_loop(
    const Term* term, const double* values, const double* passes, const double* complete, double* out)
{
    for (int l = 0; l < SHAPLEY_LANES; l++) {
        double value = values[l] > term->lower ? values[l] : term->lower;
        value = value < term->upper ? value : term->upper;
        out[l] = complete[l] > 0 ? passes[l] * (term->slope * value - term->at_mean) : 0.0;
    }
}

/* sums += f t product / factor, for rows that pass */
FASTENS_INLINE void extend_sums_loop(
    const Quadrature* rule, double share, const double* f, const double* product, double* sums)
{
    for (int32_t q = 0; q < rule->n_points; q++) {
        const double scale = rule->points[q] / factor_of(rule->points[q], 1.0, share);
        for (int l = 0; l < SHAPLEY_LANES; l++)
            sums[q * SHAPLEY_LANES + l] += scale * f[l] * product[q * SHAPLEY_LANES + l];
    }
}

/* phi += f z int product / factor^2, for rows that pass */
FASTENS_INLINE void collect_term_loop(
    const Quadrature* rule, double share, const double* f, const double* product, double* phi)
{
    for (int32_t q = 0; q < rule->n_points; q++) {
        const double factor = factor_of(rule->points[q], 1.0, share), scale = share * rule->weights[q] / (factor * factor);
        for (int l = 0; l < SHAPLEY_LANES; l++)
            phi[l] += scale * f[l] * product[q * SHAPLEY_LANES + l];
    }
}

/* phi += 1/2 f z (o_b - z_b) int product / (factor^2 factor_b), for rows that pass the tests of the term's feature */
FASTENS_INLINE void collect_term_pair_loop(
    const Quadrature* rule, double share, const PathElement* b, const double* f, const double* product, double* phi)
{
    double integral[SHAPLEY_LANES] = {0};
    for (int32_t q = 0; q < rule->n_points; q++) {
        const double t = rule->points[q], factor = factor_of(t, 1.0, share);
        const double scale = share * rule->weights[q] / (factor * factor);
        const double one = scale / factor_of(t, 1.0, b->share), zero = scale / factor_of(t, 0.0, b->share);
        for (int l = 0; l < SHAPLEY_LANES; l++)
            integral[l] += product[q * SHAPLEY_LANES + l] * (b->passes[l] > 0 ? one : zero);
    }
    for (int l = 0; l < SHAPLEY_LANES; l++)
        phi[l] += 0.5 * f[l] * (b->passes[l] - b->share) * integral[l];
}

FASTENS_CHOOSE(extend_path,
    (const Quadrature* rule, const PathElement* element, const PathElement* replaced, const double* product, double* out),
    (rule, element, replaced, product, out))
FASTENS_CHOOSE(collect_feature,
    (const Quadrature* rule, const PathElement* element, double sign, const double* sums, double* phi),
    (rule, element, sign, sums, phi))
FASTENS_CHOOSE(collect_pair,
    (const Quadrature* rule, const PathElement* a, const PathElement* b, const double* sums, double* phi),
    (rule, a, b, sums, phi))
FASTENS_CHOOSE(deviations,
    (const Term* term, const double* values, const double* passes, const double* complete, double* out),
    (term, values, passes, complete, out))
FASTENS_CHOOSE(extend_sums,
    (const Quadrature* rule, double share, const double* f, const double* product, double* sums),
    (rule, share, f, product, sums))
FASTENS_CHOOSE(collect_term,
    (const Quadrature* rule, double share, const double* f, const double* product, double* phi),
    (rule, share, f, product, phi))
FASTENS_CHOOSE(collect_term_pair,
    (const Quadrature* rule, double share, const PathElement* b, const double* f, const double* product, double* phi),
    (rule, share, b, f, product, phi))

#endif
