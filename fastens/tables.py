"""Tables of any kind to the float array the engine reads: columns by name, categories by value."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Column = Any  # a NumPy vector, a narwhals Series or Categories

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
# Larger category positions are not exact in float32.
_FLOAT32_WHOLE = 1 << 24
FEW = 16  # categories that are sooner looked for one by one than counted


class Categories(NamedTuple):
    """A column of categories that has been read: the distinct values, and each row's place there, -1 if missing."""

    codes: NDArray[np.integer]
    values: list[Any]
    is_typed: bool  # the type says categories, even of a column without any

    def take(self, rows: NDArray[np.intp]) -> Categories:
        """Some of the rows."""
        return self._replace(codes=self.codes[rows])


@dataclass
class Table:
    """Columns of a 2-D NumPy array or of a narwhals frame."""

    source: Any
    names: list[str] | None = None  # of the columns, where all of them are strings
    array: Floats | None = None  # the whole table, where it is one array of floats already
    _factorized: dict[int, tuple[NDArray[np.integer], list[Any]]] = field(default_factory=dict, repr=False)

    @property
    def n_rows(self) -> int:
        """Rows."""
        return self.source.shape[0]

    def __len__(self) -> int:
        return self.source.shape[1]

    @cached_property
    def columns(self) -> list[Column]:
        """The columns; taken one by one they would cost much more in a wide frame."""
        return list(self.source.T if isinstance(self.source, np.ndarray) else self.source.iter_columns())

    def learn_categories(self, index: int) -> list[Any]:
        """The sorted categories of a column; what was found out on the way is kept for `find_positions`."""
        self._factorized[index] = factorize(self.columns[index])
        return _categories_of(*self._factorized[index], self.name(index))

    def find_positions(self, index: int, categories: list[Any], unseen: float, missing: float, out: Floats) -> None:
        """Write to `out` each row's position among the categories, or what stands for unseen and missing values."""
        codes, values = self._factorized.pop(index) if index in self._factorized else factorize(self.columns[index])
        position = {category: index for index, category in enumerate(categories)}
        places = [missing if is_missing(value) else position.get(value, unseen) for value in values]
        # The code -1 wraps round to the last.
        np.take(np.array([*places, missing], dtype=out.dtype), codes, out=out, mode="wrap")

    def name(self, index: int) -> str:
        """What an error calls a column."""
        return repr(self.names[index]) if self.names else str(index)


def table_from_array(array: NDArray[Any]) -> Table:
    """A table over a 2-D NumPy array."""
    return Table(array, array=array if _is_ready(array) else None)


def table_from_frame(frame: Any) -> Table:
    """A table over a pandas, polars or Arrow table, or anything else narwhals reads; a table as it is."""
    if isinstance(frame, Table):
        return frame
    frame = nw.from_native(frame, eager_only=True)
    schema = frame.schema
    names = list(schema)
    array = None
    if set(schema.values()) in ({nw.Float64}, {nw.Float32}):
        array = frame.to_numpy()
        array = array if _is_ready(array) else None
    return Table(frame, names if all(isinstance(name, str) for name in names) else None, array)


def _is_ready(array: NDArray[Any]) -> bool:
    return array.dtype in FLOATS and array.flags.aligned


def is_frame(X: Any) -> bool:
    """Whether `X` is a table of named columns."""
    return isinstance(X, nw.DataFrame | Table) or nw.dependencies.is_into_dataframe(X)


# What a column holds --------------------------------------------------


def is_categorical_column(column: Column) -> bool:
    """Whether the column's type says categories.

    In a frame: categories, enums, strings and booleans. In a NumPy array: strings, and objects that are strings or
    booleans.
    """
    if isinstance(column, Categories):
        return column.is_typed or bool((column.codes >= 0).any())
    if isinstance(column, nw.Series):
        dtype = column.dtype
        if dtype == nw.String:
            return column.null_count() < len(column)
        if dtype == nw.Object:
            return _holds_categories(column.to_numpy())
        return dtype in (nw.Categorical, nw.Enum, nw.Boolean)
    return column.dtype.kind in "UT" or (column.dtype.kind == "O" and _holds_categories(column))


