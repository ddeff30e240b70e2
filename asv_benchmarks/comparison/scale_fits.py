"""How each library fits and predicts large tables: fastens, LightGBM and XGBoost by their best ways in."""

from __future__ import annotations

import bisect
import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import fastens
from comparison.scale_files import FEATURES, N_COLUMNS, batches, classes, count_rows, files, groups

N_TREES, N_LEAVES = 20, 31
_TRAINING_ROWS = 200_000
_BATCH_ROWS = 1 << 16


def our_model(n_threads: int) -> fastens.GradientBoostingClassifier:
    return fastens.GradientBoostingClassifier(n_estimators=N_TREES, max_leaf_nodes=N_LEAVES, n_jobs=n_threads)


def lightgbm_parameters(n_threads: int) -> dict[str, Any]:
    return {"objective": "binary", "num_leaves": N_LEAVES, "num_threads": n_threads, "verbose": -1}


def lightgbm_fit(X: Any, y: Any, n_threads: int) -> Any:
    import lightgbm as lgb

    given = lightgbm_parameters(n_threads)
    return lgb.train(given, lgb.Dataset(X, y, params=given), num_boost_round=N_TREES)


def xgboost_parameters(n_threads: int) -> dict[str, Any]:
    return {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": N_LEAVES,
        "max_depth": 0,
        "learning_rate": 0.1,
        "nthread": n_threads,
    }


def xgboost_fit(X: Any, y: Any, n_threads: int) -> Any:
    import xgboost as xgb

    matrix = xgb.QuantileDMatrix(X, y, nthread=n_threads)
    return xgb.train(xgboost_parameters(n_threads), matrix, num_boost_round=N_TREES)


# Fits of files --------------------------------------------------


def ours_of_files(folder: Path, n_threads: int, ceiling: str | None) -> None:
    """Under a ceiling for memory; "files": the least, with codes in files; None: no ceiling."""
    model = our_model(n_threads)
    if ceiling == "files":
        ceiling = fastens.estimate_memory(model, count_rows(folder), N_COLUMNS).in_files
    model.fit(fastens.TableSource(files(folder), max_memory=ceiling, spill_dir=folder), "y")


def lightgbm_of_files(folder: Path, n_threads: int) -> None:
    """By a Sequence: single rows of a sample, then all rows in order; a row group is held at a time."""
    import lightgbm as lgb

    class Rows(lgb.Sequence):
        """The rows of all files."""

        batch_size = _BATCH_ROWS

        def __init__(self) -> None:
            self.groups = groups(folder)
            self.starts = [group.first for group in self.groups]
            self.held, self.X = -1, np.empty((0, N_COLUMNS), np.float32)

        def __len__(self) -> int:
            return self.groups[-1].first + self.groups[-1].n_rows

        def __getitem__(self, rows: Any) -> np.ndarray:
            if isinstance(rows, slice):
                first, end, _ = rows.indices(len(self))
                places = range(self._group_of(first), self._group_of(end - 1) + 1)
                return np.concatenate([self._of_group(place, first, end) for place in places])
            return self._of_group(self._group_of(rows), rows, rows + 1)[0]

        def _group_of(self, row: int) -> int:
            return bisect.bisect_right(self.starts, row) - 1

        def _of_group(self, place: int, first: int, end: int) -> np.ndarray:
            if place != self.held:
                self.held, self.X = place, self.groups[place].read()[0]
            start = self.starts[place]
            return self.X[max(0, first - start) : end - start].astype(np.float64)

    lightgbm_fit(Rows(), classes(folder), n_threads)


def lightgbm_of_table(folder: Path, n_threads: int) -> None:
    """By an Arrow table of all rows."""
    lightgbm_fit(pyarrow.dataset.dataset(files(folder)).to_table(columns=FEATURES), classes(folder), n_threads)


def xgboost_of_files(folder: Path, n_threads: int, *, on_disk: bool) -> None:
    """By batches into a QuantileDMatrix, or into pages on disk."""
    import xgboost as xgb

    class Parts(xgb.DataIter):
        """The batches, as XGBoost reads them."""

        def __init__(self) -> None:
            super().__init__(cache_prefix=str(folder / "pages") if on_disk else None)
            self.rows = batches(folder)

        def reset(self) -> None:
            self.rows = batches(folder)

        def next(self, input_data: Callable[..., Any]) -> bool:
            found = next(self.rows, None)
            if found is not None:
                input_data(data=found[0], label=found[1])
            return found is not None

    kind = xgb.ExtMemQuantileDMatrix if on_disk else xgb.QuantileDMatrix
    xgb.train(xgboost_parameters(n_threads), kind(Parts(), nthread=n_threads), num_boost_round=N_TREES)


# Predictions of files --------------------------------------------------


def some_rows(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train the model that predicts."""
    X, y = next(batches(folder))
    return X[:_TRAINING_ROWS], y[:_TRAINING_ROWS]


def _scanned(folder: Path) -> Any:
    return pyarrow.dataset.dataset(files(folder)).scanner(columns=FEATURES, batch_size=_BATCH_ROWS).to_reader()


def _write(parts: Iterator[Any], folder: Path) -> None:
    """Write a column of predictions, part by part, to a file that goes again."""
    path = folder / "predicted.out"
    schema = pa.schema({"prediction": pa.float32()})
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for part in parts:
            writer.write_table(pa.table([pa.array(part, pa.float32())], schema=schema))
    path.unlink()


def _rows_of(batch: Any) -> np.ndarray:
    return np.column_stack([column.to_numpy() for column in batch.columns])


def reader_of(folder: Path) -> Callable[[], None]:
    """Reading alone, and a column written: what no prediction can be faster than."""
    return lambda: _write((batch.column(0) for batch in _scanned(folder)), folder)


def our_predictor(folder: Path, n_threads: int) -> Callable[[], None]:
    X, y = some_rows(folder)
    model = our_model(n_threads).fit(pa.table(dict(zip(FEATURES, X.T, strict=True))), y)

    def predict() -> None:
        found = model.predict_proba(_scanned(folder))
        _write((batch.column(1).cast(pa.float32()) for batch in found), folder)

    return predict


def our_command(folder: Path, n_threads: int) -> Callable[[], None]:
    """The command line, in a process of its own that starts and imports what it needs."""
    model, out = folder / "model.fastens", folder / "predicted.parquet"
    # A process begins with the peak of memory of the one that starts it, which must not have trained.
    training = multiprocessing.get_context("spawn").Process(target=_save_model, args=(folder, model, n_threads))
    training.start()
    training.join()
    command = [sys.executable, "-m", "fastens", "predict", str(model), *map(str, files(folder)), "-o", str(out)]

    def predict() -> None:
        subprocess.run(command, check=True, capture_output=True)
        out.unlink()
        model.unlink()

    return predict


def _save_model(folder: Path, path: Path, n_threads: int) -> None:
    X, y = some_rows(folder)
    our_model(n_threads).fit(pa.table(dict(zip(FEATURES, X.T, strict=True))), y).save(path)


def lightgbm_predictor(folder: Path, n_threads: int) -> Callable[[], None]:
    model = lightgbm_fit(*some_rows(folder), n_threads)
    return lambda: _write((model.predict(_rows_of(batch), num_threads=n_threads) for batch in _scanned(folder)), folder)


def xgboost_predictor(folder: Path, n_threads: int) -> Callable[[], None]:
    model = xgboost_fit(*some_rows(folder), n_threads)
    return lambda: _write((model.inplace_predict(_rows_of(batch)) for batch in _scanned(folder)), folder)
