"""Detection of the first and last row of a table: titles, multi-line headers, units, totals and sources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fastens.files.schema import listed

Row = Sequence[str]
FOOT_ROWS = 50
# A cell that is a number, optionally with a currency, a percent sign or parentheses.
_NUMBER = re.compile(r"\s*[-+(]?\s*[$€£¥]?\s*(\d[\d.,' \u00a0]*|[.,]\d+)([eE][+-]?\d+)?\s*[%€)]*\s*")
_UNIT = re.compile(
    r"[(\[].*[)\]]|%|°?[CFK]|[nµumckMG]?(g|m|s|l|L|t|W|V|A|Hz|Pa|J)|[kMG]?Wh|kmh|(k?m|mi)/h|m/s|mm|cm|m[²³23]|h|min|d|ha|bar|"
    r"hPa|ppm|ppb|dB|USD|EUR|GBP|CNY|INR|usd|eur|[$€£¥]|years?|days?|hours?|mg/.*|µg/.*|ug/.*|.{1,6}/.{1,6}|km|lbs?|ft|in"
)
# Cells in the second header line of survey exports.
_ANSWERS = {"Response", "Open-Ended Response", "Antwort", "Réponse", "Respuesta", "Open-Ended-Response"}
_IMPORT_ID = '{"ImportId"'
_FOOT = re.compile(
    r"\s*[\"'(\[]*(sources?|data sources?|data from|notes?|quellen?|datenquelle|anmerkung(en)?|hinweis(e)?|stand|"
    r"fuentes?|notas?|fonte|remarques?|last updated|(last )?update|updated|created|generated|exported|"
    r"printed|copyright|end of|query|file created|download(ed)?|footnotes?|legend|abbreviations|disclaimer|"
    r"record count|number of rows|数据来源|来源|资料来源|注|备注|出典)\b.*|\s*(©|\*+ ?\w|\d\) |\(\w\) |--+|==+).*",
    re.IGNORECASE | re.DOTALL,
)
_TOTAL = re.compile(
    r"\s*((grand|overall)[ -]|sub[ -]?)?totals?( (general|général|row|overall))?\s*:?\s*|sums?|gesamt(summe)?|"
    r"insgesamt|summe|zusammen|somme|suma|averages?|mean|durchschnitt|mittelwert|moyenne|promedio|media|ensemble|合计|总计|总和|小计|平均(值)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Head:
    """Header of a table: column names, the row where the header starts, the first row of values, and notes."""

    names: list[str]
    start: int
    first: int
    notes: list[str] = field(default_factory=list)


def is_number(cell: str) -> bool:
    """Return True if a cell is a number in any notation."""
    return _NUMBER.fullmatch(cell) is not None


def find_header(
    rows: Sequence[Row], expected: Collection[str], missing: Collection[str], header_rows: int | None, has_titles: bool
) -> Head:
    """Return the header that is found among the first rows, some of which may be empty.

    `expected` holds the names of an earlier table of the same kind, which identify the header. `missing` holds
    missing-value codes. `header_rows` is the number of header lines if the user passed it. If `has_titles` is True,
    there may be lines above the header.
    """
    filled = [i for i, row in enumerate(rows) if any(cell.strip() for cell in row)]
    start = _header_start(rows, filled, expected, missing) if has_titles else filled[0]
    at = filled.index(start)
    notes = []
    if at:
        left_out = " ".join(cell for cell in rows[filled[0]] if cell.strip())[:60]
        lines = f"The line above the header is skipped, {left_out!r}"
        if at > 1:
            lines = f"{at} lines above the header are skipped, starting with {left_out!r}"
        notes.append(f"{lines}; to keep them, use --skip-lines 0 or `skip_lines` of read_table.")
    body = [rows[i] for i in filled[at:]]
    n_lines = _count_header_lines(body, missing) if header_rows is None else max(header_rows, 1)
    header = body[:n_lines]
    names = [name.strip() for name in header[0]]
    if n_lines > 1 and header_rows is None:
        shown = listed([cell.strip() for cell in header[1] if cell.strip()], 3)
        notes.append(
            f"The header has {n_lines} lines, and the second is {shown}; to read it as data, use --header-rows "
            "1 or `header_rows` of read_table."
        )
    if n_lines > 1 and (header_rows is not None or _has_spanning_cells(header)):
        names = _join_header_lines(header)
    last = filled[min(at + n_lines, len(filled)) - 1]
    return Head(names, start, last + 1, notes)


def _header_start(rows: Sequence[Row], filled: list[int], expected: Collection[str], missing: Collection[str]) -> int:
    """Return the index of the first header row: the first with expected names, or the first that is not a title.

    `filled` holds the indices of the rows that are not empty.
    """
    for i in filled if expected else ():
        if len({cell.strip() for cell in rows[i]} & set(expected)) >= max(1, len(expected) / 2):
            return i
    width = usual_width([rows[i] for i in filled])
    if width < 2:
        return filled[0]
    scattered = _count_scattered_above(rows, filled, width, missing)
    if scattered:
        return filled[scattered]
    above = 0
    while above < len(filled) - 2 and _may_be_title(rows[filled[above]], width, filled[above + 1] > filled[above] + 1):
        above += 1
    if not above:
        return filled[0]
    header = filled[above]
    titles = [rows[i] for i in filled[:above]]
    is_ragged = all(len(row) < width - 1 for row in titles)
    has_gap = header - filled[above - 1] > 1
    below = [rows[i] for i in filled[above + 1 :]]
    is_header = _is_above_numbers(rows[header], below, missing)
    # A title line with text above empty cells of the header is the first line of a two-line header, unless it has a
    # single cell and follows other titles.
    is_covered = (above == 1 or sum(map(bool, map(str.strip, titles[-1]))) > 1) and any(
        cell.strip() and not lower.strip() for cell, lower in zip(titles[-1], rows[header], strict=False)
    )
    return header if (is_ragged or has_gap or is_header) and not is_covered else filled[0]


def _count_scattered_above(rows: Sequence[Row], filled_rows: list[int], width: int, missing: Collection[str]) -> int:
    """Return the number of lines of scattered texts above the header, or 0 unless the header is unmistakable.

    At least two lines with gaps and without numbers must precede it. The header must be the first line without gaps,
    with distinct names, and above numeric columns. `filled_rows` holds the indices of the rows that are not empty,
    `width` is the number of columns, and `missing` holds missing-value codes.
    """
    for above, index in enumerate(filled_rows[:FOOT_ROWS]):
        cells = [cell.strip() for cell in rows[index]]
        if len(cells) != width or any(map(is_number, cells)):
            return 0
        if all(cells):
            is_header = len(set(cells)) == width and not set(cells) & set(missing)
            below = [rows[i] for i in filled_rows[above + 1 : above + 5]]
            is_header = is_header and len(below) > 1 and bool(_columns_of_numbers(below, width, missing))
            return above if above > 1 and is_header else 0
    return 0


def usual_width(rows: Sequence[Row]) -> int:
    """Return the most frequent number of cells in a row; ties go to the larger number."""
    counts = Counter(map(len, rows))
    return max(counts, key=lambda width: (counts[width], width), default=0)


def _may_be_title(row: Row, width: int, is_apart: bool) -> bool:
    """Return True if a row may be a title: only its first cells are filled, less than half of `width`.

    If an empty line follows (`is_apart`) or the row is shorter, all cells except one may be filled.
    """
    has = [bool(cell.strip()) for cell in row]
    n = sum(has)
    is_ragged = width > 2 and len(row) < width - 1
    limit = max(1, width - 1 if is_apart or is_ragged else (width - 1) // 2)
    return all(has[:n]) and n <= limit and not is_number(row[0]) and len(row) <= width


def _columns_of_numbers(below: Sequence[Row], width: int, missing: Collection[str]) -> list[int]:
    """Return the indices of the columns whose cells in the rows `below` a header are all numbers, except if missing."""
    columns = []
    for column in range(width):
        cells = [row[column] for row in below if len(row) == width and row[column].strip() not in missing]
        if cells and all(map(is_number, cells)):
            columns.append(column)
    return columns


def _is_above_numbers(row: Row, below: Sequence[Row], missing: Collection[str]) -> bool:
    """Return True if a cell of a row is a text above a column of numbers in the rows `below`, except if missing."""
    below = below[1:] if len(below) > 3 else below  # the first row below the header may hold units
    columns = _columns_of_numbers(below, len(row), missing)
    return any(row[column].strip() and not is_number(row[column]) for column in columns)


def _count_header_lines(rows: Sequence[Row], missing: Collection[str]) -> int:
    """Return the number of header lines, 1 to 3, at the start of the rows; `missing` holds missing-value codes."""
    for n in (1, 2):
        if len(rows) > n + 1 and any(cell.startswith(_IMPORT_ID) for cell in rows[n]):
            return n + 1
    n = 1
    while n < 3 and len(rows) > n + 1 and _continues_header(rows, n, missing):
        n += 1
    return n


def _continues_header(rows: Sequence[Row], n: int, missing: Collection[str]) -> bool:
    """Return True if rows[n], after `n` header lines, also belongs to the header; `missing` are missing-value codes."""
    row, width = rows[n], len(rows[0])
    cells = [cell.strip() for cell in row]
    if len(row) != width or width < 2:
        return False
    if n == 1 and _ANSWERS & set(cells):
        return True
    if any(map(is_number, filter(None, cells))):
        return False
    columns = _columns_of_numbers(rows[n + 1 :], width, missing)
    if n == 1 and columns and _has_spanning_cells(rows[:2]):
        return True
    said = [cells[column] for column in columns if cells[column] and cells[column] not in missing]
    if len(said) == 1:
        others = [cell for column, cell in enumerate(cells) if column not in columns and cell]
        return _UNIT.fullmatch(said[0]) is not None and (not others or len(columns) == width)
    names = {cell.strip() for cell in rows[0]}
    return len(said) > 1 and len(said) * 2 >= len(columns) and not set(said) <= names and len(rows) > n + 2


def _has_spanning_cells(header: Sequence[Row]) -> bool:
    """Return True if cells of the first header line may span several cells of the second line.

    The second line must be filled below all empty cells that follow a cell of the first line.
    """
    first, second = header[0], header[1]
    empty = [column for column, cell in enumerate(first) if not cell.strip()]
    inner = [column for column in empty if column > 0 and any(cell.strip() for cell in first[:column])]
    return bool(inner) and all(second[column].strip() for column in inner)


def _join_header_lines(header: Sequence[Row]) -> list[str]:
    """Return the name of each column: its cells in all header lines, after the cell of the first line that spans it."""
    names, over = [], ""
    for column, cell in enumerate(header[0]):
        over = cell.strip() or over
        parts = [row[column].strip() for row in header[1:] if column < len(row)]
        names.append(" ".join(dict.fromkeys(part for part in (over, *parts) if part and part not in _ANSWERS)))
    return names


def is_plain_row(row: Row, width: int) -> bool:
    """Return True if a row of a table with `width` columns cannot belong to the footer, whatever is above it."""
    n_filled = sum(bool(cell.strip()) for cell in row)
    is_foot = bool(row) and (_FOOT.fullmatch(row[0]) or any(_TOTAL.fullmatch(cell.strip()) for cell in row[:2]))
    return len(row) == width and n_filled > max(1, width // 2) and not is_foot


def count_footer_rows(rows: Sequence[Row], width: int, missing: Collection[str] = ()) -> int:
    """Return the number of footer rows at the end of a table: sources, notes, totals and empty rows.

    `missing` holds missing-value codes.
    """
    n = first = _count_scattered_below(rows, width, missing)
    for k in range(first + 1, len(rows) + 1):
        row = rows[-k]
        cells = [cell.strip() for cell in row]
        n_filled = sum(map(bool, cells))
        above = rows[: len(rows) - k]
        if not n_filled and width < 2:
            break
        if n_filled and not (_is_note(cells, n_filled, width, above) or _is_total(cells, above)):
            break
        n = k
    cut = rows[len(rows) - n :]
    if not any(cell.strip() for row in cut for cell in row):
        n = next((k for k, row in enumerate(reversed(cut)) if len(row) == width), n)  # keep rows of missing values
    return n if n < len(rows) else 0


def _count_scattered_below(rows: Sequence[Row], width: int, missing: Collection[str]) -> int:
    """Return the number of rows of scattered texts at the end of a table of `width` columns, or 0 if they may be data.

    Such rows have gaps, no numbers, and texts, except for the codes in `missing`, in numeric columns.
    """
    n = 0
    for row in reversed(rows):
        cells = [cell.strip() for cell in row]
        if len(row) != width or sum(map(bool, cells)) > width // 2 or any(map(is_number, filter(None, cells))):
            break
        n += 1
    above = [row for row in rows[: len(rows) - n] if all(cell.strip() for cell in row)]
    columns = _columns_of_numbers(above[-5:], width, ())
    texts = {row[column].strip() for row in rows[len(rows) - n :] for column in columns} - {"", *missing}
    return n if n > 1 and len(above) > 1 and texts else 0


def _is_note(cells: Row, n_filled: int, width: int, above: Sequence[Row]) -> bool:
    """Return True if a row at the end of a table is a source or a note.

    `cells` are its stripped cells, `n_filled` of which are not empty, and `above` are the rows above it.
    """
    is_foot = _FOOT.fullmatch(cells[0]) is not None
    if is_foot and ":" in cells[0] and n_filled < max(width, 2):
        return True  # even if commas split the text into several cells
    if not cells[0] or is_number(cells[0]) or (n_filled > 1 and len(cells) == width):
        return False
    if is_foot:
        return True
    n_words = len(cells[0].split())
    is_apart = bool(above) and not any(cell.strip() for cell in above[-1])
    return n_words > 1 and (
        is_apart or (len(cells) == 1 and width > 1) or (n_filled == 1 and n_words > 3 and width > 2)
    )


def _is_total(cells: Row, above: Sequence[Row]) -> bool:
    """Return True if the first text of a row is a word for a total, in column 0 or 1, that is not in the rows above."""
    column = next(column for column, cell in enumerate(cells) if cell)
    if column > 1 or not _TOTAL.fullmatch(cells[column]):
        return False
    others = [row[column].strip() for row in above if len(row) > column]
    return cells[column] not in others and len(others) > 1
