"""Plain records of models of other libraries: trees, columns and outputs, with their checks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.forests.isolation import mean_depth
from fastens.modelfile.storage import ModelFileError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
# The estimators that implement the objectives.
REGRESSOR, CLASSIFIER, RANKER, SURVIVAL = (
    f"GradientBoosting{kind}" for kind in ("Regressor", "Classifier", "Ranker", "Survival")
)


@dataclass
class FlatTrees:
    """Trees with one entry per node, in any order; node indices count across all trees.

    Attributes
    ----------
    roots : int64 array of shape (n_trees,)
        The root of each tree.
    left, right : int64 arrays of shape (n_nodes,)
        The children; -1 at a leaf.
    feature : int64 array of shape (n_nodes,)
        The column of a split.
    threshold : float64 array of shape (n_nodes,)
        The threshold of a numeric split, which sends ``x <= threshold`` to the left.
    missing_left : bool array of shape (n_nodes,)
        True if missing values and categories that are unknown to the model go left.
    value : float64 array of shape (n_nodes, n_values)
        The leaf values; values of inner nodes are ignored.
    output : int64 array of shape (n_trees,)
        The raw prediction that a tree with one value adds to; 0 if trees have one value per raw prediction.
    weight : float64 array of shape (n_nodes,) or None
        The weight of the training rows in each node. If None or not positive, each leaf counts as 1.
    gain : float64 array of shape (n_nodes,) or None
        The gain of each split.
    n_samples : int64 array of shape (n_nodes,) or None
        The number of training rows in each node.
    sets : dict of int to int64 array
        The positions of the categories that go left, for each node with a categorical split.
    lines : dict of int to Line
        The linear models of leaves.
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
    """Linear model of a leaf: a constant, columns and slopes."""

    constant: float
    features: Sequence[int]
    slopes: Sequence[float]


@dataclass
class Columns:
    """The columns of a model.

    Attributes
    ----------
    n_features : int
        The number of columns.
    names : list of str or None
        The names of the columns.
    categories : dict of int to list
        Categories by value, in the order of the positions in sets.
    n_codes : dict of int to int
        The number of positions that sets may contain, for columns whose values are category codes 0, 1, ...
    has_others : set of int
        Columns of codes with an additional last position for all other numbers, which otherwise count as missing.
    code_rule : int
        How numbers are converted to category codes: a sum of `TOWARD_ZERO`, `WHOLE` and `SINGLE` of
        engine/bins/binning.py.
    hashed : list of int
        Columns whose categories are stored as CatBoost's hashes, which are integers, or as strings.
    repeated : list of int
        Columns that are repeated after all others; set by `to_ensemble`.
    table : dict or None
        The names, date columns and date parts of the training table, if they differ from the columns of the model.
    missing_is_category : bool
        True if missing values of categorical columns have the position after the last category.
    zero_is_missing : list of int
        Numeric columns in which 0 counts as missing.
    missing_number : float or None
        A number that counts as missing in all columns of numbers and codes, compared in single precision.
    absent_is_missing : bool
        True if values that a sparse table does not store are missing instead of 0.
    coded : list of int
        Columns with categories by value for which numeric arrays contain codes, which are positions in the list.
    sparse_codes : list of int
        Columns whose categories are integers; inputs are truncated to integers.
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
        The name of the corresponding fastens class.
    parameters : dict
        The parameters of that class.
    trees : FlatTrees
        The trees.
    columns : Columns
        The columns.
    baseline : sequence of float
        Raw predictions before the first tree.
    classes : sequence, or None
        The classes; a list of arrays if there are several targets.
    n_targets : int
        The number of targets.
    fitted : dict
        Other attributes of the fitted estimator.
    note : dict or None
        The note that `export` has stored next to the trees.
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
    """Return the error for a model that cannot be read."""
    return ModelFileError(message)


def join_trees(parts: Sequence[dict[str, Any]], output: Any) -> FlatTrees:
    """Concatenate trees, each given as a dict of arrays with node indices inside the tree.

    Parameters
    ----------
    parts : sequence of dict
        The arrays `left`, `right`, `feature`, `threshold`, `missing_left` and `value`, optionally `weight`, `gain` and
        `n_samples`, and the dicts `sets` and `lines`. The root is node 0.
    output : sequence of int or array
        The raw prediction that each tree adds to.
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
    """Return the order of trees that alternates between outputs; boosted random forests need reordering."""
    rank = np.zeros(len(output), dtype=np.int64)
    for k in range(n_outputs):
        own = np.flatnonzero(output == k)
        rank[own] = np.arange(len(own))
    return np.lexsort((output, rank))


