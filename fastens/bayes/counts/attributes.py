"""Input of models over discrete attributes: every distinct value of a column is a value of the attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.base import BaseClassifier
from fastens.bayes.counts.counting import encode, encode_all
from fastens.bayes.counts.declared import declared_values, distinct_values, with_categories, with_values
from fastens.bayes.counts.families import CodedRows, family_counts
from fastens.table.arrays import ArrayTable, dense
from fastens.table.at_sight import AtSight
from fastens.table.columns.spellings import without_same
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.frames import is_frame
from fastens.table.memory_limits import FitNeeds
from fastens.table.tables import Table

Codes = NDArray[np.int64]
LARGEST_PLAIN = 65_000
MISSING = -1  # also a value that was not there in fit: no constraint on the attribute holds for it


class CategoricalInput(BaseClassifier):
    """A classifier whose columns all hold categories, numbers too; rows become positions, or NaN."""

    _fits_codes = False
    _reads_parts = False
    categorical_features: Any = "all"  # not a parameter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags

    def _learn_table(self, X: Any, needs: FitNeeds | None = None) -> Any:
        if sparse.issparse(X) and needs is not None and (limits := getattr(X, "limits", None)) is not None:
            needs.place(limits, X)
        try:
            rows = super()._learn_table(dense(X), needs)
        except TypeError as error:  # a value without a hash, such as a dict
            raise TypeError(f"Each argument must be a string or a number, as a value of X; {error}.") from error
        if isinstance(rows, AtSight):
            rows = rows.whole()
            self._set_columns()
        return rows

    def _check_table(self, X: Any) -> Any:
        return super()._check_table(dense(X))


class CodedInput(CategoricalInput):
    """The same, but rows become codes: 0 where a value is missing, p + 1 for position p.

    A NumPy array in which every column holds the whole numbers from 0 on holds positions already.
    """

    @property
    def _reads_codes(self) -> bool:  # type: ignore[override]
        return self.categorical_features == "all"

    def _reading(self) -> Reading:
        return super()._reading()._replace(at_sight=not self._reads_codes)

    def _learn_table(self, X: Any, needs: FitNeeds | None = None) -> Any:
        if self._is_whole(X):
            return super()._learn_table(ArrayTable(X), needs)
        is_whole_table = self._comm.size == 1 and self._reads_codes and _holds_numbers(X)
        found = _ranges_of(X, self._encoder_threads()) if is_whole_table else None
        if found is None:
            return super()._learn_table(X, needs)
        codes, categories = found
        self._encoder = InputEncoder(None, categories)
        self._set_columns()
        return codes.T

    def _check_table(self, X: Any) -> Any:
        if _holds_numbers(X) and X.shape[1] == getattr(self, "n_features_in_", -1) and not self._encoder.names:
            sizes = [len(found or ()) for found in self._encoder.categories]
            if all(found == list(range(size)) for found, size in zip(self._encoder.categories, sizes, strict=True)):
                return encode(X, np.array(sizes, dtype=np.int64), self._encoder_threads()).codes.T
        return super()._check_table(ArrayTable(X) if self._as_fitted()._is_whole(X) else X)

    def _is_whole(self, X: Any) -> bool:
        """Whether `X` is an array of whole numbers that become codes: as floats, large ones would not be exact."""
        return self._reads_codes and _holds_numbers(X) and X.dtype.kind != "f"


def _holds_numbers(X: Any) -> bool:
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "iuf" and X.flags.aligned and X.size > 0


def _ranges_of(X: NDArray[Any], n_threads: int) -> tuple[NDArray[Any], list[list[Any] | None]] | None:
    """Codes, and for each column the numbers from 0 to its largest; None where one is missing or others are there."""
    found = encode_all(X, n_threads)
    if found.faults.any() or found.largest.max() > LARGEST_PLAIN:
        return None
    sizes = found.largest + 1
    counts = family_counts(CodedRows(found.codes, sizes, None, n_threads), [(column,) for column in range(len(sizes))])
    if not all(count.size and count.all() for count in counts):
        return None
    as_value = float if X.dtype.kind == "f" else int
    return found.codes, [list(map(as_value, range(size))) for size in sizes.tolist()]


class DiscreteClassifier(CategoricalInput):
    """The same with integer codes, -1 for missing and unseen."""

    def _learn_table(self, X: Any, needs: FitNeeds | None = None) -> Codes:
        codes = as_codes(super()._learn_table(X, needs))
        declared = getattr(self, "categories", None)
        if declared is not None:
            return self._declare(declared, codes)
        self._encoder, codes = with_values(self._encoder, codes, declared_values(X))
        return codes

    def _check_table(self, X: Any) -> Codes:
        return as_codes(super()._check_table(X))

    def _declare(self, declared: Sequence[Sequence[Any]], codes: Codes) -> Codes:
        """Take the attributes' values as the user lists them; those of the table must be among them."""
        if not isinstance(declared, Sequence) or isinstance(declared, str):
            raise ValueError(f"categories must be None or a list of the values of each column; got {declared!r}.")
        found = [distinct_values(f"categories[{j}]", values) for j, values in enumerate(declared)]
        learned = self._encoder.categories
        if len(found) != len(learned):
            raise ValueError(f"categories must list the values of all {len(learned)} columns; got {len(found)} lists.")
        _check_declared(found, learned)
        for j, (values, seen) in enumerate(zip(found, learned, strict=True)):
            place = {value: position for position, value in enumerate(values)}
            position = np.array([place[value] for value in seen or []] + [MISSING])
            codes[:, j] = position[codes[:, j]]
        self._encoder = with_categories(self._encoder, found)  # type: ignore[arg-type]
        return codes

    def _extend_table(self, X: Any) -> Codes:
        """As `_check_table`, but values not seen so far become new categories, or raise where these are declared."""
        X = dense(X)
        table = self._encoder.matched(X, type(self).__name__)
        found = extended(self._encoder, table)
        if getattr(self, "categories", None) is not None:
            _check_declared(self._encoder.categories, found.categories)
            return self._check_table(X)
        self._encoder = found
        if declared := declared_values(table if is_frame(X) else X):
            self._encoder = self._encoder.with_more_categories(declared)
        return self._check_table(X)

    def _attribute_sizes(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self._encoder.categories if values is not None)


def _check_declared(declared: Sequence[Any], found: Sequence[Any]) -> None:
    """Raise ValueError where a column holds a value that is not among those declared."""
    for j, (values, seen) in enumerate(zip(declared, found, strict=True)):
        among = set(values)
        unknown = [value for value in seen or [] if value not in among]
        if unknown:
            raise ValueError(f"Column {j} holds {unknown[0]!r}, which is not in categories[{j}]: {values!r}.")


def as_codes(positions: NDArray[np.floating]) -> Codes:
    """Positions of categories as integers, NaN as `MISSING`."""
    return np.where(np.isnan(positions), MISSING, positions).astype(np.int64)


def extended(encoder: InputEncoder, table: Table) -> InputEncoder:
    """An encoder that knows the new values of a table too; the positions of the old ones stay."""
    if len(table) != len(encoder.categories):
        return encoder  # the caller raises
    categories: list[list[Any] | None] = []
    for known, found in zip(encoder.categories, table.learn_categories(list(range(len(table)))), strict=True):
        old = list(known or [])
        categories.append(old + sorted(without_same(found or [], old), key=lambda v: (str(type(v)), v)))
    return with_categories(encoder, categories)
