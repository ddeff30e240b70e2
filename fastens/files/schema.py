"""Schemas of table files, and the error raised for unreadable files."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fastens.modelfile.storage import replacing


class TableFileError(ValueError):
    """Error for a file that cannot be read as a table or does not match its schema.

    The message names the place in the file and what was expected there.

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
    """Return text that quotes the first `limit` values, separated by commas, and counts the further values."""
    shown = ", ".join(repr(value) for value in values[:limit])
    return shown if len(values) <= limit else f"{shown} and {len(values) - limit} more"


NUMBER, TEXT, BOOLEAN, DATE, OTHER = "number", "text", "boolean", "date", "other"
TYPES = (NUMBER, TEXT, BOOLEAN, DATE, OTHER)
# Options of reading a table that the user may set.
READING_OPTIONS = ("separator", "encoding", "missing", "skip_lines", "header_rows", "skip_footer", "sheet")
DECIMALS, THOUSANDS = (".", ","), ("", ",", ".", " ", "'", "_")


def _check_rules(what: str, record: Any, rules: Mapping[str, tuple[bool, str]]) -> None:
    """Raise TableFileError for the first field of a record whose rule does not hold; `what` names the record.

    `rules` maps each field to a pair: True if its rule holds, and the text of the rule.
    """
    for name, (holds, rule) in rules.items():
        if not holds:
            raise TableFileError(f"{what}'s {name} must be {rule}; got {getattr(record, name)!r}")


