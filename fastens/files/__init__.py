"""Reading of table files, with detection of the format, the notation of values and the type of each column."""

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
    r"""Read a table from files and infer the type of each column.

    Supported formats are CSV, Parquet, Arrow, JSON, SQLite and ARFF. The extra ``fastens[files]`` adds Excel and
    OpenDocument workbooks and files of SPSS, Stata and SAS. Files may be compressed with gzip, bzip2, zstd, lz4, xz or
    zip, and may be read from standard input or from any URL that fsspec opens.

    Text columns that hold numbers or dates in a common notation (``1.234,50 €``, ``45%``, ``12 kg``, ``1.2 M``,
    ``31.12.2020``) are converted, with a warning that describes the detected notation. A single value that does not
    match leaves the column as text, and the warning names the value and its row. Columns of free text and of lists of
    items such as ``tea;milk`` are detected from the first thousand rows and stay text. A warning and the schema contain
    the `text_features` that let trees learn from their words and items. Titles above the header, headers with
    several lines, and totals and sources below the rows are recognised and removed with a warning.

    Parameters
    ----------
    path : str, path, or sequence of them
        The file, "-" for standard input, a pattern such as ``"data/*.csv"``, or several files with the same columns.
    schema : TableSchema or dict, optional
        Known properties of the file: the schema of an earlier table of the same kind, or a dict such as
        ``{"separator": ";", "missing": ["-"]}``. If None, everything is inferred.
    column_types : dict of str to {"number", "text", "boolean", "date"}, optional
        Column types that are not inferred. Values that cannot be converted to a number or date become missing. If
        None, all types are inferred.
    sheet : str, optional
        Table of a database or sheet of a workbook; required if there are several.
    skip_lines : int, optional
        Number of lines above the header, for CSV files and sheets. If None, titles above the header are recognised.
    header_rows : int, optional
        Number of header lines, whose cells are joined; 0 for a file without a header. If None, the header is
        recognised, and lines with units or question texts are dropped.
    skip_footer : int, optional
        Number of lines below the rows. If None, totals, sources and notes are recognised.
    return_schema : bool, default=False
        If True, the schema is returned too.

    Returns
    -------
    pyarrow.Table, or (pyarrow.Table, TableSchema)
        The table, and its schema if `return_schema` is True.

    Raises
    ------
    TableFileError
        If a file cannot be read as a table, or a value does not fit the schema. The message names the row, the value
        and the rule.
    ImportError
        If pyarrow is not installed; the extra ``fastens[cli]`` installs it.

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
        raise TypeError(f"column_types must be a dict that maps columns to types; got {column_types!r}.")
    reading_schema = schema if isinstance(schema, TableSchema) else TableSchema.from_dict(schema or {})
    lines: dict[str, Any] = {"skip_lines": skip_lines, "header_rows": header_rows, "skip_footer": skip_footer}
    reading_schema = replace(reading_schema, **{name: value for name, value in lines.items() if value is not None})
    loaded = read(path, reading_schema, column_types or {}, sheet)
    names = loaded.table.column_names
    if lacking := [name for name in column_types or {} if name not in names]:
        raise TableFileError(
            f"column_types must name columns of {path}; got {lacking[0]!r}, and the columns are {listed(names)}"
        )
    for note in loaded.notes:
        warn(note)
    if texts := {name: how for name, how in loaded.schema.text_features.items() if name not in reading_schema.columns}:
        warn(f"Trees learn from the words and items of {listed(list(texts))} if you pass text_features={texts}.")
    return (loaded.table, loaded.schema) if return_schema else loaded.table
