/* Gains of the splits of one feature, from the running sums of its packed cells, and their maximum. */
#ifndef FASTENS_SCAN_H
#define FASTENS_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/dispatch.h"
#include "engine/histograms/cells.h"

/* A node as the loops read it; see Scan in gain.pxd. */
typedef struct {
    CellLayout layout;
    double ratio, hessian, l2;
    /* if leaf values are bounded */
    double total_gradient, total_hessian;
    double lower, upper;
    double smooth, smooth_gradient; /* path_smooth, and path_smooth times the value of the node */
    double node_score;
    /* for several outputs: factors of this output's gain and hessian before they are summed */
    double gain_unit, hessian_unit;
} ScanNode;

/* Computes sums[i] = start + cells[0] + ... + cells[i], four per iteration: such a short loop is up to a third
 * slower if its branch happens to cross 32 bytes of code. NEON's two lanes would be slower (2.0 instead of 1.3
 * cycles per cell, by llvm-mca for Neoverse N1). */
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

static inline void running_sums(const uint64_t* cells, ptrdiff_t n, uint64_t start, uint64_t* sums)
{
    if (__builtin_cpu_supports("avx2"))
        running_sums_avx2(cells, n, start, sums);
    else
        running_sums_plain(cells, n, start, sums);
}
#else
static inline void running_sums(const uint64_t* cells, ptrdiff_t n, uint64_t start, uint64_t* sums)
{
    running_sums_plain(cells, n, start, sums);
}
#endif

/* Running sums that would overflow packed cells, as doubles, which represent them exactly. */
static inline void large_sums(const uint64_t* cells, ptrdiff_t n, uint64_t start, const CellLayout* node_layout,
                              int64_t* counts, double* gradients, double* hessians)
{
    const CellLayout layout = *node_layout; /* a copy, which the stores below cannot alias */
    Sums sums = unpack(start, &layout);
    for (ptrdiff_t i = 0; i < n; i++) {
        Sums cell = unpack(cells[i], &layout);
        counts[i] = sums.count += cell.count;
        gradients[i] = (double)(sums.gradient += cell.gradient);
        hessians[i] = (double)(sums.hessian += cell.hessian);
    }
}

static inline int64_t hessian_of(uint64_t word, const CellLayout* layout)
{
    return (int64_t)((word >> layout->hessian_shift) & layout->hessian_mask);
}

/* Removes from the splits first .. end - 1 those with hessian below `least` or above `most` on the left. There are few
 * of these, because sides with enough rows rarely have too small a hessian. */
static inline void leave_out_light(
    const uint64_t* sums, const CellLayout* layout, int64_t least, int64_t most, ptrdiff_t* first, ptrdiff_t* end)
{
    while (*first < *end && hessian_of(sums[*first], layout) < least)
        ++*first;
    while (*first < *end && hessian_of(sums[*end - 1], layout) > most)
        --*end;
}

/* A split with unbounded values. The right value is above the left one if `distance` is positive. */
typedef struct {
    double hessian, distance, gain;
} FreeSplit;

FASTENS_INLINE FreeSplit free_split_of(double gradient, double hessian, const ScanNode* s)
{
    FreeSplit split;
    double left = hessian + s->l2;
    split.hessian = hessian;
    split.distance = gradient - s->ratio * left;
    split.gain = split.distance * split.distance / (left * (s->hessian - left));
    return split;
}

FASTENS_INLINE FreeSplit free_split(uint64_t sums, const ScanNode* s)
{
    return free_split_of(gradient_number(sums, &s->layout), hessian_number(sums, &s->layout), s);
}

/* The gain loops write gains[i] for the split with sums[i] on the left (-1 if it is not allowed) and the largest
 * gain (-1 if there is none); gains are never NaN. `monotone` is 1 if the right side must not be lower, -1 if it
 * must not be higher, and 0 otherwise. */
FASTENS_INLINE void split_gains_loop(
    const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains, double* largest)
{
    const ScanNode s = *node;
    double most = -1.0;
#pragma omp simd reduction(max : most)
    for (ptrdiff_t i = 0; i < n; i++) {
        double gain = free_split(sums[i], &s).gain;
        gains[i] = gain;
        most = gain > most ? gain : most;
    }
    *largest = most;
}

