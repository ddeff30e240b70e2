"""The weights of the rows while AdaBoost runs: kept as logarithms, used as whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.adaboost.reweight import advance, class_sums, make_whole
from fastens.engine.comm import LOCAL, Comm, first_row, gathered, is_any, max_floats, sum_ints, sum_over
from fastens.engine.elementary import log
from fastens.engine.rows.sampling import Bootstrap, hash_order, mixed
from fastens.engine.threads import threads_for
from fastens.engine.whole import are_whole

# Least rows of a thread: some tens of microseconds of work.
_GRAIN = 1 << 14
# Whole weights stay below 2**50, their sum below 2**62.
_WEIGHT_BITS = 50
_SUM_BITS = 62
# The shift may be above the largest logarithm by so much: 4 of at least 40 bits are lost, which no sum notices.
_SLACK = 3.0
_MOST_CLASSES = 1 << 16


def class_numbers(y: NDArray[np.float64], n_classes: int) -> NDArray[np.uint16]:
    """The rows' classes in the 16 bits that kernels read; ValueError where there are more classes."""
    if n_classes > _MOST_CLASSES:
        raise ValueError(f"y must hold at most {_MOST_CLASSES} classes; it holds {n_classes}.")
    return y.astype(np.uint16)


class RowWeights:
    """Weights that rounds of boosting change, one of each row.

    A weight is exp(logarithm), so that it may fall below the smallest float and rise again, whatever the number of
    rounds. For sums it is rounded to a multiple of 2**-40 or less of the largest weight: sums of whole numbers are
    exact, and do not depend on the order or the threads. Whole sample weights mean so many copies, to the bit.
    """

    def __init__(
        self,
        classes: NDArray[np.uint16],
        sample_weight: NDArray[np.float64] | None = None,
        n_threads: int = 1,
        comm: Comm = LOCAL,
    ) -> None:
        self.classes, self._comm = classes, comm
        self.n_rows = len(classes)
        self.logs = np.zeros(self.n_rows)
        self.copies: NDArray[np.int64] | None = None
        if sample_weight is not None:
            self._start(sample_weight)
        (self.n_copies,) = sum_ints(comm, self.n_rows if self.copies is None else int(self.copies.sum()))
        self._scale = math.ldexp(1.0, min(_WEIGHT_BITS, _SUM_BITS - self.n_copies.bit_length()))
        self._n_threads = threads_for(self.n_rows, n_threads, _GRAIN)
        # The weights, rounded; those of whole sample weights times `copies`. `total` is their sum.
        self.whole = np.empty(self.n_rows, dtype=np.int64)
        self._start_logs = self.logs.copy() if self.logs.any() else 0.0
        self._find_largest()
        self._make_whole()
        self._log_start = self._log_sum

    def _start(self, sample_weight: NDArray[np.float64]) -> None:
        is_whole = not is_any(self._comm, not are_whole(sample_weight))
        if is_whole and sum(self._comm.gather(float(sample_weight.sum()))) < 2.0**40:
            self.copies = sample_weight.astype(np.int64)
        else:
            self.logs[:] = log(sample_weight)

    def _find_largest(self) -> None:
        (self._largest,) = max_floats(self._comm, float(self.logs.max(initial=-np.inf)))

    def _make_whole(self) -> None:
        self._shift = self._largest
        total = make_whole(self.logs, self.classes, self.copies, self.whole, self._shift, self._scale, self._n_threads)
        (self.total,) = sum_ints(self._comm, total)

    def advance(self, codes: NDArray[np.unsignedinteger], steps: NDArray[np.float64]) -> None:
        """Add ``steps[code, class]`` to the logarithm of each row's weight."""
        self._shift = self._largest + float(steps.max())
        total, largest = advance(
            self.logs, self.classes, self.copies, self.whole, self._shift, self._scale, codes, steps, self._n_threads
        )
        (self.total,), (self._largest,) = sum_ints(self._comm, total), max_floats(self._comm, largest)
        if self._shift - self._largest > _SLACK:
            self._make_whole()

    def add(self, steps: NDArray[np.float64]) -> None:
        """Add a step of its own to the logarithm of each row's weight."""
        self.logs += steps
        self._find_largest()
        self._make_whole()

    def copy(self) -> RowWeights:
        """Weights that change apart from these."""
        other = copy(self)
        other.logs, other.whole = self.logs.copy(), self.whole.copy()
        return other

    def restart(self) -> None:
        """Return to the weights of the start."""
        self.logs[:] = self._start_logs
        self._find_largest()
        self._make_whole()

    @property
    def _log_sum(self) -> float:
        return float(log(self.total) - log(self._scale)) + self._shift

    @property
    def log_loss_ratio(self) -> float:
        """Logarithm of the sum of the weights over that of the start: of the mean exponential loss."""
        return self._log_sum - self._log_start

    @property
    def shares(self) -> NDArray[np.float64]:
        """The distribution: weights that sum to 1."""
        return self.whole / self.total

    def mean(self, losses: NDArray[np.float64]) -> float:
        """The mean in the distribution of numbers from 0 to 1, each times the weight of one copy of its row rounded."""
        copies = 1 if self.copies is None else self.copies
        lost = np.rint(self.whole // copies * losses).astype(np.int64) * copies
        (total,) = sum_ints(self._comm, int(lost.sum()))
        return total / self.total

    def rounded(self, n_bits: int) -> NDArray[np.int64]:
        """The whole weights in fewer bits: their sum is about 2**n_bits or less; copies of a row stay alike."""
        surplus = max(0, self.total.bit_length() - n_bits)
        if self.copies is None:
            return (self.whole + ((1 << surplus) >> 1)) >> surplus
        return ((self.whole // self.copies + ((1 << surplus) >> 1)) >> surplus) * self.copies

    def sums(self, cells: NDArray[np.unsignedinteger], n_cells: int, n_classes: int) -> NDArray[np.int64]:
        """Sum of the weights by cell and class."""
        sums = np.zeros((n_cells, n_classes), dtype=np.int64)
        class_sums(cells, self.classes, self.whole, sums)
        return sum_over(self._comm, sums)

    def draw(self, order: NDArray[np.uint32], seed: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Draw rows with replacement from the distribution, as many as there are; how often each here was drawn.

        `order` is that of `content_order`: draws then depend on what the rows hold, not on where they stand. `seed` is
        an array of one.
        """
        (whole,) = gathered(self._comm, [self.whole])
        first, n_rows = first_row(self._comm, self.n_rows)
        ends = np.cumsum(whole.take(order)).astype(np.float64)
        offsets, draws = np.array([[0, n_rows], [0, self.n_copies]], dtype=np.int64)
        counts = Bootstrap(order, ends, offsets, draws).counts(seed)[0]
        return counts[first : first + self.n_rows].astype(np.int64)


def content_order(
    columns: Iterable[NDArray[Any]], classes: NDArray[np.uint16], comm: Comm = LOCAL
) -> NDArray[np.uint32]:
    """The rows of all ranks in the order of a hash of what they hold, given column by column."""
    step = np.uint64(0x9E3779B97F4A7C15)
    hashes = mixed(classes.astype(np.uint64) + np.uint64(1) + step)
    for column in columns:
        bits = (column + 0.0).view(np.uint64) if column.dtype.kind == "f" else column.astype(np.uint64)
        hashes = mixed((hashes ^ bits) + step)
    (hashes,) = gathered(comm, [hashes])
    return hash_order(hashes).astype(np.uint32)
