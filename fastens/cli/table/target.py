"""The target column: its task, values and checks, and the bundled example tables."""

from __future__ import annotations

import difflib
import shlex
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.utils import Bunch

from fastens.cli.table.columns import BOOLEAN, NUMBER, TEXT, CommandError, convert_column, kind_of, listed, n_distinct
from fastens.files.formats import example_of
from fastens.files.numbers import NumberFormat, mixed_units, number_format, whole_numbers

CLASSIFICATION, REGRESSION = "classification", "regression"
# Integers with at most this number of distinct values are classes; --task overrides it.
CLASSES_MAXIMUM = 10
# Numbers with fewer rows per distinct value than this are not classes.
MIN_OF_CLASS = 4

# Texts are unlikely to be classes if this share looks like numbers, or if more than `MANY_CLASSES` have few rows each.
LOOKS_LIKE_NUMBERS = 0.5
MANY_CLASSES, FEW_ROWS = 50, 10


def recognised_task(column: pa.ChunkedArray) -> str:
    """Return CLASSIFICATION for texts, booleans, few integers or two whole numbers; else REGRESSION."""
    kind = kind_of(column.type)
    if kind in (TEXT, BOOLEAN):
        return CLASSIFICATION
    if kind != NUMBER:
        return REGRESSION
    distinct = column.drop_null().unique()
    if pa.types.is_integer(column.type):
        return CLASSIFICATION if len(distinct) <= CLASSES_MAXIMUM else REGRESSION
    return (
        CLASSIFICATION
        if len(distinct) <= 2 and all(float(value).is_integer() for value in distinct.to_pylist())
        else REGRESSION
    )


