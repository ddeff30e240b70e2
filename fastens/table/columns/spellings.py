"""Categories of another type than in fit: 1 as "1" or "1.0", True as "yes"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from fastens.table.columns.factorize import is_missing
from fastens.table.columns.faults import shown
from fastens.warn import warn

_WORDS = {True: ("true", "yes", "t", "y"), False: ("false", "no", "f", "n")}
_BOOLEANS = {word for words in _WORDS.values() for word in words}
BOOLEANS, NUMBERS, TEXT = "booleans", "numbers", "text"


def kind_of(value: Any) -> str:
    """What sort of category a value is."""
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bool | np.bool_):
        return BOOLEANS
    return NUMBERS if isinstance(value, int | float | np.number) else type(value).__name__


def _spellings(value: Any) -> set[str]:
    """All ways to write a value."""
    kind = kind_of(value)
    if kind == TEXT:
        word = value.strip().casefold()
        return {word if word in _BOOLEANS else str(value)}
    if kind not in (BOOLEANS, NUMBERS) or value - value != 0:  # infinite; np.isfinite takes no large whole numbers
        return {str(value)}
    whole = {str(int(value)), f"{int(value)}.0"} if value == int(value) else set()
    return whole | {str(value)} | set(_WORDS[bool(value)] if kind == BOOLEANS else ())


def same_categories(values: Iterable[Any], categories: Iterable[Any]) -> dict[Any, Any]:
    """For values that are no categories, the one category of another type that is written in the same way.

    A value with none or several is left out. The result for a value does not depend on the others.
    """
    written = defaultdict(set)
    for category in categories:
        for text in _spellings(category):
            written[text].add(category)
    found = {}
    for value in values:
        same = {category for text in _spellings(value) for category in written.get(text, ())}
        same = {category for category in same if kind_of(category) != kind_of(value)}
        if len(same) == 1:
            found[value] = same.pop()
    return found


def match_spellings(values: Iterable[Any], categories: list[Any], name: str) -> dict[Any, Any]:
    """The same for a column called `name`; warns where values of a type not seen in fit match no category."""
    strange = {value for value in values if not is_missing(value)}.difference(categories)
    if _are_of_one_type(strange, categories):
        return {}
    found = same_categories(strange, categories)
    known = {kind_of(category): category for category in reversed(categories)}
    unknown = sorted((value for value in strange if value not in found and kind_of(value) not in known), key=str)
    if unknown and known:
        learned = ", ".join(f"{kind}, such as {shown(category)}" for kind, category in sorted(known.items()))
        warn(
            f"Column {name} holds {kind_of(unknown[0])}, such as {shown(unknown[0])}; fit saw {learned}. "
            "Values that cannot be told to be the same count as categories that fit did not see."
        )
    return found


def without_same(values: list[Any], categories: list[Any]) -> list[Any]:
    """The values that are no categories, neither as they are nor written in another type."""
    known = set(categories)
    new = [value for value in values if value not in known]
    same = {} if _are_of_one_type(new, categories) else same_categories(new, categories)
    return [value for value in new if value not in same]


def _are_of_one_type(values: Iterable[Any], categories: Iterable[Any]) -> bool:
    """Whether there is nothing that could be written in another type: the usual case, and fast to check."""
    return len({*map(type, values), *map(type, categories)}) < 2
