"""Bayesian combination of classifiers: hypotheses are weighted by their likelihood on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metadata_routing import MetadataRouter

from fastens.base import BaseClassifier
from fastens.bayes.posterior import PosteriorMixin, check_prior, draw_index, generator, normalised
from fastens.combining.folds import Fold, GivenRows, MemberData, rows_with_responses
from fastens.combining.responses import ensemble_request, joined_labels, labels_of_members
from fastens.combining.voting import BaseWeightedMembers
from fastens.engine.elementary import betaln, exp, log, softmax, xlog1py, xlogy
from fastens.modelfile.saving import Arrays, Saved, SavedParts
from fastens.params.docstrings import Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, FLAG, NONE, Rule, one_of, parameter, real, whole
from fastens.params.types import RandomState

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """Responses of the members, shape (n_members, n_rows, n_classes), with classes and weights of the rows.

    Without noise, responses are probabilities; with noise, they are votes (1 and 0). If the noise is a number, it is
    the probability of a wrong vote, with all wrong classes equally likely. If it is a pair (a, b), this probability has
    a Beta(a, b) prior for each member.
    """

    responses: Array
    y: NDArray[np.intp]
    weight: Array
    noise: float | tuple[float, float] | None

    @property
    def n_wrong_classes(self) -> int:
        """Number of classes that a wrong vote may choose."""
        return max(self.responses.shape[2] - 1, 1)

    def errors(self) -> Array:
        """Return the total weight of the rows that each member misclassifies, shape (n_members,)."""
        return ((1 - self._true_class_probabilities()) * self.weight).sum(axis=1)

    def _true_class_probabilities(self) -> Array:
        """Return the probability that each member gives to the true class of each row, (n_members, n_rows)."""
        return self.responses[:, np.arange(len(self.y)), self.y]

    def member_noise(self) -> Array | None:
        """Return each member's probability of a wrong vote, (n_members,), or None without noise.

        It is `noise` itself, or its posterior mean if `noise` holds the two parameters of a beta prior.
        """
        n_members = len(self.responses)
        if self.noise is None:
            return None
        if isinstance(self.noise, tuple | list):
            a, b = self.noise
            return (a + self.errors()) / (a + b + self.weight.sum())
        return np.full(n_members, float(self.noise))

    def log_likelihoods(self) -> Array:
        """Return the log probability of all labels under each member, shape (n_members,)."""
        if not isinstance(self.noise, tuple | list):
            return _weighted_sums(self.row_log_likelihoods(), self.weight)
        a, b = self.noise
        # Summed separately, because total weight minus errors may be negative due to rounding.
        wrong, right = self.errors(), (self._true_class_probabilities() * self.weight).sum(axis=1)
        return betaln(a + wrong, b + right) - betaln(a, b) - xlogy(wrong, self.n_wrong_classes)

    def row_log_likelihoods(self) -> Array:
        """Return the log probability of each row for each member, shape (n_members, n_rows); -inf if impossible."""
        truth, noise = self._true_class_probabilities(), self.member_noise()
        if noise is None:
            return log(np.clip(truth, 0.0, 1.0))
        wrong = 1 - truth
        return xlogy(wrong, noise[:, None] / self.n_wrong_classes) + xlog1py(truth, -noise[:, None])


def _weighted_sums(row_log_likelihoods: Array, weight: Array) -> Array:
    """Return the sum over rows of weight times log likelihood, (n_members,); rows of weight 0 are ignored."""
    return (row_log_likelihoods[:, weight > 0] * weight[weight > 0]).sum(axis=1)


def posterior(prior: Array, log_likelihoods: Array, temperature: float = 1.0) -> tuple[Array, float]:
    """Return P(h | D) of each hypothesis and log P(D), with the likelihood raised to 1 / temperature.

    A hypothesis under which a row is impossible has posterior probability 0. Raises ValueError if this applies to every
    hypothesis with a positive prior.
    """
    best = log_likelihoods[prior > 0].max()
    if np.isneginf(best):
        raise ValueError(
            "estimators must have a member with a positive prior that gives the class of every row a positive "
            "probability; every member has a row whose class it gives probability 0. Set noise above 0, such "
            "as noise=(1, 1), or use members whose probabilities are never 0."
        )
    # Divide differences, because the log likelihoods themselves would overflow for temperatures near 0.
    with np.errstate(over="ignore"):  # overflow to minus infinity means a weight of 0
        less_than_best = np.minimum(log_likelihoods - best, 0) / temperature
    shares, log_evidence = normalised(xlogy(1, prior) + less_than_best)
    return shares, log_evidence + float(best) / temperature


def fit_mixture_weights(
    log_likelihoods: Array, weight: Array, concentration: float, *, tol: float = 1e-10, max_iter: int = 2000
) -> Array:
    """Return the MAP mixture weights under a Dirichlet(concentration) prior, computed by EM.

    All rows must be possible under some member, which `posterior` checks. Each step multiplies the weight of a member
    by its mean responsibility for the rows, so the likelihood never decreases.
    """
    log_likelihoods, weight = log_likelihoods[:, weight > 0], weight[weight > 0]
    p = exp(log_likelihoods - log_likelihoods.max(axis=0))
    n_members = len(p)
    mixture_weights = np.full(n_members, 1 / n_members)
    for _ in range(max_iter):
        share = mixture_weights[:, None] * p
        mixture = share.sum(axis=0)  # 0 if a small concentration dropped all members that explain a row
        parts = np.divide(share, mixture, out=np.zeros_like(share), where=mixture > 0)
        total = np.maximum((parts * weight).sum(axis=1) + concentration - 1, 0)
        if not total.any():
            # With concentration < 1 and little row weight, the prior dominates and selects a single member.
            return np.eye(n_members)[_weighted_sums(log_likelihoods, weight).argmax()]
        new = total / total.sum()
        if np.abs(new - mixture_weights).max() < tol:
            return new
        mixture_weights = new
    return mixture_weights


def pseudo_bma(
    log_likelihoods: Array, weight: Array, prior: Array, random: np.random.Generator, n_draws: int = 1000
) -> Array:
    """Return pseudo-BMA+ weights, the posterior averaged over a Bayesian bootstrap of the rows (Yao et al. 2018)."""
    shares = random.standard_gamma(weight, size=(n_draws, len(weight)))
    shares[~shares.any(axis=1)] = weight  # draws underflow for tiny weights
    shares *= weight.sum() / shares.sum(axis=1, keepdims=True)
    # A member that contradicts a row has weight 0, even if the bootstrap weight of this row underflows.
    is_possible = ~np.isneginf(log_likelihoods[:, weight > 0]).any(axis=1)
    weights = np.zeros(len(log_likelihoods))
    likely = shares @ np.where(weight > 0, log_likelihoods[is_possible], 0.0).T
    weights[is_possible] = softmax(xlogy(1, prior[is_possible]) + likely, axis=1).mean(axis=0)
    return weights


_BETA = Rule(
    "a pair of numbers greater than 0",
    lambda value: isinstance(value, tuple | list) and len(value) == 2 and all(map(real(0, open_low=True).holds, value)),
)


@with_parameters
class BaseCombination(BaseClassifier, BaseWeightedMembers):
    """Base class of combinations: fits the members and computes their held-out likelihoods and posterior.

    Parameters
    ----------
    cv : int, splitter, list of (train, test), "prefit" or None
        Cross-validation folds for the likelihood. If None, 5 folds are used. If "prefit", the members are already
        fitted and `fit` must be called with held-out rows. If `X_val` is passed to `fit`, the likelihood is computed on
        these rows, and each member is fitted once, on all of `X`.
    refit : bool
        If True, each member is fitted again on all rows after cross-validation; otherwise the models of the folds are
        kept and their predictions are averaged.
    random_state : int, RandomState or None
        Seed of the members whose own `random_state` is None, of mode="gibbs" and of the bootstrap.

    Attributes
    ----------
    posterior_ : array of shape (n_members,)
        Posterior probabilities P(h | D) of the members, for any method.
    log_likelihoods_ : array of shape (n_members,)
        Log likelihoods log P(D | h) of the members.
    log_evidence_ : float
        Log evidence log P(D). It uses the tempered likelihood if the temperature is not 1.
    prior_ : array of shape (n_members,)
        Prior probabilities of the members, which sum to 1.
    noise_ : array of shape (n_members,)
        Probability of a wrong vote of each member: the fixed noise or its posterior mean. Empty if the members return
        probabilities.
    chosen_index_ : int
        Index of the member that predicts.
    """

    _docs: ClassVar[Docs] = BaseWeightedMembers._docs | described(__doc__)
    _prefix: ClassVar[str] = "members."
    _of_members: ClassVar[tuple[str, ...]] = ("prior_", "log_likelihoods_", "posterior_")
    _learned: ClassVar[str] = "posterior_"

    prior: ArrayLike | None = parameter(ANYTHING, default=None)
    noise: float | tuple[float, float] | None = parameter(real(0, 1, open_high=True) | _BETA | NONE, default=None)
    temperature: float = parameter(real(0, open_low=True), default=1.0)
    refit: bool = parameter(FLAG, default=True)

    prior_: Array = field(init=False)
    noise_: Array = field(init=False)
    log_likelihoods_: Array = field(init=False)
    posterior_: Array = field(init=False)
    log_evidence_: float = field(init=False)

    @property
    def _response_method(self) -> str:  # type: ignore[override]
        """The method of the members that produces responses."""
        return "predict_proba" if self.noise is None else "predict"

    _remedy = (
        " With noise, members vote by their predicted labels: noise=0.1 is the probability of a wrong vote, and "
        "noise=(1, 1) learns it for each member."
    )

    @property
    def _known_classes(self) -> Any:
        """The classes of prefit members; the rows passed to `fit` may lack some of them."""
        labels = labels_of_members(self._levels()[0]) if self._is_prefit else []
        return joined_labels(labels) if labels else None

    # Fit --------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing of `fit` to its members; validation rows are not routed."""
        return super().get_metadata_routing().add_self_request(ensemble_request(self, reads_validation_rows=True))

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        """Fit the members and compute their posterior."""
        (specs,) = self._specs()
        prior = check_prior("prior", self.prior, len(specs))
        if self._is_prefit:
            members = self._prefit_members(specs, data)
        else:
            folds = [] if data.validation is not None else self._folds(data, rows)
            members, responses = self._fit_level(specs, data, folds, self.refit)
            data = _ignore_unseen_classes(data, folds)
        if self._is_prefit or data.validation is not None:
            data = self._validation_or_training_rows(data)
            responses = [member.respond(data.X) for member in members]
        self._members = members
        self._set_posterior(_make_evidence(responses, data, self.noise), prior)

    def _validation_or_training_rows(self, data: MemberData) -> MemberData:
        """Return the validation set with encoded targets if there is one, otherwise the training rows."""
        if data.validation is None:
            return data
        X_val, y_val = data.validation
        return MemberData(X_val, self._encode_target(y_val), data.classes, None)

    def _set_posterior(self, evidence: Evidence, prior: Array) -> None:
        """Set the fitted attributes that follow from the evidence: likelihoods, noise, posterior and weights."""
        self.prior_ = prior
        self.log_likelihoods_ = evidence.log_likelihoods()
        noise = evidence.member_noise()
        self.noise_ = np.empty(0) if noise is None else noise
        self.posterior_, self.log_evidence_ = posterior(prior, self.log_likelihoods_, float(self.temperature))
        self._set_weights(evidence, prior)

    def _set_weights(self, evidence: Evidence, prior: Array) -> None:
        """Set the attributes of a subclass that combine the members, such as `weights_`, after the posterior."""
        raise NotImplementedError

    # Members --------------------------------------------------

    @property
    def map_index_(self) -> int:
        """Index of the most probable member; ties go to the first."""
        self._check_fitted()
        return int(self.posterior_.argmax())

    @property
    def ml_index_(self) -> int:
        """Index of the member with the maximum likelihood; ties go to the first."""
        self._check_fitted()
        return int(self.log_likelihoods_.argmax())

    @property
    def map_estimator_(self) -> Any:
        """Fitted member with the highest posterior probability."""
        return self.estimators_[self.map_index_]

    @property
    def ml_estimator_(self) -> Any:
        """Fitted member with the maximum likelihood."""
        return self.estimators_[self.ml_index_]

    def sample_posterior(self, n: int = 1, random_state: RandomState = None) -> list[Any]:
        """Draw `n` fitted members from the posterior."""
        whole(0).check("n", n)
        models = self.estimators_
        random = generator(random_state, self.random_state)
        return [models[index] for index in draw_index(self.posterior_, n, random).tolist()]

    def _member_proba(self, index: int, X: Any) -> Array:
        """Return the class probabilities of member `index` for rows, including its noise if it votes."""
        proba = self._members[index].respond(X)
        if not len(self.noise_):
            return proba
        noise = self.noise_[index]
        # With models of several folds, votes are fractions.
        return proba * (1 - noise) + (1 - proba) * noise / max(proba.shape[1] - 1, 1)

    # Saving --------------------------------------------------

    def _check_noise(self, arrays: Arrays) -> None:
        """Raise ValueError if the noise read from a file does not match the members."""
        if self.noise_.shape != ((0,) if self.noise is None else (len(self._members),)):
            raise ValueError("the noise is malformed")

    _saved: ClassVar[SavedParts] = ("noise_", "log_evidence_", Saved(finish=_check_noise))