# NumPy kinds that may be converted to each kind.
_FITS = {"i": "iub", "f": "fiub", "b": "b"}


def array_of(value: Any, name: str, kind: Any, size: int | None = None) -> NDArray[Any]:
    """Return numbers of a file as a one-dimensional array.

    Parameters
    ----------
    value : list or array
        The value in the file.
    name : str
        The name of the value in error messages.
    kind : type
        ``float``, ``bool`` or ``np.int64``. Floats are not converted to integers.
    size : int, optional
        The required number of entries. If None, any number is accepted.
    """
    dtype = np.dtype(kind)
    try:
        found = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise refuse(f"{name} must hold numbers") from error
    if found.size == 0:
        found = found.astype(dtype)
    if found.ndim != 1 or found.dtype.kind not in ("iub" if dtype.kind == "b" else _FITS[dtype.kind]):
        raise refuse(f"{name} must be a list of {'whole ' if dtype.kind == 'i' else ''}numbers")
    if size is not None and len(found) != size:
        raise refuse(f"{name} must have {size} entries; got {len(found)}")
    return found.astype(dtype)


def single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Convert numbers to float32; numbers that are too large become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def part(holder: Any, name: str, kind: type | tuple[type, ...]) -> Any:
    """Return an entry of a record; raise ModelFileError if it is absent or has another type."""
    if not isinstance(holder, dict) or name not in holder:
        raise refuse(f"{name!r} must be there; the file is not of this kind, or damaged")
    if not isinstance(holder[name], kind):
        raise refuse(f"{name!r} must be another kind of value; got {str(holder[name])[:40]!r}")
    return holder[name]


def number(value: Any, name: str) -> float:
    """Return a finite number from a number or a string."""
    try:
        found = float(value)
    except (ValueError, TypeError) as error:
        raise refuse(f"{name} must be a number; got {str(value)[:40]!r}") from error
    if not np.isfinite(found):
        raise refuse(f"{name} must be a finite number; got {found}")
    return found


def whole_number(value: Any, name: str, least: int = 0, most: int = 2**31) -> int:
    """Return an integer from a number or a string, within limits."""
    found = number(value, name)
    if found != int(found) or not least <= found <= most:
        raise refuse(f"{name} must be a whole number from {least} to {most}; got {value!r}")
    return int(found)


def names_of(value: Any, n_features: int) -> list[str] | None:
    """Return the names of the columns, or None if there are none."""
    if not value:
        return None
    if not isinstance(value, list) or len(value) != n_features or not all(isinstance(name, str) for name in value):
        raise refuse(f"the names of the columns must be {n_features} texts")
    return value


_NONE = np.full(1, -1)


def with_vectors(trees: FlatTrees, n_outputs: int) -> FlatTrees | None:
    """Merge the trees of each round, which have the same splits, into one tree with a value per output.

    Parameters
    ----------
    trees : FlatTrees
        Trees with one value per leaf; each round has one tree per output, in order.
    n_outputs : int
        The number of outputs.

    Returns
    -------
    FlatTrees, or None if the trees of a round have different splits.
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
    """Return True if two ranges of nodes have the same splits."""
    if not all(np.array_equal(array[one], array[other]) for array in arrays):
        return False
    pairs = zip(one.tolist(), other.tolist(), strict=True) if trees.sets else ()
    return all(np.array_equal(trees.sets.get(a, _NONE), trees.sets.get(b, _NONE)) for a, b in pairs)


def _joined(trees: FlatTrees, own: list[NDArray[np.int64]]) -> FlatTrees:
    """Return the trees of the first output with the values of all outputs; `own` lists each output's nodes."""
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


_REGRESSOR, _CLASSIFIER = "GradientBoostingRegressor", "GradientBoostingClassifier"
_OF_NUMBERS = {
    "identity": "squared_error",
    "signed_square": "squared_error_of_root",
    "sigmoid": "cross_entropy",
    "exponential": "poisson",
    "logarithm_one_plus_exp": "cross_entropy_lambda",
}
# Links of regression models, which treelite nevertheless combines with the binary classification task.
_OF_NO_CLASS = ("exponential", "logarithm_one_plus_exp", "signed_square")
_MAX_SAMPLES = 1 << 20


