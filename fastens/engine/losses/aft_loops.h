/* Losses of accelerated failure time models and their derivatives, vectorised by the compiler; see loss_loops.h.
 *
 * The time of a row has a lower and an upper bound. Standardised as (log(bound) - raw) / scale, they are `low` and
 * `high`. Derivatives are taken with respect to -z, a common shift of both bounds. An open bound is AFT_OPEN away
 * from 0, where densities are effectively 0. */
#ifndef FASTENS_AFT_LOOPS_H
#define FASTENS_AFT_LOOPS_H

#include "engine/losses/loss_loops.h"

#define AFT_OPEN 800.0
#define AFT_FARTHEST 30.0        /* standardised; more distant rows would dominate the fit */
/* minimum width between normal bounds: narrower intervals lose too many digits to cancellation */
#define AFT_NARROW 1e-5
#define AFT_SMALLEST_WIDTH 1e-15 /* width used for bounds whose logarithms are equal */
#define AFT_SERIES 0.35          /* below this, a series is used instead of a difference */
#define SQRT_2_PI 2.5066282746310002
#define LOG_SQRT_2_PI 0.91893853320467274

typedef struct {
    double loss, first, second;
} aft_terms;

/* Functions -------------------------------------------------- */

/* (1 - exp(-x)) / x for x from 0 to AFT_SERIES */
FASTENS_INLINE double decay_series(double x)
{
    double x2 = x * x, x4 = x2 * x2;
    double p = cubic_of(x, x2, 1.0 / 362880.0, -1.0 / 3628800.0, 1.0 / 39916800.0, -1.0 / 479001600.0);
    p = p * x4 + cubic_of(x, x2, 1.0 / 120.0, -1.0 / 720.0, 1.0 / 5040.0, -1.0 / 40320.0);
    return p * x4 + cubic_of(x, x2, 1.0, -1.0 / 2.0, 1.0 / 6.0, -1.0 / 24.0);
}

/* 1 - exp(-x) for x >= 0 */
FASTENS_INLINE double decayed(double x)
{
    double series = x * decay_series(x), difference = 1.0 - exp_of(-x);
    return x < AFT_SERIES ? series : difference;
}

/* log(1 + exp(x)) */
FASTENS_INLINE double softplus(double x)
{
    return (x < 0 ? 0 : x) + log1p_of(exp_of(x < 0 ? x : -x));
}

/* Mills ratio of the normal distribution, P(> x) / density(x), for x from 0 to AFT_FARTHEST; relative error below
 * 1e-14. Multiplied by (1 + x), it is a polynomial of t = (x - 4) / (x + 4), fitted at Chebyshev points (Shepherd &
 * Laframboise 1981). */
FASTENS_INLINE double mills_ratio(double x)
{
    double t = (x - 4.0) / (x + 4.0), t2 = t * t, t4 = t2 * t2;
    double p = cubic_of(t, t2, 1.2823939927840645e-06, 4.873065848366526e-08, -1.782865919865508e-07,
                        -4.427313066769659e-08);
    p = p * t4 + cubic_of(t, t2, 3.414139882818403e-05, -8.54701443442483e-06, -6.494832837932241e-06,
                          9.382477699445502e-07);
    p = p * t4 + cubic_of(t, t2, 0.0017418487340689793, -0.0002366957280319032, -0.00022021306938728932,
                          5.324248563318583e-05);
    p = p * t4 + cubic_of(t, t2, -0.080708009675664, 0.04495912914505775, -0.012539103653284327,
                          -0.0007159517746792387);
    p = p * t4 + cubic_of(t, t2, 1.183261914567804, -0.24239967052178332, 0.03509188023465194, 0.07169048119902025);
    return p / (1.0 + x);
}

/* Events (width 0) and right-censored rows -------------------------------------------------- */

