"""Posterior and prediction modes, which all Bayesian models share.

``bayes``
    Bayes-optimal prediction: every hypothesis votes with its posterior probability.
``map``
    Prediction of the most probable hypothesis.
``ml``
    Prediction of the hypothesis with the maximum likelihood, which ignores the prior.
``gibbs``
    Prediction of a hypothesis drawn from the posterior, independently for each row. Its expected error is at most twice
    the Bayes-optimal error if hypotheses are deterministic functions (Haussler, Kearns & Schapire 1994). If hypotheses
    give probabilities and predict their most probable class, it is at most three times the Bayes-optimal error.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import column_or_1d

from fastens.engine.elementary import exp, log, logsumexp
from fastens.params.rules import one_of, whole
from fastens.params.types import RandomState
from fastens.table.columns.numbers import unmasked
from fastens.table.opening import opening_tables, split_columns
from fastens.table.parts import drop_zero_weight_rows
from fastens.table.sources import in_memory_only
from fastens.table.training_data import check_weights, index_of_labels

Array = NDArray[np.float64]
VOTES = 100  # number of posterior draws whose votes are counted


class PosteriorMixin:
    """Mixin for classifiers with a posterior over hypotheses; list it before the classifier among the bases.

    Subclasses implement `predict_proba` and, for each additional mode in `_modes`, the method ``_<mode>_proba(X,
    random_state)``. Where applicable, they also provide

    - ``posterior_``: probability of each hypothesis (finite sets);
    - ``log_evidence_``: log P(D), the log probability of the data under the prior;
    - ``map_estimator_``, ``ml_estimator_``: the most probable and the maximum likelihood hypothesis;
    - ``sample_posterior(n, random_state)``: hypotheses drawn from the posterior.
    """

    _modes: ClassVar[tuple[str, ...]] = ("bayes", "map", "ml", "gibbs")
    classes_: Any

    def predict(self, X: ArrayLike, mode: str = "bayes", random_state: RandomState = None) -> NDArray[Any]:
        """Predict the most probable class of each row; ties go to the first class.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Rows to predict.
        mode : {"bayes", "map", "ml", "gibbs"}, default="bayes"
            Hypotheses that predict: "bayes" averages over the posterior, "map" uses the most probable hypothesis, "ml"
            uses the maximum likelihood hypothesis, and "gibbs" draws one from the posterior for each row.
        random_state : int, RandomState, Generator or None, default=None
            Seed for mode="gibbs". If None, the `random_state` of the estimator is used.

        Returns
        -------
        array of shape (n_samples,)

        Raises
        ------
        ValueError
            If the model does not support `mode`.
        """
        best = self._proba_in(X, mode, random_state).argmax(axis=1)
        return self.classes_[best]

    def _proba_in(self, X: ArrayLike, mode: str, random_state: Any = None) -> Array:
        """Return the class probabilities of a prediction mode, such as "bayes", "map" or "gibbs".

        `random_state` is used in the mode "gibbs"; if None, the estimator's is used. Raises ValueError for a mode that
        the model does not support.
        """
        if not isinstance(mode, str) or mode not in self._modes:  # creating the rule each time costs 10 % for one row
            one_of(*self._modes).check("mode", mode)
        if mode == "bayes":
            return self.predict_proba(X)  # type: ignore[attr-defined]
        if mode != "gibbs":
            return getattr(self, f"_{mode}_proba")(X)
        random = generator(random_state, getattr(self, "random_state", None))
        return self._gibbs_proba(X, random)  # type: ignore[attr-defined]

    def _vote_share(self, X: ArrayLike) -> Array:
        """Return, for each row and class, the posterior probability of the hypotheses that predict the class.

        This is the probability that ``mode="gibbs"`` predicts the class.
        """
        raise NotImplementedError


class ParameterPosteriorMixin(PosteriorMixin):
    """Mixin for classifiers whose hypotheses are parameter values.

    Subclasses implement ``_with_estimate(mode, rng)``, which returns a copy with the parameters of a mode or with
    parameters drawn by `rng`; ``score_samples(X, y)``, the log probability of each row; and ``n_parameters_``.
    """

    @opening_tables
    def log_likelihood(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the weighted sum of `score_samples`, the log probabilities of the rows."""
        X, y, sample_weight = drop_zero_weight_rows(X, y, sample_weight)
        scores = self.score_samples(X, y)  # type: ignore[attr-defined]
        weight = check_weights(sample_weight, len(scores))
        return float(scores.sum() if weight is None else (scores[weight > 0] * weight[weight > 0]).sum())

    @opening_tables
    def aic(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return the Akaike information criterion, -2 log likelihood + 2 n_parameters; smaller is better."""
        return -2 * self.log_likelihood(X, y) + 2 * self.n_parameters_  # type: ignore[attr-defined]

    @opening_tables
    def bic(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return the Bayesian information criterion, -2 log likelihood + n_parameters log(n); smaller is better."""
        scores = self.score_samples(X, y)  # type: ignore[attr-defined]
        return float(-2 * scores.sum() + self.n_parameters_ * log(len(scores)))  # type: ignore[attr-defined]

    def _with_estimate(self, mode: str, rng: np.random.Generator | None = None) -> Any:
        """Return a copy with the parameters estimated by `mode`, or drawn from their posterior if `rng` is passed."""
        raise NotImplementedError

    def _map_proba(self, X: ArrayLike) -> Array:
        """Return the class probabilities under the MAP parameters, shape (n_samples, n_classes)."""
        return self.map_estimator_.predict_proba(X)

    def _ml_proba(self, X: ArrayLike) -> Array:
        """Return the class probabilities under the maximum likelihood parameters, (n_samples, n_classes)."""
        return self.ml_estimator_.predict_proba(X)

    def _gibbs_proba(self, X: ArrayLike, rng: np.random.Generator) -> Array:
        """Return the class probabilities under parameters drawn once for all rows, (n_samples, n_classes)."""
        # One draw serves all rows: marginally, each row has the distribution of an independent draw.
        return self.sample_posterior(1, rng)[0].predict_proba(X)

    def _vote_share(self, X: ArrayLike) -> Array:
        """Return, for each row and class, the share of parameter draws under which it is the most probable class."""
        # Hypotheses give probabilities, so count the draws in which each class is the most probable one.
        votes = [draw.predict_proba(X).argmax(axis=1) for draw in self.sample_posterior(VOTES, 0)]
        return (np.array(votes)[:, :, None] == np.arange(len(self.classes_))).mean(axis=0)

    @property
    def map_estimator_(self) -> Any:
        """Copy of the model with the most probable (MAP) parameters."""
        return self._with_estimate("map")

    @property
    def ml_estimator_(self) -> Any:
        """Copy of the model with the maximum likelihood parameters."""
        return self._with_estimate("ml")

    def sample_posterior(self, n: int = 1, random_state: RandomState = None) -> list[Any]:
        """Draw models from the posterior of the parameters; they are otherwise identical to this model.

        Parameters
        ----------
        n : int, default=1
            Number of models.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws.

        Returns
        -------
        list of fitted models
        """
        whole(0).check("n", n)
        rng = generator(random_state)
        return [self._with_estimate("bayes", rng) for _ in range(n)]


def generator(random_state: Any, otherwise: Any = None) -> np.random.Generator:
    """Return a random generator for `random_state` or, if it is None, for `otherwise`.

    If both are None, NumPy's global random state seeds it. Raises ValueError for an invalid random state.
    """
    random_state = otherwise if random_state is None else random_state
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(check_random_state(random_state).randint(0, 2**31, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, a non-negative integer, a RandomState or a Generator; got {random_state!r}."
        ) from error


def normalised(log_weights: Array) -> tuple[Array, float]:
    """Return the posterior and the log evidence, given log(prior * likelihood) of each hypothesis."""
    log_evidence = float(logsumexp(log_weights))
    return exp(log_weights - log_evidence), log_evidence


def draw_index(probabilities: Array, n: int, random: np.random.Generator) -> NDArray[np.intp]:
    """Draw `n` indices independently, each index with its probability."""
    cumulative = np.cumsum(probabilities)
    last = np.flatnonzero(probabilities)[-1]  # the cumulative sum may end below 1 due to rounding
    return np.minimum(np.searchsorted(cumulative, random.random(n) * cumulative[-1], side="right"), last)


def floats_in(name: str, values: Any) -> Array:
    """Convert numbers to a float64 array; a ValueError for other values names the user's argument `name`."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from error


def check_prior(name: str, prior: Any, n: int) -> Array:
    """Return a prior over `n` hypotheses, normalised to sum to 1; None is uniform.

    Raises ValueError unless `prior` holds `n` finite, non-negative numbers that are not all zero.
    """
    if prior is None:
        return np.full(n, 1 / n)
    probabilities = floats_in(name, prior)
    if probabilities.shape != (n,):
        raise ValueError(
            f"{name} must have one probability for each of the {n} hypotheses; got shape {probabilities.shape}."
        )
    if not (np.isfinite(probabilities) & (probabilities >= 0)).all() or not probabilities.any():
        raise ValueError(
            f"{name} must hold finite, non-negative numbers that are not all zero; got {probabilities.tolist()}."
        )
    return probabilities / probabilities.sum()


class ErrorEstimate(NamedTuple):
    """Expected errors; under a correct prior, `ratio` is at most 2, or 3 if hypotheses give probabilities."""

    bayes: float
    gibbs: float

    @property
    def ratio(self) -> float:
        """Ratio of the Gibbs error to the Bayes-optimal error; NaN if both are 0."""
        return self.gibbs / self.bayes if self.bayes > 0 else (np.inf if self.gibbs > 0 else np.nan)


@in_memory_only
def estimate_errors(
    model: BaseEstimator, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> ErrorEstimate:
    """Estimate the error of Bayes-optimal prediction and the expected error of Gibbs prediction.

    The expectation over Gibbs draws is exact, except for models whose hypotheses are parameter values (naive Bayes and
    networks), where it is a mean over 100 draws.

    Parameters
    ----------
    model : fitted Bayesian classifier
        Classifier with a posterior over hypotheses.
    X : array-like or data frame
        Test set, which the model was not fitted on.
    y : array-like, or the name of a column, optional
        Labels of the test set. If None, the errors that the model expects are returned, which are correct if its
        posterior is correct. In this case, the ratio is at most 2 for each row if hypotheses are deterministic, because
        1 - sum p^2 <= 2 (1 - max p) for votes p. If hypotheses give probabilities, the ratio is at most 1 + 2 max p:
        hypotheses that predict another class give the most probable class a probability of at most 1/2, so their
        posterior probability is at most 2 (1 - max p).
    sample_weight : array-like, or the name of a column, optional
        Weights of the rows.

    Returns
    -------
    ErrorEstimate
        Named tuple with the errors `bayes` and `gibbs`, and the property `ratio`.

    Raises
    ------
    ValueError
        If the model has no posterior over hypotheses that predict rows, `y` has unknown labels or the wrong length, or
        the weights are invalid.

    References
    ----------
    Haussler, Kearns & Schapire (1994), "Bounds on the sample complexity of Bayesian learning", Machine Learning 14.

    Examples
    --------
    >>> from fastens import VersionSpaceClassifier, estimate_errors
    >>> X, y = [["sun", "warm"], ["sun", "cold"], ["rain", "cold"]], [1, 1, 0]
    >>> model = VersionSpaceClassifier().fit(X, y)
    >>> estimate_errors(model, [["sun", "cold"], ["rain", "warm"]])
    ErrorEstimate(bayes=0.0, gibbs=0.0)
    """
    if isinstance(model, type) or not hasattr(model, "_vote_share"):
        raise ValueError(
            "model must be a fitted Bayesian classifier with predict(X, mode='gibbs'), such as "
            f"BayesOptimalClassifier or VersionSpaceClassifier; got {model!r}."
        )
    if isinstance(y, str) or isinstance(sample_weight, str):
        X, y, sample_weight = split_columns(X, y=y, sample_weight=sample_weight)
    X, y, sample_weight = drop_zero_weight_rows(X, y, sample_weight)
    proba = model.predict_proba(X)
    weights = check_weights(sample_weight, len(proba))
    truth = proba if y is None else _share_of_labels(y, proba.shape, model.classes_)
    chosen = truth[np.arange(len(proba)), proba.argmax(axis=1)]
    gibbs = (model._vote_share(X) * truth).sum(axis=1)
    return ErrorEstimate(*(float(np.average(1 - share, weights=weights)) for share in (chosen, gibbs)))


def _share_of_labels(y: Any, shape: tuple[int, int], classes: NDArray[Any]) -> Array:
    """Return the labels one-hot encoded as an array of `shape`, (n_rows, n_classes).

    Raises ValueError for a wrong number of labels or a label that is not in `classes`.
    """
    labels = column_or_1d(unmasked(y, "y"))
    if len(labels) != shape[0]:
        raise ValueError(f"X and y must have the same number of rows; got {shape[0]} and {len(labels)}.")
    shares = np.zeros(shape)
    shares[np.arange(len(labels)), index_of_labels(labels, classes).astype(np.intp)] = 1
    return shares