@dataclass(frozen=True)
class Outputs:
    """How the sums of trees become predictions.

    Attributes
    ----------
    n_outputs, n_targets : int
        The number of sums per row and the number of targets.
    averages : bool
        True if sums are divided by the number of trees.
    n_averaged : int
        The number of trees that are averaged; 0 for the number of trees of each output.
    baseline : sequence of float
        Constants that are added to the sums.
    is_classifier, is_ranking : bool
        The task.
    link : str
        treelite's name of the postprocessor, or "isolation" for ``2 ** (-mean / alpha)``.
    alpha : float
        The factor of "sigmoid" and "multiclass_ova".
    classes : sequence or None
        The labels. If None, they are 0, 1, ...
    """

    n_outputs: int
    n_targets: int = 1
    averages: bool = False
    n_averaged: int = 0
    baseline: Sequence[float] = (0.0,)
    is_classifier: bool = False
    is_ranking: bool = False
    link: str = "identity"
    alpha: float = 1.0
    classes: Any = None


def sum_of_trees(
    parts: list[dict[str, Any]], output: Any, columns: Columns, outputs: Outputs, note: dict[str, Any] | None = None
) -> ForeignModel:
    """Return the record of a model that sums or averages trees.

    Parameters
    ----------
    parts : list of dict
        The trees, in the form that `join_trees` expects.
    output : array of int
        The sum that each tree with one value adds to.
    columns : Columns
        The columns.
    outputs : Outputs
        How the sums become predictions.
    note : dict, optional
        The note of `export`.
    """
    order = by_round(np.asarray(output, dtype=np.int64), outputs.n_outputs)
    trees = join_trees([parts[index] for index in order], np.asarray(output)[order])
    baseline = np.array(outputs.baseline, dtype=np.float64)
    if len(baseline) not in (1, outputs.n_outputs) or not np.isfinite(baseline).all():
        raise refuse(f"there must be {outputs.n_outputs} finite base scores; got {baseline.tolist()[:8]}")
    baseline = np.broadcast_to(baseline, outputs.n_outputs).copy()
    is_by_output = outputs.n_averaged in (0, len(trees.roots) / outputs.n_outputs)
    if outputs.averages and is_by_output and not baseline.any() and trees.value.shape[1] < outputs.n_outputs:
        trees = with_vectors(trees, outputs.n_outputs) or trees
    found = ForeignModel("", trees, columns, baseline.tolist(), n_targets=outputs.n_targets, note=note)
    is_forest = outputs.averages and not baseline.any() and (trees.value.shape[1] > 1 or outputs.n_outputs == 1)
    if outputs.link == "isolation":
        sizes = range(2, _MAX_SAMPLES)
        place = bisect_left(sizes, outputs.alpha, key=_depth_of)
        nearest = min(sizes[max(place - 1, 0) : place + 1], key=lambda n: abs(_depth_of(n) - outputs.alpha))
        found.estimator, found.fitted = "IsolationForest", {"max_samples_": nearest, "offset_": -0.5}
        return found
    is_classifier = outputs.is_classifier and outputs.link not in _OF_NO_CLASS
    if is_classifier or outputs.link in ("hinge", "softmax", "multiclass_ova", "identity_multiclass"):
        _set_classes(found, outputs, is_forest=is_forest)
    elif is_forest and outputs.link == "identity":
        found.estimator = "RandomForestRegressor"
    elif outputs.link not in _OF_NUMBERS:
        raise refuse(f"the link {outputs.link[:40]!r} cannot be read")
    else:
        found.estimator = "GradientBoostingRanker" if outputs.is_ranking else _REGRESSOR
        found.parameters = {} if outputs.is_ranking else {"loss": _OF_NUMBERS[outputs.link]}
        _scale(found, outputs, outputs.alpha if outputs.link == "sigmoid" else 1.0)
    return found


def _depth_of(n: int) -> float:
    return float(mean_depth(np.array(n)))


def _set_classes(found: ForeignModel, outputs: Outputs, *, is_forest: bool) -> None:
    per_target = outputs.n_outputs // outputs.n_targets
    n_classes = max(2, per_target)
    classes = np.arange(n_classes) if outputs.classes is None else np.asarray(outputs.classes)
    if len(classes) != n_classes or len(set(classes.tolist())) != n_classes:
        raise refuse(f"there must be {n_classes} different labels; got {classes.tolist()[:8]}")
    found.classes = classes if outputs.n_targets == 1 else [classes] * outputs.n_targets
    if outputs.link in ("identity", "identity_multiclass") and (per_target > 1 or is_forest):
        found.estimator, found.fitted = "RandomForestClassifier", {"_has_all_shares": per_target > 1}
        n_trees = len(found.trees.roots)
        if not is_forest and trees_are_one_output(found):
            raise refuse("trees that add to one class each must have a link from scores to probabilities")
        if not outputs.averages:
            found.trees.value = found.trees.value * n_trees
        return
    found.estimator = _CLASSIFIER
    is_several = outputs.link == "multiclass_ova"
    found.parameters = {"loss": "one_vs_rest" if is_several else "log_loss"}
    _scale(found, outputs, outputs.alpha if outputs.link in ("sigmoid", "multiclass_ova") else 1.0)


