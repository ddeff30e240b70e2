"""Input of estimators: opens tables of any kind, and separates their target and weight columns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from functools import wraps
from inspect import signature
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier

from fastens.engine.names import are_positions, is_label, plain_name, plain_names
from fastens.engine.parts import RowSource, is_coded
from fastens.rollback import restore_on_error
from fastens.table.arrays import check_sparse_indices, plain_array
from fastens.table.columns.numbers import array_of
from fastens.table.memory import needs_of
from fastens.table.parted import PartedTable, StreamedTable
from fastens.table.source import MemoryLimits, TableParts, TableSource, shape_of_fit
from fastens.table.sources import (
    Batches,
    call_on_cluster,
    check_in_memory_only,
    cluster_of,
    is_source,
    is_stream,
    open_batches,
    other_arguments,
    refuse,
    tables_among,
)
from fastens.table.tables import Table, is_frame, table_from_array, table_from_frame
from fastens.table.training_data import columns_of_labels

# Parameters that may name a column, by the parameter of their table.
_NAMED = {"X": ("y", "sample_weight", "qid", "position"), "X_val": ("y_val", "sample_weight_val", "qid_val")}
_WITH_COLUMNS = (Batches, TableParts)
# Column names with a meaning for survival models.
_TIMES = ({"event", "time"}, {"lower", "upper"})


def open_table(X: Any, owner: str, min_rows: int = 1) -> Table:
    """Return any table as a `Table`; `owner` is the name of the estimator in error messages.

    Arrays, frames, sparse matrices, row sources and sources for `open_batches` are accepted, and all later code is
    independent of the original type. Raises ValueError if there are fewer than `min_rows` rows.
    """
    is_named = is_frame(X)
    if not is_named and cluster_of(X) is not None:
        raise refuse("X", X, owner)
    X = X if is_named else in_parts(X)
    if isinstance(X, RowSource):
        table: Table = StreamedTable(X) if isinstance(X, Batches) else PartedTable(X)
    else:
        table = table_from_frame(X) if is_named else table_from_array(X, owner, min_rows)
    return table.require_rows(min_rows)


def in_parts(X: Any) -> Any:
    """Return a path, stream, `TableSource` or other source read in parts as a row source; other tables unchanged."""
    if isinstance(X, TableSource):
        return opened_source(X)
    return open_batches(X) if is_source(X) else X


def opened_source(source: TableSource) -> Any:
    """Return the table of a `TableSource` as a row source or sparse matrix that carries the memory limit.

    Raises ValueError if the selected columns are not columns of the table.
    """
    opened: Any
    if sparse.issparse(source.table):
        if source.columns is not None:
            raise ValueError("columns must be None for a sparse matrix, because it has no column names.")
        opened = copy(source.table)  # a shallow copy, which shares the arrays
        opened.limits = source.limits
        return opened
    if isinstance(source.table, Batches):
        opened = source.table[:]
    else:
        is_read = is_source(source.table)
        opened = open_batches(source.table, source.folder) if is_read else TableParts(source.table)
    if source.columns is not None:
        if opened.columns:  # arrays have no column names; `select` raises the error
            _check_selected(source.columns, opened.columns)
        opened = opened.select(map(plain_name, source.columns))
    opened.limits = source.limits
    return opened


def table_in_memory(source: TableSource) -> Any:
    """Return the table of a `TableSource` that is already in memory, with only the selected columns.

    Raises ValueError if the selected columns are not columns of the table.
    """
    if source.columns is None:
        is_table = is_frame(source.table) or sparse.issparse(source.table)
        return source.table if is_table else plain_array(source.table)
    if not is_frame(source.table):
        raise ValueError("columns must be None for a table without column names.")
    frame = nw.from_native(source.table, eager_only=True)
    names = plain_names(frame.columns)
    _check_selected(source.columns, names)
    return frame[:, [names.index(plain_name(name)) for name in source.columns]].to_native()


def _check_selected(selected: list[Any], names: list[Any]) -> None:
    """Raise ValueError if a selected column is not in `names` or is selected twice."""
    selected = list(map(plain_name, selected))
    for index, name in enumerate(selected):
        if name not in names:
            raise ValueError(f"columns must name columns of X; got {name!r}, and the columns are {names}.")
        if name in selected[:index]:
            raise ValueError(f"columns must list each column once; got {name!r} twice.")


def in_passes(X: Any) -> Any:
    """Return a table that is read in parts as a row source that raises if two passes yield different rows.

    Other tables are returned unchanged.
    """
    X = in_parts(X)
    return X.compared() if isinstance(X, Batches) else X


def selectable(X: Any) -> Any:
    """Return a table as a kind that supports row selection; objects that are not tables are returned unchanged."""
    X = in_parts(X)
    check_sparse_indices(X)
    is_known = isinstance(X, list | tuple | np.ndarray | RowSource) or sparse.issparse(X) or is_frame(X)
    if is_known or nw.dependencies.is_into_series(X):
        return X
    array = np.asarray(X)
    return array if array.ndim else X


def as_given(X: Any, owner: str, min_rows: int = 1) -> Any:
    """Return a frame or sparse matrix unchanged, and any other table as an array or row source, after checks.

    Raises ValueError that names `owner` if the table is invalid or has fewer than `min_rows` rows.
    """
    return X if is_frame(X) or sparse.issparse(X) else open_table(X, owner, min_rows).native


def split_columns(X: Any, *, keep_names: bool = False, **arguments: Any) -> list[Any]:
    """Return the table without the columns that arguments name, then each argument with names replaced by values.

    Parameters
    ----------
    X : table
        Table, or source that is read in parts.
    keep_names : bool, default=False
        If True, two target columns always keep their names.
    **arguments
        Arguments, some of which may name columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from fastens.table.opening import split_columns
    >>> X, y, sample_weight = split_columns(pd.DataFrame({"a": [1, 2], "b": [0, 1]}), y="b", sample_weight=None)
    >>> list(X), y, sample_weight
    (['a'], array([0, 1]), None)
    """
    if is_coded(X):
        return X.with_columns(arguments)
    may_name = any(_may_name(what, value) for what, value in arguments.items())
    X = in_parts(X) if may_name or isinstance(X, TableSource) else X
    is_parted = isinstance(X, _WITH_COLUMNS)
    native = table_from_frame(X).native if not is_parted and is_frame(X) else None
    frame: Any = X if is_parted else None if native is None else nw.from_native(native, eager_only=True)
    header = [] if frame is None else plain_names(frame.columns)
    names = {
        what: value
        for what, value in arguments.items()
        if _may_name(what, value) and _names_columns(what, value, frame, header)
    }
    if not names:
        return [open_batches(X) if is_stream(X) else X, *arguments.values()]
    listed = {what: _listed_names(value, header) for what, value in names.items()}
    chosen = list(dict.fromkeys(name for each in listed.values() for name in each))
    for what, each in listed.items():
        if frame is None:
            raise ValueError(f"{what} must be an array if X has no column names; got {names[what]!r}.")
        for name in each:
            if name not in header:
                raise ValueError(f"{what} must name a column of X; got {name!r}, and the columns are {header}.")
    others = [index for index, name in enumerate(header) if name not in chosen]
    if not others and header and not is_parted:  # a frame without columns does not have rows
        raise ValueError(
            f"Found array with 0 feature(s) (shape={(len(frame), 0)}) while a minimum of 1 is required: all columns of "
            f"X are {' or '.join(listed)}."
        )
    # Columns are selected by position, because narwhals cannot select names that are not strings.
    rest = frame.select([header[index] for index in others]) if is_parted else frame[:, others]
    columns = frame.values_of(chosen) if is_parted else [array_of(frame[:, header.index(name)]) for name in chosen]
    values = dict(zip(chosen, columns, strict=True))
    extracted = {
        what: joined_targets({name: values[name] for name in each}, keep_names) for what, each in listed.items()
    }
    return [rest if is_parted else rest.to_native(), *(extracted.get(what, value) for what, value in arguments.items())]


def are_texts(value: Any) -> bool:
    """Return True if a value is a non-empty list of strings: column names or labels."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, str) for each in value)


