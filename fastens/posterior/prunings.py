"""The posterior over all prunings of a tree, by the context-tree recursion (Willems, Shtarkov & Tjalkens 1995).

A pruning makes leaves of some nodes. Its prior: each node that is reached splits with a probability of its own; its
likelihood: the evidence of the rows in its leaves. Sums over all prunings take one pass over the
nodes (Buntine 1992; Helmbold & Schapire 1997).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.cached import cached_property
from fastens.engine.elementary import log, log1p
from fastens.posterior import pruning_passes as kernel

Array = NDArray[np.float64]


class Prunings:
    """The posterior over the prunings of one tree.

    Parameters
    ----------
    left_child : int32 array of shape (n_nodes,)
        Of the tree; 0 at a leaf.
    log_evidence : float64 array of shape (n_nodes,)
        Log of the probability of each node's rows, if it is a leaf.
    split_prior : float64 array of shape (n_nodes,), or float
        Prior probability that a node splits, between 0 and 1; ignored at leaves.

    Attributes
    ----------
    log_evidence : float64 array of shape (n_nodes,)
        Log of the probability of each node's rows, over all prunings below it; the root's is that of all rows.
    split : float64 array of shape (n_nodes,)
        Posterior probability that a node splits, if it is reached.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.posterior.prunings import Prunings
    >>> tree = np.array([1, 0, 0], dtype=np.int32)
    >>> prunings = Prunings(tree, np.log([0.01, 0.3, 0.3]), np.full(3, 0.5))
    >>> float(prunings.split[0].round(3)), prunings.map_leaves().tolist()
    (0.9, [False, True, True])
    """

    def __init__(self, left_child: NDArray[np.int32], log_evidence: Array, split_prior: Array | float) -> None:
        self.left_child = np.ascontiguousarray(left_child)
        stops, splits = log1p(-np.asarray(split_prior)), log(split_prior)
        n_nodes = len(log_evidence)
        self._terms = (log_evidence, *(np.full(n_nodes, term) if term.ndim == 0 else term for term in (stops, splits)))
        self.log_evidence, self.split = kernel.average(self.left_child, *self._terms)

    @cached_property
    def reach(self) -> Array:
        """Posterior probability that all ancestors of a node split."""
        return kernel.reach(self.left_child, self.split)

    @property
    def stop(self) -> Array:
        """Posterior probability that a node is a leaf."""
        return self.reach * (1.0 - self.split)

    def average(self, values: Array) -> Array:
        """The mean prediction over all prunings, from what each node predicts as a leaf, (n_values, n_nodes).

        At inner nodes, the mean if the tree stopped there.
        """
        found = kernel.spread(self.left_child, self.split, self.reach, np.ascontiguousarray(values))
        # Rounding does not lead beyond the values: shares stay shares.
        return np.clip(found, values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True))

    def map_leaves(self) -> NDArray[np.bool_]:
        """Whether nodes are leaves of the most probable pruning, if they are reached; of equal ones the smaller."""
        return kernel.best(self.left_child, *self._terms)[1].astype(bool)

    @property
    def map_log_joint(self) -> float:
        """Log of the joint probability of the most probable pruning and the rows."""
        return float(kernel.best(self.left_child, *self._terms)[0][0])

    def draw_leaves(self, random: np.random.Generator) -> NDArray[np.bool_]:
        """Whether nodes are leaves, if they are reached, of a pruning drawn from the posterior."""
        return random.random(len(self.split)) >= self.split

    def expected_leaves(self) -> float:
        """The expected number of leaves."""
        return float(kernel.expected_shape(self.left_child, self.split)[0][0])

    def entropy(self) -> float:
        """The entropy of the posterior, in nats."""
        return float(kernel.expected_shape(self.left_child, self.split)[1][0])

    def use_of_features(self, feature: NDArray[np.int32], n_features: int) -> Array:
        """The posterior probability that a pruning splits on each feature, (n_features,)."""
        found = np.zeros(n_features)
        for wanted in np.unique(feature[feature >= 0]).tolist():
            found[wanted] = 1.0 - kernel.unused(self.left_child, feature, self.split, wanted)
        return found

    def nodes_of(self, is_leaf: NDArray[np.bool_]) -> NDArray[np.int32]:
        """For each node, the node that is the leaf of its rows in a pruning."""
        return kernel.leaf_above(self.left_child, np.ascontiguousarray(is_leaf).view(np.uint8))

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """Each node's parent, -1 at the root."""
        return kernel.parents(self.left_child)[0]

    def draw_nodes(self, leaf: NDArray[np.integer], random: np.random.Generator) -> NDArray[np.integer]:
        """For each row, by its leaf in the whole tree, its leaf in a pruning of its own, drawn from the posterior."""
        # The probability to reach a node falls along the path: one uniform number decides where it ends.
        place = 1.0 - random.random(len(leaf))
        node = np.array(leaf)
        while len(beyond := np.flatnonzero(place > self.reach[node])):
            node[beyond] = self.parent[node[beyond]]
        return node


def depths(left_child: NDArray[np.int32]) -> NDArray[np.int32]:
    """The number of splits above each node."""
    return kernel.parents(np.ascontiguousarray(left_child))[1]
