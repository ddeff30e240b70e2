/* Buckets of the search tables of bins, for one value or for many with vector instructions. */
#ifndef FASTENS_BIN_LOOPS_H
#define FASTENS_BIN_LOOPS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"

/* Bucket of a value: clip((place - origin) * scale, 0, last). `place` is the value itself or, if the thresholds span
 * many magnitudes (log_floor >= 0), its signed leading bits. */
typedef struct {
    double origin, scale, last;
    int32_t log_floor;
} Buckets;

/* Exponent and leading bits of the magnitude, minus the floor, with the value's sign. Monotonic in the value. */
FASTENS_INLINE int32_t signed_key(double value, int32_t log_floor)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int32_t key = (int32_t)((bits >> 32) & 0x7FFFFFFF) - log_floor;
    key = key > 0 ? key : 0;
    return bits < 0 ? -key : key;
}

/* NaN maps to bucket 0. */
FASTENS_INLINE int32_t bucket_of(const Buckets* buckets, double value, int is_log)
{
    double place = ((is_log ? signed_key(value, buckets->log_floor) : value) - buckets->origin) * buckets->scale;
    place = place > 0.0 ? place : 0.0;
    return (int32_t)(place < buckets->last ? place : buckets->last);
}

/* Writes the buckets of some values; sets *has_nan if one of them is NaN. */
FASTENS_INLINE void find_buckets_loop(const Buckets* of, const double* values, ptrdiff_t n, int32_t* out, int* has_nan)
{
    Buckets buckets = *of;
    int any = 0;
    if (buckets.log_floor >= 0)
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = bucket_of(&buckets, values[i], 1);
    else
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = bucket_of(&buckets, values[i], 0);
    for (ptrdiff_t i = 0; i < n; i++)
        any |= values[i] != values[i];
    *has_nan = any;
}
FASTENS_CHOOSE(find_buckets, (const Buckets* of, const double* values, ptrdiff_t n, int32_t* out, int* has_nan),
               (of, values, n, out, has_nan))

#endif
