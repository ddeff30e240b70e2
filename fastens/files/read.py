"""Reading of table files of any format, with type inference for each column."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fastens.files.csv_files import read_csv
from fastens.files.dates import DateFormat, date_format
from fastens.files.dialects import USUAL_CODES, unique_names
from fastens.files.formats import (
    AS_TEXT,
    CSV,
    DAMAGE,
    EXCEL,
    SQLITE,
    TYPED,
    content_of,
    example_of,
    format_of,
    fsspec_for,
    is_local_file,
    is_remote,
    opener,
    read_as_text,
    read_typed_file,
)
from fastens.files.numbers import (
    NEARLY,
    NumberFormat,
    has_leading_zeros,
    may_be_numbers,
    mixed_units,
    number_format,
    whole_numbers,
)
from fastens.files.schema import BOOLEAN, DATE, NUMBER, OTHER, TEXT, Column, TableFileError, TableSchema, listed

SAMPLE = 1000
MAX_NAMED = 8
# Free text among the first rows: the minimum number and share of distinct cells, the mean number of words per cell, its
# coefficient of variation and the share of words in lower case. Names, addresses and codes have capitals and digits,
# and log lines and other templates have nearly the same number of words in every cell.
TEXT_MINIMUM, TEXT_SHARE, TEXT_WORDS, TEXT_SPREAD, TEXT_LOWER = 50, 0.5, 6.0, 0.25, 0.5
# Lists of items: the separators, the maximum number of items, the minimum mean number of cells per item, and the
# minimum share of cells with several items.
_SIGNS, _MAX_ITEMS, _CELLS_OF_ITEM, _SEVERAL = ";|,", 60, 5, 0.1
# Words are separated by whitespace, so a URL is one word. Letters without case count as lower case.
_WORD, _LOWER_WORD = r"\S*[\p{L}\p{N}]\S*", r"(?:^|\s)[^\s\p{L}\p{N}]*[\p{Ll}\p{Lo}\p{Lm}]"
_INDEX_OF_PANDAS = re.compile(r"__index_level_\d+__")
_IS_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_IS_NUMBER = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_IS_DATE = (pa.types.is_date, pa.types.is_timestamp)
# Parses notes on a column into the name and the finding. Row numbers and options are removed before notes are compared.
_ABOUT_COLUMN = re.compile(r"('.*?'|\".*?\") is ((?:read as|text, for) .*)", re.DOTALL)
_OF_COLUMN = re.compile(r" in row [\d,]+|--column (?:'[^']*'|\S*?):")
# Ranges of integers that may be dates or months, with the minimum number of distinct values.
_DAYS = ((19000101, 21001231, 2), (190001, 210012, 6))


@dataclass(frozen=True)
class ReadTable:
    """Table with its inferred schema, and notes for the user."""

    table: pa.Table
    schema: TableSchema
    notes: list[str]


def read(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    schema: TableSchema,
    column_types: Mapping[str, str],
    sheet: str | None = None,
) -> ReadTable:
    """Return the table in files, with its schema and notes; see `fastens.read_table` for the parameters.

    Names of columns that do not exist are ignored.
    """
    declared = {name: Column.given(type_) for name, type_ in column_types.items()}
    typed = {**schema.columns, **declared}
    as_text = [name for name, column in typed.items() if column.type == TEXT or has_notation(column)]
    files = files_of(path)
    formats = sorted({format_of(file) for file in files})
    if sheet is not None:
        if {EXCEL, SQLITE}.isdisjoint(formats):
            said = f"must be None for {formats[0]}; got {sheet!r}"
            raise TableFileError(f"sheet is only for workbooks and databases, and {said}")
        schema = replace(schema, sheet=sheet)
    words = words_of(typed)
    parts = [_read_file(file, schema, as_text, words, sheet is not None) for file in files]
    table, notes, prefers_comma = _join_files(parts)
    is_typed = all(format_of(file) in TYPED for file in files)
    in_file = columns_in_file(schema.columns, table, prefers_comma, notes)
    prefers_comma = prefers_comma or has_decimal_commas(table)
    typing = Typing(in_file, declared, prefers_comma, is_typed, notes, schema.missing)
    columns = {name: typing.read(name, plain_text(table[name])) for name in table.column_names}
    file_schema = replace(schema, columns={name: column for name, (_, column) in columns.items()})
    return ReadTable(pa.table({name: values for name, (values, _) in columns.items()}), file_schema, _join_notes(notes))


@dataclass(frozen=True)
class Typing:
    """Types and notations of columns: known from an earlier table, passed by the user, or inferred."""

    declared: Mapping[str, Column]
    requested: Mapping[str, Column]
    prefers_comma: bool
    is_typed: bool
    notes: list[str]
    missing: Sequence[str] = ()

    def read(self, name: str, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Column]:
        """Return the converted values of a column, and its type and notation as a `Column`.

        Raises TableFileError for values that do not fit a known type.
        """
        if self.missing:
            values = without_codes(values, self.missing)
        read, column = self._convert(name, values)
        return (without_codes(read, self.missing) if self.missing and read is not values else read), column

    def _convert(self, name: str, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Column]:
        """Return a column without missing-value codes as converted values, and its type and notation as a `Column`."""
        if name in self.requested:
            return self._convert_requested(name, values, self.requested[name])
        if name in self.declared:
            return as_known(name, values, self.declared[name]), self.declared[name]
        if not _is_any(_IS_TEXT, values.type):
            return self._infer_integer_dates(name, values)
        return self.infer_text(name, values)

    def infer_text(self, name: str, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Column]:
        """Return a text column converted to its inferred type, and its type and notation as a `Column`.

        The column stays text if not all of its values match. Notes report what was detected.
        """
        first = values.slice(0, SAMPLE).unique().drop_null()
        if not len(first) or _share_of_digits(first) < NEARLY:  # neither numbers nor dates
            return values, Column(TEXT, analyzer=analyzer_of(values.slice(0, SAMPLE)))
        numbers = may_be_numbers(first)
        if numbers and number_format(first, self.prefers_comma)[1] >= NEARLY:
            return self._infer_numbers(name, values)
        if date_format(first) is not None:
            return self._infer_dates(name, values)
        if numbers and (units := mixed_units(first)):
            option = (
                f"--column {shlex.quote(name)}:number reads the most frequent unit, or convert the cells to one unit"
            )
            self.notes.append(
                f"{name!r} is read as text, because its numbers have several units: {listed(units, 4)}; {option}."
            )
        return values, Column(TEXT, analyzer=analyzer_of(values.slice(0, SAMPLE)))

    def _infer_numbers(self, name: str, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Column]:
        """Return a text column as numbers if all its values are numbers, otherwise unchanged, and its `Column`."""
        distinct = values.unique().drop_null()
        style, share = number_format(distinct, self.prefers_comma)
        is_plain = replace(style, decimal=".", thousands="") == NumberFormat()
        if share >= NEARLY and is_plain and has_leading_zeros(distinct):
            if not self.is_typed:
                option = f"to read numbers, use --column {shlex.quote(name)}:number"
                self.notes.append(f"{name!r} is read as text, because its values have leading zeros; {option}.")
            return values, Column(TEXT)
        if share == 1 and self.is_typed and style == NumberFormat():
            return values, Column(TEXT)  # the file format has number types, so these digits are text on purpose
        if share == 1:
            if style != NumberFormat():
                self.notes.append(f"{name!r} is read as numbers, written like {str(style)!r}{style.remarks}.")
            return _parse_numbers(values, style), _column_of_format(style)
        odd = distinct.filter(pc.invert(style.fits(distinct)))
        if share >= NEARLY:
            self.notes.append(
                f"{name!r} is read as text, because of {_describe_odd(values, odd)}. {_advice(name, odd, NUMBER)}"
            )
        return values, Column(TEXT)

    def _infer_dates(self, name: str, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Column]:
        """Return a text column as dates or times if all its values are, otherwise unchanged, and its `Column`."""
        distinct = values.unique().drop_null()
        detected = date_format(distinct, name)
        if detected is None:
            return values, Column(TEXT)
        style, is_ambiguous, share = detected
        if share < 1:
            odd = distinct.filter(pc.is_null(style.parse(distinct)))
            self.notes.append(
                f"{name!r} is read as text, because of {_describe_odd(values, odd)}. {_advice(name, odd, DATE)}"
            )
            return values, Column(TEXT)
        doubt = "; the order of day and month is ambiguous" if is_ambiguous else ""
        what = "dates" if style.has_days else "times"
        self.notes.append(f"{name!r} is read as {what}, written as {style.text}{style.remarks}{doubt}.")
        return _parse_dates(values, style), Column(DATE, format=style.text, first_year=style.first_year)

    def _infer_integer_dates(self, name: str, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Column]:
        """Return integers as dates if all are days such as 20230131 or months such as 202301, otherwise unchanged.

        The second result is the `Column` of the values. Columns of other types are returned unchanged.
        """
        plain = values, Column(_schema_type(values.type))
        first = values[0].as_py() if pa.types.is_int64(values.type) and len(values) else None
        if first is None and values.null_count < len(values) and pa.types.is_int64(values.type):
            first = pc.first(values).as_py()  # slow: 16 µs, compared with 1 µs for values[0]
        if first is None or not any(low <= first <= high for low, high, _ in _DAYS):
            return plain
        limits = pc.min_max(values).as_py()
        needed = [n for low, high, n in _DAYS if low <= limits["min"] and limits["max"] <= high]
        distinct = values.unique().drop_null()
        if not needed or len(distinct) < needed[0]:
            return plain
        detected = date_format(distinct.cast(pa.string()), name)
        if detected is None or detected[2] < 1 or not detected[0].text.startswith("%Y"):
            return plain
        self.notes.append(f"{name!r} is read as dates, written as {detected[0].text}.")
        return _parse_dates(values.cast(pa.string()), detected[0]), Column(DATE, format=detected[0].text)

    def _convert_requested(  # noqa: PLR0911
        self, name: str, values: pa.ChunkedArray, requested: Column
    ) -> tuple[pa.ChunkedArray, Column]:
        """Return a column converted to the type that the user passed, `requested`, and its type and notation.

        Numbers and dates that do not match become missing; other values that do not fit raise TableFileError.
        """
        if requested.type == TEXT:
            return values if _is_any(_IS_TEXT, values.type) else _cast(values, pa.string(), name, requested), requested
        if not _is_any(_IS_TEXT, values.type):
            if requested.type == OTHER:
                return values, Column(_schema_type(values.type))
            texts = values.cast(pa.string()) if requested.type == DATE and pa.types.is_integer(values.type) else None
            if texts is not None and date_format(texts.unique().drop_null()) is not None:
                return self._convert_requested(name, texts, requested)
            return _convert_to_type(name, values, requested.type), requested
        distinct = values.unique().drop_null()
        if requested.type == NUMBER:
            style, _ = number_format(distinct, self.prefers_comma)
            odd = distinct.filter(pc.invert(style.fits(distinct)))
            values = self._drop_odd_values(name, values, odd, "numbers")
            return _parse_numbers(values, style), replace(_column_of_format(style), lenient=requested.lenient)
        if requested.type == DATE and (detected := date_format(distinct, name)) is not None:
            dates = detected[0]
            values = self._drop_odd_values(name, values, distinct.filter(pc.is_null(dates.parse(distinct))), "dates")
            return _parse_dates(values, dates), replace(requested, format=dates.text, first_year=dates.first_year)
        return as_known(name, values, replace(requested, lenient=False)), requested

    def _drop_odd_values(self, name: str, values: pa.ChunkedArray, odd: pa.Array, what: str) -> pa.ChunkedArray:
        """Return the values with the values in `odd`, which are not `what` ("numbers" or "dates"), set to missing.

        A note names the odd values.
        """
        if not len(odd):
            return values
        self.notes.append(f"{name!r} is read as {what}; {_describe_odd(values, odd)} is read as missing.")
        return pc.if_else(pc.is_in(values, odd), None, values)


def analyzer_of(cells: pa.ChunkedArray) -> str:
    """Return "word" for free text, the separator for lists of items, and "" for categories, names and codes."""
    cells = cells.drop_null()
    distinct = cells.unique()
    if len(distinct) >= max(TEXT_MINIMUM, TEXT_SHARE * len(cells)):
        n_words = pc.count_substring_regex(distinct, pattern=_WORD)
        mean, spread = pc.mean(n_words).as_py(), pc.stddev(n_words).as_py()
        n_lower = pc.sum(pc.count_substring_regex(distinct, pattern=_LOWER_WORD)).as_py()
        is_prose = n_lower >= TEXT_LOWER * mean * len(distinct)
        if mean >= TEXT_WORDS and spread >= TEXT_SPREAD * mean and is_prose:
            return "word"
    return (items_of(cells) or ("",))[0]


def items_of(cells: pa.ChunkedArray) -> tuple[str, list[str]] | None:
    """Return the separator and the sorted distinct items of a column of item lists, such as Python;SQL.

    Returns None for texts of any other kind.
    """
    cells = pc.utf8_trim_whitespace(cells).drop_null()
    for sign in _SIGNS if len(cells) else ():
        is_several = pc.match_substring(cells, sign)
        if (pc.sum(is_several).as_py() or 0) < _SEVERAL * len(cells):
            continue
        distinct = cells.unique()
        if len(distinct) > 1 << 16:
            return None
        parts = pc.split_pattern(joined_items(distinct, sign), sign).to_pylist()
        items = sorted({item for cell_items in parts for item in cell_items if item})
        n_items = pc.sum(pc.count_substring(cells, sign)).as_py() + len(cells)
        is_set = all(len(set(cell_items)) == len(cell_items) for cell_items in parts)
        # Pairs such as "Rome, Italy" have too many distinct parts for the number of cells, and so do sentences.
        if (
            2 < len(items) <= _MAX_ITEMS
            and is_set
            and len(items) < len(distinct)
            and n_items >= _CELLS_OF_ITEM * len(items)
        ):
            return sign, items
    return None


def joined_items(cells: pa.ChunkedArray | pa.Array, separator: str) -> Any:
    """Return cells of items such as "tea; milk;" without spaces around separators and separators at the ends."""
    joined = pc.replace_substring_regex(cells, pattern=rf"\s*{re.escape(separator)}\s*", replacement=separator)
    return pc.utf8_trim(joined, characters=separator)


def has_decimal_commas(table: pa.Table) -> bool:
    """Return True if a text column holds numbers with a decimal comma, and no column numbers with a decimal point.

    Ambiguous numbers in other columns, such as "1,234" and "1.234", are then read with a decimal comma too.
    """
    if any(pa.types.is_floating(type_) for type_ in table.schema.types):
        return False
    signs: set[str] = set()
    for values in table.columns:
        cells = plain_text(values.slice(0, SAMPLE)).unique().drop_null() if _is_any(_IS_TEXT, values.type) else ()
        if len(cells) and pc.any(pc.match_substring_regex(cells, pattern="[0-9][,.][0-9]")).as_py():
            style, share = number_format(cells)
            has_groups = pc.any(pc.match_substring_regex(cells, pattern="[0-9]([,.][0-9]{3}){2}")).as_py()
            if share >= NEARLY and (has_groups or _count_unambiguous(cells, style)):
                signs.add(style.decimal)
    return signs == {","}


def columns_in_file(
    columns: Mapping[str, Column], table: pa.Table, prefers_comma: bool, notes: list[str]
) -> dict[str, Column]:
    """Return the columns of a schema with the decimal separator of this file, which may differ from an earlier file.

    The separator is the same in all columns, because "1,234" in a single column is ambiguous. If `prefers_comma` is
    True, the file has decimal commas, which schemas do not record for numbers without another notation. A different
    separator is added to `notes`.
    """
    adapted, texts = dict(columns), dict[str, pa.Array]()
    for name, column in columns.items():
        if column.type == NUMBER and name in table.column_names and _is_any(_IS_TEXT, table[name].type):
            texts[name] = plain_text(table[name]).unique().drop_null()
    others = {name: _swap_decimal(columns[name]) for name in texts}
    n_own = sum(_count_unambiguous(cells, style_of(columns[name])) for name, cells in texts.items())
    n_other = sum(_count_unambiguous(cells, style_of(others[name])) for name, cells in texts.items())
    for name, cells in texts.items():
        n_fitting, n_swapped = (_count_fitting(cells, style_of(one)) for one in (columns[name], others[name]))
        is_plain = columns[name].decimal == "." and not columns[name].thousands
        if n_swapped >= n_fitting and ((prefers_comma and is_plain) or n_other > n_own):
            adapted[name] = others[name]
    if n_other > n_own and not prefers_comma:
        sign = "comma" if next(iter(others.values())).decimal == "," else "point"
        notes.append(f"Numbers have a decimal {sign} in this file, unlike in the schema.")
    return adapted


def _swap_decimal(column: Column) -> Column:
    """Return the column of numbers with decimal comma and decimal point exchanged, also in the thousands separator."""
    swapped = {",": ".", ".": ","}
    return replace(column, decimal=swapped[column.decimal], thousands=swapped.get(column.thousands, column.thousands))


def _count_fitting(cells: pa.Array, style: NumberFormat) -> int:
    """Return the number of cells that are numbers in a format."""
    return pc.sum(style.fits(cells)).as_py() or 0


def _count_unambiguous(cells: pa.Array, style: NumberFormat) -> int:
    """Return the number of cells that match a format and would not match if its separators were exchanged."""
    other = replace(style, decimal="." if style.decimal == "," else ",", thousands=style.decimal)
    clear = pc.and_(style.fits(cells), pc.invert(other.fits(cells)))
    return pc.sum(pc.and_(clear, pc.match_substring(cells, pattern=style.decimal))).as_py() or 0


def without_codes(values: pa.ChunkedArray, codes: Sequence[str]) -> pa.ChunkedArray:
    """Return the values with missing-value codes set to missing; numbers are compared as numbers, dates as dates."""
    if _is_any(_IS_TEXT, values.type):
        trimmed = pc.utf8_trim_whitespace(values.cast(pa.string()))
        return pc.if_else(pc.is_in(trimmed, pa.array([code.strip() for code in codes])), None, values)
    for code in codes if _is_any((*_IS_NUMBER, *_IS_DATE), values.type) else ():
        type_ = pa.float64() if _is_any(_IS_NUMBER, values.type) else values.type
        try:
            number = pa.scalar(code.strip().replace(",", ".")).cast(type_)
            values = pc.if_else(pc.equal(values, number.cast(values.type)), None, values)
        except pa.ArrowException:  # the code cannot be a value of this column
            continue
    return values


def _share_of_digits(cells: pa.Array) -> float:
    """Return the fraction of cells that contain a digit."""
    return (pc.sum(pc.match_substring_regex(cells, pattern="[0-9]")).as_py() or 0) / len(cells)


def _column_of_format(style: NumberFormat) -> Column:
    """Return the Column of numbers in a format."""
    return Column(NUMBER, **asdict(style))


def _parse_dates(values: pa.ChunkedArray, style: DateFormat) -> pa.ChunkedArray:
    """Return texts as dates in a format; each distinct text is parsed once."""
    coded = values.combine_chunks().dictionary_encode()
    return pa.chunked_array([style.parse(coded.dictionary).take(coded.indices)])


def as_known(  # noqa: PLR0911
    name: str, values: pa.ChunkedArray, column: Column, first: int = 0
) -> pa.ChunkedArray:
    """Return the values converted to the type and notation of `column`.

    Values that do not match become missing if the column is lenient. Otherwise TableFileError names the first of them
    and its row; `first` is the row number of the first value.
    """
    if column.type == TEXT and not _is_any(_IS_TEXT, values.type):
        return _cast(values, pa.string(), name, column)
    if column.type == BOOLEAN and _are_zeros_and_ones(values):
        return values.cast(pa.bool_())
    if column.type == DATE and column.format and pa.types.is_integer(values.type):
        values = values.cast(pa.string())
    if column.type == OTHER or not _is_any(_IS_TEXT, values.type) or column.type == TEXT:
        return values
    distinct = values.unique().drop_null()
    if column.type == NUMBER:
        style = style_of(column)
        odd = distinct.filter(pc.invert(style.fits(distinct)))
        if not column.lenient:
            _raise_if_odd(name, values, odd, f"a number written like {str(style)!r}", first)
        return _parse_numbers(pc.if_else(pc.is_in(values, odd), None, values) if len(odd) else values, style)
    if column.type == DATE:
        dates = DateFormat(column.format or "%Y-%m-%d", column.first_year)
        if not column.format and ":" in str(distinct[:1]):
            return _cast(values, pa.timestamp("s"), name, column)
        odd = distinct.filter(pc.is_null(dates.parse(distinct)))
        if not column.lenient:
            _raise_if_odd(name, values, odd, f"a date written as {dates.text}", first)
        return _parse_dates(values, dates)
    return _cast(values, pa.bool_() if column.type == BOOLEAN else pa.timestamp("s"), name, column)


def _convert_to_type(name: str, values: pa.ChunkedArray, requested_type: str) -> pa.ChunkedArray:
    """Return the values of column `name`, which are not texts, as the type that the user passed.

    Raises TableFileError if they cannot be converted.
    """
    type_ = _schema_type(values.type)
    if type_ == requested_type or pa.types.is_null(values.type):
        return values
    if requested_type == BOOLEAN and _are_zeros_and_ones(values):
        return values.cast(pa.bool_())
    if requested_type == NUMBER and type_ == BOOLEAN:
        return values.cast(pa.int8())
    held = f"{values.type}, such as {example_of(values)!r}"
    raise TableFileError(f"column {name!r} cannot be read as {requested_type}: it holds {held}")


def _are_zeros_and_ones(values: pa.ChunkedArray) -> bool:
    """Return True if the values are numeric and each of them is 0, 1 or missing."""
    return _is_any(_IS_NUMBER, values.type) and set(values.unique().drop_null().to_pylist()) <= {0, 1}


def _parse_numbers(values: pa.ChunkedArray, style: NumberFormat) -> pa.ChunkedArray:
    """Return texts as numbers in a format, as integers if all are; each distinct text is parsed once."""
    chunks = values.dictionary_encode().unify_dictionaries().chunks
    if not chunks:
        return values.cast(pa.float64())
    parsed = style.parse(chunks[0].dictionary)
    if whole_numbers([parsed]):
        parsed = parsed.cast(pa.int64())
    return pa.chunked_array([parsed.take(chunk.indices) for chunk in chunks])


def _cast(values: pa.ChunkedArray, type_: pa.DataType, name: str, column: Column) -> pa.ChunkedArray:
    """Return the values cast to an Arrow type; raise TableFileError that names the column if that fails."""
    try:
        return values.cast(type_)
    except pa.ArrowException as error:
        raise TableFileError(f"column {name!r} must have the type of the schema, {column.type}: {error}") from error


def _raise_if_odd(name: str, values: pa.ChunkedArray, odd: pa.Array, rule: str, first: int) -> None:
    """Raise TableFileError that the first value in `odd`, in its row, is not `rule`, unless `odd` is empty.

    `odd` holds distinct values, and `first` is the row number of the first of `values` in the table.
    """
    if len(odd):
        row = first + pc.index(values, odd[0]).as_py()
        more = f", and {len(odd) - 1} other values are not" if len(odd) > 1 else ""
        raise TableFileError(f"column {name!r}, row {row + 1}: {odd[0].as_py()!r} is not {rule}{more}")


def _join_notes(notes: list[str]) -> list[str]:
    """Return the notes, with notes on columns of a common notation or odd value joined to one note on all columns."""
    names: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for note in notes:
        match = _ABOUT_COLUMN.fullmatch(note)
        name, writing = (match[1], match[2]) if match else ("", note)
        key = _OF_COLUMN.sub("", writing)
        names.setdefault(key, []).append(name)
        shown.setdefault(key, writing)
    grouped = []
    for key, alike in names.items():
        several = alike if len(alike) <= MAX_NAMED else [*alike[:MAX_NAMED], f"{len(alike) - MAX_NAMED} more"]
        verb = " is " if len(alike) == 1 else " are "
        start = " and ".join(filter(None, [", ".join(several[:-1]), several[-1]])) + verb if alike[0] else ""
        grouped.append(start + (shown[key] if len(alike) == 1 else shown[key].replace("; its years", "; the years")))
    return grouped


def _describe_odd(values: pa.ChunkedArray, odd: pa.Array) -> str:
    """Return text that names the first values in `odd`, each with its first row in `values`, counted from 1."""
    shown = [f"{value.as_py()!r} in row {pc.index(values, value).as_py() + 1}" for value in odd[:3]]
    more = f" and {len(odd) - 3} other values" if len(odd) > 3 else ""
    return ", ".join(shown) + more


def _advice(name: str, odd: pa.Array, type_: str) -> str:
    """Return advice on how to read column `name` as `type_`, or its `odd` values, which do not match, as missing."""
    codes = [text for text in odd.to_pylist() if text.strip().lower() in USUAL_CODES]
    if codes and len(codes) == len(odd):
        options = " ".join("--missing=" + shlex.quote(code) for code in codes)
        return f"To treat that as missing, use {options}, or {codes} as `missing` of the schema."
    option = f"--column {shlex.quote(name)}:{type_}, or `column_types`"
    return f"To read {type_}s and treat everything else as missing, use {option}."


def _read_file(path: str, schema: TableSchema, as_text: Sequence[str], words: Sequence[str], has_sheet: bool) -> Any:
    """Return the table of one file, its notes, and True if its numbers have decimal commas.

    `as_text` and `words` are the `text_columns` and `word_columns` of `read_csv`. `has_sheet` is True if the user
    passed the sheet of the schema. Raises TableFileError with the path if the file cannot be read.
    """
    format_ = format_of(path)
    open_file: Callable[[], Any] = opener(path)
    try:
        if format_ in AS_TEXT:
            content, texts = read_as_text(path, format_, schema.sheet, has_sheet)
            open_file = partial(pa.BufferReader, content)
            schema = replace(schema, encoding="utf-8", separator=",")
            as_text = [*as_text, *(name for name in texts or () if name not in schema.columns)]
        if format_ in (CSV, *AS_TEXT):
            if format_ == CSV and is_local_file(path, compressed=True):
                open_file = partial(pa.BufferReader, content_of(path))
            table, dialect = read_csv(open_file, schema, as_text, words)
            return _require_rows(table, path), dialect.notes, dialect.prefers_comma
        table = read_typed_file(path, format_, schema.sheet, has_sheet)
        read_names = table.column_names  # raises if a name is not valid UTF-8
        for type_ in table.schema.types:
            _check_field_names(type_)
    except TableFileError as error:
        raise TableFileError(f"cannot read {path}: {error}" if path not in str(error) else str(error)) from error
    except (*DAMAGE, ValueError) as error:
        message = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        raise TableFileError(f"cannot read {path} as {format_}: {message}") from error
    table = table.select([i for i, name in enumerate(read_names) if not _INDEX_OF_PANDAS.fullmatch(name)])
    names, notes = unique_names(table.column_names)
    return _require_rows(table.rename_columns(names), path), notes, False


def _check_field_names(type_: pa.DataType) -> None:
    """Raise UnicodeDecodeError if a field name within a nested type is not valid UTF-8; Arrow decodes it when read."""
    for field in (type_.field(i) for i in range(type_.num_fields)):
        assert field.name is not None
        _check_field_names(field.type)


def _require_rows(table: pa.Table, path: str) -> pa.Table:
    """Return the table; raise TableFileError if it has no rows or columns."""
    if table.num_rows == 0 or table.num_columns == 0:
        raise TableFileError(f"{path} has no rows")
    return table


def _join_files(parts: list[Any]) -> tuple[pa.Table, list[str], bool]:
    """Return the concatenated tables of all files, all notes, and True if any file has decimal commas.

    `parts` holds the result of `_read_file` for each file. Raises TableFileError if the columns differ.
    """
    table = parts[0][0]
    if len(parts) > 1:
        try:
            table = pa.concat_tables([part[0] for part in parts], promote_options="permissive")
        except pa.ArrowException as error:
            raise TableFileError(f"the files do not have the same columns: {error}") from error
    return table, list(dict.fromkeys(note for part in parts for note in part[1])), any(part[2] for part in parts)


def files_of(path: Any) -> list[str]:
    """Return the files that match a path, a glob pattern, a URL or a sequence of them.

    Raises TableFileError if nothing matches a pattern, and TypeError for other objects.
    """
    if not isinstance(path, str | os.PathLike):
        if not isinstance(path, Iterable):
            raise TypeError(f"path must be a path, or a sequence of them; got {path!r}.")
        if not (files := [file for one in path for file in files_of(os.fspath(one))]):
            raise TableFileError("path must name at least one file; got none")
        return files
    path = os.fspath(path)
    if is_remote(path):
        return _match_url(path)
    if os.path.exists(path) or not glob.has_magic(path):
        return [path]
    if not (matches := sorted(glob.glob(path))):
        raise TableFileError(f"no such file: {path}")
    return matches


def _match_url(url: str) -> list[str]:
    """Return the URLs of the files that match a URL pattern; HTTP URLs and URLs without * are returned unchanged."""
    kind = url.partition("://")[0]
    if kind.startswith("http") or "*" not in url:
        return [url]
    files = fsspec_for(url).filesystem(kind).glob(url)
    if not files:
        raise TableFileError(f"no such file: {url}")
    return [f"{kind}://{file}" for file in sorted(files)]


def plain_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return string views as plain strings, which all functions support; dictionaries stay unchanged."""
    return values.cast(pa.string()) if pa.types.is_string_view(values.type) else values


