"""Predictions of training rows by the rounds that did not draw them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.row_sampling import RowSample
from fastens.monitoring.measuring import OutOfBagSums, Rows

if TYPE_CHECKING:
    from fastens.base import TrainingData
    from fastens.engine.losses.losses import Loss

Array = NDArray[np.float64]


class OutOfBag:
    """Sums the trees that rows were left out of; `train` are all rows before the first round."""

    def __init__(self, loss: Loss, train: Rows, n_threads: int) -> None:
        self._loss, self._n_threads = loss, n_threads
        self._start, self._sums = train.raw.copy(), OutOfBagSums(*train.raw.shape)

    @contextmanager
    def watching(self, train: Rows, sample: RowSample | None) -> Iterator[None]:
        """Record what a round, added meanwhile, changes for the rows that it did not see."""
        assert sample is not None
        left_out = np.setdiff1d(np.arange(train.raw.shape[1]), sample.rows, assume_unique=True)
        before = train.take(left_out)
        yield
        self._sums.add(left_out, before, train.take(left_out), self._loss, self._n_threads)

    @property
    def improvement(self) -> Array:
        """By how much each round lowered the loss of the rows that it left out."""
        return np.array(self._sums.improvement)

    def raw(self) -> Array:
        """Raw predictions by trees that have not seen a row, (n_outputs, n_rows)."""
        return self._sums.raw(self._start, len(self._sums.improvement))


def out_of_bag_attributes(model: Any, out_of_bag: OutOfBag, data: TrainingData) -> dict[str, Array]:
    """The fitted attributes of an estimator that was trained on some rows of those given to `fit`."""
    raw = np.ascontiguousarray(out_of_bag.raw().T)
    is_classifier = hasattr(model, "predict_proba")
    found = model._response("predict_proba" if is_classifier else "predict", raw)
    if isinstance(found, list):
        found = np.concatenate(found, axis=1)
    if data.rows is not None:
        spread = np.full((int(data.rows.max()) + 1, *found.shape[1:]), np.nan)
        spread[data.rows] = found
        found = spread
    name = "oob_decision_function_" if is_classifier else "oob_prediction_"
    return {"oob_improvement_": out_of_bag.improvement, name: found}
