/* Bit counts of words. */
#ifndef FASTENS_BITS_H
#define FASTENS_BITS_H

#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define lowest_bit(word) __builtin_ctzll(word)
#else
static inline int lowest_bit(uint64_t word)
{
    int i = 0;
    while (!(word & 1))
        word >>= 1, i++;
    return i;
}
#endif

/* Population count by parallel sums: not every x86-64 processor has the instruction, and a function call costs more. */
static inline int n_bits(uint64_t word)
{
    word -= word >> 1 & 0x5555555555555555ULL;
    word = (word & 0x3333333333333333ULL) + (word >> 2 & 0x3333333333333333ULL);
    return (int)(((word + (word >> 4) & 0x0F0F0F0F0F0F0F0FULL) * 0x0101010101010101ULL) >> 56);
}

#endif
