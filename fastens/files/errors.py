"""The error of a file that cannot be read as a table."""

from __future__ import annotations

from collections.abc import Sequence


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
