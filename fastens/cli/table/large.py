"""Tables that are larger than memory, and data sets of several files."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.table.columns import WITH_TEXT_ONLY, CommandError, features, listed
from fastens.cli.table.parts import FileParts, FileRows, open_parts
from fastens.cli.table.reading import check_given_columns, check_target_column, given_schema
from fastens.cli.table.target import required
from fastens.cli.table.task import Features, Task, check_task_options, targets_of, task_of, usable_kinds
from fastens.distributed.dask_table import EXTRA
from fastens.engine.threads import resolve_n_jobs
from fastens.files import TableFileError
from fastens.files.formats import CSV, PARQUET, format_of
from fastens.files.read import files_of
from fastens.table.sources import Batches, Reader

# Files with more bytes than this are read in batches; a table needs about four times its file size in memory.
LARGE_BYTES = 1 << 27
_ROW = "\0row"


class FeatureReader:
    """A reader of the features of a table, batch by batch."""

    def __init__(self, parts: FileParts, kinds: dict[str, str]) -> None:
        self._parts, self._kinds = parts, kinds
        self.schema = features(parts.empty, kinds).schema
        self._made = {name: features(parts.empty, {name: kind}).column_names for name, kind in kinds.items()}

    def __call__(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of some features."""
        needed = {name: self._kinds[name] for name, made in self._made.items() if not set(made).isdisjoint(columns)}
        for part in self._parts.read(list(needed)):
            yield from features(part, needed).select(list(columns)).combine_chunks().to_batches()


def large_task(options: argparse.Namespace) -> Task | None:
    """Return the task if files are large, read by a cluster or subject to --max-memory, and None otherwise.

    All other files are loaded completely.
    """
    paths = [options.table] if isinstance(options.table, str) else options.table or []
    is_text_only = options.text is not None and options.model in WITH_TEXT_ONLY
    size = 0 if is_text_only else _bytes_in_batches(paths)
    if size == 0 and options.dask is not None:
        raise CommandError("--dask requires CSV or Parquet files and does not support --model text")
    if options.max_memory is not None and options.dask is not None:
        raise CommandError(
            "--max-memory must not be used with --dask, because workers use as much memory as their rows need"
        )
    if size == 0 or (size <= LARGE_BYTES and options.max_memory is None and options.dask is None):
        return None
    check_task_options(options)
    parts = open_parts(paths, *given_schema(options))
    check_given_columns(options, parts.empty.column_names)
    check_target_column(options, parts.empty.column_names, parts.notes)
    if options.target is None:
        raise CommandError(f"--target must name the column to predict: {listed(parts.empty.column_names)}")
    targets = targets_of(_row_targets(parts, options), options.target, options)
    rows = targets.table[_ROW].to_numpy()
    head = _head(parts, rows)
    kinds, notes = usable_kinds(head, replace(targets, y=targets.y[: head.num_rows]), parts.schema, options)
    read = FeatureReader(parts, kinds)
    X = Batches(Reader(read.schema, read, parts.n_rows))[rows]
    notes = [*targets.notes, *parts.notes, *notes, "The column types were inferred from the first rows."]
    made = Features(", ".join(paths), X, kinds, head.select([*kinds, targets.name]), parts.schema)
    task = task_of(replace(targets, notes=notes), made, options)
    return replace(task, files=FileRows(paths, parts.schema, kinds, rows))


def _bytes_in_batches(paths: Sequence[str]) -> int:
    """Return the total size of files that can be read in batches, or 0 if one of them cannot."""
    try:
        files = [file for path in paths for file in files_of(path)]
        if not set(map(format_of, files)) <= {CSV, PARQUET}:
            return 0
    except TableFileError:
        return 0  # the error is raised when the file is read
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))


def _row_targets(parts: FileParts, options: argparse.Namespace) -> pa.Table:
    """Return the columns of targets, weights, times and groups, with the row numbers."""
    by_option = {name: getattr(options, name) for name in ("target", "weight", "time_column", "group")}
    needed = {name: column for name, column in by_option.items() if column is not None}
    for option, name in needed.items():
        required(parts.empty, name, "--" + option.replace("_", "-"))
    table = pa.concat_tables(parts.read(list(dict.fromkeys(needed.values()))))
    return table.append_column(_ROW, pa.array(np.arange(table.num_rows)))


def _head(parts: FileParts, rows: NDArray[np.int64]) -> pa.Table:
    """Return the rows of the first part that have a target, with all columns."""
    head = next(parts.read(parts.empty.column_names))
    return head.take(pa.array(rows[: np.searchsorted(rows, head.num_rows)]))


_LOCAL = "local:"
_SECONDS = 30


@contextmanager
def cluster_at(address: str) -> Iterator[Any]:
    """Connect to the cluster at an address, or start local processes: 4 for "local:4"."""
    try:
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise CommandError(f"--dask: {EXTRA}") from error
    if not address.startswith(_LOCAL):
        try:
            client = Client(address, timeout=_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            rule = "it must be the address of a scheduler, tcp://HOST:PORT, or local:N; no scheduler answers"
            raise CommandError(f"--dask: {rule}; got {address!r}") from error
        with client:
            yield client
        return
    n_processes = address.removeprefix(_LOCAL)
    if not n_processes.isdecimal() or int(n_processes) == 0:
        raise CommandError(f"--dask local:N must have at least one process; got {address!r}")
    threads = max(1, resolve_n_jobs(None) // int(n_processes))
    options = {"dashboard_address": ":0", "silence_logs": logging.ERROR}  # any free port
    with (
        LocalCluster(n_workers=int(n_processes), threads_per_worker=threads, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def partitions(files: FileRows, chosen: NDArray[np.bool_], *columns: NDArray[Any] | None) -> list[Any]:
    """Return the chosen rows as delayed tables, one per file, and the given columns in matching partitions."""
    from dask import delayed

    numbers, paths = files.numbers[chosen], [file for path in files.paths for file in files_of(path)]
    ends = np.cumsum([open_parts([path], files.schema).n_rows for path in paths])
    bounds = np.searchsorted(numbers, ends[:-1])
    firsts = [0, *ends[:-1].tolist()]
    read = delayed(_read, pure=False)
    tables = [
        read(os.path.abspath(path), files, of_file - first)
        for path, of_file, first in zip(paths, np.split(numbers, bounds), firsts, strict=True)
    ]
    parts = [None if values is None else list(map(delayed, np.split(values, bounds))) for values in columns]
    return [tables, *parts]


def _read(path: str, files: FileRows, rows: NDArray[np.int64]) -> pa.Table:
    """Read the features of some rows of a file."""
    parts = open_parts([path], files.schema)
    read = FeatureReader(parts, files.kinds)
    batches = Batches(Reader(read.schema, read, parts.n_rows))[rows]
    return pa.concat_tables([batches.typed(), *batches.parts()])
