"""Base classes of all estimators, which check and encode parameters, tables, targets and weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fastens.engine.comm import LOCAL, Comm
from fastens.engine.elementary import log
from fastens.engine.names import are_texts
from fastens.engine.threads import resolve_n_jobs
from fastens.modelfile.saving import SavedEstimator
from fastens.params.estimator import ChecksParameters
from fastens.params.options import Categories
from fastens.table.answers import ANSWERS, answer_streams
from fastens.table.columns.numbers import numbers_in, unmasked
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.opening import open_table, opening_tables
from fastens.table.parts import present_table
from fastens.table.source import TableParts, TableSource, shape_of_fit, within_limit
from fastens.table.sources import Batches, is_source, refuse_clusters
from fastens.table.tables import is_plain
from fastens.table.training_data import (
    TrainingData,
    as_multiples,
    check_magnitude,
    class_factors,
    index_of_labels,
    learn_labels,
    multiplied,
    rows_to_score,
    share_right,
    unless_ones,
    weights_to_count,
)

# Methods that accept tables of a cluster, and scikit-learn's methods that call them.
_ON_CLUSTERS = frozenset({*ANSWERS, "fit", "score", "fit_transform", "fit_predict"})


class SparseTargetError(TypeError, ValueError):
    """Error for a sparse target, for which scikit-learn's trees raise TypeError and its forests ValueError."""


@dataclass(frozen=True)
class Capabilities:
    """The kinds of tables that an estimator supports; other kinds raise an error or are converted.

    Attributes
    ----------
    supports_distributed_fit : bool
        True if several ranks can train one model, each on its own rows.
    supports_out_of_core : bool
        True if `fit` accepts tables that are read in batches; otherwise it raises ValueError.
    supports_binned : bool
        True if `fit` accepts a BinnedTable; otherwise it raises ValueError.
    predicts_row_sources : bool
        True if prediction methods accept a row source; otherwise they are called on each part separately.
    """

    supports_distributed_fit: bool = False
    supports_out_of_core: bool = True
    supports_binned: bool = True
    predicts_row_sources: bool = True


