"""Discrete attributes: declared values, bins of numeric columns, and codes for distinct values."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.base import BaseClassifier, Capabilities
from fastens.bayes.counts.counting import CODE_DTYPES, CodedRows, encode, encode_all, family_counts
from fastens.engine.bins.binning import learn_binning
from fastens.engine.comm import LOCAL, Comm
from fastens.engine.names import plain_name
from fastens.engine.parts import CONVERTED_BLOCK, ConvertedRows, RowSource, as_array
from fastens.table.arrays import dense
from fastens.table.columns.factorize import is_missing, sorted_categories, without_same
from fastens.table.encoder import InputEncoder
from fastens.table.parted import move_positions
from fastens.table.tables import ArrayTable, Table, table_over

Array = NDArray[np.float64]
Values = list[Any] | None  # values of a column; None if they are not declared
Limits = list[Array | None]  # upper bin edges of each column except the last; None for categorical columns
WHOLE_FLOAT32 = 1 << 24  # smaller integers are exact in float32


def as_floats(X: Any) -> Any:
    """Convert a numeric array to floats for binning, to float32 if all values are small integers, which are exact.

    Floats are returned unchanged, and large arrays as rows that are converted in blocks.
    """
    if X.dtype.kind == "f":
        return X
    if isinstance(X, np.ndarray) and X.size > CONVERTED_BLOCK:
        return ConvertedRows.of_array(X)
    is_small = X.size == 0 or -WHOLE_FLOAT32 < X.min() <= X.max() < WHOLE_FLOAT32
    return X.astype(np.float32 if is_small else np.float64)


def learn_limits(
    X: Any,
    weights: Array | None,
    max_bins: int,
    is_categorical: NDArray[np.bool_],
    n_threads: int = 1,
    comm: Comm = LOCAL,
) -> Limits:
    """Return the bin edges of each numeric column: quantiles, or midpoints between distinct values if they are few.

    Categorical columns have None. The edges do not depend on the number of threads.
    """
    if is_categorical.all():
        return [None] * len(is_categorical)
    binning = learn_binning(as_floats(X), weights, max_bins, is_categorical, n_threads, comm)
    return [None if kind else limits for kind, limits in zip(is_categorical, binning.thresholds, strict=True)]


def binned(X: NDArray[Any], limits: Limits) -> NDArray[Any]:
    """Return a table of floats whose columns with edges hold bin positions; NaN and other columns are unchanged."""
    if all(edges is None for edges in limits):
        return X
    out = np.array(X, dtype=np.float64, order="F")
    for index, edges in enumerate(limits):
        if edges is not None:
            column = out[:, index]
            out[:, index] = np.where(np.isnan(column), np.nan, np.searchsorted(edges, column) if edges.size else 0.0)
    return out


def bin_names(limits: Array) -> list[str]:
    """Return the names of the bins between the upper edges `limits`, such as "<= 1", "1 to 2" and "> 2"."""
    if not limits.size:
        return ["any"]
    ends = [f"{limit:g}" for limit in limits]
    if len(set(ends)) < len(ends):
        ends = [repr(limit) for limit in limits.tolist()]
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    return [f"<= {ends[0]}", *between, f"> {ends[-1]}"]


def sizes_of(categories: Sequence[Values], limits: Limits) -> NDArray[np.int64]:
    """Return the number of categories or bins of each column."""
    pairs = zip(categories, limits, strict=True)
    return np.array([len(c or ()) if edges is None else len(edges) + 1 for c, edges in pairs], dtype=np.int64)


def limits_to_arrays(limits: Limits) -> dict[str, NDArray[Any]]:
    """Convert bin edges to arrays for saving."""
    edges = [np.zeros(0) if each is None else each for each in limits]
    return {
        "limits": np.concatenate([np.zeros(0), *edges]),
        "n_limits": np.array([-1 if each is None else len(each) for each in limits], dtype=np.int64),
    }


def limits_from_arrays(arrays: dict[str, NDArray[Any]], is_categorical: NDArray[np.bool_]) -> Limits:
    """Restore bin edges from the arrays of `limits_to_arrays`; raise ValueError if they are malformed."""
    limits, counts = arrays["limits"], arrays["n_limits"]
    if counts.shape != is_categorical.shape or not np.array_equal(counts < 0, is_categorical):
        raise ValueError("the limits of the bins are malformed")
    if limits.dtype != np.float64 or limits.shape != (np.maximum(counts, 0).sum(),):
        raise ValueError("the limits of the bins are malformed")
    parts = np.split(limits, np.cumsum(np.maximum(counts, 0))[:-1])
    if not all((np.diff(part) > 0).all() for part in parts):
        raise ValueError("the limits of the bins are malformed")
    return [None if kind else part for kind, part in zip(is_categorical, parts, strict=True)]


def declared_values(X: Any) -> list[Values]:
    """Return the values that each column's dtype declares, None for other columns; empty if no column does."""
    return table_over(X).declared_values()


