"""Factorization of columns, matching of category spellings, and errors about values of columns."""

from __future__ import annotations

import datetime
import math
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.engine.names import index_values
from fastens.table.columns.arrow import read_texts
from fastens.table.columns.copy_blocks import code_columns, integer_range, map_codes, mark_present, write_offsets
from fastens.table.columns.distinct import Distinct, encode_objects
from fastens.warn import warn

MAX_SHOWN = 60  # maximum characters of a value in error messages


def shown(value: Any) -> str:
    """Return the repr of a value with its type, for error messages; long texts are truncated."""
    text = repr(value)
    text = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
    return f"{text} of type {type(value).__name__}"


def fault(name: str, what: str, row: int, value: Any) -> ValueError:
    """Return a ValueError: column `name` must hold `what`, such as "numbers", but its row `row` holds `value`."""
    return ValueError(f"Column {name} must hold {what}; row {row} holds {shown(value)}.")


def type_fault(name: str, what: str, row: int, value: Any) -> TypeError:
    """Return a TypeError: column `name` must hold `what`, but its row `row` holds `value` of another type."""
    return TypeError(
        f"Column {name} must hold {what}: each argument must be a string or a number; row {row} holds {shown(value)}."
    )


def require_state(holds: bool) -> None:
    """Raise ValueError that the saved state of the columns is malformed, unless `holds` is True."""
    if not holds:
        raise ValueError("the state of the columns is malformed")


MAX_OBJECTS = 1 << 12  # maximum number of objects that are looked up by identity rather than by value
MIN_OBJECTS = 1 << 6
FIRST_OBJECTS = 1 << 8  # if nearly all of the first objects are distinct, the others probably are too
MAX_NUMBERS = 1 << 16  # maximum number of distinct numbers that are hashed; with more, sorting is faster
MIN_DIRECT_RANGE = 1 << 10  # narrower ranges are always coded by position, however few the rows
MAX_ONE_BYTE_CATEGORIES = 127  # maximum number of pandas categories with one-byte codes
SORTED_AT_ONCE = 1 << 16  # values that are sorted at a time, which takes about 25 ms
NARROW_TYPES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))
PLAIN = (str, bool, int, float, type(None), np.str_, np.bool_, np.integer, np.floating)
_PLAIN_TYPES = frozenset((str, bool, int, float))
FOUND = "found in the data"  # marks categories that were collected from rows rather than declared by a type

_MISSING = frozenset(("NAType", "NaTType", "MaskedConstant"))
_TIMES = frozenset(("datetime64", "timedelta64"))
# Arrow dictionaries whose values become categories by their text.
_TIMES_OF_ARROW = re.compile("dictionary<values=(timestamp|date|time|duration)")
_DAYS_AND_TIMES = (datetime.date, datetime.time, datetime.timedelta)


class Factorized(NamedTuple):
    """Column as codes and distinct values.

    A row is missing if its code is -1 or belongs to None or NaN. A value may occur twice among the values, and None
    may replace a value that does not occur in any row.
    """

    codes: NDArray[np.integer]
    values: list[Any]
    may_be_absent: bool = False  # if True, some values may not occur in any row; see `present`

    def decoded(self) -> list[Any]:
        """Return the value of each row, with None for missing values."""
        values = [None if is_missing(value) else value for value in self.values]
        return [None if code < 0 else values[code] for code in self.codes.tolist()]

    def present(self) -> list[Any]:
        """Return the values, in the order of the codes, with None instead of values that do not occur in any row."""
        if not self.may_be_absent:
            return self.values
        flags = np.zeros(len(self.values), dtype=np.uint8)
        if self.codes.size and mark_present(self.codes, flags) == 0:
            return self.values
        return [value if flag else None for value, flag in zip(self.values, flags.tolist(), strict=True)]


