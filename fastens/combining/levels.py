"""Levels of fitted members, each given the predictions of those before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from fastens.combining.folds import FittedMember, members_from_arrays, members_to_arrays
from fastens.combining.members import BaseMembers
from fastens.combining.parameters import ALL
from fastens.combining.several_targets import n_columns
from fastens.table.parts import beside

Array = NDArray[np.float64]


class BaseLevels(BaseMembers):
    """An ensemble whose members stand in levels."""

    # Whose predictions a level gets: those of the one before, or of all before; whether it gets the columns of X too.
    inputs_from: str
    passthrough: bool
    _fitted_levels: list[list[FittedMember]]

    # Tables of predictions --------------------------------------------------

    def _meta(self, responses: list[Array]) -> Array:
        """Responses as columns; of two classes, the probability of the second is enough."""
        is_binary = is_classifier(self) and not isinstance(self.classes_, list) and len(self.classes_) == 2
        return np.hstack([found[:, 1:] if is_binary and found.shape[1] == 2 else found for found in responses])

    def _next_table(self, levels: list[list[FittedMember]], metas: list[Array], X: Any) -> Any:
        """The input of the next level, from the responses of these levels."""
        meta = np.hstack(metas) if self.inputs_from == ALL else metas[-1]
        return beside(meta, self._meta_names(levels), X) if self.passthrough else meta

    def _level_table(self, levels: list[list[FittedMember]], X: Any) -> Any:
        """The input of the next level for new rows."""
        table, metas = X, []
        for depth, members in enumerate(levels, 1):
            metas.append(self._meta([member.respond(table) for member in members]))
            table = self._next_table(levels[:depth], metas, X)
        return table

    def _meta_names(self, levels: list[list[FittedMember]]) -> list[str]:
        """Column names of the next level's input; prefixed by the level where several levels contribute."""
        prefix = type(self).__name__.lower()
        stems = [f"{prefix}_{depth}" for depth in range(1, len(levels) + 1)] if self.inputs_from == ALL else [prefix]
        names, n_columns = [], self._n_meta()  # which asks all members for their tags
        for stem, members in zip(stems, levels[-len(stems) :], strict=True):
            for member in members:
                names += [f"{stem}_{member.name}{place if n_columns > 1 else ''}" for place in range(n_columns)]
        return names

    def _n_meta(self) -> int:
        return n_columns(self.classes_) if is_classifier(self) else 1

    # Members --------------------------------------------------

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted models by name; a list of them where the folds' models are kept."""
        self._check_fitted()
        members = [member for level in self._fitted_levels for member in level]
        return Bunch(**{member.name: member.kept for member in members})

    @property
    def estimators_(self) -> list[Any]:
        """The fitted models, in the order of the members."""
        return list(self.named_estimators_.values())

    # Saving --------------------------------------------------

    def _level_arrays(self) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {"n_levels": np.array(len(self._fitted_levels))}
        for depth, members in enumerate(self._fitted_levels):
            found |= members_to_arrays(f"level{depth}.", members)
        return found

    def _restore_levels(self, arrays: dict[str, np.ndarray]) -> None:
        classes = getattr(self, "classes_", None)
        n_levels = int(arrays["n_levels"])
        if n_levels < 1:
            raise ValueError("it must have at least one level")
        self._fitted_levels = [members_from_arrays(f"level{depth}.", arrays, classes) for depth in range(n_levels)]
