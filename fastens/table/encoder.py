"""Encoder that maps the named columns and categories of a table to rows of floats or of codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import LOCAL, Comm, shared
from fastens.engine.grow.growth import ColumnLookup, constrained_columns
from fastens.engine.names import are_positions, from_state, texts_of, to_state
from fastens.engine.parts import CONVERTED_BLOCK, ConvertedRows, MappedRows, is_coded
from fastens.engine.rows.sampling import canonical
from fastens.engine.threads import cached_property, in_threads, threads_for
from fastens.params.options import Texts
from fastens.table.arrays import dense
from fastens.table.columns.blocks import code_categories, code_whole_numbers
from fastens.table.columns.dates import DAY, PARTS, append_date_parts, part_name
from fastens.table.columns.expanded import Expanded, Words, cells_of, expanded_from, learn_expanded
from fastens.table.columns.factorize import (
    NARROW_TYPES,
    FactorizedColumn,
    distinct_lists,
    is_missing,
    require_state,
    without_same,
)
from fastens.table.columns.numbers import AnyColumn, Floats, numbers_of
from fastens.table.few_rows import MAX_ROWS, FewRows
from fastens.table.opening import open_table
from fastens.table.tables import BLOCK_GRAIN, Table, column_positions, join_dates, table_over
from fastens.table.target_statistics import Terms
from fastens.warn import warn

# Larger category positions are not exact in float32.
_FLOAT32_WHOLE = 1 << 24
_MAX_STORED = 0.5  # a CSR matrix needs 12 bytes for each stored value, and an array 8 bytes for each value
_LISTS = ("repeated", "dates", "ordered")


def _is_float32(column: AnyColumn) -> bool:
    """Return True if a column of a table has the type float32."""
    return not isinstance(column, FactorizedColumn) and column.dtype == (
        nw.Float32 if isinstance(column, nw.Series) else np.float32
    )


def _min_rows(comm: Comm) -> int:
    """Return the minimum number of rows of a table: 1, or 0 with several ranks, some of which may have no rows."""
    return 1 if comm.size == 1 else 0


@shared
def _open_shared(X: Any, owner: str, min_rows: int) -> Table:
    """Return the training table X as a Table, which is opened once for all models that are fitted on it together."""
    return open_table(X, owner, min_rows)


# The encoder --------------------------------------------------


class Reading(NamedTuple):
    """Options that determine how an estimator reads tables."""

    categorical_features: Any = "from_dtype"
    missing_is_category: bool = False
    unseen_is_error: bool = False
    as_codes: bool = False
    splits_dates: bool = False  # if True, a column of dates becomes several numeric columns
    monotonic_cst: Any = None  # date columns with a monotonic constraint are not split
    exact_integers: bool = False  # if True, integer columns that floats cannot represent exactly are categorical
    text_features: Any = None  # columns of texts, or Texts
    splits_lists: bool = False  # if True, a column of lists becomes several numeric columns


class InputEncoder:
    """Encoder of tables as rows of floats, learned from the columns and categories of a training table.

    A categorical column is encoded as the positions of its values in the sorted list of its categories. Missing values
    become NaN, and categories that were not seen in `fit` become `unseen`, which is NaN by default.

    Attributes
    ----------
    names : list or None
        Names of the columns, normalised by `plain_name`.
    categories : list
        Categories of each column, or None for a numeric column.
    unseen : float
        Code of categories that were not seen in `fit`.
    missing_is_category : bool
        If True, missing values of categorical columns get the position after the last category instead of NaN.
    ordered : list of int
        Columns of ordered categories, listed in their order, whose positions trees read as numbers; missing values are
        NaN.
    dates : list of int
        Columns of dates, which become days since 1970.
    date_parts : list of pairs of a column and a part
        Additional numeric columns, which hold parts of the dates in a column.
    expanded : dict
        Columns of texts and lists. The column itself becomes the first of several numeric columns, and the others
        follow after all other columns.
    """

    unseen: float = np.nan
    repeated: Sequence[int] = ()  # columns that are repeated after all others, for trees with too many thresholds
    dates: Sequence[int] = ()
    ordered: Sequence[int] = ()
    date_parts: Sequence[tuple[int, str]] = ()

    def __init__(
        self, names: list[Any] | None, categories: list[list[Any] | None], *, missing_is_category: bool = False
    ) -> None:
        self.names = names
        self.categories = categories
        self.missing_is_category = missing_is_category
        self.expanded: dict[int, Expanded] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cached reader, which would be wrong in a copy with other categories."""
        return {name: value for name, value in vars(self).items() if name != "few_rows"}

    @cached_property
    def few_rows(self) -> FewRows | None:
        """The reader for frames with few rows, or None if the columns need more than it can read."""
        return FewRows.of(self)

    def read_few_rows(self, X: Any) -> NDArray[np.float64] | None:
        """Return a frame with at most `MAX_ROWS` rows as encoded floats, which is faster than `encode`.

        Returns None for other tables, and for frames that need conversions or warnings; `encode` must read these.
        """
        shape = getattr(X, "shape", ())
        has_few = isinstance(shape, tuple) and len(shape) == 2 and 1 <= shape[0] <= MAX_ROWS
        return self.few_rows.read(X) if has_few and self.few_rows is not None else None

    @classmethod
    def learn(
        cls,
        X: Any,
        reading: Reading,
        owner: str,
        n_threads: int = 1,
        comm: Comm = LOCAL,
    ) -> tuple[InputEncoder, Any]:
        """Return the encoder that is learned from a table, and the encoded table as a row source.

        Parameters
        ----------
        X : array, frame, sparse matrix or row source
            Training table.
        reading : Reading
            Options for reading it.
        owner : str
            Name of the estimator in error messages.
        n_threads : int, default=1
            Maximum number of threads.
        comm : Comm
            Ranks that the table is distributed over. All ranks learn the categories of the whole table.

        Raises
        ------
        ValueError
            If the table is invalid.
        """
        if is_coded(X):
            return X.encoder_of(reading, owner), X.validate_for(owner)
        table = _open_shared(X, owner, _min_rows(comm))
        return cls._learn_shared(table, reading, n_threads, comm)

    @classmethod
    @shared
    def _learn_shared(cls, table: Table, reading: Reading, n_threads: int, comm: Comm) -> tuple[InputEncoder, Any]:
        """Return the encoder that is learned from an opened table, and the encoded table as a row source or codes.

        Models that are fitted together on the table share the result.
        """
        if reading.as_codes:
            return cls.fit_codes(table, n_threads, comm)
        encoder = cls.fit(table, reading.categorical_features, reading, n_threads=n_threads, comm=comm)
        encoder._learn_dates(table, reading, comm)
        encoder._learn_orders(table, reading.monotonic_cst, comm)
        return encoder, encoder.transform(table, n_threads)

    def _learn_dates(self, table: Table, reading: Reading, comm: Comm = LOCAL) -> None:
        """Set `dates` to the indices of the date columns that are not categorical.

        If `reading.splits_dates`, also set `date_parts` to the pairs (column, part) to add, except for columns with a
        monotonic constraint.
        """
        parts = join_dates(comm.allgather(table.dates()))
        self.dates = [column for column in parts if self.categories[column] is None]
        if not self.dates or not reading.splits_dates:
            return
        bound = np.zeros(len(table), dtype=bool)
        if reading.monotonic_cst is not None:
            bound = constrained_columns(reading.monotonic_cst, ColumnLookup(len(table), self.names))
        self.date_parts = [(column, part) for column in self.dates if not bound[column] for part in parts[column][1:]]

    def _learn_orders(self, table: Table, monotonic_cst: Any, comm: Comm) -> None:
        """Order categories of columns with a monotonic constraint as their type declares; add the columns to `ordered`.

        Columns without a declared order are unchanged. Raises ValueError if parts of the table declare different
        orders.
        """
        kinds = self.is_categorical
        if monotonic_cst is None or not kinds.any():
            return
        bound = constrained_columns(monotonic_cst, ColumnLookup(len(table), self.names))
        for column in np.flatnonzero(kinds & bound).tolist():
            orders = distinct_lists(
                order for of_rank in comm.allgather(table.category_orders(column)) for order in of_rank
            )
            if len(orders) > 1:
                raise ValueError(
                    f"Column {table.name(column)} must declare the same order of its categories in all parts of the "
                    f"table; got {orders[0]} and {orders[1]}."
                )
            if orders:
                self.categories[column] = orders[0]
                self.ordered = [*self.ordered, column]

    def encode(self, X: Any, reading: Reading, owner: str, n_threads: int = 1, comm: Comm = LOCAL) -> Any:
        """Return a table with the columns of `fit` as an encoded row source; the parameters are as in `learn`.

        Raises ValueError if the columns do not match, or for unseen categories if `reading.unseen_is_error`.
        """
        if is_coded(X):
            return X.checked(self).validate_for(owner)
        table = self.matched(X, owner, _min_rows(comm))
        if reading.as_codes:
            return self.codes(table, n_threads)
        return self.transform(table, n_threads, unseen_is_error=reading.unseen_is_error)

    def matched(self, X: Any, owner: str, min_rows: int = 1) -> Table:
        """Return `X` as a table with its columns in the order of `fit`; `owner` is the estimator's name in messages.

        Warns if only one of the two has names, and raises ValueError if columns are missing or there are fewer than
        `min_rows` rows.
        """
        table = open_table(X, owner, min_rows).matched(self.names)
        if self.names is None and table.names is not None and not are_positions(table.names):
            warn(f"X has feature names, but {owner} was fitted without feature names")
        if table.names is None and self.has_own_names:
            warn(f"X does not have valid feature names, but {owner} was fitted with feature names")
        n_features = len(self.categories)
        if len(table) != n_features and (table.array is not None or not table.is_read_in_parts):
            raise ValueError(f"X has {len(table)} features, but {owner} is expecting {n_features} features as input.")
        return table

    @classmethod
    def fit(
        cls,
        table: Table,
        categorical_features: Any = "from_dtype",
        reading: Reading | None = None,
        *,
        n_threads: int = 1,
        comm: Comm = LOCAL,
    ) -> InputEncoder:
        """Return an encoder with the categories of a table on all ranks; unlike `learn`, it ignores dates and orders.

        A column is categorical if `categorical_features` selects it on any rank. Raises ValueError if it selects
        columns of a sparse table.
        """
        reading = Reading() if reading is None else reading
        expanded = _learn_expanded(table, reading, comm)
        chosen = table.chosen_columns(categorical_features, comm, exact_integers=reading.exact_integers)
        chosen[list(expanded)] = False
        if table.is_sparse and chosen.any():
            raise ValueError(
                f"categorical_features must be None or 'from_dtype' for a sparse X; got {categorical_features!r}."
            )
        categories = table.learn_categories(np.flatnonzero(chosen).tolist(), n_threads)
        if comm.size > 1:
            categories = table.joined_categories(comm.allgather(categories))
        encoder = cls(table.names, categories, missing_is_category=reading.missing_is_category)
        encoder.expanded = expanded
        return encoder

    @classmethod
    def fit_codes(
        cls, table: Any, n_threads: int = 1, comm: Comm = LOCAL
    ) -> tuple[InputEncoder, NDArray[np.unsignedinteger]]:
        """Return an encoder that treats every column as categorical, and the table as `codes` of this encoder."""
        if comm.size > 1 or table.is_read_in_parts:
            encoder = cls.fit(table, "all", n_threads=n_threads, comm=comm)
            return encoder, encoder.codes(table, n_threads)
        n_near = threads_for(table.n_rows * len(table), n_threads, BLOCK_GRAIN)
        coded = code_whole_numbers(table.arrays if table.block is None else table.block, n_near)
        if coded is None and all(map(table.has_codes, range(len(table)))):
            columns = range(len(table))
            coded = code_categories([table.read(index) for index in columns], list(map(table.name, columns)), n_near)
        if coded is not None:
            return cls(table.names, coded.categories), coded.codes.T
        encoder = cls.fit(table, "all", n_threads=n_threads)
        return encoder, encoder.codes(table, n_threads)

    def extended(self, table: Table) -> InputEncoder:
        """Return an encoder that also has the new categories of a table, after the categories of this encoder."""
        categorical = [index for index, categories in enumerate(self.categories) if categories is not None]
        return self.joined(table.learn_categories(categorical))

    def joined(self, new_categories: list[list[Any] | None]) -> InputEncoder:
        """Return an encoder with the new categories of each column appended, unless they match one by spelling."""
        pairs = zip(new_categories, self.categories, strict=True)
        return self.with_more_categories([None if new is None else without_same(new, old or []) for new, old in pairs])

    def named(self, categories: list[list[Any] | None]) -> InputEncoder:
        """Return this encoder; subclasses that hold hashes of categories return one that holds `categories` instead."""
        return self

    def with_more_categories(self, more: list[list[Any] | None]) -> InputEncoder:
        """Return an encoder with more categories, in a list for each column, appended to its categories.

        Raises ValueError if a column of ordered categories would get a new category.
        """
        pairs = zip(self.categories, more, strict=True)
        for column in self.ordered:
            new = [value for value in more[column] or [] if value not in (self.categories[column] or [])]
            if new:
                raise ValueError(
                    f"Column {self.texts[column]} must have the ordered categories of the earlier fit, "
                    f"{self.categories[column]}; got {new[0]!r}. Fit a new model to change the order."
                )
        encoder = copy(self)
        encoder.categories = [None if old is None else list(dict.fromkeys([*old, *(new or [])])) for old, new in pairs]
        return encoder

    @property
    def has_own_names(self) -> bool:
        """True if the columns have names other than their positions."""
        return self.names is not None and not are_positions(self.names)

    @property
    def texts(self) -> list[str]:
        """Names of the columns as strings; ``x0``, ``x1``, ... if they have no names."""
        return texts_of(self.names) or [f"x{column}" for column in range(len(self.categories))]

    @property
    def n_derived(self) -> int:
        """Number of derived columns after the columns of the table."""
        return len(self.repeated) + len(self.date_parts) + sum(len(each.names) - 1 for each in self.expanded.values())

    @property
    def column_of(self) -> NDArray[np.intp]:
        """Index of the table column that each encoded column comes from; derived columns follow the table's columns."""
        derived = [*self.repeated, *(column for column, _ in self.date_parts)]
        derived += [column for column, expanded in self.expanded.items() for _ in expanded.names[1:]]
        return np.array([*range(len(self.categories)), *derived], dtype=np.intp)

    def terms(self) -> list[Terms]:
        """Return the Terms of each text column: positions of its length and term counts among the encoded columns."""
        first, terms = len(self.categories) + len(self.repeated) + len(self.date_parts), []
        for column, expanded in self.expanded.items():
            if isinstance(expanded, Words):
                terms.append(Terms(column, first, len(expanded.terms)))
            first += len(expanded.names) - 1
        return terms

    def part_names(self) -> list[str]:
        """Return the names of the encoded columns; a derived column is named "<column>: <part>"."""
        texts, split = self.texts, {column for column, _ in self.date_parts}
        first = dict.fromkeys(split, DAY) | {column: expanded.names[0] for column, expanded in self.expanded.items()}
        names = [part_name(text, first[column]) if column in first else text for column, text in enumerate(texts)]
        names += [texts[column] for column in self.repeated]
        parts = [
            *self.date_parts,
            *((column, name) for column, each in self.expanded.items() for name in each.names[1:]),
        ]
        return names + [part_name(texts[column], part) for column, part in parts]

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Mask of the categorical columns."""
        if self.categories.count(None) == len(self.categories):  # fast path for text, where each word is a column
            return np.zeros(len(self.categories), dtype=bool)
        return np.array([categories is not None for categories in self.categories], dtype=bool)

    def transform(self, table: Table, n_threads: int = 1, *, unseen_is_error: bool = False) -> Any:
        """Return a table, whose columns are in the order of `fit`, as floats: float32 if exact, otherwise float64.

        Unseen categories become the attribute `unseen`, or raise ValueError if `unseen_is_error`. Tables that are read
        in parts become row sources.
        """
        # In a table with names, numeric columns are not dates.
        is_known = not self.is_categorical.any() and (table.names is None or not self.dates)
        is_ready = table.array is not None and is_known and not self.expanded
        if is_ready and not self.changes_numbers:
            return table.array
        if table.is_read_in_parts:
            n_columns = len(self.categories) + self.n_derived
            return MappedRows(table.source, lambda _, part: self._transform_part(part, unseen_is_error), n_columns)
        if is_ready:
            return self._changed(table.array)
        if table.n_rows * len(table) > CONVERTED_BLOCK and not self.expanded and self._is_converted(table):
            return self._changed(self._convert_lazily(table, n_threads, unseen_is_error))
        dtype = np.float32 if self._fits_float32(table) else np.float64
        out = np.empty((table.n_rows, len(table)), dtype=dtype, order="F")
        unseen = -1.0 if unseen_is_error else self.unseen
        more: dict[int, Any] = {}

        def write(index: int) -> None:
            if index in self.expanded:
                out[:, index], more[index] = self.expanded[index].read(cells_of(table.column(index)), table.name(index))
            elif self.categories[index] is None:
                out[:, index] = self._numbers(table, index)
            else:
                self._find_positions(table, index, out[:, index], unseen)

        in_threads(write, range(len(table)), table.threads_to_read(range(len(table)), n_threads))
        for index in np.flatnonzero(self.is_categorical).tolist() if unseen_is_error else ():
            _check_seen(table, index, out[:, index])
        return _join_columns([self._changed(out), *map(more.get, self.expanded)]) if more else self._changed(out)

    def _find_positions(self, table: Table, index: int, out: Floats, unseen: float) -> None:
        """Write the category position of each row of the column at `index` to `out`.

        Categories not seen in `fit` become `unseen`. Missing values become NaN, or the position after the last category
        if `missing_is_category`.
        """
        categories = self._categories_in(table, index)
        is_code = self.missing_is_category and index not in self.ordered
        missing = float(len(categories)) if is_code else np.nan
        table.find_positions(index, categories, (missing, unseen, 0), out)

    def _categories_in(self, table: Table, index: int) -> list[Any]:
        """Return the categories of the column at `index` as values that `table` may hold; subclasses override this."""
        return self.categories[index] or []

    def _is_converted(self, table: Table) -> bool:
        """Return True if converting integers by block avoids a float64 copy, as all other numbers are float32."""
        numeric = [index for index, categories in enumerate(self.categories) if categories is None]
        is_other = [table.is_converted(index) for index in numeric]
        pairs = zip(numeric, is_other, strict=True)
        return any(is_other) and all(other or _is_float32(table.column(index)) for index, other in pairs)

    def _convert_lazily(self, table: Table, n_threads: int, unseen_is_error: bool) -> ConvertedRows:
        """Return the table as rows that convert numbers block by block when read; categories become positions at once.

        Raises ValueError for unseen categories if `unseen_is_error`.
        """
        unseen = -1.0 if unseen_is_error else self.unseen
        positions: dict[int, Floats] = {}

        def write(index: int) -> None:
            n_categories = len(self.categories[index] or ())
            positions[index] = np.empty(table.n_rows, np.float32 if n_categories < _FLOAT32_WHOLE else np.float64)
            self._find_positions(table, index, positions[index], unseen)

        def read(rows: Any, columns: Any) -> Floats:
            chosen = np.arange(len(table))[columns].tolist()
            n_rows = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
            out = np.empty((n_rows, len(chosen)), order="F")
            for out_column, index in zip(out.T, chosen, strict=True):
                out_column[:] = positions[index][rows] if index in positions else table.numbers(index, rows)
            return out

        categorical = np.flatnonzero(self.is_categorical).tolist()
        in_threads(write, categorical, table.threads_to_read(categorical, n_threads))
        for index in categorical if unseen_is_error else ():
            _check_seen(table, index, positions[index])
        return ConvertedRows(read, (table.n_rows, len(table)))

    def _numbers(self, table: Table, index: int) -> Floats:
        """Return the numeric column at `index` as floats, or a date column as days since 1970.

        In tables with names, a column may hold dates only if it held dates in `fit`; otherwise ValueError is raised.
        """
        if index in self.dates:
            return table.days(index)
        takes_dates = table.names is None or self.names is None
        return numbers_of(table.column(index), table.name(index), takes_dates=takes_dates)

    @property
    def changes_numbers(self) -> bool:
        """True if numeric tables need to be transformed."""
        return bool(self.n_derived or self.expanded)

    def _changed(self, rows: Any) -> Any:
        """Return encoded rows with the derived columns appended: the repeated columns and the date parts."""
        if not (self.repeated or self.date_parts):
            return rows
        if isinstance(rows, np.ndarray) and rows.size > CONVERTED_BLOCK and not self.date_parts:
            rows = ConvertedRows.of_array(rows)
        if not isinstance(rows, np.ndarray):
            return MappedRows(rows, lambda _, part: self._changed(part), len(self.categories) + self.n_derived)
        rows = rows[:, [*range(len(self.categories)), *self.repeated]] if self.repeated else rows
        return append_date_parts(rows, self.date_parts) if self.date_parts else rows

    def _transform_part(self, part: Any, unseen_is_error: bool = False) -> Any:
        """Return a part of a table that is read in parts as encoded floats; ValueError if columns differ."""
        table = table_over(part).matched(self.names)
        if len(table) != len(self.categories):
            n_features = len(self.categories)
            raise ValueError(f"X must have the same {n_features} columns in all batches; one has {len(table)}.")
        return self.transform(table, unseen_is_error=unseen_is_error)

    def codes(self, table: Table, n_threads: int = 1) -> NDArray[np.unsignedinteger]:
        """Return an all-categorical table as integers of the smallest type, shape (n_rows, n_columns).

        The code is 0 for a missing value and p + 1 for the category at position p. A category that was not seen
        in `fit` counts as missing, or gets the code after the last category if `unseen` is not NaN.
        """
        sizes = [len(categories or ()) for categories in self.categories]
        dtype = next(dtype for dtype in NARROW_TYPES if max(sizes) + 1 <= np.iinfo(dtype).max)
        out = np.empty((table.n_rows, len(table)), dtype=dtype, order="F")
        for start, part in table.parts():
            matched, rows = part.matched(self.names), out[start : start + part.n_rows]
            columns = range(len(matched))
            write = partial(self._write_codes, matched, rows, sizes)
            in_threads(write, columns, matched.threads_to_read(columns, n_threads))
        return out

    def _write_codes(self, table: Table, out: NDArray[Any], sizes: list[int], index: int) -> None:
        """Write the `codes` of the column at `index` to out[:, index]; `sizes` counts the categories of each column."""
        unseen = 0 if np.isnan(self.unseen) else sizes[index] + 1
        table.find_positions(index, self.categories[index] or [], (0, unseen, 1), out[:, index])

    def _fits_float32(self, table: Table) -> bool:
        """Return True if float32 represents all numbers and category positions of the table exactly."""
        return all(
            _is_float32(table.column(index)) if categories is None else len(categories) < _FLOAT32_WHOLE
            for index, categories in enumerate(self.categories)
        )

    def to_state(self) -> dict[str, Any]:
        """Return the names, categories and options of the columns as plain values for saving."""
        state: dict[str, Any] = {"names": to_state(self.names), "categories": self.categories}
        state |= {"missing_is_category": True} if self.missing_is_category else {}
        columns = {name: list(getattr(self, name)) for name in _LISTS}
        state |= {"date_parts": [list(pair) for pair in self.date_parts]} if self.date_parts else {}
        expanded = [[column, each.to_state()] for column, each in self.expanded.items()]
        state |= {"expanded": expanded} if expanded else {}
        return state | {name: chosen for name, chosen in columns.items() if chosen}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> InputEncoder:
        """Return the encoder with this state, as `to_state` returns it; raise ValueError if the state is malformed."""
        names, categories = from_state(state["names"]), state["categories"]
        require_state(names is None or len(names) == len(categories))
        require_state(all(values is None or _are_distinct(values, str | bool | int | float) for values in categories))
        # Ignoring a convention that this version does not support would change predictions.
        supported = {"names", "categories", "missing_is_category", "date_parts", "expanded", "foreign", *_LISTS}
        unknown = state.keys() - supported
        if unknown:
            raise ValueError(f"the state of the columns has unknown entries: {', '.join(sorted(unknown))}")
        encoder = cls(names, categories, missing_is_category=state.get("missing_is_category", False) is True)
        encoder.expanded = {column: expanded_from(column_state) for column, column_state in state.get("expanded", [])}
        for name in _LISTS:
            setattr(encoder, name, state.get(name, []))
        for columns in (encoder.expanded, *(getattr(encoder, name) for name in _LISTS)):
            require_state(all(type(column) is int and 0 <= column < len(categories) for column in columns))
        require_state(all(categories[column] is not None for column in encoder.ordered))
        encoder.date_parts = [tuple(pair) for pair in state.get("date_parts", [])]
        pairs = encoder.date_parts
        require_state(all(len(pair) == 2 and pair[0] in encoder.dates and pair[1] in PARTS for pair in pairs))
        if "foreign" in state:  # the encoder of an imported model
            return import_module("fastens.exchange.foreign").ForeignEncoder.of_state(encoder, state["foreign"])
        return encoder


def _learn_expanded(table: Table, reading: Reading, comm: Comm) -> dict[int, Expanded]:
    """Return, by column index, what text columns and list columns become, learned from a table (see `learn_expanded`).

    Text columns are chosen by `reading.text_features`; lists are columns of this type that are neither texts nor
    categorical. Raises ValueError if `text_features` is invalid or names categorical columns.
    """
    text_features = reading.text_features
    options = text_features if isinstance(text_features, Texts) else Texts(text_features)
    options.check("text_features")
    chosen: list[int] = []
    if options.columns is not None:
        chosen = column_positions("text_features", options.columns, table.names, len(table))
    texts = dict.fromkeys(chosen, options)
    if isinstance(options.columns, Mapping):
        if len(texts) < len(chosen):
            raise ValueError(f"text_features must have one analyzer for each column; got {options.columns}.")
        for index, analyzer in zip(chosen, options.columns.values(), strict=True):
            texts[index] = options.replaced({"columns": None, "analyzer": analyzer})
            texts[index].check("text_features")
    categorical = [] if reading.categorical_features is None else reading.categorical_features
    if not isinstance(categorical, str):
        categorical = column_positions("categorical_features", categorical, table.names, len(table))
        if both := set(chosen).intersection(categorical):
            name = table.name(min(both))
            raise ValueError(
                f"text_features must name other columns than categorical_features; got column {name} in both."
            )
    lists = set().union(*comm.allgather(table.lists())) if reading.splits_lists else set()
    lists = lists.difference(chosen, categorical)
    return learn_expanded(table, texts, lists, comm) if texts or lists else {}


def _join_columns(tables: list[Any]) -> Any:
    """Return the columns of arrays and sparse matrices as one array, or as a CSR matrix if most values are 0."""
    n_stored = sum(table.size for table in tables)  # the size of a sparse matrix is its number of stored values
    n_values = tables[0].shape[0] * sum(table.shape[1] for table in tables)
    if n_values > CONVERTED_BLOCK and n_stored <= _MAX_STORED * n_values:
        return canonical(sparse.csr_matrix(sparse.hstack(list(map(sparse.csr_array, tables)), format="csr")))
    return np.hstack(list(map(dense, tables)))


def _check_seen(table: Table, index: int, positions: Floats) -> None:
    """Raise ValueError if a position of the column at `index` is -1, which marks a category not seen in `fit`."""
    rows = np.flatnonzero(positions == -1)
    if len(rows):
        value = table.read(index).decoded()[rows[0]]
        raise ValueError(
            f"Column {table.name(index)} must hold only categories that fit has seen, with "
            f"unseen='error'; got {value!r} in row {rows[0]}."
        )


def _are_distinct(values: Any, allowed_type: Any) -> bool:
    """Return True if values are a list of distinct objects of type `allowed_type`, none of them missing."""
    return (
        isinstance(values, list)
        and all(isinstance(value, allowed_type) and not is_missing(value) for value in values)
        and len(set(values)) == len(values)
    )
