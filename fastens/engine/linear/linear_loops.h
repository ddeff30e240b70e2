/* Loops over gathered rows for normal_equations.pyx. Rounded products have exact sums, so results do not depend on
 * lanes or on the version of a loop. */
#ifndef FASTENS_LINEAR_LOOPS_H
#define FASTENS_LINEAR_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/dispatch.h"

/* The first k columns of n rows; columns are `pitch` numbers apart. */
typedef struct {
    const double* columns;
    ptrdiff_t pitch, k, n;
} LinearRows;

#define LINEAR_BLOCK 128
#define LINEAR_LANES 8

/* Adding and subtracting `rounder` rounds to a multiple of a power of two. */
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

/* Extends the ranges of k columns by n rows. */
FASTENS_INLINE void widen_ranges_loop(const LinearRows* rows, double* lower, double* upper)
{
    const double* columns = rows->columns;
    const ptrdiff_t n = rows->n, k = rows->k, pitch = rows->pitch;
    for (ptrdiff_t j = 0; j < k; ++j, columns += pitch) {
        double low[LINEAR_LANES], high[LINEAR_LANES];
        ptrdiff_t i = 0;
        for (ptrdiff_t lane = 0; lane < LINEAR_LANES; ++lane) {
            low[lane] = lower[j];
            high[lane] = upper[j];
        }
        for (; i + LINEAR_LANES <= n; i += LINEAR_LANES)
            for (ptrdiff_t lane = 0; lane < LINEAR_LANES; ++lane) {
                low[lane] = columns[i + lane] < low[lane] ? columns[i + lane] : low[lane];
                high[lane] = columns[i + lane] > high[lane] ? columns[i + lane] : high[lane];
            }
        for (; i < n; ++i) {
            low[0] = columns[i] < low[0] ? columns[i] : low[0];
            high[0] = columns[i] > high[0] ? columns[i] : high[0];
        }
        for (ptrdiff_t lane = 0; lane < LINEAR_LANES; ++lane) {
            lower[j] = low[lane] < lower[j] ? low[lane] : lower[j];
            upper[j] = high[lane] > upper[j] ? high[lane] : upper[j];
        }
    }
}

/* Marks which of n rows, at most a block, have a non-finite value in k columns; `any` is set if there is one. */
FASTENS_INLINE void find_incomplete_loop(const LinearRows* rows, uint8_t* incomplete, int* any)
{
    const double* columns = rows->columns;
    const ptrdiff_t n = rows->n, k = rows->k, pitch = rows->pitch;
    double differences[LINEAR_BLOCK] = {0};
    for (ptrdiff_t j = 0; j < k; ++j, columns += pitch)
        for (ptrdiff_t i = 0; i < n; ++i)
            differences[i] += columns[i] - columns[i];
    *any = 0;
    for (ptrdiff_t i = 0; i < n; ++i) {
        incomplete[i] = differences[i] != 0;
        *any |= incomplete[i];
    }
}

/* Adds n rows, at most a block, to the sums of g z (k + 1) and of h z z ((k + 1) x (k + 1), lower triangle), where z
 * is (value - middle) / half, and the last z is 1. The buffer z has space for k + 1 blocks. */
FASTENS_INLINE void add_products_loop(const LinearRows* rows, const double* middle, const double* per_half,
                                      double of_gradient, double of_hessian, double* z, double* moments,
                                      double* products)
{
    const double* columns = rows->columns;
    const ptrdiff_t n = rows->n, k = rows->k, pitch = rows->pitch;
    const double *gradients = columns + k * pitch, *hessians = gradients + pitch, *copies = hessians + pitch;
    double parts[LINEAR_BLOCK];
    for (ptrdiff_t j = 0; j <= k; ++j) {
        double* last = z + j * LINEAR_BLOCK;
        for (ptrdiff_t i = 0; i < n; ++i) {
            last[i] = j < k ? (columns[j * pitch + i] - middle[j]) * per_half[j] : 1.0;
            parts[i] = hessians[i] * last[i];
        }
        moments[j] += rounded_sum(gradients, last, copies, n, of_gradient);
        for (ptrdiff_t m = 0; m <= j; ++m)
            products[j * (k + 1) + m] += rounded_sum(parts, z + m * LINEAR_BLOCK, copies, n, of_hessian);
    }
}

/* Linear predictions for n rows within the model's range. */
FASTENS_INLINE void predict_lines_loop(const LinearRows* rows, double intercept, const double* slopes, double* fitted)
{
    const double* columns = rows->columns;
    const ptrdiff_t n = rows->n, k = rows->k, pitch = rows->pitch;
    for (ptrdiff_t i = 0; i < n; ++i)
        fitted[i] = intercept;
    for (ptrdiff_t j = 0; j < k; ++j, columns += pitch)
        for (ptrdiff_t i = 0; i < n; ++i)
            fitted[i] += slopes[j] * columns[i];
}

FASTENS_CHOOSE(widen_ranges, (const LinearRows* rows, double* lower, double* upper), (rows, lower, upper))
FASTENS_CHOOSE(find_incomplete, (const LinearRows* rows, uint8_t* incomplete, int* any), (rows, incomplete, any))
FASTENS_CHOOSE(add_products,
               (const LinearRows* rows, const double* middle, const double* per_half, double of_gradient,
                double of_hessian, double* z, double* moments, double* products),
               (rows, middle, per_half, of_gradient, of_hessian, z, moments, products))
FASTENS_CHOOSE(predict_lines, (const LinearRows* rows, double intercept, const double* slopes, double* fitted),
               (rows, intercept, slopes, fitted))

#endif
