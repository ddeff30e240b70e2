"""The loss of several targets: the sum of one loss for each, with raw predictions of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastens.engine.comm import Comm
from fastens.engine.elementary import sum_in_order
from fastens.engine.losses.losses import Array, Floats, Loss


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
