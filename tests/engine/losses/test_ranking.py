"""The ranking kernel against its naive twin."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from fastens.engine.losses import ranking as kernels
from fastens.engine.losses.ranking_loss import Queries
from reference import ranking as naive


def make(rng, n_queries=12, ties=True):
    sizes = rng.integers(1, 40, n_queries)
    query = rng.permutation(np.repeat(np.arange(n_queries), sizes))
    relevance = rng.integers(0, 4, sizes.sum()).astype(float)
    scores = rng.normal(size=sizes.sum())
    return query, relevance, np.round(scores) if ties else scores


def target(query, relevance, documents=None):
    return np.column_stack([relevance, query, np.ones(len(query)) if documents is None else documents])


def derivatives(y, scores, truncation=10.0, normalize=True, metric="ndcg", n_threads=1):
    out = np.full((2, len(y)), np.nan, dtype=np.float32)
    options = (1.0, float(truncation), normalize, kernels.OBJECTIVES[metric])
    queries = Queries(y, "binary" if metric == "map" else "exponential")
    queries.kernel.gradients(scores, options, out[0], out[1], n_threads)
    return out


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("truncation", [1, 5, np.inf])
@pytest.mark.parametrize("metric", ["ndcg", "map", "pairs"])
def test_lambdas(rng, ties, normalize, truncation, metric):
    query, relevance, scores = make(rng, ties=ties)
    relevance = np.where(rng.random(len(query)) < 0.3, 0.0, relevance)
    g, h = derivatives(target(query, relevance), scores, truncation, normalize, metric)
    for number in np.unique(query):
        rows = np.flatnonzero(query == number)
        if relevance[rows].any():
            gains = (relevance[rows] > 0) * 1.0 if metric == "map" else 2 ** relevance[rows] - 1
            expected = naive.lambdas(gains, scores[rows], truncation, normalize, metric)
        else:
            expected = np.zeros((2, len(rows)))
        np.testing.assert_allclose(g[rows], expected[0], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(h[rows], expected[1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("at", [1, 3, 10, np.inf])
@pytest.mark.parametrize("label_gain", ["exponential", "linear"])
def test_ndcg(rng, at, label_gain):
    query, relevance, scores = make(rng)
    queries = Queries(target(query, relevance), label_gain)
    found = np.empty(query.max() + 1)
    queries.kernel.ndcg(scores, at, found, 1)
    gains = 2**relevance - 1 if label_gain == "exponential" else relevance
    for number, value in enumerate(found):
        rows = query == number
        assert value == pytest.approx(naive.ndcg(gains[rows], scores[rows], at), rel=1e-12)
        if gains[rows].any() and rows.sum() > 1:
            k = None if at == np.inf else at
            assert value == pytest.approx(ndcg_score([gains[rows]], [scores[rows]], k=k), rel=1e-12)


@pytest.mark.parametrize("ties", [True, False])
def test_cross_entropy(rng, ties):
    query, relevance, scores = make(rng, ties=ties)
    g, h = derivatives(target(query, relevance), scores, metric="xendcg")
    for number in np.unique(query):
        rows = np.flatnonzero(query == number)
        expected = naive.cross_entropy(2 ** relevance[rows] - 1, scores[rows])
        np.testing.assert_allclose(g[rows], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(h[rows], expected[1], rtol=1e-5, atol=1e-7)


def test_draws_of_the_cross_entropy_are_uniform():
    share = (np.arange(5000) + 0.5) / 5000
    draws = [naive.draws(np.array([score]), np.array([1.0]), np.ones(1))[0] for score in share]
    np.testing.assert_allclose(np.sort(draws), share, atol=0.03)


def test_cross_entropy_of_a_document_with_all_of_the_probability():
    y, scores = target(np.zeros(3), np.array([0.0, 1.0, 2.0])), np.array([800.0, 0.0, -800.0])
    assert np.isfinite(derivatives(y, scores, metric="xendcg")).all()


@pytest.mark.parametrize("metric", kernels.OBJECTIVES)
def test_integer_weights_count_as_copies_of_documents(rng, metric):
    query, relevance, scores = make(rng)
    times = rng.integers(1, 4, len(query))
    weighted = target(query, relevance, times.astype(float))
    repeated = target(*(np.repeat(values, times) for values in (query, relevance)))
    g, h = derivatives(weighted, scores, metric=metric)
    again, h_again = derivatives(repeated, np.repeat(scores, times), metric=metric)
    np.testing.assert_array_equal(np.repeat(g, times), again)
    np.testing.assert_array_equal(np.repeat(h, times), h_again)
    found = [Queries(weighted, "linear").ndcg(scores, 5), Queries(repeated, "linear").ndcg(np.repeat(scores, times), 5)]
    np.testing.assert_array_equal(*found)


def test_tiny_weights_next_to_large_weights(rng):
    query, relevance, scores = make(rng)
    weights = np.where(rng.random(len(query)) < 0.5, 1.0, 1e-20)
    kept = weights == 1.0
    kept &= np.isin(query, query[kept & (relevance > 0)])
    rows = np.isin(query, query[kept])
    found = Queries(target(query[rows], relevance[rows], weights[rows]), "linear").ndcg(scores[rows], None)
    expected = Queries(target(query[kept], relevance[kept]), "linear").ndcg(scores[kept], None)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("metric", kernels.OBJECTIVES)
def test_rows_in_any_order_and_any_number_of_threads(rng, metric):
    query, relevance, scores = make(rng, 60)
    scores[::3] *= -1.0  # some scores are -0.0
    expected = derivatives(target(query, relevance), scores, metric=metric)
    np.testing.assert_array_equal(derivatives(target(query, relevance), scores, metric=metric, n_threads=3), expected)
    order = rng.permutation(len(query))
    found = derivatives(target(query[order], relevance[order]), scores[order], metric=metric)
    np.testing.assert_array_equal(found, expected[:, order])


def test_better_order_means_negative_gradient(rng):
    query, relevance, _ = make(rng, 1)
    g, h = derivatives(target(query, relevance), -relevance)
    best, worst = relevance == relevance.max(), relevance == relevance.min()
    assert (g[best] < 0).all()
    assert (g[worst] > 0).all()
    assert (h >= 0).all()


def test_places_beyond_the_table_have_its_last_discount():
    upto = np.array([0.0, 1.0, 1.5])
    gains = np.array([0.0, 1.0])
    kernel = kernels.Ranker(np.arange(2), np.array([0, 2]), gains, np.array([4.0, 1.0]), upto)
    found = np.empty(1)
    kernel.ndcg(np.array([1.0, 0.0]), np.inf, found, 1)
    assert found[0] == 0.5  # one document in the fifth place, where the discount is that of the second
