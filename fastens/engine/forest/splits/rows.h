/* Loops over the rows of a node in a tree of a forest: count codes, collect the counts, partition the rows.
 *
 * A cell holds the sums of the rows with one code in `n_words` words. A row adds one word, at its offset in the
 * cell. Cells are zero between uses: collecting clears them, so the cost of a node depends on the codes that occur
 * in it rather than on the number of possible codes. */
#ifndef FASTENS_FOREST_ROWS_H
#define FASTENS_FOREST_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

#include "engine/bits.h"
#include "engine/dispatch.h"
#include "engine/splits/goes_left.h"

typedef struct {
    uint32_t row;
    uint32_t offset; /* position of the word in a cell, determined by the row's class */
    uint64_t word;   /* word that is added to the cell for this row */
} Entry;

/* The codes of one feature: the code of a row is codes[row * stride]. */
typedef struct {
    const void* codes;
    ptrdiff_t stride;
} CodeColumn;

/* A feature's cells, one bit for each code that was counted, and one bit for each non-zero word of these bits. */
typedef struct {
    uint64_t* cells;
    uint64_t* marks;
    uint64_t* summary;
} Cells;

enum { FEATURES_AT_ONCE = 4, ENTRIES_AHEAD = 16 };

#if defined(__GNUC__) || defined(__clang__)
#define FASTENS_PREFETCH_ROW(address) __builtin_prefetch(address)
#else
#define FASTENS_PREFETCH_ROW(address)
#endif

/* One pass over the rows for up to FEATURES_AT_ONCE features. All arguments except the first four are constants. */
#define FASTENS_COUNT_ROWS(code_t)                                                                               \
    FASTENS_INLINE void count_rows_##code_t(const CodeColumn* columns, const Cells* to, const Entry* rows,       \
                                            ptrdiff_t n_rows, ptrdiff_t n_words, int n_columns, int marked)      \
    {                                                                                                            \
        const ptrdiff_t stride = columns[0].stride;                                                              \
        const code_t* codes[FEATURES_AT_ONCE];                                                                   \
        Cells at[FEATURES_AT_ONCE];                                                                              \
        for (int j = 0; j < n_columns; j++) {                                                                    \
            codes[j] = (const code_t*)columns[j].codes;                                                          \
            at[j] = to[j];                                                                                       \
        }                                                                                                        \
        for (ptrdiff_t i = 0; i < n_rows; i++) {                                                                 \
            const ptrdiff_t place = (ptrdiff_t)rows[i].row * stride;                                             \
            const uint64_t word = rows[i].word;                                                                  \
            const ptrdiff_t offset = n_words == 1 ? 0 : rows[i].offset;                                          \
            if (!marked && i + ENTRIES_AHEAD < n_rows)                                                           \
                FASTENS_PREFETCH_ROW(&codes[0][(ptrdiff_t)rows[i + ENTRIES_AHEAD].row * stride]);                \
            for (int j = 0; j < n_columns; j++) {                                                                \
                const uint32_t code = codes[j][place];                                                           \
                at[j].cells[code * n_words + offset] += word;                                                    \
                if (marked) {                                                                                    \
                    at[j].marks[code >> 6] |= (uint64_t)1 << (code & 63);                                        \
                    if (sizeof(code_t) > 1)                                                                      \
                        at[j].summary[code >> 12] |= (uint64_t)1 << (code >> 6 & 63);                            \
                }                                                                                                \
            }                                                                                                    \
        }                                                                                                        \
    }                                                                                                            \
    FASTENS_INLINE void count_columns_##code_t(const CodeColumn* columns, const Cells* to, const Entry* rows,    \
                                               ptrdiff_t n_rows, ptrdiff_t n_words, int n_columns, int marked)   \
    {                                                                                                            \
        switch (n_columns) {                                                                                     \
        case 1: count_rows_##code_t(columns, to, rows, n_rows, n_words, 1, marked); return;                      \
        case 2: count_rows_##code_t(columns, to, rows, n_rows, n_words, 2, marked); return;                      \
        case 3: count_rows_##code_t(columns, to, rows, n_rows, n_words, 3, marked); return;                      \
        default: count_rows_##code_t(columns, to, rows, n_rows, n_words, 4, marked);                             \
        }                                                                                                        \
    }                                                                                                            \
    static void count_##code_t(const CodeColumn* columns, const Cells* to, const Entry* rows, ptrdiff_t n_rows,  \
                               ptrdiff_t n_words, int n_columns, int marked)                                     \
    {                                                                                                            \
        if (n_words == 1 && marked)                                                                              \
            count_columns_##code_t(columns, to, rows, n_rows, 1, n_columns, 1);                                  \
        else if (n_words == 1)                                                                                   \
            count_columns_##code_t(columns, to, rows, n_rows, 1, n_columns, 0);                                  \
        else if (marked)                                                                                         \
            count_columns_##code_t(columns, to, rows, n_rows, n_words, n_columns, 1);                            \
        else                                                                                                     \
            count_columns_##code_t(columns, to, rows, n_rows, n_words, n_columns, 0);                            \
    }

