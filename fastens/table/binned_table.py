"""Tables that are binned once and fitted on many times: codes in files that are mapped into memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binned import record_stride
from fastens.engine.bins.binning import Binning, learn_binning
from fastens.engine.bins.places import MEMORY, NamedFiles, Place
from fastens.engine.parts import MappedRows, RowSource
from fastens.engine.rows.gather import hash_rows
from fastens.engine.threads import resolve_n_jobs
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.memory_limits import (
    MemoryLimits,
    MemoryNeeds,
    TableShape,
    bytes_of_codes,
    bytes_to_read,
    checked_folder,
    in_bytes,
)
from fastens.table.opening import in_parts, split_columns
from fastens.table.sample_weights import unless_ones
from fastens.table.training_data import TrainingData

_FORMAT = 1
_DESCRIPTION = "table.json"
_ARRAYS = ("columns", "records", "hashes", "y", "sample_weight")
# Rows that are compared at a time when a table is opened.
_BLOCK = 1 << 16


@dataclass(frozen=True)
class BinningOptions:
    """How a table is binned.

    Attributes
    ----------
    max_bins, categorical_features, n_jobs
        As those of the models that will be fitted.
    missing_is_category : bool
        As ``Categories(missing="category")`` of these models.
    max_memory, spill_dir
        As those of `Source`.
    """

    max_bins: int = 255
    categorical_features: Any = "from_dtype"
    missing_is_category: bool = False
    max_memory: int | str | None = None
    spill_dir: str | os.PathLike[str] | None = None
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.max_bins, bool) or not isinstance(self.max_bins, int) or not 2 <= self.max_bins <= 65_535:
            raise ValueError(f"max_bins must be an integer from 2 to 65535; got {self.max_bins!r}.")

    @property
    def reading(self) -> Reading:
        """How the encoder reads the table."""
        return Reading(self.categorical_features, self.missing_is_category)

    def place(self, shape: tuple[int, int]) -> Place:
        """Return where codes go that are not to be kept."""
        folder = checked_folder(self.spill_dir)
        if self.max_memory is None:
            return MEMORY
        codes = bytes_of_codes(TableShape(*shape), self.max_bins)
        needs = MemoryNeeds(codes, codes, 24 * shape[0], **bytes_to_read(TableShape(*shape), self.max_bins))
        return MemoryLimits(in_bytes(self.max_memory), folder).place(needs, "BinnedTable")


class _Codes(NamedTuple):
    """The arrays of a table, in files or in memory."""

    columns: NDArray[np.unsignedinteger]  # (n_features, n_rows)
    records: NDArray[np.uint8]  # (n_rows, stride)
    hashes: NDArray[np.uint64]  # of the values of each row, by which rows are drawn
    y: NDArray[Any] | None
    sample_weight: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class BinnedTable(RowSource):
    """A table that is binned once: many fits read its codes, and nothing of it is read or binned again.

    Boosting, random forests and AdaBoost take it as X. Its bins are those of the whole table, for folds and rows that
    are held out too, and `max_bins` of a model must be what it was made with. It has no values: linear leaves, target
    statistics, random thresholds and thresholds half-way between values need the table itself.

    Make one with `from_source`, or open one with `open`; rows are chosen by ``table[rows]``, as scikit-learn's
    splitters and searches do.

    Attributes
    ----------
    y : array or None
        The targets it was made with, which `fit` takes where it is given None.
    sample_weight : array or None
        The weights likewise.
    path : path or None
        The folder with its files.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens import BinnedTable, GradientBoostingRegressor
    >>> X = np.arange(400.0).reshape(100, 4)
    >>> table = BinnedTable.from_source(X, X[:, 0])
    >>> models = [GradientBoostingRegressor(n_estimators=n).fit(table, table.y) for n in (5, 10)]
    >>> models[0].predict(table[:2]).shape
    (2,)
    """

    encoder: InputEncoder
    binning: Binning
    options: BinningOptions
    _arrays: _Codes
    path: Path | None = None
    y_name: str | None = None
    rows: NDArray[np.intp] | None = None
    generation: int = 0

    is_coded = True

    # Making --------------------------------------------------

    @classmethod
    def from_source(
        cls,
        source: Any,
        y: Any = None,
        sample_weight: Any = None,
        path: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> BinnedTable:
        """Read a table twice: to learn its bins, and to write its codes.

        Parameters
        ----------
        source : anything that `fit` takes as X
            The table.
        y, sample_weight : array or str, optional
            Targets and weights, or the names of their columns; rows of weight 0 are left out.
        path : path, optional
            A folder for the files, which must not be there yet; default: memory, or files without a name.
        **options : fields of BinningOptions
            ``max_bins=255``, ``categorical_features="from_dtype"``, ``missing_is_category=False``, ``max_memory=None``,
            ``spill_dir=None``, ``n_jobs=None``.

        Returns
        -------
        BinnedTable

        Raises
        ------
        ValueError
            For options that break their rules, and a folder that is there.
        OSError
            Where the disk is full; what was written is removed.
        """
        chosen = BinningOptions(**options)
        n_threads = resolve_n_jobs(chosen.n_jobs)
        source = in_parts(source)
        place = MEMORY if path is not None else chosen.place(source.shape)
        data = _read_columns(source, y, sample_weight)
        encoder, rows = InputEncoder.learn(data.X, chosen.reading, cls.__name__, n_threads)
        data = data.with_table(rows)
        binning = learn_binning(data.X, data.sample_weight, chosen.max_bins, encoder.is_categorical, n_threads)
        none = _no_rows(binning, data, has_y=y is not None)
        empty = cls(encoder, binning, chosen, none, y_name=y if isinstance(y, str) else None)
        if path is None:
            return replace(empty, _arrays=empty._joined(data, place))
        folder = Path(path)
        try:
            folder.mkdir()
        except FileExistsError as error:
            raise ValueError(f"path must name a folder that is not there yet; got {str(path)!r}.") from error
        return replace(empty, path=folder)._written(data)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, check: bool = True) -> BinnedTable:
        """Open the files of a table, which are mapped into memory.

        Parameters
        ----------
        path : path
            The folder that `from_source` was given.
        check : bool, default=True
            Whether to read all codes and compare them: damaged ones could make `fit` crash.

        Raises
        ------
        ValueError
            For a folder that is no binned table, or a damaged one.
        """
        folder = Path(path)
        try:
            state = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
            if state["format"] != _FORMAT:
                raise ValueError(f"its format is {state['format']}")
            with np.load(folder / state["binning"]) as stored:
                binning = Binning.from_arrays(dict(stored))
            opened = cls(
                InputEncoder.from_state(state["encoder"]),
                binning,
                BinningOptions(**state["options"]),
                _Codes(*(_mapped(folder, state["arrays"].get(name)) for name in _ARRAYS)),
                folder,
                state["y_name"],
                generation=state["generation"],
            )
            opened._check_arrays(check)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"path must be a folder that BinnedTable wrote; {str(path)!r}: {error}") from error
        return opened

    def append(self, source: Any, y: Any = None, sample_weight: Any = None) -> BinnedTable:
        """Return the table with more rows, binned by the same bins; its files are replaced.

        Categories that the table did not have become missing values.

        Parameters
        ----------
        source, y, sample_weight
            As for `from_source`; y and weights are given where the table has them.
        """
        if self.rows is not None:
            raise ValueError("append must be called on the whole table; got some of its rows.")
        y = self.y_name if y is None else y
        for name, given in (("y", y), ("sample_weight", sample_weight)):
            if (given is None) != (getattr(self._arrays, name) is None):
                raise ValueError(f"{name} must be given where the table has it, and only there; got {given!r}.")
        data = _read_columns(in_parts(source), y, sample_weight)
        n_threads = resolve_n_jobs(self.options.n_jobs)
        data = data.with_table(self.encoder.encode(data.X, self.options.reading, "BinnedTable", n_threads))
        if self.path is None:
            place = self.options.place((len(self) + len(data.y), self.shape[1]))
            return replace(self, _arrays=self._joined(data, place))
        return self._written(data)

    def _written(self, data: TrainingData) -> BinnedTable:
        """The table with more rows in new files of its folder; the old ones stay until the new ones are whole."""
        assert self.path is not None
        generation = self.generation + 1
        place = NamedFiles(self.path, f"-{generation}.npy")
        old = [file for file in self.path.iterdir() if file.name != _DESCRIPTION]
        try:
            arrays = self._joined(data, place)
            bins: dict[str, Any] = self.binning.to_arrays()
            np.savez(self.path / f"binning-{generation}.npz", **bins)
            self._describe(arrays, generation)
        except BaseException:
            for file in set(self.path.iterdir()) - {*old, self.path / _DESCRIPTION}:
                file.unlink()
            if not old:
                self.path.rmdir()
            raise
        for file in old:
            file.unlink(missing_ok=True)
        return replace(self, _arrays=arrays, generation=generation)

    def _describe(self, arrays: _Codes, generation: int) -> None:
        """Put the new description in the place of the old one, at once."""
        assert self.path is not None
        given = {name: f"{name}-{generation}.npy" for name, array in arrays._asdict().items() if array is not None}
        options = vars(replace(self.options, max_memory=None, spill_dir=None))
        state = {
            "format": _FORMAT,
            "generation": generation,
            "encoder": self.encoder.to_state(),
            "options": options,
            "y_name": self.y_name,
            "binning": f"binning-{generation}.npz",
            "arrays": given,
        }
        new = self.path / f"{_DESCRIPTION}.new"
        new.write_text(json.dumps(state), encoding="utf-8")
        new.replace(self.path / _DESCRIPTION)

    def _joined(self, data: TrainingData, place: Place) -> _Codes:
        """The arrays with more rows after those that there are, in a new place."""
        old, n_old, n_rows = self._arrays, len(self), len(self) + len(data.y)
        binning, n_bytes = self.binning, self.binning.n_features * self.binning.code_dtype.itemsize
        columns = place.named("columns").zeros((binning.n_features, n_rows), binning.code_dtype)
        records = place.named("records").zeros((n_rows, record_stride(n_bytes)), np.uint8)
        hashes = place.named("hashes").zeros((n_rows,), np.uint64)
        columns[:, :n_old], records[:n_old], hashes[:n_old] = old.columns, old.records, old.hashes
        n_threads = resolve_n_jobs(self.options.n_jobs)

        def noted(start: int, part: NDArray[np.floating]) -> NDArray[np.floating]:
            hash_rows(part, hashes[n_old + start : n_old + start + len(part)], n_threads)
            return part

        binning.fill(MappedRows(data.X, noted, binning.n_features), columns, records, n_old, n_threads)
        y = _stacked(old.y, data.y, place.named("y"))
        weight = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
        return _Codes(columns, records, hashes, y, _stacked(old.sample_weight, weight, place.named("sample_weight")))

    def _check_arrays(self, reads_all: bool) -> None:
        """Raise ValueError where arrays do not belong together."""
        columns, records, hashes, y, weight = self._arrays
        n_features, n_rows = self.binning.n_features, len(hashes)
        n_bytes = n_features * self.binning.code_dtype.itemsize
        if columns.dtype != self.binning.code_dtype or columns.shape != (n_features, n_rows):
            raise ValueError("its codes by column have another shape or type than its bins")
        if records.dtype != np.uint8 or records.shape != (n_rows, record_stride(n_bytes)):
            raise ValueError("its codes by row have another shape or type than its bins")
        if any(each is not None and len(each) != n_rows for each in (y, weight)) or hashes.dtype != np.uint64:
            raise ValueError("its targets, weights or hashes are not those of its rows")
        for start in range(0, n_rows if reads_all else 0, _BLOCK):
            by_column = columns[:, start : start + _BLOCK]
            by_row = np.ascontiguousarray(records[start : start + _BLOCK, :n_bytes]).view(columns.dtype)
            if not (by_column == by_row.T).all() or (by_column.max(axis=1) >= self.binning.n_codes).any():
                raise ValueError(f"codes of rows {start} and on are damaged")

    # Rows --------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and columns."""
        n_rows = len(self._arrays.hashes) if self.rows is None else len(self.rows)
        return n_rows, len(self.encoder.categories)

    def parts(self) -> Iterator[Any]:
        """Raise ValueError: there are codes and no values."""
        raise ValueError(
            "X must be the table itself, not a BinnedTable, for linear leaves, target statistics (set "
            "Categories(encoding='partition')), random thresholds, single trees, which cut half-way between values, "
            "and methods that read values: it has codes only."
        )

    def __getitem__(self, rows: Any) -> BinnedTable:
        """Return the table with some of the rows: row numbers, a mask or a slice."""
        if isinstance(rows, tuple):  # of scikit-learn, with an ellipsis
            rows = rows[0]
        numbers = np.arange(len(self))[rows]
        return replace(self, rows=numbers if self.rows is None else self.rows[numbers])

    def __repr__(self) -> str:
        """Its size, and where it is."""
        return f"BinnedTable({self.shape[0]} x {self.shape[1]}, max_bins={self.options.max_bins}, path={self.path})"

    @property
    def y(self) -> NDArray[Any] | None:
        """The targets of the rows."""
        return self._of_rows(self._arrays.y)

    @property
    def sample_weight(self) -> NDArray[np.float64] | None:
        """The weights of the rows."""
        return self._of_rows(self._arrays.sample_weight)

    def _of_rows(self, values: Any) -> Any:
        return values if values is None or self.rows is None else values[self.rows]

    # What a fit asks for --------------------------------------------------

    def with_columns(self, given: dict[str, Any]) -> list[Any]:
        """Return the table, and its own targets and weights where a fit is given none, or their name."""
        known = {"y": (self.y, self.y_name), "sample_weight": (self.sample_weight, None)}
        found = []
        for what, value in given.items():
            own, name = known.get(what, (None, None))
            if isinstance(value, str) and (value != name or own is None):
                raise ValueError(f"{what} must be an array, or the name of the table's own ({name!r}); got {value!r}.")
            found.append(own if value is None or isinstance(value, str) else value)
        return [self, *found]

    def encoder_of(self, reading: Reading, owner: str) -> InputEncoder:
        """Return the encoder; ValueError where an estimator reads tables in another way."""
        own = self.options.reading
        if reading.as_codes:
            raise ValueError(f"X must be a table of values for {owner}; got a BinnedTable, which has codes only.")
        chosen = reading.categorical_features
        is_plain = isinstance(chosen, str) and chosen == "from_dtype"
        if not is_plain and not np.array_equal(chosen, own.categorical_features):
            raise ValueError(
                f"categorical_features must be those of the BinnedTable ({own.categorical_features!r}); got {chosen!r}."
            )
        if reading.missing_is_category != own.missing_is_category:
            raise ValueError(
                f"categories.missing must be as the BinnedTable has it (missing_is_category="
                f"{own.missing_is_category}); got {reading.missing_is_category}."
            )
        return self.encoder

    def checked(self, encoder: InputEncoder) -> BinnedTable:
        """Return the table; ValueError where its columns are not those that a model was fitted on."""
        if encoder is not self.encoder and encoder.to_state() != self.encoder.to_state():
            raise ValueError("X must have the columns that the model was fitted on; got a BinnedTable with others.")
        return self

    def learned(self, max_bins: int) -> Binning:
        """Return the bins; ValueError where a fit wants others."""
        if max_bins != self.options.max_bins:
            raise ValueError(f"max_bins must be {self.options.max_bins}, as the BinnedTable has it; got {max_bins}.")
        return self.binning

    def hashes(self) -> NDArray[np.uint64]:
        """Return the hashes of the rows' values."""
        return self._of_rows(self._arrays.hashes)

    def codes(self, binning: Binning) -> NDArray[np.unsignedinteger]:
        """Return the codes by column; ValueError where a model has other bins."""
        self._check_bins(binning)
        return self._arrays.columns if self.rows is None else np.take(self._arrays.columns, self.rows, axis=1)

    def records(self) -> NDArray[np.uint8]:
        """Return the codes by row."""
        return self._arrays.records if self.rows is None else np.take(self._arrays.records, self.rows, axis=0)

    def _check_bins(self, binning: Binning) -> None:
        if binning is self.binning:
            return
        own, others = self.binning.to_arrays(), binning.to_arrays()
        if not all(np.array_equal(own[name], others[name]) for name in own):
            raise ValueError("X must have the bins of the model; got a BinnedTable with others: give the table itself.")


