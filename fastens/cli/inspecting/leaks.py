"""How much of the target single columns give away, and which sums, differences, products and ratios give all of it.

A column is cut into bins, and a bin predicts the mean of its training rows: counts are all that is needed, so a column
of 10 000 rows takes a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats

from fastens.cli.table.columns import BOOLEAN, DATE, NUMBER, TIMESTAMP, features, kind_of
from fastens.cli.table.target import CLASSIFICATION
from fastens.table.shuffled_folds import shuffled_folds

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
# Rows are drawn beyond this number; folds; bins of a column at most, with this many training rows each at least.
MOST_ROWS, N_FOLDS, N_BINS, BIN_ROWS, FEW_BINS = 10_000, 3, 256, 5, 16
# Rows of the prior in the mean of each bin: few, or they hide that a small bin is pure.
PRIOR_ROWS = 0.01
# Classes beyond the most frequent ones are one.
MOST_CLASSES = 20
# From here on a column gives the target away; a formula of several has to be better, as two good columns may be .99.
GIVES_AWAY, FORMULA_GIVES_AWAY = 0.99, 0.999
# Formulas: rows, the columns looked at for linear ones, and for those of each pair, and the terms of a formula.
FORMULA_ROWS, MOST_LINEAR, MOST_PAIRED, MOST_TERMS = 1000, 60, 6, 6
FEWEST_ROWS, PRESENT = 30, 0.8
NUMERIC = (NUMBER, BOOLEAN, DATE, TIMESTAMP)
# The factors of a linear combination, the columns, and how much of the target it is.
Linear = tuple[Array, list[str], float]


@dataclass(frozen=True)
class Formula:
    """What several columns give together: how, of which columns, and how much of the target."""

    text: str
    names: list[str]
    score: float


def sampled(n_rows: int, most: int = MOST_ROWS) -> NDArray[np.intp]:
    """The rows to look at, in their order."""
    rows = np.random.default_rng(0).permutation(n_rows)[:most]
    return np.sort(rows)


# Columns alone --------------------------------------------------


class Scorer:
    """Scores of columns on rows that they were not fitted on: an AUC, or the R² of the target's ranks.

    Ranks, as a few rows of a long tail would else decide the score. The AUC is the mean over the classes, each against
    the others, weighted by their rows, so that rare classes do not decide it. NaN where there is no score.
    """

    def __init__(self, y: NDArray, task: str) -> None:
        self.is_classification = task == CLASSIFICATION
        self.y: NDArray[Any] = _class_codes(y) if self.is_classification else stats.rankdata(y)
        self._folds = _folds(self.y, self.is_classification)
        n_training = min((len(train) for train, _ in self._folds), default=0)
        self.n_bins = int(np.clip(n_training // BIN_ROWS, 2, N_BINS))

    def table(self, X: pa.Table) -> float:
        """The best score of the features that were made of one column."""
        found = [self._column(X.column(place)) for place in range(X.num_columns)]
        return float(np.nanmax(found)) if found and np.isfinite(found).any() else float("nan")

    def _column(self, column: pa.ChunkedArray) -> float:
        if kind_of(column.type) not in (NUMBER, BOOLEAN) or pa.types.is_dictionary(column.type):
            return self.codes(category_codes(column))
        type_ = pa.int8() if pa.types.is_boolean(column.type) else column.type
        return self.numbers(np.asarray(column.cast(type_).cast(pa.float64(), safe=False).to_numpy()))

    def numbers(self, values: Array) -> float:
        """The score of numbers: of many bins, or of few where the others are mostly noise."""
        return float(np.fmax(self.codes(binned(values, self.n_bins)), self.codes(binned(values, FEW_BINS))))

    def codes(self, codes: Codes) -> float:
        """The score of bins."""
        by_fold = [self._score(codes, train, test) for train, test in self._folds]
        known = [value for value in by_fold if np.isfinite(value)]
        return float(np.mean(known)) if known else float("nan")

    def _score(self, codes: Codes, train: Codes, test: Codes) -> float:
        n_bins, y = int(codes.max(initial=0)) + 1, self.y
        if self.is_classification:
            n_classes = int(y.max()) + 1
            counts = [
                np.bincount(codes[rows] * n_classes + y[rows], minlength=n_bins * n_classes).reshape(n_bins, n_classes)
                for rows in (train, test)
            ]
            return _mean_area(*counts)
        sums = np.bincount(codes[train], y[train], n_bins)
        mean = y[train].mean()
        means = (sums + PRIOR_ROWS * mean) / (np.bincount(codes[train], minlength=n_bins) + PRIOR_ROWS)
        return _r_squared(means[codes[test]], y[test])


def _class_codes(y: NDArray) -> Codes:
    """Codes of classes, those beyond the most frequent ones taken together."""
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(counts) <= MOST_CLASSES:
        return codes
    rank = np.empty(len(counts), dtype=np.intp)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank[codes], MOST_CLASSES - 1)


def _folds(y: NDArray, is_classification: bool) -> list[tuple[Codes, Codes]]:
    # One class at least must have a row in each fold.
    most = int(np.bincount(y).max()) if is_classification and len(y) else len(y)
    n_folds = min(N_FOLDS, most)
    if n_folds < 2:
        return []
    return shuffled_folds(y, n_folds, 0, stratified=is_classification)


def category_codes(column: pa.ChunkedArray) -> Codes:
    """The codes of categories; missing ones have a code of their own."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = column.unify_dictionaries().combine_chunks()
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    indices = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.unique(indices, return_inverse=True)[1]


