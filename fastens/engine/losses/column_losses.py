"""Losses that consist of other losses, AdaBoost's exponential loss, and least-squares trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, floats_of_bits, is_any, max_floats, ordered_bits, sum_ints
from fastens.engine.elementary import exp, expit, sum_in_order
from fastens.engine.losses.losses import NO_LINK, BinaryLogLoss, Floats, Link, Loss, binary_probabilities, weighted_mean
from fastens.engine.whole import are_whole


class JoinedLosses(Loss):
    """Base class of losses that consist of other losses, each with its own raw predictions and target.

    Parameters
    ----------
    parts : sequence of Loss
        The losses, all of the same kind.
    """

    # True if the loss is the sum of the parts instead of their mean.
    _is_sum: ClassVar[bool] = False

    def __init__(self, parts: Sequence[Loss]) -> None:
        self.n_outputs = sum(part.n_outputs for part in parts)
        self.parts = list(parts)
        self.name = parts[0].name
        self.constant_hessian = all(part.constant_hessian for part in parts)
        self.renews_leaves, self.has_log_odds = parts[0].renews_leaves, parts[0].has_log_odds
        self.has_distribution, self.measures_noise = parts[0].has_distribution, parts[0].measures_noise
        self.noise_l2, self.noise_power = parts[0].noise_l2, parts[0].noise_power
        ends = np.cumsum([part.n_outputs for part in parts])
        self._outputs = [slice(end - part.n_outputs, end) for end, part in zip(ends, parts, strict=True)]
        self._part_of_output = [number for number, part in enumerate(parts) for _ in range(part.n_outputs)]

    def target_of(self, y: Array, part: int) -> Array:
        """Return the target of the part with index `part`, computed from the target `y` of the whole loss."""
        raise NotImplementedError

    def _iterate_parts(self, y: Array) -> Iterator[tuple[Loss, slice, Array]]:
        """Yield each part with the slice of its rows in raw predictions (n_outputs, n_rows), and its target."""
        for number, (part, outputs) in enumerate(zip(self.parts, self._outputs, strict=True)):
            yield part, outputs, self.target_of(y, number)

    def join(self, comm: Comm) -> None:
        """Set the communicator of the loss and of its parts, so that all sums run over the rows of all ranks."""
        super().join(comm)
        for part in self.parts:
            part.join(comm)

    def check_target(self, y: Array) -> None:
        """Raise ValueError if a part is not defined for its target."""
        for part, _, target in self._iterate_parts(y):
            part.check_target(target)

    def check_start(self, y: Array) -> None:
        """Raise ValueError if no constant minimizes the loss of a part for its target."""
        for part, _, target in self._iterate_parts(y):
            part.check_start(target)

    def check_measured(self, y: Array | None = None) -> None:
        """Raise ValueError if a part is a user-defined loss without row losses; `y` is ignored."""
        for part in self.parts:
            part.check_measured()

    def of_output(self, output: int) -> Loss:
        """Return the part's loss that computes the leaf values of the trees of one output."""
        number = self._part_of_output[output]
        return self.parts[number].of_output(output - self._outputs[number].start)

    def residuals(self, y: Array, raw: Array, output: int) -> Array:
        """Return the residuals from which the leaf values of one output's trees are computed, shape (n_rows,)."""
        number = self._part_of_output[output]
        outputs = self._outputs[number]
        return self.parts[number].residuals(self.target_of(y, number), raw[outputs], output - outputs.start)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the constant raw predictions with the lowest loss, shape (n_outputs,)."""
        return np.concatenate([part.start(target, sample_weight) for part, _, target in self._iterate_parts(y)])

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Update the state of all parts that depends on residuals; call this before the gradients of each round."""
        for part, outputs, target in self._iterate_parts(y):
            part.start_round(target, raw[outputs], sample_weight)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the derivatives of all parts to `gradients` and `hessians` (unless None), shape (n_outputs, n_rows)."""
        for part, outputs, target in self._iterate_parts(y):
            curvature = None if hessians is None else hessians[outputs]
            part.gradients(target, raw[outputs], gradients[outputs], curvature, n_threads)

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return gradients and hessians of shape (n_outputs, n_rows), in double precision if the parts support it."""
        pairs = [part.exact_derivatives(target, raw[outputs]) for part, outputs, target in self._iterate_parts(y)]
        return np.concatenate([first for first, _ in pairs]), np.concatenate([second for _, second in pairs])

    def log_dispersion(self, y: Array, raw: Array, sample_weight: Array | None = None) -> Array | None:
        """Return the change of each raw prediction, shape (n_outputs,), that makes predicted spreads match the errors.

        Returns None if any part does not predict the dispersion of its target.
        """
        parts = self._iterate_parts(y)
        shifts = [part.log_dispersion(target, raw[outputs], sample_weight) for part, outputs, target in parts]
        defined = [shift for shift in shifts if shift is not None]
        return np.concatenate(defined) if len(defined) == len(shifts) else None

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """Return the mean of the weighted mean losses of the parts, or their sum for one-vs-rest."""
        parts = self._iterate_parts(y)
        total = sum_in_order(part.loss(target, raw[rows], sample_weight, n_threads) for part, rows, target in parts)
        return total if self._is_sum else total / len(self.parts)

    def row_losses(self, y: Array, raw: Array) -> Array:
        """Return the loss of each row, if there is only one part; `raw` and the result have shape (n_rows,)."""
        return self.parts[0].row_losses(self.target_of(y, 0), raw)

    def split(self, raw: Array) -> list[Array]:
        """Split raw predictions (n_rows, n_outputs) into one contiguous array (n_rows, n_part_outputs) per part."""
        return [np.ascontiguousarray(raw[:, outputs]) for outputs in self._outputs]

    def damped(self, steps: Array) -> Array:
        """Return the Newton steps of leaves, (n_nodes, n_outputs), shortened in each part's columns by its `damped`."""
        return np.concatenate(
            [part.damped(part_steps) for part, part_steps in zip(self.parts, self.split(steps), strict=True)], 1
        )


