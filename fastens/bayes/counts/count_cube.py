"""The count cube: class weights in every cell of a table of discrete attributes, one cell for every conjunction."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.cube import fill, log_weights, spread, sum_out

MAX_NUMBERS = 1 << 27  # a gigabyte of float64


class CountCube:
    """The weight of each class in every cell of a table of attributes, in which an attribute may also be "any value".

    `codes` hold the attributes' values, 0, 1, ..., in each row, -1 where missing: such a row is only in cells of "any
    value". `counts` has the shape (n_cells, n_classes). The number of a cell is the sum of its digits times `strides`;
    the digit sizes[j] is "any value" of attribute j, so that the last cell holds all rows. ValueError if the cube would
    take more than a gigabyte.
    """

    def __init__(
        self,
        codes: NDArray[np.int64],
        classes: NDArray[np.int64],
        weight: NDArray[np.float64],
        sizes: Sequence[int],
        n_classes: int,
    ) -> None:
        check_cube_size(sizes, n_classes)
        self.sizes = np.array(sizes, dtype=np.int64)
        self.strides = np.concatenate([np.cumprod(self.sizes[:0:-1] + 1)[::-1], [1]]).astype(np.int64)
        self.counts = np.zeros((math.prod(n + 1 for n in sizes), n_classes))
        fill(self.cells_of(codes), classes, weight, self.counts)
        sum_out(self.counts.reshape(-1), self.sizes, n_classes)

    def __len__(self) -> int:
        return math.prod((self.sizes + 1).tolist())

    def cells_of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cell of each row of codes."""
        return np.where(codes < 0, self.sizes, codes) @ self.strides

    def digits_of(self, cell: int) -> NDArray[np.int64]:
        """A cell's value of each attribute, -1 for any."""
        digits = cell // self.strides % (self.sizes + 1)
        return np.where(digits == self.sizes, -1, digits)

    def n_fixed(self) -> NDArray[np.int64]:
        """For each cell the number of attributes that are not "any value"."""
        fixed = np.zeros(1, dtype=np.int64)
        for size in self.sizes.tolist():
            fixed = np.add.outer(fixed, [1] * size + [0]).ravel()
        return fixed

    def log_weights(
        self, per_error: float, per_constraint: float, most_errors: float, out: NDArray[np.float64]
    ) -> tuple[float, int]:
        """Write to each cell, as a conjunction, the log of a weight that falls with errors and constraints.

        Errors are the first class's weight inside and the second's outside; -inf where they are more than
        `most_errors`. Returns the least errors, and the first cell that has them.
        """
        # The kernel has room for attributes with values alone: of others there may be any number.
        known = np.flatnonzero(self.sizes) if self.sizes.any() else np.zeros(1, np.intp)
        layout = np.stack([self.sizes[known], self.strides[known]])
        return log_weights(self.counts, layout, per_error, per_constraint, most_errors, out)

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each cell the sum of `values` over all cells it lies within, itself included.

        Entries of rows with missing values sum over the cells of "any value" there.
        """
        spread_values = np.array(values, dtype=np.float64, order="C")
        spread(spread_values.reshape(-1), self.sizes, spread_values.size // len(self))
        return spread_values


def check_cube_size(sizes: Sequence[int], n_classes: int) -> None:
    """Raise ValueError for a cube that would not fit the memory."""
    n_cells = math.prod(n + 1 for n in sizes)
    if n_cells * n_classes > MAX_NUMBERS:
        raise ValueError(
            f"X must have few enough attributes and values that all conjunctions can be counted; they are {n_cells}, "
            f"and at most {MAX_NUMBERS // n_classes} fit."
        )
