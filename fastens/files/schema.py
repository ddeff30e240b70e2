"""What was found out about a table: the type of each column and how its values are written.

A schema is saved with a model, can be edited as a TOML file, and is applied to every later table of the kind.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fastens.files.errors import TableFileError
from fastens.storage import replacing

NUMBER, TEXT, BOOLEAN, DATE, OTHER = "number", "text", "boolean", "date", "other"
TYPES = (NUMBER, TEXT, BOOLEAN, DATE, OTHER)


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    type : {"number", "text", "boolean", "date", "other"}
        What it holds. "date" stands for moments too; "other" is left as the reader of the file makes it.
    decimal, thousands, symbol : str
        Of numbers: the separators, and the currency or "%" that stands at them.
    format : str
        Of dates: the format of `strptime`; empty for ISO 8601.

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

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise TableFileError(f"a column's type must be one of {', '.join(TYPES)}; got {self.type!r}")


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table by name, and what was given to read it.

    Attributes
    ----------
    columns : dict of str to Column
        In their order.
    separator, encoding, missing, skip_lines
        Of CSV files: as the parameters of `fastens.read_table`.

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
    skip_lines: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain values; what is as usual is left out."""
        options = {
            name: list(value) if isinstance(value, tuple) else value
            for name in ("separator", "encoding", "missing", "skip_lines")
            if (value := getattr(self, name))
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
        known = {"separator", "encoding", "missing", "skip_lines", "columns"}
        if unknown := sorted(set(values) - known):
            raise TableFileError(f"a schema has {', '.join(sorted(known))}; got {unknown[0]!r}")
        columns = {}
        for name, described in values.get("columns", {}).items():
            parts = {"type": described} if isinstance(described, str) else dict(described)
            if unknown := sorted(set(parts) - set(Column.__dataclass_fields__)):
                raise TableFileError(f"column {name!r} of a schema has no {unknown[0]!r}; see fastens.TableSchema")
            columns[name] = Column(**{"type": OTHER, **parts})
        options = {name: values[name] for name in known - {"columns", "missing"} if name in values}
        return cls(columns, missing=tuple(values.get("missing", ())), **options)

    def save(self, path: str | Path) -> None:
        """Write the schema as TOML; after an error the old file is there as it was."""
        values = self.to_dict()
        columns = values.pop("columns")
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        for name, column in columns.items():
            lines += ["", f"[columns.{json.dumps(name)}]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in column.items()]
        with replacing(path) as unfinished:
            Path(unfinished).write_text("\n".join(lines).lstrip() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> TableSchema:
        """Read a schema that `save` or a person wrote as TOML."""
        try:
            return cls.from_dict(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise TableFileError(f"cannot read the schema {path}: {error}") from error
