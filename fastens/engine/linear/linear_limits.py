"""Linear models in leaves that keep to the limits of their tree: monotone, and not too large."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fastens.engine.linear.linear_leaves import LinearLeaves
    from fastens.engine.trees.trees import Tree

Array = NDArray[np.float64]
# Of the room that lines have, what rounding cannot make them leave.
_SAFE = 1 - 2.0**-30


def lines_within_limits(
    tree: Tree, linear: LinearLeaves, monotone: NDArray[np.int8] | None, most: float
) -> LinearLeaves:
    """Return models made flatter, leaf by leaf, until their predictions keep within the bounds of the leaf.

    With slopes of the right signs predictions are monotone then: on both sides of a split on a constrained feature all
    leaves keep to their side of one number, whatever the row has in other features.

    Parameters
    ----------
    tree : Tree
        The tree; the values of its leaves are within their limits.
    linear : LinearLeaves
        Its models, whose slopes have the signs of `monotone`.
    monotone : int8 array of shape (n_features,) or None
        1, -1 or 0.
    most : float
        Largest absolute value.
    """
    lower, upper = bounds_of_nodes(tree, monotone, most)
    value, n_nodes = tree.value[:, 0], linear.n_nodes
    ends = np.stack([linear.slopes * linear.lower, linear.slopes * linear.upper]) - linear.at_means
    rise, fall = (np.bincount(linear.nodes, way, n_nodes) for way in (ends.max(axis=0), -ends.min(axis=0)))
    factor = np.ones(n_nodes)
    for way, apart in ((rise, upper - value), (fall, value - lower)):
        room = _SAFE * np.maximum(apart, 0.0)
        np.minimum(factor, np.divide(room, way, out=np.ones(n_nodes), where=way > room), out=factor)
    flatter = linear.times(factor)
    terms = np.stack([flatter.slopes, flatter.lower, flatter.upper, flatter.at_means])
    return linear.of_terms(flatter.nodes, flatter.features, terms, n_nodes)


def bounds_of_nodes(tree: Tree, monotone: NDArray[np.int8] | None, most: float) -> tuple[Array, Array]:
    """Return the bounds of each node's predictions.

    A split on a constrained feature has a number halfway between the leaves of its sides, which none of them passes.

    Parameters
    ----------
    tree, monotone, most
        As for `lines_within_limits`.
    """
    smallest, largest = tree.value[:, 0].copy(), tree.value[:, 0].copy()
    lower, upper = np.full(tree.n_nodes, -most), np.full(tree.n_nodes, most)
    if monotone is None:
        return lower, upper
    inner = np.flatnonzero(tree.left_child).tolist()
    for node in reversed(inner):
        children = slice(tree.left_child[node], tree.left_child[node] + 2)
        smallest[node], largest[node] = smallest[children].min(), largest[children].max()
    for node in inner:
        left, sign = tree.left_child[node], monotone[tree.feature[node]]
        lower[left : left + 2], upper[left : left + 2] = lower[node], upper[node]
        if sign:
            below, above = (left, left + 1) if sign > 0 else (left + 1, left)
            cut = (largest[below] + smallest[above]) / 2
            upper[below], lower[above] = min(upper[node], cut), max(lower[node], cut)
    return lower, upper
