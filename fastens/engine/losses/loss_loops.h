/* Loops of the losses that need exp, vectorised by the compiler.
 *
 * exp_of and log1p_of are written out instead of calling the C library: they vectorise, and they are bit-identical
 * on every machine, for every batch size and vector width (without fused multiply-add: see the build flags). */
#ifndef FASTENS_LOSS_LOOPS_H
#define FASTENS_LOSS_LOOPS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"

/* Evaluates a0 + a1 x + a2 x^2 + a3 x^3. Polynomials are built from these to keep dependency chains short. */
FASTENS_INLINE double cubic_of(double x, double x2, double a0, double a1, double a2, double a3)
{
    return (a0 + a1 * x) + x2 * (a2 + a3 * x);
}

/* exp(x) for x clamped to [-707, 707]; relative error below 1e-14.
 * x = k ln 2 + r with |r| <= ln(2)/2; adding 1.5 * 2^52 leaves k in the low bits of the sum. */
FASTENS_INLINE double exp_of(double x)
{
    const double shift = 6755399441055744.0;
    x = x < -707.0 ? -707.0 : x;
    x = x > 707.0 ? 707.0 : x;
    double shifted = x * 1.4426950408889634 + shift;
    double k = shifted - shift;
    double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double r2 = r * r, r4 = r2 * r2;
    double p = cubic_of(r, r2, 1.0 / 40320.0, 1.0 / 362880.0, 1.0 / 3628800.0, 1.0 / 39916800.0);
    p = p * r4 + cubic_of(r, r2, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0);
    p = p * r4 + cubic_of(r, r2, 1.0, 1.0, 0.5, 1.0 / 6.0);
    uint64_t exponent, bits;
    memcpy(&exponent, &shifted, 8);
    memcpy(&bits, &p, 8);
    bits += exponent << 52;
    memcpy(&p, &bits, 8);
    return p;
}

/* log(1 + e) for e in [0, 1]: 2 atanh(s) with s = e / (2 + e) <= 1/3; relative error below 1e-15. */
FASTENS_INLINE double log1p_of(double e)
{
    double s = e / (2.0 + e), z = s * s, z2 = z * z, z4 = z2 * z2;
    double p = cubic_of(z, z2, 1.0 / 25.0, 1.0 / 27.0, 1.0 / 29.0, 1.0 / 31.0);
    p = p * z4 + cubic_of(z, z2, 1.0 / 17.0, 1.0 / 19.0, 1.0 / 21.0, 1.0 / 23.0);
    p = p * z4 + cubic_of(z, z2, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0, 1.0 / 15.0);
    p = p * z4 + cubic_of(z, z2, 1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0);
    return 2.0 * s * p;
}

/* log(x) for normal x > 0; relative error below 1e-15. x = 2^k m with m from sqrt(1/2) to sqrt(2). */
FASTENS_INLINE double log_of(double x)
{
    const uint64_t middle = 0x3fe6a09e667f3bcdULL, bias = 0x4000000000000000ULL, to_double = 0x4330000000000000ULL;
    uint64_t bits, exponent;
    double m, k;
    x = x < 2.2250738585072014e-308 ? 2.2250738585072014e-308 : x;
    memcpy(&bits, &x, 8);
    exponent = (bits - middle + bias) >> 52;
    bits -= (exponent << 52) - bias;
    memcpy(&m, &bits, 8);
    exponent |= to_double;
    memcpy(&k, &exponent, 8);
    k -= 4503599627370496.0 + 1024.0;
    double s = (m - 1.0) / (m + 1.0), z = s * s, z2 = z * z, z4 = z2 * z2;
    double p = cubic_of(z, z2, 1.0 / 17.0, 1.0 / 19.0, 1.0 / 21.0, 1.0 / 23.0);
    p = p * z4 + cubic_of(z, z2, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0, 1.0 / 15.0);
    p = p * z4 + cubic_of(z, z2, 1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0);
    return k * 6.93147180369123816490e-01 + (2.0 * s * p + k * 1.90821492927058770002e-10);
}

/* P(class 1). Using e = exp(-|raw|), neither tail loses precision. */
FASTENS_INLINE void sigmoid_of(double raw, double* probability, double* other)
{
    double e = exp_of(raw < 0 ? raw : -raw);
    double large = 1.0 / (1.0 + e), small = e * large;
    *probability = raw < 0 ? small : large;
    *other = raw < 0 ? large : small;
}

/* Loops -------------------------------------------------- */

/* Writes the probabilities of both classes. */
FASTENS_INLINE void probability_pairs_loop(const double* raw, ptrdiff_t n, double* out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        sigmoid_of(raw[i], &out[2 * i + 1], &out[2 * i]);
}

FASTENS_INLINE void binary_gradients_loop(const double* y, const double* raw, ptrdiff_t n, float* g, float* h)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double p, q;
        sigmoid_of(raw[i], &p, &q);
        g[i] = (float)(p - y[i]);
        h[i] = (float)(p * q);
    }
}

/* out = log(1 + exp(raw)) - y raw */
FASTENS_INLINE void binary_losses_loop(const double* y, const double* raw, ptrdiff_t n, double* out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double x = raw[i];
        double positive = x < 0 ? 0 : x;
        out[i] = positive - y[i] * x + log1p_of(exp_of(x < 0 ? x : -x));
    }
}

