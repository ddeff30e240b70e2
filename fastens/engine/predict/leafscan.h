/* Leaf scan: finds the leaf of each of SCAN_ROWS rows in a tree of at most 256 leaves, without walking the tree.
 *
 * Leaves are numbered from left to right; a node covers the leaves first_leaf, first_leaf + 1, ... below it. Every
 * row starts at leaf 0. The nodes are visited in any order that puts parents before children. A row that goes right
 * at a node skips the leaves of the node's left child:
 *
 *     if (leaf[row] == first_leaf && view[row] > threshold) leaf[row] += left_leaves;
 *
 * When a node is visited, the rows with leaf == first_leaf are exactly the rows that reach the node: its ancestors
 * have already assigned their rows to a side, its descendants have not. A node therefore costs three vector
 * instructions for 64 rows, and the state of the rows stays in registers. (Related to QuickScorer, Lucchese et al.
 * 2015, and RapidScorer, Ye et al. 2018, but with a leaf number instead of one bit per leaf.)
 *
 * Codes in views are shifted by 128, because vector instructions compare signed bytes. Nodes that skip a single leaf,
 * and whose descendants do so too, come last: they add the result of the comparisons itself.
 *
 * Results are bit-identical at every level: LEVEL_PLAIN for any compiler and machine, LEVEL_AVX2 and LEVEL_AVX512 if
 * GCC or Clang can compile them and the processor supports them. */
#ifndef FASTENS_LEAFSCAN_H
#define FASTENS_LEAFSCAN_H

#include <stdint.h>
#include <string.h>

enum { SCAN_ROWS = 512, SCAN_TREES = 4, SET_BYTES = 32, LEVEL_PLAIN = 0, LEVEL_AVX2 = 1, LEVEL_AVX512 = 2 };

/* The time of a scan grows with the number of leaves, the time of a walk with the depth. In ns per row and tree, for 31
 * and for 255 leaves: AVX-512 takes 0.6 and 4.2, AVX2 1.1 and 5.3, the portable version with 16-byte vectors 2 and 14,
 * and a walk 10 and 17. Without vectors, the portable version takes 1.1 ns per leaf. A leaf number has 8 bits. */
#if defined(__GNUC__) || defined(__clang__)
enum { MAX_SCAN_LEAVES = 256 };
#else
enum { MAX_SCAN_LEAVES = 8 };
#endif

typedef struct {
    int32_t view;          /* index of an array of codes */
    int32_t set;           /* -1, or the index of the set of codes that go left: 256 bits */
    int8_t threshold;      /* shifted codes <= threshold go left; 0 if there is a set */
    uint8_t first_leaf;
    uint8_t left_leaves;
} ScanNode;

typedef struct {
    const ScanNode *nodes;
    int32_t n_nodes;
    int32_t n_skipping;    /* number of the first nodes, of which some skip several leaves */
    const double *values;  /* by leaf; at least 32 values are readable for any number of leaves */
} ScanTree;

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define FASTENS_X86_VECTORS
#include <immintrin.h>
#endif

/* ---------------------------------------------------------------- plain */

static inline int in_set(const uint8_t *set, int8_t code) {
    const uint8_t bit = (uint8_t)code ^ 128;
    return set[bit >> 3] >> (bit & 7) & 1;
}

#if defined(__GNUC__) || defined(__clang__)

typedef int8_t bytes16 __attribute__((vector_size(16)));

static void scan_plain(ScanTree tree, const int8_t *const *views, const uint8_t *sets, uint8_t *leaf) {
    for (int start = 0; start < SCAN_ROWS; start += 128) {
        bytes16 at[8] = {{0}};
        for (int32_t j = 0; j < tree.n_nodes; j++) {
            const ScanNode node = tree.nodes[j];
            const int8_t *codes = views[node.view] + start;
            int8_t right[128];
            bytes16 threshold = {0}, first_leaf = {0}, left_leaves = {0};
            threshold += node.threshold;
            first_leaf += (int8_t)node.first_leaf;
            left_leaves += (int8_t)node.left_leaves;
            if (node.set >= 0) {
                for (int r = 0; r < 128; r++) right[r] = !in_set(sets + (int64_t)node.set * SET_BYTES, codes[r]);
                codes = right;
            }
            for (int i = 0; i < 8; i++) {
                bytes16 x;
                memcpy(&x, codes + 16 * i, sizeof x);
                at[i] += left_leaves & (bytes16)(at[i] == first_leaf) & (bytes16)(x > threshold);
            }
        }
        memcpy(leaf + start, at, sizeof at);
    }
}