def _holds_categories(values: NDArray[Any]) -> bool:
    """Whether objects are strings or booleans, not numbers."""
    kinds = {type(value) for value in values.tolist() if not is_missing(value)}
    return bool(kinds) and (any(issubclass(kind, str) for kind in kinds) or kinds <= {bool, np.bool_})


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or the missing value of a frame."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def numbers_of(column: Column, name: str) -> Floats:
    """A column of numbers as floats, missing values as NaN."""
    if isinstance(column, Categories):  # strings, all of them missing
        return np.full(len(column.codes), np.nan)
    if isinstance(column, nw.Series):
        column = _values_of_series(column, name)
    if column.dtype in FLOATS:
        return column
    if column.dtype.kind == "O":
        return _floats_of_objects(column, name)
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    raise _not_numbers(name, column.dtype, is_time=column.dtype.kind in "mM")


def _is_float32(column: Column) -> bool:
    return not isinstance(column, Categories) and column.dtype == (
        nw.Float32 if isinstance(column, nw.Series) else np.float32
    )


def _values_of_series(column: nw.Series, name: str) -> NDArray[Any]:
    dtype = column.dtype
    if dtype in (nw.Float64, nw.Float32, nw.Object, nw.Unknown):
        return column.to_numpy()
    if dtype.is_numeric() or dtype == nw.Boolean:
        return column.cast(nw.Float64).to_numpy()
    if column.null_count() == len(column):
        return np.full(len(column), np.nan)
    raise _not_numbers(name, dtype, is_time=dtype.is_temporal())


def _floats_of_objects(values: NDArray[Any], name: str) -> Floats:
    found = values.tolist()
    for value in found:
        if isinstance(value, str):
            raise _not_numbers(name, repr(value), is_time=False)
    return np.array([np.nan if is_missing(value) else float(value) for value in found])


def _not_numbers(name: str, found: Any, *, is_time: bool) -> ValueError:
    if is_time:
        advice = "Turn dates and times into numbers first, such as days since a date."
    else:
        advice = "Name the column in categorical_features, or encode it first."
    return ValueError(f"Column {name} must hold numbers; it holds {found}. {advice}")


# Categories --------------------------------------------------


def factorize(column: Column) -> tuple[NDArray[np.integer], list[Any]]:
    """The distinct values of a column, and for each row the position of its value there; -1 where it is missing."""
    if isinstance(column, Categories):
        return column.codes, column.values
    if isinstance(column, nw.Series):
        return _factorize_series(column)
    if column.dtype.kind == "O":
        found: dict[Any, int] = {}
        places = [-1 if is_missing(value) else found.setdefault(_plain(value), len(found)) for value in column.tolist()]
        return np.array(places, dtype=np.int64), list(found)
    distinct, codes = _factorize_whole(column) or np.unique(column, return_inverse=True)
    values = [_plain(value) for value in distinct.tolist()]
    if values and is_missing(values[-1]):
        codes[codes == len(values) - 1] = -1
        values.pop()
    return codes, values


def _factorize_series(column: nw.Series) -> tuple[NDArray[np.integer], list[Any]]:
    native = column.to_native()
    if hasattr(native, "array") and hasattr(native.array, "codes"):  # categories of pandas
        return np.asarray(native.array.codes), native.array.categories.tolist()
    if hasattr(native, "factorize"):  # pandas and those like it
        codes, values = native.factorize()
        return np.asarray(codes), [_plain(value) for value in values.tolist()]
    if hasattr(native, "dictionary_encode"):  # Arrow
        encoded = native if column.dtype == nw.Categorical else native.dictionary_encode()
        encoded = encoded.combine_chunks()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return codes, encoded.dictionary.to_pylist()
    if hasattr(native, "replace_strict"):  # polars
        values = [value for value in native.unique().to_list() if not is_missing(value)]
        codes = (
            native.replace_strict(values, list(range(len(values))), default=-1) if values else np.full(len(native), -1)
        )
        return np.asarray(codes), values
    return factorize(column.to_numpy())


