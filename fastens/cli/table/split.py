"""Held-out rows, chosen at random, by time or by group, and the model card that records them."""

from __future__ import annotations

import argparse
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastens.cli.table.columns import DATE, NUMBER, TIME, TIMESTAMP, WORDS, CommandError, column_codes, kind_of
from fastens.cli.table.target import CLASSIFICATION, required_column
from fastens.files.formats import example_of, python_value
from fastens.table.training_data import shuffled_folds

Codes = NDArray[np.int64]


def add_holdout_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for rows that are held out by time or by group."""
    text = "hold out the last rows by this date or numeric column instead of random rows"
    parser.add_argument("--time-column", metavar="COL", help=text)
    text = (
        "hold out whole groups, which are the rows with the same value of this column; the column is not "
        "used for training"
    )
    parser.add_argument("--group", metavar="COL", help=text)


@dataclass(frozen=True)
class Order:
    """The column by which rows are held out: ranks in time or group numbers, with missing values first."""

    name: str
    is_time: bool
    codes: Codes
    column: pa.ChunkedArray

    @classmethod
    def from_options(cls, table: pa.Table, options: Any) -> Order | None:
        """Return the order by --time-column or --group, or None without them; raise CommandError if invalid."""
        time, group = options.time_column, options.group
        if time is not None and group is not None:
            raise CommandError("--time-column and --group must not be used together")
        if time is not None:
            return cls.by_time(required_column(table, time, "--time-column"), time)
        return None if group is None else cls.by_group(required_column(table, group, "--group"), group)

    @classmethod
    def by_time(cls, column: pa.ChunkedArray, name: str) -> Order:
        """Return the order by a column of dates or numbers; codes are dense ranks, 0 for missing values."""
        if kind_of(column.type) not in (DATE, TIMESTAMP, TIME, NUMBER):
            raise CommandError(f"--time-column must name a date or numeric column; {name!r} holds {_example(column)}")
        present = pc.fill_null(pc.invert(pc.is_null(column, nan_is_null=True)), False)
        ranks = np.zeros(len(column), dtype=np.int64)
        is_present = np.asarray(present.to_numpy())
        ranks[is_present] = np.asarray(pc.rank(column.filter(present), tiebreaker="dense").to_numpy())
        return cls._create(name, True, ranks, column)

    @classmethod
    def by_group(cls, column: pa.ChunkedArray, name: str) -> Order:
        """Return the order by a column of groups; codes are group numbers, 0 for rows without a group."""
        if pa.types.is_nested(column.type):
            raise CommandError(f"--group must name a column without nested values; {name!r} holds {_example(column)}")
        return cls._create(name, False, column_codes(column), column)

    @classmethod
    def _create(cls, name: str, is_time: bool, codes: Codes, column: pa.ChunkedArray) -> Order:
        """Return the order; raise CommandError if all codes are equal."""
        if len(np.unique(codes)) < 2:
            option = "--time-column" if is_time else "--group"
            raise CommandError(
                f"{option} must name a column with at least two values; {name!r} holds only {_example(column)}"
            )
        return cls(name, is_time, codes, column)

    def take(self, mask: NDArray[np.bool_]) -> Order:
        """Return the order restricted to the rows that a mask selects."""
        return Order(self.name, self.is_time, self.codes[mask], self.column.filter(pa.array(mask)))

    def mark_held_out(self, fraction: float, random_state: int) -> NDArray[np.bool_]:
        """Return a mask of about `fraction` of the rows, never all: the last ones, or whole groups drawn at random.

        Rows with the same time or in the same group are always on the same side.
        """
        if fraction == 0:
            return np.zeros(len(self.codes), dtype=bool)
        values, value_index, counts = np.unique(self.codes, return_inverse=True, return_counts=True)
        order = np.arange(len(values))[::-1]
        if not self.is_time:
            order = np.random.default_rng(random_state).permutation(len(values))
        ends = np.cumsum(counts[order])
        n_taken = int(np.abs(ends - fraction * len(self.codes)).argmin()) + 1
        is_taken = np.zeros(len(values), dtype=bool)
        is_taken[order[: min(n_taken, len(values) - 1)]] = True
        return is_taken[value_index]

    def folds(self, n_folds: int, random_state: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Return (training, test) row indices of folds: test rows are later than training rows, or in other groups."""
        values, value_index, counts = np.unique(self.codes, return_inverse=True, return_counts=True)
        n_parts = n_folds + self.is_time
        if len(values) < n_parts:
            what = "moments" if self.is_time else "groups"
            raise CommandError(f"--folds {n_folds} needs {n_parts} different {what}; {self.name!r} has {len(values):,}")
        if self.is_time:
            part = _assign_periods(counts, n_parts)[value_index]
            return [(np.flatnonzero(part < k), np.flatnonzero(part == k)) for k in range(1, n_parts)]
        groups = shuffled_folds(np.arange(len(values)), n_folds, random_state, stratified=False)
        return [
            (np.flatnonzero(np.isin(value_index, train)), np.flatnonzero(np.isin(value_index, test)))
            for train, test in groups
        ]

    def parts(self, max_parts: int) -> list[tuple[str, NDArray[np.intp]]]:
        """Return (name, row indices) of at most `max_parts` consecutive periods, or of the largest groups."""
        values, codes, counts = np.unique(self.codes, return_inverse=True, return_counts=True)
        if self.is_time:
            part = _assign_periods(counts, min(max_parts, len(values)))
        else:
            part = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
        named = []
        for k in range(min(max_parts, int(part.max()) + 1)):
            rows = np.flatnonzero(part[codes] == k)
            ends = pc.min_max(self.column.take(rows)) if self.is_time else {"min": self.column[int(rows[0])]}
            texts = list(dict.fromkeys("missing" if v.as_py() is None else str(python_value(v)) for v in ends.values()))
            named.append((" to ".join(texts), rows))
        return named

    def describe(self, held_out: NDArray[np.bool_]) -> str:
        """Describe the rows that the mask holds out: how many groups, or from which time on."""
        if not self.is_time:
            n_groups, n_held_out = len(np.unique(self.codes)), len(np.unique(self.codes[held_out]))
            return f"{n_held_out:,} of {n_groups:,} groups of {self.name!r}"
        first = pc.min_max(self.column.filter(pa.array(held_out)))["min"]
        return f"from {self.name!r} {python_value(first)} on"


