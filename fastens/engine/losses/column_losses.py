"""Losses with special fits: several targets, AdaBoost's exponential loss, least-squares trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, floats_of_bits, is_any, max_floats, ordered_bits, sum_ints
from fastens.engine.elementary import exp, expit, sum_in_order
from fastens.engine.losses.losses import Floats, Loss, weighted_mean
from fastens.engine.whole import are_whole


class ColumnLosses(Loss):
    """One loss for each column of y, an array of shape (n_rows, n_targets).

    Parameters
    ----------
    parts : sequence of Loss
        Of the same kind.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.losses.column_losses import ColumnLosses
    >>> from fastens.engine.losses.losses import BinaryLogLoss, SquaredError
    >>> loss = ColumnLosses([SquaredError(), BinaryLogLoss()])
    >>> loss.start(np.array([[1.0, 0.0], [3.0, 1.0]]))
    array([2., 0.])
    """

    def __init__(self, parts: Sequence[Loss]) -> None:
        self.n_outputs = sum(part.n_outputs for part in parts)
        self.parts = list(parts)
        self.name = parts[0].name
        self.constant_hessian = all(part.constant_hessian for part in parts)
        self.renews_leaves, self.has_log_odds = parts[0].renews_leaves, parts[0].has_log_odds
        ends = np.cumsum([part.n_outputs for part in parts])
        self._outputs = [slice(end - part.n_outputs, end) for end, part in zip(ends, parts, strict=True)]
        self._column_of = [column for column, part in enumerate(parts) for _ in range(part.n_outputs)]

    # Of the parts, so that losses have them that were pickled without.

    @property
    def measures_noise(self) -> bool:
        """Whether the variance of gradients falls to that of the noise."""
        return self.parts[0].measures_noise

    @property
    def noise_l2(self) -> float:  # type: ignore[override]
        """How many times a power of the noise the default L2 is."""
        return self.parts[0].noise_l2

    @property
    def noise_power(self) -> float:  # type: ignore[override]
        """That power."""
        return self.parts[0].noise_power

    def _targets(self, y: Array) -> list[tuple[Loss, slice, Array]]:
        columns = map(np.ascontiguousarray, y.T)
        return list(zip(self.parts, self._outputs, columns, strict=True))

    def join(self, comm: Comm) -> None:
        """Reduce over the rows of all ranks from here on."""
        super().join(comm)
        for part in self.parts:
            part.join(comm)

    def check_target(self, y: Array) -> None:
        """Raise ValueError where a part is not defined for its column."""
        for part, _, column in self._targets(y):
            part.check_target(column)

    def check_start(self, y: Array) -> None:
        """Raise ValueError where no constant of a part has the least loss of its column."""
        for part, _, column in self._targets(y):
            part.check_start(column)

    def check_measured(self) -> None:
        """Raise ValueError where the loss of a row is not known."""
        for part in self.parts:
            part.check_measured()

    def of_output(self, output: int) -> Loss:
        """What the part that a raw prediction belongs to says of it."""
        column = self._column_of[output]
        return self.parts[column].of_output(output - self._outputs[column].start)

    def residuals(self, y: Array, raw: Array, output: int) -> Array:
        """What the part that a raw prediction belongs to renews its leaves from."""
        column = self._column_of[output]
        outputs = self._outputs[column]
        return self.parts[column].residuals(y[:, column], raw[outputs], output - outputs.start)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The constant raw predictions of least loss."""
        return np.concatenate([part.start(column, sample_weight) for part, _, column in self._targets(y)])

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Renew what the parts learn from their residuals."""
        for part, outputs, column in self._targets(y):
            part.start_round(column, raw[outputs], sample_weight)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the derivatives of all parts."""
        for part, outputs, column in self._targets(y):
            own = None if hessians is None else hessians[outputs]
            part.gradients(column, raw[outputs], gradients[outputs], own, n_threads)

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """The mean of the parts' losses."""
        losses = [part.loss(column, raw[rows], sample_weight, n_threads) for part, rows, column in self._targets(y)]
        return sum_in_order(losses) / len(losses)

    def split(self, raw: Array) -> list[Array]:
        """Raw predictions of shape (n_rows, n_outputs) by target."""
        return [np.ascontiguousarray(raw[:, outputs]) for outputs in self._outputs]

    def predict(self, raw: Array) -> Any:
        """What the parts predict.

        Numbers of shape (n_rows, n_targets), several levels of shape (n_rows, n_targets, n_levels), or a list of
        probabilities.
        """
        found = [part.predict(own) for part, own in zip(self.parts, self.split(raw), strict=True)]
        of_classes = found[0].ndim == 2 and not self.parts[0].has_levels
        return found if of_classes else np.stack(found, axis=1)

    def damped(self, steps: Array) -> Array:
        """Newton steps of leaves, shape (n_nodes, n_outputs), as the parts cut them."""
        return np.concatenate([part.damped(own) for part, own in zip(self.parts, self.split(steps), strict=True)], 1)


def losses_of_targets(loss: Loss) -> list[Loss]:
    """The loss of each target."""
    return loss.parts if isinstance(loss, ColumnLosses) else [loss]


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


# A sum of whole numbers below 2**62 is exact.
_SUM_BITS = 62
# Largest step of a leaf: sums of thousands of such are finite. It takes a probability below 2**-50 to get there.
_LARGEST_STEP = 2.0**50


