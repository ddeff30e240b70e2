"""A picture of a tree: a box for each node, its condition on the way down."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastens.engine.trees import TreeEnsemble
from fastens.inspection.plotting import axes
from fastens.inspection.tree_text import Names, leaf_text, split_at

BOX_WIDTH, BOX_HEIGHT = 2.1, 1.35  # inches of the figure for each leaf and each level


def plot_tree(
    trees: TreeEnsemble,
    tree: int = 0,
    names: Names = Names(),  # noqa: B008
    max_depth: int | None = 3,
    decimals: int = 2,
    ax: Any = None,
) -> Any:
    """Draw a tree and return the axes.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    tree : int
        Which one.
    names : Names
        Of columns, categories and classes.
    max_depth : int or None
        Draw down to this depth; None for all of it.
    decimals : int
        Of thresholds and values.
    ax : matplotlib Axes, optional
        Where to draw; default: a new figure, large enough for its boxes.
    """
    root = int(trees.node_offsets[tree])
    place = _places(trees, root, max_depth)
    n_columns = 1 + max(x for x, _ in place.values())
    n_levels = 1 + max(depth for _, depth in place.values())
    ax = axes(ax, figsize=(max(3.0, BOX_WIDTH * n_columns), max(1.5, BOX_HEIGHT * n_levels)))
    ax.set_axis_off()
    ax.set_xlim(-0.55, n_columns - 0.45)
    ax.set_ylim(-(n_levels - 1) - 0.5, 0.5)
    nodes = np.array(list(place))
    colour = _colours(trees, nodes)
    # Boosting with a loss that renews leaves has values at leaves alone.
    has_inner_values = bool(trees.value[nodes[trees.left_child[nodes] > 0]].any())
    for node, (x, depth) in place.items():
        is_drawn = root + int(trees.left_child[node]) in place and trees.left_child[node] > 0
        ax.text(
            x,
            -depth,
            _box_text(trees, node, names, decimals, is_drawn, has_inner_values),
            ha="center",
            va="center",
            fontsize=8,
            zorder=2,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": colour[node], "edgecolor": "0.35", "linewidth": 0.8},
        )
        if is_drawn:
            left = root + int(trees.left_child[node])
            for child, answer in ((left, "yes"), (left + 1, "no")):
                _draw_branch(ax, (x, -depth), (place[child][0], -place[child][1]), answer)
    return ax


def _draw_branch(ax: Any, start: tuple[float, float], end: tuple[float, float], answer: str) -> None:
    ax.plot(*zip(start, end, strict=True), color="0.55", linewidth=0.9, zorder=1)
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    ax.text(*middle, answer, ha="center", va="center", fontsize=7, color="0.3", zorder=1.5, bbox=_PLAIN)


_PLAIN = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}


def _places(trees: TreeEnsemble, root: int, max_depth: int | None) -> dict[int, tuple[float, int]]:
    """Where nodes stand: those that end a way one beside the other, a parent above the middle of its children."""
    depth_of, order = {root: 0}, [root]
    for node in order:
        if trees.left_child[node] and (max_depth is None or depth_of[node] < max_depth):
            for child in root + int(trees.left_child[node]) + np.arange(2):
                depth_of[int(child)] = depth_of[node] + 1
                order.append(int(child))
    x: dict[int, float] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        left = root + int(trees.left_child[node])
        if trees.left_child[node] and left in depth_of:
            waiting += [left + 1, left]
        else:
            x[node] = float(len(x))
    for node in reversed(order):
        if node not in x:
            left = root + int(trees.left_child[node])
            x[node] = (x[left] + x[left + 1]) / 2
    return {node: (x[node], depth_of[node]) for node in order}


def _box_text(
    trees: TreeEnsemble, node: int, names: Names, decimals: int, is_drawn: bool, has_inner_values: bool
) -> str:
    lines = []
    if trees.left_child[node]:
        condition = split_at(trees, node, names).side(True, decimals) + "?"
        lines += _wrapped(condition if is_drawn else f"({condition} ...)")
    if has_inner_values or not trees.left_child[node]:
        text = leaf_text(trees, node, names, decimals)
        lines += [text] if trees.has_constant_leaves else _wrapped(text)
    lines.append(f"{int(trees.n_samples[node]):,} rows")
    return "\n".join(lines)


def _wrapped(text: str, width: int = 26) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
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