class FactorizedColumn(NamedTuple):
    """Factorized column, or a selection of its rows."""

    codes: NDArray[np.integer]
    values: list[Any]
    declared: list[Any] | None = None  # categories that the type declares
    is_ordered: bool = False  # the type declares an order

    def take(self, rows: NDArray[np.intp]) -> FactorizedColumn:
        """Return the column with only the rows at these indices."""
        return self._replace(codes=self.codes[rows])


def listed_values(dtype: Any) -> list[Any] | None:
    """Return the values that a pandas categorical or an enum type declares; None for other types.

    Polars categoricals do not declare values, because their categories are shared by all columns. Categories named
    `FOUND` do not count as declared either.
    """
    kind = type(dtype).__name__
    if kind == "CategoricalDtype":
        return None if dtype.categories.name == FOUND else _listed(dtype.categories)
    return list(dtype.categories) if kind == "Enum" else None


def ordered_values(column: Any) -> list[Any] | None:
    """Return the values of an ordered categorical, an enum or an ordered Arrow dictionary; None for other columns."""
    if isinstance(column, FactorizedColumn):
        return column.declared if column.is_ordered else None
    dtype = getattr(column, "dtype", None)
    if (values := listed_values(dtype)) is not None:
        return values if getattr(dtype, "ordered", True) else None
    native = column.to_native() if isinstance(column, nw.Series) else column
    if not getattr(getattr(native, "type", None), "ordered", False):
        return None
    chunks = native.unify_dictionaries().chunks
    return list(map(category_of, chunks[0].dictionary.to_pylist())) if chunks else None


def distinct_lists(lists: Iterable[list[Any]]) -> list[list[Any]]:
    """Return the lists without repetitions, in order of first occurrence."""
    return [list(values) for values in dict.fromkeys(map(tuple, lists))]


def is_missing(value: Any) -> bool:
    """Return True if a value is None, NaN, or the missing value of a table library."""
    if type(value) is str:
        return False
    if isinstance(value, float):
        return math.isnan(value)
    if value is None:
        return True
    kind = type(value).__name__
    return kind in _MISSING or (kind in _TIMES and bool(np.isnat(value)))


def sorted_categories(values: list[Any], name: str) -> list[Any]:
    """Return the sorted distinct values of column `name` without missing ones, with numbers before strings."""
    distinct = {value for value in values if not is_missing(value)}
    kinds = {type(value) for value in distinct}  # a loop in Python, so that KeyboardInterrupt is handled
    if kinds == {str}:
        return _sorted_objects([*distinct])
    for kind in sorted(kinds, key=str):
        if not issubclass(kind, str | bool | int | float):
            wrong = next(value for value in values if type(value) is kind)
            raise ValueError(
                f"Column {name} must hold categories that are strings, numbers or booleans; it holds {shown(wrong)}."
            )
    texts = [value for value in distinct if isinstance(value, str)]
    return _sorted_objects([value for value in distinct if not isinstance(value, str)]) + _sorted_objects(texts)