def _ignore_unseen_classes(data: MemberData, folds: list[Fold]) -> MemberData:
    """Return the data with weight 0 for test rows of a class that the training rows of their fold lack.

    No member could learn such a class, so the row says nothing about the hypotheses.
    """
    is_known = np.ones(data.n_rows, dtype=bool)
    for train, test in folds:
        is_known[test] = np.isin(data.y[test], data.y[train])
    if is_known.all():
        return data
    weight = np.ones(data.n_rows) if data.sample_weight is None else data.sample_weight
    return replace(data, sample_weight=weight * is_known)


def _make_evidence(responses: list[Array], data: MemberData, noise: Any) -> Evidence:
    """Return the evidence of the rows for which every member has a response.

    `responses` are class probabilities or votes, (n_rows, n_classes) for each member; `noise` is the parameter.
    """
    rows = rows_with_responses(responses)
    return Evidence(np.stack(responses)[:, rows], data.y[rows].astype(np.intp), data.weight[rows], noise)


@with_parameters
class BayesOptimalClassifier(PosteriorMixin, BaseCombination):
    """Bayes-optimal combination of arbitrary classifiers: P(v | D) = sum over h of P(v | h) P(h | D).

    Every member is a hypothesis. Its likelihood is computed on rows that it was not fitted on: out-of-fold predictions
    by default, held-out rows (`X_val` or cv="prefit"), or the test rows of any splitter.

    Parameters
    ----------
    {parameters}
    method : {"bma", "pool", "pseudo-bma+"}, default="bma"
        Weights of the members. "bma" is the posterior; with many rows it concentrates on one member, which is correct
        if one of them is the true model. "pool" is the maximum likelihood mixture, computed by EM, which keeps several
        members if none is the true model. "pseudo-bma+" averages the posterior over bootstrap samples of the rows and
        lies between the two.
    concentration : float, default=1
        Parameter of the Dirichlet prior of the weights for "pool". Values above 1 make the weights more equal.

    Attributes
    ----------
    {attributes}
    weights_ : array of shape (n_members,)
        Weights of the members in `predict_proba`; equal to `posterior_` for "bma".

    Raises
    ------
    ValueError
        If a member does not predict probabilities (set `noise` to use votes), or the data is impossible under all
        members.

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

    _of_members: ClassVar[tuple[str, ...]] = (*BaseCombination._of_members, "weights_")

    method: str = parameter(one_of("bma", "pool", "pseudo-bma+"), default="bma")
    concentration: float = parameter(real(0, open_low=True), default=1.0)

    def _set_weights(self, evidence: Evidence, prior: Array) -> None:
        """Set `weights_` by the method: the posterior, MAP mixture weights or pseudo-BMA+ weights."""
        if self.method == "bma":
            self.weights_ = self.posterior_.copy()
        elif self.method == "pool":
            self.weights_ = fit_mixture_weights(
                evidence.row_log_likelihoods(), evidence.weight, float(self.concentration)
            )
        else:
            random = generator(self.random_state)
            row_log_likelihoods = evidence.row_log_likelihoods() / float(self.temperature)
            self.weights_ = pseudo_bma(row_log_likelihoods, evidence.weight, prior, random)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the average of the members' probabilities weighted by `weights_`, shape (n_samples, n_classes)."""
        rows = self._check_table(X)
        return np.sum([w * self._member_proba(i, rows) for i, w in enumerate(self.weights_.tolist()) if w > 0], axis=0)

    def _map_proba(self, X: ArrayLike) -> Array:
        """Return the class probabilities of the most probable member, shape (n_samples, n_classes)."""
        return self._member_proba(self.map_index_, self._check_table(X))

    def _ml_proba(self, X: ArrayLike) -> Array:
        """Return the class probabilities of the member with the maximum likelihood, shape (n_samples, n_classes)."""
        return self._member_proba(self.ml_index_, self._check_table(X))

    def _gibbs_proba(self, X: ArrayLike, random: np.random.Generator) -> Array:
        """Return the class probabilities of a member drawn for each row, shape (n_samples, n_classes)."""
        rows = self._check_table(X)
        drawn = draw_index(self.posterior_, rows.shape[0], random)
        out = np.empty((rows.shape[0], len(self.classes_)))
        for index in np.unique(drawn).tolist():
            out[drawn == index] = self._member_proba(index, rows)[drawn == index]
        return out

    def _vote_share(self, X: ArrayLike) -> Array:
        """Return the posterior probability of the members that vote for each class, shape (n_samples, n_classes)."""
        rows = self._check_table(X)
        votes = np.zeros((rows.shape[0], len(self.classes_)))
        for index in np.flatnonzero(self.posterior_).tolist():
            votes[np.arange(len(votes)), self._member_proba(index, rows).argmax(axis=1)] += self.posterior_[index]
        return votes


