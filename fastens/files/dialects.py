"""CSV dialects: separators, quotes, encodings and column names."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.csv

from fastens.files.layout import FOOT_ROWS, count_footer_rows, find_header, is_plain_row
from fastens.files.schema import TableFileError, TableSchema, listed


def numbered(names: Sequence[str]) -> list[str]:
    """Return unique names, where repeated names get the first free number as a suffix.

    Examples
    --------
    >>> from fastens.files.dialects import numbered
    >>> numbered(["a", "b", "a", "a.1", "a"])
    ['a', 'b', 'a.1', 'a.1.1', 'a.2']
    """
    taken: dict[str, None] = {}
    last: dict[str, int] = {}
    for name in names:
        unique, n = name, last.get(name, 0)
        while unique in taken:
            n += 1
            unique = f"{name}.{n}"
        taken[unique], last[name] = None, n
    return list(taken)


SEPARATORS = ",;\t|"
HEAD_BYTES = 1 << 16
HEAD_ROWS = 50
# Missing-value codes: the list of Arrow and the codes of R, SQL, Python, spreadsheets and the UCI archive.
_MISSING = (
    *pa.csv.ConvertOptions().null_values,
    *("?", "<NA>", "None", "none", "Null", "NAN", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!"),
)
# In files with ", " between the values, each code has a leading space.
MISSING_CODES = [*_MISSING, *(" " + text for text in _MISSING if text), " "]
# Common missing-value codes, which are suggested to the user if they are the only texts among numbers.
USUAL_CODES = ("-", "--", ".", "..", "...", "missing", "unknown", "n.a.", "n.a", "nd", "nil", "x", "*")
# Encodings in the order of trial. Latin-1 decodes every byte, so equal values stay equal even if the true encoding
# differs.
ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")
_SEPARATOR_LINE = re.compile("\ufeff?sep=(.)", re.IGNORECASE)  # convention of spreadsheets
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")


@dataclass(frozen=True)
class Dialect:
    """Dialect of a CSV file: encoding, separator, unique column names, and the number of lines above the rows.

    Attributes
    ----------
    header : str
        Header line, which may be repeated in the file; empty if the file has no header or one of several lines.
    end : int or None
        Position in bytes of the end of the last row if the file has a footer, otherwise None.
    """

    encoding: str
    separator: str
    names: list[str]
    notes: list[str]
    n_header_lines: int
    prefers_comma: bool
    header: str = ""
    end: int | None = None


def unique_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return stripped names, made unique by suffixes, and a list with a note on the renamed columns, if any."""
    clean = [name.strip() or _default_name(position) for position, name in enumerate(names)]
    distinct = numbered(clean)
    repeated = [unique for unique, name in zip(distinct, clean, strict=True) if unique != name]
    note = f"Duplicate column names are renamed: {listed(repeated)}."
    return distinct, [note] if repeated else []


def _default_name(position: int) -> str:
    """Return the name of the column at index `position` if it has no name, such as "column 1" for the first."""
    return f"column {position + 1}"


def is_about_encoding(error: Exception) -> bool:
    """Return True if an error was caused by bytes that are invalid in an encoding."""
    words = ("UTF", "decode", "\N{REPLACEMENT CHARACTER}")  # replacement characters occur in messages that quote a line
    return isinstance(error, UnicodeDecodeError) or any(word in str(error) for word in words)


