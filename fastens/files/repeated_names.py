"""Names of columns, of which each is there once."""

from __future__ import annotations

from collections.abc import Sequence


def numbered(names: Sequence[str]) -> list[str]:
    """The names; those that are there already with the first number that makes them new.

    Examples
    --------
    >>> from fastens.files.repeated_names import numbered
    >>> numbered(["a", "b", "a", "a.1", "a"])
    ['a', 'b', 'a.1', 'a.1.1', 'a.2']
    """
    found: dict[str, None] = {}
    last: dict[str, int] = {}
    for name in names:
        unique, n = name, last.get(name, 0)
        while unique in found:
            n += 1
            unique = f"{name}.{n}"
        found[unique], last[name] = None, n
    return list(found)
