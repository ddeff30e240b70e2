"""Real tables that come with scikit-learn, for a first run without one's own table and without a network."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils import Bunch

from fastens.cli.table.target import REGRESSION


@dataclass(frozen=True)
class BundledTable:
    """A table, the column to predict, and what it is."""

    table: pa.Table
    target: str
    title: str


def bundled_table(task: str) -> BundledTable:
    """Tumours for classification (and by default), diabetes for regression."""
    from sklearn.datasets import load_breast_cancer, load_diabetes

    if task == REGRESSION:
        title = "diabetes: 442 patients, how far the disease went in a year (bundled with scikit-learn)"
        return BundledTable(_table(load_diabetes(scaled=False), "progression", None), "progression", title)
    title = "breast cancer: 569 tumours, malignant or benign (bundled with scikit-learn)"
    data = load_breast_cancer()
    return BundledTable(_table(data, "diagnosis", data.target_names), "diagnosis", title)


def _table(data: Bunch, target: str, class_names: NDArray | None) -> pa.Table:
    columns = {name: data.data[:, i] for i, name in enumerate(data.feature_names)}
    values = data.target if class_names is None else [str(class_names[label]) for label in data.target]
    return pa.table({**columns, target: values})