def binned(values: Array, n_bins: int) -> Codes:
    """Bins of numbers with about equally many rows; frequent numbers, and missing ones, have their own."""
    is_known = np.isfinite(values)
    ordered = np.sort(values[is_known])
    if not len(ordered):
        return np.zeros(len(values), dtype=np.intp)
    places = (np.arange(1, n_bins) * len(ordered)) // n_bins
    borders = np.concatenate([ordered[:1], ordered[places]])
    edges, n_times = np.unique(borders, return_counts=True)
    edges = np.union1d(edges, np.nextafter(edges[(n_times > 1)], np.inf))
    if ordered[0] < ordered[len(ordered) // n_bins // 2]:
        edges = edges[1:]  # the first bin has the lowest numbers, not one of them
    codes = 1 + np.searchsorted(edges, values, side="right")
    codes[~is_known] = 0
    return codes.astype(np.intp)


def _mean_area(training: NDArray, test: NDArray) -> float:
    """The mean AUC of classes, from the rows of each bin and class."""
    n_training, prior = training.sum(axis=1, keepdims=True), training.sum(axis=0) / max(training.sum(), 1)
    chances = (training + PRIOR_ROWS * prior) / (n_training + PRIOR_ROWS)
    areas, weights = [], []
    for k in [1] if test.shape[1] == 2 else range(test.shape[1]):
        true, other = test[:, k], test.sum(axis=1) - test[:, k]
        if not true.sum() or not other.sum():
            continue
        _, places = np.unique(chances[:, k], return_inverse=True)
        true, other = np.bincount(places, true), np.bincount(places, other)
        below = np.cumsum(other) - other
        areas.append((true * (below + other / 2)).sum() / (true.sum() * other.sum()))
        weights.append(true.sum())
    return float(np.average(areas, weights=weights)) if areas else float("nan")


def _r_squared(predicted: Array, y: Array) -> float:
    spread = ((y - y.mean()) ** 2).sum()
    return float(1 - ((y - predicted) ** 2).sum() / spread) if spread > 0 else float("nan")


def scores_alone(table: pa.Table, kinds: Mapping[str, str], y: NDArray, task: str) -> dict[str, float]:
    """The score of each column alone."""
    scorer = Scorer(y, task)
    return {name: scorer.table(features(table.select([name]), {name: kind})) for name, kind in kinds.items()}


# Formulas --------------------------------------------------


def formulas(
    table: pa.Table, kinds: Mapping[str, str], y: NDArray, task: str, alone: Mapping[str, float]
) -> list[Formula]:
    """Sums, differences, products and ratios of columns that give the target away, though none does alone."""
    rows = sampled(len(table), FORMULA_ROWS)
    numbers = {
        name: values
        for name, kind in kinds.items()
        if kind in NUMERIC and not alone.get(name, 0) >= GIVES_AWAY
        if (values := _numbers(table[name].take(rows), kind)) is not None
    }
    y = y[rows]
    if len(numbers) < 2 or len(y) < FEWEST_ROWS:
        return []
    best = sorted(numbers, key=lambda name: -np.nan_to_num(alone.get(name, 0), nan=-1.0))
    if task == CLASSIFICATION:
        codes = _class_codes(y)
        wanted = (codes == np.argmax(np.bincount(codes))).astype(np.float64)
    else:
        wanted = y.astype(np.float64)
    linear = _linear(numbers, best[:MOST_LINEAR], wanted)
    if task != CLASSIFICATION:
        found = _as_formula(linear, by_power=False) or _powers(numbers, best[:MOST_LINEAR], wanted)
        return found or _pairs(numbers, best[:MOST_PAIRED], y, task)
    heaviest = [] if linear is None else linear[1]
    tried = list(dict.fromkeys([*heaviest[: MOST_PAIRED // 2], *best]))[:MOST_PAIRED]
    return _pairs(numbers, tried, y, task)


def _numbers(column: pa.ChunkedArray, kind: str) -> Array | None:
    """Numbers, truths and dates as numbers; None where most are missing, or all are the same."""
    if kind in (DATE, TIMESTAMP):
        made = features(pa.table({"": column}), {"": kind})
        values = np.asarray(made.column(0).to_numpy()).astype(np.float64)
    else:
        type_ = pa.int8() if pa.types.is_boolean(column.type) else column.type
        if kind_of(type_) != NUMBER:
            return None
        values = np.asarray(column.cast(type_).cast(pa.float64(), safe=False).to_numpy())
    known = values[np.isfinite(values)]
    return values if len(known) >= PRESENT * len(values) and len(known) and np.ptp(known) > 0 else None


def _linear(numbers: Mapping[str, Array], names: list[str], y: Array) -> Linear | None:
    """The fewest columns whose linear combination is the target, with their factors, the largest share first."""
    X = np.column_stack([numbers[name] for name in names])
    rows = np.isfinite(X).all(axis=1) & np.isfinite(y)
    X, y = X[rows], y[rows]
    spread = X.std(axis=0) if len(X) else np.zeros(len(names))
    if len(y) < max(FEWEST_ROWS, 4 * len(names)) or np.ptp(y) == 0 or not np.isfinite(spread).all():
        return None
    keep = np.flatnonzero(spread > 0)
    half = np.random.default_rng(0).permutation(len(y)) < len(y) // 2

    def fitted(columns: NDArray[np.intp]) -> tuple[Array, float]:
        Z = np.column_stack([(X[:, columns] - X[:, columns].mean(axis=0)) / spread[columns], np.ones(len(X))])
        factors = np.linalg.lstsq(Z[half], y[half], rcond=None)[0]
        return factors[:-1], _r_squared(Z[~half] @ factors, y[~half])

    factors, score = fitted(keep)
    least = max(FORMULA_GIVES_AWAY, 1 - 2 * (1 - score) - 1e-9)  # no worse than with all columns
    while len(keep) > 1 and score >= FORMULA_GIVES_AWAY:
        fewer = np.delete(keep, np.abs(factors).argmin())
        of_fewer = fitted(fewer)
        if of_fewer[1] < least:
            break
        keep, factors, score = fewer, *of_fewer
    order = np.argsort(-np.abs(factors), kind="stable")
    return (factors / spread[keep])[order], [names[place] for place in keep[order]], score


def _powers(numbers: Mapping[str, Array], names: list[str], y: Array) -> list[Formula]:
    """A product of powers that is the target, such as price * number, or weight / height²."""
    logs = {name: np.where(numbers[name] > 0, np.log(np.maximum(numbers[name], 1e-300)), np.nan) for name in names}
    logs = {
        name: values
        for name, values in logs.items()
        if np.isfinite(values).sum() >= PRESENT * len(y) and np.nanstd(values) > 0
    }
    if len(logs) < 2 or (y > 0).sum() < PRESENT * len(y):
        return []
    found = _linear(logs, list(logs), np.where(y > 0, np.log(np.maximum(y, 1e-300)), np.nan))
    return _as_formula(found, by_power=True)


def _as_formula(found: Linear | None, by_power: bool) -> list[Formula]:
    """A linear combination, of numbers or of their logarithms, if a few columns are the target by it."""
    if found is None or found[2] < FORMULA_GIVES_AWAY or not 2 <= len(found[1]) <= MOST_TERMS:
        return []
    factors, names, score = found
    return [Formula(_written(factors, names, by_power), names, score)]


def _pairs(numbers: Mapping[str, Array], names: list[str], y: NDArray, task: str) -> list[Formula]:
    """The sum, difference, product or ratio of two columns that says most about the target, if it says all."""
    scorer = Scorer(y, task)
    best: Formula | None = None
    for one, other in combinations(names, 2):
        for text, values in _operations(one, other, numbers):
            score = scorer.numbers(values)
            if score >= FORMULA_GIVES_AWAY and (best is None or score > best.score):
                best = Formula(text, [one, other], score)
    return [] if best is None else [best]


def _operations(one: str, other: str, numbers: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    a, b = numbers[one], numbers[other]
    with np.errstate(all="ignore"):
        yield f"{one!r} + {other!r}", a + b
        yield f"{one!r} - {other!r}", a - b
        yield f"{one!r} * {other!r}", a * b
        yield f"{one!r} / {other!r}", a / b


def _written(factors: Array, names: list[str], by_power: bool) -> str:
    """A formula as it would be typed; factors that are common to all terms are left out."""
    sizes = np.abs(factors)
    unit = 1.0 if by_power else sizes.max()
    is_plain = bool(np.all(np.abs(sizes / unit - np.round(sizes / unit)) < 0.02) and np.all(sizes > 0.5 * unit))
    if not is_plain:
        return ("a product of powers of " if by_power else "a sum of multiples of ") + ", ".join(map(repr, names))
    order = np.argsort(factors < 0, kind="stable")  # what is subtracted, or divided by, comes last
    text = ""
    for place in order:
        power = round(float(sizes[place] / unit))
        term = repr(names[place]) + (f"^{power}" if by_power and power != 1 else "")
        sign = ((" * ", " / ") if by_power else (" + ", " - "))[int(factors[place] < 0)]
        text += sign + term if text else ("1" + sign if by_power and factors[place] < 0 else sign.strip(" +*")) + term
    return text


def perfect(scores: Mapping[str, float]) -> str | None:
    """The name of a score that is perfect, or as good as that; None where none is."""
    least = {name: FORMULA_GIVES_AWAY for name in scores if name.startswith(("AUC", "R²"))} | {"accuracy": 1.0}
    return next((name for name, limit in least.items() if scores.get(name, 0.0) >= limit), None)
