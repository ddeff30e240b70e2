"""Reductions over ranks: what each rank gets is what one rank would have found in the whole table."""

from __future__ import annotations

import gc
import threading
import weakref
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from fastens.engine import comm as seam
from fastens.engine.bins.binning import BinningSketch, learn_binning
from fastens.engine.comm import LOCAL, CommPool
from fastens.engine.losses.column_losses import ColumnLosses, LeastSquares
from fastens.engine.losses.loss_names import regression_loss
from fastens.engine.losses.losses import (
    BinaryLogLoss,
    MulticlassLogLoss,
    SquaredError,
    exact_sum,
    weighted_mean,
    weighted_quantile,
)
from fastens.engine.losses.numeric_losses import Exponential
from reference.threads_comm import Hub, ThreadsComm, on_ranks

SIZES = (2, 3, 5)
LEVELS = [0.1, 0.5, 0.9]


def parts(size, n_rows):
    """Uneven parts of a table: the last rank has three rows, the one before most of them."""
    ends = np.linspace(0, n_rows // 3, size - 1).astype(int).tolist()
    ends = [0, *(end + 1 for end in ends[1:]), n_rows - 3, n_rows]
    return [slice(a, b) for a, b in pairwise(ends)]


def test_one_rank_has_what_it_has():
    numbers = np.array([3, 4])
    LOCAL.allreduce_sum(numbers)
    LOCAL.allreduce_max(numbers)
    assert (numbers.tolist(), LOCAL.allgather("a"), LOCAL.size, LOCAL.rank) == ([3, 4], ["a"], 1, 0)


@pytest.mark.parametrize("size", SIZES)
def test_sums_and_maxima_of_numbers_of_all_ranks(size):
    numbers = [(2**100 + rank, -(7**rank), -1 if rank else 2**150) for rank in range(size)]
    floats = [(-1.5 - rank, 0.0 if rank else -0.0, 1e300 * (rank == 1), -np.inf) for rank in range(size)]

    def work(comm):
        return seam.sum_ints(comm, *numbers[comm.rank]), seam.max_floats(comm, *floats[comm.rank])

    for sums, largest in on_ranks(size, work):
        assert sums == [sum(column) for column in zip(*numbers, strict=True)]
        assert largest == [-1.5, 0.0, 1e300, -np.inf]


def test_rows_are_in_the_order_of_the_ranks():
    def work(comm):
        rows = np.arange(3 * comm.rank, 3 * comm.rank + comm.rank + 1)
        return seam.first_row(comm, len(rows)), *seam.gathered(comm, [rows, None]), seam.is_any(comm, comm.rank == 1)

    for rank, (place, rows, none, answer) in enumerate(on_ranks(3, work)):
        assert place == ([0, 1, 3][rank], 6)
        assert (rows.tolist(), none, answer) == ([0, 3, 4, 6, 7, 8], None, True)


def rows_of(comm, n_rows):
    """Parts of which the first is empty."""
    bounds = [*[0, 0, 7, 200, 299][: comm.size], n_rows]
    return slice(*bounds[comm.rank : comm.rank + 2])


@pytest.mark.parametrize("size", SIZES)
def test_floats_are_added_in_the_order_of_the_table(size):
    values = np.random.default_rng(0).normal(size=300) * 10.0 ** np.random.default_rng(1).uniform(-9, 9, 300)
    expected = 0.5
    for value in values:
        expected += value

    def work(comm):
        own = values[rows_of(comm, 300)]
        return seam.chain_sum(comm, np.array([0.5]), lambda sums: np.add.at(sums, np.zeros(len(own), int), own))[0]

    assert on_ranks(size, work) == [expected] * size


@pytest.mark.parametrize("size", SIZES)
def test_a_function_of_the_whole_table_is_cut_to_own_rows(size):
    values, factors = np.random.default_rng(0).normal(size=(2, 300))

    def work(comm):
        own = rows_of(comm, 300)
        return seam.of_whole(comm, lambda a, b: np.cumsum(a * b, axis=1), values[None, own], factors[own])

    np.testing.assert_array_equal(np.concatenate(on_ranks(size, work), axis=1)[0], np.cumsum(values * factors))


@pytest.mark.parametrize("size", SIZES)
def test_row_numbers_are_those_that_the_first_rank_chose(size):
    def work(comm):
        first, second = np.split(np.random.default_rng(comm.rank).permutation(300), [40])
        own = rows_of(comm, 300)
        return [part + own.start for part in seam.own_rows(comm, own.stop - own.start, first, second)]

    chosen = np.random.default_rng(0).permutation(300)
    for part, found in zip(np.split(chosen, [40]), zip(*on_ranks(size, work), strict=True), strict=True):
        np.testing.assert_array_equal(np.concatenate(found), np.sort(part))


def test_ranks_that_are_out_of_step_fail_and_do_not_hang():
    with pytest.raises(AssertionError, match="out of step"):
        on_ranks(
            2, lambda comm: comm.allreduce_sum(np.zeros(1, int)) if comm.rank else comm.allreduce_max(np.zeros(1, int))
        )
    with pytest.raises(threading.BrokenBarrierError):
        on_ranks(2, lambda comm: comm.allreduce_sum(np.zeros(1, int)) if comm.rank else None, timeout=0.2)
    with pytest.raises(ValueError, match="rank 1"):
        on_ranks(2, fail_on_one)
    assert ThreadsComm(Hub(1), 0).allgather(3) == [3]


def fail_on_one(comm):
    if comm.rank == 1:
        raise ValueError("rank 1 stops")
    comm.allreduce_sum(np.zeros(1, int))


def weights_of(kind, n):
    rng = np.random.default_rng(n)
    weights = {"whole": rng.integers(1, 6, n).astype(float), "fractional": rng.random(n) ** 6 * 1e-3}
    return weights.get(kind)


@pytest.mark.parametrize("kind", ["none", "whole", "fractional"])
@pytest.mark.parametrize("size", SIZES)
def test_means_sums_and_quantiles_match_the_whole_table(kind, size):
    n = 500
    rng = np.random.default_rng(size)
    values = np.round(rng.normal(size=n) * 10.0 ** rng.uniform(-8, 4, n), 6)
    values[:100] = 0.0
    weights, rows = weights_of(kind, n), parts(size, n)
    levels = (0.001, 0.3, 0.5, 0.9, 0.999)

    def found(comm, own):
        weight = None if weights is None else weights[own]
        quantiles = [weighted_quantile(values[own], level, weight, comm) for level in levels]
        return weighted_mean(values[own], weight, comm), exact_sum(values[own], comm), *quantiles

    expected = found(LOCAL, slice(None))
    assert all(answer == expected for answer in on_ranks(size, lambda comm: found(comm, rows[comm.rank])))
    assert np.isclose(expected[0], np.average(values, weights=weights), rtol=1e-7)


def losses():
    names = ("squared_error", "absolute_error", "quantile", "huber", "log_cosh", "expectile", "poisson", "gamma")
    names += ("normal", "student_t", "gamma_dist", "weibull")
    made = {name: regression_loss(name, LEVELS) for name in (*names, "tweedie", "cross_entropy")}
    made |= {"binary": BinaryLogLoss(), "several classes": MulticlassLogLoss(4), "exponential": Exponential()}
    made |= {"least squares": LeastSquares(regression_loss("poisson", LEVELS), 0.5)}
    return made | {"two targets": ColumnLosses([SquaredError(), regression_loss("huber", LEVELS)])}


def targets(name, n):
    rng = np.random.default_rng(3)
    y = np.round(rng.gamma(2.0, size=n), 3) + 0.001
    if name in ("binary", "exponential"):
        return (y > 2).astype(float)
    if name == "several classes":
        y = np.minimum(np.floor(y), 2.0)
        y[-1] = 3.0  # a class that one rank has
        return y
    y = y / (1 + y) if name == "cross_entropy" else y
    return np.column_stack([y, -y]) if name == "two targets" else y


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "whole", "fractional"])
@pytest.mark.parametrize("name", list(losses()))
def test_losses_of_all_ranks_match_the_whole_table(name, kind):
    n, size = 400, 4
    y, weights, rows = targets(name, n), weights_of(kind, n), parts(size, n)

    def found(comm, own):
        loss, weight = losses()[name], None if weights is None else weights[own]
        loss.join(comm)
        loss.check_target(y[own])
        start = loss.start(y[own], weight)
        raw = np.repeat(start[:, None], len(y[own]), axis=1)
        loss.start_round(y[own], raw, weight)
        return start.tolist(), loss.loss(y[own], raw, weight), leaf_values(loss, y[own], raw, weight)

    def leaf_values(loss, y, raw, weight):
        """Of leaves by target; on ranks some are empty."""
        if not loss.renews_leaves:
            return None
        loss.gradients(y, raw, *np.ones((2, *raw.shape), dtype=np.float32))
        order = np.argsort(y, kind="stable")
        starts = np.searchsorted(y[order], [-1.0, 0.3, 1.0, 4.0, 100.0])
        own = loss.of_output(loss.n_outputs - 1)
        residuals = loss.residuals(y, raw, loss.n_outputs - 1)[order]
        return own.leaf_values(residuals, starts, None if weight is None else weight[order]).tolist()

    expected = found(LOCAL, slice(None))
    assert all(answer == expected for answer in on_ranks(size, lambda comm: found(comm, rows[comm.rank])))


