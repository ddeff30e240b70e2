"""Limits on the shape of trees, for boosting and forests, and on the table sizes that kernels can index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, sum_ints
from fastens.engine.threads import cached_property

MAX_INT32 = 2**31 - 1


def check_shape(X: Any, comm: Comm = LOCAL) -> None:
    """Raise ValueError if a table has more rows or columns than 32-bit kernel indices can address.

    Rows are counted over all ranks, because nodes of trees store their numbers of rows over all ranks.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.limits import check_shape
    >>> check_shape(np.broadcast_to(np.float32(0), (2**31, 1)))
    Traceback (most recent call last):
        ...
    ValueError: X must have at most 2,147,483,647 rows; got 2,147,483,648. Train on a sample of them.
    """
    check_count("X", "rows", sum_ints(comm, X.shape[0])[0], advice="Train on a sample of them.")
    check_count("X", "columns", X.shape[1], advice="Select some of them, or hash them to fewer columns.")


def check_count(name: str, what: str, n: int, max_count: int = MAX_INT32, *, advice: str) -> None:
    """Raise ValueError, ending with `advice`, if n, the number of `what` (as "rows") of `name`, exceeds `max_count`."""
    if n > max_count:
        raise ValueError(f"{name} must have at most {max_count:,} {what}; got {n:,}. {advice}")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits that every tree grower respects; growers add their own limits in dataclasses that extend this one.

    Attributes
    ----------
    max_leaf_nodes : int or None
        Maximum number of leaves. If set, trees grow best-first. If None, the number of leaves is unlimited.
    max_depth : int or None
        Maximum number of splits between the root and a leaf. If None, the depth is unlimited.
    min_samples_leaf : int
        Exact minimum number of rows in a leaf. Growers that treat integer weights as copies of rows count the copies.
    min_weight_leaf : float
        Minimum sum of sample weights in a leaf.
    features_per_split : int or None
        Number of candidate features that are drawn at random for each node. If None, all features are candidates.
    feature_weights : float64 array of shape (n_features,) or None
        Sampling weights of the features, used if only some of them are drawn. If None, all features are equally
        likely. Features with weight 0 are never split on.
    monotone : int8 array of shape (n_features,) or (n_outputs, n_features), or None
        1 if predictions must not decrease with the feature, -1 if they must not increase, 0 if unconstrained. Boosting
        may have a row of constraints for each output.
    max_features_on_path : int or None
        Maximum number of distinct features on the path from the root to a leaf.
    feature_groups : uint8 array of shape (n_groups, n_features) or None
        Interaction constraints: all features on the path from the root to a leaf must belong to one of these groups.

    Examples
    --------
    >>> from fastens.engine.limits import Limits
    >>> Limits(max_depth=3, min_samples_leaf=10**30).min_samples_leaf
    2147483647
    """

    max_leaf_nodes: int | None = None
    max_depth: int | None = None
    min_samples_leaf: int = 1
    min_weight_leaf: float = 0.0
    features_per_split: int | None = None
    feature_weights: NDArray[np.float64] | None = None
    monotone: NDArray[np.int8] | None = None
    max_features_on_path: int | None = None
    feature_groups: NDArray[np.uint8] | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int | np.integer) and value > MAX_INT32:  # larger limits are equivalent
                object.__setattr__(self, name, MAX_INT32)
        for name, dtype in (("feature_weights", np.float64), ("monotone", np.int8), ("feature_groups", np.uint8)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))

    def check_nodes(self, n_rows: int) -> None:
        """Raise ValueError if a tree on `n_rows` rows might have more nodes than 32-bit indices can address."""
        max_leaves = (MAX_INT32 + 1) // 2
        n_leaves = min(
            n_rows // max(1, self.min_samples_leaf),
            n_rows if self.max_leaf_nodes is None else self.max_leaf_nodes,
            n_rows if self.max_depth is None else 2 ** min(self.max_depth, 62),
        )
        check_count("A tree", "leaves", n_leaves, max_leaves, advice="Lower max_leaf_nodes or raise min_samples_leaf.")

    @cached_property
    def group_masks(self) -> NDArray[np.uint64]:
        """Feature groups as bit masks, one bit per feature; shape (n_groups, n_words)."""
        assert self.feature_groups is not None
        n_groups, n_features = self.feature_groups.shape
        bits = np.zeros((n_groups, -(-n_features // 64) * 64), dtype=bool)
        bits[:, :n_features] = self.feature_groups
        return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
