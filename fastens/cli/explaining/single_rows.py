"""Single rows of interest, and explanations of their predictions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.explaining.subject import Subject, as_numbers, as_outputs
from fastens.cli.models.model_files import predicted_values
from fastens.cli.report.scores import row_losses
from fastens.cli.table.columns import WORDS
from fastens.files.python_values import python_value
from fastens.inspection.contribution_plots import explained_quantity
from fastens.inspection.plotting import number_text

Array = NDArray[np.float64]
N_STEPS = 8
N_OTHERS = 100
NOTHING = 1e-3  # steps smaller than this share of the largest are not shown
MOST_WORDS, QUOTED = 60, 300
TINY = 1e-300
ADDED = "Bars lead from the expected prediction to that of the row."
REPLACED = "Bars show the mean change of the prediction when a column has the values of other rows."
LEFT_OUT = "Bars show the contribution of each word: the change of the prediction when it is left out."
Step = tuple[str, str, float]


@dataclass(frozen=True)
class Reasons:
    """How columns move the prediction of a row: steps (column, value, change), the largest first.

    `start` is the expected prediction, None where the steps do not add up to the prediction; `rest` is the sum of the
    columns not listed; `text` is the row's text for models of words.
    """

    row: int
    choice: str
    start: float | None
    steps: list[Step]
    rest: float | None
    label: str
    way: str
    text: str | None = None


def chosen_rows(subject: Subject) -> dict[int, str]:
    """Positions of rows to show, and the reason for each."""
    predicted, found = subject.predicted, {}
    if subject.truth is not None:
        losses = row_losses(predicted, subject.truth)
        found[int(losses.argmax())] = "furthest from the truth"
    if subject.classes is None:
        places = {int(predicted.argmax()): "highest prediction", int(predicted.argmin()): "lowest prediction"}
    else:
        surest = predicted.max(axis=1)
        places = {int(surest.argmin()): "least certain", int(surest.argmax()): "most certain"}
    for row, choice in places.items():
        found.setdefault(row, choice)
    typical = np.argsort(subject.outputs[:, 0], kind="stable")[len(predicted) // 2]
    found.setdefault(int(typical), "in the middle of all predictions")
    return found


def reasons(subject: Subject, row: int, choice: str, parts: Array | None) -> Reasons:
    """Exact contributions (n_outputs, n_columns + 1) if given; else changes with values of other rows."""
    output = int(subject.outputs[row].argmax())
    names = subject.X.column_names
    if subject.card.kinds.get(names[0]) == WORDS:
        return _of_words(subject, row, choice, output)
    cells = [_cell(subject.X[name].slice(row, 1), subject.is_day(name)) for name in names]
    if parts is None:
        shown = _largest(list(zip(names, cells, _replaced(subject, row, output).tolist(), strict=True)))
        return Reasons(row, choice, None, shown, None, f"change of the {_predicted_name(subject, output)}", REPLACED)
    steps, start = parts[output, :-1], float(parts[output, -1])
    shown = _largest(list(zip(names, cells, steps.tolist(), strict=True)))
    rest = float(steps.sum()) - sum(step for _, _, step in shown) if len(shown) < len(steps) else None
    if rest is not None and abs(rest) < NOTHING * max((abs(step) for _, _, step in shown), default=0.0):
        rest = None
    return Reasons(row, choice, start, shown, rest, explained_quantity(subject.model, output), ADDED)


def _largest(steps: list[Step]) -> list[Step]:
    """The largest steps, without those that are nothing beside the first."""
    ordered = sorted(steps, key=lambda step: -abs(step[2]))[:N_STEPS]
    return [step for step in ordered if abs(step[2]) >= NOTHING * abs(ordered[0][2])] if ordered else []


def _of_words(subject: Subject, row: int, choice: str, output: int) -> Reasons:
    """Changes of the prediction without each word."""
    name = subject.X.column_names[0]
    text = str(subject.X.column(0)[row].as_py() or "")
    words = list(dict.fromkeys(re.findall(r"\w{2,}", text)))[:MOST_WORDS]
    shortened = [re.sub(rf"\b{re.escape(word)}\b", " ", text) for word in words]
    changed = predicted_values(subject.model, pa.table({name: pa.array([text, *shortened], pa.string())}))
    # Those of the other classes are added up: 1 - p has no digits left where p is nearly 1.
    k = output if changed.shape[1] > 2 else 1
    odds = np.log(np.maximum(changed[:, k], TINY)) - np.log(np.maximum(np.delete(changed, k, axis=1).sum(axis=1), TINY))
    shown = _largest([(word, "", float(step)) for word, step in zip(words, odds[0] - odds[1:], strict=True)])
    quote = text if len(text) <= QUOTED else text[: QUOTED - 1] + "…"
    label = f"log odds of {subject.output_names[output]} that the word adds"
    return Reasons(row, choice, None, shown, None, label, LEFT_OUT, quote)


def _replaced(subject: Subject, row: int, output: int) -> Array:
    """The prediction less its mean when a column has the values of other rows (Robnik-Šikonja & Kononenko 2008)."""
    others = subject.sample(N_OTHERS)
    itself = np.full(len(others), row)
    steps = np.empty(subject.X.num_columns)
    for column in range(len(steps)):
        changed = as_outputs(subject.with_values_of(column, itself, others))
        steps[column] = subject.outputs[row, output] - changed[:, output].mean()
    return steps


def moment(day: float, has_time: bool | None = None) -> str:
    """Days since 1970 as a date, with hours and minutes if wanted; by default where they are no whole days."""
    if has_time or (has_time is None and day != math.floor(day)):
        return str(np.datetime64(round(day * 1440), "m")).replace("T", " ")
    return str(np.datetime64(math.floor(day), "D"))


def _predicted_name(subject: Subject, output: int) -> str:
    if subject.classes is None:
        return "prediction"
    return f"probability of {subject.output_names[output]}"


def _cell(cell: pa.ChunkedArray, is_day: bool) -> str:
    """A column of one row as text."""
    plain = as_numbers(cell).item() if is_day else python_value(cell[0])
    if plain is None or (isinstance(plain, float) and math.isnan(plain)):
        return "missing"
    if is_day:
        return moment(plain)
    return number_text(plain) if isinstance(plain, float) else str(plain)
