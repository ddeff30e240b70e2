"""Prior probabilities that a node of a tree splits, before the targets are seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fastens.posterior.prunings import depths

if TYPE_CHECKING:
    from fastens.engine.trees.trees import SearchedTree, Tree

Array = NDArray[np.float64]
SEARCH, STRICT, FEATURES = "search", "strict", "features"
# Sets of more categories than this and one are as good as infinitely many.
_MOST_BITS = 1000.0


class SearchCost(Protocol):
    """How many splits nodes chose from."""

    @property
    def odds(self) -> float:
        """The odds of "search" are these to the number of splits."""
        ...

    @property
    def n_features(self) -> int:
        """How many features can be split at all, at least 1."""
        ...

    def n_splits(self, tree: Tree) -> Array:
        """One over the prior probability of the split of each node, (n_nodes,), any of those looked at being as likely.

        Values at leaves are ignored.
        """
        ...


@dataclass(frozen=True)
class NodeSearch:
    """The number of splits that each node chose from, counted as the tree grew."""

    of_node: Array
    n_features: int  # that can be split at all, at least 1
    # Chosen on the 67 tables of choice: see docs/measured/posterior.md.
    odds: ClassVar[float] = 5.0

    def n_splits(self, tree: Tree) -> Array:
        """As for `SearchCost`."""
        return self.of_node


def n_splits_of(
    tree: SearchedTree, n_features: int, features_per_split: int | None, *, random_thresholds: bool
) -> Array:
    """How many splits the nodes of a tree chose from, (n_nodes,); 1 at leaves.

    g different values in a node have g - 1 thresholds between them; g categories can be parted in 2^(g - 1) - 1 ways.
    """
    looked_at = n_features if features_per_split is None else min(features_per_split, n_features)
    n_usable = np.clip(tree.n_usable, 1, looked_at).astype(np.float64)
    if random_thresholds:
        return n_usable
    n_places = np.maximum(tree.n_groups - 1.0, 1.0)
    return n_usable * _n_ways(n_places, tree)


def _n_ways(n_places: Array, tree: Tree) -> Array:
    """How many splits a feature has, by its thresholds; of categories, one less than there are."""
    n_sets = np.exp2(np.minimum(n_places, _MOST_BITS)) - 1.0
    return np.where(tree.category_set >= 0, n_sets, n_places)


@dataclass(frozen=True)
class TableSearch:
    """The number of splits that nodes choose from, by the thresholds of the table."""

    n_thresholds: Array  # of each feature; of categories, one less than there are
    features_per_split: int | None  # None for all
    random_thresholds: bool  # one of each feature, drawn at random
    odds: ClassVar[float] = 6.0

    @property
    def n_features(self) -> int:
        """How many features can be split at all, at least 1."""
        return n_splittable(self.n_thresholds)

    def n_splits(self, tree: Tree) -> Array:
        """As for `SearchCost`: n rows have at most n - 1 thresholds between them, and are of at most n categories."""
        looked_at = self.n_features if self.features_per_split is None else self.features_per_split
        most = min(looked_at, self.n_features)
        if self.random_thresholds:
            return np.full(tree.n_nodes, float(most))
        n_places = np.maximum(np.minimum(self.n_thresholds[tree.feature], tree.weight - 1.0), 1.0)
        return most * _n_ways(n_places, tree)


def thresholds_of_features(n_codes: NDArray[Any]) -> Array:
    """The numbers of thresholds of features: these have a code for missing values and one for each part or category."""
    return np.maximum(np.asarray(n_codes, dtype=np.float64) - 2, 0.0)


def n_splittable(n_thresholds: Array) -> int:
    """How many features can be split at all, at least 1."""
    return max(1, int(np.count_nonzero(n_thresholds > 0)))


def split_probability(prior: Any, tree: Tree, cost: SearchCost) -> Array | float:
    """The prior probability that nodes split.

    Parameters
    ----------
    prior : float, pair or str
        A number g: g for all. A pair (a, b): a (1 + depth)^-b (Chipman, George & McCulloch 1998). "features": 1 / (2 F)
        for F features. "strict": 1 / (2 M) where a node chose from M splits, which is the prior probability of the one
        it has; "search": its odds are 5 to M (6 where M is of the table), as many of them are nearly the same.
    tree : Tree
        The tree.
    cost : SearchCost
        What M is.

    Returns
    -------
    float64 array of shape (n_nodes,), or a number where it is the same for all

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.forest.forests import ForestGrower, TreeRules, TreeSample, class_target
    >>> from fastens.posterior.split_priors import TableSearch, split_probability, thresholds_of_features
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> grower = ForestGrower(learn_binning(X).transform(X), class_target([0, 0, 1, 1, 1], [2]), TreeRules())
    >>> [tree] = grower.grow([TreeSample(None, None, 0)])
    >>> cost = TableSearch(thresholds_of_features(np.array([6])), None, random_thresholds=False)
    >>> float(split_probability("strict", tree, cost)[0])
    0.125
    """
    if prior == FEATURES:
        return 0.5 / cost.n_features
    if prior in (SEARCH, STRICT):
        n_splits = cost.n_splits(tree)
        return 0.5 / n_splits if prior == STRICT else cost.odds / (cost.odds + n_splits)
    if isinstance(prior, tuple | list):
        return prior[0] * (1.0 + depths(tree.left_child)) ** -prior[1]
    return float(prior)
