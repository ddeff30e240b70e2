"""LambdaMART (Burges 2010), Cox's partial likelihood and accelerated failure times."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fastens.engine.comm import first_row, gathered, is_any, max_floats, sum_over
from fastens.engine.elementary import exp, expit, log, log2
from fastens.engine.losses.losses import Floats, Loss, weighted_mean
from fastens.engine.losses.ranking import OBJECTIVES, Ranker
from fastens.engine.losses.survival import DISTRIBUTIONS as DISTRIBUTION_CODES
from fastens.engine.losses.survival import derivatives, ordered_pairs, risk_sums, row_losses
from fastens.engine.rows.sampling import repeated
from fastens.engine.threads import threads_for
from fastens.engine.whole import are_whole

Array = NDArray[np.float64]

# Minimum number of documents for a thread, about 50 us of sorting and comparing.
_GRAIN = 1 << 10
# Number of positions with individual discounts; all positions beyond share one discount.
_MAX_POSITIONS = 1 << 16
# Step size and L2 of position biases. On simulated clicks, steps of 0.3 and 0.5 gave the highest NDCG for lists
# that were sorted by an irrelevant column, and steps of 0.1 to 0.3 for lists of a weak ranker.
BIAS_RATE, BIAS_L2 = 0.3, 1e-3
# Columns of the target.
RELEVANCE, QUERY, DOCUMENTS, POSITION = range(4)


@dataclass(frozen=True)
class RankingOptions:
    """Options of the ranking loss.

    Attributes
    ----------
    ndcg_at : int or None
        Number of positions that count in the reported loss. If None, all positions count.
    metric : {"ndcg", "map", "pairs", "xendcg"}
        What is optimized: NDCG or the average precision by pairs weighted with its change, the number of pairs in the
        right order, or NDCG by its cross entropy.
    truncation_level : int or None
        Number of top positions whose documents are paired with all documents below them. If None, all documents are.
    label_gain : {"exponential", "linear"}
        Gain of a document of relevance r: 2**r - 1 or r.
    normalize : bool
        If True, pairs with close scores count more, and queries with many pairs do not count more than others.
    """

    ndcg_at: int | None = 10
    metric: str = "ndcg"
    truncation_level: int | None = 30
    label_gain: str = "exponential"
    normalize: bool = True


class LambdaRank(Loss):
    """1 - NDCG or 1 - MAP; the columns of y are relevance, query, number of documents and optionally the position.

    The gradient of a document is a sum over all documents of its query with a different relevance. Each term is the
    slope of log(1 + exp(-score difference)), times the change of the metric if both documents swapped positions. With
    `metric="xendcg"` it is the gradient of a cross entropy that bounds NDCG instead (Bruch et al. 2019).

    If `y` has the positions at which documents were shown, each position has a bias, which is added to the scores of
    its documents while the model is trained. Each round updates the biases by a Newton step.

    Attributes
    ----------
    position_biases : list of float64 arrays of shape (n_positions,)
        Biases of the positions before the first round and after each round; empty without positions.
    """

    by_rows = False
    measures_noise = False
    max_step = 10.0  # the curvature of pairs with distant scores vanishes
    largest_raw = 1.0  # scores are sums of slopes of at most 1

    def __init__(self, options: RankingOptions) -> None:
        self.n_outputs = 1
        self.name = options.metric
        self._options = options
        self._cached: list[tuple[Array, str, Queries]] = []
        self.position_biases: list[Array] = []
        self._n_rounds = 0
        self._weight: Array | None = None

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return 0, shape (1,), because only score differences matter."""
        return np.zeros(1)

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Increase the round counter, which position biases are stored by, and store the weights for their update."""
        self._n_rounds, self._weight = self._n_rounds + 1, sample_weight

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write lambdas to `gradients` and hessians to `hessians`, both of shape (1, n_rows).

        If the rows have positions, the first call in a round also appends the position biases of the next round.
        """
        assert hessians is not None
        metric, level = self._options.metric, self._options.truncation_level
        options = (1.0, math.inf if level is None else float(level), self._options.normalize, OBJECTIVES[metric])
        has_positions = y.shape[1] > POSITION
        scores = raw[0] + self._position_biases(y) if has_positions else raw[0]
        kernel = self._queries(y, "binary" if metric == "map" else self._options.label_gain).kernel
        kernel.gradients(scores, options, gradients[0], hessians[0], threads_for(y.shape[0], n_threads, _GRAIN))
        if has_positions and len(self.position_biases) == self._n_rounds:
            self.position_biases.append(self._next_biases(y, gradients[0], hessians[0]))

    def _position_biases(self, y: Array) -> Array:
        """Return the bias of each row's position in this round, shape (n_rows,); create zeros in the first round."""
        if not self.position_biases:
            n_positions = 1 + int(max_floats(self.comm, float(y[:, POSITION].max(initial=-1.0)))[0])
            self.position_biases = [np.zeros(n_positions)]
        return self.position_biases[self._n_rounds - 1][y[:, POSITION].astype(np.intp)]

    def _next_biases(self, y: Array, gradients: NDArray[np.float32], hessians: NDArray[np.float32]) -> Array:
        """Return the biases after a Newton step, shape (n_positions,); the first position with rows keeps 0."""
        biases = self.position_biases[-1].copy()
        position = y[:, POSITION].astype(np.intp)
        shown = np.flatnonzero(sum_over(self.comm, np.bincount(position, minlength=len(biases))))
        for k in shown:
            rows = np.flatnonzero(position == k)
            weight = None if self._weight is None else self._weight[rows]
            slope, curvature = (
                weighted_mean(part[rows].astype(np.float64), weight, self.comm) for part in (gradients, hessians)
            )
            biases[k] -= BIAS_RATE * slope / (curvature + BIAS_L2)
        biases[shown] -= biases[shown[0]]
        return biases

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """Return 1 minus the weighted mean NDCG, or average precision with `metric="map"`, of the queries."""
        at = self._options.ndcg_at
        if self._options.metric == "map":
            return 1.0 - self.average_precision(y, raw, sample_weight, at)
        return 1.0 - self.ndcg(y, raw, sample_weight, at, n_threads)

    def ndcg(self, y: Array, raw: Array, sample_weight: Array | None, at: int | None, n_threads: int = 1) -> float:
        """Return the weighted mean NDCG of the queries at their top `at` positions; if None, at all positions."""
        queries = self._queries(y, self._options.label_gain)
        return weighted_mean(queries.ndcg(raw[0], at, n_threads), queries.weights(sample_weight), self.comm)

    def average_precision(self, y: Array, raw: Array, sample_weight: Array | None, at: int | None) -> float:
        """Return the weighted mean average precision of the queries at their top `at` positions; if None, at all."""
        queries = self._queries(y, self._options.label_gain)
        return weighted_mean(queries.average_precision(raw[0], at), queries.weights(sample_weight), self.comm)

    def _queries(self, y: Array, label_gain: str) -> Queries:
        """Return the rows of `y` grouped by query, with the gain `label_gain`; the last four results are cached."""
        cached = next((entry for entry in self._cached if entry[0] is y and entry[1] == label_gain), None)
        others = [other for other in self._cached if other is not cached]
        self._cached = [*others[-3:], cached or (y, label_gain, Queries(y, label_gain))]
        return self._cached[-1][2]