def _may_name(parameter: str, value: Any) -> bool:
    """Return True if the value of `parameter` can be a column name or list of names; numeric weights cannot."""
    if parameter in ("sample_weight", "sample_weight_val") and isinstance(value, bool | int | float | np.number):
        return False
    return is_label(value) or (parameter in ("y", "y_val") and isinstance(value, list) and bool(value))


def _names_columns(parameter: str, value: Any, frame: Any, header: list[Any]) -> bool:
    """Return True if the value of `parameter`, which may name columns, does name columns of `frame`.

    `header` holds the names of its columns. A list with one item per row of a table in memory holds the targets
    themselves. Numbers in a list are names only if the columns of the frame have names other than their positions.
    """
    if isinstance(value, str):
        return True
    if frame is None:
        return False
    if not isinstance(value, list | tuple) or (isinstance(value, tuple) and plain_name(value) in header):
        return True
    is_parted = isinstance(frame, _WITH_COLUMNS)
    if parameter not in ("y", "y_val") or not value or (not is_parted and len(value) == len(frame)):
        return False
    if not all(map(is_label, value)) or (are_positions(header) and not are_texts(value)):
        return False
    names = set(map(plain_name, value))
    return len(names) == len(value) and not names.isdisjoint(header)


def _listed_names(value: Any, header: list[Any]) -> list[Any]:
    """Return a column name, or a list of names, as a list of normalised names; a tuple in `header` is one name."""
    is_one = not isinstance(value, list | tuple) or (isinstance(value, tuple) and plain_name(value) in header)
    return [plain_name(value)] if is_one else list(map(plain_name, value))


