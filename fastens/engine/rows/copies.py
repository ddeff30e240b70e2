"""Copies of rows: made where nothing takes weights in their place, and drawn without replacement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.rows.sampling import hash_order
from fastens.engine.whole import are_copies

Array = NDArray[np.float64]
# Copies that are made where there are not as many rows: some 80 MB of row numbers.
MOST_MADE = 10_000_000
# Of more copies than this, how many a row gives is drawn, and not which.
MOST_DRAWN_ONE_BY_ONE = 1 << 24


def repeated(rows: NDArray[np.intp], counts: NDArray[Any], why: str) -> NDArray[np.intp]:
    """Return rows, each as often as it counts.

    Parameters
    ----------
    rows : intp array
        Which rows.
    counts : array of the same length
        Whole numbers.
    why : str
        For the error: why copies are made.

    Raises
    ------
    ValueError
        Where that would be more than ten million, and more than there are rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.rows.copies import repeated
    >>> repeated(np.array([5, 7]), np.array([2.0, 1.0]), "the example is small")
    array([5, 5, 7])
    """
    total = float(counts.sum())
    if total > max(MOST_MADE, len(rows)):
        raise ValueError(
            f"sample_weight must stand for at most {MOST_MADE} copies of rows where they have to be made: {why}; "
            f"got {total:.15g}. Use weight_type='importance', or smaller weights."
        )
    return np.repeat(rows, counts.astype(np.intp))


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies of rows in an order of their own: the table's order, and which row is whose copy, do not matter.

    Attributes
    ----------
    order : integer array of shape (n_rows,)
        The rows, equal ones side by side.
    of_rows : int64 array of shape (n_rows,)
        In that order: how many copies each has.
    is_last : bool array of shape (n_rows,)
        In that order: whether the next row is another one.
    are_weights : bool
        Whether weights are numbers of copies; otherwise each row is there once, with its weight.
    """

    order: NDArray[np.intp]
    of_rows: NDArray[np.int64]
    is_last: NDArray[np.bool_]
    are_weights: bool

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], weight: Array | None) -> Copies:
        """As many as each row's weight says; where weights are no numbers of copies, one of each row.

        Parameters
        ----------
        hashes : uint64 array of shape (n_rows,)
            Those of equal rows are equal; see `content_hashes`.
        weight : array of shape (n_rows,) or None
            Positive.
        """
        counts = are_copies(weight)
        order = np.argsort(weight, kind="stable") if weight is not None else np.arange(len(hashes))
        order = order[hash_order(hashes[order])]
        of_rows = weight[order].astype(np.int64) if weight is not None and counts else np.ones(len(order), np.int64)
        ordered = hashes[order]
        return cls(order, of_rows, np.append(ordered[1:] != ordered[:-1], True), counts)

    @property
    def total(self) -> int:
        """How many there are."""
        return int(self.of_rows.sum())

    def draw(self, n_drawn: int, random: np.random.Generator) -> NDArray[np.int64]:
        """How many copies of each row are among `n_drawn` of them."""
        found = np.empty(len(self.order), np.int64)
        found[self.order] = self._drawn(n_drawn, random)
        return found

    def _drawn(self, n_drawn: int, random: np.random.Generator) -> NDArray[np.int64]:
        total = self.total
        upto = np.cumsum(self.of_rows)
        if total <= MOST_DRAWN_ONE_BY_ONE:
            chosen = random.choice(total, n_drawn, replace=False)
            return np.bincount(np.searchsorted(upto, chosen, "right"), minlength=len(upto))
        return self._spread(self._of_contents(upto[self.is_last], n_drawn, random), upto)

    @staticmethod
    def _of_contents(upto: NDArray[np.int64], n_drawn: int, random: np.random.Generator) -> list[int]:
        """How many copies of each distinct row, of so many upto each, are drawn.

        One hypergeometric number after another; of more than 10^9 copies binomial ones, which then hardly differ.
        """
        drawn, left, before = [], n_drawn, 0
        total = int(upto[-1])
        for end in upto.tolist():
            size, rest = end - before, total - end
            if size + rest < 10**9:
                count = int(random.hypergeometric(size, rest, left))
            else:
                count = int(random.binomial(min(size, left), max(size, left) / (size + rest)))
                count = min(max(count, left - rest), size, left)
            drawn.append(count)
            left, before = left - count, end
        return drawn

    def _spread(self, of_contents: list[int], upto: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of each distinct row from its rows in their order."""
        content = np.append(0, np.cumsum(self.is_last)[:-1])
        first = np.append(0, upto[self.is_last])[content]
        return np.clip(np.asarray(of_contents)[content] - (upto - self.of_rows - first), 0, self.of_rows)