/* Gains from sums that would overflow packed cells. */
FASTENS_INLINE void large_gains_loop(
    const double* gradients, const double* hessians, ptrdiff_t n, const ScanNode* node, double* gains, double* largest)
{
    const ScanNode s = *node;
    double most = -1.0;
#pragma omp simd reduction(max : most)
    for (ptrdiff_t i = 0; i < n; i++) {
        double gain = free_split_of(gradients[i], hessians[i], &s).gain;
        gains[i] = gain;
        most = gain > most ? gain : most;
    }
    *largest = most;
}

/* Gains with unbounded values under a monotone constraint. */
FASTENS_INLINE void ordered_gains_loop(
    const uint64_t* sums, ptrdiff_t n, const ScanNode* node, int32_t monotone, double* gains, double* largest)
{
    const ScanNode s = *node;
    const double direction = monotone;
    double most = -1.0;
#pragma omp simd reduction(max : most)
    for (ptrdiff_t i = 0; i < n; i++) {
        FreeSplit split = free_split(sums[i], &s);
        double gain = direction * split.distance >= 0 ? split.gain : -1.0;
        gains[i] = gain;
        most = gain > most ? gain : most;
    }
    *largest = most;
}

/* Gains of one of several outputs: adds its share to the gains and to the hessians on the left. */
FASTENS_INLINE void joint_gains_loop(
    const uint64_t* sums, ptrdiff_t n, const ScanNode* node, int32_t monotone, double* gains, double* hessians)
{
    const ScanNode s = *node;
    const double direction = monotone;
    for (ptrdiff_t i = 0; i < n; i++) {
        FreeSplit split = free_split(sums[i], &s);
        gains[i] += s.gain_unit * (direction * split.distance < 0 ? 0.0 : split.gain);
        hessians[i] += s.hessian_unit * split.hessian;
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

/* Gains with bounded values: the same operations in the same order as `_limited_gain` of gain.pxd. */
FASTENS_INLINE void bound_gains_loop(
    const uint64_t* sums, ptrdiff_t n, const ScanNode* node, int32_t monotone, double* gains, double* largest)
{
    const ScanNode s = *node;
    const double direction = monotone;
    double most = -1.0;
#pragma omp simd reduction(max : most)
    for (ptrdiff_t i = 0; i < n; i++) {
        double gradient = gradient_number(sums[i], &s.layout), hessian = hessian_number(sums[i], &s.layout);
        double left_hessian = hessian + s.l2, right_hessian = (s.total_hessian - hessian) + s.l2;
        double right_gradient = s.total_gradient - gradient;
        double left = bound_value(gradient, left_hessian, &s);
        double right = bound_value(right_gradient, right_hessian, &s);
        double left_score = -left * (2.0 * gradient + left_hessian * left);
        double right_score = -right * (2.0 * right_gradient + right_hessian * right);
        double gain = left_score + right_score - s.node_score;
        gain = (left != right) & (direction * (right - left) >= 0) ? gain : -1.0;
        gains[i] = gain;
        most = gain > most ? gain : most;
    }
    *largest = most;
}

FASTENS_INLINE void largest_loop(const double* values, ptrdiff_t n, double* largest)
{
    double most = -1.0;
#pragma omp simd reduction(max : most)
    for (ptrdiff_t i = 0; i < n; i++)
        most = values[i] > most ? values[i] : most;
    *largest = most;
}

FASTENS_CHOOSE(split_gains, (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, double* gains, double* largest),
    (sums, n, node, gains, largest))
FASTENS_CHOOSE(large_gains,
    (const double* gradients, const double* hessians, ptrdiff_t n, const ScanNode* node, double* gains,
     double* largest),
    (gradients, hessians, n, node, gains, largest))
FASTENS_CHOOSE(ordered_gains,
    (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, int32_t monotone, double* gains, double* largest),
    (sums, n, node, monotone, gains, largest))
FASTENS_CHOOSE(bound_gains,
    (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, int32_t monotone, double* gains, double* largest),
    (sums, n, node, monotone, gains, largest))
FASTENS_CHOOSE(joint_gains,
    (const uint64_t* sums, ptrdiff_t n, const ScanNode* node, int32_t monotone, double* gains, double* hessians),
    (sums, n, node, monotone, gains, hessians))
FASTENS_CHOOSE(largest, (const double* values, ptrdiff_t n, double* found), (values, n, found))

/* Returns the first index of a number, which must occur. */
static inline ptrdiff_t place_of(double number, const double* numbers)
{
    ptrdiff_t i = 0;
    while (numbers[i] != number)
        i++;
    return i;
}

#endif
