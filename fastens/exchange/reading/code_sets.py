"""Splits of columns of category codes: which codes there are, and where all others go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.exchange.reading.records import Columns, refuse

_MOST_CODES = 60_000


@dataclass(frozen=True)
class CodeSet:
    """The codes of a split, and whether rows with one of them go left; rows with another code go the other way."""

    codes: NDArray[np.int64]
    is_left: bool


def set_codes(trees: Sequence[dict[str, Any]], columns: Columns) -> None:
    """Give trees the sets of positions that go left, and columns their number of codes.

    Parameters
    ----------
    trees : sequence of dict
        Trees as `join_trees` takes them, with `code_sets`, a dict of nodes to `CodeSet`, which becomes `sets`.
    columns : Columns
        Columns without entries in `categories` get entries in `n_codes`.
    """
    largest: dict[int, int] = {}
    for tree in trees:
        for node, own in tree["code_sets"].items():
            column = int(tree["feature"][node])
            largest[column] = max(largest.get(column, 0), int(own.codes.max(initial=0)))
            if bool(tree["missing_left"][node]) == own.is_left and column not in columns.categories:
                columns.has_others.add(column)
    for column, most in largest.items():
        known = columns.categories.get(column)
        if most > _MOST_CODES or (known is not None and most >= len(known)):
            raise refuse(f"column {column} is split by the category code {most}, beyond its categories")
        if known is None:
            columns.n_codes[column] = most + 1
    for tree in trees:
        tree["sets"] = {
            node: own.codes if own.is_left else _without(own.codes, columns, int(tree["feature"][node]))
            for node, own in tree.pop("code_sets").items()
        }


def _without(codes: NDArray[np.int64], columns: Columns, column: int) -> NDArray[np.int64]:
    """All positions of a column but some."""
    known = columns.categories.get(column)
    n = len(known) if known is not None else columns.n_codes[column] + (column in columns.has_others)
    return np.setdiff1d(np.arange(n), codes)
