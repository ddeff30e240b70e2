"""DART: rounds that leave out some of the earlier trees (Rashmi & Gilad-Bachrach 2015)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fastens.boosting.round import on_grid
from fastens.engine.linear.linear_leaves import LinearTree
from fastens.engine.rows.sampling import random_stream
from fastens.engine.trees.trees import Tree
from fastens.options import Dart

# Bits of a value below the largest raw prediction to expect. Sums are exact up to 1000 times that, in any order.
_BITS = 42


class Dropped(NamedTuple):
    """The rounds that a round leaves out, and what its trees, and theirs, are multiplied by."""

    rounds: list[int]
    factor_of_new: float = 1.0
    factor_of_old: float = 1.0


class Dropout:
    """Leaves some earlier rounds out while a round is grown.

    All values are multiples of one power of two, so that what is taken out of the raw predictions and put back leaves
    no trace, and a fit that continues another one has them to the bit.
    """

    def __init__(self, options: Dart, learning_rate: float, seed: int) -> None:
        self._options, self._learning_rate, self._seed = options, learning_rate, seed
        self.best: list[Tree] = []  # the trees as they were at the best round

    def draw(self, index: int) -> Dropped:
        """Draw what round number `index` leaves out."""
        rounds, options = self._rounds(index), self._options
        n_dropped = len(rounds)
        if n_dropped == 0:
            return Dropped(rounds)
        weight_of_dropped = n_dropped if options.normalize == "tree" else 1
        total = weight_of_dropped + self._learning_rate
        return Dropped(rounds, 1 / total, weight_of_dropped / total)

    def _rounds(self, index: int) -> list[int]:
        options, generator = self._options, random_stream(self._seed, index)
        skips, drops = generator.random(), generator.random(index)
        if skips < options.skip_drop:
            return []
        dropped = np.flatnonzero(drops < options.rate_drop)
        if options.max_drop is not None and len(dropped) > options.max_drop:
            dropped = dropped[np.argsort(drops[dropped])[: options.max_drop]]
        return sorted(dropped.tolist())


def grid_of(largest: float) -> float:
    """The power of two that values are multiples of, given the largest raw prediction to expect."""
    return math.ldexp(1.0, math.frexp(max(largest, 1e-290))[1] - _BITS)


def scaled_tree(tree: Tree, factor: float, grid: float | None) -> Tree:
    """A tree multiplied by a factor, its linear models too."""
    scaled = replace(tree, value=on_grid(tree.value * factor, grid))
    if isinstance(scaled, LinearTree):
        return replace(scaled, linear=scaled.linear.times(np.full(tree.n_nodes, factor)))
    return scaled