def check_target(column: pa.ChunkedArray, name: str, task: str, is_typed: bool = False) -> None:
    """Raise CommandError if the target cannot be learned, or if its values are unlikely to be classes.

    If an option sets the type of the column (`is_typed`), texts may be numerous classes or look like numbers.
    """
    kind = kind_of(column.type)
    if kind not in (NUMBER, TEXT, BOOLEAN):
        raise CommandError(f"the target {name!r} must hold classes or numbers; got {column.type}")
    if task == REGRESSION and kind == TEXT:
        raise CommandError(f"the target {name!r} must hold numbers for regression; got text ({column[0].as_py()!r})")
    n_classes = n_distinct(column)
    if task == CLASSIFICATION and n_classes < 2:
        only = column[0].as_py()
        raise CommandError(f"the target {name!r} must have at least two classes; got only {only!r}")
    if task == CLASSIFICATION and pa.types.is_floating(column.type) and not whole_numbers(column.chunks):
        raise CommandError(
            f"the target {name!r} has {n_classes:,} distinct non-integer numbers, which are unlikely to be classes. "
            f"Use --task regression, or --column {name}:category if each number is a class"
        )
    if task == CLASSIFICATION and kind == NUMBER and n_classes > max(CLASSES_MAXIMUM, len(column) // MIN_OF_CLASS):
        raise CommandError(
            f"the target {name!r} has {n_classes:,} distinct numbers in {len(column):,} rows, which are too "
            f"many for classes. Use --task regression, or --column {name}:category if each number is a class"
        )
    if task == CLASSIFICATION and kind == TEXT and (not is_typed or n_classes > len(column) // 2):
        _check_classes(column, name, n_classes)
    if task == CLASSIFICATION and kind == TEXT and n_classes > len(column) // 2:
        raise CommandError(
            f"the target {name!r} has {n_classes:,} classes in {len(column):,} rows, which look like names. Choose "
            "another target."
        )


def _check_classes(column: pa.ChunkedArray, name: str, n_classes: int) -> None:
    """Raise CommandError if text classes are unlikely: many that look like numbers or have few rows each."""
    option = f"--column {shlex.quote(name)}:category"
    distinct = column.cast(pa.string()).unique().drop_null()
    style, share = number_format(distinct)
    is_plain = style == NumberFormat() and share == 1  # deliberate text, such as codes with leading zeros
    is_like_numbers = share >= LOOKS_LIKE_NUMBERS or mixed_units(distinct)
    if n_classes > CLASSES_MAXIMUM and is_like_numbers and not is_plain:
        odd = distinct.filter(pc.invert(style.fits(distinct)))
        others = f", except {listed(odd.slice(0, 9).to_pylist(), 3)}" if len(odd) else ""
        raise CommandError(
            f"the target {name!r} must hold numbers or few classes; got {n_classes:,} texts that look like "
            f"numbers{others}. To read numbers and skip other rows, use --column {shlex.quote(name)}:number; "
            f"if each text is a class, use {option}"
        )
    if n_classes > MANY_CLASSES and len(column) < FEW_ROWS * n_classes and n_classes <= len(column) // 2:
        raise CommandError(
            f"the target {name!r} must have more rows for each class; got {n_classes:,} classes in {len(column):,} "
            f"rows. Merge rare classes or choose another target; if these are classes, use {option}"
        )


def target_values(column: pa.ChunkedArray, name: str, kind: str, task: str) -> NDArray:
    """Return targets: float64 for regression, else strings, booleans or numbers; raise CommandError if infinite."""
    values = convert_column(column, name, kind)
    if task == REGRESSION:
        y = np.asarray(values.cast(pa.float64(), safe=False).to_numpy())
        if n_infinite := np.count_nonzero(np.isinf(y)):
            raise CommandError(
                f"the target {name!r} must be finite; it is infinite in {n_infinite:,} of {len(y):,} rows"
            )
        return y
    return np.asarray(values.to_numpy(), dtype=object if kind == TEXT else None)


def weight_values(table: pa.Table, name: str | None) -> NDArray | None:
    """Return the weights in column `name`, or None if it is None; raise CommandError if they are invalid."""
    if name is None:
        return None
    column = required_column(table, name, "--weight")
    if kind_of(column.type) not in (NUMBER, BOOLEAN):
        raise CommandError(f"--weight must name a column of numbers; {name!r} holds {example_of(column)!r}")
    weights = np.asarray(convert_column(column, name, NUMBER).cast(pa.float64(), safe=False).to_numpy())
    if not np.all(np.isfinite(weights)) or weights.min() < 0 or weights.max() == 0:
        raise CommandError(f"the weights in {name!r} must be finite, non-negative and not all zero")
    return weights


def required_column(table: pa.Table, name: str, option: str) -> pa.ChunkedArray:
    """Return column `name`; if it is absent, raise CommandError that names `option` and similar columns."""
    if name not in table.column_names:
        close = difflib.get_close_matches(name, table.column_names)
        hint = f"Did you mean {listed(close)}?" if close else f"The columns are {listed(table.column_names)}."
        raise CommandError(f"{option} must name a column of the table; got {name!r}. {hint}")
    return table[name]


@dataclass(frozen=True)
class BundledTable:
    """An example table with the name of its target and a title."""

    table: pa.Table
    target: str
    title: str


def bundled_table(task: str) -> BundledTable:
    """Return the diabetes table for regression, and the breast cancer table for all other tasks."""
    from sklearn.datasets import load_breast_cancer, load_diabetes

    if task == REGRESSION:
        title = "diabetes: 442 patients, disease progression after one year (bundled with scikit-learn)"
        return BundledTable(_bunch_to_table(load_diabetes(scaled=False), "progression", None), "progression", title)
    title = "breast cancer: 569 tumours, malignant or benign (bundled with scikit-learn)"
    data = load_breast_cancer()
    return BundledTable(_bunch_to_table(data, "diagnosis", data.target_names), "diagnosis", title)


def _bunch_to_table(data: Bunch, target: str, class_names: NDArray | None) -> pa.Table:
    """Return a scikit-learn data set as a table, with its target as the last column, by class names if given."""
    columns = {name: data.data[:, i] for i, name in enumerate(data.feature_names)}
    values = data.target if class_names is None else [str(class_names[label]) for label in data.target]
    return pa.table({**columns, target: values})
