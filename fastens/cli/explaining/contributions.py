"""Contributions of columns to predictions, as a table in batches of rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.inspection.contribution_plots import output_labels

Array = NDArray[np.float64]
BATCH_CELLS = 4_000_000
# What rows cost is measured on so many, then on so many times more, until they take so long.
FIRST_ROWS, MORE_ROWS, MEASURED_SECONDS = 4, 4, 0.2


def explains(model: Any) -> bool:
    """Whether the model has contributions of columns: where it is made of trees."""
    return hasattr(model, "predict_contributions") and hasattr(model, "_ensemble")


def affordable_rows(model: Any, X: pa.Table, seconds: float) -> int:
    """How many rows of a table can be explained in about so many seconds, by the time that the first of them take."""
    n_rows = FIRST_ROWS
    while True:
        start = time.perf_counter()
        contributions(model, X.slice(0, n_rows))
        taken = time.perf_counter() - start
        if taken >= MEASURED_SECONDS or n_rows >= X.num_rows:
            return max(1, int(seconds * min(n_rows, X.num_rows) / taken))
        n_rows *= MORE_ROWS


def contributions(model: Any, X: pa.Table) -> Array:
    """Contributions and, last, the expected prediction: shape (n_rows, n_outputs, n_columns + 1)."""
    parts = model.predict_contributions(X)
    return parts[:, None] if parts.ndim == 2 else parts


def rows_at_once(model: Any, n_columns: int) -> int:
    """How many rows are explained at once, so that their contributions have room."""
    return max(1, BATCH_CELLS // ((n_columns + 1) * max(len(getattr(model, "classes_", ())), 1)))


def contribution_columns(model: Any, X: pa.Table) -> dict[str, Array]:
    """The expected prediction and the contributions of all rows, a column each, for each class of each target."""
    parts = contributions(model, X)
    n_outputs = parts.shape[1]
    ends = [""] if n_outputs == 1 else [f" for {_named(label)}" for label in output_labels(model, n_outputs)]
    found = {}
    for output, end in enumerate(ends):
        found[f"expected prediction{end}"] = parts[:, output, -1]
        for place, name in enumerate(X.column_names):
            found[f"contribution of {name}{end}"] = parts[:, output, place]
    return found


def _named(label: Any) -> str:
    """A class, or a class of one of several targets."""
    return f"{label[1]} of target {label[0]}" if isinstance(label, tuple) else str(label)


def contribution_batches(model: Any, X: pa.Table, rows: NDArray[np.intp]) -> Iterator[pa.Table]:
    """The contributions of some rows; with three or more classes a line for each row and class."""
    n_at_once = rows_at_once(model, X.num_columns)
    for start in range(0, len(rows), n_at_once):
        some = rows[start : start + n_at_once]
        yield _as_table(contributions(model, X.take(some)), X.column_names, some, getattr(model, "classes_", None))


def _as_table(parts: Array, names: list[str], rows: NDArray, classes: NDArray | None) -> pa.Table:
    """Columns: the row's number from 1, the class if there are several, the expected prediction, each contribution."""
    n_rows, n_outputs, _ = parts.shape
    columns: dict[str, Any] = {_unlike("row", names): np.repeat(rows + 1, n_outputs)}
    if n_outputs > 1 and classes is not None:
        columns[_unlike("class", names)] = pa.array(classes.tolist() * n_rows)
    flat = parts.reshape(n_rows * n_outputs, -1)
    columns[_unlike("expected prediction", names)] = flat[:, -1]
    return pa.table({**columns, **{name: flat[:, place] for place, name in enumerate(names)}})


def _unlike(name: str, names: list[str]) -> str:
    """The name, changed as long as a column has it."""
    while name in names:
        name += "_"
    return name
