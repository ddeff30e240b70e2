"""The encoder of a table: its columns by name and its categories by value, as rows of floats or of codes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import LOCAL, Comm
from fastens.engine.parts import MappedRows, RowSource, is_coded, parts_of
from fastens.engine.sharing import shared
from fastens.engine.threads import in_threads, threads_for
from fastens.table.at_sight import AtSight
from fastens.table.columns.blocks import code_categories, code_whole_numbers
from fastens.table.columns.city_hash import category_hash, category_text
from fastens.table.columns.factorize import NARROW_TYPES, Categories, is_missing
from fastens.table.columns.numbers import Column, Floats, numbers_of
from fastens.table.columns.spellings import without_same
from fastens.table.memory_limits import FitNeeds
from fastens.table.opening import open_table
from fastens.table.parted import PartedTable, StreamedTable, table_of_part
from fastens.table.tables import BLOCK_GRAIN, Table
from fastens.warn import warn

# Larger category positions are not exact in float32.
_FLOAT32_WHOLE = 1 << 24
# The largest number that counts as 0 where 0 is missing.
_ZERO = float(np.float32(1e-35))
# Columns that tables of other libraries' models treat in ways of their own.
_CHOSEN = ("zero_is_missing", "hashed", "repeated")


def _is_float32(column: Column) -> bool:
    return not isinstance(column, Categories) and column.dtype == (
        nw.Float32 if isinstance(column, nw.Series) else np.float32
    )


def _fewest(comm: Comm) -> int:
    """How many rows a table must have: of several ranks, some may have none."""
    return 1 if comm.size == 1 else 0


@shared
def _opened(X: Any, owner: str, fewest: int) -> Table:
    """The table to learn from, opened once for all models that do."""
    return open_table(X, owner, fewest)


# The encoder --------------------------------------------------


class Reading(NamedTuple):
    """How an estimator reads tables."""

    categorical_features: Any = "from_dtype"
    missing_is_category: bool = False
    unseen_is_error: bool = False
    as_codes: bool = False
    at_sight: bool = False  # whether categories of a table in batches may become known while it is read


class InputEncoder:
    """The columns and categories of a table, by which tables like it are encoded as rows of floats.

    A categorical column becomes the positions of its values in the sorted list of its categories. Missing values are
    NaN; categories not seen in `fit` are `unseen`, NaN by default.

    Attributes
    ----------
    names : list of str or None
        Names of the columns.
    categories : list
        For each column, its categories, or None where it holds numbers.
    unseen : float
        The code of a category not seen in `fit`.
    missing_is_category : bool
        In categorical columns, missing values have the position after the last category instead of NaN.
    """

    unseen: float = np.nan
    hashed: Sequence[int] = ()  # columns whose categories are known by `category_hash`, as texts or as the hashes
    zero_is_missing: Sequence[int] = ()  # columns of numbers where 0 is missing
    repeated: Sequence[int] = ()  # columns that stand once more after all, for trees with too many thresholds
    has_date_parts: bool = False  # the table of fit had dates, in whose place there are several columns

    def __init__(
        self, names: list[str] | None, categories: list[list[Any] | None], *, missing_is_category: bool = False
    ) -> None:
        self.names = names
        self.categories = categories
        self.missing_is_category = missing_is_category

    @classmethod
    def learn(
        cls,
        X: Any,
        reading: Reading,
        owner: str,
        n_threads: int = 1,
        comm: Comm = LOCAL,
        needs: FitNeeds | None = None,
    ) -> tuple[InputEncoder, Any]:
        """Return the encoder that a table teaches, and the table as a row source.

        Parameters
        ----------
        X : array, frame, sparse matrix or row source
            The table.
        reading : Reading
            How to read it.
        owner : str
            What errors call the estimator.
        n_threads : int, default=1
            Most threads to use.
        comm : Comm
            The ranks that the table is divided among; all learn the categories of the whole table.
        needs : FitNeeds, optional
            What the fit takes, for a table with limits of memory: the row source then knows where its codes go.

        Raises
        ------
        ValueError
            Where the table breaks a rule, or the fit takes more memory than it may, which is said before it is read.
        """
        if is_coded(X):
            return X.encoder_of(reading, owner), X.taken_by(owner)
        limits, table = getattr(X, "limits", None), _opened(X, owner, _fewest(comm))
        if limits is not None and needs is not None:
            # The least: dates may become several columns, and categories are not known.
            needs.place(limits, table.source, [()] * table.source.shape[1])
        if reading.at_sight and comm.size == 1 and isinstance(table, StreamedTable):
            rows: Any = cls._at_sight(table, reading)
            if limits is not None and needs is not None:
                rows.on_categories = partial(needs.place, limits, rows)
                rows.on_categories(rows.encoder.categories)
            return rows.encoder, rows
        encoder, rows = cls._learned(table, reading, n_threads, comm)
        if limits is not None and needs is not None:
            place = needs.place(limits, rows if isinstance(rows, RowSource) else table.source, encoder.categories)
            if isinstance(rows, RowSource):
                rows.place = place
        return encoder, rows

    @classmethod
    @shared
    def _learned(cls, given: Table, reading: Reading, n_threads: int, comm: Comm) -> tuple[InputEncoder, Any]:
        table, chosen = given.with_date_parts(), reading.categorical_features
        if table is not given:
            chosen = given.chosen_names(chosen)
        if reading.as_codes:
            return cls.fit_codes(table, n_threads, comm)
        encoder = cls.fit(
            table, chosen, missing_is_category=reading.missing_is_category, n_threads=n_threads, comm=comm
        )
        encoder.has_date_parts = table is not given
        return encoder, encoder.transform(table, n_threads)

    @classmethod
    def _at_sight(cls, given: StreamedTable, reading: Reading) -> AtSight:
        table, chosen = given.with_date_parts(), reading.categorical_features
        if table is not given:
            chosen = given.chosen_names(chosen)
        is_chosen = table.chosen_columns(chosen)
        encoder = cls(table.names, [[] if found else None for found in is_chosen])
        encoder.has_date_parts = table is not given
        return AtSight(table, encoder)

    def encode(self, X: Any, reading: Reading, owner: str, n_threads: int = 1, comm: Comm = LOCAL) -> Any:
        """Return a table with the columns of `learn` as a row source; the parameters are those of `learn`."""
        if is_coded(X):
            return X.checked(self).taken_by(owner)
        table = self.matched(X, owner, _fewest(comm))
        if reading.as_codes:
            return self.codes(table, n_threads)
        return self.transform(table, n_threads, unseen_is_error=reading.unseen_is_error)

    def matched(self, X: Any, owner: str, fewest: int = 1) -> Table:
        """Return a table with its columns in the order of those of `learn`; ValueError for one of fewer rows."""
        table = open_table(X, owner, fewest).matched(self.names)
        if table.names is not None and self.names is None:
            warn(f"X has feature names, but {owner} was fitted without feature names")
        if table.names is None and self.names is not None and not is_coded(X):
            warn(f"X does not have valid feature names, but {owner} was fitted with feature names")
        n_features = len(self.categories)
        if len(table) != n_features and (table.array is not None or not isinstance(table, PartedTable)):
            raise ValueError(f"X has {len(table)} features, but {owner} is expecting {n_features} features as input.")
        return table

    @classmethod
    def fit(
        cls,
        table: Table,
        categorical_features: Any = "from_dtype",
        *,
        missing_is_category: bool = False,
        n_threads: int = 1,
        comm: Comm = LOCAL,
    ) -> InputEncoder:
        """Learn the columns and categories of a table; a column is categorical on all ranks if it is on any."""
        chosen = table.chosen_columns(categorical_features, comm)
        if sparse.issparse(table.source) and chosen.any():
            raise ValueError(
                f"categorical_features must be None or 'from_dtype' for a sparse X; got {categorical_features!r}."
            )
        categories = table.learn_categories(np.flatnonzero(chosen).tolist(), n_threads)
        if comm.size > 1:
            categories = table.joined_categories(comm.gather(categories))
        return cls(table.names, categories, missing_is_category=missing_is_category)

    @classmethod
    def fit_codes(
        cls, table: Table, n_threads: int = 1, comm: Comm = LOCAL
    ) -> tuple[InputEncoder, NDArray[np.unsignedinteger]]:
        """Return an encoder of categories in every column, and the `codes` of the table."""
        if comm.size == 1 and isinstance(table, StreamedTable):
            rows = AtSight(table, cls(table.names, [[] for _ in range(len(table))]))
            codes = rows.codes(n_threads)
            return rows.encoder, codes
        if comm.size > 1 or isinstance(table, PartedTable):
            encoder = cls.fit(table, "all", n_threads=n_threads, comm=comm)
            return encoder, encoder.codes(table, n_threads)
        n_near = threads_for(table.n_rows * len(table), n_threads, BLOCK_GRAIN)
        found = code_whole_numbers(table.arrays if table.block is None else table.block, n_near)
        if found is None and all(map(table.has_codes, range(len(table)))):
            columns = range(len(table))
            found = code_categories([table.read(index) for index in columns], list(map(table.name, columns)), n_near)
        if found is not None:
            return cls(table.names, found.categories), found.codes.T
        encoder = cls.fit(table, "all", n_threads=n_threads)
        return encoder, encoder.codes(table, n_threads)

    def extended(self, table: Table) -> InputEncoder:
        """An encoder that also knows the categories of a table, after its own."""
        known = [index for index, found in enumerate(self.categories) if found is not None]
        return self.joined(table.learn_categories(known))

    def joined(self, found: list[list[Any] | None]) -> InputEncoder:
        """The same for the categories of another table, less those that only are written in another type."""
        pairs = zip(found, self.categories, strict=True)
        return self.with_more_categories([None if new is None else without_same(new, own or []) for new, own in pairs])

    def named(self, found: list[list[Any] | None]) -> InputEncoder:
        """The same, with categories that are known by their hashes as the texts that another table has for them."""
        encoder = self.with_more_categories([None] * len(found))
        for index in self.hashed:
            texts = {category_hash(value): category_text(value) for value in found[index] or ()}
            own = self.categories[index] or []
            encoder.categories[index] = [texts.get(each, each) if isinstance(each, int) else each for each in own]
        return encoder

    def with_more_categories(self, more: list[list[Any] | None]) -> InputEncoder:
        """An encoder that knows more categories of its categorical columns, after its own."""
        pairs = zip(self.categories, more, strict=True)
        encoder = InputEncoder(
            self.names,
            [None if own is None else list(dict.fromkeys([*own, *(new or [])])) for own, new in pairs],
            missing_is_category=self.missing_is_category,
        )
        encoder.unseen, encoder.zero_is_missing, encoder.hashed = self.unseen, self.zero_is_missing, self.hashed
        encoder.repeated, encoder.has_date_parts = self.repeated, self.has_date_parts
        return encoder

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Which columns hold categories."""
        if self.categories.count(None) == len(self.categories):  # fast, of the many that a text's words are
            return np.zeros(len(self.categories), dtype=bool)
        return np.array([found is not None for found in self.categories], dtype=bool)

    def transform(self, table: Table, n_threads: int = 1, *, unseen_is_error: bool = False) -> Any:
        """The table as floats, float32 where that loses nothing; columns are taken in their order: see `matched`."""
        is_ready = table.array is not None and not self.is_categorical.any()
        if is_ready and not self.changes_numbers:
            return table.array
        if isinstance(table, PartedTable):
            n_columns = len(self.categories) + len(self.repeated)
            return MappedRows(table.source, lambda _, part: self._of_part(part, unseen_is_error), n_columns)
        if is_ready:
            return self._changed(table.array)
        dtype = np.float32 if self._fits_float32(table) else np.float64
        out = np.empty((table.n_rows, len(table)), dtype=dtype, order="F")
        unseen = -1.0 if unseen_is_error else self.unseen

        def write(index: int) -> None:
            categories = self.categories[index]
            if categories is None:
                takes_dates = table.names is None or self.names is None  # else they have become their parts
                out[:, index] = numbers_of(table.column(index), table.name(index), takes_dates=takes_dates)
            else:
                if index in self.hashed:
                    categories = table.named_by_hash(index, categories)
                missing = float(len(categories)) if self.missing_is_category else np.nan
                table.find_positions(index, categories, (missing, unseen, 0), out[:, index])

        in_threads(write, range(len(table)), table.threads_to_read(range(len(table)), n_threads))
        for index in np.flatnonzero(self.is_categorical).tolist() if unseen_is_error else ():
            _check_seen(table, index, out[:, index])
        return self._changed(out) if self.changes_numbers else out

    @property
    def changes_numbers(self) -> bool:
        """Whether a table of numbers alone is not taken as it is."""
        return bool(self.zero_is_missing) or bool(self.repeated)

    def _changed(self, rows: Any) -> Any:
        """Rows with NaN for zeros that are missing, and with the columns that are repeated."""
        if self.zero_is_missing:
            rows = rows.toarray() if sparse.issparse(rows) else rows.copy()
            for column in self.zero_is_missing:
                rows[np.abs(rows[:, column]) <= _ZERO, column] = np.nan
        return rows[:, [*range(len(self.categories)), *self.repeated]] if self.repeated else rows

    def _of_part(self, part: Any, unseen_is_error: bool = False) -> Floats:
        table = table_of_part(part).matched(self.names)
        if len(table) != len(self.categories):
            n_features = len(self.categories)
            raise ValueError(f"X must have the same {n_features} columns in all its parts; one has {len(table)}.")
        return self.transform(table, unseen_is_error=unseen_is_error)

    def codes(self, table: Table, n_threads: int = 1) -> NDArray[np.unsignedinteger]:
        """The same where all columns are categorical, in the smallest type: 0 is missing, p + 1 is position p.

        A category not seen in `fit` is missing, or has the code after the last where `unseen` is a number.
        """
        sizes = [len(found or ()) for found in self.categories]
        dtype = next(dtype for dtype in NARROW_TYPES if max(sizes) + 1 <= np.iinfo(dtype).max)
        out = np.empty((table.n_rows, len(table)), dtype=dtype, order="F")
        if isinstance(table, PartedTable):
            for start, part in parts_of(table.source):
                found = table_of_part(part).matched(self.names)
                out[start : start + found.n_rows] = self.codes(found, n_threads)
            return out

        def write(index: int) -> None:
            unseen = 0 if np.isnan(self.unseen) else sizes[index] + 1
            table.find_positions(index, self.categories[index] or [], (0, unseen, 1), out[:, index])

        in_threads(write, range(len(table)), table.threads_to_read(range(len(table)), n_threads))
        return out

    def _fits_float32(self, table: Table) -> bool:
        return all(
            _is_float32(table.column(index)) if categories is None else len(categories) < _FLOAT32_WHOLE
            for index, categories in enumerate(self.categories)
        )

    def to_state(self) -> dict[str, Any]:
        """Plain lists, for saving."""
        state: dict[str, Any] = {"names": self.names, "categories": self.categories}
        state |= {"missing_is_category": True} if self.missing_is_category else {}
        columns = {name: list(getattr(self, name)) for name in _CHOSEN}
        return state | {name: chosen for name, chosen in columns.items() if chosen}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> InputEncoder:
        """From what `to_state` gave; ValueError for anything else."""
        names, categories = state["names"], state["categories"]
        is_named = names is None or (_are_distinct(names, str) and len(names) == len(categories))
        if not is_named or not all(
            found is None or _are_distinct(found, str | bool | int | float) for found in categories
        ):
            raise ValueError("the state of the columns is malformed")
        encoder = cls(names, categories, missing_is_category=state.get("missing_is_category", False) is True)
        for name in _CHOSEN:
            setattr(encoder, name, state.get(name, []))
            if not all(type(column) is int and 0 <= column < len(categories) for column in getattr(encoder, name)):
                raise ValueError("the state of the columns is malformed")
        return encoder


def _check_seen(table: Table, index: int, positions: Floats) -> None:
    """Raise ValueError where a position is that of a category that `fit` has not seen, -1."""
    rows = np.flatnonzero(positions == -1)
    if len(rows):
        value = table.read(index).decoded()[rows[0]]
        raise ValueError(
            f"Column {table.name(index)} must hold only categories that fit has seen, with "
            f"Categories(unseen='error'); got {value!r} in row {rows[0]}."
        )


def _are_distinct(values: Any, kind: Any) -> bool:
    return (
        isinstance(values, list)
        and all(isinstance(value, kind) and not is_missing(value) for value in values)
        and len(set(values)) == len(values)
    )
