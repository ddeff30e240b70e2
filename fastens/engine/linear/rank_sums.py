"""What the leaves of a tree with linear models have on several ranks: ranges, weights and sums of all rows, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import Comm, floats_of_bits, ordered_bits
from fastens.engine.linear.normal_equations import N_SUM_BITS

Array = NDArray[np.float64]


def reduce_sums(comm: Comm, sums: Array, n_features: NDArray[np.int64], stage: int) -> None:
    """Replace `LeafRows.sums`, which a stage of `fit_leaves` wrote, by what it would write for the rows of all ranks.

    `n_features` are those of each leaf.
    """
    n_columns = int(n_features.max(initial=0)) + 2  # with gradients and hessians
    ranges, weight, equations = np.split(sums, [2 * n_columns, 2 * n_columns + 1], axis=1)
    if comm.size > 1 and stage == 0:
        _reduce_ranges(comm, ranges[:, :n_columns], ranges[:, n_columns:])
        total = weight.astype(np.int64)
        comm.sum(total)
        weight[:] = total
    elif comm.size > 1 and stage == 1:
        leaf = np.arange(len(ranges))
        low, high, hessian = (ranges[leaf, n_features + place] for place in (0, n_columns, n_columns + 1))
        bounds = (np.maximum(np.abs(low), np.abs(high)), hessian)
        parts = np.split(equations, [n_columns - 1], axis=1)
        for part, bound in zip(parts, bounds, strict=True):
            _reduce_exactly(comm, part, weight[:, 0], bound)


def _reduce_ranges(comm: Comm, lower: Array, upper: Array) -> None:
    keys = ordered_bits(np.stack([-lower, upper]))
    comm.max(keys)
    found = floats_of_bits(keys)
    lower[:], upper[:] = -found[0], found[1]


def _reduce_exactly(comm: Comm, sums: Array, weight: Array, bound: Array) -> None:
    """Add up sums of numbers that the kernel has rounded, for this weight and bound, to multiples of a power of two."""
    largest = np.where(np.isfinite(bound), bound, 0.0) * weight
    exponent = (N_SUM_BITS - np.frexp(largest)[1])[:, None]
    whole = np.rint(np.ldexp(sums, exponent)).astype(np.int64)
    comm.sum(whole)
    sums[:] = np.ldexp(whole.astype(np.float64), -exponent)
