"""Tables that are binned once for many fits, in memory or in a folder."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import clear_frames
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.engine.bins.binned import MEMORY, ArrayAllocator, NamedFiles, record_stride
from fastens.engine.bins.binning import Binning, learn_binning
from fastens.engine.parts import FLOATS, MappedRows, RowSource, parts_of
from fastens.engine.rows.draws import hash_rows
from fastens.engine.threads import resolve_n_jobs
from fastens.modelfile.saving import plain_parameter
from fastens.table.columns.numbers import unmasked
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.memory import FitShape, needs_of_engine
from fastens.table.opening import are_texts, in_passes, open_table, split_columns
from fastens.table.parts import present_table
from fastens.table.source import MemoryLimits, checked_folder, in_bytes
from fastens.table.sources import BATCH_ROWS, BATCH_VALUES, in_memory_only
from fastens.table.training_data import TrainingData, unless_ones

# Rows whose codes are compared at a time.
_BLOCK = 1 << 16


class TableArrays(NamedTuple):
    """Arrays of a binned table, in files or in memory."""

    columns: NDArray[np.unsignedinteger]  # (n_features, n_rows)
    records: NDArray[np.uint8]  # (n_rows, stride)
    hashes: NDArray[np.uint64]  # hashes of the values of each row, which determine the sampled rows
    y: NDArray[Any] | None
    sample_weight: NDArray[np.float64] | None
    values: NDArray[np.floating] | None  # (n_rows, n_features)

    @classmethod
    def empty(cls, binning: Binning, data: TrainingData, value_dtype: np.dtype | None, *, has_y: bool) -> TableArrays:
        """Return arrays without rows whose types match the data; without values if `value_dtype` is None."""
        n_bytes = binning.n_features * binning.code_dtype.itemsize
        return cls(
            np.zeros((binning.n_features, 0), binning.code_dtype),
            np.zeros((0, record_stride(n_bytes)), np.uint8),
            np.zeros(0, np.uint64),
            data.y[:0] if has_y else None,
            None if data.sample_weight is None else data.sample_weight[:0],
            None if value_dtype is None else np.zeros((0, binning.n_features), value_dtype),
        )

    @classmethod
    def mapped(cls, folder: Path, names: dict[str, str]) -> TableArrays:
        """Return the arrays in files of a folder, mapped into memory; `names` maps each field to its file name."""
        arrays: Any = {name: np.asarray(np.load(folder / file, mmap_mode="r")) for name, file in names.items()}
        return cls(*(arrays.get(name) for name in cls._fields))

    def joined(self, data: TrainingData, binning: Binning, allocator: ArrayAllocator, n_threads: int) -> TableArrays:
        """Return new arrays, created by `allocator`, that hold these rows followed by the binned rows of `data`."""
        n_old, n_rows = len(self.hashes), len(self.hashes) + len(data.y)
        columns = allocator.named("columns").zeros((binning.n_features, n_rows), binning.code_dtype)
        records = allocator.named("records").zeros((n_rows, self.records.shape[1]), np.uint8)
        hashes = allocator.named("hashes").zeros((n_rows,), np.uint64)
        columns[:, :n_old], records[:n_old], hashes[:n_old] = self.columns, self.records, self.hashes
        values = None
        if self.values is not None:
            first = next((part.dtype for _, part in parts_of(data.X)), np.dtype(np.float32))
            kind = np.promote_types(self.values.dtype, first) if n_old else self.values.dtype
            values = allocator.named("values").zeros((n_rows, binning.n_features), kind)
            values[:n_old] = self.values

        def noted(start: int, part: NDArray[np.floating]) -> NDArray[np.floating]:
            first, end = n_old + start, n_old + start + len(part)
            hash_rows(part, hashes[first:end], n_threads)
            if values is not None:
                _copy_values(part, values[first:end])
            return part

        rows, pages = MappedRows(data.X, noted, binning.n_features), allocator.pages(columns, records, hashes)
        binning.fill(rows, columns, records, n_old, n_threads, pages)
        y = _concatenate(self.y, data.y, allocator.named("y"))
        new_weight = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
        weight = _concatenate(self.sample_weight, new_weight, allocator.named("sample_weight"))
        return TableArrays(columns, records, hashes, y, weight, values)

    def check(self, binning: Binning, *, has_values: bool, reads_all: bool) -> None:
        """Raise ValueError unless the arrays match each other and the bins.

        `has_values` says if values must be stored. If `reads_all` is True, all codes are read too, and must be valid
        and agree in both layouts.
        """
        columns, records, hashes, y, weight, values = self
        n_features, n_rows = binning.n_features, len(hashes)
        n_bytes = n_features * binning.code_dtype.itemsize
        if columns.dtype != binning.code_dtype or columns.shape != (n_features, n_rows):
            raise ValueError("its column-major codes do not match the shape or type of its bins")
        if records.dtype != np.uint8 or records.shape != (n_rows, record_stride(n_bytes)):
            raise ValueError("its row-major codes do not match the shape or type of its bins")
        if any(each is not None and len(each) != n_rows for each in (y, weight)) or hashes.dtype != np.uint64:
            raise ValueError("its targets, weights or hashes do not match its rows")
        are_right = values is None or (values.dtype in FLOATS and values.shape in ((), (n_rows, n_features)))
        if (values is not None) != has_values or not are_right:
            raise ValueError("its values do not match the shape or type of its codes")
        for start in range(0, n_rows if reads_all else 0, _BLOCK):
            by_column = columns[:, start : start + _BLOCK]
            by_row = np.ascontiguousarray(records[start : start + _BLOCK, :n_bytes]).view(columns.dtype)
            if not (by_column == by_row.T).all() or (by_column.max(axis=1) >= binning.n_codes).any():
                raise ValueError(f"the codes from row {start} on are damaged")


def record_dtypes(X: Any) -> tuple[Any, set[np.dtype]]:
    """Return X as rows that add the dtype of each part, when it is read, to a set, and this set."""
    if not isinstance(X, RowSource):
        return X, {X.dtype}
    dtypes: set[np.dtype] = set()

    def record(_: int, part: NDArray[np.floating]) -> NDArray[np.floating]:
        dtypes.add(part.dtype)
        return part

    return MappedRows(X, record, X.shape[1]), dtypes


def _copy_values(part: NDArray[np.floating], out: NDArray[np.floating]) -> None:
    """Write the values of a part to `out`; raise ValueError if the dtype of `out` cannot hold the dtype of the part."""
    if not np.can_cast(part.dtype, out.dtype):
        raise ValueError(
            f"X must have the same numeric type in all batches with keep_values=True; got {out.dtype} and {part.dtype}."
        )
    out[:] = part


def _concatenate(old: Any, new: Any, allocator: ArrayAllocator) -> Any:
    """Return the old values followed by the new values, in a new array of `allocator`; None if `old` is None."""
    if old is None:
        return None
    both = allocator.zeros((len(old) + len(new), *new.shape[1:]), np.promote_types(old.dtype, new.dtype))
    both[: len(old)], both[len(old) :] = old, new
    return both


# Files --------------------------------------------------

_FILE = re.compile(rf"(?:table|binning|{'|'.join(TableArrays._fields)})-([0-9a-f]+)\.(?:json|np[yz])")


def remove_files(folder: Path, chosen: Callable[[str], bool]) -> None:
    """Remove the files of the table versions for which `chosen(version)` is True.

    On Windows, files that are still mapped stay until the next call.
    """
    for file in folder.iterdir():
        name = _FILE.fullmatch(file.name)
        if name is not None and chosen(name[1]):
            with suppress(PermissionError):
                file.unlink(missing_ok=True)


_FORMAT = 1
_DESCRIPTION = "table.json"


@dataclass(frozen=True)
class BinningOptions:
    """Options of binning a table.

    Attributes
    ----------
    max_bins, categorical_features, n_jobs
        Parameters of the same name as in the models that will be fitted, with the same values.
    missing_is_category : bool
        If True, missing values of categorical columns form a category of their own, as with
        ``Categories(missing="category")`` in the models.
    keep_values : bool
        If True, the values are stored next to the bin codes, as float32 if the whole table is float32, otherwise as
        float64. Values are needed by single trees, extra trees, isolation forests, linear leaves, target statistics,
        medians over trees (the predictions of `AdaBoostRegressor`), feature contributions and permutation importances.
    max_memory, spill_dir
        Memory limit and folder for temporary files, as in `TableSource`.
    """

    max_bins: int = 255
    categorical_features: Any = "from_dtype"
    text_features: Any = None
    missing_is_category: bool = False
    keep_values: bool = False
    max_memory: int | str | None = None
    spill_dir: str | os.PathLike[str] | None = None
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.max_bins, bool) or not isinstance(self.max_bins, int) or not 2 <= self.max_bins <= 65_535:
            raise ValueError(f"max_bins must be an integer from 2 to 65535; got {self.max_bins!r}.")

    @property
    def reading(self) -> Reading:
        """Return the options with which the encoder reads the table."""
        return Reading(
            self.categorical_features,
            self.missing_is_category,
            splits_dates=True,
            text_features=self.text_features,
            splits_lists=True,
        )

    def allocator(self, shape: tuple[int, int]) -> ArrayAllocator:
        """Return the allocator of bin codes for a table of this shape that is not saved to a folder.

        It allocates in memory, or in temporary files of `spill_dir` if `max_memory` would be exceeded. Raises
        ValueError if the limit is too small for both.
        """
        folder = checked_folder(self.spill_dir)
        if self.max_memory is None:
            return MEMORY
        needs = needs_of_engine("table", vars(self), FitShape(*shape))
        return MemoryLimits(in_bytes(self.max_memory), folder).allocator(needs, "BinnedTable")


@dataclass(frozen=True, eq=False)
class BinnedTable(RowSource):
    """Table that is binned once and whose bin codes are shared by many fits.

    Tree-based estimators accept it as X, and so do searches, stacking, voting and bagging over them; nothing is read or
    binned again. The bins are learned on the whole table, including held-out rows of cross-validation. The `max_bins`
    of a model must equal the `max_bins` of the table. Models that read values need ``keep_values=True`` (see
    `BinningOptions`); target statistics are computed and binned in each fit.

    Create a table with `from_source` or open a saved one with `open`. ``table[rows]`` selects rows, as the splitters
    and searches of scikit-learn do.

    Attributes
    ----------
    y : array or None
        Targets that the table was created with. `fit` uses them if its own `y` is None.
    sample_weight : array or None
        Weights that the table was created with. `fit` uses them if its own `sample_weight` is None.
    path : path or None
        Folder of the files. If None, the table is in memory or in temporary files.

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
    _arrays: TableArrays
    path: Path | None = None
    y_name: str | list[str] | None = None
    rows: NDArray[np.intp] | None = None
    version: str = ""
    owner: str = "methods that need values"

    is_coded = True
    selects_tables = True

    # Making --------------------------------------------------

    @classmethod
    @in_memory_only
    def from_source(
        cls,
        source: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        path: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> BinnedTable:
        """Bin a table in two passes: one to learn the bins, one to write the bin codes.

        Parameters
        ----------
        source : anything that `fit` accepts as X
            The table to bin.
        y, sample_weight : array, str or list of str, optional
            Targets and weights, or the names of their columns. Rows with weight 0 are left out.
        path : path, optional
            Folder for the files, which must not exist yet. If None, the codes stay in memory, or in temporary files if
            they exceed `max_memory`.
        **options : fields of BinningOptions
            ``max_bins=255``, ``categorical_features="from_dtype"``, ``text_features=None``,
            ``missing_is_category=False``, ``keep_values=False``, ``max_memory=None``, ``spill_dir=None``,
            ``n_jobs=None``.

        Returns
        -------
        BinnedTable
            The binned table.

        Raises
        ------
        ValueError
            If an option is invalid or the folder already exists.
        OSError
            If the disk is full. Files that were already written are removed.
        """
        chosen = BinningOptions(**options)
        n_threads = resolve_n_jobs(chosen.n_jobs)
        source = _rereadable(source)
        allocator = MEMORY if path is not None else chosen.allocator(source.shape)
        data = _split_training_data(source, y, sample_weight)
        X, data = present_table(data.X, data)
        encoder, rows = InputEncoder.learn(X, chosen.reading, cls.__name__, n_threads)
        data = data.with_table(rows)
        noted, types = record_dtypes(data.X)
        weight = unless_ones(data.sample_weight)
        is_categorical = np.append(encoder.is_categorical, np.zeros(encoder.n_derived, dtype=bool))
        binning = learn_binning(noted, weight, chosen.max_bins, is_categorical, n_threads)
        kind_of_values = np.result_type(*types) if chosen.keep_values else None
        none = TableArrays.empty(binning, data, kind_of_values, has_y=y is not None)
        empty = cls(encoder, binning, chosen, none, y_name=_target_names(y, data.y))
        if path is None:
            return replace(empty, _arrays=none.joined(data, binning, allocator, n_threads))
        folder = Path(path)
        try:
            folder.mkdir()
        except FileExistsError as error:
            raise ValueError(f"path must name a folder that does not exist yet; got {str(path)!r}.") from error
        return replace(empty, path=folder)._append_to_files(data)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, check: bool = True) -> BinnedTable:
        """Open a saved table by mapping its files into memory.

        Parameters
        ----------
        path : path
            Folder that was passed to `from_source`.
        check : bool, default=True
            If True, all codes are read and validated. Damaged codes could crash `fit`.

        Returns
        -------
        BinnedTable
            The saved table.

        Raises
        ------
        ValueError
            If the folder does not hold a binned table, or the table is damaged.
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
                TableArrays.mapped(folder, state["arrays"]),
                folder,
                state["y_name"],
                version=state["version"],
            )
            opened._arrays.check(binning, has_values=opened.options.keep_values, reads_all=check)
        except (OSError, EOFError, BadZipFile, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"path must be a folder that BinnedTable wrote; {str(path)!r}: {error}") from error
        return opened

    def append(self, source: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> BinnedTable:
        """Return the table with more rows, binned with the existing bins; its files are replaced.

        Categories that are new to the table become missing values.

        Parameters
        ----------
        source, y, sample_weight
            Rows to append, as in `from_source`. Targets and weights must be passed if and only if the table has them.

        Returns
        -------
        BinnedTable
            The extended table, which replaces this one.

        Raises
        ------
        ValueError
            If this table is only a selection of rows, is not the newest version in its folder, or if targets or weights
            do not match the table.
        """
        if self.rows is not None:
            raise ValueError("append must be called on the whole table; this BinnedTable selects some of its rows.")
        self._check_newest()
        y = self.y_name if y is None else y
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if (value is None) != (getattr(self._arrays, name) is None):
                raise ValueError(f"{name} must be passed if the table has it, and only then; got {value!r}.")
        data = _split_training_data(_rereadable(source), y, sample_weight)
        table_y = self._arrays.y
        if table_y is not None and _target_layout(table_y) != _target_layout(data.y):
            theirs, ours = (f"{each.dtype} of shape {each.shape}" for each in (table_y, data.y))
            raise ValueError(f"y must hold the same type as the y of the table, {theirs}; it holds {ours}.")
        n_threads = resolve_n_jobs(self.options.n_jobs)
        X, data = present_table(data.X, data)
        data = data.with_table(self.encoder.encode(X, self.options.reading, "BinnedTable", n_threads))
        if self.path is None:
            allocator = self.options.allocator((len(self) + len(data.y), self.shape[1]))
            return replace(self, _arrays=self._arrays.joined(data, self.binning, allocator, n_threads))
        return self._append_to_files(data)

    def _check_newest(self) -> None:
        """Raise ValueError if the folder holds a later version, because replacing its files would lose rows."""
        if self.path is None or not self.version:
            return
        if self._version_in_folder() != self.version:
            raise ValueError(
                "append must be called on the latest version of the table; rows have been appended to this "
                f"one. Use the table that append returned, or BinnedTable.open({str(self.path)!r})."
            )

    def _version_in_folder(self) -> str | None:
        """Return the version of the table that the folder holds, or None if it does not hold a table."""
        assert self.path is not None
        try:
            return str(json.loads((self.path / _DESCRIPTION).read_text(encoding="utf-8"))["version"])
        except FileNotFoundError:
            return None

    def _append_to_files(self, data: TrainingData) -> BinnedTable:
        """Write the rows of this table and of `data` to new files, and return the new table.

        The old files stay until the new files are complete.
        """
        assert self.path is not None
        version = secrets.token_hex(4)
        try:
            arrays = self._write_version(data, version)
        except BaseException as error:
            clear_frames(error.__traceback__)  # the frames hold mapped files, which Windows would not remove
            if self._version_in_folder() != version:  # Ctrl-C may arrive after the new table is complete
                remove_files(self.path, lambda other: other == version)
                with suppress(OSError):  # the folder is not empty if it holds an earlier table
                    self.path.rmdir()
            raise
        remove_files(self.path, lambda other: other != version)
        return replace(self, _arrays=arrays, version=version)

    def _write_version(self, data: TrainingData, version: str) -> TableArrays:
        """Write the arrays of this table with the rows of `data` appended, and its description; return the arrays."""
        assert self.path is not None
        allocator = NamedFiles(self.path, f"-{version}.npy")
        arrays = self._arrays.joined(data, self.binning, allocator, resolve_n_jobs(self.options.n_jobs))
        bins: dict[str, Any] = self.binning.to_arrays()
        np.savez(self.path / f"binning-{version}.npz", **bins)
        self._check_newest()
        self._write_description(arrays, version)
        return arrays

    def _write_description(self, arrays: TableArrays, version: str) -> None:
        """Replace table.json, the description of the table in its folder, atomically by one of `version`."""
        assert self.path is not None
        files = {name: f"{name}-{version}.npy" for name, array in arrays._asdict().items() if array is not None}
        options = vars(replace(self.options, max_memory=None, spill_dir=None, text_features=None))
        state = {
            "format": _FORMAT,
            "version": version,
            "encoder": self.encoder.to_state(),
            "options": options,
            "y_name": self.y_name,
            "binning": f"binning-{version}.npz",
            "arrays": files,
        }
        new = self.path / f"table-{version}.json"
        new.write_text(json.dumps(state), encoding="utf-8")
        new.replace(self.path / _DESCRIPTION)

    # Rows --------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Numbers of rows and columns."""
        n_rows = len(self._arrays.hashes) if self.rows is None else len(self.rows)
        return n_rows, len(self.encoder.column_of)

    def parts(self) -> Iterator[NDArray[np.floating]]:
        """Yield the values of the rows in parts; raise ValueError if the table holds only codes."""
        values = self._values()
        step = max(1, min(BATCH_ROWS, BATCH_VALUES // max(1, values.shape[1])))
        for start in range(0, len(self), step):
            yield values[slice(start, start + step) if self.rows is None else self.rows[start : start + step]]

    def values(self) -> NDArray[np.floating]:
        """Return the values of all rows; raise ValueError if the table holds only codes."""
        return self._select_rows(self._values())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the values as an array, with categories as their positions, for other libraries."""
        return np.array(self.values(), dtype, copy=copy)

    def _check_values(self, what: str) -> None:
        """Raise ValueError, because the table lacks the values of its original columns, which `what` needs."""
        raise ValueError(f"X must be the table itself, not a BinnedTable, for {what}.")

    def _values(self) -> NDArray[np.floating]:
        """Return the values of all stored rows; raise ValueError if the table holds only codes."""
        if self._arrays.values is None:
            raise ValueError(
                f"X must be the table itself, or a BinnedTable made with keep_values=True, for {self.owner}; "
                "this one has only codes. Values are needed for linear leaves, target statistics (use "
                "Categories(encoding='partition')), single trees, random thresholds, medians over trees, "
                "contributions and permutation importances."
            )
        return self._arrays.values

    def validate_for(self, owner: str) -> BinnedTable:
        """Return the table with `owner`, the name of the estimator that reads it, for error messages."""
        return self if owner == self.owner else replace(self, owner=owner)

    def __getitem__(self, rows: Any) -> BinnedTable:
        """Return the table with a selection of rows: row numbers, a mask or a slice."""
        if isinstance(rows, tuple):  # scikit-learn indexes with (rows, ...)
            rows = rows[0]
        numbers = np.arange(len(self))[rows]
        if numbers.ndim != 1:
            raise ValueError(f"rows must be a list of row indices, a mask or a slice; got {rows!r}.")
        return replace(self, rows=numbers if self.rows is None else self.rows[numbers])

    def __repr__(self) -> str:
        """Return the shape, the number of bins and the folder."""
        return f"BinnedTable({self.shape[0]} x {self.shape[1]}, max_bins={self.options.max_bins}, path={self.path})"

    @property
    def y(self) -> NDArray[Any] | None:
        """Targets of the rows, or None."""
        return self._select_rows(self._arrays.y)

    @property
    def sample_weight(self) -> NDArray[np.float64] | None:
        """Weights of the rows, or None."""
        return self._select_rows(self._arrays.sample_weight)

    def _select_rows(self, values: Any) -> Any:
        """Return the selected rows of `values`, an array with one entry a stored row; None if `values` is None."""
        return values if values is None or self.rows is None else values[self.rows]

    # Access by fits --------------------------------------------------

    def with_columns(self, given: dict[str, Any]) -> list[Any]:
        """Return the table without its targets and weights, followed by the value of each argument of `fit` in `given`.

        Arguments that are None or a column name are replaced by the table's own targets or weights. Raises ValueError
        for a name that the table does not have.
        """
        stored = {"y": (self.y, self.y_name), "sample_weight": (self.sample_weight, None)}
        resolved = []
        for what, value in given.items():
            table_value, name = stored.get(what, (None, None))
            is_name = isinstance(value, str) or (are_texts(value) and list(value) == name)
            if is_name and (value != name or table_value is None):
                raise ValueError(
                    f"{what} must be an array, or the name of the column in the BinnedTable ({name!r}); got {value!r}."
                )
            resolved.append(table_value if value is None or is_name else value)
        return [replace(self, _arrays=self._arrays._replace(y=None, sample_weight=None), y_name=None), *resolved]

    def encoder_of(self, reading: Reading, owner: str) -> InputEncoder:
        """Return the encoder; raise ValueError if `reading` differs from the options with which the table was encoded.

        `reading` holds the options of the estimator that is named by `owner`.
        """
        expected = self.options.reading
        if reading.as_codes:
            raise ValueError(f"X must be a table of values for {owner}; got a BinnedTable, which holds only bin codes.")
        chosen = reading.categorical_features
        is_plain = isinstance(chosen, str) and chosen == "from_dtype"
        if not is_plain and not np.array_equal(chosen, expected.categorical_features):
            raise ValueError(
                f"categorical_features must be the same as in the BinnedTable ({expected.categorical_features!r}); "
                f"got {chosen!r}."
            )
        texts = plain_parameter(reading.text_features)
        if texts is not None and texts != plain_parameter(expected.text_features):
            raise ValueError(
                "text_features must be None or the same as in the BinnedTable; got "
                f"{reading.text_features!r}. Pass text_features to BinnedTable.from_source."
            )
        if reading.missing_is_category != expected.missing_is_category:
            raise ValueError(
                "categories.missing must be the same as in the BinnedTable "
                f"(missing_is_category={expected.missing_is_category}); got "
                f"missing_is_category={reading.missing_is_category}."
            )
        return self.encoder

    def checked(self, encoder: InputEncoder) -> BinnedTable:
        """Return the table; raise ValueError if its encoder differs from `encoder`, the encoder of the model."""
        if encoder is not self.encoder and encoder.to_state() != self.encoder.to_state():
            raise ValueError(
                "X must have the columns that the model was fitted on; got a BinnedTable with other columns."
            )
        return self

    def learned(self, max_bins: int | NDArray[Any]) -> Binning:
        """Return the bins; raise ValueError if `max_bins`, a parameter of the model, differs from the table's."""
        if np.ndim(max_bins) or max_bins != self.options.max_bins:
            raise ValueError(f"max_bins must be {self.options.max_bins}, as in the BinnedTable; got {max_bins}.")
        return self.binning

    def hashes(self) -> NDArray[np.uint64]:
        """Return the hash of the values of each row."""
        return self._select_rows(self._arrays.hashes)

    def has_codes_of(self, binning: Binning) -> bool:
        """Return True if the bins of the table equal `binning`; False if its values must be binned again.

        Raises ValueError if the bins differ and the table holds no values.
        """
        if binning is self.binning:
            return True
        table_arrays, others = self.binning.to_arrays(), binning.to_arrays()
        has = table_arrays.keys() == others.keys() and all(
            np.array_equal(table_arrays[name], others[name]) for name in table_arrays
        )
        if not has and self._arrays.values is None:
            raise ValueError(
                f"X must have the same bins as {self.owner}; got a BinnedTable with other bins. Pass the table "
                "itself, or build the BinnedTable with keep_values=True."
            )
        return has

    def codes(self) -> NDArray[np.unsignedinteger]:
        """Return the bin codes in column-major form, shape (n_features, n_rows)."""
        return self._arrays.columns if self.rows is None else np.take(self._arrays.columns, self.rows, axis=1)

    def records(self) -> NDArray[np.uint8]:
        """Return the bin codes in row-major form, shape (n_rows, stride) in bytes."""
        return self._arrays.records if self.rows is None else np.take(self._arrays.records, self.rows, axis=0)


def _target_names(y: Any, targets: NDArray[Any]) -> str | list[str] | None:
    """Return the column names that were passed as `y`, or None if `y` holds the values of `targets` themselves."""
    is_named = isinstance(y, str) or (are_texts(y) and targets.shape != (len(y),))
    return (y if isinstance(y, str) else list(y)) if is_named else None


def _rereadable(source: Any) -> Any:
    """Return the table in a form that can be read several times; sequences of rows become arrays."""
    source = in_passes(source)
    return source if hasattr(source, "shape") else open_table(source, "BinnedTable").native


def _split_training_data(source: Any, y: Any, sample_weight: Any) -> TrainingData:
    """Return the training data of a table, with X unread and without the columns that are named as targets or weights.

    `y` and `sample_weight` are arrays or names of columns of `source`; y becomes zeros if it is None.
    """
    X, values, weight = split_columns(source, y=y, sample_weight=sample_weight)
    n_rows = X.shape[0]
    values = np.zeros(n_rows, np.int8) if values is None else np.asarray(unmasked(values, "y"))
    data = TrainingData.of_target(values, weight)
    return data._replace(X=X, y=_storable_target(data.y))


def _target_layout(y: NDArray[Any]) -> tuple[Any, ...]:
    """Return what appended targets must share with `y`: the shape of a row, the field names and if they are strings."""
    return y.shape[1:], y.dtype.names, y.dtype.kind == "U"


def _storable_target(y: NDArray[Any]) -> NDArray[Any]:
    """Return the targets in a dtype that files can hold; raise ValueError for mixed or missing values."""
    if y.dtype.kind == "O":
        are_strings = {isinstance(value, str) for value in y.flat}
        y = y.astype(str) if False not in are_strings else y if True in are_strings else np.array(y.tolist())
    fields = [y.dtype[name] for name in y.dtype.names or ()] or [y.dtype]  # survival targets are structured
    if any(field.kind not in "biufU" for field in fields):
        raise ValueError(f"y must hold only numbers or only strings, without missing values; it holds {y.dtype}.")
    return y
