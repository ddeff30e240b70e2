"""The record that every reader of another library's models fills: flat trees, columns, classes, what they predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.storage import ModelFileError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
# The estimators that objectives belong to.
REGRESSOR, CLASSIFIER, RANKER, SURVIVAL = (
    f"GradientBoosting{kind}" for kind in ("Regressor", "Classifier", "Ranker", "Survival")
)


@dataclass
class FlatTrees:
    """Trees with one entry per node, in any order; numbers of nodes count over all trees.

    Attributes
    ----------
    roots : int64 array of shape (n_trees,)
        The root of each tree.
    left, right : int64 arrays of shape (n_nodes,)
        Children, -1 at a leaf.
    feature : int64 array of shape (n_nodes,)
        The column of a split.
    threshold : float64 array of shape (n_nodes,)
        Numeric splits send ``x <= threshold`` to the left.
    missing_left : bool array of shape (n_nodes,)
        Whether missing values, and categories that are unknown to the model, go left.
    value : float64 array of shape (n_nodes, n_values)
        What a leaf adds; other rows are not read.
    output : int64 array of shape (n_trees,)
        The raw column of a tree of one value; 0 where trees have a value for each.
    weight : float64 array of shape (n_nodes,) or None
        Weight of the training rows of each node. None, or not positive: one for each leaf below.
    gain : float64 array of shape (n_nodes,) or None
        How much each split lowered the objective.
    n_samples : int64 array of shape (n_nodes,) or None
        Number of training rows.
    sets : dict of int to int64 array
        For each node with a categorical split, the positions of the categories that go left.
    lines : dict of int to Line
        Leaves with linear models.
    """

    roots: Ints
    left: Ints
    right: Ints
    feature: Ints
    threshold: Floats
    missing_left: NDArray[np.bool_]
    value: Floats
    output: Ints
    weight: Floats | None = None
    gain: Floats | None = None
    n_samples: Ints | None = None
    sets: dict[int, Ints] = field(default_factory=dict)
    lines: dict[int, Line] = field(default_factory=dict)


@dataclass
class Line:
    """The linear model of a leaf: a constant, columns and slopes."""

    constant: float
    features: Sequence[int]
    slopes: Sequence[float]


@dataclass
class Columns:
    """The columns of a model.

    Attributes
    ----------
    n_features : int
        How many.
    names : list of str or None
        Their names.
    categories : dict of int to list
        Categories by value, in the order of the positions that sets hold.
    n_codes : dict of int to int
        Of columns whose values are category codes 0, 1, ...: how many positions sets may hold.
    has_others : set of int
        Columns of codes with one more position after those, that of all other numbers, which else count as missing.
    code_rule : int
        How numbers are category codes: a sum of `TOWARD_ZERO`, `WHOLE` and `SINGLE` of engine/bins/binning.py.
    hashed : list of int
        Columns whose categories are known by CatBoost's hashes: whole numbers, or texts.
    repeated : list of int
        Columns that stand once more after all, as `to_ensemble` sets them.
    table : dict or None
        The names, the columns of dates and their parts in the table of fit, where these are not the model's columns.
    missing_is_category : bool
        Whether missing values of columns with categories have the position after those.
    zero_is_missing : list of int
        Columns of numbers in which 0 counts as missing.
    missing_number : float or None
        A number that counts as missing in all columns of numbers and codes, compared in single precision.
    absent_is_missing : bool
        Whether values that a sparse table does not store are missing instead of 0.
    coded : list of int
        Columns with categories by value of which arrays of numbers hold the codes, positions in the list.
    sparse_codes : list of int
        Columns whose categories are integers, to which numbers are truncated.
    """

    n_features: int
    names: list[str] | None = None
    categories: dict[int, list[Any]] = field(default_factory=dict)
    n_codes: dict[int, int] = field(default_factory=dict)
    has_others: set[int] = field(default_factory=set)
    code_rule: int = 0
    hashed: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    table: dict[str, Any] | None = None
    missing_is_category: bool = False
    zero_is_missing: list[int] = field(default_factory=list)
    missing_number: float | None = None
    absent_is_missing: bool = False
    coded: list[int] = field(default_factory=list)
    sparse_codes: list[int] = field(default_factory=list)


@dataclass
class ForeignModel:
    """A model of another library.

    Attributes
    ----------
    estimator : str
        The name of the fastens class it becomes.
    parameters : dict
        Parameters of that class.
    trees : FlatTrees
        The trees.
    columns : Columns
        The columns.
    baseline : sequence of float
        Raw predictions before the first tree.
    classes : sequence, or None
        The classes; a list of arrays with several targets.
    n_targets : int
        Number of targets.
    fitted : dict
        More attributes of the fitted estimator.
    note : dict or None
        What `export` noted besides the trees.
    """

    estimator: str
    trees: FlatTrees
    columns: Columns
    baseline: Sequence[float]
    parameters: dict[str, Any] = field(default_factory=dict)
    classes: Any = None
    n_targets: int = 1
    fitted: dict[str, Any] = field(default_factory=dict)
    note: dict[str, Any] | None = None


def refuse(message: str) -> ModelFileError:
    """An error for a model that cannot be read."""
    return ModelFileError(message)


def join_trees(parts: Sequence[dict[str, Any]], output: Any) -> FlatTrees:
    """Put trees one after another, each given as arrays by name that count nodes inside the tree.

    Parameters
    ----------
    parts : sequence of dict
        The arrays `left`, `right`, `feature`, `threshold`, `missing_left`, `value`, maybe `weight`, `gain` and
        `n_samples`, and the dicts `sets` and `lines`. The root is node 0.
    output : sequence of int or array
        The raw column of each tree.
    """
    if not parts:
        raise refuse("the model has no trees")
    sizes = np.array([len(part["left"]) for part in parts], dtype=np.int64)
    if (sizes == 0).any():
        raise refuse("a tree has no nodes")
    roots = np.cumsum(sizes) - sizes
    joined: dict[str, Any] = {}
    for name in ("feature", "threshold", "missing_left", "value", "weight", "gain", "n_samples"):
        if any(part.get(name) is None for part in parts):
            joined[name] = None
            continue
        arrays = [np.asarray(part[name]) for part in parts]
        if any(len(array) != size for array, size in zip(arrays, sizes, strict=True)):
            raise refuse(f"a tree's array of {name} does not have an entry for each node")
        joined[name] = np.concatenate(arrays)
    for name in ("left", "right"):
        shifted = []
        for part, root, size in zip(parts, roots.tolist(), sizes.tolist(), strict=True):
            child = np.asarray(part[name], dtype=np.int64)
            if len(child) != size or (child >= size).any():
                raise refuse("a tree's children do not lie inside the tree")
            shifted.append(np.where(child < 0, -1, child + root))
        joined[name] = np.concatenate(shifted)
    for name in ("sets", "lines"):
        pairs = zip(parts, roots.tolist(), strict=True)
        joined[name] = {root + node: item for part, root in pairs for node, item in part.get(name, {}).items()}
    value = np.asarray(joined["value"], dtype=np.float64)
    joined["value"] = value[:, None] if value.ndim == 1 else value
    return FlatTrees(roots=roots, output=np.asarray(output, dtype=np.int64), **joined)


def by_round(output: Ints, n_outputs: int) -> Ints:
    """Return the order of trees in which outputs follow each other, as boosted forests do not have them."""
    rank = np.zeros(len(output), dtype=np.int64)
    for k in range(n_outputs):
        own = np.flatnonzero(output == k)
        rank[own] = np.arange(len(own))
    return np.lexsort((output, rank))