class Queries:
    """Rows grouped by query.

    Parameters
    ----------
    y : float64 array of shape (n_rows, 3) or (n_rows, 4)
        Relevance, query and number of documents of each row.
    label_gain : {"exponential", "linear", "binary"}
        Gain of a relevance. "binary": 1 for relevant documents, with the discount 1 / position of precisions.
    """

    def __init__(self, y: Array, label_gain: str) -> None:
        self._y, self._documents = y, np.ascontiguousarray(y[:, DOCUMENTS])
        order = np.argsort(y[:, QUERY], kind="stable")
        changes = np.flatnonzero(np.diff(y[order, QUERY])) + 1
        starts = np.unique(np.concatenate([[0], changes, [len(y)]])).astype(np.int64)  # [0] if there are no rows
        self._first = order[starts[:-1]]
        relevance = y[:, RELEVANCE]
        gains = np.exp2(relevance) - 1.0 if label_gain == "exponential" else np.ascontiguousarray(relevance)
        if label_gain == "binary":
            gains = (relevance > 0).astype(np.float64)
        of_queries = np.add.reduceat(self._documents[order], starts[:-1])
        n_discounts = min(math.ceil(of_queries.max(initial=0.0)) + 2, _MAX_POSITIONS)
        position = np.arange(1.0, n_discounts + 1.0)
        divisors = position if label_gain == "binary" else log2(position + 1.0)
        discounts = np.concatenate([[0.0], np.cumsum(1.0 / divisors)])
        self.kernel = Ranker(order.astype(np.int64), starts, gains, self._documents, discounts)

    def weights(self, sample_weight: Array | None) -> Array | None:
        """Return one weight per query, or None for unweighted rows: its first row's weight / number of documents."""
        if sample_weight is None:
            return None
        return sample_weight[self._first] / self._documents[self._first]

    def ndcg(self, scores: Array, at: int | None, n_threads: int = 1) -> Array:
        """Return the NDCG of each query at its top `at` positions, in ascending order of the query column."""
        out = np.empty(len(self._first))
        n_threads = threads_for(len(scores), n_threads, _GRAIN)
        self.kernel.ndcg(np.ascontiguousarray(scores), math.inf if at is None else float(at), out, n_threads)
        return out

    def average_precision(self, scores: Array, at: int | None) -> Array:
        """Return the average precision of each query at its top `at` positions (all if None).

        Documents with a relevance above 0 are relevant. Tied scores contribute the expectation over their orders
        (McSherry & Najork 2008, eq. 7). Queries without relevant documents count as 1. Raises ValueError if numbers of
        documents are not integers.
        """
        if not are_whole(self._documents):
            raise ValueError("sample_weight must hold integers (numbers of documents) for the average precision.")
        order = np.lexsort((-scores, self._y[:, QUERY]))
        order = repeated(order, self._documents[order], "they count documents of a list")
        if len(order) == 0:
            return np.zeros(0)
        query, score, relevant = self._y[order, QUERY], scores[order], self._y[order, RELEVANCE] > 0
        new_query = np.append(True, query[1:] != query[:-1])
        of_query, of_tie = np.cumsum(new_query) - 1, np.cumsum(new_query | np.append(True, np.diff(score) != 0)) - 1
        number = np.arange(len(order))
        first_of_query, first_of_tie = (np.unique(group, return_index=True)[1][group] for group in (of_query, of_tie))
        size, n_relevant = np.bincount(of_tie)[of_tie], np.bincount(of_tie, relevant)[of_tie]
        before = np.append(0, np.cumsum(relevant))[first_of_tie] - np.append(0, np.cumsum(relevant))[first_of_query]
        position = number - first_of_query + 1
        others = (number - first_of_tie) * (n_relevant - 1) / np.maximum(size - 1, 1)
        precision = n_relevant / size * (before + 1 + others) / position * (n_relevant > 0)
        total = np.bincount(of_query, relevant)
        limit = math.inf if at is None else at
        precision_sums = np.bincount(of_query, np.where(position <= limit, precision, 0.0))
        return np.where(total > 0, precision_sums / np.maximum(np.minimum(total, limit), 1), 1.0)


