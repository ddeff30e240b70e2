"""A format-independent view of a fitted model for the exporters: trees, columns, targets and notes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.engine.losses.column_losses import ColumnLosses, ExponentialLoss, LeastSquares
from fastens.engine.losses.losses import BinaryLogLoss, LogLinkLoss, Loss, MulticlassLogLoss
from fastens.engine.losses.numeric_losses import CrossEntropy, CustomClassLoss, CustomLoss, Exponential, SeveralLevels
from fastens.engine.losses.ranking_loss import AFT, Cox
from fastens.engine.names import are_texts
from fastens.engine.trees.tree_store import codes_left
from fastens.engine.trees.trees import TreeEnsemble


class CannotHoldError(Exception):
    """Error that names what a format cannot represent; `export` completes the sentence and raises ValueError."""


class Target(NamedTuple):
    """A target and the link that converts its raw predictions.

    Attributes
    ----------
    outputs : slice
        The raw predictions of the target.
    link : str
        "identity", "exp", "sigmoid" (of log odds), "softmax", "one vs rest" (sigmoids scaled to sum to 1), "shares"
        (probabilities of the second of two classes, or of each class), "sorted" (levels in ascending order) or
        "anomaly" (of path lengths).
    classes : array or None
        The labels; None for regression.
    parameters : tuple of float
        For "anomaly", the mean path length and the offset of the decision function.
    """

    outputs: slice
    link: str
    classes: NDArray[Any] | None
    parameters: tuple[float, ...] = ()


def targets_of(model: Any) -> tuple[list[Target], float]:
    """Return the targets of a model and the factor of its raw predictions that their links need."""
    if model._combination == "path length":
        parameters = (float(model._mean_path_length()), float(model.offset_))
        return [Target(slice(0, 1), "anomaly", None, parameters)], 1.0
    if model._combination not in ("sum", "mean"):
        raise CannotHoldError(f"the {model._combination} of trees")
    classes = getattr(model, "classes_", None)
    loss = getattr(model, "_loss", None)
    by_target: list[Any] = classes if isinstance(classes, list) else [classes]
    if loss is None:
        if not is_classifier(model):
            return [Target(slice(0, model._n_outputs()), "identity", None)], 1.0
        widths = [len(own) for own in by_target]
        if sum(widths) != model._n_outputs():  # binary targets have only the probability of the second class
            widths = [1 if width == 2 else width for width in widths]
        ends = np.cumsum(widths)
        return [
            Target(slice(end - width, end), "shares", own)
            for end, width, own in zip(ends.tolist(), widths, by_target, strict=True)
        ], 1.0
    losses = loss.parts if isinstance(loss, ColumnLosses) else [loss]
    if len(by_target) < len(losses):
        by_target = [None] * len(losses)
    ends = np.cumsum([part.n_outputs for part in losses]).tolist()
    links = [_link(part) for part in losses]
    if loss is not losses[0] and classes is None and len({*links}) == 1 and links[0][0] != "sorted":
        return [Target(slice(0, loss.n_outputs), links[0][0], None)], 1.0
    targets = [
        Target(slice(end - part.n_outputs, end), link, own)
        for end, part, (link, _), own in zip(ends, losses, links, by_target, strict=True)
    ]
    return targets, links[0][1]


def _link(loss: Loss) -> tuple[str, float]:
    """Return the link of a loss, determined by its `predict` method, and the factor that the link needs."""
    if isinstance(loss, LeastSquares):
        return _link(loss._base)
    if isinstance(loss, CustomLoss):
        if hasattr(loss._source, "predict"):
            raise CannotHoldError("a loss of the user's own with a method `predict`")
        of_classes = "sigmoid" if loss.n_outputs == 1 else "softmax"
        return (of_classes if isinstance(loss, CustomClassLoss) else "identity"), 1.0
    if isinstance(loss, ExponentialLoss):
        return ("sigmoid" if loss.n_outputs == 1 else "one vs rest"), 1.0
    found = _LINKS.get(type(loss).predict)
    if found is None:
        raise CannotHoldError(f"the predictions of loss={loss.name!r}")
    return found


_LINKS: dict[Any, tuple[str, float]] = {
    Loss.predict: ("identity", 1.0),
    LogLinkLoss.predict: ("exp", 1.0),
    BinaryLogLoss.predict: ("sigmoid", 1.0),
    CrossEntropy.predict: ("sigmoid", 1.0),
    Exponential.predict: ("sigmoid", 2.0),
    MulticlassLogLoss.predict: ("softmax", 1.0),
    SeveralLevels.predict: ("sorted", 1.0),
}


_PLAIN = (str, bool, int, float)


def note_of(model: Any, columns: list[Any], targets: list[Any]) -> dict[str, Any]:
    """Return the note that `from_model` reads in addition to the trees.

    Parameters
    ----------
    model : estimator
        The fitted model.
    columns : list of Column
        The columns of the model.
    targets : list of Target
        The targets of the model.
    """
    note: dict[str, Any] = {"estimator": type(model).__name__, "links": [target.link for target in targets]}
    note["widths"] = [target.outputs.stop - target.outputs.start for target in targets]
    note["parameters"] = [own for target in targets for own in target.parameters]
    has_levels = "sorted" in note["links"]
    note["levels"] = np.ravel(model.quantile).tolist() if has_levels else []
    if has_levels:
        note["levels_of"] = model._loss.name
    note["is_mean"] = model._combination != "sum"
    encoder = model._encoder
    note["names"] = [column.name for column in columns] if encoder.has_own_names else None
    if encoder.date_parts or (encoder.has_own_names and not are_texts(encoder.names)):
        note["columns"] = {name: encoder.to_state().get(name, []) for name in ("names", "dates", "date_parts")}
    note["is_single"] = bool(model._ensemble.value.dtype == np.float32)
    if isinstance(getattr(model, "_loss", None), AFT | Cox):
        note["survival"] = _survival_of(model)
    labels = [None if target.classes is None else target.classes.tolist() for target in targets]
    if all(own is not None and all(isinstance(label, _PLAIN) for label in own) for own in labels):
        note["classes"] = labels
    note["has_all_shares"] = bool(getattr(model, "_has_all_shares", False))
    coded = {str(number): len(own.categories) for number, own in enumerate(columns) if own.is_coded}
    if coded:
        note["n_codes"] = coded
    named = {number: own.categories for number, own in enumerate(columns) if own.categories and not own.is_coded}
    if named:
        note["categories"] = {str(number): categories for number, categories in named.items()}
        note["missing_is_category"] = bool(model._encoder.missing_is_category)
    return note


def _survival_of(model: Any) -> dict[str, Any]:
    """Return the distribution of the times, or the baseline hazard."""
    errors = model._options("loss")
    if errors is not None:
        return {"distribution": errors.distribution, "scale": float(errors.scale)}
    return {"times": model.event_times_.tolist(), "hazard": model.cumulative_hazard_.tolist()}


def text_of(note: dict[str, Any]) -> str:
    """Return the note as one line of ASCII without equals signs, which LightGBM's headers cannot contain.

    When XGBoost saves a model, it does not escape a backslash before a "u". A backslash that is not part of an escape
    must therefore not precede a "u".
    """
    text = json.dumps(note, separators=(",", ":")).replace("=", "\\u003d")
    return re.sub(r"(\\\\)u|\\.", lambda found: found[1] + r"\u0075" if found[1] else found[0], text)


Array = NDArray[np.float64]


class Column(NamedTuple):
    """Column of the table that the model was fitted on."""

    name: str
    categories: list[Any] | None  # by position; None for numeric columns
    is_coded: bool = False  # True if categories are stored as their positions 0, 1, ...
    zero_is_missing: bool = False

    @property
    def has_strings(self) -> bool:
        """True if categories are strings."""
        return self.categories is not None and any(isinstance(category, str) for category in self.categories)


class Line(NamedTuple):
    """Linear model of a leaf: a constant, columns of X and slopes."""

    constant: float
    features: list[int]
    slopes: list[float]


@dataclass(frozen=True, eq=False)
class FlatTree:
    """One tree; node 0 is the root.

    Attributes
    ----------
    feature : int array
        The column of a split, -1 at a leaf.
    threshold : float64 array
        The threshold of a numeric split, which sends ``x <= threshold`` to the left; NaN at leaves and categorical
        splits.
    missing_left : bool array
        True if missing values go left.
    members : dict of int to int array
        The positions of the categories that go left, for each categorical split. All other categories, including
        unseen ones, go right.
    left, right : int arrays
        The children; -1 at a leaf.
    value : float64 array of shape (n_nodes, n_values)
        The leaf values.
    n_samples, weight, gain : arrays
        The number of training rows, the sum of their hessians, and the gain of the split.
    lines : dict of int to Line
        The linear models of leaves, which apply to rows without missing values in their columns.
    """

    feature: NDArray[np.int64]
    threshold: Array
    missing_left: NDArray[np.bool_]
    members: dict[int, NDArray[np.int64]]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: Array
    n_samples: NDArray[np.int64]
    weight: Array
    gain: Array
    lines: dict[int, Line] = field(default_factory=dict, kw_only=True)

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """True for each node that is a leaf."""
        return self.left < 0

    def of_output(self, output: int, baseline: float = 0.0) -> FlatTree:
        """Return the tree with only one of its values per node, plus a constant."""
        lines = {node: own._replace(constant=own.constant + baseline) for node, own in self.lines.items()}
        return replace(self, value=self.value[:, output : output + 1] + baseline, lines=lines)


@dataclass(frozen=True, eq=False)
class ModelView:
    """A fitted model in a form that is independent of formats.

    Attributes
    ----------
    estimator : str
        The name of the estimator's class.
    columns : list of Column
        The columns of X.
    trees : list of FlatTree
        The trees, in the order of summation.
    tree_output : list of int
        The raw prediction that each tree adds to; 0 if trees have one value per raw prediction.
    baseline : float64 array of shape (n_outputs,)
        The raw predictions before the first tree.
    is_mean : bool
        True if raw predictions are divided by the number of trees.
    targets : list of Target
        The targets, which convert the raw predictions.
    note : dict
        Properties of the model that the formats cannot represent.
    """

    estimator: str
    columns: list[Column]
    trees: list[FlatTree]
    tree_output: list[int]
    baseline: Array
    is_mean: bool
    targets: list[Target]
    note: dict[str, Any]

    @property
    def n_outputs(self) -> int:
        """The number of raw predictions."""
        return len(self.baseline)

    @property
    def divisor(self) -> int:
        """The divisor of sums over the trees."""
        return len(self.trees) if self.is_mean else 1

    @property
    def has_vector_leaves(self) -> bool:
        """True if leaves have one value per raw prediction."""
        return self.n_outputs > 1 and all(tree.value.shape[1] == self.n_outputs for tree in self.trees)

    def refuse_characters(self, pattern: str, *, names: bool = True, values: bool = True) -> None:
        """Raise CannotHoldError if column names, categories or labels contain a character of the pattern."""
        texts = [(column.name, f"the column {column.name!r}") for column in self.columns if names]
        if values:
            for column in self.columns:
                own = column.categories or []
                texts += [(value, f"the category {value!r} of the column {column.name!r}") for value in own]
            for target in self.targets:
                own = [] if target.classes is None else target.classes.tolist()
                texts += [(value, f"the label {value!r}") for value in own]
        for text, what in texts:
            if isinstance(text, str) and (found := re.search(pattern, text)):
                raise CannotHoldError(f"the character {found.group()!r} in {what}")

    def by_output(self) -> list[list[FlatTree]]:
        """Return the single-valued trees of each raw prediction; their sum includes the baseline."""
        found: list[list[FlatTree]] = [[] for _ in range(self.n_outputs)]
        for tree, output in zip(self.trees, self.tree_output, strict=True):
            for k in range(self.n_outputs) if self.has_vector_leaves else (output,):
                first = 0.0 if found[k] else float(self.baseline[k])
                found[k].append(tree.of_output(k if self.has_vector_leaves else 0, first))
        return [trees or [leaf(float(self.baseline[k]))] for k, trees in enumerate(found)]

    def rounds(self) -> list[tuple[int, FlatTree]]:
        """Return all trees of `by_output` round by round, each with the index of its raw prediction."""
        outputs = self.by_output()
        n_rounds = max(map(len, outputs))
        return [
            (k, trees[number] if number < len(trees) else leaf(0.0))
            for number in range(n_rounds)
            for k, trees in enumerate(outputs)
        ]

    @property
    def only_target(self) -> Target:
        """The only target.

        Raises
        ------
        CannotHoldError
            If there are several targets, which have separate classes or levels.
        """
        if len(self.targets) == 1:
            return self.targets[0]
        raise CannotHoldError("several targets with classes, or levels, of their own")


def leaf(value: float) -> FlatTree:
    """Return a tree with a single leaf."""
    none, zero = np.full(1, -1), np.zeros(1)
    return FlatTree(
        none, np.full(1, np.nan), zero > 0, {}, none, none, np.full((1, 1), value), np.ones(1, np.int64), zero + 1, zero
    )


def view_of(model: Any, *, is_lightgbm: bool = False) -> ModelView:
    """Return the view of a fitted estimator that holds one TreeEnsemble.

    Parameters
    ----------
    model : estimator
        The estimator.
    is_lightgbm : bool
        True for LightGBM's format, which supports linear models in leaves and columns whose zeros are missing.
    """
    model = model._as_fitted()
    trees: TreeEnsemble = model._predicting_trees()
    if 1 in np.atleast_1d(getattr(model, "n_classes_", 2)):
        raise CannotHoldError("a target of one class")
    if not trees.has_constant_leaves and not is_lightgbm:
        raise CannotHoldError("leaves with linear models")
    if model._encoder.zero_is_missing and not is_lightgbm:
        raise CannotHoldError("zeros that count as missing")
    if model._encoder.missing_number is not None:
        raise CannotHoldError(f"{model._encoder.missing_number:g} as a missing value")
    columns = _columns(model, trees)
    targets, factor = targets_of(model)
    return ModelView(
        type(model).__name__,
        columns,
        _flat_trees(model, trees, columns, factor),
        trees.tree_output.tolist(),
        factor * trees.baseline,
        model._combination in ("mean", "path length"),
        targets,
        note_of(model, columns, targets),
    )


def _columns(model: Any, trees: TreeEnsemble) -> list[Column]:
    """Return the columns of X; columns of models from other libraries may contain category codes."""
    encoder, found = model._encoder, []
    names = encoder.part_names()
    for column, categories in enumerate(encoder.categories):
        name = names[column]
        if column in encoder.hashed and any(isinstance(own, int) for own in categories):
            by_name = "CatBoost's save_model(..., pool=...) names them"
            raise CannotHoldError(f"categories known by their hashes alone (column {name!r}; {by_name})")
        codes = trees.binning.category_codes[column] if categories is None else None
        positions = categories if codes is None else list(range(len(codes)))
        found.append(Column(name, positions, codes is not None, column in encoder.zero_is_missing))
    derived = names[len(encoder.categories) + len(encoder.repeated) :]
    return found + [Column(name, None, False, False) for name in derived]


def _column_of(model: Any) -> NDArray[np.intp]:
    """Return the exported column of each column that the trees use; parts of dates are exported as columns."""
    encoder = model._encoder
    n_columns, n_parts = len(encoder.categories), len(encoder.date_parts)
    own = np.array([*range(n_columns), *encoder.repeated, *range(n_columns, n_columns + n_parts)], dtype=np.intp)
    return own if model._statistics is None else own[model._statistics.column_of(len(own))]


def _flat_trees(model: Any, trees: TreeEnsemble, columns: list[Column], factor: float) -> list[FlatTree]:
    is_categorical = np.array([own.categories is not None for own in columns])
    column = np.where(trees.feature >= 0, _column_of(model)[trees.feature], -1)
    by_category = (column >= 0) & is_categorical[column]
    threshold, missing_left = trees.threshold.copy(), trees.missing_left.astype(bool)
    # A split that sends all numbers to the right is mirrored, so that its threshold becomes +inf.
    swapped = np.isneginf(threshold) & ~by_category
    threshold[swapped] = np.inf
    missing_left ^= swapped
    threshold[by_category] = np.nan
    members: dict[int, NDArray[np.int64]] = {}
    sides = _Sides(model, trees, columns)
    for node in np.flatnonzero(by_category).tolist():
        size = len(columns[column[node]].categories or ())
        left = sides.of(node)
        missing, unseen = left[-2:]
        members[node] = np.flatnonzero(left[:size] != unseen)
        missing_left[node], swapped[node] = missing != unseen, unseen
    left_child, right_child = trees.children_left, trees.children_right
    left_child, right_child = (
        np.where(swapped, right_child, left_child),
        np.where(swapped, left_child, right_child),
    )
    arrays = [
        column,
        threshold,
        missing_left & (column >= 0),
        left_child.astype(np.int64),
        right_child.astype(np.int64),
        factor * trees.value.astype(np.float64),
        trees.n_samples.astype(np.int64),
        trees.weight.astype(np.float64),
        trees.gain.astype(np.float64),
    ]
    offsets, found = trees.node_offsets.tolist(), []
    lines = {} if trees.has_constant_leaves else _lines(model, trees, factor)
    of_sets, of_lines = sorted(members), sorted(lines)
    for first, last in pairwise(offsets):
        feature, limit, missing, *rest = (array[first:last] for array in arrays)
        sets = {node - first: members[node] for node in _between(of_sets, first, last)}
        own = {node - first: lines[node] for node in _between(of_lines, first, last)}
        found.append(FlatTree(feature, limit, missing, sets, *rest, lines=own))
    return found


def _between(ordered: list[int], first: int, last: int) -> list[int]:
    """Return the sorted numbers n with ``first <= n < last``."""
    return ordered[slice(*np.searchsorted(ordered, [first, last]))]


def _lines(model: Any, trees: Any, factor: float) -> dict[int, Line]:
    """Return the linear models of leaves; raise CannotHoldError if they do not extrapolate."""
    linear = trees.linear
    if np.isfinite(linear.lower).any() or np.isfinite(linear.upper).any():
        raise CannotHoldError("leaves with linear models that end with the values of their rows")
    constants, features = factor * linear.intercepts(trees.value[:, 0]), _column_of(model)[linear.features]
    found = {}
    for node in np.unique(linear.nodes).tolist():
        terms = slice(*linear.starts[node : node + 2])
        found[node] = Line(float(constants[node]), features[terms].tolist(), (factor * linear.slopes[terms]).tolist())
    return found


class _Sides:
    """The categories that go left at each node, by position, followed by missing and unseen values."""

    def __init__(self, model: Any, trees: TreeEnsemble, columns: list[Column]) -> None:
        encoder = model._encoder
        sizes = [len(column.categories or ()) for column in columns]
        most = max(sizes, default=0)
        rows = np.full((most + 2, len(sizes)), np.nan)
        for column, (size, own) in enumerate(zip(sizes, columns, strict=True)):
            if own.categories is not None:
                rows[:size, column] = np.arange(size)
                rows[-2, column] = size if encoder.missing_is_category and not own.is_coded else np.nan
                rows[-1, column] = size if own.is_coded else encoder.unseen
        # Target statistics replace categories and are binned as in prediction.
        encoded = rows if model._statistics is None else model._statistics.transform(rows)
        self._codes = trees.binning.codes(np.ascontiguousarray(encoded)).astype(np.int64)
        self._trees = trees

    def of(self, node: int) -> NDArray[np.bool_]:
        trees, codes = self._trees, self._codes[self._trees.feature[node]]
        return codes_left(trees, node, codes)
