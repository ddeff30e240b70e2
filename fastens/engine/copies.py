"""Copies of rows: made where nothing takes weights in their place, and drawn without replacement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.whole import are_copies

# Copies that are made, or drawn among, where there are not as many rows: some 80 MB of row numbers.
MOST_MADE = 10_000_000
# Of more copies than that no more are drawn: NumPy makes no list of all of them then.
MOST_DRAWN = MOST_MADE // 50


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
    >>> from fastens.engine.copies import repeated
    >>> repeated(np.array([5, 7]), np.array([2.0, 1.0]), "the example is small")
    array([5, 5, 7])
    """
    total = float(counts.sum())
    if total > max(MOST_MADE, len(rows)):
        raise ValueError(
            f"sample_weight must stand for at most {MOST_MADE} copies of rows where they have to be made: {why}; "
            f"got {total:.15g}. Divide the weights by a number."
        )
    return np.repeat(rows, counts.astype(np.intp))


@dataclass(frozen=True, eq=False)
class Copies:
    """Rows in an order of their own, each as often as its weight says where weights are numbers of copies.

    Attributes
    ----------
    order : intp array of shape (n_rows,)
        The rows.
    ends : int64 array of shape (n_rows,) or None
        The numbers of copies, cumulated; None for one of each.
    """

    order: NDArray[np.intp]
    ends: NDArray[np.int64] | None

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], weight: NDArray[np.float64] | None) -> Copies:
        """Return copies of all rows, in the order of their hashes."""
        order = np.argsort(hashes, kind="stable")
        if weight is None or not are_copies(weight):
            return cls(order, None)
        return cls(order, np.cumsum(weight[order].astype(np.int64)))

    def __len__(self) -> int:
        return len(self.order) if self.ends is None else int(self.ends[-1])

    def draw(self, n_drawn: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Draw copies without replacement; return how often each row was drawn, shape (n_rows,)."""
        if self.ends is not None and len(self) > MOST_MADE and n_drawn > MOST_DRAWN:
            raise ValueError(
                f"max_samples must draw at most {MOST_DRAWN} of the {len(self)} copies of rows that sample_weight is, "
                f"where these are drawn without replacement; got {n_drawn}. Divide the weights by a number."
            )
        chosen = generator.choice(len(self), n_drawn, replace=False)
        places = chosen if self.ends is None else np.searchsorted(self.ends, chosen, side="right")
        return np.bincount(self.order[places], minlength=len(self.order))
