"""Sums, quantiles and predictions by leaf, and midpoint thresholds as in CART."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from fastens.engine.bins.binning import AnyCodes, AnyMatrix, Binning, SparseCodes, SparseMatrix
from fastens.engine.bins.pages import PAGE, MappedPages
from fastens.engine.comm import widest_ranges
from fastens.engine.limits import check_count
from fastens.engine.parts import parts_of
from fastens.engine.predict import predict
from fastens.engine.predict.compile import CompiledTrees
from fastens.engine.threads import threads_for
from fastens.engine.trees.neighbours import leaf_quantiles, rank_medians, shared_leaves, update_split_ranges
from fastens.engine.trees.packing import MAX_CODES
from fastens.engine.trees.trees import Tree, TreeEnsemble, enough_threads, renumbered

# Number of bytes of bin codes that are read from files at a time.
_BLOCK = 4 << 20


def add_tree_to_raw(
    codes: AnyCodes, tree: Tree, raw_column: np.ndarray, n_threads: int = 1, pages: MappedPages | None = None
) -> None:
    """Add the values of a tree to a raw prediction column in place.

    Parameters
    ----------
    codes : uint8 or uint16 array of shape (n_features, n_rows), or SparseCodes
        The binned rows.
    tree : Tree
        The tree.
    raw_column : float64 array of shape (n_rows,)
        Raw predictions to update.
    n_threads : int
        Maximum number of threads.
    pages : MappedPages, optional
        Limit on the resident pages of bin codes stored in files. If given, the rows are read in blocks.
    """
    if pages is not None and isinstance(codes, np.ndarray):
        for rows in _row_blocks(codes, pages):
            add_tree_to_raw(codes[:, rows], tree, raw_column[rows], n_threads)
        return
    if isinstance(codes, SparseCodes):
        columns, feature = renumbered(tree.feature)
        for first, part in codes.of_features(columns, n_threads):
            add_tree_to_raw(part, replace(tree, feature=feature), raw_column[first : first + part.shape[1]], n_threads)
        return
    # On small data, creating a TreeEnsemble would take longer than the prediction itself.
    offsets, output = np.array([0, tree.n_nodes], dtype=np.int64), np.zeros(1, np.int32)
    alone = SimpleNamespace(**vars(tree), node_offsets=offsets, tree_output=output, baseline=np.zeros(1))
    n_threads = enough_threads(len(raw_column), tree.n_nodes, 0, n_threads)
    predict.add_to_raw(CompiledTrees(alone, None, codes.itemsize), codes, raw_column[None], 0, 1, n_threads)


def _row_blocks(codes: np.ndarray, pages: MappedPages) -> Iterator[slice]:
    """Yield slices of rows whose codes fit in `_BLOCK` bytes, and count their pages as resident while they are read."""
    n_columns, n_rows = codes.shape
    by_column = codes.strides[1] == codes.itemsize
    of_row = n_columns * codes.itemsize if by_column else codes.strides[1]
    step = max(1, _BLOCK // max(1, of_row))
    for first in range(0, n_rows, step):
        n_runs = n_columns if by_column else 1  # each run of rows may start and end in the middle of a page
        pages.note(min(step, n_rows - first) * of_row + 2 * n_runs * PAGE)
        yield slice(first, first + step)
    pages.drop()


Array = NDArray[np.float64]
# Number of bits to which values are rounded, so that their sums are exact.
_BITS = 50


def leaves_of_rows(
    codes: AnyCodes, tree: Tree, n_threads: int = 1, pages: MappedPages | None = None
) -> NDArray[np.intp]:
    """Return the leaf's node index of each row, shape (n_rows,), from bin codes of shape (n_features, n_rows)."""
    node = np.zeros(codes.shape[1])
    numbers = replace(tree, value=np.arange(tree.n_nodes, dtype=np.float64)[:, None])
    add_tree_to_raw(codes, numbers, node, n_threads, pages)
    return node.astype(np.intp)


