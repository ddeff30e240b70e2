"""Base class of the naive Bayes classifiers: shared parameters, additive statistics, merging and saving."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import partial, reduce
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseClassifier, Capabilities, TrainingData
from fastens.bayes.counts.attributes import declared_values, is_numeric_matrix
from fastens.bayes.counts.dirichlet import SMOOTHING_RULES, Smoothing
from fastens.bayes.naive.likelihoods import Batch, Likelihood, sums_by_class
from fastens.bayes.posterior import ParameterPosteriorMixin
from fastens.engine.elementary import exp, log, logsumexp, sum_in_order
from fastens.engine.parts import RowSource, parts_of
from fastens.engine.threads import resolve_n_jobs
from fastens.modelfile.saving import Saved, SavedEstimator, SavedParts
from fastens.params.docstrings import WEIGHT_TYPE_DOCS, Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, FLAG, NONE, Rule, one_of, parameter, real
from fastens.params.types import ColumnChoice
from fastens.rollback import keeps_model
from fastens.table.arrays import dense
from fastens.table.columns.numbers import has_large_numbers
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.parts import drop_zero_weight_rows
from fastens.table.sources import read_together
from fastens.table.training_data import check_classes, read_classes
from fastens.warn import warn


def _is_vector_of_numbers(value: Any) -> bool:
    """Return True if the value is a one-dimensional list or array of numbers."""
    return np.ndim(value) == 1 and np.asarray(value).dtype.kind in "biuf"


PRIOR = NONE | Rule("an array of probabilities, one for each class", _is_vector_of_numbers)
FINITE = Rule("a finite number", real(-np.inf).holds)
UNSEEN = one_of("ignore", "smooth", "error")


_SMALLEST_ALPHA = 1e-10


@with_parameters
class SmoothingParameters:
    """Mixin with the parameters of smoothing and of the class priors."""

    alpha: ArrayLike = parameter(SMOOTHING_RULES["alpha"], default=1.0)
    force_alpha: bool = parameter(FLAG, default=True)
    fit_prior: bool = parameter(FLAG, default=True)
    class_prior: ArrayLike | None = parameter(PRIOR, default=None)
    smoothing: str = parameter(SMOOTHING_RULES["smoothing"], default="laplace")
    m: float = parameter(SMOOTHING_RULES["m"], default=1.0)
    ess: float = parameter(SMOOTHING_RULES["ess"], default=1.0)
    n_jobs: int | None = parameter(ANYTHING, default=None)


def check_alpha(model: Any) -> Any:
    """Return `model.alpha`; if `force_alpha` is False, smaller values are raised to 1e-10 with a warning.

    Raises ValueError if it is an array whose length is not the number of columns.
    """
    alpha, n_features = model.alpha, model.n_features_in_
    if np.ndim(alpha) and len(alpha) != n_features:
        raise ValueError(
            f"alpha must be a number or an array with one number for each of the {n_features} "
            f"columns; got {len(alpha)}."
        )
    if getattr(model, "force_alpha", True) or np.min(alpha) >= _SMALLEST_ALPHA:
        return alpha
    warn(f"alpha must be at least {_SMALLEST_ALPHA:g} with force_alpha=False, so {np.min(alpha):g} is replaced.")
    return np.maximum(alpha, _SMALLEST_ALPHA)


def make_smoothing(model: Any) -> Smoothing:
    """Return the smoothing that the parameters of a model describe."""
    return Smoothing(model.smoothing, check_alpha(model), model.m, model.ess)


Array = NDArray[np.float64]
IN_ORDER = 8  # NumPy sums rows with fewer values sequentially


class BaseNaiveBayes(BaseClassifier, SavedEstimator):
    """Base class of the naive Bayes classifiers; subclasses create the likelihoods of their columns.

    Parameters
    ----------
    alpha : float or array of shape (n_features,)
        Pseudo-count for smoothing="laplace". Larger values smooth more; 0 means no smoothing.
    force_alpha : bool
        If False, values of `alpha` below 1e-10 are replaced by 1e-10, with a warning.
    fit_prior : bool
        If True, class priors are estimated from the training set; otherwise they are uniform. Ignored if `class_prior`
        is set.
    class_prior : array of shape (n_classes,) or None
        Prior probabilities of the classes, which must sum to 1. If None, `fit_prior` determines them.
    smoothing : {"laplace", "m", "kt", "bdeu", "none"}
        Pseudo-count of each of r values in each of q groups, the parameter of the Dirichlet priors. "laplace" uses
        `alpha`, "m" uses `m` / r, "kt" uses 1/2, "bdeu" uses `ess` / (r q) and "none" uses 0. For a column with r
        categories, q is the number of classes, multiplied by the number of categories of the parent column if there is
        one. If the column does not depend on the class, q is 1.
    m : float
        Total pseudo-count of each group for smoothing="m" (the m-estimate with a uniform prior). Larger values smooth
        more.
    ess : float
        Equivalent sample size for smoothing="bdeu": the total pseudo-count of all groups. Larger values smooth more.
    binarize : float or None
        Threshold of the binary columns: greater values count as 1. If None, the threshold is 0.
    var_smoothing : float
        Fraction of the largest variance of all numeric columns that is added to each variance for numerical stability.
    max_bins : int
        Maximum number of bins of a numeric column. A column with more distinct values is binned at quantiles; otherwise
        each value has its own bin. Bin edges are learned from the first rows that the model is fitted to. The default
        was chosen on 12 tables: see docs/networks.md.
    categorical_features : "from_dtype", "all", array or None
        Categorical columns, as a mask, indices or names. "from_dtype" selects them by dtype, "all" selects every
        column. If None, all columns are numeric. Columns that are not selected are numeric.
    unseen : {"ignore", "smooth", "error"}
        How to handle categories that were not seen in `fit`. "ignore" treats them as missing, "smooth" gives them the
        probability of a category with count 0, and "error" raises ValueError.
    feature_prior : float or None
        Prior probability that a categorical column depends on the class. If set, predictions are averaged over the
        models of all subsets of these columns, weighted by their posterior probabilities. If None, all columns depend
        on the class.
    n_jobs : int or None
        Number of threads. If None, OMP_NUM_THREADS or the number of available cores; -1 means all available cores.
        Results do not depend on it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Sorted class labels.
    class_count_, class_log_prior_ : arrays of shape (n_classes,)
        Number of training rows and log prior probability of each class.
    n_categories_ : array of shape (n_features,)
        Number of categories, or bins, of each column.
    bin_limits_ : list of n_features arrays or None
        Upper bin edges of each numeric column except the last edge.
    log_evidence_ : float
        Log probability of the columns given the classes, with the parameters integrated out. Only available if all
        parameters have proper priors.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Column names, if the training data has any.
    """

    _docs: ClassVar[Docs] = WEIGHT_TYPE_DOCS | described(__doc__)
    _capabilities = Capabilities(supports_distributed_fit=True, supports_binned=False, predicts_row_sources=False)
    categorical_features: ColumnChoice = None
    # True if integers are categories, which must not be rounded to floats.
    _keeps_integers: bool = False
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _likelihoods: list[Any]
    class_count_: Array
    class_log_prior_: Array
    fit_prior: bool
    class_prior: ArrayLike | None
    n_jobs: int | None

    def _make_likelihoods(self) -> list[Likelihood]:
        """Return likelihoods without statistics, one for each group of columns of the same kind."""
        raise NotImplementedError

    def _prior_parameters(self) -> tuple[bool, Any]:
        """Return (fit_prior, class_prior): whether the rows determine the class priors, and priors set by the user."""
        return self.fit_prior, self.class_prior

    @property
    def _likelihood(self) -> Any:
        """Likelihood of the first group of columns, for fitted attributes; raises NotFittedError before `fit`."""
        self._check_fitted()
        return self._likelihoods[0]

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to a training set.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            Training rows. Missing values are skipped.
        y : array of shape (n_samples,)
            Class labels.
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows. A weight of 2 is equivalent to repeating the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or the data is invalid; the message names it.
        """
        data = self._start_fit(X, y, sample_weight)
        self._set_fitted(self._count_first_rows(data), self._class_counts(data))
        return self

    @keeps_model
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the model with more rows; the result equals a single fit to all rows.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            Additional training rows. New categories are added to the model.
        y : array of shape (n_samples,)
            Class labels.
        classes : array, optional
            All labels that may occur in any call; required in the first call.
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y, sample_weight = drop_zero_weight_rows(X, y, sample_weight, self._comm)
        is_first = not hasattr(self, "class_count_")
        self._learn_classes(classes, is_first=is_first)
        if is_first:
            self._learn_table(X)
        else:
            self._learn_categories(X)
        data = self._check_validation(X, y, sample_weight)
        likelihoods = self._count_first_rows(data) if is_first else self._count(data)
        class_count = self._class_counts(data)
        if not is_first:
            for new, old in zip(likelihoods, self._likelihoods, strict=True):
                new.add(copy.copy(old))
            class_count = class_count + self.class_count_
        self._set_fitted(likelihoods, class_count)
        return self

    def _learn_classes(self, classes: Any, *, is_first: bool) -> None:
        """Set `classes_` in the first call of partial_fit; check classes that are passed in later calls.

        Raises ValueError if the first call has no `classes`, or later calls have different ones.
        """
        if classes is None and is_first:
            raise ValueError("classes must be passed on the first call to partial_fit; got None.")
        if is_first:
            self.classes_ = read_classes(classes)
        elif classes is not None:
            check_classes(classes, self.classes_)

    def _learn_categories(self, X: Any) -> None:
        """Add the categories that are new in the columns of `X` to the encoder."""
        if self._encoder.is_categorical.any():
            table = self._encoder.matched(dense(X), type(self).__name__)
            self._encoder = self._encoder.extended(table)
            if declared := declared_values(table):
                self._encoder = self._encoder.with_more_categories(declared)

    def _count_first_rows(self, data: TrainingData) -> list[Likelihood]:
        """Return likelihoods with the statistics of the first training rows, which `fit` or partial_fit passes.

        Subclasses override it to learn bins or categories from these rows before counting.
        """
        return self._count(data)

    def _count(self, data: TrainingData) -> list[Likelihood]:
        """Return new likelihoods with the statistics of the rows in `data`."""
        likelihoods = self._make_likelihoods()
        n_threads = resolve_n_jobs(self.n_jobs)
        rows = data.X, data.y.astype(np.int32), data.sample_weight
        batch = Batch(*rows, len(self.classes_), n_threads, self._encoder.names, data.comm)
        if isinstance(data.X, RowSource) and data.comm.size == 1:
            read_together(data.X, [partial(_count_rows, likelihood, batch) for likelihood in likelihoods])
        else:
            for likelihood in likelihoods:
                likelihood.count(batch)
        return likelihoods

    def _class_counts(self, data: TrainingData) -> Array:
        """Return the number of rows of each class, or their total weight, over all processes."""
        return sums_by_class(data.y.astype(np.intp), data.sample_weight, len(self.classes_), data.comm)

    def _fit_to_sums(self, sums: Array, class_count: Array, classes: NDArray[Any]) -> Any:
        """Fit the model to column sums by class, (n_classes, n_features), and return it.

        `class_count` is the total weight of each class, and `classes` holds the labels.
        """
        self._check_parameters()
        self.classes_, self._encoder = classes, InputEncoder(None, [None] * sums.shape[1])
        self._set_columns()
        likelihoods = self._make_likelihoods()
        for likelihood in likelihoods:
            likelihood.set_sums(sums, class_count[:, None], None)
        self._set_fitted(likelihoods, class_count)
        return self

    def _set_fitted(self, likelihoods: list[Any], class_count: Array) -> None:
        """Estimate the parameters of likelihoods from their statistics and set the fitted attributes."""
        self.__dict__.pop("_parameters_of_fit", None)  # smoothing uses the current parameters
        self.class_log_prior_ = self._log_prior(class_count)
        for likelihood in likelihoods:
            likelihood.estimate("bayes")
        self._likelihoods = likelihoods
        self.class_count_ = class_count

    def _log_prior(self, class_count: Array) -> Array:
        """Return the log of the class priors, set by the user or estimated; raise ValueError if they are invalid."""
        fit_prior, priors = self._prior_parameters()
        if priors is not None:
            prior = np.asarray(priors, dtype=np.float64)
            if len(prior) != len(class_count):
                raise ValueError(
                    f"Number of priors must match number of classes, {len(class_count)}; got {len(prior)}."
                )
            if not (prior >= 0).all():
                raise ValueError(f"Priors must be non-negative; got {prior.tolist()}.")
            if not np.isclose(prior.sum(), 1.0):
                raise ValueError(f"The sum of the priors should be 1; got {prior.sum()}.")
        else:
            prior = class_count if fit_prior else np.ones(len(class_count))
        return log(prior) - log(prior.sum())

    # Input --------------------------------------------------

    def _learn_table(self, X: Any) -> Any:
        """Learn the encoder and return `X` encoded; integer matrices without categories are returned unchanged."""
        is_plain = self._comm.size == 1 and is_numeric_matrix(X, "iu") and self._accepts_plain_numbers()
        if not is_plain or (self._keeps_integers and has_large_numbers(X)):
            return super()._learn_table(X)
        self._encoder = InputEncoder(None, [None] * X.shape[1])
        self._set_columns()
        return X

    def _reading(self) -> Reading:
        """Return how tables are read: integers are kept exact if the model treats them as categories."""
        return super()._reading()._replace(exact_integers=self._keeps_integers)

    def _accepts_plain_numbers(self) -> bool:
        """Return True if a numeric array has no columns to encode as categories."""
        return True

    def _check_table(self, X: Any) -> Any:
        """Return the rows of `X` encoded as in `fit`; matrices of integers need no conversion."""
        if is_numeric_matrix(X, "iu") and X.shape[1] == self._n_plain_features:
            return X
        return super()._check_table(X)

    # Predict --------------------------------------------------

    def predict_joint_log_proba(self, X: ArrayLike) -> Array:
        """Return log P(class) + log P(row | class), shape (n_samples, n_classes)."""
        self._check_fitted()
        table = self._check_table(X)
        self._check_categories(table, X)
        out = np.empty((table.shape[0], len(self.classes_)))
        out[:] = self._prior_of_scores()
        n_threads = resolve_n_jobs(self.n_jobs)
        for start, part in numbered_parts(table):
            for likelihood in self._likelihoods:
                likelihood.add_log_likelihood(part, out[start : start + part.shape[0]], n_threads)
        return out

    def _prior_of_scores(self) -> Array:
        """Return the log prior of each class that the joint log probabilities include."""
        return self.class_log_prior_

    def _check_categories(self, table: Any, X: Any) -> None:
        """Raise ValueError if unseen='error' and a row has a category that was not seen in `fit`.

        `table` is `X` encoded. The base class accepts all rows; models with categories override it.
        """

    def _scores(self, X: ArrayLike) -> Array:
        """Return joint log probabilities minus their maximum by row; if all are -inf, the class priors replace them."""
        # Joint log probabilities relative to the maximum of the row. If the row is impossible in every class, the
        # class priors are used.
        scores = self.predict_joint_log_proba(X)
        best = _reduce_rows(np.maximum, scores)
        if best.min() == -np.inf:
            impossible = best[:, 0] == -np.inf
            scores[impossible], best[impossible] = self.class_log_prior_, self.class_log_prior_.max()
        scores -= best
        return scores

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return log P(class | row), shape (n_samples, n_classes)."""
        scores = self._scores(X)
        scores -= log(_reduce_rows(np.add, exp(scores)))
        return scores

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return P(class | row), shape (n_samples, n_classes)."""
        scores = self._scores(X)
        exp(scores, out=scores)
        scores /= _reduce_rows(np.add, scores)
        return scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class of each row, shape (n_samples,)."""
        best = np.argmax(self._scores(X), axis=1)
        return self.classes_[best]

    # Merge and save --------------------------------------------------

    def merge(self, other: Self) -> Self:
        """Return a model of the rows of both models, with the union of their classes and categories.

        Parameters
        ----------
        other : fitted model of the same class and columns
            Model fitted to other rows.

        Returns
        -------
        A new fitted model with the parameters of this one. Neither input model is modified.
        """
        self._check_fitted()
        if type(other) is not type(self):
            raise ValueError(f"other must be a fitted {type(self).__name__}; got {other!r}.")
        other._check_fitted()
        self._check_mergeable(other)
        merged, added = copy.copy(self), copy.copy(other)
        classes = np.union1d(self.classes_, other.classes_)
        encoder = self._encoder.with_more_categories(other._encoder.categories)
        for model in (merged, added):
            model._expand_to(classes, encoder)
        for mine, others in zip(merged._likelihoods, added._likelihoods, strict=True):
            mine.add(others)
        merged._set_fitted(merged._likelihoods, merged.class_count_ + added.class_count_)
        return merged

    def _check_mergeable(self, other: Any) -> None:
        """Raise ValueError unless the other model has the same columns and the same type of labels."""
        name = type(self).__name__
        encoder, other_encoder = self._encoder, other._encoder
        if other.n_features_in_ != self.n_features_in_:
            raise ValueError(
                f"other must have the {self.n_features_in_} columns of this {name}; it has {other.n_features_in_}."
            )
        for column in range(self.n_features_in_ if encoder.names != other_encoder.names else 0):
            ours, named = (None if each.names is None else each.names[column] for each in (encoder, other_encoder))
            if ours != named:
                raise ValueError(f"Column {column} of other must be named {ours!r}, as in this {name}; got {named!r}.")
        for column in np.flatnonzero(encoder.is_categorical != other_encoder.is_categorical).tolist():
            called = column if encoder.names is None else repr(encoder.names[column])
            kind, held = ("categories", "numbers")[:: 1 if encoder.is_categorical[column] else -1]
            raise ValueError(
                f"Column {called} of other must hold {kind}, like the same column of this {name}; it holds {held}."
            )
        if (self.classes_.dtype.kind == "U") != (other.classes_.dtype.kind == "U"):
            raise ValueError("other must have labels of the same type, either strings or numbers.")

    def _expand_to(self, classes: NDArray[Any], encoder: InputEncoder) -> None:
        """Expand the statistics to `classes` and to the categories of `encoder`, and set `classes_` and the encoder.

        Both must contain the current classes and categories; additional ones have counts of 0.
        """
        # Reorder the statistics to a larger set of classes and categories.
        class_positions = np.searchsorted(classes, self.classes_)
        count = np.zeros(len(classes))
        count[class_positions] = self.class_count_
        self.class_count_ = count
        likelihoods = []
        for old in self._likelihoods:
            likelihood = copy.copy(old)
            likelihood.expand_classes(class_positions, len(classes))
            likelihood.reorder_categories(self._encoder.categories, encoder.categories)
            likelihoods.append(likelihood)
        self._likelihoods = likelihoods
        self.classes_, self._encoder = classes, encoder

    def _likelihood_arrays(self) -> dict[str, np.ndarray]:
        """Return the statistics and tables of all likelihoods by name, for the model file."""
        return {
            f"likelihood{index}.{name}": getattr(likelihood, name)
            for index, likelihood in enumerate(self._likelihoods)
            for name in (*likelihood.statistics, *likelihood.tables)
        }

    def _restore_likelihoods(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the likelihoods from the arrays of a model file; raise ValueError if they are malformed."""
        n_classes = len(self.classes_)
        if self.class_count_.shape != (n_classes,) or self.class_log_prior_.shape != (n_classes,):
            raise ValueError("the counts of the classes are malformed")
        if not (self.class_count_ >= 0).all() or not (self.class_log_prior_ <= 1e-9).all():
            raise ValueError("the counts of the classes are malformed")
        self._likelihoods = self._make_likelihoods()
        for index, likelihood in enumerate(self._likelihoods):
            for name in (*likelihood.statistics, *likelihood.tables):
                setattr(likelihood, name, arrays[f"likelihood{index}.{name}"])
            n_features = self.n_features_in_ if likelihood.columns is None else len(likelihood.columns)
            likelihood.check(n_classes, n_features)

    # The likelihoods are restored last, because other classes restore the bins and kinds of their columns.
    _saved: ClassVar[SavedParts] = (
        *("class_count_", "class_log_prior_"),
        Saved(_likelihood_arrays, finish=_restore_likelihoods),
    )


