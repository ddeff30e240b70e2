"""Descriptions of parameters that several docstrings share."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

# (Type, description) by name. Names that share a description are joined by ", ".
Docs = dict[str, tuple[str, str]]

# Annotations, and the types that docstrings show instead.
_PLAIN_TYPES = [(re.compile(r"NDArray\[[\w.]*\]|\bArray\b|\bFloats\b"), "array"), (re.compile(r"\bAny\b"), "object")]
# Sections of methods that only the reference of the site shows, and descriptions of results that say nothing new.
_SITE_ONLY = re.compile(
    r"\n\n *(?:(?:Examples|References|Raises|See Also)\n *-+\n.*?|"
    r"Returns\n *-+\n *(?:self|object|An unfitted estimator\.)(?:\n +The estimator itself\.)?)"
    r"(?=\n\n *[A-Z]\w+(?: [A-Z]\w+)?\n *---|\s*\Z)",
    flags=re.S,
)
_HEADER = re.compile(r"^(\w+(?:, \w+)*) : (.*)$", flags=re.M)

_ENTRIES = re.compile(r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=\n\n\w[\w ]*\n-+\n|\Z)", flags=re.M | re.S)


def entries(text: str) -> dict[str, tuple[str, str]]:
    """Return {name: (type, description)} for the entries in the text of one numpydoc section."""
    parts = _HEADER.split(text)[1:]
    return {name: (kind, text.rstrip()) for name, kind, text in zip(*[iter(parts)] * 3, strict=True)}


def described(docstring: str | None) -> dict[str, tuple[str, str]]:
    """Return (type, description) by name from the Parameters and Attributes of a class docstring; {} if stripped."""
    sections = _ENTRIES.findall(inspect.cleandoc(docstring or ""))
    return entries("\n".join(sections))


# Entries for the rows that methods take.
ROWS = entries("""\
X : table of shape (n_samples, n_features)
    NumPy array, pandas, polars or Arrow table, or SciPy sparse matrix. Paths of Parquet or CSV files, streams and lazy
    frames are read in batches. NaN and None are missing values.
y : array of shape (n_samples,), or the name of a column
    Targets.
sample_weight : array of shape (n_samples,), or the name of a column, optional
    Weight of each row. A weight of 2 counts as two copies of the row, and 0 removes the row.
""")

_BOTH = "Parameters\n----------\n{parameters}\n\nAttributes\n----------\n{attributes}"
# Shared by all estimators for which the meaning of a weight matters.
WEIGHT_TYPE_DOCS = entries("""\
weight_type : {"auto", "frequency", "importance"}
    Meaning of `sample_weight`. "frequency": weights count as copies, so the model is the same as for a table with
    repeated rows. "importance": a weight scales the influence of a row, which is still a single row for sampling,
    bootstrapping and minimum counts; weights are relative to their mean over the rows with non-zero weight. "auto":
    "frequency" for integer weights with a median of at most 10, otherwise "importance", with a warning if the weights
    are integers.
""")


def complete_docstring(kind: Any, docs: Docs) -> None:
    """Replace ``{parameters}`` and ``{attributes}`` in the docstring of a class by the entries that it lacks.

    ``{parameters and attributes}`` stands for both sections if the class describes none itself. Parameters are taken
    from the constructor, with their defaults. Attributes are the entries of the table that the class has, followed by
    its properties with their docstrings.
    """
    if not kind.__doc__:  # ``python -OO`` strips docstrings; Python 3.13 and later strip only their indentation
        return
    text = inspect.cleandoc(kind.__doc__).replace("{parameters and attributes}", _BOTH)
    listed = {name for names, _ in _HEADER.findall(text) for name in names.split(", ")}
    if "{parameters}" in text:
        arguments = list(inspect.signature(kind.__init__).parameters.values())[1:]
        parameters = [_parameter_entry(each, *docs[each.name]) for each in arguments if each.name not in listed]
        text = _sort_parameters(text.replace("{parameters}", "\n".join(parameters)), [each.name for each in arguments])
    annotated = {name for base in kind.__mro__ for name in inspect.get_annotations(base)}

    def is_fitted_attribute(name: str) -> bool:
        """Return True if the class has this fitted attribute as a property or an annotation."""
        return name.endswith("_") and name not in listed and (name in annotated or hasattr(kind, name))

    attributes = [
        f"{names} : {type_}{description}"
        for names, (type_, description) in docs.items()
        if all(map(is_fitted_attribute, names.split(", ")))
    ]
    listed |= {name for names in docs for name in names.split(", ")}
    attributes += [_property_entry(name, prop) for name, prop in _fitted_properties(kind).items() if name not in listed]
    kind.__doc__ = text.replace("{attributes}", "\n".join(attributes))


def _sort_parameters(text: str, names: list[str]) -> str:
    """Return a docstring whose parameter entries follow the order of `names`; entries not in `names` come last."""
    start, title, rest = text.partition("Parameters\n----------\n")
    section, *others = rest.split("\n\n", 1)
    positions = {name: index for index, name in enumerate(names)}
    listed = sorted(entries(section).items(), key=lambda item: positions.get(item[0].split(", ")[0], len(names)))
    ordered = "\n".join(f"{name} : {kind}{description}" for name, (kind, description) in listed)
    return "\n\n".join([start + title + ordered, *others])


def complete_method(method: Any) -> None:
    """Replace placeholders in a method's docstring, in place, and shorten the docstring of a public method for `help`.

    ``{X}``, ``{y}`` and ``{sample_weight}`` become their shared descriptions. ``help()`` of a class prints the
    docstrings of all of its methods, so only the copy in `_full_docstring` keeps errors, references and examples.
    """
    if not method.__doc__ or hasattr(method, "_full_docstring"):
        return
    for name, (type_, description) in ROWS.items():
        match = re.search(rf"^( *)\{{{name}\}}$", method.__doc__, flags=re.M)
        if match:
            entry = textwrap.indent(f"{name} : {type_}{description}", match[1])
            method.__doc__ = method.__doc__.replace(match[0], entry)
    if not method.__name__.startswith("_"):
        method._full_docstring = inspect.getdoc(method)
        method.__doc__ = _SITE_ONLY.sub("", method.__doc__).rstrip()


def _parameter_entry(argument: inspect.Parameter, type_: str, description: str) -> str:
    """Return the numpydoc entry of a constructor argument with its type, default and description."""
    default = argument.default
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{argument.name} : {type_}, default={shown}{description}"


def _fitted_properties(kind: Any) -> dict[str, property]:
    """Return a class's documented properties whose names end with an underscore, beginning with the bases."""
    members = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    return {
        name: value
        for name, value in members.items()
        if isinstance(value, property) and name.endswith("_") and not name.startswith("_") and value.__doc__
    }


def _property_entry(name: str, attribute: property) -> str:
    """Return the numpydoc entry of a property, with its type from the annotation and its own docstring."""
    returned = inspect.get_annotations(attribute.fget).get("return", "object")  # type: ignore[arg-type]
    type_ = returned if isinstance(returned, str) else returned.__name__
    for pattern, plain in _PLAIN_TYPES:
        type_ = pattern.sub(plain, type_)
    return f"{name} : {type_}\n" + textwrap.indent(inspect.cleandoc(attribute.__doc__ or ""), "    ")
