"""Prediction on Dask collections: one task per partition, and a lazy collection of the results."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from operator import getitem
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from fastens.distributed.dask_table import DaskTable, delayed_parts, is_collection, partitions
from fastens.distributed.rank_fit import are_columns, join_partitions, silent_copy
from fastens.engine.threads import limited_threads
from fastens.table.answers import BY_ROW
from fastens.table.opening import joined_targets


def predict_on_dask(model: Any, method: str, X: Any, arguments: dict[str, Any]) -> Any:
    """Return the lazy result of a method for the rows of a collection.

    The result for a dataframe or an array is a Dask array, or a list of arrays if the method returns a list. The result
    for a list of delayed partitions is a list of delayed values. The model is sent to each worker once.

    Parameters
    ----------
    model : fitted estimator
        The model. It is copied, so later changes to it do not affect the result.
    method : str
        The name of the method.
    X : DaskTable or collection
        The table.
    arguments : dict
        The other arguments of the method. Arguments with one value per row may be collections.
    """
    model._check_fitted()
    X = DaskTable.of(X).table
    by_row = {
        name: arguments.pop(name)
        for name in BY_ROW
        if arguments.get(name) is not None and not isinstance(arguments[name], str)
    }
    names = getattr(model, "feature_names_in_", None)
    if names is not None and hasattr(X, "map_partitions") and not hasattr(X, "rechunk"):
        named = {*names, *(value for value in arguments.values() if isinstance(value, str))}
        X = X[[name for name in X.columns if name in named]]  # other columns are not read
    parts = partitions(X, by_row)
    shared = dask.delayed(deepcopy(silent_copy(model)), pure=False, traverse=False)
    answer = dask.delayed(_predict_partition, pure=False)
    results = [answer(shared, method, part.pop("X"), arguments, part) for part in parts]
    if isinstance(X, list | tuple):
        return results
    lengths = X.chunks[0] if hasattr(X, "rechunk") else [np.nan] * len(results)
    no_rows = np.empty((0, X.shape[1]), dtype=X.dtype) if hasattr(X, "rechunk") else X._meta
    meta = _predict_partition(model, method, no_rows, arguments, {})
    if not isinstance(meta, list):
        return _concat_lazily(results, lengths, meta)
    item = dask.delayed(getitem, pure=False)
    return [_concat_lazily([item(each, k) for each in results], lengths, output) for k, output in enumerate(meta)]


def score_on_dask(model: Any, score: Callable[..., float], X: Any, arguments: dict[str, Any]) -> float:
    """Return the score of a model on a collection; only predictions and per-row arguments are fetched.

    Parameters
    ----------
    model : fitted estimator
        The model, which predicts on the workers.
    score : function
        The model's `score` method. It is called with the predictions as its table.
    X : DaskTable or collection
        The table.
    arguments : dict
        The other arguments of `score`.
    """
    table = DaskTable.of(X).table
    named = {name: value for name, value in arguments.items() if isinstance(value, str) or are_columns(value, table)}
    several = {name: list(value) for name, value in named.items() if not isinstance(value, str)}
    chosen = {column for value in named.values() for column in ([value] if isinstance(value, str) else value)}
    for name, value in named.items():
        for column in several.get(name, [value]):
            if column not in getattr(table, "columns", ()):
                raise ValueError(f"{name} must name a column of X; got {column!r}.")
    arguments = arguments | {name: table[several.get(name, value)] for name, value in named.items()}
    rest = table[[name for name in table.columns if name not in chosen]] if named else table
    start = {} if arguments.get("init_score") is None else {"init_score": arguments.pop("init_score")}
    collections = {
        "X": model.predict(rest, **start),
        **{name: value for name, value in arguments.items() if is_collection(value)},
    }
    needed = {name: delayed_parts(name, values) for name, values in collections.items()}
    client = DaskTable.of(X).client
    (results,) = dask.compute(needed) if client is None else client.compute([needed], sync=True)
    keep_names = getattr(model, "_learns_names_of_targets", False)
    fetched = {
        name: joined_targets({column: _join_column(parts, column) for column in several[name]}, keep_names)
        if name in several
        else join_partitions(parts, is_table=False)
        for name, parts in results.items()
    }
    predicted = copy(model)
    vars(predicted)["predict"] = lambda rows, *start: rows
    return score(predicted, **(arguments | fetched))


def _join_column(parts: list[Any], name: str) -> Any:
    """Return column `name` of data frames, one for each partition, as a single column."""
    return join_partitions([part[name] for part in parts], is_table=False)


def _predict_partition(model: Any, method: str, part: Any, arguments: dict[str, Any], by_row: dict[str, Any]) -> Any:
    """Return the method's result for a partition, computed in one thread; empty partitions give empty results."""
    with limited_threads(1):
        if part.shape[0]:
            return getattr(model, method)(part, **arguments, **by_row)
        answer = getattr(model, method)(_dummy_rows(part), **arguments)
    return [each[:0] for each in answer] if isinstance(answer, list) else answer[:0]


def _dummy_rows(empty_part: Any) -> Any:
    """Return a table with the columns and types of an empty partition and at least one row of arbitrary values."""
    if sparse.issparse(empty_part):
        return sparse.csr_matrix((1, empty_part.shape[1]), dtype=empty_part.dtype)
    if isinstance(empty_part, np.ndarray):
        return np.zeros((1, empty_part.shape[1]), dtype=empty_part.dtype)
    from dask.dataframe.utils import meta_nonempty

    return meta_nonempty(empty_part)


def _concat_lazily(delayed_results: list[Any], lengths: Any, meta: Any) -> Any:
    """Return delayed results for partitions of `lengths` rows as a Dask array, or a dataframe if `meta` is one."""
    if hasattr(meta, "columns"):
        from dask.dataframe import from_delayed

        return from_delayed(delayed_results, meta=meta, verify_meta=False)
    arrays = [
        da.from_delayed(each, (length, *meta.shape[1:]), meta=meta)
        for each, length in zip(delayed_results, lengths, strict=True)
    ]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)
