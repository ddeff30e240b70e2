"""What limits the shape of any tree, boosted or of a forest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastens.cached import cached_property
from fastens.engine.whole import cap_limits


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits that every grower of trees keeps to; growers add their own in records that extend this one.

    Attributes
    ----------
    max_leaf_nodes : int or None
        Grow best-first up to this many leaves; None grows without that limit.
    max_depth : int or None
        Largest number of splits between the root and a leaf.
    min_samples_leaf : int
        Smallest number of rows in a leaf, exactly; where a grower takes whole weights for copies of rows, of copies.
    min_weight_leaf : float
        Smallest sum of sample weights in a leaf.
    features_per_split : int or None
        How many features, drawn at random, a node may split on; None for all.
    feature_weights : float64 array of shape (n_features,) or None
        Chances of the features where some are drawn; None for equal ones. A feature of weight 0 is in no tree.
    monotone : int8 array of shape (n_features,) or None
        1 where values must not fall with the feature, -1 where they must not rise, 0 elsewhere.
    max_features_on_path : int or None
        How many different features may stand between the root and a leaf.
    feature_groups : uint8 array of shape (n_groups, n_features) or None
        The features between the root and a leaf are all in one of these groups.

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
        cap_limits(self)
        for name, dtype in (("feature_weights", np.float64), ("monotone", np.int8), ("feature_groups", np.uint8)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))

    @cached_property
    def group_masks(self) -> NDArray[np.uint64]:
        """The groups with a bit for each feature, (n_groups, n_words)."""
        assert self.feature_groups is not None
        n_groups, n_features = self.feature_groups.shape
        bits = np.zeros((n_groups, -(-n_features // 64) * 64), dtype=bool)
        bits[:, :n_features] = self.feature_groups
        return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
