"""Arguments of `fit` other than X and y: validation sets and splitters, groups and initial scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.engine.comm import gathered, own_rows
from fastens.engine.parts import RowSource
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.params.estimator import constructor_defaults
from fastens.table.columns.numbers import numbers_in, unmasked
from fastens.table.opening import in_parts, split_columns
from fastens.table.training_data import split_of_rows, warn_of_duplicates

Array = NDArray[np.float64]
RowNumbers = NDArray[np.intp]


class GivenValidation(NamedTuple):
    """The validation set that was passed to `fit`."""

    X: Any = None
    y: Any = None
    sample_weight: Any = None
    init_score: Any = None

    @property
    def is_given(self) -> bool:
        """True if X_val or y_val was passed."""
        return self.X is not None or self.y is not None

    @property
    def n_rows(self) -> int:
        """The number of validation rows, 0 without X_val."""
        if self.X is None:
            return 0
        shape = getattr(in_parts(self.X), "shape", None)
        if shape is None:
            shape = (len(self.X),) if hasattr(self.X, "__len__") else np.shape(self.X)
        return shape[0] if shape else 0

    def read(self, model: Any) -> TrainingData | None:
        """Return the validation set, encoded like the training set; None without X_val.

        Raise ValueError if X_val or y_val is missing, or does not match X and y.
        """
        if (self.X is None) != (self.y is None):
            passed, missing = ("y_val", "X_val") if self.X is None else ("X_val", "y_val")
            raise ValueError(f"X_val and y_val must be passed together; got {passed} without {missing}.")
        if self.X is None:
            return None
        try:
            return model._check_validation(self.X, self.y, self.sample_weight)
        except ValueError as error:
            raise ValueError(f"X_val and y_val must have the same form as X and y: {error}") from error


def holds_out(model: Any) -> bool:
    """Return True if `fit` holds out rows of X for validation without X_val: `early_stopping` is True or a record."""
    return bool(model.early_stopping) and not isinstance(model.early_stopping, str)


def drawn_rows(
    model: Any, data: TrainingData, seed: int, strata_of: Callable[[Array], NDArray[Any] | None] | None = None
) -> tuple[RowNumbers, RowNumbers]:
    """Return randomly drawn training and validation row indices of this rank.

    Rows are stratified by class, or by `strata_of(y)` if each stratum can have a row on both sides. Raise ValueError if
    there are too few rows for `validation_fraction`.
    """
    from sklearn.model_selection import train_test_split

    (y,) = gathered(data.comm, [data.y])
    rows, n_wanted = np.arange(len(y)), math.ceil(model.validation_fraction * len(y))
    stratify = y if hasattr(model, "classes_") and y.ndim == 1 else None
    if strata_of is not None and (strata := strata_of(y)) is not None:
        sizes = np.unique(strata, return_counts=True)[1]
        stratify = strata if len(sizes) > 1 and min(*sizes, n_wanted, len(y) - n_wanted) > 1 else None
    shared, n_held_out = _rows_to_share(stratify, len(y), model.validation_fraction)
    try:
        train, validation = train_test_split(
            rows[shared],
            test_size=n_held_out,
            stratify=None if stratify is None else stratify[shared],
            random_state=seed,
        )
    except ValueError as error:
        raise ValueError(
            "validation_fraction must leave at least one row each for training and validation; got "
            f"{model.validation_fraction} of {len(rows)} rows. Use early_stopping=False, or pass X_val and y_val."
        ) from error
    return local_split(data, (np.concatenate([train, rows[~shared]]), validation))


def _rows_to_share(strata: NDArray[Any] | None, n_rows: int, share: float) -> tuple[NDArray[np.bool_], float | int]:
    """Return a mask of the rows that may be held out, and the number or fraction of these rows to hold out.

    `strata` holds each row's class (None if rows are not stratified), and `share` is the fraction of all rows to hold
    out. The only row of a class stays in the training set. On small tables, the number is adjusted so that every other
    class has a row on both sides.
    """
    if strata is None:
        return np.ones(n_rows, dtype=bool), share
    _, class_index, counts = np.unique(strata, return_inverse=True, return_counts=True)
    shared, n_classes = counts[class_index] > 1, int((counts > 1).sum())
    n_shared = int(shared.sum())
    n_held_out = math.ceil(share * n_rows)
    if n_shared == n_rows and n_classes <= n_held_out <= n_rows - n_classes:
        return shared, share
    return shared, max(min(max(n_held_out, n_classes), n_shared - n_classes), 1)


def check_duplicates(model: Any, data: TrainingData) -> None:
    """Warn of duplicate rows, which a random split can put on both sides; only for tables in memory on one rank."""
    if data.comm.size == 1 and not isinstance(data.X, RowSource):
        target = np.ascontiguousarray(getattr(model, "_target_for_hashing", np.asarray)(data.y))
        warn_of_duplicates(content_hashes(data.X, target, resolve_n_jobs(model.n_jobs)), data.X, target)


def local_split(data: TrainingData, parts: Sequence[RowNumbers]) -> tuple[RowNumbers, RowNumbers]:
    """Return the training and validation row indices in `parts`, among all ranks' rows, that are on this rank.

    The result counts from this rank's first row.
    """
    train, validation = own_rows(data.comm, len(data.y), *parts)
    return train, validation


def check_validated(model: Any, validation: TrainingData | None, *, is_recorded: bool = False) -> None:
    """Raise ValueError without a validation set if parameters that require one differ from their defaults.

    `is_recorded` is True if `eval_set` is passed, so that `eval_metric` is used even without a validation set.
    Parameters that scikit-learn's checks set only give a warning.
    """
    defaults = constructor_defaults(model)
    unread = ("n_iter_no_change", "tol", *(() if is_recorded else ("eval_metric",)))
    for name in unread if validation is None else ():
        if name in defaults and not model._is_default(name):
            model._reject_ignored(
                name,
                f"{name} must be {defaults[name]!r} without a validation set; got {getattr(model, name)!r}. Pass "
                "X_val and y_val, or set early_stopping=True.",
            )


# Sets of rows whose metrics are recorded: tuples of X, y and optional weights, by name or in a list.
EvalSet = Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]]


def named_sets(model: Any, eval_set: EvalSet | None) -> dict[str, Any]:
    """Return the sets of `eval_set` by name; raise ValueError if they are invalid."""
    if eval_set is None:
        return {}
    sets_by_name = eval_set if isinstance(eval_set, Mapping) else {f"eval_{k}": each for k, each in enumerate(eval_set)}
    sets = dict(sets_by_name.items())
    for name, each in sets.items():
        if name in ("training", "validation") or not isinstance(name, str):
            raise ValueError(f"eval_set must have names other than 'training' and 'validation'; got {name!r}.")
        if not isinstance(each, tuple | list) or len(each) not in (2, 3):
            raise ValueError(f"eval_set must hold pairs (X, y) or triples with weights; got {each!r:.60} for {name!r}.")
    if sets and (model._comm.size > 1 or model._stopping.folds is not None):
        raise ValueError(f"eval_set must be None in distributed fits and with early_stopping.folds; got {[*sets]}.")
    return sets


def record_sets(model: Any, rounds: Any, sets: Mapping[str, Any]) -> None:
    """Make the training loop `rounds` record metrics on each of `sets`, (X, y) or (X, y, weight) by name.

    Raise ValueError for a set that does not match the training columns and targets.
    """
    for name, (X_set, y_set, *weight) in sets.items():
        try:
            X, y, weight_of_rows = split_columns(X_set, y=y_set, sample_weight=weight[0] if weight else None)
            data = model._apply_statistics(model._check_validation(X, y, weight_of_rows))
        except ValueError as error:
            raise ValueError(
                f"eval_set must hold tables and targets of the same form as X and y; {name!r} does not: {error}"
            ) from error
        rounds.record(name, data, partial(model._metrics, rounds))


def check_arguments(model: Any, init_score: Any, groups: Any, validation_input: GivenValidation) -> None:
    """Raise ValueError if `init_score`, `groups`, the validation set and the options of `early_stopping` conflict."""
    if (validation_input.init_score is not None) != (init_score is not None and validation_input.X is not None):
        raise ValueError("init_score_val must be passed if both init_score and X_val are, and only then.")
    if validation_input.sample_weight is not None and validation_input.X is None:
        raise ValueError("X_val must be passed with sample_weight_val, which holds its weights; got None.")
    if validation_input.X is not None and model._stopping.validation is not None:
        raise ValueError(
            "early_stopping.validation must be None with X_val, because it selects validation rows from X."
        )
    if validation_input.X is not None and model._stopping.folds is not None:
        raise ValueError(
            "early_stopping.folds must be None with X_val, because each fold serves as the validation set in turn."
        )
    if groups is not None and model._stopping.validation is None:
        raise ValueError(
            "early_stopping.validation must be a splitter such as GroupShuffleSplit() if fit gets groups; got None."
        )


def split_rows(model: Any, data: TrainingData, groups: Any) -> tuple[RowNumbers, RowNumbers] | None:
    """Return training and validation row indices of this rank, by splitter or at random; None without validation.

    `groups` holds the group of each row passed to `fit`, for the splitter.
    """
    if model._stopping.validation is not None:
        return local_split(data, _split_by(model._stopping.validation, model, data, groups))
    if not holds_out(model):
        return None
    check_duplicates(model, data)
    if model._query_column is not None:
        return _drawn_queries(model, data)
    return drawn_rows(model, data, model._seed, model._strata_of)


def _split_by(splitter: Any, model: Any, data: TrainingData, groups: Any) -> tuple[RowNumbers, RowNumbers]:
    """Return the training and validation row indices, among all ranks' rows, of the last split that `splitter` yields.

    Raise ValueError unless both are non-empty and disjoint, and keep the rows of a query together.
    """
    if groups is not None:
        groups = unmasked(groups, "groups")
        if groups.shape != (data.n_given,):
            raise ValueError(
                f"groups must have one label for each of the {data.n_given} rows; got shape {groups.shape}."
            )
        groups = groups[slice(None) if data.rows is None else data.rows]
    elif model._query_column is not None:
        groups = data.y[:, model._query_column]
    target, groups = gathered(data.comm, [model._target_for_hashing(data.y), groups])
    splitter = _without_removed_rows(splitter, data)
    try:
        splits = list(splitter.split(np.empty((len(target), 0)), target, groups))
    except (TypeError, ValueError) as error:
        raise ValueError(f"early_stopping.validation={splitter!r} cannot split the rows: {error}") from error
    if not splits:
        raise ValueError(f"early_stopping.validation must yield a split of the rows; {splitter!r} yields none.")
    train, validation = split_of_rows("early_stopping.validation", splits[-1], len(target))
    if not (len(train) and len(validation)):
        raise ValueError(
            "early_stopping.validation must yield at least one training row and one validation row; got "
            f"{len(train)} and {len(validation)}."
        )
    if len(np.intersect1d(train, validation)):
        raise ValueError(
            "early_stopping.validation must yield disjoint training and validation rows; at least one row is in both."
        )
    if model._query_column is not None:
        (queries,) = gathered(data.comm, [data.y[:, model._query_column]])
        if np.isin(queries[train], queries[validation]).any():
            raise ValueError(
                "early_stopping.validation must keep the rows of a query together. Use a "
                "splitter such as GroupShuffleSplit."
            )
    return train, validation


def _drawn_queries(model: Any, data: TrainingData) -> tuple[RowNumbers, RowNumbers]:
    """Return randomly drawn training and validation row indices of this rank; the rows of a query stay together.

    Raise ValueError if there is only one query.
    """
    from sklearn.model_selection import GroupShuffleSplit

    (queries,) = gathered(data.comm, [data.y[:, model._query_column]])
    if len(np.unique(queries)) < 2:
        raise ValueError(
            "early_stopping must not be True with a single query and no X_val, because a "
            "validation set needs whole queries. Pass X_val and y_val."
        )
    splitter = GroupShuffleSplit(1, test_size=model.validation_fraction, random_state=model._seed)
    return local_split(data, next(splitter.split(queries, groups=queries)))


def _without_removed_rows(splitter: Any, data: TrainingData) -> Any:
    """Return a PredefinedSplit restricted to the rows with positive weight; other splitters are unchanged."""
    from sklearn.model_selection import PredefinedSplit

    if not isinstance(splitter, PredefinedSplit):
        return splitter
    is_present = np.zeros(data.n_given, dtype=bool)
    is_present[slice(None) if data.rows is None else data.rows] = True
    [is_present] = gathered(data.comm, [is_present])
    folds = splitter.test_fold
    return PredefinedSplit(folds[is_present]) if len(folds) == len(is_present) else splitter


def subset(data: TrainingData, rows: RowNumbers) -> TrainingData:
    """Return the rows of `data` with the indices `rows`, with their targets, weights and offsets."""
    weight, weight_before_classes = (
        values if values is None else values[rows] for values in (data.sample_weight, data.weight_before_classes)
    )
    row_numbers = rows if data.rows is None else data.rows[rows]
    offset = None if data.offset is None else np.ascontiguousarray(data.offset[:, rows])
    data = data._replace(X=data.X[rows], y=data.y[rows], rows=row_numbers, offset=offset)
    return data._replace(sample_weight=weight, weight_before_classes=weight_before_classes)


def offset_to_score(init_score: Any, sample_weight: Any) -> Any:
    """Return `init_score` for scoring, set to 0 in rows of weight 0, whose values are not checked."""
    if init_score is None or sample_weight is None:
        return init_score
    offset, weight = numbers_in(init_score, "init_score"), numbers_in(sample_weight, "sample_weight")
    if weight.ndim != 1 or offset.shape[:1] != weight.shape:
        return init_score  # a shape does not match; the caller raises for it
    return np.where((weight == 0).reshape(-1, *[1] * (offset.ndim - 1)), 0.0, offset)


def predicted_to_score(model: Any, X: Any, init_score: Any, sample_weight: Any) -> Any:
    """Return the predictions of the rows to score; rows of weight 0 may have any `init_score`."""
    return with_offset(model.predict, X, offset_to_score(init_score, sample_weight))


def with_offset(method: Callable[..., Any], X: Any, init_score: Any) -> Any:
    """Return what the prediction method `method` returns for X, with `init_score` as an argument unless it is None."""
    return method(X) if init_score is None else method(X, init_score=init_score)


def checked_offset(init_score: Any, n_rows: int, n_outputs: int, rows: NDArray[np.intp] | None = None) -> Array:
    """Return `init_score` as a float64 array of shape (n_rows, n_outputs); raise ValueError if it is invalid.

    For quantiles of several targets, the last two axes may be separate. If `rows` is set, only these rows are returned
    and must be finite; the others have weight 0.
    """
    offset = numbers_in(init_score, "init_score")
    shape = offset.shape
    if offset.ndim in (1, 3):
        offset = offset.reshape(len(offset), math.prod(shape[1:]))
    if offset.shape != (n_rows, n_outputs):
        expected = f"({n_rows},)" if n_outputs == 1 else f"({n_rows}, {n_outputs})"
        raise ValueError(f"init_score must have the shape {expected}; got {shape}.")
    offset = offset if rows is None else offset[rows]
    if not np.isfinite(offset).all():
        raise ValueError(f"init_score must be finite; got {offset[~np.isfinite(offset)][0]}.")
    return offset
