"""A grid over two columns of a table, the other columns held at typical values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.engine.grow.constraints import Columns
from fastens.engine.names import have_numbers, plain_names
from fastens.inspection.arguments import check_position
from fastens.table.arrays import dense
from fastens.table.columns.factorize import is_missing
from fastens.table.frames import is_frame
from fastens.table.parts import with_rows_to_take

Array = NDArray[np.float64]
MOST_CATEGORIES = 30  # along an axis; the most frequent
MARGIN = 0.06  # of an axis beyond the lowest and the highest number
BAND = 0.08  # of an axis, for missing values
LARGEST = 1e300  # so that differences are finite
MISSING = "missing"
DRAWN = str | bool | int | float


@dataclass(frozen=True)
class Axis:
    """Positions along one axis: numbers from `low` to `high`, or categories at 0, 1, ...; missing values beyond."""

    name: str  # of the column
    column: int  # its position in the table
    low: float  # categories have half a place on each side
    high: float
    categories: list[Any] | None  # None for numbers
    examples: NDArray[np.intp]  # a row of the table with each category
    missing: float | None  # where missing values stand; None where there are none
    missing_row: int = -1  # a row in which the column is missing

    @property
    def ends(self) -> tuple[float, float]:
        """Where the axis begins and ends, with the place of missing values."""
        if self.missing is None:
            return self.low, self.high
        half = 0.5 if self.categories is not None else BAND / 2 * (self.high - self.low)
        return self.low, self.missing + half

    def is_drawn(self, places: Array) -> NDArray[np.bool_]:
        """Whether something stands there: not between the numbers and the missing ones."""
        if self.missing is None or self.categories is not None:
            return np.ones(len(places), dtype=bool)
        return (places <= self.high) | (places >= 2 * self.missing - self.ends[1])

    def places_of(self, values: list[Any]) -> Array:
        """Where values stand; NaN for those that the axis leaves out."""
        if self.categories is None:
            found = [np.nan if is_missing(value) else float(value) for value in values]
        else:
            index = {category: float(place) for place, category in enumerate(self.categories)}
            found = [np.nan if is_missing(value) else index.get(value, np.inf) for value in values]
        out = np.array(found)
        out[np.isnan(out)] = np.nan if self.missing is None else self.missing
        out[np.isinf(out)] = np.nan
        return out


class Plane:
    """A table, two of its columns as axes, and the values that the other columns are held at.

    Columns are given by position or name. A column that is not in `held` is held at the median of its numbers or its
    most frequent category. `names` and `categorical` describe the columns of an array.
    """

    def __init__(
        self, X: Any, features: Any, held: Mapping[Any, Any] | None, names: list[str] | None, categorical: Any
    ) -> None:
        self._table = as_table(X)
        self._is_array = isinstance(self._table, np.ndarray)
        n_columns = self._table.shape[1]
        own = [f"x{column}" for column in range(n_columns)] if self._is_array else [*map(str, self._table.columns)]
        self.names = names if self._is_array and names is not None and len(names) == n_columns else own
        self._columns = Columns(n_columns, None if self._is_array else plain_names(self._table.columns))
        # Names that are no texts, which pandas may have, and narwhals does not take.
        self._other_names = None
        if not self._is_array and not all(isinstance(name, str) for name in self._table.columns):
            frame = nw.to_native(self._table)
            self._other_names = frame.columns
            self._table = nw.from_native(frame.set_axis([*map(str, range(n_columns))], axis=1), eager_only=True)
        flags = np.zeros(n_columns, dtype=bool) if categorical is None else np.asarray(categorical)
        self._flags = flags if len(flags) == n_columns else np.zeros(n_columns, dtype=bool)
        first, second = self._pair(features, n_columns)
        self.axes = self._axis(first), self._axis(second)
        if held is not None and not isinstance(held, Mapping):
            raise ValueError(f"held must be a dict of values by column; got {held!r}.")
        given = {self._position("held", key): value for key, value in (held or {}).items()}
        if {first, second} & set(given):
            raise ValueError(f"held must name columns beside the two of the axes; got {list(held or {})}.")
        others = [column for column in range(n_columns) if column not in (first, second)]
        self._held = {column: self._source(column, given) for column in others}

    def __len__(self) -> int:
        return int(self._table.shape[0])

    def _pair(self, features: Any, n_columns: int) -> tuple[int, int]:
        if features is None:
            if n_columns != 2:
                raise ValueError(f"features must name the two columns to draw of the {n_columns} of X; got None.")
            return 0, 1
        if isinstance(features, str) or np.ndim(features) != 1 or len(features) != 2:
            raise ValueError(f"features must be a pair of columns; got {features!r}.")
        first, second = (self._position("features", feature) for feature in features)
        if first == second:
            raise ValueError(f"features must be two different columns; got {features!r}.")
        return first, second

    def _position(self, argument: str, column: Any) -> int:
        if not isinstance(column, str) and have_numbers(self._columns.names):
            return self._columns.position(argument, column)
        if not isinstance(column, str):
            return check_position(f"a column in {argument}", column, len(self.names))
        if column not in self.names:
            raise ValueError(f"{argument} must name columns of X, {self.names}; got {column!r}.")
        return self.names.index(column)

    # Columns --------------------------------------------------

    def values(self, column: int) -> list[Any]:
        """The values of a column, as plain objects; None where missing."""
        if self._is_array:
            found = self._table[:, column].tolist()
        else:
            found = self._table[self._table.columns[column]].to_list()
        return [None if is_missing(value) else value for value in found]

    def _holds_numbers(self, column: int, present: list[Any]) -> bool:
        return not self._flags[column] and all(kind in (int, float) for kind in set(map(type, present)))

    def _axis(self, column: int) -> Axis:
        values = self.values(column)
        present = [value for value in values if not is_missing(value)]
        missing_row = next((row for row, value in enumerate(values) if is_missing(value)), -1)
        if not present:
            raise ValueError(f"Column {self.names[column]!r} must hold a value to be drawn; all of its are missing.")
        odd = sorted(kind.__name__ for kind in set(map(type, present)) if not issubclass(kind, DRAWN))
        if odd:
            name = self.names[column]
            raise ValueError(
                f"Column {name!r} must hold numbers, texts or truth values to be drawn; it holds {odd[0]}."
            )
        if not self._holds_numbers(column, present):
            return self._category_axis(column, values, present, missing_row)
        numbers = np.array(present, dtype=np.float64)
        numbers = numbers[np.isfinite(numbers)]
        if len(numbers) == 0 or np.abs(numbers).max() > LARGEST:
            raise ValueError(f"Column {self.names[column]!r} must hold numbers within +-{LARGEST:g} to be drawn.")
        low, high = numbers.min(), numbers.max()
        padding = (high - low) * MARGIN or max(abs(low), 1.0) / 2
        low, high = float(low - padding), float(high + padding)
        missing = None if missing_row < 0 else high + BAND * (high - low)
        return Axis(self.names[column], column, low, high, None, np.empty(0, np.intp), missing, missing_row)

    def _category_axis(self, column: int, values: list[Any], present: list[Any], missing_row: int) -> Axis:
        counts = Counter(present)
        kept = sorted(counts, key=lambda value: (-counts[value], _order(value)))[:MOST_CATEGORIES]
        categories = sorted(kept, key=_order)
        name = self.names[column]
        if len(counts) > len(kept):
            name += f" ({len(kept)} most frequent of {len(counts)})"
        examples = np.array([values.index(category) for category in categories], dtype=np.intp)
        missing = None if missing_row < 0 else float(len(categories))
        return Axis(name, column, -0.5, len(categories) - 0.5, categories, examples, missing, missing_row)

    def _source(self, column: int, given: Mapping[int, Any]) -> tuple[Any, int | float]:
        """The value a column is held at: the row (int) that has it, or a number (float)."""
        values = self.values(column)
        present = [value for value in values if not is_missing(value)]
        if column in given:
            return self._given(column, values, present, given[column])
        if not present:
            return MISSING, 0
        if self._holds_numbers(column, present):
            typical = sorted(present)[(len(present) - 1) // 2]
        else:
            counts = Counter(present)
            typical = min(counts, key=lambda value: (-counts[value], _order(value)))
        return typical, values.index(typical)

    def _given(self, column: int, values: list[Any], present: list[Any], value: Any) -> tuple[Any, int | float]:
        if value in present:
            return value, values.index(value)
        if is_missing(value):
            row = next((row for row, found in enumerate(values) if is_missing(found)), None)
            return MISSING, float("nan") if row is None else row
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not self._holds_numbers(column, present) or not is_number or not np.isfinite(value):
            known = sorted(set(present), key=_order)[:MOST_CATEGORIES]
            raise ValueError(
                f"held must give column {self.names[column]!r} a value that it can have; got {value!r}"
                + (f", and its values are {known}." if not self._holds_numbers(column, present) else ".")
            )
        return value, float(value)

    @property
    def held(self) -> dict[str, Any]:
        """The values of the other columns, by name."""
        return {self.names[column]: value for column, (value, _) in self._held.items()}

    # Rows --------------------------------------------------

    def rows(self, x: Array, y: Array) -> Any:
        """The rows at these places, as a table of the kind of X."""
        sources: dict[int, Any] = {column: np.full(len(x), source) for column, (_, source) in self._held.items()}
        for axis, places in zip(self.axes, (x, y), strict=True):
            sources[axis.column] = _sources_along(axis, places)
        return self._array_of(sources, len(x)) if self._is_array else self._frame_of(sources)

    def _array_of(self, sources: dict[int, Any], n: int) -> NDArray[Any]:
        dtype = self._table.dtype
        if dtype.kind in "iub" and any(source.dtype.kind == "f" for source in sources.values()):
            dtype = np.dtype(np.float64)
        out = np.empty((n, len(sources)), dtype=dtype)
        for column, source in sources.items():
            out[:, column] = source if source.dtype.kind == "f" else self._table[source, column]
        return out

    def _frame_of(self, sources: dict[int, Any]) -> Any:
        columns = {}
        for number, name in enumerate(self._table.columns):
            source = sources[number]
            if source.dtype.kind == "f":
                columns[name] = nw.new_series(name, source, backend=self._table.implementation)
            else:
                columns[name] = self._table[name][source.tolist()]
        blank = self._table[[0] * len(source)]
        frame = nw.to_native(blank.with_columns(**columns))
        return frame if self._other_names is None else frame.set_axis(self._other_names, axis=1)


def _sources_along(axis: Axis, places: Array) -> NDArray[Any]:
    """The values along an axis: numbers, or rows of the table that have them."""
    if axis.categories is None:
        is_number = np.ones(len(places), dtype=bool) if axis.missing is None else places <= axis.high
        return np.where(is_number, places, np.nan)
    examples = np.append(axis.examples, axis.missing_row)
    return examples[np.clip(np.rint(places).astype(np.intp), 0, len(examples) - 1 - (axis.missing is None))]


def _order(value: Any) -> tuple[str, Any]:
    """Sort key of values of several types."""
    return ("number", float(value)) if isinstance(value, bool | int | float) else ("string", str(value))


def as_table(X: Any) -> Any:
    """A two-dimensional array with rows, or a frame as narwhals has it; ValueError for anything else."""
    if is_frame(X):
        found = nw.from_native(with_rows_to_take(X), eager_only=True)
    else:
        X = dense(X)
        found = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
        if found.dtype.kind == "O" and all(type(value) in (int, float) for value in found.ravel().tolist()):
            found = found.astype(np.float64)
    if found.shape == ():
        raise ValueError(f"X must be a table with rows and columns in memory; got a {type(X).__name__}.")
    if len(found.shape) != 2 or 0 in found.shape:
        raise ValueError(f"X must be a table with rows and columns; got shape {tuple(found.shape)}.")
    return found
