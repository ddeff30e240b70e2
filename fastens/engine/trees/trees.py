"""Trees, ensembles of trees and their arrays, the storage of grown trees, and transfer to another binning."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import Binning
from fastens.engine.limits import check_count
from fastens.engine.predict import predict
from fastens.engine.predict.compile import CompiledTrees
from fastens.engine.threads import cached_property, threads_for
from fastens.engine.trees.packing import KINDS, Arrays, check_structure, pack, read_binning, unpack, unpack_splits
from fastens.engine.trees.unseen import send_unseen


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree as arrays with one entry per node; node 0 is the root, and parents precede their children.

    Attributes
    ----------
    feature : int32 array
        Feature that the node splits on; -1 for leaves.
    bin_threshold : uint16 array
        Numeric splits send codes ``1 <= code <= bin_threshold`` to the left child.
    missing_left : uint8 array
        True if a numeric split sends code 0 (missing values) to the left child. For categorical splits, True if
        no training row of the node had code 0, so that its direction is still undecided; see unseen.pyx.
    category_set : int32 array
        Index of the first word in ``category_words`` of the codes that go left, which may include code 0; -1 if the
        node does not split on categories.
    category_words : uint32 array
        Bit masks of ``ceil(n_codes[feature] / 32)`` words each; bit c of a mask stands for code c.
    left_child : int32 array
        Index of the left child; 0 for leaves. The right child is the next node.
    value : float64 or float32 array of shape (n_nodes, n_values)
        Contribution of a leaf to the raw prediction: to one column if ``n_values`` is 1, otherwise to every column.
        Inner nodes hold the values that they would have as leaves.
    gain : float64 or float32 array
        Decrease of the objective by the split; 0 for leaves.
    n_samples : int64 or int32 array
        Number of training rows in the node.
    weight : float64 or float32 array
        Sum of the hessians of the training rows in the node.
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
        """Number of nodes, including leaves."""
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return (self.n_nodes + 1) // 2


@dataclass(frozen=True, eq=False)
class MeasuredTree(Tree):
    """A regression tree with the sum of squared errors of each leaf.

    Attributes
    ----------
    squares : float64 array of shape (n_nodes, n_targets)
        Weighted sum of squared differences between the targets and their mean over the rows of a leaf; 0 for inner
        nodes.
    """

    squares: np.ndarray


@dataclass(frozen=True, eq=False)
class SearchedTree(Tree):
    """A tree with the number of candidates that each split was chosen from.

    Attributes
    ----------
    n_usable : int32 array of shape (n_nodes,)
        Number of features that the node could split on, that is, allowed features that were not known to be constant
        in the parent node; 0 for leaves.
    n_groups : int32 array of shape (n_nodes,)
        Number of distinct values (bins or categories, including missing values) of the split feature among the node's
        rows; 0 for leaves. Not available for random thresholds.
    """

    n_usable: np.ndarray
    n_groups: np.ndarray


class NodeArray(NamedTuple):
    """An array of trees with an entry per node."""

    dtypes: tuple[type[np.generic], ...]  # permitted dtypes; arrays of any other dtype are converted to the first one
    leaf: float | None = None  # value of nodes that become leaves when a tree is pruned; if None, it is kept
    default: float | None = None  # value in ensembles that are created without the array, such as imported ones


NODE_ARRAYS = {
    "feature": NodeArray((np.int32,), leaf=-1),
    "bin_threshold": NodeArray((np.uint16,), leaf=0),
    "missing_left": NodeArray((np.uint8,), leaf=0),
    "category_set": NodeArray((np.int32,), leaf=-1),
    "category_words": NodeArray((np.uint32,)),
    "left_child": NodeArray((np.int32,), leaf=0),
    "value": NodeArray((np.float64, np.float32)),
    "gain": NodeArray((np.float64, np.float32), leaf=0, default=0),
    "n_samples": NodeArray((np.int64, np.int32)),
    "weight": NodeArray((np.float64, np.float32)),
}
TREE_DTYPES = {name: array.dtypes for name, array in NODE_ARRAYS.items()}
ENSEMBLE_DTYPES: dict[str, tuple[type[np.generic], ...]] = {
    **TREE_DTYPES,
    "node_offsets": (np.int64,),
    "tree_output": (np.int32,),
    "baseline": (np.float64,),
}
N_DIMENSIONS = dict.fromkeys(ENSEMBLE_DTYPES, 1) | {"value": 2}
BINNING_PREFIX = "binning."


def _default_array(name: str, n_nodes: int) -> np.ndarray:
    """Return an array of n_nodes defaults for the array `name`; raise KeyError if it has no default."""
    array = NODE_ARRAYS[name]
    if array.default is None:
        raise KeyError(name)
    return np.full(n_nodes, array.default, array.dtypes[0])


class TreeEnsemble:
    """Concatenated trees in plain read-only arrays, with the binning they were grown on.

    The arrays are the concatenated arrays of `Tree` and the three below. Everything that can be computed from them
    (thresholds, the compiled form for prediction) is created on first use and is not part of the state. An ensemble
    from `from_packed` keeps only the packed form, a third of the size, until one of the arrays is accessed.

    Attributes
    ----------
    node_offsets : int64 array of shape (n_trees + 1,)
        Tree t owns the nodes ``node_offsets[t]:node_offsets[t + 1]``. Indices in ``left_child`` are relative to the
        tree; indices in ``category_set`` are relative to the first word of the ensemble.
    tree_output : int32 array of shape (n_trees,)
        Raw prediction column that the tree adds to; 0 for trees with a value for each column.
    baseline : float64 array of shape (n_outputs,)
        The raw prediction before the first tree.
    binning : Binning
        Binning that converts values to the bin codes that the trees split on.
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
        advice = "Grow fewer or smaller trees, or lower max_bins."
        check_count("The trees", "words for the category sets of splits", len(arrays["category_words"]), advice=advice)
        self.binning = binning
        for name, dtypes in ENSEMBLE_DTYPES.items():
            values = np.asarray(arrays[name] if name in arrays else _default_array(name, len(arrays["value"])))
            array = np.ascontiguousarray(values, dtype=values.dtype if values.dtype in dtypes else dtypes[0]).view()
            array.flags.writeable = False
            setattr(self, name, array)

    @classmethod
    def from_packed(cls, packed: Mapping[str, np.ndarray], binning: Binning) -> TreeEnsemble:
        """Create an ensemble from the packed form of trees (see packing.py) without validating it."""
        ensemble = cls.__new__(cls)
        ensemble.binning, ensemble._packed = binning, dict(packed)
        for name in ("value", "tree_output", "baseline", "node_offsets", "category_words"):
            array = packed[name].view()
            array.flags.writeable = False
            setattr(ensemble, name, array)
        return ensemble

    def __getattr__(self, name: str) -> Any:
        """Unpack all arrays and return one of them. Two threads may both do this at the same time."""
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
        """Concatenate trees in the order in which their values are summed.

        Parameters
        ----------
        trees : sequence of Tree
            The trees.
        tree_output : sequence of int
            Raw prediction column of each tree.
        baseline : sequence of float
            Raw prediction before the first tree, one value per column.
        binning : Binning
            Binning that converts values to the bin codes that the trees split on.
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
        _make_sets_contiguous(arrays, binning)
        arrays["node_offsets"] = np.cumsum([0, *n_nodes])
        return cls(binning, tree_output=np.asarray(tree_output), baseline=np.asarray(baseline), **arrays)

    # ------------------------------------------------------------------------------------------------------- state

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the packed trees and the binning as arrays by name; names of binning arrays have a prefix."""
        binning = {BINNING_PREFIX + name: array for name, array in self.binning.to_arrays().items()}
        return self.packed() | binning

    def packed(self) -> dict[str, np.ndarray]:
        """Return the packed arrays of the trees by name, as `pack` in packing.py describes them."""
        return pack(self) if self._packed is None else dict(self._packed)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> TreeEnsemble:
        """Create an ensemble from the output of `to_arrays`.

        Raises
        ------
        ValueError
            If the arrays do not describe a valid ensemble. Prediction is safe for all arrays that pass.
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
        """Return these trees with other node values, shape (n_nodes, n_values)."""
        if self._packed is not None:
            return TreeEnsemble.from_packed(self._packed | {"value": value}, self.binning)
        return self._replace_arrays(value=value)

    def with_unseen_on_average(self) -> TreeEnsemble:
        """Return these trees with unseen categories routed so that they get the average of both sides; see unseen.pyx.

        In the trees as grown, `missing_left` marks the categorical splits whose node had no missing values in training;
        these splits are changed.
        """
        splits = self.splits()
        if not ((splits.category_set >= 0) & (splits.missing_left > 0)).any():
            return self
        words, mean = self.category_words.copy(), self.value.astype(np.float64)
        send_unseen(
            self.node_offsets, self.left_child, self.feature, self.category_set, self.missing_left,
            self.weight.astype(np.float64), mean, self.tree_output, self.binning.n_features, self.n_outputs, words,
        )  # fmt: skip
        return self._replace_arrays(
            category_words=words, missing_left=np.where(self.category_set < 0, self.missing_left, 0)
        )

    def _replace_arrays(self, **arrays: np.ndarray) -> TreeEnsemble:
        """Return these trees with some arrays replaced; arguments are named as in `ENSEMBLE_DTYPES`."""
        return TreeEnsemble(self.binning, **{name: getattr(self, name) for name in ENSEMBLE_DTYPES} | arrays)

    def with_sets_in_order(self) -> TreeEnsemble:
        """Return these trees with the category sets stored contiguously in node order."""
        arrays = {name: getattr(self, name) for name in ENSEMBLE_DTYPES}
        arrays["category_set"] = arrays["category_set"].copy()
        _make_sets_contiguous(arrays, self.binning)
        return TreeEnsemble(self.binning, **arrays)

    def splits(self) -> Any:
        """Return an object with the arrays needed to route rows, without unpacking all arrays of packed trees."""
        packed = self._packed
        return self if packed is None else SimpleNamespace(**unpack_splits(packed, self.binning))

    @cached_property
    def notes(self) -> dict[str, Any]:
        """Cache for values that other modules derive from the trees; not part of the state."""
        return {}

    @cached_property
    def compiled(self) -> CompiledTrees:
        """The form used for prediction. Two threads may both create it at the same time, which is harmless."""
        lean = self.lean
        return CompiledTrees(lean.splits(), lean.binning.table, lean.binning.code_dtype.itemsize)

    def forget(self) -> None:
        """Drop the compiled form, leaner trees and notes, which are larger than the trees and recreated on demand."""
        for name in ("compiled", "_leaner", "notes"):
            self.__dict__.pop(name, None)

    @property
    def lean(self) -> TreeEnsemble:
        """Ensemble with only the thresholds that its trees use, or the same ensemble if bin codes keep their size.

        Fewer thresholds may reduce bin codes from two bytes to one. One-byte codes allow leaf scans, which are
        much faster than walking the trees.
        """
        return self._leaner or self

    @cached_property
    def _leaner(self) -> TreeEnsemble | None:
        """Equivalent trees with one-byte codes; None if codes already have one byte, or too many thresholds are in use.

        The value is never `self`: the reference cycle would delay freeing memory until a GC run.
        """
        if self.binning.code_dtype.itemsize == 1:
            return None
        lean = self.with_used_thresholds()
        return lean if lean.binning.code_dtype.itemsize == 1 else None

    def with_used_thresholds(self) -> TreeEnsemble:
        """Return these trees on a binning that contains only the thresholds they use."""
        thresholds = self.binning.thresholds
        # Each feature has a slot for each of its thresholds and two more, for code 0 and the largest code.
        n_slots = np.array([len(t) + 2 for t in thresholds])
        first = np.cumsum(n_slots) - n_slots
        numeric = np.flatnonzero((self.feature >= 0) & (self.category_set < 0))
        slots = first[self.feature[numeric]] + self.bin_threshold[numeric]
        is_used = np.zeros(n_slots.sum(), dtype=bool)
        is_used[slots] = True
        # A threshold at the largest code sends all values to the left, also if there are fewer codes.
        is_used[first] = False
        is_used[first + n_slots - 1] = True
        rank = np.cumsum(is_used)
        rank -= np.repeat(rank[first], n_slots)
        used = [t[flags[1:-1]] for t, flags in zip(thresholds, np.split(is_used, first[1:]), strict=True)]
        arrays = {name: getattr(self, name) for name in ENSEMBLE_DTYPES}
        arrays["bin_threshold"] = arrays["bin_threshold"].copy()
        arrays["bin_threshold"][numeric] = rank[slots]
        return TreeEnsemble(self.binning.with_thresholds(used), **arrays)

    # -------------------------------------------------------------------------------------------------- prediction

    def predict_raw(self, X: np.ndarray, n_threads: int = 1, n_trees: int | None = None) -> np.ndarray:
        """Return the raw predictions: the baseline plus the values of the first `n_trees` trees.

        Parameters
        ----------
        X : float32 or float64 array, or CSR matrix without duplicates, of shape (n_rows, n_features)
            The rows. Any strides are supported.
        n_threads : int
            Maximum number of threads. The result does not depend on it.
        n_trees : int, optional
            Number of trees to use. By default, all trees are used.

        Returns
        -------
        float64 array of shape (n_rows, n_outputs)
        """
        return predict.predict_raw(self.compiled, X, self._enough_threads(X, n_threads), n_trees)

    def staged_raw(self, X: np.ndarray, n_threads: int = 1) -> Iterator[np.ndarray]:
        """Yield the raw predictions after each boosting round, that is, after every `trees_per_round` trees."""
        codes = self.lean.binning.codes(X, self._enough_threads(X, n_threads))
        raw = np.tile(self.baseline[:, None], (1, codes.shape[1]))
        n_nodes = len(self.value) * self.n_outputs // max(self.n_trees, 1)
        n_threads = enough_threads(codes.shape[1], n_nodes, 0, n_threads)
        for first in range(0, self.n_trees, self.trees_per_round):
            last = min(first + self.trees_per_round, self.n_trees)
            predict.add_to_raw(self.compiled, codes, raw, first, last, n_threads)
            yield raw.T.copy()

    def raw_of_codes(self, codes: np.ndarray, n_threads: int = 1) -> np.ndarray:
        """Return raw predictions (n_rows, n_outputs) from bin codes (n_features, n_rows) of the ensemble's binning."""
        raw = np.tile(self.baseline[:, None], (1, codes.shape[1]))
        compiled = self.compiled
        if self.lean is not self:
            compiled = CompiledTrees(self.splits(), self.binning.table, self.binning.code_dtype.itemsize)
        predict.add_to_raw(compiled, codes, raw, 0, self.n_trees, n_threads)
        return raw.T.copy()

    def apply(self, X: np.ndarray, n_threads: int = 1) -> np.ndarray:
        """Return the leaf index of each row in each tree, int32 of shape (n_rows, n_trees), relative to the tree."""
        return predict.apply(self.compiled, X, self._enough_threads(X, n_threads))

    def _enough_threads(self, X: np.ndarray, n_threads: int) -> int:
        """Return the number of threads, at most `n_threads`, that is worthwhile for predicting the rows of X."""
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
        """Number of raw prediction columns."""
        return len(self.baseline)

    @property
    def trees_per_round(self) -> int:
        """Trees per boosting round: one if trees have a value for each raw column, otherwise one for each column."""
        return self.n_outputs if self.value.shape[1] == 1 else 1

    @property
    def n_leaves(self) -> np.ndarray:
        """Number of leaves of each tree."""
        return (np.diff(self.node_offsets) + 1) // 2

    @property
    def max_depth(self) -> np.ndarray:
        """Depth of each tree; 0 if the root is a leaf."""
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
        """Left children in scikit-learn's convention: -1 for leaves."""
        return np.where(self.left_child > 0, self.left_child, -1)

    @property
    def children_right(self) -> np.ndarray:
        """Right children in scikit-learn's convention: -1 for leaves."""
        return np.where(self.left_child > 0, self.left_child + 1, -1)

    @cached_property
    def threshold(self) -> np.ndarray:
        """Split values: numeric splits send ``x <= threshold`` to the left; NaN for leaves and categorical splits."""
        thresholds = self.binning.thresholds
        n_thresholds = np.array([len(t) for t in thresholds], dtype=np.int64)
        first = np.cumsum(n_thresholds) - n_thresholds
        nodes = np.flatnonzero((self.feature >= 0) & (self.category_set < 0))
        feature, code = self.feature[nodes], self.bin_threshold[nodes]
        # Codes of values are at least 1 and at most the number of thresholds + 1.
        value = np.where(code == 0, -np.inf, np.inf)
        inside = (code > 0) & (code <= n_thresholds[feature])
        value[inside] = np.concatenate(thresholds)[first[feature[inside]] + code[inside] - 1]
        out = np.full(len(self.feature), np.nan)
        out[nodes] = value
        out.flags.writeable = False
        return out

    def tree(self, index: int) -> Tree:
        """Return one tree; its arrays are views, and its category sets index the words of the ensemble."""
        nodes = slice(self.node_offsets[index], self.node_offsets[index + 1])
        arrays = {f.name: getattr(self, f.name)[nodes] for f in fields(Tree) if f.name != "category_words"}
        return Tree(category_words=self.category_words, **arrays)

    def separate_trees(self) -> list[Tree]:
        """Return all trees, each with its own category words, in the format that `from_trees` expects."""
        trees = []
        for index in range(self.n_trees):
            tree = self.tree(index)
            nodes = np.flatnonzero(tree.category_set >= 0)
            n_words = (np.asarray(self.binning.n_codes, dtype=np.int64)[tree.feature[nodes]] + 31) // 32
            first = np.cumsum(n_words) - n_words
            word_indices = np.arange(n_words.sum()) + np.repeat(tree.category_set[nodes] - first, n_words)
            category_set = np.full(tree.n_nodes, -1, dtype=np.int32)
            category_set[nodes] = first
            trees.append(replace(tree, category_set=category_set, category_words=self.category_words[word_indices]))
        return trees

    def feature_importances(self, kind: str = "gain") -> np.ndarray:
        """Return the total gain ("gain") or the number of splits ("split") of each feature."""
        if kind not in ("gain", "split"):
            raise ValueError(f"kind must be 'gain' or 'split'; got {kind!r}.")
        inner = self.feature >= 0
        weights = self.gain[inner] if kind == "gain" else None
        counts = np.bincount(self.feature[inner], weights, minlength=self.binning.n_features)
        return counts.astype(np.float64)