def _read_columns(source: Any, y: Any, sample_weight: Any) -> TrainingData:
    """The table without the columns that are targets and weights, and these."""
    X, values, weight = split_columns(source, y=y, sample_weight=sample_weight)
    n_rows = X.shape[0]
    values = np.zeros(n_rows, np.int8) if values is None else np.asarray(values)
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values.flat):
        values = values.astype(str)
    if values.dtype.kind not in "biufU":
        raise ValueError(f"y must hold numbers or texts, none of them missing; it holds {values.dtype}.")
    data = TrainingData.of_target(values, weight)
    return data._replace(X=X, sample_weight=unless_ones(data.sample_weight))


def _no_rows(binning: Binning, data: TrainingData, *, has_y: bool) -> _Codes:
    """The arrays of a table of no rows."""
    n_bytes = binning.n_features * binning.code_dtype.itemsize
    columns = np.zeros((binning.n_features, 0), binning.code_dtype)
    records = np.zeros((0, record_stride(n_bytes)), np.uint8)
    weight = None if data.sample_weight is None else data.sample_weight[:0]
    return _Codes(columns, records, np.zeros(0, np.uint64), data.y[:0] if has_y else None, weight)


def _stacked(old: Any, new: Any, place: Place) -> Any:
    """Values after others, in a place of their own."""
    if old is None:
        return None
    both = place.zeros((len(old) + len(new), *new.shape[1:]), np.promote_types(old.dtype, new.dtype))
    both[: len(old)], both[len(old) :] = old, new
    return both


def _mapped(folder: Path, name: str | None) -> Any:
    return None if name is None else np.asarray(np.load(folder / name, mmap_mode="r"))