def specified_values(states: Mapping[str, Sequence[Any]], encoder: InputEncoder, names: Sequence[str]) -> list[Values]:
    """Return the values of each column that the user specifies, in the specified order; `names` are the column names.

    Raises
    ------
    ValueError
        If a column does not exist or is not categorical, the list is empty or has duplicates, or the column holds other
        values.
    """
    out: list[Values] = [None] * len(names)
    positions: dict[Any, int] = {name: index for index, name in enumerate(names)}
    positions |= {name: index for index, name in enumerate(encoder.names or ())}
    for name, values in states.items():
        if plain_name(name) not in positions:
            raise ValueError(f"states must name columns of X, {list(names)}; got {name!r}.")
        index = positions[plain_name(name)]
        observed = encoder.categories[index]
        if observed is None:
            raise ValueError(
                f"states must name categorical columns; {name!r} is numerical, and max_bins sets its bins."
            )
        listed = distinct_values(f"states[{name!r}]", values)
        among = set(listed)
        unknown = [value for value in observed if value not in among]
        if unknown:
            raise ValueError(
                f"Column {name!r} must hold values of states[{name!r}], {listed}; it holds {unknown[0]!r}."
            )
        out[index] = listed
    return out


def distinct_values(name: str, values: Any) -> list[Any]:
    """Return the values of a column that a user specifies as a list.

    Raises ValueError, which names the argument `name`, unless they are distinct strings, numbers or booleans.
    """
    is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    listed = [value.item() if isinstance(value, np.generic) else value for value in values] if is_list else []
    is_plain = all(isinstance(value, str | bool | int | float) and not is_missing(value) for value in listed)
    if not listed or not is_plain or len(set(listed)) < len(listed):
        raise ValueError(
            f"{name} must be a list of distinct strings, numbers or booleans without missing values; got {values!r}."
        )
    return listed


def with_values(
    encoder: InputEncoder, rows: NDArray[Any], declared: Sequence[Values], first: int = 0, *, in_order: bool = False
) -> tuple[InputEncoder, NDArray[Any]]:
    """Add declared values to the categories of an encoder and recode `rows`; the arguments are not modified.

    `rows` holds positions of categories, or codes in which `first` is the first category and smaller codes are missing.
    Categories are sorted. If `in_order` is True, they are the declared values in their order. `declared` may be empty
    if no column declares values.
    """
    categories = list(encoder.categories)
    changed = [index for index, more in enumerate(declared) if _adds_values(categories[index], more, in_order=in_order)]
    if not changed:
        return encoder, rows
    old_categories = [categories[index] or [] for index in changed]
    for index, old in zip(changed, old_categories, strict=True):
        more = list(declared[index] or [])
        categories[index] = more if in_order else sorted_categories([*old, *more], str(index))
    largest = max(len(values or ()) for values in categories)
    rows = np.array(rows, dtype=_widen_dtype(rows.dtype, largest), order="F")
    for index, old in zip(changed, old_categories, strict=True):
        move_positions(rows[:, index], old, categories[index] or [], first)
    return with_categories(encoder, categories), rows


def with_categories(encoder: InputEncoder, categories: list[list[Any] | None]) -> InputEncoder:
    """Return a copy of the encoder with other categories."""
    changed = copy.copy(encoder)
    changed.categories = categories
    return changed


def _adds_values(observed: list[Any] | None, declared: Values, *, in_order: bool) -> bool:
    """Return True if declared values change the categories of a column, which were `observed`.

    They do if one is new or, with `in_order`, if the two lists differ. Columns without either list do not change.
    """
    if observed is None or declared is None:
        return False
    return observed != list(declared) if in_order else not set(declared) <= set(observed)


