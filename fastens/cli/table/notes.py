"""Notes on columns, and detection of identifiers, which are left out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import stats

from fastens.cli.table.columns import DATE, ITEMS, NUMBER, TEXT, TIMESTAMP, UNUSABLE, WORDS, kind_of, listed, n_distinct
from fastens.cli.table.target import CLASSIFICATION
from fastens.files import TableSchema
from fastens.files.numbers import number_format, whole_numbers

# A text column is an identifier if at least this share of its values is distinct and it has at least this many values.
IDENTIFIER_SHARE = 0.95
IDENTIFIER_MINIMUM = 50
NAMES, COUNTER, DRAWN = "a distinct value in nearly every row", "a row number", "random numbers"
INDEX, NAMED = ("an unnamed row index", "a distinct number in each row, and the name of an identifier")
# Names that programs give to the index of a table or to unnamed columns, and words that mark names of identifiers.
INDEX_NAME = re.compile(
    r"|X|(?i:unnamed: ?\d+(_level_\d+)?|column ?1|index|level_0|\.\.\.1|_c0|row[ _.]?(names?|index|num|number))"
)
INDEX_MINIMUM, INDEX_STEPS = 10, 0.5
ID_WORD = re.compile(
    "id|ids|uid|uuid|guid|key|index|idx|serial|respondent|record|case|observation|fid|oid|objectid|rowid|caseid|respid|"
    "kennung|lfdnr|laufnummer|nummer|identifiant|identificador|folio|number|no|nr|num|code|ref"
)
GROUP_WORD = re.compile("id|uid|uuid|respondent|subject|patient|customer|client|user|member|household|person")
GROUP_MINIMUM = 20
SAMPLE = 1000
# The significance level of the tests below: random values are misjudged in one of a hundred tables.
LEVEL, KOLMOGOROV = 0.01, 1.63


def identifier_reason(column: pa.ChunkedArray, kind: str, name: str) -> str | None:
    """Return why a column appears to identify rows; None if it does not.

    NAMES means that nearly all texts are distinct, INDEX a row index by name and values; see
    `_numeric_identifier_reason` for COUNTER, DRAWN and NAMED.
    """
    n_values = len(column) - column.null_count
    if kind == NUMBER and kind_of(column.type) == NUMBER:
        has_index_name = n_values >= INDEX_MINIMUM and INDEX_NAME.fullmatch(name.strip())
        if has_index_name and _is_row_index(column):
            return INDEX
        return _numeric_identifier_reason(column, name) if n_values >= IDENTIFIER_MINIMUM else None
    if kind != TEXT or n_values < IDENTIFIER_MINIMUM:
        return None
    is_own = n_distinct(column) >= IDENTIFIER_SHARE * n_values
    return NAMES if is_own and not _are_mostly_numbers(_cast_to_text(column)) else None


def _numeric_identifier_reason(column: pa.ChunkedArray, name: str) -> str | None:
    """Return why a column of distinct integers appears to identify rows; None if it does not.

    COUNTER means consecutive numbers, DRAWN uniformly random ones, and NAMED a column name such as "customer id".
    """
    n_values = len(column) - column.null_count
    is_whole = pa.types.is_integer(column.type) or whole_numbers(column.drop_null().cast(pa.float64()).chunks)
    if n_distinct(column) < n_values or not is_whole:
        return None
    words = to_words(name)
    named = NAMED if "id" in words or any(map(ID_WORD.fullmatch, words[-1:])) else None
    if not pa.types.is_integer(column.type) or column.null_count:
        return named
    limits = pc.min_max(column).as_py()
    if limits["max"] - limits["min"] == n_values - 1:
        return COUNTER
    values = np.asarray(column.to_numpy())
    # Integers beyond 2^53 are subtracted before the conversion, so the differences stay exact.
    return DRAWN if _is_drawn_at_random((values - values.min()).astype(np.float64)) else named


def _is_row_index(column: pa.ChunkedArray) -> bool:
    """Return True if numbers are integers that nearly always grow from row to row, mostly by one."""
    values = np.asarray(column.drop_null().cast(pa.float64(), safe=False).to_numpy())
    steps = np.diff(values)
    return bool(np.all(values == np.floor(values)) and np.mean(steps == 1) >= INDEX_STEPS and np.mean(steps > 0) > 0.9)


def to_words(name: str) -> list[str]:
    """Return the lower-case words of a column name, split at spaces, underscores, other signs and capitals."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^0-9A-Za-z]+", " ", name)
    return re.sub(r"(?<=[A-Z])(?=[A-Z][a-z])", " ", spaced).lower().split()


