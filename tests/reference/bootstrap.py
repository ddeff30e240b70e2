"""Bootstrap samples by halving [0, 1) down to single draws' parts: every part is looked at, whatever rows it meets."""

from __future__ import annotations

import math
from itertools import accumulate

from reference.binomial import heads
from reference.splitmix import random_bits, random_share

FEW_DRAWS = 64


def places(seed, level, index, n):
    """The n draws of a part of [0, 1), [index, index + 1) * 2**-level: as shares of the whole."""
    if n == 0:
        return []
    of_part = random_bits(seed, 2**level + index)
    if n <= FEW_DRAWS:
        return [(index + random_share(of_part, draw)) * 2.0**-level for draw in range(n)]
    left = heads(of_part, n)
    return places(seed, level + 1, 2 * index, left) + places(seed, level + 1, 2 * index + 1, n - left)


def counts(order, weights, offsets, draws, seed):
    """How often each row is drawn: `draws` are cumulated numbers of draws from each stratum of `order`."""
    found = [0] * len(order)
    for stratum in range(len(offsets) - 1):
        rows = order[offsets[stratum] : offsets[stratum + 1]]
        exponent = math.frexp(max(weights[row] for row in rows))[1]
        ends = list(accumulate(math.ldexp(weights[row], -exponent) for row in rows))
        for share in places(random_bits(seed, stratum), 0, 0, draws[stratum + 1] - draws[stratum]):
            place = sum(end <= share * ends[-1] for end in ends)
            found[rows[min(place, len(rows) - 1)]] += 1
    return found
