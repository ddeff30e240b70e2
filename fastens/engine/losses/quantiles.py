"""Exact weighted quantiles of rows that several ranks hold, and clipped means around them.

Values are not exchanged. A radix search over their bits asks eight times how much weight has which next byte; the
results are those of the kernels on all rows, to the bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import Comm, floats_of_bits, ordered_bits, sum_over

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

_N_BYTES = 8
_SIGN = np.uint64(1 << 63)
# As in gradients.pyx: limbs of sums, the unit of what is clipped, and the least limit.
_LIMB = 31
_MASK = np.int64((1 << _LIMB) - 1)
_FIXED_ONE = 2.0**61
_SMALLEST_LIMIT = 1e-280


def smallest_reaching(comm: Comm, values: Array, weights: Whole, group: NDArray[np.intp], needed: Array) -> Array:
    """Return for each group its smallest value with at least the needed weight at or below it, over all ranks.

    Parameters
    ----------
    comm : Comm
        The ranks.
    values : float64 array of shape (n_rows,)
        Those of this rank's rows.
    weights : int64 array of shape (n_rows,)
        Not negative.
    group : intp array of shape (n_rows,)
        The group of each row.
    needed : float64 array of shape (n_groups,)
        More than 0, and no more than the group has.
    """
    keys = ordered_bits(values).view(np.uint64) ^ _SIGN
    found = np.zeros(len(needed), dtype=np.uint64)
    below = np.zeros(len(needed), dtype=np.int64)
    for place in range(_N_BYTES):
        byte = (keys >> np.uint64(8 * (_N_BYTES - 1 - place))).astype(np.intp) & 0xFF
        of_bytes = np.zeros((len(needed), 256), dtype=np.int64)
        np.add.at(of_bytes, (group, byte), weights)
        upto = below[:, None] + np.cumsum(sum_over(comm, of_bytes), axis=1)
        chosen = (upto >= needed[:, None]).argmax(axis=1)
        before = np.take_along_axis(upto, np.maximum(chosen - 1, 0)[:, None], axis=1)[:, 0]
        below = np.where(chosen > 0, before, below)
        found = (found << np.uint64(8)) | chosen.astype(np.uint64)
        kept = byte == chosen[group]
        keys, weights, group = keys[kept], weights[kept], group[kept]
    return floats_of_bits((found ^ _SIGN).view(np.int64))


def leaf_quantiles(
    comm: Comm, residuals: Array, weights: Whole, leaf_starts: Whole, level: float, limit: float
) -> Array:
    """Return what the kernel `leaf_values` finds for the rows of all ranks; leaves are the same on each."""
    n_leaves = len(leaf_starts) - 1
    leaf = np.repeat(np.arange(n_leaves), np.diff(leaf_starts))
    totals = np.zeros((2, n_leaves), dtype=np.int64)
    np.add.at(totals[0], leaf, weights)
    totals[1] = np.diff(leaf_starts)
    comm.sum(totals)
    is_light, n_rows = totals[0] == 0, totals[1]
    # Where all weights are 0, the least value.
    equal = np.where(is_light[leaf], 1, weights)
    needed = np.where(is_light, 1.0, level * totals[0])
    values = smallest_reaching(comm, residuals, equal, leaf, needed)
    if limit > _SMALLEST_LIMIT:
        values = values + _clipped_means(comm, residuals - values[leaf], weights, leaf, (totals[0], limit))
    return np.where(n_rows > 0, values, 0.0)


def _clipped_means(
    comm: Comm, differences: Array, weights: Whole, leaf: NDArray[np.intp], of_leaves: tuple[Whole, float]
) -> Array:
    """Weighted means of differences clipped to a limit."""
    totals, limit = of_leaves
    whole = np.rint(np.clip(differences, -limit, limit) * (_FIXED_ONE / limit)).astype(np.int64)
    high, low = weights * (whole >> _LIMB), weights * (whole & _MASK)
    limbs = np.zeros((3, len(totals)), dtype=np.int64)
    np.add.at(limbs[2], leaf, high >> _LIMB)
    np.add.at(limbs[1], leaf, (high & _MASK) + (low >> _LIMB))
    np.add.at(limbs[0], leaf, low & _MASK)
    comm.sum(limbs)
    for k in range(2):
        limbs[k + 1] += limbs[k] >> _LIMB
        limbs[k] &= _MASK
    rest = ((limbs[1] << _LIMB) + limbs[0]).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Array = np.ldexp(limbs[2] + np.ldexp(rest, -2 * _LIMB), 1) * limit / totals
    return means
