"""The kernels of linear leaves against their naive twins."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from fastens.engine.linear.normal_equations import add_linear

from fastens.engine.linear import normal_equations as kernels
from fastens.engine.linear.linear_leaves import LeafPaths, LeafStatistics, LinearLeafTerms
from reference import linear_leaves as naive

N_FEATURES = 5
FEATURES = [[0, 3], [4], [], [1, 2, 0, 3]]
VALUE, ONES = np.array([0.5, -2.0, 1.0, 3.0]), np.ones(4)


def make(rng, dtype=np.float64, n=600):
    X = (rng.standard_normal((n, N_FEATURES)) * [1, 100, 1e-3, 1, 1e6] + [0, 5, 0, 1000, 0]).astype(dtype)
    X[rng.random(X.shape) < 0.05] = np.nan
    X[3, 0] = np.inf
    leaf = rng.integers(0, len(FEATURES), n)
    gradients = (rng.standard_normal(n) + np.nan_to_num(X[:, 3] - 1000)).astype(np.float32)
    return X, leaf, gradients, rng.random(n).astype(np.float32)


def fit(X, leaf, gradients, hessians, *, copies=None, factors=None, l2=0.5, n_threads=1):
    return say(X, leaf, gradients, hessians, copies=copies, factors=factors, l2=l2, n_threads=n_threads)[0]


def say(X, leaf, gradients, hessians, *, copies=None, factors=None, l2=0.5, n_threads=1, value=VALUE, factor=ONES):
    """The terms of the leaves, and what they say to their rows."""
    rows = np.argsort(leaf, kind="stable").astype(np.uint32)
    row_starts = np.append(0, np.cumsum(np.bincount(leaf, minlength=len(FEATURES))))
    starts = np.append(0, np.cumsum([len(part) for part in FEATURES]))
    features = np.concatenate(FEATURES).astype(np.int32)
    terms, said = np.full((4, len(features)), np.nan), np.full(len(X), np.nan)
    leaves = LeafPaths(rows, row_starts, features, starts, value, factor)
    statistics = LeafStatistics(gradients, hessians, copies, factors)
    kernels.fit_leaves(X, leaves, statistics, l2, (0, 2), n_threads, terms, said)
    return terms, said


def expected(X, leaf, gradients, hessians, weights, l2=0.5):
    terms = []
    for number, features in enumerate(FEATURES):
        rows = leaf == number
        values = X[np.ix_(rows, features)]
        found, mean = naive.slopes_of_leaf(values, gradients[rows], hessians[rows], weights[rows], l2)
        complete = values[np.isfinite(values).all(axis=1)]
        terms.append([found, complete.min(axis=0), complete.max(axis=0), found * mean])
    return np.concatenate(terms, axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("l2", [0.0, 0.5, 1e3])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("weighted", [[], ["copies"], ["factors"], ["copies", "factors"]])
def test_slopes_match_least_squares(rng, dtype, l2, order, weighted):
    X, *rest = make(rng, dtype)
    n = len(X)
    weights = {"copies": rng.integers(1, 4, n).astype(float), "factors": rng.random(n) + 0.1}
    weights = {name: weights[name] for name in weighted}
    found = fit(np.asarray(X, order=order), *rest, **weights, l2=l2)
    wanted = expected(X, *rest, np.prod([np.ones(n), *weights.values()], axis=0), l2)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_neither_order_nor_threads_nor_copies_matter(rng, n_threads):
    X, leaf, gradients, hessians = make(rng)
    copies, factors = rng.integers(1, 4, len(X)).astype(float), rng.choice([0.25, 1.625], len(X))
    once = fit(X, leaf, gradients, hessians, copies=copies, factors=factors)
    rows = rng.permutation(np.repeat(np.arange(len(X)), copies.astype(int)))
    again = fit(X[rows], leaf[rows], gradients[rows], hessians[rows], factors=factors[rows], n_threads=n_threads)
    for one, other in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_slope_where_there_is_nothing_to_learn_it_from(rng):
    X, leaf, gradients, hessians = make(rng)
    X[:, 0] = 7.0  # constant
    X[:, 3] = 2 * X[:, 1] + 1  # the same as another one
    X[leaf == 1, 4] = np.nan  # never there
    slopes, *_, at_means = fit(X, leaf, gradients, hessians, l2=0.0)
    assert np.isfinite(slopes).all()
    assert slopes[0] == 0
    assert slopes[2] == 0
    assert at_means[2] == 0
    *_, of_second, of_constant, of_copy = slopes[[3, 4, 5, 6]]
    assert of_constant == 0
    assert of_copy == 0
    assert of_second != 0
    slopes, *_, at_means = fit(X, leaf, gradients, np.zeros_like(hessians))
    assert not slopes.any()
    assert not at_means.any()


def test_values_of_any_size_give_finite_slopes(rng):
    X, *rest = make(rng)
    X[:, 0] *= 1e300
    X[:, 1] *= 1e-310
    slopes, *_, at_means = fit(X, *rest)
    assert np.isfinite(slopes).all()
    assert np.isfinite(at_means).all()


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n", [4, 600, 5000])
def test_leaf_values_of_training_rows_match_predictions(rng, n, n_threads):
    X, leaf, *derivatives = make(rng, n=n)
    X[leaf == 1, 4] = np.where(rng.random(np.sum(leaf == 1)) < 0.5, np.nan, 7.0)  # no slope, and something missing
    factor = np.array([0.1, 0.2, 0.3, -0.4])
    terms, said = say(X, leaf, *derivatives, n_threads=n_threads, factor=factor)
    once, _ = say(X, leaf, *derivatives)
    node = np.repeat(np.arange(4), [len(part) for part in FEATURES])
    np.testing.assert_allclose(terms, once * np.stack([factor, np.ones(4), np.ones(4), factor])[:, node], rtol=1e-14)
    linear = LinearLeafTerms.of_terms(node, np.concatenate(FEATURES).astype(np.int32), terms, 4)
    raw, leaves, first = np.zeros((n, 1)), leaf.astype(np.int32)[None], np.zeros(1, np.int64)
    trees = SimpleNamespace(value=VALUE[:, None], linear=linear)
    add_linear(trees, X, leaves, (first, np.zeros(1, np.int32)), raw, 1)
    np.testing.assert_array_equal(raw[:, 0], said)


@pytest.mark.slow
def test_rows_beyond_those_kept_are_gathered_again(rng):
    """A leaf of more rows than there is room for: three uses, each in two parts."""
    n = 600_000
    X = rng.standard_normal((n, N_FEATURES))
    X[rng.random(n) < 0.01, 0] = np.nan
    leaf = np.full(n, 3)
    leaf[:3] = [0, 1, 2]
    gradients, hessians = X[:, 1].astype(np.float32), np.ones(n, dtype=np.float32)
    terms, said = say(X, leaf, gradients, hessians)
    complete = (leaf == 3) & np.isfinite(X[:, 0])
    ones = np.ones(complete.sum())
    wanted, mean = naive.slopes_of_leaf(X[complete][:, FEATURES[3]], X[complete, 1], ones, ones, 0.5)
    np.testing.assert_allclose(terms[0, 3:], wanted, atol=1e-6)
    line = VALUE[3] + (X[complete][:, FEATURES[3]] - mean) @ wanted
    np.testing.assert_allclose(said[complete], line, atol=1e-5)
    np.testing.assert_array_equal(said[(leaf == 3) & ~complete], VALUE[3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_predictions(rng, dtype, n_threads):
    X, leaf, *_ = make(rng, dtype, n=1000)
    counts = np.array([len(part) for part in FEATURES])
    slopes, at_means, value = *rng.standard_normal((2, counts.sum())), rng.standard_normal(4)
    lower, upper = np.sort(rng.standard_normal((2, counts.sum())), axis=0)
    features = np.concatenate(FEATURES).astype(np.int32)
    linear = LinearLeafTerms(np.append(0, np.cumsum(counts)), features, slopes, lower, upper, at_means)
    raw = np.zeros((len(X), 2))
    leaves = leaf.astype(np.int32)[None]
    first, output = np.zeros(1, np.int64), np.ones(1, np.int32)
    trees = SimpleNamespace(value=value[:, None], linear=linear)
    add_linear(trees, X, leaves, (first, output), raw, n_threads)
    of_nodes = [np.split(part, np.cumsum(counts)[:-1]) for part in (features, slopes, lower, upper, at_means)]
    terms = list(zip(*of_nodes, strict=True))
    np.testing.assert_allclose(raw[:, 1], naive.predict(X.astype(float), leaf, value, terms), rtol=1e-12, atol=1e-12)
    assert not raw[:, 0].any()
