/* Which codes of a feature go left at a split, for all kernels: for categories the codes of a bit set, for numbers
 * the codes 1 .. last, with or without code 0 (missing). */
#ifndef FASTENS_GOES_LEFT_H
#define FASTENS_GOES_LEFT_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "engine/dispatch.h"

/* Number of words of a set of codes. */
FASTENS_INLINE int32_t set_size(int32_t n_codes)
{
    return (n_codes + 31) / 32;
}

FASTENS_INLINE int set_has(const uint32_t* set, uint32_t code)
{
    return (int)(set[code >> 5] >> (code & 31) & 1);
}

FASTENS_INLINE void set_put(uint32_t* set, uint32_t code, int is_member)
{
    const uint32_t bit = (uint32_t)1 << (code & 31);
    set[code >> 5] = is_member ? set[code >> 5] | bit : set[code >> 5] & ~bit;
}

/* Initialise a set with all codes or none. */
FASTENS_INLINE void set_fill(uint32_t* set, int32_t n_codes, int are_members)
{
    for (int32_t k = 0; k < set_size(n_codes); k++)
        set[k] = are_members ? ~(uint32_t)0 : 0;
}

/* Tests a numeric code in its own width with one comparison. shift is 1 if missing values go right, since 0 - 1
 * wraps to the largest code, else 0. limit is last - shift. At least one code must go left. */
FASTENS_INLINE int up_to_uint8_t(uint8_t code, uint8_t shift, uint8_t limit)
{
    return (uint8_t)(code - shift) <= limit;
}

FASTENS_INLINE int up_to_uint16_t(uint16_t code, uint16_t shift, uint16_t limit)
{
    return (uint16_t)(code - shift) <= limit;
}

/* Tests a code at a stored node: first is -1, or the first word of its set. */
FASTENS_INLINE int code_goes_left(const uint32_t* words, int32_t first, uint32_t last, int missing_left, uint32_t code)
{
    if (first >= 0)
        return set_has(words + first, code);
    return code == 0 ? missing_left : code <= last;
}

/* Returns the last code on the left of a threshold in the gap between two adjacent codes of a node. The bin edge
 * nearest to the middle of the gap is used, so that new values in the gap go to the nearer side. Infinities are
 * separated from all finite values. Bin c ends at thresholds[c - 1]. */
FASTENS_INLINE int32_t middle_code(const double* thresholds, int32_t low, int32_t high)
{
    int32_t first = low - 1, last = high - 2;
    const int below_all = thresholds[first] == -INFINITY, above_all = thresholds[last] == DBL_MAX;
    if (first == last || below_all != above_all)
        return below_all || first == last ? low : high - 1;
    const double start = below_all ? -DBL_MAX : thresholds[first];
    const double middle = 0.5 * start + 0.5 * thresholds[last];
    while (first + 1 < last) {
        const int32_t half = first + (last - first) / 2;
        if (thresholds[half] <= middle)
            first = half;
        else
            last = half;
    }
    return 1 + (middle - thresholds[first] <= thresholds[last] - middle ? first : last);
}

#endif
