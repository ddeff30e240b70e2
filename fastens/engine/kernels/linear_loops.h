/* Ranges and sums over blocks of rows for linear_leaves.pyx. Numbers of a block stand feature by feature, LINEAR_BLOCK
 * apart. Rounded products have exact sums: lanes, and the choice of a loop, do not change them. */
#ifndef FASTENS_LINEAR_LOOPS_H
#define FASTENS_LINEAR_LOOPS_H

#include <stddef.h>

#include "dispatch.h"

#define LINEAR_BLOCK 128
#define LINEAR_LANES 8

/* Adding and taking away `rounder` rounds to a multiple of a power of two. */
FASTENS_INLINE double rounded_sum(
    const double* a, const double* b, const double* copies, ptrdiff_t n, double rounder)
{
    double lanes[LINEAR_LANES] = {0}, sum = 0;
    ptrdiff_t i = 0;
    for (; i + LINEAR_LANES <= n; i += LINEAR_LANES)
        for (ptrdiff_t lane = 0; lane < LINEAR_LANES; ++lane)
            lanes[lane] += copies[i + lane] * ((a[i + lane] * b[i + lane] + rounder) - rounder);
    for (; i < n; ++i)
        sum += copies[i] * ((a[i] * b[i] + rounder) - rounder);
    for (ptrdiff_t lane = 0; lane < LINEAR_LANES; ++lane)
        sum += lanes[lane];
    return sum;
}

/* Widen the ranges of k features by the values of n rows. */
FASTENS_INLINE void widen_ranges_loop(const double* values, ptrdiff_t k, ptrdiff_t n, double* lower, double* upper)
{
    for (ptrdiff_t j = 0; j < k; ++j, values += LINEAR_BLOCK) {
        double low[LINEAR_LANES], high[LINEAR_LANES];
        ptrdiff_t i = 0;
        for (ptrdiff_t lane = 0; lane < LINEAR_LANES; ++lane) {
            low[lane] = lower[j];
            high[lane] = upper[j];
        }
        for (; i + LINEAR_LANES <= n; i += LINEAR_LANES)
            for (ptrdiff_t lane = 0; lane < LINEAR_LANES; ++lane) {
                low[lane] = values[i + lane] < low[lane] ? values[i + lane] : low[lane];
                high[lane] = values[i + lane] > high[lane] ? values[i + lane] : high[lane];
            }
        for (; i < n; ++i) {
            low[0] = values[i] < low[0] ? values[i] : low[0];
            high[0] = values[i] > high[0] ? values[i] : high[0];
        }
        for (ptrdiff_t lane = 0; lane < LINEAR_LANES; ++lane) {
            lower[j] = low[lane] < lower[j] ? low[lane] : lower[j];
            upper[j] = high[lane] > upper[j] ? high[lane] : upper[j];
        }
    }
}

/* Add to the sums of h z (k), g z (k) and h z z (k x k, below the diagonal), z being (value - middle) / half. */
FASTENS_INLINE void add_products_loop(
    double* values, const double* gradients, const double* hessians, const double* copies, ptrdiff_t k, ptrdiff_t n,
    const double* middle, const double* half, double of_gradient, double of_hessian, double* sums, double* moments,
    double* products)
{
    double parts[LINEAR_BLOCK];
    for (ptrdiff_t j = 0; j < k; ++j) {
        double* z = values + j * LINEAR_BLOCK;
        for (ptrdiff_t i = 0; i < n; ++i) {
            z[i] = (z[i] - middle[j]) / half[j];
            parts[i] = hessians[i] * z[i];
        }
        sums[j] += rounded_sum(hessians, z, copies, n, of_hessian);
        moments[j] += rounded_sum(gradients, z, copies, n, of_gradient);
        for (ptrdiff_t m = 0; m <= j; ++m)
            products[j * k + m] += rounded_sum(parts, values + m * LINEAR_BLOCK, copies, n, of_hessian);
    }
}

FASTENS_CHOOSE(widen_ranges, (const double* values, ptrdiff_t k, ptrdiff_t n, double* lower, double* upper),
    (values, k, n, lower, upper))
FASTENS_CHOOSE(add_products,
    (double* values, const double* gradients, const double* hessians, const double* copies, ptrdiff_t k, ptrdiff_t n,
        const double* middle, const double* half, double of_gradient, double of_hessian, double* sums,
        double* moments, double* products),
    (values, gradients, hessians, copies, k, n, middle, half, of_gradient, of_hessian, sums, moments, products))

#endif
