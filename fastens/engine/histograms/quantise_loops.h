/* Quantisation of unweighted gradients and hessians, vectorised by the compiler. */
#ifndef FASTENS_QUANTISE_LOOPS_H
#define FASTENS_QUANTISE_LOOPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"

/* The bits of a float: non-negative floats sort like their bits, and non-finite ones have the largest. */
FASTENS_INLINE int32_t bits_of(float value)
{
    int32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

/* largest: bits of the largest |gradient| and hessian (at least 0), and of the largest magnitude overall, to detect
 * non-finite values */
FASTENS_INLINE void largest_bits_loop(const float* gradients, const float* hessians, ptrdiff_t n, int32_t* largest)
{
    int32_t gradient = 0, hessian = 0, any = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        int32_t g = bits_of(gradients[i]) & 0x7FFFFFFF, h = bits_of(hessians[i]), size = h & 0x7FFFFFFF;
        gradient = g > gradient ? g : gradient;
        hessian = h > hessian ? h : hessian;
        any = size > any ? size : any;
    }
    largest[0] = gradient;
    largest[1] = hessian;
    largest[2] = any > gradient ? any : gradient;
}

/* rounded: integer gradients and hessians (at least 1); sums: sums of |gradient| and of hessian */
FASTENS_INLINE void round_rows_loop(const float* gradients, const float* hessians, ptrdiff_t n, double gradient_scale,
                                    double hessian_scale, int32_t* rounded_gradients, int32_t* rounded_hessians,
                                    int64_t* sums)
{
    int64_t gradient_sum = 0, hessian_sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        int32_t g = (int32_t)rint(gradients[i] * gradient_scale);
        int32_t h = (int32_t)rint(hessians[i] * hessian_scale);
        h = h > 1 ? h : 1;
        rounded_gradients[i] = g;
        rounded_hessians[i] = h;
        gradient_sum += g > 0 ? g : -g;
        hessian_sum += h;
    }
    sums[0] = gradient_sum;
    sums[1] = hessian_sum;
}

FASTENS_CHOOSE(largest_bits, (const float* gradients, const float* hessians, ptrdiff_t n, int32_t* largest),
               (gradients, hessians, n, largest))
FASTENS_CHOOSE(round_rows,
               (const float* gradients, const float* hessians, ptrdiff_t n, double gradient_scale,
                double hessian_scale, int32_t* rounded_gradients, int32_t* rounded_hessians, int64_t* sums),
               (gradients, hessians, n, gradient_scale, hessian_scale, rounded_gradients, rounded_hessians, sums))

#endif