FASTENS_COUNT_ROWS(uint8_t)
FASTENS_COUNT_ROWS(uint16_t)

/* Counts the rows of a node for up to FEATURES_AT_ONCE features. */
static inline void count_entries(int code_size, const CodeColumn* columns, const Cells* to, const Entry* rows,
                                 ptrdiff_t n_rows, ptrdiff_t n_words, int n_columns, int marked)
{
    if (code_size == 1)
        count_uint8_t(columns, to, rows, n_rows, n_words, n_columns, marked);
    else
        count_uint16_t(columns, to, rows, n_rows, n_words, n_columns, marked);
}

static inline uint32_t code_at(int code_size, const CodeColumn* column, uint32_t row)
{
    const ptrdiff_t place = (ptrdiff_t)row * column->stride;
    return code_size == 1 ? ((const uint8_t*)column->codes)[place] : ((const uint16_t*)column->codes)[place];
}

FASTENS_INLINE void take_cell(uint64_t* cell, ptrdiff_t n_words, uint64_t* found)
{
    for (ptrdiff_t k = 0; k < n_words; k++) {
        found[k] = cell[k];
        cell[k] = 0;
    }
}

/* Writes the codes that occur, in ascending order, and the words of their cells, which are cleared; returns their
 * number. If codes were not marked, a code occurs if its words are not all zero. */
FASTENS_INLINE int32_t collect_every(const Cells* from, int32_t n_codes, ptrdiff_t n_words, uint16_t* codes,
                                     uint64_t* found)
{
    uint64_t* const cells = from->cells;
    ptrdiff_t n = 0;
    for (ptrdiff_t code = 0; code < n_codes; code++) {
        uint64_t any = 0;
        for (ptrdiff_t k = 0; k < n_words; k++)
            any |= cells[code * n_words + k];
        codes[n] = (uint16_t)code;
        take_cell(cells + code * n_words, n_words, found + n * n_words);
        n += any != 0;
    }
    return (int32_t)n;
}

static inline int32_t collect_all(const Cells* from, int32_t n_codes, ptrdiff_t n_words, uint16_t* codes, uint64_t* found)
{
    if (n_words == 1)
        return collect_every(from, n_codes, 1, codes, found);
    return collect_every(from, n_codes, n_words, codes, found);
}

FASTENS_INLINE ptrdiff_t collect_word(uint64_t* cells, uint64_t bits, uint32_t first, ptrdiff_t n, ptrdiff_t n_words,
                                      uint16_t* codes, uint64_t* found)
{
    while (bits) {
        const uint32_t code = first + (uint32_t)lowest_bit(bits);
        bits &= bits - 1;
        codes[n] = (uint16_t)code;
        take_cell(cells + code * n_words, n_words, found + n * n_words);
        n++;
    }
    return n;
}

FASTENS_INLINE int32_t collect_bits(const Cells* from, int code_size, ptrdiff_t n_words, uint16_t* codes,
                                    uint64_t* found)
{
    uint64_t* const marks = from->marks;
    ptrdiff_t n = 0;
    if (code_size == 1) {
        for (uint32_t word = 0; word < 4; word++) {
            n = collect_word(from->cells, marks[word], word * 64, n, n_words, codes, found);
            marks[word] = 0;
        }
        return (int32_t)n;
    }
    for (uint32_t part = 0; part < 16; part++) {
        for (uint64_t bits = from->summary[part]; bits; bits &= bits - 1) {
            const uint32_t word = part * 64 + (uint32_t)lowest_bit(bits);
            n = collect_word(from->cells, marks[word], word * 64, n, n_words, codes, found);
            marks[word] = 0;
        }
        from->summary[part] = 0;
    }
    return (int32_t)n;
}

static inline int32_t collect_marked(const Cells* from, int code_size, ptrdiff_t n_words, uint16_t* codes, uint64_t* found)
{
    if (n_words == 1)
        return collect_bits(from, code_size, 1, codes, found);
    return collect_bits(from, code_size, n_words, codes, found);
}

