"""The trees of an ensemble in few bytes, for files and pickles, and back.

What follows from the rest is left out: leaves have no splits, children stand in pairs, a parent has the rows of its
children. Whole numbers take the smallest type that holds them. Everything comes back to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from fastens.engine.binning import Binning
from fastens.engine.structure import check_binning_fits, check_children, require

Arrays = dict[str, np.ndarray]
KINDS = {
    "node_offsets": "i",
    "tree_output": "i",
    "baseline": "f",
    "is_leaf": "u",
    "pair": "u",
    "feature": "u",
    "bin_threshold": "u",
    "missing_left": "u",
    "category_set": "i",
    "category_words": "u",
    "value": "f",
    "gain": "f",
    "n_samples": "u",
    "weight": "uf",
    "wide": "b",
}


def pack(trees: Any) -> Arrays:
    """Return the arrays of an ensemble in their short form.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    """
    is_leaf = trees.left_child == 0
    inner = np.flatnonzero(~is_leaf)
    is_set = trees.category_set[inner] >= 0
    sums = _Sums(trees)
    return {
        "node_offsets": trees.node_offsets,
        "tree_output": trees.tree_output,
        "baseline": trees.baseline,
        "is_leaf": np.packbits(is_leaf),
        "pair": _smallest(trees.left_child[inner] // 2),
        "feature": _smallest(trees.feature[inner]),
        "bin_threshold": _smallest(trees.bin_threshold[inner]),
        "missing_left": np.packbits(trees.missing_left[inner]),
        "category_set": _without(trees.category_set[inner][is_set], _sets_in_order(trees, inner[is_set])),
        "category_words": trees.category_words,
        "value": trees.value,
        "gain": trees.gain[inner],
        "n_samples": _smallest(sums.pack(trees.n_samples)),
        "weight": _pack_weight(trees, sums),
        "wide": np.array([trees.n_samples.dtype == np.int64, trees.weight.dtype == np.float64]),
    }


def unpack(packed: Mapping[str, np.ndarray], binning: Binning) -> Arrays:
    """Return the arrays of an ensemble from their short form.

    Parameters
    ----------
    packed : dict of arrays
        What `pack` returned.
    binning : Binning
        That of the trees.

    Raises
    ------
    ValueError
        If the arrays are not those of trees.
    """
    for name, kinds in KINDS.items():
        n_dimensions = 2 if name == "value" else 1
        require(name in packed and packed[name].dtype.kind in kinds and packed[name].ndim == n_dimensions, name)
    require(len(packed["wide"]) == 2, "wide")
    n_nodes = len(packed["value"])
    is_leaf = _bits(packed["is_leaf"], n_nodes, "is_leaf")
    inner = np.flatnonzero(~is_leaf)
    arrays: Arrays = {name: packed[name] for name in ("node_offsets", "tree_output", "baseline", "category_words")}
    arrays["value"] = packed["value"]
    spread = _spreader(n_nodes, inner)
    arrays["left_child"] = spread("pair", packed["pair"].astype(np.int64) * 2 + 1, np.int32, 0)
    arrays["feature"] = spread("feature", packed["feature"], np.int32, -1)
    arrays["bin_threshold"] = spread("bin_threshold", packed["bin_threshold"], np.uint16, 0)
    arrays["missing_left"] = spread(
        "missing_left", _bits(packed["missing_left"], len(inner), "missing_left"), np.uint8, 0
    )
    arrays["gain"] = spread("gain", packed["gain"], packed["gain"].dtype, 0)
    check_children(SimpleNamespace(**arrays))
    arrays["category_set"] = _unpack_sets(packed["category_set"], arrays, binning)
    sums = _Sums(SimpleNamespace(**arrays))
    wide_count, wide_weight = packed["wide"]
    n_samples = sums.unpack(packed["n_samples"].astype(np.int64), "n_samples")
    weight = packed["weight"]
    if len(weight) or not n_nodes:
        weight = sums.unpack(weight.astype(np.int64) if weight.dtype.kind == "u" else weight, "weight")
    else:
        weight = n_samples
    arrays["n_samples"] = n_samples.astype(np.int64 if wide_count else np.int32)
    arrays["weight"] = weight.astype(np.float64 if wide_weight else np.float32)
    return arrays


class _Sums:
    """Numbers of nodes that are the sums of those of their leaves."""

    def __init__(self, trees: Any) -> None:
        self.is_leaf = trees.left_child == 0
        # Inner nodes by depth, and their left children; nodes are counted over all trees.
        self.levels: list[tuple[np.ndarray, np.ndarray]] = []
        nodes = trees.node_offsets[:-1]
        root = nodes
        while True:
            is_inner = ~self.is_leaf[nodes]
            nodes, root = nodes[is_inner], root[is_inner]
            if not len(nodes):
                break
            left = root + trees.left_child[nodes]
            self.levels.append((nodes, left))
            nodes, root = np.concatenate([left, left + 1]), np.concatenate([root, root])

    def pack(self, numbers: np.ndarray) -> np.ndarray:
        """The leaves' numbers, where the others follow from them; otherwise all."""
        leaves = numbers[self.is_leaf]
        return leaves if np.array_equal(self.unpack(leaves, ""), numbers) else numbers

    def unpack(self, packed: np.ndarray, name: str) -> np.ndarray:
        """All numbers."""
        n_nodes = len(self.is_leaf)
        if len(packed) == n_nodes:
            return packed
        require(len(packed) == np.count_nonzero(self.is_leaf), name)
        numbers = np.zeros(n_nodes, dtype=packed.dtype)
        numbers[self.is_leaf] = packed
        for nodes, left in reversed(self.levels):
            numbers[nodes] = numbers[left] + numbers[left + 1]
        return numbers


