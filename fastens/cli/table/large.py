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

from fastens.cli.table.columns import WITH_TEXT_ONLY, CommandError, listed, make_features
from fastens.cli.table.parts import FileParts, FileRows, open_parts
from fastens.cli.table.reading import check_target_column, check_typed_columns, schema_from_options
from fastens.cli.table.target import required_column
from fastens.cli.table.task import Features, Task, check_task_options, label_table, make_task, usable_kinds
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
        self.schema = make_features(parts.empty, kinds).schema
        self._made = {name: make_features(parts.empty, {name: kind}).column_names for name, kind in kinds.items()}

    def __call__(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield record batches of all rows, with these features."""
        needed = {name: self._kinds[name] for name, made in self._made.items() if not set(made).isdisjoint(columns)}
        for part in self._parts.read(list(needed)):
            yield from make_features(part, needed).select(list(columns)).combine_chunks().to_batches()


def large_task(options: argparse.Namespace) -> Task | None:
    """Return the task of files to read in batches, or None if the table can be loaded completely.

    Files are read in batches if they are large, if workers of a cluster read them, or with --max-memory.
    """
    paths = [options.table] if isinstance(options.table, str) else options.table or []
    is_text_only = options.text is not None and options.model in WITH_TEXT_ONLY
    size = 0 if is_text_only else _batchable_bytes(paths)
    if size == 0 and options.dask is not None:
        raise CommandError("--dask requires CSV or Parquet files and does not support --model text")
    if options.max_memory is not None and options.dask is not None:
        raise CommandError(
            "--max-memory must not be used with --dask, because workers use as much memory as their rows need"
        )
    if size == 0 or (size <= LARGE_BYTES and options.max_memory is None and options.dask is None):
        return None
    check_task_options(options)
    parts = open_parts(paths, *schema_from_options(options))
    check_typed_columns(options, parts.empty.column_names)
    check_target_column(options, parts.empty.column_names, parts.notes)
    if options.target is None:
        raise CommandError(f"--target must name the column to predict: {listed(parts.empty.column_names)}")
    targets = label_table(_read_label_columns(parts, options), options.target, options)
    rows = targets.table[_ROW].to_numpy()
    head = _read_labelled_head(parts, rows)
    kinds, notes = usable_kinds(head, replace(targets, y=targets.y[: head.num_rows]), parts.schema, options)
    read = FeatureReader(parts, kinds)
    X = Batches(Reader(read.schema, read, parts.n_rows))[rows]
    notes = [*targets.notes, *parts.notes, *notes, "The column types were inferred from the first rows."]
    made = Features(", ".join(paths), X, kinds, head.select([*kinds, targets.name]), parts.schema)
    task = make_task(replace(targets, notes=notes), made, options)
    return replace(task, files=FileRows(paths, parts.schema, kinds, rows))


def _batchable_bytes(paths: Sequence[str]) -> int:
    """Return the total size in bytes of files that can be read in batches, or 0 if one of them cannot."""
    try:
        files = [file for path in paths for file in files_of(path)]
        if not set(map(format_of, files)) <= {CSV, PARQUET}:
            return 0
    except TableFileError:
        return 0  # the error is raised when the file is read
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))


def _read_label_columns(parts: FileParts, options: argparse.Namespace) -> pa.Table:
    """Read the columns of target, weight, time and group of all rows, and append row numbers as column _ROW."""
    by_option = {name: getattr(options, name) for name in ("target", "weight", "time_column", "group")}
    needed = {name: column for name, column in by_option.items() if column is not None}
    for option, name in needed.items():
        required_column(parts.empty, name, "--" + option.replace("_", "-"))
    table = pa.concat_tables(parts.read(list(dict.fromkeys(needed.values()))))
    return table.append_column(_ROW, pa.array(np.arange(table.num_rows)))


def _read_labelled_head(parts: FileParts, labelled_rows: NDArray[np.int64]) -> pa.Table:
    """Return rows of the first part, with all columns, whose numbers are in the sorted `labelled_rows`."""
    head = next(parts.read(parts.empty.column_names))
    return head.take(pa.array(labelled_rows[: np.searchsorted(labelled_rows, head.num_rows)]))


_LOCAL = "local:"
_SECONDS = 30


@contextmanager
def connect_cluster(address: str) -> Iterator[Any]:
    """Yield a Dask client of a scheduler, or of N new local processes for "local:N"; raise CommandError if it fails."""
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


def delayed_partitions(files: FileRows, is_chosen: NDArray[np.bool_], *columns: NDArray[Any] | None) -> list[Any]:
    """Return the partitions, one per file, of the features of the chosen rows and of each of `columns`.

    Each partition is a Dask delayed value. `columns` are arrays with a value for each chosen row, or None, which stays
    None.
    """
    from dask import delayed

    numbers, paths = files.numbers[is_chosen], [file for path in files.paths for file in files_of(path)]
    ends = np.cumsum([open_parts([path], files.schema).n_rows for path in paths])
    bounds = np.searchsorted(numbers, ends[:-1])
    firsts = [0, *ends[:-1].tolist()]
    read = delayed(_read_features, pure=False)
    tables = [
        read(os.path.abspath(path), files, of_file - first)
        for path, of_file, first in zip(paths, np.split(numbers, bounds), firsts, strict=True)
    ]
    parts = [None if values is None else list(map(delayed, np.split(values, bounds))) for values in columns]
    return [tables, *parts]


def _read_features(path: str, files: FileRows, rows: NDArray[np.int64]) -> pa.Table:
    """Return the features of the rows at the indices `rows` of one file."""
    parts = open_parts([path], files.schema)
    read = FeatureReader(parts, files.kinds)
    batches = Batches(Reader(read.schema, read, parts.n_rows))[rows]
    return pa.concat_tables([batches.typed(), *batches.parts()])
