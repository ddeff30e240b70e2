"""Simulated networks and plans: the real protocol, whose bytes are those of a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    RandomForestRegressor,
    TweedieLoss,
)
from fastens.distributed import Counting, DaskTable, Network, measured_counting, measured_network, plan, simulate
from fastens.distributed.reduction import RanksComm
from fastens.distributed.simulation import Exchange, exchanges_of

ALPHA, BETA = 0.5, 1e3  # seconds of a message, bytes a second


def rows(n_rows=600, n_columns=3):
    X = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    return X, X[:, 0] + X[:, 1] ** 2


@pytest.mark.parametrize(("n_ranks", "n_hops"), [(1, 0), (2, 1), (3, 2), (4, 2), (8, 3), (9, 4), (64, 6)])
def test_small_sums_take_a_hop_for_each_dimension(n_ranks, n_hops):
    found = simulate([Exchange("sum", 80)], n_ranks, Network(ALPHA, BETA))
    assert found.n_hops == n_hops
    if n_ranks & (n_ranks - 1) == 0:  # else ranks have more than one message to send
        assert found.seconds == pytest.approx(n_hops * (ALPHA + 80 / BETA))


def test_large_sums_are_halved():
    n_bytes = 8 << 16
    found = simulate([Exchange("sum", n_bytes)], 8, Network(ALPHA, BETA))
    assert found.n_hops == 6
    assert found.n_bytes == 2 * n_bytes * 7 // 8
    assert found.seconds == pytest.approx(6 * ALPHA + found.n_bytes / BETA)


def test_gathering_and_maxima():
    found = simulate([Exchange("gather", 100), Exchange("max", 24), Exchange("sum", 0)], 5)
    assert found.n_bytes >= 400
    assert found.n_held > 0


def test_a_wrong_result_is_found(monkeypatch):
    monkeypatch.setattr(RanksComm, "_over_cube", lambda self, written, combine, put: None)
    with pytest.raises(ArithmeticError, match="has another result"):
        simulate([Exchange("sum", 8)], 2)


def test_rounds_exchange_what_they_do_on_a_cluster():
    X, y = rows()
    found = exchanges_of(lambda: GradientBoostingRegressor(n_estimators=3), X, y)
    assert len(found) == 3
    assert {exchange.kind for exchange in found[-1]} <= {"sum", "max", "gather"}
    assert max(exchange.n_bytes for exchange in found[-1]) >= 24 * 200 * X.shape[1]  # histograms are among them
    assert simulate(found[-1], 4).n_bytes > 0


@pytest.mark.slow
@pytest.mark.cluster
def test_bytes_of_a_plan_are_those_of_a_cluster():
    distributed, da = pytest.importorskip("distributed"), pytest.importorskip("dask.array")
    X, y = rows(20_000)
    model, sent = GradientBoostingRegressor(n_estimators=4, n_jobs=1), []
    setup = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**setup) as cluster, distributed.Client(cluster) as client:
        network = measured_network(client)
        table = DaskTable(da.from_array(X, chunks=5000), on_progress=lambda now: sent.append(now.n_bytes))
        model.fit(table, da.from_array(y, chunks=5000))
    assert network.latency > 0  # how much, and how wide, other work on the machine may blur
    assert network.bandwidth > 0
    found = plan(len(X), X.shape[1], 2, model=model, network=network, counting=Counting(1e-7, 1e-3))
    # How many nodes are counted ahead, and not split, depends on the rows.
    assert found.n_bytes == pytest.approx(sent[-1] - sent[-2], rel=0.15)
    assert found.n_bytes < 8 * 256 * X.shape[1] * 31  # 8 bytes a bin of each node that is counted
    assert found.seconds == pytest.approx(found.counting_seconds + found.exchange_seconds)


def test_more_workers_hold_less_and_count_less(monkeypatch):
    model = GradientBoostingClassifier(max_leaf_nodes=6)
    monkeypatch.setattr("fastens.distributed.planning._MOST_ROWS", 40_000)
    counting = measured_counting(model, 3)
    assert 0 < counting.row_seconds < 1e-4
    one, many = (plan(10**8, 3, n, model=model, counting=Counting(1e-8, 1e-3)) for n in (1, 20))
    assert one.n_bytes == one.n_hops == one.exchange_seconds == 0
    assert one.efficiency == pytest.approx(1)
    assert many.memory < one.memory / 10
    assert many.counting_seconds < one.counting_seconds
    with pytest.raises(ValueError, match="n_workers must be"):
        plan(10, 3, 2000, model=model)


@pytest.mark.parametrize("loss", ["poisson", "gamma", TweedieLoss(), "cross_entropy", "quantile"])
def test_plans_of_losses_that_take_some_numbers_alone(loss):
    model = GradientBoostingRegressor(loss, quantile=0.3 if loss == "quantile" else None)
    assert plan(10**6, 3, 2, model=model, counting=Counting(1e-7, 1e-3)).n_bytes > 0


@pytest.mark.filterwarnings("error")
def test_plans_do_not_warn_of_parameters_of_early_stopping():
    model = GradientBoostingRegressor.with_quality("fast", early_stopping=True, validation_fraction=0.2)
    assert plan(10**6, 3, 2, model=model, counting=Counting(1e-7, 1e-3)).n_bytes > 0


@pytest.mark.parametrize("model", [None, GradientBoostingRegressor, RandomForestRegressor(), GradientBoostingRanker()])
def test_plans_are_of_boosting_alone(model):
    with pytest.raises(ValueError, match="model must be a GradientBoostingRegressor or GradientBoostingClassifier"):
        plan(10**6, 3, 2, model=model)
    with pytest.raises(ValueError, match="model must be"):
        measured_counting(model, 3)
