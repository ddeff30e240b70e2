/* The steps of path-dependent Shapley values, for SHAPLEY_LANES rows at once, vectorised by the compiler.
 *
 * A leaf of value v whose path tests d different features adds to feature i (Lundberg et al. 2020, algorithm 2)
 *     v (o_i - z_i) sum over S of |S|! (d-1-|S|)!/d! prod_{j in S} o_j prod_{j not in S} z_j
 * where o_j says whether the row passes all tests of feature j, and z_j is the share of the training weight that does.
 * The weights are Beta integrals, so that the sum is one integral of a polynomial of degree d - 1,
 *     v (o_i - z_i) int_0^1 prod_{j != i} (t o_j + (1-t) z_j) dt,
 * which Gauss-Legendre quadrature gives exactly with d/2 points t. All factors are positive.
 */
#ifndef FASTENS_SHAPLEY_H
#define FASTENS_SHAPLEY_H

#include <stddef.h>
#include <stdint.h>

#include "dispatch.h"

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

/* phi += value / 2 (o_a - z_a) (o_b - z_b) int product / (factor_a factor_b) */
FASTENS_INLINE void collect_pair_loop(
    const Quadrature* rule, const PathElement* a, const PathElement* b, double value, const double* product, double* phi)
{
    double integral[SHAPLEY_LANES] = {0};
    for (int32_t q = 0; q < rule->n_points; q++) {
        const double t = rule->points[q], weight = rule->weights[q];
        const double a_one = weight / factor_of(t, 1.0, a->share), a_zero = weight / factor_of(t, 0.0, a->share);
        const double b_one = 1.0 / factor_of(t, 1.0, b->share), b_zero = 1.0 / factor_of(t, 0.0, b->share);
        for (int l = 0; l < SHAPLEY_LANES; l++)
            integral[l] += product[q * SHAPLEY_LANES + l] * (a->passes[l] > 0 ? a_one : a_zero)
                * (b->passes[l] > 0 ? b_one : b_zero);
    }
    for (int l = 0; l < SHAPLEY_LANES; l++)
        phi[l] += 0.5 * value * (a->passes[l] - a->share) * (b->passes[l] - b->share) * integral[l];
}

FASTENS_CHOOSE(extend_path,
    (const Quadrature* rule, const PathElement* element, const PathElement* replaced, const double* product, double* out),
    (rule, element, replaced, product, out))
FASTENS_CHOOSE(collect_feature,
    (const Quadrature* rule, const PathElement* element, double sign, const double* sums, double* phi),
    (rule, element, sign, sums, phi))
FASTENS_CHOOSE(collect_pair,
    (const Quadrature* rule, const PathElement* a, const PathElement* b, double value, const double* product, double* phi),
    (rule, a, b, value, product, phi))

#endif
