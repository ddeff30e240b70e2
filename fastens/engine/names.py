"""Names of columns: any hashable label, as a value that compares like the label and that JSON holds."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# A text, a number, None, a tuple of names or an `OtherName`.
Name = Hashable
_NAT = ("NaTType", "NaT")
_MISSING = {"NaTType": _NAT, "datetime64": _NAT, "timedelta64": _NAT, "NAType": ("NAType", "NA")}
_LABELS = (str, bool, int, float, np.generic, tuple, datetime.date, datetime.time, datetime.timedelta)


@dataclass(frozen=True)
class OtherName:
    """The name of a column that is neither text nor number: its kind and its text, such as a timestamp's ISO format.

    Missing names such as NaN and NaT are of this class as well, since they do not equal themselves.
    """

    kind: str
    text: str

    def __repr__(self) -> str:
        """The text."""
        return self.text


def plain_name(label: Any) -> Name:
    """Return the label of a column as names of columns are kept and compared.

    Labels that Python holds for equal, such as 1, 1.0, ``np.int64(1)`` and True, are one name, as in pandas. A
    timestamp is one name however it is given; with time zones, the instant counts.

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


def plain_names(labels: Iterable[Any]) -> list[Any]:
    """Return the names of a table's columns; ValueError where two are equal."""
    found = list(labels)
    if all(type(label) is str for label in found):
        return found
    names = list(map(plain_name, found))
    if len(set(names)) < len(names):
        raise same_names(next(name for name, count in Counter(names).items() if count > 1))
    return names


def same_names(name: Any) -> ValueError:
    """The error where columns have equal names."""
    return ValueError(f"X must have columns of different names; more than one is called {name!r}.")


def are_texts(names: Sequence[Any] | None) -> bool:
    """Whether all columns are named by texts."""
    return names is not None and all(type(name) is str for name in names)


def are_positions(names: Sequence[Any] | None) -> bool:
    """Whether the names are 0, 1, 2, ..., which pandas gives to columns without names."""
    return names is not None and all(type(name) is int and name == place for place, name in enumerate(names))


def have_numbers(names: Sequence[Any] | None) -> bool:
    """Whether any column is named by a number, so that numbers are names rather than positions."""
    return names is not None and any(isinstance(name, bool | int | float) for name in names)


def texts_of(names: Sequence[Any] | None) -> list[str] | None:
    """Return the names as distinct texts, for what is shown and exported; None where they are only positions."""
    if names is None or are_positions(names):
        return None
    texts = list(map(str, names))
    return texts if len(set(texts)) == len(texts) else list(map(repr, names))


def is_label(value: Any) -> bool:
    """Whether an argument may be the name of one column: a text, a number, a tuple, a date, a time or an interval."""
    return isinstance(value, _LABELS) or type(value).__name__ in ("Period", "Interval")


def to_state(names: Sequence[Any] | None) -> list[Any] | None:
    """Return names as JSON holds them."""
    return None if names is None else [_state_of(name) for name in names]


def _state_of(name: Any) -> Any:
    if isinstance(name, tuple):
        return {"tuple": [_state_of(part) for part in name]}
    return {"kind": name.kind, "text": name.text} if isinstance(name, OtherName) else name


def from_state(state: Any) -> list[Any] | None:
    """Return the names from `to_state`; ValueError for anything else."""
    if state is None:
        return None
    if not isinstance(state, list):
        raise ValueError("the names of the columns are malformed")
    names = [_name_of(part) for part in state]
    if len(set(names)) < len(names):
        raise ValueError("the names of the columns are not distinct")
    return names


def _name_of(state: Any, depth: int = 0) -> Any:
    if state is None or isinstance(state, str | bool | int) or (isinstance(state, float) and math.isfinite(state)):
        return state
    if isinstance(state, dict) and depth < 8:
        if state.keys() == {"tuple"} and isinstance(state["tuple"], list):
            return tuple(_name_of(part, depth + 1) for part in state["tuple"])
        if state.keys() == {"kind", "text"} and all(isinstance(part, str) for part in state.values()):
            return OtherName(state["kind"], state["text"])
    raise ValueError("the names of the columns are malformed")
