"""Random forests: trees on bootstrap samples that look at few features for each split (Breiman 2001)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastens.forests.forest_classifier import ForestClassifier
from fastens.forests.forest_regressor import ForestRegressor


class RandomForestClassifier(ForestClassifier):
    """A random forest for classification.

    Each tree is grown on a bootstrap sample of the rows, and looks for each split at a few features drawn at random.
    The trees' class shares are averaged.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Breiman (2001), "Random forests".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(oob_score=True, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    >>> model.oob_score_ > 0.9
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
        bootstrap: bool | str = True,
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


class RandomForestRegressor(ForestRegressor):
    """A random forest for regression.

    Each tree is grown on a bootstrap sample of the rows, and may look for each split at some of the features, drawn at
    random. The trees' predictions are averaged.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Breiman (2001), "Random forests".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RandomForestRegressor(oob_score=True, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.3
    True
    >>> model.oob_score_ > 0.3
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
        bootstrap: bool = True,
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