MAX_STEPS = 200  # maximum number of iterations for the starting value
MAX_STEP = 10.0  # maximum step of a leaf: a factor of e**10 of the hazard or the time


def events(y: Array) -> NDArray[np.bool_]:
    """Return a mask of the rows with an observed event, whose lower and upper bounds of time are equal."""
    return y[:, 0] == y[:, 1]


# Cox --------------------------------------------------


class Cox(Loss):
    """Negative partial log likelihood per row, where raw is the logarithm of the hazard ratio (Cox 1972).

    Ties are handled as in Breslow (1974). The second derivative is the sum of p (1 - p) over the events for which a row
    was at risk. The hessian is the sum of p instead, an upper bound that holds however other rows change.
    """

    name = "cox"
    by_rows = False
    noise_l2, noise_power = 30.0, 1.0  # as for other log-link losses, because events are counts
    max_step, largest_raw = MAX_STEP, 1.0  # raw predictions are logarithms
    has_censored_targets = True

    def __init__(self) -> None:
        self.n_outputs = 1
        self._weight: Array | None = None
        self._orders = _TimeOrders()

    def check_target(self, y: Array) -> None:
        """Raise ValueError unless all rows are events or right-censored, with at least one event."""
        is_event = events(y)
        if is_any(self.comm, not (is_event | np.isinf(y[:, 1])).all()):
            raise ValueError(
                "y must hold events and right-censored rows for loss='cox', not intervals; unnamed columns "
                "are read as lower and upper bounds. Name them 'event' and 'time', or use loss='aft'."
            )
        if not is_any(self.comm, bool(is_event.any())):
            raise ValueError("y must hold at least one event for loss='cox'; all rows are censored.")

    def check_measured(self, y: Array | None = None) -> None:
        """Raise ValueError if `y`, the targets of a validation set, does not hold any events."""
        if y is not None and not is_any(self.comm, bool(events(y).any())):
            raise ValueError(
                f"The validation set must hold at least one event for loss='cox'; all {len(y)} rows are censored."
            )

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return 0, shape (1,), because only differences of raw predictions matter."""
        return np.zeros(1)

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Store the weights, because the gradient of each row depends on the weights of all rows."""
        self._weight = sample_weight

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write gradients (expected events - events) and hessians (expected events) per unit of row weight."""
        assert hessians is not None
        all_targets, score, weight = self._gather_rows(y, raw[0], self._weight)
        risk = hazard_ratios(score)
        expected = risk * _cumulative_hazard(self._orders.get(all_targets), all_targets, risk, weight)
        if self.comm.size > 1:
            first, _ = first_row(self.comm, len(y))
            expected = expected[first : first + len(y)]
        gradients[0], hessians[0] = expected - events(y), expected

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """Return the negative partial log likelihood, divided by the total weight of the rows."""
        y, score, weight = self._gather_rows(y, raw[0], sample_weight)
        order, at_risk = self._orders.get(y), np.empty(len(y))
        risk_sums(order.rows, order.time, weight, hazard_ratios(score), at_risk)
        of_rows = np.where(events(y), log(at_risk) - (score - score.max()), 0.0)
        return weighted_mean(of_rows, weight)

    def _gather_rows(self, y: Array, score: Array, weight: Array | None) -> list[Any]:
        """Return the targets, raw predictions and weights of all ranks, because risk sets contain rows of all ranks."""
        return gathered(self.comm, [y, score, weight])


def hazard_ratios(raw: Array) -> Array:
    """Return exp(raw - raw.max()), at least exp(-707), so that the ratios can be used as divisors."""
    return exp(np.maximum(raw - raw.max(), -707.0))


class _TimeOrder(NamedTuple):
    """Row indices by descending time, and the times in this order."""

    rows: NDArray[np.int64]
    time: Array


def _sort_by_time(y: Array) -> _TimeOrder:
    """Return the row indices by descending lower bounds of time, and the times in this order."""
    rows = np.argsort(-y[:, 0], kind="stable").astype(np.int64)
    return _TimeOrder(rows, y[rows, 0])


class _TimeOrders:
    """Cache of the row order of each target, which is kept as long as the target array lives."""

    def __init__(self) -> None:
        self._cached: dict[int, tuple[weakref.ref[Array], _TimeOrder]] = {}

    def get(self, y: Array) -> _TimeOrder:
        """Return the descending time order of the rows of y, cached under the array's id."""
        key = id(y)
        if key not in self._cached:
            self._cached[key] = weakref.ref(y, lambda _: self._cached.pop(key, None)), _sort_by_time(y)
        return self._cached[key][1]

    def __reduce__(self) -> tuple[type[_TimeOrders], tuple[()]]:
        """Pickle as an empty cache, because copies refer to other arrays."""
        return _TimeOrders, ()


