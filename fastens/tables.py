"""Tables of any kind to the float array the engine reads: columns by name, categories by value."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Column = Any  # a NumPy vector or a narwhals Series

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
# Larger category positions are not exact in float32.
_FLOAT32_WHOLE = 1 << 24


@dataclass
class Table:
    """Columns, and their names where all of them are strings."""

    columns: Sequence[Column]
    names: list[str] | None
    n_rows: int
    array: Any = None  # the whole table, where it is one array of numbers already

    def __len__(self) -> int:
        return len(self.columns)

    def name(self, index: int) -> str:
        """What an error calls a column."""
        return repr(self.names[index]) if self.names else str(index)


def table_from_array(X: NDArray[Any]) -> Table:
    """A table over the columns of a 2-D NumPy array."""
    array = X if X.dtype in FLOATS else None
    return Table(list(X.T), None, X.shape[0], array)


def table_from_frame(frame: Any) -> Table:
    """A table over the columns of a pandas, polars or Arrow table, or of anything else narwhals reads."""
    frame = nw.from_native(frame, eager_only=True)
    schema = frame.schema
    names = list(schema)
    array = None
    if len(set(schema.values())) == 1 and next(iter(schema.values())) in (nw.Float64, nw.Float32):
        array = frame.to_numpy()
        array = array if array.dtype in FLOATS else None
    columns = [frame[:, index] for index in range(len(names))]
    return Table(columns, names if all(isinstance(name, str) for name in names) else None, frame.shape[0], array)


def is_frame(X: Any) -> bool:
    """Whether `X` is a table of named columns."""
    return isinstance(X, nw.DataFrame) or nw.dependencies.is_into_dataframe(X)


# What a column holds ----------------------------------------------------------------------------------------------------


def is_categorical_column(column: Column) -> bool:
    """Whether the type of the column says categories: categories, enums, strings and booleans of a frame; strings of NumPy."""
    if isinstance(column, nw.Series):
        dtype = column.dtype
        if dtype in (nw.Categorical, nw.Enum, nw.String, nw.Boolean):
            return column.null_count() < len(column) or dtype != nw.String
        return dtype == nw.Object and _holds_categories(column.to_numpy())
    return column.dtype.kind in "UT" or (column.dtype.kind == "O" and _holds_categories(column))


def _holds_categories(values: NDArray[Any]) -> bool:
    """Whether objects are strings or booleans, not numbers."""
    kinds = {type(value) for value in values.tolist() if not _is_missing(value)}
    return bool(kinds) and (any(issubclass(kind, str) for kind in kinds) or kinds <= {bool, np.bool_})


def _is_missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def numbers_of(column: Column, name: str) -> Floats:
    """A column of numbers as floats, missing values as NaN."""
    if isinstance(column, nw.Series):
        dtype = column.dtype
        if dtype in (nw.Float64, nw.Float32):
            column = column.to_numpy()
        elif dtype.is_numeric() or dtype == nw.Boolean:
            return column.cast(nw.Float64).to_numpy()
        elif dtype.is_temporal():
            raise ValueError(
                f"Column {name} holds dates or times ({dtype}): turn them into numbers first, such as days since a date."
            )
        elif column.null_count() == len(column):
            return np.full(len(column), np.nan)
        elif dtype in (nw.Object, nw.Unknown):
            column = column.to_numpy()
        else:
            raise ValueError(
                f"Column {name} must hold numbers; it holds {dtype}. Name it in categorical_features, or encode it first."
            )
    if column.dtype in FLOATS:
        return column
    if column.dtype.kind in "mM":
        raise ValueError(
            f"Column {name} holds dates or times ({column.dtype}): turn them into numbers first, such as days since a date."
        )
    if column.dtype.kind == "O":
        return _floats_of_objects(column, name)
    if column.dtype.kind in "UST":
        raise ValueError(
            f"Column {name} must hold numbers; it holds strings. Name it in categorical_features, or encode it first."
        )
    return column.astype(np.float64)


def _floats_of_objects(values: NDArray[Any], name: str) -> Floats:
    found = values.tolist()
    strings = [value for value in found if isinstance(value, str)]
    if strings:
        raise ValueError(
            f"Column {name} must hold numbers; it holds {strings[0]!r}. Name it in categorical_features, or encode it first."
        )
    return np.array([np.nan if _is_missing(value) else float(value) for value in found])


# Categories -------------------------------------------------------------------------------------------------------------


def factorize(column: Column) -> tuple[NDArray[np.integer], list[Any]]:
    """The distinct values of a column, and for each row the position of its value there; -1 where it is missing."""
    if isinstance(column, nw.Series):
        native = column.to_native()
        if hasattr(native, "factorize"):  # pandas and those like it
            codes, values = native.factorize()
            return np.asarray(codes), [_plain(value) for value in values.tolist()]
        if hasattr(native, "dictionary_encode"):  # Arrow
            encoded = native if column.dtype == nw.Categorical else native.dictionary_encode()
            encoded = encoded.combine_chunks()
            codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            return codes, encoded.dictionary.to_pylist()
        if hasattr(native, "replace_strict"):  # polars
            values = [value for value in native.unique().to_list() if not _is_missing(value)]
            codes = (
                native.replace_strict(values, list(range(len(values))), default=-1)
                if values
                else np.full(len(native), -1)
            )
            return np.asarray(codes), values
        column = column.to_numpy()
    if column.dtype.kind == "O":
        found: dict[Any, int] = {}
        codes = [-1 if _is_missing(value) else found.setdefault(_plain(value), len(found)) for value in column.tolist()]
        return np.array(codes, dtype=np.int64), list(found)
    values, codes = np.unique(column, return_inverse=True)
    values = [_plain(value) for value in values.tolist()]
    if values and _is_missing(values[-1]):
        codes[codes == len(values) - 1] = -1
        values.pop()
    return codes, values


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python object."""
    return value.item() if isinstance(value, np.generic) else value


