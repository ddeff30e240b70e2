/* Partition of the rows of a table with one-byte codes, eight at a time with AVX2. NEON would not be faster than single
 * rows (4.9 compared with 4.8 cycles per row, by llvm-mca for Neoverse N1). */
#ifndef FASTENS_SPLIT_ROWS_H
#define FASTENS_SPLIT_ROWS_H

#include <stddef.h>
#include <stdint.h>

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include <immintrin.h>

/* For each set of eight lanes, the lane indices as bytes: the lanes of the set in order, then the others in reverse. */
static uint64_t lane_orders[256];

static void fill_lane_orders(void)
{
    for (int set = 0; set < 256; set++) {
        int front = 0, back = 7;
        for (uint64_t lane = 0; lane < 8; lane++) {
            int place = set >> lane & 1 ? front++ : back--;
            lane_orders[set] |= lane << 8 * place;
        }
    }
}

enum {
    ROWS_AHEAD = 64,
    NEAR_BYTES = 16 /* hardware prefetchers handle codes that are at most this far apart on average */
};

/* Codes of consecutive rows are `step` bytes apart. Records, and columns of which few rows are read, are prefetched: if
 * every 64th row is read, prefetching reduces the time by 30 %. */
__attribute__((target("avx2,popcnt"), always_inline)) static inline ptrdiff_t split_eights_by(
    const uint8_t* codes, ptrdiff_t step, int fetches_ahead, const uint8_t* goes_left, const uint32_t* rows,
    ptrdiff_t n, uint32_t* scratch, ptrdiff_t* n_left)
{
    ptrdiff_t i = 0, left = 0;
    /* Each group of eight is written to both ends of the open range, which must not overlap. */
    for (; i + 16 <= n; i += 8) {
        unsigned set = 0;
        if (fetches_ahead && i + ROWS_AHEAD + 8 <= n)
            for (int k = 0; k < 8; k++)
                __builtin_prefetch(codes + step * (ptrdiff_t)rows[i + ROWS_AHEAD + k]);
        for (int k = 7; k >= 0; k--)
            set = 2 * set + goes_left[codes[step * (ptrdiff_t)rows[i + k]]];
        __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)&lane_orders[set]));
        __m256i eight = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i*)(rows + i)), order);
        _mm256_storeu_si256((__m256i*)(scratch + left + n - i - 8), eight);
        _mm256_storeu_si256((__m256i*)(scratch + left), eight);
        left += __builtin_popcount(set);
    }
    *n_left = left;
    return i;
}

__attribute__((target("avx2,popcnt"))) static ptrdiff_t split_eights_avx2(
    const uint8_t* codes, ptrdiff_t step, const uint8_t* goes_left, const uint32_t* rows, ptrdiff_t n,
    uint32_t* scratch, ptrdiff_t* n_left)
{
    if (step == 1 && n > 0 && (ptrdiff_t)(rows[n - 1] - rows[0]) < NEAR_BYTES * n)
        return split_eights_by(codes, 1, 0, goes_left, rows, n, scratch, n_left);
    return split_eights_by(codes, step, 1, goes_left, rows, n, scratch, n_left);
}

/* Partitions as many of the first rows as possible; returns their number. *n_left of them go left. */
static inline ptrdiff_t split_eights(const uint8_t* codes, ptrdiff_t step, const uint8_t* goes_left,
                                     const uint32_t* rows, ptrdiff_t n, uint32_t* scratch, ptrdiff_t* n_left)
{
    *n_left = 0;
    return __builtin_cpu_supports("avx2") ? split_eights_avx2(codes, step, goes_left, rows, n, scratch, n_left) : 0;
}

#else

static inline void fill_lane_orders(void) {}

static inline ptrdiff_t split_eights(const uint8_t* codes, ptrdiff_t step, const uint8_t* goes_left,
                                     const uint32_t* rows, ptrdiff_t n, uint32_t* scratch, ptrdiff_t* n_left)
{
    *n_left = 0;
    return 0;
}

#endif
#endif
