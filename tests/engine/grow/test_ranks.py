"""Trees grown on several ranks are those of one rank with all rows, values included."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from fastens.engine.bins.binning import learn_binning
from fastens.engine.comm import LOCAL, Comm
from fastens.engine.grow.growth import GrowthParameters, TreeGrower
from fastens.engine.losses.losses import AbsoluteError, Huber
from reference.messages import by_messages
from reference.threads_comm import on_ranks

N_ROWS, N_FEATURES = 3000, 5
# Where the ranks' rows end: none, a few, one, and most.
ENDS = {2: [7], 3: [1, 2900], 5: [1, 30, 30, 2000]}
IS_CATEGORICAL = np.array([False, False, False, True, True])
WEIGHTS = {
    "none": None,
    "whole": np.random.default_rng(1).integers(1, 6, N_ROWS).astype(float),
    "many copies": np.where(np.arange(N_ROWS) == 0, 50.0, 1.0),
    "fractional": np.random.default_rng(2).random(N_ROWS) + 1e-6,
}
RULES = {
    "best first": GrowthParameters(max_leaf_nodes=31, split_penalty=2.0, l2_regularization=1.0),
    "by level": GrowthParameters(max_leaf_nodes=None, max_depth=6, min_samples_leaf=5),
    "sums of weights": GrowthParameters(max_leaf_nodes=20, min_weight_leaf=30.0),
    "features drawn": GrowthParameters(max_leaf_nodes=20, features_per_split=2, features_per_tree=4),
    "thresholds drawn": GrowthParameters(max_leaf_nodes=20, min_samples_leaf=5, rows_per_threshold=150),
    "bound values": GrowthParameters(
        max_leaf_nodes=None,
        max_depth=5,
        monotone=np.array([1, -1, 0, 0, 0], np.int8),
        path_smooth=3.0,
        max_delta_step=1,
    ),
    "categories": GrowthParameters(max_leaf_nodes=25, min_samples_category=10, one_hot_max_size=3),
}


def make_rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(N_ROWS, 3)), rng.integers(0, 40, N_ROWS), rng.integers(0, 3, N_ROWS)])
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:5, 3] = 45.0  # a category of the first rank
    gradients = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 3]) % 4 + rng.normal(size=N_ROWS)
    gradients[3] = 40.0  # the first rank has the extremes
    return X, (gradients - gradients.mean()).astype(np.float32), rng.uniform(0.1, 1.0, N_ROWS).astype(np.float32)


ROWS = make_rows()
BINNING = learn_binning(ROWS[0], None, 255, IS_CATEGORICAL, 1)


def rows_of(comm):
    bounds = [0, *ENDS.get(comm.size, []), N_ROWS]
    return slice(*bounds[comm.rank : comm.rank + 2])


def grower_of(comm, weights, rules, **options):
    own = rows_of(comm)
    weights = None if weights is None else weights[own]
    return TreeGrower(replace(BINNING.transform(ROWS[0][own]), comm=comm), rules, weights, **options)


def assert_same_trees(work, size):
    """`work`, done on ranks, gives the trees, or lists of arrays, that it gives on one."""
    expected = arrays_of(work(LOCAL))
    assert max(map(len, expected)) > 3
    for found in on_ranks(size, lambda comm: arrays_of(work(comm))):
        for array, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, other)
            assert array.dtype == other.dtype


def arrays_of(trees):
    return [getattr(tree, field.name) for tree in trees for field in fields(tree)]


@pytest.mark.slow
@pytest.mark.parametrize("size", ENDS)
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("name", RULES)
def test_trees_of_ranks_match_the_whole_table(name, kind, size):
    def work(comm):
        grower, own = grower_of(comm, WEIGHTS[kind], RULES[name]), rows_of(comm)
        gradients, hessians = ROWS[1][own], ROWS[2][own]
        steep = np.where(np.abs(gradients) > 30, 1e6, gradients).astype(np.float32)
        return [grower.grow(each, hessians, seed=seed) for seed, each in enumerate((gradients, steep, -gradients))]

    assert_same_trees(work, size)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", ["best first", "by level", "categories"])
def test_trees_by_messages_match_the_whole_table(name, size):
    """Sums of two ranks travel while nodes are counted ahead; those of more are made at once."""

    def work(comm):
        grower, own = grower_of(comm, None, RULES[name]), rows_of(comm)
        return [grower.grow(sign * ROWS[1][own], ROWS[2][own]) for sign in (1, -1)]

    expected = arrays_of(work(LOCAL))
    for found in by_messages(size, lambda comm: arrays_of(work(comm))):
        for array, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, other)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.4, 0.9])
def test_codes_that_are_frequent_on_some_ranks(share):
    """Packed cells hold 16 383 rows of a code: how often a rank adds them up depends on its own rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 3))
    X[rng.random(60_000) < share, 1] = 0.0
    X[35_000:, 2] = 1.0  # the second rank has only this code
    gradients = (X[:, 0] + np.abs(X[:, 1]) + rng.normal(size=60_000)).astype(np.float32)
    hessians = rng.uniform(0.1, 1.0, 60_000).astype(np.float32)
    binning, rules = learn_binning(X, None, 255, np.zeros(3, bool), 1), GrowthParameters(max_leaf_nodes=12)

    def work(comm):
        own = slice(*[[0, 60_000], [0, 35_000, 60_000]][comm.size - 1][comm.rank : comm.rank + 2])
        matrix = replace(binning.transform(X[own]), comm=comm)
        grower = TreeGrower(matrix, rules, None)
        rows = np.arange(0, len(X[own]), 2, dtype=np.uint32)
        given = [(sign * gradients[own], hessians[own]) for sign in (1, -1, 1)]
        return [grower.grow(*each, chosen) for each, chosen in zip(given, (None, rows, None), strict=True)]

    expected = arrays_of(work(LOCAL))
    for found in by_messages(2, lambda comm: arrays_of(work(comm))):
        for array, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("size", ENDS)
