"""The posterior, and the modes of prediction that all Bayesian models share.

``bayes``
    Bayes-optimal: every hypothesis votes with its posterior probability.
``map``
    The prediction of the most probable hypothesis.
``ml``
    The prediction of the hypothesis that makes the data most probable; the prior does not count.
``gibbs``
    The prediction of a hypothesis drawn from the posterior, anew for each row. Its expected error is at most twice that
    of the Bayes-optimal one where hypotheses are functions, sure of the class (Haussler, Kearns & Schapire 1994).
    Where they give probabilities, and predict their most probable class, it is at most three times that.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from fastens.engine.elementary import exp, log, logsumexp
from fastens.params.rules import one_of, whole
from fastens.table.columns.numbers import unmasked
from fastens.table.labels import index_of_labels
from fastens.table.opening import opening_tables, split_columns
from fastens.table.parts import present_rows
from fastens.table.spread import in_memory_only
from fastens.table.training_data import check_weights

Array = NDArray[np.float64]
VOTES = 100  # draws that stand for the posterior where votes are counted


class PosteriorMixin:
    """A classifier with a posterior over hypotheses; comes before the classifier among the bases.

    A subclass gives `predict_proba` and, for each further mode it lists in `_modes`, the method ``_<mode>_proba(X,
    random_state)``. Where they make sense it has

    - ``posterior_``: the probability of each hypothesis (finite sets);
    - ``log_evidence_``: log P(D), the data's probability under the prior;
    - ``map_estimator_``, ``ml_estimator_``: the most probable hypothesis, and that of the greatest likelihood;
    - ``sample_posterior(n, random_state)``: hypotheses drawn from the posterior.
    """

    _modes: ClassVar[tuple[str, ...]] = ("bayes", "map", "ml", "gibbs")
    classes_: Any

    def predict(self, X: ArrayLike, mode: str = "bayes", random_state: Any = None) -> NDArray[Any]:
        """Return the most probable class of each row, the first of equals.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The rows.
        mode : {"bayes", "map", "ml", "gibbs"}, default="bayes"
            Which hypotheses predict: all hypotheses by their posterior, the most probable one, the one of the greatest
            likelihood, or for each row one drawn from the posterior.
        random_state : int, RandomState, Generator or None, default=None
            For mode="gibbs"; None takes the estimator's.

        Returns
        -------
        array of shape (n_samples,)

        Raises
        ------
        ValueError
            If the model has no such mode.
        """
        best = self._proba_in(X, mode, random_state).argmax(axis=1)
        return self.classes_[best]

    def _proba_in(self, X: ArrayLike, mode: str, random_state: Any = None) -> Array:
        """The probabilities of one mode."""
        if not isinstance(mode, str) or mode not in self._modes:  # to make the rule would take a tenth of a row's time
            one_of(*self._modes).check("mode", mode)
        if mode == "bayes":
            return self.predict_proba(X)  # type: ignore[attr-defined]
        if mode != "gibbs":
            return getattr(self, f"_{mode}_proba")(X)
        chosen = getattr(self, "random_state", None) if random_state is None else random_state
        return self._gibbs_proba(X, generator(chosen))  # type: ignore[attr-defined]

    def _vote_share(self, X: ArrayLike) -> Array:
        """For each class the posterior probability of the hypotheses that predict it: that of Gibbs predicting it.

        By default hypotheses predict with certainty, and these are the probabilities; other subclasses override this.
        """
        return self.predict_proba(X)  # type: ignore[attr-defined]


class ParameterPosteriorMixin(PosteriorMixin):
    """A classifier whose hypotheses are its parameters.

    A subclass gives ``_with_estimate(mode, rng)``: itself with the parameters of a mode, or with those `rng` draws;
    ``score_samples(X, y)``, the log probability of each row, and ``n_parameters_``.
    """

    @opening_tables
    def log_likelihood(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the weighted sum of `score_samples`, the log probabilities of the rows."""
        X, y, sample_weight = present_rows(X, y, sample_weight)
        found = self.score_samples(X, y)  # type: ignore[attr-defined]
        weight = check_weights(sample_weight, len(found))
        return float(found.sum() if weight is None else (found[weight > 0] * weight[weight > 0]).sum())

    @opening_tables
    def aic(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return Akaike's criterion, -2 log likelihood + 2 parameters; smaller is better."""
        return -2 * self.log_likelihood(X, y) + 2 * self.n_parameters_  # type: ignore[attr-defined]

    @opening_tables
    def bic(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return Schwarz's criterion, -2 log likelihood + parameters log(rows); smaller is better."""
        found = self.score_samples(X, y)  # type: ignore[attr-defined]
        return float(-2 * found.sum() + self.n_parameters_ * log(len(found)))  # type: ignore[attr-defined]

    def _with_estimate(self, mode: str, rng: np.random.Generator | None = None) -> Any:
        raise NotImplementedError

    def _map_proba(self, X: ArrayLike) -> Array:
        return self.map_estimator_.predict_proba(X)

    def _ml_proba(self, X: ArrayLike) -> Array:
        return self.ml_estimator_.predict_proba(X)

    def _gibbs_proba(self, X: ArrayLike, rng: np.random.Generator) -> Array:
        # One draw of all parameters for all rows: each row alone is predicted as if by a draw of its own.
        return self.sample_posterior(1, rng)[0].predict_proba(X)

    def _vote_share(self, X: ArrayLike) -> Array:
        # Parameters give probabilities of classes: the share of draws whose most probable class it is.
        votes = [draw.predict_proba(X).argmax(axis=1) for draw in self.sample_posterior(VOTES, 0)]
        return (np.array(votes)[:, :, None] == np.arange(len(self.classes_))).mean(axis=0)

    @property
    def map_estimator_(self) -> Any:
        """The same model with the most probable parameters."""
        return self._with_estimate("map")

    @property
    def ml_estimator_(self) -> Any:
        """The same model with the parameters of the greatest likelihood."""
        return self._with_estimate("ml")

    def sample_posterior(self, n: int = 1, random_state: Any = None) -> list[Any]:
        """Draw models from the posterior of the parameters; what else the model has stays.

        Parameters
        ----------
        n : int, default=1
            Number of models.
        random_state : int, RandomState, Generator or None, default=None
            Fixes the draws.

        Returns
        -------
        list of fitted models
        """
        whole(0).check("n", n)
        rng = generator(random_state)
        return [self._with_estimate("bayes", rng) for _ in range(n)]


def generator(random_state: Any) -> np.random.Generator:
    """A random generator from whatever `random_state` may be: None, a seed, a RandomState or a Generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, a whole number of at least 0, a RandomState or a Generator; "
            f"got {random_state!r}."
        ) from error


def normalised(log_weights: Array) -> tuple[Array, float]:
    """The posterior from logs of prior times likelihood along the last axis, and the log evidence, their sum."""
    log_evidence = float(logsumexp(log_weights))
    return exp(log_weights - log_evidence), log_evidence


def draw_index(probabilities: Array, n: int, random: np.random.Generator) -> NDArray[np.intp]:
    """Draw `n` positions, each with its probability."""
    cumulative = np.cumsum(probabilities)
    last = np.flatnonzero(probabilities)[-1]  # rounding may leave the last sum a little below 1
    return np.minimum(np.searchsorted(cumulative, random.random(n) * cumulative[-1], side="right"), last)


def check_prior(name: str, prior: Any, n: int) -> Array:
    """A prior over `n` hypotheses that sums to 1; None is uniform.

    ValueError if there is not one finite number for each, not negative, or all of them are zero.
    """
    if prior is None:
        return np.full(n, 1 / n)
    try:
        found = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from error
    if found.shape != (n,):
        raise ValueError(f"{name} must have one probability for each of the {n} hypotheses; got shape {found.shape}.")
    if not (np.isfinite(found) & (found >= 0)).all() or not found.any():
        raise ValueError(f"{name} must hold finite numbers, not negative and not all zero; got {found.tolist()}.")
    return found / found.sum()


class ErrorEstimate(NamedTuple):
    """Expected errors; where the data come from the prior `ratio` is at most 2, of hypotheses with probabilities 3."""

    bayes: float
    gibbs: float

    @property
    def ratio(self) -> float:
        """Gibbs's error over the Bayes-optimal one; NaN where neither errs."""
        return self.gibbs / self.bayes if self.bayes > 0 else (np.inf if self.gibbs > 0 else np.nan)


@in_memory_only
def estimate_errors(model: Any, X: ArrayLike, y: ArrayLike | None = None, sample_weight: Any = None) -> ErrorEstimate:
    """Estimate the errors of the Bayes-optimal prediction and of Gibbs, in expectation over its draws.

    The expectation is exact but of models whose hypotheses are parameters, naive Bayes and networks: there it is the
    mean over 100 draws.

    Parameters
    ----------
    model : fitted Bayesian classifier
        Anything with the modes of `PosteriorMixin`.
    X : array-like or data frame
        Rows that the model was not fitted on.
    y : array-like, or the name of a column, optional
        Their labels: the errors on them. None: the errors that the model itself expects, if its posterior is right.
        Then the ratio is at most 2 for each row where hypotheses are sure of the class, since 1 - sum p^2 <= 2 (1 - max
        p) for votes p. Where they give probabilities it is at most 1 + 2 max p: one that predicts another class than
        the most probable one gives that at most 1/2, so the share of such is at most 2 (1 - max p).
    sample_weight : array-like, or the name of a column, optional
        Weights of the rows.

    Returns
    -------
    ErrorEstimate
        With `bayes`, `gibbs` and `ratio`.

    Raises
    ------
    ValueError
        If the model has no posterior over hypotheses that predict rows, `y` holds labels that are not the model's or
        has another length, or the weights are no weights.

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
            "model must be a fitted Bayesian classifier that has predict(X, mode='gibbs'), as BayesOptimalClassifier "
            f"or VersionSpaceClassifier has; got {model!r}."
        )
    if isinstance(y, str) or isinstance(sample_weight, str):
        X, y, sample_weight = split_columns(X, y=y, sample_weight=sample_weight)
    X, y, sample_weight = present_rows(X, y, sample_weight)
    proba = model.predict_proba(X)
    weights = check_weights(sample_weight, len(proba))
    truth = proba if y is None else _share_of_labels(y, proba.shape, model.classes_)
    chosen = truth[np.arange(len(proba)), proba.argmax(axis=1)]
    gibbs = (model._vote_share(X) * truth).sum(axis=1)
    return ErrorEstimate(*(float(np.average(1 - share, weights=weights)) for share in (chosen, gibbs)))


def _share_of_labels(y: Any, shape: tuple[int, int], classes: NDArray[Any]) -> Array:
    """1 for each row's own class, 0 for the others."""
    labels = column_or_1d(unmasked(y, "y"))
    if len(labels) != shape[0]:
        raise ValueError(f"X and y must have the same number of rows; got {shape[0]} and {len(labels)}.")
    found = np.zeros(shape)
    found[np.arange(len(labels)), index_of_labels(labels, classes).astype(np.intp)] = 1
    return found
