/* Bits of words. */
#ifndef FASTENS_BITS_H
#define FASTENS_BITS_H

#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define lowest_bit(word) __builtin_ctzll(word)
#define n_bits(word) __builtin_popcountll(word)
#else
static inline int lowest_bit(uint64_t word)
{
    int i = 0;
    while (!(word & 1))
        word >>= 1, i++;
    return i;
}
static inline int n_bits(uint64_t word)
{
    int n = 0;
    for (; word; word &= word - 1)
        n++;
    return n;
}
#endif

#endif