FASTENS_INLINE aft_terms normal_at(double low, double high, double width)
{
    (void)high;
    double distance = low < 0 ? -low : low, half_square = 0.5 * low * low, ratio = mills_ratio(distance);
    double density = exp_of(-half_square) * (1.0 / SQRT_2_PI), below = density * ratio, above = 1.0 - below;
    double hazard = low < 0 ? density / above : 1.0 / ratio;
    double near_loss = log1p_of(below / above), far_loss = half_square + LOG_SQRT_2_PI - log_of(ratio);
    aft_terms event = {half_square + LOG_SQRT_2_PI, -low, 1.0};
    aft_terms censored = {low < 0 ? near_loss : far_loss, -hazard, hazard * (hazard - low)};
    return width == 0 ? event : censored;
}

FASTENS_INLINE aft_terms logistic_at(double low, double high, double width)
{
    (void)high;
    double below, above, loss = softplus(low);
    sigmoid_of(low, &below, &above);
    aft_terms event = {2.0 * loss - low, above - below, 2.0 * below * above}, censored = {loss, -below, below * above};
    return width == 0 ? event : censored;
}

FASTENS_INLINE aft_terms extreme_at(double low, double high, double width)
{
    (void)high;
    double hazard = exp_of(low);
    aft_terms event = {hazard - low, 1.0 - hazard, hazard}, censored = {hazard, -hazard, hazard};
    return width == 0 ? event : censored;
}

/* Interval-censored and left-censored rows -------------------------------------------------- */

FASTENS_INLINE aft_terms normal_between(double low, double high, double width)
{
    /* The interval is mirrored if that moves it into the right tail. The mass is relative to the density at its near
     * end. */
    double sign = low + high < 0 ? -1.0 : 1.0;
    double nearer = low + high < 0 ? -high : low, farther = low + high < 0 ? -low : high;
    double gap = farther - nearer, middle = 0.5 * (nearer + farther), half_square = 0.5 * nearer * nearer;
    double ratio = exp_of(-gap * middle);
    double rest = mills_ratio(nearer < 0 ? -nearer : nearer), cut = ratio * mills_ratio(farther);
    double mass = nearer < 0 ? exp_of(half_square) * SQRT_2_PI - rest - cut : rest - cut;
    double inverse = 1.0 / mass, first = -decayed(gap * middle) * inverse;
    aft_terms point = {0.5 * middle * middle + LOG_SQRT_2_PI - log_of(width), -sign * middle, 1.0};
    aft_terms interval = {half_square + LOG_SQRT_2_PI - log_of(mass), sign * first,
                          first * (first + nearer) + ratio * gap * inverse};
    return gap < AFT_NARROW ? point : interval;
}

/* P(between) = P(> low) P(< high) (1 - exp(-width)) */
FASTENS_INLINE aft_terms logistic_between(double low, double high, double width)
{
    double below_low, above_low, below_high, above_high;
    sigmoid_of(low, &below_low, &above_low);
    sigmoid_of(high, &below_high, &above_high);
    aft_terms found = {softplus(low) + softplus(-high) - log_of(decayed(width)), above_high - below_low,
                       below_low * above_low + below_high * above_high};
    return found;
}

/* P(between) = P(> low) (1 - exp(-d)) with d = exp(high) - exp(low); d / (exp(d) - 1) comes from the second factor. */
FASTENS_INLINE aft_terms extreme_between(double low, double high, double width)
{
    double hazard = exp_of(low), d = exp_of(high) * decayed(width), d2 = d * d, left = exp_of(-d);
    double slope = left / (d < AFT_SERIES ? decay_series(d) : (1.0 - left) / d);
    double series = d * (0.5 + d * cubic_of(d2, d2 * d2, 1.0 / 12.0, -1.0 / 720.0, 1.0 / 30240.0, -1.0 / 1209600.0));
    double bend = slope * (d < AFT_SERIES ? series : slope - 1.0 + d);
    aft_terms found = {hazard - log_of(decayed(d)), slope - hazard, hazard + bend};
    return found;
}

/* Loops -------------------------------------------------- */