class PosteriorNaiveBayes(ParameterPosteriorMixin, BaseNaiveBayes):
    """Base class of the naive Bayes models whose parameters have a posterior and an evidence."""

    def _with_estimate(self, mode: str, rng: np.random.Generator | None = None) -> Any:
        """Return a copy with the parameters estimated by `mode`, or drawn from their posterior if `rng` is passed."""
        self._check_fitted()
        model = copy.copy(self)
        model._likelihoods = [copy.copy(likelihood) for likelihood in self._likelihoods]
        for likelihood in model._likelihoods:
            likelihood.estimate(mode, rng)
        return model

    @property
    def log_evidence_(self) -> float:
        """Log probability of the columns given the classes, with the parameters integrated out under their prior."""
        self._check_fitted()
        values = [likelihood.log_evidence() for likelihood in self._likelihoods]
        if any(value is None for value in values):
            raise AttributeError("log_evidence_ needs a proper prior for the parameters of every column.")
        return sum_in_order(values)

    @property
    def n_parameters_(self) -> int:
        """Number of free parameters of the columns and, if they are estimated, of the class priors."""
        self._check_fitted()
        is_learned, priors = self._as_fitted()._prior_parameters()
        of_prior = len(self.classes_) - 1 if is_learned and priors is None else 0
        return of_prior + sum(likelihood.n_parameters() for likelihood in self._likelihoods)

    def score_samples(self, X: ArrayLike, y: ArrayLike | None = None) -> Array:
        """Return log P(row), or log P(row, label) if `y` is passed; shape (n_samples,)."""
        joint = self.predict_joint_log_proba(X)
        if y is None:
            return logsumexp(joint, axis=1)
        return joint[np.arange(len(joint)), self._check_validation(X, y).y.astype(np.intp)]


def numbered_parts(table: Any) -> Iterable[tuple[int, Any]]:
    """Return pairs of the index of the first row and a part of the table; in-memory tables are one part."""
    return parts_of(table) if isinstance(table, RowSource) else [(0, table)]


def _reduce_rows(function: np.ufunc, values: Array) -> Array:
    """Return `function.reduce` of each row, (n_rows, 1), bit-identical to NumPy's result but faster for short rows."""
    if 1 < values.shape[1] < IN_ORDER:
        return reduce(function, values.T)[:, None]
    return function.reduce(values, axis=1, keepdims=True)


def _count_rows(likelihood: Likelihood, batch: Batch, X: Any) -> None:
    """Set the statistics of a likelihood from the table `X`, with the labels and weights of `batch`."""
    likelihood.count(batch._replace(X=X))
