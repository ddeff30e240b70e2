"""Losses of models from other libraries, whose predictions come from raw ones by links of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.engine.elementary import logaddexp, sum_in_order
from fastens.engine.losses.losses import Array, BinaryLogLoss, Loss, MulticlassLogLoss, SquaredError
from fastens.engine.losses.numeric_losses import CrossEntropy


class RootSquaredError(SquaredError):
    """The squared error of sign(y) sqrt(abs(y)); predictions are sign(raw) raw**2 (LightGBM's `reg_sqrt`)."""

    name = "squared_error_of_root"
    _kernel = "squared_error"

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The mean of the roots."""
        return super().start(_root(y), sample_weight)

    def gradients(
        self,
        y: Array,
        raw: Array,
        gradients: NDArray[np.float32],
        hessians: NDArray[np.float32] | None,
        n_threads: int = 1,
    ) -> None:
        """Those of the roots."""
        super().gradients(_root(y), raw, gradients, hessians, n_threads)

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Prediction less root, and 1."""
        return super().exact_derivatives(_root(y), raw)

    def residuals(self, y: Array, raw: Array, output: int) -> Array:
        """The root less the raw prediction."""
        return _root(y) - raw[output]

    def _losses_of(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        return super()._losses_of(_root(y), raw, n_threads)

    def predict(self, raw: Array) -> Array:
        """The squares."""
        return np.sign(raw[:, 0]) * raw[:, 0] * raw[:, 0]


class CrossEntropyLambda(CrossEntropy):
    """The cross entropy of 1 - exp(-m), the logistic function of raw; predictions are m = log(1 + exp(raw))."""

    name = "cross_entropy_lambda"

    def predict(self, raw: Array) -> Array:
        """The intensity m."""
        return logaddexp(0.0, raw[:, 0])


class OneVsRest(MulticlassLogLoss):
    """The sum over the classes of the log loss of each against all others; probabilities do not add up to 1."""

    name = "one_vs_rest"

    def gradients(
        self,
        y: Array,
        raw: Array,
        gradients: NDArray[np.float32],
        hessians: NDArray[np.float32] | None,
        n_threads: int = 1,
    ) -> None:
        """Those of each class."""
        loss = BinaryLogLoss()
        for k in range(self.n_outputs):
            own = slice(k, k + 1)
            curvature = None if hessians is None else hessians[own]
            loss.gradients(_is_class(y, k), raw[own], gradients[own], curvature, n_threads)

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """The same in double precision."""
        share = self.predict(raw.T).T
        return share - (y == np.arange(self.n_outputs)[:, None]), share * (1 - share)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The log odds of each class."""
        return np.concatenate([BinaryLogLoss().start(_is_class(y, k), sample_weight) for k in range(self.n_outputs)])

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """The sum over the classes."""
        loss: Loss = BinaryLogLoss()
        pairs = ((_is_class(y, k), np.ascontiguousarray(raw[k : k + 1])) for k in range(self.n_outputs))
        return sum_in_order(loss.loss(of_class, own, sample_weight, n_threads) for of_class, own in pairs)

    def predict(self, raw: Array) -> Array:
        """The probability of each class against all others."""
        loss = BinaryLogLoss()
        return np.column_stack([loss.predict(np.ascontiguousarray(column))[:, 1] for column in raw.T])


def _root(y: Array) -> Array:
    return np.sign(y) * np.sqrt(np.abs(y))


def _is_class(y: Array, k: int) -> Array:
    return (y == k).astype(np.float64)