def cumulative_hazard(y: Array, risk: Array, weight: Array | None) -> Array:
    """Return Breslow's estimate of the cumulative hazard at each row's time, for a hazard ratio of 1.

    Parameters
    ----------
    y : float64 array of shape (n_rows, 2)
        Lower and upper bounds of the times.
    risk : float64 array of shape (n_rows,)
        Hazard ratios.
    weight : float64 array of shape (n_rows,) or None
        Positive weights.
    """
    return _cumulative_hazard(_sort_by_time(y), y, risk, weight)


def _cumulative_hazard(order: _TimeOrder, y: Array, risk: Array, weight: Array | None) -> Array:
    """Return Breslow's cumulative hazard at each row's time, shape (n_rows,), from rows in descending time order."""
    at_risk, out = np.empty(len(y)), np.empty(len(y))
    risk_sums(order.rows, order.time, weight, risk, at_risk)
    risk_sums(order.rows[::-1], order.time[::-1], weight, events(y) / at_risk, out)
    return out


# Accelerated failure times --------------------------------------------------


DISTRIBUTIONS: dict[str, int] = DISTRIBUTION_CODES
# Probability that the standardized error exceeds each value.
_SURVIVAL: dict[str, Callable[[Array], Array]] = {
    "normal": lambda z: ndtr(-z),
    "logistic": lambda z: expit(-z),
    "extreme": lambda z: exp(-exp(z)),
}


