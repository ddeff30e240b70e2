"""The part of a distributed fit that runs in one process, and tables that are spread over processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.base import is_classifier

from fastens.distributed.reduction import RanksComm
from fastens.engine.comm import LOCAL, Comm, is_any
from fastens.modelfile.storage import save_model
from fastens.params.rules import real, whole
from fastens.table.columns.numbers import array_of
from fastens.table.encoder import InputEncoder
from fastens.table.opening import are_texts, split_columns
from fastens.table.parts import rows_of_any
from fastens.table.source import TableParts
from fastens.table.sources import cluster_of
from fastens.table.tables import concatenated, table_over
from fastens.table.training_data import TrainingData, learn_labels
from fastens.warn import relayed, warn

Part = Mapping[str, Any]


def with_whole_queries(comm: Comm, parts: Sequence[Part], table: str, qid: Any) -> list[Part]:
    """Return the partitions of this rank after moving all rows of each query to the first rank that has any.

    Parameters
    ----------
    comm : Comm
        The ranks.
    parts : list of dict
        Partitions with the table and its per-row arguments.
    table : str
        The key of the table in each partition.
    qid : str
        The key of the queries in each partition, or the name of the table's column that holds them.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.comm import LOCAL
    >>> with_whole_queries(LOCAL, [{"X": np.zeros((2, 1)), "qid": np.array([7, 7])}], "X", "qid")[0]["qid"]
    array([7, 7])
    """
    of_parts = [_flat_array(part[qid] if qid in part else _column_values(part[table], qid)) for part in parts]
    of_ranks = comm.allgather(np.unique(np.concatenate(of_parts)))
    labels, first = np.unique(np.concatenate(of_ranks), return_index=True)
    homes = np.repeat(np.arange(comm.size), [len(queries) for queries in of_ranks])[first]
    goes_to = [homes[np.searchsorted(labels, queries)] for queries in of_parts]
    if not is_any(comm, any((ranks != comm.rank).any() for ranks in goes_to)):
        return list(parts)
    sent: list[list[Part]] = [[] for _ in range(comm.size)]
    for part, ranks in zip(parts, goes_to, strict=True):
        # A rank without rows must know the columns, too.
        for rank in {comm.rank, *np.unique(ranks).tolist()}:
            sent[rank].append(
                {name: rows_of_any(values, np.flatnonzero(ranks == rank)) for name, values in part.items()}
            )
    kept = sent[comm.rank]
    sent[comm.rank] = []
    return [*kept, *(part for received in comm.alltoall(sent) for part in received)]


def _flat_array(values: Any) -> NDArray[Any]:
    """Return per-row values of any supported type, such as a column of a data frame, as a 1-D array."""
    return array_of(values).ravel()


def _column_values(table: Any, name: str) -> Any:
    """Return a column of a data frame as an array; raise ValueError, which calls it qid, if it is missing."""
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or name not in frame.columns:
        raise ValueError(f"qid must name a column of X; got {name!r}.")
    return array_of(frame[name])


# The per-row arguments of `fit`, by the table whose rows they describe.
BY_ROW = {
    "X": ("y", "sample_weight", "init_score", "qid", "groups", "position"),
    "X_val": ("y_val", "sample_weight_val", "init_score_val", "qid_val"),
}
# How messages describe the values of a column, by whether it is categorical.
_WORDS = {True: "categories or text", False: "numbers", None: None}
_DATES = "dates"
_QUERIES = {"X": "qid", "X_val": "qid_val"}
Parts = Sequence[Mapping[str, Any]]


class Partition(dict[str, Any]):
    """A partition's table and per-row arguments by name, with the index of the partition."""

    def __init__(self, number: int, contents: Mapping[str, Any]) -> None:
        super().__init__(contents)
        self.number = number


@dataclass(frozen=True)
class FitTask:
    """The settings that all ranks of a fit share.

    Attributes
    ----------
    model : estimator
        The estimator with its parameters.
    arguments : dict
        The arguments of `fit` that are not split by row, including names of columns.
    checkpoint : bytes or None
        The model file that the fit resumes from. If None, the fit starts from the beginning.
    every : int
        The number of rounds between checkpoints; checkpoints become less frequent as the model grows.
    is_watched : bool
        True if callbacks wait for each round.
    """

    model: Any
    arguments: dict[str, Any]
    checkpoint: bytes | None = None
    every: int = 10
    is_watched: bool = False


