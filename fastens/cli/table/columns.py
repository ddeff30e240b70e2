"""Kinds of columns, their conversion to features, and errors of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastens.files.formats import example_of, python_values
from fastens.files.read import items_of, joined_items
from fastens.table.columns.dates import seconds_of, times_of

_CONTROL = re.compile("[\\0-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ufeff]")


class CommandError(Exception):
    """Error of a command; its message is one line with the reason and the remedy."""


def first_line(error: BaseException, limit: int = 300) -> str:
    """Return the first line of an error message, cut to `limit` characters because it may quote rows of a file."""
    lines = str(error).strip().splitlines()
    line = lines[0] if lines else type(error).__name__
    return line if len(line) <= limit else line[: limit - 1] + "…"


def escape_control_characters(text: str, kept: str = "") -> str:
    """Escape control characters except those in `kept`, so that names in a file cannot control the terminal.

    Characters that change the text direction and other line separators are escaped, too.
    """
    return _CONTROL.sub(lambda match: match[0] if match[0] in kept else repr(match[0])[1:-1], str(text))


def listed(names: list[str], limit: int = 8) -> str:
    """Return quoted names separated by commas, at most `limit` of them, and the number of further names."""
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def counted_rows(n: int) -> str:
    """Return a number of rows as text: "1 row" or "1,234 rows"."""
    return f"{n:,} row" + "s" * (n != 1)


NUMBER, TEXT, BOOLEAN = "number", "text", "boolean"
# WORDS is free text for bags of words, whereas TEXT is categorical.
WORDS = "words"
# The values of --model for which a model reads only the column of --text.
WITH_TEXT_ONLY = (None, "text")
DATE, TIMESTAMP, TIME = "date", "timestamp", "time"
UNUSABLE = "unusable"
# Lists of items, as in surveys. The kind continues with the separator and the items of the training set.
ITEMS = "items:"
TESTS_OF_KIND = {
    NUMBER: (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    TEXT: (pa.types.is_dictionary, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    BOOLEAN: (pa.types.is_boolean,),
    DATE: (pa.types.is_date,),
    TIMESTAMP: (pa.types.is_timestamp,),
    TIME: (pa.types.is_time, pa.types.is_duration),
}
# The names of kinds in summaries and messages, and the kinds that a later table may have instead.
KIND_NAMES = {
    NUMBER: "numbers",
    TEXT: "categories",
    WORDS: "texts",
    BOOLEAN: "true or false",
    DATE: "dates",
    TIMESTAMP: "dates",
    TIME: "times",
}
DESCRIPTIONS = {**KIND_NAMES, TEXT: "text", WORDS: "text"}
CONVERTIBLE = {
    NUMBER: (NUMBER, BOOLEAN),
    TEXT: (TEXT, NUMBER, BOOLEAN),
    WORDS: (TEXT, NUMBER, BOOLEAN),
    DATE: (DATE, TIMESTAMP),
    TIMESTAMP: (DATE, TIMESTAMP),
}


def kind_of(type_: pa.DataType) -> str:
    """Return the kind of an Arrow type: NUMBER, TEXT, BOOLEAN, DATE, TIMESTAMP, TIME, or UNUSABLE for all others."""
    return next((kind for kind, tests in TESTS_OF_KIND.items() if any(test(type_) for test in tests)), UNUSABLE)


def column_kinds(table: pa.Table, categorical: list[str]) -> dict[str, str]:
    """Map the column names of a training table to kinds; columns in `categorical` have the kind TEXT."""
    return {field.name: TEXT if field.name in categorical else kind_of(field.type) for field in table.schema}


def items_kind(column: pa.ChunkedArray) -> str | None:
    """Return the kind ITEMS + separator + joined items if the texts are lists, such as "Python;SQL"; else None."""
    separated = items_of(column.cast(pa.string()))
    return None if separated is None else ITEMS + separated[0] + separated[0].join(separated[1])


def _make_item_columns(column: pa.ChunkedArray, name: str, kind: str) -> dict[str, pa.ChunkedArray]:
    """Return a boolean column "NAME: ITEM" for each item listed in `kind`, True in rows whose list has the item."""
    sign, items = kind[len(ITEMS)], kind[len(ITEMS) + 1 :]
    joined = joined_items(column, sign)
    edged = pc.binary_join_element_wise(sign, joined, sign, "")
    return {f"{name}: {item}": pc.match_substring(edged, sign + item + sign) for item in items.split(sign)}


def describe_kind(kind: str) -> str:
    """Return the name of a kind in summaries, such as "numbers", "categories" or "lists of items"."""
    return "lists of items" if kind.startswith(ITEMS) else KIND_NAMES[kind]


def make_features(table: pa.Table, kinds: Mapping[str, str]) -> pa.Table:
    """Return a table of features: the columns in `kinds`, converted; a list becomes a column for each item."""
    made: dict[str, pa.ChunkedArray] = {}
    for name, kind in kinds.items():
        if kind.startswith(ITEMS):
            made.update(_make_item_columns(convert_column(table[name], name, TEXT), name, kind))
            continue
        column = convert_column(table[name], name, kind)
        if kind in (DATE, TIMESTAMP) and pa.types.is_null(column.type):
            column = column.cast(pa.timestamp("s"))
        made[name] = column.dictionary_encode() if kind == TEXT else column
    return pa.table(made)


def convert_column(column: pa.ChunkedArray, name: str, kind: str) -> pa.ChunkedArray:
    """Convert a column to a kind; raise CommandError, with its name and a cell, if it cannot be converted."""
    present_kind = kind_of(column.type)
    if not pa.types.is_null(column.type) and present_kind not in CONVERTIBLE.get(kind, (kind,)):
        example = example_of(column)
        raise CommandError(f"column {name!r} must hold {DESCRIPTIONS[kind]}, as in training; got {example!r}")
    try:
        return _cast(column, kind)
    except pa.ArrowException as error:
        raise CommandError(f"column {name!r} cannot be read as {DESCRIPTIONS[kind]}: {first_line(error)}") from error


def _cast(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """Cast a column to the Arrow type of a kind: trimmed strings, booleans, numbers, seconds for TIME, or dates."""
    type_ = column.type
    if kind in (TEXT, WORDS):
        text = column.cast(pa.string()) if not pa.types.is_large_string(type_) else column
        return pc.utf8_trim_whitespace(text)
    if kind == BOOLEAN:
        return column.cast(pa.bool_())
    if kind in (DATE, TIMESTAMP):
        return column
    if kind == TIME:
        return column.cast(pa.float64()) if pa.types.is_null(type_) else _float_column(seconds_of(times_of(column, "")))
    keeps_type = (pa.types.is_integer(type_) or pa.types.is_floating(type_)) and not pa.types.is_float16(type_)
    return column if keeps_type else column.cast(pa.int8() if pa.types.is_boolean(type_) else pa.float64())


def _float_column(values: NDArray[np.floating]) -> pa.ChunkedArray:
    """Return floats as an Arrow column, with missing values instead of NaN."""
    return pa.chunked_array([pa.array(values, from_pandas=True)])


def column_codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return codes (n_rows,), equal for rows with equal values, 0 if missing; nested values are compared as text."""
    if pa.types.is_nested(column.type):
        column = pa.chunked_array([pa.array([str(value) for value in python_values(column)])])
    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.int64)
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        combined = pa.concat_arrays(combined.chunks) if combined.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(combined.type):
        combined = combined.dictionary_encode()
    return np.asarray(combined.indices.fill_null(-1).cast(pa.int64()).to_numpy()) + 1


def n_distinct(column: pa.ChunkedArray) -> int:
    """Return the number of distinct values of a column, not counting missing values."""
    return len(column.drop_null().unique())


def missing_cells_text(n_missing: Sequence[int]) -> str:
    """Return text such as "3 cells, in 2 columns" from the number of missing cells in each column."""
    n_columns = sum(n > 0 for n in n_missing)
    if n_columns == 0:
        return "nothing"
    cells = "1 cell" if sum(n_missing) == 1 else f"{sum(n_missing):,} cells"
    return f"{cells}, in {n_columns:,} column{'s' if n_columns > 1 else ''}"