def _sorted_objects(values: list[Any]) -> list[Any]:
    """Return comparable values sorted; many values are sorted in parts, so that KeyboardInterrupt is handled soon."""
    if len(values) <= SORTED_AT_ONCE:
        return sorted(values)
    n_parts = 2 * len(values) // SORTED_AT_ONCE
    ends = sorted(values[:: len(values) // (16 * n_parts)])[16::16]
    parts: list[list[Any]] = [[] for _ in range(len(ends) + 1)]
    for value in values:
        parts[bisect(ends, value)].append(value)
    return [value for part in parts for value in sorted(part)]


def factorize(column: Any) -> Factorized:
    """Return the codes and distinct values of a NumPy vector, a column of any frame, or a FactorizedColumn."""
    if isinstance(column, FactorizedColumn):
        return Factorized(column.codes, column.values, may_be_absent=True)
    if isinstance(column, np.ndarray):
        is_object = column.dtype.kind == "O"
        return _factorize_vector(column) or (
            _factorize_by_dict(column.tolist()) if is_object else _factorize_by_sort(column)
        )
    if nw.dependencies.is_pandas_series(column):
        is_plain = isinstance(column.dtype, np.dtype)
        return factorize_array(column.to_numpy() if is_plain else column.array, lambda: column)
    if isinstance(column, nw.Series):
        return factorize(column.to_native())
    codes_and_values = read_texts(column, len(column)) if hasattr(column, "__arrow_c_stream__") else None
    return _factorize_native(column) if codes_and_values is None else Factorized(*codes_and_values)


# By library --------------------------------------------------


def factorize_array(array: Any, make_series: Callable[[], Any]) -> Factorized:
    """Return the codes and distinct values of the array of a pandas column.

    `make_series` returns the column as a Series, and is called only if the type needs the method `Series.factorize`.
    """
    factorized = _factorize_pandas(array)
    return _factorize_by_method(make_series()) if factorized is None else factorized


def _factorize_pandas(array: Any) -> Factorized | None:
    """Return the codes and distinct values of a pandas array, or None if only `Series.factorize` supports its type."""
    if isinstance(array, np.ndarray):
        return factorize(array) if array.dtype.kind in "biuf" else _factorize_vector(array)
    dtype, codes = array.dtype, getattr(array, "codes", None)
    if codes is not None:
        codes = np.asarray(codes)
        if codes.size and (codes.min() < -1 or codes.max() >= len(array.categories)):
            raise ValueError(f"A column must have codes from -1 to {len(array.categories) - 1}; got others.")
        categories = array.categories
        if len(categories) > max(codes.size, MAX_ONE_BYTE_CATEGORIES):  # few rows and many categories
            used, codes = np.unique(codes, return_inverse=True)
            codes -= np.count_nonzero(used < 0)  # missing values keep the code -1
            categories = categories.take(used[used >= 0])
        return Factorized(codes, _listed(categories), may_be_absent=True)
    storage = getattr(dtype, "storage", "pyarrow" if hasattr(dtype, "pyarrow_dtype") else None)
    if storage == "python":
        return _factorize_vector(array.to_numpy(dtype=object))
    arrow: Any = array.__arrow_array__() if storage == "pyarrow" else None
    codes_and_values = read_texts(arrow, len(arrow)) if hasattr(arrow, "__arrow_c_stream__") else None
    return None if codes_and_values is None else Factorized(*codes_and_values)


def _listed(categories: Any) -> list[Any]:
    """Return the categories of a pandas dtype as Python values; intervals (of `pandas.cut`) and dates become texts."""
    is_text = categories.dtype.kind in "mM" or type(categories.dtype).__name__ in ("IntervalDtype", "PeriodDtype")
    if is_text:
        return list(map(str, categories))
    return list(map(category_of, index_values(categories)))


def category_of(value: Any) -> Any:
    """Return a declared value as a category of a plain Python type; dates and times become texts."""
    if isinstance(value, np.datetime64 | np.timedelta64):  # `item` of nanosecond times would return integers
        value = value.astype(f"{value.dtype.kind}8[us]").item()
    return str(value) if isinstance(value, _DAYS_AND_TIMES) else plain_value(value)


def given_values(values: Any) -> list[Any]:
    """Return the categories that a caller lists in normalised form; raise ValueError for invalid categories.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.columns.factorize import given_values
    >>> given_values(np.array([3, 1]))
    [3, 1]
    """
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise ValueError(f"must be a list; got {values!r}")
    values = values.to_pylist() if hasattr(values, "to_pylist") else values  # Arrow arrays
    are_times = isinstance(values, np.ndarray) and values.dtype.kind in "mM"
    has_type = hasattr(values, "dtype") and hasattr(values, "tolist") and not are_times
    categories = _listed(values) if has_type else list(map(category_of, values))
    for value in categories:
        if not isinstance(value, str | bool | int | float) or is_missing(value):
            raise ValueError(f"must be strings, numbers or booleans without missing values; got {value!r}")
    return categories


def _factorize_by_method(column: Any) -> Factorized:
    """Return the codes and distinct values of a pandas column, from its own method `factorize`."""
    codes, values = column.factorize()
    return Factorized(np.asarray(codes), [plain_value(value) for value in values.tolist()])


def _factorize_native(native: Any) -> Factorized:
    """Return the codes and distinct values of a column of any library that narwhals supports."""
    if hasattr(native, "factorize"):  # like pandas
        return _factorize_by_method(native)
    column = nw.from_native(native, series_only=True)
    dtype = column.dtype
    if not (dtype.is_integer() or dtype.is_float() or dtype == nw.Boolean):
        values = column.to_list()
        if _TIMES_OF_ARROW.match(str(getattr(native, "type", ""))):
            values = [value if is_missing(value) else _format_time(value) for value in values]
        return _factorize_by_dict(values)
    if not column.null_count():
        return factorize(column.to_numpy())
    present_rows = np.flatnonzero(~column.is_null().to_numpy())
    factorized = factorize(column.drop_nulls().to_numpy())
    codes = np.full(len(column), -1, dtype=np.int64)
    codes[present_rows] = factorized.codes
    return Factorized(codes, factorized.values)


def _format_time(value: Any) -> str:
    """Return a date or a time of day as text, and a duration in the text format of pandas."""
    if type(value) is not datetime.timedelta:
        return str(value)
    of_day = value - datetime.timedelta(value.days)
    clock = f"{datetime.datetime.min + of_day:%H:%M:%S}" + (f".{of_day.microseconds:06}" if of_day.microseconds else "")
    return f"{value.days} days {'+' if value.days < 0 else ''}{clock}"


# By type --------------------------------------------------


def _factorize_vector(values: NDArray[Any]) -> Factorized | None:
    """Return the codes and distinct values of a NumPy vector; None for unsupported types, layouts and empty vectors."""
    kind = values.dtype.kind
    if values.size == 0 or not values.dtype.isnative or not values.flags.aligned:
        return None
    if kind == "b" or (kind in "iuf" and values.itemsize in (1, 2, 4, 8) and values.dtype != np.float16):
        return _factorize_small_range(values) or _factorize_range(values) or _factorize_by_hash(values)
    if kind == "O":
        return _factorize_objects(values)
    if kind in "US" and values.itemsize:
        return _factorize_fixed_width(values)
    return None


def _factorize_small_range(values: NDArray[Any]) -> Factorized | None:
    """Factorize integers or booleans in one pass, by their difference from the minimum of the first rows.

    Returns None if a difference is not from 0 to 254, or for floats.
    """
    if values.dtype.kind == "f":
        return None
    is_flag, low, unsigned = values.dtype.kind == "b", values[:MIN_DIRECT_RANGE].min(), f"u{values.itemsize}"
    codes, present = np.empty((1, values.size), dtype=np.uint8), np.zeros((1, 1, 257), dtype=np.uint8)
    lows, n_first = np.array([low]).view(unsigned), np.zeros((1, 1), dtype=np.int64)
    is_done = code_columns([values.view(unsigned)], lows, codes, present, n_first, 1)
    used = present.nonzero()[2].tolist()
    # The code of position 255 would not fit, and differences beyond the largest number have wrapped around.
    if not is_done or used[-1] == 255 or int(low) + used[-1] > (1 if is_flag else np.iinfo(values.dtype).max):
        return None
    codes -= 1
    value_of_code: list[Any] = [None] * (used[-1] + 1)
    for code in used:
        value_of_code[code] = (bool if is_flag else int)(int(low) + code)
    return Factorized(codes[0], value_of_code)


def _factorize_range(values: NDArray[Any]) -> Factorized | None:
    """Factorize numbers by their difference from the minimum; None if one is not an integer or the range is wide."""
    numbers = values.view(np.uint8) if values.dtype.kind == "b" else values
    bounds = integer_range(numbers)
    if bounds is None or bounds[1] - bounds[0] >= max(2 * values.size, MIN_DIRECT_RANGE):
        return None
    low, high = bounds
    range_size = high - low + 1
    dtype = next(dtype for dtype in NARROW_TYPES if range_size <= np.iinfo(dtype).max)
    offsets, present = np.empty(values.size, dtype=dtype), np.zeros(range_size + 1, dtype=np.uint8)
    write_offsets(numbers, low, offsets, present)
    as_value = values.dtype.type
    if range_size <= MIN_DIRECT_RANGE:
        value_of_offset = [
            as_value(low + offset).item() if flag else None for offset, flag in enumerate(present[:-1].tolist())
        ]
        return Factorized(offsets, [*value_of_offset, None])
    used = np.flatnonzero(present)
    table = np.zeros(range_size + 2, dtype=np.uint32)
    table[used + 1] = np.arange(used.size)
    codes = np.empty(values.size, dtype=np.uint32)
    map_codes(offsets, table, codes)
    return Factorized(
        codes, [None if offset == range_size else as_value(low + offset).item() for offset in used.tolist()]
    )


def _factorize_by_hash(values: NDArray[Any]) -> Factorized | None:
    """Factorize numbers by hashing their bits; return None if too many are distinct."""
    kind = values.dtype.kind
    wide = values.astype({"i": np.int64, "u": np.uint64, "f": np.float64}[kind], copy=False)
    distinct = Distinct(values.size, min(MAX_NUMBERS, max(values.size // 2, 1)))
    if not distinct.add_words(wide.view(np.int64)):
        return None
    return Factorized(distinct.codes, values[distinct.rows].tolist())


def _factorize_fixed_width(values: NDArray[Any]) -> Factorized:
    """Factorize fixed-width NumPy strings by their bytes, in order of first occurrence."""
    distinct = Distinct(values.size, values.size)
    distinct.add_fixed(np.ascontiguousarray(values).view(np.uint8).reshape(values.size, -1))
    return Factorized(distinct.codes, values[distinct.rows].tolist())


def _factorize_objects(values: NDArray[np.object_]) -> Factorized | None:
    """Factorize objects by identity, or strings by their characters; None unless they are strings, numbers or None."""
    distinct = _encode_addresses(np.asarray(_Pointers(values)))
    objects = values[distinct.rows].tolist()
    if not all(issubclass(kind, PLAIN) or kind.__name__ == "NAType" for kind in set(map(type, objects))):
        return None
    return Factorized(distinct.codes, [plain_value(value) for value in objects])


def _encode_addresses(addresses: NDArray[np.int64]) -> Distinct:
    """Return a Distinct of the objects at these addresses: by identity if few are distinct, otherwise by value."""
    n_rows, head = len(addresses), addresses[:FIRST_OBJECTS]
    many = FIRST_OBJECTS - FIRST_OBJECTS // 8
    if n_rows < MAX_OBJECTS or Distinct(FIRST_OBJECTS, many).add_words(head):
        distinct = Distinct(n_rows, min(MAX_OBJECTS, max(n_rows // 8, MIN_OBJECTS)))
        if distinct.add_words(addresses):
            return distinct
    distinct = Distinct(n_rows, n_rows)
    encode_objects(distinct, addresses)
    return distinct


class _Pointers:
    """View of the addresses of the objects in an array, which keeps the objects alive."""

    def __init__(self, values: NDArray[np.object_]) -> None:
        self.values = values
        self.__array_interface__ = values.__array_interface__ | {"typestr": np.dtype(np.int64).str, "descr": []}


def _factorize_by_dict(values: Iterable[Any]) -> Factorized:
    """Factorize values of any hashable types with a dictionary; missing values have code -1."""
    code_of_value: dict[Any, int] = {}
    codes = [
        -1 if is_missing(value) else code_of_value.setdefault(plain_value(value), len(code_of_value))
        for value in values
    ]
    return Factorized(np.array(codes, dtype=np.int64), list(code_of_value))


def _factorize_by_sort(values: NDArray[Any]) -> Factorized:
    """Factorize a NumPy vector by sorting it, so that the values are in ascending order."""
    distinct, codes = np.unique(values, return_inverse=True)
    return Factorized(codes, [plain_value(value) for value in distinct.tolist()])


def plain_value(value: Any) -> Any:
    """Return a NumPy scalar, decimal, fraction or enum member as a plain Python object, and other values unchanged."""
    if type(value) in _PLAIN_TYPES:
        return value
    if isinstance(value, np.generic):
        return float(value) if isinstance(value, np.longdouble) else value.item()
    if isinstance(value, Decimal | Fraction):
        return int(value) if math.isfinite(value) and value == int(value) else float(value)
    if isinstance(value, str):
        return str.__str__(value)  # `str` would return the name of an enum member
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    return value


_WORDS = {True: ("true", "yes", "t", "y"), False: ("false", "no", "f", "n")}
_BOOLEANS = {word for words in _WORDS.values() for word in words}
BOOLEANS, NUMBERS, TEXT = "booleans", "numbers", "text"


def kind_of(value: Any) -> str:
    """Return "text", "booleans" or "numbers" for the type of a category, or the type's name if it is another."""
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bool | np.bool_):
        return BOOLEANS
    return NUMBERS if isinstance(value, int | float | np.number) else type(value).__name__


def _spellings(value: Any) -> set[str]:
    """Return the texts, such as 1 and 1.0, by which a value matches categories of another type with a common text."""
    kind = kind_of(value)
    if kind == TEXT:
        word = value.strip().casefold()
        return {word if word in _BOOLEANS else str(value)}
    if kind not in (BOOLEANS, NUMBERS) or value - value != 0:  # infinite; np.isfinite rejects large integers
        return {str(value)}
    whole = {str(int(value)), f"{int(value)}.0"} if value == int(value) else set()
    return whole | {str(value)} | set(_WORDS[bool(value)] if kind == BOOLEANS else ())


def same_categories(values: Iterable[Any], categories: Iterable[Any]) -> dict[Any, Any]:
    """Return a dict from values to the only category of another type with the same spelling.

    Values without a match, or with several, are left out. The result for a value does not depend on other values.
    """
    written = defaultdict(set)
    for category in categories:
        for text in _spellings(category):
            written[text].add(category)
    matches = {}
    for value in values:
        same = {category for text in _spellings(value) for category in written.get(text, ())}
        same = {category for category in same if kind_of(category) != kind_of(value)}
        if len(same) == 1:
            matches[value] = same.pop()
    return matches


def match_spellings(values: Iterable[Any], categories: list[Any], name: str) -> dict[Any, Any]:
    """Return a dict from values of column `name` that are not categories to categories with the same spelling.

    Warns if values of a type that is new since `fit` do not match.
    """
    strange = {value for value in values if not is_missing(value)}.difference(categories)
    if _are_of_one_type(strange, categories):
        return {}
    matches = same_categories(strange, categories)
    sample_of_kind = {kind_of(category): category for category in reversed(categories)}
    unknown = sorted(
        (value for value in strange if value not in matches and kind_of(value) not in sample_of_kind), key=str
    )
    if unknown and sample_of_kind:
        learned = ", ".join(f"{kind}, such as {shown(category)}" for kind, category in sorted(sample_of_kind.items()))
        warn(
            f"Column {name} holds {kind_of(unknown[0])}, such as {shown(unknown[0])}; fit saw {learned}. "
            "Values of different types are treated as unseen categories. Convert the column to the type that "
            "it had in fit."
        )
    return matches


def without_same(values: list[Any], categories: list[Any]) -> list[Any]:
    """Return the values that equal no category and match no category of another type by spelling."""
    category_set = set(categories)
    new = [value for value in values if value not in category_set]
    same = {} if _are_of_one_type(new, categories) else same_categories(new, categories)
    return [value for value in new if value not in same]


def _are_of_one_type(values: Iterable[Any], categories: Iterable[Any]) -> bool:
    """Return True if all values and categories have one Python type, so that no spellings need to be matched."""
    return len({*map(type, values), *map(type, categories)}) < 2
