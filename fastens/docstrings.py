"""Docstrings of estimators: what several classes share is described once, in a table."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping
from typing import Any

# Types and descriptions by name; names described together are joined by ", ".
Docs = Mapping[str, tuple[str, str]]

# Annotations, and what a docstring has in their place.
_PLAIN_TYPES = [(re.compile(r"NDArray\[[\w.]*\]|\bArray\b|\bFloats\b"), "array"), (re.compile(r"\bAny\b"), "object")]
_HEADER = re.compile(r"^(\w+(?:, \w+)*) : (.*)$", flags=re.M)


# What methods that are given rows say of them.
_ROWS = """\
X : table of shape (n_samples, n_features)
    NumPy array, pandas, polars or Arrow table, or SciPy sparse matrix; or paths of Parquet or CSV files, a stream or a
    lazy frame, which are read in batches. NaN and None are missing values.
y : array of shape (n_samples,), or the name of a column
    Targets.
sample_weight : array of shape (n_samples,), or the name of a column, optional
    A weight of 2 is the same as the row given twice, 0 as the row left out.
"""


def entries(text: str) -> dict[str, tuple[str, str]]:
    """The type and the description of each name in a numpydoc section."""
    parts = _HEADER.split(text)[1:]
    return {name: (kind, text.rstrip()) for name, kind, text in zip(*[iter(parts)] * 3, strict=True)}


def complete_docstring(kind: Any, docs: Docs) -> None:
    """Replace ``{parameters}`` and ``{attributes}`` in a class's docstring by what it does not describe itself.

    Parameters are those of the constructor, with its defaults. Attributes are those of the table that the class has,
    then its properties, with their own docstrings.
    """
    if not kind.__doc__:  # Python may run without docstrings; from 3.13 on they come without the indentation
        return
    text = inspect.cleandoc(kind.__doc__)
    own = {name for names, _ in _HEADER.findall(text) for name in names.split(", ")}
    if "{parameters}" in text:
        arguments = list(inspect.signature(kind.__init__).parameters.values())[1:]
        parameters = [_parameter(each, *docs[each.name]) for each in arguments if each.name not in own]
        text = text.replace("{parameters}", "\n".join(parameters))
    annotated = _annotated(kind)

    def is_there(name: str) -> bool:
        """Whether the class has a fitted attribute: a property, or an annotated one."""
        return name.endswith("_") and name not in own and (name in annotated or hasattr(kind, name))

    attributes = [
        f"{names} : {type_}{description}"
        for names, (type_, description) in docs.items()
        if all(map(is_there, names.split(", ")))
    ]
    own |= {name for names in docs for name in names.split(", ")}
    attributes += [_property(name, found) for name, found in _properties(kind).items() if name not in own]
    kind.__doc__ = text.replace("{attributes}", "\n".join(attributes))


def complete_method(method: Any) -> None:
    """Replace ``{X}``, ``{y}`` and ``{sample_weight}`` in a method's docstring by what they are for all."""
    for name, (type_, description) in entries(_ROWS).items() if method.__doc__ else ():
        found = re.search(rf"^( *)\{{{name}\}}$", method.__doc__, flags=re.M)
        if found:
            entry = textwrap.indent(f"{name} : {type_}{description}", found[1])
            method.__doc__ = method.__doc__.replace(found[0], entry)


def _parameter(argument: inspect.Parameter, type_: str, description: str) -> str:
    default = argument.default
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{argument.name} : {type_}, default={shown}{description}"


def _properties(kind: Any) -> dict[str, property]:
    """The properties that are fitted attributes, those of the bases first."""
    found = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, property) and name.endswith("_") and not name.startswith("_") and value.__doc__
    }


def _property(name: str, found: property) -> str:
    returned = inspect.get_annotations(found.fget).get("return", "object")  # type: ignore[arg-type]
    type_ = returned if isinstance(returned, str) else returned.__name__
    for pattern, plain in _PLAIN_TYPES:
        type_ = pattern.sub(plain, type_)
    return f"{name} : {type_}\n" + textwrap.indent(inspect.cleandoc(found.__doc__ or ""), "    ")


def _annotated(kind: Any) -> set[str]:
    """The names that a class or its bases annotate."""
    return {name for base in kind.__mro__ for name in inspect.get_annotations(base)}
