"""Storage of grown trees, and transfer of trees to another binning."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import Binning
from fastens.engine.trees.packing import KINDS, Arrays, pack
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, Tree, TreeEnsemble

if TYPE_CHECKING:
    from fastens.engine.trees.trees import TreeEnsemble


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
    >>> from fastens.engine.forest.forests import ForestGrower, TreeRules, TreeSample, class_target
    >>> from fastens.engine.trees.tree_store import TreeStore
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> binning = learn_binning(X)
    >>> grower = ForestGrower(binning.transform(X), class_target([0, 0, 1, 1], [2]), TreeRules())
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
        """Add a tree; it becomes part of the ensemble when all trees with lower numbers have been added."""
        with self._lock:
            self._early[number] = tree
            while self.n_trees in self._early:
                tree = self._early.pop(self.n_trees)
                self._waiting.append(tree)
                self._n_waiting += tree.n_nodes
                self.n_trees += 1
            if self._n_waiting >= _WAITING_NODES:
                self._pack()

    def keep(self, ensemble: TreeEnsemble) -> None:
        """Add the trees of an existing ensemble that was grown on the same binning."""
        self.n_trees += ensemble.n_trees
        packed = ensemble.packed()
        self._append(pack(ensemble.with_sets_in_order()) if len(packed["category_set"]) else packed)

    def ensemble(self) -> TreeEnsemble:
        """Return an ensemble of the trees before the first missing number, and empty the store."""
        if not self._runs:
            return self._of_waiting()
        if self._waiting:
            self._pack()
        runs, self._runs = self._runs, []
        first, *others = [TreeEnsemble.from_packed(run.packed(), self._binning) for run in runs]
        if not others:
            return first
        trees = [part.tree(t) for part in (first, *others) for t in range(part.n_trees)]
        return TreeEnsemble.from_trees(trees, np.zeros(len(trees), np.int32), first.baseline, self._binning)

    def _of_waiting(self) -> TreeEnsemble:
        trees, self._waiting, self._n_waiting = self._waiting, [], 0
        return TreeEnsemble.from_trees(trees, np.zeros(len(trees), np.int32), self._baseline, self._binning)

    def _pack(self) -> None:
        self._append(pack(self._of_waiting()))

    def _append(self, part: Arrays) -> None:
        if not self._runs or self._runs[-1].form != _form(part):
            self._runs.append(_Run(part))
        self._runs[-1].append(part, max(1.0, self._n_expected / max(self.n_trees, 1)))


class _Run:
    """Packed trees whose arrays have the same layout, so that they can be concatenated."""

    def __init__(self, first: Arrays) -> None:
        self.form = _form(first)
        self._once = {name: first[name] for name in _ONCE}
        self._sizes: list[np.ndarray] = []
        self._columns = {name: _Column() for name in KINDS if name not in _ONCE}

    def append(self, part: Arrays, growth: float) -> None:
        """Append packed trees; `growth` is the expected final number of trees relative to the current one."""
        self._sizes.append(np.diff(part["node_offsets"]))
        for name, column in self._columns.items():
            bits_of = _BITS.get(name)
            array = part[name] if bits_of is None else np.unpackbits(part[name], count=len(part[bits_of]))
            column.append(array, growth)

    def packed(self) -> Arrays:
        """Return the packed arrays of all trees."""
        arrays = self._once | {name: column.array() for name, column in self._columns.items()}
        arrays["node_offsets"] = np.cumsum(np.concatenate([[0], *self._sizes]), dtype=np.int64)
        arrays |= {name: np.packbits(arrays[name]) for name in _BITS}
        return {name: arrays[name] for name in KINDS}


class _Column:
    """A growable array that is promoted to a wider dtype when necessary."""

    def __init__(self) -> None:
        self._array = np.empty(0)
        self._n = 0

    def append(self, part: np.ndarray, growth: float) -> None:
        dtype = part.dtype if self._n == 0 else np.promote_types(self._array.dtype, part.dtype)
        n = self._n + len(part)
        if n > len(self._array) or dtype != self._array.dtype or self._n == 0:
            held = self._array[: self._n].reshape(self._n, *part.shape[1:])
            self._array = np.empty((int(n * growth * _SLACK), *part.shape[1:]), dtype)
            self._array[: self._n] = held
        self._array[self._n : n] = part
        self._n = n

    def array(self) -> np.ndarray:
        """Return the values that have been appended."""
        return self._array[: self._n]


def _form(part: Arrays) -> tuple[Any, ...]:
    """Return the layout of counts and weights: stored for all nodes, for leaves only, or not at all."""
    n_nodes = len(part["value"])
    given = (len(part["n_samples"]) == n_nodes, len(part["weight"]) == n_nodes, len(part["weight"]) == 0)
    return (*given, part["weight"].dtype.kind, part["wide"].tobytes())


def set_of(codes: NDArray[np.integer[Any]], n_codes: int | None = None) -> NDArray[np.uint32]:
    """Return a set of codes as a bit mask of 32-bit words, sized for `n_codes` codes or for the largest code.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.trees.tree_store import set_of
    >>> set_of(np.array([1, 4, 33]))
    array([18,  2], dtype=uint32)
    """
    n = int(codes.max(initial=0)) + 1 if n_codes is None else n_codes
    words = np.zeros((n + 31) // 32, dtype=np.uint32)
    np.bitwise_or.at(words, codes >> 5, np.uint32(1) << (codes & 31).astype(np.uint32))
    return words


def codes_left(trees: TreeEnsemble, node: int, codes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Return which codes of a node's feature go to the left child."""
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
        nodes, own = numeric[trees.feature[numeric] == feature], binning.thresholds[feature]
        # A threshold at the largest code sends all values to the left; a threshold at code 0 sends none.
        code = np.searchsorted(own, trees.threshold[nodes]) + 1
        arrays["bin_threshold"][nodes] = np.where(trees.bin_threshold[nodes] == 0, 0, code)
    nodes = np.flatnonzero(inner & (trees.category_set >= 0))
    sets = [_set(trees, node, binning, old_codes[int(trees.feature[node])]) for node in nodes.tolist()]
    arrays["category_set"] = np.full(len(trees.feature), -1, dtype=np.int32)
    arrays["category_set"][nodes] = np.cumsum([0, *map(len, sets)])[:-1]
    arrays["category_words"] = np.concatenate([np.zeros(0, np.uint32), *sets])
    return TreeEnsemble(binning, **arrays)


def _set(trees: TreeEnsemble, node: int, binning: Binning, old: Codes) -> NDArray[np.uint32]:
    left = np.flatnonzero(codes_left(trees, node, old))
    return set_of(left, int(binning.n_codes[trees.feature[node]]))