def leaf_sums(
    leaf: NDArray[np.intp], values: np.ndarray, weight: Array | None, n_nodes: int, copies: Array | None = None
) -> Array:
    """Return the sum of the values in each leaf, rounded to 2**-50 of the sum of absolute values; 0 for inner nodes.

    Parameters
    ----------
    leaf : integer array of shape (n_rows,)
        The leaf of each row.
    values : array of shape (n_rows,)
        The values to sum.
    weight : float64 array of shape (n_rows,) or None
        Factors of the values. If None, all are 1.
    n_nodes : int
        Number of nodes.
    copies : float64 array of shape (n_rows,) or None
        Number of copies of each row, integers. The result is bit-identical to repeating the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.trees.leaf_values import leaf_sums
    >>> leaf_sums(np.array([1, 2, 1]), np.array([1.0, 2.0, 4.0]), None, 3)
    array([0., 5., 2.])
    """
    weighted = values.astype(np.float64) if weight is None else values * weight
    total = float(np.abs(weighted).sum() if copies is None else np.abs(weighted) @ copies)
    unit = max(math.ldexp(1.0, math.frexp(total)[1] - 1 - _BITS), math.ulp(0.0))
    units = np.rint(weighted / unit)
    return np.asarray(np.bincount(leaf, units if copies is None else units * copies, n_nodes) * unit, dtype=np.float64)


PREFIX = "leaf_rows."
# Minimum number of rows for a thread; each of them compares about a hundred neighbours.
GRAIN = 50


