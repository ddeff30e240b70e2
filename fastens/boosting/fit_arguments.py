"""What `fit` is given besides X and y: rows to validate on, or how to choose them, and where to start from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fastens.base import TrainingData
from fastens.engine.comm import gathered, own_rows
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.params.estimator import constructor_defaults
from fastens.table.columns.numbers import numbers_in, unmasked
from fastens.table.opening import in_parts
from fastens.table.training_data import split_of_rows, warn_of_duplicates

Array = NDArray[np.float64]
RowNumbers = NDArray[np.intp]


class GivenValidation(NamedTuple):
    """What `fit` was given to validate on."""

    X: Any = None
    y: Any = None
    sample_weight: Any = None
    init_score: Any = None

    @property
    def is_given(self) -> bool:
        """Whether there is anything."""
        return self.X is not None or self.y is not None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        if self.X is None:
            return 0
        shape = getattr(in_parts(self.X), "shape", None)
        if shape is None:
            shape = (len(self.X),) if hasattr(self.X, "__len__") else np.shape(self.X)
        return shape[0] if shape else 0

    def read(self, model: Any) -> TrainingData | None:
        """Return the rows, encoded as `fit` learned; None where none were given."""
        if (self.X is None) != (self.y is None):
            given, missing = ("y_val", "X_val") if self.X is None else ("X_val", "y_val")
            raise ValueError(f"X_val and y_val must be given together; got {given} without {missing}.")
        if self.X is None:
            return None
        if not model.early_stopping:
            raise ValueError("X_val and y_val are for early stopping; early_stopping must not be False with them.")
        try:
            return model._check_validation(self.X, self.y, self.sample_weight)
        except ValueError as error:
            raise ValueError(f"X_val and y_val must be as X and y: {error}") from error


def holds_out(model: Any) -> bool:
    """Whether rows of X are to be held out where none are given to validate on."""
    return bool(model.early_stopping) and not isinstance(model.early_stopping, str)


def drawn_rows(
    model: Any, data: TrainingData, seed: int, strata: NDArray[Any] | None = None
) -> tuple[RowNumbers, RowNumbers]:
    """Rows to train on and rows to validate on, drawn by class, or by given strata of the rows of all ranks."""
    from sklearn.model_selection import train_test_split

    (y,) = gathered(data.comm, [data.y])
    rows = np.arange(len(y))
    stratify = y if hasattr(model, "classes_") and y.ndim == 1 else strata
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
            "validation_fraction must give rows to train on and to validate on; got "
            f"{model.validation_fraction} of {len(rows)} rows. Use early_stopping=False, or pass X_val and y_val."
        ) from error
    return own_split(data, (np.concatenate([train, rows[~shared]]), validation))


def _rows_to_share(strata: NDArray[Any] | None, n_rows: int, share: float) -> tuple[NDArray[np.bool_], float | int]:
    """Which rows may be held out, and how many or which share of them.

    A class of one row is trained on. All others have a row on each side, where a share of a small table is too small.
    """
    if strata is None:
        return np.ones(n_rows, dtype=bool), share
    _, place, counts = np.unique(strata, return_inverse=True, return_counts=True)
    shared, n_classes = counts[place] > 1, int((counts > 1).sum())
    n_shared = int(shared.sum())
    n_held_out = math.ceil(share * n_rows)
    if n_shared == n_rows and n_classes <= n_held_out <= n_rows - n_classes:
        return shared, share
    return shared, max(min(max(n_held_out, n_classes), n_shared - n_classes), 1)


def check_duplicates(model: Any, data: TrainingData) -> None:
    """Warn of duplicates among rows in memory that are to be split at random."""
    if data.comm.size == 1 and (isinstance(data.X, np.ndarray) or issparse(data.X)):
        target = np.ascontiguousarray(getattr(model, "_target_for_hashing", np.asarray)(data.y))
        warn_of_duplicates(content_hashes(data.X, target, resolve_n_jobs(model.n_jobs)), data.X, target)


def own_split(data: TrainingData, parts: Sequence[RowNumbers]) -> tuple[RowNumbers, RowNumbers]:
    """What this rank has of a split of the rows of all ranks."""
    train, validation = own_rows(data.comm, len(data.y), *parts)
    return train, validation


def check_validated(model: Any, validation: TrainingData | None) -> None:
    """Raise ValueError, or warn, for parameters that need validation rows, where there are none."""
    known = constructor_defaults(model)
    for name in ("n_iter_no_change", "tol") if validation is None else ():
        if name in known and not model._is_default(name):
            model._not_read(
                name,
                f"{name} is read with rows to validate on, and must be {known[name]!r} without: give X_val and "
                f"y_val, or early_stopping=True; got {getattr(model, name)!r}.",
            )


def check_arguments(model: Any, init_score: Any, groups: Any, given: GivenValidation) -> None:
    """Raise ValueError for arguments of `fit` that do not go together."""
    if (given.init_score is not None) != (init_score is not None and given.X is not None):
        raise ValueError("init_score_val must be given where init_score and X_val are, and only there.")
    if given.sample_weight is not None and given.X is None:
        raise ValueError("sample_weight_val are weights of X_val, which must be given with them; got None.")
    if given.X is not None and model._stopping.validation is not None:
        raise ValueError("validation must be None where X_val is given: it chooses rows of X to validate on.")
    if given.X is not None and model._stopping.folds is not None:
        raise ValueError("folds must be None where X_val is given: each fold is held out in its turn.")
    if groups is not None and model._stopping.validation is None:
        raise ValueError(
            "early_stopping.validation must be the splitter that groups are for, where fit gets groups; got None."
        )


def split_rows(model: Any, data: TrainingData, groups: Any) -> tuple[RowNumbers, RowNumbers] | None:
    """Rows to train and to validate on by the splitter's last split, or at random; None for no validation."""
    splitter = model._stopping.validation
    if splitter is None:
        if not holds_out(model):
            return None
        check_duplicates(model, data)
        return model._hold_out_rows(data, model._seed)
    if groups is not None:
        groups = unmasked(groups, "groups")
        if groups.shape != (data.n_given,):
            raise ValueError(f"groups must have one for each of the {data.n_given} rows; got shape {groups.shape}.")
        groups = groups[slice(None) if data.rows is None else data.rows]
    target, groups = gathered(data.comm, [model._target_for_hashing(data.y), groups])
    splitter = _of_present_rows(splitter, data)
    try:
        splits = list(splitter.split(np.empty((len(target), 0)), target, groups))
    except (TypeError, ValueError) as error:
        raise ValueError(f"early_stopping.validation={splitter!r} cannot split the rows: {error}") from error
    if not splits:
        raise ValueError(f"early_stopping.validation must give a split of the rows; {splitter!r} gave none.")
    train, validation = split_of_rows("early_stopping.validation", splits[-1], len(target))
    if not (len(train) and len(validation)):
        raise ValueError(
            "early_stopping.validation must give rows to train on and rows to validate on; got "
            f"{len(train)} and {len(validation)}."
        )
    if len(np.intersect1d(train, validation)):
        raise ValueError(
            "early_stopping.validation must give rows to train on that differ from those to validate on; "
            "a row is in both."
        )
    return own_split(data, (train, validation))


