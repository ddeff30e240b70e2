/* exp and log, accurate to about one unit in the last place and bit-identical on every machine and for every vector
 * width.
 *
 * NumPy and the C library use different code paths on different processors. Losses have shorter versions
 * (losses/loss_loops.h). */
#ifndef FASTENS_ELEMENTARY_H
#define FASTENS_ELEMENTARY_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"

#define FASTENS_LN2_HIGH 6.93147180369123816490e-01 /* few bits, so that integer multiples are exact */
#define FASTENS_LN2_LOW 1.90821492927058770002e-10

/* 2^k for integer k from -1022 to 1023. */
FASTENS_INLINE double power_of_2(double k)
{
    double shifted = k + (6755399441055744.0 + 1023.0);
    uint64_t bits;
    memcpy(&bits, &shifted, 8);
    bits <<= 52;
    memcpy(&shifted, &bits, 8);
    return shifted;
}

/* x = k ln 2 + r with |r| <= ln(2) / 2. The rounding error of r is added where it still matters. */
FASTENS_INLINE double exact_exp(double x)
{
    const double shift = 6755399441055744.0;
    double k, half, high, low, r, lost, q;
    x = x < -746.0 ? -746.0 : x;
    x = x > 710.0 ? 710.0 : x;
    k = (x * 1.4426950408889634 + shift) - shift;
    high = x - k * FASTENS_LN2_HIGH;
    low = k * FASTENS_LN2_LOW;
    r = high - low;
    lost = (high - r) - low;
    q = 1.0 / 6227020800.0;
    q = ((q * r + 1.0 / 479001600.0) * r + 1.0 / 39916800.0) * r + 1.0 / 3628800.0;
    q = ((q * r + 1.0 / 362880.0) * r + 1.0 / 40320.0) * r + 1.0 / 5040.0;
    q = ((q * r + 1.0 / 720.0) * r + 1.0 / 120.0) * r + 1.0 / 24.0;
    q = (q * r + 1.0 / 6.0) * r + 0.5;
    half = (k * 0.5 + shift) - shift;
    return (1.0 + (r + (lost + r * r * q))) * power_of_2(half) * power_of_2(k - half);
}

/* Splits x into 2^k m, with m from sqrt(1/2) to sqrt(2). */
FASTENS_INLINE double exponent_and_rest(double x, double* rest)
{
    const uint64_t middle = 0x3fe6a09e667f3bcdULL, bias = 0x4000000000000000ULL, to_double = 0x4330000000000000ULL;
    int is_tiny = x < 2.2250738585072014e-308;
    double scaled = is_tiny ? x * 18014398509481984.0 : x, k;
    uint64_t bits, exponent;
    memcpy(&bits, &scaled, 8);
    exponent = (bits - middle + bias) >> 52;
    bits -= (exponent << 52) - bias;
    memcpy(rest, &bits, 8);
    exponent |= to_double;
    memcpy(&k, &exponent, 8);
    return k - ((4503599627370496.0 + 1024.0) + (is_tiny ? 54.0 : 0.0));
}

/* log(m) = 2 atanh(s) = f - f^2 / 2 + s (f^2 / 2 + R) with f = m - 1. */
FASTENS_INLINE double exact_log(double x)
{
    double m, k = exponent_and_rest(x, &m), f = m - 1.0, s, z, R, square, out;
    s = f / (2.0 + f);
    z = s * s;
    R = 2.0 / 23.0;
    R = ((R * z + 2.0 / 21.0) * z + 2.0 / 19.0) * z + 2.0 / 17.0;
    R = ((R * z + 2.0 / 15.0) * z + 2.0 / 13.0) * z + 2.0 / 11.0;
    R = ((R * z + 2.0 / 9.0) * z + 2.0 / 7.0) * z + 2.0 / 5.0;
    R = R * z + 2.0 / 3.0;
    R = R * z;
    square = 0.5 * f * f;
    out = k * FASTENS_LN2_HIGH - ((square - (s * (square + R) + k * FASTENS_LN2_LOW)) - f);
    out = x == 0.0 ? -INFINITY : out;
    out = x < 0.0 ? NAN : out;
    return x < INFINITY ? out : x;
}

/* The rounding error of 1 + x is added back (Goldberg 1991, theorem 4, in another form). */
FASTENS_INLINE double exact_log1p(double x)
{
    double sum = 1.0 + x, lost = (x - (sum - 1.0)) / sum, out = exact_log(sum);
    return sum > 0.0 && sum < INFINITY ? out + lost : out;
}

/* Returns exact integers for powers of 2. */
FASTENS_INLINE double exact_log2(double x)
{
    double m, k = exponent_and_rest(x, &m);
    return x > 0.0 && x < INFINITY ? k + exact_log(m) * 1.4426950408889634 : exact_log(x);
}

/* Remainder of Stirling's formula for log(gamma(x)), x >= STIRLING_FROM: a series whose next term is below 1e-17. */
enum { STIRLING_FROM = 8, EXACT_FACTORIALS = 19 };

#define FASTENS_HALF_LOG_2PI 0.91893853320467274178

