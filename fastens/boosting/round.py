"""One round of boosting: the rows it is grown on, their gradients, and what its steps are multiplied by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.row_sampling import RowSample
from fastens.monitoring.measuring import Rows

if TYPE_CHECKING:
    from fastens.engine.bins.pages import MappedPages
    from fastens.engine.bins.sparse_binned import AnyCodes, AnyMatrix
    from fastens.engine.losses.losses import Loss

Array = NDArray[np.float64]
Gradients = NDArray[np.float32]
# Which raw predictions a tree has values for: one, or all of them.
Outputs = int | slice


class Problem(NamedTuple):
    """What the trees of all rounds are grown for."""

    matrix: AnyMatrix  # the training rows
    loss: Loss  # what to lower
    weight: Array | None  # sample weights
    own_weight: Array | None  # without those of classes, where both are given
    constant_hessian: bool  # all hessians are 1 before weighting
    grid: float | None  # all values that are added to raw predictions are multiples of this, where it is not None
    n_threads: int  # number of threads


class Table(NamedTuple):
    """Rows that trees are added to: their codes, (n_features, n_rows), and their values where leaves read them."""

    codes: AnyCodes
    X: Any = None
    pages: MappedPages | None = None  # of codes in files


class Round(NamedTuple):
    """What the trees of a round are grown from."""

    train: Rows  # the training rows with their raw predictions, which trees are added to
    gradients: Gradients  # derivatives of the loss before the round
    hessians: Gradients
    sample: RowSample | None  # the rows drawn; None for all
    first_seed: int  # of the first tree; those of the others follow
    rate: float  # factor of every leaf value
    # Other rows that trees are added to: those to validate on, and their raw predictions.
    watched: tuple[Table, Array] | None = None

    @property
    def rows(self) -> NDArray[np.uint32] | None:
        """The rows drawn, ascending; None for all."""
        return None if self.sample is None else self.sample.rows

    def seed(self, tree: int) -> int:
        """The seed of the round's tree of that number."""
        return (self.first_seed + tree) % 2**64

    def derivatives(self, outputs: Outputs) -> tuple[Gradients, Gradients]:
        """Gradients and hessians of outputs; those of rows that stand for others are multiplied."""
        gradients, hessians = self.gradients[outputs], self.hessians[outputs]
        if self.sample is None or self.sample.factors is None:
            return gradients, hessians
        gradients, hessians = gradients.copy(), hessians.copy()
        gradients[..., self.sample.rows] *= self.sample.factors
        hessians[..., self.sample.rows] *= self.sample.factors
        return gradients, hessians


def on_grid(values: Array, grid: float | None) -> Array:
    """Values rounded to multiples of `grid`; as they are where it is None."""
    return values if grid is None else np.rint(values / grid) * grid
