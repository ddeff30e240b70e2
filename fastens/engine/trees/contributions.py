"""How much each column contributes to a raw prediction: Shapley values of a tree ensemble."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    """What the kernel needs to know of all trees besides their arrays; see `explain` there."""

    column: NDArray[np.int32]  # of each feature
    n_columns: int
    value: Array
    linear: Any
    share: Array
    position: NDArray[np.int32]
    n_on_path: NDArray[np.int32]
    max_depth: int
    points: Array
    weights: Array
    worth: Array


@dataclass(frozen=True)
class Reference:
    """Rows that predictions are compared with.

    Attributes
    ----------
    X : float32 or float64 array of shape (n_background, n_features)
        The rows.
    scales : float64 array of shape (n_rows, n_background) or None
        What the contributions to each prediction against each of them are multiplied by.
    """

    X: np.ndarray
    scales: Array | None = None


def contributions(
    ensemble: TreeEnsemble,
    X: np.ndarray,
    n_threads: int = 1,
    reference: Reference | None = None,
    column_of: NDArray[np.intp] | None = None,
) -> Array:
    """Return each column's contribution to each raw prediction, and the expected prediction.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    X : float32 or float64 array of shape (n_rows, n_features)
        The rows.
    n_threads : int
        How many threads there may be; no matter to the result.
    reference : Reference, optional
        Background rows, where features that are not known have the values of these (interventional); default: what is
        known is averaged over as the training rows were spread over the trees (path-dependent).
    column_of : array of shape (n_features,), optional
        The column that each feature is made of: those of one column are known together. Default: one for each feature.

    Returns
    -------
    float64 array of shape (n_rows, n_outputs, n_columns + 1)
        The last entry is the expected raw prediction; all of them add up to the raw prediction.

    References
    ----------
    S. Lundberg et al. (2020). From local explanations to global understanding with explainable AI for trees. Nature
    Machine Intelligence 2, algorithms 2 (with the nodes' weights) and 3.
    P. Yu, C. Xu, A. Bifet, J. Read (2022). Linear TreeShap. NeurIPS.
    G. Laberge, Y. Pequignot (2022). Understanding interventional TreeSHAP: how and why it works.
    """
    out = _explain(ensemble, X, n_threads, reference, column_of, pairs=False)
    out[..., -1] = _expected(ensemble, n_threads, reference)
    return out


def interactions(
    ensemble: TreeEnsemble,
    X: np.ndarray,
    n_threads: int = 1,
    reference: Reference | None = None,
    column_of: NDArray[np.intp] | None = None,
) -> Array:
    """Return how much each pair of columns contributes, each column by itself on the diagonal.

    Parameters
    ----------
    ensemble, X, n_threads, reference, column_of
        As for `contributions`.

    Returns
    -------
    float64 array of shape (n_rows, n_outputs, n_columns + 1, n_columns + 1)
        Symmetric; the sum of a row is the column's contribution, the last entry the expected raw prediction
        (Shapley interaction values, Lundberg et al. 2020, eq. 7 to 9).
    """
    pairs = _explain(ensemble, X, n_threads, reference, column_of, pairs=True)
    pairs += pairs.swapaxes(2, 3)
    total = contributions(ensemble, X, n_threads, reference, column_of)
    n_columns = pairs.shape[2]
    out = np.zeros((*pairs.shape[:2], n_columns + 1, n_columns + 1))
    out[..., :-1, :-1] = pairs
    diagonal = np.arange(n_columns)
    out[..., diagonal, diagonal] = total[..., :-1] - pairs.sum(axis=3)
    out[..., -1, -1] = total[..., -1]
    return out


def _expected(ensemble: TreeEnsemble, n_threads: int, reference: Reference | None) -> Array:
    if reference is not None:
        return ensemble.predict_raw(reference.X, n_threads).mean(axis=0)
    if "expected_raw" not in ensemble.notes:
        ensemble.notes["expected_raw"] = expected_raw(ensemble)
    expected: Array = ensemble.notes["expected_raw"]
    return expected


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


def _explain(
    ensemble: TreeEnsemble,
    X: np.ndarray,
    n_threads: int,
    reference: Reference | None,
    column_of: NDArray[np.intp] | None,
    *,
    pairs: bool,
) -> Array:
    lean = ensemble.lean
    n_features = lean.binning.n_features
    if column_of is not None and len(column_of) != n_features:
        raise ValueError(f"X must have {n_features} columns, got {len(column_of)}.")
    paths = _paths(ensemble, np.arange(n_features) if column_of is None else column_of)
    # A node costs a row some nanoseconds.
    n_rows = X.shape[0] + (0 if reference is None else len(reference.X))
    n_threads = threads_for(n_rows * 2 * len(lean.feature), n_threads, 20_000)
    others = np.empty((0, n_features)) if reference is None else reference.X
    background = lean.binning.codes(others, n_threads)
    scales = None if reference is None else reference.scales
    parts = []
    for start in range(0, max(X.shape[0], 1), BLOCK):
        rows = X[start : start + BLOCK]
        values = None if paths.linear is None else tuple(np.ascontiguousarray(X, np.float64) for X in (rows, others))
        by_row = None if scales is None else _by_background(scales[start : start + BLOCK])
        codes = lean.binning.codes(rows, n_threads)
        parts.append(explain_rows(lean, paths, values, codes, background, by_row, pairs, n_threads))
    explained: Array = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if background.shape[1] > 1:
        explained /= background.shape[1]
    return explained


def _by_background(scales: Array) -> Array:
    """Scales as the kernel reads them, a few rows at a time: a line for each background row."""
    return np.ascontiguousarray(np.pad(scales, ((0, -len(scales) % 16), (0, 0))).T)


def _paths(ensemble: TreeEnsemble, column_of: NDArray[np.intp]) -> Paths:
    """Kept with trees that are not large: for a few rows, finding them takes as long as all the rest."""
    kept = ensemble.notes.get("paths")
    if kept is None or not np.array_equal(kept.column, column_of):
        kept = _find_paths(ensemble, column_of.astype(np.int32))
        if len(ensemble.feature) <= _MOST_KEPT:
            ensemble.notes["paths"] = kept
    return kept


def _find_paths(ensemble: TreeEnsemble, column_of: NDArray[np.int32]) -> Paths:
    share, position, n_on_path, depth = edge_shares(
        ensemble.node_offsets, ensemble.left_child, column_of[ensemble.feature], ensemble.weight.astype(np.float64)
    )
    most = int(n_on_path.max(initial=1))
    rules = [np.polynomial.legendre.leggauss(n) for n in range(1, (most + 1) // 2 + 1)]
    return Paths(
        column=column_of,
        n_columns=int(column_of.max()) + 1,
        value=ensemble.value.astype(np.float64),
        linear=getattr(ensemble, "linear", None),
        share=share,
        position=position,
        n_on_path=n_on_path,
        max_depth=int(depth.max(initial=0)),
        points=np.concatenate([(1 + points) / 2 for points, _ in rules]),
        weights=np.concatenate([weights / 2 for _, weights in rules]),
        worth=_worth(most),
    )


def _worth(most: int) -> Array:
    """(p-1)! m!/(p+m)! at [p, m], up to `most` of each; 0 where p is 0."""
    worth, m = np.zeros((most + 1, most + 1)), np.arange(most + 1)
    worth[1] = 1 / (m + 1)
    for p in range(1, most):
        worth[p + 1] = worth[p] * p / (p + m + 1)
    return worth
