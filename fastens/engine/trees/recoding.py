"""The same trees on another binning: thresholds found again by their values, sets of categories code by code."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import Binning
from fastens.engine.trees.code_sets import codes_left, set_of
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, TreeEnsemble

Codes = NDArray[np.intp]


def recoded(trees: TreeEnsemble, binning: Binning, old_codes: Mapping[int, Codes]) -> TreeEnsemble:
    """Return trees that send each value the way they do, split by the codes of another binning.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees; models in their leaves are left out.
    binning : Binning
        It has all thresholds that the trees use.
    old_codes : mapping of int to integer array
        For each categorical feature, what each of the new codes was among the trees' own.
    """
    arrays = {name: getattr(trees, name) for name in ENSEMBLE_DTYPES}
    arrays["bin_threshold"] = arrays["bin_threshold"].copy()
    inner = trees.feature >= 0
    numeric = np.flatnonzero(inner & (trees.category_set < 0))
    for feature in np.unique(trees.feature[numeric]).tolist():
        nodes, own = numeric[trees.feature[numeric] == feature], binning.thresholds[feature]
        # A threshold of the largest code has all values to the left, and one of code 0 none.
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
