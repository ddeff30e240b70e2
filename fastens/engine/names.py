"""Column names: any hashable label, normalized to a value that compares like the label and can be stored in JSON."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# A string, a number, None, a tuple of names or an `OtherName`.
Name = Hashable
_NAT = ("NaTType", "NaT")
_MISSING = {"NaTType": _NAT, "datetime64": _NAT, "timedelta64": _NAT, "NAType": ("NAType", "NA")}
_LABELS = (str, bool, int, float, np.generic, tuple, datetime.date, datetime.time, datetime.timedelta)


@dataclass(frozen=True)
class OtherName:
    """A column name that is neither a string nor a number, stored as its type and text (ISO format for timestamps).

    Missing names such as NaN and NaT also belong to this class because they do not compare equal to themselves.
    """

    kind: str
    text: str

    def __repr__(self) -> str:
        """Return the text."""
        return self.text


def plain_name(label: Any) -> Name:
    """Return the normalized column name for a label.

    Labels that compare equal in Python, such as 1, 1.0, ``np.int64(1)`` and True, are the same name, as in pandas.
    Timestamps are the same name regardless of their type; with time zones, the instant counts.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.names import plain_name
    >>> plain_name(np.int64(3)), plain_name(("a", np.float32(0.5))), plain_name(np.datetime64("2024-02-29"))
    (3, ('a', 0.5), 2024-02-29T00:00:00)
    """
    if type(label) is str or label is None or isinstance(label, OtherName):
        return label
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, tuple):
        return tuple(map(plain_name, label))
    if isinstance(label, bool | int | np.bool_ | np.integer):
        return label.item() if isinstance(label, np.generic) else label if type(label) in (bool, int) else int(label)
    if isinstance(label, float | np.floating):
        return float(label) if math.isfinite(label) else OtherName("float", str(float(label)))
    return _other_name(label)


def _other_name(label: Any) -> Name:
    """Return the normalized column name of a label that is not a string, a number, a tuple or None."""
    kind = type(label).__name__
    if isinstance(label, np.datetime64 | np.timedelta64) and not np.isnat(label):
        exact = label.astype(f"{label.dtype.kind}8[us]")
        return _other_name(exact.item()) if exact == label else OtherName(kind.removesuffix("64"), str(label))
    if kind in _MISSING:
        return OtherName(*_MISSING[kind])
    if isinstance(label, datetime.datetime):
        label = label if label.tzinfo is None else label.astimezone(datetime.UTC)
        return OtherName("datetime", label.isoformat())
    if isinstance(label, datetime.timedelta):
        whole = datetime.timedelta(label.days, label.seconds, label.microseconds)
        return OtherName("timedelta", f"{whole}{getattr(label, 'nanoseconds', 0) or ''}")
    if isinstance(label, datetime.date | datetime.time):
        return OtherName(kind, label.isoformat())
    return OtherName(kind, repr(label))


def index_values(index: Any) -> list[Any]:
    """Return the values of a pandas index; Arrow-backed strings skip the slow conversion of pandas."""
    is_arrow = getattr(index.dtype, "storage", None) == "pyarrow"
    return index.array.__arrow_array__().to_pylist() if is_arrow else index.tolist()


def plain_names(labels: Iterable[Any]) -> list[Any]:
    """Return the normalized column names of a table; raise ValueError if two of them are equal."""
    label_list = list(labels)
    if all(type(label) is str for label in label_list):
        return label_list
    names = list(map(plain_name, label_list))
    if len(set(names)) < len(names):
        raise repeated_name_error(next(name for name, count in Counter(names).items() if count > 1))
    return names


def repeated_name_error(name: Any) -> ValueError:
    """Return the ValueError to raise if several columns have this name."""
    return ValueError(f"X must have unique column names; got {name!r} more than once.")


def are_texts(names: Sequence[Any] | None) -> bool:
    """Return True if all column names are strings."""
    return names is not None and all(type(name) is str for name in names)


def are_positions(names: Sequence[Any] | None) -> bool:
    """Return True if the names are 0, 1, 2, ..., the default column labels of pandas."""
    return names is not None and all(type(name) is int and name == index for index, name in enumerate(names))


def have_numbers(names: Sequence[Any] | None) -> bool:
    """Return True if any column name is a number, so that integers refer to names instead of positions."""
    return names is not None and any(isinstance(name, bool | int | float) for name in names)


def texts_of(names: Sequence[Any] | None) -> list[str] | None:
    """Return the names as distinct strings for display and export; None without names, or with only 0, 1, 2, ..."""
    if names is None or are_positions(names):
        return None
    texts = list(map(str, names))
    return texts if len(set(texts)) == len(texts) else list(map(repr, names))


def is_label(value: Any) -> bool:
    """Return True if an argument can be one column name: a string, number, tuple, date, time or interval."""
    return isinstance(value, _LABELS) or type(value).__name__ in ("Period", "Interval")


def to_state(names: Sequence[Any] | None) -> list[Any] | None:
    """Return the column names as JSON-serializable values, from which `from_state` restores them."""
    return None if names is None else [_name_to_state(name) for name in names]


def _name_to_state(name: Any) -> Any:
    """Return a column name as a JSON-serializable value, from which `_name_from_state` restores it."""
    if isinstance(name, tuple):
        return {"tuple": [_name_to_state(part) for part in name]}
    return {"kind": name.kind, "text": name.text} if isinstance(name, OtherName) else name


def from_state(state: Any) -> list[Any] | None:
    """Return the names from the output of `to_state`; raise ValueError if it is malformed."""
    if state is None:
        return None
    if not isinstance(state, list):
        raise ValueError("the names of the columns are malformed")
    names = [_name_from_state(part) for part in state]
    if len(set(names)) < len(names):
        raise ValueError("the names of the columns are not distinct")
    return names


def _name_from_state(state: Any, depth: int = 0) -> Any:
    """Return the column name for a JSON value, nested up to depth 8; raise ValueError if it is malformed."""
    if state is None or isinstance(state, str | bool | int) or (isinstance(state, float) and math.isfinite(state)):
        return state
    if isinstance(state, dict) and depth < 8:
        if state.keys() == {"tuple"} and isinstance(state["tuple"], list):
            return tuple(_name_from_state(part, depth + 1) for part in state["tuple"])
        if state.keys() == {"kind", "text"} and all(isinstance(part, str) for part in state.values()):
            return OtherName(state["kind"], state["text"])
    raise ValueError("the names of the columns are malformed")
