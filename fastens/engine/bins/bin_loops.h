/* Buckets of the search tables of bins, for one value or for many with vector instructions. */
#ifndef FASTENS_BIN_LOOPS_H
#define FASTENS_BIN_LOOPS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"

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
FASTENS_INLINE int32_t bucket_of(
    double value, int is_log, int32_t log_floor, double origin, double scale, double last_bucket)
{
    double place = ((is_log ? signed_key(value, log_floor) : value) - origin) * scale;
    place = place > 0.0 ? place : 0.0;
    return (int32_t)(place < last_bucket ? place : last_bucket);
}

/* Writes the buckets of some values; sets *has_nan if one of them is NaN. */
FASTENS_INLINE void find_buckets_loop(const double* values, ptrdiff_t n, int is_log, int32_t log_floor, double origin,
                                      double scale, double last_bucket, int32_t* buckets, int* has_nan)
{
    int any = 0;
    if (is_log)
        for (ptrdiff_t i = 0; i < n; i++)
            buckets[i] = bucket_of(values[i], 1, log_floor, origin, scale, last_bucket);
    else
        for (ptrdiff_t i = 0; i < n; i++)
            buckets[i] = bucket_of(values[i], 0, 0, origin, scale, last_bucket);
    for (ptrdiff_t i = 0; i < n; i++)
        any |= values[i] != values[i];
    *has_nan = any;
}
FASTENS_CHOOSE(find_buckets,
               (const double* values, ptrdiff_t n, int is_log, int32_t log_floor, double origin, double scale,
                double last_bucket, int32_t* buckets, int* has_nan),
               (values, n, is_log, log_floor, origin, scale, last_bucket, buckets, has_nan))

#endif