def _widen_dtype(dtype: np.dtype[Any], largest: int) -> np.dtype[Any]:
    """Return the narrowest unsigned type, at least as wide as `dtype`, that holds codes up to `largest` + 1.

    Types that are not unsigned are returned unchanged.
    """
    if dtype.kind != "u":
        return dtype
    return next(wider for wider in CODE_DTYPES if wider >= dtype and largest + 1 <= np.iinfo(wider).max)


Codes = NDArray[np.int64]
LARGEST_PLAIN = 65_000
MISSING = -1  # unseen values have this code too, because they satisfy no constraint on the attribute


class CategoricalInput(BaseClassifier):
    """Base class of classifiers that treat all columns as categorical; values become positions, or NaN."""

    _capabilities = Capabilities(supports_binned=False, predicts_row_sources=False)
    _holds = "codes"
    categorical_features: Any = "all"  # a constant rather than a parameter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags

    def _learn_table(self, X: Any) -> Any:
        """Learn the categories of all columns and return `X` as category positions, with NaN for missing values."""
        try:
            rows = super()._learn_table(dense(X))
        except TypeError as error:  # an unhashable value, such as a dict
            raise TypeError(f"Each argument must be a string or a number, like the values of X; {error}.") from error
        return as_array(rows) if isinstance(rows, RowSource) else rows

    def _check_table(self, X: Any) -> Any:
        """Return `X` as category positions, with NaN for missing and unseen values."""
        return super()._check_table(dense(X))


class CodedInput(CategoricalInput):
    """Base class of classifiers on categorical columns whose values become codes: 0 if missing, p + 1 for position p.

    If every column of a NumPy array holds the integers from 0, its values already are positions.
    """

    @property
    def _reads_codes(self) -> bool:  # type: ignore[override]
        return self.categorical_features == "all"

    def _learn_table(self, X: Any) -> Any:
        """Learn the categories and return `X` as codes of shape (n_samples, n_features), 0 if missing.

        If some columns are numeric, return category positions and numbers instead, with NaN for missing values.
        """
        if self._is_integer_matrix(X):
            return super()._learn_table(ArrayTable(X))
        is_whole_table = self._comm.size == 1 and self._reads_codes and is_numeric_matrix(X)
        coded = _codes_of_ranges(X, self._encoder_threads()) if is_whole_table else None
        if coded is None:
            return super()._learn_table(X)
        codes, categories = coded
        self._encoder = InputEncoder(None, categories)
        self._set_columns()
        return codes.T

    def _check_table(self, X: Any) -> Any:
        """Return `X` as codes, or as category positions and numbers, in the form of `_learn_table`.

        A NumPy array is encoded directly if the categories of every column are 0, 1, ... .
        """
        if is_numeric_matrix(X) and X.shape[1] == getattr(self, "n_features_in_", -1) and not self._encoder.names:
            sizes = [len(values or ()) for values in self._encoder.categories]
            if all(values == list(range(size)) for values, size in zip(self._encoder.categories, sizes, strict=True)):
                return encode(X, np.array(sizes, dtype=np.int64), self._encoder_threads()).codes.T
        return super()._check_table(ArrayTable(X) if self._as_fitted()._is_integer_matrix(X) else X)

    def _is_integer_matrix(self, X: Any) -> bool:
        """Return True if `X` is an integer array of categorical columns, which floats may not represent exactly."""
        return self._reads_codes and is_numeric_matrix(X) and X.dtype.kind != "f"


def is_numeric_matrix(X: Any, kinds: str = "iuf") -> bool:
    """Return True if `X` is a non-empty aligned NumPy matrix, not a subclass, with one of these dtype kinds."""
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in kinds and X.flags.aligned and X.size > 0


