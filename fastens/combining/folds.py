"""Members fitted on folds: out-of-fold predictions, several targets, and explanations of weighted sums."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from fastens.base import BaseFastens
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.combining.responses import (
    METHODS,
    MemberError,
    OneClassClassifier,
    Options,
    Task,
    class_response,
    is_all_ours,
    is_fitted_on_labels,
    label_indices,
    metadata_of_rows,
    names_of_weight_types,
    number_response,
    numbers_of,
    place_columns,
    positions_of_classes,
    run_tasks,
    seconds_since,
    weight_name,
    with_weight_type,
)
from fastens.engine.comm import shared
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.trees.trees import TreeEnsemble
from fastens.inspection.model_plots import column_names
from fastens.modelfile.saving import nested_arrays, numbered_arrays, restored_model
from fastens.modelfile.storage import ModelFileError
from fastens.monitoring.callbacks import announce
from fastens.params.rules import FLAG, whole
from fastens.table.memory import VALUES_FOR_ALL_THREADS
from fastens.table.parts import as_numbers, read_table, take_columns, take_rows, with_fixed_dtypes
from fastens.table.training_data import labels_of, split_of_rows, warn_of_duplicates
from fastens.tree_model.explanations import Explanation, for_shap
from fastens.tree_model.saving import SavedEnsemble
from fastens.tree_model.tree_model import TreeModel

Array = NDArray[np.float64]
Labels = list[NDArray[Any]]


def n_columns(classes: Any) -> int:
    """Return the number of response columns over all targets in `classes`: 1 for two classes, else 1 per class."""
    of_targets = classes if isinstance(classes, list) else [classes]
    return sum(1 if len(target_classes) == 2 else len(target_classes) for target_classes in of_targets)


def split_targets(response: Array, classes: Any) -> list[Array]:
    """Return each target's probabilities, (..., n_classes), from the columns that `several_response` returns.

    For a single target, whose `classes` are not a list, the response is returned unchanged.
    """
    if not isinstance(classes, list):
        return [response]
    ends = np.cumsum([n_columns([target_classes]) for target_classes in classes])[:-1]
    parts = zip(np.split(response, ends, axis=-1), classes, strict=True)
    return [
        np.concatenate([1 - part, part], axis=-1) if len(target_classes) == 2 else part
        for part, target_classes in parts
    ]


def class_indices(classes: Any, labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return the class index of each label, with the shape of `labels`; several targets have a list of `classes`."""
    if not isinstance(classes, list):
        return np.searchsorted(classes, labels)
    return np.column_stack(
        [np.searchsorted(target_classes, column) for target_classes, column in zip(classes, labels.T, strict=True)]
    )


def predicted_class_indices(what: str, response: Any, labels: Labels, n_rows: int) -> NDArray[np.intp]:
    """Return the index in `labels` of each predicted label, (n_rows, n_targets); raise MemberError if unknown."""
    predicted = np.asarray(response)
    if predicted.shape != (n_rows, len(labels)):
        raise MemberError(
            f"{what} must predict one label for each of {len(labels)} targets; got the shape {predicted.shape}."
        )
    columns = zip(predicted.T, labels, strict=True)
    return np.column_stack([label_indices(what, column, target_labels, n_rows) for column, target_labels in columns])


def probabilities(what: str, model: Any, X: Any, labels: Labels, options: Options | None = None) -> list[Array]:
    """Return a classifier's probabilities for each target, (n_rows, n_classes), in the order of `labels`.

    `what` is the classifier's name in errors and `options` are further arguments of `predict_proba`. Raises MemberError
    for unknown labels and for an unexpected shape.
    """
    predicted = model.predict_proba(X, **(options or {}))
    if isinstance(predicted, list):
        if len(predicted) != len(labels):
            raise MemberError(
                f"{what} must predict probabilities for {len(labels)} targets; got probabilities for {len(predicted)}."
            )
        return [
            place_columns(
                numbers_of(what, part),
                positions_of_classes(what, np.asarray(model_classes), target_labels),
                len(target_labels),
                0.0,
            )
            for part, model_classes, target_labels in zip(predicted, model.classes_, labels, strict=True)
        ]
    return [np.column_stack([1 - second, second]) for second in _one_per_target(what, predicted, labels, X.shape[0]).T]