def infer_dialect(open_file: Callable[[], Any], schema: TableSchema, encoding: str) -> Dialect:
    """Return the dialect of a file, inferred from its head and its end.

    Raises TableFileError if the file is binary or empty, and UnicodeDecodeError if the head cannot be decoded with
    `encoding`.
    """
    with open_file() as stream:
        head = stream.read(HEAD_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif b"\0" in head and "16" not in encoding and "32" not in encoding:
        raise TableFileError("it holds binary data, not text")
    errors = "strict" if schema.encoding is None else "replace"
    is_whole = len(head) < HEAD_BYTES  # otherwise the head may end within a character
    text = codecs.getincrementaldecoder(encoding)(errors).decode(head, final=is_whole)
    lines = re.split("\r\n|\r|\n", text)[schema.skip_lines or 0 :]
    if not lines:
        raise TableFileError(
            f"skip_lines must be less than the number of lines at the start of the file; got {schema.skip_lines}"
        )
    separators = SEPARATORS if schema.separator is None else schema.separator
    n_before = 0
    if said := _SEPARATOR_LINE.fullmatch(lines[0]):
        separators, n_before = schema.separator or said[1], 1
    n_before += next((i for i, line in enumerate(lines[n_before:]) if not line.startswith("#")), 0)  # comments
    by_separator = {separator: _parse_rows(lines[n_before:], separator) for separator in separators}
    separator = max(by_separator, key=lambda key: _consistency(by_separator[key][0]))
    rows, ends = by_separator[separator]
    if n_before and rows and lines[n_before - 1].startswith("#"):
        last, _ = _parse_rows(lines[n_before - 1 : n_before], separator)
        if len(last[0]) == len(_nonblank_rows(rows)[0]) > 1:
            rows, ends = [*last, *rows], [0, *ends]  # the header is the last line that begins with "#"
    if not _nonblank_rows(rows):
        raise TableFileError("it is empty")
    missing = {"", *MISSING_CODES, *schema.missing, *USUAL_CODES}
    declared = schema.columns if schema.header_rows is None else ()
    top = find_header(rows, declared, missing, schema.header_rows, schema.skip_lines is None)
    body = [top.names, *_nonblank_rows(rows[top.first :])]
    names, notes = unique_names(_with_all_names(body))
    n_header_lines = ends[top.first - 1] if top.first else 0
    header = lines[n_before + ends[top.start] - 1] if top.first == top.start + 1 and ends[top.start] else ""
    if schema.header_rows == 0 or (
        schema.header_rows is None and not top.notes and _lacks_header(names, _nonblank_rows(rows), schema)
    ):
        names, n_header_lines, header = [_default_name(i) for i in range(len(names))], 0, ""
        notes = [f"The first line is read as data, not as a header; the columns are named {listed(names, 3)}."]
        notes = [] if schema.header_rows == 0 else notes
    n_header_lines += (schema.skip_lines or 0) + n_before
    dialect = Dialect(
        encoding,
        separator,
        names,
        [*top.notes, *notes],
        n_header_lines,
        _prefers_comma("\n".join(lines), separator),
        header,
    )
    last_text, n_bytes = (text, len(head)) if is_whole else _read_end(open_file, encoding)
    end = _LINE.findall(last_text)
    return _with_footer(dialect, schema, end[n_header_lines:] if is_whole else end[1:], n_bytes)


def _nonblank_rows(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows that have a cell that is not blank."""
    return [row for row in rows if any(cell.strip() for cell in row)]


def _with_footer(dialect: Dialect, schema: TableSchema, lines: list[str], n_bytes: int) -> Dialect:
    """Return the dialect with the byte position where the footer begins, found in the last lines of the file.

    The footer has `schema.skip_footer` lines, or the lines that look like a footer if that is None. `n_bytes` is the
    size of the file.
    """
    notes, n = dialect.notes, schema.skip_footer
    if n is None:
        n = _count_footer_lines(lines[-FOOT_ROWS:], dialect, {*MISSING_CODES, *schema.missing, *USUAL_CODES})
    cut = lines[len(lines) - n :]
    said = [line.strip()[:60] for line in cut if line.strip()]
    if said and schema.skip_footer is None:
        several = f"{len(said)} lines below the table are" if len(said) > 1 else "The line below the table is"
        option = "to keep them, use --skip-footer 0 or `skip_footer` of read_table"
        notes = [*notes, f"{several} skipped, {listed(said, 2)}; {option}."]
    encoding = re.sub("utf-(16|32)$", r"utf-\1-le", dialect.encoding.removesuffix("-sig"))
    return replace(dialect, notes=notes, end=n_bytes - len("".join(cut).encode(encoding, "replace")) if cut else None)


def _read_end(open_file: Callable[[], Any], encoding: str) -> tuple[str, int]:
    """Return the last 64 KiB of a file as text, with invalid bytes replaced, and the size of the file in bytes."""
    with open_file() as stream:
        try:
            size = stream.size()
            stream.seek(max(0, size - HEAD_BYTES))
            last = stream.read()
        except (AttributeError, OSError, pa.ArrowException):  # compressed streams do not support seeking
            size, last = 0, b""
            while block := stream.read(1 << 20):
                size, last = size + len(block), (last + block)[-HEAD_BYTES:]
    return last.decode(encoding, "replace"), size


def _count_footer_lines(lines: list[str], dialect: Dialect, missing: set[str]) -> int:
    """Return the number of footer lines at the end of `lines`, the last lines of the file.

    A line with an unclosed quote belongs to a row. `missing` holds missing-value codes.
    """
    width = len(dialect.names)
    rows: list[list[str]] = []
    for line in reversed(lines):
        if line.count('"') % 2:
            break
        rows.insert(0, next(csv.reader([line], delimiter=dialect.separator), []))
        if len(rows) == 1 and is_plain_row(rows[0], width):
            return 0
    return count_footer_rows(rows, width, missing)


def _parse_rows(lines: list[str], separator: str) -> tuple[list[list[str]], list[int]]:
    """Return the cells of the first rows, including empty rows, and for each row the number of lines up to its end."""
    rows: list[list[str]] = []
    ends: list[int] = []
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=separator)
    try:
        for row in reader:
            rows.append(row)
            ends.append(reader.line_num)
            if len(rows) == HEAD_ROWS:
                break
    except csv.Error:
        pass  # a quote that is not closed within the head
    return rows, ends


def _consistency(rows: list[list[str]]) -> tuple[int, int]:
    """Return the number of rows with the most frequent width above 1, and this width, to compare separators."""
    counts = Counter(len(row) for row in rows if len(row) > 1)
    width = max(counts, key=lambda width: (counts[width], width), default=0)
    return counts[width], width


def _with_all_names(rows: list[list[str]]) -> list[str]:
    """Return the first row as column names, with an empty name added if all other rows have one more cell.

    The name is added at the end if the last cells are empty, or at the beginning if the first cells are row names.
    """
    names = rows[0]
    if len(rows) > 1 and all(len(row) == len(names) + 1 for row in rows[1:]):
        # Every line ends with a separator, or the first column holds row names without a header, as R writes them.
        if not any(row[-1] for row in rows[1:]):
            return [*names, ""]
        if len({row[0] for row in rows[1:]}) == len(rows) - 1 > 1:
            return ["", *names]
    return names


def _lacks_header(names: list[str], rows: list[list[str]], schema: TableSchema) -> bool:
    """Return True if the file has no header: its first row, `names`, looks like the other rows.

    The first row must have a number in every numeric column. Because names may be integers (2024, 2025), it must also
    have a non-integer number, or a text that occurs again in its column. If no column is numeric, all of its texts must
    occur again. Missing-value codes in the first row are ignored.
    """
    first, *others = [row for row in rows if len(row) == len(names)] or [[]]
    if first != rows[0]:
        return False
    if schema.columns:
        default_names = [_default_name(i) for i in range(len(names))]
        return not set(names) <= set(schema.columns) and list(schema.columns)[: len(names)] == default_names
    missing = {*MISSING_CODES, *schema.missing}
    if any(row == first for row in others):  # this may be a repeated header above numbers
        values_below = zip(*(row for row in others if row != first), strict=True)
        cells = [[value for value in values if value not in missing] for values in values_below]
        if any(
            values and all(map(_NUMBER.fullmatch, values)) and not _NUMBER.fullmatch(name)
            for name, values in zip(first, cells, strict=False)
        ):
            return False
    numbers, is_there_again = [], []
    for value, *below in zip(first, *others, strict=True):
        present = [other for other in below if other not in missing]
        if value in missing:
            continue
        if present and all(map(_NUMBER.fullmatch, present)):
            numbers.append(value)
        else:
            is_there_again.append(value in present)
    if not numbers:
        return any(is_there_again) and all(is_there_again)
    return all(map(_NUMBER.fullmatch, numbers)) and (any(is_there_again) or not all(map(_WHOLE.fullmatch, numbers)))


def _prefers_comma(text: str, separator: str) -> bool:
    """Return True if the text of a file holds a number with a decimal comma between separators.

    "1,234" counts only between semicolons, and only if no number has a decimal point.
    """
    if separator == ",":
        return False
    edge = re.escape(separator)

    def has(sign: str, number: str = r"(?![1-9]\d{0,2}@\d{3}\D)\d+@\d+") -> bool:
        pattern = rf'(^|{edge})"?-?{number.replace("@", re.escape(sign))}"?($|{edge})'
        return re.search(pattern, text + "\n", re.MULTILINE) is not None

    return has(",") or (separator == ";" and has(",", r"\d+@\d+") and not has("."))
