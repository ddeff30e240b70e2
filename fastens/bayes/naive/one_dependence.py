"""Naive Bayes with one or two more dependences a column: trees (TAN) and averages over parents (AODE, A2DE)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.bayes.counts.column_bins import Limits, as_floats, learn_limits, limits_from_arrays, limits_to_arrays
from fastens.bayes.counts.dirichlet import SMOOTHING_RULES
from fastens.bayes.counts.memory import pairs_needs
from fastens.bayes.naive.averaged_likelihoods import OneDependenceLikelihood, TwoDependenceLikelihood
from fastens.bayes.naive.base_naive_bayes import PosteriorNaiveBayes
from fastens.bayes.naive.category_input import CategoryInput
from fastens.bayes.naive.likelihoods import Likelihood
from fastens.bayes.naive.pair_likelihoods import PairLikelihood, TreeLikelihood
from fastens.bayes.naive.parameters import UNSEEN, SmoothingParameters, smoothing_of
from fastens.checked_parameters import with_parameters
from fastens.engine.threads import resolve_n_jobs
from fastens.parameters import ANYTHING, NONE, instance, parameter, real, whole
from fastens.table.at_sight import AtSight
from fastens.table.memory_limits import MemoryNeeds, TableShape
from fastens.table.sample_weights import WEIGHT_TYPE
from fastens.table.tables import column_positions

PAIR_RULES = {
    **SMOOTHING_RULES,
    "max_bins": whole(1, 65_000),
    "categorical_features": ANYTHING,
    "unseen": UNSEEN,
    "n_jobs": ANYTHING,
}


class _PairModel(CategoryInput):
    """What the models from counts of pairs share: numbers become bins, learned from the first rows."""

    _parameter_rules: ClassVar = PAIR_RULES
    _poor_score = True
    _compares_weights = True
    max_bins: int
    _limits: Limits

    def _memory_needs(self, shape: TableShape) -> MemoryNeeds:
        return pairs_needs(self, shape)

    def _takes_numbers_as_they_are(self) -> bool:
        chosen = self.categorical_features
        return chosen is None or (isinstance(chosen, str) and chosen == "from_dtype")

    def _count_first(self, data: TrainingData) -> list[Likelihood]:
        if isinstance(data.X, AtSight) and self._encoder.is_categorical.all():
            self._limits = [None] * len(self._encoder.categories)
            return self._count(data)
        data = data._replace(X=as_floats(data.X))
        self._limits = self._learn_limits(data)
        return self._count(data)

    def _learn_limits(self, data: TrainingData) -> Limits:
        how = self.max_bins, self._encoder.is_categorical, resolve_n_jobs(self.n_jobs), data.comm
        return learn_limits(data.X, data.sample_weight, *how)

    def _make_likelihoods(self) -> list[Likelihood]:
        sizes = [
            len(categories or []) if limits is None else len(limits) + 1
            for categories, limits in zip(self._encoder.categories, self._limits, strict=True)
        ]
        return [self._make_likelihood(smoothing_of(self), self._limits, np.array(sizes, dtype=np.int64), self.unseen)]

    def _make_likelihood(self, *arguments: Any) -> PairLikelihood:
        raise NotImplementedError

    @property
    def n_categories_(self) -> NDArray[np.int64]:
        """Categories, or bins, of each column."""
        return self._likelihood.sizes

    @property
    def bin_limits_(self) -> Limits:
        """The upper ends of each column's bins but the last; None where it has categories."""
        self._check_fitted()
        return self._limits

    def _check_mergeable(self, other: Any) -> None:
        super()._check_mergeable(other)
        pairs = zip(self._limits, other._limits, strict=True)
        if not all(one is None or np.array_equal(one, another) for one, another in pairs):
            raise ValueError("other must have the same bins of columns of numbers; fit one, and partial_fit the other.")

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return super()._fitted_arrays() | limits_to_arrays(self._limits)

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        self._limits = limits_from_arrays(arrays, self._encoder.is_categorical)
        super()._restore_fitted(arrays)