class Watcher:
    """Observer of the rounds of a fit. This base class ignores all events."""

    def report(self, kind: str, content: Any) -> int:
        """Record an event, such as ("round", losses) or ("checkpoint", bytes), and return its number."""
        return 0

    def ask(self, kind: str, content: Any) -> Any:
        """Send a question, such as "callbacks", to the coordinator, and return its answer; None in this base class."""


def fit_rank(task: FitTask, comm: RanksComm, tables: dict[str, Parts], watcher: Watcher) -> Any:
    """Train on the rows of one rank and return the model, which is the same on all ranks.

    Parameters
    ----------
    task : FitTask
        What to fit.
    comm : RanksComm
        The other ranks.
    tables : dict
        The partitions of "X" and "X_val", each with the table and its per-row arguments, in the order of the rows. The
        partitions are removed from the dict so that each can be freed after the last pass over it.
    watcher : Watcher
        The observer of the rounds; only the first rank uses it.
    """
    model = task.model
    with relayed(lambda *warning: watcher.report("warning", warning)) if comm.rank == 0 else nullcontext():
        arguments, sizes = _collect_arguments(task, comm, tables)
        if comm.rank == 0:
            model._on_round = lambda *scores: watcher.report("round", (*scores, comm.n_exchanges, comm.n_bytes))
        if hasattr(model, "callbacks"):
            model.callbacks = [_Relay(task, comm, watcher)]
        try:
            with (
                nullcontext() if task.checkpoint is None else as_file(task.checkpoint) as path,
                model._using_comm(comm),
            ):
                model.fit(**arguments, **({} if path is None else {"resume": path}))
        except (TypeError, ValueError) as error:
            raise _locate_error(error, model, arguments, sizes) from None
    return model


# The index and the number of rows of each partition of a rank, by table.
Sizes = dict[str, list[tuple[Any, int]]]


def _collect_arguments(task: FitTask, comm: RanksComm, tables: dict[str, Parts]) -> tuple[dict[str, Any], Sizes]:
    """Return the arguments of `fit` on this rank, and the (index, n_rows) of the partitions of each table.

    The partitions are moved out of the dict `tables`. If the fit uses queries, ranks exchange rows first, so that each
    query is on one rank.
    """
    arguments: dict[str, Any] = dict(task.arguments)
    sizes: Sizes = {}
    for table in sorted(tables):  # the same order on all ranks
        partitions = tables.pop(table)
        qid = _QUERIES[table]
        if comm.size > 1 and (qid in partitions[0] or isinstance(arguments.get(qid), str)):
            partitions = with_whole_queries(comm, partitions, table, arguments.get(qid, qid))
        parts = [part for part in partitions if part[table].shape[0]] or partitions[:1]
        _check_columns(comm, parts, table)
        sizes[table] = [(getattr(part, "number", None), part[table].shape[0]) for part in parts]
        for name in parts[0]:
            arguments[name] = join_partitions([part[name] for part in parts], is_table=name == table)
    return arguments, sizes


def _check_columns(comm: RanksComm, parts: Parts, table: str) -> None:
    """Raise ValueError on all ranks if partitions have different columns, or dates and other types in one column.

    Warns, on rank 0, if a column has numbers in some partitions and text in others; all then become categories.
    """
    described = [(_partition_number(part), *_describe_columns(part[table])) for part in parts if part[table].shape[0]]
    descriptions = [each for of_rank in comm.allgather(described) for each in of_rank]
    first_kinds: dict[int, tuple[str, str]] = {}
    for number, columns, kinds in descriptions:
        first, expected = descriptions[0][:2]
        if columns != expected:
            raise ValueError(
                f"{table} must have the same columns in all partitions; got {expected} in partition {first} "
                f"and {columns} in partition {number}."
            )
        for column, kind in enumerate(kinds):
            first, expected = (number, kind) if kind is None else first_kinds.setdefault(column, (number, kind))
            if expected and kind != expected:
                name = repr(columns[column]) if isinstance(columns, list) else str(column)
                got = f"it has {expected} in partition {first} and {kind} in partition {number}"
                _report_mixed_types(
                    comm, f"Column {name} of {table} must have one type in all partitions; {got}.", kind, expected
                )
                first_kinds[column] = number, ""  # each column causes only one warning


