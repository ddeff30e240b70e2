"""What the rounds of boosting record beside trees: rows with their raw predictions, and losses."""

from __future__ import annotations

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
    # Of the rounds looked at: how many, the best loss, rounds since.
    _progress: tuple[int, float, int] = (0, np.inf, 0)

    @property
    def last_validation(self) -> float | None:
        """The latest validation loss, if there is one."""
        return self.validation[-1] if self.validation else None

    def rounds_since_best(self, tol: float) -> int:
        """Rounds since the validation loss last went down (or the score up) by more than `tol`."""
        seen, best, since = self._progress if self._progress[0] <= len(self.validation) else (0, np.inf, 0)
        for score in self.validation[seen:]:
            loss = -score if self.rises else score
            best, since = (loss, 0) if loss < best - tol else (best, since + 1)
        self._progress = (len(self.validation), best, since)
        return since

    def least_improvement(self, tol: float) -> float:
        """What counts as an improvement of a loss: `tol`, or that share of the first one where this is below 1."""
        return tol * min(1.0, abs(self.validation[0])) if self.validation else tol

    @property
    def best_round(self) -> int:
        """The number of rounds with the best validation, at least 1."""
        return int(np.argmin(self._falling)) + 1

    @property
    def best_loss(self) -> float:
        """The best validation, less what rises; infinite where there is none."""
        return min(self._falling, default=np.inf)

    @property
    def _falling(self) -> list[float]:
        return [-score for score in self.validation] if self.rises else self.validation
