"""What is explained: a model and rows of a table; permutation importance and partial dependence."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.models.model_files import predicted_values
from fastens.cli.report.scores import Truth, mean_loss
from fastens.cli.table.card import ModelCard
from fastens.cli.table.columns import DATE, NUMBER, TIME, TIMESTAMP, kind_of
from fastens.files.python_values import python_values
from fastens.table.columns.dates import elapsed_days, times_of

Array = NDArray[np.float64]
# Predictions for shuffled values of all columns together, at most about so many; rows are left out evenly beyond.
MOST_PREDICTIONS = 2_000_000
MOST_ROWS, FEWEST_ROWS = 2000, 200
N_REPEATS = 5
N_VALUES = 24
N_CATEGORIES = 8
N_DEPENDENCE_ROWS = 300
_DATES = (DATE, TIMESTAMP)


@dataclass(frozen=True)
class Subject:
    """A model, its card, and rows of a table with their predictions.

    `truth` holds the true values where they are known, `numbers` the positions of the rows in the table. `trained_on`
    marks the rows that the model was trained on, if this is the table of training.
    """

    model: Any
    card: ModelCard
    X: pa.Table
    predicted: Array
    truth: Truth | None
    numbers: NDArray[np.intp]
    trained_on: NDArray[np.bool_] | None = None

    @property
    def classes(self) -> NDArray | None:
        """The labels, in the order of the probabilities."""
        return self.model.classes_ if self.predicted.ndim == 2 else None

    @property
    def outputs(self) -> Array:
        """Predictions as in `as_outputs`."""
        return as_outputs(self.predicted)

    @property
    def output_names(self) -> list[str]:
        """What the columns of `outputs` are: classes, or the target."""
        if self.classes is None:
            return [self.card.target or "prediction"]
        return [str(label) for label in (self.classes[1:] if len(self.classes) == 2 else self.classes)]

    def is_day(self, feature: str) -> bool:
        """Return True if a feature is a column of dates, which `as_numbers` makes days since 1970."""
        return kind_of(self.X[feature].type) in _DATES

    def take(self, rows: NDArray) -> Subject:
        """Some of the rows."""
        truth = None if self.truth is None else self.truth.take(rows)
        trained_on = None if self.trained_on is None else self.trained_on[rows]
        return Subject(
            self.model, self.card, self.X.take(rows), self.predicted[rows], truth, self.numbers[rows], trained_on
        )

    def with_values_of(self, column: int, rows: NDArray, donors: NDArray) -> Array:
        """Predictions for rows that have the value of a column from other rows."""
        X, name = self.X, self.X.column_names[column]
        return predicted_values(self.model, X.take(rows).set_column(column, name, X[name].take(donors)))

    def sample(self, most: int) -> NDArray[np.intp]:
        """At most so many rows, evenly spaced."""
        return np.arange(0, len(self.predicted), -(-len(self.predicted) // most))


def as_outputs(predicted: Array) -> Array:
    """Values in one column; probabilities in one for each class, but of two classes only the second."""
    values = predicted.reshape(len(predicted), -1)
    return values[:, 1:] if values.shape[1] == 2 else values


@dataclass(frozen=True)
class Importance:
    """Permutation importance: mean and standard error of each column."""

    measure: str
    mean: Array
    error: Array
    n_rows: int


def shuffled_importance(subject: Subject) -> Importance:
    """Growth of the loss when a column is shuffled; without true values, the mean change of predictions."""
    n_columns = subject.X.num_columns
    rows = subject.sample(int(np.clip(MOST_PREDICTIONS // (n_columns * N_REPEATS), FEWEST_ROWS, MOST_ROWS)))
    generator = np.random.default_rng(0)
    donors = np.array([generator.permutation(rows) for _ in range(N_REPEATS)])
    sample = subject.take(rows)
    growth = np.empty((n_columns, N_REPEATS))
    for column in range(n_columns):
        shuffled = subject.with_values_of(column, np.tile(rows, N_REPEATS), donors.ravel())
        growth[column] = [_change(sample, part) for part in np.split(shuffled, N_REPEATS)]
    error = growth.std(axis=1, ddof=1) / np.sqrt(N_REPEATS)
    return Importance(_measure(sample), growth.mean(axis=1), error, len(rows))


def _change(sample: Subject, predicted: Array) -> float:
    if sample.truth is None:
        return float(np.abs(predicted - sample.predicted).mean())
    return mean_loss(predicted, sample.truth) - mean_loss(sample.predicted, sample.truth)


def _measure(sample: Subject) -> str:
    return "change of predictions" if sample.truth is None else f"growth of the {sample.truth.loss_name}"


@dataclass(frozen=True)
class Dependence:
    """Partial dependence on a column: `means` (n_values, n_outputs) of the predictions for each of `values`.

    `counts` are the rows nearest to each value, `missing` the mean predictions without a value.
    """

    values: NDArray
    means: Array
    counts: NDArray[np.intp]
    missing: Array | None
    n_missing: int
    n_rows: int
    is_day: bool = False  # days since 1970, to be shown as dates

    @property
    def is_numeric(self) -> bool:
        """Whether the values are numbers."""
        return self.values.dtype.kind == "f"

    def of_outputs(self, outputs: NDArray[np.intp]) -> Dependence:
        """The same for some of the outputs."""
        missing = None if self.missing is None else self.missing[outputs]
        return replace(self, means=self.means[:, outputs], missing=missing)


def dependence(subject: Subject, column: int) -> Dependence:
    """Mean predictions over a sample of rows, each value of the column given to all of them (Friedman 2001)."""
    values = subject.X.column(column)
    if is_ordered(values):
        known, typical = _spread_values(values)
    else:
        known, typical = _frequent_values(values)
    absent = np.flatnonzero(_is_missing(values))
    rows = subject.sample(N_DEPENDENCE_ROWS)
    donors = np.append(typical, absent[:1])
    predicted = subject.with_values_of(column, np.tile(rows, len(donors)), np.repeat(donors, len(rows)))
    means = as_outputs(predicted).reshape(len(donors), len(rows), -1).mean(axis=1)
    n = len(typical)
    missing = means[n] if len(absent) else None
    return Dependence(known, means[:n], _counts(values, known), missing, len(absent), len(values))


def _spread_values(column: pa.ChunkedArray) -> tuple[Array, NDArray[np.intp]]:
    """Distinct numbers, evenly spaced by rank, without the outermost hundredths; and a row that has each."""
    numbers = as_numbers(column)
    present = np.flatnonzero(np.isfinite(numbers))
    if len(present) == 0:
        return np.empty(0), present
    ordered = present[np.argsort(numbers[present], kind="stable")]
    distinct = np.unique(numbers[present])
    shares = np.linspace(0.01, 0.99, N_VALUES) if len(distinct) > N_VALUES else np.linspace(0, 1, len(present))
    at = ordered[np.round(shares * (len(ordered) - 1)).astype(np.intp)]
    known, first = np.unique(numbers[at], return_index=True)
    return known, at[first]


def _frequent_values(column: pa.ChunkedArray) -> tuple[NDArray, NDArray[np.intp]]:
    """The most frequent categories, those that are numbers in their order, and a row that has each."""
    texts = as_texts(column)
    present = np.flatnonzero(~_is_missing(column))
    known, first, counts = np.unique(texts[present], return_index=True, return_counts=True)
    top = np.argsort(-counts, kind="stable")[:N_CATEGORIES]
    with contextlib.suppress(ValueError):  # no numbers: from the most frequent to the least
        top = top[np.argsort(known[top].astype(np.float64), kind="stable")]
    return known[top], present[first[top]]


def _counts(column: pa.ChunkedArray, known: NDArray) -> NDArray[np.intp]:
    """How many rows have, or are nearest to, each of the values."""
    if known.dtype.kind != "f":
        texts = as_texts(column)
        return np.array([np.count_nonzero(texts == value) for value in known], dtype=np.intp)
    numbers = as_numbers(column)
    nearest = np.searchsorted((known[1:] + known[:-1]) / 2, numbers[np.isfinite(numbers)])
    return np.bincount(nearest, minlength=len(known))


def is_ordered(column: pa.ChunkedArray) -> bool:
    """Return True if the values of a column are numbers or dates, which are high or low."""
    return kind_of(column.type) in (NUMBER, TIME, *_DATES)


def as_numbers(column: pa.ChunkedArray) -> Array:
    """Numbers, and dates as days since 1970; NaN where there is none."""
    if kind_of(column.type) in _DATES:
        return elapsed_days(times_of(column, ""))
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy())


def as_texts(column: pa.ChunkedArray) -> NDArray[np.str_]:
    """Cells as text, empty where missing."""
    return np.array(["" if value is None else str(value) for value in python_values(column)])


def _is_missing(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(column.is_null(nan_is_null=pa.types.is_floating(column.type)).to_numpy())