def _report_mixed_types(comm: RanksComm, text: str, *kinds: str) -> None:
    """Raise ValueError with this text if "dates" is in `kinds`; otherwise warn, but only on rank 0."""
    remedy = "Convert the column before the fit, for example with astype."
    if _DATES in kinds:
        raise ValueError(f"{text} {remedy}")
    if comm.rank == 0:
        warn(f"{text} All its values are treated as categories. {remedy}")


def _partition_number(part: Any) -> str:
    """Return the index of a partition as text, or "?" if it is unknown because whole queries have moved."""
    return str(getattr(part, "number", "?"))


def _describe_columns(part: Any) -> tuple[Any, list[str | None]]:
    """Return the column names (their number for arrays), and the type of values in each column, None if unknown."""
    if len(part.shape) < 2:
        return None, []
    table = table_over(part)
    kinds = table.categorical_by_type()
    if table.names is None:
        is_text = not table.is_sparse and part.dtype.kind in "UST"
        return part.shape[1], [_WORDS[is_text if kind is False else kind] for kind in kinds]
    schema = nw.from_native(part, eager_only=True).schema
    return list(schema), [
        _DATES if dtype.is_temporal() else _WORDS[kind] for dtype, kind in zip(schema.values(), kinds, strict=True)
    ]


def _locate_error(error: Exception, model: Any, arguments: Mapping[str, Any], sizes: Sizes) -> Exception:
    """Return the error with the index of the first partition that fails by itself; unchanged if none does."""
    for table, numbers in sizes.items():
        names = [name for name in BY_ROW[table][:2] if arguments.get(name) is not None]
        first = 0
        for k, (number, n_rows) in enumerate(numbers):
            rows, first = slice(first, first + n_rows), first + n_rows
            held = getattr(arguments[table], "_tables", None)
            part = arguments[table][rows] if held is None else nw.to_native(held[k], pass_through=True)
            by_row = {name: arguments[name] for name in names}
            by_row = {name: each if isinstance(each, str | list) else each[rows] for name, each in by_row.items()}
            try:
                if n_rows and part is not None:
                    _check_partition(model, part, by_row)
            except (TypeError, ValueError) as cause:
                if number is not None:
                    return type(error)(f"{cause} This is in partition {number} of {table}.")
    return error


def _check_partition(model: Any, part: Any, by_row: dict[str, Any]) -> None:
    """Raise the error that `fit` would raise for this partition's table, target or weights by themselves."""
    X, *values = split_columns(part, **{name.removesuffix("_val"): value for name, value in by_row.items()})
    arguments = dict(zip([name.removesuffix("_val") for name in by_row], values, strict=True))
    if arguments.get("y") is not None:
        y = TrainingData.of_target(model._read_target(arguments["y"]), arguments.get("sample_weight")).y
        if not is_classifier(model):
            model._encode_target(y)
        for column in y.reshape(len(y), -1).T if is_classifier(model) else ():
            learn_labels(column, LOCAL, 1)
    InputEncoder.learn(X, model._reading(), type(model).__name__)


class _OwnParts(TableParts):
    """Partitions that are owned by this row source, which can drop them."""

    _n_passes = 0  # passes left, the last of which drops each partition after reading; 0 keeps all partitions

    def release(self, n_passes: int) -> None:
        """Announce `n_passes` more passes over the rows; the last one frees each partition after reading it."""
        self._n_passes = n_passes

    def _read(self) -> Iterator[Any]:
        """Yield the partitions in order; in the last announced pass, drop each one as it is yielded."""
        is_last, self._n_passes = self._n_passes == 1, max(0, self._n_passes - 1)
        for number, table in enumerate(self._tables):
            if is_last:
                self._tables[number] = None
            yield table


