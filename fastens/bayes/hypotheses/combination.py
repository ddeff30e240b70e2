"""Bayesian combination of any classifiers: each is a hypothesis, weighted by its likelihood on held-out rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.bayes.hypotheses.base_combination import BaseCombination
from fastens.bayes.hypotheses.mixing import Evidence, pool, pseudo_bma
from fastens.bayes.posterior import PosteriorMixin, draw_index, generator
from fastens.checked_parameters import with_parameters
from fastens.parameters import one_of, real

Array = NDArray[np.float64]


@with_parameters
class BayesOptimalClassifier(PosteriorMixin, BaseCombination):
    """The Bayes-optimal combination of any classifiers: P(v | D) = sum over h of P(v | h) P(h | D).

    Every member is a hypothesis. Its likelihood is computed on rows it was not fitted on: out of fold by default, on
    held-out rows (`X_val`, or cv="prefit"), or on the test rows of any splitter.

    Parameters
    ----------
    {parameters}
    method : {"bma", "pool", "pseudo-bma+"}, default="bma"
        The weights. "bma": the posterior; with many rows it concentrates on one member, as it should if one of them
        is true. "pool": the mixture of the greatest likelihood, found by EM, which keeps several where
        none is true. "pseudo-bma+": the posterior averaged over bootstraps of the rows, in between.
    concentration : float, default=1
        With "pool": of a Dirichlet prior of the weights; above 1 draws them together.

    Attributes
    ----------
    {attributes}
    weights_ : array of shape (n_members,)
        The weights of `predict_proba`: the posterior with "bma".

    Raises
    ------
    ValueError
        If a member has no probabilities (set `noise` for votes), or no member makes the data possible.

    References
    ----------
    Mitchell (1997), Machine Learning, section 6.7; Hoeting et al. (1999), "Bayesian model averaging"; Minka (2002),
    "Bayesian model averaging is not model combination"; Yao et al. (2018), "Using stacking to average Bayesian
    predictive distributions".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from fastens import BayesOptimalClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> members = [("nb", GaussianNB()), ("stump", DecisionTreeClassifier(max_depth=1))]
    >>> model = BayesOptimalClassifier(members, noise=(1, 1)).fit(X[::2], y[::2])
    >>> model.posterior_.round(3)
    array([1., 0.])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_rules: ClassVar = {
        **BaseCombination._parameter_rules,
        "method": one_of("bma", "pool", "pseudo-bma+"),
        "concentration": real(0, open_low=True),
    }
    _of_members: ClassVar[tuple[str, ...]] = (*BaseCombination._of_members, "weights_")

    method: str = "bma"
    concentration: float = 1.0

    def _weigh(self, evidence: Evidence, prior: Array) -> None:
        super()._weigh(evidence, prior)
        if self.method == "bma":
            self.weights_ = self.posterior_.copy()
        elif self.method == "pool":
            self.weights_ = pool(evidence.by_row(), evidence.weight, float(self.concentration))
        else:
            random = generator(self.random_state)
            by_row = evidence.by_row() / float(self.temperature)
            self.weights_ = pseudo_bma(by_row, evidence.weight, prior, random)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the members' probabilities averaged by `weights_`, shape (n_samples, n_classes)."""
        rows = self._check_table(X)
        return np.sum([w * self._proba_of(i, rows) for i, w in enumerate(self.weights_.tolist()) if w > 0], axis=0)

    def _map_proba(self, X: ArrayLike) -> Array:
        return self._proba_of(self.map_index_, self._check_table(X))

    def _ml_proba(self, X: ArrayLike) -> Array:
        return self._proba_of(self.ml_index_, self._check_table(X))

    def _gibbs_proba(self, X: ArrayLike, random: np.random.Generator) -> Array:
        rows = self._check_table(X)
        drawn = draw_index(self.posterior_, rows.shape[0], random)
        out = np.empty((rows.shape[0], len(self.classes_)))
        for place in np.unique(drawn).tolist():
            out[drawn == place] = self._proba_of(place, rows)[drawn == place]
        return out

    def _vote_share(self, X: ArrayLike) -> Array:
        rows = self._check_table(X)
        votes = np.zeros((rows.shape[0], len(self.classes_)))
        for place in np.flatnonzero(self.posterior_).tolist():
            votes[np.arange(len(votes)), self._proba_of(place, rows).argmax(axis=1)] += self.posterior_[place]
        return votes


class _OneMemberClassifier(BaseCombination):
    """A combination that predicts as one of its members does."""

    chosen_index_: int

    def _weigh(self, evidence: Evidence, prior: Array) -> None:
        super()._weigh(evidence, prior)
        self.chosen_index_ = self._choose()

    def _choose(self) -> int:
        raise NotImplementedError

    @property
    def chosen_estimator_(self) -> Any:
        """The member that predicts, fitted."""
        return self.estimators_[self.chosen_index_]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probabilities of the chosen member, shape (n_samples, n_classes)."""
        rows = self._check_table(X)
        return self._proba_of(self.chosen_index_, rows)

    def _fitted_names(self) -> tuple[str, ...]:
        return (*super()._fitted_names(), "chosen_index_")

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        if not 0 <= self.chosen_index_ < len(self._members):
            raise ValueError("chosen_index_ is malformed")


@with_parameters
class MAPClassifier(_OneMemberClassifier):
    """The most probable of some classifiers, given the data: argmax over h of P(D | h) P(h).

    {parameters and attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from fastens import MAPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> members = [("nb", GaussianNB()), ("stump", DecisionTreeClassifier(max_depth=1))]
    >>> MAPClassifier(members, prior=[0.1, 0.9]).fit(X, y).chosen_estimator_
    GaussianNB()
    """

    def _choose(self) -> int:
        return self.map_index_


@with_parameters
class MLClassifier(_OneMemberClassifier):
    """The classifier under which the data are most probable: argmax over h of P(D | h); the prior does not count.

    {parameters and attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from fastens import MLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> members = [("nb", GaussianNB()), ("stump", DecisionTreeClassifier(max_depth=1))]
    >>> MLClassifier(members).fit(X, y).chosen_estimator_
    GaussianNB()
    """

    def _choose(self) -> int:
        return self.ml_index_


@with_parameters
class GibbsClassifier(_OneMemberClassifier):
    """One classifier drawn by its posterior probability, once in `fit`: Gibbs's algorithm.

    Where the hypotheses and the prior are right, its expected error is at most twice that of the Bayes-optimal
    combination if hypotheses are sure of the class (Haussler, Kearns & Schapire 1994), and at most three times if they
    give probabilities. `BayesOptimalClassifier.predict(X, mode="gibbs")` draws anew for each row.

    {parameters and attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from fastens import GibbsClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> members = [("nb", GaussianNB()), ("stump", DecisionTreeClassifier(max_depth=1))]
    >>> GibbsClassifier(members, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def _choose(self) -> int:
        return int(draw_index(self.posterior_, 1, generator(self.random_state))[0])
