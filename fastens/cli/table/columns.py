"""Kinds of columns, the features that they become, and errors of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastens.files.formats import example_of
from fastens.table.columns.dates import seconds_of, times_of

_CONTROL = re.compile("[\\0-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ufeff]")


class CommandError(Exception):
    """A request that cannot be carried out; its message is one line with the reason and what to do."""


def first_line(error: BaseException, limit: int = 300) -> str:
    """The first line of an error's message, shortened: messages of libraries may quote whole rows of a file."""
    lines = str(error).strip().splitlines()
    line = lines[0] if lines else type(error).__name__
    return line if len(line) <= limit else line[: limit - 1] + "…"


def visible(text: str, but: str = "") -> str:
    """A text with its control characters as Python writes them, but some: names in a file do not steer a terminal.

    Those that turn the direction of writing, and other ends of lines, are among them.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in but else repr(found[0])[1:-1], str(text))


def listed(names: list[str], limit: int = 8) -> str:
    """Quoted names separated by commas; beyond `limit` of them, how many more there are."""
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


NUMBER, TEXT, BOOLEAN = "number", "text", "boolean"
# Texts as bags of words; TEXT is a category.
WORDS = "words"
DATE, TIMESTAMP, TIME = "date", "timestamp", "time"
UNUSABLE = "unusable"
# Texts of several items, as surveys have them: the kind goes on with the sign between items, and the items of training.
ITEMS = "items:"
_SIGNS = ";|,"
# The maximum number of items, the minimum mean number of cells with an item, the minimum share of cells of several.
_MOST_ITEMS, _CELLS_OF_ITEM, _SEVERAL = 60, 5, 0.1
TESTS_OF_KIND = {
    NUMBER: (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    TEXT: (pa.types.is_dictionary, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    BOOLEAN: (pa.types.is_boolean,),
    DATE: (pa.types.is_date,),
    TIMESTAMP: (pa.types.is_timestamp,),
    TIME: (pa.types.is_time, pa.types.is_duration),
}
# What each kind is called in a summary and in messages, and the kinds that a later table may hold in its place.
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
    """What a column of this Arrow type holds."""
    return next((kind for kind, tests in TESTS_OF_KIND.items() if any(test(type_) for test in tests)), UNUSABLE)


def column_kinds(table: pa.Table, categorical: list[str]) -> dict[str, str]:
    """The kind of every column of a training table; those in `categorical` hold categories whatever their type."""
    return {field.name: TEXT if field.name in categorical else kind_of(field.type) for field in table.schema}


def items_kind(column: pa.ChunkedArray) -> str | None:
    """The kind of a column whose cells have several of a few items, such as Python;SQL; None for other texts."""
    cells = pc.utf8_trim_whitespace(column.cast(pa.string())).drop_null()
    for sign in _SIGNS if len(cells) else ():
        is_several = pc.match_substring(cells, sign)
        if (pc.sum(is_several).as_py() or 0) < _SEVERAL * len(cells):
            continue
        distinct = cells.unique()
        if len(distinct) > 1 << 16:
            return None
        parts = pc.split_pattern(_joined_items(distinct, sign), sign).to_pylist()
        items = sorted({item for own in parts for item in own if item})
        n_items = pc.sum(pc.count_substring(cells, sign)).as_py() + len(cells)
        is_set = all(len(set(own)) == len(own) for own in parts)
        # Pairs such as "Rome, Italy" have more parts than cells; sentences have other words in each.
        if (
            2 < len(items) <= _MOST_ITEMS
            and is_set
            and len(items) < len(distinct)
            and n_items >= _CELLS_OF_ITEM * len(items)
        ):
            return ITEMS + sign + sign.join(items)
    return None


def _joined_items(cells: pa.ChunkedArray | pa.Array, sign: str) -> Any:
    """Cells with the bare sign between items, and none at the end."""
    joined = pc.replace_substring_regex(cells, pattern=rf"\s*{re.escape(sign)}\s*", replacement=sign)
    return pc.utf8_trim(joined, characters=sign)


def _item_columns(column: pa.ChunkedArray, name: str, kind: str) -> dict[str, pa.ChunkedArray]:
    """For each item of training if a cell has it."""
    sign, items = kind[len(ITEMS)], kind[len(ITEMS) + 1 :]
    joined = _joined_items(column, sign)
    edged = pc.binary_join_element_wise(sign, joined, sign, "")
    return {f"{name}: {item}": pc.match_substring(edged, sign + item + sign) for item in items.split(sign)}


def described(kind: str) -> str:
    """What a kind is called in a summary."""
    return "lists of items" if kind.startswith(ITEMS) else KIND_NAMES[kind]


def features(table: pa.Table, kinds: Mapping[str, str]) -> pa.Table:
    """The table a model learns from: numbers, booleans, categories, texts, dates."""
    made: dict[str, pa.ChunkedArray] = {}
    for name, kind in kinds.items():
        if kind.startswith(ITEMS):
            made.update(_item_columns(converted(table[name], name, TEXT), name, kind))
            continue
        column = converted(table[name], name, kind)
        if kind in (DATE, TIMESTAMP) and pa.types.is_null(column.type):
            column = column.cast(pa.timestamp("s"))
        made[name] = column.dictionary_encode() if kind == TEXT else column
    return pa.table(made)


def converted(column: pa.ChunkedArray, name: str, kind: str) -> pa.ChunkedArray:
    """The column converted to its kind, or an error that names the column, its kind and what it holds."""
    found = kind_of(column.type)
    if not pa.types.is_null(column.type) and found not in CONVERTIBLE.get(kind, (kind,)):
        example = example_of(column)
        raise CommandError(f"column {name!r} must hold {DESCRIPTIONS[kind]}, as in training, but holds {example!r}")
    try:
        return _cast(column, kind)
    except pa.ArrowException as error:
        raise CommandError(f"column {name!r} cannot be read as {DESCRIPTIONS[kind]}: {first_line(error)}") from error


def _cast(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    type_ = column.type
    if kind in (TEXT, WORDS):
        text = column.cast(pa.string()) if not pa.types.is_large_string(type_) else column
        return pc.utf8_trim_whitespace(text)
    if kind == BOOLEAN:
        return column.cast(pa.bool_())
    if kind in (DATE, TIMESTAMP):
        return column
    if kind == TIME:
        return column.cast(pa.float64()) if pa.types.is_null(type_) else _numbers(seconds_of(times_of(column, "")))
    keeps_type = (pa.types.is_integer(type_) or pa.types.is_floating(type_)) and not pa.types.is_float16(type_)
    return column if keeps_type else column.cast(pa.int8() if pa.types.is_boolean(type_) else pa.float64())


def _numbers(values: NDArray[np.floating]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, from_pandas=True)])


def n_distinct(column: pa.ChunkedArray) -> int:
    """How many values a column has, missing ones apart."""
    return len(column.drop_null().unique())


def missing_cells(n_missing: Sequence[int]) -> str:
    """How many cells are missing, and in how many columns, from the number of each column."""
    n_columns = sum(n > 0 for n in n_missing)
    if n_columns == 0:
        return "nothing"
    cells = "1 cell" if sum(n_missing) == 1 else f"{sum(n_missing):,} cells"
    return f"{cells}, in {n_columns:,} column{'s' if n_columns > 1 else ''}"
