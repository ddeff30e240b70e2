"""Prior probabilities that a node of a tree splits, before the targets are seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.prunings import depths

Array = NDArray[np.float64]
SEARCH, STRICT, FEATURES = "search", "strict", "features"
NAMES = (SEARCH, STRICT, FEATURES)
# Of 1/2, 0.65, 0.8 and 1, about 0.65 had the least mean log loss and the best mean rank on the 16 tables of choice: see
# docs/posterior.md.
SEARCH_POWER = 2 / 3


@dataclass(frozen=True)
class SearchCost:
    """How many splits a node chose from.

    Attributes
    ----------
    n_thresholds : float64 array of shape (n_features,)
        How many thresholds each feature has; of categories, one less than there are.
    features_per_split : int or None
        How many features a node looked at; None for all.
    random_thresholds : bool
        One threshold of each feature, drawn at random.
    """

    n_thresholds: Array
    features_per_split: int | None
    random_thresholds: bool

    @property
    def n_features(self) -> int:
        """How many features can be split at all, at least 1."""
        return max(1, int(np.count_nonzero(self.n_thresholds > 0)))

    def n_splits(self, weight: NDArray[Any], feature: NDArray[np.int32]) -> Array:
        """One over the prior probability of the split of a node: any feature, and any of its thresholds, is as likely.

        Parameters
        ----------
        weight : array of shape (n_nodes,)
            Of the node: n rows have at most n - 1 thresholds between them.
        feature : int32 array of shape (n_nodes,)
            That the node splits on.
        """
        looked_at = self.n_features if self.features_per_split is None else self.features_per_split
        most = min(looked_at, self.n_features)
        if self.random_thresholds:
            return np.full(len(weight), float(most))
        return most * np.maximum(np.minimum(self.n_thresholds[feature], weight - 1.0), 1.0)


def thresholds_of_features(n_codes: NDArray[Any]) -> Array:
    """The numbers of thresholds of features: these have a code for missing values and one for each part or category."""
    return np.maximum(np.asarray(n_codes, dtype=np.float64) - 2, 0.0)


def split_probability(
    prior: Any, left_child: NDArray[np.int32], feature: NDArray[np.int32], weight: NDArray[Any], cost: SearchCost
) -> Array | float:
    """The prior probability that nodes split.

    Parameters
    ----------
    prior : float, pair or str
        A number g: g for all. A pair (a, b): a (1 + depth)^-b (Chipman, George & McCulloch 1998). "features": 1 / (2 F)
        for F features. "strict": 1 / (2 M) where a node chose from M splits, which is the prior probability of the one
        it has; "search": 1 / (2 M^(2/3)), as many of them are nearly the same.
    left_child, feature, weight : arrays of shape (n_nodes,)
        Of the tree.
    cost : SearchCost
        What M is.

    Returns
    -------
    float64 array of shape (n_nodes,), or a number where it is the same for all

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.split_priors import SearchCost, split_probability, thresholds_of_features
    >>> cost = SearchCost(thresholds_of_features(np.array([3, 102])), None, random_thresholds=False)
    >>> left_child, feature = np.array([1, 0, 0], np.int32), np.array([1, -1, -1], np.int32)
    >>> float(split_probability("strict", left_child, feature, np.array([1000.0, 4.0, 996.0]), cost)[0])
    0.0025
    """
    if prior == FEATURES:
        return 0.5 / cost.n_features
    if prior in (SEARCH, STRICT):
        n_splits = cost.n_splits(weight, feature)
        return 0.5 / (n_splits if prior == STRICT else n_splits**SEARCH_POWER)
    if isinstance(prior, tuple | list):
        return prior[0] * (1.0 + depths(left_child)) ** -prior[1]
    return float(prior)
