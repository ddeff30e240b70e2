"""How much memory models that count take: their tables of counts, and a batch of rows or the codes of all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from fastens.bayes.counts.count_cube import MAX_NUMBERS
from fastens.bayes.counts.families import MOST_CELLS
from fastens.table.memory_limits import MemoryNeeds, TableShape, bytes_to_read, needs_without_files
from fastens.table.sources import BATCH_ROWS, BATCH_VALUES

# Bytes of a count: in the model with its logarithm; with what these are made of.
_KEPT = 16
_COUNTED = 24
# Of a category: as an object, in a list, and in a dictionary, twice.
_CATEGORY = 200
# Of a value of a batch, as a position and a code; of moments of a block of rows for each class and column.
_CODED = 24
_MOMENTS = 24
_MOMENT_ROWS, _MOMENT_VALUES = 1 << 14, 1 << 22
# Of a row: its class as a whole number.
_LABEL = 4
# Of a cell of pairs, what its count and logarithm are made of; of a cell of three columns.
_PAIRS = 16
_TRIPLES = 12
# Of a row's value among the codes of all rows: those of batches, and put together.
_CODES = 2
# Of a row's value while attributes are compared: as a float, a whole number, and sorted.
_COMPARED = 40
# Of a text whose words are counted, and of each of its letters.
_TEXT = 400
_OF_TEXT = 30
TEXTS_AT_ONCE = 1 << 12
# Questions about a column of categories.
MOST_QUESTIONS = 64
# Of an answer of each row, and of a row of a batch; of a cell of a cube, and its class; of sets of attributes.
_ANSWER, _NEW_ANSWER = 3, 10
_CUBE = 40
_SETS, _MOST_SETS = 4, 1 << 27
# Of a network's families that are counted at a time, for each cell; the most of them, and of a family, as
# `family_scores` has them. Of a row of which a variable is missing.
_FAMILY = 56
_MOST_FAMILIES, _DENSE = 1 << 22, 1 << 16
_HIDDEN = 24


def naive_bayes_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit of naive Bayes takes."""
    counts = classes_of(shape) * (shape.values(2) + 1).sum()
    kept = _KEPT * counts + _categories(shape)
    held = _COUNTED * counts + _LABEL * shape.n_rows + _CODED * _block_values(shape)
    if hasattr(model, "var_smoothing"):
        block_rows = max(1, min(_MOMENT_ROWS, _MOMENT_VALUES // shape.n_columns))
        held += _MOMENTS * classes_of(shape) * shape.n_columns * math.ceil(shape.n_rows / block_rows)
    return needs_without_files(shape, model, held, kept)


def pairs_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit takes that counts every two columns, of some models every three."""
    values = shape.values(model.max_bins) + 2
    pairs = classes_of(shape) * values.sum() ** 2
    triples = pairs * values.sum() / 2 if getattr(model, "order", 1) == 2 else 0
    kept = _KEPT * pairs + _TRIPLES * triples + _categories(shape)
    held = _PAIRS * pairs + shape.n_rows * (_LABEL + _CODES * _code(values) * shape.n_columns)
    held += _CODED * _block_values(shape)
    return needs_without_files(shape, model, held, kept, _binning(shape, model))


def network_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit of a Bayesian network takes."""
    values = np.append(shape.values(model.max_bins or 2), max(2, shape.n_outputs))
    largest = np.sort(values)[::-1]
    cells = min(float(MOST_CELLS), largest[: _most_parents(model) + 1].prod()) * len(values)
    counted = min(_MOST_FAMILIES, max(min(cells, _DENSE * len(values)), len(values) ** 2 * largest[:2].prod()))
    pairs = classes_of(shape) * (values + 1).sum() ** 2 if model.structure in ("chow-liu", "tan", "kdb") else 0
    kept = _KEPT * cells + _categories(shape)
    held = _FAMILY * counted + (_PAIRS + _KEPT) * pairs
    floats = 3 * shape.value_bytes if model.max_bins else 0
    held += shape.n_rows * (_HIDDEN + len(values) * (2 * _code(values) + floats)) + _CODED * _block_values(shape)
    return needs_without_files(shape, model, held, kept, _binning(shape, model) if floats else 0)


def _most_parents(model: Any) -> int:
    """How many parents a variable of a network has at most."""
    given = model.structure
    if isinstance(given, str):
        return {"chow-liu": 1, "tan": 2}.get(given, model.max_parents)
    if isinstance(given, Mapping):
        return max((1 if isinstance(own, str | int) else len(own) for own in given.values()), default=0)
    return max(Counter(child for _, child in given).values(), default=0)


def texts_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit to texts takes; a value is a term, and its bytes are those of a text."""
    n_terms = shape.values(1).sum()
    kept = (_KEPT * classes_of(shape) + _CATEGORY) * n_terms
    held = (_COUNTED * classes_of(shape) + _CATEGORY) * n_terms + _LABEL * shape.n_rows
    held += min(shape.n_rows, TEXTS_AT_ONCE) * (_TEXT + _OF_TEXT * shape.value_bytes)
    return needs_without_files(shape, model, held, kept)


def version_space_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit of a version space takes: that of all conjunctions has a cube."""
    values = shape.values(2)
    if model.noise > 0 or model.on_collapse in ("noise", "max-consistent"):
        space = _CUBE * 2 * min((values + 1).prod(), MAX_NUMBERS)
    else:
        space = _SETS * min(_MOST_SETS, 2.0 ** (min(shape.n_columns, 60) - 3))
    return needs_without_files(shape, model, _COMPARED * shape.n_rows * shape.n_columns + space, _categories(shape))


def tree_average_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit takes that answers questions for all rows, and has a cube of some of them."""
    values = shape.values(np.nan)
    asked = 1 + np.where(np.isnan(values), model.n_thresholds, np.minimum(values, MOST_QUESTIONS)).sum()
    cube = _CUBE * classes_of(shape) * 3.0 ** min(model.max_questions, asked)
    held = shape.n_rows * (_ANSWER * asked + _COMPARED * shape.n_columns) + _CODED * _block_values(shape)
    held += _NEW_ANSWER * asked * _block_values(shape) / shape.n_columns
    return needs_without_files(shape, model, held, cube + _categories(shape))


def classes_of(shape: TableShape) -> int:
    """How many classes there are: two have one raw prediction."""
    return max(2, shape.n_outputs)


def _binning(shape: TableShape, model: Any) -> float:
    """What bins are learned from, where there are columns of numbers."""
    return bytes_to_read(shape, model)["learning"] if np.isnan(shape.values(np.nan)).any() else 0


def _code(values: Any) -> int:
    return 1 if values.max(initial=0) < 1 << 8 else 2 if values.max() < 1 << 16 else 4


def _block_values(shape: TableShape) -> int:
    if shape.n_stored is not None:
        return 0
    return min(shape.n_rows, BATCH_ROWS, max(1, BATCH_VALUES // shape.n_columns)) * shape.n_columns


def _categories(shape: TableShape) -> float:
    return _CATEGORY * float(shape.values(0).sum())
