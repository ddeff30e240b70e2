"""How sure a forest is: spread of its trees, variance by the jackknife, proximities of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.leaf_rows import LeafRows
from fastens.engine.trees.trees import TreeEnsemble
from fastens.parameters import rows_of

Array = NDArray[np.float64]
# Numbers of the bags and of their products with predictions that are in memory at a time.
_BLOCK_VALUES = 1 << 22
# Predictions that are multiplied with bags at a time, always as many: a row's sums do not depend on the other rows.
_AT_ONCE = 64


def deviations(predictions: Iterator[Sequence[NDArray[np.floating]]]) -> list[Array]:
    """The standard deviations of predictions, tree by tree (Welford 1962), for each of their parts."""
    first = next(predictions)
    means, squares = [part.astype(np.float64) for part in first], [np.zeros(part.shape) for part in first]
    n = 1
    for n, parts in enumerate(predictions, 2):
        for i, predicted in enumerate(parts):
            distance = predicted - means[i]
            means[i] += distance / n
            squares[i] += distance * (predicted - means[i])
    return [np.sqrt(each / n) for each in squares]


def jackknife_variances(
    trees: TreeEnsemble, leaves: NDArray[np.int32], bags: Iterator[NDArray[np.int64]], n_draws: float
) -> Array:
    """The variance of the mean of predictions over training sets, (n_samples, n_outputs): see `predict_variance`.

    `leaves`, (n_samples, n_trees), are those of rows; `bags`, one for each tree, how often each training row is in it.
    """
    n_trees, (n_samples, _) = trees.n_trees, leaves.shape
    first_bag = next(bags)
    drawn = np.empty((n_trees, len(first_bag)), dtype=np.float32)
    for tree, bag in enumerate(chain([first_bag], bags)):
        drawn[tree] = bag
    found = np.empty((n_samples, trees.n_outputs))
    step = max(1, _BLOCK_VALUES // (n_trees * trees.n_outputs))
    for first in range(0, n_samples, step):
        block = slice(first, first + step)
        predicted = trees.value[trees.node_offsets[:-1, None] + leaves[block].T]
        found[block] = _variances(predicted, drawn, n_draws)
    return found


def _variances(predicted: NDArray[np.floating], drawn: NDArray[np.float32], n_draws: float) -> Array:
    """The same from predictions, (n_trees, n_samples, n_outputs), and the draws, (n_trees, n_rows)."""
    n_trees, n_samples, n_outputs = predicted.shape
    columns = predicted.reshape(n_trees, -1)
    found = np.empty(columns.shape[1])
    part = np.zeros((n_trees, _AT_ONCE))
    for first in range(0, columns.shape[1], _AT_ONCE):
        n_columns = min(_AT_ONCE, columns.shape[1] - first)
        part[:, :n_columns] = columns[:, first : first + n_columns]
        part -= part.mean(axis=0)
        variances = _squared_covariances(part, drawn) - n_draws / n_trees**2 * (part**2).sum(axis=0)
        found[first : first + n_columns] = variances[:n_columns]
    return np.maximum(found, 0.0).reshape(n_samples, n_outputs)


def _squared_covariances(predicted: Array, drawn: NDArray[np.float32]) -> Array:
    """Sum over the training rows of the squared covariance of their draws with the trees' predictions."""
    n_trees, n_predicted = predicted.shape
    total = np.zeros(n_predicted)
    step = max(1, _BLOCK_VALUES // max(n_predicted, n_trees))
    for first in range(0, drawn.shape[1], step):
        part = drawn[:, first : first + step].astype(np.float64)
        part -= part.mean(axis=0)
        total += ((part.T @ predicted / n_trees) ** 2).sum(axis=0)
    return total


def proximities(forest: Any, X: ArrayLike, others: ArrayLike | None, n_neighbors: int | None) -> csr_matrix:
    """In what share of the trees of a forest two rows fall into the same leaf."""
    leaf = np.ascontiguousarray(forest._leaves(X))
    with rows_of("others"):
        other_leaf = leaf if others is None else np.ascontiguousarray(forest._leaves(others))
    members = np.arange(len(other_leaf), dtype=np.uint32)
    rows = LeafRows.group(forest._ensemble.node_offsets, other_leaf, members)
    return rows.proximity(leaf, len(members), n_neighbors, resolve_n_jobs(forest.n_jobs))
