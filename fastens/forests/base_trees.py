"""What single trees and forests share: the rules of growing, the targets, and predictions from mean leaf values."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.utils import check_random_state

from fastens.base import BaseClassifier, BaseRegressor, TrainingData
from fastens.engine.forest.forests import Target, TreeRules, class_target, number_target
from fastens.engine.grow.constraints import count_of
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.paths import decision_path
from fastens.forests.docstrings import CLASS_PARAMETERS, NUMBER_PARAMETERS, PARAMETERS, Docs, document
from fastens.parameters import ANYTHING, NONE, Rule, instance, one_of, real, whole
from fastens.tree_model.column_rules import CONSTRAINTS, column_chances, monotone_columns, path_rules
from fastens.tree_model.permutation import growth_of_row_losses
from fastens.tree_model.tree_model import TreeModel

Array = NDArray[np.float64]
Loss = Callable[[Array, Array], Array]

_PART = real(0, 1, open_low=True)
SHARE = Rule(
    "a share above 0 and at most 1", lambda value: not isinstance(value, numbers.Integral) and _PART.holds(value)
)

RULES: dict[str, Rule] = {
    "max_depth": whole(1) | NONE,
    "max_leaf_nodes": whole(2) | NONE,
    "min_samples_split": whole(2) | SHARE,
    "min_samples_leaf": whole(1) | real(0, 1, open_low=True, open_high=True),
    "min_weight_fraction_leaf": real(0, 0.5),
    "min_impurity_decrease": real(0),
    "max_features": whole(1) | SHARE | one_of("sqrt", "log2", None),
    "ccp_alpha": real(0),
    **CONSTRAINTS,
    "feature_weights": ANYTHING,
    "max_bins": whole(2, 65_535),
    "categorical_features": ANYTHING,
    "categorical_encoding": one_of("auto", "partition", "target", "ordered"),
    "categorical_missing": one_of("missing", "category"),
    "random_state": whole(0, 2**32 - 1) | instance(np.random.RandomState, "a numpy.random.RandomState") | NONE,
    "n_jobs": ANYTHING,
}
CLASS_RULES = {"criterion": one_of("gini", "entropy", "log_loss"), "class_weight": ANYTHING}
NUMBER_RULES = {"criterion": one_of("squared_error", "absolute_error", "poisson")}


class BaseTrees(TreeModel):
    """Trees whose mean is the prediction: one of them, or a forest."""

    _takes_several_targets = True
    _parameter_docs: ClassVar[Docs] = PARAMETERS
    _combination: ClassVar[str] = "mean"
    feature_names_in_: NDArray[Any]
    _n_targets: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Fill in what the docstrings of all trees and forests share."""
        super().__init_subclass__(**kwargs)
        document(cls, cls._parameter_docs)

    # Fit --------------------------------------------------

    def _target(self, y: NDArray[np.float64]) -> Target:
        raise NotImplementedError

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _tree_rules(self, n_rows: int, total_weight: float) -> TreeRules:
        return TreeRules(
            criterion=self.criterion,
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_split=max(2, _count(self.min_samples_split, n_rows)),
            min_samples_leaf=_count(self.min_samples_leaf, n_rows),
            min_weight_leaf=self.min_weight_fraction_leaf * total_weight,
            min_impurity_decrease=self.min_impurity_decrease,
            features_per_split=self._features_per_split(),
            random_thresholds=self._has_random_thresholds(),
            monotone=self._monotonic(),
            feature_weights=column_chances(self),
            **path_rules(self),
        )

    def _has_random_thresholds(self) -> bool:
        raise NotImplementedError

    def _features_per_split(self) -> int | None:
        n_features = len(self._column_of)
        count = count_of(self.max_features, n_features)
        return None if count == n_features else count

    def _monotonic(self) -> NDArray[np.int8] | None:
        """For each feature, whether the prediction must not fall (1) or rise (-1) with it; None for no such feature."""
        signs = monotone_columns(self)
        if signs is not None and self._n_outputs() > 1:
            raise ValueError(f"monotonic_cst must be None with several targets; got {self.monotonic_cst!r}.")
        return signs

    # Predict --------------------------------------------------

    def _mean(self, X: Any) -> Array:
        """The mean over the trees of the leaves' values, (n_samples, n_values)."""
        raw = self._raw(X)
        raw /= self._ensemble.n_trees
        return raw

    def _answers(self, mean: Array) -> Array:
        """What is predicted, given mean values: the number, or the index of the class, (n_samples, n_targets)."""
        raise NotImplementedError

    def _paths(self, X: Any) -> tuple[csr_matrix, NDArray[np.int64]]:
        """The nodes that each row visits, counted over all trees, and where the trees' nodes begin."""
        return decision_path(self._ensemble, self._check_table(X), resolve_n_jobs(self.n_jobs))

    def _contribution_scale(self) -> float:
        return 1 / self._ensemble.n_trees

    def _growth_of_loss(self, data: TrainingData, weight: Array, shuffles: list[NDArray[np.uint32]]) -> Array:
        return growth_of_row_losses(self, data, weight, shuffles)

    @property
    def feature_importances_(self) -> Array:
        """Share of each feature in the decrease of impurity, the mean over the trees, shape (n_features,)."""
        self._check_fitted()
        trees, n_features = self._ensemble, self.n_features_in_
        tree = np.repeat(np.arange(trees.n_trees), np.diff(trees.node_offsets))
        inner = trees.feature >= 0
        cell = tree[inner] * n_features + self._column_of[trees.feature[inner]]
        gain = np.zeros((trees.n_trees, n_features))
        np.add.at(gain.ravel(), cell, trees.gain[inner])
        total = gain.sum(axis=1, keepdims=True)
        share = np.divide(gain, total, out=np.zeros_like(gain), where=total > 0).mean(axis=0)
        return share / share.sum() if share.any() else share

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        self._check_fitted()
        return self._n_targets

    def _fitted_names(self) -> tuple[str, ...]:
        return ("_n_targets",)


