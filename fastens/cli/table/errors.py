"""The error of the command line, and helpers for its messages."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\\0-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ufeff]")


class CommandError(Exception):
    """A request that cannot be carried out; its message is one line with the reason and what to do."""


def first_line(error: BaseException, limit: int = 300) -> str:
    """The first line of an error's message, shortened: messages of libraries may quote whole rows of a file."""
    lines = str(error).strip().splitlines()
    line = lines[0] if lines else type(error).__name__
    return line if len(line) <= limit else line[: limit - 1] + "…"


def visible(text: str, but: str = "") -> str:
    """A text with its control characters as Python writes them, but some: names in a file do not steer a terminal.

    Those that turn the direction of writing, and other ends of lines, are among them.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in but else repr(found[0])[1:-1], str(text))


def listed(names: list[str], limit: int = 8) -> str:
    """Quoted names separated by commas; beyond `limit` of them, how many more there are."""
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