class _OneMemberClassifier(BaseCombination):
    """Base class of combinations that predict with a single member."""

    chosen_index_: int

    def _set_weights(self, evidence: Evidence, prior: Array) -> None:
        """Set `chosen_index_`, the index of the member that predicts."""
        self.chosen_index_ = self._choose_member()

    def _choose_member(self) -> int:
        """Return the index of the member that predicts."""
        raise NotImplementedError

    @property
    def chosen_estimator_(self) -> Any:
        """Fitted member that makes the predictions."""
        return self.estimators_[self.chosen_index_]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probabilities of the chosen member, shape (n_samples, n_classes)."""
        rows = self._check_table(X)
        return self._member_proba(self.chosen_index_, rows)

    def _check_chosen_index(self, arrays: Arrays) -> None:
        """Raise ValueError if the index read from a file does not match the members."""
        if not 0 <= self.chosen_index_ < len(self._members):
            raise ValueError("chosen_index_ is malformed")

    _saved: ClassVar[SavedParts] = ("chosen_index_", Saved(finish=_check_chosen_index))


@with_parameters
class MAPClassifier(_OneMemberClassifier):
    """Selection of the most probable classifier given the data: argmax over h of P(D | h) P(h).

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

    def _choose_member(self) -> int:
        """Return the index of the most probable member."""
        return self.map_index_


