"""Validation of tree arrays, and their packed form in files and pickles."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from fastens.engine.bins.binning import Binning
from fastens.engine.trees.neighbours import sum_up
from fastens.engine.whole import are_whole

MAX_CODES = 2**16


def check_structure(ensemble: Any) -> None:
    """Raise ValueError unless the arrays describe trees over the features and bin codes of their binning.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The arrays, which must have the right dtypes.
    """
    n_nodes, n_values = ensemble.value.shape
    for name in ("feature", "bin_threshold", "missing_left", "category_set", "gain", "n_samples", "weight"):
        require(len(getattr(ensemble, name)) == n_nodes, name)
    check_children(ensemble)
    require(len(ensemble.tree_output) == len(ensemble.node_offsets) - 1, "tree_output")
    require(bool(np.all((ensemble.tree_output >= 0) & (ensemble.tree_output < ensemble.n_outputs))), "tree_output")
    require(n_values in (1, ensemble.n_outputs), "value")
    for name in ("value", "baseline"):
        require(bool(np.isfinite(getattr(ensemble, name)).all()), name)
    require(n_values == 1 or not ensemble.tree_output.any(), "tree_output")
    check_binning_fits(ensemble, ensemble.binning)
    _check_splits(ensemble)


def require(condition: bool, name: str) -> None:
    """Raise ValueError with the message "`name` does not describe trees" if the condition is False."""
    if not condition:
        raise ValueError(f"{name} does not describe trees")


def read_binning(arrays: dict[str, np.ndarray]) -> Binning:
    """Create a binning from its arrays by name; raise ValueError if they do not describe one."""
    try:
        binning = Binning.from_arrays(arrays)
        again = binning.to_arrays()
        same = all(a.dtype == again[name].dtype and np.array_equal(a, again[name]) for name, a in arrays.items())
    except (TypeError, LookupError) as error:
        raise ValueError("the arrays do not describe a binning") from error
    ascending = all(np.all(t[:-1] < t[1:]) for t in binning.thresholds)
    lookup = np.zeros((0, 2), np.int32) if binning.lookup is None else binning.lookup
    few = binning.n_codes.max(initial=0) <= MAX_CODES and bool(((lookup >= 0) & (lookup < MAX_CODES)).all())
    if not (same and ascending and few):
        raise ValueError("the arrays do not describe a binning")
    return binning


def check_children(ensemble: Any) -> None:
    """Raise ValueError unless every node except the roots has exactly one parent, which precedes it in its tree."""
    offsets, left = ensemble.node_offsets, ensemble.left_child.astype(np.int64)
    require(len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(ensemble.value), "node_offsets")
    require(bool(np.all(offsets[1:] > offsets[:-1])), "node_offsets")  # differences of large numbers overflow
    tree_sizes = np.diff(offsets)
    require(len(left) == len(ensemble.value), "left_child")
    root = np.repeat(offsets[:-1], tree_sizes)
    inner = np.flatnonzero(left)
    require(bool(np.all(left[inner] > (np.arange(len(left)) - root)[inner])), "left_child")
    require(bool(np.all(left[inner] + 1 < np.repeat(tree_sizes, tree_sizes)[inner])), "left_child")
    children = (root + left)[inner]
    n_parents = np.bincount(np.concatenate([children, children + 1]), minlength=len(left))
    require(bool(np.all(n_parents == (np.arange(len(left)) != root))), "left_child")


def check_binning_fits(ensemble: Any, binning: Binning) -> None:
    """Raise ValueError unless exactly the inner nodes split on a feature, and the binning has these features."""
    feature = ensemble.feature
    require(bool(np.all((feature >= 0) == (ensemble.left_child > 0)) and np.all(feature >= -1)), "feature")
    require(bool(np.all(feature < binning.n_features)), "feature")


def _check_splits(ensemble: Any) -> None:
    """Raise ValueError unless the bin codes and category sets of all splits are in the range of the binning."""
    binning = ensemble.binning
    inner = ensemble.left_child > 0
    feature = ensemble.feature[inner]
    n_codes = np.asarray(binning.n_codes, dtype=np.int64).take(feature)
    is_categorical = np.asarray(binning.is_categorical, dtype=bool).take(feature)
    require(bool(np.all(is_categorical | (ensemble.bin_threshold[inner] < n_codes))), "bin_threshold")
    first = ensemble.category_set[inner].astype(np.int64)
    require(bool(np.all((first >= 0) == is_categorical)), "category_set")
    last = np.where(is_categorical, first + (n_codes + 31) // 32, 0)
    require(bool(np.all(last <= len(ensemble.category_words))), "category_set")


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
SUMMED = (np.int64, np.float32, np.float64)


def pack(trees: Any) -> Arrays:
    """Return the packed arrays of an ensemble by name, with the names and dtype kinds of `KINDS`.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    """
    is_leaf = trees.left_child == 0
    inner = np.flatnonzero(~is_leaf)
    is_set = trees.category_set[inner] >= 0
    sums = _LeafSums(trees, is_leaf)
    return {
        "node_offsets": trees.node_offsets,
        "tree_output": trees.tree_output,
        "baseline": trees.baseline,
        "is_leaf": np.packbits(is_leaf),
        "pair": _in_smallest_dtype(trees.left_child[inner] // 2),
        "feature": _in_smallest_dtype(trees.feature[inner]),
        "bin_threshold": _in_smallest_dtype(trees.bin_threshold[inner]),
        "missing_left": np.packbits(trees.missing_left[inner]),
        "category_set": _omit_expected(trees.category_set[inner][is_set], _contiguous_set_starts(trees, inner[is_set])),
        "category_words": trees.category_words,
        "value": trees.value,
        "gain": trees.gain[inner],
        "n_samples": _in_smallest_dtype(sums.pack(trees.n_samples)),
        "weight": _pack_weight(trees, sums),
        "wide": np.array([trees.n_samples.dtype == np.int64, trees.weight.dtype == np.float64]),
    }


def unpack(packed: Mapping[str, np.ndarray], binning: Binning) -> Arrays:
    """Return the arrays of an ensemble, by name, from their packed form.

    Parameters
    ----------
    packed : dict of arrays
        Output of `pack`.
    binning : Binning
        Binning of the trees.

    Raises
    ------
    ValueError
        If the arrays do not describe trees.
    """
    for name, kinds in KINDS.items():
        n_dimensions = 2 if name == "value" else 1
        require(name in packed and packed[name].dtype.kind in kinds and packed[name].ndim == n_dimensions, name)
    require(len(packed["wide"]) == 2, "wide")
    is_leaf = _unpack_bits(packed["is_leaf"], len(packed["value"]), "is_leaf")
    n_inner = len(is_leaf) - int(np.count_nonzero(is_leaf))
    for name, largest in {"pair": 2**30 - 1, "feature": 2**31 - 1, "bin_threshold": 2**16 - 1, "gain": np.inf}.items():
        require(len(packed[name]) == n_inner and not (packed[name].max(initial=0) > largest), name)
    _unpack_bits(packed["missing_left"], n_inner, "missing_left")
    arrays = unpack_splits(packed)
    check_children(SimpleNamespace(**arrays))
    arrays["category_set"] = _unpack_category_sets(packed["category_set"], arrays, binning)
    return arrays | _unpack_statistics(packed, arrays, is_leaf)


def unpack_splits(packed: Mapping[str, np.ndarray], binning: Binning | None = None) -> Arrays:
    """Return the arrays that route rows, and the values; with a binning, also the category sets. No checks.

    Parameters
    ----------
    packed : dict of arrays
        Output of `pack`.
    binning : Binning, optional
        Binning of the trees.
    """
    n_nodes = len(packed["value"])
    inner = np.flatnonzero(np.unpackbits(packed["is_leaf"], count=n_nodes) == 0)
    missing_left = np.unpackbits(packed["missing_left"], count=len(packed["pair"]))
    arrays: Arrays = {
        "left_child": _fill_inner_nodes(2 * packed["pair"].astype(np.int32) + 1, inner, n_nodes, 0),
        "feature": _fill_inner_nodes(packed["feature"].astype(np.int32), inner, n_nodes, -1),
        "bin_threshold": _fill_inner_nodes(packed["bin_threshold"].astype(np.uint16), inner, n_nodes, 0),
        "missing_left": _fill_inner_nodes(missing_left, inner, n_nodes, 0),
    }
    arrays |= {name: packed[name] for name in ("tree_output", "baseline", "category_words", "value")}
    arrays["node_offsets"] = packed["node_offsets"].astype(np.int64)
    if binning is not None:
        arrays["category_set"] = _unpack_category_sets(packed["category_set"], arrays, binning)
    return arrays


def _fill_inner_nodes(of_inner: np.ndarray, inner: np.ndarray, n_nodes: int, of_leaf: int) -> np.ndarray:
    """Return an array of `n_nodes` elements: `of_inner` at the indices `inner`, and `of_leaf` at all others."""
    out = np.full(n_nodes, of_leaf, of_inner.dtype)
    out[inner] = of_inner
    return out


def _unpack_statistics(packed: Mapping[str, np.ndarray], arrays: Arrays, is_leaf: np.ndarray) -> Arrays:
    """Return gain, n_samples and weight of all nodes from packed arrays, by name; raise ValueError if invalid."""
    sums = _LeafSums(SimpleNamespace(**arrays), is_leaf)
    gain = np.zeros(len(is_leaf), dtype=packed["gain"].dtype)
    gain[~is_leaf] = packed["gain"]
    n_samples = sums.unpack(packed["n_samples"].astype(np.int64), "n_samples")
    weight = packed["weight"]
    if len(weight) or not len(is_leaf):
        weight = sums.unpack(weight.astype(np.int64) if weight.dtype.kind == "u" else weight, "weight")
    else:
        weight = n_samples
    wide_count, wide_weight = packed["wide"]
    return {
        "gain": gain,
        "n_samples": n_samples.astype(np.int64 if wide_count else np.int32),
        "weight": weight.astype(np.float64 if wide_weight else np.float32),
    }


class _LeafSums:
    """Packs node statistics that are sums over the leaves below a node."""

    def __init__(self, trees: Any, is_leaf: np.ndarray) -> None:
        self._trees, self._is_leaf = trees, is_leaf

    def pack(self, statistics: np.ndarray) -> np.ndarray:
        """Return the leaves' values if each inner node's value is the sum of its children's, otherwise all values."""
        summed = statistics.astype(np.int64) if statistics.dtype.kind in "iu" else statistics.copy()
        sum_up(self._trees.node_offsets, self._trees.left_child, summed)
        return statistics[self._is_leaf] if np.array_equal(summed, statistics) else statistics

    def unpack(self, packed: np.ndarray, name: str) -> np.ndarray:
        """Return the values of all nodes from the output of `pack`; `name` is the array's name in errors."""
        if len(packed) == len(self._is_leaf):
            return packed
        require(len(packed) == np.count_nonzero(self._is_leaf) and packed.dtype in SUMMED, name)
        statistics = np.zeros(len(self._is_leaf), dtype=packed.dtype)
        statistics[self._is_leaf] = packed
        sum_up(self._trees.node_offsets, self._trees.left_child, statistics)
        return statistics


