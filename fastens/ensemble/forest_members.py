"""The trees of a forest as estimators of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from fastens.engine.trees import TreeEnsemble
from fastens.ensemble.tree import DecisionTreeClassifier, DecisionTreeRegressor

if TYPE_CHECKING:
    from fastens.ensemble.base_forest import BaseForest

_LEARNED = (
    "n_features_in_",
    "feature_names_in_",
    "classes_",
    "_encoder",
    "_statistics",
    "_n_plain_features",
    "_n_targets",
)


class Members(Sequence[Any]):
    """The trees of a forest, each made when asked for; they share the forest's memory.

    Parameters
    ----------
    forest : fitted forest
        The forest.
    """

    def __init__(self, forest: BaseForest) -> None:
        self._forest = forest

    def __len__(self) -> int:
        return self._forest._ensemble.n_trees

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        places = range(len(self))[index]
        return [self._member(t) for t in places] if isinstance(places, range) else self._member(places)

    def _member(self, t: int) -> Any:
        forest = self._forest
        kind: Any = DecisionTreeClassifier if hasattr(forest, "classes_") else DecisionTreeRegressor
        given = forest.get_params(deep=False) | {"splitter": "random" if forest._has_random_thresholds() else "best"}
        member = kind(**{name: given[name] for name in kind().get_params() if name in given})
        vars(member).update({name: vars(forest)[name] for name in _LEARNED if name in vars(forest)})
        ensemble = forest._ensemble
        member._ensemble = TreeEnsemble.from_trees([ensemble.tree(t)], [0], ensemble.baseline, ensemble.binning)
        return member