@dataclass(frozen=True, eq=False)
class LeafRows:
    """The training rows in the leaves of all trees.

    Attributes
    ----------
    first_node : int64 array of shape (n_trees + 1,)
        Offset of the first node of each tree.
    starts : int64 array of shape (n_nodes + 1,)
        Offset of the first member of each node. Inner nodes do not have members.
    members : uint32 array
        Row indices, or other integers that represent rows.
    weights : float32 array or None
        Positive weights of the members. If None, all weights are 1.
    """

    first_node: NDArray[np.int64]
    starts: NDArray[np.int64]
    members: NDArray[np.uint32]
    weights: NDArray[np.float32] | None

    @classmethod
    def group(
        cls,
        first_node: NDArray[np.int64],
        leaf: NDArray[np.int32],
        members: NDArray[np.uint32],
        weight_in: Callable[[int], Array] | None = None,
    ) -> LeafRows:
        """Group rows by the leaves they fall into.

        Parameters
        ----------
        first_node : int64 array
            Offset of the first node of each tree.
        leaf : int32 array of shape (n_rows, n_trees)
            The leaf of each row in each tree.
        members : uint32 array of shape (n_rows,)
            Integer that represents each row.
        weight_in : function, optional
            Returns the weights of the rows in a tree. Rows with weight 0 are omitted from this tree; all other weights
            must remain positive in float32.
        """
        rows, weights, sizes = [], [], []
        for tree in range(leaf.shape[1]):
            n_nodes = int(first_node[tree + 1] - first_node[tree])
            weight = None if weight_in is None else weight_in(tree)
            chosen = np.arange(len(leaf)) if weight is None else np.flatnonzero(weight)
            tree_leaves = leaf[chosen, tree]
            chosen = chosen[np.argsort(tree_leaves, kind="stable")]
            rows.append(members[chosen])
            sizes.append(np.bincount(tree_leaves, minlength=n_nodes))
            if weight is not None:
                weights.append(weight[chosen].astype(np.float32))
        starts = np.append(0, np.cumsum(np.concatenate(sizes)))
        return cls(first_node, starts, np.concatenate(rows), np.concatenate(weights) if weights else None)

    def quantiles(self, leaf: NDArray[np.int32], values: Array, levels: Array, n_threads: int) -> Array:
        """Return quantiles of the values in each row's leaves, shape (n_rows, n_levels).

        `leaf` holds the leaf of each row in each tree, shape (n_rows, n_trees). Members must be ranks in ascending
        `values`.
        """
        n_threads = threads_for(len(leaf), n_threads, GRAIN)
        order = np.argsort(levels, kind="stable")
        quantiles = leaf_quantiles(self, leaf, values, levels[order], n_threads)
        out = np.empty_like(quantiles)
        out[:, order] = quantiles
        return out

    def proximity(self, leaf: NDArray[np.int32], n_members: int, n_most: int | None, n_threads: int) -> csr_matrix:
        """Return the fractions of trees in which rows share a leaf with members, CSR (n_rows, n_members).

        Each row stores its `n_most` nearest members, or all of them if None. `leaf` has shape (n_rows, n_trees).
        """
        n_threads = threads_for(len(leaf), n_threads, GRAIN)
        parts = shared_leaves(self, leaf, n_members, n_members if n_most is None else n_most, n_threads)
        indptr, indices, counts = parts
        return csr_matrix((counts / leaf.shape[1], indices.astype(np.int64), indptr), shape=(len(leaf), n_members))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the fields that are not None as a dict; keys are the field names with `PREFIX`."""
        return {PREFIX + name: array for name, array in vars(self).items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], node_offsets: NDArray[np.int64], n_members: int) -> LeafRows:
        """Create an instance from the output of `to_arrays`; raise ValueError if the arrays are invalid.

        They must describe trees whose first nodes are `node_offsets`, and members below `n_members`.
        """
        first_node, starts, members = (arrays[PREFIX + name] for name in ("first_node", "starts", "members"))
        weights = arrays.get(PREFIX + "weights")
        is_sound = (
            (first_node.dtype, starts.dtype, members.dtype) == (np.int64, np.int64, np.uint32)
            and np.array_equal(first_node, node_offsets)
            and starts.ndim == members.ndim == 1
            and len(starts) == node_offsets[-1] + 1
            and starts[0] == 0
            and starts[-1] == len(members)
            and (starts[1:] >= starts[:-1]).all()  # differences of large integers would overflow
            and members.max(initial=0) < n_members
            and (weights is None or (weights.dtype == np.float32 and weights.shape == members.shape))
            and (weights is None or bool(((weights > 0) & (weights < np.inf)).all()))
        )
        if not is_sound:
            raise ValueError("the arrays do not describe the rows of leaves")
        return cls(first_node, starts, members, weights)


# Minimum number of (row, tree) pairs for a thread.
_GRAIN = 10_000
# Number of (row, tree) pairs that are in memory at a time.
_BLOCK_PAIRS = 1 << 20
# Slightly below one half, because the sum of the weights is rounded.
_HALF = 0.5 * (1 - 1e-12)


class TreeMedian:
    """The weighted median of the trees' predictions.

    Parameters
    ----------
    ensemble : TreeEnsemble
        Trees with one value per leaf.
    weights : float64 array of shape (n_trees,)
        Positive weights of the trees.
    """

    def __init__(self, ensemble: TreeEnsemble, weights: NDArray[np.float64]) -> None:
        self._ensemble, self._weights = ensemble, weights
        self._values, rank = np.unique(ensemble.value[:, 0], return_inverse=True)
        check_count("The trees", "different values", len(self._values), advice="Grow fewer or smaller trees.")
        self._rank = rank.astype(np.int32)

    def predict(self, X: NDArray[np.floating], n_threads: int = 1, n_trees: int | None = None) -> NDArray[np.float64]:
        """Return the weighted lower median of the first `n_trees` trees' predictions (default: all), (n_rows,)."""
        n_trees = self._ensemble.n_trees if n_trees is None else n_trees
        step = max(1, _BLOCK_PAIRS // self._ensemble.n_trees)
        if X.shape[0] <= step:  # for a single row, concatenating takes as long as finding its leaves
            return self.of_leaves(self._ensemble.apply(X, n_threads), n_threads, n_trees)
        blocks = (X[first : first + step] for first in range(0, X.shape[0], step))
        leaves = (self._ensemble.apply(block, n_threads) for block in blocks)
        return np.concatenate([self.of_leaves(of_block, n_threads, n_trees) for of_block in leaves])

    def of_leaves(self, leaves: NDArray[np.int32], n_threads: int, n_trees: int) -> NDArray[np.float64]:
        """Return the weighted median over the first `n_trees` trees of each row's leaf values, shape (n_rows,).

        `leaves` holds the leaf of each row in each tree, as a node index within the tree, shape (n_rows, n_trees or
        more).
        """
        ranks = np.ascontiguousarray(self._rank[leaves[:, :n_trees] + self._ensemble.node_offsets[:n_trees]])
        weights = np.ascontiguousarray(self._weights[:n_trees])
        out = np.empty(len(leaves), dtype=np.int32)
        n_threads = threads_for(ranks.size, n_threads, _GRAIN)
        rank_medians(ranks, weights, len(self._values), _HALF * weights.sum(), out, n_threads)
        return self._values[out]


# Minimum number of rows for a thread; routing them through a deep tree takes tens of microseconds.
_ROW_GRAIN = 500


def cut_half_way(tree: Tree, matrix: AnyMatrix, X: Any, binning: Binning, n_threads: int = 1) -> tuple[Tree, Binning]:
    """Move the thresholds of a tree to midpoints; return the tree and a binning with exactly these thresholds.

    Each threshold becomes the midpoint between the largest value in the node that goes left and the smallest value that
    goes right, so all training rows are routed as before. Features with more distinct midpoints than bin codes keep
    their original thresholds.

    Parameters
    ----------
    tree : Tree
        The tree.
    matrix : BinnedMatrix or SparseMatrix
        The rows that the tree was grown on, or this rank's shard of them.
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        The values of these rows.
    binning : Binning
        The binning of the matrix.
    n_threads : int
        Maximum number of threads. The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, class_target
    >>> from fastens.engine.trees.leaf_values import cut_half_way
    >>> X = np.array([[1.0], [2.0], [7.0], [8.0]])
    >>> binning = learn_binning(X)
    >>> matrix = binning.transform(X)
    >>> grower = ForestGrower(matrix, class_target([0, 0, 1, 1], [2]), ForestParameters())
    >>> [tree] = grower.grow([TreeSample(None, None, 0)])
    >>> cut_half_way(tree, matrix, X, binning)[1].thresholds
    [array([4.5])]
    """
    nodes = np.flatnonzero((tree.feature >= 0) & (tree.category_set < 0))
    feature, code = tree.feature[nodes], tree.bin_threshold[nodes].astype(np.int64)
    last_code = binning.n_codes[feature] - 1
    is_cut = code < last_code
    middle = _split_midpoints(tree, matrix, X, n_threads)[nodes]
    n_used, used, rank = _distinct_by_feature(feature[is_cut], middle[is_cut], len(binning.thresholds))
    if (n_used > MAX_CODES - 2).any():
        for i in np.flatnonzero(is_cut & (n_used > MAX_CODES - 2)[feature]):
            middle[i] = binning.thresholds[feature[i]][code[i] - 1]
        n_used, used, rank = _distinct_by_feature(feature[is_cut], middle[is_cut], len(binning.thresholds))
    ends = np.cumsum(n_used).tolist()
    thresholds = [used[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    new_code = n_used[feature] + 1
    new_code[is_cut] = rank + 1
    bin_threshold = tree.bin_threshold.copy()
    bin_threshold[nodes] = new_code
    return replace(tree, bin_threshold=bin_threshold), binning.with_thresholds(thresholds)


def _distinct_by_feature(
    feature: NDArray[np.integer], value: NDArray[np.float64], n_features: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the number of distinct values per feature, these values in order, and the rank of each input value."""
    order = np.lexsort((value, feature))
    of_feature, ascending = feature[order], value[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (of_feature[1:] != of_feature[:-1]) | (ascending[1:] != ascending[:-1])
    counts = np.bincount(of_feature[is_new], minlength=n_features)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.cumsum(is_new) - 1 - (np.cumsum(counts) - counts)[of_feature]
    return counts, ascending[is_new], rank


def _split_midpoints(tree: Tree, matrix: AnyMatrix, X: Any, n_threads: int) -> np.ndarray:
    """Return the midpoint between the training values on both sides of each split, shape (n_nodes,).

    If rounding prevents the midpoint from separating both sides, the largest value on the left is returned instead.
    """
    n_threads = threads_for(matrix.n_rows, n_threads, _ROW_GRAIN)
    low = np.full((n_threads, tree.n_nodes), -np.inf)
    high = np.full((n_threads, tree.n_nodes), np.inf)
    if isinstance(matrix, SparseMatrix):
        columns, feature = renumbered(tree.feature)
        of_columns, tree = X.tocsc()[:, columns].tocsr(), replace(tree, feature=feature)
        for start, codes in matrix.columns.of_features(columns, n_threads):
            part = of_columns[start : start + codes.shape[1]].toarray()
            update_split_ranges(tree, np.ascontiguousarray(codes.T).view(np.uint8), codes.itemsize, part, low, high)
    else:
        for start, part in parts_of(X):
            records = matrix.records[start : start + len(part)]
            update_split_ranges(tree, records, matrix.columns.itemsize, part, low, high)
    right, left = widest_ranges(matrix.comm, high.min(axis=0), low.max(axis=0))
    # Infinities are separated from all finite values, as the thresholds of bins do.
    largest = np.finfo(np.float64).max
    middle = np.where(np.isneginf(left), -largest, left) / 2 + np.where(np.isposinf(right), largest, right) / 2
    middle[np.isneginf(left) & ~np.isposinf(right)] = -np.inf
    middle[np.isposinf(right) & ~np.isneginf(left)] = largest
    return np.where((left <= middle) & (middle < right), middle, left)