class ColumnLosses(JoinedLosses):
    """Loss for multi-output targets, with one loss for each column of y, shape (n_rows, n_targets).

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.losses.column_losses import ColumnLosses
    >>> from fastens.engine.losses.losses import BinaryLogLoss, SquaredError
    >>> loss = ColumnLosses([SquaredError(), BinaryLogLoss()])
    >>> loss.start(np.array([[1.0, 0.0], [3.0, 1.0]]))
    array([2., 0.])
    """

    link = NO_LINK

    def target_of(self, y: Array, part: int) -> Array:
        """Return column `part` of y."""
        return np.ascontiguousarray(y[:, part])

    def predict(self, raw: Array) -> Any:
        """Return the predictions of the parts.

        Regression returns an array of shape (n_rows, n_targets), or (n_rows, n_targets, n_levels) for several levels;
        classification returns a list of probability arrays.
        """
        predicted = [part.predict(part_raw) for part, part_raw in zip(self.parts, self.split(raw), strict=True)]
        is_classification = predicted[0].ndim == 2 and not self.parts[0].has_levels
        return predicted if is_classification else np.stack(predicted, axis=1)


class SeveralLevels(JoinedLosses):
    """Several quantiles or expectiles with one raw prediction each; predictions are sorted so that they never cross.

    Sorting never increases the error, and predictions remain monotone if each level is (Chernozhukov, Fernandez-Val &
    Galichon 2010, "Quantile and probability curves without crossing").
    """

    has_levels = True
    link = Link("sorted", partial(np.sort, axis=1))

    def target_of(self, y: Array, part: int) -> Array:
        """Return y, which is the target of all levels."""
        return y


def _one_vs_rest_probabilities(raw: Array) -> Array:
    """Return the sigmoid of each raw prediction of shape (n_rows, n_classes); rows do not sum to 1."""
    return np.column_stack([binary_probabilities(np.ascontiguousarray(column))[:, 1] for column in raw.T])


