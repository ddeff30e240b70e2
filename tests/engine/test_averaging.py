"""Averaging a grown tree in two passes, and step by step."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from fastens.engine.averaging import PruningPrior, TreeAverager, class_statistics
from fastens.engine.binning import learn_binning
from fastens.engine.forests import ForestGrower, TreeRules, TreeSample, class_target
from fastens.engine.leaf_priors import ClassPrior
from fastens.engine.split_priors import SearchCost


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("split", [0.5, 0.03])
def test_two_passes_give_what_the_steps_give(n_classes, split, rng):
    X, y = make_classification(2000, 8, n_informative=5, n_classes=n_classes, flip_y=0.3, random_state=0)
    matrix = learn_binning(X).transform(X)
    weight = rng.integers(0, 3, len(y)).astype(float)
    grower = ForestGrower(matrix, class_target(y, [n_classes]), TreeRules(min_samples_leaf=3))
    [tree] = grower.grow([TreeSample(weight, None, 0)])
    prior = PruningPrior(ClassPrior(0.1, (n_classes,)), split, SearchCost(np.ones(8), None, random_thresholds=False))
    averager = TreeAverager(prior, None)
    assert averager._is_simple(tree)
    found = averager.average(0, tree, 1.0, None)
    statistics = class_statistics(tree, prior.leaves)
    np.testing.assert_array_equal(found.value, prior.values(tree, statistics))
    [leaves] = averager.statistics(0, 1)
    np.testing.assert_array_equal(leaves, statistics[:, tree.left_child == 0])
    assert leaves.dtype == np.uint8
    np.testing.assert_array_equal(statistics[:, 0], [weight[y == k].sum() for k in range(n_classes)])
