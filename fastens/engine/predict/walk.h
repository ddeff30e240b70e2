/*
 * Walks from the root to the leaf, for trees too large to scan (leafscan.h).
 *
 * A node is one word, so that a step is one load of the node, one of the row's code and an add without a branch:
 *
 *     bits 48-63 view: which code of the row to look at
 *     bits 32-47 test: codes above it go right
 *     bits  0-31 left child, counted inside the tree; the right child is the node after it
 *
 * A leaf is its own left child and sends no code to the right, so a walk may take more steps than it needs. Many rows
 * walk together, some steps at a time without a look at who has arrived; then only those that have not go on. Measured
 * on trees of 15 000 leaves at a mean depth of 20, ns per row and tree: 8 rows until the last one arrives 21 to 24,
 * in this way 17 to 18, the same with gathers of AVX2 and AVX-512 over 100 and 36.
 */
#ifndef FASTENS_WALK_H
#define FASTENS_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "engine/dispatch.h"
#include "engine/splits/goes_left.h"

enum { VIEW_SHIFT = 48, TEST_SHIFT = 32, MAX_NARROW_VIEWS = 1 << 16, WALK_LANES = 8, TREE_LANES = 16 };

typedef struct {
    const uint64_t *nodes;
    /* By node, where a tree splits on categories or the ensemble has more views than a word can name; NULL elsewhere: */
    const int32_t *views;
    const int32_t *sets;        /* -1, or the first word of the set of codes that go left */
    const uint32_t *words;
    int first_steps, more_steps;
} Walk;

/* The codes of rows: rows of a table, one code for each view, or an array for each view. */
typedef struct {
    const char *records;
    ptrdiff_t stride;           /* bytes from one record to the next */
    const void *const *views;   /* NULL where there are records */
} Codes;

/* ------------------------------------------------------------------------------------------------------------ steps */

FASTENS_INLINE uint32_t code_in(const void *codes, ptrdiff_t index, int code_size)
{
    return code_size == 1 ? ((const uint8_t *)codes)[index] : ((const uint16_t *)codes)[index];
}

FASTENS_INLINE uint32_t view_of(const Walk *walk, uint32_t at, int is_plain)
{
    return is_plain ? (uint32_t)(walk->nodes[at] >> VIEW_SHIFT) : (uint32_t)walk->views[at];
}

FASTENS_INLINE uint32_t child_of(const Walk *walk, uint32_t at, uint32_t code, int is_plain)
{
    const uint64_t node = walk->nodes[at];
    if (!is_plain && walk->sets[at] >= 0)
        return (uint32_t)node + !set_has(walk->words + walk->sets[at], code);
    return (uint32_t)node + (code > (uint16_t)(node >> TEST_SHIFT));
}

/* ------------------------------------------------------------------------------------------------------- many rows */

/* GCC would split a record's address into two sums, one of them made again in each step. */
#if defined(__GNUC__) || defined(__clang__)
#define KEEP_WHOLE(pointer) __asm__("" : "+r"(pointer));
#else
#define KEEP_WHOLE(pointer)
#endif

FASTENS_INLINE uint32_t step_from(
    const Walk *walk, const Codes *codes, const char *record, uint32_t row, uint32_t at, int kind)
{
    const int code_size = kind & 1 ? 2 : 1, by_view = kind & 2, is_plain = !(kind & 4);
    const uint32_t view = view_of(walk, at, is_plain);
    const uint32_t code = by_view ? code_in(codes->views[view], row, code_size) : code_in(record, view, code_size);
    return child_of(walk, at, code, is_plain);
}

