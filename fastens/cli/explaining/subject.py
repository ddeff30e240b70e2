"""The subject of an explanation report: a model and rows, with importances and contributions."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.models.model_files import predict_values
from fastens.cli.report.report import Truth, mean_loss, row_losses
from fastens.cli.table.columns import DATE, NUMBER, TIME, TIMESTAMP, kind_of
from fastens.cli.table.split import ModelCard
from fastens.files.formats import python_value, python_values
from fastens.inspection.contribution_plots import explained_quantity, output_labels
from fastens.inspection.plotting import number_text
from fastens.table.columns.dates import elapsed_days, times_of

Array = NDArray[np.float64]
# The approximate maximum number of predictions for shuffled columns; rows are subsampled evenly to stay below it.
MAX_PREDICTIONS = 2_000_000
MAX_ROWS, MIN_ROWS = 2000, 200
N_REPEATS = 5
N_VALUES = 24
N_CATEGORIES = 8
N_DEPENDENCE_ROWS = 300
_DATES = (DATE, TIMESTAMP)


@dataclass(frozen=True)
class Subject:
    """A model, its card, and rows of a table with their predictions.

    `truth` contains the true values if they are known, and `numbers` the positions of the rows in the table.
    `trained_on` marks the training rows if this is the training table.
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
        """The classes in the order of the probabilities, or None for regression."""
        return self.model.classes_ if self.predicted.ndim == 2 else None

    @property
    def outputs(self) -> Array:
        """The predictions in the form of `as_outputs`."""
        return as_outputs(self.predicted)

    @property
    def output_names(self) -> list[str]:
        """The names of the columns of `outputs`: classes, or the target."""
        if self.classes is None:
            return [self.card.target or "prediction"]
        return [str(label) for label in (self.classes[1:] if len(self.classes) == 2 else self.classes)]

    def is_day(self, feature: str) -> bool:
        """Return True if a feature is a column of dates, which `as_numbers` converts to days since 1970."""
        return kind_of(self.X[feature].type) in _DATES

    def take(self, rows: NDArray) -> Subject:
        """Return the subject with only the rows at these indices."""
        truth = None if self.truth is None else self.truth.take(rows)
        trained_on = None if self.trained_on is None else self.trained_on[rows]
        return Subject(
            self.model, self.card, self.X.take(rows), self.predicted[rows], truth, self.numbers[rows], trained_on
        )

    def predict_with_values(self, column: int, rows: NDArray, donors: NDArray) -> Array:
        """Predict rows[i] after its value in the column at index `column` is replaced by the one in donors[i]."""
        X, name = self.X, self.X.column_names[column]
        return predict_values(self.model, X.take(rows).set_column(column, name, X[name].take(donors)))

    def sample_rows(self, max_rows: int) -> NDArray[np.intp]:
        """Return at most `max_rows` evenly spaced row indices."""
        return np.arange(0, len(self.predicted), -(-len(self.predicted) // max_rows))


def as_outputs(predicted: Array) -> Array:
    """Return predictions as a matrix (n_rows, n_outputs); for two classes, only probabilities of the second one."""
    values = predicted.reshape(len(predicted), -1)
    return values[:, 1:] if values.shape[1] == 2 else values


@dataclass(frozen=True)
class Importance:
    """Permutation importance with the mean and the standard error for each column."""

    measure: str
    mean: Array
    error: Array
    n_rows: int


def shuffled_importance(subject: Subject) -> Importance:
    """Return the mean loss increase, or without true values the mean change of predictions, if a column is shuffled."""
    n_columns = subject.X.num_columns
    rows = subject.sample_rows(int(np.clip(MAX_PREDICTIONS // (n_columns * N_REPEATS), MIN_ROWS, MAX_ROWS)))
    generator = np.random.default_rng(0)
    donors = np.array([generator.permutation(rows) for _ in range(N_REPEATS)])
    sample = subject.take(rows)
    growth = np.empty((n_columns, N_REPEATS))
    for column in range(n_columns):
        shuffled = subject.predict_with_values(column, np.tile(rows, N_REPEATS), donors.ravel())
        growth[column] = [_score_change(sample, part) for part in np.split(shuffled, N_REPEATS)]
    error = growth.std(axis=1, ddof=1) / np.sqrt(N_REPEATS)
    return Importance(_measure_name(sample), growth.mean(axis=1), error, len(rows))


def _score_change(sample: Subject, predicted: Array) -> float:
    """Return by how much `predicted` increases the loss; without true values, its mean absolute change."""
    if sample.truth is None:
        return float(np.abs(predicted - sample.predicted).mean())
    return mean_loss(predicted, sample.truth) - mean_loss(sample.predicted, sample.truth)


def _measure_name(sample: Subject) -> str:
    """Return what an importance measures: a change of the predictions, or an increase of the named loss."""
    return "change of the predictions" if sample.truth is None else f"increase of the {sample.truth.loss_name}"


@dataclass(frozen=True)
class Dependence:
    """Partial dependence on a column: `means` (n_values, n_outputs) of the predictions for each of `values`.

    `counts` are the numbers of rows nearest to each value, and `missing` the mean predictions for a missing value.
    """

    values: NDArray
    means: Array
    counts: NDArray[np.intp]
    missing: Array | None
    n_missing: int
    n_rows: int
    is_day: bool = False  # True if values are days since 1970, which are shown as dates

    @property
    def is_numeric(self) -> bool:
        """True if the values are numbers."""
        return self.values.dtype.kind == "f"

    def select_outputs(self, outputs: NDArray[np.intp]) -> Dependence:
        """Return the dependence of the outputs with these indices."""
        missing = None if self.missing is None else self.missing[outputs]
        return replace(self, means=self.means[:, outputs], missing=missing)


def partial_dependence(subject: Subject, column: int) -> Dependence:
    """Return mean predictions by value of the column at this index, over a sample of rows (Friedman 2001)."""
    values = subject.X.column(column)
    if is_ordered(values):
        distinct, typical = _spread_values(values)
    else:
        distinct, typical = _frequent_values(values)
    absent = np.flatnonzero(_missing_mask(values))
    rows = subject.sample_rows(N_DEPENDENCE_ROWS)
    donors = np.append(typical, absent[:1])
    predicted = subject.predict_with_values(column, np.tile(rows, len(donors)), np.repeat(donors, len(rows)))
    means = as_outputs(predicted).reshape(len(donors), len(rows), -1).mean(axis=1)
    n = len(typical)
    missing = means[n] if len(absent) else None
    return Dependence(distinct, means[:n], _value_counts(values, distinct), missing, len(absent), len(values))


def _spread_values(column: pa.ChunkedArray) -> tuple[Array, NDArray[np.intp]]:
    """Return up to about N_VALUES distinct numbers, evenly spaced by rank, and the index of a row with each."""
    numbers = as_numbers(column)
    present = np.flatnonzero(np.isfinite(numbers))
    if len(present) == 0:
        return np.empty(0), present
    ordered = present[np.argsort(numbers[present], kind="stable")]
    distinct = np.unique(numbers[present])
    shares = np.linspace(0.01, 0.99, N_VALUES) if len(distinct) > N_VALUES else np.linspace(0, 1, len(present))
    at = ordered[np.round(shares * (len(ordered) - 1)).astype(np.intp)]
    points, first = np.unique(numbers[at], return_index=True)
    return points, at[first]


def _frequent_values(column: pa.ChunkedArray) -> tuple[NDArray, NDArray[np.intp]]:
    """Return the N_CATEGORIES most frequent texts, in numeric order if all are numbers, and a row index for each."""
    texts = as_texts(column)
    present = np.flatnonzero(~_missing_mask(column))
    categories, first, counts = np.unique(texts[present], return_index=True, return_counts=True)
    top = np.argsort(-counts, kind="stable")[:N_CATEGORIES]
    with contextlib.suppress(ValueError):  # categories that are not numbers stay ordered by frequency
        top = top[np.argsort(categories[top].astype(np.float64), kind="stable")]
    return categories[top], present[first[top]]


def _value_counts(column: pa.ChunkedArray, distinct: NDArray) -> NDArray[np.intp]:
    """Return the number of rows with each of the texts `distinct` or, if they are numbers, nearest to each."""
    if distinct.dtype.kind != "f":
        texts = as_texts(column)
        return np.array([np.count_nonzero(texts == value) for value in distinct], dtype=np.intp)
    numbers = as_numbers(column)
    nearest = np.searchsorted((distinct[1:] + distinct[:-1]) / 2, numbers[np.isfinite(numbers)])
    return np.bincount(nearest, minlength=len(distinct))


def is_ordered(column: pa.ChunkedArray) -> bool:
    """Return True if the values of a column are numbers, times or dates, which have an order."""
    return kind_of(column.type) in (NUMBER, TIME, *_DATES)


def as_numbers(column: pa.ChunkedArray) -> Array:
    """Convert a column to numbers, with dates as days since 1970 and NaN for missing values."""
    if kind_of(column.type) in _DATES:
        return elapsed_days(times_of(column, ""))
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy())


def as_texts(column: pa.ChunkedArray) -> NDArray[np.str_]:
    """Convert cells to text, with empty text for missing values."""
    return np.array(["" if value is None else str(value) for value in python_values(column)])


def _missing_mask(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return the mask of the rows whose value is missing or NaN."""
    return np.asarray(column.is_null(nan_is_null=pa.types.is_floating(column.type)).to_numpy())


N_STEPS = 8
N_OTHERS = 100
NOTHING = 1e-3  # steps smaller than this share of the largest are not shown
MAX_WORDS, QUOTED = 60, 300
TINY = 1e-300
ADDED = "Bars lead from the expected prediction to the prediction for the row."
REPLACED = "Bars show the mean change of the prediction if the column takes the values of other rows."
LEFT_OUT = "Bars show the contribution of each word, which is the change of the prediction if the word is removed."
Step = tuple[str, str, float]


@dataclass(frozen=True)
class Reasons:
    """Explanation of the prediction for a row by steps (column, value, change), largest first.

    `start` is the expected prediction, or None if the steps do not add up to the prediction. `rest` is the sum of the
    columns that are not listed. `text` is the text of the row for text models.
    """

    row: int
    choice: str
    start: float | None
    steps: list[Step]
    rest: float | None
    label: str
    way: str
    text: str | None = None


def choose_rows(subject: Subject) -> dict[int, str]:
    """Return {row index: reason to show it}, with reasons such as "largest error" or "median prediction"."""
    predicted, choices = subject.predicted, {}
    if subject.truth is not None:
        losses = row_losses(predicted, subject.truth)
        choices[int(losses.argmax())] = "largest error"
    if subject.classes is None:
        candidates = {int(predicted.argmax()): "highest prediction", int(predicted.argmin()): "lowest prediction"}
    else:
        surest = predicted.max(axis=1)
        candidates = {int(surest.argmin()): "least certain", int(surest.argmax()): "most certain"}
    for row, choice in candidates.items():
        choices.setdefault(row, choice)
    typical = np.argsort(subject.outputs[:, 0], kind="stable")[len(predicted) // 2]
    choices.setdefault(int(typical), "median prediction")
    return choices


def explain_row(subject: Subject, row: int, choice: str, parts: Array | None) -> Reasons:
    """Explain the prediction of a row, by index, for its most probable class or its value.

    The explanation uses the words of a text model, else the contributions `parts` (n_outputs, n_columns + 1), else, if
    they are None, predictions with values of other rows. `choice` is the reason for which the row is shown.
    """
    output = int(subject.outputs[row].argmax())
    names = subject.X.column_names
    if hasattr(subject.model, "most_informative_terms"):
        return _explain_by_words(subject, row, choice, output)
    cells = [_cell_text(subject.X[name].slice(row, 1), subject.is_day(name)) for name in names]
    if parts is None:
        shown = _largest_steps(list(zip(names, cells, _column_effects(subject, row, output).tolist(), strict=True)))
        return Reasons(row, choice, None, shown, None, f"change of the {_output_label(subject, output)}", REPLACED)
    steps, start = parts[output, :-1], float(parts[output, -1])
    shown = _largest_steps(list(zip(names, cells, steps.tolist(), strict=True)))
    rest = float(steps.sum()) - sum(step for _, _, step in shown) if len(shown) < len(steps) else None
    if rest is not None and abs(rest) < NOTHING * max((abs(step) for _, _, step in shown), default=0.0):
        rest = None
    return Reasons(row, choice, start, shown, rest, explained_quantity(subject.model, output), ADDED)


def _largest_steps(steps: list[Step]) -> list[Step]:
    """Return at most N_STEPS steps, largest first, without steps that are negligible compared with the first."""
    ordered = sorted(steps, key=lambda step: -abs(step[2]))[:N_STEPS]
    return [step for step in ordered if abs(step[2]) >= NOTHING * abs(ordered[0][2])] if ordered else []


def _explain_by_words(subject: Subject, row: int, choice: str, output: int) -> Reasons:
    """Explain the prediction for a class (`output`) by how its log odds change if a word of the text is left out."""
    name = subject.X.column_names[0]
    text = str(subject.X.column(0)[row].as_py() or "")
    words = list(dict.fromkeys(re.findall(r"\w{2,}", text)))[:MAX_WORDS]
    shortened = [re.sub(rf"\b{re.escape(word)}\b", " ", text) for word in words]
    changed = predict_values(subject.model, pa.table({name: pa.array([text, *shortened], pa.string())}))
    # The probabilities of the other classes are summed, because 1 - p loses all precision if p is nearly 1.
    k = output if changed.shape[1] > 2 else 1
    odds = np.log(np.maximum(changed[:, k], TINY)) - np.log(np.maximum(np.delete(changed, k, axis=1).sum(axis=1), TINY))
    shown = _largest_steps([(word, "", float(step)) for word, step in zip(words, odds[0] - odds[1:], strict=True)])
    quote = text if len(text) <= QUOTED else text[: QUOTED - 1] + "…"
    label = f"contribution of the word to the log odds of {subject.output_names[output]}"
    return Reasons(row, choice, None, shown, None, label, LEFT_OUT, quote)


def _column_effects(subject: Subject, row: int, output: int) -> Array:
    """Return, by column, the prediction minus its mean with values of other rows (Robnik-Šikonja & Kononenko 2008)."""
    others = subject.sample_rows(N_OTHERS)
    itself = np.full(len(others), row)
    steps = np.empty(subject.X.num_columns)
    for column in range(len(steps)):
        changed = as_outputs(subject.predict_with_values(column, itself, others))
        steps[column] = subject.outputs[row, output] - changed[:, output].mean()
    return steps


def date_text(day: float, has_time: bool | None = None) -> str:
    """Format days since 1970 as a date; if `has_time` is None, the time is shown unless the days are integers."""
    if has_time or (has_time is None and day != math.floor(day)):
        return str(np.datetime64(round(day * 1440), "m")).replace("T", " ")
    return str(np.datetime64(math.floor(day), "D"))


def _output_label(subject: Subject, output: int) -> str:
    """Return "prediction", or "probability of CLASS" for a classifier."""
    if subject.classes is None:
        return "prediction"
    return f"probability of {subject.output_names[output]}"


def _cell_text(cell: pa.ChunkedArray, is_day: bool) -> str:
    """Format a column of one row as text; `is_day` means that it is a date."""
    plain = as_numbers(cell).item() if is_day else python_value(cell[0])
    if plain is None or (isinstance(plain, float) and math.isnan(plain)):
        return "missing"
    if is_day:
        return date_text(plain)
    return number_text(plain) if isinstance(plain, float) else str(plain)


BATCH_CELLS = 4_000_000
# The time per row is measured on this many rows, then on a multiple, until the measurement takes long enough.
FIRST_ROWS, MORE_ROWS, MEASURED_SECONDS = 4, 4, 0.2


def has_contributions(model: Any) -> bool:
    """Return True if the model can split predictions into contributions of columns, as tree ensembles do."""
    return hasattr(model, "predict_contributions") and hasattr(model, "_ensemble")


def affordable_rows(model: Any, X: pa.Table, seconds: float) -> int:
    """Return how many rows can be explained in about `seconds` seconds, estimated by timing the first rows."""
    n_rows = FIRST_ROWS
    while True:
        start = time.perf_counter()
        contributions(model, X.slice(0, n_rows))
        taken = time.perf_counter() - start
        if taken >= MEASURED_SECONDS or n_rows >= X.num_rows:
            return max(1, int(seconds * min(n_rows, X.num_rows) / taken))
        n_rows *= MORE_ROWS


def contributions(model: Any, X: pa.Table) -> Array:
    """Return contributions (n_rows, n_outputs, n_columns + 1); the last entry of a row is the expected prediction."""
    parts = model.predict_contributions(X)
    return parts[:, None] if parts.ndim == 2 else parts


def rows_at_once(model: Any, n_columns: int) -> int:
    """Return how many rows may be explained in one call, so that contributions have at most BATCH_CELLS numbers."""
    return max(1, BATCH_CELLS // ((n_columns + 1) * max(len(getattr(model, "classes_", ())), 1)))


def contribution_columns(model: Any, X: pa.Table) -> dict[str, Array]:
    """Return columns by name, for each output: "expected prediction" and "contribution of NAME" for each feature."""
    parts = contributions(model, X)
    n_outputs = parts.shape[1]
    ends = [""] if n_outputs == 1 else [f" for {_output_suffix(label)}" for label in output_labels(model, n_outputs)]
    columns = {}
    for output, end in enumerate(ends):
        columns[f"expected prediction{end}"] = parts[:, output, -1]
        for index, name in enumerate(X.column_names):
            columns[f"contribution of {name}{end}"] = parts[:, output, index]
    return columns


def _output_suffix(label: Any) -> str:
    """Return the name of a class, with its target if the label is a pair (target, class)."""
    return f"{label[1]} of target {label[0]}" if isinstance(label, tuple) else str(label)


def contribution_batches(model: Any, X: pa.Table, rows: NDArray[np.intp]) -> Iterator[pa.Table]:
    """Yield tables of the contributions of the rows with these indices; three or more classes have a line each."""
    n_at_once = rows_at_once(model, X.num_columns)
    for start in range(0, len(rows), n_at_once):
        some = rows[start : start + n_at_once]
        yield _as_table(contributions(model, X.take(some)), X.column_names, some, getattr(model, "classes_", None))


def _as_table(parts: Array, names: list[str], rows: NDArray, classes: NDArray | None) -> pa.Table:
    """Return contributions `parts` as a table, with row numbers from 1, classes if several and expected predictions."""
    n_rows, n_outputs, _ = parts.shape
    columns: dict[str, Any] = {_unique_name("row", names): np.repeat(rows + 1, n_outputs)}
    if n_outputs > 1 and classes is not None:
        columns[_unique_name("class", names)] = pa.array(classes.tolist() * n_rows)
    flat = parts.reshape(n_rows * n_outputs, -1)
    columns[_unique_name("expected prediction", names)] = flat[:, -1]
    return pa.table({**columns, **{name: flat[:, k] for k, name in enumerate(names)}})


def _unique_name(name: str, names: list[str]) -> str:
    """Return `name`, with underscores appended until it is not in `names`."""
    while name in names:
        name += "_"
    return name
