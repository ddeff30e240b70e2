"""The exponential loss of AdaBoost, for boosting by Newton steps (Gentle AdaBoost)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import max_floats
from fastens.engine.elementary import exp, expit
from fastens.engine.losses.losses import Floats, Loss

Array = NDArray[np.float64]


class ExponentialLoss(Loss):
    """exp(-s raw / 2) with s = 1 in the class, -1 outside; more than two classes: the mean over one raw per class.

    `raw` is on the scale of log odds. The Newton step of a leaf is twice the weighted mean of s: Gentle AdaBoost
    (Friedman, Hastie & Tibshirani 2000, algorithm 4; several classes: one against the rest, algorithm 8).
    """

    name = "exponential"

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = 1 if n_classes == 2 else n_classes

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """No preference: weights are equal in the first round."""
        return np.zeros(self.n_outputs)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the derivatives divided by the largest weight of each output: a common factor changes no tree."""
        assert hessians is not None
        for k, column in enumerate(raw):
            signs = self._signs(y, k)
            logs = -0.5 * signs * column
            weights = exp(logs - max_floats(self.comm, float(logs.max(initial=-np.inf)))[0])
            gradients[k] = -0.5 * signs * weights
            hessians[k] = 0.25 * weights

    def _losses_of(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        columns = [exp(np.minimum(-0.5 * self._signs(y, k) * column, 700.0)) for k, column in enumerate(raw)]
        return np.mean(columns, axis=0)

    def predict(self, raw: Array) -> Array:
        """Probabilities of the classes; several: those of one against the rest, scaled to sum to 1."""
        if self.n_outputs == 1:
            return np.hstack([expit(-raw), expit(raw)])
        share = expit(raw)
        share = np.maximum(share, np.finfo(float).tiny)
        return share / share.sum(axis=1, keepdims=True)

    def _signs(self, y: Array, k: int) -> Array:
        return np.where(y == (1 if self.n_outputs == 1 else k), 1.0, -1.0)
