"""Naive Bayes for numbers, binary columns and counts."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fastens.bayes.counts.dirichlet import SMOOTHING_RULES, Smoothing
from fastens.bayes.naive.base_naive_bayes import COMMON_RULES, PRIOR, Array, BaseNaiveBayes, PosteriorNaiveBayes
from fastens.bayes.naive.count_likelihoods import (
    BernoulliLikelihood,
    ComplementLikelihood,
    GaussianLikelihood,
    MultinomialLikelihood,
)
from fastens.bayes.naive.likelihoods import Likelihood
from fastens.parameters import ANYTHING, FLAG, NONE, Rule, real

FINITE = Rule("a finite number", real(-np.inf).holds)


class GaussianNB(PosteriorNaiveBayes):
    """Naive Bayes for columns of numbers that are normal in each class.

    Means and variances are those of the class's rows (maximum likelihood), the variances made larger by `epsilon_`.
    Missing values are skipped, in fit and in prediction. Draws from the posterior, `predict(mode="gibbs")` and
    `sample_posterior`, are under the prior 1 / variance.

    Parameters
    ----------
    priors : array of shape (n_classes,), optional
        Prior of the classes; default: their share of the rows.
    var_smoothing : float, default=1e-9
        This share of the largest variance of a column is added to all variances.
    {n_jobs}

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    class_count_, class_prior_, class_log_prior_ : arrays of shape (n_classes,)
        Rows of each class, and its prior.
    theta_, var_ : arrays of shape (n_classes, n_features)
        Means and variances.
    epsilon_ : float
        What was added to the variances.
    {raises}

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

    _parameter_rules: ClassVar = {"priors": PRIOR, "var_smoothing": real(0), "n_jobs": ANYTHING}

    def __init__(self, *, priors: Any = None, var_smoothing: float = 1e-9, n_jobs: int | None = None) -> None:
        self._keep_parameters(locals())

    def _given_prior(self) -> tuple[bool, Any]:
        return True, self.priors

    def _make_likelihoods(self) -> list[Likelihood]:
        return [GaussianLikelihood(self.var_smoothing)]

    @property
    def class_prior_(self) -> Array:
        """Prior of the classes."""
        return np.exp(self.class_log_prior_)

    @property
    def theta_(self) -> Array:
        """Means, by class and column."""
        return self._likelihoods[0].theta

    @property
    def var_(self) -> Array:
        """Variances, by class and column."""
        return self._likelihoods[0].var

    @property
    def epsilon_(self) -> float:
        """What was added to the variances."""
        return self._likelihoods[0].epsilon


class BernoulliNB(PosteriorNaiveBayes):
    """Naive Bayes for binary columns.

    P(column is 1 | class) has a Beta prior, whose two pseudo-counts `smoothing` sets. Missing values are skipped.

    Parameters
    ----------
    {alpha}
    binarize : float or None, default=0.0
        Values above it count as 1; None is 0.
    {prior}
    smoothing : "laplace", "m", "kt", "bdeu" or "none", default="laplace"
        Pseudo-count of each value: `alpha`; `m` / 2; 1/2; `ess` / (2 n_classes); 0.
    m : float, default=1.0
        Imagined rows of a class with smoothing="m" (the m-estimate).
    ess : float, default=1.0
        Imagined rows of all classes with smoothing="bdeu", the equivalent sample size.
    {n_jobs}

    Attributes
    ----------
    {classes}
    feature_count_, feature_log_prob_ : arrays of shape (n_classes, n_features)
        Rows with value 1, and the log of their probability.
    log_evidence_ : float
        Log probability of the columns given the classes, the parameters averaged out.
    {raises}

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

    _parameter_rules: ClassVar = {**COMMON_RULES, **SMOOTHING_RULES, "binarize": FINITE | NONE}

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        binarize: float | None = 0.0,
        fit_prior: bool = True,
        class_prior: Any = None,
        smoothing: str = "laplace",
        m: float = 1.0,
        ess: float = 1.0,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _make_likelihoods(self) -> list[Likelihood]:
        return [BernoulliLikelihood(smoothing_of(self), threshold=self.binarize)]

    @property
    def feature_count_(self) -> Array:
        """Rows with value 1, by class and column."""
        return self._likelihoods[0].counts[:, 1::2]

    @property
    def feature_log_prob_(self) -> Array:
        """Log probability of 1, by class and column."""
        return self._likelihoods[0].log_prob[:, 1::2]


class _EventNaiveBayes(BaseNaiveBayes):
    """What the models of event counts share."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        tags.input_tags.positive_only = True
        return tags

    @property
    def feature_count_(self) -> Array:
        """Events, by class and column."""
        return self._likelihoods[0].counts