def several_response(
    what: str, model: Any, X: Any, method: str, labels: Labels, options: Options | None = None
) -> Array:
    """Return a classifier's response by `method` for several targets, (n_rows, `n_columns`).

    `what` is the classifier's name in errors and `options` are further arguments of the method. Raises MemberError for
    labels that are not in `labels`, and for an unexpected shape.
    """
    if method == "decision_function":
        return _one_per_target(what, model.decision_function(X, **(options or {})), labels, X.shape[0])
    if method == "predict":
        indices = predicted_class_indices(what, model.predict(X, **(options or {})), labels, X.shape[0])
        parts = [np.eye(len(target_labels))[column] for target_labels, column in zip(labels, indices.T, strict=True)]
    else:
        parts = probabilities(what, model, X, labels, options)
    return np.hstack([part[:, 1:] if part.shape[1] == 2 else part for part in parts])


def _one_per_target(what: str, response: Any, labels: Labels, n_rows: int) -> Array:
    """Return a response as (n_rows, n_targets); raise MemberError for other shapes and targets without two classes."""
    predicted = numbers_of(what, response)
    if predicted.shape != (n_rows, len(labels)) or any(len(target_labels) != 2 for target_labels in labels):
        sizes = [len(target_labels) for target_labels in labels]
        raise MemberError(
            f"{what} must predict values for targets of {sizes} classes; got the shape {predicted.shape}."
        )
    return predicted


class Part(NamedTuple):
    """A member's model, its columns, and the factor of its prediction."""

    name: str
    model: Any
    columns: list[int] | None
    weight: float


class ExplainedRows(NamedTuple):
    """Rows to explain, background rows or None, and True if interactions are requested."""

    X: Any
    background: Any
    pairs: bool

    def select_columns(self, columns: list[int] | None) -> ExplainedRows:
        """Return the rows and the background with these columns, or with all columns if `columns` is None."""
        background = None if self.background is None else take_columns(self.background, columns)
        return ExplainedRows(take_columns(self.X, columns), background, self.pairs)


def explain_sum(owner: Any, parts: Sequence[Part], constant: float, rows: ExplainedRows) -> Any:
    """Return the explanation of the ensemble `owner`, whose prediction is a constant plus weighted parts."""
    FLAG.check("interactions", rows.pairs)
    n_rows, n_outputs = rows.X.shape[0], len(owner.classes_) if is_classifier(owner) else 1
    base = np.full((n_rows, n_outputs), constant)
    explained = []
    for part in parts:
        if is_classifier(owner) and len(part.model.classes_) == 1:
            base += part.weight * (owner.classes_ == part.model.classes_[0])
        else:
            explained.append((part, _explained(part, rows.select_columns(part.columns))))
    features = column_names(owner)
    n_features = len(features)
    values = np.zeros((n_rows, *[n_features] * (1 + rows.pairs), n_outputs))
    data, shown = np.full((n_rows, n_features), np.nan), np.full((n_rows, n_features), np.nan, dtype=object)
    for part, explanation in explained:
        columns = np.arange(n_features) if part.columns is None else np.array(part.columns)
        of_part, of_base = (
            _by_class(owner, part, explanation) if is_classifier(owner) else (explanation.values[..., None], None)
        )
        values[np.ix_(np.arange(n_rows), *[columns] * (1 + rows.pairs))] += part.weight * of_part
        base += part.weight * (explanation.base_values[:, None] if of_base is None else of_base)
        data[:, columns] = explanation.data
        shown[:, columns] = explanation.data if explanation.display_data is None else explanation.display_data
    names: Any = "prediction"
    if is_classifier(owner):
        names = [str(label) for label in owner.classes_]
    if n_outputs == 2:
        values, base, names = values[..., 1:], base[:, 1:], f"probability of {names[1]}"
    is_one = values.shape[-1] == 1
    has_value = ~np.isnan(data)
    has_categories = any(not isinstance(value, float) for value in shown[has_value])
    return for_shap(
        Explanation(
            values[..., 0] if is_one else values,
            base[:, 0] if is_one else base,
            data,
            shown if has_categories else None,
            features,
            names,
        )
    )


