"""Docstrings of estimators: what several classes share is described once, in a table."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

# Types and descriptions by name; names described together are joined by ", ".
Docs = Mapping[str, tuple[str, str]]

_HEADER = re.compile(r"^(\w+(?:, \w+)*) : (.*)$", flags=re.M)


def entries(text: str) -> dict[str, tuple[str, str]]:
    """The type and the description of each name in a numpydoc section."""
    parts = _HEADER.split(text)[1:]
    return {name: (kind, text.rstrip()) for name, kind, text in zip(*[iter(parts)] * 3, strict=True)}


def complete_docstring(kind: Any, docs: Docs) -> None:
    """Replace ``{parameters}`` and ``{attributes}`` in a class's docstring by what it does not describe itself.

    Parameters are those of the constructor, with its defaults; attributes are those of the table that the class has.
    """
    if not kind.__doc__:  # Python may run without docstrings; from 3.13 on they come without the indentation
        return
    text = inspect.cleandoc(kind.__doc__)
    own = {name for names, _ in _HEADER.findall(text) for name in names.split(", ")}
    if "{parameters}" in text:
        arguments = list(inspect.signature(kind.__init__).parameters.values())[1:]
        parameters = [_parameter(each, *docs[each.name]) for each in arguments if each.name not in own]
        text = text.replace("{parameters}", "\n".join(parameters))
    attributes = [
        f"{names} : {type_}{description}"
        for names, (type_, description) in docs.items()
        if all(_has(kind, name) and name not in own for name in names.split(", "))
    ]
    kind.__doc__ = text.replace("{attributes}", "\n".join(attributes))


def _parameter(argument: inspect.Parameter, type_: str, description: str) -> str:
    default = argument.default
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{argument.name} : {type_}, default={shown}{description}"


def _has(kind: Any, name: str) -> bool:
    """Whether a class has a fitted attribute: a property, or one that it or a base annotates."""
    return name.endswith("_") and (
        hasattr(kind, name) or any(name in inspect.get_annotations(base) for base in kind.__mro__)
    )
