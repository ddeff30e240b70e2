"""Weighted majority voting (Littlestone & Warmuth 1994) and Hedge (Freund & Schapire 1997)."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from fastens.base import BaseClassifier
from fastens.combining.folds import FittedMember, GivenRows, MemberData, MemberSpec, rows_with_responses
from fastens.combining.member_weights import margin_weights
from fastens.combining.responses import CV, is_fitted_on_labels, joined_labels, labels_of_members, with_ties
from fastens.combining.voting import BaseWeightedMembers
from fastens.engine.elementary import exp, log, logsumexp
from fastens.engine.grow.growth import weight_unit
from fastens.engine.rows.sampling import repeated
from fastens.engine.whole import are_copies
from fastens.modelfile.saving import SavedParts
from fastens.params.estimator import with_parameters
from fastens.params.rules import FLAG, one_of, parameter, real
from fastens.params.types import Folds
from fastens.rollback import keeps_model
from fastens.table.parts import drop_zero_weight_rows, take_columns
from fastens.table.training_data import IMPORTANCE, check_classes, check_weights, read_classes

Array = NDArray[np.float64]

MAJORITY, HEDGE = "weighted_majority", "hedge"
ONLINE, ERRORS, COVARIANCE = "online", "errors", "covariance"
# Bounds the memory of an update.
_ROWS_AT_ONCE = 1 << 16


@with_parameters
class WeightedMajorityClassifier(BaseClassifier, BaseWeightedMembers):
    """Weighted vote in which members lose weight for each mistake.

    `fit` trains the members and weights them by their out-of-fold predictions. `partial_fit` continues row by row and
    also works with prefit members: the ensemble predicts, observes the label, and reduces the weights of members that
    were wrong. An integer weight counts as that many consecutive copies of the row.

    Parameters
    ----------
    {parameters}
    algorithm : {"weighted_majority", "hedge"}, default="weighted_majority"
        With "weighted_majority", members vote, and each mistake multiplies a member's weight by `beta`; ties go to the
        class that is first in `classes_`. With "hedge", the members' probabilities are averaged, and each weight is
        multiplied by ``beta ** loss``, where the loss is the probability that the member assigned to the wrong classes.
    beta : float, default=0.5
        Factor applied to a member's weight after a mistake, above 0 and below 1. Smaller values reduce weights faster.
    weighting : {"online", "errors", "covariance"}, default="online"
        How `fit` weights the members. "online" updates the weights row by row, like `partial_fit`.
        "errors" uses log((1 - e) / e) + log(K - 1) for an error rate e and K classes, at least 0, which is optimal for
        voters with independent errors. "covariance" maximises the mean margin divided by its standard deviation, which
        gives higher weights to accurate members and lower weights to correlated members.
    shrinkage : float, default=0.1
        With weighting="covariance", amount of shrinkage of the covariances of the errors towards 0, from 0 to 1.
    prefit : bool, default=False
        If True, the members are already fitted and are not trained further.

    Attributes
    ----------
    {attributes}
    weights_ : array of shape (n_members,)
        Weights of the members, which sum to 1.
    n_mistakes_ : float
        Number of mistakes of the ensemble, predicting each row before its label is used, in `partial_fit` and in `fit`
        with weighting="online". With Hedge, the expected loss.
    member_mistakes_ : array of shape (n_members,)
        Number of mistakes, or the loss, of each member.
    n_seen_ : float
        Number of rows over which mistakes were counted.

    References
    ----------
    Littlestone & Warmuth (1994), "The weighted majority algorithm"; Freund & Schapire (1997), "A decision-theoretic
    generalization of on-line learning and an application to boosting".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from fastens import WeightedMajorityClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> experts = [("bayes", GaussianNB()), ("stump", DecisionTreeClassifier(max_depth=1)),
    ...            ("tree", DecisionTreeClassifier(max_depth=3))]
    >>> experts = [(name, expert.fit(X[:100], y[:100])) for name, expert in experts]
    >>> model = WeightedMajorityClassifier(experts, prefit=True)
    >>> model = model.partial_fit(X[100:], y[100:], classes=[0, 1])
    >>> bool(model.n_mistakes_ <= model.mistake_bound())
    True
    """

    _of_members: ClassVar[tuple[str, ...]] = ("weights_", "member_mistakes_", "_log_weights")

    cv: Folds = parameter(CV, default=None)
    algorithm: str = parameter(one_of(MAJORITY, HEDGE), default=MAJORITY)
    beta: float = parameter(real(0, 1, open_low=True, open_high=True), default=0.5)
    weighting: str = parameter(one_of(ONLINE, ERRORS, COVARIANCE), default=ONLINE)
    shrinkage: float = parameter(real(0, 1), default=0.1)
    prefit: bool = parameter(FLAG, default=False)

    @property
    def _response_method(self) -> str:  # type: ignore[override]
        """The name of the members' method for responses: `predict_proba` with Hedge if all have it, or `predict`."""
        members = [member for level in self._levels() for _, member in level]
        has_shares = all(hasattr(member, "predict_proba") for member in members)
        return "predict_proba" if self.algorithm == HEDGE and has_shares else "predict"

    # Fit --------------------------------------------------

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        """Fit the members, and weight them by their out-of-fold predictions."""
        (specs,) = self._specs()
        members, responses = self._fit_level(specs, data, [] if self.prefit else self._folds(data, rows))
        kept = np.flatnonzero(rows_with_responses(responses))
        self._start_weights(len(members))
        stacked = np.stack([response[kept] for response in responses])
        self._learn_weights(stacked, data.y[kept].astype(np.intp), data.weight[kept])
        self._members = members

    def _learn_weights(self, responses: Array, y: NDArray[np.intp], weight: Array) -> None:
        """Set the members' weights from their responses, (n_members, n_rows, n_classes), and the true classes."""
        if self.weighting == ONLINE:
            self._update_weights(responses, y, weight)
            return
        weight = weight / weight_unit(weight)  # each row counts as one row, even if the weights sum to 1
        right = responses.argmax(axis=2) == y
        if self.weighting == COVARIANCE:
            self._set_weights(margin_weights(np.where(right, 1.0, -1.0), weight, self.shrinkage))
            return
        # A member without mistakes is counted as having made half a mistake.
        least = 0.5 / max(weight.sum(), 1.0)
        error = np.clip(np.average(~right, axis=1, weights=weight), least, 1 - least)
        member_weights = np.maximum(log((1 - error) / error) + log(len(self.classes_) - 1), 0.0)
        self._set_weights(
            member_weights / member_weights.sum()
            if member_weights.any()
            else np.ones(len(member_weights)) / len(member_weights)
        )

    @keeps_model
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> WeightedMajorityClassifier:
        """Predict row by row, and reweight the members by their mistakes.

        The first call trains the members on its rows without weighting them; with `prefit`, members are weighted from
        the first row. Members that have `partial_fit` themselves are then trained on the rows, unless they are prefit.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows in order of arrival.
        y : array of shape (n_samples,)
            Labels of the rows.
        classes : array of shape (n_classes,), optional
            All possible labels; required in the first call, unless its rows contain all of them.
        sample_weight : array of shape (n_samples,), optional
            Integer weights count as that many consecutive copies of a row, including for members that are trained.

        Returns
        -------
        self
        """
        if not self.__sklearn_is_fitted__():
            return self._first_batch(X, y, classes, sample_weight)
        if classes is not None:
            check_classes(classes, self.classes_)
        X, y, sample_weight = drop_zero_weight_rows(X, y, sample_weight)
        table = self._check_table(X)
        index = self._encode_target(self._read_target(y)).astype(np.intp)
        if len(index) != table.shape[0]:
            raise ValueError(f"X and y must have the same number of rows; got {table.shape[0]} and {len(index)}.")
        weight = check_weights(sample_weight, len(index))
        responses = np.stack([member.respond(table) for member in self._members])
        self._update_weights(responses, index, np.ones(len(index)) if weight is None else weight)
        if not self._as_fitted().prefit:
            batch = _expand_copies(MemberData(table, index.astype(np.float64), self.classes_, weight))
            self._members = [
                _train_on_batch(member, deepcopy(member.models[0]), batch) if _is_online(member.models[0]) else member
                for member in self._members
            ]
        return self

    def _first_batch(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> WeightedMajorityClassifier:
        """Learn columns and classes from the first batch, and weight prefit members or train the other members."""
        self._declared_classes = None if classes is None else read_classes(classes)
        try:
            data, _ = self._start_members(X, y, {"sample_weight": sample_weight})
        finally:
            del self._declared_classes
        (specs,) = self._specs()
        self._start_weights(len(specs))
        if self.prefit:
            members, responses = self._fit_level(specs, data, [])
            self._update_weights(np.stack(responses), data.y.astype(np.intp), data.weight)
        else:
            online = [spec for spec in specs if _is_online(spec.estimator)]
            whole, _ = self._fit_level([spec for spec in specs if spec not in online], data, [])
            batch = _expand_copies(data)
            started = [_start_online(spec, batch) for spec in online]
            by_name = {member.name: member for member in whole + started}
            members = [by_name[spec.name] for spec in specs]
        self._members = members
        return self

    @property
    def _known_classes(self) -> Any:
        """The `classes` of `partial_fit` joined with the classes of prefit members; None if there are neither."""
        declared = getattr(self, "_declared_classes", None)
        if not self.prefit:
            return declared
        parts = labels_of_members(self._levels()[0]) + ([] if declared is None else [("classes", declared)])
        return joined_labels(parts) if parts else None

    def _weights_to_count(self, weight: Array | None, *, is_fit: bool = False) -> Any:
        """Return weights unchanged in `partial_fit`, else scaled by `weight_type`; in `fit`, `is_fit` is True."""
        # The mean weight of a stream is unknown, so `partial_fit` uses weights unchanged, even in its first batch.
        return weight if hasattr(self, "_declared_classes") else super()._weights_to_count(weight, is_fit=is_fit)

    # Online --------------------------------------------------

    def _start_weights(self, n_members: int) -> None:
        """Set equal weights and zero mistakes before the first batch."""
        self._log_weights = np.zeros(n_members)
        self.member_mistakes_ = np.zeros(n_members)
        self.n_mistakes_ = self.n_seen_ = 0.0
        self._heaviest = 1.0  # the largest weight applied in one step
        self._set_weights(np.full(n_members, 1.0 / n_members))

    def _set_weights(self, weights: Array) -> None:
        """Set the members' weights and their logarithms."""
        self.weights_, self._log_weights = weights, log(weights)

    def _update_weights(self, responses: Array, y: NDArray[np.intp], weight: Array) -> None:
        """Update the members' weights row by row; each row's prediction uses the weights before it.

        Responses are (n_members, n_rows, n_classes): 1 for the class that a member votes for, or probabilities.
        """
        rows = np.arange(len(y))
        if self.weight_type != IMPORTANCE and are_copies(weight):
            rows = repeated(rows, weight, "weights change after each copy")
            weight = np.ones_like(weight)
        self._heaviest = max(self._heaviest, float(weight.max(initial=0.0)))
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            self._update_by(responses[:, part], y[part], weight[part])

    def _update_by(self, responses: Array, y: NDArray[np.intp], weight: Array) -> None:
        """Update weights and mistake counts by a block of rows; responses are (n_members, n_rows, n_classes)."""
        fitted = self._as_fitted()  # the bound assumes one beta for all rows
        losses = 1.0 - responses[:, np.arange(len(y)), y]
        lost = losses * weight
        before = np.cumsum(lost, axis=1) - lost
        log_weights = self._log_weights[:, None] + log(fitted.beta) * before
        weights = exp(log_weights - log_weights.max(axis=0))
        weights /= weights.sum(axis=0)
        if fitted.algorithm == HEDGE:
            ensemble_losses = (weights * losses).sum(axis=0)
        else:
            ensemble_losses = with_ties((weights[:, :, None] * responses).sum(axis=0)).argmax(axis=1) != y
        self.n_mistakes_ += float((ensemble_losses * weight).sum())
        self.n_seen_ += float(weight.sum())
        self.member_mistakes_ = self.member_mistakes_ + lost.sum(axis=1)
        log_weights = self._log_weights + log(fitted.beta) * lost.sum(axis=1)
        weights = exp(log_weights - log_weights.max())
        self._log_weights, self.weights_ = log_weights - log_weights.max(), weights / weights.sum()

    def mistake_bound(self) -> float:
        """Return the upper bound on the mistakes so far, which depends on the mistakes of the best member.

        Returns
        -------
        float
            For weighted majority, (log n + m log(1 / beta)) / log(2 / (1 + beta)) with n members and m mistakes of the
            best member. For Hedge, the bound on its expected loss is (log n + m log(1 / beta)) / (1 - beta). If `fit`
            has weighted the members by their errors, log n is replaced by the logarithm of the inverse of a member's
            weight. Rows with fractional weights are processed in one step; if w > 1 is the largest weight, the bounds
            are multiplied by w, with beta ** w instead of beta in the denominator.
        """
        self._check_fitted()
        fitted, largest = self._as_fitted(), self._heaviest
        top = logsumexp(self._log_weights + self.member_mistakes_ * log(1 / fitted.beta)) - self._log_weights.max()
        factor = fitted.beta**largest
        return float(largest * top / (1 - factor if fitted.algorithm == HEDGE else log(2 / (1 + factor))))

    # Predict --------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return each class's share of the weighted votes; with Hedge, the weighted average probability."""
        responses = self._responses(X)
        return with_ties((self.weights_[:, None, None] * responses).sum(axis=0))

    _saved: ClassVar[SavedParts] = ("n_mistakes_", "n_seen_", "_heaviest")


def _is_online(model: Any) -> bool:
    """Return True if a member supports `partial_fit` and is not frozen, because that would train the wrapped model."""
    return hasattr(model, "partial_fit") and not isinstance(model, FrozenEstimator)


def _expand_copies(data: MemberData) -> MemberData:
    """Return the rows with integer weights expanded to copies; other weights stay, without rows of zero weight."""
    weight = data.sample_weight
    if weight is None:
        return data
    if not are_copies(weight):
        return data.take(np.flatnonzero(weight))
    return replace(
        data.take(repeated(np.arange(data.n_rows), weight, "members learn one copy at a time")), sample_weight=None
    )


def _start_online(spec: MemberSpec, data: MemberData) -> FittedMember:
    """Return a member trained on its first batch by `partial_fit`, with all classes declared."""
    assert data.classes is not None
    model = clone(spec.estimator)
    uses_labels = is_fitted_on_labels(model)
    classes = data.classes if uses_labels else np.arange(len(data.classes))
    return _train_on_batch(spec.fitted([model], data.classes, uses_labels), model, data, classes=classes)


def _train_on_batch(member: FittedMember, model: Any, data: MemberData, **options: Any) -> FittedMember:
    """Train the model on another batch by `partial_fit`, and return the member with this model."""
    if data.sample_weight is not None:
        if "sample_weight" not in signature(model.partial_fit).parameters:
            raise ValueError(
                f"sample_weight must hold integers with member {member.name!r}: its partial_fit does not "
                "accept sample_weight, so rows are copied."
            )
        options["sample_weight"] = data.sample_weight
    model.partial_fit(take_columns(data.X, member.columns), data.labels_for(model), **options)
    return replace(member, models=[model])
