"""Single rows that are worth a look, and why the model says of them what it says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.contributions import contributions
from fastens.cli.scores import row_losses
from fastens.cli.subject import Subject, as_outputs
from fastens.inspection.contribution_plots import explained_quantity

Array = NDArray[np.float64]
N_STEPS = 8
N_OTHERS = 100


@dataclass(frozen=True)
class Reasons:
    """How columns move the prediction of a row.

    Attributes
    ----------
    row : int
        Its position.
    choice : str
        Why it is shown.
    start : float or None
        The expected prediction that the steps start from; None where steps do not add up to the prediction.
    steps : list of (str, str, float)
        Column, value and what it does, from the largest.
    rest : float or None
        What the columns not listed do together.
    label : str
        What is moved.
    """

    row: int
    choice: str
    start: float | None
    steps: list[tuple[str, str, float]]
    rest: float | None
    label: str


def chosen_rows(subject: Subject) -> dict[int, str]:
    """Positions of rows to show, and why each."""
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


def reasons(subject: Subject, row: int, choice: str) -> Reasons:
    """Exact contributions where the model has them; else what changes when other rows lend their values."""
    output = int(subject.outputs[row].argmax())
    parts = contributions(subject.model, subject.X.take([row]))
    if parts is None:
        steps, start, label = _lent(subject, row, output), None, _predicted_name(subject, output)
    else:
        steps, start = parts[0, output, :-1], float(parts[0, output, -1])
        label = explained_quantity(subject.model, output)
    top = np.argsort(-np.abs(steps), kind="stable")[:N_STEPS].tolist()
    names = subject.X.column_names
    shown = [(names[column], _cell(subject.X.column(column)[row]), float(steps[column])) for column in top]
    rest = float(steps.sum() - steps[top].sum()) if start is not None and len(top) < len(steps) else None
    return Reasons(row, choice, start, shown, rest, label)


def _lent(subject: Subject, row: int, output: int) -> Array:
    """The prediction less its mean when a column has the values of other rows (Robnik-Šikonja & Kononenko 2008)."""
    others = subject.sample(N_OTHERS)
    itself = np.full(len(others), row)
    steps = np.empty(subject.X.num_columns)
    for column in range(len(steps)):
        changed = as_outputs(subject.with_values_of(column, itself, others))
        steps[column] = subject.outputs[row, output] - changed[:, output].mean()
    return steps


def _predicted_name(subject: Subject, output: int) -> str:
    if subject.classes is None:
        return "change of the prediction"
    return f"change of the probability of {subject.output_names[output]}"


def _cell(value: pa.Scalar) -> str:
    """What a cell says."""
    plain: Any = value.as_py()
    if plain is None or (isinstance(plain, float) and math.isnan(plain)):
        return "missing"
    return f"{plain:.5g}" if isinstance(plain, float) else str(plain)