def _make_sets_contiguous(arrays: dict[str, np.ndarray], binning: Binning) -> None:
    """Store the nodes' category sets contiguously in node order, by updating `arrays` in place."""
    nodes = np.flatnonzero(arrays["category_set"] >= 0)
    n_words = ((np.asarray(binning.n_codes, dtype=np.int64) + 31) // 32)[arrays["feature"][nodes]]
    first = np.cumsum(n_words) - n_words
    if len(arrays["category_words"]) > n_words.sum() or not np.array_equal(first, arrays["category_set"][nodes]):
        word_indices = np.arange(n_words.sum()) + np.repeat(arrays["category_set"][nodes] - first, n_words)
        arrays["category_words"] = arrays["category_words"][word_indices]
        arrays["category_set"][nodes] = first


def renumbered(feature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted columns that nodes split on, at least one, and the features reindexed to these columns."""
    columns = np.unique(feature[feature >= 0])
    columns = (columns if len(columns) else np.zeros(1)).astype(np.int32)
    return columns, np.where(feature < 0, -1, np.searchsorted(columns, feature)).astype(np.int32)


def enough_threads(n_rows: int, n_nodes: int, n_features: int, n_threads: int) -> int:
    """Return how many threads, at most `n_threads`, are worthwhile to bin rows and route them through the nodes."""
    # Estimated nanoseconds: 0.02 per row and node, and 1 per value to bin. Each thread should have at least 20,000.
    return threads_for(n_rows * (0.02 * n_nodes + n_features), n_threads, 20_000)


# Number of nodes of trees that wait to be packed, about 1 MB.
_WAITING_NODES = 1 << 15
# Overallocation of the growing arrays relative to the expected size. Untouched pages do not use physical memory.
_SLACK = 1.1
# Arrays that are stored once for the whole ensemble rather than concatenated.
_ONCE = ("node_offsets", "baseline", "wide")
# Bit arrays that stay unpacked until all trees are added, each with the array that has the same length.
_BITS = {"is_leaf": "value", "missing_left": "pair"}


class TreeStore:
    """Collects numbered trees from several threads and builds an ensemble from them.

    Parameters
    ----------
    binning : Binning
        Binning of the trees.
    n_outputs : int
        Number of raw prediction columns; every tree adds to all of them.
    n_expected : int
        Expected number of trees. It only affects memory allocation.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, class_target
    >>> from fastens.engine.trees.trees import TreeStore
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> binning = learn_binning(X)
    >>> grower = ForestGrower(binning.transform(X), class_target([0, 0, 1, 1], [2]), ForestParameters())
    >>> store = TreeStore(binning, 1, n_expected=3)
    >>> grower.grow_into(store.add, [TreeSample(None, None, seed) for seed in range(3)])
    >>> store.ensemble().n_trees
    3
    """

    def __init__(self, binning: Binning, n_outputs: int, n_expected: int) -> None:
        self._binning, self._baseline, self._n_expected = binning, np.zeros(n_outputs), n_expected
        self._lock = threading.Lock()
        self._early: dict[int, Tree] = {}
        self._waiting: list[Tree] = []
        self._n_waiting = 0
        self._runs: list[_Run] = []
        self.n_trees = 0

    def add(self, number: int, tree: Tree) -> None:
        """Add tree `number`; it joins the ensemble when all trees with lower numbers have been added. Thread-safe."""
        with self._lock:
            self._early[number] = tree
            while self.n_trees in self._early:
                tree = self._early.pop(self.n_trees)
                self._waiting.append(tree)
                self._n_waiting += tree.n_nodes
                self.n_trees += 1
            if self._n_waiting >= _WAITING_NODES:
                self._pack_waiting()

    def keep(self, ensemble: TreeEnsemble) -> None:
        """Append the trees of an existing ensemble that was grown on the same binning."""
        self.n_trees += ensemble.n_trees
        packed = ensemble.packed()
        self._append_packed(pack(ensemble.with_sets_in_order()) if len(packed["category_set"]) else packed)

    def ensemble(self) -> TreeEnsemble:
        """Return an ensemble of the trees before the first missing number, and empty the store."""
        if not self._runs:
            return self._pop_waiting()
        if self._waiting:
            self._pack_waiting()
        runs, self._runs = self._runs, []
        first, *others = [TreeEnsemble.from_packed(run.packed(), self._binning) for run in runs]
        if not others:
            return first
        trees = [part.tree(t) for part in (first, *others) for t in range(part.n_trees)]
        return TreeEnsemble.from_trees(trees, np.zeros(len(trees), np.int32), first.baseline, self._binning)

    def _pop_waiting(self) -> TreeEnsemble:
        """Return an ensemble of the trees that wait to be packed, and clear the list."""
        trees, self._waiting, self._n_waiting = self._waiting, [], 0
        return TreeEnsemble.from_trees(trees, np.zeros(len(trees), np.int32), self._baseline, self._binning)

    def _pack_waiting(self) -> None:
        """Pack the waiting trees and append them to the packed runs."""
        self._append_packed(pack(self._pop_waiting()))

    def _append_packed(self, part: Arrays) -> None:
        """Append packed trees to the last run, or to a new run if their arrays have another layout."""
        if not self._runs or self._runs[-1].layout != _layout(part):
            self._runs.append(_Run(part))
        self._runs[-1].append(part, max(1.0, self._n_expected / max(self.n_trees, 1)))


class _Run:
    """Packed trees whose arrays have the same layout, so that they can be concatenated."""

    def __init__(self, first: Arrays) -> None:
        self.layout = _layout(first)
        self._once = {name: first[name] for name in _ONCE}
        self._sizes: list[np.ndarray] = []
        self._columns = {name: _GrowableArray() for name in KINDS if name not in _ONCE}

    def append(self, part: Arrays, growth: float) -> None:
        """Append packed trees; `growth` is the expected final number of trees divided by the current number."""
        self._sizes.append(np.diff(part["node_offsets"]))
        for name, column in self._columns.items():
            bits_of = _BITS.get(name)
            array = part[name] if bits_of is None else np.unpackbits(part[name], count=len(part[bits_of]))
            column.append(array, growth)

    def packed(self) -> Arrays:
        """Return the packed arrays of all trees of the run, by name."""
        arrays = self._once | {name: column.array() for name, column in self._columns.items()}
        arrays["node_offsets"] = np.cumsum(np.concatenate([[0], *self._sizes]), dtype=np.int64)
        arrays |= {name: np.packbits(arrays[name]) for name in _BITS}
        return {name: arrays[name] for name in KINDS}


class _GrowableArray:
    """A growable array that is promoted to a wider dtype when necessary."""

    def __init__(self) -> None:
        self._array = np.empty(0)
        self._n = 0

    def append(self, part: np.ndarray, growth: float) -> None:
        """Append elements, allocating room for `growth` times as many elements if the array is full."""
        dtype = part.dtype if self._n == 0 else np.promote_types(self._array.dtype, part.dtype)
        n = self._n + len(part)
        if n > len(self._array) or dtype != self._array.dtype or self._n == 0:
            old = self._array[: self._n].reshape(self._n, *part.shape[1:])
            self._array = np.empty((int(n * growth * _SLACK), *part.shape[1:]), dtype)
            self._array[: self._n] = old
        self._array[self._n : n] = part
        self._n = n

    def array(self) -> np.ndarray:
        """Return the values that have been appended."""
        return self._array[: self._n]


def _layout(part: Arrays) -> tuple[Any, ...]:
    """Return a key of how counts and weights are stored: for all nodes, leaves or not at all, and with which dtype."""
    n_nodes = len(part["value"])
    stored = (len(part["n_samples"]) == n_nodes, len(part["weight"]) == n_nodes, len(part["weight"]) == 0)
    return (*stored, part["weight"].dtype.kind, part["wide"].tobytes())


def set_of(codes: NDArray[np.integer[Any]], n_codes: int | None = None) -> NDArray[np.uint32]:
    """Return a set of codes as a bit mask of 32-bit words, sized for `n_codes` codes or for the largest code.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.trees.trees import set_of
    >>> set_of(np.array([1, 4, 33]))
    array([18,  2], dtype=uint32)
    """
    n = int(codes.max(initial=0)) + 1 if n_codes is None else n_codes
    words = np.zeros((n + 31) // 32, dtype=np.uint32)
    np.bitwise_or.at(words, codes >> 5, np.uint32(1) << (codes & 31).astype(np.uint32))
    return words


def codes_left(trees: TreeEnsemble, node: int, codes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Return a mask of the codes, among `codes` of a node's feature, that go to the node's left child."""
    first = trees.category_set[node]
    if first < 0:
        return np.where(codes == 0, trees.missing_left[node] > 0, codes <= trees.bin_threshold[node])
    return (trees.category_words[first + (codes >> 5)] >> (codes & 31).astype(np.uint32)) & 1 > 0


Codes = NDArray[np.intp]


def recoded(trees: TreeEnsemble, binning: Binning, old_codes: Mapping[int, Codes]) -> TreeEnsemble:
    """Return trees that route every value as before, but split on the codes of another binning.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees. Linear models in their leaves are dropped.
    binning : Binning
        The new binning, which must contain all thresholds that the trees use.
    old_codes : mapping of int to integer array
        For each categorical feature, the old code of each new code.
    """
    arrays = {name: getattr(trees, name) for name in ENSEMBLE_DTYPES}
    arrays["bin_threshold"] = arrays["bin_threshold"].copy()
    inner = trees.feature >= 0
    numeric = np.flatnonzero(inner & (trees.category_set < 0))
    for feature in np.unique(trees.feature[numeric]).tolist():
        nodes, thresholds = numeric[trees.feature[numeric] == feature], binning.thresholds[feature]
        # A threshold at the largest code sends all values to the left; a threshold at code 0 sends none.
        code = np.searchsorted(thresholds, trees.threshold[nodes]) + 1
        arrays["bin_threshold"][nodes] = np.where(trees.bin_threshold[nodes] == 0, 0, code)
    nodes = np.flatnonzero(inner & (trees.category_set >= 0))
    sets = [_recode_set(trees, node, binning, old_codes[int(trees.feature[node])]) for node in nodes.tolist()]
    arrays["category_set"] = np.full(len(trees.feature), -1, dtype=np.int32)
    arrays["category_set"][nodes] = np.cumsum([0, *map(len, sets)])[:-1]
    arrays["category_words"] = np.concatenate([np.zeros(0, np.uint32), *sets])
    return TreeEnsemble(binning, **arrays)


def _recode_set(trees: TreeEnsemble, node: int, binning: Binning, old: Codes) -> NDArray[np.uint32]:
    """Return the bit mask of the new codes that go left at a categorical split; `old` maps new to old codes."""
    left = np.flatnonzero(codes_left(trees, node, old))
    return set_of(left, int(binning.n_codes[trees.feature[node]]))