def _codes_of_ranges(X: NDArray[Any], n_threads: int) -> tuple[NDArray[Any], list[list[Any] | None]] | None:
    """Return the codes of X, (n_features, n_samples), and the categories 0 to maximum of each column.

    Return None unless every column holds each integer from 0 to its maximum, which is at most `LARGEST_PLAIN`.
    """
    coded = encode_all(X, n_threads)
    if coded.faults.any() or coded.largest.max() > LARGEST_PLAIN:
        return None
    sizes = coded.largest + 1
    counts = family_counts(CodedRows(coded.codes, sizes, None, n_threads), [(column,) for column in range(len(sizes))])
    if not all(count.size and count.all() for count in counts):
        return None
    as_value = float if X.dtype.kind == "f" else int
    return coded.codes, [list(map(as_value, range(size))) for size in sizes.tolist()]


class DiscreteClassifier(CategoricalInput):
    """Base class of classifiers on categorical columns whose values become integer codes, -1 if missing or unseen."""

    def _learn_table(self, X: Any) -> Codes:
        """Learn the categories and return `X` as integer codes, -1 if missing."""
        codes = as_codes(super()._learn_table(X))
        declared = getattr(self, "categories", None)
        if declared is not None:
            return self._declare(declared, codes)
        self._encoder, codes = with_values(self._encoder, codes, declared_values(X))
        return codes

    def _check_table(self, X: Any) -> Codes:
        """Return `X` as integer codes, -1 if missing or unseen."""
        return as_codes(super()._check_table(X))

    def _declare(self, declared: Sequence[Sequence[Any]], codes: Codes) -> Codes:
        """Set the categories to `declared`, a list of values for each column, and return the codes for them.

        `codes` are indices of the learned categories. Raises ValueError if `declared` is invalid or lacks a learned
        value.
        """
        if not isinstance(declared, Sequence) or isinstance(declared, str):
            raise ValueError(f"categories must be None or a list of the values of each column; got {declared!r}.")
        listed = [distinct_values(f"categories[{j}]", values) for j, values in enumerate(declared)]
        learned = self._encoder.categories
        if len(listed) != len(learned):
            raise ValueError(f"categories must list the values of all {len(learned)} columns; got {len(listed)} lists.")
        _check_declared(listed, learned)
        for j, (values, seen) in enumerate(zip(listed, learned, strict=True)):
            code_of = {value: position for position, value in enumerate(values)}
            position = np.array([code_of[value] for value in seen or []] + [MISSING])
            codes[:, j] = position[codes[:, j]]
        self._encoder = with_categories(self._encoder, listed)  # type: ignore[arg-type]
        return codes

    def _extend_table(self, X: Any) -> Codes:
        """Encode a table like `_check_table`, but add new values as categories.

        Raises ValueError for new values if the user declared the categories.
        """
        X = dense(X)
        table = self._encoder.matched(X, type(self).__name__)
        encoder = extend_encoder(self._encoder, table)
        if getattr(self, "categories", None) is not None:
            _check_declared(self._encoder.categories, encoder.categories)
            return self._check_table(X)
        self._encoder = encoder
        if declared := table.declared_values():
            self._encoder = self._encoder.with_more_categories(declared)
        return self._check_table(X)

    def _attribute_sizes(self) -> tuple[int, ...]:
        """Return the number of values of each attribute."""
        return tuple(len(values) for values in self._encoder.categories if values is not None)


def _check_declared(declared: Sequence[Any], learned: Sequence[Any]) -> None:
    """Raise ValueError if a column has a learned value that is not among its declared values."""
    for j, (values, seen) in enumerate(zip(declared, learned, strict=True)):
        among = set(values)
        unknown = [value for value in seen or [] if value not in among]
        if unknown:
            raise ValueError(f"Column {j} holds {unknown[0]!r}, which is not in categories[{j}]: {values!r}.")


def as_codes(positions: NDArray[np.floating]) -> Codes:
    """Convert positions of categories to integers, with NaN as `MISSING`."""
    return np.where(np.isnan(positions), MISSING, positions).astype(np.int64)


def extend_encoder(encoder: InputEncoder, table: Table) -> InputEncoder:
    """Return an encoder extended by the new values of a table; positions of old values are unchanged."""
    if len(table) != len(encoder.categories):
        return encoder  # the caller raises the error
    categories: list[list[Any] | None] = []
    for before, present in zip(encoder.categories, table.learn_categories(list(range(len(table)))), strict=True):
        old = list(before or [])
        categories.append(old + sorted(without_same(present or [], old), key=lambda v: (str(type(v)), v)))
    return with_categories(encoder, categories)