def _explained(part: Part, rows: ExplainedRows) -> Any:
    """Return the explanation of a part's prediction, after the link; raise ValueError if it cannot be explained."""
    model = part.model
    is_known = is_all_ours(model, METHODS) or not is_all_ours(model, ["explain"])
    if not hasattr(model, "explain") or not is_known:
        raise ValueError(
            f"member {part.name!r} must be a tree model of fastens to be explained; got {model!r}. Import "
            "models of other libraries with fastens.from_model."
        )
    try:
        if not isinstance(model, TreeModel) or model._predicts_raw:
            return model.explain(rows.X, rows.background, interactions=rows.pairs)
        if rows.background is None:
            raise ValueError(
                "background must be a table of rows, because the members are averaged after their link "
                "function; got None."
            )
        return model.explain(rows.X, rows.background, output="probability", interactions=rows.pairs)
    except ValueError as error:
        raise ValueError(f"member {part.name!r} cannot be explained: {error}") from error


def _by_class(owner: Any, part: Part, explanation: Any) -> tuple[Array, Array]:
    """Return the values and base values of a part's explanation with one output for each class of `owner`."""
    values, base = explanation.values, explanation.base_values
    if base.ndim == 1:  # for binary targets, the values of the second class
        values, base = np.stack([-values, values], axis=-1), np.stack([1 - base, base], axis=-1)
    class_positions = positions_of_classes(f"member {part.name!r}", np.asarray(part.model.classes_), owner.classes_)
    out, of_base = np.zeros((*values.shape[:-1], len(owner.classes_))), np.zeros((len(base), len(owner.classes_)))
    out[..., class_positions], of_base[:, class_positions] = values, base
    return out, of_base


RowIndices = NDArray[np.intp]
Fold = tuple[RowIndices, RowIndices]

N_FOLDS = 5
CONTENT = "content"  # the value of `cv` for folds drawn by the content of rows
ALL_ROWS = -1  # stands for the fit on all rows instead of a fold index


class GivenRows(NamedTuple):
    """Indices of the rows of `fit` with nonzero weight, and the number of rows passed."""

    rows: RowIndices
    n_given: int

    def scatter(self, values: Array) -> Array:
        """Return the rows' values at their positions among all rows passed to `fit`, and NaN at the other rows."""
        if len(self.rows) == self.n_given:
            return values
        out = np.full((self.n_given, values.shape[1]), np.nan)
        out[self.rows] = values
        return out


@dataclass(frozen=True)
class MemberSpec:
    """A member to fit, its columns, and the method that produces its responses."""

    name: str
    estimator: Any
    columns: list[int] | None
    method: str
    n_outputs: int | None = 1  # number of outputs of a regressor; None for any number

    def fitted(self, models: list[Any], classes: Any, uses_labels: bool) -> FittedMember:
        """Return the member with its fitted models; `uses_labels` is True if they predict labels, not class indices."""
        return FittedMember(self.name, self.columns, self.method, models, classes, uses_labels, self.n_outputs)


@dataclass(frozen=True)
class MemberData:
    """The data that members are fitted on."""

    X: Any  # a frame, an array, or a CSR or CSC matrix
    y: Array  # class indices in classification; one column for each of several targets
    classes: Any  # the labels, or a list with the labels of each target; None in regression
    sample_weight: Array | None
    groups: Any = None
    validation: tuple[Any, Any] | None = None  # validation rows for early stopping, with their original targets
    routed: Mapping[str, Mapping[str, Any]] | None = None  # metadata by member if scikit-learn's routing is enabled
    weight_unit: float | None = None  # number by which the weights were divided; None without weights
    narrows: bool = False  # rows may be copied in a narrower type, because only fastens members read them

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.y)

    @property
    def weight(self) -> Array:
        """The weight of each row."""
        return np.ones(self.n_rows) if self.sample_weight is None else self.sample_weight

    def weight_for(self, member: Any) -> Array | None:
        """Return a member's weights: unscaled if it has no `weight_type`, otherwise scaled like the ensemble's."""
        is_counted = isinstance(member, BaseFastens) and member._compares_weights  # such as a nested ensemble
        if self.weight_unit is None or is_counted or names_of_weight_types(member):
            return self.sample_weight
        return self.weight * self.weight_unit

    def with_fixed_dtypes(self) -> MemberData:
        """Return the data with column types fixed, so that fastens members read subsets of rows like all rows."""
        return replace(self, X=with_fixed_dtypes(self.X), narrows=True)

    def take(self, rows: RowIndices) -> MemberData:
        """Return the rows with these indices, with their targets, weights, groups and metadata."""
        return replace(
            self,
            X=take_rows(self.X, rows, narrows=self.narrows),
            y=self.y[rows],
            sample_weight=None if self.sample_weight is None else self.sample_weight[rows],
            groups=None if self.groups is None else np.asarray(self.groups)[rows],
            routed=None
            if self.routed is None
            else {name: metadata_of_rows(metadata, rows, self.n_rows) for name, metadata in self.routed.items()},
        )

    def with_table(self, X: Any, validation_table: Any = None) -> MemberData:
        """Return the data with other columns for these rows, and for the validation rows if there are any."""
        validation = None if self.validation is None else (validation_table, self.validation[1])
        return replace(self, X=X, validation=validation)

    def labels_for(self, member: Any) -> NDArray[Any]:
        """Return the target for a member: labels if it is fitted on labels, otherwise class indices."""
        if self.classes is None:
            return self.y
        return labels_of(self.y, self.classes) if is_fitted_on_labels(member) else self.y.astype(np.intp)