def style_of(column: Column) -> NumberFormat:
    """Return the number format of a column: its separators, symbol, unit and flags."""
    return NumberFormat(**{key: getattr(column, key) for key in NumberFormat.__dataclass_fields__})


def words_of(columns: Mapping[str, Column]) -> list[str]:
    """Return the names of lenient text columns, in which words such as NA and None are values, not missing."""
    return [name for name, column in columns.items() if column.type == TEXT and column.lenient]


def has_notation(column: Column) -> bool:
    """Return True if a column has a date format or a special number notation, so that its values are read as texts."""
    return bool(column.format) or style_of(column) != NumberFormat()


def _schema_type(arrow_type: pa.DataType) -> str:
    """Return the column type of the schema, such as "number", for an Arrow type."""
    if pa.types.is_dictionary(arrow_type):
        return _schema_type(arrow_type.value_type)
    tests = {NUMBER: _IS_NUMBER, TEXT: _IS_TEXT, BOOLEAN: (pa.types.is_boolean,), DATE: _IS_DATE}
    return next((name for name, kinds in tests.items() if _is_any(kinds, arrow_type)), OTHER)


def _is_any(tests: Sequence[Callable[[pa.DataType], bool]], arrow_type: pa.DataType) -> bool:
    """Return True if a type passes any of the tests, which are functions of `pyarrow.types`."""
    return any(test(arrow_type) for test in tests)
