"""A picture of a directed graph in layers: parents above children, edges bent round what stands between."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from fastens.inspection.plotting import axes

COLUMN, LEVEL = 1.35, 1.0  # inches of the figure for each place of the widest layer, and for each layer
SWEEPS = 12  # over the layers, down and up
LETTERS = 11  # of a name that fit the place of a variable
THIN = 0.45  # width of the place of an edge that passes through a layer, where that of a variable is 1

Layers = list[list[int]]
Parents = Sequence[Sequence[int]]
Neighbours = dict[int, list[int]]


def plot_network(names: Sequence[str], parents: Parents, highlighted: int | None = None, ax: Any = None) -> Any:
    """Draw a directed acyclic graph and return the axes.

    Parameters
    ----------
    names : sequence of str
        Names of the variables.
    parents : sequence of sequences of int
        Parents of each variable.
    highlighted : int, optional
        A variable in another colour, such as the class.
    ax : matplotlib Axes, optional
        Where to draw; default: a new figure, large enough.
    """
    layers, above, bends = _layered(parents)
    x, y = _places(layers, above, [max(1.0, len(name) / LETTERS) for name in names])
    width = max(x) - min(x) + 1
    ax = axes(ax, figsize=(max(3.0, COLUMN * width), max(1.8, LEVEL * len(layers))))
    ax.set_axis_off()
    ax.set_xlim(min(x) - 0.6, max(x) + 0.6)
    ax.set_ylim(-len(layers) + 0.45, 0.55)
    boxes = [
        ax.text(
            x[node],
            y[node],
            name,
            ha="center",
            va="center",
            fontsize=9,
            zorder=3,
            bbox={
                "boxstyle": "round,pad=0.4,rounding_size=0.8",
                "facecolor": "#fde3c0" if node == highlighted else "#dfe9f5",
                "edgecolor": "0.35",
                "linewidth": 0.8,
            },
        )
        for node, name in enumerate(names)
    ]
    for child, found in enumerate(parents):
        for parent in found:
            way = [parent, *bends.get((parent, child), []), child]
            _draw_edge(ax, [(x[node], y[node]) for node in way], boxes[child])
    return ax


def _draw_edge(ax: Any, points: list[tuple[float, float]], end: Any) -> None:
    """A smooth line through points, its arrow at the edge of the box where it ends; that where it starts hides it."""
    from matplotlib.patches import FancyArrowPatch

    way: Any = _Way(ax, points)
    ax.add_patch(
        FancyArrowPatch(
            points[0],
            points[-1],
            connectionstyle=way,
            patchB=end.get_bbox_patch(),
            arrowstyle="-|>",
            mutation_scale=10,
            color="0.45",
            linewidth=0.9,
            zorder=2,
        )
    )


class _Way:
    """A line through points, cut where it comes to a box: made when drawn, since the size of boxes is known then."""

    def __init__(self, ax: Any, points: list[tuple[float, float]]) -> None:
        self._ax, self._points = ax, points

    def __call__(self, *ends: Any, patchB: Any, **shrink: Any) -> Any:
        from matplotlib.bezier import split_path_inout
        from matplotlib.path import Path

        points = self._ax.transData.transform(self._points)
        # Catmull-Rom: at each point the direction from the one before to the one after.
        ways = np.gradient(points, axis=0) / 3
        corners = np.stack([points[:-1] + ways[:-1], points[1:] - ways[1:], points[1:]], axis=1).reshape(-1, 2)
        whole = Path(np.vstack([points[:1], corners]), [Path.MOVETO] + [Path.CURVE4] * len(corners))
        try:
            return split_path_inout(whole, lambda at: patchB.contains(SimpleNamespace(x=at[0], y=at[1]))[0])[0]
        except ValueError:  # both ends within the box, in a figure made very small
            return whole


# Layout --------------------------------------------------


def _layered(parents: Parents) -> tuple[Layers, Neighbours, dict[tuple[int, int], list[int]]]:
    """Layers of variables and of the bends of long edges, few edges crossing; what is above each; each edge's bends."""
    depth = _depths(parents)
    layers: Layers = [[] for _ in range(max(depth) + 1)]
    for node, level in enumerate(depth):
        layers[level].append(node)
    above: Neighbours = {node: [] for node in range(len(parents))}
    bends: dict[tuple[int, int], list[int]] = {}
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


def _places(layers: Layers, above: Neighbours, widths: list[float]) -> tuple[list[float], list[float]]:
    """Coordinates of variables and bends: each near the mean of its neighbours, none closer than they are wide."""
    below = _turned(above)
    width = np.array(widths + [THIN] * (len(above) - len(widths)))
    x, y = np.zeros(len(above)), np.zeros(len(above))
    offsets = []
    for level, layer in enumerate(layers):
        gaps = (width[layer][1:] + width[layer][:-1]) / 2
        offsets.append(np.concatenate([[0.0], np.cumsum(gaps)]))
        x[layer] = offsets[-1] - offsets[-1][-1] / 2
        y[layer] = -level
    for sweep in range(2 * SWEEPS):
        order = range(len(layers) - 1, -1, -1) if sweep % 2 else range(len(layers))
        for level in order:
            layer = layers[level]
            wanted = np.array([np.mean(x[above[node] + below[node] or [node]]) for node in layer])
            x[layer] = offsets[level] + _nearest_rising(wanted - offsets[level])
    return x.tolist(), y.tolist()


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
