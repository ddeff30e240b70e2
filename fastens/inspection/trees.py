"""Export of trees and probability tables as text, data frames and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.trees.contributions import depths, parents
from fastens.engine.trees.trees import TreeEnsemble, codes_left
from fastens.inspection.plotting import DECIMALS, DEPTH, axes, draw_box, measured, set_inches, shortened

if TYPE_CHECKING:
    import pandas as pd


MAX_CATEGORIES = 8


@dataclass(frozen=True)
class Names:
    """Names of columns, categories and classes."""

    columns: Sequence[str] | None = None  # if None, ``x0``, ``x1``, ...
    categories: Sequence[Sequence[Any] | None] | None = None  # by column index; None for numeric columns
    classes: Sequence[Any] | None = None  # classes whose proportions are the values of a node

    def column(self, feature: int) -> str:
        """Return the name of the feature at this index, or `x0`, `x1`, ... without names."""
        return f"x{feature}" if self.columns is None else str(self.columns[feature])

    def category(self, feature: int, position: int) -> Any:
        """Return the category of a feature at this position in its list, or the position itself without a list."""
        categories = None if self.categories is None else self.categories[feature]
        return position if categories is None else categories[position]

    def is_missing(self, feature: int, position: int) -> bool:
        """Return True if a category position stands for missing values, which is one after the last category."""
        categories = None if self.categories is None else self.categories[feature]
        return categories is not None and position == len(categories)


@dataclass(frozen=True)
class NodeSplit:
    """Split of a node: a threshold, or the categories of each side."""

    column: str
    threshold: float
    left: list[Any] | None
    right: list[Any] | None
    missing_left: bool

    def side(self, is_left: bool, decimals: int = 2) -> str:
        """Return the condition for going left (or right), such as "age <= 3.50 or missing"."""
        missing = " or missing" if self.missing_left == is_left else ""
        if self.left is not None and self.right is not None:
            return f"{self.column} in {_listed(self.left if is_left else self.right)}{missing}"
        return f"{self.column} {'<=' if is_left else '> '} {self.threshold:.{decimals}f}{missing}"


def _listed(categories: Sequence[Any]) -> str:
    """Return categories as a set in braces; only the first ones are written out."""
    shown = [str(category) for category in categories[:MAX_CATEGORIES]]
    if len(categories) > MAX_CATEGORIES:
        shown.append(f"{len(categories) - MAX_CATEGORIES} more")
    return "{" + ", ".join(shown) + "}"


def split_at(trees: TreeEnsemble, node: int, names: Names) -> NodeSplit:
    """Return the split of the inner node at this index, which counts over all trees."""
    feature = int(trees.feature[node])
    first = int(trees.category_set[node])
    if first < 0:
        threshold = float(trees.threshold[node])
        left: list[Any] | None = None
        right: list[Any] | None = None
        if trees.binning.category_codes[feature] is None and names.categories and (labels := names.categories[feature]):
            at = int(np.clip(np.floor(threshold) + 1, 0, len(labels)))  # ordered categories
            left, right = list(labels[:at]), list(labels[at:])
        return NodeSplit(names.column(feature), threshold, left, right, bool(trees.missing_left[node]))
    codes = trees.binning.category_codes[feature]
    assert codes is not None  # the split has a set
    goes_left = codes_left(trees, node, np.arange(trees.binning.n_codes[feature]))
    missing_left = bool(goes_left[0])
    sides: dict[bool, list[Any]] = {True: [], False: []}
    for position in np.flatnonzero(codes > 0).tolist():
        is_left = bool(goes_left[codes[position]])
        if names.is_missing(feature, position):
            missing_left = is_left
        else:
            sides[is_left].append(names.category(feature, position))
    return NodeSplit(names.column(feature), np.nan, sides[True], sides[False], missing_left)


def value_text(value: np.ndarray, names: Names, decimals: int = 2) -> str:
    """Return a node's values as text, with the class if the values are class proportions."""
    shares = np.array([1 - value[0], value[0]]) if len(value) == 1 and names.classes is not None else value
    numbers = ", ".join(f"{round(float(number), decimals) + 0.0:.{decimals}f}" for number in shares)  # -0 is 0
    if names.classes is not None and len(shares) == len(names.classes):
        return f"class: {names.classes[int(np.argmax(shares))]} [{numbers}]"
    return f"value: {numbers}" if len(shares) == 1 else f"value: [{numbers}]"


