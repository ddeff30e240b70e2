/* Evidence of single nodes: from class counts, with loops unrolled if the number of classes is a compile-time
 * constant, and from sums of numeric targets, vectorised by the compiler. See averages.pyx. */
#ifndef FASTENS_EVIDENCE_LOOPS_H
#define FASTENS_EVIDENCE_LOOPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/dispatch.h"
#include "engine/elementary.h"

/* A symmetric Dirichlet prior of the class probabilities of one target, with its tables. */
typedef struct {
    ptrdiff_t n_classes;
    double alpha;
    uint32_t few;
    const double* products;           /* of 0, 1, ..., few factors alpha, alpha + 1, ..., each divided by a scale */
    const double* products_of_sums;   /* inverses of these products for n_classes * alpha */
    uint32_t n_known;
    const double* log_gammas;         /* log gamma(alpha + i), for i < n_known */
    const double* log_gammas_of_sums; /* log gamma(n_classes * alpha + i) */
} dirichlet;

/* Returns log gamma(first + i), from the table if i is within its range. */
FASTENS_INLINE double log_gamma(const double* table, uint32_t n_known, double first, uint32_t i)
{
    return i < n_known ? table[i] : exact_lgamma(first + i);
}

/* Writes the number of rows and the values of a node. Returns its evidence, or the logarithm if it has more than
 * `few` rows. */
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
    double found;
    if (total <= prior->few) {
        found = prior->products_of_sums[total];
        for (ptrdiff_t k = 0; k < n_classes; k++)
            found *= prior->products[counts[k]];
    } else {
        found = prior->log_gammas_of_sums[0] - log_gamma(prior->log_gammas_of_sums, prior->n_known, of_all, total);
        for (ptrdiff_t k = 0; k < n_classes; k++)
            found += log_gamma(prior->log_gammas, prior->n_known, prior->alpha, counts[k]) - prior->log_gammas[0];
    }
    return found;
}

/* For each node: the number of rows, and the sums of z and z^2. */
typedef struct {
    const int32_t* n_rows;
    const double* first;
    const double* second;
} node_sums;

/* For each node: the mean, the rate as a multiple of the prior's rate, and a power of that ratio: see spreads_loop. */
typedef struct {
    double* mean;
    double* ratio;
    double* power;
} node_spreads;

/* Number of low bits of an exponent that `spreads` handles. Nearly all exponents have no higher bits. */
#define EXPONENT_BITS 5

/* The exponent of `power` is minus half of the lowest EXPONENT_BITS bits of twice + n_rows. */
FASTENS_INLINE void spreads_loop(
    node_sums sums, double weight, double half, int32_t twice, node_spreads out, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const int32_t exponent = twice + sums.n_rows[i];
        const double middle = sums.first[i] / (weight + sums.n_rows[i]);
        const double squares = sums.second[i] - sums.first[i] * middle;
        const double ratio = 1.0 + (squares > 0.0 ? squares : 0.0) * half;
        double x = sqrt(1.0 / ratio), found = exponent & 1 ? x : 1.0;
        x *= x;
        found *= exponent & 2 ? x : 1.0;
        x *= x;
        found *= exponent & 4 ? x : 1.0;
        x *= x;
        found *= exponent & 8 ? x : 1.0;
        x *= x;
        found *= exponent & 16 ? x : 1.0;
        out.mean[i] = middle;
        out.ratio[i] = ratio;
        out.power[i] = found;
    }
}

FASTENS_CHOOSE(
    spreads,
    (node_sums sums, double weight, double half, int32_t twice, node_spreads out, ptrdiff_t n),
    (sums, weight, half, twice, out, n))

#endif