def _pack_weight(trees: Any, sums: _LeafSums) -> np.ndarray:
    """Return an empty array if the weights equal the row counts, integers if all weights are, otherwise floats."""
    weight = trees.weight
    if np.array_equal(weight, trees.n_samples):
        return np.empty(0, np.uint8)
    if np.all((weight >= 0) & (weight < 2**53)) and are_whole(weight):
        return _in_smallest_dtype(sums.pack(weight.astype(np.int64)))
    return sums.pack(weight)


def _in_smallest_dtype(integers: np.ndarray) -> np.ndarray:
    """Convert nonnegative integers to the smallest dtype that can hold them."""
    return integers.astype(np.min_scalar_type(int(integers.max(initial=0))))


def _omit_expected(array: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return an empty array if all elements equal the expected ones, otherwise the array."""
    return array[:0] if np.array_equal(array, expected) else array


def _contiguous_set_starts(trees: Any, nodes: np.ndarray, binning: Binning | None = None) -> np.ndarray:
    """Return the first word of the category set of each of `nodes`, if sets are stored contiguously in node order.

    The number of words of a set follows from the number of codes in the binning (default: the binning of the trees).
    """
    binning = trees.binning if binning is None else binning
    n_words = (np.asarray(binning.n_codes, dtype=np.int64)[trees.feature[nodes]] + 31) // 32
    return np.cumsum(n_words) - n_words


def _unpack_category_sets(packed: np.ndarray, arrays: Arrays, binning: Binning) -> np.ndarray:
    """Return the first word of each node's category set, -1 for other nodes; raise ValueError if invalid.

    `packed` holds the first words of the categorical splits, or is empty if sets are stored contiguously in node order.
    """
    trees = SimpleNamespace(**arrays)
    check_binning_fits(trees, binning)
    is_set = (trees.feature >= 0) & np.asarray(binning.is_categorical, dtype=bool).take(trees.feature)
    nodes = np.flatnonzero(is_set)
    sets = np.full(len(is_set), -1, dtype=np.int32)
    words = packed if len(packed) else _contiguous_set_starts(trees, nodes, binning)
    require(len(words) == len(nodes) and words.max(initial=0) < 2**31, "category_set")
    sets[nodes] = words
    return sets


def _unpack_bits(packed: np.ndarray, count: int, name: str) -> np.ndarray:
    """Return `count` bits as a bool array; raise ValueError naming the array unless it has the right length."""
    require(packed.dtype == np.uint8 and len(packed) == (count + 7) // 8, name)
    return np.unpackbits(packed, count=count).astype(bool)
