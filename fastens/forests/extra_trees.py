"""Extremely randomised trees: forests with random thresholds (Geurts, Ernst & Wehenkel 2006)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastens.forests.forest_classifier import ForestClassifier
from fastens.forests.forest_regressor import ForestRegressor


class ExtraTreesClassifier(ForestClassifier):
    """Extremely randomised trees for classification.

    For each split a few features are drawn at random, and a threshold at random for each of them; the best of these is
    taken. The trees are grown on all rows, and their class shares are averaged.

    A threshold is drawn uniformly between the smallest and the largest value that the feature has in the node, and cuts
    half-way between the two neighbouring values of the training rows; where a feature has more than `max_bins` values,
    between the two neighbouring bins. Infinite values count as the largest finite numbers.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Geurts, Ernst & Wehenkel (2006), "Extremely randomized trees".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import ExtraTreesClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ExtraTreesClassifier(random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = "sqrt",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        max_features_per_tree: int | float | str | None = None,
        bootstrap: bool | str = False,
        max_samples: int | float | None = None,
        oob_score: bool | Callable[..., float] = False,
        warm_start: bool = False,
        voting: str = "soft",
        class_weight: Any = None,
        averaging: Any = None,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        feature_weights: Any = None,
        categorical_features: Any = "from_dtype",
        categorical_encoding: str = "auto",
        categorical_missing: str = "missing",
        max_bins: int = 255,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def _has_random_thresholds(self) -> bool:
        return True


class ExtraTreesRegressor(ForestRegressor):
    """Extremely randomised trees for regression.

    For each split a threshold is drawn at random for each of the features, or for some drawn at random; the best of
    these is taken. The trees are grown on all rows, and their predictions are averaged.

    A threshold is drawn uniformly between the smallest and the largest value that the feature has in the node, and cuts
    half-way between the two neighbouring values of the training rows; where a feature has more than `max_bins` values,
    between the two neighbouring bins. Infinite values count as the largest finite numbers.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Geurts, Ernst & Wehenkel (2006), "Extremely randomized trees".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import ExtraTreesRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ExtraTreesRegressor(random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.3
    True
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = 1.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        max_features_per_tree: int | float | str | None = None,
        bootstrap: bool = False,
        max_samples: int | float | None = None,
        oob_score: bool | Callable[..., float] = False,
        warm_start: bool = False,
        keep_leaves: bool = False,
        averaging: Any = None,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        feature_weights: Any = None,
        categorical_features: Any = "from_dtype",
        categorical_encoding: str = "auto",
        categorical_missing: str = "missing",
        max_bins: int = 255,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def _has_random_thresholds(self) -> bool:
        return True
