/* Gains of the splits of one feature from the running sums of its packed cells, and the best of them. */
#ifndef FASTENS_SCAN_H
#define FASTENS_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"
#include "engine/histograms/cells.h"

/* A node as the loop reads it; see Scan in gain.pxd. */
typedef struct {
    CellLayout layout;
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

/* sums[i] = start + cells[0] + ... + cells[i]. Four a turn: a loop of so few instructions is up to a third slower where
 * its branch happens to lie across 32 bytes of code. */
static inline void running_sums_plain(const uint64_t* cells, ptrdiff_t n, uint64_t start, uint64_t* sums)
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

/* The first of n numbers that is the largest, and it; none is NaN. 0 and -1 where there are none. */
static inline ptrdiff_t first_largest_plain(const double* values, ptrdiff_t n, double* largest)
{
    ptrdiff_t first = 0;
    *largest = n > 0 ? values[0] : -1.0;
    for (ptrdiff_t i = 1; i < n; i++)
        if (values[i] > *largest)
            *largest = values[first = i];
    return first;
}

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) static void running_sums_avx2(
    const uint64_t* cells, ptrdiff_t n, uint64_t start, uint64_t* sums)
{
    __m256i before = _mm256_set1_epi64x((int64_t)start);
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4) {
        __m256i four = _mm256_loadu_si256((const __m256i*)(cells + i));
        four = _mm256_add_epi64(four, _mm256_slli_si256(four, 8));
        __m256i first_two = _mm256_permute4x64_epi64(four, 0x55);
        four = _mm256_add_epi64(four, _mm256_blend_epi32(_mm256_setzero_si256(), first_two, 0xF0));
        _mm256_storeu_si256((__m256i*)(sums + i), _mm256_add_epi64(before, four));
        before = _mm256_add_epi64(before, _mm256_permute4x64_epi64(four, 0xFF));
    }
    running_sums_plain(cells + i, n - i, i > 0 ? sums[i - 1] : start, sums + i);
}

__attribute__((target("avx2"))) static ptrdiff_t first_largest_avx2(const double* values, ptrdiff_t n, double* largest)
{
    enum { LANES = 16 };
    __m256d most[4];
    ptrdiff_t i = 0;
    if (n < LANES)
        return first_largest_plain(values, n, largest);
    for (int k = 0; k < 4; k++)
        most[k] = _mm256_loadu_pd(values + n - LANES + 4 * k);
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < 4; k++)
            most[k] = _mm256_max_pd(most[k], _mm256_loadu_pd(values + i + 4 * k));
    __m256d all = _mm256_max_pd(_mm256_max_pd(most[0], most[1]), _mm256_max_pd(most[2], most[3]));
    all = _mm256_max_pd(all, _mm256_permute2f128_pd(all, all, 1));
    all = _mm256_max_pd(all, _mm256_permute_pd(all, 5));
    *largest = _mm256_cvtsd_f64(all);
    for (i = 0;; i += LANES) {
        int found = 0;
        if (i > n - LANES)
            i = n - LANES;
        for (int k = 0; k < 4; k++)
            found |= _mm256_movemask_pd(_mm256_cmp_pd(all, _mm256_loadu_pd(values + i + 4 * k), _CMP_EQ_OQ)) << 4 * k;
        if (found)
            return i + __builtin_ctz((unsigned)found);
    }
}
#define FASTENS_WITH_AVX2(name, ...) (__builtin_cpu_supports("avx2") ? name##_avx2(__VA_ARGS__) : name##_plain(__VA_ARGS__))
#else
#define FASTENS_WITH_AVX2(name, ...) name##_plain(__VA_ARGS__)
#endif

static inline void running_sums(const uint64_t* cells, ptrdiff_t n, uint64_t start, uint64_t* sums)
{
    FASTENS_WITH_AVX2(running_sums, cells, n, start, sums);
}

static inline ptrdiff_t first_largest(const double* values, ptrdiff_t n, double* largest)
{
    return FASTENS_WITH_AVX2(first_largest, values, n, largest);
}

/* The sums on the left of a split, and whether both sides have enough hessian. */
typedef struct {
    double gradient, hessian;
    int is_allowed;
} LeftSide;

FASTENS_INLINE LeftSide left_side(uint64_t sums, const ScanNode* s)
{
    LeftSide left;
    left.hessian = hessian_number(sums, &s->layout);
    left.gradient = gradient_number(sums, &s->layout);
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

FASTENS_CHOOSE(split_gains, (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains), (sums, n, node, gains))
FASTENS_CHOOSE(ordered_gains, (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains), (sums, n, node, gains))
FASTENS_CHOOSE(bound_gains, (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains), (sums, n, node, gains))
FASTENS_CHOOSE(joint_gains, (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains, double* hessians),
    (sums, n, node, gains, hessians))

#endif
