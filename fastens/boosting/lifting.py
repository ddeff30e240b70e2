"""Whether trees predict better without their limits: asked of rows held out.

`min_samples_leaf` and `split_penalty` keep trees from following noise. Where there is little of it, they keep them from
following the target. Rows held out tell which: trees are grown on the others, with the limits and without, and what
their whole Newton steps gain there is compared. Steps as short as the learning rate makes them would gain wherever they
go the right way more often than not, and say nothing of where they end. Where trees gain more without limits, but
perhaps by chance, rounds go on with them, and it is asked again when twice as much has been learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastens.engine.grow.growth import GrowthRules
from fastens.engine.rows.sampling import content_hashes, mixed
from fastens.engine.whole import LARGEST_LIMIT, are_copies

if TYPE_CHECKING:
    from fastens.base import TrainingData

Array = NDArray[np.float64]
# Finds steps of all rows, (n_outputs, n_rows), from some of them.
Stepping = Callable[[NDArray[np.uint32]], Array]

# Where the learning rates of the rounds add up to so much, most of what is easy has been learned, and little noise.
_LEARNED = 1.5
# A leaf of a few rows is a small share of more rows than these, with or without limits.
_MOST_ROWS = 5_000
# Of few rows, fewer can be spared.
_FEW_ROWS = 1_000
_N_PARTS, _N_PARTS_OF_FEW = 5, 10
# After this share of the parts it is seen whether there is any hope.
_FIRST = 0.4
# So many standard errors are no chance; so many are worth to ask again.
_SURE, _IN_DOUBT = 3.0, 1.0
_LEAST_L2 = 0.1
# What limits have held back is made up by steps so many times as long, but no longer than the whole ones asked about.
_MAKING_UP = 3.0


@dataclass(frozen=True)
class Lifting:
    """When to ask, and what to grow by where the answer is yes.

    Attributes
    ----------
    index : int
        The round before which to ask first.
    min_samples_category : int
        The `min_samples_category` of what is grown then.
    """

    index: int
    min_samples_category: int

    @classmethod
    def of(cls, learning_rate: float, min_samples_category: int | None) -> Lifting:
        """Return the lifting of limits for a learning rate, and what `min_samples_category` was said to be."""
        return cls(int(np.ceil(min(_LEARNED / learning_rate, LARGEST_LIMIT))), min_samples_category or 1)

    def lifted(self, growth: GrowthRules) -> GrowthRules:
        """Return the limits that stay."""
        least = self.min_samples_category
        return replace(growth, min_samples_leaf=1, min_samples_category=least, split_penalty=0.0)


def rate_of_round(index: int, n_limited: int, learning_rate: float) -> float:
    """Return the learning rate of a round after some that grew with limits.

    Once limits are lifted, trees take longer steps until these have added as much to the learning rates as there was
    before: then the model is about where it would be had there never been limits.

    Parameters
    ----------
    index, n_limited : int
        The round, and the number of rounds with limits.
    learning_rate : float
        That of all other rounds.

    Examples
    --------
    >>> [round(rate_of_round(index, 15, 0.1), 1) for index in (14, 15, 21, 22)]
    [0.1, 0.3, 0.3, 0.1]
    """
    if index < n_limited or learning_rate >= 1:
        return learning_rate
    more = min(_MAKING_UP * learning_rate, 1.0) - learning_rate
    n_longer = int(n_limited * learning_rate / more + 1e-6)  # a whole number may come out a little smaller
    return learning_rate + more if index < n_limited + n_longer else learning_rate


class HeldOut:
    """Rows held out part by part.

    Parts follow from what rows are, so that the order of the table does not matter, and a row of weight 2 is the same
    as two rows.

    Parameters
    ----------
    part : int array of shape (n_rows,)
        Which part each row is in.
    weight : float64 array of shape (n_rows,) or None
        Weights.
    """

    def __init__(self, part: NDArray[np.integer], weight: Array | None) -> None:
        self._part = part
        self._weight = np.ones(len(part)) if weight is None else weight
        # A whole weight is as many rows, which vary each for itself; a fractional one is a factor.
        self._squares = self._weight if are_copies(self._weight) else self._weight**2

    @classmethod
    def of(cls, data: TrainingData, n_threads: int) -> HeldOut | None:
        """Return the parts of some rows; None where the rows are too many to be asked, or all of one part."""
        weight = data.sample_weight
        n_copies = len(data.y) if weight is None or not are_copies(weight) else weight.sum()
        if n_copies > _MOST_ROWS:
            return None
        n_parts = _N_PARTS_OF_FEW if n_copies < _FEW_ROWS else _N_PARTS
        part = mixed(content_hashes(data.X, data.y, n_threads)) % np.uint64(n_parts)
        return None if (part == part[0]).all() else cls(part, weight)

    def steadied(self, growth: GrowthRules) -> GrowthRules:
        """Return limits with a penalty that keeps leaves of a row, whose hessian may be nothing, from giant steps."""
        row = 1.0 if are_copies(self._weight) else self._weight.mean()
        return replace(growth, l2_regularization=max(growth.l2_regularization, _LEAST_L2 * row))

    def favour(
        self, free: Stepping, limited: Stepping, gradients: NDArray[np.float32], hessians: NDArray[np.float32]
    ) -> bool | None:
        """Whether free steps gain more than limited ones, and do not lose, by more than chance.

        None in doubt: where they gain more by a standard error, but not by as many as chance does not reach. No more is
        asked once the first parts speak against them.

        Parameters
        ----------
        free, limited : callables
            Find steps.
        gradients, hessians : float32 arrays of shape (n_outputs, n_rows)
            Derivatives of the loss.
        """
        steps = np.zeros((2, *gradients.shape))
        parts = np.unique(self._part)
        for number, part in enumerate(parts, 1):
            out = self._part == part
            others = np.flatnonzero(~out).astype(np.uint32)
            for kept, stepping in zip(steps, (free, limited), strict=True):
                np.copyto(kept, stepping(others), where=out)
            if number >= _FIRST * len(parts):
                gained, before = (_gains(kept, gradients, hessians) for kept in steps)
                more = gained - before
                if self._weight @ more <= 0:
                    return False
        if not self._are_more(more, _IN_DOUBT) or self._are_more(-gained, _SURE):
            return False
        return self._are_more(more, _SURE) or None

    def _are_more(self, gained: Array, n_errors: float) -> bool:
        """Whether gains are more than nothing, by so many standard errors."""
        total = self._weight @ gained
        centred = gained - total / self._weight.sum()
        return bool(total > n_errors * np.sqrt(self._squares @ centred**2))


def _gains(steps: Array, gradients: NDArray[np.float32], hessians: NDArray[np.float32]) -> Array:
    """By how much steps lower the loss of each row, to the second order, summed over outputs."""
    return -(steps * (gradients + hessians * steps / 2)).sum(axis=0)
