"""Values that a column may have though no row has them: of the column's type, pandas' categories or an enum, or given.

Smoothing gives them a probability, so that they belong to the model.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import CODE_DTYPES
from fastens.engine.names import plain_name
from fastens.table.at_sight import move_positions
from fastens.table.columns.factorize import Categories, is_missing, listed_values, sorted_categories
from fastens.table.encoder import InputEncoder
from fastens.table.frames import is_frame, table_from_frame
from fastens.table.parted import PartedTable

Values = list[Any] | None  # of a column; None where they are not declared


def declared_values(X: Any) -> list[Values]:
    """The values that the type of each column lists; those of arrays and of tables in batches list none."""
    if not is_frame(X) or isinstance(X, PartedTable):
        return []
    return [
        column.declared if isinstance(column, Categories) else listed_values(getattr(column, "dtype", None))
        for column in table_from_frame(X).arrays
    ]


def given_values(states: Mapping[str, Sequence[Any]], encoder: InputEncoder, names: Sequence[str]) -> list[Values]:
    """The same from what the user lists by column, in his order; `names` are the columns'.

    Raises
    ------
    ValueError
        If there is no such column of categories, the list is empty or holds a value twice, or the column others.
    """
    out: list[Values] = [None] * len(names)
    places: dict[Any, int] = {name: index for index, name in enumerate(names)}
    places |= {name: index for index, name in enumerate(encoder.names or ())}
    for name, values in states.items():
        if plain_name(name) not in places:
            raise ValueError(f"states must name columns of X, {list(names)}; got {name!r}.")
        index = places[plain_name(name)]
        known = encoder.categories[index]
        if known is None:
            raise ValueError(f"states must name columns of categories; {name!r} holds numbers that max_bins cuts.")
        listed = distinct_values(f"states[{name!r}]", values)
        among = set(listed)
        unknown = [value for value in known if value not in among]
        if unknown:
            raise ValueError(
                f"Column {name!r} must hold values of states[{name!r}], {listed}; it holds {unknown[0]!r}."
            )
        out[index] = listed
    return out


def distinct_values(name: str, values: Any) -> list[Any]:
    """What a user lists as the values of a column; ValueError where that is no list of distinct ones."""
    is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    listed = [value.item() if isinstance(value, np.generic) else value for value in values] if is_list else []
    is_plain = all(isinstance(value, str | bool | int | float) and not is_missing(value) for value in listed)
    if not listed or not is_plain or len(set(listed)) < len(listed):
        raise ValueError(
            f"{name} must be a list of distinct strings, numbers or booleans, none of them missing; got {values!r}."
        )
    return listed


def with_values(
    encoder: InputEncoder, rows: NDArray[Any], declared: Sequence[Values], first: int = 0, *, in_order: bool = False
) -> tuple[InputEncoder, NDArray[Any]]:
    """Add declared values to an encoder's categories and recode `rows` accordingly; the arguments stay as they are.

    `rows` are positions of categories, or codes of which `first` is that of the first category; less is missing.
    Categories are sorted, or with `in_order` those declared, in their order. `declared` may be empty: none for any
    column.
    """
    categories = list(encoder.categories)
    changed = [index for index, more in enumerate(declared) if _adds_values(categories[index], more, in_order=in_order)]
    if not changed:
        return encoder, rows
    known = [categories[index] or [] for index in changed]
    for index, old in zip(changed, known, strict=True):
        more = list(declared[index] or [])
        categories[index] = more if in_order else sorted_categories([*old, *more], str(index))
    largest = max(len(found or ()) for found in categories)
    rows = np.array(rows, dtype=_wide_enough(rows.dtype, largest), order="F")
    for index, old in zip(changed, known, strict=True):
        move_positions(rows[:, index], old, categories[index] or [], first)
    return with_categories(encoder, categories), rows


def with_categories(encoder: InputEncoder, categories: list[list[Any] | None]) -> InputEncoder:
    """The same encoder with other categories."""
    found = copy.copy(encoder)
    found.categories = categories
    return found


def _adds_values(known: list[Any] | None, declared: Values, *, in_order: bool) -> bool:
    if known is None or declared is None:
        return False
    return known != list(declared) if in_order else not set(declared) <= set(known)


def _wide_enough(dtype: np.dtype[Any], largest: int) -> np.dtype[Any]:
    if dtype.kind != "u":
        return dtype
    return next(found for found in CODE_DTYPES if found >= dtype and largest + 1 <= np.iinfo(found).max)
