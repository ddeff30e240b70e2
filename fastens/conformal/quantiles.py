"""Conformal quantiles of nonconformity scores of held-out rows.

The score of a new row, exchangeable with n held-out rows, is at most their ceil(coverage (n + 1))-th smallest score
with probability `coverage` (Vovk et al. 2005).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.conformal.fold_quantiles import upper_ends as upper_ends_of_folds
from fastens.engine.elementary import sum_in_order
from fastens.engine.threads import threads_for

Array = NDArray[np.float64]

# Products of coverages and numbers of rows are whole numbers only nearly: 0.07 * 100 is more than 7.
_SLACK = 1e-9
# Rows that keep a thread busy for some 50 us.
_GRAIN = 50


@dataclass(frozen=True, eq=False)
class ConformalScores:
    """The scores of rows to calibrate on."""

    values: Array  # ascending
    upto: Array  # the weight of the rows before each; last, that of all

    @classmethod
    def of(cls, scores: Array, weight: Array | None = None) -> ConformalScores:
        """From scores in any order; a row of weight 2 is two rows, one of weight 0 none."""
        weight = np.ones(len(scores)) if weight is None else weight
        rows = np.flatnonzero(weight)
        rows = rows[np.argsort(scores[rows], kind="stable")]
        return cls(scores[rows], np.concatenate([[0.0], np.cumsum(weight[rows])]))

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.upto[-1])

    def place(self, weight: float) -> float:
        """The smallest score with at least this weight at or below it; infinity where there is less in all."""
        found = int(np.searchsorted(self.upto[1:], weight))
        return float(self.values[found]) if found < len(self.values) else math.inf

    def quantile(self, coverage: float) -> float:
        """The bound of a new row's score that holds with probability `coverage`."""
        return self.place(needed_weight([self], coverage))

    def weight_below(self, scores: Array) -> Array:
        """The weight of the rows whose score is smaller than each of these."""
        return self.upto[np.searchsorted(self.values, scores, side="left")]

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """As arrays whose names start with `prefix`."""
        return {f"{prefix}values": self.values, f"{prefix}upto": self.upto}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> ConformalScores:
        """From what `to_arrays` gave; ValueError for anything else."""
        values, upto = arrays[f"{prefix}values"], arrays[f"{prefix}upto"]
        if values.ndim != 1 or upto.shape != (len(values) + 1,) or not (np.diff(upto) > 0).all():
            raise ValueError("the scores to calibrate by are malformed")
        return cls(values, upto)


def needed_weight(parts: Sequence[ConformalScores], coverage: float) -> float:
    """The weight of all parts that must lie at or below a score; the new row counts 1."""
    return coverage * (sum_in_order(part.total for part in parts) + 1.0) * (1.0 - _SLACK)


def upper_ends(
    parts: Sequence[ConformalScores], centers: Array, scales: Array, coverage: float, n_threads: int = 1
) -> Array:
    """Upper ends of intervals around the predictions of several folds' models (CV+, Barber et al. 2021).

    Of the sums of center and scale times score, over the rows of all folds, each with its fold's center and scale, the
    conformal quantile. With one fold that is center + scale * quantile (split conformal). `centers` and `scales` are
    those of each fold's model for the new rows, (n_samples, n_folds).
    """
    values, upto = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "upto"))
    starts = np.cumsum([0, *(len(part.values) for part in parts)], dtype=np.int64)
    out = np.empty(len(centers))
    n_threads = threads_for(len(out), n_threads, _GRAIN)
    centers, scales = np.ascontiguousarray(centers), np.ascontiguousarray(scales)
    upper_ends_of_folds(values, upto, starts, centers, scales, needed_weight(parts, coverage), out, n_threads)
    return out
