"""How much each feature contributes to a raw prediction: path-dependent Shapley values of a tree ensemble."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastens.engine.threads import threads_for
from fastens.engine.trees.edges import edge_shares
from fastens.engine.trees.shapley import explain as explain_rows
from fastens.engine.trees.trees import TreeEnsemble

Array = NDArray[np.float64]
BLOCK = 1 << 16  # rows whose codes are in memory at a time
_MOST_KEPT = 1 << 18  # nodes, of some 30 bytes each


@dataclass(frozen=True)
class Paths:
    """What the kernel needs to know of all trees besides their arrays; see `edge_shares` there."""

    value: Array
    share: Array
    edge_feature: NDArray[np.int32]
    above: NDArray[np.int32]
    depth: NDArray[np.int32]
    n_points: NDArray[np.int32]
    points: Array
    weights: Array


def contributions(ensemble: TreeEnsemble, X: np.ndarray, n_threads: int = 1) -> Array:
    """Return each feature's contribution to each raw prediction, and the expected prediction.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    X : float32 or float64 array of shape (n_rows, n_features)
        The rows.
    n_threads : int
        How many threads there may be; no matter to the result.

    Returns
    -------
    float64 array of shape (n_rows, n_outputs, n_features + 1)
        The last entry is the expected raw prediction; all of them add up to the raw prediction.

    References
    ----------
    S. Lundberg et al. (2020). From local explanations to global understanding with explainable AI for trees. Nature
    Machine Intelligence 2, algorithm 2 (path-dependent, with the nodes' weights).
    P. Yu, C. Xu, A. Bifet, J. Read (2022). Linear TreeShap. NeurIPS.
    """
    explained = _explain(ensemble, X, n_threads, pairs=False)
    out = np.empty((*explained.shape[:2], explained.shape[2] + 1))
    out[..., :-1] = explained
    if "expected_raw" not in ensemble.notes:
        ensemble.notes["expected_raw"] = expected_raw(ensemble)
    out[..., -1] = ensemble.notes["expected_raw"]
    return out


def interactions(ensemble: TreeEnsemble, X: np.ndarray, n_threads: int = 1) -> Array:
    """Return how much each pair of features contributes, each feature by itself on the diagonal.

    Parameters
    ----------
    ensemble, X, n_threads
        As for `contributions`.

    Returns
    -------
    float64 array of shape (n_rows, n_outputs, n_features + 1, n_features + 1)
        Symmetric; the sum of a row is the feature's contribution, the last entry the expected raw prediction
        (Shapley interaction values, Lundberg et al. 2020, eq. 7 to 9).
    """
    pairs = _explain(ensemble, X, n_threads, pairs=True)
    pairs += pairs.swapaxes(2, 3)
    total = contributions(ensemble, X, n_threads)
    n_features = pairs.shape[2]
    out = np.zeros((*pairs.shape[:2], n_features + 1, n_features + 1))
    out[..., :-1, :-1] = pairs
    diagonal = np.arange(n_features)
    out[..., diagonal, diagonal] = total[..., :-1] - pairs.sum(axis=3)
    out[..., -1, -1] = total[..., -1]
    return out


def expected_raw(ensemble: TreeEnsemble) -> Array:
    """The mean raw prediction over the training rows, as the nodes' weights have them: float64 of (n_outputs,)."""
    roots, sizes = ensemble.node_offsets[:-1], np.diff(ensemble.node_offsets)
    left = np.where(ensemble.left_child > 0, ensemble.left_child + np.repeat(roots, sizes), 0)
    leaf = np.flatnonzero(left == 0)
    reach = _reach(left, ensemble.weight, roots)[leaf, None] * ensemble.value[leaf]
    output = np.repeat(ensemble.tree_output, sizes)[leaf]
    out = ensemble.baseline.copy()
    for column, values in enumerate(reach.T):
        out += np.bincount(output + column, values, len(out))
    return out


def _reach(left: NDArray[np.int64], weight: np.ndarray, roots: NDArray[np.int64]) -> Array:
    """The share of its root's weight that reaches each node, level by level."""
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


def _explain(ensemble: TreeEnsemble, X: np.ndarray, n_threads: int, *, pairs: bool) -> Array:
    lean = ensemble.lean
    paths = _paths(lean)
    # A node costs a row some 10 nanoseconds.
    n_threads = threads_for(X.shape[0] * 10 * len(lean.feature), n_threads, 20_000)
    explain: Callable[..., Array] = explain_rows
    linear = getattr(ensemble, "linear", None)
    parts = []
    for start in range(0, max(X.shape[0], 1), BLOCK):
        rows = X[start : start + BLOCK]
        values = None if linear is None else np.ascontiguousarray(rows, dtype=np.float64)
        parts.append(explain(lean, paths, linear, values, lean.binning.codes(rows, n_threads), pairs, n_threads))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _paths(ensemble: TreeEnsemble) -> Paths:
    """Kept with trees that are not large: for a few rows, finding them takes as long as all the rest."""
    kept = ensemble.notes.get("paths")
    if kept is None:
        kept = _find_paths(ensemble)
        if len(ensemble.feature) <= _MOST_KEPT:
            ensemble.notes["paths"] = kept
    return kept


def _find_paths(ensemble: TreeEnsemble) -> Paths:
    share, edge_feature, above, depth, n_features = edge_shares(
        ensemble.node_offsets, ensemble.left_child, ensemble.feature, ensemble.weight.astype(np.float64)
    )
    n_points = np.maximum((n_features + 1) // 2, 1).astype(np.int32)
    rules = [np.polynomial.legendre.leggauss(n) for n in range(1, n_points.max(initial=1) + 1)]
    points = np.concatenate([(1 + points) / 2 for points, _ in rules])
    weights = np.concatenate([weights / 2 for _, weights in rules])
    value = ensemble.value.astype(np.float64)
    return Paths(value, share, edge_feature, above, depth, n_points, points, weights)
