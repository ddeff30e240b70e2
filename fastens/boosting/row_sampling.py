"""Row sampling of boosting rounds (uniform, GOSS, MVS) and out-of-bag predictions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, gathered, is_any, sum_ints
from fastens.engine.losses.losses import smallest_reaching, weighted_mean, whole_weights
from fastens.engine.losses.ranking_loss import DOCUMENTS, QUERY
from fastens.engine.rows.sampling import mixed, stream_seeds
from fastens.monitoring.metrics import ScoredRows
from fastens.params.options import Goss, Mvs

if TYPE_CHECKING:
    from fastens.base import TrainingData
    from fastens.engine.losses.losses import Loss


Array = NDArray[np.float64]
# Identifies the random streams for rows; features use 0.
_PURPOSE = 7


@dataclass(frozen=True)
class RowSampling:
    """The row sampling method: uniform, or depending on gradients (`options`)."""

    share: float = 1.0  # expected fraction of the rows, which Goss ignores
    options: Goss | Mvs | None = None

    @property
    def draws(self) -> bool:
        """True if rounds may leave out rows."""
        options = self.options
        return self.share < 1 or (isinstance(options, Goss) and options.top_rate + options.other_rate < 1)

    @property
    def reweights(self) -> bool:
        """True if drawn rows are weighted up to represent the others."""
        return self.draws and self.options is not None


def hashes_of_queries(hashes: NDArray[np.uint64], y: Array) -> NDArray[np.uint64]:
    """Return, for each row, a hash of its query's set of rows, from row hashes and encoded ranking targets `y`.

    It does not depend on the order of rows, and integer weights count as copies.
    """
    _, query = np.unique(y[:, QUERY], return_inverse=True)
    total = np.zeros(1 + query.max(initial=-1), dtype=np.uint64)
    np.add.at(total, query, mixed(hashes) * np.maximum(np.rint(y[:, DOCUMENTS]), 1).astype(np.uint64))
    return total[query]


class RowSample(NamedTuple):
    """The rows drawn for a round."""

    rows: NDArray[np.uint32]  # ascending, at least one
    # Factors of gradients and hessians that keep the expected sums equal to the sums over all rows.
    factors: NDArray[np.float32] | None


class RowSampler:
    """Sampler that draws the rows of each round with random numbers derived from their `content_hashes`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens import Goss
    >>> from fastens.boosting.row_sampling import RowSampler, RowSampling
    >>> rules = RowSampling(options=Goss(0.25, 0.25))
    >>> sampler = RowSampler(rules, np.arange(8, dtype=np.uint64), None, 0)
    >>> gradients = np.array([[1, 9, 2, 8, 3, 1, 2, 3]], dtype=np.float32)
    >>> sample = sampler.draw(0, gradients, np.ones_like(gradients))
    >>> {1, 3} <= set(sample.rows.tolist())
    True
    """

    def __init__(
        self, rules: RowSampling, hashes: NDArray[np.uint64], weight: Array | None, seed: int, comm: Comm = LOCAL
    ) -> None:
        self._rules, self._hashes, self._seed, self._comm = rules, hashes, seed, comm
        # Integer weights of at least 1, so that their sums are exact.
        self._weight = np.maximum(whole_weights(weight, len(hashes), comm), 1).astype(np.float64)

    def draw(self, index: int, gradients: NDArray[np.float32], hessians: NDArray[np.float32]) -> RowSample:
        """Return the rows drawn for round `index`, from its gradients and hessians, both (n_outputs, n_rows)."""
        draws, options = self._draws(index), self._rules.options
        if isinstance(options, Goss):
            return self._goss(options, draws, gradients, hessians)
        if options is None:
            return self._sample(draws, draws < self._rules.share, None)
        chances = self._mvs_chances(options.regularization, gradients, hessians)
        return self._sample(draws, draws < chances, 1 / chances)

    def _draws(self, index: int) -> Array:
        """Return each row's random number for round `index`, uniform in [0, 1) and derived from the row's hash."""
        seed = stream_seeds(self._seed, index, index + 1, _PURPOSE)
        return _uniform_numbers(mixed(self._hashes ^ seed))

    def _goss(
        self, options: Goss, draws: Array, gradients: NDArray[np.float32], hessians: NDArray[np.float32]
    ) -> RowSample:
        """Return the rows with the largest absolute gradient times hessian, and random other rows with larger factors.

        `draws` holds each row's uniform random number, which breaks ties.
        """
        size = np.abs(gradients.astype(np.float64) * hessians).sum(axis=0)
        is_top = self._is_top(size, draws, options.top_rate)
        # `_is_top` breaks ties with `draws`, so sampling the other rows needs independent random numbers.
        others = _uniform_numbers(mixed((draws * 2.0**53).astype(np.uint64)))
        chance = min(1.0, options.other_rate / (1 - options.top_rate))
        return self._sample(others, is_top | (others < chance), np.where(is_top, 1.0, 1 / chance).astype(np.float64))

    def _is_top(self, size: Array, draws: Array, top_rate: float) -> NDArray[np.bool_]:
        """Return a mask of the rows with the largest `size` that hold `top_rate` of all weight; `draws` breaks ties."""
        weight = self._weight
        top_weight = top_rate * self._total(weight)
        limit = self._weighted_limit(size, weight, top_weight)
        above, equal = size > limit, np.flatnonzero(size == limit)
        more = top_weight - self._total(weight[above])
        above[equal] = (draws[equal] >= self._weighted_limit(draws[equal], weight[equal], more)) & (more > 0)
        return above

    def _mvs_chances(
        self, factor: float | None, gradients: NDArray[np.float32], hessians: NDArray[np.float32]
    ) -> Array:
        """Return each row's probability of being drawn in minimal variance sampling, min(1, s / t).

        s is the root of the sum over outputs of gradient^2 + factor * hessian^2, and t gives the expected number of
        rows. If `factor` is None, it is the squared ratio of the mean absolute gradient to the mean absolute hessian.
        """
        g, h = np.square(gradients, dtype=np.float64), np.square(hessians, dtype=np.float64)
        weight = self._weight
        if factor is None:
            means = [
                weighted_mean(np.abs(part).sum(axis=0, dtype=np.float64), weight, self._comm)
                for part in (gradients, hessians)
            ]
            factor = (means[0] / max(means[1], 1e-30)) ** 2
        # The small constant keeps the sampling probability positive for rows whose gradient and hessian are 0.
        size = np.sqrt((g + factor * h).sum(axis=0)) + 1e-30
        expected, n_rows = self._rules.share * self._total(weight), sum_ints(self._comm, len(size))[0]
        sure, before, n_sure = np.zeros(len(size), dtype=bool), -1, 0
        while before < n_sure < n_rows:
            mean = weighted_mean(size[~sure], weight[~sure], self._comm)
            limit = mean * self._total(weight[~sure]) / max(expected - self._total(weight[sure]), 1e-300)
            sure |= size >= limit
            before, n_sure = n_sure, sum_ints(self._comm, int(sure.sum()))[0]
        return np.minimum(size / limit, np.ones(len(size))) if limit > 0 else np.ones(len(size))

    def _total(self, weight: Array) -> float:
        """Return the sum of integer weights over all ranks."""
        return float(sum_ints(self._comm, int(weight.astype(np.int64).sum()))[0])

    def _weighted_limit(self, values: Array, weight: Array, min_weight: float) -> float:
        """Return the largest limit that values with a total weight of `min_weight` reach; infinity if it is 0.

        Values and weights are counted on all ranks.
        """
        total = self._total(weight)
        if min_weight <= 0 or total == 0:
            return np.inf
        needed = min_weight * (1 - 1e-12)
        if self._comm.size > 1:
            group = np.zeros(len(values), dtype=np.intp)
            quantile = np.array([min(np.ceil(needed), total)])
            return -float(smallest_reaching(self._comm, -values, weight.astype(np.int64), group, quantile)[0])
        order = np.argsort(-values, kind="stable")
        position = int(np.searchsorted(np.cumsum(weight[order].astype(np.int64)), needed))
        return float(values[order[min(position, len(order) - 1)]])

    def _sample(self, draws: Array, is_drawn: NDArray[np.bool_], factors: Array | None) -> RowSample:
        """Return the rows in the mask `is_drawn` with their `factors`, which hold a value for each row, or are None.

        If no row of any rank is drawn, the row with the smallest of `draws` is returned, with factor 1.
        """
        rows = np.flatnonzero(is_drawn).astype(np.uint32)
        if not is_any(self._comm, len(rows) > 0):
            # If no row was drawn, the row with the smallest random number is used, with a factor of 1.
            factors = None if factors is None else np.ones(len(draws))
            lowest = self._comm.allgather(float(draws.min(initial=1.0)))
            if lowest.index(min(lowest)) == self._comm.rank:
                rows = np.array([np.argmin(draws)], dtype=np.uint32)
        return RowSample(rows, None if factors is None else factors[rows].astype(np.float32))


def _uniform_numbers(bits: NDArray[np.uint64]) -> Array:
    """Return uniform numbers in [0, 1) from 64 random bits each."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


