/* Scores of all thresholds of a feature for two classes, vectorised by the compiler. */
#ifndef FASTENS_STUMP_LOOPS_H
#define FASTENS_STUMP_LOOPS_H

#include <math.h>
#include <stddef.h>

#include "engine/dispatch.h"

/* Gini: computes from both classes' weights on the left the sum over the sides of (a^2 + b^2) / (a + b), or
 * -infinity if a side is empty. The operations, and therefore the rounding, are identical to the loop for any number
 * of classes. */
FASTENS_INLINE void gini_scores_loop(const double* left_a, const double* left_b, double all_a, double all_b,
                                     ptrdiff_t n, double* out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double a = left_a[i], b = left_b[i];
        double right_a = all_a - a, right_b = all_b - b;
        double left = a + b, right = right_a + right_b;
        double score = ((a * a + b * b) * right + (right_a * right_a + right_b * right_b) * left) / (left * right);
        out[i] = left > 0 && right > 0 ? score : -INFINITY;
    }
}

FASTENS_CHOOSE(gini_scores,
               (const double* left_a, const double* left_b, double all_a, double all_b, ptrdiff_t n, double* out),
               (left_a, left_b, all_a, all_b, n, out))

#endif
