"""The fitted model: trees as plain arrays, and the questions one asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fastens.engine.binning import Binning


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree as arrays with one entry per node; node 0 is the root, a parent stands before its children.

    Attributes
    ----------
    feature : int32 array
        The feature a node splits on, -1 at a leaf.
    bin_threshold : uint16 array
        Numeric splits send codes ``1 <= code <= bin_threshold`` to the left.
    missing_left : uint8 array
        Whether code 0 (missing, unseen) goes left at a numeric split.
    category_set : int32 array
        -1, or the first word in ``category_words`` of the set of codes that go left (code 0 included).
    category_words : uint32 array
        The sets, ``ceil(n_codes[feature] / 32)`` words each; bit c of a set stands for code c.
    left_child : int32 array
        The left child, 0 at a leaf. The right child is the node after it.
    value : float64 array
        What a leaf adds to the raw prediction.
    gain : float64 array
        How much a split lowered the objective, 0 at a leaf.
    n_samples : int64 array
        Number of training rows in a node.
    weight : float64 array
        Sum of the hessians of a node's training rows.
    """

    feature: np.ndarray
    bin_threshold: np.ndarray
    missing_left: np.ndarray
    category_set: np.ndarray
    category_words: np.ndarray
    left_child: np.ndarray
    value: np.ndarray
    gain: np.ndarray
    n_samples: np.ndarray
    weight: np.ndarray

    @property
    def n_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return (self.n_nodes + 1) // 2


DTYPES: dict[str, type[np.generic]] = {
    "feature": np.int32,
    "bin_threshold": np.uint16,
    "missing_left": np.uint8,
    "category_set": np.int32,
    "category_words": np.uint32,
    "left_child": np.int32,
    "value": np.float64,
    "gain": np.float64,
    "n_samples": np.int64,
    "weight": np.float64,
}
ENSEMBLE_DTYPES: dict[str, type[np.generic]] = {
    **DTYPES,
    "node_offsets": np.int64,
    "tree_output": np.int32,
    "baseline": np.float64,
}


class TreeEnsemble:
    """Trees one after another in plain read-only arrays, with the binning they were grown on.

    The arrays are those of `Tree`, concatenated, and

    node_offsets : int64 array of shape (n_trees + 1,)
        Tree t owns the nodes ``node_offsets[t]:node_offsets[t + 1]``; ``left_child`` counts inside the tree,
        ``category_set`` counts from the first word of the ensemble.
    tree_output : int32 array of shape (n_trees,)
        Which column of the raw prediction a tree adds to.
    baseline : float64 array of shape (n_outputs,)
        The raw prediction before the first tree.
    """

    feature: np.ndarray
    bin_threshold: np.ndarray
    missing_left: np.ndarray
    category_set: np.ndarray
    category_words: np.ndarray
    left_child: np.ndarray
    value: np.ndarray
    gain: np.ndarray
    n_samples: np.ndarray
    weight: np.ndarray
    node_offsets: np.ndarray
    tree_output: np.ndarray
    baseline: np.ndarray
    binning: Binning

    def __init__(self, binning: Binning, **arrays: np.ndarray) -> None:
        self.binning = binning
        for name, dtype in ENSEMBLE_DTYPES.items():
            array = np.ascontiguousarray(arrays[name], dtype=dtype)
            array = array.view()
            array.flags.writeable = False
            setattr(self, name, array)

    @classmethod
    def from_trees(
        cls, trees: Sequence[Tree], tree_output: Sequence[int] | np.ndarray, baseline: np.ndarray, binning: Binning
    ) -> TreeEnsemble:
        """Put trees one after another.

        Parameters
        ----------
        trees : sequence of Tree
            The trees, in the order in which they are added up.
        tree_output : sequence of int
            The raw column of each tree.
        baseline : array of shape (n_outputs,)
            The raw prediction before the first tree.
        binning : Binning
            What turns values into the codes the trees split on.
        """
        arrays = {
            name: np.concatenate([getattr(tree, name) for tree in trees] or [np.empty(0, dtype)])
            for name, dtype in DTYPES.items()
        }
        n_nodes = [tree.n_nodes for tree in trees]
        n_words = [len(tree.category_words) for tree in trees]
        first_word = np.repeat(np.cumsum([0, *n_words])[:-1], n_nodes)
        arrays["category_set"] = np.where(
            arrays["category_set"] >= 0, arrays["category_set"] + first_word, arrays["category_set"]
        )
        return cls(
            binning,
            node_offsets=np.cumsum([0, *n_nodes]),
            tree_output=np.asarray(tree_output, dtype=np.int32),
            baseline=np.asarray(baseline, dtype=np.float64),
            **arrays,
        )

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_output)

    @property
    def n_outputs(self) -> int:
        """Number of raw columns."""
        return len(self.baseline)

    def tree(self, index: int) -> Tree:
        """Return one tree; its arrays are views, its category sets count from the ensemble's first word."""
        nodes = slice(self.node_offsets[index], self.node_offsets[index + 1])
        arrays = {f.name: getattr(self, f.name)[nodes] for f in fields(Tree) if f.name != "category_words"}
        return Tree(category_words=self.category_words, **arrays)

    def predict_raw(self, X: np.ndarray, n_threads: int = 1, n_trees: int | None = None) -> np.ndarray:
        """Return the raw predictions, shape (n_rows, n_outputs): the baseline plus the first `n_trees` trees."""
        codes = self.binning.codes(X, n_threads)
        raw = np.tile(self.baseline[:, None], (1, codes.shape[1]))
        for t in range(self.n_trees if n_trees is None else n_trees):
            add_tree_to_raw(codes, self.tree(t), raw[self.tree_output[t]])
        return np.ascontiguousarray(raw.T)


def add_tree_to_raw(codes: np.ndarray, tree: Tree, raw_column: np.ndarray, n_threads: int = 1) -> None:
    """Add a tree's values to a raw column, in place.

    Parameters
    ----------
    codes : uint8 or uint16 array of shape (n_features, n_rows), C order
        The binned rows.
    tree : Tree
        The tree.
    raw_column : float64 array of shape (n_rows,)
        Raw predictions, changed in place.
    n_threads : int
        Number of threads.
    """
    node = np.zeros(codes.shape[1], dtype=np.int64)
    while True:
        rows = np.flatnonzero(tree.left_child[node])
        if not len(rows):
            break
        at = node[rows]
        code = codes[tree.feature[at], rows].astype(np.int64)
        left = np.where(code == 0, tree.missing_left[at] != 0, code <= tree.bin_threshold[at])
        words = tree.category_words if len(tree.category_words) else np.zeros(1, np.uint32)
        in_set = np.maximum(tree.category_set[at], 0) + np.where(tree.category_set[at] >= 0, code >> 5, 0)
        left = np.where(tree.category_set[at] >= 0, (words[in_set] >> (code & 31).astype(np.uint32)) & 1 != 0, left)
        node[rows] = tree.left_child[at] + ~left
    raw_column += tree.value[node]