class MultinomialNB(_EventNaiveBayes, PosteriorNaiveBayes):
    """Naive Bayes for columns that count events, such as words.

    The events of a row are drawn one after another with the probabilities of its class, which have a Dirichlet prior.
    A missing count is no event.

    Parameters
    ----------
    {alpha}
    {prior}
    smoothing : "laplace", "m", "kt", "bdeu" or "none", default="laplace"
        Pseudo-count of each event: `alpha`; `m` / n_features; 1/2; `ess` / (n_features n_classes); 0.
    m : float, default=1.0
        Imagined events of a class with smoothing="m" (the m-estimate).
    ess : float, default=1.0
        Imagined events of all classes with smoothing="bdeu", the equivalent sample size.
    {n_jobs}

    Attributes
    ----------
    {classes}
    feature_count_, feature_log_prob_ : arrays of shape (n_classes, n_features)
        Events, and the log of their probabilities.
    log_evidence_ : float
        Log probability of the events, one after another, given the classes, the parameters averaged out.
    {raises}

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

    _parameter_rules: ClassVar = {**COMMON_RULES, **SMOOTHING_RULES}

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        fit_prior: bool = True,
        class_prior: Any = None,
        smoothing: str = "laplace",
        m: float = 1.0,
        ess: float = 1.0,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def _make_likelihoods(self) -> list[Likelihood]:
        return [MultinomialLikelihood(smoothing_of(self))]

    @property
    def feature_log_prob_(self) -> Array:
        """Log probability of each event, by class."""
        return self._likelihoods[0].log_prob


class ComplementNB(_EventNaiveBayes):
    """Naive Bayes for counts of events that scores each class by the rows of all others.

    It is steadier than MultinomialNB where some classes have few rows. Its scores are no probabilities of rows, and
    the prior of the classes takes no part. A missing count is no event.

    Parameters
    ----------
    alpha : float or array of shape (n_features,), default=1.0
        Pseudo-count of each event.
    fit_prior : bool, default=True
        Whether `class_log_prior_` is the classes' share of the rows; otherwise all are alike.
    class_prior : array of shape (n_classes,), optional
        Kept as `class_log_prior_`; takes no part in the scores.
    norm : bool, default=False
        Whether the weights of each class are divided by their sum.
    {n_jobs}

    Attributes
    ----------
    {classes}
    feature_count_, feature_log_prob_ : arrays of shape (n_classes, n_features)
        Events, and the weights.
    {raises}

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

    _parameter_rules: ClassVar = {**COMMON_RULES, "alpha": SMOOTHING_RULES["alpha"], "norm": FLAG}

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        fit_prior: bool = True,
        class_prior: Any = None,
        norm: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def _make_likelihoods(self) -> list[Likelihood]:
        smoothing = Smoothing("laplace", check_alpha(self.alpha, self.n_features_in_))
        return [ComplementLikelihood(smoothing, norm=self.norm)]

    def _prior_of_scores(self) -> Array:
        return np.zeros(len(self.classes_))

    @property
    def feature_log_prob_(self) -> Array:
        """Weight of each event, by class."""
        return self._likelihoods[0].weights


def check_alpha(alpha: Any, n_features: int) -> Any:
    """The pseudo-count, or an array of one for each column."""
    if np.ndim(alpha) and len(alpha) != n_features:
        raise ValueError(f"alpha must be a number or have one for each of the {n_features} columns; got {len(alpha)}.")
    return alpha


def smoothing_of(model: Any) -> Smoothing:
    """The smoothing that a model's parameters describe."""
    return Smoothing(model.smoothing, check_alpha(model.alpha, model.n_features_in_), model.m, model.ess)
