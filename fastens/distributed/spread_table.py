"""Tables that are spread over a cluster of any kind, and which worker gets which of their partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from fastens.distributed.rank_fit import BY_ROW
from fastens.parameters import real, whole
from fastens.table.opening import are_texts

# The name of a table, the table, and by their names what belongs to its rows.
Rows = tuple[str, Any, dict[str, Any]]


@dataclass(frozen=True)
class FitProgress:
    """How far a fit on a cluster has come.

    Attributes
    ----------
    n_done, n_rounds : int
        How many rounds have ended, and how many there are.
    train_loss, validation_loss : float or None
        The losses after it.
    n_workers : int
        The workers that train.
    n_exchanges, n_bytes : int
        How often these have exchanged something, and how many bytes the first of them has sent.
    """

    n_done: int
    n_rounds: int
    train_loss: float | None
    validation_loss: float | None
    n_workers: int
    n_exchanges: int
    n_bytes: int


class SpreadTable:
    """The base of such tables; their parameters are described there."""

    def __init__(
        self, table: Any, checkpoint_every: int, patience: float, on_progress: Callable[[FitProgress], None] | None
    ) -> None:
        whole(1).check("checkpoint_every", checkpoint_every)
        real(1).check("patience", patience)
        self.table = table
        self.checkpoint_every, self.patience, self.on_progress = checkpoint_every, patience, on_progress

    def __repr__(self) -> str:
        """The table's type."""
        return f"{type(self).__name__}({type(self.table).__name__})"


def tables_in(X: Any, given: Mapping[str, Any], is_spread: Callable[[Any], bool], kinds: str) -> Iterator[Rows]:
    """Yield "X", and "X_val" where it is given, each with its table and what else `fit` was given for its rows.

    Names of columns, and single values for all rows, are not among that. ValueError where a table is not `is_spread`,
    which is one of `kinds`.
    """
    for name in ("group", "group_val"):
        if given.get(name) is not None:
            raise ValueError(f"{name} must be None where X is {kinds}: give the query of each row as qid.")
    for name, table in (("X", X), ("X_val", given.get("X_val"))):
        if table is None:
            continue
        if not is_spread(table):
            raise ValueError(f"{name} must be {kinds} where X is one; got {type(table).__name__}.")
        values: dict[str, Any] = {other: given.get(other) for other in BY_ROW[name]}
        by_row = {other: value for other, value in values.items() if is_spread(value) or np.ndim(value) > 0}
        yield name, table, {other: value for other, value in by_row.items() if not are_names(value, table)}


def are_names(value: Any, table: Any) -> bool:
    """Whether a value is a list of columns of a table; of an array, a list of texts may be its labels."""
    return are_texts(value) and not hasattr(table, "chunks")


def joined_parts(columns: Mapping[str, Sequence[Any]], table: str) -> list[dict[str, Any]]:
    """Return the partitions of a table, each with what belongs to its rows; ValueError where these are others."""
    n_parts = len(columns[table])
    for name, parts in columns.items():
        if len(parts) != n_parts:
            raise ValueError(
                f"{name} must have the {n_parts} partitions of {table}; it has {len(parts)}. Name a column of {table}, "
                "or take both from one dataframe without turning them into arrays."
            )
    return [dict(zip(columns, parts, strict=True)) for parts in zip(*columns.values(), strict=True)]


def blocks(n_parts: int, n_ranks: int) -> list[range]:
    """Return the partitions of each rank: so many in a row, nearly as many on each.

    Examples
    --------
    >>> blocks(5, 2)
    [range(0, 3), range(3, 5)]
    """
    each, more = divmod(n_parts, n_ranks)
    ends = [rank * each + min(rank, more) for rank in range(n_ranks + 1)]
    return [range(*bounds) for bounds in pairwise(ends)]


def placed(owned: Sequence[range], holders: Mapping[int, Collection[str]], places: Sequence[str]) -> list[int]:
    """Return which worker each rank gets, so that few partitions have to move.

    Parameters
    ----------
    owned : list of range
        The partitions of each rank.
    holders : dict
        The places that have a partition already, by its number.
    places : list of str
        Those of the workers, of which there is at least one for each rank.

    Examples
    --------
    >>> placed([range(0, 2), range(2, 3)], {0: ["b"], 2: ["a"]}, ["a", "b", "c"])
    [1, 0]
    """
    moved = np.zeros((len(owned), len(places)))
    for rank, parts in enumerate(owned):
        for part in parts:
            held = holders.get(part, ())
            moved[rank] -= [place in held for place in places]
    found: list[int] = linear_sum_assignment(moved)[1].tolist()
    return found
