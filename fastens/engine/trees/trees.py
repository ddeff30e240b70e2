"""The fitted model: trees as plain arrays, and what can be read from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from fastens.cached import cached_property
from fastens.engine.bins.binning import Binning
from fastens.engine.predict import predict
from fastens.engine.predict.compile import CompiledTrees
from fastens.engine.threads import threads_for
from fastens.engine.trees.packing import check_structure, pack, read_binning, unpack, unpack_splits
from fastens.engine.trees.unseen import send_unseen


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
        Whether a numeric split sends code 0 (missing, unseen) to the left. At a split of categories: True where no row
        of training had code 0 in the node and its side is still free; see unseen.pyx.
    category_set : int32 array
        -1, or the first word in ``category_words`` of the set of codes that go left (code 0 among them or not).
    category_words : uint32 array
        The sets, ``ceil(n_codes[feature] / 32)`` words each; bit c of a set stands for code c.
    left_child : int32 array
        The left child, 0 at a leaf. The right child is the node after it.
    value : float64 or float32 array of shape (n_nodes, n_values)
        What a leaf adds to the raw prediction: to one column where ``n_values`` is 1, otherwise one value for each
        column. Inner nodes have what they would add as leaves.
    gain : float64 or float32 array
        How much a split lowered the objective, 0 at a leaf.
    n_samples : int64 or int32 array
        Number of training rows in a node.
    weight : float64 or float32 array
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


@dataclass(frozen=True, eq=False)
class MeasuredTree(Tree):
    """A tree of numbers as it was grown, with the squared distances of its rows from the nodes' values.

    Attributes
    ----------
    squares : float64 array of shape (n_nodes, n_targets)
        Weights times the squared differences between the targets and their mean, summed over a leaf's rows; 0 at inner
        nodes.
    """

    squares: np.ndarray


@dataclass(frozen=True, eq=False)
class SearchedTree(Tree):
    """A tree as it was grown, with what its splits were chosen from.

    Attributes
    ----------
    n_usable : int32 array of shape (n_nodes,)
        How many features a split could be on: those that are allowed there, and known not to be constant in the node
        above; 0 at leaves.
    n_groups : int32 array of shape (n_nodes,)
        How many values (bins or categories, a missing one among them) the node's rows have of the feature that it is
        split on; 0 at leaves. Not where thresholds are random.
    """

    n_usable: np.ndarray
    n_groups: np.ndarray


# The types that an array may have; the first one is that of anything else.
TREE_DTYPES: dict[str, tuple[type[np.generic], ...]] = {
    "feature": (np.int32,),
    "bin_threshold": (np.uint16,),
    "missing_left": (np.uint8,),
    "category_set": (np.int32,),
    "category_words": (np.uint32,),
    "left_child": (np.int32,),
    "value": (np.float64, np.float32),
    "gain": (np.float64, np.float32),
    "n_samples": (np.int64, np.int32),
    "weight": (np.float64, np.float32),
}
ENSEMBLE_DTYPES: dict[str, tuple[type[np.generic], ...]] = {
    **TREE_DTYPES,
    "node_offsets": (np.int64,),
    "tree_output": (np.int32,),
    "baseline": (np.float64,),
}
N_DIMENSIONS = dict.fromkeys(ENSEMBLE_DTYPES, 1) | {"value": 2}
BINNING_PREFIX = "binning."


class TreeEnsemble:
    """Trees one after another in plain read-only arrays, with the binning they were grown on.

    The arrays are those of `Tree`, concatenated, and the three below. Whatever can be computed from them (thresholds,
    the compiled form that predicts) is made when first asked for and is no part of the state. Nor need the arrays be
    there: an ensemble from `from_packed` keeps their short form, a third in size, until one of them is asked for.

    Attributes
    ----------
    node_offsets : int64 array of shape (n_trees + 1,)
        Tree t owns the nodes ``node_offsets[t]:node_offsets[t + 1]``; ``left_child`` counts inside the tree,
        ``category_set`` counts from the first word of the ensemble.
    tree_output : int32 array of shape (n_trees,)
        Which column of the raw prediction a tree adds to; 0 for trees that have a value for each column.
    baseline : float64 array of shape (n_outputs,)
        The raw prediction before the first tree.
    binning : Binning
        What turns values into the codes the trees split on.
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
    has_constant_leaves: ClassVar[bool] = True
    _packed: dict[str, np.ndarray] | None = None

    def __init__(self, binning: Binning, **arrays: np.ndarray) -> None:
        self.binning = binning
        for name, dtypes in ENSEMBLE_DTYPES.items():
            given = np.asarray(arrays[name])
            array = np.ascontiguousarray(given, dtype=given.dtype if given.dtype in dtypes else dtypes[0]).view()
            array.flags.writeable = False
            setattr(self, name, array)

    @classmethod
    def from_packed(cls, packed: Mapping[str, np.ndarray], binning: Binning) -> TreeEnsemble:
        """Make an ensemble of the short form of trees (see packing.py), which is trusted."""
        ensemble = cls.__new__(cls)
        ensemble.binning, ensemble._packed = binning, dict(packed)
        for name in ("value", "tree_output", "baseline", "node_offsets", "category_words"):
            array = packed[name].view()
            array.flags.writeable = False
            setattr(ensemble, name, array)
        return ensemble

    def __getattr__(self, name: str) -> Any:
        """One of the arrays: all are unpacked. Two threads at once may both do it."""
        packed = self.__dict__.get("_packed")
        if name not in ENSEMBLE_DTYPES or (packed is None and name not in self.__dict__):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if packed is not None:
            TreeEnsemble.__init__(self, self.binning, **unpack(packed, self.binning))
            self._packed = None
        return self.__dict__[name]

    @classmethod
    def from_trees(
        cls,
        trees: Sequence[Tree],
        tree_output: Sequence[int] | np.ndarray,
        baseline: Sequence[float] | np.ndarray,
        binning: Binning,
    ) -> TreeEnsemble:
        """Put trees one after another, in the order in which they are added up.

        Parameters
        ----------
        trees : sequence of Tree
            The trees.
        tree_output : sequence of int
            The raw column of each tree.
        baseline : sequence of float
            The raw prediction before the first tree, one for each raw column.
        binning : Binning
            What turns values into the codes the trees split on.
        """
        parts = {name: [getattr(tree, name) for tree in trees] for name in TREE_DTYPES}
        arrays = {
            name: np.concatenate(parts[name] or [np.empty((0, 1)[: N_DIMENSIONS[name]], dtypes[0])])
            for name, dtypes in TREE_DTYPES.items()
        }
        n_nodes = list(map(len, parts["feature"]))
        first_word = np.cumsum([0, *map(len, parts["category_words"])])[:-1]
        category_set = arrays["category_set"]
        arrays["category_set"] = np.where(category_set < 0, -1, category_set + np.repeat(first_word, n_nodes))
        _put_words_in_order(arrays, binning)
        arrays["node_offsets"] = np.cumsum([0, *n_nodes])
        return cls(binning, tree_output=np.asarray(tree_output), baseline=np.asarray(baseline), **arrays)

    # ------------------------------------------------------------------------------------------------------- state

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the whole state as a few small arrays (see packing.py); those of the binning have a prefix."""
        binning = {BINNING_PREFIX + name: array for name, array in self.binning.to_arrays().items()}
        return self.packed() | binning

    def packed(self) -> dict[str, np.ndarray]:
        """Return the short form of the trees; see packing.py."""
        return pack(self) if self._packed is None else dict(self._packed)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> TreeEnsemble:
        """Make an ensemble from what `to_arrays` returned.

        Raises
        ------
        ValueError
            If the arrays are not those of an ensemble. What passes can be predicted with safely.
        """
        binning = read_binning(
            {k.removeprefix(BINNING_PREFIX): a for k, a in arrays.items() if k.startswith(BINNING_PREFIX)}
        )
        ensemble = cls(binning, **unpack(arrays, binning))
        check_structure(ensemble)
        return ensemble

    def __getstate__(self) -> dict[str, Any]:
        return self.to_arrays()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(type(self).from_arrays(state).__dict__)

    def with_values(self, value: np.ndarray) -> TreeEnsemble:
        """Return the same trees with other values of the nodes."""
        if self._packed is not None:
            return TreeEnsemble.from_packed(self._packed | {"value": value}, self.binning)
        return self._with(value=value)

    def with_unseen_on_average(self) -> TreeEnsemble:
        """Return the same trees where categories never seen get the mean of both sides; see unseen.pyx.

        Splits of categories note in `missing_left` that no row of the node had a missing value, until this is done.
        """
        splits = self.splits()
        if not ((splits.category_set >= 0) & (splits.missing_left > 0)).any():
            return self
        words, mean = self.category_words.copy(), self.value.astype(np.float64)
        send_unseen(
            self.node_offsets, self.left_child, self.feature, self.category_set, self.missing_left,
            self.weight.astype(np.float64), mean, self.tree_output, self.binning.n_features, self.n_outputs, words,
        )  # fmt: skip
        return self._with(category_words=words, missing_left=np.where(self.category_set < 0, self.missing_left, 0))

    def _with(self, **arrays: np.ndarray) -> TreeEnsemble:
        """Return the trees with other arrays."""
        return TreeEnsemble(self.binning, **{name: getattr(self, name) for name in ENSEMBLE_DTYPES} | arrays)

    def with_sets_in_order(self) -> TreeEnsemble:
        """Return the same trees with the category sets one after another, in the order of the nodes."""
        arrays = {name: getattr(self, name) for name in ENSEMBLE_DTYPES}
        arrays["category_set"] = arrays["category_set"].copy()
        _put_words_in_order(arrays, self.binning)
        return TreeEnsemble(self.binning, **arrays)

    def splits(self) -> Any:
        """Return something with the arrays that rows' ways depend on, which are not kept where they are packed."""
        packed = self._packed
        return self if packed is None else SimpleNamespace(**unpack_splits(packed, self.binning))

    @cached_property
    def notes(self) -> dict[str, Any]:
        """What others make of the trees and keep with them; no part of the state."""
        return {}

    @cached_property
    def compiled(self) -> CompiledTrees:
        """The form that predicts. Two threads at once may both make it; either is good."""
        lean = self.lean
        return CompiledTrees(lean.splits(), lean.binning.table, lean.binning.code_dtype.itemsize)

    def forget(self) -> None:
        """Drop what was made of the trees to predict with, which is larger than they; it is made again when needed."""
        for name in ("compiled", "_leaner", "notes"):
            self.__dict__.pop(name, None)

    @property
    def lean(self) -> TreeEnsemble:
        """The same trees with only the thresholds they use, where that makes codes of one byte out of two.

        Codes of one byte allow leaf scans, which are much faster than walks.
        """
        return self._leaner or self

    @cached_property
    def _leaner(self) -> TreeEnsemble | None:
        """Trees other than these: one that kept itself would stay in memory until garbage is looked for."""
        if self.binning.code_dtype.itemsize == 1:
            return None
        lean = self.with_used_thresholds()
        return lean if lean.binning.code_dtype.itemsize == 1 else None

    def with_used_thresholds(self) -> TreeEnsemble:
        """Return the same trees on a binning that has only the thresholds they use."""
        thresholds = self.binning.thresholds
        # Each feature has a place for each of its thresholds and two more, for code 0 and the largest code.
        n_places = np.array([len(t) + 2 for t in thresholds])
        first = np.cumsum(n_places) - n_places
        numeric = np.flatnonzero((self.feature >= 0) & (self.category_set < 0))
        place = first[self.feature[numeric]] + self.bin_threshold[numeric]
        is_used = np.zeros(n_places.sum(), dtype=bool)
        is_used[place] = True
        # A threshold of the largest code has all values to the left, and has that among fewer codes too.
        is_used[first] = False
        is_used[first + n_places - 1] = True
        rank = np.cumsum(is_used)
        rank -= np.repeat(rank[first], n_places)
        used = [t[flags[1:-1]] for t, flags in zip(thresholds, np.split(is_used, first[1:]), strict=True)]
        arrays = {name: getattr(self, name) for name in ENSEMBLE_DTYPES}
        arrays["bin_threshold"] = arrays["bin_threshold"].copy()
        arrays["bin_threshold"][numeric] = rank[place]
        return TreeEnsemble(self.binning.with_thresholds(used), **arrays)

    # -------------------------------------------------------------------------------------------------- prediction

    def predict_raw(self, X: np.ndarray, n_threads: int = 1, n_trees: int | None = None) -> np.ndarray:
        """Return the raw predictions: the baseline plus the values of the first `n_trees` trees (default: all).

        Parameters
        ----------
        X : float32 or float64 array of shape (n_rows, n_features)
            The rows, in any strides.
        n_threads : int
            How many threads there may be; no matter to the result.
        n_trees : int, optional
            How many trees to use.

        Returns
        -------
        float64 array of shape (n_rows, n_outputs)
        """
        return predict.predict_raw(self.compiled, X, self._enough_threads(X, n_threads), n_trees)

    def staged_raw(self, X: np.ndarray, n_threads: int = 1) -> Iterator[np.ndarray]:
        """Yield the raw predictions after each round: after every `n_outputs` trees of one value, or tree of many."""
        codes = self.lean.binning.codes(X, self._enough_threads(X, n_threads))
        raw = np.tile(self.baseline[:, None], (1, codes.shape[1]))
        n_nodes = len(self.value) * self.n_outputs // max(self.n_trees, 1)
        n_threads = enough_threads(codes.shape[1], n_nodes, 0, n_threads)
        for first in range(0, self.n_trees, self.trees_per_round):
            last = min(first + self.trees_per_round, self.n_trees)
            predict.add_to_raw(self.compiled, codes, raw, first, last, n_threads)
            yield raw.T.copy()

    def raw_of_codes(self, codes: np.ndarray, n_threads: int = 1) -> np.ndarray:
        """Return the raw predictions for codes of the binning, (n_features, n_rows): those of the rows, to the bit."""
        raw = np.tile(self.baseline[:, None], (1, codes.shape[1]))
        compiled = self.compiled
        if self.lean is not self:
            compiled = CompiledTrees(self.splits(), self.binning.table, self.binning.code_dtype.itemsize)
        predict.add_to_raw(compiled, codes, raw, 0, self.n_trees, n_threads)
        return raw.T.copy()

    def apply(self, X: np.ndarray, n_threads: int = 1) -> np.ndarray:
        """Return the leaf of each row in each tree, int32 of shape (n_rows, n_trees): node numbers inside the trees."""
        return predict.apply(self.compiled, X, self._enough_threads(X, n_threads))

    def _enough_threads(self, X: np.ndarray, n_threads: int) -> int:
        if n_threads == 1 or X.shape[0] == 1:
            return 1
        return enough_threads(X.shape[0], len(self.value), self.binning.n_features, n_threads)

    # -------------------------------------------------------------------------------------------------- inspection

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_output)

    @property
    def n_outputs(self) -> int:
        """Number of raw columns."""
        return len(self.baseline)

    @property
    def trees_per_round(self) -> int:
        """One for each raw column, or a single tree where trees have a value for each column."""
        return self.n_outputs if self.value.shape[1] == 1 else 1

    @property
    def n_leaves(self) -> np.ndarray:
        """Number of leaves of each tree."""
        return (np.diff(self.node_offsets) + 1) // 2

    @property
    def max_depth(self) -> np.ndarray:
        """Depth of each tree; 0 where the root is a leaf."""
        depth = np.zeros(self.n_trees, dtype=np.int64)
        tree = np.arange(self.n_trees)
        left = self.left_child[self.node_offsets[:-1]]
        while len(tree := tree[left > 0]):
            depth[tree] += 1
            children = self.node_offsets[tree] + left[left > 0]
            left = np.concatenate([self.left_child[children], self.left_child[children + 1]])
            tree = np.concatenate([tree, tree])
        return depth

    @property
    def children_left(self) -> np.ndarray:
        """Left children as scikit-learn has them: -1 at a leaf."""
        return np.where(self.left_child > 0, self.left_child, -1)

    @property
    def children_right(self) -> np.ndarray:
        """Right children as scikit-learn has them: -1 at a leaf."""
        return np.where(self.left_child > 0, self.left_child + 1, -1)

    @cached_property
    def threshold(self) -> np.ndarray:
        """The values behind ``bin_threshold``: numeric splits send ``x <= threshold`` to the left; NaN elsewhere."""
        thresholds = self.binning.thresholds
        n_thresholds = np.array([len(t) for t in thresholds], dtype=np.int64)
        first = np.cumsum(n_thresholds) - n_thresholds
        nodes = np.flatnonzero((self.feature >= 0) & (self.category_set < 0))
        feature, code = self.feature[nodes], self.bin_threshold[nodes]
        # No value has a code <= 0; all have one <= the number of thresholds + 1.
        value = np.where(code == 0, -np.inf, np.inf)
        inside = (code > 0) & (code <= n_thresholds[feature])
        value[inside] = np.concatenate(thresholds)[first[feature[inside]] + code[inside] - 1]
        out = np.full(len(self.feature), np.nan)
        out[nodes] = value
        out.flags.writeable = False
        return out

    def tree(self, index: int) -> Tree:
        """Return one tree; its arrays are views, its category sets count from the ensemble's first word."""
        nodes = slice(self.node_offsets[index], self.node_offsets[index + 1])
        arrays = {f.name: getattr(self, f.name)[nodes] for f in fields(Tree) if f.name != "category_words"}
        return Tree(category_words=self.category_words, **arrays)

    def separate_trees(self) -> list[Tree]:
        """Return all trees, each with its own category sets, as `from_trees` takes them."""
        trees = []
        for index in range(self.n_trees):
            tree = self.tree(index)
            nodes = np.flatnonzero(tree.category_set >= 0)
            n_words = (np.asarray(self.binning.n_codes, dtype=np.int64)[tree.feature[nodes]] + 31) // 32
            first = np.cumsum(n_words) - n_words
            places = np.arange(n_words.sum()) + np.repeat(tree.category_set[nodes] - first, n_words)
            category_set = np.full(tree.n_nodes, -1, dtype=np.int32)
            category_set[nodes] = first
            trees.append(replace(tree, category_set=category_set, category_words=self.category_words[places]))
        return trees

    def feature_importances(self, kind: str = "gain") -> np.ndarray:
        """Return the sum of the gains ("gain") or the number of the splits ("split") on each feature."""
        if kind not in ("gain", "split"):
            raise ValueError(f"kind must be 'gain' or 'split', got {kind!r}")
        inner = self.feature >= 0
        weights = self.gain[inner] if kind == "gain" else None
        counts = np.bincount(self.feature[inner], weights, minlength=self.binning.n_features)
        return counts.astype(np.float64)


