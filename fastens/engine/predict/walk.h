/* Walks from the root to the leaf, for trees that are too large to scan (leafscan.h).
 *
 * A node is one word, so a step consists of loading the node, loading the row's code, a comparison and an addition,
 * without a branch:
 *
 *     bits 48-63 test: codes above it go right, which are the larger words once shifted to the same bits
 *     bits 16-47 left child, numbered over all trees; the right child is the next node
 *     bits  0-15 view: index of the code that the node reads
 *
 * A leaf is its own left child and never sends a code right, so a walk may take more steps than necessary. Many rows
 * walk together for a fixed number of steps, without a check for arrival. Then only the rows that have not arrived
 * continue, because the depths of leaves differ widely. asv_benchmarks/compare_deep_predict.py measures the effect. */
#ifndef FASTENS_WALK_H
#define FASTENS_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "engine/dispatch.h"
#include "engine/splits/goes_left.h"

enum { TEST_SHIFT = 48, CHILD_SHIFT = 16, MAX_NARROW_VIEWS = 1 << 16, WALK_LANES = 8 };

/* The nodes of all trees, one tree after another. */
typedef struct {
    const uint64_t *words;
    /* By node. NULL if no tree splits on categories and the word has enough bits for all views of the ensemble: */
    const int32_t *views;
    const int32_t *sets;        /* -1, or the first word of the set of codes that go left */
    const uint32_t *set_words;
} Nodes;

/* A tree: its root, the raw column of its values (the first one if it has a value for each column), and the number
 * of steps that rows take together. A plain tree needs only the words. */
typedef struct {
    uint32_t root;
    int32_t output;
    uint16_t first_steps, more_steps;
    int32_t is_plain;
} Walk;

/* The codes of rows: records with one code for each view, or one array for each view. */
typedef struct {
    const char *records;
    ptrdiff_t stride;           /* bytes between consecutive records */
    const void *const *views;   /* NULL if there are records */
} Codes;

/* ------------------------------------------------------------------------------------------------------------ steps */

FASTENS_INLINE uint32_t code_in(const void *codes, ptrdiff_t index, int code_size)
{
    return code_size == 1 ? ((const uint8_t *)codes)[index] : ((const uint16_t *)codes)[index];
}

FASTENS_INLINE uint32_t view_of(const Nodes *nodes, uint32_t at, int is_plain)
{
    return is_plain ? (uint16_t)nodes->words[at] : (uint32_t)nodes->views[at];
}

/* Returns the child for a code, passed as a key: shifted to the bits of the test. */
FASTENS_INLINE uint32_t child_of(const Nodes *nodes, uint32_t at, uint64_t key, int is_plain)
{
    const uint64_t word = nodes->words[at];
    const uint32_t left = (uint32_t)(word >> CHILD_SHIFT);
    if (!is_plain && nodes->sets[at] >= 0)
        return left + !set_has(nodes->set_words + nodes->sets[at], (uint32_t)(key >> TEST_SHIFT));
    return left + (key > word);
}

FASTENS_INLINE int is_leaf(const Nodes *nodes, uint32_t at) { return (uint32_t)(nodes->words[at] >> CHILD_SHIFT) == at; }

/* ------------------------------------------------------------------------------------------------------- many rows */

/* GCC would split a record's address into two sums and recompute one of them in each step. */
#if defined(__GNUC__) || defined(__clang__)
#define KEEP_WHOLE(pointer) __asm__("" : "+r"(pointer));
#else
#define KEEP_WHOLE(pointer)
#endif

FASTENS_INLINE uint32_t step_from(
    const Nodes *nodes, const Codes *codes, const char *record, uint32_t row, uint32_t at, int kind)
{
    const int code_size = kind & 1 ? 2 : 1, by_view = kind & 2, is_plain = !(kind & 4);
    const uint32_t view = view_of(nodes, at, is_plain);
    const uint64_t code = by_view ? code_in(codes->views[view], row, code_size) : code_in(record, view, code_size);
    return child_of(nodes, at, code << TEST_SHIFT, is_plain);
}