/* Let the rows of eight lanes take some steps. Spelt out: compilers keep the elements of an array in memory. */
FASTENS_INLINE void take_steps(
    const Walk *tree, const Codes *codes, const uint32_t *row, uint32_t *at, int n_steps, int kind)
{
    const Walk walk = *tree;
#define LANE(i)                                                             \
    const uint32_t row##i = row[i];                                         \
    const char *record##i = codes->records + (ptrdiff_t)row##i * codes->stride; \
    KEEP_WHOLE(record##i)                                                   \
    uint32_t at##i = at[row##i];
#define STEP(i) at##i = step_from(&walk, codes, record##i, row##i, at##i, kind);
    LANE(0) LANE(1) LANE(2) LANE(3) LANE(4) LANE(5) LANE(6) LANE(7)
    for (int step = 0; step < n_steps; step++) {
        STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
    }
    at[row0] = at0; at[row1] = at1; at[row2] = at2; at[row3] = at3;
    at[row4] = at4; at[row5] = at5; at[row6] = at6; at[row7] = at7;
#undef LANE
#undef STEP
}

FASTENS_INLINE int is_leaf(const Walk *walk, uint32_t at) { return (uint32_t)walk->nodes[at] == at; }

/* The leaf of each of n_rows > 0 rows. `waiting` has room for them: those that have not arrived. */
FASTENS_INLINE void walk_rows_loop(
    const Walk *walk, const Codes *codes, uint32_t n_rows, uint32_t *at, uint32_t *waiting, int kind)
{
    uint32_t n_waiting = n_rows;
    int n_steps = walk->first_steps;
    for (uint32_t r = 0; r < n_rows; r++) {
        at[r] = 0;
        waiting[r] = r;
    }
    while (n_waiting > 0) {
        uint32_t still = 0;
        for (uint32_t first = 0; first < n_waiting; first += WALK_LANES) {
            const uint32_t n = n_waiting - first < WALK_LANES ? n_waiting - first : WALK_LANES;
            uint32_t row_at[WALK_LANES];
            for (uint32_t i = 0; i < WALK_LANES; i++)
                row_at[i] = waiting[first + (i < n ? i : n - 1)];
            take_steps(walk, codes, row_at, at, n_steps, kind);
            for (uint32_t i = 0; i < n; i++) {
                waiting[still] = row_at[i];
                still += !is_leaf(walk, at[row_at[i]]);
            }
        }
        n_waiting = still;
        n_steps = walk->more_steps;
    }
}

static inline void walk_rows(
    const Walk *walk, const Codes *codes, int code_size, uint32_t n_rows, uint32_t *at, uint32_t *waiting)
{
    switch ((code_size == 2) | (codes->views != NULL) << 1 | (walk->views != NULL) << 2) {
    case 0: walk_rows_loop(walk, codes, n_rows, at, waiting, 0); break;
    case 1: walk_rows_loop(walk, codes, n_rows, at, waiting, 1); break;
    case 2: walk_rows_loop(walk, codes, n_rows, at, waiting, 2); break;
    case 3: walk_rows_loop(walk, codes, n_rows, at, waiting, 3); break;
    case 4: walk_rows_loop(walk, codes, n_rows, at, waiting, 4); break;
    case 5: walk_rows_loop(walk, codes, n_rows, at, waiting, 5); break;
    case 6: walk_rows_loop(walk, codes, n_rows, at, waiting, 6); break;
    default: walk_rows_loop(walk, codes, n_rows, at, waiting, 7);
    }
}

/* ---------------------------------------------------------------------------------------------------------- one row */

/* The leaves of one row in up to TREE_LANES trees, all together: most of the time goes into waiting for memory. */
FASTENS_INLINE void walk_trees_loop(
    const Walk *walks, int n_trees, const void *record, int code_size, uint32_t *leaves)
{
    const Walk *walk[TREE_LANES];
    uint32_t a[TREE_LANES] = {0}, moved = 1;
    for (int i = 0; i < TREE_LANES; i++)
        walk[i] = walks + (i < n_trees ? i : n_trees - 1);
    while (moved) {
        moved = 0;
        for (int i = 0; i < TREE_LANES; i++) {
            const int is_plain = walk[i]->views == NULL;
            const uint32_t code = code_in(record, view_of(walk[i], a[i], is_plain), code_size);
            const uint32_t next = child_of(walk[i], a[i], code, is_plain);
            moved |= next ^ a[i];
            a[i] = next;
        }
    }
    for (int i = 0; i < n_trees; i++)
        leaves[i] = a[i];
}

static inline void walk_trees(const Walk *walks, int n_trees, const void *record, int code_size, uint32_t *leaves)
{
    if (code_size == 1)
        walk_trees_loop(walks, n_trees, record, 1, leaves);
    else
        walk_trees_loop(walks, n_trees, record, 2, leaves);
}

#endif
