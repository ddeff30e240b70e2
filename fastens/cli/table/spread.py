"""Tables in files that the workers of a Dask cluster read: a partition for each file."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.table.errors import CommandError
from fastens.cli.table.large import FeatureReader
from fastens.cli.table.parts import FileRows, open_parts
from fastens.distributed.dask_table import EXTRA
from fastens.engine.threads import resolve_n_jobs
from fastens.files.read import files_of
from fastens.table.sources import Batches, Reader

_LOCAL = "local:"
_SECONDS = 30


@contextmanager
def cluster_at(address: str) -> Iterator[Any]:
    """A client of the cluster at an address, or of so many processes on this machine: "local:4"."""
    try:
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise CommandError(f"--dask: {EXTRA}") from error
    if not address.startswith(_LOCAL):
        try:
            client = Client(address, timeout=_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            rule = "no scheduler answers; it must be at tcp://HOST:PORT, or local:N"
            raise CommandError(f"--dask: {rule}; got {address!r}") from error
        with client:
            yield client
        return
    given = address.removeprefix(_LOCAL)
    if not given.isdecimal() or int(given) == 0:
        raise CommandError(f"--dask: local:N must have a number of processes from 1; got {address!r}")
    threads = max(1, resolve_n_jobs(None) // int(given))
    options = {"dashboard_address": ":0", "silence_logs": logging.ERROR}  # any port that is free
    with (
        LocalCluster(n_workers=int(given), threads_per_worker=threads, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def partitions(files: FileRows, chosen: NDArray[np.bool_], *columns: NDArray[Any] | None) -> list[Any]:
    """Return the chosen rows as delayed tables, one for each file, and columns of these rows divided alike."""
    from dask import delayed

    numbers, paths = files.numbers[chosen], [file for path in files.paths for file in files_of(path)]
    ends = np.cumsum([open_parts([path], files.schema).n_rows for path in paths])
    bounds = np.searchsorted(numbers, ends[:-1])
    firsts = [0, *ends[:-1].tolist()]
    read = delayed(_read, pure=False)
    tables = [
        read(os.path.abspath(path), files, own - first)
        for path, own, first in zip(paths, np.split(numbers, bounds), firsts, strict=True)
    ]
    parts = [None if values is None else list(map(delayed, np.split(values, bounds))) for values in columns]
    return [tables, *parts]


def _read(path: str, files: FileRows, rows: NDArray[np.int64]) -> pa.Table:
    """The features of some of a file's rows."""
    parts = open_parts([path], files.schema)
    read = FeatureReader(parts, files.kinds)
    batches = Batches(Reader(read.schema, read, parts.n_rows))[rows]
    return pa.concat_tables([batches.typed(), *batches.parts()])
