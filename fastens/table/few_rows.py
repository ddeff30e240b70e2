"""A short way from data frames with few rows to floats, for services that predict one row at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.table.columns.factorize import is_missing

MAX_ROWS = 16  # with more rows, reading whole columns is as fast
_MAX_CATEGORIES = 1 << 14  # limit over all columns: building larger dictionaries would take too long for one row
_MAX_LISTED = 256  # categories of a pandas type that are looked up together
_FEW_VALUES = 16  # numbers of a block that are read faster as a list than as an array
_NUMERIC = frozenset("biuf")
_NUMBERS = frozenset({float, int, bool})
_VALUES = _NUMBERS | {str}
_NUMBERS_OR_NONE = _NUMBERS | {type(None)}


class _OtherValueError(Exception):
    """A value that needs the checks of `InputEncoder.encode`."""


class FewRows:
    """Reader of pandas and polars frames that have at most `MAX_ROWS` rows and the columns of `fit`.

    It reads values that need neither a conversion nor a warning: numbers, known categories and missing values. All
    other frames are left to `InputEncoder.encode`, which gives the same floats.
    """

    def __init__(self, names: list[Any], categories: Sequence[list[Any] | None], *, missing_is_category: bool) -> None:
        self._names = names
        self._positions = {
            index: dict(zip(values, map(float, range(len(values))), strict=True))
            for index, values in enumerate(categories)
            if values is not None
        }
        self._missing = {
            index: float(len(positions)) if missing_is_category else np.nan
            for index, positions in self._positions.items()
        }
        # Positions of the codes of each pandas type that was seen last in a column.
        self._by_code: dict[int, tuple[Any, list[float | None]]] = {}
        # Columns of each block of the pandas frame that was read last, and if none of them is categorical.
        self._layouts: dict[int, tuple[Any, NDArray[np.intp], list[int], bool]] = {}

    @classmethod
    def of(cls, encoder: Any) -> FewRows | None:
        """Return a reader for the columns of an InputEncoder, or None if frames need the checks of `encode`."""
        n_categories = sum(map(len, filter(None, encoder.categories)))
        is_other = encoder.names is None or encoder.dates or encoder.changes_numbers or hasattr(encoder, "conventions")
        is_other = is_other or (encoder.ordered and encoder.missing_is_category)
        if is_other or n_categories > _MAX_CATEGORIES:
            return None
        return cls(encoder.names, encoder.categories, missing_is_category=encoder.missing_is_category)

    def read(self, X: Any) -> NDArray[np.float64] | None:
        """Return the rows of a frame as encoded floats, or None if the frame needs `InputEncoder.encode`."""
        library = _package_of_type(type(X))  # type: ignore[arg-type]
        try:
            return (
                self._read_pandas(X) if library == "pandas" else self._read_polars(X) if library == "polars" else None
            )
        except (_OtherValueError, OverflowError):
            return None

    def _read_pandas(self, X: Any) -> NDArray[np.float64] | None:
        """Return the rows of a pandas frame as encoded floats, or None if its names or internals are unexpected."""
        # The blocks of a frame are private in pandas, but reading columns one by one takes 5 times as long.
        blocks = getattr(getattr(X, "_mgr", None), "blocks", None)
        if blocks is None or X.columns.tolist() != self._names:
            return None
        # A list of one value for each column is the fastest way to one row; only wide blocks are faster as arrays.
        n_rows = len(X)
        is_one_row = n_rows == 1
        wide: list[tuple[NDArray[np.intp], NDArray[Any]]] = []
        numbers: list[Any] = [0.0 if is_one_row else [0.0] * n_rows] * len(self._names)
        for number, block in enumerate(blocks):
            values, where = block.values, block.mgr_locs
            # Rows of one table share these objects, so the columns of a block have to be listed only once.
            layout = self._layouts.get(number)
            if layout is None or layout[0] is not where:
                positions = where.as_array
                columns = positions.tolist()
                layout = where, positions, columns, self._positions.keys().isdisjoint(columns)
                self._layouts[number] = layout
            _, positions, columns, has_no_categories = layout
            if type(values) is not np.ndarray:  # an extension array, which is a single column
                column = self._encode_extension_array(values, columns[0])
                numbers[columns[0]] = column[0] if is_one_row else column
                continue
            if values.size > _FEW_VALUES and has_no_categories and values.dtype.kind in _NUMERIC:
                wide.append((positions, values))
                continue
            block_columns = values.tolist()
            if not has_no_categories or values.dtype.kind not in _NUMERIC:
                block_columns = map(self._encode_column, block_columns, columns)
            for index, column in zip(columns, block_columns, strict=True):
                numbers[index] = column[0] if is_one_row else column
        out = np.array(numbers, dtype=np.float64)
        out = out.reshape(1, -1) if is_one_row else np.ascontiguousarray(out.T)
        for positions, values in wide:
            out[:, positions] = values.T
        return out

    def _encode_extension_array(self, array: Any, index: int) -> list[float]:
        """Return the encoded values of column `index`, which pandas stores as an extension array.

        Raises _OtherValueError if a value needs `InputEncoder.encode`.
        """
        if type(array).__name__ != "Categorical" or index not in self._positions:
            values = [value.item() if isinstance(value, np.generic) else value for value in array]
            return self._encode_column(values, index)
        # The public `codes` is a new read-only view at each access, which takes more time than the rest of this method.
        stored = getattr(array, "_ndarray", None)
        codes = (array.codes if stored is None else stored).tolist()
        categories = array.dtype.categories
        cached_categories, positions = self._by_code.get(index, (None, []))
        if cached_categories is not categories:
            if len(categories) > _MAX_LISTED:
                return self._encode_column([None if code < 0 else categories[code] for code in codes], index)
            of_value = self._positions[index]
            positions = [of_value.get(value) if type(value) in _VALUES else None for value in categories.tolist()]
            self._by_code[index] = categories, positions
        numbers: Any = [self._missing[index] if code < 0 else positions[code] for code in codes]
        if None in numbers:
            raise _OtherValueError
        return numbers

    def _read_polars(self, X: Any) -> NDArray[np.float64] | None:
        """Return the rows of a polars frame as encoded floats, or None if its names or values are unexpected."""
        if not hasattr(X, "rows") or X.columns != self._names:
            return None
        rows = X.rows()
        if self._positions:
            rows = list(map(list, rows))
            for row in rows:
                for index in self._positions:
                    (row[index],) = self._encode_column((row[index],), index)
        if not all(_NUMBERS_OR_NONE.issuperset(map(type, row)) for row in rows):
            return None
        return np.array(rows, dtype=np.float64)

    def _encode_column(self, values: Iterable[Any], index: int) -> list[float]:
        """Return the numbers or category positions of column `index`; raise _OtherValueError if one needs `encode`."""
        positions = self._positions.get(index)
        numbers = []
        for value in values:
            if positions is None:
                number = value if type(value) in _NUMBERS else None
            else:
                number = positions.get(value) if type(value) in _VALUES else None
            if number is None:
                if not is_missing(value):
                    raise _OtherValueError
                number = self._missing.get(index, np.nan)
            numbers.append(float(number))
        return numbers


@cache
def _package_of_type(cls: type) -> str:
    """Return the name of the package that defines a type."""
    return cls.__module__.partition(".")[0]
