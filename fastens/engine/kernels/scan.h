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

/* gains[i] for the split with sums[i] on the left; -1 where a hessian is too small */
FASTENS_INLINE void split_gains_loop(const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains)
{
    const ScanNode s = *node;
    for (ptrdiff_t i = 0; i < n; i++) {
        double count = number_of(sums[i] & s.count_mask);
        double hessian = number_of((sums[i] >> s.hessian_shift) & s.hessian_mask);
        double gradient = number_of(sums[i] >> s.gradient_shift) - s.gradient_bias * count;
        double left = hessian + s.l2;
        double distance = gradient - s.ratio * left;
        double gain = distance * distance / (left * (s.hessian - left));
        gains[i] = (hessian >= s.min_hessian) & (hessian <= s.max_hessian) ? gain : -1.0;
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
FASTENS_CHOOSE(largest, (const double* values, ptrdiff_t n, double* result), (values, n, result))

#endif
