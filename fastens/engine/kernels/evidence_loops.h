/* What a node's sums say under a normal-inverse-gamma prior, vectorised by the compiler; see averages.pyx. */
#ifndef FASTENS_EVIDENCE_LOOPS_H
#define FASTENS_EVIDENCE_LOOPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "dispatch.h"

/* How many of the lowest bits of an exponent `spreads` sees to; nearly all have no others. */
#define EXPONENT_BITS 5

/* For each node, of its number of rows and its sums of z and z^2: the mean; how many times the rate is that of the
 * prior; and this to the power of minus half of the lowest bits of twice + n_rows. */
FASTENS_INLINE void spreads_loop(
    const int32_t* n_rows, const double* first, const double* second, double weight, double half, int32_t twice,
    double* mean, double* spread, double* power, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const int32_t exponent = twice + n_rows[i];
        const double middle = first[i] / (weight + n_rows[i]);
        const double squares = second[i] - first[i] * middle;
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
        mean[i] = middle;
        spread[i] = ratio;
        power[i] = found;
    }
}

FASTENS_CHOOSE(
    spreads,
    (const int32_t* n_rows, const double* first, const double* second, double weight, double half, int32_t twice,
     double* mean, double* spread, double* power, ptrdiff_t n),
    (n_rows, first, second, weight, half, twice, mean, spread, power, n))

#endif
