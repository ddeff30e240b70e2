"""`export`: a view of a fitted model that is independent of formats, the note that goes with it, and the formats."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.engine.losses.column_losses import ColumnLosses
from fastens.engine.losses.numeric_losses import CustomLoss
from fastens.engine.losses.ranking_loss import AFT, Cox
from fastens.engine.names import are_texts
from fastens.engine.trees.trees import TreeEnsemble, codes_left
from fastens.exchange.foreign import HASHED, ZERO_IS_MISSING
from fastens.exchange.records import PLAIN, ModelColumn
from fastens.exchange.trees import FlatTrees, Line, leaf
from fastens.modelfile.storage import replacing
from fastens.params.rules import one_of

# The module that writes each format. Its `write` function takes a ModelView and the options of the format.
FORMATS = {
    "lightgbm": "lightgbm",
    "onnx": "onnx_writer",
    "sklearn": "sklearn",
    "xgboost": "xgboost",
    "treelite": "treelite",
    "c": "c_header",
    "sql": "sql",
}
# Formats that are not text.
BINARY = ("onnx", "sklearn", "treelite")


def export(model: Any, path: str | os.PathLike[str] | None, format: str, options: dict[str, Any]) -> Any:  # noqa: A002
    """Convert a fitted model to another format and return it, or write it to a file.

    Raises
    ------
    ValueError
        If the format is unknown or cannot represent the model.
    """
    one_of(*FORMATS).check("format", format)
    write = import_module(f"fastens.exchange.{FORMATS[format]}").write
    with refusals(model, format):
        written = write(view_of(model, is_lightgbm=format == "lightgbm"), **options)
    if path is None:
        return written
    with replacing(path) as unfinished:
        if isinstance(written, str | bytes):
            Path(unfinished).write_bytes(written if isinstance(written, bytes) else written.encode())
        else:
            joblib.dump(written, unfinished)
    return None


@contextmanager
def refusals(model: Any, format: str) -> Iterator[None]:  # noqa: A002
    """Convert CannotHoldError to a ValueError that names the model and the format, in a `with` block.

    Raises ValueError at once if the model does not consist of its own trees.
    """
    name = type(model).__name__
    if not hasattr(model, "_ensemble"):
        raise ValueError(f"{name} must be made of its own trees for export; this one has other members.")
    try:
        yield
    except CannotHoldError as error:
        raise ValueError(
            f"format={format!r} cannot represent {error}, which this {name} has. Use another format."
        ) from None


class CannotHoldError(Exception):
    """Error that names what a format cannot represent; `export` completes the sentence and raises ValueError."""


class LinkedTarget(NamedTuple):
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

    @property
    def n_raw(self) -> int:
        """The number of raw predictions."""
        return self.outputs.stop - self.outputs.start


def targets_of(model: Any) -> tuple[list[LinkedTarget], float]:
    """Return a model's targets, and the factor by which raw predictions are multiplied before the links.

    Raises CannotHoldError if predictions are neither sums, means nor path lengths of trees, or for an unnamed link.
    """
    if model._combination == "path length":
        parameters = (float(model._mean_path_length()), float(model.offset_))
        return [LinkedTarget(slice(0, 1), "anomaly", None, parameters)], 1.0
    if model._combination not in ("sum", "mean"):
        raise CannotHoldError(f"the {model._combination} of trees")
    classes = getattr(model, "classes_", None)
    loss = getattr(model, "_loss", None)
    by_target: list[Any] = classes if isinstance(classes, list) else [classes]
    if loss is None:
        if not is_classifier(model):
            return [LinkedTarget(slice(0, model._n_outputs()), "identity", None)], 1.0
        widths = [len(labels) for labels in by_target]
        if sum(widths) != model._n_outputs():  # binary targets have only the probability of the second class
            widths = [1 if width == 2 else width for width in widths]
        ends = np.cumsum(widths)
        return [
            LinkedTarget(slice(end - width, end), "shares", labels)
            for end, width, labels in zip(ends.tolist(), widths, by_target, strict=True)
        ], 1.0
    losses = loss.parts if isinstance(loss, ColumnLosses) else [loss]
    if len(by_target) < len(losses):
        by_target = [None] * len(losses)
    ends = np.cumsum([part.n_outputs for part in losses]).tolist()
    links = [_link(part) for part in losses]
    if loss is not losses[0] and classes is None and len({*links}) == 1 and links[0][0] != "sorted":
        return [LinkedTarget(slice(0, loss.n_outputs), links[0][0], None)], 1.0
    targets = [
        LinkedTarget(slice(end - part.n_outputs, end), link, labels)
        for end, part, (link, _), labels in zip(ends, losses, links, by_target, strict=True)
    ]
    return targets, links[0][1]


def _link(loss: Any) -> tuple[str, float]:
    """Return the name of a loss's inverse link, and the factor of raw predictions that it needs.

    Raises CannotHoldError if a custom loss has its own `predict` or a link without a name.
    """
    if isinstance(loss, CustomLoss) and hasattr(loss._source, "predict"):
        raise CannotHoldError("a custom loss with a method predict")
    if not loss.link.name:
        raise CannotHoldError(f"the predictions of loss={loss.name!r}")
    return loss.link.name, loss.link.factor


def note_of(model: Any, columns: list[Any], targets: list[Any]) -> dict[str, Any]:
    """Return the note that `from_model` reads in addition to the trees.

    Parameters
    ----------
    model : estimator
        The fitted model.
    columns : list of ModelColumn
        The columns of the model.
    targets : list of LinkedTarget
        The targets of the model.
    """
    note: dict[str, Any] = {"estimator": type(model).__name__, "links": [target.link for target in targets]}
    note["widths"] = [target.n_raw for target in targets]
    note["parameters"] = [parameter for target in targets for parameter in target.parameters]
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
    if all(classes is not None and all(isinstance(label, PLAIN) for label in classes) for classes in labels):
        note["classes"] = labels
    note["has_all_shares"] = bool(getattr(model, "_has_all_shares", False))
    coded = {str(number): len(column.categories) for number, column in enumerate(columns) if column.is_coded}
    if coded:
        note["n_codes"] = coded
    named = {
        number: column.categories for number, column in enumerate(columns) if column.categories and not column.is_coded
    }
    if named:
        note["categories"] = {str(number): categories for number, categories in named.items()}
        note["missing_is_category"] = bool(model._encoder.missing_is_category)
    return note


def _survival_of(model: Any) -> dict[str, Any]:
    """Return an AFT model's error distribution and scale, or a Cox model's times and cumulative hazard."""
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
    return re.sub(r"(\\\\)u|\\.", lambda match: match[1] + r"\u0075" if match[1] else match[0], text)


@dataclass(frozen=True, eq=False)
class ModelView:
    """A fitted model in a form that is independent of formats.

    Attributes
    ----------
    estimator : str
        The name of the estimator's class.
    columns : list of ModelColumn
        The columns of X.
    trees : list of FlatTrees
        The single trees, in the order of summation.
    tree_output : list of int
        The raw prediction that each tree adds to; 0 if trees have one value per raw prediction.
    baseline : float64 array of shape (n_outputs,)
        The raw predictions before the first tree.
    is_mean : bool
        True if raw predictions are divided by the number of trees.
    targets : list of LinkedTarget
        The targets, which convert the raw predictions.
    note : dict
        Properties of the model that the formats cannot represent.
    """

    estimator: str
    columns: list[ModelColumn]
    trees: list[FlatTrees]
    tree_output: list[int]
    baseline: NDArray[np.float64]
    is_mean: bool
    targets: list[LinkedTarget]
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
                categories = column.categories or []
                texts += [(value, f"the category {value!r} of the column {column.name!r}") for value in categories]
            for target in self.targets:
                labels = [] if target.classes is None else target.classes.tolist()
                texts += [(value, f"the label {value!r}") for value in labels]
        for text, what in texts:
            if isinstance(text, str) and (match := re.search(pattern, text)):
                raise CannotHoldError(f"the character {match.group()!r} in {what}")

    def by_output(self) -> list[list[FlatTrees]]:
        """Return, for each raw prediction, its trees with one value per node; their sum includes the baseline."""
        parts: list[list[FlatTrees]] = [[] for _ in range(self.n_outputs)]
        for tree, output in zip(self.trees, self.tree_output, strict=True):
            for k in range(self.n_outputs) if self.has_vector_leaves else (output,):
                first = 0.0 if parts[k] else float(self.baseline[k])
                parts[k].append(tree.of_output(k if self.has_vector_leaves else 0, first))
        return [trees or [leaf(float(self.baseline[k]))] for k, trees in enumerate(parts)]

    def rounds(self) -> list[tuple[int, FlatTrees]]:
        """Return (index of raw prediction, tree) pairs round by round; outputs with fewer trees get zero leaves."""
        outputs = self.by_output()
        n_rounds = max(map(len, outputs))
        return [
            (k, trees[number] if number < len(trees) else leaf(0.0))
            for number in range(n_rounds)
            for k, trees in enumerate(outputs)
        ]

    @property
    def only_target(self) -> LinkedTarget:
        """The only target.

        Raises
        ------
        CannotHoldError
            If there are several targets, which have separate classes or levels.
        """
        if len(self.targets) == 1:
            return self.targets[0]
        raise CannotHoldError("several targets that each have classes or quantile levels")


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
        raise CannotHoldError("a target with a single class")
    if not trees.has_constant_leaves and not is_lightgbm:
        raise CannotHoldError("linear leaves")
    if model._encoder.expanded:
        rest = "fit on the columns of TableEncoder(text_features=...) instead"
        raise CannotHoldError(f"columns of texts or lists ({rest})")
    columns = _columns(model, trees)
    if any(column.convention == ZERO_IS_MISSING for column in columns) and not is_lightgbm:
        raise CannotHoldError("zeros that are treated as missing")
    if (number := getattr(model._encoder, "missing_number", None)) is not None:
        raise CannotHoldError(f"{number:g} as a missing value")
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


def _columns(model: Any, trees: TreeEnsemble) -> list[ModelColumn]:
    """Return the columns of X, and then columns derived from dates; columns of imported models may hold codes.

    Raises CannotHoldError for categories known only by hashes, and ValueError for ordered categories.
    """
    encoder, columns = model._encoder, []
    names, conventions = encoder.part_names(), getattr(encoder, "conventions", {})
    for index, categories in enumerate(encoder.categories):
        name, convention = names[index], conventions.get(index)
        if convention == HASHED and any(isinstance(value, int) for value in categories):
            by_name = "save_model(..., pool=...) of CatBoost stores their names"
            raise CannotHoldError(f"categories known only by their hashes (column {name!r}; {by_name})")
        if index in encoder.ordered:
            raise ValueError(
                f"Column {name!r} must hold numbers or unordered categories to be exported; monotonic_cst reads its "
                "categories in their order. Encode them as numbers before fit."
            )
        codes = trees.binning.category_codes[index] if categories is None else None
        positions = categories if codes is None else list(range(len(codes)))
        columns.append(ModelColumn(name, positions, codes is not None, convention=convention))
    derived = names[len(encoder.categories) + len(encoder.repeated) :]
    return columns + [ModelColumn(name) for name in derived]


def _column_of(model: Any) -> NDArray[np.intp]:
    """Return, for each column that the trees split, the index of the exported column: X, then parts of dates."""
    encoder = model._encoder
    n_columns, n_parts = len(encoder.categories), len(encoder.date_parts)
    exported = np.array([*range(n_columns), *encoder.repeated, *range(n_columns, n_columns + n_parts)], dtype=np.intp)
    return exported if model._statistics is None else exported[model._statistics.column_of(len(exported))]


def _flat_trees(model: Any, trees: TreeEnsemble, columns: list[ModelColumn], factor: float) -> list[FlatTrees]:
    """Return each tree with `columns` as features, category sets by position, and values times `factor`."""
    is_categorical = np.array([each.categories is not None for each in columns])
    column = np.where(trees.feature >= 0, _column_of(model)[trees.feature], -1)
    by_category = (column >= 0) & is_categorical[column]
    threshold, missing_left = trees.threshold.copy(), trees.missing_left.astype(bool)
    # A split that sends all numbers to the right is mirrored so that its threshold becomes +inf.
    swapped = np.isneginf(threshold) & ~by_category
    threshold[swapped] = np.inf
    missing_left ^= swapped
    threshold[by_category] = np.nan
    members: dict[int, NDArray[np.int64]] = {}
    sides = _codes_of_categories(model, trees, columns)
    for node in np.flatnonzero(by_category).tolist():
        size = len(columns[column[node]].categories or ())
        left = codes_left(trees, node, sides[trees.feature[node]])
        missing, unseen = left[-2:]
        members[node] = np.flatnonzero(left[:size] != unseen)
        missing_left[node], swapped[node] = missing != unseen, unseen
    left, right = (trees.children_left.astype(np.int64), trees.children_right.astype(np.int64))
    left, right = np.where(swapped, right, left), np.where(swapped, left, right)
    first = np.repeat(trees.node_offsets[:-1], np.diff(trees.node_offsets))
    every = FlatTrees(
        left=np.where(left < 0, -1, left + first),
        right=np.where(right < 0, -1, right + first),
        feature=column,
        threshold=threshold,
        missing_left=missing_left & (column >= 0),
        value=factor * trees.value.astype(np.float64),
        weight=trees.weight.astype(np.float64),
        gain=trees.gain.astype(np.float64),
        n_samples=trees.n_samples.astype(np.int64),
        sets=members,
        lines={} if trees.has_constant_leaves else _lines(model, trees, factor),
        roots=trees.node_offsets[:-1].astype(np.int64),
        output=trees.tree_output.astype(np.int64),
    )
    return list(every.each())


def _lines(model: Any, trees: Any, factor: float) -> dict[int, Line]:
    """Return the leaves' linear models by node index, times `factor`; raise CannotHoldError if they clip inputs."""
    linear = trees.linear
    if np.isfinite(linear.lower).any() or np.isfinite(linear.upper).any():
        raise CannotHoldError("linear leaves that clip to the range of their training rows")
    constants, features = factor * linear.intercepts(trees.value[:, 0]), _column_of(model)[linear.features]
    lines = {}
    for node in np.unique(linear.nodes).tolist():
        terms = slice(*linear.starts[node : node + 2])
        lines[node] = Line(float(constants[node]), features[terms].tolist(), (factor * linear.slopes[terms]).tolist())
    return lines


def _codes_of_categories(model: Any, trees: TreeEnsemble, columns: list[ModelColumn]) -> NDArray[np.int64]:
    """Return the bin codes of categories, (n_features, most categories + 2), then of missing and unseen values."""
    encoder = model._encoder
    sizes = [len(column.categories or ()) for column in columns]
    rows = np.full((max(sizes, default=0) + 2, len(sizes)), np.nan)
    for column, (size, exported) in enumerate(zip(sizes, columns, strict=True)):
        if exported.categories is not None:
            rows[:size, column] = np.arange(size)
            rows[-2, column] = size if encoder.missing_is_category and not exported.is_coded else np.nan
            rows[-1, column] = size if exported.is_coded else encoder.unseen
    # Target statistics replace categories and are binned as in prediction.
    encoded = rows if model._statistics is None else model._statistics.transform(rows)
    return trees.binning.codes(np.ascontiguousarray(encoded)).astype(np.int64)
