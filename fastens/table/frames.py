"""Frames as tables: of all that narwhals reads; pandas' columns are read directly, since that is faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.cached import cached_property
from fastens.engine.names import plain_names, same_names
from fastens.engine.parts import FLOATS
from fastens.table.arrays import converted, is_ready_array
from fastens.table.columns.dates import days_of_series, elapsed_days, parts_to_learn, times_of
from fastens.table.columns.factorize import Factorized, factorize_array, index_values
from fastens.table.columns.numbers import WIDE, Column, Floats, numbers_of
from fastens.table.columns.vectors import plain_table
from fastens.table.tables import Table, is_converted

_MANY = 100  # columns
_HALVES = ("halffloat", "float16")  # types that narwhals does not name
# What pandas calls types of strings.
_TEXTS = ("str", "string", "string[pyarrow]", "large_string[pyarrow]")
_CATEGORICAL = (nw.String, nw.Categorical, nw.Enum, nw.Boolean)
_FLOATS = ({nw.Float64}, {nw.Float32})


def is_frame(X: Any) -> bool:
    """Whether `X` is a table of named columns."""
    # Asked of each table of each call: narwhals looks for a long time. Of lazy frames its older releases warn.
    if X is None or isinstance(X, np.ndarray | narwhals.LazyFrame):
        return False
    kinds = Table, narwhals.DataFrame  # of any version of narwhals, whose own question knows only those of one
    return isinstance(X, kinds) or _is_pandas(X) or nw.dependencies.is_into_dataframe(X)


def _is_of_nothing(column: Any) -> bool:
    """Whether a column is of the type of missing values alone, which narwhals has no name for."""
    if column.dtype != nw.Unknown:
        return False
    native = column.to_native()
    return str(native.type if hasattr(native, "type") else native.dtype).lower().startswith("null")


def _is_pandas(frame: Any) -> bool:
    pandas = nw.dependencies.get_pandas()
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def table_from_frame(frame: Any) -> Table:
    """Return a table over a pandas, polars or Arrow table, or anything else narwhals reads; a table as it is."""
    if isinstance(frame, Table):
        return frame
    is_wrapped = not _is_pandas(frame)
    native = nw.to_native(frame, pass_through=True) if is_wrapped else frame
    if is_wrapped and not _is_pandas(native):
        return _table_of_others(native)
    if not native.columns.is_unique:
        raise same_names(native.columns[native.columns.duplicated()][0])
    return PandasTable(native, index_values(native.columns))


def _table_of_others(frame: Any) -> FrameTable:
    try:
        opened = nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError:
        names = list(frame.column_names)  # of Arrow; other libraries make no such frame
        raise same_names(next(name for name in names if names.count(name) > 1)) from None
    if opened.implementation.is_pyarrow() and (plain := plain_table(frame)) is not frame:
        opened = nw.from_native(plain, eager_only=True)
    return FrameTable(opened, opened.columns)


class FrameTable(Table):
    """The columns of a frame, as narwhals has them."""

    def __init__(self, source: Any, names: list[Any]) -> None:
        super().__init__(source, plain_names(names))

    @property
    def native(self) -> Any:
        """The frame as its library has it."""
        return self.source.to_native()

    @cached_property
    def array(self) -> NDArray[Any] | None:
        """The whole table where all columns are floats of one size; only Arrow's are copied."""
        if set(self.source.schema.values()) not in _FLOATS:
            return None
        if not self.source.implementation.is_pyarrow():
            array = self.source.to_numpy()
            return array if is_ready_array(array) else None
        # Arrow's columns lie apart; its own array is by rows, which takes much longer to write.
        out = np.empty(self.source.shape, np.float32 if nw.Float32 in self.source.schema.values() else float, order="F")
        for own, column in zip(out.T, self.native.columns, strict=True):
            own[:] = column.to_numpy()
        return out

    @cached_property
    def arrays(self) -> list[Any]:
        """The columns as their library has them."""
        return [column.to_native() for column in self._series]

    @cached_property
    def _series(self) -> list[nw.Series]:
        return list(self.source.iter_columns())

    def column(self, index: int) -> Column:
        """A column as a narwhals Series."""
        return self._series[index]

    def is_converted(self, index: int) -> bool:
        """True if the column holds whole numbers, booleans or half-precision floats."""
        column = self.column(index)
        if not isinstance(column, nw.Series):
            return is_converted(column)
        native = column.to_native()
        is_half = str(native.type if hasattr(native, "type") else native.dtype).lower() in _HALVES
        return is_half or (column.dtype.is_integer() and column.dtype not in WIDE)

    def is_categorical(self, index: int) -> bool | None:
        """Whether the column is categorical by its type."""
        column = self.column(index)
        if column.dtype == nw.Object:
            return self.is_of_words(index)
        return None if _is_of_nothing(column) else column.dtype in _CATEGORICAL

    def dates(self) -> dict[int, tuple[str, ...]]:
        """Return the columns of dates, each with the parts that may be informative."""
        if self.array is not None or self.block is not None:
            return {}
        return {index: parts for index, parts in enumerate(map(parts_to_learn, self.arrays)) if parts}

    def days(self, index: int) -> Floats:
        """Return a column that held dates in fit as days since 1970."""
        native = self.arrays[index]
        if parts_to_learn(native):
            return elapsed_days(times_of(native, self.name(index)))
        return days_of_series(nw.from_native(self._series[index], series_only=True), self.name(index))

    def matched(self, names: list[Any] | None) -> Table:
        """Return the columns in the order of these names, where there are any; others are dropped."""
        if names is None or self.names is None or self.names == names:
            return self
        place = {name: index for index, name in enumerate(self.names)}
        if missing := [name for name in names if name not in place]:
            known = set(names)
            message = "The feature names should match those that were passed during fit.\n"
            message += _listed("Feature names unseen at fit time:", [name for name in place if name not in known])
            raise ValueError(message + _listed("Feature names seen at fit time, yet now missing:", missing))
        places = [place[name] for name in names]
        return table_from_frame(self.source.take(places, axis=1) if self._is_of_pandas else self.source[:, places])

    @property
    def _is_of_pandas(self) -> bool:
        return False


