/* Histogram cells: sums over the rows of one bin code. Only this file depends on their bit layout.
 *
 *     packed   one word:     gradient + bias * count | hessian | count       from the most significant bit down
 *     wide     three words:  gradient, hessian, weight << 32 | count
 *
 * A row is added to packed cells by a single addition of its word. If that word is not stored, it is computed from
 * the row's payload of four bytes: gradient + bias | hessian. The bias keeps gradients non-negative. A row of
 * integer weight counts as that many copies. Payloads do not store copies, so they are used only if every row counts
 * once. */
#ifndef FASTENS_CELLS_H
#define FASTENS_CELLS_H

#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"

enum {
    COUNT_BITS = 14,  /* packed cells hold 2**14 - 1 rows of weight 1 */
    NARROW_BITS = 22, /* bits of a row's gradient and hessian together */
    HESSIAN_BITS = 10
};

/* Fixed-point sums over a set of rows. `weight` equals `count` if rows are unweighted or have integer weights. */
typedef struct {
    int64_t gradient, hessian, count, weight;
} Sums;

/* Packed cells can hold the sums over any codes of a node of at most `max_rows` rows. In a larger node, they hold
 * the codes that occur in at most `max_rows` rows. All other nodes have wide cells. */
typedef struct {
    int32_t gradient_shift, hessian_shift, payload_shift;
    uint64_t hessian_mask, count_mask;
    int64_t gradient_bias, max_rows;
} CellLayout;

typedef struct {
    int64_t* cells;
    int packed;
} Histogram;

/* Layout for rows of at most `most_copies` copies, with `hessian_bits` bits for the hessian of one copy. */
static inline CellLayout make_layout(int32_t hessian_bits, int64_t most_copies)
{
    CellLayout layout;
    layout.payload_shift = hessian_bits;
    layout.hessian_shift = COUNT_BITS;
    layout.gradient_shift = 2 * COUNT_BITS + hessian_bits;
    layout.count_mask = ((uint64_t)1 << COUNT_BITS) - 1;
    layout.hessian_mask = ((uint64_t)1 << (hessian_bits + COUNT_BITS)) - 1;
    layout.gradient_bias = (int64_t)1 << (NARROW_BITS - hessian_bits - 1);
    layout.max_rows = ((1 << COUNT_BITS) - 1) / most_copies;
    return layout;
}

FASTENS_INLINE uint32_t payload_of_row(int64_t gradient, int64_t hessian, const CellLayout* layout)
{
    return (uint32_t)(gradient + layout->gradient_bias) << layout->payload_shift | (uint32_t)hessian;
}

FASTENS_INLINE uint64_t word_of_payload(uint32_t payload, const CellLayout* layout)
{
    uint32_t hessian = payload & (((uint32_t)1 << layout->payload_shift) - 1);
    return (uint64_t)(payload >> layout->payload_shift) << layout->gradient_shift
        | (uint64_t)hessian << layout->hessian_shift | 1;
}

FASTENS_INLINE uint64_t word_of_row(int64_t gradient, int64_t hessian, int64_t copies, const CellLayout* layout)
{
    return (uint64_t)(gradient + layout->gradient_bias * copies) << layout->gradient_shift
        | (uint64_t)hessian << layout->hessian_shift | (uint64_t)copies;
}

FASTENS_INLINE int64_t count_of(uint64_t word, const CellLayout* layout)
{
    return (int64_t)(word & layout->count_mask);
}

FASTENS_INLINE Sums unpack(uint64_t word, const CellLayout* layout)
{
    Sums sums;
    sums.count = sums.weight = count_of(word, layout);
    sums.hessian = (int64_t)((word >> layout->hessian_shift) & layout->hessian_mask);
    sums.gradient = (int64_t)(word >> layout->gradient_shift) - layout->gradient_bias * sums.count;
    return sums;
}

/* If sums overflow their fields, the word is still exact modulo 2**64. */
FASTENS_INLINE uint64_t pack(const Sums* sums, const CellLayout* layout)
{
    return ((uint64_t)(sums->gradient + layout->gradient_bias * sums->count) << layout->gradient_shift)
        + ((uint64_t)sums->hessian << layout->hessian_shift) + (uint64_t)sums->count;
}

/* Converts an integer below 2^52 to double. OR-ing it into the bits of 2^52 avoids a conversion instruction, which
 * older vector instruction sets lack. */
