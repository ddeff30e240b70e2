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


def derivatives(y, scores, options=(1.0, 10.0, True), n_threads=1):
    out = np.full((2, len(y)), np.nan, dtype=np.float32)
    Queries(y, "exponential").kernel.gradients(scores, options, out[0], out[1], n_threads)
    return out


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("truncation", [1, 5, 100])
def test_lambdas(rng, ties, normalize, truncation):
    query, relevance, scores = make(rng, ties=ties)
    g, h = derivatives(target(query, relevance), scores, (1.0, float(truncation), normalize))
    for number in np.unique(query):
        rows = np.flatnonzero(query == number)
        if relevance[rows].any():
            expected = naive.lambdas(2 ** relevance[rows] - 1, scores[rows], truncation, normalize)
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


def test_a_weight_is_so_many_documents(rng):
    query, relevance, scores = make(rng)
    times = rng.integers(1, 4, len(query))
    weighted = target(query, relevance, times.astype(float))
    repeated = target(*(np.repeat(values, times) for values in (query, relevance)))
    g, h = derivatives(weighted, scores)
    again, h_again = derivatives(repeated, np.repeat(scores, times))
    np.testing.assert_array_equal(np.repeat(g, times), again)
    np.testing.assert_array_equal(np.repeat(h, times), h_again)
    found = [Queries(weighted, "linear").ndcg(scores, 5), Queries(repeated, "linear").ndcg(np.repeat(scores, times), 5)]
    np.testing.assert_array_equal(*found)


def test_next_to_no_weight_beside_others(rng):
    query, relevance, scores = make(rng)
    weights = np.where(rng.random(len(query)) < 0.5, 1.0, 1e-20)
    kept = weights == 1.0
    kept &= np.isin(query, query[kept & (relevance > 0)])
    rows = np.isin(query, query[kept])
    found = Queries(target(query[rows], relevance[rows], weights[rows]), "linear").ndcg(scores[rows], None)
    expected = Queries(target(query[kept], relevance[kept]), "linear").ndcg(scores[kept], None)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_rows_in_any_order_and_any_number_of_threads(rng):
    query, relevance, scores = make(rng, 60)
    expected = derivatives(target(query, relevance), scores)
    np.testing.assert_array_equal(derivatives(target(query, relevance), scores, n_threads=3), expected)
    order = rng.permutation(len(query))
    found = derivatives(target(query[order], relevance[order]), scores[order])
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
