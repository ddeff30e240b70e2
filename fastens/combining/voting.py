"""Voting: weighted votes or averages of fitted members, and weights learned from out-of-fold predictions."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, clone, is_classifier
from sklearn.utils import Bunch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in

from fastens.base import BaseClassifier, BaseRegressor
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.combining.folds import (
    CONTENT,
    N_FOLDS,
    ExplainedRows,
    FittedMember,
    Fold,
    GivenRows,
    MemberData,
    MemberSpec,
    Part,
    make_folds,
    members_from_arrays,
    members_to_arrays,
    rows_with_responses,
    split_targets,
)
from fastens.combining.member_weights import GUARDED, LEARNERS, SELECTION, OutOfFold, learn_weights, mean_loss
from fastens.combining.members import BaseMembers, forests, with_requests
from fastens.combining.responses import COLUMNS, CV, MEMBERS, VERBOSE, NamedMembers, added, joint_classes, with_ties
from fastens.modelfile.saving import Arrays, Saved, SavedParts, attributes
from fastens.monitoring.callbacks import Deadline
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, FLAG, NONE, RANDOM_STATE, Rule, one_of, parameter, real
from fastens.params.types import Folds, RandomState
from fastens.table.answers import transforms_streams
from fastens.table.arrays import free_names
from fastens.table.training_data import WEIGHT_TYPE, labels_of

Array = NDArray[np.float64]

# Maximum expected cost of a member's first fit, relative to the slowest fit of the earlier members.
MAX_COST = 3.0


def _with_deadline(spec: MemberSpec, deadline: float) -> MemberSpec:
    """Return a boosted member that stops at `deadline`, a monotonic time; others, or with callbacks, are unchanged."""
    if not isinstance(spec.estimator, BoostedTrees) or spec.estimator.callbacks is not None:
        return spec
    return replace(spec, estimator=clone(spec.estimator).set_params(callbacks=[Deadline(deadline)]))


def _without_deadline(model: Any) -> Any:
    """Remove the deadline callback from a boosting model, and return the model."""
    has_deadline = isinstance(model, BoostedTrees) and [type(each) for each in model.callbacks or ()] == [Deadline]
    return model.set_params(callbacks=None) if has_deadline else model


# Sums of weights that differ by less are treated as equal.
_ROUNDING = 1e-12


@with_parameters
class BaseWeightedMembers(BaseMembers):
    """Base class of ensembles with one weight for each member."""

    estimators: NamedMembers | None = parameter(MEMBERS | NONE, default=None, kw_only=False)
    cv: Folds = parameter(ANYTHING, default=None)
    columns: Mapping[str, Any] | None = parameter(COLUMNS, default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: RandomState = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _members: list[FittedMember] = field(init=False)
    weights_: Array = field(init=False)
    # In model files: the prefix of the members' names, and the attributes with one value for each member.
    _prefix: ClassVar[str] = "member."
    _of_members: ClassVar[tuple[str, ...]] = ("weights_",)

    def _responses(self, X: Any) -> Array:
        """Return each member's response, (n_members, n_samples, n_outputs)."""
        self._check_fitted()
        X = self._check_table(X)
        return np.stack([member.respond(X) for member in self._members])

    @property
    def estimators_(self) -> list[Any]:
        """The fitted members; a list of models for each member whose fold models are kept."""
        self._check_fitted()
        return [member.kept for member in self._members]

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted members by name; "drop" for dropped members."""
        self._check_fitted()
        return self._fitted_by_name(self._members)

    def _restore_members(self, arrays: Arrays) -> None:
        """Set the fitted members from saved arrays."""
        self._members = members_from_arrays(self._prefix, arrays, getattr(self, "classes_", None), self._n_targets)

    def _member_arrays(self) -> Arrays:
        """Return the fitted attributes with one entry per member as arrays to save."""
        return {f"fitted.{name}": np.asarray(getattr(self, name)) for name in self._of_members}

    def _restore_member_arrays(self, arrays: Arrays) -> None:
        """Set the fitted attributes with one entry per member from saved arrays."""
        for name in self._of_members:
            setattr(self, name, arrays[f"fitted.{name}"])

    def _check_member_arrays(self, arrays: Arrays) -> None:
        """Raise ValueError if an attribute does not have one valid entry per member."""
        for name in self._of_members:
            values = getattr(self, name)
            if np.shape(values)[:1] != (len(self._members),) or np.isnan(values).any():
                raise ValueError(f"{name} does not match the members")

    _saved: ClassVar[SavedParts] = (
        Saved(lambda model: members_to_arrays(model._prefix, model._members), _restore_members),
        Saved(_member_arrays, _restore_member_arrays, _check_member_arrays, is_first=True),
    )


@with_parameters
class BaseVoting(TransformerMixin, BaseWeightedMembers):
    """Base class of the voting classifier and regressor."""

    cv: Folds = parameter(CV, default=None)
    weights: str | Mapping[str, float] | Sequence[float] | NDArray[Any] | None = parameter(
        one_of(*LEARNERS)
        | Rule("weights of members", lambda value: np.iterable(value) and not isinstance(value, str))
        | NONE,
        default=None,
    )
    prefit: bool = parameter(FLAG, default=False)
    refit: bool = parameter(FLAG, default=True)
    time_limit: float | None = parameter(real(0, open_low=True) | NONE, default=None)
    verbose: int | bool = parameter(VERBOSE, default=False)

    _is_weighted_sum = True
    _losses: Array | None = field(init=False, default=None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def losses_(self) -> Array:
        """Log loss or squared error of each member's out-of-fold predictions, (n_members,). Requires learned weights.

        With `prefit`, they are the losses of the predictions for the rows passed to `fit`.
        """
        self._check_fitted()
        if self._losses is None:
            raise AttributeError("weights must be learned in fit for the losses of the members")
        return self._losses

    def _validate_combinations(self) -> None:
        """Raise ValueError if `refit` or `time_limit` is set although no weights are learned from folds."""
        is_learned = isinstance(self.weights, str) and not self.prefit
        for name, value, default in (("refit", self.refit, True), ("time_limit", self.time_limit, None)):
            if value != default and not is_learned:
                raise ValueError(
                    f"{name} must be {default} unless weights are learned from folds; got {value!r}. Set "
                    f"weights={SELECTION!r}."
                )

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        """Fit the members, and set or learn their weights."""
        (specs,) = self._specs()
        self._losses = None
        if isinstance(self.weights, str):
            # The models of folds are not kept if members are fitted again, so fewer folds are enough.
            cv, n_folds = self._default_cv if self.cv is None else self.cv, N_FOLDS - 1 if self.refit else N_FOLDS
            folds = [] if self.prefit else make_folds(cv, data, rows, n_folds)
            end = math.inf if self.time_limit is None else time.monotonic() + self.time_limit
            seconds: list[float] = []
            if self.time_limit is None:
                members, responses = self._fit_level(specs, data, folds, refit=False)
            else:
                members, responses, seconds = self._fit_in_time(specs, data, folds, end)
            self.weights_ = self._learned_weights(responses, data)
            if self.refit and not self.prefit:
                self._fit_again(specs, data, members, seconds, end)
        else:
            members = self._prefit_members(specs, data) if self.prefit else self._fit_level(specs, data, [])[0]
            self.weights_ = self._passed_weights(specs)
        self._members = members

    def _fit_in_time(
        self, specs: list[MemberSpec], data: MemberData, folds: list[Fold], end: float
    ) -> tuple[list[FittedMember], list[Array], list[float]]:
        """Fit members on each fold in turn until the next fit would probably end after `end`.

        Returns the members, their out-of-fold responses, and the seconds of the last fit of each. `end` is a time of
        `time.monotonic`. The first member is always fitted.
        """
        members: list[FittedMember] = []
        responses: list[Array] = []
        seconds: list[float] = []
        longest = 0.0
        for spec in specs:
            models: list[Any] = []
            response: Array | None = None
            expected = MAX_COST * longest
            for number, fold in enumerate(folds):
                began = time.monotonic()
                if (members or models) and began + expected > end:
                    break
                # The time is divided among the folds of the first member, so that each fold gets a model.
                moment = end if members else began + (end - began) / (len(folds) - number)
                (member,), (part,) = self._fit_level([_with_deadline(spec, moment)], data, [fold], refit=False)
                models += member.models
                response = part if response is None else np.where(np.isnan(part), response, part)
                expected = time.monotonic() - began
                longest = max(longest, expected)
            if response is None or (members and (len(models) < len(folds) or time.monotonic() > end)):
                break
            members.append(
                spec.fitted([_without_deadline(model) for model in models], member.classes, member.uses_labels)
            )
            responses.append(response)
            seconds.append(expected)
        return members, responses, seconds

    def _fit_again(
        self, specs: list[MemberSpec], data: MemberData, members: list[FittedMember], seconds: list[float], end: float
    ) -> None:
        """Replace, in the list `members`, the fold models of members with weight by models fitted on all rows.

        Only fits that should finish before `end`, judged by the `seconds` of one fold, are started. Members without
        weight keep the model of one fold.
        """
        weights = self.weights_.reshape(len(members), -1).sum(axis=1)
        members[:] = [
            member if weight > 0 else replace(member, models=member.models[:1])
            for member, weight in zip(members, weights.tolist(), strict=True)
        ]
        member_indices = [index for index in np.argsort(-weights, kind="stable").tolist() if weights[index] > 0]
        # Without a limit, the members are fitted together, so that they share the bins of the table.
        for group in [member_indices] if end == math.inf else [[index] for index in member_indices]:
            # A fit on all rows takes longer than a fit on a fold, by a third with four folds.
            if end == math.inf or time.monotonic() + 1.5 * seconds[group[0]] < end:
                fitted, _ = self._fit_level([specs[index] for index in group], data, [])
                for index, member in zip(group, fitted, strict=True):
                    members[index] = member

    def _learned_weights(self, responses: list[Array], data: MemberData) -> Array:
        """Return the weights learned from the members' out-of-fold responses; also store the members' losses."""
        kept = np.flatnonzero(rows_with_responses(responses))
        stacked = np.stack([response[kept] for response in responses])
        out_of_fold = self._out_of_fold(stacked, data.y[kept].reshape(len(kept), -1), data.weight[kept])
        self._losses = np.array([mean_loss(response, out_of_fold) for response in out_of_fold.responses])
        return learn_weights(cast(str, self.weights), out_of_fold)

    def _out_of_fold(self, responses: Array, target: Array, weight: Array) -> OutOfFold:
        """Return the data to learn weights from: responses, (n_members, n_rows, n_outputs), targets, row weights."""
        raise NotImplementedError

    def _passed_weights(self, specs: list[MemberSpec]) -> Array:
        """Return `weights` as an array, (n_members,) or (n_members, n_classes), equal weights if None.

        Raises ValueError for invalid weights.
        """
        names = [spec.name for spec in specs]
        if self.weights is None:
            return np.full(len(names), 1 / len(names))
        member_weights = self._active_weights(names)
        try:
            weights = np.asarray(member_weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"weights must be numbers; got {member_weights!r}: {error}") from error
        classes = getattr(self, "classes_", None)
        by_class = [(len(names), len(classes))] if isinstance(classes, np.ndarray) else []
        allowed = [(len(names),), *by_class]
        if weights.shape not in allowed:
            raise ValueError(f"weights must have the shape {' or '.join(map(str, allowed))}; got {weights.shape}.")
        if not np.isfinite(weights).all() or weights.min() < 0 or not (weights.sum(axis=0) > 0).all():
            raise ValueError(f"weights must be finite, non-negative and not all zero; got {weights.tolist()}.")
        return weights

    def _active_weights(self, active_names: list[str]) -> list[Any]:
        """Return `weights` of the members that are not dropped, in order; missing keys of a dict have weight 1.

        Raises ValueError if a dict has names that are not members.
        """
        all_names = self._passed_names(active_names)
        if isinstance(self.weights, Mapping):
            unknown = [name for name in self.weights if name not in all_names]
            if unknown:
                raise ValueError(f"weights must name members; got {unknown[0]!r}, the members are {all_names}.")
            return [self.weights.get(name, 1.0) for name in active_names]
        member_weights: list[Any] = list(cast(Any, self.weights))
        if len(member_weights) == len(all_names) != len(active_names):
            pairs = zip(all_names, member_weights, strict=True)
            member_weights = [weight for name, weight in pairs if name in active_names]
        return member_weights

    def _check_losses(self, arrays: Arrays) -> None:
        """Raise ValueError if the restored losses do not match the members."""
        if self._losses is not None and self._losses.shape != (len(self._members),):
            raise ValueError("the losses do not match the members")

    _saved: ClassVar[SavedParts] = (attributes("_losses", key="losses"), Saved(finish=_check_losses))

    # Predict --------------------------------------------------

    def _weighed_responses(self, X: Any) -> Array:
        """Return each member's response, (n_members, n_samples, n_outputs), and zeros for members without weight."""
        self._check_fitted()
        X = self._check_table(X)
        is_used = self.weights_.reshape(len(self._members), -1).any(axis=1)
        responses = {index: self._members[index].respond(X) for index in np.flatnonzero(is_used).tolist()}
        without = np.zeros_like(next(iter(responses.values())))
        return np.stack([responses.get(index, without) for index in range(len(self._members))])

    def _explained_parts(self, rows: ExplainedRows) -> tuple[list[Part], float]:
        """Return the models of members with nonzero weight, weighted, and a constant of 0."""
        pairs = zip(self._members, self._member_weights().tolist(), strict=True)
        return [part for member, weight in pairs if weight for part in member.parts(weight)], 0.0

    def _member_std(self, responses: Array) -> Array:
        """Return the weighted standard deviation of the responses over the members, (n_samples, n_outputs)."""
        weights = self._member_weights()[:, None, None]
        mean = added(responses * weights)
        return np.sqrt(added(weights * (responses - mean) ** 2))

    def _member_weights(self) -> Array:
        """Return one weight for each member, averaged over classes if weights are by class; they sum to 1."""
        weights = self.weights_ if self.weights_.ndim == 1 else self.weights_.mean(axis=1)
        return weights / weights.sum()

    def _member_range(self, responses: Array, share: float) -> Array:
        """Return the weighted quantiles over the members that enclose `share` of them, (n_samples, n_outputs, 2).

        Raises ValueError unless 0 < `share` <= 1.
        """
        real(0, 1, open_low=True).check("share", share)
        order = np.argsort(responses, axis=0, kind="stable")
        ordered = np.take_along_axis(responses, order, axis=0)
        upto = np.cumsum(self._member_weights()[order], axis=0)
        tail = (1 - share) / 2
        low = np.argmax(upto > tail + _ROUNDING, axis=0)
        high = np.argmax(upto >= 1 - tail - _ROUNDING, axis=0)
        ends = [np.take_along_axis(ordered, end[None], axis=0)[0] for end in (low, high)]
        return np.stack(ends, axis=-1)

    # Members --------------------------------------------------

    def _names_out(self, per_member: int, input_features: Any) -> NDArray[np.object_]:
        """Return the output names of `transform`: `per_member` for each member, numbered if more than 1."""
        self._check_fitted()
        _check_feature_names_in(self, input_features, generate_names=False)
        prefix = type(self).__name__.lower()
        names = [
            f"{prefix}_{member.name}{column if per_member > 1 else ''}"
            for member in self._members
            for column in range(per_member)
        ]
        return np.asarray(free_names(names), dtype=object)