@with_parameters
class MaximumLikelihoodClassifier(_OneMemberClassifier):
    """Selection of the maximum likelihood classifier: argmax over h of P(D | h), ignoring the prior.

    {parameters and attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from fastens import MaximumLikelihoodClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> members = [("nb", GaussianNB()), ("stump", DecisionTreeClassifier(max_depth=1))]
    >>> MaximumLikelihoodClassifier(members).fit(X, y).chosen_estimator_
    GaussianNB()
    """

    def _choose_member(self) -> int:
        """Return the index of the member with the maximum likelihood."""
        return self.ml_index_


@with_parameters
class GibbsClassifier(_OneMemberClassifier):
    """Gibbs algorithm: one classifier is drawn from the posterior once, in `fit`.

    If the hypotheses and the prior are correct, its expected error is at most twice the error of the Bayes-optimal
    combination for deterministic hypotheses (Haussler, Kearns & Schapire 1994), and at most three times this error for
    hypotheses that give probabilities. `BayesOptimalClassifier.predict(X, mode="gibbs")` draws a classifier for each
    row instead.

    Parameters
    ----------
    {parameters}
    n_draws : int, default=1
        Number of classifiers drawn from the posterior, with replacement. They vote with equal weights, and
        `predict_proba` returns their mean probabilities. With many draws, the mean approaches
        `BayesOptimalClassifier`.

    Attributes
    ----------
    {attributes}
    drawn_indices_ : array of shape (n_draws,)
        Indices of the members that were drawn; `chosen_index_` is the first of them.

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

    n_draws: int = parameter(whole(1), default=1)

    def _choose_member(self) -> int:
        """Draw members from the posterior, set `drawn_indices_` and return the first index."""
        self.drawn_indices_ = draw_index(self.posterior_, self.n_draws, generator(self.random_state))
        return int(self.drawn_indices_[0])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the mean probabilities of the members that were drawn, shape (n_samples, n_classes)."""
        rows, drawn = self._check_table(X), np.unique(self.drawn_indices_, return_counts=True)
        shares = zip(drawn[0].tolist(), (drawn[1] / len(self.drawn_indices_)).tolist(), strict=True)
        return np.sum([share * self._member_proba(index, rows) for index, share in shares], axis=0)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with the most votes of the members that were drawn; ties go to the first class."""
        rows = self._check_table(X)
        votes = np.zeros((rows.shape[0], len(self.classes_)))
        for index, n in zip(*np.unique(self.drawn_indices_, return_counts=True), strict=True):
            votes[np.arange(len(votes)), self._member_proba(int(index), rows).argmax(axis=1)] += n
        return self.classes_[votes.argmax(axis=1)]

    def _check_drawn(self, arrays: Arrays) -> None:
        """Raise ValueError if the drawn indices read from a file do not match the members."""
        drawn = self.drawn_indices_
        if drawn.shape != (self.n_draws,) or drawn.min() < 0 or drawn.max() >= len(self._members):
            raise ValueError("drawn_indices_ is malformed")

    _saved: ClassVar[SavedParts] = ("drawn_indices_", Saved(finish=_check_drawn))
