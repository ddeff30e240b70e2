"""The members of a version space one after another, and the posterior of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.concepts.conjunctions import Conjunction

Array = NDArray[np.float64]
MOST_LISTED = 10_000_000  # hypotheses in `posterior_`: 80 MB


class ListsHypotheses:
    """What lists the hypotheses of `_space`, those that vote."""

    _space: Any

    def _conjunction(self, codes: NDArray[np.int64]) -> Conjunction:
        raise NotImplementedError

    def _codes_of(self, hypothesis: Conjunction) -> NDArray[np.int64]:
        raise NotImplementedError

    def members(self) -> Iterator[Conjunction]:
        """Yield the hypotheses that vote, the members of the version space, each once; of a space of any size.

        After a positive example that of S comes first; under noise all conjunctions are listed, in a fixed order.

        Examples
        --------
        >>> from fastens import VersionSpaceClassifier
        >>> model = VersionSpaceClassifier().fit([["sun", "warm"], ["rain", "warm"]], [1, 0])
        >>> list(model.members()), model.posterior_
        ([<sun, warm>, <sun, ?>], array([0.5, 0.5]))
        """
        return map(self._conjunction, self._space.all_codes())

    @property
    def posterior_(self) -> Array:
        """P(h | D) of each hypothesis, in the order of `members`: ``1 / |VS|`` of each under the uniform prior."""
        space = self._space
        if not space.is_exact or space.n_hypotheses > MOST_LISTED:
            raise AttributeError(
                f"posterior_ holds a number for each of at most {MOST_LISTED} hypotheses; there are "
                f"{space.n_hypotheses}. posterior_of(hypothesis) is that of one."
            )
        return space.posterior()

    def posterior_of(self, hypothesis: Conjunction) -> float:
        """Return P(h | D) of one hypothesis, 0 where it has no vote; as exact as the size of the space.

        Parameters
        ----------
        hypothesis : Conjunction
            Over the columns of `fit`.

        Raises
        ------
        ValueError
            If it is no conjunction, or one over another number of attributes.
        """
        space, codes = self._space, self._codes_of(hypothesis)
        return float(space.posterior_of(codes))


def all_hitting_sets(clauses: Sequence[int], n_items: int) -> Iterator[int]:
    """Yield all sets of items that meet all clauses, as bit masks, the set of all items first.

    Items are chosen or left one after another, and left only where the rest can still meet every clause, so that no
    path ends without a set.
    """
    waiting = [(0, 0)]  # how many items are decided, and those chosen
    while waiting:
        place, chosen = waiting.pop()
        if place == n_items:
            yield chosen
            continue
        if all(clause & chosen or clause >> (place + 1) for clause in clauses):
            waiting.append((place + 1, chosen))
        waiting.append((place + 1, chosen | 1 << place))