def joined_targets(columns: dict[str, NDArray[Any]], keep_names: bool = False) -> NDArray[Any]:
    """Return one target column unchanged, and several as the columns of an array.

    Survival times with their events become a structured array that keeps the names. With `keep_names`, any two columns
    do.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.opening import joined_targets
    >>> joined_targets({"a": np.array([1, 2]), "b": np.array([3, 4])}).tolist()
    [[1, 3], [2, 4]]
    >>> joined_targets({"lost": np.array([True, False]), "years": np.array([0.5, 4.0])}).dtype.names
    ('lost', 'years')
    """
    if len(columns) == 1:
        return next(iter(columns.values()))
    n_flags = sum(values.dtype == bool for values in columns.values())
    if len(columns) == 2 and (keep_names or n_flags == 1 or set(columns) in _TIMES):
        rows = np.empty(len(next(iter(columns.values()))), [(name, values.dtype) for name, values in columns.items()])
        for name, values in columns.items():
            rows[name] = values
        return rows
    return columns_of_labels(columns.values())


def _unstructured(y: Any) -> Any:
    """Return structured targets as the columns of a plain array, and other targets unchanged."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    return columns_of_labels(y[name] for name in names) if names else y


def opening_tables(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method so that its targets, weights and queries may be names of columns of its table.

    The method receives the table without these columns. Streams, which can be read only once, are opened once for the
    whole call. `fit` and `score` accept tables of a cluster as X. For `fit`, all tables that are read in parts are
    opened, and a BinnedTable supplies its own targets and weights. A `fit` that fails restores the estimator. All of
    this is one function, the only stack frame that a traceback shows between the caller and `fit`.
    """
    parameters = signature(method).parameters
    takes_more = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    order = [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD][1:]
    has_names = "X" in parameters and not parameters.keys().isdisjoint(_NAMED["X"])
    own_arguments = [name for name in ("y", "sample_weight") if name in parameters or takes_more]
    fits, checks = method.__name__ == "fit", method.__name__ in ("fit", "score")
    on_clusters = checks and list(parameters)[1:2] == ["X"]
    others = tables_among(list(parameters)) if checks else []
    others = [] if on_clusters and len(others) == 1 else others
    if not (has_names or checks):
        return method

    def check(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Check the arguments, and return X if it is a table of a cluster."""
        if not takes_more and not parameters.keys() >= kwargs.keys():
            self._check_names(method, kwargs)
        X = kwargs["X"] if "X" in kwargs else args[0] if args else None
        if on_clusters and cluster_of(X):
            return X
        check_in_memory_only(method, others, (self, *args), kwargs)
        return None

    def opened(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments = {**dict(zip(order, args, strict=False)), **kwargs}
        is_opened, limits = _open_fit_table(self, arguments, own_arguments) if fits else (False, None)
        is_split = _resolve_column_names(self, arguments)
        _check_memory_limit(self, arguments, limits)
        if not (is_split or is_opened):
            return args, kwargs
        if getattr(self, "_takes_several_targets", False):
            arguments |= {name: _unstructured(arguments[name]) for name in ("y", "y_val") if name in arguments}
        return (*(arguments.pop(name) for name in order[: len(args)]), *args[len(order) :]), arguments

    @wraps(method)
    def enter(self: Any, *args: Any, **kwargs: Any) -> Any:
        X = check(self, args, kwargs) if checks else None
        if X is not None:
            return call_on_cluster(method, self, X, other_arguments(method, self, args, kwargs))
        args, kwargs = opened(self, args, kwargs) if has_names else (args, kwargs)
        with restore_on_error(self, fits=True) if fits and has_names else nullcontext():
            return method(self, *args, **kwargs)

    return enter


def _open_fit_table(model: Any, arguments: dict[str, Any], from_table: list[str]) -> tuple[bool, MemoryLimits | None]:
    """Replace X among the arguments of `fit` by the opened table, and use the targets and weights that it holds.

    `from_table` names the arguments that a BinnedTable may supply itself. Returns True if the arguments changed, and
    the memory limit of a table in memory that the model itself cannot check, or None. Raises ValueError if the model
    cannot be fitted on this kind of table.
    """
    X: Any = arguments.get("X")
    if is_coded(X):
        if not model._capabilities.supports_binned:
            raise ValueError(
                f"X must be the table itself, not a BinnedTable, for {type(model).__name__}, because it bins "
                "tables differently."
            )
        y: Any = arguments.get("y")
        names: Any = getattr(X, "y_name", None)
        arguments["X"], *values = X.with_columns({name: arguments.get(name) for name in from_table})
        arguments.update({name: value for name, value in zip(from_table, values, strict=True) if value is not None})
        if getattr(model, "_learns_names_of_targets", False) and are_texts(names) and (y is None or are_texts(y)):
            y = arguments["y"]  # several targets keep their names
            arguments["y"] = joined_targets(dict(zip(names, y.T, strict=True)), keep_names=True) if y.ndim == 2 else y
        return True, None
    if not model._is_source(X):
        if not (model._capabilities.supports_out_of_core or model._capabilities.predicts_row_sources):
            check_in_memory(model, X)  # a member of an ensemble may get rows of a TableSource
        return False, None
    if not model._capabilities.supports_out_of_core:
        if isinstance(X, TableSource) and not is_source(X.table):
            arguments["X"] = table_in_memory(X)
            return True, X.limits
        raise ValueError(
            f"X must be a table in memory for {type(model).__name__}, because it needs random access to the rows; "
            "got a table in files or a stream. Read it first, with fastens.read_table for files or read_all() of an "
            "Arrow stream."
        )
    arguments["X"] = in_passes(X)
    return True, None


def check_in_memory(model: Any, X: Any) -> None:
    """Raise ValueError if X is read in parts; called for models that need random access to the rows."""
    if isinstance(X, RowSource) or model._is_source(X):
        raise ValueError(
            f"X must be a table in memory for {type(model).__name__}, because it needs random access to the rows; "
            "got a table that is read in batches. Pass the table itself instead of a TableSource."
        )


def _check_memory_limit(model: Any, arguments: dict[str, Any], limits: MemoryLimits | None) -> None:
    """Raise ValueError if a fit with these arguments would exceed the memory limit, unless `limits` is None."""
    if limits is None:
        return
    X, y = open_table(arguments["X"], type(model).__name__).source, np.asarray(arguments.get("y"))
    n_classes = len(set(y.ravel().tolist())) if is_classifier(model) else 1
    shape = shape_of_fit(model, X, y, n_classes, weighted=arguments.get("sample_weight") is not None)
    limits.allocator(needs_of(model, shape), type(model).__name__)


def _resolve_column_names(model: Any, arguments: dict[str, Any]) -> bool:
    """Replace column names among the arguments of a method, in place, by the columns, and X by the other columns.

    Returns True if the arguments changed.
    """
    is_split = False
    for table, names in _NAMED.items():
        X = arguments.get(table)
        may_have_names = is_coded(X) or is_frame(X) or model._is_source(X)
        columns = {
            name: arguments[name]
            for name in names
            if isinstance(arguments.get(name), str) or (may_have_names and _may_name(name, arguments.get(name)))
        }
        if columns or is_stream(arguments.get(table)):
            keep_names = getattr(model, "_learns_names_of_targets", False)
            arguments[table], *values = split_columns(arguments.get(table), keep_names=keep_names, **columns)
            arguments.update(zip(columns, values, strict=True))
            is_split = True
    return is_split
