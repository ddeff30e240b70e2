"""Trees fitted to the residuals by least squares, whose leaves then take a Newton step (Friedman 2001)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, floats_of_bits, is_any, ordered_bits, sum_ints
from fastens.engine.losses.losses import Floats, Loss, weighted_mean
from fastens.engine.whole import are_whole

Array = NDArray[np.float64]
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
    >>> from fastens.engine.losses.least_squares import LeastSquares
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
