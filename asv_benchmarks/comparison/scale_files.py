"""Parquet files of any number of rows: written block by block, and read so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_COLUMNS = 28
FEATURES = [f"x{i}" for i in range(N_COLUMNS)]
GROUP_ROWS = 1 << 18
FILE_ROWS = 5_000_000


def files(folder: Path) -> list[Path]:
    """The files in order."""
    return sorted(folder.glob("part*.parquet"))


def count_rows(folder: Path) -> int:
    """Rows of all files, by their footers."""
    return sum(pq.ParquetFile(path).metadata.num_rows for path in files(folder))


def write_files(folder: Path, n_rows: int) -> None:
    """Write files of float32 columns and a class, a row group at a time; files that are whole are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, n_rows, FILE_ROWS)):
        path, n = folder / f"part{number:04d}.parquet", min(FILE_ROWS, n_rows - first)
        if path.exists() and pq.ParquetFile(path).metadata.num_rows == n:
            continue
        new = path.with_suffix(".new")
        # Numbers that are drawn have no repetition to be found.
        with pq.ParquetWriter(new, _group(0, 0, 0).schema, use_dictionary=False, compression="none") as writer:
            for group, start in enumerate(range(0, n, GROUP_ROWS)):
                writer.write_table(_group(number, group, min(GROUP_ROWS, n - start)), GROUP_ROWS)
        new.replace(path)
    if (found := count_rows(folder)) != n_rows:
        raise SystemExit(f"{folder} must have files of {n_rows} rows, or none; it has files of {found}")


def _group(number: int, group: int, n: int) -> pa.Table:
    rng = np.random.default_rng([number, group])
    X = rng.standard_normal((N_COLUMNS, n), dtype=np.float32)
    signal = X[0] + X[1] * X[2] + np.sin(2 * X[3]) + rng.standard_normal(n, dtype=np.float32)
    return pa.table(dict(zip(FEATURES, X, strict=True)) | {"y": (signal > 0).astype(np.int8)})


class Group:
    """A row group of a file, and where it begins among all rows."""

    def __init__(self, path: Path, number: int, first: int, n_rows: int) -> None:
        self.path, self.number, self.first, self.n_rows = path, number, first, n_rows

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and classes."""
        table = pq.ParquetFile(self.path).read_row_group(self.number)
        X = np.column_stack([table.column(name).to_numpy() for name in FEATURES])
        return X, table.column("y").to_numpy().astype(np.float32)


def groups(folder: Path) -> list[Group]:
    """All row groups in order."""
    found, first = [], 0
    for path in files(folder):
        metadata = pq.ParquetFile(path).metadata
        for number in range(metadata.num_row_groups):
            n = metadata.row_group(number).num_rows
            found.append(Group(path, number, first, n))
            first += n
    return found


def batches(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and classes, a row group at a time."""
    return (group.read() for group in groups(folder))


def classes(folder: Path) -> np.ndarray:
    """The classes of all rows."""
    columns = (pq.ParquetFile(path).read(["y"]).column("y").to_numpy() for path in files(folder))
    return np.concatenate([column.astype(np.float32) for column in columns])


def in_one_array(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """All rows; each batch is dropped once it is copied."""
    n_rows, first = count_rows(folder), 0
    X, y = np.empty((n_rows, N_COLUMNS), np.float32), np.empty(n_rows, np.float32)
    for part, labels in batches(folder):
        X[first : first + len(part)], y[first : first + len(part)] = part, labels
        first += len(part)
    return X, y
