"""Members side by side with a weight each, and what the voting classifier and regressor share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin, is_classifier
from sklearn.utils import Bunch
from sklearn.utils.validation import _check_feature_names_in

from fastens.checked_parameters import with_parameters
from fastens.combining.explaining import Part, Rows
from fastens.combining.folds import (
    FittedMember,
    GivenRows,
    MemberData,
    MemberSpec,
    known_rows,
    members_from_arrays,
    members_to_arrays,
)
from fastens.combining.member_weights import LEARNERS, OutOfFold, learn_weights
from fastens.combining.members import BaseMembers
from fastens.combining.memory import Fits
from fastens.combining.parameters import CV, RULES, VERBOSE, NamedMembers
from fastens.combining.responses import added
from fastens.parameters import FLAG, NONE, Rule, one_of, parameter, real
from fastens.table.memory_limits import TableShape
from fastens.table.parts import free_names
from fastens.table.sample_weights import WEIGHT_TYPE

Array = NDArray[np.float64]
# Sums of weights that differ by less are equal.
_ROUNDING = 1e-12


@with_parameters
class BaseWeightedMembers(BaseMembers):
    """Members side by side, with a weight each."""

    estimators: NamedMembers | None = field(default=None, kw_only=False)
    cv: Any = None
    columns: Mapping[str, Any] | None = None
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: Any = None
    n_jobs: int | None = None

    _members: list[FittedMember] = field(init=False)
    weights_: Array = field(init=False)
    # In files: the prefix of the members' names, and the attributes with a number for each member.
    _prefix: ClassVar[str] = "member."
    _of_members: ClassVar[tuple[str, ...]] = ("weights_",)

    def _responses(self, X: Any) -> Array:
        """Each member's response, (n_members, n_samples, n_outputs)."""
        self._check_fitted()
        X = self._check_table(X)
        return np.stack([member.respond(X) for member in self._members])

    @property
    def estimators_(self) -> list[Any]:
        """The fitted members; a list of models where those of several folds are kept."""
        self._check_fitted()
        return [member.kept for member in self._members]

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted members by name."""
        self._check_fitted()
        return Bunch(**{member.name: member.kept for member in self._members})

    def _fitted_names(self) -> tuple[str, ...]:
        return self._of_members

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return members_to_arrays(self._prefix, self._members)

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        self._members = members_from_arrays(self._prefix, arrays, getattr(self, "classes_", None))
        for name in self._of_members:
            found = getattr(self, name)
            if np.shape(found)[:1] != (len(self._members),) or np.isnan(found).any():
                raise ValueError(f"{name} does not fit the members")


@with_parameters
class BaseVoting(TransformerMixin, BaseWeightedMembers):
    """What the classifier and the regressor share."""

    _parameter_rules: ClassVar = {
        **RULES,
        "weights": one_of(*LEARNERS)
        | Rule("weights of members", lambda value: np.iterable(value) and not isinstance(value, str))
        | NONE,
        "cv": CV,
        "prefit": FLAG,
        "verbose": VERBOSE,
    }

    weights: Any = None
    prefit: bool = False
    verbose: int | bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        (specs,) = self._specs()
        if isinstance(self.weights, str):
            members, responses = self._fit_level(specs, data, [] if self.prefit else self._folds(data, rows))
            self.weights_ = self._learned_weights(responses, data)
        else:
            members = self._prefit_members(specs, data) if self.prefit else self._fit_level(specs, data, [])[0]
            self.weights_ = self._given_weights(specs)
        self._members = members

    def _planned_fits(self, shape: TableShape) -> Fits:
        fits = super()._planned_fits(shape)
        return fits if isinstance(self.weights, str) else fits._replace(n_fits=1, n_folds=0)

    def _learned_weights(self, responses: list[Array], data: MemberData) -> Array:
        kept = np.flatnonzero(known_rows(responses))
        target = data.y[kept, None]
        if is_classifier(self):
            target = (target == np.arange(len(self.classes_))).astype(np.float64)
        stacked = np.stack([found[kept] for found in responses])
        return learn_weights(self.weights, OutOfFold(stacked, target, data.weight[kept], is_classifier(self)))

    def _given_weights(self, specs: list[MemberSpec]) -> Array:
        """The weights as an array, (n_members,) or (n_members, n_classes)."""
        names = [spec.name for spec in specs]
        if self.weights is None:
            return np.full(len(names), 1 / len(names))
        given = self._weights_in_order(names)
        try:
            weights = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"weights must be numbers; got {given!r}: {error}") from error
        allowed = self._weight_shapes(len(names))
        if weights.shape not in allowed:
            raise ValueError(f"weights must have the shape {' or '.join(map(str, allowed))}; got {weights.shape}.")
        if not np.isfinite(weights).all() or weights.min() < 0 or not (weights.sum(axis=0) > 0).all():
            raise ValueError(f"weights must be finite, not negative and not all zero; got {weights.tolist()}.")
        return weights

    def _weights_in_order(self, names: list[str]) -> list[Any]:
        """The weights of the members that are not dropped, which may be given by name."""
        all_names = self._names_given(names)
        if isinstance(self.weights, Mapping):
            unknown = [name for name in self.weights if name not in all_names]
            if unknown:
                raise ValueError(f"weights must be given for members; got {unknown[0]!r}, the members are {all_names}.")
            return [self.weights.get(name, 1.0) for name in names]
        given = list(self.weights)
        if len(given) == len(all_names) != len(names):
            given = [weight for name, weight in zip(all_names, given, strict=True) if name in names]
        return given

    def _weight_shapes(self, n_members: int) -> list[tuple[int, ...]]:
        return [(n_members,)]

    # Predict --------------------------------------------------

    def _explained_parts(self, rows: Rows) -> tuple[list[Part], float]:
        pairs = zip(self._members, self._member_weights().tolist(), strict=True)
        return [part for member, weight in pairs for part in member.parts(weight)], 0.0

    def _spread(self, responses: Array) -> Array:
        """Weighted standard deviation over the members."""
        weights = self._member_weights()[:, None, None]
        mean = added(responses * weights)
        return np.sqrt(added(weights * (responses - mean) ** 2))

    def _member_weights(self) -> Array:
        """One weight for each member; they sum to 1."""
        weights = self.weights_ if self.weights_.ndim == 1 else self.weights_.mean(axis=1)
        return weights / weights.sum()

    def _member_range(self, responses: Array, share: float) -> Array:
        """Weighted quantiles over the members, (n_samples, n_outputs, 2)."""
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
        self._check_fitted()
        _check_feature_names_in(self, input_features, generate_names=False)
        prefix = type(self).__name__.lower()
        names = [
            f"{prefix}_{member.name}{place if per_member > 1 else ''}"
            for member in self._members
            for place in range(per_member)
        ]
        return np.asarray(free_names(names), dtype=object)
