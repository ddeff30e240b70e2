"""The data that benchmarks run on: generated tables of any size, and real tables where a folder of them exists."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

SHARED_DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

# The ten tables on which losses are compared: target, whether it is a class, and the columns that give it away.
REAL_TABLES: dict[str, tuple[str, bool, list[str]]] = {
    "adult": ("income", True, ["split"]),
    "bank_marketing": ("y", True, []),
    "electricity": ("class", True, []),
    "higgs_23k": ("label", True, ["source"]),
    "magic_telescope": ("class", True, []),
    "okc": ("Class", True, []),
    "oml_first_order_theorem_proving": ("target", True, []),
    "bike_sharing_hour": ("cnt", False, ["casual", "registered"]),
    "california_housing": ("median_house_value", False, []),
    "diamonds": ("price", False, []),
}


@dataclass(frozen=True)
class Table:
    """Rows with a target; y holds class numbers 0, 1, ... or, for a regression, numbers."""

    name: str
    X: np.ndarray | pd.DataFrame
    y: np.ndarray
    n_classes: int = 0

    @property
    def is_regression(self) -> bool:
        return self.n_classes == 0


def generated(n_rows: int, n_features: int, *, regression: bool = False, seed: int = 0) -> Table:
    """Half bell-shaped and half skewed columns; the target depends on a few, with interactions and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    np.exp(X[:, ::2], out=X[:, ::2])
    signal = (
        X[:, 1] * np.log(X[:, 0]) + np.sin(2 * X[:, 3]) + np.abs(X[:, 5]) - 0.3 * X[:, 2] + 0.5 * (X[:, 7] > X[:, 1])
    )
    if regression:
        return Table("generated", X, signal + rng.standard_normal(n_rows))
    y = signal + rng.logistic(size=n_rows) > np.median(signal)
    return Table("generated", X, y.astype(np.int64), 2)


def data_folder() -> Path | None:
    """FASTENS_DATA, or ../shared/data beside the checkout; None where there is no such folder."""
    folder = Path(os.environ.get("FASTENS_DATA", SHARED_DATA))
    return folder if folder.is_dir() else None


def real(name: str) -> Table:
    """Read one real table: text columns become categories, rows without a target are dropped."""
    folder = data_folder()
    if folder is None:
        raise FileNotFoundError("no real tables: set FASTENS_DATA to a folder of Parquet files")
    target, is_class, left_out = REAL_TABLES[name]
    frame = pd.read_parquet(folder / f"{name}.parquet").dropna(subset=[target])
    X = frame.drop(columns=[target, *left_out])
    for column in X.columns:
        if not pd.api.types.is_numeric_dtype(X[column].dtype):
            X[column] = X[column].astype("category")
    if not is_class:
        return Table(name, X, frame[target].to_numpy(dtype=np.float64))
    y, classes = pd.factorize(frame[target], sort=True)
    return Table(name, X, y.astype(np.int64), len(classes))