@dataclass
class FittedMember:
    """A member's model, or the models of all folds, whose responses are averaged."""

    name: str
    columns: list[int] | None
    method: str
    models: list[Any]
    classes: Any  # the labels, or a list with the labels of each target; None in regression
    uses_labels: bool  # the member is fitted on labels instead of class indices
    n_outputs: int | None = 1  # number of outputs of a regressor; None for any number

    @property
    def kept(self) -> Any:
        """The model, or the list of the models of all folds."""
        return self.models if len(self.models) > 1 else self.models[0]

    def parts(self, weight: float) -> list[Part]:
        """Return the member's models as explainable parts whose weights are equal and sum to `weight`."""
        return [Part(self.name, model, self.columns, weight / len(self.models)) for model in self.models]

    def respond(self, X: Any, method: str | None = None, options: Mapping[str, Any] | None = None) -> Array:
        """Return the mean response of the member's models, (n_rows, n_outputs); members select their columns of `X`.

        `method` replaces the member's default method, and `options` are further arguments of the method.
        """
        X, member = take_columns(X, self.columns), self if method is None else replace(self, method=method)
        total = member._respond(self.models[0], X, options)
        for model in self.models[1:]:
            total = total + member._respond(model, X, options)
        return total / len(self.models)

    def respond_with(self, model: Any, X: Any) -> Array:
        """Return the response of `model`, one of the member's models, to the rows of `X`, (n_rows, n_outputs)."""
        return self._respond(model, take_columns(X, self.columns))

    def _respond(self, model: Any, X: Any, options: Mapping[str, Any] | None = None) -> Array:
        """Return the checked response of `model` to the member's columns `X`, (n_rows, n_outputs), by its method."""
        what = f"Member {self.name!r}"
        if isinstance(model, OneClassClassifier):
            options = None
        if self.classes is None:
            return number_response(what, model, X, self.n_outputs, options, method=self.method)
        if isinstance(self.classes, list):
            several = (
                self.classes
                if self.uses_labels
                else [np.arange(len(target_classes)) for target_classes in self.classes]
            )
            return several_response(what, model, X, self.method, several, options)
        labels = self.classes if self.uses_labels else np.arange(len(self.classes))
        return class_response(what, model, X, self.method, labels, options)


# Folds --------------------------------------------------


def make_folds(cv: Any, data: MemberData, rows: GivenRows, n_content: int = N_FOLDS) -> list[Fold]:
    """Return the training and test row indices of each fold of `cv`, in the numbering of the rows of `data`.

    `cv` is a number, splitter, list of folds or "content", which draws `n_content` folds from hashes of the rows.
    Listed folds refer to all rows passed to `fit`; `rows` are the ones in `data`. Raises ValueError for invalid folds.
    """
    from sklearn.model_selection import PredefinedSplit

    if isinstance(cv, str) and cv == CONTENT:
        folds = content_folds(data, n_content)
        if not folds:
            raise ValueError(
                "X must hold at least two different rows, or rows of two groups, to be split "
                "into folds; all rows are the same."
            )
        return folds
    if isinstance(cv, PredefinedSplit):
        cv = list(cv.split())
    if isinstance(cv, Iterable) and not hasattr(cv, "split"):
        folds = _passed_folds(cv, data, rows)
    else:
        if data.groups is None:
            numbers = as_numbers(data.X)
            warn_of_duplicates(content_hashes(numbers, data.y), numbers, data.y)
        folds = [split_of_rows("cv", fold, data.n_rows) for fold in _split(cv, data)]
    if not any(len(test) for _, test in folds):
        used_up = " An iterator is exhausted after one fit; pass a list of folds instead." * isinstance(cv, Iterator)
        raise ValueError(f"cv must yield folds with test rows; got none.{used_up}")
    for train, test in folds:
        is_training = np.zeros(data.n_rows, dtype=bool)
        is_training[train] = True
        if is_training[test].any():
            raise ValueError("cv must yield folds with disjoint training and test rows; at least one row is in both.")
    return folds