def _order(value: Any) -> tuple[str, Any]:
    """Sort key of categories: numbers before strings."""
    return ("number", value) if isinstance(value, numbers.Real) else ("string", value)


def _categories_of(column: Column, name: str) -> list[Any]:
    codes, values = factorize(column)
    present = np.bincount(codes[codes >= 0], minlength=len(values)) > 0
    found = [value for value, is_present in zip(values, present, strict=True) if is_present]
    for value in found:
        if not isinstance(value, str | bool | int | float):
            raise ValueError(
                f"Column {name} must hold categories that are strings, numbers or booleans; it holds {value!r}."
            )
    return sorted(found, key=_order)


def _positions(column: Column, categories: list[Any]) -> Floats:
    """For each row the position of its value among the categories; NaN where it is missing or not among them."""
    codes, values = factorize(column)
    position = {category: index for index, category in enumerate(categories)}
    table = np.array([position.get(value, np.nan) for value in values] + [np.nan])
    return table[codes]


def _chosen_columns(table: Table, categorical_features: Any) -> NDArray[np.bool_]:
    """Which columns are categorical, from the estimator's parameter of that name."""
    n_features = len(table)
    chosen = np.zeros(n_features, dtype=bool)
    if categorical_features is None:
        return chosen
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        if table.array is None:
            chosen[:] = [is_categorical_column(column) for column in table.columns]
        return chosen
    given = np.atleast_1d(np.asarray(categorical_features))
    if given.dtype.kind == "b":
        if given.shape != (n_features,):
            raise ValueError(
                f"categorical_features as a mask must have one entry per column ({n_features}); got shape {given.shape}."
            )
        return given.copy()
    chosen[[_column_index(table, item) for item in given.tolist()]] = True
    return chosen