SOFT = "soft"
_FACTOR = real(0)


def _is_soft(self: VotingClassifier) -> bool:
    """Return True with soft voting; raise AttributeError otherwise, so that `predict_proba` does not exist."""
    if (voting := self._as_fitted().voting) != SOFT:
        raise AttributeError(f"predict_proba is not available when voting={voting!r}")
    return True


@transforms_streams
@with_parameters
class VotingClassifier(BaseClassifier, BaseVoting):
    """Voting for classification: the class with the most votes, or with the highest average probability.

    If y has several columns, each is a target, and the members must support several targets. The members have the same
    weights for all targets; learned weights minimise the mean loss over the targets. Results with one column for each
    class are then lists with one array for each target.

    Parameters
    ----------
    {parameters}
    voting : {"hard", "soft"}, default="hard"
        With "hard", each member votes for one class; ties go to the class that is first in `classes_`. With "soft", the
        class with the highest weighted average of the members' probabilities is predicted.
    weights : array of shape (n_members,) or (n_members, n_classes), dict by name, or str, default=None
        Weights of the members, or of each member's votes for each class, unless there are several targets. If None, all
        members have equal weights. "nnls" minimises the squared error, "likelihood" finds the most likely mixture,
        "selection" is greedy ensemble selection with replacement, and "guarded_selection" shrinks its weights towards
        the first member as far as the gain may be chance. All learn from out-of-fold predictions or, with `prefit`,
        from the predictions for the rows passed to `fit`.
    class_weights : array of shape (n_classes,), dict by label, or None, default=None
        Factor applied to the votes or the average probability of each class; with several targets, a list with an
        array, dict or None for each target. If None, all factors are 1.
    flatten_transform : bool, default=True
        If True, `transform` returns shape (n_samples, n_members * n_classes) with soft voting; if False, (n_members,
        n_samples, n_classes). With several targets, `n_classes` is the sum over the targets.

    Attributes
    ----------
    {attributes}
    weights_ : array of shape (n_members,) or (n_members, n_classes)
        The weights used.

    References
    ----------
    Breiman (1996), "Stacked regressions"; Caruana et al. (2004), "Ensemble selection from libraries of models"; Yao et
    al. (2018), "Using stacking to average Bayesian predictive distributions".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from fastens import GradientBoostingClassifier, VotingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> members = [("boosting", GradientBoostingClassifier(n_estimators=10)), ("bayes", GaussianNB())]
    >>> model = VotingClassifier(members, voting="soft", weights="likelihood").fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    voting: str = parameter(one_of("hard", SOFT), default="hard")
    class_weights: ArrayLike | Mapping[Any, float] | None = parameter(ANYTHING, default=None)
    flatten_transform: bool = parameter(FLAG, default=True)
    _takes_several_targets = True

    @property
    def _response_method(self) -> str:  # type: ignore[override]
        """The method of the members that produces responses."""
        return "predict_proba" if self.voting == SOFT else "predict"

    def _learn_target(self, y: NDArray[Any]) -> Array:
        """Learn the classes, also of prefit members, and return each row's class index."""
        index = super()._learn_target(y)
        if self.prefit:
            (members,) = self._levels()
            self.classes_, index = joint_classes(self.classes_, index, members)
        self._read_factors()
        return index

    def _read_factors(self, arrays: Arrays | None = None) -> None:
        """Set the factors of each target's class probabilities from `class_weights`; `arrays` is ignored."""
        self._class_factors_by_target = _factors_by_target(self.class_weights, self.classes_)

    _saved: ClassVar[SavedParts] = (Saved(finish=_read_factors),)

    def _out_of_fold(self, responses: Array, target: Array, weight: Array) -> OutOfFold:
        """Return the data that weights are learned from; each target of a row counts as one row."""
        parts = split_targets(responses, self.classes_)
        width = max(part.shape[2] for part in parts)
        if len(parts) > 1:
            padded = [np.pad(part, ((0, 0), (0, 0), (0, width - part.shape[2]))) for part in parts]
            responses, weight = np.concatenate(padded, axis=1), np.tile(weight, len(parts))
        is_class = target.T.reshape(-1, 1) == np.arange(width)
        return OutOfFold(responses, is_class.astype(np.float64), weight, is_classification=True)

    def _averages(self, X: Any) -> list[Array]:
        """Return each target's weighted averages times class factors, (n_samples, n_classes), divided by row sums."""
        parts = split_targets(self._weighed_responses(X), self.classes_)
        weights = self.weights_[:, None, None] if self.weights_.ndim == 1 else self.weights_[:, None, :]
        averages = []
        for part, factors in zip(parts, self._class_factors_by_target, strict=True):
            total = added(part * weights) * factors
            sums = total.sum(axis=1, keepdims=True)
            # If every class with a vote has the factor 0, all classes tie.
            averages.append(np.where(sums > 0, total / np.where(sums > 0, sums, 1.0), 1.0 / total.shape[1]))
        return averages

    def _by_target(self, parts: Sequence[Array]) -> Any:
        """Return the list `parts` with one item for each target, or its only item for a single target."""
        return list(parts) if isinstance(self.classes_, list) else parts[0]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each row, shape (n_samples,) or (n_samples, n_targets)."""
        averages, is_soft = self._averages(X), self._as_fitted().voting == SOFT
        best = [(average if is_soft else with_ties(average)).argmax(axis=1) for average in averages]
        return labels_of(np.column_stack(best) if isinstance(self.classes_, list) else best[0], self.classes_)

    @available_if(_is_soft)
    def predict_proba(self, X: ArrayLike) -> Any:
        """Return the weighted average of the members' probabilities.

        The shape is (n_samples, n_classes); with several targets, the result is a list of such arrays.
        """
        return self._by_target(self._averages(X))

    def _explained_parts(self, rows: ExplainedRows) -> tuple[list[Part], float]:
        """Return the weighted models; raise ValueError if probabilities are not sums over the members."""
        if (voting := self._as_fitted().voting) != SOFT:
            raise ValueError(f"voting must be 'soft' for the predictions to be explained; got {voting!r}.")
        (factors,) = self._class_factors_by_target
        if self.weights_.ndim > 1 or np.ptp(factors) > 0:
            raise ValueError(
                "weights and class_weights must be the same for all classes for the predictions to be "
                "explained, because other probabilities are not sums of the members' probabilities; got "
                f"weights_ of shape {self.weights_.shape}, factors {factors.tolist()}."
            )
        return super()._explained_parts(rows)

    def predict_std(self, X: ArrayLike) -> Array | list[Array]:
        """Return the standard deviation of the members' probabilities or votes, shape (n_samples, n_classes)."""
        return self._by_target([self._member_std(part) for part in split_targets(self._responses(X), self.classes_)])

    def predict_member_range(self, X: ArrayLike, share: float = 0.9) -> Array | list[Array]:
        """Return the range of the members' probabilities, shape (n_samples, n_classes, 2).

        The range measures the agreement of the members. It does not contain the true class with a given probability;
        for prediction sets, see `ConformalClassifier`.

        Parameters
        ----------
        X : table
            The rows.
        share : float, default=0.9
            Fraction of the members, by weight, inside the range.
        """
        parts = split_targets(self._responses(X), self.classes_)
        return self._by_target([self._member_range(part, share) for part in parts])

    def transform(self, X: ArrayLike) -> Array:
        """Return the members' probabilities; with hard voting, the class indices that they vote for.

        Columns are ordered by member, then by target.
        """
        parts, fitted = split_targets(self._responses(X), self.classes_), self._as_fitted()
        if fitted.voting != SOFT:
            return np.hstack([column.T for column in np.stack([part.argmax(axis=2) for part in parts], axis=1)])
        responses = np.concatenate(parts, axis=2)
        return np.hstack(list(responses)) if fitted.flatten_transform else responses

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the column names of the output of `transform`."""
        self._check_fitted()
        fitted = self._as_fitted()
        if fitted.voting == SOFT and not fitted.flatten_transform:
            raise ValueError("flatten_transform must be True for get_feature_names_out with soft voting; got False.")
        targets = self.classes_ if isinstance(self.classes_, list) else [self.classes_]
        return self._names_out(sum(map(len, targets)) if fitted.voting == SOFT else len(targets), input_features)


@transforms_streams
@with_parameters
class VotingRegressor(BaseRegressor, BaseVoting):
    """Voting for regression: the weighted average of the members' predictions.

    If y has several columns, each is a target, and the members must support several targets.

    Parameters
    ----------
    {parameters}
    weights : array of shape (n_members,), dict by name, or str, default=None
        Weights of the members. If None, all members have equal weights. "nnls" minimises the squared error,
        "likelihood" finds the most likely mixture of normal distributions around the members' predictions, "selection"
        is greedy ensemble selection with replacement, and "guarded_selection" shrinks its weights towards the first
        member as far as the gain may be chance. All learn from out-of-fold predictions or, with `prefit`, from the rows
        passed to `fit`.

    Attributes
    ----------
    {attributes}
    weights_ : array of shape (n_members,)
        The weights used.

    References
    ----------
    Breiman (1996), "Stacked regressions"; Caruana et al. (2004), "Ensemble selection from libraries of models"; Yao et
    al. (2018), "Using stacking to average Bayesian predictive distributions".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from fastens import GradientBoostingRegressor, VotingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> members = [("boosting", GradientBoostingRegressor(n_estimators=20)), ("line", LinearRegression())]
    >>> model = VotingRegressor(members, weights="nnls").fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.4
    True
    """

    _takes_several_targets = True
    _saved: ClassVar[SavedParts] = ("_n_targets",)
    _response_method = "predict"

    def _out_of_fold(self, responses: Array, target: Array, weight: Array) -> OutOfFold:
        """Return the responses and targets that weights are learned from."""
        return OutOfFold(responses, target, weight, is_classification=False)

    def predict(self, X: ArrayLike) -> Array:
        """Return the weighted average of the members' predictions, shape (n_samples,) or (n_samples, n_targets)."""
        self._check_fitted()
        return self._squeeze_targets(added(self._member_weights()[:, None, None] * self._weighed_responses(X)))

    def predict_std(self, X: ArrayLike) -> Array:
        """Return the standard deviation of the members' predictions, in the shape of `predict`."""
        return self._squeeze_targets(self._member_std(self._responses(X)))

    def predict_member_range(self, X: ArrayLike, share: float = 0.9) -> Array:
        """Return the range of the members' predictions, shape (n_samples, 2) or (n_samples, n_targets, 2).

        The range measures the agreement of the members. It does not contain the target with a given probability; for
        prediction intervals, see `ConformalRegressor`.

        Parameters
        ----------
        X : table
            The rows.
        share : float, default=0.9
            Fraction of the members, by weight, inside the range.
        """
        return self._squeeze_targets(self._member_range(self._responses(X), share))

    def transform(self, X: ArrayLike) -> Array:
        """Return the members' predictions, shape (n_samples, n_members * n_targets), ordered by member."""
        return np.hstack(list(self._responses(X)))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the column names of the output of `transform`."""
        self._check_fitted()
        return self._names_out(self._n_targets, input_features)


def _factors_by_target(class_weights: Any, classes: Any) -> list[Array]:
    """Return the class factors of each target, (n_classes,); raise ValueError unless there is one entry per target."""
    if not isinstance(classes, list):
        return [_class_factors(class_weights, classes)]
    by_target = [None] * len(classes) if class_weights is None else class_weights
    if not isinstance(by_target, list | tuple) or len(by_target) != len(classes):
        raise ValueError(
            f"class_weights must be None or a list with an array, dict or None for each of the {len(classes)} targets; "
            f"got {class_weights!r}."
        )
    return [_class_factors(*pair) for pair in zip(by_target, classes, strict=True)]


def _class_factors(class_weights: Any, classes: NDArray[Any]) -> Array:
    """Return the factors of class probabilities, (n_classes,), from an array, a dict or None; 1 by default.

    Raises ValueError for unknown classes and invalid factors.
    """
    if class_weights is None:
        return np.ones(len(classes))
    if isinstance(class_weights, Mapping):
        unknown = [label for label in class_weights if label not in classes.tolist()]
        if unknown:
            raise ValueError(
                f"class_weights must name classes of y; got {unknown[0]!r}, and the classes are {classes.tolist()}."
            )
        class_weights = [class_weights.get(label, 1.0) for label in classes.tolist()]
    factors = list(class_weights) if np.iterable(class_weights) and not isinstance(class_weights, str) else []
    if len(factors) != len(classes) or not all(map(_FACTOR.holds, factors)) or not any(factors):
        raise ValueError(
            f"class_weights must be {len(classes)} finite, non-negative numbers that are not all zero; "
            f"got {class_weights!r}."
        )
    return np.array(factors, dtype=np.float64)


# Parameters of boosting that all members of `best_ensemble` have.
SHARED = frozenset(
    {"random_state", "n_jobs", "weight_type", "categorical_features", "text_features", "categories", "max_bins"}
)
_N_TREES = 50
# In addition to the defaults: members for tables with much noise and with little noise.
_CAUTIOUS = {"learning_rate": 0.06, "l2_regularization": 10.0, "split_penalty": 5.0, "max_depth": 4}
_DETAILED = {"n_estimators": 150, "l2_regularization": 0.1, "split_penalty": 0.5, "min_samples_leaf": 2}


def best_ensemble(boosting: Any, time_limit: float | None, parameters: Mapping[str, Any]) -> Any:
    """Return the ensemble of `with_quality("best")` for a class of boosting, or None if members lack a parameter.

    `parameters` are set for the members, and for the ensemble where it has them. The first member has the defaults, and
    the selection is shrunk towards it, which guards small tables against weights that are better only by chance.
    """
    if not SHARED.issuperset(parameters):
        return None
    is_classification = is_classifier(boosting())
    forest, extra_trees = (kind for _, kind in forests(is_classification))
    members = [
        ("boosting", boosting(**parameters)),
        ("cautious_boosting", boosting(**_CAUTIOUS, **parameters)),
        ("detailed_boosting", boosting(**_DETAILED, **parameters)),
        ("extra_trees", extra_trees(_N_TREES, **parameters)),
        ("random_forest", forest(_N_TREES, **parameters)),
    ]
    ensemble_parameters = {
        name: parameters[name] for name in ("random_state", "n_jobs", "weight_type") if name in parameters
    }
    options: dict[str, Any] = {"weights": GUARDED, "cv": CONTENT, "time_limit": time_limit} | ensemble_parameters
    members = [(name, with_requests(member)) for name, member in members]
    return (
        VotingClassifier(members, voting=SOFT, **options) if is_classification else VotingRegressor(members, **options)
    )
