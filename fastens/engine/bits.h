/* Bits of words. */
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

#endif
