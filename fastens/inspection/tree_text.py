"""Trees in words: their splits with the names of columns and categories, as text and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.trees.code_sets import codes_left
from fastens.engine.trees.paths import depths, parents
from fastens.engine.trees.trees import TreeEnsemble
from fastens.inspection.arguments import DECIMALS, DEPTH

if TYPE_CHECKING:
    import pandas as pd

MOST_CATEGORIES = 8


@dataclass(frozen=True)
class Names:
    """Names of columns, categories and classes."""

    columns: Sequence[str] | None = None  # None: ``x0``, ``x1``, ...
    categories: Sequence[Sequence[Any] | None] | None = None  # by position; None for numbers
    classes: Sequence[Any] | None = None  # whose shares are a node's values

    def column(self, feature: int) -> str:
        """The name of a feature."""
        return f"x{feature}" if self.columns is None else str(self.columns[feature])

    def category(self, feature: int, position: int) -> Any:
        """The name of a category."""
        categories = None if self.categories is None else self.categories[feature]
        return position if categories is None else categories[position]

    def is_missing(self, feature: int, position: int) -> bool:
        """Whether a position among the categories is that of missing values, which stands after them all."""
        categories = None if self.categories is None else self.categories[feature]
        return categories is not None and position == len(categories)


@dataclass(frozen=True)
class Split:
    """The split of a node: the threshold of a number, or the categories of each side."""

    column: str
    threshold: float
    left: list[Any] | None
    right: list[Any] | None
    missing_left: bool

    def side(self, is_left: bool, decimals: int = 2) -> str:
        """The condition of a side, in words."""
        missing = " or missing" if self.missing_left == is_left else ""
        if self.left is not None and self.right is not None:
            return f"{self.column} in {_listed(self.left if is_left else self.right)}{missing}"
        return f"{self.column} {'<=' if is_left else '> '} {self.threshold:.{decimals}f}{missing}"


def _listed(categories: Sequence[Any]) -> str:
    shown = [str(category) for category in categories[:MOST_CATEGORIES]]
    if len(categories) > MOST_CATEGORIES:
        shown.append(f"{len(categories) - MOST_CATEGORIES} more")
    return "{" + ", ".join(shown) + "}"


def split_at(trees: TreeEnsemble, node: int, names: Names) -> Split:
    """Return the split of a node that has children; nodes are counted over all trees."""
    feature = int(trees.feature[node])
    first = int(trees.category_set[node])
    if first < 0:
        threshold = float(trees.threshold[node])
        return Split(names.column(feature), threshold, None, None, bool(trees.missing_left[node]))
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
    return Split(names.column(feature), np.nan, sides[True], sides[False], missing_left)


def value_text(value: np.ndarray, names: Names, decimals: int = 2) -> str:
    """Return a node's values in words: the class, if they are shares of classes, and the numbers."""
    shares = np.array([1 - value[0], value[0]]) if len(value) == 1 and names.classes is not None else value
    numbers = ", ".join(f"{round(float(number), decimals) + 0.0:.{decimals}f}" for number in shares)  # -0 is 0
    if names.classes is not None and len(shares) == len(names.classes):
        return f"class: {names.classes[int(np.argmax(shares))]} [{numbers}]"
    return f"value: {numbers}" if len(shares) == 1 else f"value: [{numbers}]"


def leaf_text(trees: Any, node: int, names: Names, decimals: int = 2) -> str:
    """Return a leaf in words: its values, and its linear model, if it has one; nodes are counted over all trees.

    Slopes and ranges have as many significant digits as `decimals`, and one more.
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
    trees: TreeEnsemble,
    tree: int = 0,
    names: Names = Names(),
    max_depth: int | None = 10,
    decimals: int = 2,
) -> str:
    """Return a tree as indented text like that of scikit-learn's `export_text`, with the side of missing values.

    Nodes deeper than `max_depth` are only counted.
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
    nodes, depth = np.array([node]), 0
    while len(nodes := nodes[trees.left_child[nodes] > 0]):
        left = root + trees.left_child[nodes]
        nodes, depth = np.concatenate([left, left + 1]), depth + 1
    return depth


def to_dataframe(trees: TreeEnsemble, names: Names = Names()) -> pd.DataFrame:
    """Return a row for each node of each tree, as a pandas table.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    names : Names
        Of columns and categories.

    Returns
    -------
    pandas.DataFrame
        ``tree``, ``node`` (inside the tree), ``depth``, ``parent``, ``left_child`` and ``right_child`` (-1 where there
        is none), ``feature`` (its name, None at a leaf), ``threshold`` (NaN for categories), ``left_categories``
        (a tuple, None for numbers), ``missing`` ("left", "right", None at a leaf), ``gain``, ``n_samples``,
        ``weight``, and ``value`` or, where there are several, ``value_0``, ``value_1``, ... Where leaves are linear
        models, also ``intercept``, and ``slopes``, a mapping of column names.
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
        | ({} if trees.has_constant_leaves else _lines(trees, column))
    )


def _lines(trees: Any, column: NDArray[np.object_]) -> dict[str, Any]:
    """The linear models of nodes, as columns of a table."""
    linear = trees.linear
    slopes: list[dict[str, float]] = [{} for _ in range(linear.n_nodes)]
    for node, feature, slope in zip(linear.nodes, column[linear.features], linear.slopes.tolist(), strict=True):
        slopes[node][feature] = slope
    return {"intercept": linear.intercepts(trees.value[:, 0]), "slopes": slopes}
