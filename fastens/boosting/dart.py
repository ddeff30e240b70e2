"""DART: rounds that leave out some of the earlier trees (Rashmi & Gilad-Bachrach 2015)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.rounds import BoostingRun
from fastens.engine.rows.sampling import random_stream
from fastens.engine.trees.trees import Tree

if TYPE_CHECKING:
    from fastens.base import TrainingData
    from fastens.engine.losses.losses import Loss

Array = NDArray[np.float64]
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


class DartRun(BoostingRun):
    """Rounds of DART.

    All values are multiples of one power of two, so that what is taken out of the raw predictions and put back leaves
    no trace, and a fit that continues another one has them to the bit.
    """

    changes_trees = True
    _grid: float | None = None

    def _start(self, data: TrainingData) -> Array:
        if self._grid is None:
            largest = max(self.loss.magnitude(data.y), float(np.abs(self.baseline).max()), 1e-290)
            self._grid = math.ldexp(1.0, math.frexp(largest)[1] - _BITS)
            self.baseline = self._on_grid(self.baseline)
            self._best: list[Tree] = []
        return self._on_grid(super()._start(data))

    def _on_grid(self, values: Array) -> Array:
        assert self._grid is not None
        return np.rint(values / self._grid) * self._grid

    def _round(self, index: int) -> None:
        assert self.rules.dart is not None
        dropped = self.rules.dart.draw(self.rules.seed, index)
        self._factor, of_dropped = self.rules.dart.factors(len(dropped), self.rules.learning_rate)
        for number in dropped:
            self._rescale(number, -1.0)
        super()._round(index)
        for number in dropped:
            self._rescale(number, -of_dropped)

    def _rescale(self, number: int, factor: float) -> None:
        """Multiply the trees of a round, and add them to the raw predictions."""
        first = number * self._trees_per_round
        for output in range(self._trees_per_round):
            tree = self._times(self.trees[first + output], factor)
            self._add(tree, output)
            self.trees[first + output] = tree

    def _times(self, tree: Tree, factor: float) -> Tree:
        """A tree multiplied by a factor."""
        return replace(tree, value=self._on_grid(tree.value * factor))

    def _shrunk(self, values: Array, loss: Loss) -> Array:
        return self._on_grid(super()._shrunk(values, loss))

    @property
    def _rate(self) -> float:
        return super()._rate * self._factor

    def _measure(self) -> None:
        super()._measure()
        if self.history.validation and self.history.best_round == self.n_rounds:
            self._best = list(self.trees)

    def restore_best(self, trees: list[Tree]) -> None:
        """Take the trees of the best round as they were."""
        self._best = trees

    def kept_trees(self, n_rounds: int) -> list[Tree]:
        """The trees as they were after so many rounds: all, or the best number of them."""
        return self.trees if n_rounds == self.n_rounds else self._best
