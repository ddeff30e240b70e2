"""What each column contributes to each prediction, as a table in batches: no more than some rows are held at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = NDArray[np.float64]
BATCH_CELLS = 4_000_000


def contributions(model: Any, X: pa.Table) -> Array | None:
    """Contributions and, last, the expected prediction: (n_rows, n_outputs, n_columns + 1); None without any."""
    explain = getattr(model, "predict_contributions", None)
    if explain is None:
        return None
    try:
        parts = explain(X)
    except (AttributeError, NotImplementedError):
        # Ensembles of members of any kind have the method, and can carry it out for members that are trees.
        return None
    return parts[:, None] if parts.ndim == 2 else parts


def has_contributions(model: Any, X: pa.Table) -> bool:
    """Whether the model can say what each column contributes."""
    return contributions(model, X.slice(0, 1)) is not None


def contribution_batches(model: Any, X: pa.Table) -> Iterator[pa.Table]:
    """The contributions of all rows; with three or more classes a row for each row and class."""
    classes = list(getattr(model, "classes_", ()))
    n_rows = max(1, BATCH_CELLS // ((X.num_columns + 1) * max(len(classes), 1)))
    for start in range(0, X.num_rows, n_rows):
        parts = contributions(model, X.slice(start, n_rows))
        if parts is not None:
            yield _as_table(parts, X.column_names, start, classes)


def _as_table(parts: Array, names: list[str], start: int, classes: list[Any]) -> pa.Table:
    """Columns: the row's number from 1, the class if there are several, the expected prediction, each contribution."""
    n_rows, n_outputs, _ = parts.shape
    columns: dict[str, Any] = {_unlike("row", names): np.repeat(np.arange(start + 1, start + 1 + n_rows), n_outputs)}
    if n_outputs > 1 and classes:
        columns[_unlike("class", names)] = pa.array(classes * n_rows)
    flat = parts.reshape(n_rows * n_outputs, -1)
    columns[_unlike("expected prediction", names)] = flat[:, -1]
    return pa.table({**columns, **{name: flat[:, place] for place, name in enumerate(names)}})


def _unlike(name: str, names: list[str]) -> str:
    """The name, changed as long as a column has it."""
    while name in names:
        name += "_"
    return name
