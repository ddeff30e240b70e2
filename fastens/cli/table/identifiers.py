"""Columns that only tell rows apart, and columns of free text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import stats

from fastens.cli.table.columns import NUMBER, TEXT, n_distinct
from fastens.cli.table.target import CLASSIFICATION
from fastens.files.numbers import number_format

# A text column is an identifier when at least this share of its values is distinct, of this many or more.
IDENTIFIER_SHARE = 0.95
IDENTIFIER_MINIMUM = 50
NAMES, COUNTER, DRAWN = "a value of its own in nearly every row", "it counts the rows", "numbers drawn at random"
# Free text has so many words in a cell on average, and at least this share of its cells is distinct.
TEXT_WORDS, TEXT_SHARE = 6.0, 0.5
SAMPLE = 1000
# The level of the tests below: what is drawn at random looks otherwise once in a hundred tables.
LEVEL, KOLMOGOROV = 0.01, 1.63


def identifier(column: pa.ChunkedArray, kind: str) -> str | None:
    """Why a column seems to do nothing but tell rows apart; None where it does not."""
    n_values = len(column) - column.null_count
    if n_values < IDENTIFIER_MINIMUM:
        return None
    if kind == TEXT:
        is_own = n_distinct(column) >= IDENTIFIER_SHARE * n_values
        return NAMES if is_own and not _is_spoilt_number(_texts(column)) else None
    if kind != NUMBER or not pa.types.is_integer(column.type) or column.null_count or n_distinct(column) < n_values:
        return None
    limits = pc.min_max(column).as_py()
    if limits["max"] - limits["min"] == n_values - 1:
        return COUNTER
    values = np.asarray(column.to_numpy())
    # Differences of numbers beyond 2^53 are as good as those of others.
    return DRAWN if _drawn_at_random((values - values.min()).astype(np.float64)) else None


def _is_spoilt_number(texts: pa.ChunkedArray) -> bool:
    """Whether texts are numbers but for some odd cells: what is to be mended, not left out."""
    share = number_format(texts.slice(0, SAMPLE).unique().drop_null())[1]
    return 0.5 <= share < 1


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts as they are, or numbers that stand for categories, as text."""
    return column.cast(pa.string())


def _drawn_at_random(values: NDArray[np.float64]) -> bool:
    """Whether different numbers spread evenly (by Kolmogorov and Smirnov), and neither rise nor fall with the rows."""
    steps = np.diff(values)
    if (steps > 0).all() or (steps < 0).all():
        return False
    ordered = np.sort(values)
    shares = (ordered - ordered[0]) / (ordered[-1] - ordered[0])
    distance = np.abs(shares - np.linspace(0, 1, len(shares))).max()
    return bool(distance < KOLMOGOROV / np.sqrt(len(values)))


def is_unrelated(column: pa.ChunkedArray, y: NDArray, task: str) -> bool:
    """Whether numbers have nothing to do with a target, by their ranks (Kruskal & Wallis; Spearman).

    Of one target alone, such as the first rows of a table may have that is sorted by it, it is not known: False.
    """
    if np.all(y == y[:1]):
        return False
    values = np.asarray(column.to_numpy()).astype(np.float64)
    if task == CLASSIFICATION:
        codes = np.unique(y, return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        groups = np.split(values[order], np.flatnonzero(np.diff(codes[order])) + 1)
        return bool(stats.kruskal(*groups).pvalue > LEVEL)
    return bool(stats.spearmanr(values, y).pvalue > LEVEL)


def words_per_cell(column: pa.ChunkedArray) -> float:
    """The mean number of words of free text; 0 where a column of texts holds categories or names."""
    present = _texts(column.drop_null())
    if not len(present) or n_distinct(present) < TEXT_SHARE * len(present):
        return 0.0
    # Between blanks, so that an address of the web is one word.
    n_words = pc.mean(pc.count_substring_regex(present.slice(0, SAMPLE), pattern=r"\S*\w\S*")).as_py()
    return float(n_words) if n_words >= TEXT_WORDS else 0.0