FASTENS_INLINE double standardised(double bound, double log_bound, double raw, double scale)
{
    double z = (log_bound - raw) / scale;
    z = z < -AFT_FARTHEST ? -AFT_FARTHEST : z;
    z = z > AFT_FARTHEST ? AFT_FARTHEST : z;
    return bound > 0 ? z : -AFT_OPEN;
}

/* Lower bounds of rows without an upper bound. Events have width 0. y holds pairs of bounds. */
FASTENS_INLINE void lower_bounds_loop(const double* y, const double* raw, double scale, ptrdiff_t n, double* low,
                                      double* width)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        low[i] = standardised(y[2 * i], log_of(y[2 * i]), raw[i], scale);
        width[i] = y[2 * i] == y[2 * i + 1] ? 0.0 : AFT_OPEN;
    }
}

/* Both bounds of the given rows, and the width of the interval. */
FASTENS_INLINE void both_bounds_loop(const double* y, const double* raw, const int32_t* rows, double scale, ptrdiff_t n,
                                     double* low, double* high, double* width)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double lower = y[2 * rows[i]], upper = y[2 * rows[i] + 1], log_lower = log_of(lower), log_upper = log_of(upper);
        double difference = (log_upper - log_lower) / scale;
        difference = difference < AFT_SMALLEST_WIDTH ? AFT_SMALLEST_WIDTH : difference;
        low[i] = standardised(lower, log_lower, raw[rows[i]], scale);
        high[i] = standardised(upper, log_upper, raw[rows[i]], scale);
        width[i] = lower > 0 ? difference : AFT_OPEN;
    }
}

FASTENS_CHOOSE(lower_bounds,
               (const double* y, const double* raw, double scale, ptrdiff_t n, double* low, double* width),
               (y, raw, scale, n, low, width))
FASTENS_CHOOSE(both_bounds,
               (const double* y, const double* raw, const int32_t* rows, double scale, ptrdiff_t n, double* low,
                double* high, double* width),
               (y, raw, rows, scale, n, low, high, width))

/* Loop over rows with such bounds: it writes the losses, or the first and second derivatives. */
typedef void (*aft_loop)(const double* low, const double* high, const double* width, ptrdiff_t n, double* found,
                         double* second);

#define AFT_PARAMETERS                                                                                                 \
    (const double* low, const double* high, const double* width, ptrdiff_t n, double* found, double* second)
#define AFT_LOOPS(name)                                                                                                \
    FASTENS_INLINE void name##_losses_loop AFT_PARAMETERS                                                              \
    {                                                                                                                  \
        (void)second;                                                                                                  \
        for (ptrdiff_t i = 0; i < n; i++)                                                                              \
            found[i] = name(low[i], high[i], width[i]).loss;                                                           \
    }                                                                                                                  \
    FASTENS_INLINE void name##_derivatives_loop AFT_PARAMETERS                                                         \
    {                                                                                                                  \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                            \
            aft_terms terms = name(low[i], high[i], width[i]);                                                         \
            found[i] = terms.first;                                                                                    \
            second[i] = terms.second;                                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    FASTENS_CHOOSE(name##_losses, AFT_PARAMETERS, (low, high, width, n, found, second))                                \
    FASTENS_CHOOSE(name##_derivatives, AFT_PARAMETERS, (low, high, width, n, found, second))

AFT_LOOPS(normal_at)
AFT_LOOPS(normal_between)
AFT_LOOPS(logistic_at)
AFT_LOOPS(logistic_between)
AFT_LOOPS(extreme_at)
AFT_LOOPS(extreme_between)

typedef struct {
    aft_loop at, between;
} aft_loops;

/* Indexed by distribution: normal, logistic, extreme. */
static const aft_loops AFT_LOSSES[] = {
    {normal_at_losses, normal_between_losses},
    {logistic_at_losses, logistic_between_losses},
    {extreme_at_losses, extreme_between_losses},
};
static const aft_loops AFT_DERIVATIVES[] = {
    {normal_at_derivatives, normal_between_derivatives},
    {logistic_at_derivatives, logistic_between_derivatives},
    {extreme_at_derivatives, extreme_between_derivatives},
};

#endif