class TreesClassifier(BaseClassifier):
    """Trees whose values are shares of classes: for each target the share of the second of two, or one of each."""

    _n_targets: int
    _has_class_shares: ClassVar[bool] = True
    _parameter_docs: ClassVar[Docs] = CLASS_PARAMETERS

    @property
    def n_classes_(self) -> Any:
        """Number of classes; a list with several targets."""
        self._check_fitted()
        counts = [len(classes) for classes in self._classes_of_targets()]
        return counts if isinstance(self.classes_, list) else counts[0]

    def _classes_of_targets(self) -> list[NDArray[Any]]:
        return self.classes_ if isinstance(self.classes_, list) else [self.classes_]

    def _widths(self) -> list[int]:
        """How many values each target has."""
        return [1 if len(classes) == 2 else len(classes) for classes in self._classes_of_targets()]

    def _n_outputs(self) -> int:
        return sum(self._widths())

    def _target(self, y: NDArray[np.float64]) -> Target:
        return class_target(y, [len(classes) for classes in self._classes_of_targets()])

    def _by_target(self, mean: NDArray[np.floating]) -> list[NDArray[np.floating]]:
        widths = self._widths()
        return [mean] if len(widths) == 1 else np.split(mean, np.cumsum(widths)[:-1], axis=1)

    def _answers(self, mean: NDArray[np.floating]) -> Array:
        return np.column_stack(
            [part[:, 0] > 0.5 if part.shape[1] == 1 else part.argmax(axis=1) for part in self._by_target(mean)]
        ).astype(np.float64)

    def _labels(self, answers: Array) -> NDArray[Any]:
        index = answers.astype(np.intp)
        if not isinstance(self.classes_, list):
            return self.classes_[index[:, 0]]
        return np.column_stack([classes[k] for classes, k in zip(self.classes_, index.T, strict=True)])

    def _as_given(self, answers: Array) -> NDArray[Any]:
        return self._labels(answers)

    def _losses(self, answers: Array, y: Array) -> Array:
        """The share of targets that are wrong, for each row."""
        return (answers != y).mean(axis=1)

    def _score_loss(self, y: Array, weight: Array) -> Loss:
        """A function of answers and targets whose mean is 1 - score."""
        return lambda answers, y: (answers != y).any(axis=1)

    def _probabilities(self, mean: NDArray[np.floating]) -> Any:
        found = [_shares(part) for part in self._by_target(mean)]
        return found if isinstance(self.classes_, list) else found[0]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row, the first of equals: (n_samples,) or (n_samples, n_targets)."""
        return self._labels(self._answers(self._mean(X)))

    def predict_proba(self, X: ArrayLike) -> Any:
        """Return the probability of each class, (n_samples, n_classes); a list of such with several targets."""
        return self._probabilities(self._mean(X))

    def predict_log_proba(self, X: ArrayLike) -> Any:
        """Return the logarithm of each class's probability, as `predict_proba` has them."""
        proba = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            return [np.log(part) for part in proba] if isinstance(proba, list) else np.log(proba)


class TreesRegressor(BaseRegressor):
    """Trees whose values are numbers, one for each target."""

    _n_targets: int
    _parameter_docs: ClassVar[Docs] = NUMBER_PARAMETERS
    _value_dtype: ClassVar[type[np.floating[Any]]] = np.float32

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.criterion == "poisson"
        return tags

    def _encode_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        y = super()._encode_target(y)
        if self.criterion == "poisson":
            sums = y.sum(axis=0)
            if y.min() < 0 or np.min(sums) <= 0:
                found = y.min() if y.min() < 0 else np.min(sums)
                raise ValueError(
                    "y must be non-negative with criterion='poisson', and its sum positive; "
                    f"got {'a value' if y.min() < 0 else 'a sum'} of {found}."
                )
        return y

    def _n_outputs(self) -> int:
        return self._n_targets

    def _target(self, y: NDArray[np.float64]) -> Target:
        return number_target(y, self._value_dtype)

    def _answers(self, mean: Array) -> Array:
        return mean

    def _losses(self, answers: Array, y: Array) -> Array:
        """The squared error of each row, the mean over the targets."""
        return ((answers - y) ** 2).mean(axis=1)

    def _score_loss(self, y: Array, weight: Array) -> Loss:
        """A function of answers and targets whose mean is 1 - score."""
        variance = np.average((y - np.average(y, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
        variance[variance == 0] = 1.0
        return lambda answers, y: ((answers - y) ** 2 / variance).mean(axis=1)

    def _as_given(self, answers: Array) -> NDArray[np.floating]:
        return self._numbers(answers)

    def _numbers(self, mean: NDArray[np.floating]) -> NDArray[np.floating]:
        return mean[:, 0] if self._n_targets == 1 else mean

    def predict(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the predicted number of each row, (n_samples,) or (n_samples, n_targets)."""
        return self._numbers(self._mean(X))


def _count(wanted: Any, n_rows: int) -> int:
    """A number of rows, or the number that a share of them is."""
    return int(wanted) if isinstance(wanted, numbers.Integral) else max(1, math.ceil(wanted * n_rows))


def _shares(values: NDArray[np.floating]) -> Array:
    """Shares of all classes from that of the second, or from those of all, which sum to 1 but for rounding."""
    if values.shape[1] > 1:
        return values / values.sum(axis=1, keepdims=True, dtype=np.float64)
    shares = np.empty((len(values), 2))
    shares[:, 1] = values[:, 0]
    np.subtract(1.0, shares[:, 1], out=shares[:, 0])
    return shares
