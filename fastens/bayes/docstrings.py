"""Docstrings that share parts."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import cleandoc


def fill_docstring(cls: type, parts: Mapping[str, str]) -> None:
    """Put each part in the place of its `{name}` in the docstring of a class."""
    if cls.__doc__:  # Python may run without docstrings; from 3.13 on they come without the indentation
        filled = cleandoc(cls.__doc__)
        for name, text in parts.items():
            filled = filled.replace(f"{{{name}}}", text.strip())
        cls.__doc__ = filled
