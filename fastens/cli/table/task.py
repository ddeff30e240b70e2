"""The task: a table, its target and features, and the held-out rows."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastens.cli.table.columns import (
    ITEMS,
    TEXT,
    UNUSABLE,
    WITH_TEXT_ONLY,
    WORDS,
    CommandError,
    column_kinds,
    counted_rows,
    describe_kind,
    items_kind,
    kind_of,
    listed,
    make_features,
    missing_cells_text,
    n_distinct,
)
from fastens.cli.table.notes import (
    COUNTER,
    DRAWN,
    INDEX,
    NAMED,
    NAMES,
    column_notes,
    identifier_notes,
    identifier_reason,
    is_unrelated,
    range_text,
    text_notes,
)
from fastens.cli.table.parts import FileRows, open_parts
from fastens.cli.table.reading import add_reading_options, read_with_options, schema_from_options, types_from_options
from fastens.cli.table.split import HoldoutSplit, ModelCard, Order, add_holdout_options
from fastens.cli.table.target import (
    CLASSIFICATION,
    REGRESSION,
    bundled_table,
    check_target,
    recognised_task,
    required_column,
    target_values,
    weight_values,
)
from fastens.files import TableSchema
from fastens.files.read import ReadTable
from fastens.files.schema import Column
from fastens.table.sources import Batches
from fastens.table.training_data import AUTO, WEIGHT_TYPES

LABELS_SHOWN = 4
# The ways to handle rows without a target.
DROP, ERROR = "drop", "error"
# A note on the recognised task is shown for integers with at most this number of distinct values.
DOUBTFUL_MAXIMUM = 100


@dataclass(frozen=True)
class LabelledRows:
    """Features, target and weights of the same rows."""

    X: Any  # a table, or batches of one
    y: NDArray
    weight: NDArray | None

    @property
    def names(self) -> list[str]:
        """The names of the features."""
        return self.X.columns if isinstance(self.X, Batches) else self.X.column_names

    def take(self, rows: NDArray[np.bool_ | np.intp]) -> LabelledRows:
        """Return the rows that a mask or row indices select."""
        weight = None if self.weight is None else self.weight[rows]
        if isinstance(self.X, Batches):
            X = self.X[rows]
        else:
            X = self.X.filter(pa.array(rows)) if rows.dtype == bool else self.X.take(rows)
        return LabelledRows(X, self.y[rows], weight)


@dataclass(frozen=True)
class LabelledTable:
    """The rows that have a target and a positive weight, as a table, with the values to learn."""

    table: pa.Table
    name: str
    task: str
    y: NDArray
    weight: NDArray | None
    notes: list[str]
    order: Order | None = None


@dataclass(frozen=True)
class Features:
    """The features of a table, and the columns from which they were made."""

    title: str
    X: Any  # a table, or batches of one
    kinds: dict[str, str]
    columns: pa.Table
    schema: TableSchema


@dataclass(frozen=True)
class Task:
    """A table ready for training, and its card.

    Attributes
    ----------
    columns : pyarrow.Table
        The original columns to learn from and the target; for a table in batches, only the first rows.
    order : Order or None
        The order by time or group by which rows are held out.
    """

    title: str
    rows: LabelledRows
    held_out: NDArray[np.bool_]
    card: ModelCard
    notes: list[str]
    columns: pa.Table
    order: Order | None = None
    files: FileRows | None = None  # the source of the rows if they are read in batches

    @property
    def is_classification(self) -> bool:
        """True if the target contains classes."""
        return self.card.task == CLASSIFICATION

    def without_texts(self) -> Task:
        """Return the task without its columns of free text (kind WORDS); its table must be in memory."""
        return replace(self, rows=replace(self.rows, X=self.rows.X.drop_columns(self.card.texts)))

    def facts(self) -> list[tuple[str, str]]:
        """Return facts about table, rows, columns, missing cells and target as (name, text) pairs to print."""
        n_rows, n_test = len(self.held_out), int(self.held_out.sum())
        how = "" if self.order is None else f", {self.order.describe(self.held_out)}"
        split = f" ({n_rows - n_test:,} for training, {n_test:,} held out{how})" if n_test else ""
        kinds = [describe_kind(kind) for kind in self.card.kinds.values()]
        counts = ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds))
        return [
            ("table", self.title),
            ("rows", f"{n_rows:,}{split}"),
            ("columns", f"{len(kinds)} ({counts})"),
            *self._missing_cells_fact(),
            ("target", f"{self.card.target}: {self._describe_target()}"),
        ]

    def _missing_cells_fact(self) -> list[tuple[str, str]]:
        """Return [("missing", text)]; [] for a table in batches, because that needs another pass."""
        if isinstance(self.rows.X, Batches):
            return []  # counting would need another pass over the data
        X = self.rows.X
        names = [_first_feature(name, kind) for name, kind in self.card.kinds.items()]
        counts = [pc.sum(pc.is_null(X[name], nan_is_null=True)).as_py() for name in names]
        return [("missing", missing_cells_text(counts))]

    def _describe_target(self) -> str:
        """Return the task with the range and mean of the target, or with the shares of the largest classes."""
        y = self.rows.y
        if not self.is_classification:
            return f"regression, {range_text(y.min(), y.max(), 'mean', y.mean())}"
        labels, counts = np.unique(y, return_counts=True)
        largest = np.argsort(-counts, kind="stable")[:LABELS_SHOWN]
        shares = ", ".join(f"{labels[i]} {counts[i] / len(y):.1%}" for i in largest)
        more = ", …" if len(labels) > LABELS_SHOWN else ""
        return f"classification, {len(labels)} classes: {shares}{more}"


def _first_feature(name: str, kind: str) -> str:
    """Return the name of a column's first feature: the column itself or, for lists, "NAME: FIRST ITEM"."""
    if kind.startswith(ITEMS):
        return f"{name}: {kind[len(ITEMS) + 1 :].split(kind[len(ITEMS)], maxsplit=1)[0]}"
    return name


