"""Targets of trees: leaf values, and the predictions, losses and scores that follow from mean leaf values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, max_floats
from fastens.engine.forest.forests import Target, class_target, number_target
from fastens.table.labels import columns_of_labels

Array = NDArray[np.float64]
Values = NDArray[np.floating]
Loss = Callable[[Array, Array], Array]


class ClassTargets(NamedTuple):
    """Classification targets.

    For each target, a leaf stores the probability of the second class if there are two classes, and of each class if
    there are more. A target with a single class is stored as the probability of a second class, which is 0.
    """

    classes: Any  # sorted labels; with several targets, a list of arrays
    has_all: bool = False  # True for models of other libraries: all classes have a value, which is not normalised

    @property
    def of_targets(self) -> list[NDArray[Any]]:
        """Labels of each target."""
        return self.classes if isinstance(self.classes, list) else [self.classes]

    @property
    def counts(self) -> list[int]:
        """Number of classes of each target."""
        return [len(classes) for classes in self.of_targets]

    @property
    def widths(self) -> list[int]:
        """Number of leaf values of each target."""
        return [1 if count < 3 and not self.has_all else count for count in self.counts]

    @property
    def n_values(self) -> int:
        """Number of values in a leaf."""
        return sum(self.widths)

    def of_leaves(self, grown: Values) -> Values:
        """Convert leaf values from the engine's layout, which has one value for up to two classes."""
        if not self.has_all:
            return grown
        parts = np.split(grown, np.cumsum(self._replace(has_all=False).widths)[:-1], axis=1)
        pairs = zip(parts, self.counts, strict=True)
        return np.hstack([part if count > 2 else _shares(part)[:, :count] for part, count in pairs])

    def to_grow(self, y: Array, comm: Comm = LOCAL) -> Target:
        """Return the targets in the form that the engine grows trees on."""
        return class_target(y, [max(count, 2) for count in self.counts])

    def by_target(self, mean: Values) -> list[Values]:
        """Split leaf values by target."""
        return np.split(mean, np.cumsum(self.widths)[:-1], axis=1) if isinstance(self.classes, list) else [mean]

    def answers(self, mean: Values) -> Array:
        """Return the index of the most probable class, (n_samples, n_targets)."""
        pairs = zip(self.by_target(mean), self.counts, strict=True)
        return np.column_stack([_most_probable(part, count) for part, count in pairs]).astype(np.float64)

    def decoded(self, answers: Array) -> NDArray[Any]:
        """Convert class indices to labels."""
        index = answers.astype(np.intp)
        if not isinstance(self.classes, list):
            return self.classes[index[:, 0]]
        return columns_of_labels(classes[k] for classes, k in zip(self.classes, index.T, strict=True))

    def probabilities(self, mean: Values) -> Any:
        """Return class probabilities; with several targets, a list of arrays."""
        parts = self.parts(mean)
        return parts if isinstance(self.classes, list) else parts[0]

    def parts(self, mean: Values) -> list[Any]:
        """Return the class probabilities of each target."""
        parts = self.by_target(mean)
        if self.has_all:
            return parts
        return [_shares(part)[:, :count] for part, count in zip(parts, self.counts, strict=True)]

    def votes(self, value: Values) -> Values:
        """Convert leaf values to votes: 1 for the most probable class, the first one in a tie, and 0 otherwise."""
        parts = []
        for part, answer in zip(self.by_target(value), self.answers(value).T, strict=True):
            classes = np.arange(part.shape[1]) if part.shape[1] > 1 else np.ones(1)
            parts.append(answer[:, None] == classes)
        return np.concatenate(parts, axis=1).astype(value.dtype)

    def losses(self, answers: Array, y: Array) -> Array:
        """Return the fraction of targets that are predicted wrongly, for each row."""
        return (answers != y).mean(axis=1)

    def score_loss(self, y: Array, weight: Array) -> Loss:
        """Return a function of answers and targets whose mean is 1 - score."""
        return lambda answers, y: (answers != y).any(axis=1)


class NumberTargets(NamedTuple):
    """Regression targets: a leaf stores one number for each target."""

    n_values: int
    dtype: Any = np.float32  # dtype of the leaf values

    def of_leaves(self, grown: Values) -> Values:
        """Return leaf values unchanged; see `ClassTargets.of_leaves`."""
        return grown

    def to_grow(self, y: Array, comm: Comm = LOCAL) -> Target:
        """Return the targets in the form that the engine grows trees on."""
        return number_target(y, self.dtype, comm)

    def answers(self, mean: Values) -> Values:
        """Return the predicted numbers, (n_samples, n_targets)."""
        return mean

    def decoded(self, answers: Values) -> Values:
        """Return the predicted numbers in the shape of y."""
        return answers[:, 0] if self.n_values == 1 else answers

    def parts(self, mean: Values) -> list[Values]:
        """Return the predicted numbers as a list of one array."""
        return [self.decoded(mean)]

    def losses(self, answers: Array, y: Array) -> Array:
        """Return the squared error of each row, averaged over the targets."""
        return ((answers - y) ** 2).mean(axis=1)

    def score_loss(self, y: Array, weight: Array) -> Loss:
        """Return a function of answers and targets whose mean is 1 - score."""
        variance = np.average((y - np.average(y, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
        variance[variance == 0] = 1.0
        return lambda answers, y: ((answers - y) ** 2 / variance).mean(axis=1)


def check_counts(y: Array, comm: Comm = LOCAL, *, needs_some: bool = True) -> Array:
    """Return targets for criterion="poisson"; raise ValueError if one is negative or if they need a positive sum."""
    minus_lowest, *largest = max_floats(comm, -y.min(initial=np.inf), *np.atleast_1d(y.max(axis=0, initial=-np.inf)))
    lowest, smallest_sum = -minus_lowest, min(largest)  # a sum of non-negative numbers is positive if its maximum is
    if lowest < 0 or (needs_some and smallest_sum <= 0):
        raise ValueError(
            "y must be non-negative with criterion='poisson', and its sum positive; "
            f"got {'a value' if lowest < 0 else 'a sum'} of {lowest if lowest < 0 else smallest_sum}."
        )
    return y


def _most_probable(values: Values, n_classes: int) -> NDArray[Any]:
    """Return the index of the most probable class, the first one in a tie."""
    return (values[:, 0] > 0.5) & (n_classes > 1) if values.shape[1] == 1 else values.argmax(axis=1)


def _shares(values: Values) -> Array:
    """Return the probabilities of all classes from the probability of the second class, or normalise all of them."""
    if values.shape[1] > 1:
        return values / values.sum(axis=1, keepdims=True, dtype=np.float64)
    shares = np.empty((len(values), 2))
    shares[:, 1] = values[:, 0]
    np.subtract(1.0, shares[:, 1], out=shares[:, 0])
    return shares