def content_folds(data: MemberData, n_folds: int) -> list[Fold]:
    """Return folds that depend only on row contents and not on row order, or group folds if there are groups.

    Duplicate rows share a fold, and each class is divided evenly. The list is empty if all rows share one fold.
    """
    if data.groups is not None:
        return group_folds(data, n_folds)
    hashes = content_hashes(as_numbers(data.X), data.y)
    _, first, copy_of = np.unique(hashes, return_index=True, return_inverse=True)
    label = data.y[first] if data.classes is not None and data.y.ndim == 1 else np.zeros(len(first))
    fold = np.empty(len(first), dtype=np.intp)
    fold[np.argsort(label, kind="stable")] = np.arange(len(first)) % n_folds
    return folds_by_number(fold[copy_of.ravel()])


def group_folds(data: MemberData, n_folds: int) -> list[Fold]:
    """Return at most `n_folds` folds that keep each group together; empty if there is only one group."""
    from sklearn.model_selection import GroupKFold

    n_folds = min(n_folds, len(np.unique(data.groups)))
    rows = GivenRows(np.arange(data.n_rows), data.n_rows)
    return make_folds(GroupKFold(n_folds), data, rows) if n_folds > 1 else []


def folds_by_number(fold: NDArray[Any]) -> list[Fold]:
    """Return the training and test rows of each fold from each row's fold number; empty if all rows share a fold."""
    folds = [(np.flatnonzero(fold != one), np.flatnonzero(fold == one)) for one in np.unique(fold)]
    return folds if len(folds) > 1 else []


def _passed_folds(cv: Iterable[Any], data: MemberData, rows: GivenRows) -> list[Fold]:
    """Return folds of indices or masks over all rows passed to `fit`, renumbered to the rows of nonzero weight."""
    new_index = np.full(rows.n_given, -1)
    new_index[rows.rows] = np.arange(data.n_rows)
    parts = [split_of_rows("cv", fold, rows.n_given) for fold in cv]
    return [(_drop_removed(new_index[train]), _drop_removed(new_index[test])) for train, test in parts]


def _split(cv: Any, data: MemberData) -> list[Any]:
    """Return (training, test) row indices by a splitter or a number of folds; raise ValueError if it cannot split."""
    from sklearn.model_selection import check_cv

    is_classification = data.classes is not None
    target = data.y.astype(np.intp) if is_classification else data.y
    try:
        splitter = check_cv(cv, y=target, classifier=is_classification)
        return list(splitter.split(np.zeros((data.n_rows, 1)), target, data.groups))
    except (TypeError, ValueError) as error:
        has_classes = is_classification and target.ndim == 1
        advice, largest = "", int(np.bincount(target).max()) if has_classes else data.n_rows
        if has_classes and isinstance(cv, int | np.integer) and cv > largest:
            fewer = (
                f"Set cv to at most {largest}, the number of rows of the most frequent class"
                if largest > 1
                else "Merge classes"
            )
            advice = f" {fewer}, or use KFold({cv}), which ignores the classes."
        raise ValueError(f"cv={cv!r} cannot split the rows: {error}{advice}") from error


def _drop_removed(rows: RowIndices) -> RowIndices:
    """Return the row indices without the -1 that marks removed rows."""
    return rows[rows >= 0]


def rows_with_responses(responses: list[Array]) -> NDArray[np.bool_]:
    """Return a mask of the rows for which the responses of all members are not NaN."""
    return np.asarray(~np.isnan(np.hstack(responses)).any(axis=1))


