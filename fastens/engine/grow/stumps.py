"""Decision stumps: trees with a single split, fitted to rows that are binned only once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import AnyCodes, Binning
from fastens.engine.comm import LOCAL, Comm, sum_ints, sum_over
from fastens.engine.grow.stump import StumpFinder
from fastens.engine.splits.workspace import CRITERIA
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, TREE_DTYPES, TreeEnsemble, codes_left, set_of


class Stump(NamedTuple):
    """One stump; cell 0 is its right side, cell 1 its left side."""

    feature: int  # -1 without a split, then all rows are in cell 0
    bin_threshold: int
    goes_left: NDArray[np.uint8]  # one entry per code, including code 0 (missing)
    sums: NDArray[np.int64]  # sums of weights, shape (2, n_classes)


class StumpLearner:
    """Fits the best stump for a sequence of weight vectors.

    Parameters
    ----------
    binning : Binning
        The binning of the codes.
    codes : uint8 or uint16 array of shape (n_features, n_rows), or SparseCodes
        The binned rows.
    classes : uint16 array of shape (n_rows,)
        The class of each row.
    n_classes : int
        Number of classes.
    criterion : {"gini", "entropy", "error"}
        Impurity that splits minimize; "error" is the weight of the rows outside the majority class of their side.
    n_threads : int
        Maximum number of threads. The result does not depend on it.
    """

    def __init__(
        self,
        binning: Binning,
        codes: AnyCodes,
        classes: NDArray[np.uint16],
        n_classes: int,
        criterion: str,
        n_threads: int,
    ) -> None:
        self.codes = codes
        is_categorical = binning.is_categorical.astype(np.uint8)
        self._finder = StumpFinder(
            codes, binning.n_codes, is_categorical, binning.thresholds, classes, n_classes, n_threads
        )
        self._criterion = CRITERIA[criterion]

    def fit(self, weights: NDArray[np.int64], comm: Comm = LOCAL) -> Stump:
        """Return the best stump for nonnegative integer row weights, not all 0, over the rows of all ranks."""
        return Stump(*self._finder.find(weights, self._criterion, comm))


def stump_ensemble(
    stumps: Sequence[Stump],
    values: NDArray[np.float64],
    codes: AnyCodes,
    binning: Binning,
    comm: Comm = LOCAL,
) -> TreeEnsemble:
    """Return an ensemble with one tree per stump.

    Parameters
    ----------
    stumps : sequence of Stump
        The stumps in the order in which their values are summed.
    values : float64 array of shape (n_stumps, 2, n_values)
        Values that the cells of each stump add to the raw prediction.
    codes : uint8 or uint16 array of shape (n_features, n_rows), or SparseCodes
        The training rows, which are counted in the nodes.
    binning : Binning
        The binning that converts values to codes.
    comm : Comm
        The ranks that share the rows.
    """
    feature = np.array([stump.feature for stump in stumps], dtype=np.int64)
    is_split = feature >= 0
    splits = [stump for stump in stumps if stump.feature >= 0]
    sums = np.array([stump.sums for stump in stumps], dtype=np.float64)
    weight = sums.sum(axis=2)
    n_left, n_missing = sum_over(comm, _counts(splits, codes))
    (n_rows,) = sum_ints(comm, codes.shape[1])
    n_samples = np.full((len(stumps), 2), n_rows)
    n_samples[is_split] = np.stack([n_rows - n_left, n_left], axis=1)
    mean = (values * weight[:, :, None]).sum(axis=1) / weight.sum(axis=1)[:, None]
    layout = _StumpOrder(is_split)
    n_values = values.shape[2]
    return TreeEnsemble(
        binning,
        feature=layout.inner(feature, -1),
        left_child=layout.inner(np.ones(len(stumps)), 0),
        value=layout.nodes(mean, values),
        gain=layout.inner(_gini_gain(sums), 0),
        n_samples=layout.nodes(np.full(len(stumps), n_rows), n_samples),
        weight=layout.nodes(np.ones(len(stumps)), weight / weight.sum(axis=1)[:, None]),
        node_offsets=layout.offsets,
        tree_output=np.zeros(len(stumps)),
        baseline=np.zeros(n_values),
        **_thresholds(splits, n_missing, layout, binning),
    )


class _StumpOrder:
    """Order of the nodes of stumps: root, left, right; a stump without a split has only a root."""

    def __init__(self, is_split: NDArray[np.bool_]) -> None:
        self.is_split = is_split
        self.offsets = np.concatenate([[0], np.cumsum(np.where(is_split, 3, 1))])
        self.roots = self.offsets[:-1]

    def inner(self, of_split: NDArray[Any], elsewhere: float) -> NDArray[Any]:
        """Return an array by node: `of_split`, one value per stump, at roots that split, and `elsewhere` at leaves."""
        out = np.full(self.offsets[-1], elsewhere, dtype=of_split.dtype)
        out[self.roots[self.is_split]] = of_split[self.is_split]
        return out

    def nodes(self, of_root: NDArray[Any], of_cell: NDArray[Any]) -> NDArray[Any]:
        """Return an array by node from values by stump, `of_root`, and by stump and cell (right, left), `of_cell`.

        The only node of a stump without a split has the value of its cell 0.
        """
        out = np.empty((self.offsets[-1], *of_root.shape[1:]), dtype=of_cell.dtype)
        split, roots = self.is_split, self.roots[self.is_split]
        out[roots], out[roots + 1], out[roots + 2] = of_root[split], of_cell[split, 1], of_cell[split, 0]
        out[self.roots[~split]] = of_cell[~split, 0]
        return out


def _thresholds(
    splits: Sequence[Stump], n_missing: NDArray[np.int64], layout: _StumpOrder, binning: Binning
) -> dict[str, np.ndarray]:
    """Return by name the arrays of the thresholds, sides of missing values and category sets of all nodes.

    `splits` are the stumps with a split, and `n_missing` their numbers of rows with missing values.
    """
    inner, n_nodes = layout.roots[layout.is_split], layout.offsets[-1]
    bin_threshold = np.zeros(n_nodes, dtype=np.uint16)
    missing_left = np.zeros(n_nodes, dtype=np.uint8)
    category_set = np.full(n_nodes, -1, dtype=np.int32)
    words: list[np.ndarray] = [np.zeros(0, dtype=np.uint32)]
    n_words = 0
    for node, stump, missing in zip(inner.tolist(), splits, n_missing, strict=True):
        if binning.is_categorical[stump.feature]:
            category_set[node] = n_words
            missing_left[node] = missing == 0
            words.append(set_of(np.flatnonzero(stump.goes_left), len(stump.goes_left)))
            n_words += len(words[-1])
        else:
            bin_threshold[node] = stump.bin_threshold
            missing_left[node] = stump.goes_left[0]
    return {
        "bin_threshold": bin_threshold,
        "missing_left": missing_left,
        "category_set": category_set,
        "category_words": np.concatenate(words),
    }


def _counts(splits: Sequence[Stump], codes: AnyCodes) -> NDArray[np.int64]:
    """Return for each split the numbers of rows that go left and of rows with missing values, shape (2, n_splits)."""
    n_codes = {stump.feature: len(stump.goes_left) for stump in splits}
    counts = {f: np.bincount(codes[f], minlength=n) for f, n in n_codes.items()}
    pairs = [(counts[stump.feature] @ stump.goes_left, counts[stump.feature][0]) for stump in splits]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()


def _gini_gain(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the decrease of the Gini impurity by each stump, given weights of shape (n_stumps, 2 cells, n_classes)."""
    sums = sums / sums.sum(axis=(1, 2))[:, None, None]
    weight = np.maximum(sums.sum(axis=2), np.finfo(float).tiny)
    return ((sums**2).sum(axis=2) / weight).sum(axis=1) - (sums.sum(axis=1) ** 2).sum(axis=1)


