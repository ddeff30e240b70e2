"""Bayesian learning with a finite set of hypotheses about repeated outcomes, such as bags of candies."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseFastens
from fastens.bayes.posterior import check_prior, draw_index, floats_in, generator
from fastens.engine.elementary import exp, logsumexp, softmax, xlogy
from fastens.inspection.plotting import axes, plain, shortened, whole_ticks
from fastens.modelfile.saving import Saved, SavedParts
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, one_of, parameter, whole
from fastens.params.types import RandomState
from fastens.rollback import keeps_model
from fastens.table.columns.factorize import is_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
MODES = ("bayes", "map", "ml", "gibbs")
# Probabilities with a smaller relative difference are considered equal up to rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Hypothesis:
    """Hypothesis with its index, its name and the probability of each outcome."""

    index: int
    name: str
    probabilities: Array


@with_parameters
class FiniteHypothesisLearner(BaseFastens):
    """Bayesian learner with a finite set of hypotheses about independent, identically distributed outcomes.

    In the textbook example, there are five kinds of candy bags, and candies are drawn from one bag one after another.
    Which kind of bag is it, and what is the next candy? P(h | D) is proportional to P(h) times the product of P(d | h).
    The probability of the next outcome is the posterior-weighted average over all hypotheses.

    Parameters
    ----------
    likelihoods : array-like of shape (n_hypotheses, n_outcomes)
        Probability of each outcome under each hypothesis. Each row must sum to 1.
    prior : array-like of shape (n_hypotheses,) or None, default=None
        Prior probability of each hypothesis, up to a constant factor. If None, the prior is uniform.
    outcomes : sequence or None, default=None
        Labels of the outcomes. If None, they are 0, 1, ...
    hypotheses : sequence of str or None, default=None
        Names of the hypotheses. If None, they are h1, h2, ...
    random_state : int, RandomState or None, default=None
        Seed of mode="gibbs" and `sample_posterior`.

    Attributes
    ----------
    posteriors_ : array of shape (n_observed_ + 1, n_hypotheses)
        Posterior before the first outcome and after each outcome.
    log_likelihoods_ : array of shape (n_observed_ + 1, n_hypotheses)
        Log P(D | h) before the first outcome and after each outcome.
    classes_ : array of shape (n_outcomes,)
        Labels of the outcomes.
    {attributes}

    Raises
    ------
    ValueError
        If the likelihoods are not probabilities, an outcome is unknown, or the outcomes are impossible under all
        hypotheses.

    References
    ----------
    Russell & Norvig, Artificial Intelligence: A Modern Approach, "Statistical learning".

    Examples
    --------
    >>> from fastens import FiniteHypothesisLearner
    >>> lime = [0, 0.25, 0.5, 0.75, 1]
    >>> bags = FiniteHypothesisLearner(
    ...     [[1 - p, p] for p in lime], [0.1, 0.2, 0.4, 0.2, 0.1], outcomes=["cherry", "lime"]
    ... )
    >>> bags.fit(["lime"] * 3).posterior_.round(6)
    array([0.      , 0.013158, 0.210526, 0.355263, 0.421053])
    >>> bags.predict_proba().round(6)  # of the next candy
    array([0.203947, 0.796053])
    >>> bags.predict_proba(mode="map")  # the most probable bag holds nothing but lime
    array([0., 1.])
    """

    likelihoods: ArrayLike = parameter(ANYTHING, kw_only=False)
    prior: ArrayLike | None = parameter(ANYTHING, default=None, kw_only=False)
    outcomes: Sequence[Any] | None = parameter(ANYTHING, default=None)
    hypotheses: Sequence[str] | None = parameter(ANYTHING, default=None)
    random_state: RandomState = None

    classes_: NDArray[Any] = field(init=False)

    # Learning --------------------------------------------------

    @keeps_model
    def fit(self, outcomes: ArrayLike, y: ArrayLike | None = None) -> FiniteHypothesisLearner:
        """Compute the posterior from a sequence of outcomes.

        Parameters
        ----------
        outcomes : array-like of shape (n_observed,)
            Labels of the observed outcomes. If empty, the posterior equals the prior.
        y : None
            Ignored.
        """
        self._reset_to_prior()
        return self._update_posterior(outcomes)

    @keeps_model
    def partial_fit(self, outcomes: ArrayLike, y: ArrayLike | None = None) -> FiniteHypothesisLearner:
        """Update the posterior with more outcomes; the first call may replace `fit`.

        Parameters
        ----------
        outcomes : array-like of shape (n_observed,)
            Labels of the observed outcomes.
        y : None
            Ignored.
        """
        if not hasattr(self, "posteriors_"):
            self._reset_to_prior()
        return self._update_posterior(outcomes)

    def _reset_to_prior(self) -> None:
        """Validate the parameters and set the posterior to the prior, before any outcome."""
        self._check_parameters()
        self._table = _check_likelihoods(self.likelihoods)
        n_hypotheses, n_outcomes = self._table.shape
        prior = check_prior("prior", self.prior, n_hypotheses)
        self.classes_ = _check_labels("outcomes", self.outcomes, list(range(n_outcomes)))
        self._names = _check_labels("hypotheses", self.hypotheses, [f"h{i + 1}" for i in range(n_hypotheses)])
        self._log_prior = xlogy(1, prior)
        self.log_likelihoods_ = np.zeros((1, n_hypotheses))  # one row for the prior and one after each outcome
        self.posteriors_ = prior[None, :]

    def _update_posterior(self, outcomes: ArrayLike) -> FiniteHypothesisLearner:
        """Append the posterior after each outcome and return self; raise ValueError if an outcome is impossible."""
        index = self._encode_outcomes(outcomes)
        # A single running sum over all outcomes is bit-identical for any division into calls.
        steps = np.cumsum([self.log_likelihoods_[-1], *xlogy(1, self._table.T)[index]], axis=0)[1:]
        joint = steps + self._log_prior
        impossible = np.flatnonzero(np.isneginf(joint).all(axis=1))
        if impossible.size:
            first = int(impossible[0])
            raise ValueError(
                "outcomes must be possible under at least one hypothesis; outcome "
                f"{self.n_observed_ + first + 1}, {self.classes_.tolist()[index[first]]!r}, ruled out the last "
                "one."
            )
        self.log_likelihoods_ = np.concatenate([self.log_likelihoods_, steps])
        self.posteriors_ = np.concatenate([self.posteriors_, softmax(joint, axis=1)])
        return self

    def _encode_outcomes(self, outcomes: ArrayLike, name: str = "outcomes") -> NDArray[np.intp]:
        """Return the index of each outcome label, shape (n,); a ValueError for unknown labels names `name`."""
        position = {label: k for k, label in enumerate(self.classes_.tolist())}
        # NumPy would convert a mixed list to a single type, for example 1 to "1".
        labels = _as_object_vector(outcomes) if isinstance(outcomes, list | tuple) else np.ma.asanyarray(outcomes)
        if labels.ndim != 1:
            raise ValueError(f"{name} must be a list of labels; got shape {labels.shape}.")
        index = []
        for label in labels.tolist():  # None for masked values
            if not isinstance(label, Hashable) or label not in position:
                raise ValueError(f"{name} must be among {self.classes_.tolist()}; got {label!r}.")
            index.append(position[label])
        return np.array(index, dtype=np.intp)

    # Predict --------------------------------------------------

    @property
    def n_observed_(self) -> int:
        """Number of outcomes observed so far."""
        self._check_fitted()
        return len(self.posteriors_) - 1

    @property
    def likelihoods_(self) -> Array:
        """P(D | h) of each hypothesis before the first outcome and after each outcome, in one row each."""
        self._check_fitted()
        return exp(self.log_likelihoods_)

    @property
    def likelihood_(self) -> Array:
        """P(D | h) of each hypothesis given all outcomes, shape (n_hypotheses,)."""
        self._check_fitted()
        return exp(self.log_likelihoods_[-1])

    @property
    def log_evidence_(self) -> float:
        """Log P(D), the log probability of the sequence of outcomes."""
        self._check_fitted()
        return float(logsumexp(self.log_likelihoods_[-1] + self._log_prior))

    @property
    def evidence_(self) -> float:
        """P(D), the probability of the sequence of outcomes."""
        return float(exp(self.log_evidence_))

    @property
    def posterior_(self) -> Array:
        """Posterior probability of each hypothesis given all outcomes, shape (n_hypotheses,)."""
        self._check_fitted()
        return self.posteriors_[-1]

    @property
    def map_estimator_(self) -> Hypothesis:
        """Most probable hypothesis; ties go to the first."""
        return self._make_hypothesis(int(_argmax(self.posterior_)))

    @property
    def ml_estimator_(self) -> Hypothesis:
        """Maximum likelihood hypothesis; ties go to the first."""
        self._check_fitted()
        return self._make_hypothesis(int(_argmax_of_logs(self.log_likelihoods_[-1])))

    def sample_posterior(self, n: int = 1, random_state: RandomState = None) -> list[Hypothesis]:
        """Draw `n` hypotheses from the posterior; if `random_state` is None, the estimator's is used."""
        whole(0).check("n", n)
        drawn = draw_index(self.posterior_, n, generator(random_state, self.random_state))
        return [self._make_hypothesis(int(index)) for index in drawn]

    def predict_proba(self, mode: str = "bayes", random_state: RandomState = None) -> Array:
        """Return the probability that each outcome is the next one, shape (n_outcomes,).

        Parameters
        ----------
        mode : {"bayes", "map", "ml", "gibbs"}, default="bayes"
            Hypotheses that predict: "bayes" averages over the posterior, "map" uses the most probable hypothesis, "ml"
            uses the maximum likelihood hypothesis, and "gibbs" draws one from the posterior.
        random_state : int, RandomState, Generator or None, default=None
            Seed for mode="gibbs". If None, the `random_state` of the estimator is used.
        """
        one_of(*MODES).check("mode", mode)
        if mode == "bayes":
            return self.posterior_ @ self._table
        if mode == "gibbs":
            return self.sample_posterior(1, random_state)[0].probabilities
        return (self.map_estimator_ if mode == "map" else self.ml_estimator_).probabilities

    def predict(self, mode: str = "bayes", random_state: RandomState = None) -> Any:
        """Return the label of the most probable next outcome; ties go to the first."""
        index = _argmax(self.predict_proba(mode, random_state))
        return self.classes_[index]

    def predictions(self, mode: str = "bayes") -> Array:
        """Return the probabilities of the next outcome before the first and after each observed outcome.

        Parameters
        ----------
        mode : {"bayes", "map", "ml"}, default="bayes"
            As in `predict_proba`. Before the first outcome, all likelihoods are equal and "ml" uses the first
            hypothesis.

        Returns
        -------
        array of shape (n_observed_ + 1, n_outcomes)
        """
        one_of("bayes", "map", "ml").check("mode", mode)
        self._check_fitted()
        if mode == "bayes":
            return self.posteriors_ @ self._table
        if mode == "map":
            return self._table[_argmax(self.posteriors_)]
        return self._table[_argmax_of_logs(self.log_likelihoods_)]

    def _make_hypothesis(self, index: int) -> Hypothesis:
        """Return the hypothesis at an index with its name and outcome probabilities."""
        return Hypothesis(index, str(self._names[index]), self._table[index])

    # Plots --------------------------------------------------

    def plot_posterior(self, ax: Axes | None = None) -> Axes:
        """Plot the posterior of each hypothesis against the number of outcomes and return the axes."""
        self._check_fitted()
        ax = axes(ax, figsize=(6, 3.5))
        drawn = [ax.plot(path, marker="o", markersize=3)[0] for path in self.posteriors_.T]
        ax.set(xlabel="outcomes observed", ylabel="probability of the hypothesis", ylim=(-0.03, 1.03))
        whole_ticks(ax)
        ax.legend(drawn, [plain(shortened(str(name))) for name in self._names])
        return ax

    def plot_predictions(self, outcome: Hashable | None = None, ax: Axes | None = None) -> Axes:
        """Plot the probability that an outcome is the next one, for three prediction modes, and return the axes.

        Parameters
        ----------
        outcome : label, optional
            Outcome to plot. If None, the last outcome is plotted.
        ax : matplotlib Axes, optional
            Axes to plot on. If None, a new figure is created.
        """
        self._check_fitted()
        index = (
            len(self.classes_) - 1 if outcome is None else int(self._encode_outcomes(np.array([outcome]), "outcome")[0])
        )
        ax = axes(ax, figsize=(6, 3.5))
        for mode, style in (("bayes", "o-"), ("map", "s--"), ("ml", "^:")):
            first = int(mode == "ml")  # all likelihoods are equal before the first outcome
            probabilities = self.predictions(mode)[first:, index]
            ax.plot(np.arange(first, first + len(probabilities)), probabilities, style, markersize=4, label=mode)
        label = plain(f"probability that the next outcome is {shortened(str(self.classes_[index]), 16)}")
        ax.set(xlabel="outcomes observed", ylabel=label, ylim=(-0.03, 1.03))
        whole_ticks(ax)
        ax.legend()
        return ax

    # Saving --------------------------------------------------

    def _encoder_state(self) -> dict[str, Any]:
        """Return an empty state for the model file, because the model has no columns."""
        return {}  # there are no columns; the labels are parameters

    def _restore_encoder(self, state: dict[str, Any]) -> None:
        """Restore tuples in the parameters of a loaded model and reset it to the prior."""
        for name in ("outcomes", "hypotheses"):
            if isinstance(labels := getattr(self, name), list):
                setattr(self, name, list(map(_restore_tuples, labels)))
        self._reset_to_prior()

    def _restore_likelihoods(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the likelihoods and posteriors from a model file; raise ValueError if they are malformed."""
        logs = arrays["log_likelihoods"].astype(np.float64)
        joint = logs + self._log_prior
        if logs.ndim != 2 or logs.shape[1] != len(self._table) or len(logs) == 0 or np.isnan(logs).any():
            raise ValueError("the likelihoods are malformed")
        if np.isneginf(joint).all(axis=1).any() or logs.max() > 0:
            raise ValueError("the likelihoods are malformed")
        self.log_likelihoods_ = logs
        self.posteriors_ = np.concatenate([self.posteriors_, softmax(joint[1:], axis=1)])

    _saved: ClassVar[SavedParts] = (
        Saved(lambda model: {"log_likelihoods": model.log_likelihoods_}, _restore_likelihoods),
    )


def _argmax(probabilities: Array) -> Any:
    """Return the index of the maximum along the last axis; ties up to rounding go to the first."""
    return (probabilities >= probabilities.max(axis=-1, keepdims=True) * (1 - _ROUNDING)).argmax(axis=-1)


def _argmax_of_logs(logs: Array) -> Any:
    """Return the index of the maximum log probability along the last axis; ties up to rounding go to the first."""
    return (logs >= logs.max(axis=-1, keepdims=True) - _ROUNDING).argmax(axis=-1)


def _check_likelihoods(likelihoods: Any) -> Array:
    """Return the table as an array; raise ValueError unless each row holds probabilities that sum to 1."""
    table = floats_in("likelihoods", likelihoods)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"likelihoods must have a row for each hypothesis; got shape {table.shape}.")
    wrong = np.flatnonzero(~((table >= 0).all(axis=1) & (np.abs(table.sum(axis=1) - 1) < 1e-9)))
    if wrong.size:
        raise ValueError(
            f"likelihoods must have rows of probabilities that sum to 1; got {table[wrong[0]].tolist()} in row "
            f"{wrong[0]}."
        )
    return table


def _check_labels(name: str, labels_of_user: Any, default: list[Any]) -> NDArray[Any]:
    """Return the labels that the user passed for the parameter `name` or, if None, `default`, as an array.

    Raises ValueError unless they are distinct and as many as `default`.
    """
    labels = default if labels_of_user is None else _as_list(labels_of_user)
    is_one_each = all(isinstance(label, Hashable) and not is_missing(label) for label in labels)
    if len(labels) != len(default) or not is_one_each or len(set(labels)) != len(labels):
        raise ValueError(f"{name} must be {len(default)} distinct labels; got {labels_of_user!r}.")
    if any(isinstance(label, tuple) for label in labels):  # an array would unpack tuples
        return _as_object_vector(labels)
    array = np.array(labels)
    return array if array.tolist() == labels else _as_object_vector(labels)


def _restore_tuples(label: Any) -> Any:
    """Return a label read from a file, in which tuples have become lists, with tuples again."""
    return tuple(map(_restore_tuples, label)) if isinstance(label, list) else label


def _as_list(labels: Any) -> list[Any]:
    """Return the labels of a list, array or column, or an empty list for anything else."""
    if hasattr(labels, "to_pylist"):  # an Arrow column, whose items are Arrow scalars
        return labels.to_pylist()
    return [] if isinstance(labels, str) or not np.iterable(labels) else list(labels)


def _as_object_vector(values: Sequence[Any]) -> NDArray[np.object_]:
    """Return the values as a one-dimensional object array, without unpacking tuples."""
    return np.fromiter(values, dtype=object, count=len(values))