#else

static void scan_plain(ScanTree tree, const int8_t *const *views, const uint8_t *sets, uint8_t *leaf) {
    memset(leaf, 0, SCAN_ROWS);
    for (int32_t j = 0; j < tree.n_nodes; j++) {
        const ScanNode node = tree.nodes[j];
        const int8_t *codes = views[node.view];
        for (int r = 0; r < SCAN_ROWS; r++) {
            const int left =
                node.set >= 0 ? in_set(sets + (int64_t)node.set * SET_BYTES, codes[r]) : codes[r] <= node.threshold;
            if (leaf[r] == node.first_leaf && !left) leaf[r] = (uint8_t)(leaf[r] + node.left_leaves);
        }
    }
}

#endif

static void add_leaves_plain(ScanTree tree, const uint8_t *leaf, double *raw) {
    for (int r = 0; r < SCAN_ROWS; r++) raw[r] += tree.values[leaf[r]];
}

/* Adds SCAN_TREES trees in order, so that each sum is loaded and stored once. */
static void add_leaves_of_trees(const ScanTree *trees, const uint8_t *leaf, double *raw) {
    const double *first = trees[0].values, *second = trees[1].values, *third = trees[2].values, *last = trees[3].values;
    for (int r = 0; r < SCAN_ROWS; r++) {
        double sum = raw[r] + first[leaf[r]];
        sum += second[leaf[SCAN_ROWS + r]];
        sum += third[leaf[2 * SCAN_ROWS + r]];
        raw[r] = sum + last[leaf[3 * SCAN_ROWS + r]];
    }
}

/* ---------------------------------------------------------------- x86-64 */

#ifdef FASTENS_X86_VECTORS

__attribute__((target("avx2")))
static inline __m256i in_set_avx2(__m256i shifted, __m256i set_low, __m256i set_high) {
    const __m256i bit_of = _mm256_set1_epi64x((int64_t)0x8040201008040201ULL);
    const __m256i x = _mm256_xor_si256(shifted, _mm256_set1_epi8(-128));
    const __m256i byte = _mm256_and_si256(_mm256_srli_epi16(x, 3), _mm256_set1_epi8(15));
    const __m256i word = _mm256_blendv_epi8(
        _mm256_shuffle_epi8(set_low, byte), _mm256_shuffle_epi8(set_high, byte), x);
    const __m256i bit = _mm256_shuffle_epi8(bit_of, _mm256_and_si256(x, _mm256_set1_epi8(7)));
    return _mm256_cmpeq_epi8(_mm256_and_si256(word, bit), bit);
}

/* Writes 1 for the codes that go right at a node with a set, and 0 for the others. It is a separate function because
 * GCC would keep the results of both kinds of nodes in memory. */
__attribute__((target("avx2"), noinline))
static void right_of_set_avx2(const uint8_t *set, const int8_t *codes, int8_t *right) {
    const __m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)set));
    const __m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)set + 1));
    for (int r = 0; r < 256; r += 32) {
        const __m256i left = in_set_avx2(_mm256_loadu_si256((const __m256i *)(codes + r)), low, high);
        _mm256_storeu_si256((__m256i *)(right + r), _mm256_andnot_si256(left, _mm256_set1_epi8(1)));
    }
}

