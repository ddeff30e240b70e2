"""Types of parameters that several public signatures share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
# Columns by names, positions or a mask, or a word such as "from_dtype".
ColumnChoice: TypeAlias = str | Sequence[Any] | NDArray[Any] | None
# Groups of columns that may appear together, or a word such as "pairwise".
ColumnGroups: TypeAlias = str | Iterable[Iterable[Hashable]] | None
# A value for each column, in order or by name.
PerColumn: TypeAlias = ArrayLike | Mapping[Any, float] | None
ClassWeight: TypeAlias = str | Mapping[Any, float] | Sequence[Mapping[Any, float]] | None
LearningRate: TypeAlias = float | Sequence[float] | NDArray[np.float64] | Callable[[int], float]
Metric: TypeAlias = str | Callable[..., Any]
Callbacks: TypeAlias = Sequence[Callable[..., Any]] | None
Coverage: TypeAlias = float | Sequence[float]
# Rows drawn for each member: all, by class, the ratio of the classes, or the number of draws of each class.
Drawing: TypeAlias = bool | str | float | Mapping[Any, float]
# Edges of a network: the parents of each child, or pairs (parent, child).
Edges: TypeAlias = Mapping[Any, Iterable[Any]] | Sequence[tuple[Any, Any]] | None
SplitPrior: TypeAlias = str | float | tuple[float, float]


class Splitter(Protocol):
    """An object of scikit-learn that splits rows, such as ``KFold(5)``."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterable[tuple[Any, Any]]:
        """Yield the row indices of the training set and of the test set of each fold."""


Folds: TypeAlias = int | str | Splitter | Iterable[tuple[Any, Any]] | None


class LossObject(Protocol):
    """An object that computes the derivatives of a loss."""

    def derivatives(self, y: Any, raw: Any) -> tuple[Any, Any]:
        """Return the gradient and the hessian of the loss of each row with respect to its raw predictions."""


LossChoice: TypeAlias = str | Callable[..., Any] | LossObject
# One column, a pair of columns, or a list of either.
ColumnPair: TypeAlias = int | str | Sequence[Any] | None