def joined(first: TreeEnsemble, second: TreeEnsemble) -> TreeEnsemble:
    """Return an ensemble of the trees of both, which share a binning, with the baseline of the first one."""
    a, b = ({name: getattr(part, name) for name in ENSEMBLE_DTYPES} for part in (first, second))
    b["category_set"] = np.where(b["category_set"] < 0, -1, b["category_set"] + len(a["category_words"]))
    b["node_offsets"] = b["node_offsets"][1:] + a["node_offsets"][-1]
    b["baseline"] = b["baseline"][:0]
    return TreeEnsemble(first.binning, **{name: np.concatenate([a[name], b[name]]) for name in ENSEMBLE_DTYPES})


def head(ensemble: TreeEnsemble, n_trees: int) -> TreeEnsemble:
    """Return an ensemble of the first `n_trees` trees."""
    n_nodes = ensemble.node_offsets[n_trees]
    arrays = {name: getattr(ensemble, name) for name in ENSEMBLE_DTYPES}
    arrays |= {name: arrays[name][:n_nodes] for name in TREE_DTYPES if name != "category_words"}
    arrays |= {"node_offsets": ensemble.node_offsets[: n_trees + 1], "tree_output": ensemble.tree_output[:n_trees]}
    return TreeEnsemble(ensemble.binning, **arrays)


def feature_table(ensemble: TreeEnsemble, feature: int) -> NDArray[np.float64]:
    """Return the contribution of each code of a feature in an ensemble of stumps, shape (n_codes, n_outputs)."""
    codes = np.arange(ensemble.binning.n_codes[feature])
    table = np.zeros((len(codes), ensemble.n_outputs))
    roots = ensemble.node_offsets[:-1]
    for tree in np.flatnonzero(ensemble.feature[roots] == feature):
        root = roots[tree]
        left = codes_left(ensemble, root, codes)[:, None]
        values = np.where(left, ensemble.value[root + 1], ensemble.value[root + 2])
        if ensemble.value.shape[1] == 1:
            table[:, ensemble.tree_output[tree]] += values[:, 0]
        else:
            table += values
    return table
