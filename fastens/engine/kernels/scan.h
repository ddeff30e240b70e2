/* Gains of the splits of one feature from the running sums of its packed cells, vectorised by the compiler. */
#ifndef FASTENS_SCAN_H
#define FASTENS_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "dispatch.h"

/* A node as the loop reads it; see Scan in split.pyx. */
typedef struct {
    uint64_t count_mask, hessian_mask;
    int32_t gradient_shift, hessian_shift;
    double gradient_bias;
    double ratio, hessian, l2;
    double min_hessian, max_hessian; /* of the left side */
    int32_t monotone;                /* 1: the right side must not be lower; -1: not higher; 0: either */
    /* where leaf values are bound */
    double total_gradient, total_hessian;
    double lower, upper;
    double smooth, smooth_gradient; /* path_smooth, and times the value of the node */
    double node_score;
    /* of several outputs: what this one's gain and hessian are multiplied with before they are summed up */
    double gain_unit, hessian_unit;
} ScanNode;

/* A whole number below 2^52 as a double: or-ing it into the bits of 2^52 needs no conversion, which old vectors lack. */
FASTENS_INLINE double number_of(uint64_t field)
{
    double value;
    field |= 0x4330000000000000u;
    memcpy(&value, &field, 8);
    return value - 4503599627370496.0;
}

/* sums[i] = start + cells[0] + ... + cells[i]. Four a turn: a loop of so few instructions is up to a third slower where
 * its branch happens to lie across 32 bytes of code. */
FASTENS_INLINE void running_sums(const uint64_t* cells, ptrdiff_t n, uint64_t start, uint64_t* sums)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4) {
        sums[i] = start += cells[i];
        sums[i + 1] = start += cells[i + 1];
        sums[i + 2] = start += cells[i + 2];
        sums[i + 3] = start += cells[i + 3];
    }
    for (; i < n; i++)
        sums[i] = start += cells[i];
}

/* The sums on the left of a split, and whether both sides have enough hessian. */
typedef struct {
    double gradient, hessian;
    int is_allowed;
} LeftSide;

FASTENS_INLINE LeftSide left_side(uint64_t sums, const ScanNode* s)
{
    LeftSide left;
    left.hessian = number_of((sums >> s->hessian_shift) & s->hessian_mask);
    left.gradient = number_of(sums >> s->gradient_shift) - s->gradient_bias * number_of(sums & s->count_mask);
    left.is_allowed = (left.hessian >= s->min_hessian) & (left.hessian <= s->max_hessian);
    return left;
}

/* gains[i] for the split with sums[i] on the left; -1 where it is not allowed */
FASTENS_INLINE void split_gains_loop(const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains)
{
    const ScanNode s = *node;
    for (ptrdiff_t i = 0; i < n; i++) {
        LeftSide side = left_side(sums[i], &s);
        double left = side.hessian + s.l2;
        double distance = side.gradient - s.ratio * left;
        double gain = distance * distance / (left * (s.hessian - left));
        gains[i] = side.is_allowed ? gain : -1.0;
    }
}

/* The same where values are free, but in order: that of the right side is above the left one's as `distance` is above 0. */
FASTENS_INLINE void ordered_gains_loop(const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains)
{
    const ScanNode s = *node;
    const double direction = s.monotone;
    for (ptrdiff_t i = 0; i < n; i++) {
        LeftSide side = left_side(sums[i], &s);
        double left = side.hessian + s.l2;
        double distance = side.gradient - s.ratio * left;
        double gain = distance * distance / (left * (s.hessian - left));
        gains[i] = side.is_allowed & (direction * distance >= 0) ? gain : -1.0;
    }
}

/* The same for one of several outputs: adds its part of the gains, and of the hessians on the left. */
FASTENS_INLINE void joint_gains_loop(
    const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains, double* hessians)
{
    const ScanNode s = *node;
    const double direction = s.monotone;
    for (ptrdiff_t i = 0; i < n; i++) {
        LeftSide side = left_side(sums[i], &s);
        double left = side.hessian + s.l2;
        double distance = side.gradient - s.ratio * left;
        double gain = distance * distance / (left * (s.hessian - left));
        gains[i] += s.gain_unit * (direction * distance < 0 ? 0.0 : gain);
        hessians[i] += s.hessian_unit * side.hessian;
    }
}

FASTENS_INLINE double bound_value(double gradient, double hessian, const ScanNode* s)
{
    double divisor = hessian + s->smooth;
    double value = (s->smooth_gradient - gradient) / divisor;
    value = divisor > 0 ? value : 0.0;
    value = value < s->lower ? s->lower : value;
    return value > s->upper ? s->upper : value;
}

/* The same where values are bound: as `limited_gain` of gain.pxd, operation by operation. */
FASTENS_INLINE void bound_gains_loop(const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains)
{
    const ScanNode s = *node;
    const double direction = s.monotone;
    for (ptrdiff_t i = 0; i < n; i++) {
        LeftSide side = left_side(sums[i], &s);
        double left_hessian = side.hessian + s.l2, right_hessian = (s.total_hessian - side.hessian) + s.l2;
        double right_gradient = s.total_gradient - side.gradient;
        double left = bound_value(side.gradient, left_hessian, &s);
        double right = bound_value(right_gradient, right_hessian, &s);
        double left_score = -left * (2.0 * side.gradient + left_hessian * left);
        double right_score = -right * (2.0 * right_gradient + right_hessian * right);
        double gain = left_score + right_score - s.node_score;
        gains[i] = side.is_allowed & (left != right) & (direction * (right - left) >= 0) ? gain : -1.0;
    }
}

/* The largest of n numbers, none of them NaN; MAX_LANES of them at a time, for one chain of comparisons would wait for
 * each of its steps. -1 where n is 0. */
enum { MAX_LANES = 16 };

FASTENS_INLINE void largest_loop(const double* values, ptrdiff_t n, double* result)
{
    double lanes[MAX_LANES];
    ptrdiff_t i = 0;
    for (int k = 0; k < MAX_LANES; k++)
        lanes[k] = -1.0;
    for (; i + MAX_LANES <= n; i += MAX_LANES)
        for (int k = 0; k < MAX_LANES; k++)
            lanes[k] = values[i + k] > lanes[k] ? values[i + k] : lanes[k];
    for (; i < n; i++)
        lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
    for (int k = 1; k < MAX_LANES; k++)
        lanes[0] = lanes[k] > lanes[0] ? lanes[k] : lanes[0];
    *result = lanes[0];
}

FASTENS_CHOOSE(split_gains, (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains), (sums, n, node, gains))
FASTENS_CHOOSE(ordered_gains, (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains), (sums, n, node, gains))
FASTENS_CHOOSE(bound_gains, (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains), (sums, n, node, gains))
FASTENS_CHOOSE(joint_gains, (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains, double* hessians),
    (sums, n, node, gains, hessians))
FASTENS_CHOOSE(largest, (const double* values, ptrdiff_t n, double* result), (values, n, result))

#endif
