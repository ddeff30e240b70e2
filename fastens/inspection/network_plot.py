"""Layered plots of Bayesian networks and version spaces."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.inspection.plotting import axes, draw_box, measured, set_inches, shortened

SWEEPS = 12  # passes over the layers, alternating down and up
THIN = 0.3  # width in inches of an edge that passes through a layer

Layers = list[list[int]]
Parents = Sequence[Sequence[int]]
Neighbours = dict[int, list[int]]
Bends = dict[tuple[int, int], list[int]]


def layered(parents: Parents, levels: Sequence[int] | None = None) -> tuple[Layers, Neighbours, Bends]:
    """Return layers of nodes, the nodes above each node, and the bends of each edge, (parent, child).

    Nodes are variables, and bends, at which edges over several layers cross a layer. The order in the layers reduces
    edge crossings. `levels` are the layers of the variables, each below its parents, with no empty layer; by default,
    variables are placed as high as possible.
    """
    depth = _depths(parents) if levels is None else levels
    layers: Layers = [[] for _ in range(max(depth) + 1)]
    for node, level in enumerate(depth):
        layers[level].append(node)
    above: Neighbours = {node: [] for node in range(len(parents))}
    bends: Bends = {}
    for child, child_parents in enumerate(parents):
        for parent in child_parents:
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
    """Return the layer of each variable: below all parents; variables without parents are just above their children."""
    depth = [0] * len(parents)
    for _ in parents:
        deeper = [max((depth[parent] + 1 for parent in child_parents), default=0) for child_parents in parents]
        if deeper == depth:
            break
        depth = deeper
    children = _nodes_below({node: list(node_parents) for node, node_parents in enumerate(parents)})
    for node in sorted(range(len(parents)), key=lambda node: -depth[node]):
        if children[node] and not parents[node]:
            depth[node] = min(depth[child] for child in children[node]) - 1
    return depth


def _nodes_below(above: Neighbours) -> Neighbours:
    """Return the list of nodes below each node, from the list of nodes above each node."""
    below: Neighbours = {node: [] for node in above}
    for node, neighbours in above.items():
        for parent in neighbours:
            below[parent].append(node)
    return below


def _uncrossed(layers: Layers, above: Neighbours) -> Layers:
    """Return the layers with their nodes reordered to reduce edge crossings.

    Each sweep places nodes at the mean position of their neighbours; the order with the fewest crossings is returned.
    """
    below = _nodes_below(above)
    best, fewest = layers, _crossings(layers, above)
    for sweep in range(SWEEPS):
        neighbours = below if sweep % 2 else above
        order = range(len(layers) - 2, -1, -1) if sweep % 2 else range(1, len(layers))
        layers = [list(layer) for layer in layers]
        for level in order:
            fixed = layers[level + 1 if sweep % 2 else level - 1]
            rank = {node: index for index, node in enumerate(fixed)}
            means = {
                node: float(np.mean([rank[other] for other in neighbours[node]])) if neighbours[node] else float(index)
                for index, node in enumerate(layers[level])
            }
            layers[level] = sorted(layers[level], key=means.__getitem__)
        crossings = _crossings(layers, above)
        if crossings < fewest:
            best, fewest = layers, crossings
    return best


def _crossings(layers: Layers, above: Neighbours) -> int:
    """Return the number of pairs of edges that cross between adjacent layers."""
    total = 0
    for upper, lower in itertools.pairwise(layers):
        rank = {node: index for index, node in enumerate(upper)}
        ends = [rank[other] for node in lower for other in sorted(above[node], key=rank.__getitem__)]
        total += sum(one > other for index, one in enumerate(ends) for other in ends[index + 1 :])
    return total


def horizontal_positions(layers: Layers, above: Neighbours, widths: list[float]) -> NDArray[np.float64]:
    """Return x coordinates of variables and bends, near the mean of their neighbours and without overlap.

    `layers` and `above` are from `layered`; `widths` are the widths of the variables, including spacing.
    """
    from scipy.optimize import isotonic_regression

    below = _nodes_below(above)
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
            x[layer] = offsets[level] + isotonic_regression(wanted - offsets[level]).x
    return x


BESIDE, BETWEEN = 0.25, 0.55  # inches between the boxes of a layer, and between layers
FONT, SMALL, PAD = 9.0, 7.0, 0.5  # font sizes in points, and padding of a box relative to the font size
MONOSPACE = {"family": "monospace"}
PLAIN, HIGHLIGHTED = "#dfe9f5", "#fde3c0"  # fill colours of boxes
ROUNDED = 1.08  # monospace letters are rounded to whole pixels, which has a larger effect at low resolution
HEAD = 0.045, 0.11  # half width and length of an arrow head in inches
SPREAD = 0.35  # maximum distance of arrow ends from the middle of a box, relative to its width

Point = tuple[float, float]


def draw_layers(
    ax: Any,
    names: Sequence[str],
    parents: Parents,
    colours: Sequence[Any],
    *,
    tables: Sequence[str] | None = None,
    levels: Sequence[int] | None = None,
) -> Any:
    """Draw boxes in layers and the edges between them, and return the axes.

    `parents` are the boxes at which edges start, and `tables` are texts below the names. With `levels`, the layer of
    each box, edges are straight lines; by default, boxes are placed as high as possible, and edges are arrows.
    """
    is_new, has_arrows = ax is None, levels is None
    ax = axes(ax, figsize=(3, 3))
    titles = measured(ax, list(names), FONT, PAD)
    below = np.zeros((len(names), 2))
    if tables is not None:
        below = measured(ax, list(tables), SMALL, PAD, **MONOSPACE) * [ROUNDED, 1]
    widths = np.maximum(titles[:, 0], below[:, 0])
    layout = _NetworkLayout(parents, widths, titles[:, 1] + below[:, 1], levels)
    set_inches(ax, layout.width, layout.height, is_new)
    for node, name in enumerate(names):
        x, top = layout.x[node], layout.top[node]
        middle, size = (x, top - titles[node, 1] / 2), (widths[node], titles[node, 1])
        draw_box(ax, middle, size, name, FONT, zorder=3, facecolor=colours[node])
        if tables is not None:
            middle, size = (x, top - titles[node, 1] - below[node, 1] / 2), (widths[node], below[node, 1])
            draw_box(ax, middle, size, tables[node], SMALL, zorder=3, multialignment="left", **MONOSPACE)
    for child, child_parents in enumerate(parents):
        for parent, way in zip(child_parents, layout.ways(child, child_parents, has_arrows), strict=True):
            _draw_edge(ax, way, f"{names[parent]} -> {names[child]}", has_arrows)
    return ax


class _NetworkLayout:
    """Positions of boxes in inches, and edge paths that are vertical within layers and slanted only between them."""

    def __init__(self, parents: Parents, widths: np.ndarray, heights: np.ndarray, levels: Any) -> None:
        layers, above, self._bends = layered(parents, levels)
        self._widths, self._heights = widths, heights
        x = horizontal_positions(layers, above, (widths + BESIDE).tolist())
        half = np.zeros(len(x))
        half[: len(widths)] = widths / 2
        self.x = x - (x - half).min()
        self.width = float((self.x + half).max())
        self._set_layers(layers)

    def _set_layers(self, layers: Layers) -> None:
        """Set the top and the bottom of all nodes, layer by layer; a layer is as tall as its tallest box."""
        n_variables = len(self._heights)
        tall = [max(self._heights[node] for node in layer if node < n_variables) for layer in layers]
        tops = -np.concatenate([[0.0], np.cumsum(np.array(tall) + BETWEEN)])
        self.height = float(-tops[-1] - BETWEEN)
        self.top, self._bottom = np.zeros(len(self.x)), np.zeros(len(self.x))
        for level, layer in enumerate(layers):
            self.top[layer], self._bottom[layer] = tops[level], tops[level] - tall[level]

    def ways(self, child: int, parents: Sequence[int], are_spread: bool) -> list[list[Point]]:
        """Return, for each parent of a child, the points of its edge, which `_draw_edge` connects from top to bottom.

        If `are_spread`, the edges end at different points of the child's upper side, otherwise in its middle.
        """
        if not parents:
            return []
        bends: Bends = self._bends
        inner = [bends.get((parent, child), []) for parent in parents]
        last = [(points or [parent])[-1] for points, parent in zip(inner, parents, strict=True)]
        order = np.argsort(np.argsort(self.x[last], kind="stable"), kind="stable")
        reach = SPREAD * self._widths[child] * are_spread
        ends = self.x[child] + (np.linspace(-reach, reach, len(parents))[order] if len(parents) > 1 else np.zeros(1))
        ways = []
        for parent, between, end in zip(parents, inner, ends, strict=True):
            way = [(self.x[parent], self.top[parent] - self._heights[parent]), (self.x[parent], self._bottom[parent])]
            for bend in between:
                way += [(self.x[bend], self.top[bend]), (self.x[bend], self._bottom[bend])]
            top = self.top[child]
            ways.append([*way, (float(end), top + HEAD[1]), (float(end), top)])
        return ways


def _draw_edge(ax: Any, way: list[Point], label: str, is_arrow: bool) -> None:
    """Draw the edge through the points `way`, which `_NetworkLayout.ways` returns; `label` is not displayed.

    If `is_arrow`, it is a curve with an arrow head, otherwise straight segments.
    """
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path

    corners, codes = [way[0]], [Path.MOVETO]
    line = way[:-1] if is_arrow else [*way[:-2], way[-1]]
    for step, (start, end) in enumerate(itertools.pairwise(line)):
        if step % 2 == 0 or not is_arrow:
            corners, codes = [*corners, end], [*codes, Path.LINETO]
        else:
            middle = (start[1] + end[1]) / 2
            corners += [(start[0], middle), (end[0], middle), end]
            codes += [Path.CURVE4] * 3
    colour = "0.45"
    ax.add_patch(PathPatch(Path(corners, codes), fill=False, edgecolor=colour, linewidth=0.9, zorder=2, label=label))
    if is_arrow:
        (x, low), (half, length) = way[-1], HEAD
        corners = [(x - half, low + length), (x + half, low + length), (x, low)]
        ax.add_patch(Polygon(corners, color=colour, linewidth=0, zorder=2))


LINE = 36  # characters
LONGEST = 240
MAX_GENERAL = 8
LATTICE_FONT, LATTICE_GAP = 8.0, 0.2  # font size of the title in points; its margin in inches
COLOURS = {"S": "#d5ecd4", "G": PLAIN, "S = G": HIGHLIGHTED, "": "white"}


def plot_lattice(
    specific: Sequence[Any], general: Sequence[Any], between: Sequence[Any], *, title: str = "", ax: Any = None
) -> Any:
    """Plot S, G and the hypotheses between them in the order of generality, and return the axes.

    A line joins two hypotheses if the upper one is more general and none lies between them. Hypotheses are compared
    with ``>=``, more general than or equal to, and their length is the number of their constraints.
    """
    members = list(dict.fromkeys([*general, *between, *specific]))
    roles = [_role(member in specific, member in general) for member in members]
    names = [_named(member, role) for member, role in zip(members, roles, strict=True)]
    drawn = draw_layers(ax, names, _uppers(members), [COLOURS[role] for role in roles], levels=_levels(members))
    return _titled(drawn, title, ax is None)


def plot_boundaries(
    specific: Sequence[Any], general: Sequence[Any], n_between: int, *, title: str = "", ax: Any = None
) -> Any:
    """Plot only S and G, with a box for the `n_between` other hypotheses, and return the axes.

    If G is large, `general` holds its first hypotheses; `title` and `ax` are as in `plot_lattice`.
    """
    shown = general[:MAX_GENERAL]
    names = [_named(member, "G") for member in shown]
    if len(general) > len(shown):
        names.append(f"... {len(general) - len(shown):,} more of G")
    n_upper = len(names)
    names += [f"... {n_between:,} between ...", *(_named(member, "S") for member in specific)]
    parents: list[list[int]] = [[] for _ in range(n_upper)] + [list(range(n_upper))] + [[n_upper]] * len(specific)
    colours = [COLOURS["G"]] * n_upper + [COLOURS[""]] + [COLOURS["S"]] * len(specific)
    return _titled(draw_layers(ax, names, parents, colours), title, ax is None)


def _titled(ax: Any, title: str, is_new: bool) -> Any:
    """Add a title to the axes, enlarge their figure for it if `is_new`, and return the axes."""
    (size,) = measured(ax, [title], LATTICE_FONT, 0.0)
    if is_new:
        width, height = ax.figure.get_size_inches()
        ax.figure.set_size_inches(max(width, size[0] + LATTICE_GAP), height + size[1] + LATTICE_GAP)
    ax.set_title(title, fontsize=LATTICE_FONT, parse_math=False)
    return ax


def _role(is_specific: bool, is_general: bool) -> str:
    """Return "S", "G" or "S = G" for a hypothesis in these boundaries, or "" for others."""
    return " = ".join(letter for letter, holds in (("S", is_specific), ("G", is_general)) if holds)


def _named(member: Any, role: str) -> str:
    """Return a hypothesis as wrapped text, preceded by its role unless this is empty."""
    text = shortened(repr(member), LONGEST)
    return "\n".join(textwrap.wrap(f"{role}: {text}" if role else text, LINE))


def _uppers(members: Sequence[Any]) -> list[list[int]]:
    """Return, for each hypothesis, the indices of the least general hypotheses that are more general than it."""
    uppers = []
    for member in members:
        above = [k for k, other in enumerate(members) if other > member]
        uppers.append([k for k in above if not any(members[k] > members[other] for other in above)])
    return uppers


def _levels(members: Sequence[Any]) -> list[int]:
    """Return the layer of each hypothesis, 0 for the fewest constraints.

    The hypothesis that covers nothing has the last layer.
    """
    lowest = max(map(len, members)) + 1
    sizes = [lowest if member.values is None else len(member) for member in members]
    order = {size: level for level, size in enumerate(sorted(set(sizes)))}
    return [order[size] for size in sizes]