def _column_index(table: Table, item: Any) -> int:
    if isinstance(item, str):
        if table.names is None or item not in table.names:
            known = f"the columns are {table.names}" if table.names else "X has no column names"
            raise ValueError(f"categorical_features must name columns of X; got {item!r}, and {known}.")
        return table.names.index(item)
    if not isinstance(item, numbers.Integral) or not 0 <= item < len(table):
        raise ValueError(f"categorical_features must hold column indices from 0 to {len(table) - 1}; got {item!r}.")
    return int(item)


# The encoder ------------------------------------------------------------------------------------------------------------


class TableEncoder:
    """Remember a table's columns and categories; turn tables like it into one array of floats.

    A categorical column becomes the positions of its values in the sorted list of its categories. NaN stands for missing values, and for
    categories that were not there in `fit`.

    Attributes
    ----------
    names : list of str or None
        Names of the columns.
    categories : list
        For each column, its categories, or None where it holds numbers.
    """

    def __init__(self, names: list[str] | None, categories: list[list[Any] | None]) -> None:
        self.names = names
        self.categories = categories

    @classmethod
    def fit(cls, table: Table, categorical_features: Any = "from_dtype") -> TableEncoder:
        """Learn the columns and categories of a table."""
        chosen = _chosen_columns(table, categorical_features)
        categories: list[list[Any] | None] = [None] * len(table)
        for index in np.flatnonzero(chosen):
            categories[index] = _categories_of(table.columns[index], table.name(index))
        return cls(table.names, categories)

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Which columns hold categories."""
        return np.array([found is not None for found in self.categories], dtype=bool)

    def transform(self, table: Table) -> Floats:
        """The table as floats, float32 where that loses nothing; columns are taken in their order: see `match`."""
        is_categorical = self.is_categorical
        if table.array is not None and not is_categorical.any():
            return table.array
        columns = [self._floats(table, index) for index in range(len(table))]
        longest = max((len(found) for found in self.categories if found), default=0)
        numeric = [column.dtype for column, skip in zip(columns, is_categorical, strict=True) if not skip]
        is_float32 = longest < _FLOAT32_WHOLE and all(dtype == np.float32 for dtype in numeric)
        out = np.empty((table.n_rows, len(table)), dtype=np.float32 if is_float32 else np.float64, order="F")
        for index, column in enumerate(columns):
            out[:, index] = column
        return out

    def _floats(self, table: Table, index: int) -> Floats:
        categories = self.categories[index]
        if categories is None:
            return numbers_of(table.columns[index], table.name(index))
        return _positions(table.columns[index], categories)

    def match(self, frame: Any) -> Table:
        """Read a frame, its columns put in the order of those of `fit`, by their names where there are any."""
        frame = nw.from_native(frame, eager_only=True)
        columns = frame.columns
        if self.names is None or columns == self.names:
            return table_from_frame(frame)
        missing = sorted(set(self.names) - set(columns))
        unseen = sorted(str(name) for name in set(columns) - set(self.names))
        if missing or unseen:
            message = "The feature names should match those that were passed during fit.\n"
            message += _listed("Feature names unseen at fit time:", unseen)
            raise ValueError(message + _listed("Feature names seen at fit time, yet now missing:", missing))
        return table_from_frame(frame.select(self.names))

    def to_state(self) -> dict[str, Any]:
        """Plain lists, for saving."""
        return {"names": self.names, "categories": self.categories}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableEncoder:
        """From what `to_state` gave."""
        return cls(state["names"], state["categories"])


def _listed(title: str, names: list[str], most: int = 5) -> str:
    if not names:
        return ""
    return "\n- ".join([title, *names[:most], *(["..."] if len(names) > most else [])]) + "\n"


def dense_blocks(X: Any, block_rows: int) -> Iterator[tuple[int, Floats]]:
    """Blocks of rows of an array or a CSR matrix as arrays, each with the number of its first row."""
    for first in range(0, X.shape[0], block_rows):
        block = X[first : first + block_rows]
        yield first, block if isinstance(block, np.ndarray) else block.toarray()