def leaf_text(trees: Any, node: int, names: Names, decimals: int = 2) -> str:
    """Return a leaf as text: its values, and its linear model if it has one; node indices count over all trees.

    Slopes and ranges have `decimals` + 1 significant digits.
    """
    text = value_text(trees.value[node], names, decimals)
    if trees.has_constant_leaves or trees.linear.starts[node] == trees.linear.starts[node + 1]:
        return text
    linear, digits = trees.linear, f".{decimals + 1}g"
    terms = slice(linear.starts[node], linear.starts[node + 1])
    formula = f"{trees.value[node, 0] - linear.at_means[terms].sum():.{decimals}f}"
    for term in range(terms.start, terms.stop):
        slope, column = linear.slopes[term], names.column(linear.features[term])
        seen = f"from {linear.lower[term]:{digits}} to {linear.upper[term]:{digits}}"
        formula += f" {'-' if slope < 0 else '+'} {abs(slope):{digits}} * {column} ({seen})"
    return f"value: {formula}, or {text.removeprefix('value: ')} where one is missing"


def to_text(
    trees: TreeEnsemble, tree: int = 0, names: Names = Names(), max_depth: int | None = 10, decimals: int = 2
) -> str:
    """Return a tree as indented text like scikit-learn's `export_text`, with the side of missing values.

    Branches below `max_depth` are summarised by their depth.
    """
    DEPTH.check("max_depth", max_depth)
    DECIMALS.check("decimals", decimals)
    root = int(trees.node_offsets[tree])
    lines: list[str] = []
    waiting = [(root, 0, "")]
    while waiting:
        node, depth, condition = waiting.pop()
        indent = "|   " * (depth - 1)
        if condition:
            lines.append(f"{indent}|--- {condition}")
        below = "|   " * depth + "|--- "
        if not trees.left_child[node]:
            lines.append(below + leaf_text(trees, node, names, decimals))
        elif max_depth is not None and depth > max_depth:
            lines.append(f"{below}truncated branch of depth {_depth_below(trees, node, root)}")
        else:
            split, left = split_at(trees, node, names), root + int(trees.left_child[node])
            waiting.append((left + 1, depth + 1, split.side(False, decimals)))
            waiting.append((left, depth + 1, split.side(True, decimals)))
    return "\n".join(lines) + "\n"


def _depth_below(trees: TreeEnsemble, node: int, root: int) -> int:
    """Return the depth of the subtree below `node`; both indices count over all trees, and `root` starts the tree."""
    nodes, depth = np.array([node]), 0
    while len(nodes := nodes[trees.left_child[nodes] > 0]):
        left = root + trees.left_child[nodes]
        nodes, depth = np.concatenate([left, left + 1]), depth + 1
    return depth