def _listed(title: str, names: list[Any], most: int = 5) -> str:
    if not names:
        return ""
    shown = sorted(name if isinstance(name, str) else repr(name) for name in names)
    return "\n- ".join([title, *shown[:most], *(["..."] if len(shown) > most else [])]) + "\n"


class PandasTable(FrameTable):
    """The columns of a pandas frame: arrays of NumPy, or pandas' own."""

    def __init__(self, source: Any, names: list[Any]) -> None:
        super().__init__(source, names)
        # What gives the column at a place. Each Series that pandas makes takes ten microseconds, more than the values
        # of a small table. What makes none of them is not public; where it is gone, they are made.
        self._take: Callable[[int], Any] = getattr(source, "_get_column_array", self._made_column)
        self._numbers: dict[int, Column] = {}

    @property
    def _is_of_pandas(self) -> bool:
        return True

    @property
    def native(self) -> Any:
        """The frame."""
        return self.source

    @cached_property
    def array(self) -> NDArray[Any] | None:
        """The whole table where all columns are floats of one size, or whole numbers in one array."""
        if self._kind in ("i", "u") and self.block is not None:
            return converted(self.block)
        array = self.source.to_numpy() if self._kind == "f" else None
        return array if array is not None and is_ready_array(array) else None

    @cached_property
    def block(self) -> NDArray[Any] | None:
        """The whole table where pandas holds columns of one type of whole numbers, or of booleans, as one array."""
        if self._kind not in ("b", "i", "u"):
            return None
        first, last = self._take(0), self._take(len(self) - 1)
        if first.base is None or first.base is not last.base:
            return None
        block = self.source.to_numpy()
        return block if np.may_share_memory(block, first) else None

    @cached_property
    def _kind(self) -> str | None:
        """The kind of NumPy's type, numbers or booleans, that all columns share."""
        n_columns = len(self)
        first = self._take(0).dtype if n_columns else None
        if not isinstance(first, np.dtype) or first.kind not in "fbiu":
            return None
        # A list of all types takes longer than the columns, unless there are many.
        types = self.source.dtypes.tolist() if n_columns > _MANY else [column.dtype for column in self._columns]
        return first.kind if all(dtype == first for dtype in types) else None

    def _made_column(self, index: int) -> Any:
        column = self.source.iloc[:, index]
        return column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array

    @cached_property
    def _columns(self) -> list[Any]:
        return list(map(self._take, range(len(self))))

    @cached_property
    def arrays(self) -> list[Any]:
        """The columns as arrays."""
        return self._columns if self.block is None else list(self.block.T)

    @cached_property
    def _series(self) -> list[Any]:
        """The columns as pandas' Series; in a wide frame one by one would be much slower."""
        return [column for _, column in self.source.items()]

    def column(self, index: int) -> Column:
        """A column as a NumPy vector, or a narwhals Series where it holds no numbers."""
        if self.block is not None:
            return self.arrays[index]
        if index not in self._numbers:
            numbers = _numbers_of_array(self.arrays[index])
            is_other = numbers is None
            self._numbers[index] = nw.from_native(self._series[index], series_only=True) if is_other else numbers
        return self._numbers[index]

    def is_categorical(self, index: int) -> bool | None:
        """Whether the column is categorical by its type."""
        array = self.arrays[index]
        if isinstance(array.dtype, np.dtype):  # narwhals takes longer to name it
            return self.is_of_words(index) if array.dtype.kind == "O" else array.dtype.kind == "b"
        if _numpy_type(array) is not None:
            return False
        return array.dtype.name in _TEXTS or array.dtype.name == "category" or super().is_categorical(index)

    def is_converted(self, index: int) -> bool:
        """True if the column holds whole numbers, booleans or half-precision floats."""
        dtype = _numpy_type(self.arrays[index])
        return dtype is not None and dtype not in FLOATS

    def numbers(self, index: int, rows: Any) -> Any:
        """Return some rows of a column as floats."""
        part = self.arrays[index][rows]
        numbers = _numbers_of_array(part) if _numpy_type(part) is not None else None
        return super().numbers(index, rows) if numbers is None else numbers_of(numbers, self.name(index))

    def _factorize(self, index: int) -> Factorized:
        return factorize_array(self.arrays[index], lambda: self._series[index])


def _numpy_type(array: Any) -> np.dtype | None:
    """Return the type of a column of numbers of a pandas frame, as NumPy has it; None if its type is another."""
    dtype = getattr(array.dtype, "numpy_dtype", array.dtype)
    return dtype if isinstance(dtype, np.dtype) and dtype.kind in "iuf" else None


def _numbers_of_array(array: Any) -> NDArray[Any] | None:
    """A column of a pandas frame as numbers, missing ones as NaN; None where its type is another."""
    dtype = _numpy_type(array)
    if dtype is None:
        return None
    if isinstance(array, np.ndarray):
        return array
    return array.to_numpy(np.float32 if dtype == np.float32 else np.float64, na_value=np.nan)