@dataclass(frozen=True)
class Column:
    """Type and notation of a table column.

    Attributes
    ----------
    type : {"number", "text", "boolean", "date", "other"}
        Type of the values. "date" includes timestamps. "other" columns are left as the file reader returns them.
    decimal, thousands, symbol, unit : str
        Notation of numbers: the decimal and thousands separators, the currency symbol or "%" next to the number, and
        the unit after it, such as "kg".
    scaled, bounded : bool
        If `scaled` is True, numbers may have magnitude suffixes (14k, 1.2 M, 650万). If `bounded` is True, numbers may
        have bound signs (>50, 10,000+), which are ignored.
    format : str
        Format of dates, as in `strptime`; empty for ISO 8601. %b matches the name of a month in any language, %q a
        quarter, and %z at the end a time zone.
    analyzer : str
        Terms of free text, as in `Texts`: "word", or a separator such as ";" for lists of items such as "tea;milk".
        Empty for categories and other columns.
    first_year : int
        First of the hundred years that two-digit years belong to; 0 if years have four digits.
    lenient : bool
        If True, values that do not match become missing instead of raising an error, and words such as NA and None are
        values of a text column. It is set for columns whose type the user passed.

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
    analyzer: str = ""

    def __post_init__(self) -> None:
        rules = {
            "type": (self.type in TYPES, f"one of {', '.join(TYPES)}"),
            "decimal": (self.decimal in DECIMALS, f"one of {', '.join(map(repr, DECIMALS))}"),
            "thousands": (self.thousands in THOUSANDS, f"one of {', '.join(map(repr, THOUSANDS))}"),
        }
        for name in ("symbol", "format", "unit", "analyzer"):
            rules[name] = isinstance(getattr(self, name), str), "a string"
        for name in ("lenient", "scaled", "bounded"):
            rules[name] = isinstance(getattr(self, name), bool), "True or False"
        is_year = type(self.first_year) is int and 0 <= self.first_year < 9900
        _check_rules("a column", self, rules | {"first_year": (is_year, "a year, or 0")})
        if self.decimal == self.thousands:
            raise TableFileError(f"a column's decimal and thousands must differ; both are {self.decimal!r}")

    @classmethod
    def given(cls, type_: str) -> Column:
        """Return a column of a type that the user passed; it is lenient if the type is number, date or text."""
        return cls(type_, lenient=type_ in (NUMBER, DATE, TEXT))


@dataclass(frozen=True)
class TableSchema:
    """Columns of a table file by name, and the options for reading it.

    Attributes
    ----------
    columns : dict of str to Column
        Columns by name, in the order of the table.
    separator : str or None
        Separator of the values in a CSV file. If None, it is inferred.
    encoding : str or None
        Text encoding. If None, it is inferred.
    missing : tuple of str
        Missing-value codes.
    sheet : str or None
        Sheet of a workbook or table of a database. If None, the file must hold only one.
    skip_lines, header_rows, skip_footer : int or None
        Numbers of lines above the header, of the header (0 for a file without a header) and below the rows. If None,
        they are inferred.

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
            "columns": (_are_columns(self.columns), "a dict that maps names to Column"),
            "separator": (
                _is_separator(self.separator),
                "None or one ASCII character other than a quote or a line break",
            ),
            "encoding": (_is_encoding(self.encoding), "None or an encoding that Python supports"),
            "missing": (_are_texts(self.missing), "a list of strings"),
            "sheet": (isinstance(self.sheet, str | None), "None or the name of a sheet"),
        }
        for name in ("skip_lines", "header_rows", "skip_footer"):
            n = getattr(self, name)
            rules[name] = (n is None or (type(n) is int and n >= 0), "None or a whole number of at least 0")
        _check_rules("a schema", self, rules)

    @property
    def text_features(self) -> dict[str, str]:
        """Columns of free text and of lists of items with their analyzers, for the parameter of the same name."""
        return {name: column.analyzer for name, column in self.columns.items() if column.analyzer}

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as a dict of plain values, without the options that have their default values."""
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
        """Return the schema of a dict from `to_dict`, or written by hand; raise TableFileError if it is invalid."""
        if not isinstance(values, Mapping):
            raise TableFileError(f"a schema must be a TableSchema or a dict; got {values!r}")
        allowed = {*READING_OPTIONS, "columns"}
        if unknown := sorted(set(values) - allowed):
            raise TableFileError(f"a schema must have only {', '.join(sorted(allowed))}; got {unknown[0]!r}")
        columns = {}
        described_columns = values.get("columns", {})
        if not isinstance(described_columns, Mapping):
            raise TableFileError(
                f"a schema's columns must be a dict that maps names to columns; got {described_columns!r}"
            )
        for name, described in described_columns.items():
            if not isinstance(described, str | Mapping):
                raise TableFileError(f"column {name!r} of a schema must be a type or a dict; got {described!r}")
            parts: dict[str, Any] = {"type": described} if isinstance(described, str) else dict(described)
            if unknown := sorted(set(parts) - set(Column.__dataclass_fields__)):
                raise TableFileError(f"column {name!r} of a schema has no {unknown[0]!r}; see fastens.TableSchema")
            columns[name] = Column(**{"type": OTHER, **parts})
        options = {name: values[name] for name in allowed - {"columns"} if name in values}
        if isinstance(options.get("missing"), list):
            options["missing"] = tuple(options["missing"])
        return cls(columns, **options)

    def save(self, path: str | Path) -> None:
        """Write the schema as TOML; if an error occurs, an existing file stays unchanged."""
        values = self.to_dict()
        columns = values.pop("columns")
        lines = [f"{name} = {_format_toml(value)}" for name, value in values.items()]
        for name, column in columns.items():
            lines += ["", f"[columns.{_format_toml(name)}]"]
            lines += [f"{key} = {_format_toml(value)}" for key, value in column.items()]
        with replacing(path) as unfinished:
            Path(unfinished).write_text("\n".join(lines).lstrip() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> TableSchema:
        """Read a schema from a TOML file, written by `save` or by hand; raise TableFileError if it is invalid."""
        try:
            return cls.from_dict(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise TableFileError(f"cannot read the schema {path}: {error}") from error


def _format_toml(value: Any) -> str:
    """Return a value as TOML: JSON in which characters beyond 16 bits are not split into surrogates."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _are_columns(columns: Any) -> bool:
    """Return True if an object is a mapping from strings to Column objects."""
    return isinstance(columns, Mapping) and all(
        isinstance(name, str) and isinstance(column, Column) for name, column in columns.items()
    )


def _are_texts(values: Any) -> bool:
    """Return True if an object is a list or tuple of strings."""
    return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)


def _is_separator(sign: Any) -> bool:
    """Return True if an object is None or one ASCII character that can separate the values of a line."""
    return sign is None or (isinstance(sign, str) and len(sign) == 1 and sign.isascii() and sign not in '"\r\n\0')


def _is_encoding(name: Any) -> bool:
    """Return True if an object is None or the name of an encoding that Python supports."""
    try:
        return name is None or bool("a".encode(name))
    except (LookupError, TypeError, ValueError):
        return False