class AFT(Loss):
    """Negative log likelihood of the model log(time) = raw + scale * error with censored times.

    Observed times contribute their density, and censored times contribute the probability between their bounds
    (Barnwal, Cho & Hocking 2020).
    """

    name = "aft"
    noise_l2, noise_power = 30.0, 1.0  # raw predictions are logarithms of times
    max_step, largest_raw = MAX_STEP, 1.0
    has_censored_targets = True

    def __init__(self, distribution: str, scale: float) -> None:
        self.n_outputs = 1
        self._distribution, self._scale, self._code = distribution, scale, DISTRIBUTIONS[distribution]

    def check_target(self, y: Array) -> None:
        """Raise ValueError unless event times are positive and both finite upper and positive lower bounds occur."""
        event_times = y[events(y), 0]
        (smallest,) = max_floats(self.comm, -float(event_times.min(initial=np.inf)))
        if smallest >= 0:
            raise ValueError(f"y must hold positive times for loss='aft'; the smallest is {-smallest}.")
        has_bounds = [is_any(self.comm, bool(mask.any())) for mask in (np.isfinite(y[:, 1]), y[:, 0] > 0)]
        if not all(has_bounds):
            raise ValueError(
                "y must hold at least one event, or both lower and upper bounds, for loss='aft'; "
                "got only one-sided bounds."
            )

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the constant with the lowest loss, shape (1,), found by Newton's method because the loss is convex."""
        with np.errstate(divide="ignore"):
            logs = log(y)
        nearest = np.where(np.isfinite(logs[:, 0]), logs[:, 0], np.where(np.isfinite(logs[:, 1]), logs[:, 1], 0.0))
        raw = weighted_mean(nearest, sample_weight, self.comm)
        for _ in range(MAX_STEPS):
            first, second = self.derivatives(y, np.full(len(y), raw))
            slope, curvature = (weighted_mean(part, sample_weight, self.comm) for part in (first, second))
            step = slope / max(curvature, 1e-12)
            raw -= min(max(step, -self._scale), self._scale)
            if abs(step) <= 1e-10 * self._scale:
                break
        return np.array([raw])

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write gradients and hessians with respect to the raw predictions, shape (1, n_rows)."""
        assert hessians is not None
        with np.errstate(over="ignore"):
            gradients[0], hessians[0] = self.derivatives(y, raw[0], n_threads)

    def derivatives(self, y: Array, raw: Array, n_threads: int = 1) -> tuple[Array, Array]:
        """Return the gradients and hessians of rows, both of shape (n_rows,) like `raw`."""
        first, second = np.empty((2, len(y)))
        derivatives(self._code, self._scale, y, raw, first, second, threads_for(len(y), n_threads, self._grain))
        return first, second

    def _compute_row_losses(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        """Return the loss of each row, shape (n_rows,), for raw predictions of shape (1, n_rows)."""
        out = np.empty(len(y))
        row_losses(self._code, self._scale, y, raw[0], out, threads_for(len(y), n_threads, self._grain))
        return out

    def predict_survival(self, raw: Array, times: Array) -> Array:
        """Return the probabilities of surviving each time, shape (n_rows, n_times); `raw` has shape (n_rows,)."""
        with np.errstate(divide="ignore", over="ignore"):
            return _SURVIVAL[self._distribution]((log(times) - raw[:, None]) / self._scale)

    def frozen(self, raw: Array) -> Any:
        """Return frozen scipy.stats distributions of the times of rows: lognorm, fisk or weibull_min."""
        from scipy import stats

        scale = exp(np.minimum(raw[:, 0], 700.0))
        if self._distribution == "normal":
            return stats.lognorm(self._scale, 0.0, scale)
        return (stats.fisk if self._distribution == "logistic" else stats.weibull_min)(1 / self._scale, 0.0, scale)


# Concordance --------------------------------------------------


def concordance(y: Array, later: Array, weight: Array | None = None) -> float:
    """Return Harrell's concordance index: the share of comparable pairs in the right order, ties counting half.

    Parameters
    ----------
    y : float64 array of shape (n_rows, 2)
        Lower and upper bounds of the times. A row censored at a time counts as later than an event at that time.
    later : float64 array of shape (n_rows,)
        Predictions that are larger for later times.
    weight : float64 array of shape (n_rows,), optional
        Weights of the rows; the weight of a pair is the product of both weights. If None, all weights are 1.
    """
    weight = np.ones(len(y)) if weight is None else weight
    values, rank = np.unique(later, return_inverse=True)
    rank = rank.astype(np.int64) + 1
    low, high, is_open = y[:, 0], y[:, 1], ~events(y)
    last_first = np.lexsort((~is_open, -low))
    before = np.flatnonzero(np.isfinite(high))
    before = before[np.argsort(-high[before], kind="stable")]
    n_later = _count_above(low[is_open], high[before], "left") + _count_above(low[~is_open], high[before], "right")
    out, tree = np.zeros(3), np.zeros(len(values) + 1)
    ordered_pairs(rank[last_first], weight[last_first], n_later, rank[before], weight[before], tree, out)
    wrong, tied, right = out.tolist()
    total = wrong + tied + right
    if total == 0:
        raise ValueError("y must hold at least two rows whose order is known for the concordance; there are none.")
    return (right + tied / 2) / total


def _count_above(values: Array, limits: Array, side: str) -> NDArray[np.int64]:
    """Count the values that are at least each limit (side="left") or above it (side="right")."""
    return (len(values) - np.searchsorted(np.sort(values), limits, side=side)).astype(np.int64)  # type: ignore[call-overload]
