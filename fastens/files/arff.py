"""ARFF files, as Weka writes them."""

from __future__ import annotations

import csv
import re
from typing import Any

from fastens.files.errors import TableFileError

_ATTRIBUTE = re.compile(r"@attribute\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S+)\s+(.*)", re.IGNORECASE)
_NUMERIC = ("numeric", "real", "integer")


def rows_of_arff(content: bytes) -> tuple[list[list[Any]], list[str]]:
    """The rows, the first of which has the names; and the columns that hold texts."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    lines = iter(line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("%"))
    names: list[str] = []
    texts: list[str] = []
    for line in lines:
        if line.strip().lower() == "@data":
            break
        if (found := _ATTRIBUTE.match(line.strip())) is not None:
            names.append(_unquoted(found[1]))
            if not found[2].lower().startswith((*_NUMERIC, "date")):
                texts.append(names[-1])
    if not names:
        raise TableFileError("it has no @attribute")
    data = list(lines)
    if data and data[0].lstrip().startswith("{"):
        return [names, *(_sparse(line, names, texts) for line in data)], texts
    quote = "'" if any("'" in line for line in data) else '"'
    rows = csv.reader(data, quotechar=quote, escapechar="\\", skipinitialspace=True)
    return [names, *([cell.strip() for cell in row] for row in rows)], texts


def _unquoted(text: str) -> str:
    return text[1:-1].replace("\\", "") if text[:1] in ("'", '"') else text


def _sparse(line: str, names: list[str], texts: list[str]) -> list[Any]:
    """A row of which only the values that are not zero are written."""
    row: list[Any] = ["" if name in texts else 0 for name in names]
    for pair in next(csv.reader([line.strip().strip("{}")], quotechar="'", skipinitialspace=True)):
        place, _, value = pair.strip().partition(" ")
        row[int(place)] = value.strip()
    return row