class BaseFastens(SavedEstimator, ChecksParameters):
    """Base class of all estimators.

    A subclass declares its parameters as fields, calls `_start_fit` first in `fit`, and calls `_check_table` first in
    every prediction method.
    """

    n_features_in_: int
    feature_names_in_: NDArray[Any]
    _encoder: InputEncoder
    # Number of columns of a NumPy array that may skip the encoder; -1 if names or categories must be checked.
    _n_plain_features: int = -1
    # True if all columns are categorical and tables become the codes of `InputEncoder.codes` instead of floats.
    _reads_codes: bool = False
    # True if a column of dates is split into several numeric columns for the trees.
    _splits_dates: bool = False
    # True if a column of lists is split into several numeric columns.
    _splits_lists: bool = False
    # True if y may have several columns.
    _takes_several_targets: bool = False
    # The ranks that train together: see `_using_comm`.
    _comm: Comm = LOCAL
    _capabilities: Capabilities = Capabilities()
    # True if the estimator may be fitted without a target, in which case it has no classes.
    _may_lack_classes: bool = False
    # True if sums of weights are compared with row counts or pseudo-counts.
    _compares_weights: bool = False
    # What a fit keeps in memory for all rows (see `fastens.table.memory`): the arrays of "boosting", of a "forest" or
    # of the "rounds" of AdaBoost; "codes"; or None if it keeps only a batch of rows.
    _holds: str | None = None
    # Encoder that replaces categorical columns in tree models.
    _statistics: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the public methods of a subclass: tables are opened first, and predictions accept streams."""
        super().__init_subclass__(**kwargs)
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(cls, name, opening_tables(method))
        answer_streams(cls)
        refuse_clusters(cls, _ON_CLUSTERS)

    def _is_source(self, X: Any) -> bool:
        """Return True if X is read in batches: files, streams, lazy frames, `Batches`, or a wrapper of a table."""
        return isinstance(X, Batches | TableParts | TableSource) or is_source(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = self._takes_several_targets
        tags.target_tags.single_output = True
        return tags

    def _check_fitted(self) -> None:
        """Raise NotFittedError unless the estimator is fitted."""
        if not self._is_fitted():
            check_is_fitted(self)  # raises scikit-learn's NotFittedError

    # Fit --------------------------------------------------

    @contextmanager
    def _using_comm(self, comm: Comm) -> Iterator[None]:
        """Let `fit` train on the rows of all ranks within the context, although it gets the rows of only one rank.

        All ranks must have the same parameters, callbacks and columns, and either all or none of them have weights. A
        rank may have no rows.
        """
        others = self.__dict__.get("_comm")
        self._comm = comm
        try:
            yield
        finally:
            if others is None:
                del self._comm
            else:
                self._comm = others

    def _start_fit(self, X: Any, y: Any, sample_weight: Any = None) -> TrainingData:
        """Check the parameters, then check, learn and encode the data as `_learn_data` does."""
        self._check_parameters()
        self._check_ignored_parameters()
        return self._learn_data(X, y, sample_weight)

    def _learn_data(self, X: Any, y: Any, sample_weight: Any, n_validation: int = 0) -> TrainingData:
        """Learn columns, categories and classes; return the data of `fit`, encoded and without rows of weight 0.

        `n_validation` is the number of rows of a separate validation set, which counts towards the memory limit. Raises
        ValueError for invalid data.
        """
        self._check_target_given(y)
        data = self._read_data(y, sample_weight)
        data = data._replace(sample_weight=self._weights_to_count(data.sample_weight, is_fit=True))
        self._check_ranks()
        target = self._learn_target(data.y)
        data = data.weighted(self._combine_weights(target, data.sample_weight))
        if data.rows is not None:
            X, data = present_table(X, data)
        is_weighted = data.sample_weight is not None
        rows = self._read_within_limit(X, target, self._learn_table, weighted=is_weighted, n_validation=n_validation)
        return data._replace(y=target).with_table(rows)

    def _read_within_limit(
        self, X: Any, y: Any, read: Callable[[Any], Any], *, weighted: bool, n_validation: int = 0
    ) -> Any:
        """Return read(X); if the table X has a memory limit, check first that the fit stays below it.

        The estimate depends on the targets `y`, on whether rows are `weighted` and on the rows of a validation set.
        Raises ValueError if the fit would exceed the limit.
        """
        if getattr(X, "limits", None) is None:
            return read(X)
        classes = self.__dict__.get("classes_")
        n_classes = max(map(len, classes if isinstance(classes, list) else [() if classes is None else classes]))
        shape = shape_of_fit(self, X, y, n_classes, weighted=weighted, n_validation=n_validation)
        if self._splits_dates:
            dates = open_table(X, type(self).__name__, 0).dates()
            shape = shape._replace(n_columns=shape.n_columns + sum(len(parts) - 1 for parts in dates.values()))
        return within_limit(self, shape, X, read)

    def _check_ranks(self) -> None:
        """Raise ValueError if the rows are on several ranks but the estimator has no distributed fit."""
        if self._comm.size > 1 and not self._capabilities.supports_distributed_fit:
            raise ValueError(
                f"{type(self).__name__} must have all rows on one rank, because it has no "
                f"distributed fit; got {self._comm.size} ranks."
            )

    def _check_target_given(self, y: Any) -> None:
        """Raise ValueError if `y` is None."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")

    def _read_data(self, y: Any, sample_weight: Any) -> TrainingData:
        """Return checked targets and weights, without a table and without the rows of weight 0."""
        return TrainingData.of_target(self._read_target(y), sample_weight, self._comm)

    def _read_target(self, y: Any) -> NDArray[Any]:
        """Return `y` as a vector, or as a matrix if it has several targets; raise ValueError if that is unsupported."""
        self._check_target_given(y)
        if issparse(y):
            raise SparseTargetError(f"y must be a dense array; got a {type(y).__name__}. Pass y.toarray().")
        y = unmasked(y, "y")
        if y.ndim == 1 and y.dtype.kind != "c":  # same result as `column_or_1d`, but faster
            y = np.ascontiguousarray(y)
        elif not self._takes_several_targets or y.ndim != 2 or y.shape[1] < 2:
            y = column_or_1d(y, warn=True)
        return y

    def _learn_table(self, X: Any) -> Any:
        """Fit the encoder to the columns of X, set the column attributes, and return X encoded, as a row source."""
        owner, n_threads = type(self).__name__, self._encoder_threads()
        self._encoder, rows = InputEncoder.learn(X, self._reading(), owner, n_threads, self._comm)
        self._set_columns()
        return rows

    def _memory_model(self) -> Any:
        """Return the estimator whose parameters determine the memory of a fit: this one, unless it wraps another."""
        return self

    def _base_estimators(self) -> list[Any]:
        """Return the unfitted estimators that `fit` clones and fits on the table; [] if there are none."""
        estimator = self.get_params(deep=False).get("estimator")
        return [] if estimator is None else [estimator]

    def _reading(self) -> Reading:
        """Return the settings, from the parameters, with which the encoder reads tables in `fit`."""
        return Reading(
            getattr(self, "categorical_features", None),
            self._category_options().missing == "category",
            as_codes=self._reads_codes,
            splits_dates=self._splits_dates,
            monotonic_cst=getattr(self, "monotonic_cst", None),
            text_features=getattr(self, "text_features", None),
            splits_lists=self._splits_lists,
        )

    def _category_options(self) -> Categories:
        """Return the options for encoding categories; subclasses derive them from their parameters."""
        return Categories(encoding="partition")

    def _encoder_threads(self) -> int:
        """Return the number of threads for encoding tables: `n_jobs` resolved to a positive number."""
        return resolve_n_jobs(getattr(self, "n_jobs", None))

    def _set_columns(self) -> None:
        """Set `n_features_in_`, `feature_names_in_` and `_n_plain_features` from the fitted encoder."""
        encoder = self._encoder
        self.n_features_in_ = len(encoder.categories)
        self.__dict__.pop("feature_names_in_", None)
        if are_texts(encoder.names):
            self.feature_names_in_ = np.array(encoder.names, dtype=object)
        is_changed = encoder.has_own_names or encoder.is_categorical.any() or encoder.changes_numbers
        self._n_plain_features = -1 if is_changed else self.n_features_in_

    def _learn_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Set `classes_` if the targets of `fit` are labels; return the targets as numbers or class indices."""
        raise NotImplementedError

    def _encode_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return targets of other rows than in `fit` as numbers; classes become their indices in `classes_`."""
        raise NotImplementedError

    def _weights_to_count(self, weight: NDArray[np.float64] | None, *, is_fit: bool = False) -> Any:
        """Scale importance weights to a mean of about 1, and leave frequencies and None as they are.

        `weight_type` decides which they are; without this parameter, weights are unchanged. If `is_fit`, warn of
        integers that "auto" treats as importance weights.
        """
        weight_type = getattr(self, "weight_type", None)
        if weight is None or weight_type is None:
            return weight
        return weights_to_count(weight, weight_type, self._comm, has_unit_mean=self._compares_weights, is_fit=is_fit)

    def _combine_weights(
        self, y: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> NDArray[np.float64] | None:
        """Return the weights of the fit: `weight` itself; classifiers multiply it by class weights of labels `y`."""
        return weight

    def _check_validation(self, X: Any, y: Any, sample_weight: Any = None) -> TrainingData:
        """Check validation data and return it encoded like the training data; raise ValueError if it is invalid."""
        data = self._read_data(y, sample_weight)
        weight = unless_ones(self._weights_to_count(data.sample_weight), self._comm)
        if data.rows is not None:
            X, data = present_table(X, data)
        return data._replace(y=self._encode_target(data.y), sample_weight=weight).with_table(self._encode_table(X))

    # Predict --------------------------------------------------

    def _check_table(self, X: Any) -> Any:
        """Return X encoded for prediction, with target statistics applied; raise NotFittedError before `fit`."""
        if is_plain(X) and X.shape[1] == self._n_plain_features:
            return X
        encoder = self.__dict__.get("_encoder")
        if encoder is None:
            self._check_fitted()
        rows = None if encoder is None or self._reads_codes else encoder.read_few_rows(X)
        X = self._encode_table(X) if rows is None else rows
        return X if self._statistics is None else self._statistics.transform(X)

    def _encode_table(self, X: Any) -> Any:
        """Return X with categories as their positions in the encoder; target statistics are not applied yet."""
        fitted, has_categories = self._as_fitted(), bool(self._encoder.is_categorical.any())
        unseen_is_error = has_categories and fitted._category_options().unseen == "error"
        reading = Reading(as_codes=fitted._reads_codes, unseen_is_error=unseen_is_error)
        return self._encoder.encode(X, reading, type(self).__name__, self._encoder_threads(), self._comm)

    # Saving --------------------------------------------------

    def _encoder_state(self) -> dict[str, Any]:
        """Return the state of the encoder, and the classes of a classifier, as JSON-serialisable values."""
        state: dict[str, Any] = {"n_features_in": self.n_features_in_, "encoder": self._encoder.to_state()}
        if hasattr(self, "classes_"):
            classes: Any = self.classes_
            state["classes"] = (
                list(map(_classes_state, classes)) if isinstance(classes, list) else _classes_state(classes)
            )
        return state

    def _statistics_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, by name in model files, of the target statistics of categories; {} without any."""
        return {}

    def _restore_statistics(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restore the target statistics from the arrays of `_statistics_arrays`."""

    def _restore_encoder(self, state: dict[str, Any]) -> None:
        """Restore encoder and classes from the state of `_encoder_state`; raise ValueError if it is malformed."""
        self._encoder = InputEncoder.from_state(state["encoder"])
        self._set_columns()
        if state["n_features_in"] != self.n_features_in_:
            raise ValueError("the state of the columns is malformed")
        if "classes" in state or (is_classifier(self) and not self._may_lack_classes):
            classes = state["classes"]
            self.classes_ = (
                [_restored_classes(each) for each in classes]
                if isinstance(classes, list)
                else _restored_classes(classes)
            )


_LABELS = re.compile(r"[<>|][biuf]\d{1,2}|[<>]U\d{1,9}|\|O")
_MAX_WIDTH = 4096  # maximum string width that a file may declare beyond its longest label


def _classes_state(classes: NDArray[Any]) -> dict[str, Any]:
    """Return class labels as their dtype and a list, for the JSON part of a model file."""
    return {"dtype": classes.dtype.str, "values": classes.tolist()}


def _restored_classes(state: dict[str, Any]) -> NDArray[Any]:
    """Return the labels from the result of `_classes_state`; raise ValueError if they are malformed or repeat."""
    values, dtype = state["values"], state["dtype"]
    if not isinstance(values, list) or not _LABELS.fullmatch(dtype):
        raise ValueError("the state of the classes is malformed")
    if dtype[1] == "U":
        # The declared width of a damaged file could exhaust memory.
        width = max(map(len, values), default=0)
        dtype = f"{dtype[:2]}{max(width, min(int(dtype[2:]), _MAX_WIDTH))}"
    classes = np.array(values, dtype=dtype)
    if classes.ndim != 1 or not 0 < len(values) == len(set(values)):
        raise ValueError("the state of the classes is malformed")
    return classes


class BaseRegressor(RegressorMixin, BaseFastens):
    """Base class of regressors, whose targets are finite numbers."""

    _n_targets: int = 1

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination (R²) of the predictions.

        Parameters
        ----------
        X : table of n_samples rows
            Rows to predict.
        y : array of shape (n_samples,)
            True targets.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. If None, all rows have the same weight.

        Returns
        -------
        float
            R² of the predictions with respect to `y`. The best value is 1.0.
        """
        from sklearn.metrics import r2_score

        y, predicted, weight = rows_to_score(y, self.predict(X), sample_weight)
        return float(r2_score(y, predicted, sample_weight=weight))

    def _learn_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the targets as finite floats; raise ValueError for anything else."""
        return self._finite_targets(y)

    def _encode_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return targets as finite floats; raise ValueError if their number per row differs from `fit`."""
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if self._takes_several_targets and n_targets != self._n_targets:
            raise ValueError(f"y must have the same number of targets as in fit, {self._n_targets}; got {n_targets}.")
        return self._finite_targets(y)

    def _finite_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return targets as finite floats; raise ValueError for NaN, infinity and values that are not numbers."""
        y = np.ascontiguousarray(y if y.dtype == np.float64 else numbers_in(y, "y", "real numbers"))
        if not np.isfinite(y).all():
            raise ValueError("Input y contains " + ("NaN." if np.isnan(y).any() else "infinity."))
        return check_magnitude(y)


def _has_probabilities(model: Any) -> bool:
    """Return True if the model has `predict_proba`."""
    return hasattr(model, "predict_proba")


class BaseClassifier(ClassifierMixin, BaseFastens):
    """Base class of classifiers, whose labels are encoded as indices into `classes_`.

    With several targets, `classes_` is a list with the classes of each target.
    """

    classes_: Any
    # True if scikit-learn's checks must not require good scores on their toy tables.
    _poor_score: bool = False
    # Approximate number of bits of class-weight factors, which keeps their sums exact.
    _factor_bits: int = 30
    # The classes of an earlier fit that this one continues, or None.
    _known_classes: Any = None
    # Minimum number of classes. If it is 1, a target with a single class is accepted, whose probability is 1.
    _fewest_classes: int = 1

    @property
    def n_classes_(self) -> Any:
        """Number of classes, or a list with one number per target if there are several targets."""
        self._check_fitted()
        return [len(each) for each in self.classes_] if isinstance(self.classes_, list) else len(self.classes_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_samples,); ties go to the first class."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: ArrayLike) -> Any:
        """Return the logarithms of the class probabilities from `predict_proba`."""
        proba = self.predict_proba(X)
        return [log(part) for part in proba] if isinstance(proba, list) else log(proba)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of the predictions.

        With several targets, this is the subset accuracy: a row counts as correct only if all its labels are.

        Parameters
        ----------
        X : table of n_samples rows
            Rows to predict.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            True labels.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. If None, all rows have the same weight.

        Returns
        -------
        float
            Fraction of rows that are predicted correctly.
        """
        y, predicted, weight = rows_to_score(y, self.predict(X), sample_weight)
        return share_right(y, predicted, sample_weight=weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._takes_several_targets
        tags.classifier_tags.poor_score = self._poor_score
        return tags

    def _learn_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Set `classes_`, and return the index of each label, one column for each target if there are several."""
        if self._known_classes is not None:  # the rows may lack some classes, or have labels of another type
            self.classes_ = self._known_classes
            return self._encode_target(y)
        if y.ndim == 1:
            self.classes_, index = learn_labels(y, self._comm, self._fewest_classes)
            return index
        learned = (
            learn_labels(column, self._comm, self._fewest_classes, f"target {number} of y")
            for number, column in enumerate(y.T)
        )
        self.classes_, columns = map(list, zip(*learned, strict=True))
        return np.column_stack(columns)

    def _encode_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the index of each label in `classes_`, one column for each target; raise ValueError if one is new."""
        n_targets, n_given = (
            len(self.classes_) if isinstance(self.classes_, list) else 1,
            1 if y.ndim == 1 else y.shape[1],
        )
        if n_given != n_targets:
            raise ValueError(f"y must have the same number of targets as in fit, {n_targets}; got {n_given}.")
        if y.ndim == 1:
            return index_of_labels(y, self.classes_)
        return np.column_stack([index_of_labels(*pair) for pair in zip(y.T, self.classes_, strict=True)])

    def _combine_weights(
        self, y: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> NDArray[np.float64] | None:
        """Return sample weights times the `class_weight` of each row's class index in `y`; None if neither is set."""
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None:
            return weight
        factors = as_multiples(self._class_factors(class_weight, y, weight), weight, self._factor_bits, self._comm)
        return multiplied(weight, factors, self._comm)

    def _class_factors(
        self, class_weight: Any, y: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Return each row's factor from `class_weight`, the product over the targets; raise ValueError if invalid."""
        if not isinstance(self.classes_, list):
            return class_factors(class_weight, self.classes_, y, weight, self._comm)[y.astype(np.intp)]
        class_weights = [class_weight] * y.shape[1] if isinstance(class_weight, str) else class_weight
        if not isinstance(class_weights, list) or len(class_weights) != y.shape[1]:
            raise ValueError(
                f"class_weight must be None, 'balanced' or a list of one dict for each of the {y.shape[1]} targets; "
                f"got {class_weight!r}."
            )
        targets = zip(class_weights, self.classes_, y.T, strict=True)
        factors = (class_factors(g, c, k, weight, self._comm)[k.astype(np.intp)] for g, c, k in targets)
        return reduce(partial(multiplied, comm=self._comm), factors)
