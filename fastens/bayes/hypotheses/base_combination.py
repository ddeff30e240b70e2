"""Base of the Bayesian combinations: members as hypotheses, and their posterior from rows they were not fitted on."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metadata_routing import MetadataRouter

from fastens.base import BaseClassifier
from fastens.bayes.hypotheses.mixing import Evidence, posterior
from fastens.bayes.posterior import check_prior, draw_index, generator
from fastens.checked_parameters import with_parameters
from fastens.combining.base_voting import BaseWeightedMembers
from fastens.combining.folds import GivenRows, MemberData, known_rows
from fastens.combining.parameters import DOCS, RULES, own_request
from fastens.combining.responses import joined_labels, labels_of_members
from fastens.docstrings import Docs, entries
from fastens.parameters import ANYTHING, FLAG, NONE, Rule, real, whole

Array = NDArray[np.float64]

_BETA = Rule(
    "a pair of numbers greater than 0",
    lambda value: isinstance(value, tuple | list) and len(value) == 2 and all(map(real(0, open_low=True).holds, value)),
)


COMBINATION_DOCS = entries("""\
cv : int, splitter, list of (train, test), "prefit" or None
    The folds for the likelihood; None is 5. "prefit": the members are fitted, and `fit` gets rows that they were not
    fitted on. With `X_val` the likelihood is that of these rows, and the members are fitted once, on all of `X`.
refit : bool
    Fit each member again on all rows; otherwise the folds' models are kept, and their predictions averaged.
random_state : int, RandomState or None
    Seeds the members whose own random_state is None, the draws of Gibbs and the bootstrap.
posterior_ : array of shape (n_members,)
    P(h | D), whatever the method.
log_likelihoods_ : array of shape (n_members,)
    Log P(D | h).
log_evidence_ : float
    Log P(D); with a temperature other than 1, of the likelihood to that power.
prior_ : array of shape (n_members,)
    The prior, summing to 1.
noise_ : array of shape (n_members,)
    The probability of a wrong vote, given or expected; empty for probabilities.
chosen_index_ : int
    Place of the member that predicts.
""")


@with_parameters
class BaseCombination(BaseClassifier, BaseWeightedMembers):
    """Fits the members, computes their likelihoods on rows they were not fitted on, and the posterior."""

    _parameter_rules: ClassVar = {
        **RULES,
        "prior": ANYTHING,
        "noise": real(0, 1, open_high=True) | _BETA | NONE,
        "temperature": real(0, open_low=True),
        "refit": FLAG,
    }
    _docs: ClassVar[Docs] = {**DOCS, **COMBINATION_DOCS}
    _prefix: ClassVar[str] = "members."
    _of_members: ClassVar[tuple[str, ...]] = ("prior_", "log_likelihoods_", "posterior_")
    _learned: ClassVar[str] = "posterior_"

    prior: ArrayLike | None = None
    noise: float | tuple[float, float] | None = None
    temperature: float = 1.0
    refit: bool = True

    prior_: Array = field(init=False)
    noise_: Array = field(init=False)
    log_likelihoods_: Array = field(init=False)
    posterior_: Array = field(init=False)
    log_evidence_: float = field(init=False)

    def _response_method(self) -> str:
        return "predict_proba" if self.noise is None else "predict"

    def _remedy(self) -> str:
        return (
            " With noise all members vote by their labels: noise=0.1 is the probability of a wrong vote, noise=(1, 1) "
            "learns it for each member."
        )

    def _learn_target(self, y: NDArray[Any]) -> Array:
        known = labels_of_members(self._levels()[0]) if self._is_prefit else []
        if not known:
            return super()._learn_target(y)
        # The fitted members know the classes; the rows given need not have them all.
        self.classes_ = joined_labels(known)
        return self._encode_target(y)

    # Fit --------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which metadata `fit` passes on to which member; it reads validation rows itself."""
        return super().get_metadata_routing().add_self_request(own_request(self, reads_validation_rows=True))

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        """Fit the members and compute their posterior."""
        (specs,) = self._specs()
        prior = check_prior("prior", self.prior, len(specs))
        if self._is_prefit:
            members = self._prefit_members(specs, data)
        else:
            folds = [] if data.validation is not None else self._folds(data, rows)
            members, responses = self._fit_level(specs, data, folds, self.refit)
        if self._is_prefit or data.validation is not None:
            data = self._held_out(data)
            responses = [member.respond(data.X) for member in members]
        self._members = members
        self._weigh(_evidence(responses, data, self.noise), prior)

    def _held_out(self, data: MemberData) -> MemberData:
        """The rows whose likelihood counts: those to validate on, where there are any."""
        if data.validation is None:
            return data
        X_val, y_val = data.validation
        return MemberData(X_val, self._encode_target(y_val), data.classes, None)

    def _weigh(self, evidence: Evidence, prior: Array) -> None:
        self.prior_ = prior
        self.log_likelihoods_ = evidence.log_likelihoods()
        noise = evidence.noise_of_members()
        self.noise_ = np.empty(0) if noise is None else noise
        self.posterior_, self.log_evidence_ = posterior(prior, self.log_likelihoods_, float(self.temperature))

    # Members --------------------------------------------------

    @property
    def map_index_(self) -> int:
        """Place of the most probable member, the first of equals."""
        self._check_fitted()
        return int(self.posterior_.argmax())

    @property
    def ml_index_(self) -> int:
        """Place of the member of the greatest likelihood, the first of equals."""
        self._check_fitted()
        return int(self.log_likelihoods_.argmax())

    @property
    def map_estimator_(self) -> Any:
        """The most probable member, fitted."""
        return self.estimators_[self.map_index_]

    @property
    def ml_estimator_(self) -> Any:
        """The member of the greatest likelihood, fitted."""
        return self.estimators_[self.ml_index_]

    def sample_posterior(self, n: int = 1, random_state: Any = None) -> list[Any]:
        """Draw fitted members, each by its posterior probability."""
        whole(0).check("n", n)
        models = self.estimators_
        random = generator(self.random_state if random_state is None else random_state)
        return [models[place] for place in draw_index(self.posterior_, n, random).tolist()]

    def _proba_of(self, place: int, X: Any) -> Array:
        """P(y | x, h) of one member on checked rows, with its noise where it votes."""
        found = self._members[place].respond(X)
        if not len(self.noise_):
            return found
        noise = self.noise_[place]
        # The models of several folds have shares of the votes.
        return found * (1 - noise) + (1 - found) * noise / max(found.shape[1] - 1, 1)

    # Saving --------------------------------------------------

    def _fitted_names(self) -> tuple[str, ...]:
        return (*super()._fitted_names(), "noise_", "log_evidence_")

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        if self.noise_.shape != ((0,) if self.noise is None else (len(self._members),)):
            raise ValueError("the noise is malformed")


def _evidence(responses: list[Array], data: MemberData, noise: Any) -> Evidence:
    """The rows that every member has a response for, with their labels and weights."""
    rows = known_rows(responses)
    return Evidence(np.stack(responses)[:, rows], data.y[rows].astype(np.intp), data.weight[rows], noise)
