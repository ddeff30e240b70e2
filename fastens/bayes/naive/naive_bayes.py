"""Naive Bayes for numeric, binary and count features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastens.bayes.counts.dirichlet import SMOOTHING_RULES, Smoothing
from fastens.bayes.naive.base_naive_bayes import (
    FINITE,
    PRIOR,
    Array,
    BaseNaiveBayes,
    PosteriorNaiveBayes,
    SmoothingParameters,
    check_alpha,
    make_smoothing,
)
from fastens.bayes.naive.likelihoods import (
    BernoulliLikelihood,
    ComplementLikelihood,
    GaussianLikelihood,
    Likelihood,
    MultinomialLikelihood,
)
from fastens.engine.elementary import exp
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, FLAG, NONE, parameter, real


@with_parameters
class GaussianNB(PosteriorNaiveBayes):
    """Gaussian naive Bayes for numeric columns.

    Each column is normally distributed within a class. Means and variances are maximum likelihood estimates from the
    rows of the class, and `epsilon_` is added to all variances. Missing values are skipped during both fit and
    prediction. `predict(mode="gibbs")` and `sample_posterior` draw from the posterior under a prior proportional to
    1 / variance.

    Parameters
    ----------
    priors : array of shape (n_classes,) or None, default=None
        Prior probabilities of the classes. If None, the class frequencies of the training set are used.
    {parameters}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Mitchell (1997), "Machine learning", section 6.9; Chan, Golub & LeVeque (1979), "Updating formulae and a pairwise
    algorithm for computing sample variances", eq. 2.1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fastens import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> GaussianNB().fit(X, y).score(X, y)
    0.96
    """

    priors: ArrayLike | None = parameter(PRIOR, default=None)
    var_smoothing: float = parameter(real(0), default=1e-9)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    def _prior_parameters(self) -> tuple[bool, Any]:
        """Return (True, priors): the rows determine the class priors unless the user passes `priors`."""
        return True, self.priors

    def _make_likelihoods(self) -> list[Likelihood]:
        """Return the Gaussian likelihood of all columns, without statistics, in a list."""
        return [GaussianLikelihood(self.var_smoothing)]

    @property
    def class_prior_(self) -> Array:
        """Prior probabilities of the classes, shape (n_classes,)."""
        return exp(self.class_log_prior_)

    @property
    def theta_(self) -> Array:
        """Mean of each column in each class, shape (n_classes, n_features)."""
        return self._likelihood.theta

    @property
    def var_(self) -> Array:
        """Variance of each column in each class, shape (n_classes, n_features)."""
        return self._likelihood.var

    @property
    def epsilon_(self) -> float:
        """Value added to all variances."""
        return self._likelihood.epsilon


@with_parameters
class BernoulliNB(SmoothingParameters, PosteriorNaiveBayes):
    """Bernoulli naive Bayes for binary columns.

    P(column is 1 | class) has a Beta prior; `smoothing` determines its two pseudo-counts (r is 2). Missing values are
    skipped.

    {parameters and attributes}

    References
    ----------
    McCallum & Nigam (1998), "A comparison of event models for naive Bayes text classification", eq. 3-5.

    Examples
    --------
    >>> from fastens import BernoulliNB
    >>> model = BernoulliNB().fit([[1, 0], [1, 1], [0, 1]], ["a", "a", "b"])
    >>> model.predict([[1, 0], [0, 1]]).tolist()
    ['a', 'b']
    """

    _poor_score = True

    binarize: float | None = parameter(FINITE | NONE, default=0.0)

    def _make_likelihoods(self) -> list[Likelihood]:
        """Return the Bernoulli likelihood of all columns, without statistics, in a list."""
        return [BernoulliLikelihood(make_smoothing(self), threshold=self.binarize)]

    @property
    def feature_count_(self) -> Array:
        """Number of rows with value 1 for each class and column, shape (n_classes, n_features)."""
        return self._likelihood.counts[:, 1::2]

    @property
    def feature_log_prob_(self) -> Array:
        """Log probability of value 1 for each class and column, shape (n_classes, n_features)."""
        return self._likelihood.log_prob[:, 1::2]


class _EventNaiveBayes(BaseNaiveBayes):
    """Base class of the naive Bayes classifiers for event counts."""

    _poor_score = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    @property
    def feature_count_(self) -> Array:
        """Number of events for each class and column, shape (n_classes, n_features)."""
        return self._likelihood.counts


@with_parameters
class MultinomialNB(SmoothingParameters, _EventNaiveBayes, PosteriorNaiveBayes):
    """Multinomial naive Bayes for columns that count events, such as words.

    The events of a row are independent draws from the event distribution of its class, which has a Dirichlet prior
    (in `smoothing`, r is the number of columns and q the number of classes).
    Missing counts are treated as zero.

    {parameters and attributes}
    log_evidence_ : float
        Log probability of the sequence of events given the classes, with the parameters integrated out.

    References
    ----------
    McCallum & Nigam (1998), "A comparison of event models for naive Bayes text classification", eq. 6-8.

    Examples
    --------
    >>> from fastens import MultinomialNB
    >>> model = MultinomialNB().fit([[3, 0], [2, 1], [0, 4]], ["a", "a", "b"])
    >>> model.predict([[1, 0], [0, 1]]).tolist()
    ['a', 'b']
    """

    def _make_likelihoods(self) -> list[Likelihood]:
        """Return the multinomial likelihood of all columns, without statistics, in a list."""
        return [MultinomialLikelihood(make_smoothing(self))]

    @property
    def feature_log_prob_(self) -> Array:
        """Log probability of each event in each class, shape (n_classes, n_features)."""
        return self._likelihood.log_prob


@with_parameters
class ComplementNB(_EventNaiveBayes):
    """Complement naive Bayes for event counts.

    Each class is scored with statistics of the rows of all other classes, which makes the model more robust than
    MultinomialNB if some classes have few rows. The scores are not likelihoods of the rows, and the class priors do
    not affect them. Missing counts are treated as zero.

    Parameters
    ----------
    {parameters}
    alpha : float or array of shape (n_features,), default=1.0
        Pseudo-count of each event. Larger values smooth more.
    fit_prior : bool, default=True
        If True, `class_log_prior_` holds the log class frequencies of the training set; otherwise it is uniform.
    class_prior : array of shape (n_classes,) or None, default=None
        Class priors, stored in `class_log_prior_`. They do not affect the scores.
    norm : bool, default=False
        If True, the weights of each class are divided by their sum.

    Attributes
    ----------
    {attributes}

    References
    ----------
    Rennie, Shih, Teevan & Karger (2003), "Tackling the poor assumptions of naive Bayes text classifiers", eq. 6.

    Examples
    --------
    >>> from fastens import ComplementNB
    >>> model = ComplementNB().fit([[3, 0], [2, 1], [0, 4]], ["a", "a", "b"])
    >>> model.predict([[1, 0], [0, 1]]).tolist()
    ['a', 'b']
    """

    alpha: ArrayLike = parameter(SMOOTHING_RULES["alpha"], default=1.0)
    force_alpha: bool = parameter(FLAG, default=True)
    fit_prior: bool = parameter(FLAG, default=True)
    class_prior: ArrayLike | None = parameter(PRIOR, default=None)
    norm: bool = parameter(FLAG, default=False)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    def _make_likelihoods(self) -> list[Likelihood]:
        """Return the complement likelihood of all columns, without statistics, in a list."""
        smoothing = Smoothing("laplace", check_alpha(self))
        return [ComplementLikelihood(smoothing, norm=self.norm)]

    def _prior_of_scores(self) -> Array:
        """Return zeros, because class priors do not affect the scores."""
        return np.zeros(len(self.classes_))

    @property
    def feature_all_(self) -> Array:
        """Number of events for each column, shape (n_features,)."""
        return self.feature_count_.sum(axis=0)

    @property
    def feature_log_prob_(self) -> Array:
        """Weight of each event in each class, shape (n_classes, n_features)."""
        return self._likelihood.weights