/* Takes some steps for the rows of eight lanes. Unrolled by hand, because compilers would keep an array in memory. */
FASTENS_INLINE void take_steps(
    const Nodes *all, const Codes *codes, const uint32_t *row, uint32_t *at, int n_steps, int kind)
{
    const Nodes nodes = *all;
#define LANE(i)                                                             \
    const uint32_t row##i = row[i];                                         \
    const char *record##i = codes->records + (ptrdiff_t)row##i * codes->stride; \
    KEEP_WHOLE(record##i)                                                   \
    uint32_t at##i = at[row##i];
#define STEP(i) at##i = step_from(&nodes, codes, record##i, row##i, at##i, kind);
    LANE(0) LANE(1) LANE(2) LANE(3) LANE(4) LANE(5) LANE(6) LANE(7)
    for (int step = 0; step < n_steps; step++) {
        STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
    }
    at[row0] = at0; at[row1] = at1; at[row2] = at2; at[row3] = at3;
    at[row4] = at4; at[row5] = at5; at[row6] = at6; at[row7] = at7;
#undef LANE
#undef STEP
}

/* Finds the leaf of each of n_rows > 0 rows. `waiting` is a buffer for the rows that have not arrived. */
FASTENS_INLINE void walk_rows_loop(
    const Nodes *nodes, const Walk *walk, const Codes *codes, uint32_t n_rows, uint32_t *at, uint32_t *waiting,
    int kind)
{
    uint32_t n_waiting = n_rows;
    int n_steps = walk->first_steps;
    for (uint32_t r = 0; r < n_rows; r++) {
        at[r] = walk->root;
        waiting[r] = r;
    }
    while (n_waiting > 0) {
        uint32_t still = 0;
        for (uint32_t first = 0; first < n_waiting; first += WALK_LANES) {
            const uint32_t n = n_waiting - first < WALK_LANES ? n_waiting - first : WALK_LANES;
            uint32_t row_at[WALK_LANES];
            for (uint32_t i = 0; i < WALK_LANES; i++)
                row_at[i] = waiting[first + (i < n ? i : n - 1)];
            take_steps(nodes, codes, row_at, at, n_steps, kind);
            for (uint32_t i = 0; i < n; i++) {
                waiting[still] = row_at[i];
                still += !is_leaf(nodes, at[row_at[i]]);
            }
        }
        n_waiting = still;
        n_steps = walk->more_steps;
    }
}

static inline void walk_rows(
    const Nodes *nodes, const Walk *walk, const Codes *codes, int code_size, uint32_t n_rows, uint32_t *at,
    uint32_t *waiting)
{
    switch ((code_size == 2) | (codes->views != NULL) << 1 | !walk->is_plain << 2) {
    case 0: walk_rows_loop(nodes, walk, codes, n_rows, at, waiting, 0); break;
    case 1: walk_rows_loop(nodes, walk, codes, n_rows, at, waiting, 1); break;
    case 2: walk_rows_loop(nodes, walk, codes, n_rows, at, waiting, 2); break;
    case 3: walk_rows_loop(nodes, walk, codes, n_rows, at, waiting, 3); break;
    case 4: walk_rows_loop(nodes, walk, codes, n_rows, at, waiting, 4); break;
    case 5: walk_rows_loop(nodes, walk, codes, n_rows, at, waiting, 5); break;
    case 6: walk_rows_loop(nodes, walk, codes, n_rows, at, waiting, 6); break;
    default: walk_rows_loop(nodes, walk, codes, n_rows, at, waiting, 7);
    }
}

/* ---------------------------------------------------------------------------------------------------------- one row */

/* In most boosted trees, rows usually reach a leaf after a few steps: on 1000 LightGBM trees of 31 leaves, a row took
 * 2.2 steps on average, while the deepest leaves were 11 steps away. */
enum { TREE_STEPS = 3, MAX_TREE_STEPS = 12 };

/* Moves one row by n_steps nodes in each of eight trees. */
FASTENS_INLINE void take_tree_steps(
    const Nodes *all, const Codes *codes, const uint32_t *tree, uint32_t *at, int n_steps, int kind)
{
    const Nodes nodes = *all;
#define LANE(i) uint32_t at##i = at[tree[i]];
#define STEP(i) at##i = step_from(&nodes, codes, codes->records, 0, at##i, kind);
    LANE(0) LANE(1) LANE(2) LANE(3) LANE(4) LANE(5) LANE(6) LANE(7)
    for (int step = 0; step < n_steps; step++) {
        STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
    }
    at[tree[0]] = at0; at[tree[1]] = at1; at[tree[2]] = at2; at[tree[3]] = at3;
    at[tree[4]] = at4; at[tree[5]] = at5; at[tree[6]] = at6; at[tree[7]] = at7;
#undef LANE
#undef STEP
}

/* Finds the leaves of one row in several trees at once, because otherwise memory latency would dominate. `waiting`
 * has space for WALK_LANES extra entries: it holds the trees whose walks have not arrived. */
FASTENS_INLINE void walk_trees_loop(
    const Nodes *nodes, const Walk *walks, uint32_t n_trees, const Codes *codes, uint32_t *at, uint32_t *waiting,
    int kind)
{
    uint32_t n_waiting = n_trees, round = 0;
    for (uint32_t t = 0; t < n_trees; t++) {
        at[t] = walks[t].root;
        waiting[t] = t;
    }
    for (int n_steps = TREE_STEPS; n_waiting > 0; round++) {
        uint32_t still = 0;
        for (uint32_t i = 0; i < WALK_LANES; i++)
            waiting[n_waiting + i] = waiting[n_waiting - 1];
        for (uint32_t first = 0; first < n_waiting; first += WALK_LANES) {
            uint32_t tree[WALK_LANES];
            for (uint32_t i = 0; i < WALK_LANES; i++)
                tree[i] = waiting[first + i];
            take_tree_steps(nodes, codes, tree, at, n_steps, kind);
            for (uint32_t i = 0; i < WALK_LANES; i++) {
                waiting[still] = tree[i];
                still += first + i < n_waiting && !is_leaf(nodes, at[tree[i]]);
            }
        }
        n_waiting = still;
        if (round > 0 && n_steps < MAX_TREE_STEPS)
            n_steps *= 2;
    }
}

static inline void walk_trees(
    const Nodes *nodes, const Walk *walks, int n_trees, const Codes *codes, int code_size, uint32_t *at,
    uint32_t *waiting)
{
    switch ((code_size == 2) | (nodes->views != NULL) << 2) {
    case 0: walk_trees_loop(nodes, walks, (uint32_t)n_trees, codes, at, waiting, 0); break;
    case 1: walk_trees_loop(nodes, walks, (uint32_t)n_trees, codes, at, waiting, 1); break;
    case 4: walk_trees_loop(nodes, walks, (uint32_t)n_trees, codes, at, waiting, 4); break;
    default: walk_trees_loop(nodes, walks, (uint32_t)n_trees, codes, at, waiting, 5);
    }
}

#endif