def trees_are_one_output(found: ForeignModel) -> bool:
    """Return True if trees have one value each although there are several outputs."""
    return found.trees.value.shape[1] == 1 and len(found.baseline) > 1


def _scale(found: ForeignModel, outputs: Outputs, factor: float) -> None:
    """Multiply sums by a factor, and divide them by the number of trees if they are means."""
    if not factor > 0:
        raise refuse(f"the factor of the link must be positive; got {factor}")
    found.baseline = [float(value) * factor for value in found.baseline]
    if outputs.averages:
        n_trees = len(found.trees.roots)
        n_own = n_trees if found.trees.value.shape[1] > 1 else n_trees / outputs.n_outputs
        factor /= outputs.n_averaged or n_own
    found.trees.value = found.trees.value * factor


_MAX_CODES = 60_000


@dataclass(frozen=True)
class CodeSet:
    """Codes of a split, and True if rows with these codes go left; other rows go the other way."""

    codes: NDArray[np.int64]
    is_left: bool


def set_codes(trees: Sequence[dict[str, Any]], columns: Columns) -> None:
    """Set the positions that go left at each node of the trees, and the number of codes of each column.

    Parameters
    ----------
    trees : sequence of dict
        Trees in the form that `join_trees` expects, with a dict of nodes to `CodeSet` in `code_sets`. It is converted
        to `sets`.
    columns : Columns
        The columns. Columns without an entry in `categories` get an entry in `n_codes`.
    """
    largest: dict[int, int] = {}
    for tree in trees:
        for node, own in tree["code_sets"].items():
            column = int(tree["feature"][node])
            largest[column] = max(largest.get(column, 0), int(own.codes.max(initial=0)))
            if bool(tree["missing_left"][node]) == own.is_left and column not in columns.categories:
                columns.has_others.add(column)
    for column, most in largest.items():
        known = columns.categories.get(column)
        if most > _MAX_CODES or (known is not None and most >= len(known)):
            raise refuse(f"column {column} is split by the category code {most}, beyond its categories")
        if known is None:
            columns.n_codes[column] = most + 1
    for tree in trees:
        tree["sets"] = {
            node: own.codes if own.is_left else _without(own.codes, columns, int(tree["feature"][node]))
            for node, own in tree.pop("code_sets").items()
        }


def _without(codes: NDArray[np.int64], columns: Columns, column: int) -> NDArray[np.int64]:
    """Return all positions of a column except some."""
    known = columns.categories.get(column)
    n = len(known) if known is not None else columns.n_codes[column] + (column in columns.has_others)
    return np.setdiff1d(np.arange(n), codes)


def at_most(threshold: Any) -> Floats:
    """Return t such that ``x <= t`` equals ``float32(x) <= threshold`` for every double x."""
    with np.errstate(over="ignore"):
        given = np.asarray(threshold, dtype=np.float64)
        rounded = given.astype(np.float32)
        below = np.where(rounded.astype(np.float64) > given, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return _last_rounded_to(below.astype(np.float32))


def less_than(threshold: Any) -> Floats:
    """Return t such that ``x <= t`` equals ``float32(x) < threshold`` for every double x and a float32 threshold."""
    with np.errstate(over="ignore"):
        given = np.asarray(threshold).astype(np.float32)
    return _last_rounded_to(np.nextafter(given, np.float32(-np.inf)))


def _last_rounded_to(low: NDArray[np.float32]) -> Floats:
    """Return the largest double that rounds to `low` or less; ties round to the even float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        high = np.nextafter(low, np.float32(np.inf))
        wide, above = low.astype(np.float64), high.astype(np.float64)
        above = np.where(np.isposinf(above) & np.isfinite(wide), 2.0**128, above)
        wide = np.where(np.isneginf(wide), -(2.0**128), wide)
        is_even = (np.asarray(low, dtype=np.float32).view(np.uint32) & 1) == 0
        middle = wide + (above - wide) / 2
        # The tie between -inf and the lowest finite float32 rounds to -inf, because the finite number is odd.
        found = np.where(is_even, middle, np.nextafter(middle, -np.inf))
        return np.where(np.isposinf(low), np.inf, np.where(np.isnan(low), np.nan, found))
