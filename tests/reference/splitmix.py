"""Random numbers by their number: splitmix64 (Steele, Lea & Flood 2014)."""

from __future__ import annotations

MASK = 2**64 - 1


def random_bits(seed, counter):
    """Number `counter` of the stream that starts at `seed`: 64 bits."""
    bits = (seed + (counter + 1) * 0x9E3779B97F4A7C15) & MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def random_share(seed, counter):
    """The same in [0, 1)."""
    return (random_bits(seed, counter) >> 11) * 2.0**-53


def permuted(seed, n, place):
    """Where a random permutation of n puts a place: a Feistel network of four rounds, walked until it is below n."""
    bits = max(2, (n - 1).bit_length())
    half = bits // 2
    high, low = place >> half, place & (2**half - 1)
    for turn in range(4):
        if turn % 2 == 0:
            high ^= random_bits(seed, 2**32 * turn + low) >> (64 - (bits - half))
        else:
            low ^= random_bits(seed, 2**32 * turn + high) >> (64 - half)
    found = (high << half) + low
    return found if found < n else permuted(seed, n, found)