def _of_present_rows(splitter: Any, data: TrainingData) -> Any:
    """A predefined split, which counts the rows that were given, as one of those with a weight; others as they are."""
    from sklearn.model_selection import PredefinedSplit

    if not isinstance(splitter, PredefinedSplit):
        return splitter
    is_present = np.zeros(data.n_given, dtype=bool)
    is_present[slice(None) if data.rows is None else data.rows] = True
    [is_present] = gathered(data.comm, [is_present])
    folds = splitter.test_fold
    return PredefinedSplit(folds[is_present]) if len(folds) == len(is_present) else splitter


def subset(data: TrainingData, rows: RowNumbers) -> TrainingData:
    """Some of the rows."""
    weight, own = (given if given is None else given[rows] for given in (data.sample_weight, data.own_weight))
    given = rows if data.rows is None else data.rows[rows]
    offset = None if data.offset is None else np.ascontiguousarray(data.offset[:, rows])
    data = data._replace(X=data.X[rows], y=data.y[rows], rows=given, offset=offset)
    return data._replace(sample_weight=weight, own_weight=own)


def offset_to_score(init_score: Any, sample_weight: Any) -> Any:
    """`init_score` of rows that are scored: those of weight 0 may have any, and have 0."""
    if init_score is None or sample_weight is None:
        return init_score
    offset, weight = numbers_in(init_score, "init_score"), numbers_in(sample_weight, "sample_weight")
    if weight.ndim != 1 or offset.shape[:1] != weight.shape:
        return init_score  # an error of one of them
    return np.where((weight == 0).reshape(-1, *[1] * (offset.ndim - 1)), 0.0, offset)


def predicted_to_score(model: Any, X: Any, init_score: Any, sample_weight: Any) -> Any:
    """What `predict` gives for rows that are scored."""
    return with_offset(model.predict, X, offset_to_score(init_score, sample_weight))


def with_offset(method: Callable[..., Any], X: Any, init_score: Any) -> Any:
    """What a method predicts; that of a derived class may take X alone, which is all where there is no `init_score`."""
    return method(X) if init_score is None else method(X, init_score)


def checked_offset(init_score: Any, n_rows: int, n_outputs: int, rows: NDArray[np.intp] | None = None) -> Array:
    """`init_score` as a float64 array of shape (n_rows, n_outputs); ValueError for anything else.

    Quantiles of several targets may have an axis for each. With `rows` it is of these alone, and the others, of weight
    0, may have any numbers.
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
