"""Predictions of training rows by the rounds that did not draw them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.row_sampling import RowSample
from fastens.engine.comm import gathered, is_any
from fastens.monitoring.measuring import Rows

if TYPE_CHECKING:
    from fastens.base import TrainingData
    from fastens.engine.losses.losses import Loss

Array = NDArray[np.float64]


class OutOfBag:
    """Sums the trees that rows were left out of; `train` are all rows before the first round."""

    def __init__(self, loss: Loss, train: Rows, n_threads: int) -> None:
        self._loss, self._n_threads, self._start = loss, n_threads, train.raw.copy()
        self._sums, self._n_rounds = np.zeros(train.raw.shape), np.zeros(train.raw.shape[1], dtype=np.int64)
        self._kept: tuple[Array, NDArray[np.int64], int] | None = None  # both and the number of rounds, at the best
        self.improvement: list[float] = []  # by how much each round lowered the loss of the rows that it left out

    @contextmanager
    def watching(self, train: Rows, sample: RowSample | None) -> Iterator[None]:
        """Record what a round, added meanwhile, changes for the rows that it did not see."""
        assert sample is not None
        left_out = np.setdiff1d(np.arange(train.raw.shape[1]), sample.rows, assume_unique=True)
        before = train.take(left_out)
        yield
        if not is_any(self._loss.comm, len(left_out) > 0):
            self.improvement.append(np.nan)
            return
        after = train.take(left_out)
        self.improvement.append(before.loss(self._loss, self._n_threads) - after.loss(self._loss, self._n_threads))
        self._sums[:, left_out] += after.raw - before.raw
        self._n_rounds[left_out] += 1

    def keep(self) -> None:
        """Let the rounds so far give the predictions: those after the best one are not in the model."""
        self._kept = self._sums.copy(), self._n_rounds.copy(), len(self.improvement)

    def raw(self) -> Array:
        """Raw predictions by the trees not grown on a row, scaled up to all rounds kept, (n_outputs, n_rows).

        NaN for rows that were never left out.
        """
        sums, n_rounds, n_kept = self._kept or (self._sums, self._n_rounds, len(self.improvement))
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._start + sums * (n_kept / n_rounds)


def out_of_bag_attributes(model: Any, out_of_bag: OutOfBag | None, data: TrainingData) -> dict[str, Array]:
    """The fitted attributes of an estimator that was trained on some rows of those given to `fit`, on all ranks.

    None of them where nothing was measured.
    """
    if out_of_bag is None:
        return {}
    raw = np.ascontiguousarray(out_of_bag.raw().T)
    is_classifier = hasattr(model, "predict_proba")
    found = model._response("predict_proba" if is_classifier else "predict", raw)
    if isinstance(found, list):
        found = np.concatenate(found, axis=1)
    if data.rows is not None:
        spread = np.full((data.n_given, *found.shape[1:]), np.nan)
        spread[data.rows] = found
        found = spread
    (found,) = gathered(data.comm, [found])
    name = "oob_decision_function_" if is_classifier else "oob_prediction_"
    return {"oob_improvement_": np.array(out_of_bag.improvement), name: found}