def restrict_folds(folds: list[Fold], has_response: NDArray[np.bool_]) -> list[Fold]:
    """Return the folds restricted and renumbered to the rows with a response.

    Folds that lack training or test rows are left out.
    """
    cut = [(train[has_response[train]], test[has_response[test]]) for train, test in folds]
    new_index = np.cumsum(has_response) - 1
    return [(new_index[train], new_index[test]) for train, test in cut if len(train) and len(test)]


# Fits --------------------------------------------------


@dataclass
class FoldFit:
    """One member fitted on one fold: its model, and its responses for the test rows."""

    model: Any
    responses: Array | None


@dataclass
class LevelPlan:
    """Settings of the fits of a level's members."""

    refit: bool  # if True, each member is also fitted on all rows, and that model replaces the folds' models
    n_threads: int
    fold_fits: dict[tuple[str, int], FoldFit] = field(default_factory=dict)  # finished fits; new fits are added
    verbose: bool = False  # log how long each fit takes


def fit_level(
    specs: list[MemberSpec], data: MemberData, folds: list[Fold], plan: LevelPlan
) -> tuple[list[FittedMember], list[Array]]:
    """Fit members on folds, or on all rows if there are no folds; return them and their out-of-fold responses.

    Responses are averaged for rows in several test sets, and NaN for rows in none; they have no columns without folds.
    Fits in `plan.fold_fits` are reused.
    """
    check_weights_accepted([(spec.name, spec.estimator) for spec in specs], data)
    jobs = ([ALL_ROWS] if plan.refit or not folds else []) + list(range(len(folds)))
    sequential, parallel = _tasks(specs, data, folds, plan, jobs)
    run_tasks(sequential, parallel, plan.n_threads)
    kept = [ALL_ROWS] if ALL_ROWS in jobs else jobs
    members = [_fitted(spec, [plan.fold_fits[spec.name, job].model for job in kept], data) for spec in specs]
    return members, [_out_of_fold(spec, data, folds, plan) for spec in specs]


def _tasks(
    specs: list[MemberSpec], data: MemberData, folds: list[Fold], plan: LevelPlan, jobs: list[int]
) -> tuple[list[list[Task]], list[list[Task]]]:
    """Return the fits to run one after another with all threads, and the fits to run in parallel.

    `jobs` are fold indices, or -1 for all rows; fits in `plan.fold_fits` are left out. Parallel fits use one thread
    each. The fastens members of a fold are fitted one after another, so that its table is encoded once.
    """
    sequential: list[list[Task]] = []
    parallel: list[list[Task]] = []
    own_data = data.with_fixed_dtypes() if any(is_all_ours(spec.estimator) for spec in specs) else data
    read = _with_frame_read(own_data, specs)
    is_large = data.X.shape[0] * data.X.shape[1] > VALUES_FOR_ALL_THREADS
    for job in jobs:
        ours: list[Task] = []
        for spec in specs:
            if (spec.name, job) in plan.fold_fits:
                continue
            is_ours = isinstance(spec.estimator, BaseFastens)
            is_settled = is_all_ours(spec.estimator)
            table = read if _reads_tables(spec.estimator) else own_data if is_settled else data
            task = partial(_fit_job, spec, table, folds, job, plan)
            if is_ours:
                ours.append(task)
            else:
                (sequential if _has_threads(spec.estimator) else parallel).append([task])
        (sequential if is_large else parallel).append(ours)
    return sequential, parallel


def _with_frame_read(data: MemberData, specs: list[MemberSpec]) -> MemberData:
    """Return the data with its frame read once for all fits; unchanged if no member accepts such a table."""
    if not any(_reads_tables(spec.estimator) for spec in specs):
        return data
    table = read_table(data.X)
    return data if table is None else replace(data, X=table)


def _reads_tables(member: Any) -> bool:
    """Return True if a member accepts a frame that is already read into fastens' table format."""
    return (
        isinstance(member, SavedEnsemble)
        and isinstance(member, BaseFastens)
        and is_all_ours(member)
        and type(member)._learn_table is BaseFastens._learn_table
        and getattr(member, "categorical_features", None) == "from_dtype"
    )


def _has_threads(member: Any) -> bool:
    """Return True if a member of another library starts several threads or processes itself."""
    parameters = member.get_params(deep=True) if hasattr(member, "get_params") else {}
    return any(
        key.split("__")[-1] in ("n_jobs", "thread_count", "num_threads") and value not in (None, 1)
        for key, value in parameters.items()
    )