def join_partitions(parts: Sequence[Any], *, is_table: bool) -> Any:
    """Return dense tables (`is_table`) as one row source; concatenate sparse matrices and per-row values."""
    if is_table and not table_over(parts[0]).is_sparse and len(parts[0].shape) > 1:
        return _OwnParts(*parts)
    if len(parts) == 1:
        return parts[0]
    return concatenated(parts)


class _Relay:
    """A callback that reports checkpoints and asks the watcher whether training should stop."""

    def __init__(self, task: FitTask, comm: RanksComm, watcher: Watcher) -> None:
        self._task, self._comm, self._watcher = task, comm, watcher
        self._next = task.every - 1

    def __call__(self, env: Any) -> bool:
        if env.iteration == env.begin_iteration:
            self._next = env.begin_iteration + self._task.every - 1
        # Training of a mean of models cannot be resumed.
        if env.iteration >= self._next and self._task.model._stopping.folds is None:
            # A checkpoint costs more as the model grows, so the interval grows, too: the total cost of checkpoints
            # stays a fixed fraction of training.
            self._next = env.iteration + max(self._task.every, env.iteration // 10)
            content = to_file_bytes(env.model)
            if self._comm.rank == 0 and content is not None:
                self._watcher.report("checkpoint", content)
        return self._task.is_watched and self._ask_callbacks(env)

    def _ask_callbacks(self, env: Any) -> bool:
        """Return True if a callback of the coordinator requests to stop; send it the model first if it asks for it."""
        question = "callbacks", replace(env, params={}, _model=None)
        while True:
            answer = self._watcher.ask(*question) if self._comm.rank == 0 else None
            answer = self._comm.allgather(answer)[0]
            if isinstance(answer, BaseException):
                raise answer
            if answer != "model":
                return bool(answer)
            question = "model", fitted_state(env.model)


def fitted_state(model: Any) -> dict[str, Any]:
    """Return all attributes except constructor parameters and those for communication, by name."""
    parameters = model.get_params(deep=False)
    excluded = {"_comm", "_on_round", *parameters}
    return {name: value for name, value in vars(model).items() if name not in excluded}


def silent_copy(model: Any) -> Any:
    """Return a shallow copy of an estimator, fitted or not, that calls no callbacks and prints nothing."""
    clone = copy(model)
    for name in ("_on_round", "_skl_callbacks"):
        vars(clone).pop(name, None)
    for name, value in (("callbacks", None), ("verbose", 0)):
        if name in vars(clone):
            setattr(clone, name, value)
    return clone


def to_file_bytes(model: Any) -> bytes | None:
    """Return the content of the model's file, or None if a parameter cannot be saved in one."""
    with tempfile.TemporaryDirectory(prefix="fastens-") as folder:
        path = Path(folder) / "model"
        with suppress(TypeError, ValueError):
            save_model(path, model)
            return path.read_bytes()
    return None


@contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """Yield the path of a temporary file with this content, which is deleted at the end of the context."""
    with tempfile.TemporaryDirectory(prefix="fastens-") as folder:
        path = os.path.join(folder, "model")
        Path(path).write_bytes(content)
        yield path


# The name of a table, the table, and its per-row arguments by name.
Rows = tuple[str, Any, dict[str, Any]]


@dataclass(frozen=True)
class FitProgress:
    """The progress of a fit on a cluster.

    Attributes
    ----------
    n_done, n_rounds : int
        The number of completed rounds and the maximum number of rounds.
    train_loss, validation_loss : float or None
        The losses after the last completed round; None if they are not computed.
    n_workers : int
        The number of workers that train.
    n_exchanges, n_bytes : int
        The number of collective operations so far, and the number of bytes that the first worker has sent.
    """

    n_done: int
    n_rounds: int
    train_loss: float | None
    validation_loss: float | None
    n_workers: int
    n_exchanges: int
    n_bytes: int


class SpreadTable:
    """Base class of tables on clusters; subclasses document the parameters."""

    def __init__(
        self, table: Any, checkpoint_every: int, patience: float, on_progress: Callable[[FitProgress], None] | None
    ) -> None:
        whole(1).check("checkpoint_every", checkpoint_every)
        real(1).check("patience", patience)
        self.table = table
        self.checkpoint_every, self.patience, self.on_progress = checkpoint_every, patience, on_progress

    @classmethod
    def of(cls: Any, X: Any) -> Any:
        """Return X if it is a table of this class; otherwise wrap the collection X with default options."""
        return X if isinstance(X, cls) else cls(X)

    def __repr__(self) -> str:
        """Return the names of this class and of the table's type."""
        return f"{type(self).__name__}({type(self.table).__name__})"


def is_collection_on(cluster: str, X: Any) -> bool:
    """Return True if X is a collection of the cluster ("dask" or "ray") that is not wrapped in a SpreadTable."""
    return cluster_of(X) == cluster and not isinstance(X, SpreadTable)


def tables_in(X: Any, fit_params: Mapping[str, Any], is_spread: Callable[[Any], bool], accepted: str) -> Iterator[Rows]:
    """Yield "X" and, if given, "X_val", each with its table and its per-row arguments of `fit`.

    Names of columns and single values for all rows are left out. Raises ValueError if a table does not satisfy
    `is_spread`; the message names the `accepted` kinds of table.
    """
    for name in ("group", "group_val"):
        if fit_params.get(name) is not None:
            raise ValueError(f"{name} must be None if X is {accepted}. Pass the query of each row as qid.")
    for name, table in (("X", X), ("X_val", fit_params.get("X_val"))):
        if table is None:
            continue
        if not is_spread(table):
            raise ValueError(f"{name} must be {accepted} if X is one; got {type(table).__name__}.")
        values: dict[str, Any] = {other: fit_params.get(other) for other in BY_ROW[name]}
        by_row = {other: value for other, value in values.items() if is_spread(value) or np.ndim(value) > 0}
        yield name, table, {other: value for other, value in by_row.items() if not are_columns(value, table)}


def are_columns(value: Any, table: Any) -> bool:
    """Return True if `value` is a list of strings, which are column names, and the table is not a Dask array."""
    return are_texts(value) and not hasattr(table, "chunks")


def zip_partitions(columns: Mapping[str, Sequence[Any]], table: str) -> list[dict[str, Any]]:
    """Return one dict of values by name for each partition; raise ValueError if the counts differ from `table`'s."""
    n_parts = len(columns[table])
    for name, parts in columns.items():
        if len(parts) != n_parts:
            raise ValueError(
                f"{name} must have {n_parts} partitions, like {table}; got {len(parts)}. Pass the name of a "
                f"column of {table}, or take both from one dataframe without converting them to arrays."
            )
    return [dict(zip(columns, parts, strict=True)) for parts in zip(*columns.values(), strict=True)]


def split_evenly(n_parts: int, n_ranks: int) -> list[range]:
    """Return the partitions of each rank: contiguous ranges of nearly equal length.

    Examples
    --------
    >>> split_evenly(5, 2)
    [range(0, 3), range(3, 5)]
    """
    each, more = divmod(n_parts, n_ranks)
    ends = [rank * each + min(rank, more) for rank in range(n_ranks + 1)]
    return [range(*bounds) for bounds in pairwise(ends)]


def assign_workers(
    ranges: Sequence[range], holders: Mapping[int, Collection[str]], addresses: Sequence[str]
) -> list[int]:
    """Return the index of the worker for each rank, assigned so that few partitions have to move.

    Parameters
    ----------
    ranges : list of range
        The partition indices of each rank.
    holders : dict
        The workers that already hold each partition, by the index of the partition.
    addresses : list of str
        The addresses of the workers, at least one per rank.

    Examples
    --------
    >>> assign_workers([range(0, 2), range(2, 3)], {0: ["b"], 2: ["a"]}, ["a", "b", "c"])
    [1, 0]
    """
    moved = np.zeros((len(ranges), len(addresses)))
    for rank, parts in enumerate(ranges):
        for part in parts:
            held = holders.get(part, ())
            moved[rank] -= [address in held for address in addresses]
    assigned: list[int] = linear_sum_assignment(moved)[1].tolist()
    return assigned