/* Eight vectors at a time share the broadcasts of a node: four took 15 % longer with 31 leaves, 21 % with 255. */
__attribute__((target("avx2"), always_inline))
static inline void visit_avx2(
    const ScanNode *node, const ScanNode *end, int skips_one, const int8_t *const *views, const uint8_t *sets,
    int start, __m256i *at) {
    int8_t right[256];
    for (; node < end; node++) {
        const int8_t *codes = views[node->view] + start;
        if (node->set >= 0) {
            right_of_set_avx2(sets + (int64_t)node->set * SET_BYTES, codes, right);
            codes = right;
        }
        const __m256i threshold = _mm256_set1_epi8(node->threshold);
        const __m256i first_leaf = _mm256_set1_epi8((char)node->first_leaf);
        const __m256i left_leaves = _mm256_set1_epi8((char)node->left_leaves);
        for (int i = 0; i < 8; i++) {
            const __m256i x = _mm256_loadu_si256((const __m256i *)codes + i);
            const __m256i here = _mm256_cmpeq_epi8(at[i], first_leaf);
            const __m256i moves = _mm256_and_si256(here, _mm256_cmpgt_epi8(x, threshold));
            at[i] = skips_one ? _mm256_sub_epi8(at[i], moves)
                              : _mm256_add_epi8(at[i], _mm256_and_si256(moves, left_leaves));
        }
    }
}

__attribute__((target("avx2")))
static void scan_avx2(ScanTree tree, const int8_t *const *views, const uint8_t *sets, uint8_t *leaf) {
    const ScanNode *skipping_one = tree.nodes + tree.n_skipping;
    for (int start = 0; start < SCAN_ROWS; start += 256) {
        __m256i at[8];
        at[0] = at[1] = at[2] = at[3] = at[4] = at[5] = at[6] = at[7] = _mm256_setzero_si256();
        visit_avx2(tree.nodes, skipping_one, 0, views, sets, start, at);
        visit_avx2(skipping_one, tree.nodes + tree.n_nodes, 1, views, sets, start, at);
        for (int i = 0; i < 8; i++) _mm256_storeu_si256((__m256i *)(leaf + start) + i, at[i]);
    }
}

__attribute__((target("avx512f,avx512bw")))
static inline __mmask64 not_in_set_avx512(__m512i shifted, __m512i set_low, __m512i set_high) {
    const __m512i bit_of = _mm512_set1_epi64((int64_t)0x8040201008040201ULL);
    const __m512i x = _mm512_xor_si512(shifted, _mm512_set1_epi8(-128));
    const __m512i byte = _mm512_and_si512(_mm512_srli_epi16(x, 3), _mm512_set1_epi8(15));
    const __m512i word = _mm512_mask_blend_epi8(
        _mm512_movepi8_mask(x), _mm512_shuffle_epi8(set_low, byte), _mm512_shuffle_epi8(set_high, byte));
    const __m512i bit = _mm512_shuffle_epi8(bit_of, _mm512_and_si512(x, _mm512_set1_epi8(7)));
    return _mm512_testn_epi8_mask(word, bit);
}

/* Eight vectors at a time: with fewer, the processor would stall on the latency of each node's addition. */
__attribute__((target("avx512f,avx512bw")))
static void scan_avx512(ScanTree tree, const int8_t *const *views, const uint8_t *sets, uint8_t *leaf) {
    /* initialised without a loop: GCC would turn the loop into memset and also keep the array in memory */
    __m512i at[8];
    at[0] = at[1] = at[2] = at[3] = at[4] = at[5] = at[6] = at[7] = _mm512_setzero_si512();
    for (int32_t j = 0; j < tree.n_nodes; j++) {
        const ScanNode node = tree.nodes[j];
        const int8_t *codes = views[node.view];
        const __m512i threshold = _mm512_set1_epi8(node.threshold);
        const __m512i first_leaf = _mm512_set1_epi8((char)node.first_leaf);
        const __m512i left_leaves = _mm512_set1_epi8((char)node.left_leaves);
        if (node.set < 0) {
            for (int i = 0; i < 8; i++) {
                const __m512i x = _mm512_loadu_si512(codes + 64 * i);
                const __mmask64 here = _mm512_cmpeq_epi8_mask(at[i], first_leaf);
                at[i] = _mm512_mask_add_epi8(at[i], _mm512_mask_cmpgt_epi8_mask(here, x, threshold), at[i], left_leaves);
            }
        } else {
            const __m128i *set = (const __m128i *)(sets + (int64_t)node.set * SET_BYTES);
            const __m512i low = _mm512_broadcast_i32x4(_mm_loadu_si128(set));
            const __m512i high = _mm512_broadcast_i32x4(_mm_loadu_si128(set + 1));
            for (int i = 0; i < 8; i++) {
                const __m512i x = _mm512_loadu_si512(codes + 64 * i);
                const __mmask64 here = _mm512_cmpeq_epi8_mask(at[i], first_leaf);
                at[i] = _mm512_mask_add_epi8(at[i], here & not_in_set_avx512(x, low, high), at[i], left_leaves);
            }
        }
    }
    for (int i = 0; i < 8; i++) _mm512_storeu_si512(leaf + 64 * i, at[i]);
}