def _pack_weight(trees: Any, sums: _Sums) -> np.ndarray:
    """Nothing where a node's weight is the number of its rows; whole numbers where they are."""
    weight = trees.weight
    if np.array_equal(weight, trees.n_samples):
        return np.empty(0, np.uint8)
    if np.all((weight >= 0) & (weight < 2**53) & (weight == np.rint(weight))):
        return _smallest(sums.pack(weight.astype(np.int64)))
    return sums.pack(weight)


def _smallest(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers, not negative, in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _without(numbers: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return numbers[:0] if np.array_equal(numbers, expected) else numbers


def _sets_in_order(trees: Any, nodes: np.ndarray, binning: Binning | None = None) -> np.ndarray:
    """The first words of the nodes' sets where these follow one another without gaps."""
    binning = trees.binning if binning is None else binning
    n_words = (np.asarray(binning.n_codes, dtype=np.int64)[trees.feature[nodes]] + 31) // 32
    return np.cumsum(n_words) - n_words


def _unpack_sets(packed: np.ndarray, arrays: Arrays, binning: Binning) -> np.ndarray:
    trees = SimpleNamespace(**arrays)
    check_binning_fits(trees, binning)
    is_set = (trees.feature >= 0) & np.asarray(binning.is_categorical, dtype=bool)[trees.feature]
    nodes = np.flatnonzero(is_set)
    sets = np.full(len(is_set), -1, dtype=np.int32)
    words = packed if len(packed) else _sets_in_order(trees, nodes, binning)
    require(len(words) == len(nodes) and words.max(initial=0) < 2**31, "category_set")
    sets[nodes] = words
    return sets


def _bits(packed: np.ndarray, count: int, name: str) -> np.ndarray:
    require(packed.dtype == np.uint8 and len(packed) == (count + 7) // 8, name)
    return np.unpackbits(packed, count=count).astype(bool)


def _spreader(n_nodes: int, inner: np.ndarray) -> Callable[[str, np.ndarray, Any, int], np.ndarray]:
    """What puts the numbers of inner nodes among those of leaves, which all have the same."""

    def spread(name: str, numbers: np.ndarray, dtype: Any, at_leaves: int) -> np.ndarray:
        require(len(numbers) == len(inner), name)
        if np.dtype(dtype).kind != "f":
            require(numbers.max(initial=0) <= np.iinfo(dtype).max, name)
        everywhere = np.full(n_nodes, at_leaves, dtype=dtype)
        everywhere[inner] = numbers
        return everywhere

    return spread