def _fit_job(spec: MemberSpec, data: MemberData, folds: list[Fold], job: int, plan: LevelPlan) -> None:
    """Fit a member on fold `job`, or on all rows if -1; add its model and test responses to `plan.fold_fits`.

    Raises MemberError, which names the member and the fold, if the fit fails.
    """
    began = time.perf_counter()
    part = data if job == ALL_ROWS else _training(data, folds, job)
    columns = None if spec.columns is None else tuple(spec.columns)
    try:
        model = _fit_part(spec, part, _columns(part, columns), len(folds))
        responses = None if job == ALL_ROWS else _fitted(spec, [model], data).respond(_test_rows(data, folds, job))
    except (MemberError, MemoryError):
        raise
    except Exception as error:
        where = "on all rows" if job == ALL_ROWS else f"in fold {job}"
        raise MemberError(f"Member {spec.name!r} failed {where}: {error}{advice_on_fit(part)}") from error
    trees = getattr(model, "_ensemble", None)
    if isinstance(trees, TreeEnsemble):
        trees.forget()
    if plan.verbose:
        where = "all rows" if job == ALL_ROWS else f"fold {job + 1} of {len(folds)}"
        announce(f"Member {spec.name!r}, {where}: {seconds_since(began)}")
    keep = job == ALL_ROWS or not plan.refit
    plan.fold_fits[spec.name, job] = FoldFit(model if keep else None, responses)


@shared
def _training(data: MemberData, folds: list[Fold], job: int) -> MemberData:
    """Return the training rows of fold `job`; members that are fitted in parallel share the result."""
    return data.take(folds[job][0])


@shared
def _test_rows(data: MemberData, folds: list[Fold], job: int) -> Any:
    """Return the table of the test rows of fold `job`; members that are fitted in parallel share the result."""
    return take_rows(data.X, folds[job][1], narrows=data.narrows)


@shared
def _columns(part: MemberData, columns: tuple[int, ...] | None) -> Any:
    """Return the table of `part` with the selected columns, all if None; members with equal columns share it."""
    return take_columns(part.X, None if columns is None else list(columns))


def _fitted(spec: MemberSpec, models: list[Any], data: MemberData) -> FittedMember:
    """Return the member with its fitted models and with the classes of `data`."""
    return spec.fitted(models, data.classes, uses_labels=is_fitted_on_labels(spec.estimator))


def _absent_classes(part: MemberData) -> list[Any]:
    """Return the labels of the classes of a single target that no row has."""
    if part.classes is None or isinstance(part.classes, list):
        return []
    return np.delete(part.classes, np.unique(part.y.astype(np.intp))).tolist()


def advice_on_fit(part: MemberData) -> str:
    """Return advice to append to a fit error: for several targets or an absent class; otherwise empty."""
    if part.y.ndim > 1:
        wrapper = "MultiOutputRegressor" if part.classes is None else "MultiOutputClassifier"
        return (
            f" y has {part.y.shape[1]} targets. An estimator that supports only one can be wrapped in "
            f"sklearn.multioutput.{wrapper}."
        )
    absent = _absent_classes(part)
    if not absent:
        return ""
    return (
        f" Its training rows lack the class {absent[0]!r}. Use stratified folds with at least two rows of "
        "every class, or merge rare classes."
    )


def _fit_part(spec: MemberSpec, part: MemberData, X: Any, n_folds: int) -> Any:
    """Return a member fitted on `X`, its columns of `part`; a constant classifier if a fold has only one class."""
    has_one_target = part.classes is not None and not isinstance(part.classes, list)
    if not has_one_target or len(_absent_classes(part)) < len(part.classes) - 1:
        return fit_member(spec, part, X)
    if n_folds < 2 and len(part.classes) > 1:
        return fit_member(spec, part, X)
    if spec.method == "decision_function" and len(part.classes) > 1:
        raise ValueError("decision_function needs rows of two classes; the training rows have a single class.")
    return OneClassClassifier().fit(X, part.labels_for(spec.estimator))


def fit_member(spec: MemberSpec, data: MemberData, X: Any) -> Any:
    """Return a copy of the member fitted on `X` with the targets, weights, groups and validation rows of `data`."""
    model = clone(spec.estimator)
    if data.sample_weight is not None:
        model = with_weight_type(model, data.sample_weight)
    model.fit(X, data.labels_for(model), **_metadata(spec, data))
    return model


