"""Bootstrap samples, draw by draw."""

from __future__ import annotations

MASK = 2**64 - 1


def uniform(seed, counter):
    """Number `counter` of the stream of splitmix64 that starts at `seed`, in [0, 1)."""
    bits = (seed + (counter + 1) * 0x9E3779B97F4A7C15) & MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return ((bits ^ (bits >> 31)) >> 11) * 2.0**-53


def counts(order, weights, offsets, draws, seed):
    """How often each row is drawn: `draws` are cumulated numbers of draws from each stratum of `order`."""
    found = [0] * len(order)
    for stratum in range(len(offsets) - 1):
        rows = order[offsets[stratum] : offsets[stratum + 1]]
        total = sum(float(weights[row]) for row in rows)
        for counter in range(draws[stratum], draws[stratum + 1]):
            wanted, passed = uniform(seed, counter) * total, 0.0
            for row in rows:
                passed += float(weights[row])
                if passed > wanted:
                    found[row] += 1
                    break
    return found