@pytest.mark.parametrize("loss", [AbsoluteError(), Huber()], ids=["absolute error", "huber"])
def test_leaves_are_renewed_from_the_rows_of_all_ranks(loss, size):
    chosen = np.random.default_rng(3).random(N_ROWS) < 0.4
    chosen[:7] = False  # ranks without a row of the sample

    def work(comm):
        grower, own = grower_of(comm, WEIGHTS["whole"], RULES["by level"], constant_hessian=True), rows_of(comm)
        own_loss = type(loss)()
        own_loss.join(comm)
        residuals = ROWS[1][own].astype(float)
        own_loss.start_round(residuals, np.zeros((1, len(residuals))), WEIGHTS["whole"][own])
        rows = np.flatnonzero(chosen[own]).astype(np.uint32)
        ones = np.ones(len(residuals), np.float32)
        trees = []
        for given in (None, rows):
            tree = grower.grow(ROWS[1][own], ones, given)
            trees += [tree, grower.renew_leaves(tree, own_loss, residuals)]
        factors = np.full(len(rows), 1.5, np.float32)
        return [*trees, grower.renew_leaves(trees[-1], own_loss, residuals, 1, factors)]

    assert_same_trees(work, size)


@pytest.mark.slow
@pytest.mark.parametrize("size", ENDS)
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("name", RULES)
def test_trees_of_several_outputs(name, kind, size):
    def work(comm):
        own = rows_of(comm)
        matrix = replace(BINNING.transform(ROWS[0][own]), comm=comm).with_payloads(3)
        weights = None if WEIGHTS[kind] is None else WEIGHTS[kind][own]
        gradients = np.stack([ROWS[1][own], -100 * ROWS[1][own], ROWS[1][own] ** 2 - 1])
        grower = TreeGrower(matrix, RULES[name], weights)
        return [grower.grow(gradients, np.stack([ROWS[2][own]] * 3), seed=1)]

    assert_same_trees(work, size)


def test_constant_hessians_and_threads_change_nothing():
    def work(comm):
        grower = grower_of(comm, None, RULES["best first"], constant_hessian=True, n_threads=1 + comm.rank)
        own = rows_of(comm)
        return [grower.grow(ROWS[1][own], np.ones(own.stop - own.start, np.float32))]

    assert_same_trees(work, 3)


def test_errors_reach_the_caller():
    class Broken(Comm):
        size = 2

        def allreduce_max(self, *arrays):
            raise OSError("a rank is gone")

    grower = TreeGrower(replace(BINNING.transform(ROWS[0]), comm=Broken()), GrowthParameters())
    with pytest.raises(OSError, match="a rank is gone"):
        grower.grow(ROWS[1], ROWS[2])
    not_finite = np.where(np.arange(N_ROWS) == 2, np.inf, ROWS[1]).astype(np.float32)

    def work(comm):
        own = rows_of(comm)
        grower_of(comm, None, GrowthParameters()).grow(not_finite[own], ROWS[2][own])

    with pytest.raises(ValueError, match="not finite"):
        on_ranks(2, work)