/* Up to 32 leaf values fit in four registers and are looked up there. */
__attribute__((target("avx512f,avx512bw")))
static void add_leaves_avx512(ScanTree tree, const uint8_t *leaf, double *raw) {
    if (tree.n_nodes > 31) {
        add_leaves_plain(tree, leaf, raw);
        return;
    }
    __m512d v[4];
    for (int i = 0; i < 4; i++) v[i] = _mm512_loadu_pd(tree.values + 8 * i);
    for (int r = 0; r < SCAN_ROWS; r += 8) {
        const __m512i at = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(leaf + r)));
        const __m512d low = _mm512_permutex2var_pd(v[0], at, v[1]);
        const __m512d high = _mm512_permutex2var_pd(v[2], at, v[3]);
        const __mmask8 is_high = _mm512_test_epi64_mask(at, _mm512_set1_epi64(16));
        _mm512_storeu_pd(raw + r, _mm512_add_pd(_mm512_loadu_pd(raw + r), _mm512_mask_blend_pd(is_high, low, high)));
    }
}

#endif /* FASTENS_X86_VECTORS */

/* ---------------------------------------------------------------- dispatch */

/* Returns the best level of this machine. */
static inline int best_scan_level(void) {
#ifdef FASTENS_X86_VECTORS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return LEVEL_AVX512;
    if (__builtin_cpu_supports("avx2")) return LEVEL_AVX2;
#endif
    return LEVEL_PLAIN;
}

/* Shifts SCAN_ROWS codes by 128, or back; `shifted` may be the codes themselves. */
static inline void shift_view(const uint8_t *codes, uint8_t *shifted) {
    for (int r = 0; r < SCAN_ROWS; r += 8) {
        uint64_t eight;
        memcpy(&eight, codes + r, 8);
        eight ^= 0x8080808080808080ULL;
        memcpy(shifted + r, &eight, 8);
    }
}

/* Finds the leaves of SCAN_ROWS rows in one tree. */
static inline void scan_leaves(
    int level, ScanTree tree, const int8_t *const *views, const uint8_t *sets, uint8_t *leaf) {
#ifdef FASTENS_X86_VECTORS
    if (level == LEVEL_AVX512) { scan_avx512(tree, views, sets, leaf); return; }
    if (level == LEVEL_AVX2) { scan_avx2(tree, views, sets, leaf); return; }
#else
    (void)level;
#endif
    scan_plain(tree, views, sets, leaf);
}

/* Adds the values of the leaves of 1 to SCAN_TREES trees to the raw predictions of the rows, in order. */
static inline void add_leaves(int level, const ScanTree *trees, int n, const uint8_t *leaf, double *raw) {
#ifdef FASTENS_X86_VECTORS
    if (level == LEVEL_AVX512) {
        for (int t = 0; t < n; t++) add_leaves_avx512(trees[t], leaf + SCAN_ROWS * t, raw);
        return;
    }
#else
    (void)level;
#endif
    if (n == SCAN_TREES) {
        add_leaves_of_trees(trees, leaf, raw);
        return;
    }
    for (int t = 0; t < n; t++) add_leaves_plain(trees[t], leaf + SCAN_ROWS * t, raw);
}

#endif /* FASTENS_LEAFSCAN_H */