def _factorize_whole(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.integer]] | None:
    """The distinct whole numbers of a column, and the position of each row's; None unless their range is narrow."""
    if column.dtype.kind not in "biuf":
        return None
    is_known = ~np.isnan(column) if column.dtype.kind == "f" else np.ones(1, dtype=bool)
    known = column if is_known.all() else column[is_known]
    if known.size == 0 or not np.isfinite(known[[known.argmin(), known.argmax()]]).all():
        return None
    if not is_narrow(known) or (known != np.rint(known)).any():
        return None
    values, codes = encode_narrow(known)
    if known is not column:
        every = np.full(column.size, -1, dtype=np.intp)
        every[is_known] = codes
        codes = every
    return values, codes


def is_narrow(values: NDArray[Any]) -> bool:
    """Whether numbers lie in a range that a table of its width pays for."""
    return values.max().item() - values.min().item() < max(2 * values.size, 1 << 10)


def encode_narrow(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct whole numbers of a narrow range in ascending order, and the place of each: without sorting."""
    wide = values if values.dtype.kind in "uf" else values.astype(np.int64)
    offset = (wide - wide.dtype.type(values.min().item())).astype(np.intp)
    label = np.empty(offset.max() + 1, dtype=values.dtype)
    label[offset] = values
    present = np.flatnonzero(np.bincount(offset))
    place = np.empty(label.size, dtype=np.intp)
    place[present] = np.arange(present.size)
    return label[present], place[offset]


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python object."""
    return value.item() if isinstance(value, np.generic) else value


def _order(value: Any) -> tuple[str, Any]:
    """Sort key of categories: numbers before strings."""
    return ("number", value) if isinstance(value, numbers.Real) else ("string", value)


def _categories_of(codes: NDArray[np.integer], values: list[Any], name: str) -> list[Any]:
    if len(values) <= FEW:
        present = [bool((codes == code).any()) for code in range(len(values))]
    else:
        present = (np.bincount(codes + 1, minlength=len(values) + 1)[1:] > 0).tolist()
    found = [value for value, is_present in zip(values, present, strict=True) if is_present and not is_missing(value)]
    for value in found:
        if not isinstance(value, str | bool | int | float):
            raise ValueError(
                f"Column {name} must hold categories that are strings, numbers or booleans; it holds {value!r}."
            )
    return sorted(found, key=_order)


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
    if isinstance(categorical_features, str) and categorical_features == "all":
        return ~chosen
    given = np.atleast_1d(np.asarray(categorical_features))
    if given.dtype.kind == "b":
        if given.shape != (n_features,):
            raise ValueError(f"categorical_features must have {n_features} entries as a mask; got shape {given.shape}.")
        return given.copy()
    chosen[[_column_index(table, item) for item in given.tolist()]] = True
    return chosen


def _column_index(table: Table, item: Any) -> int:
    if isinstance(item, str):
        if table.names is None or item not in table.names:
            known = f"the columns are {table.names}" if table.names else "X has no column names"
            raise ValueError(f"categorical_features must name columns of X; got {item!r}, and {known}.")
        return table.names.index(item)
    if not isinstance(item, int) or not 0 <= item < len(table):
        raise ValueError(f"categorical_features must hold column indices from 0 to {len(table) - 1}; got {item!r}.")
    return item


# The encoder --------------------------------------------------


class TableEncoder:
    """Remember a table's columns and categories; turn tables like it into one array of floats.

    A categorical column becomes the positions of its values in the sorted list of its categories. NaN stands for
    missing values; `unseen`, NaN unless it is set, for categories that were not there in `fit`.

    Attributes
    ----------
    names : list of str or None
        Names of the columns.
    categories : list
        For each column, its categories, or None where it holds numbers.
    unseen : float
        What stands for a category that is not among them.
    missing_is_category : bool
        In categorical columns, missing values have the position after the last category instead of NaN.
    """

    unseen: float = np.nan

    def __init__(
        self, names: list[str] | None, categories: list[list[Any] | None], *, missing_is_category: bool = False
    ) -> None:
        self.names = names
        self.categories = categories
        self.missing_is_category = missing_is_category

    @classmethod
    def fit(
        cls, table: Table, categorical_features: Any = "from_dtype", *, missing_is_category: bool = False
    ) -> TableEncoder:
        """Learn the columns and categories of a table."""
        chosen = _chosen_columns(table, categorical_features)
        categories: list[list[Any] | None] = [None] * len(table)
        for index in np.flatnonzero(chosen).tolist():
            categories[index] = table.learn_categories(index)
        return cls(table.names, categories, missing_is_category=missing_is_category)

    def extended(self, table: Table) -> TableEncoder:
        """An encoder that also knows the categories of a table, after its own."""
        found = [
            None if known is None else table.learn_categories(index) for index, known in enumerate(self.categories)
        ]
        return self.with_categories(found)

    def with_categories(self, more: list[list[Any] | None]) -> TableEncoder:
        """An encoder that knows more categories of its categorical columns, after its own."""
        pairs = zip(self.categories, more, strict=True)
        encoder = TableEncoder(
            self.names,
            [None if own is None else list(dict.fromkeys([*own, *(new or [])])) for own, new in pairs],
            missing_is_category=self.missing_is_category,
        )
        encoder.unseen = self.unseen
        return encoder

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Which columns hold categories."""
        return np.array([found is not None for found in self.categories], dtype=bool)

    def transform(self, table: Table) -> Floats:
        """The table as floats, float32 where that loses nothing; columns are taken in their order: see `match`."""
        if table.array is not None and not self.is_categorical.any():
            return table.array
        dtype = np.float32 if self._fits_float32(table) else np.float64
        out = np.empty((table.n_rows, len(table)), dtype=dtype, order="F")
        for index, categories in enumerate(self.categories):
            column = table.columns[index]
            if categories is None:
                out[:, index] = numbers_of(column, table.name(index))
            else:
                missing = float(len(categories)) if self.missing_is_category else np.nan
                table.find_positions(index, categories, self.unseen, missing, out[:, index])
        return out

    def _fits_float32(self, table: Table) -> bool:
        return all(
            _is_float32(table.columns[index]) if categories is None else len(categories) < _FLOAT32_WHOLE
            for index, categories in enumerate(self.categories)
        )

    def match(self, frame: Any) -> Table:
        """Read a frame, its columns put in the order of those of `fit`, by their names where both have any."""
        if isinstance(frame, Table):
            return frame
        frame = nw.from_native(frame, eager_only=True)
        columns = frame.columns
        if self.names is None or columns == self.names or not all(isinstance(name, str) for name in columns):
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
        state = {"names": self.names, "categories": self.categories}
        return state | {"missing_is_category": True} if self.missing_is_category else state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableEncoder:
        """From what `to_state` gave; ValueError for anything else."""
        names, categories = state["names"], state["categories"]
        is_named = names is None or (_are_distinct(names, str) and len(names) == len(categories))
        if not is_named or not all(
            found is None or _are_distinct(found, str | bool | int | float) for found in categories
        ):
            raise ValueError("the state of the columns is malformed")
        return cls(names, categories, missing_is_category=state.get("missing_is_category", False) is True)


def _are_distinct(values: Any, kind: Any) -> bool:
    return (
        isinstance(values, list)
        and all(isinstance(value, kind) and not is_missing(value) for value in values)
        and len(set(values)) == len(values)
    )


def _listed(title: str, names: list[str], most: int = 5) -> str:
    if not names:
        return ""
    return "\n- ".join([title, *names[:most], *(["..."] if len(names) > most else [])]) + "\n"


def dense_blocks(X: Any, block_rows: int = 4096) -> Iterator[tuple[int, Floats]]:
    """Blocks of rows of an array or a CSR matrix as arrays, each with the number of its first row."""
    for first in range(0, X.shape[0], block_rows):
        block = X[first : first + block_rows]
        yield first, block if isinstance(block, np.ndarray) else block.toarray()
