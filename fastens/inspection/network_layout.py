"""The layout of a directed graph in layers: parents above children, edges bent round what stands between."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SWEEPS = 12  # over the layers, down and up
THIN = 0.3  # inches of the place of an edge that passes through a layer

Layers = list[list[int]]
Parents = Sequence[Sequence[int]]
Neighbours = dict[int, list[int]]
Bends = dict[tuple[int, int], list[int]]


def layered(parents: Parents, levels: Sequence[int] | None = None) -> tuple[Layers, Neighbours, Bends]:
    """Return layers of variables and of the bends of long edges, what is above each, and each edge's bends.

    Few edges cross. `levels` are the layers of the variables, below those of their parents, none empty; by default as
    high as can be.
    """
    depth = _depths(parents) if levels is None else levels
    layers: Layers = [[] for _ in range(max(depth) + 1)]
    for node, level in enumerate(depth):
        layers[level].append(node)
    above: Neighbours = {node: [] for node in range(len(parents))}
    bends: Bends = {}
    for child, found in enumerate(parents):
        for parent in found:
            before = parent
            for level in range(depth[parent] + 1, depth[child]):
                bend = len(above)
                above[bend] = [before]
                layers[level].append(bend)
                bends.setdefault((parent, child), []).append(bend)
                before = bend
            above[child].append(before)
    return _uncrossed(layers, above), above, bends


def _depths(parents: Parents) -> list[int]:
    """The layer of each variable: below all of its parents, and no higher above its children than it must be."""
    depth = [0] * len(parents)
    for _ in parents:
        deeper = [max((depth[parent] + 1 for parent in found), default=0) for found in parents]
        if deeper == depth:
            break
        depth = deeper
    children: list[list[int]] = [[] for _ in parents]
    for child, found in enumerate(parents):
        for parent in found:
            children[parent].append(child)
    for node in sorted(range(len(parents)), key=lambda node: -depth[node]):
        if children[node] and not parents[node]:
            depth[node] = min(depth[child] for child in children[node]) - 1
    return depth


def _turned(above: Neighbours) -> Neighbours:
    below: Neighbours = {node: [] for node in above}
    for node, found in above.items():
        for parent in found:
            below[parent].append(node)
    return below


def _uncrossed(layers: Layers, above: Neighbours) -> Layers:
    """The order within layers with the fewest crossings found, each node at the mean place of its neighbours."""
    below = _turned(above)
    best, fewest = layers, _crossings(layers, above)
    for sweep in range(SWEEPS):
        neighbours = below if sweep % 2 else above
        order = range(len(layers) - 2, -1, -1) if sweep % 2 else range(1, len(layers))
        layers = [list(layer) for layer in layers]
        for level in order:
            fixed = layers[level + 1 if sweep % 2 else level - 1]
            place = {node: index for index, node in enumerate(fixed)}
            means = {
                node: float(np.mean([place[other] for other in neighbours[node]])) if neighbours[node] else float(index)
                for index, node in enumerate(layers[level])
            }
            layers[level] = sorted(layers[level], key=means.__getitem__)
        found = _crossings(layers, above)
        if found < fewest:
            best, fewest = layers, found
    return best


def _crossings(layers: Layers, above: Neighbours) -> int:
    """Pairs of edges that cross."""
    total = 0
    for upper, lower in itertools.pairwise(layers):
        place = {node: index for index, node in enumerate(upper)}
        ends = [place[other] for node in lower for other in sorted(above[node], key=place.__getitem__)]
        total += sum(one > other for index, one in enumerate(ends) for other in ends[index + 1 :])
    return total


def places(layers: Layers, above: Neighbours, widths: list[float]) -> NDArray[np.float64]:
    """Return where variables and bends stand: near the mean of their neighbours, none closer than they are wide.

    `layers` and `above` are from `layered`; `widths` are those of the variables, with the space beside them.
    """
    below = _turned(above)
    width = np.array(widths + [THIN] * (len(above) - len(widths)))
    x = np.zeros(len(above))
    offsets = []
    for layer in layers:
        gaps = (width[layer][1:] + width[layer][:-1]) / 2
        offsets.append(np.concatenate([[0.0], np.cumsum(gaps)]))
        x[layer] = offsets[-1] - offsets[-1][-1] / 2
    for sweep in range(2 * SWEEPS):
        order = range(len(layers) - 1, -1, -1) if sweep % 2 else range(len(layers))
        for level in order:
            layer = layers[level]
            wanted = np.array([np.mean(x[above[node] + below[node] or [node]]) for node in layer])
            x[layer] = offsets[level] + _nearest_rising(wanted - offsets[level])
    return x


def _nearest_rising(values: np.ndarray) -> np.ndarray:
    """The sequence that does not fall and is closest to the values in squares: neighbours that fall are averaged."""
    means: list[float] = []
    counts: list[int] = []
    for value in values.tolist():
        means.append(value)
        counts.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            count = counts.pop()
            mean = means.pop()
            means[-1] = (means[-1] * counts[-1] + mean * count) / (counts[-1] + count)
            counts[-1] += count
    return np.repeat(means, counts)
