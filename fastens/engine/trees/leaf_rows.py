"""Which rows stand in which leaves: what quantile regression forests and proximities are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from fastens.engine.threads import threads_for
from fastens.engine.trees.neighbours import leaf_quantiles, shared_leaves

Array = NDArray[np.float64]
PREFIX = "leaf_rows."
# Rows that are worth a thread: each looks at some hundred neighbours.
GRAIN = 50


@dataclass(frozen=True, eq=False)
class LeafRows:
    """The members of all leaves.

    Attributes
    ----------
    first_node : int64 array of shape (n_trees + 1,)
        The nodes of a tree, counted over all trees.
    starts : int64 array of shape (n_nodes + 1,)
        Where the members of each node begin; inner nodes have none.
    members : uint32 array
        Row numbers, or what else stands for rows.
    weights : float32 array or None
        Their weights, above 0; None for ones.
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
        """Sort rows by the leaves they are in.

        Parameters
        ----------
        first_node : int64 array
            The nodes of each tree.
        leaf : int32 array of shape (n_rows, n_trees)
            The leaf of each row in each tree.
        members : uint32 array of shape (n_rows,)
            What stands for each row.
        weight_in : function, optional
            Gives the weights of the rows in a tree; rows of weight 0 are left out of it. Others must be above 0 as
            float32 too.
        """
        rows, weights, sizes = [], [], []
        for tree in range(leaf.shape[1]):
            n_nodes = int(first_node[tree + 1] - first_node[tree])
            weight = None if weight_in is None else weight_in(tree)
            chosen = np.arange(len(leaf)) if weight is None else np.flatnonzero(weight)
            found = leaf[chosen, tree]
            chosen = chosen[np.argsort(found, kind="stable")]
            rows.append(members[chosen])
            sizes.append(np.bincount(found, minlength=n_nodes))
            if weight is not None:
                weights.append(weight[chosen].astype(np.float32))
        starts = np.append(0, np.cumsum(np.concatenate(sizes)))
        return cls(first_node, starts, np.concatenate(rows), np.concatenate(weights) if weights else None)

    def quantiles(self, leaf: NDArray[np.int32], values: Array, levels: Array, n_threads: int) -> Array:
        """Return quantiles of the values in each row's leaves, (n_rows, n_levels); members are ranks of values."""
        n_threads = threads_for(len(leaf), n_threads, GRAIN)
        order = np.argsort(levels, kind="stable")
        found = leaf_quantiles(self, leaf, values, levels[order], n_threads)
        out = np.empty_like(found)
        out[:, order] = found
        return out

    def proximity(self, leaf: NDArray[np.int32], n_members: int, n_most: int | None, n_threads: int) -> csr_matrix:
        """Return in what share of the trees rows share a leaf with members, each row's `n_most` nearest."""
        n_threads = threads_for(len(leaf), n_threads, GRAIN)
        parts = shared_leaves(self, leaf, n_members, n_members if n_most is None else n_most, n_threads)
        indptr, indices, counts = parts
        return csr_matrix((counts / leaf.shape[1], indices.astype(np.int64), indptr), shape=(len(leaf), n_members))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the state as plain arrays under names with a prefix."""
        return {PREFIX + name: array for name, array in vars(self).items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], node_offsets: NDArray[np.int64], n_members: int) -> LeafRows:
        """Make the members again; ValueError for arrays that are not such a state."""
        first_node, starts, members = (arrays[PREFIX + name] for name in ("first_node", "starts", "members"))
        weights = arrays.get(PREFIX + "weights")
        is_sound = (
            (first_node.dtype, starts.dtype, members.dtype) == (np.int64, np.int64, np.uint32)
            and np.array_equal(first_node, node_offsets)
            and starts.ndim == members.ndim == 1
            and len(starts) == node_offsets[-1] + 1
            and starts[0] == 0
            and starts[-1] == len(members)
            and (starts[1:] >= starts[:-1]).all()  # differences of large numbers overflow
            and members.max(initial=0) < n_members
            and (weights is None or (weights.dtype == np.float32 and weights.shape == members.shape))
            and (weights is None or bool(((weights > 0) & (weights < np.inf)).all()))
        )
        if not is_sound:
            raise ValueError("the arrays do not describe the rows of leaves")
        return cls(first_node, starts, members, weights)