/* Copies the codes of a node's rows for up to FEATURES_AT_ONCE features, which are `room` codes apart in the output. */
#define FASTENS_READ_ROWS(code_t)                                                                                \
    FASTENS_INLINE void read_rows_##code_t(const CodeColumn* columns, const Entry* rows, ptrdiff_t n_rows,       \
                                           int n_columns, code_t* out, ptrdiff_t room)                           \
    {                                                                                                            \
        const ptrdiff_t stride = columns[0].stride;                                                              \
        const code_t* codes[FEATURES_AT_ONCE];                                                                   \
        for (int j = 0; j < n_columns; j++)                                                                      \
            codes[j] = (const code_t*)columns[j].codes;                                                          \
        for (ptrdiff_t i = 0; i < n_rows; i++) {                                                                 \
            const ptrdiff_t place = (ptrdiff_t)rows[i].row * stride;                                             \
            if (i + ENTRIES_AHEAD < n_rows)                                                                      \
                FASTENS_PREFETCH_ROW(&codes[0][(ptrdiff_t)rows[i + ENTRIES_AHEAD].row * stride]);                \
            for (int j = 0; j < n_columns; j++)                                                                  \
                out[j * room + i] = codes[j][place];                                                             \
        }                                                                                                        \
    }                                                                                                            \
    static void read_##code_t(const CodeColumn* columns, const Entry* rows, ptrdiff_t n_rows, int n_columns,     \
                              void* out, ptrdiff_t room)                                                         \
    {                                                                                                            \
        switch (n_columns) {                                                                                     \
        case 1: read_rows_##code_t(columns, rows, n_rows, 1, (code_t*)out, room); return;                        \
        case 2: read_rows_##code_t(columns, rows, n_rows, 2, (code_t*)out, room); return;                        \
        case 3: read_rows_##code_t(columns, rows, n_rows, 3, (code_t*)out, room); return;                        \
        default: read_rows_##code_t(columns, rows, n_rows, 4, (code_t*)out, room);                               \
        }                                                                                                        \
    }

FASTENS_READ_ROWS(uint8_t)
FASTENS_READ_ROWS(uint16_t)

/* Number of the next WINDOW ascending values that are at most `limit`. */
enum { WINDOW = 8 };

/* Not inlined, because the compiler would unroll it inside a loop before it tries to vectorise it. */
FASTENS_NOINLINE int32_t count_up_to(const double* values, double limit)
{
    int32_t n = 0;
    for (int k = 0; k < WINDOW; k++)
        n += values[k] <= limit;
    return n;
}

/* The smallest and the largest code, except for missing values (0). */
typedef struct {
    uint32_t smallest, largest;
    int has_missing;
} CodeRange;