class OneVsRest(JoinedLosses):
    """Sum of the one-vs-rest log losses of all classes; probabilities do not sum to 1."""

    link = Link("", _one_vs_rest_probabilities)
    _is_sum = True

    def __init__(self, n_classes: int) -> None:
        super().__init__([BinaryLogLoss() for _ in range(n_classes)])
        self.name = "one_vs_rest"

    def target_of(self, y: Array, part: int) -> Array:
        """Return 1.0 for the rows of class `part` and 0.0 for all other rows."""
        return (y == part).astype(np.float64)

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return gradients p - y and hessians p (1 - p) of each class, both of shape (n_classes, n_rows)."""
        share = self.predict(raw.T).T
        return share - (y == np.arange(self.n_outputs)[:, None]), share * (1 - share)


def losses_of_targets(loss: Loss) -> list[Loss]:
    """Return the loss of each target column: the parts of a multi-output loss, otherwise a list of the loss."""
    return loss.parts if isinstance(loss, ColumnLosses) else [loss]


Array = NDArray[np.float64]


def _binary_sigmoid(raw: Array) -> Array:
    """Return the probabilities of both classes, shape (n_rows, 2), for log odds of shape (n_rows, 1)."""
    return np.hstack([expit(-raw), expit(raw)])


def _normalised_sigmoids(raw: Array) -> Array:
    """Return the sigmoids of one-vs-rest log odds, shape (n_rows, n_classes), divided by the sum of their row."""
    share = np.maximum(expit(raw), np.finfo(float).tiny)
    return share / share.sum(axis=1, keepdims=True)


class ExponentialLoss(Loss):
    """Exponential loss exp(-s raw / 2) with s = 1 for the class and -1 otherwise; its one-vs-rest mean if multiclass.

    Raw predictions are on the log-odds scale. The Newton step of a leaf is twice the weighted mean of s, as in Gentle
    AdaBoost (Friedman, Hastie & Tibshirani 2000, algorithm 4; algorithm 8 for one-vs-rest multiclass).
    """

    name = "exponential"

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = 1 if n_classes == 2 else n_classes
        is_binary = n_classes == 2
        self.link = Link("sigmoid", _binary_sigmoid) if is_binary else Link("one vs rest", _normalised_sigmoids)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return 0, so that all weights are equal in the first round."""
        return np.zeros(self.n_outputs)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the derivatives to `gradients` and `hessians`, both of shape (n_outputs, n_rows).

        Both are divided by the largest weight of any row, for each output, which prevents overflow and does not
        change the trees.
        """
        assert hessians is not None
        for k, column in enumerate(raw):
            signs = self._class_signs(y, k)
            logs = -0.5 * signs * column
            weights = exp(logs - max_floats(self.comm, float(logs.max(initial=-np.inf)))[0])
            gradients[k] = -0.5 * signs * weights
            hessians[k] = 0.25 * weights

    def _compute_row_losses(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        """Return the loss of each row, shape (n_rows,), for raw predictions of shape (n_outputs, n_rows)."""
        columns = [exp(np.minimum(-0.5 * self._class_signs(y, k) * column, 700.0)) for k, column in enumerate(raw)]
        return np.mean(columns, axis=0)

    def _class_signs(self, y: Array, output: int) -> Array:
        """Return 1.0 for the rows of the class that an output predicts and -1.0 for all other rows."""
        return np.where(y == (1 if self.n_outputs == 1 else output), 1.0, -1.0)


# Sums of integers below 2**62 are exact.
_SUM_BITS = 62
# Maximum step of a leaf, so that sums of thousands of steps stay finite. Only probabilities below 2**-50 reach it.
_LARGEST_STEP = 2.0**50


class LeastSquares:
    """Loss whose trees minimize the squared error of its negative gradients r, as if all hessians were 1.

    The value of a leaf is sum(r) / (sum(h) + l2) over its rows, where h are the hessians: sum(r) / sum(p (1 - p)) for
    the log loss (Friedman 2001, algorithms 5 and 6), and the mean residual for the squared error. The sums use double
    precision if the loss provides such derivatives; after rounding, they are exact and independent of the row order.

    Parameters
    ----------
    base : Loss
        Loss with hessians.
    l2 : float, default=0
        Added to the sum of hessians. If the mean weight is below 1, it is multiplied by the mean weight.

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
    measures_noise = has_log_odds = False
    noise_l2, noise_power, noise_unit, tail = Loss.noise_l2, Loss.noise_power, Loss.noise_unit, Loss.tail

    def __init__(self, base: Loss, l2: float = 0.0) -> None:
        self._base, self._given_l2, self._l2 = base, l2, l2
        self._steps = np.empty((base.n_outputs, 0, 2))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the base loss, which defines everything except the fit of trees."""
        if name.startswith("__") or name == "_base":  # before `__init__`, as in unpickling
            raise AttributeError(name)
        return getattr(self._base, name)

    def of_output(self, output: int) -> LeastSquares:
        """Return this loss, because it computes the leaf values of all outputs."""
        return self

    def damped(self, steps: Array) -> Array:
        """Return the Newton steps of leaves unchanged, because leaf values are computed from sums instead."""
        return steps

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Start a round of the base loss; set the L2 penalty to its parameter times min(1, mean sample weight)."""
        mean_weight = 1.0 if sample_weight is None else weighted_mean(sample_weight, None, self._base.comm)
        self._l2 = self._given_l2 * min(1.0, mean_weight)
        self._base.start_round(y, raw, sample_weight)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the gradients, which trees are fitted to, to `gradients`; store both derivatives for leaf values."""
        first, second = self._base.exact_derivatives(y, raw)
        gradients[:] = first
        self._steps = np.stack([-first, second], axis=2)

    def residuals(self, y: Array, raw: Array, output: int) -> Array:
        """Return the negative gradient and the hessian of each row at the start of the round, shape (n_rows, 2)."""
        return self._steps[output]

    def leaf_values(
        self,
        residuals: Array,
        leaf_starts: NDArray[np.int64],
        sample_weight: Array | None = None,
        n_threads: int = 1,
    ) -> Array:
        """Return sum(r) / (sum(h) + l2) of each leaf, or 0 if the divisor is 0, for rows (r, h) sorted by leaf."""
        step, hessian = (_leaf_sums(column, leaf_starts, sample_weight, self._base.comm) for column in residuals.T)
        hessian += self._l2
        values = np.divide(step, hessian, out=np.zeros_like(step), where=hessian > 0)
        return np.clip(values, -_LARGEST_STEP, _LARGEST_STEP)


def _leaf_sums(values: Array, leaf_starts: NDArray[np.int64], weights: Array | None, comm: Comm = LOCAL) -> Array:
    """Return the weighted sum of the values in each leaf over all ranks, shape (n_leaves,).

    Leaf i holds the values from `leaf_starts[i]` to `leaf_starts[i + 1]`. They are rounded to fixed point first, so the
    sum does not depend on row order.
    """
    copies = np.ones(len(values), dtype=np.int64)
    if weights is not None and _are_small_counts(weights, comm):
        copies = weights.astype(np.int64)
    elif weights is not None:
        values = values * weights
    # A rank may not have rows of every leaf, and `reduceat` does not support empty segments.
    filled = np.flatnonzero(np.diff(leaf_starts))
    first = leaf_starts[:-1][filled]
    largest = np.zeros(len(leaf_starts) - 1)
    totals = np.zeros((2, len(largest)), dtype=np.int64)
    largest[filled] = np.maximum.reduceat(np.abs(values), first)
    totals[0, filled] = np.add.reduceat(copies, first)
    keys = ordered_bits(largest)
    comm.allreduce_max(keys)
    comm.allreduce_sum(totals)
    n_bits = _SUM_BITS - np.frexp(totals[0].astype(np.float64))[1]
    exponent = np.minimum(n_bits - np.frexp(floats_of_bits(keys))[1], 1000)
    whole = np.rint(np.ldexp(values, np.repeat(exponent, np.diff(leaf_starts)))).astype(np.int64) * copies
    totals[1, filled] = np.add.reduceat(whole, first)
    comm.allreduce_sum(totals[1])
    return np.ldexp(totals[1].astype(np.float64), -exponent)


def _are_small_counts(weights: Array, comm: Comm) -> bool:
    """Return True if the weights of all ranks are integers with a sum below 2**40, so that they count as copies."""
    if is_any(comm, not are_whole(weights)):
        return False
    return sum_ints(comm, int(weights.sum()))[0] < 2**40