def _metadata(spec: MemberSpec, data: MemberData) -> dict[str, Any]:
    """Return the arguments of a member's `fit`: routed metadata, or weights and other supported arguments."""
    arguments: dict[str, Any] = {} if data.routed is None else dict(data.routed[spec.name])
    member = spec.estimator
    stops_early = getattr(member, "early_stopping", True) is not False and has_fit_parameter(member, "X_val")
    if data.routed is None:
        if (weight := data.weight_for(member)) is not None:
            check_weights_accepted([(spec.name, member)], data)
            arguments[str(weight_name(member))] = weight
        # Boosting uses groups for the early-stopping splitter, and raises if groups are passed without a splitter.
        has_splitter = not isinstance(member, BoostedTrees) or member._stopping.validation is not None
        if data.groups is not None and has_fit_parameter(member, "groups") and has_splitter:
            arguments["groups"] = data.groups
    if data.validation is not None and (stops_early if data.routed is None else {"X_val", "y_val"} <= {*arguments}):
        X_val, y_val = data.validation
        if not is_fitted_on_labels(member) and data.classes is not None:
            y_val = class_indices(data.classes, y_val)
        arguments |= {"X_val": take_columns(X_val, spec.columns), "y_val": y_val}
    return arguments


def check_weights_accepted(members: Iterable[tuple[str, Any]], data: MemberData) -> None:
    """Raise TypeError for the first (name, member) whose `fit` would get weights that it does not support."""
    for name, member in members:
        if data.routed is None and weight_name(member) is None and data.weight_for(member) is not None:
            raise TypeError(
                f"sample_weight must be None with member {name!r}, because its fit does not accept sample_weight. "
                "Drop the member, or replace it with an estimator that supports weights."
            )


def _out_of_fold(spec: MemberSpec, data: MemberData, folds: list[Fold], plan: LevelPlan) -> Array:
    """Return a member's out-of-fold responses, (n_rows, n_outputs), averaged over folds; NaN for untested rows."""
    if not folds:
        return np.empty((data.n_rows, 0))
    first = plan.fold_fits[spec.name, 0].responses
    assert first is not None
    total = np.zeros((data.n_rows, first.shape[1]))
    count = np.zeros((data.n_rows, 1))
    for job, (_, test) in enumerate(folds):
        responses = plan.fold_fits[spec.name, job].responses
        assert responses is not None
        np.add.at(total, test, responses)
        np.add.at(count, test, 1)
    with np.errstate(invalid="ignore"):
        return total / count


# Saving --------------------------------------------------


def members_to_arrays(prefix: str, members: list[FittedMember]) -> dict[str, NDArray[Any]]:
    """Return members as arrays to save, whose names start with `prefix`."""
    arrays: dict[str, NDArray[Any]] = {}
    described = []
    for number, member in enumerate(members):
        described.append([member.name, member.columns, member.method, member.uses_labels, len(member.models)])
        for model_index, model in enumerate(member.models):
            arrays |= nested_arrays(f"{prefix}{number}.{model_index}.", model, f"Member {member.name!r}")
    content = json.dumps(described, separators=(",", ":")).encode()
    return arrays | {f"{prefix}members": np.frombuffer(content, dtype=np.uint8)}


def members_from_arrays(
    prefix: str, arrays: Mapping[str, NDArray[Any]], classes: Any, n_outputs: int | None = 1
) -> list[FittedMember]:
    """Return the members restored from the arrays of `members_to_arrays`; `classes` is None for regressors.

    `n_outputs` is the number of outputs of regressors, None for any. Raises ModelFileError if the arrays are malformed.
    """
    if n_outputs is not None:
        whole(1).check("the number of targets", n_outputs)
    members = []
    described = json.loads(arrays[f"{prefix}members"].tobytes().decode())
    saved_arrays = numbered_arrays(prefix, arrays, 2)
    for number, (name, columns, method, uses_labels, n_models) in enumerate(described):
        if method not in METHODS or type(n_models) is not int:
            raise ModelFileError("the state of the members is malformed")
        models = [
            restored_model(saved_arrays.get(f"{number}.{model_index}", {}), f"Member {name!r}")
            for model_index in range(n_models)
        ]
        members.append(FittedMember(name, columns, method, models, classes, uses_labels, n_outputs))
    return members
