"""Shapley values of tree ensembles, decision paths and leaf indices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from fastens.engine.parts import map_parts, stored_values, with_codes_of
from fastens.engine.predict.walk import Walker
from fastens.engine.threads import threads_for
from fastens.engine.trees.leaf_values import leaves_of_rows
from fastens.engine.trees.shapley import edge_shares
from fastens.engine.trees.shapley import explain as explain_rows
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, TreeEnsemble, renumbered

if TYPE_CHECKING:
    from fastens.engine.bins.binned import BinnedMatrix
    from fastens.engine.bins.binning import AnyMatrix
    from fastens.engine.trees.trees import TreeEnsemble


Array = NDArray[np.float64]
BLOCK = 1 << 16  # number of rows whose codes are in memory at a time
_MAX_CACHED = 1 << 18  # maximum number of nodes of cached paths, about 30 bytes each


@dataclass(frozen=True)
class Paths:
    """Per-ensemble arrays that the Shapley kernel needs in addition to the trees; see `explain` in shapley.pyx."""

    column: NDArray[np.int32]  # column index of each feature
    n_columns: int
    value: Array
    linear: Any
    share: Array
    position: NDArray[np.int32]
    n_on_path: NDArray[np.int32]
    max_depth: int
    points: Array
    weights: Array
    worth: Array


@dataclass(frozen=True)
class Reference:
    """Background rows that predictions are compared with.

    Attributes
    ----------
    X : float32 or float64 array of shape (n_background, n_features)
        The background rows.
    scales : float64 array of shape (n_rows, n_background) or None
        Factors of the contributions for each pair of an explained row and a background row. If None, all are 1.
    """

    X: np.ndarray
    scales: Array | None = None


def contributions(
    ensemble: TreeEnsemble,
    X: np.ndarray,
    n_threads: int = 1,
    reference: Reference | None = None,
    column_of: NDArray[np.intp] | None = None,
) -> Array:
    """Return the contribution of each column to each raw prediction, and the expected raw prediction.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    X : float32 or float64 array of shape (n_rows, n_features)
        The rows.
    n_threads : int
        Maximum number of threads. The result does not depend on it.
    reference : Reference, optional
        Background rows. If given, features outside the coalition take the values of these rows (interventional
        Shapley values). If None, they are averaged out with the training weights of the branches (path-dependent).
    column_of : array of shape (n_features,), optional
        Index of the column that each feature is derived from; features of the same column enter coalitions together.
        By default, every feature is its own column.

    Returns
    -------
    float64 array of shape (n_rows, n_outputs, n_columns + 1)
        The last entry is the expected raw prediction. All entries add up to the raw prediction.

    References
    ----------
    S. Lundberg et al. (2020). From local explanations to global understanding with explainable AI for trees. Nature
    Machine Intelligence 2, algorithms 2 (with the nodes' weights) and 3.
    P. Yu, C. Xu, A. Bifet, J. Read (2022). Linear TreeShap. NeurIPS.
    G. Laberge, Y. Pequignot (2022). Understanding interventional TreeSHAP: how and why it works.
    """
    out = _shapley_values(ensemble, X, n_threads, reference, column_of, pairs=False)
    out[..., -1] = _expected_raw(ensemble, n_threads, reference)
    return out


def interactions(
    ensemble: TreeEnsemble,
    X: np.ndarray,
    n_threads: int = 1,
    reference: Reference | None = None,
    column_of: NDArray[np.intp] | None = None,
) -> Array:
    """Return the Shapley interaction value of each pair of columns, with main effects on the diagonal.

    Parameters
    ----------
    ensemble, X, n_threads, reference, column_of
        See `contributions`.

    Returns
    -------
    float64 array of shape (n_rows, n_outputs, n_columns + 1, n_columns + 1)
        Symmetric matrices. Each row sums to the contribution of its column, and the last entry is the expected raw
        prediction (Lundberg et al. 2020, eq. 7 to 9).
    """
    pairs = _shapley_values(ensemble, X, n_threads, reference, column_of, pairs=True)
    pairs += pairs.swapaxes(2, 3)
    total = contributions(ensemble, X, n_threads, reference, column_of)
    n_columns = pairs.shape[2]
    out = np.zeros((*pairs.shape[:2], n_columns + 1, n_columns + 1))
    out[..., :-1, :-1] = pairs
    diagonal = np.arange(n_columns)
    out[..., diagonal, diagonal] = total[..., :-1] - pairs.sum(axis=3)
    out[..., -1, -1] = total[..., -1]
    return out


def _expected_raw(ensemble: TreeEnsemble, n_threads: int, reference: Reference | None) -> Array:
    """Return the mean raw prediction of the background rows or else of the training rows (cached), (n_outputs,)."""
    if reference is not None:
        return ensemble.predict_raw(reference.X, n_threads).mean(axis=0)
    if "expected_raw" not in ensemble.notes:
        ensemble.notes["expected_raw"] = expected_raw(ensemble)
    expected: Array = ensemble.notes["expected_raw"]
    return expected


def expected_raw(ensemble: TreeEnsemble) -> Array:
    """Return the mean raw prediction over the training rows, computed from node weights; shape (n_outputs,)."""
    roots, sizes = ensemble.node_offsets[:-1], np.diff(ensemble.node_offsets)
    left = np.where(ensemble.left_child > 0, ensemble.left_child + np.repeat(roots, sizes), 0)
    leaf = np.flatnonzero(left == 0)
    reach = _reaching_fractions(left, ensemble.weight, roots)[leaf, None] * ensemble.value[leaf]
    output = np.repeat(ensemble.tree_output, sizes)[leaf]
    out = ensemble.baseline.copy()
    for column, values in enumerate(reach.T):
        out += np.bincount(output + column, values, len(out))
    return out


def _reaching_fractions(left: NDArray[np.int64], weight: np.ndarray, roots: NDArray[np.int64]) -> Array:
    """Return the fraction of its root's weight that reaches each node, from global left children (0 for leaves)."""
    reach = np.ones(len(left))
    parents = roots
    while (parents := parents[left[parents] > 0]).size:
        child = left[parents]
        both = weight[child].astype(np.float64) + weight[child + 1]
        share = np.divide(weight[child], both, out=np.full(child.shape, 0.5), where=both > 0)
        reach[child] = reach[parents] * share
        reach[child + 1] = reach[parents] * (1 - share)
        parents = np.concatenate([child, child + 1])
    return reach


def _shapley_values(
    ensemble: TreeEnsemble,
    X: np.ndarray,
    n_threads: int,
    reference: Reference | None,
    column_of: NDArray[np.intp] | None,
    *,
    pairs: bool,
) -> Array:
    """Return `contributions` without the last entries, or the halved interactions of pairs in one order."""
    lean = ensemble.lean
    n_features = lean.binning.n_features
    if column_of is not None and len(column_of) != n_features:
        raise ValueError(f"X must have {n_features} columns; got {len(column_of)}.")
    paths = _cached_paths(ensemble, np.arange(n_features) if column_of is None else column_of)
    # Each row takes a few nanoseconds per node.
    n_rows = X.shape[0] + (0 if reference is None else len(reference.X))
    n_threads = threads_for(n_rows * 2 * len(lean.feature), n_threads, 20_000)
    others = np.empty((0, n_features)) if reference is None else reference.X
    background = lean.binning.codes(others, n_threads)
    scales = None if reference is None else reference.scales
    parts = []
    for start in range(0, max(X.shape[0], 1), BLOCK):
        rows = X[start : start + BLOCK]
        values = None if paths.linear is None else tuple(np.ascontiguousarray(X, np.float64) for X in (rows, others))
        by_row = None if scales is None else _scales_by_background(scales[start : start + BLOCK])
        codes = lean.binning.codes(rows, n_threads)
        parts.append(explain_rows(lean, paths, values, codes, background, by_row, pairs, n_threads))
    explained: Array = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if background.shape[1] > 1:
        explained /= background.shape[1]
    return explained


def _scales_by_background(scales: Array) -> Array:
    """Return scales (n_rows, n_background) as the kernel reads them: (n_background, n_rows padded to 16)."""
    return np.ascontiguousarray(np.pad(scales, ((0, -len(scales) % 16), (0, 0))).T)


def _cached_paths(ensemble: TreeEnsemble, column_of: NDArray[np.intp]) -> Paths:
    """Return `_compute_paths(ensemble, column_of)`, cached in the ensemble's notes unless the ensemble is large."""
    cached = ensemble.notes.get("paths")
    if cached is None or not np.array_equal(cached.column, column_of):
        cached = _compute_paths(ensemble, column_of.astype(np.int32))
        if len(ensemble.feature) <= _MAX_CACHED:
            ensemble.notes["paths"] = cached
    return cached


def _compute_paths(ensemble: TreeEnsemble, column_of: NDArray[np.int32]) -> Paths:
    """Return columns, edge shares and tables for the Shapley kernel; `column_of` maps each feature to its column."""
    share, position, n_on_path, depth = edge_shares(
        ensemble.node_offsets, ensemble.left_child, column_of[ensemble.feature], ensemble.weight.astype(np.float64)
    )
    max_on_path = int(n_on_path.max(initial=1))
    rules = [np.polynomial.legendre.leggauss(n) for n in range(1, (max_on_path + 1) // 2 + 1)]
    return Paths(
        column=column_of,
        n_columns=int(column_of.max()) + 1,
        value=ensemble.value.astype(np.float64),
        linear=getattr(ensemble, "linear", None),
        share=share,
        position=position,
        n_on_path=n_on_path,
        max_depth=int(depth.max(initial=0)),
        points=np.concatenate([(1 + points) / 2 for points, _ in rules]),
        weights=np.concatenate([weights / 2 for _, weights in rules]),
        worth=_shapley_weights(max_on_path),
    )


def _shapley_weights(max_size: int) -> Array:
    """Return the Shapley weights (p-1)! m!/(p+m)! at [p, m], for p and m up to `max_size`; 0 for p = 0."""
    worth, m = np.zeros((max_size + 1, max_size + 1)), np.arange(max_size + 1)
    worth[1] = 1 / (m + 1)
    for p in range(1, max_size):
        worth[p + 1] = worth[p] * p / (p + m + 1)
    return worth


_NOTE = "used columns"


def on_used_columns(trees: TreeEnsemble, X: Any) -> tuple[TreeEnsemble, Any]:
    """Return equivalent trees and rows restricted to the columns in use if X is sparse; otherwise both unchanged.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees. Ensembles of a subclass, such as trees with linear leaves, are returned unchanged.
    X : row source
        The rows.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from fastens import GradientBoostingRegressor
    >>> from fastens.engine.trees.contributions import on_used_columns
    >>> X = csr_matrix(np.eye(40)[np.arange(400) % 40])
    >>> trees = GradientBoostingRegressor(n_estimators=1, min_samples_leaf=5).fit(X, X[:, 7].toarray()[:, 0])._ensemble
    >>> on_used_columns(trees, X)[1].shape
    (400, 1)
    """
    if stored_values(X) is None or type(trees) is not TreeEnsemble:
        return trees, X
    if _NOTE not in trees.notes:
        # Tables of the thresholds in use fit in the cache: predictions take 0.7 times as long as with all thresholds.
        columns, narrow = narrowed(trees)
        trees.notes[_NOTE] = columns, narrow.with_used_thresholds()
    columns, narrow = trees.notes[_NOTE]
    return narrow, X[:, columns]


def raw_of_rows(trees: TreeEnsemble, X: Any, n_threads: int = 1) -> NDArray[np.float64]:
    """Return the raw predictions for all rows of a row source, shape (n_rows, n_outputs)."""
    if trees.has_constant_leaves and (coded := with_codes_of(X, trees.binning)) is not None:
        return trees.raw_of_codes(coded.codes(), n_threads)
    trees, X = on_used_columns(trees, X)
    return map_parts(lambda part: trees.predict_raw(part, n_threads), X, is_dense=not trees.has_constant_leaves)


def narrowed(trees: TreeEnsemble) -> tuple[np.ndarray, TreeEnsemble]:
    """Return the sorted columns that the trees split on, at least one, and trees over the features of these columns."""
    columns, feature = renumbered(trees.feature)
    arrays = {name: getattr(trees, name) for name in ENSEMBLE_DTYPES} | {"feature": feature}
    return columns, TreeEnsemble(trees.binning.of_features(columns.tolist()), **arrays)


def parents(trees: TreeEnsemble) -> NDArray[np.int64]:
    """Return the parent of each node, or -1 for roots; node indices run over all trees.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    """
    parent = np.full(len(trees.left_child), -1, dtype=np.int64)
    inner = np.flatnonzero(trees.left_child)
    left = trees.left_child[inner] + np.repeat(trees.node_offsets[:-1], np.diff(trees.node_offsets))[inner]
    parent[left] = parent[left + 1] = inner
    return parent


def depths(trees: TreeEnsemble) -> NDArray[np.int64]:
    """Return the depth of each node, 0 for roots.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    """
    above = parents(trees)
    depth = (above >= 0).astype(np.int64)
    nodes = np.flatnonzero(depth)
    while len(nodes):  # pointer jumping: `depth` counts the steps to `above`, which double in each pass
        near = above[nodes]
        depth[nodes] += depth[near]
        above[nodes] = above[near]
        nodes = nodes[above[nodes] >= 0]
    return depth


def decision_path(trees: TreeEnsemble, X: Any, n_threads: int = 1) -> tuple[csr_matrix, NDArray[np.int64]]:
    """Return the nodes that each row visits, in the format of scikit-learn's `decision_path` for forests.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    X : row source of shape (n_rows, n_features)
        The rows.
    n_threads : int
        Maximum number of threads. The result does not depend on it.

    Returns
    -------
    indicator : CSR matrix of shape (n_rows, n_nodes)
        1 if a row visits a node; node indices run over all trees.
    n_nodes_ptr : int64 array of shape (n_trees + 1,)
        The columns ``n_nodes_ptr[t]:n_nodes_ptr[t + 1]`` are the nodes of tree t.
    """
    node = _global_leaves(trees, X, n_threads)
    length = (depths(trees) + 1)[node]
    end = np.cumsum(length)
    indices = np.empty(int(end[-1]) if len(end) else 0, dtype=np.int64)
    parent = parents(trees)
    # Paths are filled from the leaves up, so the last position of each path holds its leaf.
    position = end - 1
    while len(node):
        indices[position] = node
        node = parent[node]
        position, node = position[node >= 0] - 1, node[node >= 0]
    n_rows, n_nodes = X.shape[0], len(parent)
    starts = np.concatenate([[0], length.reshape(n_rows, trees.n_trees).sum(axis=1).cumsum()])
    ones = np.ones(len(indices), dtype=np.int64)
    return csr_matrix((ones, indices, starts), shape=(n_rows, n_nodes)), trees.node_offsets


def leaf_features(trees: TreeEnsemble, leaves: NDArray[np.int32]) -> csr_matrix:
    """Return one-hot leaf features: a column for each leaf of each tree, 1 for the rows that fall into it.

    The leaves serve as features of another model, as in Moosmann, Triggs & Jurie (2006).

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    leaves : int32 array of shape (n_rows, n_trees)
        Leaf indices of the rows, as returned by `TreeEnsemble.apply`.

    Returns
    -------
    CSR matrix of shape (n_rows, n_leaves)
    """
    number = np.cumsum(trees.left_child == 0) - 1
    columns = number[leaves + trees.node_offsets[:-1]].ravel()
    starts = np.arange(len(leaves) + 1) * trees.n_trees
    return csr_matrix((np.ones(len(columns)), columns, starts), shape=(len(leaves), int(trees.n_leaves.sum())))


def _global_leaves(trees: TreeEnsemble, X: Any, n_threads: int) -> NDArray[np.int64]:
    """Return a flat array, row by row, of each row's leaf in each tree, as node indices that run over all trees."""
    narrow, rows = on_used_columns(trees, X)
    leaves = map_parts(lambda part: narrow.apply(part, n_threads), rows)
    return (leaves + trees.node_offsets[:-1]).ravel()


__all__ = ["LeftOut", "PermutedLosses", "Shuffled", "Walker"]

# Maximum number of values in the changes of a block of rows.
_BLOCK_VALUES = 1 << 22


class LeftOut:
    """Out-of-bag predictions: predictions of one tree for the rows that it was not grown on.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    matrix : BinnedMatrix or SparseMatrix
        The rows, binned with the binning of the trees.
    n_threads : int
        Number of threads.
    """

    def __init__(self, trees: TreeEnsemble, matrix: AnyMatrix, n_threads: int) -> None:
        self._trees, self._matrix, self._n_threads = trees, matrix, n_threads
        self._walker = None if matrix.is_sparse else Walker(trees, matrix)

    def predict(self, t: int, counts: Array, n_trees: NDArray[np.int32]) -> Array:
        """Return tree t's values, (n_rows, n_outputs), for the rows that its sample left out, and 0 for other rows.

        `counts` is how often the sample holds each row. `n_trees` is increased by 1 for the rows with count 0.
        """
        first, last = self._trees.node_offsets[t : t + 2]
        values, out = self._trees.value[first:last], np.zeros((len(counts), self._trees.n_outputs))
        if self._walker is not None:
            self._walker.add_left_out(t, values, counts, out, n_trees, self._n_threads)
            return out
        left_out = counts == 0
        out[left_out] = values[leaves_of_rows(self._matrix.columns, self._trees.tree(t), self._n_threads)[left_out]]
        n_trees += left_out
        return out


class PermutedLosses:
    """Increase of the losses of one tree when one column at a time takes the values of other rows.

    For sparse tables, only the columns that the tree splits on are converted to dense, in blocks of rows.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    X : row source
        The rows.
    column_of : array of shape (n_features,)
        Index of the column that each feature is derived from.
    n_threads : int
        Number of threads.
    """

    def __init__(self, trees: TreeEnsemble, X: Any, column_of: NDArray[np.integer], n_threads: int) -> None:
        self._trees, self._column_of = trees, column_of
        self._stored: csr_matrix | None = None
        self._walker: Walker | None = None
        if stored_values(X) is not None:
            self._stored = csr_matrix(X)
        else:
            self._walker = Walker(trees, trees.binning.transform(X, n_threads), column_of)

    def of_tree(
        self, t: int, pairs: NDArray[np.uint32], weight: Array | None, y: Array, answers: Array, *, is_class: bool
    ) -> Array:
        """Return the increase of one tree's weighted sum of losses when each column takes other rows' values.

        Parameters
        ----------
        t : int
            Index of the tree.
        pairs : uint32 array of shape (2, n)
            Row indices and, for each of them, the row that its value is taken from.
        weight : float64 array of shape (n_rows,) or None
            Weights of the rows.
        y : float64 array of shape (n_rows, n_targets)
            Targets of the rows.
        answers : float64 array of shape (n_nodes, n_targets)
            Predictions of the tree at its nodes.
        is_class : bool
            True if the targets are class indices.

        Returns
        -------
        float64 array of shape (n_columns,)
        """
        growth = np.zeros(max(self._column_of) + 1)
        if self._walker is not None:
            self._walker.permuted_losses(t, pairs, weight, y, answers, is_class, growth)
            return growth
        assert self._stored is not None
        trees = self._trees
        columns, narrow = narrowed(trees.from_trees([trees.tree(t)], [0], trees.baseline, trees.binning))
        stored, block = self._stored[:, columns], max(1, _BLOCK_VALUES // len(columns))
        for first in range(0, pairs.shape[1], block):
            rows, others = pairs[:, first : first + block]
            matrix = narrow.binning.transform(stored[np.concatenate([rows, others])])
            block_pairs = np.arange(2 * len(rows), dtype=np.uint32).reshape(2, -1)
            of_rows = None if weight is None else weight[rows]
            walker = Walker(narrow, matrix, self._column_of[columns])
            walker.permuted_losses(0, block_pairs, of_rows, y[rows], answers, is_class, growth)
        return growth


class Shuffled:
    """Predictions of trees for rows in which one column at a time takes the value of another row.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    matrix : BinnedMatrix
        The rows, binned with the binning of the trees.
    column_of : array of shape (n_features,)
        Index of the column that each feature is derived from.
    n_threads : int
        Number of threads.
    """

    def __init__(
        self, trees: TreeEnsemble, matrix: BinnedMatrix, column_of: NDArray[np.integer], n_threads: int
    ) -> None:
        self._walker, self._trees, self._n_threads = Walker(trees, matrix, column_of), trees, n_threads
        self._raw = np.zeros((matrix.n_rows, trees.n_outputs))
        nowhere, n_trees = np.zeros(matrix.n_rows), np.zeros(matrix.n_rows, dtype=np.int32)
        for t, (first, last) in enumerate(zip(trees.node_offsets[:-1], trees.node_offsets[1:], strict=True)):
            self._walker.add_left_out(t, trees.value[first:last], nowhere, self._raw, n_trees, n_threads)
        self._block = max(1, _BLOCK_VALUES // (matrix.n_features * trees.n_outputs))

    def blocks(self, others: NDArray[np.uint32]) -> Iterator[tuple[slice, Array, Array]]:
        """Yield each block's rows, their mean predictions, and their predictions with one column taken from other rows.

        Mean predictions have shape (n, n_outputs). Changed predictions have shape (n_columns, n, n_outputs): in entry
        j, column j takes the value of the row `others[i]` for row i.
        """
        for first in range(0, len(others), self._block):
            last = min(first + self._block, len(others))
            changes = self._walker.permuted_changes(self._trees.value, others, first, last, self._n_threads)
            raw, n_trees = self._raw[first:last], self._trees.n_trees
            yield slice(first, last), raw / n_trees, (raw + changes) / n_trees
