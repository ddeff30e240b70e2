"""Trees whose rows have weights of classes are grown with whole numbers, which growth does not round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastens.engine.trees.trees import Tree
from fastens.table.sample_weights import whole_multiples


def weight_to_grow(model: Any, weight: Any) -> tuple[Any, float]:
    """What the trees of an estimator are grown with, and by what its weights are larger than those given.

    Where classes have weights, they are whole numbers if they can be, which growth does not round.
    """
    has_factors = getattr(model, "class_weight", None) is not None and not callable(weight)
    return whole_multiples(weight) if has_factors else (weight, 1.0)


def rescaled(tree: Tree, scale: float) -> Tree:
    """A tree of classes that was grown with weights so many times as large, a power of two, with those given."""
    return tree if scale == 1 else replace(tree, weight=tree.weight / scale, gain=tree.gain / scale)
