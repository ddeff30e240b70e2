/* Computes weights from their logarithms, vectorised by the compiler; see loss_loops.h for the exponential. */
#ifndef FASTENS_REWEIGHT_LOOPS_H
#define FASTENS_REWEIGHT_LOOPS_H

#include "engine/losses/loss_loops.h"

/* Computes exp(log - shift) * scale, rounded to the nearest integer. Results must be below 2^51: adding 1.5 * 2^52
 * leaves the integer in the low bits of the sum. */
FASTENS_INLINE void whole_exp_loop(const double* logs, double shift, double scale, ptrdiff_t n, int64_t* out)
{
    const double to_bits = 6755399441055744.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double rounded = exp_of(logs[i] - shift) * scale + to_bits;
        int64_t bits;
        memcpy(&bits, &rounded, 8);
        out[i] = bits - 0x4338000000000000LL;
    }
}

FASTENS_CHOOSE(whole_exp, (const double* logs, double shift, double scale, ptrdiff_t n, int64_t* out),
               (logs, shift, scale, n, out))

#endif
