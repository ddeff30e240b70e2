"""Tables that are read as they stand, and those made wide: grey values at half the resolution, words of texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks.datasets import Table
from comparison.category_tables import Task, read

# Of 784 columns: a tree on more takes minutes to prune.
MAX_WIDE_ROWS = 5_000
WORDS = 300
# Tables of fewer rows are split into folds five times.
SMALL = 1_000


def read_wide(name: str, task: Task) -> Table:
    """A table of choice: see `posterior_tables`."""
    if name == "mnist":
        return read(name, task, MAX_WIDE_ROWS)
    if name == "mnist_14":
        return _halved(read("mnist", task, 2 * MAX_WIDE_ROWS))
    table = read(name, task)
    return _words(table) if name.startswith("text_") else table


def _halved(table: Table) -> Table:
    """Images of half as many pixels a side, each the mean of four."""
    pixels = table.X.to_numpy(np.float64)
    means = pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    return Table("mnist_14", pd.DataFrame(means), table.y, table.n_classes)


def _words(table: Table) -> Table:
    """Whether each of the words that are in the most texts is in a text."""
    found = CountVectorizer(binary=True, max_features=WORDS).fit_transform(table.X["text"].astype(str))
    return Table(table.name, pd.DataFrame(found.toarray().astype(np.int8)), table.y, table.n_classes)


def quarters(table: Table) -> Table:
    """The classes of a table of numbers: which quarter of them a row's number is in."""
    place = np.searchsorted(np.quantile(table.y, [0.25, 0.5, 0.75]), table.y)
    classes, y = np.unique(place, return_inverse=True)
    return Table(table.name, table.X, y, len(classes))
