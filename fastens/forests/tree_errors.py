"""How far a forest's predictions are off, by rows out of bag: quantiles of new targets, and calibrated intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.conformal.quantiles import ConformalScores
from fastens.conformal.scores import Errors, intervals, nearest_columns
from fastens.engine.losses.losses import weighted_quantile

Array = NDArray[np.float64]

# Intervals of other coverages start from the nearest of these, (1 - c) / 2 and (1 + c) / 2 for c = .5 ... .99.
LEVELS = (0.005, 0.025, 0.05, 0.1, 0.25, 0.75, 0.9, 0.95, 0.975, 0.995)
# Rows that are enough to calibrate by: the coverage of 20 000 varies by .002.
MAX_ROWS = 20_000
# Of the magnitude of an end, by the type of trees' values: trees that all say the same differ by rounding from their
# mean. Targets far from 0 beside their range have values of float64.
_ROUNDING = {4: 2.0**-21, 8: 2.0**-44}


@dataclass(frozen=True, eq=False)
class TargetQuantiles:
    """Quantiles of new targets from what the trees predict: the mean of two estimates.

    One is that of the trees' predictions, as in a quantile forest whose leaves keep one row each (Meinshausen 2006).
    The other is their mean, plus their standard deviation times the quantile of all rows' errors over it (Johansson et
    al. 2014). The first follows the shape of the noise, and takes what the function varies within a leaf for noise too;
    the second has one shape for all rows. With `has_one_spread` it has one width, too, because standard deviations keep
    no monotone constraint: both estimates then rise and fall with the trees' predictions.
    """

    floor: float  # is added to standard deviations
    scaled: ConformalScores  # target minus mean, over standard deviation, of rows out of bag
    has_one_spread: bool = False

    @classmethod
    def learn(
        cls, values: NDArray[np.floating], y: Array, weight: Array | None, *, has_one_spread: bool = False
    ) -> TargetQuantiles:
        """From what each tree predicts for each row, (n_rows, n_trees), NaN where it was grown on it."""
        mean, spread = _mean_and_spread(values)
        floor = weighted_quantile(spread, 0.5, weight) or 1.0
        scale = floor if has_one_spread else spread + floor
        return cls(floor, ConformalScores.of((y - mean) / scale, weight), has_one_spread)

    def predict(self, values: NDArray[np.floating], levels: Sequence[float] | Array) -> Array:
        """Return quantiles of the targets of rows for which the trees predict these values, (n_rows, n_levels)."""
        mean, spread = _mean_and_spread(values)
        steps = np.array([self.scaled.place(level * self.scaled.total) for level in levels])
        scale = np.full(len(mean), self.floor) if self.has_one_spread else spread + self.floor
        by_errors = mean[:, None] + scale[:, None] * steps
        return 0.5 * by_errors + 0.5 * quantiles_of_trees(values, levels)


@dataclass(frozen=True, eq=False)
class TreeErrors:
    """Errors, on rows out of bag, of the quantiles that the trees not grown on them give."""

    quantiles: TargetQuantiles
    errors: Errors  # of the quantiles of LEVELS

    @classmethod
    def learn(
        cls, values: NDArray[np.floating], y: Array, weight: Array | None, *, has_one_spread: bool = False
    ) -> TreeErrors | None:
        """From what each tree predicts for each row, NaN where it was grown on it; None without rows."""
        if not len(y):
            return None
        quantiles = TargetQuantiles.learn(values, y, weight, has_one_spread=has_one_spread)
        return cls(quantiles, Errors.of(quantiles.predict(values, LEVELS), y, np.ones(len(y)), weight))

    def intervals(self, values: NDArray[np.floating], coverage: float, n_threads: int) -> Array:
        """Return the two nearest quantiles, both moved by what it takes for the coverage out of bag, (n_rows, 2)."""
        columns = nearest_columns(LEVELS, len(LEVELS), coverage)
        ends = self.quantiles.predict(values, [LEVELS[column] for column in columns])
        # Each end's own magnitude lets an end rise with it; the larger one is of the trees' predictions.
        largest = np.abs(ends) if self.quantiles.has_one_spread else np.abs(ends).max(axis=1, keepdims=True)
        rounding = _ROUNDING[values.itemsize] * largest
        scores, one = self.errors.scores(columns), np.ones(len(ends))
        found = intervals([scores], [ends], [one], (0, 1), coverage, n_threads)
        return found + rounding * [-1.0, 1.0]

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """As arrays whose names start with `prefix`."""
        found = {f"{prefix}floor": np.array(self.quantiles.floor)}
        found |= {f"{prefix}one_spread": np.array(True)} if self.quantiles.has_one_spread else {}
        return found | self.quantiles.scaled.to_arrays(f"{prefix}scaled.") | self.errors.to_arrays(f"{prefix}errors.")

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> TreeErrors:
        """From what `to_arrays` gave; ValueError for anything else."""
        floor, errors = float(arrays[f"{prefix}floor"]), Errors.from_arrays(f"{prefix}errors.", arrays)
        if errors.above.shape[1] != len(LEVELS) or not floor > 0:
            raise ValueError("the errors out of bag are malformed")
        scaled = ConformalScores.from_arrays(f"{prefix}scaled.", arrays)
        return cls(TargetQuantiles(floor, scaled, f"{prefix}one_spread" in arrays), errors)


def quantiles_of_trees(values: NDArray[np.floating], levels: Sequence[float] | Array) -> Array:
    """Return quantiles of each row's values, (n_rows, n_levels), NaN left out.

    Level p is at place p (k + 1) of k ascending values (Weibull's), so that a new draw lies below it with probability p
    for any number of trees.
    """
    ordered = np.sort(values, axis=1).astype(np.float64)  # NaN last
    known = np.count_nonzero(~np.isnan(ordered), axis=1)[:, None]
    place = np.clip(np.asarray(levels) * (known + 1) - 1, 0, known - 1)
    low = place.astype(np.intp)
    share = place - low
    below, above = (np.take_along_axis(ordered, at, axis=1) for at in (low, np.minimum(low + 1, known - 1)))
    return below + share * (above - below)


def _mean_and_spread(values: NDArray[np.floating]) -> tuple[Array, Array]:
    return np.nanmean(values, axis=1, dtype=np.float64), np.nanstd(values, axis=1, dtype=np.float64)