def test_targets_are_checked_over_all_ranks():
    def work(comm, sign):
        loss = regression_loss("poisson", LEVELS)
        loss.join(comm)
        y = np.zeros(3) if comm.rank else np.full(2, sign)
        loss.check_target(y)
        loss.check_start(y)

    on_ranks(2, lambda comm: work(comm, 1.0))
    with pytest.raises(ValueError, match="must not be negative"):
        on_ranks(2, lambda comm: work(comm, -1.0))
    with pytest.raises(ValueError, match="positive sum"):
        on_ranks(2, lambda comm: work(comm, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "whole", "fractional"])
@pytest.mark.parametrize("size", [2, 3, 7])  # 7: more than columns
@pytest.mark.parametrize("is_sparse", [False, True])
def test_bins_match_the_whole_table(kind, size, is_sparse, monkeypatch):
    n = 3000
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=n), np.round(rng.normal(size=n), 1), rng.integers(0, 90, n), np.ones(n)])
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:, 2] = np.minimum(np.arange(n) // 30, X[:, 2])
    X[-1, 2] = 95.0  # a category that one rank has
    X[n // 2 :: 4] = X[: n // 8]  # of some rows, several ranks have copies
    weights, rows = weights_of(kind, n), parts(size, n)
    is_categorical = np.array([False, False, True, False])
    if is_sparse:
        X, is_categorical = csr_matrix(np.where(np.abs(X) < 0.5, 0.0, X)), None

    def work(comm, own):
        weight = None if weights is None else weights[own]
        return learn_binning(X[own], weight, 40, is_categorical, 1, comm)

    for n_sample in (None, 700, 2990):
        if n_sample is not None:
            monkeypatch.setattr("fastens.engine.bins.row_sketch.default_sample", lambda *_, n=n_sample: n)
        assert BinningSketch(4).n_sample == (n_sample or BinningSketch(4).n_sample)
        expected = work(LOCAL, slice(None)).to_arrays()
        for binning in on_ranks(size, lambda comm: work(comm, rows[comm.rank])):
            for name, array in binning.to_arrays().items():
                np.testing.assert_array_equal(array, expected[name], err_msg=name)


class _Rows:
    """What a frame holds while its function fails."""


def test_errors_side_by_side_that_were_handled_hold_nothing():
    gc.collect()
    gc.disable()
    try:
        rows = _Rows()
        freed = weakref.ref(rows)

        def fail(comm, number, rows=rows):
            comm.allreduce_sum(np.array([number]))
            raise ValueError("no")

        with pytest.raises(ValueError, match="no") as raised:
            CommPool(LOCAL, n_threads=2).run(fail, [0, 1])
        del rows, fail, raised
        assert freed() is None
    finally:
        gc.enable()