def _put_words_in_order(arrays: dict[str, np.ndarray], binning: Binning) -> None:
    """Put the category sets that nodes have one after another, in the order of the nodes."""
    nodes = np.flatnonzero(arrays["category_set"] >= 0)
    n_words = ((np.asarray(binning.n_codes, dtype=np.int64) + 31) // 32)[arrays["feature"][nodes]]
    first = np.cumsum(n_words) - n_words
    if len(arrays["category_words"]) > n_words.sum() or not np.array_equal(first, arrays["category_set"][nodes]):
        places = np.arange(n_words.sum()) + np.repeat(arrays["category_set"][nodes] - first, n_words)
        arrays["category_words"] = arrays["category_words"][places]
        arrays["category_set"][nodes] = first


def renumbered(feature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns that nodes split on, at least one, and the nodes' features counted among these."""
    columns = np.unique(feature[feature >= 0])
    columns = (columns if len(columns) else np.zeros(1)).astype(np.int32)
    return columns, np.where(feature < 0, -1, np.searchsorted(columns, feature)).astype(np.int32)


def enough_threads(n_rows: int, n_nodes: int, n_features: int, n_threads: int) -> int:
    """Return how many threads are worth it."""
    # Nanoseconds: about 0.02 for a row and node, 1 for a value to be binned. A thread should have 20 000 of them.
    return threads_for(n_rows * (0.02 * n_nodes + n_features), n_threads, 20_000)