def is_group(column: pa.ChunkedArray, kind: str, name: str) -> bool:
    """Return True if a column is named like an identifier and its values have at least two rows on average."""
    if kind not in (TEXT, NUMBER) or not _is_group_name(to_words(name)) or pa.types.is_floating(column.type):
        return False
    return GROUP_MINIMUM <= n_distinct(column) <= (len(column) - column.null_count) / 2


def _is_group_name(words: list[str]) -> bool:
    """Return True if a name's words denote things, as in "patient number" or "shop id", not "age of the patient"."""
    is_own = [GROUP_WORD.fullmatch(word) or ID_WORD.fullmatch(word) or word == "name" for word in words]
    return any(map(GROUP_WORD.fullmatch, words)) and (all(is_own) or words[-1] in ("id", "uid", "uuid"))


def _are_mostly_numbers(texts: pa.ChunkedArray) -> bool:
    """Return True if at least half, but not all, of the distinct texts are numbers: a column to be repaired."""
    share = number_format(texts.slice(0, SAMPLE).unique().drop_null())[1]
    return 0.5 <= share < 1


def _cast_to_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cast a column of categories, which may be numbers, to strings."""
    return column.cast(pa.string())


def _is_drawn_at_random(values: NDArray[np.float64]) -> bool:
    """Return True if distinct numbers are uniform by a Kolmogorov-Smirnov test and not sorted."""
    steps = np.diff(values)
    if (steps > 0).all() or (steps < 0).all():
        return False
    ordered = np.sort(values)
    shares = (ordered - ordered[0]) / (ordered[-1] - ordered[0])
    distance = np.abs(shares - np.linspace(0, 1, len(shares))).max()
    return bool(distance < KOLMOGOROV / np.sqrt(len(values)))


def is_unrelated(column: pa.ChunkedArray, y: NDArray, task: str) -> bool:
    """Return True if numbers are unrelated to the target by a rank test (Kruskal-Wallis or Spearman).

    If all targets are equal, as in the first rows of a table that is sorted by the target, the result is False because
    the relation is unknown.
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


def range_text(low: float, high: float, name: str, middle: float) -> str:
    """Return "LOW to HIGH, NAME MIDDLE" with six digits, or with 15 if six do not separate the limits."""
    digits = 6 if low == high or f"{low:.6g}" != f"{high:.6g}" else 15
    return f"{low:.{digits}g} to {high:.{digits}g}, {name} {middle:.{digits}g}"


def column_notes(kinds: Mapping[str, str], schema: TableSchema) -> list[str]:
    """Return notes on columns that were left out or converted, by the kind of each column."""
    notes = []
    left_out = [name for name, kind in kinds.items() if kind == UNUSABLE]
    if left_out:
        notes.append(f"Ignored, because they are empty or hold nested values: {listed(left_out)}.")
    dates = [name for name, kind in kinds.items() if kind in (DATE, TIMESTAMP)]
    if dates:
        notes.append(f"Dates, split into day, month, day of month, weekday and hour: {listed(dates)}.")
    lists = [name for name, kind in kinds.items() if kind.startswith(ITEMS)]
    if lists:
        option = "--column " + shlex.quote(f"{lists[0]}:category")
        notes.append(
            f"Lists of items, split into one column for each item: {listed(lists)}. To use them as "
            f"categories, use {option}"
        )
    return notes + text_notes(schema, kinds)


def text_notes(schema: TableSchema, kinds: Mapping[str, str]) -> list[str]:
    """Return notes on columns of free text: those with kind WORDS are split into words, those with TEXT are not."""
    columns = [name for name, analyzer in schema.text_features.items() if analyzer == "word"]
    split, others = ([name for name in columns if kinds.get(name) == kind] for kind in (WORDS, TEXT))
    notes = []
    if split:
        option = "--column " + shlex.quote(f"{split[0]}:category")
        notes.append(f"Free text, split into words: {listed(split)}. To use it as categories, use {option}")
    if others:
        notes.append(f"Free text: {listed(others)}. To learn from its words, use --model boosting or --model forest")
    return notes


def identifier_notes(ignored: Mapping[str, str], kept: Mapping[str, str]) -> list[str]:
    """Return notes on identifiers; both arguments map names of columns, ignored or kept, to their reasons."""
    notes = []
    for reason in dict.fromkeys(ignored.values()):
        names = [name for name, each in ignored.items() if each == reason]
        option = "--column " + shlex.quote(f"{names[0]}:{'category' if reason == NAMES else 'number'}")
        notes.append(f"Ignored as identifiers, {reason}: {listed(names)}. To train on one anyway, use {option}")
    for reason in dict.fromkeys(kept.values()):
        names = [name for name, each in kept.items() if each == reason]
        what = "because they are row numbers" if reason == COUNTER else reason
        option = "--drop " + shlex.quote(",".join(names))
        notes.append(f"These look like identifiers, {what}: {listed(names)}. To ignore them, use {option}")
    return notes
