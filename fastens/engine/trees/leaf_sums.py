"""Sums of rows by leaf, the same in any order of the rows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.pages import MappedPages
from fastens.engine.bins.sparse_binned import AnyCodes
from fastens.engine.trees.adding import add_tree_to_raw
from fastens.engine.trees.trees import Tree

Array = NDArray[np.float64]
# Bits that values are rounded to, so that their sums are exact.
_BITS = 50


def leaves_of_rows(
    codes: AnyCodes, tree: Tree, n_threads: int = 1, pages: MappedPages | None = None
) -> NDArray[np.intp]:
    """Return the leaf of each row, given as codes of shape (n_features, n_rows): see `add_tree_to_raw`."""
    node = np.zeros(codes.shape[1])
    numbers = replace(tree, value=np.arange(tree.n_nodes, dtype=np.float64)[:, None])
    add_tree_to_raw(codes, numbers, node, n_threads, pages)
    return node.astype(np.intp)


def leaf_sums(
    leaf: NDArray[np.intp], values: np.ndarray, weight: Array | None, n_nodes: int, copies: Array | None = None
) -> Array:
    """Return the sum of each leaf's values, rounded to 2**-50 of the sum of all absolute values; 0 at other nodes.

    Parameters
    ----------
    leaf : integer array of shape (n_rows,)
        The leaf of each row.
    values : array of shape (n_rows,)
        What is summed.
    weight : float64 array of shape (n_rows,) or None
        What it is multiplied with.
    n_nodes : int
        Number of nodes.
    copies : float64 array of shape (n_rows,) or None
        Whole numbers: each row is, to the bit, so many.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.trees.leaf_sums import leaf_sums
    >>> leaf_sums(np.array([1, 2, 1]), np.array([1.0, 2.0, 4.0]), None, 3)
    array([0., 5., 2.])
    """
    given = values.astype(np.float64) if weight is None else values * weight
    total = float(np.abs(given).sum() if copies is None else np.abs(given) @ copies)
    unit = max(math.ldexp(1.0, math.frexp(total)[1] - 1 - _BITS), math.ulp(0.0))
    units = np.rint(given / unit)
    return np.asarray(np.bincount(leaf, units if copies is None else units * copies, n_nodes) * unit, dtype=np.float64)