class _Tables(argparse.Action):
    """Argparse action that stores one file as a string, several as a list, and none as None."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, values if len(values) > 1 else values[0] if values else None)


def add_task_options(parser: argparse.ArgumentParser, *, takes_several: bool = False) -> None:
    """Add the options for the table (several files if `takes_several`), the target and the columns."""
    add = parser.add_argument
    if takes_several:
        text = "CSV or Parquet files, by name or pattern (default: an example table of scikit-learn)"
        add("table", nargs="*", action=_Tables, metavar="TABLE", help=text)
    else:
        add("table", nargs="?", metavar="TABLE", help="CSV or Parquet file (default: an example table of scikit-learn)")
    add("--target", metavar="COL", help="the column to predict")
    add("--task", choices=("auto", CLASSIFICATION, REGRESSION), default="auto", help="the task (default: auto)")
    columns: dict[str, Any] = {"action": "append", "default": [], "metavar": "COLUMNS"}
    add("--drop", "--ignore", help="columns to ignore, separated by commas", **columns)
    add("--categorical", help="numeric columns that hold category codes", **columns)
    add("--weight", metavar="COL", help="a column with the weight of each row")
    text = (
        "frequency: weights count as copies of rows; importance: weights scale the influence of rows; "
        "auto: decide by their size (default)"
    )
    add("--weight-type", choices=WEIGHT_TYPES, default=AUTO, help=text)
    text = "skip rows without a target (default), or stop with an error"
    add("--missing-target", choices=(DROP, ERROR), default=DROP, help=text)
    parser.set_defaults(text=None, reads_words=False)
    add_holdout_options(parser)
    add("--random-state", type=int, default=0, metavar="SEED", help="random seed (default: 0)")
    add_reading_options(parser)


def add_test_fraction(parser: argparse.ArgumentParser) -> None:
    """Add the option --test-fraction, the share of rows to hold out."""
    text = "fraction of rows to hold out (default: 0.2)"
    parser.add_argument("--test-fraction", type=float, default=0.2, metavar="SHARE", help=text)


def read_task(options: argparse.Namespace) -> Task:
    """Read the table of `options` into memory, and return it as a task with features, target and held-out rows."""
    check_task_options(options)
    source, target, title = _read_source(options)
    targets = label_table(source.table, target, options)
    kinds, notes = usable_kinds(targets.table, targets, source.schema, options)
    X = make_features(targets.table, kinds)
    targets = replace(targets, notes=[*targets.notes, *source.notes, *notes])
    columns = targets.table.select([*kinds, target])
    return make_task(targets, Features(title, X, kinds, columns, source.schema), options)


def check_task_options(options: argparse.Namespace) -> None:
    """Raise CommandError if --test-fraction or --random-state is out of range."""
    if not 0 <= options.test_fraction < 1:
        raise CommandError(f"--test-fraction must be at least 0 and less than 1; got {options.test_fraction:g}")
    if not 0 <= options.random_state < 2**32:
        raise CommandError(f"--random-state must be at least 0 and less than 2**32; got {options.random_state}")


def label_table(table: pa.Table, target: str, options: argparse.Namespace) -> LabelledTable:
    """Return rows with a target and a positive weight, their targets and weights; raise CommandError if invalid."""
    column = required_column(table, target, "--target")
    table, notes = drop_missing_targets(table, target, options.missing_target)
    notes += word_notes(column, target, options)
    table, weight = drop_zero_weights(table, options.weight)
    column = table[target]
    task = recognised_task(column) if options.task == "auto" else options.task
    check_target(column, target, task, target in types_from_options(options))
    if target in (options.time_column, options.group):
        raise CommandError(f"--time-column and --group must not name the target, {target!r}")
    y = target_values(column, target, kind_of(column.type), task)
    return LabelledTable(table, target, task, y, weight, notes, Order.from_options(table, options))


def drop_zero_weights(table: pa.Table, name: str | None) -> tuple[pa.Table, NDArray | None]:
    """Return the rows with positive weights in column `name`, and these weights; without a name, all rows and None."""
    weight = weight_values(table, name)
    return (table, None) if weight is None else (table.filter(pa.array(weight > 0)), weight[weight > 0])


def usable_kinds(
    table: pa.Table, targets: LabelledTable, schema: TableSchema, options: argparse.Namespace
) -> tuple[dict[str, str], list[str]]:
    """Return {column: kind} to learn from, and notes; raise CommandError if no column is left."""
    candidates, all_kinds = _candidate_columns(table, targets.name, schema, options)
    kinds, notes = _drop_identifiers(candidates, all_kinds, targets.y, targets.task, types_from_options(options))
    if not kinds:
        raise CommandError("; ".join(["no columns are left for training", *text_notes(schema, all_kinds)]))
    of_target = _task_notes(table[targets.name], targets.name, options.task, targets.task)
    return kinds, [*of_target, *column_notes(all_kinds, schema), *notes]


def make_task(targets: LabelledTable, made: Features, options: argparse.Namespace) -> Task:
    """Return the task for labelled rows and their features, with the held-out rows and the model card."""
    split = HoldoutSplit.for_target(targets.y, options.test_fraction, options.random_state, targets.order)
    kind = kind_of(targets.table[targets.name].type)
    schema = _schema_dict(made.schema, [*made.kinds, targets.name])
    card = ModelCard(targets.name, kind, targets.task, made.kinds, None, split, schema)
    held_out = _mark_held_out(targets, split)
    rows = LabelledRows(made.X, targets.y, targets.weight)
    return Task(made.title, rows, held_out, card, targets.notes, made.columns, targets.order)


def add_text_option(parser: argparse.ArgumentParser) -> None:
    """Add the option --text for columns of free text."""
    text = (
        "learn from the words of this column: only from them with --model text, which is the default with --text, and "
        "next to the other columns with --model boosting and other families of trees, which take several columns, "
        "separated by commas"
    )
    parser.add_argument("--text", metavar="COL", help=text)


def _drop_identifiers(
    table: pa.Table, all_kinds: dict[str, str], y: NDArray, task: str, typed: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    """Return kinds without UNUSABLE columns and likely identifiers, but with all in `typed`; and notes on them."""
    kinds = {name: kind for name, kind in all_kinds.items() if kind != UNUSABLE}
    reasons = {name: identifier_reason(table[name], kind, name) for name, kind in kinds.items() if name not in typed}
    left_out = {
        name: reason
        for name, reason in reasons.items()
        if reason in (NAMES, INDEX) or (reason == DRAWN and is_unrelated(table[name], y, task))
    }
    others = {name: reason for name, reason in reasons.items() if reason in (COUNTER, NAMED)}
    return {name: kind for name, kind in kinds.items() if name not in left_out}, identifier_notes(left_out, others)


def _candidate_columns(
    table: pa.Table, target: str, schema: TableSchema, options: argparse.Namespace
) -> tuple[pa.Table, dict[str, str]]:
    """Return the columns that no option excludes, and their kinds; raise CommandError for invalid names."""
    dropped = {target, options.weight, options.group, *named_columns(options.drop, table, "--drop")}
    words = [] if options.text is None else named_columns([options.text], table, "--text")
    for name in words:
        if kind_of(table[name].type) != TEXT or name in dropped:
            raise CommandError(f"--text must name a text column other than the target; got {name!r}")
    if words and options.model in WITH_TEXT_ONLY:
        if len(words) > 1:
            raise CommandError("--text must name one column, unless --model names a family that reads other columns")
        return table.select(words), {words[0]: WORDS}
    candidates = table.select([name for name in table.column_names if name not in dropped])
    kinds = column_kinds(candidates, named_columns(options.categorical, table, "--categorical"))
    as_given = types_from_options(options)
    texts = [name for name, kind in kinds.items() if kind == TEXT and name not in as_given]
    kinds |= {name: kind for name in texts if (kind := items_kind(candidates[name])) is not None}
    if options.reads_words:
        words += [name for name in texts if schema.text_features.get(name) == "word" and kinds[name] == TEXT]
    return candidates, kinds | dict.fromkeys(words, WORDS)


def _read_source(options: argparse.Namespace) -> tuple[ReadTable, str, str]:
    """Return the table of `options`, its target's name and a title; without a table, use a bundled one.

    Raises CommandError if there is a table but no --target.
    """
    if options.table is None:
        bundled = bundled_table(options.task)
        return ReadTable(bundled.table, TableSchema(), []), options.target or bundled.target, bundled.title
    source = read_with_options(options)
    if options.target is None:
        raise CommandError(f"--target must name the column to predict: {listed(source.table.column_names)}")
    title = options.table if isinstance(options.table, str) else ", ".join(options.table)
    return source, options.target, title


def drop_missing_targets(table: pa.Table, target: str, if_missing: str) -> tuple[pa.Table, list[str]]:
    """Return the rows that have a target, and at most one note on the number of the others.

    Raises CommandError if no row has a target, or if some have none and `if_missing` is ERROR.
    """
    column = required_column(table, target, "--target")
    is_missing = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    n_missing = pc.sum(is_missing).as_py() or 0
    if n_missing == 0:
        return table, []
    rows = f"{n_missing:,} of {len(column):,} rows"
    if if_missing == ERROR:
        raise CommandError(f"the target {target!r} is missing in {rows}. Fill it in, or use --missing-target drop.")
    if n_missing == len(column):
        raise CommandError(f"the target {target!r} is missing in all rows")
    return table.filter(pc.invert(is_missing)), [f"Skipped, because the target {target!r} is missing: {rows}."]


def word_notes(column: pa.ChunkedArray, target: str, options: argparse.Namespace) -> list[str]:
    """Return at most one note: texts of the target, such as None, were read as missing, though they may be classes."""
    if not column.null_count or kind_of(column.type) != TEXT or options.table is None:
        return []
    schema, types = schema_from_options(options)
    schema = replace(schema, columns={**schema.columns, **types, target: Column.given(TEXT)})
    paths = [options.table] if isinstance(options.table, str) else options.table
    written = pa.concat_tables(open_parts(paths, schema, sheet=options.sheet).read([target]))[target]
    words = written.filter(pc.is_null(column).combine_chunks()).drop_null().value_counts().to_pylist()
    words = [pair for pair in words if pair["values"].strip() not in schema.missing]
    if not words:
        return []
    shown = ", ".join(f"{pair['values'].strip()!r} ({counted_rows(pair['counts'])})" for pair in words)
    option = f"--column {shlex.quote(f'{target}:category')}"
    return [f"These words of the target {target!r} are read as missing: {shown}. If they are classes: {option}"]


def named_columns(values: list[str], table: pa.Table, option: str) -> list[str]:
    """Return the column names in the comma-separated `values` of an option; raise CommandError for unknown ones."""
    names = []
    for value in values:
        names += [value] if value in table.column_names else value.split(",")
    for name in names:
        required_column(table, name, option)
    return names


def _mark_held_out(targets: LabelledTable, split: HoldoutSplit) -> NDArray[np.bool_]:
    """Return the mask of rows that `split` holds out; raise CommandError if too few rows or classes remain."""
    y = targets.y
    held_out = split.mark_held_out(y, targets.task, targets.order)
    if targets.task == CLASSIFICATION and targets.order is not None and np.all(y[~held_out] == y[~held_out][:1]):
        raise CommandError(
            f"the training rows have a single class, because rows are held out by {targets.order.name!r}"
        )
    if split.fraction > 0 and not 0 < held_out.sum() < len(y):
        raise CommandError(
            f"{len(y):,} rows are too few to hold some out. Use --test-fraction 0 to train on all of them."
        )
    return held_out


def _task_notes(column: pa.ChunkedArray, target: str, task_option: str, task: str) -> list[str]:
    """Return a note if the task was detected (--task auto) but the target's few distinct integers fit both tasks."""
    n_values = n_distinct(column)
    if task_option != "auto" or not pa.types.is_integer(column.type) or not 2 < n_values <= DOUBTFUL_MAXIMUM:
        return []
    other = REGRESSION if task == CLASSIFICATION else CLASSIFICATION
    return [(f"{target!r} has {n_values} distinct integers and is treated as {task}. For {other}, use --task {other}")]


def _schema_dict(schema: TableSchema, names: list[str]) -> dict[str, Any]:
    """Return the schema of these columns as a dict of plain values."""
    columns = {name: column for name, column in schema.columns.items() if name in names}
    return replace(schema, columns=columns).to_dict()
