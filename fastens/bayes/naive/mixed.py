"""Naive Bayes for categorical columns and for tables with columns of several kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import TrainingData
from fastens.bayes.counts.attributes import declared_values, with_categories, with_values
from fastens.bayes.counts.counting import MAX_CATEGORIES, offsets_of
from fastens.bayes.counts.dirichlet import Smoothing
from fastens.bayes.naive.base_naive_bayes import (
    FINITE,
    UNSEEN,
    Array,
    BaseNaiveBayes,
    PosteriorNaiveBayes,
    SmoothingParameters,
    check_alpha,
    make_smoothing,
    numbered_parts,
)
from fastens.bayes.naive.likelihoods import (
    BernoulliLikelihood,
    CategoricalLikelihood,
    GaussianLikelihood,
    Likelihood,
    MultinomialLikelihood,
    NotPositionsError,
)
from fastens.engine.parts import MappedRows, RowSource, as_array, parts_of
from fastens.modelfile.saving import Saved, SavedParts
from fastens.params.estimator import with_parameters
from fastens.params.rules import NONE, Rule, one_of, parameter, real, whole
from fastens.params.types import ColumnChoice
from fastens.table.columns.numbers import Floats
from fastens.table.encoder import InputEncoder
from fastens.table.opening import open_table
from fastens.table.tables import Table, column_positions


class CategoryInput(BaseNaiveBayes):
    """Base class of the naive Bayes models with categorical columns and a policy for unseen categories."""

    _keeps_integers = True
    categorical_features: ColumnChoice = "from_dtype"
    unseen: str

    def _learn_table(self, X: Any) -> Any:
        """Learn the encoder, with the categories that dtypes declare, and return `X` as category positions."""
        table = super()._learn_table(X)
        # Copy the encoder because models of one table may share it.
        encoder = with_categories(self._encoder, list(self._encoder.categories))
        encoder.unseen = -1.0
        self._encoder, table = with_values(encoder, table, declared_values(X))
        return table

    def _restore_encoder(self, state: dict[str, Any]) -> None:
        """Set the encoder from the state of a model file; unseen categories are encoded as -1."""
        super()._restore_encoder(state)
        self._encoder.unseen = -1.0

    def _check_categories(self, table: Any, X: Any) -> None:
        """Raise ValueError if unseen='error' and a row has a category not seen in fit; `table` is `X` encoded."""
        asked = [likelihood for likelihood in self._likelihoods if likelihood.unseen == "error"]
        for start, part in numbered_parts(table) if asked else ():
            for likelihood in asked:
                cell = likelihood.first_unseen(part)
                if cell is not None:
                    row, column = start + cell[0], cell[1]
                    names = self._encoder.names
                    name = repr(names[column]) if names else str(column)
                    value = self._encoder.matched(X, type(self).__name__).value_at(row, column)
                    value = value.item() if isinstance(value, np.generic) else value
                    raise ValueError(f"Column {name} must hold categories seen in fit; row {row} holds {value!r}.")


KINDS = ("gaussian", "categorical", "bernoulli", "multinomial")
KINDS_OF_COLUMNS = Rule(
    "a dict or list of kinds",
    lambda value: isinstance(value, Mapping | list | tuple | np.ndarray) and np.iterable(value),
)
FEATURE_PRIOR = NONE | real(0, 1, open_low=True, open_high=True)


@with_parameters
class CategoricalNB(SmoothingParameters, CategoryInput, PosteriorNaiveBayes):
    """Naive Bayes for categorical columns.

    The category probabilities of a column in a class have a Dirichlet prior; `smoothing` determines its pseudo-counts.
    `predict_proba` uses the posterior means, which are Bayes-optimal for a single row.

    The categories of a string, categorical or boolean column are the values found in it, in addition to those that a
    pandas categorical or enum dtype declares. In a numeric column of whole numbers from 0, the numbers are category
    positions, and every position up to the maximum is a category. In other numeric columns, each distinct value is a
    category. Missing values are skipped during both fit and prediction.

    Parameters
    ----------
    {parameters}
    min_categories : int or array of shape (n_features,), default=None
        Minimum number of categories of each column. If None, the training data determines it.
    unseen : {"ignore", "smooth", "error"}, default="ignore"
        How to handle categories that were not seen in `fit`. "ignore" skips the column, "smooth" uses the probability
        of a category with count 0 in the class, and "error" raises ValueError.

    Attributes
    ----------
    {attributes}

    References
    ----------
    Mitchell (1997), "Machine learning", section 6.9 and eq. 6.22 (m-estimate); Dash & Cooper (2004), "Model averaging
    for prediction with discrete Bayesian networks", JMLR 5, section 3 (`feature_prior`).

    Examples
    --------
    >>> import pandas as pd
    >>> from fastens import CategoricalNB
    >>> X = pd.DataFrame({"sky": ["sun", "sun", "rain", "rain"], "wind": ["weak", "strong", "weak", None]})
    >>> model = CategoricalNB().fit(X, ["out", "out", "in", "in"])
    >>> model.predict(pd.DataFrame({"sky": ["sun", "hail"], "wind": ["weak", "strong"]})).tolist()
    ['out', 'out']
    """

    _poor_score = True

    min_categories: ArrayLike | None = parameter(
        NONE
        | whole(1, MAX_CATEGORIES)
        | Rule("an array of whole numbers, one for each column", lambda value: np.ndim(value) == 1),
        default=None,
    )
    unseen: str = parameter(UNSEEN, default="ignore")
    feature_prior: float | None = parameter(FEATURE_PRIOR, default=None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags

    def _validate_combinations(self) -> None:
        """Raise ValueError if `feature_prior` contradicts the smoothing."""
        check_feature_prior(self)

    def _count_first_rows(self, data: TrainingData) -> list[Likelihood]:
        """Return likelihoods with the counts of the first training rows.

        If a numeric column holds other numbers than category positions, its distinct values become its categories.
        """
        try:
            return self._count(data)
        except NotPositionsError as error:
            return self._count(data._replace(X=self._learn_values(data.X, error.columns)))

    def _learn_values(self, X: Any, columns: NDArray[np.intp]) -> Any:
        """Use the distinct values of these numeric columns as their categories; return `X` as category positions.

        The encoder is replaced. Raises ValueError if a value is infinite.
        """
        values: dict[int, NDArray[Any]] = {index: np.zeros(0) for index in columns.tolist()}
        for _, part in parts_of(X):
            for index, distinct in values.items():
                values[index] = np.union1d(distinct, part[~np.isnan(part[:, index]), index])
        if self._comm.size > 1:
            of_ranks = self._comm.allgather(values)
            values = {index: np.unique(np.concatenate([of_rank[index] for of_rank in of_ranks])) for index in values}
        categories = list(self._encoder.categories)
        for index, distinct in values.items():
            if np.isinf(distinct).any():
                name = self._encoder.names[index] if self._encoder.names else index
                raise ValueError(f"Input X contains infinity: column {name!r} must hold finite numbers.")
            categories[index] = distinct.tolist()
        self._encoder = with_categories(self._encoder, categories)  # rows keep the old encoder
        self._set_columns()

        def positions(_: int, part: NDArray[Any]) -> Floats:
            part = np.array(part, dtype=np.float64)
            for index, distinct in values.items():
                part[:, index] = np.where(np.isnan(part[:, index]), np.nan, np.searchsorted(distinct, part[:, index]))
            return part

        rows = MappedRows(X, positions, X.shape[1])
        return rows if isinstance(X, RowSource) else as_array(rows)

    def _make_likelihoods(self) -> list[Likelihood]:
        """Return the likelihood of all columns in a list; raise ValueError if `min_categories` is invalid."""
        minimum = np.asarray(0 if self.min_categories is None else self.min_categories)
        if (
            minimum.shape not in ((), (self.n_features_in_,))
            or minimum.dtype.kind not in "iu"
            or _exceeds_limits(minimum)
        ):
            raise ValueError(
                f"min_categories must hold a whole number from 0 to {MAX_CATEGORIES} for each of the "
                f"{self.n_features_in_} columns; got {self.min_categories!r}."
            )
        minimum = np.maximum(minimum, n_declared(self._encoder))
        return [
            CategoricalLikelihood(
                make_smoothing(self), unseen=self.unseen, minimum=minimum, feature_prior=self.feature_prior
            )
        ]

    @property
    def n_categories_(self) -> NDArray[np.int64]:
        """Number of categories of each column."""
        return self._likelihood.sizes

    @property
    def category_count_(self) -> list[Array]:
        """Number of rows of each class and category: for each column, an array of shape (n_classes, n_categories)."""
        return self._by_column(self._likelihood.counts)

    @property
    def feature_log_prob_(self) -> list[Array]:
        """Log probability of each category in each class: for each column, an array (n_classes, n_categories)."""
        return self._by_column(self._likelihood.log_prob)

    @property
    def feature_posterior_(self) -> Array:
        """Posterior probability that each column depends on the class; 1 if `feature_prior` is None."""
        return self._likelihood.feature_posterior

    def _by_column(self, cells: Array) -> list[Array]:
        """Split an array of cells (n_classes, n_cells) into one array per column."""
        return np.split(cells, offsets_of(self.n_categories_)[1:-1], axis=1)


def _exceeds_limits(minimum: NDArray[Any]) -> bool:
    """Return True if a minimum number of categories is negative or greater than the maximum."""
    return bool(minimum.min() < 0 or minimum.max() > MAX_CATEGORIES)


def n_declared(encoder: InputEncoder) -> NDArray[np.int64]:
    """Return the number of categories of each column that the encoder knows already, 0 if the rows determine them."""
    return np.array([len(categories or ()) for categories in encoder.categories], dtype=np.int64)


def check_feature_prior(model: Any) -> None:
    """Raise ValueError if `feature_prior` is set without pseudo-counts, which the evidence of subsets needs."""
    has_prior = model.smoothing != "none" and (model.smoothing != "laplace" or np.all(np.asarray(model.alpha) > 0))
    if model.feature_prior is not None and not has_prior:
        raise ValueError(
            f"feature_prior must be None without pseudo-counts (smoothing={model.smoothing!r}, alpha={model.alpha!r}); "
            f"got {model.feature_prior!r}."
        )


@with_parameters
class MixedNB(SmoothingParameters, CategoryInput, PosteriorNaiveBayes):
    """Naive Bayes for tables with columns of several kinds.

    Each column has its own kind of likelihood: "gaussian" as in GaussianNB, "categorical" as in CategoricalNB and
    "bernoulli" as in BernoulliNB. All columns of kind "multinomial" together form the counts of one MultinomialNB.
    Missing values are skipped during both fit and prediction.

    Parameters
    ----------
    {parameters}
    kinds : "from_dtype", dict of kind by column name or index, or list of kinds, default="from_dtype"
        Kind of each column. "from_dtype" selects "categorical" for categories, enums, strings and booleans, and
        "gaussian" for numbers; it also applies to columns that a dict does not name. The categories of a numeric
        column of kind "categorical" are the values found in it.

    Attributes
    ----------
    {attributes}
    kinds_ : array of str, shape (n_features,)
        Kind of each column.

    References
    ----------
    Mitchell (1997), "Machine learning", section 6.9.

    Examples
    --------
    >>> import pandas as pd
    >>> from fastens import MixedNB
    >>> X = pd.DataFrame({"size": [1.0, 1.2, 3.1, 2.9], "colour": ["red", "red", "blue", None]})
    >>> model = MixedNB().fit(X, ["a", "a", "b", "b"])
    >>> model.kinds_.tolist(), model.predict(X).tolist()
    (['gaussian', 'categorical'], ['a', 'a', 'b', 'b'])
    """

    kinds: str | Sequence[str] | Mapping[Any, str] = parameter(
        one_of("from_dtype") | KINDS_OF_COLUMNS, default="from_dtype"
    )
    binarize: float | None = parameter(FINITE | NONE, default=0.0)
    var_smoothing: float = parameter(real(0), default=1e-9)
    unseen: str = parameter(UNSEEN, default="ignore")
    feature_prior: float | None = parameter(FEATURE_PRIOR, default=None)

    def _validate_combinations(self) -> None:
        """Raise ValueError if `feature_prior` contradicts the smoothing."""
        check_feature_prior(self)

    @property
    def categorical_features(self) -> Any:  # type: ignore[override]
        """Columns that are encoded as categories."""
        return self.kinds_ == "categorical"

    def _learn_table(self, X: Any) -> Any:
        """Set `kinds_`, learn the encoder and return `X` encoded; raise ValueError for categories in a sparse X."""
        table = open_table(X, type(self).__name__, min_rows=0)
        self.kinds_ = self._choose_kinds(table)
        if table.is_sparse and self.categorical_features.any():
            raise ValueError("kinds must not have a 'categorical' column for a sparse X. Pass a dense X.")
        X = X if isinstance(X, np.ndarray) or table.is_sparse else table
        return super()._learn_table(X)

    def _accepts_plain_numbers(self) -> bool:
        """Return True if no column is categorical, so that numeric arrays need no encoding."""
        return not self.categorical_features.any()

    def _choose_kinds(self, table: Table) -> NDArray[np.str_]:
        """Return the kind of each column, from the parameter `kinds` and, for other columns, from the dtypes.

        Raises ValueError if `kinds` has a wrong length, an unknown column or an unknown kind.
        """
        n_features = len(table)
        declared = self.kinds
        if not isinstance(declared, str | Mapping):
            if len(declared) != n_features:
                raise ValueError(f"kinds must have one kind for each of the {n_features} columns; got {len(declared)}.")
            declared = dict(enumerate(declared) if table.names is None else zip(table.names, declared, strict=True))
        kinds = ["gaussian"] * n_features
        if isinstance(declared, str) or len(declared) < n_features:
            kinds = [
                "categorical" if is_category else "gaussian" for is_category in table.categorical_columns(self._comm)
            ]
        for column, kind in {} if isinstance(declared, str) else declared.items():
            one_of(*KINDS).check(f"kinds[{column!r}]", kind)
            kinds[_column_index(table, column)] = kind
        return np.array(kinds)

    def _make_likelihoods(self) -> list[Likelihood]:
        """Return a likelihood for each kind of column that occurs."""
        alpha = check_alpha(self)
        return [
            self._make_likelihood(kind, columns, alpha)
            for kind in KINDS
            if (columns := np.flatnonzero(self.kinds_ == kind)).size
        ]

    def _make_likelihood(self, kind: str, columns: NDArray[np.intp], alpha: Any) -> Likelihood:
        """Return a likelihood of one kind for these columns; `alpha` is a number or has one number per column of X."""
        own_alpha = np.asarray(alpha)[columns] if np.ndim(alpha) else alpha
        smoothing = Smoothing(self.smoothing, own_alpha, self.m, self.ess)
        if kind == "gaussian":
            return GaussianLikelihood(self.var_smoothing, columns)
        if kind == "bernoulli":
            return BernoulliLikelihood(smoothing, columns, threshold=self.binarize)
        if kind == "multinomial":
            return MultinomialLikelihood(smoothing, columns)
        minimum = n_declared(self._encoder)[columns]
        return CategoricalLikelihood(
            smoothing, columns, unseen=self.unseen, minimum=minimum, feature_prior=self.feature_prior
        )

    def _check_mergeable(self, other: Any) -> None:
        """Raise ValueError unless the other model has the same columns with the same kinds."""
        super()._check_mergeable(other)
        if not np.array_equal(self.kinds_, other.kinds_):
            raise ValueError(f"other must have columns of the same kinds as this model, {self.kinds_.tolist()}.")

    def _check_kinds(self, arrays: dict[str, np.ndarray]) -> None:
        """Raise ValueError if the kinds of columns read from a file are malformed."""
        if self.kinds_.shape != (self.n_features_in_,) or not set(self.kinds_.tolist()) <= set(KINDS):
            raise ValueError("the kinds of the columns are malformed")

    _saved: ClassVar[SavedParts] = ("kinds_", Saved(from_arrays=_check_kinds))


def _column_index(table: Table, column: Any) -> int:
    """Return the index of a column from its name or index; raise ValueError if there is none."""
    try:
        return column_positions("kinds", [column], table.names, len(table))[0]
    except ValueError:
        available = f"the columns are {table.names}" if table.names else f"there are {len(table)} columns without names"
        raise ValueError(f"kinds must name columns of X; got {column!r}, and {available}.") from None
