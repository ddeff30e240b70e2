"""Schemas of tables in files, and the errors of reading them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fastens.modelfile.storage import replacing


class TableFileError(ValueError):
    """A file is no table, or not the one expected; the message says where, and what was expected.

    Examples
    --------
    >>> import fastens
    >>> try:
    ...     fastens.read_table("nowhere.csv")
    ... except fastens.TableFileError as error:
    ...     print("not read")
    not read
    """


def listed(values: Sequence[object], limit: int = 5) -> str:
    """The first values, quoted, and how many more there are."""
    shown = ", ".join(repr(value) for value in values[:limit])
    return shown if len(values) <= limit else f"{shown} and {len(values) - limit} more"


NUMBER, TEXT, BOOLEAN, DATE, OTHER = "number", "text", "boolean", "date", "other"
TYPES = (NUMBER, TEXT, BOOLEAN, DATE, OTHER)
# What a person may say of how a table is read.
READING_OPTIONS = ("separator", "encoding", "missing", "skip_lines", "header_rows", "skip_footer", "sheet")
DECIMALS, THOUSANDS = (".", ","), ("", ",", ".", " ", "'", "_")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    type : {"number", "text", "boolean", "date", "other"}
        What it holds. "date" stands for moments too; "other" is left as the reader of the file makes it.
    decimal, thousands, symbol, unit : str
        Of numbers: the separators, the currency or "%" that stands at them, and the unit that follows, such as "kg".
    scaled, bounded : bool
        Numbers may have magnitudes (14k, 1.2 M, 650万), or signs of bounds (>50, 10,000+), which are left out.
    format : str
        Of dates: the format of `strptime`; empty for ISO 8601. %b stands for a month's name in any language, %q for a
        quarter, %z at the end for a time zone.
    first_year : int
        The first of the hundred years that two-digit years are of; 0 where years have four digits.
    lenient : bool
        If True, values that do not fit are missing instead of an error. It is set for numbers and dates whose type a
        person gave.

    Examples
    --------
    >>> from fastens import Column
    >>> Column("number", decimal=",", symbol="€").decimal
    ','
    """

    type: str
    decimal: str = "."
    thousands: str = ""
    symbol: str = ""
    format: str = ""
    lenient: bool = False
    unit: str = ""
    scaled: bool = False
    bounded: bool = False
    first_year: int = 0

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise TableFileError(f"a column's type must be one of {', '.join(TYPES)}; got {self.type!r}")
        for name, signs in (("decimal", DECIMALS), ("thousands", THOUSANDS)):
            if getattr(self, name) not in signs:
                shown = ", ".join(map(repr, signs))
                raise TableFileError(f"a column's {name} must be one of {shown}; got {getattr(self, name)!r}")
        if self.decimal == self.thousands:
            raise TableFileError(f"a column's decimal and thousands must differ; both are {self.decimal!r}")
        for name in ("symbol", "format", "unit"):
            if not isinstance(getattr(self, name), str):
                raise TableFileError(f"a column's {name} must be a text; got {getattr(self, name)!r}")
        for name in ("lenient", "scaled", "bounded"):
            if not isinstance(getattr(self, name), bool):
                raise TableFileError(f"a column's {name} must be True or False; got {getattr(self, name)!r}")
        if type(self.first_year) is not int or not 0 <= self.first_year < 9900:
            raise TableFileError(f"a column's first_year must be a year, or 0; got {self.first_year!r}")

    @classmethod
    def given(cls, type_: str) -> Column:
        """A column that a person says to be of a type."""
        return cls(type_, lenient=type_ in (NUMBER, DATE))


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table by name, and what was given to read it.

    Attributes
    ----------
    columns : dict of str to Column
        In their order.
    separator, encoding, missing, sheet
        What stands between the values of a CSV file, its encoding, codes of missing values, and which table of a
        workbook or database.
    skip_lines, header_rows, skip_footer : int or None
        Lines above the header, lines of the header (0 for none) and lines below the rows; None to find them out.

    Examples
    --------
    >>> from fastens import Column, TableSchema
    >>> schema = TableSchema({"price": Column("number"), "region": Column("text")}, separator=";")
    >>> TableSchema.from_dict(schema.to_dict()) == schema
    True
    """

    columns: dict[str, Column] = field(default_factory=dict)
    separator: str | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()
    skip_lines: int | None = None
    header_rows: int | None = None
    skip_footer: int | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        rules = {
            "columns": (_are_columns(self.columns), "a dict of Column by name"),
            "separator": (_is_separator(self.separator), "None or one ASCII sign, no quote and no end of a line"),
            "encoding": (_is_encoding(self.encoding), "None or one that Python knows"),
            "missing": (_are_texts(self.missing), "a list of texts"),
            "sheet": (isinstance(self.sheet, str | None), "None or the name of one"),
        }
        for name in ("skip_lines", "header_rows", "skip_footer"):
            n = getattr(self, name)
            rules[name] = (n is None or (type(n) is int and n >= 0), "None or a whole number of at least 0")
        for name, (holds, rule) in rules.items():
            if not holds:
                raise TableFileError(f"a schema's {name} must be {rule}; got {getattr(self, name)!r}")

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain values; what is as usual is left out."""
        options = {
            name: list(value) if isinstance(value, tuple) else value
            for name in READING_OPTIONS
            if (value := getattr(self, name)) not in (None, ())
        }
        plain = Column(OTHER)
        columns = {
            name: {key: value for key, value in asdict(column).items() if key == "type" or value != getattr(plain, key)}
            for name, column in self.columns.items()
        }
        return {**options, "columns": columns}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableSchema:
        """The schema that `to_dict` gave, or a person wrote."""
        if not isinstance(values, Mapping):
            raise TableFileError(f"a schema must be a TableSchema or a dict; got {values!r}")
        known = {*READING_OPTIONS, "columns"}
        if unknown := sorted(set(values) - known):
            raise TableFileError(f"a schema has {', '.join(sorted(known))}; got {unknown[0]!r}")
        columns = {}
        described_columns = values.get("columns", {})
        if not isinstance(described_columns, Mapping):
            raise TableFileError(f"a schema's columns must be a dict by name; got {described_columns!r}")
        for name, described in described_columns.items():
            if not isinstance(described, str | Mapping):
                raise TableFileError(f"column {name!r} of a schema must be a type or a dict; got {described!r}")
            parts: dict[str, Any] = {"type": described} if isinstance(described, str) else dict(described)
            if unknown := sorted(set(parts) - set(Column.__dataclass_fields__)):
                raise TableFileError(f"column {name!r} of a schema has no {unknown[0]!r}; see fastens.TableSchema")
            columns[name] = Column(**{"type": OTHER, **parts})
        options = {name: values[name] for name in known - {"columns"} if name in values}
        if isinstance(options.get("missing"), list):
            options["missing"] = tuple(options["missing"])
        return cls(columns, **options)

    def save(self, path: str | Path) -> None:
        """Write the schema as TOML; after an error the old file is there as it was."""
        values = self.to_dict()
        columns = values.pop("columns")
        lines = [f"{name} = {_toml(value)}" for name, value in values.items()]
        for name, column in columns.items():
            lines += ["", f"[columns.{_toml(name)}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in column.items()]
        with replacing(path) as unfinished:
            Path(unfinished).write_text("\n".join(lines).lstrip() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> TableSchema:
        """Read a schema that `save` or a person wrote as TOML."""
        try:
            return cls.from_dict(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise TableFileError(f"cannot read the schema {path}: {error}") from error


def _toml(value: Any) -> str:
    """A value as TOML has it: as JSON does, but signs beyond 16 bits, of which JSON makes pairs, as they are."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _are_columns(columns: Any) -> bool:
    return isinstance(columns, Mapping) and all(
        isinstance(name, str) and isinstance(column, Column) for name, column in columns.items()
    )


def _are_texts(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)


def _is_separator(sign: Any) -> bool:
    return sign is None or (isinstance(sign, str) and len(sign) == 1 and sign.isascii() and sign not in '"\r\n\0')


def _is_encoding(name: Any) -> bool:
    try:
        return name is None or bool("a".encode(name))
    except (LookupError, TypeError, ValueError):
        return False
