"""The input of estimators: a table of any kind, and the columns of it that are targets and weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.places import MEMORY, Place
from fastens.engine.parts import RowSource, is_coded
from fastens.table.columns.arrays import checked_array
from fastens.table.memory_limits import TableShape
from fastens.table.source import Source, TableParts
from fastens.table.sources import Batches, is_source, is_stream, open_batches
from fastens.table.streamed import StreamedTable
from fastens.table.tables import PartedTable, Table, is_frame, is_plain, table_from_array, table_from_frame

# What may be the name of a column of a table, by the parameters that take both.
_NAMED = {"X": ("y", "sample_weight", "qid"), "X_val": ("y_val", "sample_weight_val", "qid_val")}
_WITH_COLUMNS = (Batches, TableParts)


def open_table(X: Any, owner: str, fewest: int = 1) -> Table:
    """Return a table over an array, a frame, a sparse matrix, a row source or what `open_batches` takes.

    ValueError for one of fewer rows.
    """
    return Table(X, array=X) if is_plain(X) else with_rows(_opened(X, owner, fewest), fewest)


def _opened(X: Any, owner: str, fewest: int) -> Table:
    if is_frame(X):
        return table_from_frame(X)
    X = in_parts(X)
    if isinstance(X, RowSource):
        return StreamedTable(X) if isinstance(X, Batches) else PartedTable(X)
    array = checked_array(X, owner, fewest)
    return table_from_array(array) if isinstance(array, np.ndarray) else Table(array, array=array)


def in_parts(X: Any) -> Any:
    """Return what is read in parts as a row source, any other table as it is."""
    if isinstance(X, Source):
        return X.opened()
    return open_batches(X) if is_source(X) else X


def place_within_limits(
    X: Any, model: Any, y: NDArray[Any] | None = None, n_columns: int | None = None, *, weighted: bool = False
) -> Place:
    """Return where the codes of a table go for a fit; ValueError where the fit takes more memory than it may.

    Before the targets `y` are known, and how many columns there are once dates have become several, it is the least
    that the fit will take.
    """
    limits = getattr(X, "limits", None)
    if limits is None:
        return MEMORY
    n_targets = 1 if y is None or y.ndim == 1 else y.shape[1]
    classes, quantile = vars(model).get("classes_"), getattr(model, "quantile", None)
    has_many = y is not None and isinstance(classes, np.ndarray) and len(classes) > 2
    n_outputs = n_targets * (len(classes) if has_many and classes is not None else 1)
    n_outputs *= len(quantile) if isinstance(quantile, list | tuple) else 1
    n_columns = X.shape[1] if n_columns is None else n_columns
    needs = model._memory_needs(TableShape(X.shape[0], n_columns, n_outputs, n_targets, weighted))
    return MEMORY if needs is None else limits.place(needs, type(model).__name__)


def with_rows(table: Table, fewest: int = 1) -> Table:
    """Return the table; ValueError for one of fewer rows or without columns, as scikit-learn words it."""
    shape = table.n_rows, len(table)
    for count, needed, what in zip(shape, (fewest, 1), ("sample(s)", "feature(s)"), strict=True):
        if count < needed:
            raise ValueError(f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required.")
    return table


def split_columns(X: Any, **given: Any) -> list[Any]:
    """Return a table without the columns that arguments name, and the arguments: the columns, or what was given.

    Examples
    --------
    >>> import pandas as pd
    >>> from fastens.table.opening import split_columns
    >>> X, y, sample_weight = split_columns(pd.DataFrame({"a": [1, 2], "b": [0, 1]}), y="b", sample_weight=None)
    >>> list(X), y, sample_weight
    (['a'], array([0, 1]), None)
    """
    names = {what: name for what, name in given.items() if isinstance(name, str)}
    if is_coded(X):
        return X.with_columns(given)
    X = in_parts(X) if names or isinstance(X, Source) else X
    if not names:
        return [open_batches(X) if is_stream(X) else X, *given.values()]
    frame: Any = X if isinstance(X, _WITH_COLUMNS) else nw.from_native(X, eager_only=True) if is_frame(X) else None
    for what, name in names.items():
        if frame is None:
            raise ValueError(f"{what} must be an array where X has no names of columns; got {name!r}.")
        if name not in frame.columns:
            raise ValueError(f"{what} must name a column of X; got {name!r}, and the columns are {frame.columns}.")
    rest = frame.select([name for name in frame.columns if name not in names.values()])
    chosen = list(dict.fromkeys(names.values()))
    is_parted = isinstance(frame, _WITH_COLUMNS)
    columns = frame.values_of(chosen) if is_parted else [frame[name].to_numpy() for name in chosen]
    values = dict(zip(chosen, columns, strict=True))
    found = [values[names[what]] if what in names else value for what, value in given.items()]
    return [rest if is_parted else rest.to_native(), *found]


def taking_names(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose targets, weights and queries may be names of columns of its table, which it gets without them.

    Streams, which can be read once, are opened for all that the method does with them. `fit` takes the targets and
    weights of a table of codes where it is given none.
    """
    is_fit = method.__name__ == "fit"
    parameters = signature(method).parameters
    takes_more = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    own = [name for name in ("y", "sample_weight") if name in parameters or takes_more]
    order = [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD][1:]

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(order, args, strict=False)), **kwargs}
        is_filled = is_fit and is_coded(given.get("X"))
        if is_filled:
            _fill_in_own(given, own)
        if _split_tables(given) or is_filled:
            args = (*(given[name] for name in order[: len(args)]), *args[len(order) :])
            kwargs = {name: value for name, value in given.items() if name not in order[: len(args)]}
        return method(self, *args, **kwargs)

    return call if "X" in parameters and not parameters.keys().isdisjoint(_NAMED["X"]) else method


def _fill_in_own(given: dict[str, Any], names: list[str]) -> None:
    """Put a table's own targets and weights among the arguments of `fit`, and the table without them."""
    given["X"], *found = given["X"].with_columns({name: given.get(name) for name in names})
    given.update({name: value for name, value in zip(names, found, strict=True) if value is not None})


def _split_tables(given: dict[str, Any]) -> bool:
    """Put columns for their names among a method's arguments, and tables without them; whether there was any."""
    is_split = False
    for table, names in _NAMED.items():
        columns = {name: given[name] for name in names if isinstance(given.get(name), str)}
        if columns or is_stream(given.get(table)):
            given[table], *found = split_columns(given.get(table), **columns)
            given.update(zip(columns, found, strict=True))
            is_split = True
    return is_split
