"""The kernels of linear leaves against their naive twins."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.engine.kernels import linear_leaves as kernels
from fastens.engine.linear_leaves import LinearLeaves
from reference import linear_leaves as naive

N_FEATURES = 5
FEATURES = [[0, 3], [4], [], [1, 2, 0, 3]]


def make(rng, dtype=np.float64, n=600):
    X = (rng.standard_normal((n, N_FEATURES)) * [1, 100, 1e-3, 1, 1e6] + [0, 5, 0, 1000, 0]).astype(dtype)
    X[rng.random(X.shape) < 0.05] = np.nan
    X[3, 0] = np.inf
    leaf = rng.integers(0, len(FEATURES), n)
    gradients = (rng.standard_normal(n) + np.nan_to_num(X[:, 3] - 1000)).astype(np.float32)
    return X, leaf, gradients, rng.random(n).astype(np.float32)


def fit(X, leaf, gradients, hessians, weights=None, *, whole=False, l2=0.5, n_threads=1):
    rows = np.argsort(leaf, kind="stable").astype(np.uint32)
    row_starts = np.append(0, np.cumsum(np.bincount(leaf, minlength=len(FEATURES))))
    starts = np.append(0, np.cumsum([len(part) for part in FEATURES]))
    features = np.concatenate(FEATURES).astype(np.int32)
    terms, centres = np.full((3, len(features)), np.nan), np.zeros(len(FEATURES))
    data = rows, row_starts, features, starts, gradients, hessians
    kernels.fit_leaves(X, *data, weights, whole, l2, n_threads, terms, centres)
    return *terms, centres


def expected(X, leaf, gradients, hessians, weights, l2=0.5):
    slopes, lower, upper, centres = [], [], [], []
    for number, features in enumerate(FEATURES):
        rows = leaf == number
        values = X[np.ix_(rows, features)]
        found, mean = naive.slopes_of_leaf(values, gradients[rows], hessians[rows], weights[rows], l2)
        complete = values[np.isfinite(values).all(axis=1)]
        slopes.append(found)
        lower.append(complete.min(axis=0))
        upper.append(complete.max(axis=0))
        centres.append(found @ mean)
    return *map(np.concatenate, (slopes, lower, upper)), np.array(centres)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("l2", [0.0, 0.5, 1e3])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("weighted", [None, "whole", "real"])
def test_slopes_are_those_of_least_squares(rng, dtype, l2, order, weighted):
    X, *rest = make(rng, dtype)
    n = len(X)
    weights = {None: None, "whole": rng.integers(1, 4, n).astype(float), "real": rng.random(n) + 0.1}[weighted]
    found = fit(np.asarray(X, order=order), *rest, weights, whole=weighted == "whole", l2=l2)
    wanted = expected(X, *rest, np.ones(n) if weights is None else weights, l2)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_neither_order_nor_threads_nor_copies_matter(rng, n_threads):
    X, leaf, gradients, hessians = make(rng)
    weights = rng.integers(1, 4, len(X)).astype(float)
    once = fit(X, leaf, gradients, hessians, weights, whole=True)
    copies = np.repeat(np.arange(len(X)), weights.astype(int))
    rows = rng.permutation(copies)
    again = fit(X[rows], leaf[rows], gradients[rows], hessians[rows], n_threads=n_threads)
    for one, other in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_slope_where_there_is_nothing_to_learn_it_from(rng):
    X, leaf, gradients, hessians = make(rng)
    X[:, 0] = 7.0  # constant
    X[:, 3] = 2 * X[:, 1] + 1  # the same as another one
    X[leaf == 1, 4] = np.nan  # never there
    slopes, *_, centres = fit(X, leaf, gradients, hessians, l2=0.0)
    assert np.isfinite(slopes).all()
    assert slopes[0] == 0
    assert slopes[2] == 0
    assert centres[1] == 0
    *_, of_second, of_constant, of_copy = slopes[[3, 4, 5, 6]]
    assert of_constant == 0
    assert of_copy == 0
    assert of_second != 0
    slopes, *_, centres = fit(X, leaf, gradients, np.zeros_like(hessians))
    assert not slopes.any()
    assert not centres.any()


def test_values_of_any_size_give_finite_slopes(rng):
    X, *rest = make(rng)
    X[:, 0] *= 1e300
    X[:, 1] *= 1e-310
    slopes, *_, centres = fit(X, *rest)
    assert np.isfinite(slopes).all()
    assert np.isfinite(centres).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_predictions(rng, dtype, n_threads):
    X, leaf, *_ = make(rng, dtype, n=1000)
    counts = np.array([len(part) for part in FEATURES])
    slopes, value, centres = rng.standard_normal(counts.sum()), rng.standard_normal(4), rng.standard_normal(4)
    lower, upper = np.sort(rng.standard_normal((2, counts.sum())), axis=0)
    features = np.concatenate(FEATURES).astype(np.int32)
    linear = LinearLeaves(np.append(0, np.cumsum(counts)), features, slopes, lower, upper, centres)
    raw = np.zeros((len(X), 2))
    leaves = leaf.astype(np.int32)[None]
    kernels.add_linear(X, leaves, np.zeros(1, np.int64), np.ones(1, np.int32), value, linear, raw, n_threads)
    of_nodes = [np.split(part, np.cumsum(counts)[:-1]) for part in (features, slopes, lower, upper)]
    terms = list(zip(*of_nodes, strict=True))
    np.testing.assert_allclose(raw[:, 1], naive.predict(X.astype(float), leaf, value, terms, centres), rtol=1e-12)
    assert not raw[:, 0].any()
