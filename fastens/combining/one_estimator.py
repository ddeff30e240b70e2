"""Ensembles that are made of copies of one estimator, their parameter `estimator`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.base import BaseEstimator, is_classifier

from fastens.combining.kinds import check_kind
from fastens.combining.members import BaseMembers, NamedMembers


class BaseOneEstimator(BaseMembers):
    """An estimator made of copies of one other."""

    estimators = None
    columns = None
    estimator: Any

    def _template(self) -> Any:
        """The estimator to copy."""
        raise NotImplementedError

    def _named(self) -> Iterator[tuple[str, Any]]:
        """The estimator, for tags."""
        yield "estimator", self._template()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, those of the estimator as ``estimator__parameter`` too."""
        return BaseEstimator.get_params(self, deep=deep)

    def set_params(self, **params: Any) -> BaseOneEstimator:
        """Set parameters, those of the estimator as ``estimator__parameter``."""
        BaseEstimator.set_params(self, **params)
        return self

    def _levels(self) -> list[NamedMembers]:
        return [[("estimator", self._template())]]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_kind("estimator", self._template(), is_classifier(self))