FASTENS_INLINE void poisson_gradients_loop(const double* y, const double* raw, ptrdiff_t n, float* g, float* h)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double mean = exp_of(raw[i]);
        g[i] = (float)(mean - y[i]);
        h[i] = (float)mean;
    }
}

FASTENS_INLINE void gamma_gradients_loop(const double* y, const double* raw, ptrdiff_t n, float* g, float* h)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double ratio = y[i] * exp_of(-raw[i]);
        g[i] = (float)(1.0 - ratio);
        h[i] = (float)ratio;
    }
}

/* out = exp(x), the inverse of the log link */
FASTENS_INLINE void exp_values_loop(const double* x, ptrdiff_t n, double* out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = exp_of(x[i]);
}

/* Rows of a block in multiclass losses: sums over the classes live on the stack. */
enum { CLASS_BLOCK = 128 };

/* Maximum over the classes of raw predictions, which are `stride` apart from class to class. */
FASTENS_INLINE void largest_over_classes(const double* raw, ptrdiff_t stride, ptrdiff_t n_classes, ptrdiff_t n, double* largest)
{
    for (ptrdiff_t i = 0; i < n; i++)
        largest[i] = raw[i];
    for (ptrdiff_t k = 1; k < n_classes; k++)
        for (ptrdiff_t i = 0; i < n; i++)
            largest[i] = raw[k * stride + i] > largest[i] ? raw[k * stride + i] : largest[i];
}

/* Every class has its own trees, although only differences of raw predictions matter: the step along one class is (K
 * - 1) / K of the Newton step from its own second derivative (Friedman 2001, equation 34). h holds exp(raw -
 * largest) until the sum over the classes is available. */
FASTENS_INLINE void softmax_gradients_loop(
    const double* y, const double* raw, ptrdiff_t stride, ptrdiff_t n_classes, ptrdiff_t n, float* g, float* h)
{
    const double coupling = (double)n_classes / ((double)n_classes - 1.0);
    double largest[CLASS_BLOCK], total[CLASS_BLOCK];
    largest_over_classes(raw, stride, n_classes, n, largest);
    for (ptrdiff_t i = 0; i < n; i++)
        total[i] = 0;
    for (ptrdiff_t k = 0; k < n_classes; k++)
        for (ptrdiff_t i = 0; i < n; i++) {
            double value = exp_of(raw[k * stride + i] - largest[i]);
            total[i] += value;
            h[k * stride + i] = (float)value;
        }
    for (ptrdiff_t i = 0; i < n; i++)
        total[i] = 1.0 / total[i];
    for (ptrdiff_t k = 0; k < n_classes; k++)
        for (ptrdiff_t i = 0; i < n; i++) {
            double p = h[k * stride + i] * total[i];
            g[k * stride + i] = (float)(p - (y[i] == (double)k ? 1.0 : 0.0));
            h[k * stride + i] = (float)(coupling * p * (1.0 - p));
        }
}

/* out = log(sum of exp(raw)) - raw of the row's class */
FASTENS_INLINE void softmax_losses_loop(
    const double* y, const double* raw, ptrdiff_t stride, ptrdiff_t n_classes, ptrdiff_t n, double* out)
{
    double largest[CLASS_BLOCK];
    largest_over_classes(raw, stride, n_classes, n, largest);
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = 0;
    for (ptrdiff_t k = 0; k < n_classes; k++)
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] += exp_of(raw[k * stride + i] - largest[i]);
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = log_of(out[i]) + largest[i];
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] -= raw[(ptrdiff_t)y[i] * stride + i];
}

/* Largest absolute value, as its bits: bit patterns have the order of the numbers, with NaN above all. */
FASTENS_INLINE void largest_bits_loop(const double* values, ptrdiff_t n, int64_t* result)
{
    int64_t largest = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        int64_t bits;
        memcpy(&bits, values + i, 8);
        bits &= INT64_MAX;
        largest = bits > largest ? bits : largest;
    }
    *result = largest;
}

/* Dispatch by instruction set -------------------------------------------------- */

FASTENS_CHOOSE(probability_pairs, (const double* raw, ptrdiff_t n, double* out), (raw, n, out))
FASTENS_CHOOSE(binary_gradients, (const double* y, const double* raw, ptrdiff_t n, float* g, float* h), (y, raw, n, g, h))
FASTENS_CHOOSE(binary_losses, (const double* y, const double* raw, ptrdiff_t n, double* out), (y, raw, n, out))
FASTENS_CHOOSE(poisson_gradients, (const double* y, const double* raw, ptrdiff_t n, float* g, float* h), (y, raw, n, g, h))
FASTENS_CHOOSE(gamma_gradients, (const double* y, const double* raw, ptrdiff_t n, float* g, float* h), (y, raw, n, g, h))
FASTENS_CHOOSE(largest_bits, (const double* values, ptrdiff_t n, int64_t* result), (values, n, result))
FASTENS_CHOOSE(exp_values, (const double* x, ptrdiff_t n, double* out), (x, n, out))
FASTENS_CHOOSE(softmax_gradients,
    (const double* y, const double* raw, ptrdiff_t stride, ptrdiff_t n_classes, ptrdiff_t n, float* g, float* h),
    (y, raw, stride, n_classes, n, g, h))
FASTENS_CHOOSE(softmax_losses,
    (const double* y, const double* raw, ptrdiff_t stride, ptrdiff_t n_classes, ptrdiff_t n, double* out),
    (y, raw, stride, n_classes, n, out))

#endif
