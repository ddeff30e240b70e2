"""Whether arrays describe trees: what a model from a file must show before it may predict."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastens.engine.bins.binning import Binning

MAX_CODES = 2**16


def check_structure(ensemble: Any) -> None:
    """Raise ValueError unless the arrays describe trees over the features and codes of their binning.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The arrays, of the right types.
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
    """Raise ValueError where a condition on an array does not hold."""
    if not condition:
        raise ValueError(f"{name} does not describe trees")


def read_binning(arrays: dict[str, np.ndarray]) -> Binning:
    """Make a binning from arrays; ValueError for what is none."""
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
    """Every node but the roots is the child of one node, and stands after it, inside the same tree."""
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
    """Nodes with children, and no others, split on features that the binning knows."""
    feature = ensemble.feature
    require(bool(np.all((feature >= 0) == (ensemble.left_child > 0)) and np.all(feature >= -1)), "feature")
    require(bool(np.all(feature < binning.n_features)), "feature")


def _check_splits(ensemble: Any) -> None:
    # Codes and category sets are those that the binning knows.
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
