"""What a column holds, value by value: the naive twin of fastens.columns."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """A value as a Python object; None for what is missing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value


def column_values(column: Any) -> list[Any]:
    """The values of a NumPy vector, or of a column of pandas, polars or Arrow."""
    values = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    return [plain(value) for value in values]


def categories(values: list[Any]) -> list[Any]:
    """The distinct values, numbers before strings, of equal ones the first."""
    found = [value for value in dict.fromkeys(values) if value is not None]
    return sorted(v for v in found if not isinstance(v, str)) + sorted(v for v in found if isinstance(v, str))


def positions(values: list[Any], known: list[Any]) -> list[int | None]:
    """For each value its place among categories, -1 for one that is not there, None for a missing one."""
    return [None if value is None else known.index(value) if value in known else -1 for value in values]


def code_table(rows: Any) -> tuple[list[list[int]], list[list[Any]]]:
    """For each column of a matrix its codes, 1 and up, and its categories."""
    columns = [[plain(value) for value in column] for column in rows.T]
    known = [categories(column) for column in columns]
    places = [{value: place for place, value in enumerate(own, 1)} for own in known]
    return [[place[value] for value in column] for column, place in zip(columns, places, strict=True)], known
