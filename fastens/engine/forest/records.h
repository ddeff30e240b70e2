/* Loops over the rows of a small node, stored as separate records: all codes of a row fit in one or two vectors, so
 * one pass over the rows serves all features at once. A record ends with the row's class (0 or 1). */
#ifndef FASTENS_FOREST_RECORDS_H
#define FASTENS_FOREST_RECORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"
#include "engine/splits/goes_left.h"

enum { RECORD_BYTES = 32, MAX_RECORD_BYTES = 64, ROWS_IN_BYTES = 255 };

/* For each feature: the smallest code minus 1 (255 for missing, code 0), the largest code, and the largest code
 * minus 1. */
typedef struct {
    uint8_t smallest[MAX_RECORD_BYTES], largest[MAX_RECORD_BYTES], largest_less[MAX_RECORD_BYTES];
} RecordRanges;

/* For each feature: the codes that go left; see up_to_uint8_t. */
typedef struct {
    uint8_t shift[MAX_RECORD_BYTES], limit[MAX_RECORD_BYTES];
} RecordLimits;

/* Number of rows on the left, and how many of them are of class 1. */
typedef struct {
    uint8_t rows[MAX_RECORD_BYTES], second[MAX_RECORD_BYTES];
} RecordCounts;

FASTENS_INLINE uint8_t smaller(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

FASTENS_INLINE uint8_t larger(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

/* Four rows per iteration, so that intermediate results are loaded and stored a quarter as often. */
FASTENS_INLINE void range_of_four(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d,
                                  uint8_t* smallest, uint8_t* largest, uint8_t* largest_less)
{
    for (int j = 0; j < RECORD_BYTES; j++) {
        const uint8_t p = (uint8_t)(a[j] - 1), q = (uint8_t)(b[j] - 1), r = (uint8_t)(c[j] - 1), s = (uint8_t)(d[j] - 1);
        smallest[j] = smaller(smallest[j], smaller(smaller(p, q), smaller(r, s)));
        largest_less[j] = larger(largest_less[j], larger(larger(p, q), larger(r, s)));
        largest[j] = larger(largest[j], larger(larger(a[j], b[j]), larger(c[j], d[j])));
    }
}

FASTENS_INLINE void range_loop(const uint8_t* records, ptrdiff_t n_rows, ptrdiff_t n_bytes, RecordRanges* ranges)
{
    for (ptrdiff_t first = 0; first < n_bytes; first += RECORD_BYTES) {
        uint8_t smallest[RECORD_BYTES], largest[RECORD_BYTES], largest_less[RECORD_BYTES];
        memset(smallest, 255, RECORD_BYTES);
        memset(largest, 0, RECORD_BYTES);
        memset(largest_less, 0, RECORD_BYTES);
        for (ptrdiff_t i = 0; i < n_rows; i += 4) {
            const uint8_t* record = records + first + i * n_bytes;
            const ptrdiff_t last = n_rows - 1 - i;
            range_of_four(record, record + (last < 1 ? last : 1) * n_bytes, record + (last < 2 ? last : 2) * n_bytes,
                          record + (last < 3 ? last : 3) * n_bytes, smallest, largest, largest_less);
        }
        memcpy(ranges->smallest + first, smallest, RECORD_BYTES);
        memcpy(ranges->largest + first, largest, RECORD_BYTES);
        memcpy(ranges->largest_less + first, largest_less, RECORD_BYTES);
    }
}

/* For at most ROWS_IN_BYTES rows. */
FASTENS_INLINE void count_loop(const uint8_t* records, ptrdiff_t n_rows, ptrdiff_t n_bytes, const RecordLimits* limits,
                               RecordCounts* counts)
{
    for (ptrdiff_t first = 0; first < n_bytes; first += RECORD_BYTES) {
        uint8_t shift[RECORD_BYTES], limit[RECORD_BYTES], rows[RECORD_BYTES], second[RECORD_BYTES];
        memcpy(shift, limits->shift + first, RECORD_BYTES);
        memcpy(limit, limits->limit + first, RECORD_BYTES);
        memset(rows, 0, RECORD_BYTES);
        memset(second, 0, RECORD_BYTES);
        for (ptrdiff_t i = 0; i < n_rows; i++) {
            const uint8_t* record = records + i * n_bytes + first;
            const uint8_t class_ = records[i * n_bytes + n_bytes - 1];
            for (int j = 0; j < RECORD_BYTES; j++) {
                const uint8_t left = (uint8_t)up_to_uint8_t(record[j], shift[j], limit[j]);
                rows[j] = (uint8_t)(rows[j] + left);
                second[j] = (uint8_t)(second[j] + (left & class_));
            }
        }
        memcpy(counts->rows + first, rows, RECORD_BYTES);
        memcpy(counts->second + first, second, RECORD_BYTES);
    }
}

FASTENS_INLINE void range_narrow_loop(const uint8_t* records, ptrdiff_t n_rows, RecordRanges* ranges)
{
    range_loop(records, n_rows, RECORD_BYTES, ranges);
}

FASTENS_INLINE void range_wide_loop(const uint8_t* records, ptrdiff_t n_rows, RecordRanges* ranges)
{
    range_loop(records, n_rows, MAX_RECORD_BYTES, ranges);
}

FASTENS_INLINE void count_narrow_loop(const uint8_t* records, ptrdiff_t n_rows, const RecordLimits* limits,
                                      RecordCounts* counts)
{
    count_loop(records, n_rows, RECORD_BYTES, limits, counts);
}

FASTENS_INLINE void count_wide_loop(const uint8_t* records, ptrdiff_t n_rows, const RecordLimits* limits,
                                    RecordCounts* counts)
{
    count_loop(records, n_rows, MAX_RECORD_BYTES, limits, counts);
}

FASTENS_CHOOSE(range_narrow, (const uint8_t* records, ptrdiff_t n_rows, RecordRanges* ranges), (records, n_rows, ranges))
FASTENS_CHOOSE(range_wide, (const uint8_t* records, ptrdiff_t n_rows, RecordRanges* ranges), (records, n_rows, ranges))
FASTENS_CHOOSE(count_narrow,
               (const uint8_t* records, ptrdiff_t n_rows, const RecordLimits* limits, RecordCounts* counts),
               (records, n_rows, limits, counts))
FASTENS_CHOOSE(count_wide,
               (const uint8_t* records, ptrdiff_t n_rows, const RecordLimits* limits, RecordCounts* counts),
               (records, n_rows, limits, counts))

static inline void record_ranges(const uint8_t* records, ptrdiff_t n_rows, ptrdiff_t n_bytes, RecordRanges* ranges)
{
    if (n_bytes == RECORD_BYTES)
        range_narrow(records, n_rows, ranges);
    else
        range_wide(records, n_rows, ranges);
}

static inline void record_counts(const uint8_t* records, ptrdiff_t n_rows, ptrdiff_t n_bytes, const RecordLimits* limits,
                                 RecordCounts* counts)
{
    if (n_bytes == RECORD_BYTES)
        count_narrow(records, n_rows, limits, counts);
    else
        count_wide(records, n_rows, limits, counts);
}

/* Moves left records to the front of `to`, right ones to its end; returns the number on the left. */
FASTENS_INLINE ptrdiff_t part_bytes(const uint8_t* records, ptrdiff_t n_rows, ptrdiff_t n_bytes, ptrdiff_t feature,
                                    uint8_t shift, uint8_t limit, uint8_t* to)
{
    ptrdiff_t n_left = 0;
    for (ptrdiff_t i = 0; i < n_rows; i++) {
        const uint8_t* record = records + i * n_bytes;
        const ptrdiff_t left = up_to_uint8_t(record[feature], shift, limit);
        const ptrdiff_t right_place = n_rows - 1 - i + n_left;
        /* Branchless, because half of the branches would be mispredicted. */
        memcpy(to + (right_place ^ ((right_place ^ n_left) & -left)) * n_bytes, record, (size_t)n_bytes);
        n_left += left;
    }
    return n_left;
}

static inline ptrdiff_t part_records(const uint8_t* records, ptrdiff_t n_rows, ptrdiff_t n_bytes, ptrdiff_t feature,
                                     uint8_t shift, uint8_t limit, uint8_t* to)
{
    if (n_bytes == RECORD_BYTES)
        return part_bytes(records, n_rows, RECORD_BYTES, feature, shift, limit, to);
    return part_bytes(records, n_rows, MAX_RECORD_BYTES, feature, shift, limit, to);
}

#endif
