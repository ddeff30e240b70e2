"""A picture of a tree: a box for each node, its condition on the way down."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.trees.trees import TreeEnsemble
from fastens.inspection.arguments import DECIMALS, DEPTH
from fastens.inspection.boxes import draw_box, measured, set_inches
from fastens.inspection.plotting import axes, shortened
from fastens.inspection.tree_text import Names, leaf_text, split_at

BESIDE, BETWEEN = 0.16, 0.4  # inches between boxes of one level, and between levels
FONT, PAD = 8, 0.35  # points, and their share between a text and its box
LABEL = 0.22, 0.13  # inches of "yes" and "no"
LINE = 30  # characters
LONGEST_WORD = 48


def plot_tree(
    trees: TreeEnsemble,
    tree: int = 0,
    names: Names = Names(),  # noqa: B008
    max_depth: int | None = 3,
    decimals: int = 2,
    ax: Any = None,
) -> Any:
    """Draw a tree, down to `max_depth`, and return the axes; a new figure is large enough for its boxes."""
    DEPTH.check("max_depth", max_depth)
    DECIMALS.check("decimals", decimals)
    root = int(trees.node_offsets[tree])
    children = _drawn_children(trees, root, max_depth)
    nodes = np.array(list(children))
    # Boosting with a loss that renews leaves has values at leaves alone.
    has_inner_values = bool(trees.value[nodes[trees.left_child[nodes] > 0]].any())
    texts = [_box_text(trees, node, names, decimals, bool(children[node]), has_inner_values) for node in children]
    is_new = ax is None
    ax = axes(ax, figsize=(3, 3))
    sizes = dict(zip(children, measured(ax, texts, FONT, PAD), strict=True))
    layout = _Layout(children, sizes)
    set_inches(ax, layout.width, layout.height, is_new)
    colours = _colours(trees, nodes)
    for node, text in zip(children, texts, strict=True):
        draw_box(ax, layout.middle(node), sizes[node], text, FONT, facecolor=colours[node])
        for child, label in zip(children[node], ("yes", "no"), strict=False):
            _draw_branch(ax, layout, node, child, label)
    return ax


def _draw_branch(ax: Any, layout: _Layout, node: int, child: int, label: str) -> None:
    """A line that is slanted between the levels alone, where no box is."""
    (x, top), (end, low) = layout.middle(node), layout.middle(child)
    bottom = -layout.tops[layout.depth[child]]
    ax.plot([x, x, end, end], [top, bottom + BETWEEN, bottom, low], color="0.55", linewidth=0.9, zorder=1)
    middle = (x + end) / 2, bottom + BETWEEN / 2
    draw_box(ax, middle, LABEL, label, FONT - 1, color="0.3", zorder=1.5, edgecolor="none")


class _Layout:
    """Places in inches: a parent above the middle of its children, boxes of a level as close as they can be.

    Subtrees are moved apart until on every level the right side of the one is left of the left side of the other
    (Reingold & Tilford 1981, "Tidier drawings of trees").
    """

    def __init__(self, children: dict[int, list[int]], sizes: dict[int, NDArray[np.float64]]) -> None:
        order = list(children)
        self._sizes = sizes
        self.depth = {order[0]: 0}
        for node in order:
            for child in children[node]:
                self.depth[child] = self.depth[node] + 1
        heights = np.zeros(1 + max(self.depth.values()))
        for node in order:
            heights[self.depth[node]] = max(heights[self.depth[node]], sizes[node][1])
        self.tops = np.concatenate([[0.0], np.cumsum(heights + BETWEEN)])
        self.height = float(self.tops[-1] - BETWEEN)
        shift = self._shifts(order, children)
        self._x = {order[0]: 0.0}
        for node in order:
            for child in children[node]:
                self._x[child] = self._x[node] + shift[child]
        left = min(self._x[node] - sizes[node][0] / 2 for node in order)
        self._x = {node: x - left for node, x in self._x.items()}
        self.width = float(max(self._x[node] + sizes[node][0] / 2 for node in order))

    def _shifts(self, order: list[int], children: dict[int, list[int]]) -> dict[int, float]:
        """How far each child is to the right of its parent."""
        shift: dict[int, float] = {}
        sides: dict[int, NDArray[np.float64]] = {}  # left and right ends of each level below a node, seen from it
        for node in reversed(order):
            half = self._sizes[node][0] / 2
            below = np.empty((2, 0))
            if children[node]:
                first, second = (sides.pop(child) for child in children[node])
                common = min(first.shape[1], second.shape[1])
                apart = float((first[1, :common] - second[0, :common]).max()) + BESIDE
                shift |= dict(zip(children[node], (-apart / 2, apart / 2), strict=True))
                longer = (first - apart / 2) if first.shape[1] > common else (second + apart / 2)
                below = longer.copy()
                below[0, :common], below[1, :common] = first[0, :common] - apart / 2, second[1, :common] + apart / 2
            sides[node] = np.concatenate([[[-half], [half]], below], axis=1)
        return shift

    def middle(self, node: int) -> tuple[float, float]:
        """Where a box stands: at the top of its level."""
        return self._x[node], float(-self.tops[self.depth[node]] - self._sizes[node][1] / 2)


def _drawn_children(trees: TreeEnsemble, root: int, max_depth: int | None) -> dict[int, list[int]]:
    """The nodes that are drawn, level by level, and the children of each."""
    children: dict[int, list[int]] = {}
    level, depth = [root], 0
    while level:
        ends = max_depth is not None and depth >= max_depth
        for node in level:
            left = root + int(trees.left_child[node])
            children[node] = [] if ends or not trees.left_child[node] else [left, left + 1]
        level, depth = [child for node in level for child in children[node]], depth + 1
    return children


def _box_text(
    trees: TreeEnsemble, node: int, names: Names, decimals: int, is_drawn: bool, has_inner_values: bool
) -> str:
    lines = []
    if trees.left_child[node]:
        condition = split_at(trees, node, names).side(True, decimals) + "?"
        lines += _wrapped(condition if is_drawn else f"({condition}\u00a0...)")
    if has_inner_values or not trees.left_child[node]:
        text = leaf_text(trees, node, names, decimals)
        lines += _wrapped(text)
    lines.append(f"{int(trees.n_samples[node]):,} rows")
    return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= LINE:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + shortened(word, LONGEST_WORD)
    return lines


def _colours(trees: TreeEnsemble, nodes: np.ndarray) -> dict[int, Any]:
    """By the value, from low to high; by the largest of several, the stronger the larger it is."""
    from matplotlib import colormaps

    value = trees.value[nodes].astype(np.float64)
    if value.shape[1] == 1:
        low, high = value.min(), value.max()
        share = (value[:, 0] - low) / (high - low if high > low else 1.0)
        found = colormaps["RdYlBu_r"](0.2 + 0.6 * share)
    else:
        best = value.argmax(axis=1)
        total = np.abs(value).sum(axis=1)
        strength = np.abs(value[np.arange(len(best)), best]) / np.where(total > 0, total, 1.0)
        hue = colormaps["tab10"](best % 10)
        found = 1 - (1 - hue) * (0.15 + 0.45 * strength[:, None])
        found[:, 3] = 1
    return {int(node): tuple(colour) for node, colour in zip(nodes, found, strict=True)}