class OutOfBagSums:
    """Out-of-bag predictions: for each row, the sum of the trees that were grown without it.

    `train` holds all rows with their raw predictions before the first round.
    """

    def __init__(self, loss: Loss, train: ScoredRows, n_threads: int) -> None:
        self._loss, self._n_threads, self._start = loss, n_threads, train.raw.copy()
        self._sums, self._n_rounds = np.zeros(train.raw.shape), np.zeros(train.raw.shape[1], dtype=np.int64)
        self._kept: tuple[Array, NDArray[np.int64], int] | None = None  # sums, counts and rounds at the best round
        self.improvement: list[float] = []  # decrease of the loss on the out-of-bag rows of each round

    @contextmanager
    def watching(self, train: ScoredRows, sample: RowSample | None) -> Iterator[None]:
        """Record how a round added within the context changes the predictions and loss of rows not in `sample`.

        `train` holds all rows, with the raw predictions that the round changes.
        """
        assert sample is not None
        left_out = np.setdiff1d(np.arange(train.raw.shape[1]), sample.rows, assume_unique=True)
        before = train.take(left_out)
        yield
        if not is_any(self._loss.comm, len(left_out) > 0):
            self.improvement.append(np.nan)
            return
        after = train.take(left_out)
        self.improvement.append(before.loss(self._loss, self._n_threads) - after.loss(self._loss, self._n_threads))
        self._sums[:, left_out] += after.raw - before.raw
        self._n_rounds[left_out] += 1

    def keep(self) -> None:
        """Snapshot the out-of-bag predictions at the best round, because later rounds are not part of the model."""
        self._kept = self._sums.copy(), self._n_rounds.copy(), len(self.improvement)

    def raw(self) -> Array:
        """Return out-of-bag raw predictions, (n_outputs, n_rows), scaled up to the number of rounds of the model.

        Rows that were drawn in all rounds get NaN.
        """
        sums, n_rounds, n_kept = self._kept or (self._sums, self._n_rounds, len(self.improvement))
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._start + sums * (n_kept / n_rounds)


def out_of_bag_attributes(model: Any, out_of_bag: OutOfBagSums | None, data: TrainingData) -> dict[str, Array]:
    """Return the out-of-bag attributes of an estimator by name, for all rows passed to `fit` on all ranks.

    The dictionary is empty if `oob_score` is False. Rows of weight 0 get NaN.
    """
    if out_of_bag is None:
        return {}
    raw = np.ascontiguousarray(out_of_bag.raw().T)
    is_classifier = hasattr(model, "predict_proba")
    predictions = model._response("predict_proba" if is_classifier else "predict", raw)
    if isinstance(predictions, list):
        predictions = np.concatenate(predictions, axis=1)
    if data.rows is not None:
        spread = np.full((data.n_given, *predictions.shape[1:]), np.nan)
        spread[data.rows] = predictions
        predictions = spread
    (predictions,) = gathered(data.comm, [predictions])
    name = "oob_decision_function_" if is_classifier else "oob_prediction_"
    return {"oob_improvement_": np.array(out_of_bag.improvement), name: predictions}
