"""A picture of a Bayesian network in layers, its probability tables below the names of the variables."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastens.inspection.boxes import draw_box, measured, set_inches
from fastens.inspection.network_layout import Bends, Layers, Parents, layered, places
from fastens.inspection.plotting import axes

BESIDE, BETWEEN = 0.25, 0.55  # inches between the boxes of a layer, and between layers
FONT, SMALL, PAD = 9.0, 7.0, 0.5  # points, and their share between a text and its box
MONOSPACE = {"family": "monospace"}
ROUNDED = 1.08  # letters of one width are rounded to whole pixels, of which fewer are larger
HEAD = 0.045, 0.11  # inches of an arrow's head: half its width, its length
SPREAD = 0.35  # how far from the middle of a box arrows end, of its width

Point = tuple[float, float]


def plot_network(
    names: Sequence[str],
    parents: Parents,
    highlighted: int | None = None,
    ax: Any = None,
    tables: Sequence[str] | None = None,
) -> Any:
    """Draw a directed acyclic graph, given by the parents of each variable, and return the axes.

    `highlighted` is a variable in another colour, such as the class; `tables` are texts below the names, as of
    `table_text`.
    """
    colours = ["#fde3c0" if node == highlighted else "#dfe9f5" for node in range(len(names))]
    return draw_layers(ax, names, parents, colours, tables=tables)


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

    `parents` are the boxes that edges lead from; `tables` are texts below the names. With `levels`, the layer of each
    box, edges are straight lines; by default boxes stand as high as can be, and edges are arrows.
    """
    is_new, has_arrows = ax is None, levels is None
    ax = axes(ax, figsize=(3, 3))
    titles = measured(ax, list(names), FONT, PAD)
    below = np.zeros((len(names), 2))
    if tables is not None:
        below = measured(ax, list(tables), SMALL, PAD, **MONOSPACE) * [ROUNDED, 1]
    widths = np.maximum(titles[:, 0], below[:, 0])
    layout = _Layout(parents, widths, titles[:, 1] + below[:, 1], levels)
    set_inches(ax, layout.width, layout.height, is_new)
    for node, name in enumerate(names):
        x, top = layout.x[node], layout.top[node]
        middle, size = (x, top - titles[node, 1] / 2), (widths[node], titles[node, 1])
        draw_box(ax, middle, size, name, FONT, zorder=3, facecolor=colours[node])
        if tables is not None:
            middle, size = (x, top - titles[node, 1] - below[node, 1] / 2), (widths[node], below[node, 1])
            draw_box(ax, middle, size, tables[node], SMALL, zorder=3, multialignment="left", **MONOSPACE)
    for child, found in enumerate(parents):
        for parent, way in zip(found, layout.ways(child, found, has_arrows), strict=True):
            _draw_edge(ax, way, f"{names[parent]} -> {names[child]}", has_arrows)
    return ax


class _Layout:
    """Places of boxes in inches, and the ways of edges: down through a layer, aslant between layers alone."""

    def __init__(self, parents: Parents, widths: np.ndarray, heights: np.ndarray, levels: Any) -> None:
        layers, above, self._bends = layered(parents, levels)
        self._widths, self._heights = widths, heights
        x = places(layers, above, (widths + BESIDE).tolist())
        half = np.zeros(len(x))
        half[: len(widths)] = widths / 2
        self.x = x - (x - half).min()
        self.width = float((self.x + half).max())
        self._set_layers(layers)

    def _set_layers(self, layers: Layers) -> None:
        n_variables = len(self._heights)
        tall = [max(self._heights[node] for node in layer if node < n_variables) for layer in layers]
        tops = -np.concatenate([[0.0], np.cumsum(np.array(tall) + BETWEEN)])
        self.height = float(-tops[-1] - BETWEEN)
        self.top, self._bottom = np.zeros(len(self.x)), np.zeros(len(self.x))
        for level, layer in enumerate(layers):
            self.top[layer], self._bottom[layer] = tops[level], tops[level] - tall[level]

    def ways(self, child: int, parents: Sequence[int], are_spread: bool) -> list[list[Point]]:
        """For each parent the points at the ends of the upright parts of its edge."""
        if not parents:
            return []
        bends: Bends = self._bends
        inner = [bends.get((parent, child), []) for parent in parents]
        last = [(found or [parent])[-1] for found, parent in zip(inner, parents, strict=True)]
        order = np.argsort(np.argsort(self.x[last], kind="stable"), kind="stable")
        reach = SPREAD * self._widths[child] * are_spread
        ends = self.x[child] + (np.linspace(-reach, reach, len(parents))[order] if len(parents) > 1 else np.zeros(1))
        found = []
        for parent, between, end in zip(parents, inner, ends, strict=True):
            way = [(self.x[parent], self.top[parent] - self._heights[parent]), (self.x[parent], self._bottom[parent])]
            for bend in between:
                way += [(self.x[bend], self.top[bend]), (self.x[bend], self._bottom[bend])]
            top = self.top[child]
            found.append([*way, (float(end), top + HEAD[1]), (float(end), top)])
        return found


def _draw_edge(ax: Any, way: list[Point], label: str, is_arrow: bool) -> None:
    """A line that leaves each layer upright, and its head; or straight parts without one."""
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
