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


@dataclass(frozen=True)
class SearchCost:
    """How many splits a node chose from.

    Attributes
    ----------
    n_thresholds : float64 array of shape (n_features,)
        Of each feature that has any, how many there are, ascending.
    features_per_split : int or None
        How many features a node looked at; None for all.
    random_thresholds : bool
        One threshold of each feature, drawn at random.
    """

    n_thresholds: Array
    features_per_split: int | None
    random_thresholds: bool

    def n_splits(self, weight: Array) -> Array:
        """The number of splits of nodes by their weights: of n rows a feature parts at most n - 1 ways. At least 1."""
        n_features = max(len(self.n_thresholds), 1)
        share = 1.0 if self.features_per_split is None else min(1.0, self.features_per_split / n_features)
        if self.random_thresholds:
            return np.full(len(weight), max(1.0, share * n_features))
        most = weight - 1.0
        place = np.searchsorted(self.n_thresholds, most)
        below = np.append(0.0, np.cumsum(self.n_thresholds))
        return np.maximum(1.0, share * (below[place] + (len(self.n_thresholds) - place) * most))


def thresholds_of_features(n_codes: NDArray[Any]) -> Array:
    """The numbers of thresholds, ascending, of features that have any.

    A feature has a code for missing values and one for each interval or category.
    """
    n_thresholds = np.sort(np.asarray(n_codes, dtype=np.float64) - 2)
    return n_thresholds[n_thresholds > 0]


def split_probability(prior: Any, left_child: NDArray[np.int32], weight: Array, cost: SearchCost) -> Array | float:
    """The prior probability that nodes split.

    Parameters
    ----------
    prior : float, pair or str
        A number g: g for all. A pair (a, b): a (1 + depth)^-b (Chipman, George & McCulloch 1998). "features": 1 / (2 F)
        for F features. "strict": 1 / (2 M) where a node chose from M splits, which is the prior probability of the one
        it has; "search": 1 / (2 sqrt M).
    left_child, weight : arrays of shape (n_nodes,)
        Of the nodes.
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
    >>> split_probability("strict", np.array([1, 0, 0], np.int32), np.array([1000.0, 4.0, 996.0]), cost)[:2]
    array([0.0049505, 0.125    ])
    """
    if prior == FEATURES:
        return 0.5 / max(len(cost.n_thresholds), 1)
    if prior in (SEARCH, STRICT):
        n_splits = cost.n_splits(weight)
        return 0.5 / (np.sqrt(n_splits) if prior == SEARCH else n_splits)
    if isinstance(prior, tuple | list):
        return prior[0] * (1.0 + depths(left_child)) ** -prior[1]
    return float(prior)
