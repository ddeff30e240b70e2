"""Trees of one value each that have the same splits, as trees with a value for each output."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.exchange.reading.records import FlatTrees

_NONE = np.full(1, -1)


def with_vectors(trees: FlatTrees, n_outputs: int) -> FlatTrees | None:
    """Return trees with a value for each output, of those that follow each other with the same splits.

    Parameters
    ----------
    trees : FlatTrees
        Trees of one value, one output after the other in each round.
    n_outputs : int
        How many there are.

    Returns
    -------
    FlatTrees, or None where the trees of a round differ.
    """
    n_trees = len(trees.roots)
    ends = np.append(trees.roots[1:], len(trees.left))
    sizes = (ends - trees.roots).reshape(-1, n_outputs) if n_trees % n_outputs == 0 else np.zeros((1, 2))
    if (sizes != sizes[:, :1]).any() or (trees.output != np.arange(n_trees) % n_outputs).any() or trees.lines:
        return None
    shift = np.repeat(trees.roots, ends - trees.roots)
    children = [np.where(child < 0, -1, child - shift) for child in (trees.left, trees.right)]
    number = np.arange(len(trees.left))
    own = [
        np.concatenate([number[a:b] for a, b in zip(trees.roots[k::n_outputs], ends[k::n_outputs], strict=True)])
        for k in range(n_outputs)
    ]
    arrays = [*children, trees.feature, trees.threshold, trees.missing_left]
    if not all(_are_same(arrays, trees, own[0], nodes) for nodes in own[1:]):
        return None
    return _joined(trees, own)


def _are_same(
    arrays: list[NDArray[np.generic]], trees: FlatTrees, one: NDArray[np.int64], other: NDArray[np.int64]
) -> bool:
    """Whether nodes have the same splits."""
    if not all(np.array_equal(array[one], array[other]) for array in arrays):
        return False
    pairs = zip(one.tolist(), other.tolist(), strict=True) if trees.sets else ()
    return all(np.array_equal(trees.sets.get(a, _NONE), trees.sets.get(b, _NONE)) for a, b in pairs)


def _joined(trees: FlatTrees, own: list[NDArray[np.int64]]) -> FlatTrees:
    """The trees of the first output, with the values of all; `own` are the nodes of each output."""
    first, place = own[0], np.full(len(trees.left), -1)
    place[first] = np.arange(len(first))
    roots = place[trees.roots]
    left, right = (np.where(child < 0, -1, place[child])[first] for child in (trees.left, trees.right))
    return FlatTrees(
        roots=roots[roots >= 0],
        left=left,
        right=right,
        feature=trees.feature[first],
        threshold=trees.threshold[first],
        missing_left=trees.missing_left[first],
        value=np.column_stack([trees.value[nodes, 0] for nodes in own]),
        output=np.zeros(len(trees.roots) // len(own), dtype=np.int64),
        weight=None if trees.weight is None else trees.weight[first],
        gain=None if trees.gain is None else trees.gain[first],
        n_samples=None if trees.n_samples is None else trees.n_samples[first],
        sets={int(place[node]): positions for node, positions in trees.sets.items() if place[node] >= 0},
    )
