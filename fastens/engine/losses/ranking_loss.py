"""LambdaMART: a loss of the order of documents within queries (Burges 2010)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastens.engine.elementary import log2
from fastens.engine.losses.losses import Floats, Loss, weighted_mean
from fastens.engine.losses.ranking import Ranker
from fastens.engine.rows.copies import repeated
from fastens.engine.threads import threads_for
from fastens.engine.whole import are_whole

Array = NDArray[np.float64]

# Documents worth a thread: some 50 us of sorting and comparing.
_GRAIN = 1 << 10
# Places with a discount of their own; those beyond are discounted alike.
_MOST_PLACES = 1 << 16
# Columns of the target.
RELEVANCE, QUERY, DOCUMENTS = range(3)


@dataclass(frozen=True)
class RankingOptions:
    """What the loss needs to know.

    Attributes
    ----------
    ndcg_at : int or None
        Places that count in the loss reported; None for all.
    truncation_level : int
        Places whose documents are compared with all below.
    label_gain : {"exponential", "linear"}
        What a document of relevance r is worth: 2**r - 1 or r.
    normalize : bool
        Whether close pairs count more, and queries of many pairs no more than others.
    """

    ndcg_at: int | None = 10
    truncation_level: int = 30
    label_gain: str = "exponential"
    normalize: bool = True


class LambdaRank(Loss):
    """1 - NDCG, through LambdaMART's gradients; the target's columns are relevance, query and number of documents.

    The gradient of a document is the sum, over the documents of its query with another relevance, of the slope of
    log(1 + exp(-difference of scores)) times what NDCG would change by if both changed places.
    """

    name = "ndcg"
    by_rows = False
    measures_noise = False
    max_step = 10.0

    def __init__(self, options: RankingOptions) -> None:
        self.n_outputs = 1
        self._options = options
        self._known: list[tuple[Array, Queries]] = []

    def magnitude(self, y: Array) -> float:
        """Scores are made of slopes of at most 1."""
        return 1.0

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """0: only differences count."""
        return np.zeros(1)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the lambdas and their second derivatives."""
        assert hessians is not None
        options = (1.0, float(self._options.truncation_level), self._options.normalize)
        n_threads = threads_for(y.shape[0], n_threads, _GRAIN)
        self._queries(y).kernel.gradients(raw[0], options, gradients[0], hessians[0], n_threads)

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """1 - the weighted mean of the queries' NDCG."""
        return 1.0 - self.ndcg(y, raw, sample_weight, self._options.ndcg_at, n_threads)

    def ndcg(self, y: Array, raw: Array, sample_weight: Array | None, at: int | None, n_threads: int = 1) -> float:
        """The weighted mean of the queries' NDCG at so many places; None for all."""
        queries = self._queries(y)
        return weighted_mean(queries.ndcg(raw[0], at, n_threads), queries.weights(sample_weight), self.comm)

    def average_precision(self, y: Array, raw: Array, sample_weight: Array | None, at: int | None) -> float:
        """The weighted mean of the queries' average precision at so many places; None for all."""
        queries = self._queries(y)
        return weighted_mean(queries.average_precision(raw[0], at), queries.weights(sample_weight), self.comm)

    def damped(self, steps: Array) -> Array:
        """Steps of at most `max_step`: where a pair is far apart, its curvature vanishes."""
        return np.clip(steps, -self.max_step, self.max_step)

    def _queries(self, y: Array) -> Queries:
        """The queries of a target; those of the last few that were asked for are kept."""
        known = next((known for known in self._known if known[0] is y), None)
        others = [other for other in self._known if other is not known]
        self._known = [*others[-3:], known or (y, Queries(y, self._options.label_gain))]
        return self._known[-1][1]


class Queries:
    """Rows grouped by query.

    Parameters
    ----------
    y : float64 array of shape (n_rows, 3)
        Relevance, query and number of documents of each row.
    label_gain : {"exponential", "linear"}
        What a relevance is worth.
    """

    def __init__(self, y: Array, label_gain: str) -> None:
        self._y, self._documents = y, np.ascontiguousarray(y[:, DOCUMENTS])
        order = np.argsort(y[:, QUERY], kind="stable")
        changes = np.flatnonzero(np.diff(y[order, QUERY])) + 1
        starts = np.unique(np.concatenate([[0], changes, [len(y)]])).astype(np.int64)  # [0] where there are no rows
        self._first = order[starts[:-1]]
        relevance = y[:, RELEVANCE]
        gains = np.exp2(relevance) - 1.0 if label_gain == "exponential" else np.ascontiguousarray(relevance)
        of_queries = np.add.reduceat(self._documents[order], starts[:-1])
        n_places = min(math.ceil(of_queries.max(initial=0.0)) + 2, _MOST_PLACES)
        upto = np.concatenate([[0.0], np.cumsum(1.0 / log2(np.arange(2.0, n_places + 2.0)))])
        self.kernel = Ranker(order.astype(np.int64), starts, gains, self._documents, upto)

    def weights(self, sample_weight: Array | None) -> Array | None:
        """Weights of the queries, from those of their documents."""
        if sample_weight is None:
            return None
        return sample_weight[self._first] / self._documents[self._first]

    def ndcg(self, scores: Array, at: int | None, n_threads: int = 1) -> Array:
        """The NDCG of each query, ascending by its number."""
        out = np.empty(len(self._first))
        n_threads = threads_for(len(scores), n_threads, _GRAIN)
        self.kernel.ndcg(np.ascontiguousarray(scores), math.inf if at is None else float(at), out, n_threads)
        return out

    def average_precision(self, scores: Array, at: int | None) -> Array:
        """The average precision of each query; documents of any relevance above 0 are relevant.

        Of documents of equal score the expectation over their orders (McSherry & Najork 2008, eq. 7); a query without
        any relevant one counts as 1.
        """
        if not are_whole(self._documents):
            raise ValueError("sample_weight must hold whole numbers of documents for the average precision.")
        order = np.lexsort((-scores, self._y[:, QUERY]))
        order = repeated(order, self._documents[order], "they are documents of a list")
        if len(order) == 0:
            return np.zeros(0)
        query, score, relevant = self._y[order, QUERY], scores[order], self._y[order, RELEVANCE] > 0
        new_query = np.append(True, query[1:] != query[:-1])
        of_query, of_tie = np.cumsum(new_query) - 1, np.cumsum(new_query | np.append(True, np.diff(score) != 0)) - 1
        number = np.arange(len(order))
        first_of_query, first_of_tie = (np.unique(of, return_index=True)[1][of] for of in (of_query, of_tie))
        size, n_relevant = np.bincount(of_tie)[of_tie], np.bincount(of_tie, relevant)[of_tie]
        before = np.append(0, np.cumsum(relevant))[first_of_tie] - np.append(0, np.cumsum(relevant))[first_of_query]
        place = number - first_of_query + 1
        others = (number - first_of_tie) * (n_relevant - 1) / np.maximum(size - 1, 1)
        precision = n_relevant / size * (before + 1 + others) / place * (n_relevant > 0)
        total = np.bincount(of_query, relevant)
        limit = math.inf if at is None else at
        found = np.bincount(of_query, np.where(place <= limit, precision, 0.0))
        return np.where(total > 0, found / np.maximum(np.minimum(total, limit), 1), 1.0)
