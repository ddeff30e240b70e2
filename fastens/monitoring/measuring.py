"""What the rounds of boosting record beside trees: losses, validation scores, out-of-bag sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fastens.engine.losses.losses import Loss

Array = NDArray[np.float64]


@dataclass
class Rows:
    """Some rows with their targets, weights and raw predictions (n_outputs, n_rows)."""

    y: Array
    weight: Array | None
    raw: Array

    def loss(self, loss: Loss, n_threads: int) -> float:
        """Mean loss."""
        return loss.loss(self.y, self.raw, self.weight, n_threads)

    def take(self, rows: Any) -> Rows:
        """Some of the rows."""
        weight = None if self.weight is None else np.ascontiguousarray(self.weight[rows])
        return Rows(np.ascontiguousarray(self.y[rows]), weight, np.ascontiguousarray(self.raw[:, rows]))


@dataclass
class History:
    """What was measured after each round."""

    train: list[float] = field(default_factory=list)  # loss of the training rows
    validation: list[float] = field(default_factory=list)  # the metric that decides when to stop
    rises: bool = False  # whether larger is better there

    @property
    def last_validation(self) -> float | None:
        """The latest validation loss, if there is one."""
        return self.validation[-1] if self.validation else None

    def rounds_since_best(self, tol: float) -> int:
        """Rounds since the validation loss last went down (or the score up) by more than `tol`."""
        best, since = np.inf, 0
        for loss in self._falling:
            best, since = (loss, 0) if loss < best - tol else (best, since + 1)
        return since

    @property
    def best_round(self) -> int:
        """The number of rounds with the best validation, at least 1."""
        return int(np.argmin(self._falling)) + 1

    @property
    def _falling(self) -> list[float]:
        return [-score for score in self.validation] if self.rises else self.validation


class Validation:
    """Binned validation rows, with their targets and raw predictions."""

    def __init__(self, codes: NDArray[np.unsignedinteger], rows: Rows) -> None:
        self.codes, self.rows = codes, rows
        # The metric that decides when to stop; None for the loss.
        self.measure: Callable[[], float] | None = None

    def score(self, loss: Loss, n_threads: int) -> float:
        """The validation score so far."""
        return self.rows.loss(loss, n_threads) if self.measure is None else self.measure()


class OutOfBagSums:
    """Out-of-bag predictions of boosting."""

    def __init__(self, n_outputs: int, n_rows: int) -> None:
        self.improvement: list[float] = []  # by how much each round lowered the loss of the rows it left out
        self.sums = np.zeros((n_outputs, n_rows))
        self.n_rounds = np.zeros(n_rows, dtype=np.int64)

    def add(self, left_out: NDArray[np.intp], before: Rows, after: Rows, loss: Loss, n_threads: int) -> None:
        """Add a round, given the left-out rows before and after it."""
        if len(left_out) == 0:
            self.improvement.append(np.nan)
            return
        self.improvement.append(before.loss(loss, n_threads) - after.loss(loss, n_threads))
        self.sums[:, left_out] += after.raw - before.raw
        self.n_rounds[left_out] += 1

    def raw(self, start: Array, n_rounds: int) -> Array:
        """Out-of-bag raw predictions, (n_outputs, n_rows); NaN for rows that were never left out.

        The sum of the trees not grown on the row, scaled up to all rounds.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            return start + self.sums * (n_rounds / self.n_rounds)