FASTENS_INLINE double rest_of_stirling(double x)
{
    double z = 1.0 / (x * x), series = 43867.0 / 244188.0;
    series = ((series * z - 3617.0 / 122400.0) * z + 1.0 / 156.0) * z - 691.0 / 360360.0;
    series = ((series * z + 1.0 / 1188.0) * z - 1.0 / 1680.0) * z + 1.0 / 1260.0;
    series = (series * z - 1.0 / 360.0) * z + 1.0 / 12.0;
    return series / x;
}

/* log(gamma(x)) for x > 0, with an error of about 1e-14 where the result is small. Smaller x are shifted up to
 * STIRLING_FROM, and the product of the shifted values is divided out. Small integers use exact factorials. */
FASTENS_INLINE double exact_lgamma(double x)
{
    double steps = 1.0;
    int is_whole = x <= EXACT_FACTORIALS && x == floor(x);
    if (!(x > 0.0) || x == INFINITY)
        return x <= 0.0 ? INFINITY : x;
    for (double k = 2.0; is_whole && k < x; k += 1.0)
        steps *= k;
    if (is_whole)
        return exact_log(steps);
    for (; x < STIRLING_FROM; x += 1.0)
        steps *= x;
    return (x - 0.5) * exact_log(x) - x + (FASTENS_HALF_LOG_2PI + rest_of_stirling(x)) - exact_log(steps);
}

/* Derivative of log(gamma(x)) for x > 0: the asymptotic series, after the same shift as above. */
FASTENS_INLINE double exact_digamma(double x)
{
    double steps = 0.0, z, series;
    if (!(x > 0.0))
        return NAN;
    for (; x < STIRLING_FROM; x += 1.0)
        steps += 1.0 / x;
    z = 1.0 / (x * x);
    series = 3617.0 / 8160.0;
    series = ((series * z - 1.0 / 12.0) * z + 691.0 / 32760.0) * z - 1.0 / 132.0;
    series = ((series * z + 1.0 / 240.0) * z - 1.0 / 252.0) * z + 1.0 / 120.0;
    series = series * z - 1.0 / 12.0;
    return (exact_log(x) - 0.5 / x) + series * z - steps;
}

/* Second derivative of log(gamma(x)) for x > 0. */
FASTENS_INLINE double exact_trigamma(double x)
{
    double steps = 0.0, z, series;
    if (!(x > 0.0))
        return NAN;
    for (; x < STIRLING_FROM; x += 1.0)
        steps += 1.0 / (x * x);
    z = 1.0 / (x * x);
    series = -3617.0 / 510.0;
    series = ((series * z + 7.0 / 6.0) * z - 691.0 / 2730.0) * z + 5.0 / 66.0;
    series = ((series * z - 1.0 / 30.0) * z + 1.0 / 42.0) * z - 1.0 / 30.0;
    series = series * z + 1.0 / 6.0;
    return (1.0 + (0.5 + series / x) / x) / x + steps;
}

/* log(gamma(a) gamma(b) / gamma(a + b)). For large arguments, the terms of Stirling's formula that cancel are left
 * out (DiDonato and Morris 1992, Algorithm 708): near 1e17 they would leave no correct digit. */
FASTENS_INLINE double exact_lbeta(double a, double b)
{
    double small = a < b ? a : b, large = a < b ? b : a, ratio = small / large, step = exact_log1p(ratio), out;
    if (large < STIRLING_FROM)
        return exact_lgamma(small) + exact_lgamma(large) - exact_lgamma(small + large);
    out = rest_of_stirling(large) - rest_of_stirling(small + large) + 0.5 * step - large * ((1.0 + ratio) * step);
    if (small < STIRLING_FROM)
        return out + exact_lgamma(small) - small * (exact_log(large) - 1.0);
    return out + rest_of_stirling(small) + FASTENS_HALF_LOG_2PI - 0.5 * exact_log(large)
        + (small - 0.5) * exact_log(ratio);
}

/* Applies a function to every element of an array. */
#define FASTENS_OF_ARRAY(name, function)                                       \
    FASTENS_INLINE void name##_loop(const double* x, ptrdiff_t n, double* out) \
    {                                                                          \
        for (ptrdiff_t i = 0; i < n; i++)                                      \
            out[i] = function(x[i]);                                           \
    }                                                                          \
    FASTENS_CHOOSE(name, (const double* x, ptrdiff_t n, double* out), (x, n, out))

FASTENS_OF_ARRAY(exps, exact_exp)
FASTENS_OF_ARRAY(logs, exact_log)
FASTENS_OF_ARRAY(log1ps, exact_log1p)
FASTENS_OF_ARRAY(log2s, exact_log2)
FASTENS_OF_ARRAY(lgammas, exact_lgamma)
FASTENS_OF_ARRAY(digammas, exact_digamma)
FASTENS_OF_ARRAY(trigammas, exact_trigamma)

FASTENS_INLINE void lbetas_loop(const double* a, const double* b, ptrdiff_t n, double* out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = exact_lbeta(a[i], b[i]);
}

FASTENS_CHOOSE(lbetas, (const double* a, const double* b, ptrdiff_t n, double* out), (a, b, n, out))

#endif