def _assign_periods(counts: Codes, n_parts: int) -> Codes:
    """Return the period, 0 to n_parts - 1, of each distinct time with `counts` rows; periods have similar sizes."""
    # A time belongs to the part that contains the middle of its rows; the clipping keeps all parts non-empty.
    middles = (np.cumsum(counts) - counts / 2) * n_parts / counts.sum()
    indices = np.arange(len(counts))
    part = np.clip(middles.astype(np.int64), 0, n_parts - 1)
    return np.clip(part, indices - len(counts) + n_parts, indices)


def _example(column: pa.ChunkedArray) -> str:
    """Return the first present value of a column as quoted text, or "nothing" if all values are missing."""
    return repr(example_of(column)) if len(column) > column.null_count else "nothing"


@dataclass(frozen=True)
class HoldoutSplit:
    """The settings of a holdout split and a fingerprint of the target, to reproduce the split on the same table.

    `time` or `group` is the column by which rows were held out. If both are None, rows were held out at random.
    """

    fraction: float
    random_state: int
    fingerprint: int
    time: str | None = None
    group: str | None = None

    @classmethod
    def for_target(cls, y: NDArray, fraction: float, random_state: int, order: Order | None = None) -> HoldoutSplit:
        """Return the split of a table with the target y, at random or by the column of `order`."""
        time, group = (None, None) if order is None else (order.name, None) if order.is_time else (None, order.name)
        return cls(fraction, random_state, _fingerprint(y), time, group)

    def matches_target(self, y: NDArray) -> bool:
        """Return True if y has the fingerprint of the target of the table that was split."""
        return _fingerprint(y) == self.fingerprint

    def order(self, table: pa.Table) -> Order | None:
        """Return the order of this table by the split's column of time or group, or None for a random split."""
        if self.time is not None:
            return Order.by_time(table[self.time], self.time)
        return None if self.group is None else Order.by_group(table[self.group], self.group)

    def mark_held_out(self, y: NDArray, task: str, order: Order | None = None) -> NDArray[np.bool_]:
        """Return the mask of held-out rows: by `order` or, if it is None, at random and stratified by class."""
        if order is not None:
            return order.mark_held_out(self.fraction, self.random_state)
        strata = np.unique(y, return_inverse=True)[1] if task == CLASSIFICATION else np.zeros(len(y), dtype=int)
        return held_out_rows(strata, self.fraction, self.random_state)


def _fingerprint(y: NDArray) -> int:
    """Return a CRC-32 checksum of the target values that does not depend on the numeric type in a file."""
    return zlib.crc32("\0".join(y).encode() if y.dtype == object else (y.astype(np.float64) + 0.0).tobytes())


def held_out_rows(strata: NDArray, fraction: float, random_state: int) -> NDArray[np.bool_]:
    """Mark a random share of the rows in each stratum and leave at least one row of each stratum unmarked.

    The rows are shuffled within strata and concatenated, and every (1/fraction)-th row is taken. This works for strata
    of any size and takes the right total number of rows.
    """
    generator = np.random.default_rng(random_state)
    n_rows = len(strata)
    order = np.lexsort((generator.random(n_rows), strata))
    steps = np.floor(np.arange(n_rows + 1) * fraction + generator.random())
    held_out = np.zeros(n_rows, dtype=bool)
    held_out[order] = np.diff(steps) > 0
    only_held_out = np.setdiff1d(strata, strata[~held_out])
    held_out[np.isin(strata, only_held_out)] = False
    return held_out


KEY = "table"


@dataclass(frozen=True)
class ModelCard:
    """Card of a model: the target, the task, the columns and their schema, the best constant and the split."""

    target: str | None
    target_kind: str | None
    task: str
    kinds: dict[str, str]
    constant: list[float] | None
    split: HoldoutSplit | None = None
    schema: dict[str, Any] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """The columns of texts, which are split into words."""
        return [name for name, kind in self.kinds.items() if kind == WORDS]

    def trained_on(self, y: NDArray, table: pa.Table) -> NDArray[np.bool_] | None:
        """Return the mask of training rows; None if the table cannot be the training table, by y or its columns."""
        split = self.split
        if split is None or not split.matches_target(y):
            return None
        if any(name is not None and name not in table.column_names for name in (split.time, split.group)):
            return None
        return ~split.mark_held_out(y, self.task, split.order(table))

    def to_metadata(self) -> dict[str, Any]:
        """Return the card as a dict of plain values for `model.save(path, metadata=...)`."""
        return {KEY: asdict(self)}
