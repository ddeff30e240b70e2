"""Errors about one value of a column: which column and row, what must be there, and what is."""

from __future__ import annotations

from typing import Any

MOST_SHOWN = 60  # characters of a value


def shown(value: Any) -> str:
    """A value as an error shows it, a long one cut off, with its type."""
    text = repr(value)
    text = text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
    return f"{text} of type {type(value).__name__}"


def fault(name: str, what: str, row: int, value: Any) -> ValueError:
    """The error where a row of the column called `name` holds a value that is not `what` must be there."""
    return ValueError(f"Column {name} must hold {what}; row {row} holds {shown(value)}.")


def type_fault(name: str, what: str, row: int, value: Any) -> TypeError:
    """The same where no value of such a type could be there."""
    return TypeError(
        f"Column {name} must hold {what}: each argument must be a string or a number; row {row} holds {shown(value)}."
    )