def to_dataframe(trees: TreeEnsemble, names: Names = Names()) -> pd.DataFrame:
    """Return a pandas data frame with one row for each node of each tree.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    names : Names
        Names of columns and categories.

    Returns
    -------
    pandas.DataFrame
        Columns ``tree``, ``node`` (index in the tree), ``depth``, ``parent``, ``left_child`` and ``right_child`` (-1 if
        there is none), ``feature`` (its name, None for a leaf), ``threshold`` (NaN for categories), ``left_categories``
        (a tuple, None for numbers), ``missing`` ("left", "right", or None for a leaf), ``gain``, ``n_samples``,
        ``weight``, and ``value`` or, with several outputs, ``value_0``, ``value_1``, ... If leaves are linear models,
        there are also ``intercept`` and ``slopes``, a dict by column name.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_dataframe needs pandas: pip install pandas") from error
    n_nodes = np.diff(trees.node_offsets)
    root = np.repeat(trees.node_offsets[:-1], n_nodes)
    is_inner = trees.left_child > 0
    inner = np.flatnonzero(is_inner)
    feature, missing, categories = np.full((3, len(root)), None, dtype=object)
    column = np.array([names.column(f) for f in range(trees.binning.n_features)], dtype=object)
    feature[inner] = column[trees.feature[inner]]
    missing[inner] = np.where(trees.missing_left[inner] > 0, "left", "right")
    for node in np.flatnonzero(trees.category_set >= 0):
        split = split_at(trees, int(node), names)
        missing[node], categories[node] = "left" if split.missing_left else "right", tuple(split.left or ())
    parent = parents(trees)
    values = {f"value_{k}": trees.value[:, k] for k in range(trees.value.shape[1])}
    return pandas.DataFrame(
        {
            "tree": np.repeat(np.arange(trees.n_trees), n_nodes),
            "node": np.arange(len(root)) - root,
            "depth": depths(trees),
            "parent": np.where(parent < 0, -1, parent - root),
            "left_child": trees.children_left,
            "right_child": trees.children_right,
            "feature": feature,
            "threshold": trees.threshold,
            "left_categories": categories,
            "missing": missing,
            "gain": trees.gain,
            "n_samples": trees.n_samples,
            "weight": trees.weight,
        }
        | (values if len(values) > 1 else {"value": trees.value[:, 0]})
        | ({} if trees.has_constant_leaves else _linear_model_columns(trees, column))
    )


def _linear_model_columns(trees: Any, column: NDArray[np.object_]) -> dict[str, Any]:
    """Return the data frame columns "intercept" and "slopes" of the linear models in all nodes.

    `column` holds the names of the features, which are the keys of the slopes.
    """
    linear = trees.linear
    slopes: list[dict[str, float]] = [{} for _ in range(linear.n_nodes)]
    for node, feature, slope in zip(linear.nodes, column[linear.features], linear.slopes.tolist(), strict=True):
        slopes[node][feature] = slope
    return {"intercept": linear.intercepts(trees.value[:, 0]), "slopes": slopes}


BESIDE, BETWEEN = 0.16, 0.4  # inches between boxes of one level, and between levels
FONT, PAD = 8, 0.35  # font size in points, and padding of a box relative to the font size
LABEL = 0.22, 0.13  # size in inches of "yes" and "no"
LINE = 30  # characters
LONGEST_WORD = 48


def plot_tree(
    trees: TreeEnsemble,
    tree: int = 0,
    names: Names = Names(),
    max_depth: int | None = 3,
    decimals: int = 2,
    ax: Any = None,
) -> Any:
    """Plot a tree down to `max_depth`, and return the axes; a new figure is large enough for all boxes."""
    DEPTH.check("max_depth", max_depth)
    DECIMALS.check("decimals", decimals)
    root = int(trees.node_offsets[tree])
    children = _drawn_children(trees, root, max_depth)
    nodes = np.array(list(children))
    # Boosting with a loss that refits leaf values has values only at leaves.
    has_inner_values = bool(trees.value[nodes[trees.left_child[nodes] > 0]].any())
    texts = [_box_text(trees, node, names, decimals, bool(children[node]), has_inner_values) for node in children]
    is_new = ax is None
    ax = axes(ax, figsize=(3, 3))
    sizes = dict(zip(children, measured(ax, texts, FONT, PAD), strict=True))
    layout = _TreeLayout(children, sizes)
    set_inches(ax, layout.width, layout.height, is_new)
    colours = _colours(trees, nodes)
    for node, text in zip(children, texts, strict=True):
        draw_box(ax, layout.middle(node), sizes[node], text, FONT, facecolor=colours[node])
        for child, label in zip(children[node], ("yes", "no"), strict=False):
            _draw_branch(ax, layout, node, child, label)
    return ax


def _draw_branch(ax: Any, layout: _TreeLayout, node: int, child: int, label: str) -> None:
    """Draw the edge from a node to a child, with a label.

    It is slanted only between levels, because boxes occupy the levels.
    """
    (x, top), (end, low) = layout.middle(node), layout.middle(child)
    bottom = -layout.tops[layout.depth[child]]
    ax.plot([x, x, end, end], [top, bottom + BETWEEN, bottom, low], color="0.55", linewidth=0.9, zorder=1)
    middle = (x + end) / 2, bottom + BETWEEN / 2
    draw_box(ax, middle, LABEL, label, FONT - 1, color="0.3", zorder=1.5, edgecolor="none")


class _TreeLayout:
    """Layout in inches that centres parents above their children and packs the boxes of a level closely.

    Subtrees are moved apart until, on every level, the right edge of the left one is left of the left edge of the right
    one (Reingold & Tilford 1981, "Tidier drawings of trees").
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
        shift = self._child_offsets(order, children)
        self._x = {order[0]: 0.0}
        for node in order:
            for child in children[node]:
                self._x[child] = self._x[node] + shift[child]
        left = min(self._x[node] - sizes[node][0] / 2 for node in order)
        self._x = {node: x - left for node, x in self._x.items()}
        self.width = float(max(self._x[node] + sizes[node][0] / 2 for node in order))

    def _child_offsets(self, order: list[int], children: dict[int, list[int]]) -> dict[int, float]:
        """Return the x offset of each child from its parent; `order` lists every node after its parent."""
        shift: dict[int, float] = {}
        sides: dict[int, NDArray[np.float64]] = {}  # left and right ends of each level below a node, relative to it
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
        """Return the centre (x, y) of a node's box, which is aligned to the top of its level."""
        return self._x[node], float(-self.tops[self.depth[node]] - self._sizes[node][1] / 2)