@with_parameters
class TANClassifier(SmoothingParameters, _PairModel, PosteriorNaiveBayes):
    """Tree-augmented naive Bayes: each column depends on the class and on one other column, which form a tree.

    The tree is the one of greatest likelihood, a maximum spanning tree of the mutual informations of the columns given
    the class; `predict_proba` uses the posterior mean of its probabilities. Missing values are skipped, in fit and in
    prediction: where the value of the parent is missing, the column depends on the class alone. The model is sums over
    rows: `partial_fit` and `merge` give that of one fit to all of them, but for bins of numbers, which stay those of
    the first rows. A table in files is read once where all columns hold categories, else twice: bins of numbers are
    learned before they are counted.

    Parameters
    ----------
    {parameters}
    root : int, str or None, default=None
        The column that depends on the class alone, by its index or name; None: that of the greatest mutual
        information with the class.

    Attributes
    ----------
    {attributes}
    log_evidence_ : float
        Log probability of the columns given the classes and the tree, the parameters averaged out; of each column over
        the rows in which its parent is known too.

    Raises
    ------
    ValueError
        If a parameter or the data break a rule, or the counts of pairs, (categories of all columns)^2 x classes, are
        more than 2^28; the message names it.

    References
    ----------
    Friedman, Geiger & Goldszmidt (1997), "Bayesian network classifiers", Machine Learning 29, section 4.

    Examples
    --------
    >>> from fastens import TANClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    >>> model = TANClassifier().fit(X, ["same", "same", "other", "other"] * 5)
    >>> model.predict([["b", "b"], ["b", "a"]]).tolist()
    ['same', 'other']
    >>> model.parents_.tolist()
    [-1, 0]
    """

    _parameter_rules: ClassVar = {
        **SmoothingParameters._parameter_rules,
        **PAIR_RULES,
        "root": NONE | whole(0) | instance(str, "the name of a column"),
    }

    max_bins: int = 8
    categorical_features: Any = "from_dtype"
    unseen: str = "ignore"
    root: int | str | None = None
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")

    def _make_likelihood(self, *arguments: Any) -> PairLikelihood:
        return TreeLikelihood(*arguments, root=self._root_index())

    def _root_index(self) -> int | None:
        if self.root is None:
            return None
        names = self._encoder.names
        try:
            return column_positions("root", [self.root], names, self.n_features_in_)[0]
        except ValueError:
            known = f"are {names}" if names else f"have the numbers 0 to {self.n_features_in_ - 1}"
            raise ValueError(f"root must be a column of X, and these {known}; got {self.root!r}.") from None

    @property
    def parents_(self) -> NDArray[np.int64]:
        """The column that each column depends on besides the class, -1 for the root."""
        return self._likelihood.parents


@with_parameters
class AODEClassifier(_PairModel):
    """Averaged one-dependence estimators: naive Bayes models, each with one column as a further parent of all others.

    P(class, row) is the mean over columns i of P(class, x_i) prod_j P(x_j | class, x_i): nothing is selected, so
    the variance is small. With `order` 2, A2DE, it is the mean over pairs of columns i, j of P(class, x_i, x_j)
    prod_k P(x_k | class, x_i, x_j). Missing values are skipped, in fit and in prediction. The model is sums over rows:
    `partial_fit` and `merge` give that of one fit to all of them, but for bins of numbers, which stay those of the
    first rows. A table in files is read once where all columns hold categories, else twice: bins of numbers are learned
    before they are counted.

    Parameters
    ----------
    {parameters}
    order : {1, 2}, default=1
        How many columns are parents of the others. 2 is less biased, for tables of many rows: time and memory grow by
        a factor of some half the number of columns.
    min_count : float, default=1.0
        A column, or a pair of columns, is a parent for the rows whose values there came in at least this many rows, or
        weight, of `fit`. A row that no pair is a parent for has the average over single columns, and one without these
        is classified by naive Bayes. Webb, Boughton & Wang use 30.
    smoothing : {"laplace", "m", "kt", "bdeu", "none"}, default="laplace"
        Pseudo-count of each of the r categories of a column, for each class and each of the q categories of its parent:
        `alpha`; `m` / r; 1/2; `ess` / (r q n_classes); 0. That of each of the q n_classes values of class and parent
        together: `alpha`, of two parents the mean of theirs; `m` / (q n_classes); 1/2; `ess` / (q n_classes); 0.

    Attributes
    ----------
    {attributes}

    Raises
    ------
    ValueError
        If a parameter or the data break a rule, or the counts of pairs, (categories of all columns)^2 x classes, are
        more than 2^28; with `order` 2, if its probabilities, (categories of all pairs of columns) x (categories of all
        columns) x classes, are; the message names it.

    References
    ----------
    Webb, Boughton & Wang (2005), "Not so naive Bayes: aggregating one-dependence estimators", Machine
    Learning 58, section 3; Webb, Boughton, Zheng, Ting & Salem (2012), "Learning by extrapolation from marginal to
    full-multivariate probability distributions: decreasingly naive Bayesian classification", Machine Learning 86,
    for order 2.

    Examples
    --------
    >>> from fastens import AODEClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    >>> model = AODEClassifier().fit(X, ["same", "same", "other", "other"] * 5)
    >>> model.predict([["b", "b"], ["b", "a"]]).tolist()
    ['same', 'other']
    """

    _parameter_rules: ClassVar = {**PAIR_RULES, "order": whole(1, 2), "min_count": real(0)}

    order: int = 1
    min_count: float = 1.0
    alpha: Any = 1.0
    smoothing: str = "laplace"
    m: float = 1.0
    ess: float = 1.0
    max_bins: int = 8
    categorical_features: Any = "from_dtype"
    unseen: str = "ignore"
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    n_jobs: int | None = None

    def _given_prior(self) -> tuple[bool, Any]:
        return True, None

    def _make_likelihood(self, *arguments: Any) -> PairLikelihood:
        kind = OneDependenceLikelihood if self.order == 1 else TwoDependenceLikelihood
        return kind(*arguments, min_count=self.min_count)
