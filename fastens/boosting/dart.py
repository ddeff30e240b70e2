"""DART: rounds that leave out some of the earlier trees (Rashmi & Gilad-Bachrach 2015)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fastens.boosting.round import on_grid
from fastens.engine.linear.linear_leaves import LinearTree
from fastens.engine.rows.sampling import random_stream
from fastens.engine.trees.trees import Tree

NORMALIZE = ("tree", "forest")
# Bits of a value below the largest raw prediction to expect. Sums are exact up to 1000 times that, in any order.
_BITS = 42


@dataclass(frozen=True)
class DartRules:
    """Which trees are left out.

    Attributes
    ----------
    rate_drop : float
        The chance of each earlier round to be left out.
    skip_drop : float
        The chance of a round to leave out none.
    max_drop : int or None
        Most rounds left out at once.
    normalize : {"tree", "forest"}
        Whether the new tree weighs as much as each of those left out, or as all of them.
    """

    rate_drop: float
    skip_drop: float
    max_drop: int | None
    normalize: str

    def draw(self, seed: int, index: int) -> list[int]:
        """The rounds that round number `index` leaves out."""
        generator = random_stream(seed, index)
        skips, drops = generator.random(), generator.random(index)
        if skips < self.skip_drop:
            return []
        dropped = np.flatnonzero(drops < self.rate_drop)
        if self.max_drop is not None and len(dropped) > self.max_drop:
            dropped = dropped[np.argsort(drops[dropped])[: self.max_drop]]
        return sorted(dropped.tolist())

    def factors(self, n_dropped: int, learning_rate: float) -> tuple[float, float]:
        """What the new tree and those left out are multiplied with."""
        if n_dropped == 0:
            return 1.0, 1.0
        if self.normalize == "tree":
            return 1 / (n_dropped + learning_rate), n_dropped / (n_dropped + learning_rate)
        return 1 / (1 + learning_rate), 1 / (1 + learning_rate)


class Dropout:
    """Leaves some earlier rounds out while a round is grown.

    All values are multiples of one power of two, so that what is taken out of the raw predictions and put back leaves
    no trace, and a fit that continues another one has them to the bit.

    Parameters
    ----------
    rules : DartRules
        Which rounds.
    learning_rate : float
        Factor of every leaf value.
    seed : int
        Of the draws.

    Attributes
    ----------
    best : list of Tree
        The trees as they were at the best round.
    """

    def __init__(self, rules: DartRules, learning_rate: float, seed: int) -> None:
        self._rules, self._learning_rate, self._seed = rules, learning_rate, seed
        self.best: list[Tree] = []

    def draw(self, index: int) -> Dropped:
        """The rounds that round number `index` leaves out, and what trees are multiplied by."""
        rounds = self._rules.draw(self._seed, index)
        return Dropped(rounds, *self._rules.factors(len(rounds), self._learning_rate))


class Dropped(NamedTuple):
    """What a round leaves out.

    Attributes
    ----------
    rounds : list of int
        The numbers of the rounds.
    factor_of_new, factor_of_old : float
        What the round's trees, and those left out, are multiplied by.
    """

    rounds: list[int]
    factor_of_new: float = 1.0
    factor_of_old: float = 1.0


def grid_of(largest: float) -> float:
    """The power of two that values are multiples of, given the largest raw prediction to expect."""
    return math.ldexp(1.0, math.frexp(max(largest, 1e-290))[1] - _BITS)


def times(tree: Tree, factor: float, grid: float | None) -> Tree:
    """A tree multiplied by a factor, its models too."""
    scaled = replace(tree, value=on_grid(tree.value * factor, grid))
    if isinstance(scaled, LinearTree):
        return replace(scaled, linear=scaled.linear.times(np.full(tree.n_nodes, factor)))
    return scaled