FASTENS_INLINE double number_of(uint64_t field)
{
    double value;
    field |= 0x4330000000000000u;
    memcpy(&value, &field, 8);
    return value - 4503599627370496.0;
}

/* Fields of a packed cell as doubles, for vectorised loops. */
FASTENS_INLINE double hessian_number(uint64_t word, const CellLayout* layout)
{
    return number_of((word >> layout->hessian_shift) & layout->hessian_mask);
}

FASTENS_INLINE double gradient_number(uint64_t word, const CellLayout* layout)
{
    return number_of(word >> layout->gradient_shift)
        - (double)layout->gradient_bias * number_of(word & layout->count_mask);
}

/* Writes a row in the form that is added to wide cells. */
FASTENS_INLINE void write_row(int64_t* row, int64_t gradient, int64_t hessian, int64_t weight, int64_t copies)
{
    row[0] = gradient;
    row[1] = hessian;
    row[2] = weight << 32 | copies;
}

FASTENS_INLINE void add_row(int64_t* cell, const int64_t* row)
{
    cell[0] += row[0];
    cell[1] += row[1];
    cell[2] += row[2];
}

/* Workers send the third word of wide cells as weight - count << 32 | count, which is small if rows are unweighted.
 * The encoding is linear, so sums of encoded words are the encoded sums. */
static inline void cells_to_send(int64_t* cells, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        cells[3 * i + 2] = (int64_t)((uint64_t)cells[3 * i + 2] - ((uint64_t)cells[3 * i + 2] << 32));
}

static inline void cells_received(int64_t* cells, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        cells[3 * i + 2] = (int64_t)((uint64_t)cells[3 * i + 2] + ((uint64_t)cells[3 * i + 2] << 32));
}

static inline ptrdiff_t words_per_cell(const Histogram* histogram)
{
    return histogram->packed ? 1 : 3;
}

FASTENS_INLINE Sums cell_sums(const Histogram* histogram, ptrdiff_t cell, const CellLayout* layout)
{
    if (histogram->packed)
        return unpack((uint64_t)histogram->cells[cell], layout);
    const int64_t* words = histogram->cells + 3 * cell;
    Sums sums = {words[0], words[1], (int64_t)(uint32_t)words[2], words[2] >> 32};
    return sums;
}

FASTENS_INLINE void set_cell(const Histogram* histogram, ptrdiff_t cell, const Sums* sums, const CellLayout* layout)
{
    if (histogram->packed) {
        histogram->cells[cell] = (int64_t)pack(sums, layout);
    } else {
        int64_t* words = histogram->cells + 3 * cell;
        words[0] = sums->gradient;
        words[1] = sums->hessian;
        words[2] = sums->weight << 32 | sums->count;
    }
}

/* Writes whole - part; `out` may be `whole`. */
FASTENS_INLINE void subtract_words_loop(const int64_t* whole, const int64_t* part, ptrdiff_t n, int64_t* out)
{
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = whole[i] - part[i];
}

FASTENS_CHOOSE(subtract_words, (const int64_t* whole, const int64_t* part, ptrdiff_t n, int64_t* out),
    (whole, part, n, out))

/* The third word of wide cells holds the count. A packed cell is 0 only if it is empty, even if it may overflow. */
FASTENS_INLINE int is_empty(const Histogram* histogram, ptrdiff_t cell)
{
    return histogram->packed ? histogram->cells[cell] == 0 : (uint32_t)histogram->cells[3 * cell + 2] == 0;
}

/* Adds a packed cell to a wide cell and clears it. */
FASTENS_INLINE void flush_cell(uint64_t* packed, int64_t* wide, const CellLayout* layout)
{
    Sums sums = unpack(*packed, layout);
    wide[0] += sums.gradient;
    wide[1] += sums.hessian;
    wide[2] += sums.count << 32 | sums.count;
    *packed = 0;
}

/* Index of the first of n running sums that has at least this count, or n. Branchless, because the branches would be
 * mispredicted. */
static inline ptrdiff_t first_with_count(const uint64_t* sums, ptrdiff_t n, const CellLayout* layout, int64_t count)
{
    ptrdiff_t first = 0;
    while (n > 1) {
        ptrdiff_t half = n / 2;
        first += half * (count_of(sums[first + half - 1], layout) < count);
        n -= half;
    }
    return first + (n == 1 && count_of(sums[first], layout) < count);
}

#endif