/* Sums on the left of a threshold: the words of rows with 1 <= code <= last, and of code 0 if missing_left. */
#define FASTENS_ONE_THRESHOLD(code_t)                                                                            \
    FASTENS_INLINE void range_##code_t##_loop(const code_t* codes, ptrdiff_t n_rows, CodeRange* range)           \
    {                                                                                                            \
        /* One less than the code, so that missing becomes the largest value. */                                      \
        code_t smallest = (code_t)-1, largest = 0, lowest = (code_t)-1;                                          \
        for (ptrdiff_t i = 0; i < n_rows; i++) {                                                                 \
            const code_t less = (code_t)(codes[i] - 1);                                                          \
            smallest = less < smallest ? less : smallest;                                                        \
            lowest = codes[i] < lowest ? codes[i] : lowest;                                                      \
            largest = codes[i] > largest ? codes[i] : largest;                                                   \
        }                                                                                                        \
        range->smallest = smallest + 1u;                                                                         \
        range->largest = largest;                                                                                \
        range->has_missing = lowest == 0;                                                                        \
    }                                                                                                            \
    FASTENS_INLINE void sum_##code_t##_loop(const code_t* codes, const uint64_t* words, ptrdiff_t n_rows,        \
                                            uint32_t last, uint32_t missing_left, uint64_t* result)              \
    {                                                                                                            \
        const code_t shift = (code_t)(1 - missing_left), limit = (code_t)(last - shift);                         \
        uint64_t sum = 0;                                                                                        \
        for (ptrdiff_t i = 0; i < n_rows; i++)                                                                   \
            sum += words[i] & (0 - (uint64_t)up_to_##code_t(codes[i], shift, limit));                            \
        *result = sum;                                                                                           \
    }                                                                                                            \
    static void add_##code_t(const code_t* codes, const Entry* rows, ptrdiff_t n_rows, uint32_t last,            \
                             uint32_t missing_left, uint64_t* words)                                             \
    {                                                                                                            \
        const code_t shift = (code_t)(1 - missing_left), limit = (code_t)(last - shift);                         \
        for (ptrdiff_t i = 0; i < n_rows; i++)                                                                   \
            words[rows[i].offset] += rows[i].word & (0 - (uint64_t)up_to_##code_t(codes[i], shift, limit));      \
    }                                                                                                            \
    FASTENS_CHOOSE(range_##code_t, (const code_t* codes, ptrdiff_t n_rows, CodeRange* range),                    \
                   (codes, n_rows, range))                                                                       \
    FASTENS_CHOOSE(sum_##code_t,                                                                                 \
                   (const code_t* codes, const uint64_t* words, ptrdiff_t n_rows, uint32_t last,                 \
                    uint32_t missing_left, uint64_t* result),                                                    \
                   (codes, words, n_rows, last, missing_left, result))

FASTENS_ONE_THRESHOLD(uint8_t)
FASTENS_ONE_THRESHOLD(uint16_t)

static inline void read_codes(int code_size, const CodeColumn* columns, const Entry* rows, ptrdiff_t n_rows,
                              int n_columns, void* out, ptrdiff_t room)
{
    if (code_size == 1)
        read_uint8_t(columns, rows, n_rows, n_columns, out, room);
    else
        read_uint16_t(columns, rows, n_rows, n_columns, out, room);
}

static inline CodeRange code_range(int code_size, const void* codes, ptrdiff_t n_rows)
{
    CodeRange range;
    if (code_size == 1)
        range_uint8_t((const uint8_t*)codes, n_rows, &range);
    else
        range_uint16_t((const uint16_t*)codes, n_rows, &range);
    return range;
}

static inline uint64_t sum_left(int code_size, const void* codes, const uint64_t* words, ptrdiff_t n_rows,
                                uint32_t last, uint32_t missing_left)
{
    uint64_t sum;
    if (code_size == 1)
        sum_uint8_t((const uint8_t*)codes, words, n_rows, last, missing_left, &sum);
    else
        sum_uint16_t((const uint16_t*)codes, words, n_rows, last, missing_left, &sum);
    return sum;
}

/* Sums on the left of a threshold if each class has its own word. */
static inline void add_left(int code_size, const void* codes, const Entry* rows, ptrdiff_t n_rows, uint32_t last,
                            uint32_t missing_left, uint64_t* words)
{
    if (code_size == 1)
        add_uint8_t((const uint8_t*)codes, rows, n_rows, last, missing_left, words);
    else
        add_uint16_t((const uint16_t*)codes, rows, n_rows, last, missing_left, words);
}

/* Moves left rows to the front and right rows to `right`, both in order; returns the number on the left. The codes
 * of the set go left or, without a set, the codes up to `last`. */
#define FASTENS_PART_ROWS(code_t)                                                                                \
    FASTENS_INLINE ptrdiff_t part_rows_##code_t(const code_t* codes, ptrdiff_t stride, uint32_t last,            \
                                                uint32_t missing_left, const uint32_t* set, Entry* rows,         \
                                                ptrdiff_t n_rows, Entry* right)                                  \
    {                                                                                                            \
        const uint32_t shift = 1 - missing_left;                                                                 \
        const code_t limit = (code_t)(last - shift);                                                             \
        ptrdiff_t n_left = 0;                                                                                    \
        for (ptrdiff_t i = 0; i < n_rows; i++) {                                                                 \
            const Entry entry = rows[i];                                                                         \
            const code_t code = codes[(ptrdiff_t)entry.row * stride];                                            \
            const int left = set ? set_has(set, code) : up_to_##code_t(code, (code_t)shift, limit);              \
            if (i + ENTRIES_AHEAD < n_rows)                                                                      \
                FASTENS_PREFETCH_ROW(&codes[(ptrdiff_t)rows[i + ENTRIES_AHEAD].row * stride]);                   \
            rows[n_left] = entry;                                                                                \
            right[i - n_left] = entry;                                                                           \
            n_left += left;                                                                                      \
        }                                                                                                        \
        return n_left;                                                                                           \
    }                                                                                                            \
    static ptrdiff_t part_##code_t(const CodeColumn* column, uint32_t last, uint32_t missing_left,               \
                                   const uint32_t* set, Entry* rows, ptrdiff_t n_rows, Entry* right)             \
    {                                                                                                            \
        const code_t* codes = (const code_t*)column->codes;                                                      \
        if (set)                                                                                                 \
            return part_rows_##code_t(codes, column->stride, 0, 0, set, rows, n_rows, right);                    \
        return part_rows_##code_t(codes, column->stride, last, missing_left, NULL, rows, n_rows, right);         \
    }

FASTENS_PART_ROWS(uint8_t)
FASTENS_PART_ROWS(uint16_t)

/* Partitions the rows in place; `scratch` has space for all of them. */
static inline ptrdiff_t part_entries(int code_size, const CodeColumn* column, uint32_t last, uint32_t missing_left,
                                     const uint32_t* set, Entry* rows, ptrdiff_t n_rows, Entry* scratch)
{
    const ptrdiff_t n_left = code_size == 1
                                 ? part_uint8_t(column, last, missing_left, set, rows, n_rows, scratch)
                                 : part_uint16_t(column, last, missing_left, set, rows, n_rows, scratch);
    memcpy(rows + n_left, scratch, (size_t)(n_rows - n_left) * sizeof(Entry));
    return n_left;
}

#endif
