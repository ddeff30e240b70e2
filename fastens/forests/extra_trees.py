"""Extremely randomised trees: forests with random thresholds (Geurts, Ernst & Wehenkel 2006)."""

from __future__ import annotations

from typing import Any

from fastens.checked_parameters import with_parameters
from fastens.forests.forest_classifier import STRATIFIED, RandomForestClassifier
from fastens.forests.forest_regressor import RandomForestRegressor
from fastens.parameters import FLAG, parameter


@with_parameters
class ExtraTreesClassifier(RandomForestClassifier):
    """Extremely randomised trees for classification.

    For each split a few features are drawn at random, and a threshold at random for each of them; the best of these is
    taken. The trees are grown on all rows, and their class shares are averaged.

    A threshold is drawn uniformly between the smallest and the largest value that the feature has in the node, and cuts
    half-way between the two neighbouring values of the training rows; where a feature has more than `max_bins` values,
    between the two neighbouring bins. Infinite values count as the largest finite numbers.

    {parameters and attributes}

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

    bootstrap: Any = parameter(STRATIFIED, default=False)

    _has_random_thresholds = True


@with_parameters
class ExtraTreesRegressor(RandomForestRegressor):
    """Extremely randomised trees for regression.

    For each split a threshold is drawn at random for each of the features, or for some drawn at random; the best of
    these is taken. The trees are grown on all rows, and their predictions are averaged.

    A threshold is drawn uniformly between the smallest and the largest value that the feature has in the node, and cuts
    half-way between the two neighbouring values of the training rows; where a feature has more than `max_bins` values,
    between the two neighbouring bins. Infinite values count as the largest finite numbers.

    {parameters and attributes}

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

    bootstrap: Any = parameter(FLAG, default=False)

    _has_random_thresholds = True
