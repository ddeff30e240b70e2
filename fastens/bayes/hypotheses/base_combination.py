"""Base of the Bayesian combinations: members as hypotheses, and their posterior from rows they were not fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseClassifier
from fastens.bayes.hypotheses.mixing import Evidence, posterior
from fastens.bayes.posterior import check_prior, draw_index, generator
from fastens.bayes.rollback import keeps_model
from fastens.combining.defaults import default_classifiers
from fastens.combining.folds import (
    FittedMember,
    LevelPlan,
    MemberData,
    fit_level,
    make_folds,
    members_from_arrays,
    members_to_arrays,
)
from fastens.combining.members import RULES, BaseMembers, NamedMembers, joined_labels, labels_of_members
from fastens.engine.threads import resolve_n_jobs
from fastens.parameters import ANYTHING, FLAG, NONE, Rule, real, whole

Array = NDArray[np.float64]
PREFIT = "prefit"

_BETA = Rule(
    "a pair of numbers greater than 0",
    lambda value: isinstance(value, tuple | list) and len(value) == 2 and all(map(real(0, open_low=True).holds, value)),
)


class BaseCombination(BaseClassifier, BaseMembers):
    """Fits the members, computes their likelihoods on rows they were not fitted on, and the posterior."""

    _parameter_rules: ClassVar = {
        **RULES,
        "prior": ANYTHING,
        "noise": real(0, 1, open_high=True) | _BETA | NONE,
        "temperature": real(0, open_low=True),
        "cv": ANYTHING,
        "refit": FLAG,
        "n_jobs": ANYTHING,
    }
    _members: list[FittedMember]

    def __init__(
        self,
        estimators: NamedMembers | None = None,
        *,
        prior: ArrayLike | None = None,
        noise: float | tuple[float, float] | None = None,
        temperature: float = 1.0,
        cv: Any = None,
        refit: bool = True,
        columns: Mapping[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def _default_members(self) -> NamedMembers:
        return default_classifiers()

    def _response_method(self) -> str:
        return "predict_proba" if self.noise is None else "predict"

    def _remedy(self) -> str:
        return (
            " With noise all members vote by their labels: noise=0.1 is the probability of a wrong vote, noise=(1, 1) "
            "learns it for each member."
        )

    @property
    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == PREFIT

    def _learn_target(self, y: NDArray[Any]) -> Array:
        known = labels_of_members(self._levels()[0]) if self._is_prefit else []
        if not known:
            return super()._learn_target(y)
        # The fitted members know the classes; the rows given need not have them all.
        self.classes_ = joined_labels(known)
        return self._encode_target(y)

    # Fit --------------------------------------------------

    @keeps_model
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        **metadata: Any,
    ) -> Any:
        """Fit the members and compute their posterior.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Any table that all members take; with cv="prefit", rows that they were not fitted on.
        y : array of shape (n_samples,)
            Labels.
        sample_weight : array of shape (n_samples,), optional
            Goes to every member and to the likelihood; rows of weight 0 are as if absent.
        groups : array of shape (n_samples,), optional
            For the splitter, and for members whose `fit` takes groups.
        X_val, y_val : table and array, optional
            Held-out rows: the likelihood is theirs, and the members are fitted once, on all of `X`.
        **metadata
            With scikit-learn's metadata routing on: whatever the members request.

        Returns
        -------
        self

        Raises
        ------
        MemberError
            If a member cannot be fitted; the message names it.
        """
        given = {"sample_weight": sample_weight, "groups": groups, "X_val": X_val, "y_val": y_val, **metadata}
        data, given_rows = self._start_members(X, y, given)
        specs = self._specs()[0]
        prior = check_prior("prior", self.prior, len(specs))
        if self._is_prefit:
            members = [FittedMember(s.name, s.columns, s.method, [s.estimator], data.classes, True) for s in specs]
        else:
            held_out = data.validation is not None
            folds = [] if held_out else make_folds(5 if self.cv is None else self.cv, data, given_rows)
            plan = LevelPlan(bool(self.refit), resolve_n_jobs(self.n_jobs))
            members, responses = fit_level(specs, data, folds, plan)
        if self._is_prefit or data.validation is not None:
            data = self._held_out(data)
            responses = [member.respond(data.X) for member in members]
        self._members = members
        self._weigh(_evidence(responses, data, self.noise), prior)
        return self

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
    def estimators_(self) -> list[Any]:
        """The fitted members; with `refit=False` and several folds, the list of the folds' models of each."""
        self._check_fitted()
        return [member.models if len(member.models) > 1 else member.models[0] for member in self._members]

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
        if self.noise is None:
            return found
        noise = self.noise_[place]
        # The models of several folds have shares of the votes.
        return found * (1 - noise) + (1 - found) * noise / max(found.shape[1] - 1, 1)

    # Saving --------------------------------------------------

    def _fitted_names(self) -> tuple[str, ...]:
        return ("prior_", "log_likelihoods_", "noise_", "posterior_", "log_evidence_")

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return members_to_arrays("members.", self._members)

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        self._members = members_from_arrays("members.", arrays, self.classes_)
        for name in ("prior_", "log_likelihoods_", "posterior_"):
            found = getattr(self, name)
            if np.shape(found) != (len(self._members),) or np.isnan(found).any():
                raise ValueError(f"{name} is malformed")
        if self.noise_.shape != ((0,) if self.noise is None else (len(self._members),)):
            raise ValueError("the noise is malformed")


def _evidence(responses: list[Array], data: MemberData, noise: Any) -> Evidence:
    """The rows that every member has a response for, with their labels and weights."""
    stacked = np.stack(responses)
    rows = ~np.isnan(stacked).any(axis=(0, 2))
    weight = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
    return Evidence(stacked[:, rows], data.y[rows].astype(np.intp), weight[rows], noise)
