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
