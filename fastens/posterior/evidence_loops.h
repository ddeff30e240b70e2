/* The evidence of single nodes. Loops over classes are unrolled if their number is a constant; loops for regression are
 * vectorised by the compiler. See averages.pyx. */
#ifndef FASTENS_EVIDENCE_LOOPS_H
#define FASTENS_EVIDENCE_LOOPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/dispatch.h"
#include "engine/elementary.h"

/* A symmetric Dirichlet prior of the class probabilities of one target, and its tables. */
typedef struct {
    ptrdiff_t n_classes;
    double alpha;
    uint32_t max_tabled;
    const double* products;           /* products of 0, 1, ..., max_tabled factors alpha, alpha + 1, ..., scaled down */
    const double* products_of_sums;   /* inverses of the products for n_classes * alpha */
    uint32_t n_log_gammas;
    const double* log_gammas;         /* log gamma of alpha + i, for i < n_log_gammas */
    const double* log_gammas_of_sums; /* log gamma of n_classes * alpha + i */
} dirichlet;

/* Return the log gamma of first + i, from the table if i is in its range. */
FASTENS_INLINE double log_gamma(const double* table, uint32_t n_log_gammas, double first, uint32_t i)
{
    return i < n_log_gammas ? table[i] : exact_lgamma(first + i);
}

/* Write the number of rows and the values of a node, and return its evidence, or its logarithm if there are more than
 * `max_tabled` rows. */
FASTENS_INLINE double evidence_of_counts(
    const dirichlet* prior, const uint32_t* counts, ptrdiff_t n_classes, int32_t* n_rows, double* values)
{
    const ptrdiff_t first = n_classes == 2;
    const double of_all = (double)n_classes * prior->alpha;
    uint32_t total = 0;
    for (ptrdiff_t k = 0; k < n_classes; k++)
        total += counts[k];
    const double share = 1.0 / (of_all + total);
    for (ptrdiff_t k = first; k < n_classes; k++)
        values[k - first] = (counts[k] + prior->alpha) * share;
    *n_rows = (int32_t)total;
    double result;
    if (total <= prior->max_tabled) {
        result = prior->products_of_sums[total];
        for (ptrdiff_t k = 0; k < n_classes; k++)
            result *= prior->products[counts[k]];
    } else {
        result = prior->log_gammas_of_sums[0] - log_gamma(prior->log_gammas_of_sums, prior->n_log_gammas, of_all, total);
        for (ptrdiff_t k = 0; k < n_classes; k++)
            result += log_gamma(prior->log_gammas, prior->n_log_gammas, prior->alpha, counts[k]) - prior->log_gammas[0];
    }
    return result;
}

/* For each node, the number of rows and the sums of z and z^2. */
typedef struct {
    const int32_t* n_rows;
    const double* first;
    const double* second;
} node_sums;

/* For each node, the mean, the ratio of the posterior rate to the prior rate, and a power of it: see spreads_loop. */
typedef struct {
    double* mean;
    double* ratio;
    double* power;
} node_spreads;

/* Number of low bits of the exponent that `spreads` processes; the caller handles the others, which are rarely set. */
#define EXPONENT_BITS 5

/* The power is the ratio to minus half of the low bits of twice + n_rows. */
FASTENS_INLINE void spreads_loop(
    node_sums sums, double weight, double half, int32_t twice, node_spreads out, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const int32_t exponent = twice + sums.n_rows[i];
        const double middle = sums.first[i] / (weight + sums.n_rows[i]);
        const double squares = sums.second[i] - sums.first[i] * middle;
        const double ratio = 1.0 + (squares > 0.0 ? squares : 0.0) * half;
        double x = sqrt(1.0 / ratio), result = exponent & 1 ? x : 1.0;
        x *= x;
        result *= exponent & 2 ? x : 1.0;
        x *= x;
        result *= exponent & 4 ? x : 1.0;
        x *= x;
        result *= exponent & 8 ? x : 1.0;
        x *= x;
        result *= exponent & 16 ? x : 1.0;
        out.mean[i] = middle;
        out.ratio[i] = ratio;
        out.power[i] = result;
    }
}

FASTENS_CHOOSE(
    spreads,
    (node_sums sums, double weight, double half, int32_t twice, node_spreads out, ptrdiff_t n),
    (sums, weight, half, twice, out, n))

#endif
