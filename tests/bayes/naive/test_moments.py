"""Moments and sums of columns by class, and Gaussian log densities."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.bayes.naive.moments import add_gaussian, add_moments, add_sparse_sums
from scipy import sparse, stats

from fastens import GaussianNB
from fastens.bayes.naive import likelihoods as count_likelihoods
from reference import counts as plain


def moments(X, y, weights, n_threads=1):
    shape = (3, X.shape[1])
    weight, total, squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    add_moments(X, y, weights, None, weight, total, n_threads)
    mean = total / np.where(weight > 0, weight, 1)
    add_moments(X, y, weights, mean, weight, squares, n_threads)
    return weight, mean, squares


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_match_the_reference(rng, order, dtype, weighted):
    X = np.asarray(rng.standard_normal((1300, 21)) * 3 + 100, dtype=dtype, order=order)
    X[rng.random(X.shape) < 0.2] = np.nan
    y = rng.integers(0, 3, len(X)).astype(np.int32)
    weights = rng.random(len(X)) if weighted else None
    found = moments(X, y, weights)
    expected = plain.moments(X, y, 3, np.ones(len(X)) if weights is None else weights)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
    for one, other in zip(found, moments(X, y, weights, 3), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_sums(rng, index):
    X = sparse.random(200, 7, density=0.2, format="csr", random_state=0)
    y = rng.integers(0, 3, 200).astype(np.int32)
    weights = rng.random(200)
    out = np.zeros((3, 7))
    add_sparse_sums(X.data, X.indices.astype(index), X.indptr.astype(index), y, weights, out)
    np.testing.assert_allclose(out, (np.eye(3)[y] * weights[:, None]).T @ X.toarray())


def test_gaussian_log_densities(rng):
    X = rng.standard_normal((40, 3))
    X[0, 1] = np.nan
    mean, scale = rng.standard_normal((3, 2)), rng.random((3, 2)) + 0.5
    table = np.stack([mean, 0.5 / scale**2, -np.log(scale) - 0.5 * np.log(2 * np.pi)], axis=1)
    expected = np.nansum(stats.norm.logpdf(X[:, :, None], mean, scale), axis=1)
    for n_threads in (1, 3):
        out = np.zeros((40, 2))
        add_gaussian(X, np.ascontiguousarray(table), out, n_threads)
        np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_numbers_of_a_stream_are_read_once_and_have_the_same_moments(rng, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr(count_likelihoods, "_MOMENT_ROWS", 64)
    X, y = rng.normal(1e6, 1, size=(1000, 3)), rng.integers(0, 3, 1000)
    table, opened = pa.table(dict(zip("abc", X.T, strict=True))), []

    def source():
        opened.append(1)
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(37))

    whole = GaussianNB().fit(X, y)
    source_model = GaussianNB().fit(source, y)
    np.testing.assert_array_equal(source_model.var_, whole.var_)
    np.testing.assert_array_equal(source_model.theta_, whole.theta_)
    expected = [X[y == k].var(axis=0) for k in range(3)]
    np.testing.assert_allclose(whole.var_ - whole.epsilon_, expected, rtol=1e-6)
