/* The loops of the losses that need exp, vectorised by the compiler.
 *
 * exp_of and log1p_of are written out, not taken from the C library: they vectorise, and they give the same result on
 * every machine, for every batch size and every width of vector (no fused multiply-add: see the build flags).
 * Each loop is compiled once plainly and, where the compiler knows how, once for AVX2; the first call chooses.
 */
#ifndef FASTENS_LOSS_LOOPS_H
#define FASTENS_LOSS_LOOPS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define LOSS_HAS_AVX2 1
#define LOSS_INLINE static inline __attribute__((always_inline))
#else
#define LOSS_HAS_AVX2 0
#define LOSS_INLINE static inline
#endif

/* exp(x) for x clamped to [-707, 707]; relative error below 1e-14.
 * x = k ln 2 + r with |r| <= ln(2)/2; adding 1.5 * 2^52 leaves k in the low bits of the sum. */
LOSS_INLINE double exp_of(double x)
{
    const double shift = 6755399441055744.0;
    x = x < -707.0 ? -707.0 : x;
    x = x > 707.0 ? 707.0 : x;
    double shifted = x * 1.4426950408889634 + shift;
    double k = shifted - shift;
    double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double p = 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    uint64_t exponent, bits;
    memcpy(&exponent, &shifted, 8);
    memcpy(&bits, &p, 8);
    bits += exponent << 52;
    memcpy(&p, &bits, 8);
    return p;
}

/* log(1 + e) for e in [0, 1]: 2 atanh(s) with s = e / (2 + e) <= 1/3; relative error below 1e-15. */
LOSS_INLINE double log1p_of(double e)
{
    double s = e / (2.0 + e), s2 = s * s;
    double p = 1.0 / 31.0;
    for (int odd = 29; odd > 0; odd -= 2)
        p = p * s2 + 1.0 / odd;
    return 2.0 * s * p;
}

/* P(class 1): with e = exp(-|raw|) neither tail loses digits. */
LOSS_INLINE void sigmoid_of(double raw, double* probability, double* other)
{
    double e = exp_of(raw < 0 ? raw : -raw);
    double large = 1.0 / (1.0 + e), small = e * large;
    *probability = raw < 0 ? small : large;
    *other = raw < 0 ? large : small;
}

/* Loops -------------------------------------------------- */

LOSS_INLINE void binary_gradients_loop(const double* y, const double* raw, ptrdiff_t n, float* g, float* h)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double p, q;
        sigmoid_of(raw[i], &p, &q);
        g[i] = (float)(p - y[i]);
        h[i] = (float)(p * q);
    }
}

/* out = log(1 + exp(raw)) - y raw */
LOSS_INLINE void binary_losses_loop(const double* y, const double* raw, ptrdiff_t n, double* out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double x = raw[i];
        double positive = x < 0 ? 0 : x;
        out[i] = positive - y[i] * x + log1p_of(exp_of(x < 0 ? x : -x));
    }
}

LOSS_INLINE void poisson_gradients_loop(const double* y, const double* raw, ptrdiff_t n, float* g, float* h)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double mean = exp_of(raw[i]);
        g[i] = (float)(mean - y[i]);
        h[i] = (float)mean;
    }
}

LOSS_INLINE void gamma_gradients_loop(const double* y, const double* raw, ptrdiff_t n, float* g, float* h)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double ratio = y[i] * exp_of(-raw[i]);
        g[i] = (float)(1.0 - ratio);
        h[i] = (float)ratio;
    }
}

/* out = exp(x - shift): the values of one class of a block of rows, or (shift = NULL) the inverse of the log link */
LOSS_INLINE void exp_values_loop(const double* x, const double* shift, ptrdiff_t n, double* out)
{
    if (shift)
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = exp_of(x[i] - shift[i]);
    else
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = exp_of(x[i]);
}

/* Choice by the machine -------------------------------------------------- */

#if LOSS_HAS_AVX2
#define LOSS_CHOOSE(name, parameters, arguments)                                                      \
    __attribute__((target("avx2"))) static void name##_avx2 parameters { name##_loop arguments; }     \
    static void name##_plain parameters { name##_loop arguments; }                                    \
    static inline void name parameters                                                                \
    {                                                                                                 \
        if (__builtin_cpu_supports("avx2"))                                                           \
            name##_avx2 arguments;                                                                    \
        else                                                                                          \
            name##_plain arguments;                                                                   \
    }
#else
#define LOSS_CHOOSE(name, parameters, arguments) \
    static inline void name parameters { name##_loop arguments; }
#endif

LOSS_CHOOSE(binary_gradients, (const double* y, const double* raw, ptrdiff_t n, float* g, float* h), (y, raw, n, g, h))
LOSS_CHOOSE(binary_losses, (const double* y, const double* raw, ptrdiff_t n, double* out), (y, raw, n, out))
LOSS_CHOOSE(poisson_gradients, (const double* y, const double* raw, ptrdiff_t n, float* g, float* h), (y, raw, n, g, h))
LOSS_CHOOSE(gamma_gradients, (const double* y, const double* raw, ptrdiff_t n, float* g, float* h), (y, raw, n, g, h))
LOSS_CHOOSE(exp_values, (const double* x, const double* shift, ptrdiff_t n, double* out), (x, shift, n, out))

#endif