def _drawn_children(trees: TreeEnsemble, root: int, max_depth: int | None) -> dict[int, list[int]]:
    """Return the children of each drawn node (none at `max_depth`), level by level; keys count over all trees."""
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
    """Return the text in the box of a node: its split, its value and its number of rows.

    The split is abbreviated unless `is_drawn`, which states that its children are drawn. Inner nodes show a value only
    if `has_inner_values`.
    """
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
    """Return the lines of a wrapped text, in which long words are shortened."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= LINE:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + shortened(word, LONGEST_WORD)
    return lines


def _colours(trees: TreeEnsemble, nodes: np.ndarray) -> dict[int, Any]:
    """Return RGBA colours by node: by value with one output, otherwise by the largest output and its proportion."""
    from matplotlib import colormaps

    value = trees.value[nodes].astype(np.float64)
    if value.shape[1] == 1:
        low, high = value.min(), value.max()
        share = (value[:, 0] - low) / (high - low if high > low else 1.0)
        colours = colormaps["RdYlBu_r"](0.2 + 0.6 * share)
    else:
        best = value.argmax(axis=1)
        total = np.abs(value).sum(axis=1)
        strength = np.abs(value[np.arange(len(best)), best]) / np.where(total > 0, total, 1.0)
        hue = colormaps["tab10"](best % 10)
        colours = 1 - (1 - hue) * (0.15 + 0.45 * strength[:, None])
        colours[:, 3] = 1
    return {int(node): tuple(colour) for node, colour in zip(nodes, colours, strict=True)}


LONGEST = 14  # maximum number of characters of a name or a value
MAX_VALUES = 6
CUT = "..."


def table_text(
    states: Sequence[Any],
    parent_names: Sequence[str],
    parent_states: Sequence[Sequence[Any]],
    table: NDArray[np.float64],
    max_rows: int = 8,
) -> str:
    """Return P(variable | parents) as an aligned text table, with a line for each combination of parent values.

    `table` has axes for the parents and the variable. If there are more than `max_rows` lines, or many values, "..."
    stands for the rest.
    """
    header = [*parent_names, *states[:MAX_VALUES]] + [CUT] * (len(states) > MAX_VALUES)
    lines = [[_cell(name) for name in header]]
    shape = table.shape[:-1]
    n_rows = int(np.prod(shape))
    for row in range(min(n_rows, max_rows)):
        indices = np.unravel_index(row, shape) if shape else ()
        values = [_cell(labels[int(at)]) for labels, at in zip(parent_states, indices, strict=True)]
        shares = [_share(share) for share in table[indices][:MAX_VALUES].tolist()]
        lines.append([*values, *shares] + [CUT] * (len(states) > MAX_VALUES))
    text = _aligned(lines, len(parent_names))
    left_out = n_rows - max_rows
    if left_out > 0:
        text.append(f"{CUT} {left_out} more {'row' if left_out == 1 else 'rows'}")
    return "\n".join(text)


def _aligned(lines: list[list[str]], n_parents: int) -> list[str]:
    """Return lines of cells as aligned text, with a vertical bar after the cells of the `n_parents` parents."""
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = []
    for line in lines:
        cells = [
            cell.ljust(w) if index < n_parents else cell.rjust(w)
            for index, (cell, w) in enumerate(zip(line, width, strict=True))
        ]
        left, right = " ".join(cells[:n_parents]), " ".join(cells[n_parents:])
        text.append(f"{left} | {right}" if n_parents else right)
    return text


def _cell(value: Any) -> str:
    """Return the value of a variable as short text."""
    return shortened(f"{value:g}" if isinstance(value, float) else str(value), LONGEST)


def _share(share: float) -> str:
    """Return a probability with two decimals, in which small values do not become 0, nor large values 1."""
    if 0 < share < 0.005:
        return "<.01"
    return ">.99" if 0.995 <= share < 1 else f"{share:.2f}"