class LeastSquares(Loss):
    """A loss whose trees are chosen by the squared error of its negative gradients, r, as if all hessians were 1.

    A leaf is sum(r) / (sum(h) + l2) over its rows, h being the hessians: for the log loss sum(r) / sum(p (1 - p))
    (Friedman 2001, algorithms 5 and 6), for squared errors the mean residual. These sums are of double precision where
    the loss gives derivatives of such, and exact after rounding, in any order of the rows.

    Parameters
    ----------
    base : Loss
        One with hessians.
    l2 : float, default=0
        Added to the sum of hessians; where the weights' mean is below 1, times that mean.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.losses.column_losses import LeastSquares
    >>> from fastens.engine.losses.losses import BinaryLogLoss
    >>> loss, y, raw = LeastSquares(BinaryLogLoss()), np.array([0.0, 1.0, 1.0]), np.zeros((1, 3))
    >>> loss.gradients(y, raw, np.empty((1, 3), dtype=np.float32), None)
    >>> loss.leaf_values(loss.residuals(y, raw, 0), np.array([0, 1, 3]))
    array([-2.,  2.])
    """

    constant_hessian = True
    renews_leaves = True

    def __init__(self, base: Loss, l2: float = 0.0) -> None:
        self._base, self._given_l2, self._l2 = base, l2, l2
        self.name, self.n_outputs, self.bounds = base.name, base.n_outputs, base.bounds
        self.by_rows, self.has_levels = base.by_rows, base.has_levels
        self._steps = np.empty((base.n_outputs, 0, 2))

    def join(self, comm: Comm) -> None:
        """Reduce over the rows of all ranks from here on."""
        super().join(comm)
        self._base.join(comm)

    def check_target(self, y: Array) -> None:
        """Raise ValueError where the loss is not defined for `y`."""
        self._base.check_target(y)

    def check_start(self, y: Array) -> None:
        """Raise ValueError where no constant has the least loss."""
        self._base.check_start(y)

    def check_measured(self) -> None:
        """Raise ValueError where the loss of a row is not known."""
        self._base.check_measured()

    def magnitude(self, y: Array) -> float:
        """What raw predictions are hardly much larger than."""
        return self._base.magnitude(y)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The constant raw prediction of least loss, shape (n_outputs,)."""
        return self._base.start(y, sample_weight)

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Renew what the loss learns from the residuals, and the penalty's share of small weights."""
        mean_weight = 1.0 if sample_weight is None else weighted_mean(sample_weight, None, self.comm)
        self._l2 = self._given_l2 * min(1.0, mean_weight)
        self._base.start_round(y, raw, sample_weight)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the first derivatives, which trees are fitted to, and keep both for the leaves of the round."""
        first, second = self._base.exact_derivatives(y, raw)
        gradients[:] = first
        self._steps = np.stack([-first, second], axis=2)

    def residuals(self, y: Array, raw: Array, output: int) -> Array:
        """The negative gradient and the hessian of each row at the start of the round, shape (n_rows, 2)."""
        return self._steps[output]

    def leaf_values(
        self,
        residuals: Array,
        leaf_starts: NDArray[np.int64],
        sample_weight: Array | None = None,
        n_threads: int = 1,
    ) -> Array:
        """Sum of the negative gradients of each leaf over that of the hessians; 0 where that is 0."""
        step, hessian = (_leaf_sums(column, leaf_starts, sample_weight, self.comm) for column in residuals.T)
        hessian += self._l2
        values = np.divide(step, hessian, out=np.zeros_like(step), where=hessian > 0)
        return np.clip(values, -_LARGEST_STEP, _LARGEST_STEP)

    def row_losses(self, y: Array, raw: Array) -> Array:
        """The loss of each row, where there is one raw prediction; both (n_rows,)."""
        return self._base.row_losses(y, raw)

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """Weighted mean of the rows' losses."""
        return self._base.loss(y, raw, sample_weight, n_threads)

    def predict(self, raw: Array) -> Array:
        """From raw predictions of shape (n_rows, n_outputs) to means, quantiles or probabilities."""
        return self._base.predict(raw)

    def deviation(self, mean: Array) -> Array:
        """What the standard deviation of targets with such means is proportional to."""
        return self._base.deviation(mean)


def _leaf_sums(values: Array, leaf_starts: NDArray[np.int64], weights: Array | None, comm: Comm = LOCAL) -> Array:
    """Weighted sums over the rows of each leaf: of whole numbers, after rounding to as many bits as there is room."""
    copies = np.ones(len(values), dtype=np.int64)
    if weights is not None and _are_few_copies(weights, comm):
        copies = weights.astype(np.int64)
    elif weights is not None:
        values = values * weights
    # Ranks may have no rows of a leaf, for which `reduceat` has no sum.
    filled = np.flatnonzero(np.diff(leaf_starts))
    first = leaf_starts[:-1][filled]
    largest = np.zeros(len(leaf_starts) - 1)
    totals = np.zeros((2, len(largest)), dtype=np.int64)
    largest[filled] = np.maximum.reduceat(np.abs(values), first)
    totals[0, filled] = np.add.reduceat(copies, first)
    keys = ordered_bits(largest)
    comm.max(keys)
    comm.sum(totals)
    n_bits = _SUM_BITS - np.frexp(totals[0].astype(np.float64))[1]
    exponent = np.minimum(n_bits - np.frexp(floats_of_bits(keys))[1], 1000)
    whole = np.rint(np.ldexp(values, np.repeat(exponent, np.diff(leaf_starts)))).astype(np.int64) * copies
    totals[1, filled] = np.add.reduceat(whole, first)
    comm.sum(totals[1])
    return np.ldexp(totals[1].astype(np.float64), -exponent)


def _are_few_copies(weights: Array, comm: Comm) -> bool:
    """Whether weights are whole numbers whose sum leaves room for a value."""
    if is_any(comm, not are_whole(weights)):
        return False
    return sum_ints(comm, int(weights.sum()))[0] < 2**40
