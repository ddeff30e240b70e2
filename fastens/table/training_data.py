"""Rows to train on or to measure by, with their targets and weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fastens.engine.comm import LOCAL, Comm, first_row, gathered, is_any
from fastens.engine.parts import as_array, is_coded
from fastens.table.sample_weights import check_weights, unless_ones
from fastens.warn import warn


class TrainingData(NamedTuple):
    """What the engine trains on: checked, encoded, without rows of zero weight."""

    X: Any  # a row source (see fastens.engine.parts); None before the table has been read
    y: NDArray[Any]  # class index in classification; a column for each target where there are several
    sample_weight: NDArray[np.float64] | None
    rows: NDArray[np.intp] | None = None  # which rows these are of those given; None for all
    offset: NDArray[np.float64] | None = None  # raw predictions to start from, (n_outputs, n_rows)
    comm: Comm = LOCAL  # the ranks that the table is divided among; these rows are those of one
    n_given: int = 0  # rows that were given, those of zero weight included
    is_cut: bool = False  # whether the table comes without the rows of zero weight
    # The weights without those of classes, where both are given: numbers of copies, if they are whole.
    own_weight: NDArray[np.float64] | None = None

    @classmethod
    def of_target(cls, y: NDArray[Any], sample_weight: Any, comm: Comm = LOCAL) -> TrainingData:
        """Return targets and weights without those of zero weight."""
        if not is_any(comm, len(y) > 0):
            raise ValueError(f"Found array with 0 sample(s) (shape={y.shape}) while a minimum of 1 is required.")
        weight = check_weights(sample_weight, len(y), comm)
        if weight is None or weight.all():
            return cls(None, y, weight, comm=comm, n_given=len(y))
        rows = np.flatnonzero(weight)
        return cls(None, y[rows], weight[rows], rows, comm=comm, n_given=len(y))

    def with_table(self, X: Any) -> TrainingData:
        """Return the same with the rows of a row source that belong to them."""
        check_same_rows(X.shape[0], len(self.y) if self.is_cut else self.n_given)
        return self._replace(X=X if self.rows is None or self.is_cut else X[self.rows])

    def weighted(self, weight: NDArray[np.float64] | None) -> TrainingData:
        """Return the same with weights that are those given times those of classes; None for ones."""
        if weight is self.sample_weight or self.sample_weight is None:
            return self._replace(sample_weight=unless_ones(weight, self.comm))
        return self._replace(sample_weight=weight, own_weight=self.sample_weight)

    def of_all_ranks(self) -> AllRows:
        """Return what all ranks know of all rows."""
        return AllRows(self)


class AllRows:
    """The rows of all ranks, as each rank knows them: how many there are, and their weights.

    Their targets stay with their ranks, and come from there whenever they are asked for, which all ranks do together.

    Attributes
    ----------
    n_rows, n_given : int
        How many there are, without those of zero weight and with them.
    rows : array or None
        Which of those given have a weight; None for all.
    sample_weight : array or None
        Their weights.
    """

    def __init__(self, own: TrainingData) -> None:
        self._own = own
        first, self.n_given = first_row(own.comm, own.n_given)
        self.n_rows, self.rows = len(own.y), own.rows
        if own.comm.size > 1:
            kept = is_any(own.comm, own.rows is not None)
            rows = np.arange(own.n_given) if own.rows is None else own.rows
            [self.rows] = gathered(own.comm, [rows + first if kept else None])
            _, self.n_rows = first_row(own.comm, len(own.y))
        [self.sample_weight] = gathered(own.comm, [own.sample_weight])

    @property
    def y(self) -> NDArray[Any]:
        """Their targets."""
        return gathered(self._own.comm, [self._own.y])[0]

    def with_targets(self) -> TrainingData:
        """Return all of that, without the table."""
        return TrainingData(None, self.y, self.sample_weight, self.rows, n_given=self.n_given)


# Rows are compared among this many at most, chosen by their hash so that equal rows are in or out together.
_ROWS_COMPARED = 20_000
# A smaller share of duplicates hardly shows in what is measured on held-out rows.
_MIN_DUPLICATES = 0.05
# The values of at most this many distinct rows are examined.
_ROWS_LOOKED_AT = 1000


def warn_of_duplicates(hashes: NDArray[np.uint64], X: Any, y: NDArray[Any]) -> None:
    """Warn where rows are exact duplicates, which would be fitted and held out at once.

    Tables of a few discrete columns have equal rows by nature. Equal rows count as duplicates only if a column or
    target has different values in more than half of the distinct rows.

    Parameters
    ----------
    hashes : uint64 array of shape (n_rows,)
        Hashes of the rows and their targets; see `content_hashes`.
    X, y : row source or None, and array
        The rows, None where they are on several ranks, and their targets.

    Warns
    -----
    UserWarning
        If at least 5 % of the rows are duplicates of others.
    """
    compared = np.flatnonzero(hashes % np.uint64(max(1, len(hashes) // _ROWS_COMPARED)) == 0)
    _, first = np.unique(hashes[compared], return_index=True)
    n_duplicates = len(compared) - len(first)
    if n_duplicates < max(1.0, _MIN_DUPLICATES * len(compared)):
        return
    rows = np.sort(compared[first[:_ROWS_LOOKED_AT]])
    columns = [*y[rows].reshape(len(rows), -1).T]
    if X is not None and not issparse(X) and not is_coded(X):
        columns += [*as_array(X[rows]).T]
    if any(2 * len(np.unique(column)) > len(rows) for column in columns):
        warn(
            f"X and y hold exact duplicates, {n_duplicates / len(compared):.0%} of the rows: a row may be fitted while "
            "its duplicate is held out, so scores are too good and intervals too narrow. Give each row once, with "
            "their number as sample_weight, or keep duplicates together by groups and a splitter such as GroupKFold."
        )


def check_same_rows(n_rows: int, n_targets: int) -> None:
    """Raise ValueError where X and y differ in length."""
    if n_targets != n_rows:
        raise ValueError(f"X and y must have the same number of rows; got {n_rows} and {n_targets}.")


def split_of_rows(name: str, split: Any, n_rows: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the numbers of the rows to train on and to test on, which may be given as masks; ValueError otherwise.

    Examples
    --------
    >>> from fastens.table.training_data import split_of_rows
    >>> split_of_rows("cv", ([0, 1], [False, False, True]), 3)
    (array([0, 1]), array([2]))
    """
    every = np.arange(n_rows)
    try:
        train, test = (every[_positions(rows)] for rows in split)
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must give pairs of numbers, or masks, of the {n_rows} rows to train on and to test on: {error}"
        ) from error
    return train, test


def _positions(rows: Any) -> NDArray[Any]:
    """Numbers or a mask; none of them are numbers too."""
    found = np.asarray(rows)
    if found.ndim != 1:
        raise ValueError(f"got {rows!r}")
    return found if len(found) else np.zeros(0, dtype=np.intp)
