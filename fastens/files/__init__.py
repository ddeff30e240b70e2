"""Tables in files: what format, how written, and what type each column is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastens.files.schema import Column, TableFileError, TableSchema, listed
from fastens.warn import warn

__all__ = ["Column", "TableFileError", "TableSchema", "read_table"]


def read_table(  # noqa: PLR0913
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    schema: TableSchema | Mapping[str, Any] | None = None,
    column_types: Mapping[str, str] | None = None,
    sheet: str | None = None,
    skip_lines: int | None = None,
    header_rows: int | None = None,
    skip_footer: int | None = None,
    return_schema: bool = False,
) -> Any:
    r"""Read a table from files, and find out what its columns hold and how they are written.

    CSV, Parquet, Arrow, JSON, SQLite, ARFF, and with the extra ``fastens[files]`` Excel and OpenDocument workbooks and
    files of SPSS, Stata and SAS; compressed with gzip, bzip2, zstd, lz4, xz or zip, from standard input, or from an
    address that fsspec opens. Texts that are numbers or dates in a common writing (``1.234,50 €``, ``45%``, ``12 kg``,
    ``1.2 M``, ``31.12.2020``) become such, column by column, with a warning that says how; one odd value leaves a
    column as text, and a warning says in which row it is. Titles above the header, headers of several lines, and
    totals and sources below the rows are left out with a warning.

    Parameters
    ----------
    path : str, path, or sequence of them
        The file; "-" for standard input; a pattern such as ``"data/*.csv"``; or several files of the same columns.
    schema : TableSchema or dict, optional
        What is known: that of an earlier table of the kind, or ``{"separator": ";", "missing": ["-"]}``.
    column_types : dict of str to {"number", "text", "boolean", "date"}, optional
        Types of columns that are not to be guessed. Values that do not fit a number or date column become missing.
    sheet : str, optional
        Which table of a database, or sheet of a workbook; needed where there are several.
    skip_lines : int, optional
        Lines above the header, of CSV files and sheets. If None, titles above the header are recognised.
    header_rows : int, optional
        Lines of the header, whose cells are joined; 0 if there is none. If None, they are recognised, and lines of
        units or of the texts of questions are left out.
    skip_footer : int, optional
        Lines below the rows. If None, totals, sources and notes are recognised.
    return_schema : bool, default=False
        Whether to return the schema too.

    Returns
    -------
    pyarrow.Table, or (pyarrow.Table, TableSchema)

    Raises
    ------
    TableFileError
        If a file is no table; if a value does not fit the schema: the message has the row, the value and the rule.
    ImportError
        Without pyarrow, which the extra ``fastens[cli]`` brings.

    Examples
    --------
    >>> import os, tempfile, fastens
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "sales.csv")
    ...     with open(path, "w", encoding="utf-8") as file:
    ...         _ = file.write("price;n\n1.234,50;3\n9,90;4\n")
    ...     schema = {"columns": {"price": {"type": "number", "decimal": ",", "thousands": "."}}}
    ...     table = fastens.read_table(path, schema=schema)
    >>> table["price"].to_pylist()
    [1234.5, 9.9]
    """
    try:
        from fastens.files.read import read
    except ModuleNotFoundError as error:
        raise ImportError("fastens.read_table needs pyarrow: pip install 'fastens[cli]'") from error
    if column_types is not None and not isinstance(column_types, Mapping):
        raise TypeError(f"column_types must be a dict of types by column; got {column_types!r}.")
    known = schema if isinstance(schema, TableSchema) else TableSchema.from_dict(schema or {})
    lines: dict[str, Any] = {"skip_lines": skip_lines, "header_rows": header_rows, "skip_footer": skip_footer}
    known = replace(known, **{name: value for name, value in lines.items() if value is not None})
    found = read(path, known, column_types or {}, sheet)
    names = found.table.column_names
    if lacking := [name for name in column_types or {} if name not in names]:
        raise TableFileError(f"column_types must name columns of {path}; got {lacking[0]!r}, it has {listed(names)}")
    for note in found.notes:
        warn(note)
    return (found.table, found.schema) if return_schema else found.table
